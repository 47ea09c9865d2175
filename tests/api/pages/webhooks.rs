//! Webhooks and their deliveries on the account's pages.

use std::time::Duration;

use serde_json::json;

use super::{Visitor, secret_in, text_of, went};
use crate::webhooks::settled_delivery;
use deeplink_testing::spawn;

const LIST: &str = "/account/webhooks";
const URL: (&str, &str) = ("url", "https://hooks.example.com/deeplink");

#[tokio::test]
async fn a_webhook_is_added_changed_switched_and_deleted() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    world.dns.addresses("inside.example.com", &["10.0.0.1"]);
    for (fields, text) in [
        ([URL, ("x", "y")], "Choose at least one event."),
        ([("url", "http://example.com/"), ("event_click", "yes")], "Must start with https://."),
        (
            [("url", "https://inside.example.com/"), ("event_click", "yes")],
            "This resolves to an IP address that is not public.",
        ),
    ] {
        let reply = visitor.post(LIST, &fields).await;
        assert_eq!(reply.status, 400);
        assert!(text_of(&reply).contains(text), "{text}: {}", reply.text());
        let kept = format!("value=\"{}\"", fields[0].1);
        assert!(reply.text().contains(&kept), "the input is kept: {}", reply.text());
    }
    let id = visitor.form_id(LIST).await;
    let fields = [("form", &*id), URL, ("event_click", "yes"), ("event_conversion", "yes")];
    let added = visitor.post(LIST, &fields).await;
    assert_eq!((added.status, added.header("cache-control")), (200, "no-store"), "{}", added.text());
    let secret = secret_in(&added);
    assert!(secret.starts_with("whsec_"), "{secret}");
    assert!(
        added.text().contains("dl webhooks listen --stream --secret-file"),
        "how to receive events on one's own machine"
    );
    world.note_secret(&secret);
    let again = visitor.post(LIST, &fields).await;
    assert_eq!(went(&again), (303, "/account/webhooks?done=webhook-secret-shown"), "it is shown once");
    let list = visitor.get(LIST).await.text();
    assert!(list.contains("https://hooks.example.com/deeplink") && list.contains("Clicks, conversions"), "{list}");
    let made = world.a.get("/v1/webhooks").await.json()["webhooks"][0].clone();
    let path = format!("{LIST}/{}", made["id"].as_str().expect("an id"));
    let page = visitor.get(&path).await.text();
    assert_eq!(page.matches(" checked>").count(), 2, "{page}");
    assert!(page.contains("<h1>hooks.example.com</h1>"), "{page}");

    let affiliate = world.a1.affiliate_id();
    let change = [("url", "https://e.io/"), ("event_identify", "yes"), ("filters.affiliate_id", affiliate)];
    assert_eq!(went(&visitor.post(&path, &change).await), (303, &*format!("{path}?done=webhook-saved")));
    let now = world.a.get("/v1/webhooks").await.json()["webhooks"][0].clone();
    assert_eq!((&now["url"], &now["events"]), (&json!("https://e.io/"), &json!(["identify"])));
    assert_eq!(now["filters"]["affiliate_id"], affiliate);
    for (active, done) in [("no", "webhook-off"), ("yes", "webhook-on")] {
        let switched = visitor.post(&path, &[("active", active)]).await;
        assert_eq!(went(&switched), (303, &*format!("{path}?done={done}")));
        let now = world.a.get("/v1/webhooks").await.json()["webhooks"][0].clone();
        assert_eq!((&now["active"], &now["url"]), (&json!(active == "yes"), &json!("https://e.io/")));
    }
    // An accidental click would cut off receivers, so it asks first.
    let secret_path = format!("{path}/secret");
    assert!(page.contains(&format!("href=\"{secret_path}\"")) && !page.contains(&format!("action=\"{secret_path}\"")));
    assert!(text_of(&visitor.get(&secret_path).await).contains("Rotate the secret?"));
    let id = visitor.form_id(&secret_path).await;
    let form = [("form", &*id)];
    let rotated = visitor.post(&secret_path, &form).await;
    let new = secret_in(&rotated);
    assert!(text_of(&rotated).contains("X-Service-Signature uses it from now on"), "{}", rotated.text());
    assert!(rotated.status == 200 && new.starts_with("whsec_") && new != secret);
    world.note_secret(&new);
    let again = visitor.post(&secret_path, &form).await;
    assert_eq!(went(&again), (303, &*format!("{path}?done=webhook-secret-shown")));
    assert!(text_of(&visitor.get(&format!("{path}/delete")).await).contains("Delete this webhook?"));
    let other = Visitor::signed_in(&world, &world.b).await;
    for refused in [
        other.get(&path).await,
        other.post(&path, &[("active", "no")]).await,
        other.post(&secret_path, &[("form", "1")]).await,
        other.post(&format!("{path}/test"), &[("form", "1")]).await,
        other.get(&format!("{path}/deliveries")).await,
    ] {
        assert_eq!(refused.status, 404);
    }
    for done in ["webhook-deleted", "gone"] {
        let gone = visitor.post(&format!("{path}/delete"), &[]).await;
        assert_eq!(went(&gone), (303, &*format!("{LIST}?done={done}")));
    }
}

/// A filter outlives its affiliate. Saving another field keeps it, and the form shows it.
#[tokio::test]
async fn saving_keeps_the_filter_of_an_affiliate_that_is_deleted() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let affiliate = world.a1.affiliate_id();
    let webhook = json!({"url": URL.1, "events": ["conversion"], "filters": {"affiliate_id": affiliate}});
    let path = format!("{LIST}/{}", world.a.post("/v1/webhooks", &webhook).await.member("id"));
    assert_eq!(world.a.delete(&format!("/v1/affiliates/{affiliate}")).await.status, 204);
    let page = visitor.get(&path).await.text();
    let chosen = format!("<option value=\"{affiliate}\" selected>Deleted affiliate</option>");
    assert!(page.contains(&chosen), "{page}");
    let whose = "filters.affiliate_id";
    let save = async |whose_value: &str, url: &str| {
        visitor.post(&path, &[("url", url), ("event_conversion", "yes"), (whose, whose_value)]).await.status
    };
    assert_eq!(save(affiliate, "https://e.io/").await, 303);
    let stored = async || world.a.get("/v1/webhooks").await.json()["webhooks"][0].clone();
    let now = stored().await;
    assert_eq!((&now["url"], &now["filters"]["affiliate_id"]), (&json!("https://e.io/"), &json!(affiliate)));
    let without_field = [("url", "https://e.io/"), ("event_conversion", "yes")];
    assert_eq!(visitor.post(&path, &without_field).await.status, 303);
    assert_eq!(stored().await["filters"]["affiliate_id"], affiliate);
    assert_eq!(save("", "https://e.io/").await, 303);
    assert!(stored().await.get("filters").is_none(), "no filter is stored");
    assert!(!visitor.get(&path).await.text().contains("Deleted affiliate"));
    assert_eq!(save(affiliate, "https://e.io/").await, 404, "it can be kept but not selected");
    assert!(visitor.get(LIST).await.text().contains("All conversions"));
    assert_eq!(world.a.delete(&format!("/v1/affiliates/{}", world.a2.affiliate_id())).await.status, 204);
    assert!(!visitor.get(LIST).await.text().contains("All conversions"), "there is nothing to choose");
}

/// Allowed but probably unintended settings get a note: a filter without an event that it filters, and the same URL
/// twice.
#[tokio::test]
async fn what_may_not_be_meant_is_said() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let webhook = json!({"url": URL.1, "events": ["click"], "filters": {"affiliate_id": world.a1.affiliate_id()}});
    let path = format!("{LIST}/{}", world.a.post("/v1/webhooks", &webhook).await.member("id"));
    let (filter, twin) = ("The affiliate filter has no effect", "Another webhook has the same URL");
    let page = text_of(&visitor.get(&path).await);
    assert!(page.contains(filter) && !page.contains(twin), "{page}");
    let other = json!({"url": URL.1, "events": ["click", "conversion"]});
    let other = format!("{LIST}/{}", world.a.post("/v1/webhooks", &other).await.member("id"));
    let page = text_of(&visitor.get(&other).await);
    assert!(!page.contains(filter) && page.contains(twin), "{page}");
    visitor.post(&path, &[("active", "no")]).await;
    assert!(!text_of(&visitor.get(&other).await).contains(twin), "nothing comes from the other");
}

/// At the limit of two webhooks, the page says so instead of offering the form.
#[tokio::test]
async fn a_full_account_is_asked_for_no_other_webhook() {
    const JUMP: &str = "<a class=\"main jump\" href=\"#add\">Add webhook</a>";
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    assert!(visitor.get(LIST).await.text().contains(JUMP));
    for name in ["one", "two"] {
        let url = format!("https://hooks.example.com/{name}");
        assert_eq!(world.a.post("/v1/webhooks", &json!({"url": url, "events": ["click"]})).await.status, 201);
    }
    let list = visitor.get(LIST).await;
    assert!(!list.text().contains("name=\"url\"") && text_of(&list).contains("the maximum number of webhooks"));
    assert!(!list.text().contains(JUMP));
    let refused = visitor.post(LIST, &[("form", "1"), URL, ("event_click", "yes")]).await;
    assert!(refused.status == 400 && text_of(&refused).contains("already has 2 webhooks"), "{}", refused.text());
}

/// A webhook's page names what failed and why, and sends all of it again: each event once, of the chosen time, and only
/// what failed.
#[tokio::test]
async fn what_failed_is_named_and_sent_again() {
    let world = spawn().await;
    let made = world.a.post("/v1/webhooks", &json!({"url": URL.1, "events": ["conversion"]})).await;
    let id = made.member("id");
    let path = format!("{LIST}/{id}");
    let visitor = Visitor::signed_in(&world, &world.a).await;
    settled_delivery(&world, &world.a, &id).await;
    assert!(!text_of(&visitor.get(&path).await).contains("Failed deliveries"));
    let fail = async |count: usize, error: &str| {
        for _ in 0..count {
            let delivery = settled_delivery(&world, &world.a, &id).await;
            let log = json!([{"at": 1_000, "ms": 12, "error": error}]);
            world.db.execute(format!("UPDATE deliveries SET state = 2, log = '{log}' WHERE id = '{delivery}'")).await;
        }
    };
    fail(2, "there was no valid response").await;
    world.clock.advance(Duration::from_hours(30));
    fail(4, "there was no response within 10 seconds").await;
    // One event that failed twice.
    world.db.execute(
        "UPDATE deliveries SET replay_of = (SELECT MIN(id) FROM deliveries WHERE state = 2 AND log LIKE '%10 seconds%'),
            event_id = (SELECT event_id FROM deliveries WHERE state = 2 AND log LIKE '%10 seconds%'
            ORDER BY id LIMIT 1)
         WHERE id = (SELECT MAX(id) FROM deliveries WHERE state = 2)",
    )
    .await;
    let page = text_of(&visitor.get(&path).await);
    assert!(page.contains("Failed deliveries") && page.contains("No response within 10 seconds"), "{page}");
    assert_eq!(page.matches("/deliveries/dlv_").count(), 5, "the newest: {page}");
    world.clock.advance(Duration::from_millis(1));
    let replays = async || world.db.number("SELECT COUNT(*) FROM deliveries WHERE replay_of IS NOT NULL").await;
    let replay = format!("{path}/replay");
    let form = visitor.form_id(&path).await;
    for _ in 0..2 {
        let sent = visitor.post(&replay, &[("form", &form), ("hours", "24")]).await;
        assert_eq!(went(&sent), (303, &*format!("{path}?done=replayed")), "{}", sent.text());
        assert_eq!(replays().await, 4, "of the last day, each event once, however often the form is sent");
    }
    let again = visitor.post(&replay, &[("form", "later"), ("hours", "24")]).await;
    assert_eq!(
        (went(&again), replays().await),
        ((303, &*format!("{path}?done=replayed-none")), 4),
        "those are on their way"
    );
    assert!(text_of(&visitor.get(&format!("{path}?done=replayed")).await).contains("are being resent"));
    world.db.execute("UPDATE deliveries SET state = 1 WHERE state = 2").await;
    let none = visitor.post(&replay, &[("form", "other"), ("hours", "720")]).await;
    assert_eq!(went(&none), (303, &*format!("{path}?done=replayed-none")));
    world.a.patch(&format!("/v1/webhooks/{id}"), &json!({"active": false})).await;
    let refused = visitor.post(&replay, &[("form", "off"), ("hours", "24")]).await;
    assert!(
        refused.status == 400 && text_of(&refused).contains("The webhook is disabled or paused"),
        "{}",
        refused.text()
    );
    assert_eq!(went(&visitor.get(&replay).await), (303, &*path));
}

/// Q9: a receiver's answer is shown as text, to people only; a replayed event is a separate delivery.
#[tokio::test]
async fn a_delivery_is_shown_and_sent_again() {
    let world = spawn().await;
    let made = world.a.post("/v1/webhooks", &json!({"url": URL.1, "events": ["conversion"]})).await;
    let id = made.member("id");
    let delivery = settled_delivery(&world, &world.a, &id).await;
    let log = json!([
        {"at": 1_000, "ms": 250, "status": 500, "error": "x", "answer": "earlier"},
        {"at": 2_000, "ms": 12, "error": "there was no valid response"},
        {"at": 3_000, "ms": 13, "status": 200, "answer": "<b>thanks</b>"},
    ]);
    world.db.execute(format!("UPDATE deliveries SET log = '{log}'")).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let list = format!("{LIST}/{id}/deliveries");
    let page = visitor.get(&format!("{list}/{delivery}")).await;
    let text = text_of(&page);
    for shown in [
        "<h1>Conversion</h1>",
        "HTTP 500",
        "No valid response",
        "HTTP 200",
        "1 Jan 1970, 00:00:02",
        "&#60;b&#62;thanks&#60;/b&#62;",
        "Resend",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(!text.contains("earlier"), "{text}");
    world.clock.advance(Duration::from_millis(1));
    let form_id = visitor.form_id(&format!("{list}/{delivery}")).await;
    let mut places = Vec::new();
    for _ in 0..2 {
        let again = visitor.post(&format!("{list}/{delivery}"), &[("form", &form_id)]).await;
        assert_eq!(again.status, 303);
        places.push(again.header("location").to_owned());
    }
    assert!(
        places[0] == places[1] && places[0].ends_with("?done=event-sent"),
        "a second press sends it once: {places:?}"
    );
    assert!(!places[0].contains(&delivery));
    let tested = visitor.post(&format!("{LIST}/{id}/test"), &[("form", &form_id)]).await;
    assert!(tested.header("location").ends_with("?done=event-sent"), "{}", tested.text());
    let shown = visitor.get(&list).await;
    assert_eq!(shown.text().matches("/deliveries/dlv_").count(), 3, "{}", shown.text());
    for said in ["Last response", "HTTP 200", "(test)", "(test, resent)"] {
        assert!(text_of(&shown).contains(said), "{said}: {}", shown.text());
    }
    let replayed = text_of(&visitor.get(&places[0]).await);
    assert!(replayed.contains("original delivery"), "{replayed}");
    for (status, count) in [("delivered", 1), ("pending", 2), ("failed", 0), ("none", 3)] {
        let some = visitor.get(&format!("{list}?status={status}")).await.text();
        assert_eq!(some.matches("/deliveries/dlv_").count(), count, "{status}: {some}");
        assert_eq!(some.matches(" aria-current=\"true\"").count(), 1, "{some}");
    }
    for _ in 0..25 {
        settled_delivery(&world, &world.a, &id).await;
    }
    let first = visitor.get(&list).await.text();
    let older = first.split("deliveries?cursor=").nth(1).and_then(|rest| rest.split('"').next()).expect("older ones");
    let rest = visitor.get(&format!("{list}?cursor={older}")).await.text();
    assert_eq!((first.matches("/deliveries/dlv_").count(), rest.matches("/deliveries/dlv_").count()), (25, 3));
    let first = visitor.get(&format!("{list}?status=delivered")).await.text();
    let older = first.split("deliveries?status=delivered&#38;cursor=").nth(1).and_then(|rest| rest.split('"').next());
    let rest = visitor.get(&format!("{list}?status=delivered&cursor={}", older.expect("older ones"))).await.text();
    assert_eq!((first.matches("/deliveries/dlv_").count(), rest.matches("/deliveries/dlv_").count()), (25, 1));
    world.a.patch(&format!("/v1/webhooks/{id}"), &json!({"active": false})).await;
    let off = visitor.get(&format!("{list}/{delivery}")).await;
    assert!(!text_of(&off).contains("Resend"), "{}", off.text());
    let refused = visitor.post(&format!("{list}/{delivery}"), &[("form", "other")]).await;
    assert!(
        refused.status == 400 && text_of(&refused).contains("The webhook is disabled or paused"),
        "{}",
        refused.text()
    );
}
