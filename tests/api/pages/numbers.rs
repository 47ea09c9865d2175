//! Sources and the results of links on the account's pages.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::{Visitor, secret_in, stored, text_of, went};
use deeplink_testing::{Role, eventually, spawn};

#[tokio::test]
async fn a_source_is_added_shown_and_deleted() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for (name, text) in [("", "Must be 1 to 64 characters"), (&*"x".repeat(65), "Must be 1 to 64 characters")] {
        let reply = visitor.post("/account/sources", &[("name", name)]).await;
        assert_eq!(reply.status, 400);
        assert!(reply.text().contains("id=\"name-error\">") && text_of(&reply).contains(text), "{}", reply.text());
    }
    let id = visitor.form_id("/account/sources").await;
    let fields = [("form", &*id), ("name", " Shop ")];
    let added = visitor.post("/account/sources", &fields).await;
    assert_eq!((added.status, added.header("cache-control")), (200, "no-store"));
    let address = secret_in(&added);
    let token = address.rsplit('/').next().expect("a token");
    assert_eq!(address, format!("{}/in/{token}", world.a.base()));
    // The same form again creates and shows none.
    assert_eq!(went(&visitor.post("/account/sources", &fields).await), (303, "/account/sources?done=source-made"));
    let taken = visitor.post("/account/sources", &[("form", "2"), ("name", "Shop")]).await;
    assert!(taken.status == 409 && text_of(&taken).contains("Another source already has this name"));

    let list = visitor.get("/account/sources").await.text();
    assert!(list.contains("Shop") && list.contains("/in/...") && !list.contains(token), "{list}");
    let path = list.split("action=\"").find_map(|rest| rest.strip_prefix("/account/sources/src_")).expect("a form");
    let path = format!("/account/sources/src_{}", path.split('"').next().expect("an id"));
    assert_eq!(secret_in(&visitor.post(&path, &[]).await), address, "it is shown as often as it is asked for");
    // And not in a URL that a browser keeps: a bookmark, or a sign-in on the way, leads to the list.
    assert_eq!(went(&visitor.get(&path).await), (303, "/account/sources"));
    let signin = Visitor::stranger(&world).post(&path, &[]).await;
    assert_eq!(went(&signin), (303, &*format!("/signin?next={}", path.replace('/', "%2F"))));
    let before = stored(&world).await;
    let other = Visitor::signed_in(&world, &world.b).await;
    for refused in [
        other.post(&path, &[]).await,
        other.post(&format!("{path}/delete"), &[]).await,
        other.get(&format!("{path}/delete")).await,
        visitor.posting(&path, &[]).header("origin", "https://other.example").send().await,
        visitor.posting(&path, &[]).header("sec-fetch-site", "cross-site").send().await,
        Visitor::stranger(&world).post(&path, &[]).await,
    ] {
        assert!(!refused.text().contains(token) && refused.status != 200, "{}", refused.text());
    }
    let mut after = stored(&world).await;
    after.insert("sessions".to_owned(), before["sessions"].clone());
    assert_eq!(after, before);
    let sent = world.nobody.post(&format!("/in/{token}"), &json!({"user_id": "u", "type": "purchase"})).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    let question = visitor.get(&format!("{path}/delete")).await;
    assert!(text_of(&question).contains("Delete this source?") && text_of(&question).contains("Shop"));
    for done in ["source-deleted", "gone"] {
        let gone = visitor.post(&format!("{path}/delete"), &[]).await;
        assert_eq!(went(&gone), (303, &*format!("/account/sources?done={done}")));
    }
    let dead = world.nobody.post(&format!("/in/{token}"), &json!({"user_id": "u", "type": "purchase"})).await;
    assert_eq!(dead.outcome(), "404 not_found");
}

/// The text between a mark and the next tag.
fn after<'a>(page: &'a str, mark: &str) -> Vec<&'a str> {
    page.split(mark).skip(1).map(|rest| rest.split('<').next().unwrap_or_default()).collect()
}

/// The names and counts of a card's bars.
fn bars(page: &str, card: &str) -> Vec<(String, String)> {
    let start = format!("id=\"{card}\"");
    let card = page.split(&start).nth(1).and_then(|rest| rest.split("</section>").next()).unwrap_or_default();
    let pair = |(name, count): (&str, &str)| (name.to_owned(), count.to_owned());
    after(card, "<bdi>").into_iter().zip(after(card, "<b>")).map(pair).collect()
}

#[tokio::test]
async fn pages_show_revenue_browsers_and_devices() {
    const PHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1";
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for id in ["one", "two"] {
        world.a.make(id).await;
    }
    for (id, agent) in [
        ("one", PHONE.to_owned()),
        ("one", PHONE.to_owned()),
        ("one", format!("{PHONE} Instagram 350.0")),
        ("two", "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0".to_owned()),
    ] {
        let visit = world.nobody.ask_without_key(Method::GET, &format!("/r/{id}"));
        let visit = visit
            .header("accept", "text/html")
            .header("user-agent", agent)
            .header("referer", "https://news.example.com/");
        assert_eq!(visit.send().await.status, 302);
    }
    let clicks = || async { world.a.clicks_of("one").await + world.a.clicks_of("two").await == 4 };
    eventually("the clicks are stored", Duration::from_mins(1), clicks).await;
    let touch = json!({"link_id": "one", "install_id": "i", "app_version": "1"});
    assert_eq!(world.a.post("/v1/lifecycle/attribute", &touch).await.status, 200);
    let identify = json!({"install_id": "i", "user_id": "u"});
    assert_eq!(world.a.put("/v1/lifecycle/identify", &identify).await.status, 200);
    for (cents, currency) in [(120_450, "EUR"), (50, "EUR"), (-500, "USD")] {
        let convert = json!({"user_id": "u", "type": "purchase", "amount_cents": cents, "currency": currency});
        assert_eq!(world.a.post("/v1/lifecycle/convert", &convert).await.status, 200);
    }
    let bar = |name: &str, count: &str| (name.to_owned(), count.to_owned());
    let revenue = "<dt>Revenue<span class=\"mute\">0.00 EUR, 0.00 USD previously</span></dt><dd><b>1,205.00 EUR, -5.00 USD</b></dd>";
    for (path, of_firefox, clicks) in [("/account", true, "4"), ("/account/links/one", false, "3")] {
        let page = text_of(&visitor.get(path).await);
        assert!(page.contains(revenue), "{path}: {page}");
        let mut browsers = vec![bar("Safari", "2"), bar("App WebView", "1")];
        let mut devices = vec![bar("Mobile", "3")];
        if of_firefox {
            browsers.push(bar("Firefox", "1"));
            devices.push(bar("Desktop", "1"));
        }
        let (mut shown, mut expected) = (bars(&page, "browsers"), browsers);
        assert_eq!(shown[0], expected[0], "{path}: the most used is first");
        shown.sort();
        expected.sort();
        assert_eq!(shown, expected, "{path}");
        assert_eq!(bars(&page, "devices"), devices, "{path}");
        assert_eq!(bars(&page, "in-apps"), [bar("Instagram", "1")], "{path}");
        assert_eq!(bars(&page, "hosts"), [bar("news.example.com", clicks)], "{path}");
    }
    let page = text_of(&visitor.get("/account/links/two").await);
    assert!(!page.contains("<dt>Revenue") && !page.contains("id=\"in-apps\""), "{page}");

    // On the next day, the charts name only the day before.
    world.clock.advance(Duration::from_hours(24));
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for (link, before) in [("two", "There was 1 "), ("one", "There were 3 ")] {
        let page = text_of(&visitor.get(&format!("/account/links/{link}?range=today")).await);
        assert!(page.contains(&format!("{before}by this time yesterday.")), "{link}: {page}");
    }
}

#[tokio::test]
async fn pages_draw_what_links_led_to() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let empty = visitor.get("/account").await;
    assert!(!text_of(&empty).contains("Last 30 days"), "without a link there is nothing to count");
    for id in ["one", "two", "three"] {
        world.a.make(id).await;
    }
    let empty = text_of(&visitor.get("/account").await);
    assert!(
        empty.contains("No clicks in this period. Reload this page to see new ones. Visits by crawlers,"),
        "{empty}"
    );
    let tap = async |id: &str| {
        let tapped = world.nobody.tap(id).await;
        assert_eq!(tapped.status, 302);
    };
    tap("one").await;
    world.clock.advance(Duration::from_hours(24));
    for _ in 0..3 {
        tap("one").await;
    }
    tap("two").await;
    for (install, link) in [("i-1", "one"), ("i-2", "two")] {
        let touch = json!({"link_id": link, "install_id": install, "app_version": "1"});
        assert_eq!(world.a.post("/v1/lifecycle/attribute", &touch).await.status, 200);
    }
    let identify = json!({"install_id": "i-1", "user_id": "u"});
    assert_eq!(world.a.put("/v1/lifecycle/identify", &identify).await.status, 200);
    for kind in ["purchase", "purchase", "<b>sign</b>"] {
        let convert = json!({"user_id": "u", "type": kind});
        assert_eq!(world.a.post("/v1/lifecycle/convert", &convert).await.status, 200);
    }
    let clicks = || async { world.a.clicks_of("one").await + world.a.clicks_of("two").await == 5 };
    eventually("the clicks are stored", Duration::from_mins(1), clicks).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for (path, all, steps, days, types) in [
        ("/account", "5 clicks", vec!["5", "2", "1", "3"], ["4", "1"], vec!["2", "1"]),
        ("/account/links/one", "4 clicks", vec!["4", "1", "1", "3"], ["3", "1"], vec!["2", "1"]),
        ("/account/links/two", "1 click", vec!["1", "1", "0", "0"], ["1", "0"], vec![]),
    ] {
        let page = text_of(&visitor.get(path).await);
        let (number, word) = all.split_once(' ').expect("a number");
        assert!(
            page.contains(&format!(
                "<figcaption><b>{number}</b> {word} <span class=\"mute\">0 in the previous 30 days</span>"
            )),
            "{path}: {page}"
        );
        assert!(page.contains(&format!(">{all}, with a peak of {} in one day: ", days[0])), "{path}: {page}");
        let steps_and_types = page.split("id=\"steps\"").nth(1).and_then(|rest| rest.split("id=\"platforms\"").next());
        let shown = after(steps_and_types.unwrap_or_default(), "<b>");
        let expected: Vec<&str> = steps.into_iter().chain(types).collect();
        assert!(shown.starts_with(&expected), "{path}: {shown:?}");
        // Newest day first.
        assert!(!page.contains("Clicks in the last"), "one number, not two that may differ: {path}");
        let table = after(&page, "<td role=\"cell\" class=\"number\">");
        assert_eq!((table.len(), [table[0], table[1]]), (30, days), "{path}");
        assert!(table[2..].iter().all(|clicks| *clicks == "0"), "{path}: {table:?}");
        assert_eq!(page.matches("<rect x=").count(), 30, "{path}");
        assert!(!page.contains("<b>sign"), "{path}");
    }
    assert!(text_of(&visitor.get("/account/links/three").await).contains("No clicks in this period."));
    let other = Visitor::signed_in(&world, &world.b).await;
    world.b.make("of-b").await;
    assert!(
        text_of(&other.get("/account").await).contains("No clicks in this period."),
        "another account's links are not counted"
    );

    // All links are counted, however many and deleted ones too.
    let many = json!({"template": {}, "count": 98});
    assert_eq!(world.a.post("/v1/links/bulk", &many).await.status, 201);
    assert_eq!(world.a.delete("/v1/links/two").await.status, 204);
    let page = text_of(&visitor.get("/account").await);
    assert!(page.contains("<figcaption><b>5</b> clicks <span"), "{page}");

    // A range of named length or of own dates, on each page with numbers.
    let affiliate =
        world.a.post("/v1/affiliates", &json!({"name": "Partner", "partner_key": "partner"})).await.member("id");
    let today = world.clock.now().to_string()[..10].to_owned();
    let yesterday = world.clock.now().plus_days(-1).to_string()[..10].to_owned();
    let quarter = world.clock.now().plus_days(-91).to_string()[..10].to_owned();
    for (path, title, caption, columns) in [
        (
            "/account?range=today".to_owned(),
            "Today",
            "<b>4</b> clicks <span class=\"mute\">+300%, 1 by this time yesterday",
            0,
        ),
        (
            "/account?range=7d".to_owned(),
            "Last 7 days",
            "<b>5</b> clicks <span class=\"mute\">0 in the previous 7 days",
            7,
        ),
        ("/account?range=90d".to_owned(), "Last 90 days", "<b>5</b> clicks", 90),
        (format!("/account?from={quarter}&to={today}"), "", "<b>5</b> clicks", 92),
        (
            "/account?range=12m".to_owned(),
            "Last 12 months",
            "<b>5</b> clicks <span class=\"mute\">0 in the previous 12 months",
            52,
        ),
        (
            format!("/account?from={yesterday}&to={yesterday}"),
            "",
            "<b>1</b> click <span class=\"mute\">0 the day before",
            24,
        ),
        ("/account/links/one?range=7d".to_owned(), "Last 7 days", "<b>4</b> clicks", 7),
    ] {
        let reply = visitor.get(&path).await;
        assert!(reply.body.len() <= 60 * 1_024, "{path} has {} bytes", reply.body.len());
        let page = text_of(&reply);
        assert!(page.contains(&format!("<h2 id=\"numbers\">{title}")), "{path}: {page}");
        assert!(page.contains(caption), "{path}: {page}");
        let drawn = page.matches("<rect x=").count();
        assert!(if columns == 0 { drawn <= 24 } else { drawn == columns }, "{path}: {drawn}");
    }
    for path in ["/account", "/account/links/one", &format!("/account/affiliates/{affiliate}")] {
        let refused = visitor.get(&format!("{path}?from={today}&to={yesterday}")).await;
        assert_eq!(refused.status, 400, "{path}");
        assert!(
            text_of(&refused).contains("Choose an end date on or after the start date.")
                && refused.text().contains(&today),
            "{path}"
        );
        assert_eq!(visitor.get(&format!("{path}?range=none")).await.status, 200, "{path}");
        assert_eq!(visitor.get(&format!("{path}?range=7d&range=7d")).await.status, 400, "{path}");
    }
    let platforms = text_of(&visitor.get("/account").await);
    assert!(platforms.contains("id=\"platforms\"") && platforms.contains("have no referrer"), "{platforms}");

    // If counting fails, the rest of the page is still shown.
    world.db.execute("ALTER TABLE touches RENAME TO hidden").await;
    for path in ["/account", "/account/links/one"] {
        let page = visitor.get(path).await;
        assert!(page.status == 200 && text_of(&page).contains("Statistics are temporarily unavailable."), "{path}");
    }
}
