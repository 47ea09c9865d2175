//! `dl webhooks` against a scripted service: management commands.

use std::fmt::Write;

use deeplink_client::mock::fixtures;
use deeplink_core::event::EventKind;
use deeplink_core::webhook::{
    Attempt, CreatedWebhook, DeliveryList, DeliveryStatus, ReplayedDeliveries, RotatedSecret, WebhookFilters,
    WebhookList,
};
use serde_json::{Value, json};

use crate::screen::{Screen, plain};
use deeplink_testing::dl::{Dl, mode};
use deeplink_testing::double::{Answer, Double, Request};

/// The id of the webhook.
pub(crate) const WEBHOOK: &str = "wh_0123456789abcdef01234567";
/// The id of a delivery.
pub(crate) const DELIVERY: &str = "dlv_0123456789abcdef01234567";

fn json(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("JSON")
}

/// The issued secret.
pub(crate) fn secret() -> String {
    fixtures::webhook_secret().expose().to_owned()
}

/// Answers requests about webhooks; `None` for any other request.
pub(crate) fn of_webhooks(request: &Request) -> Option<Answer> {
    let webhook = fixtures::webhook_detail("https://hooks.example.com/deeplink");
    let delivery = fixtures::delivery_detail(&webhook);
    let of_one = format!("/v1/webhooks/{WEBHOOK}");
    let rest = request.path().strip_prefix(&of_one);
    Some(match (request.method.as_str(), rest, request.path()) {
        ("GET", None, "/v1/webhooks") => Answer::json(200, &json(WebhookList::new(vec![webhook], None))),
        ("POST", None, "/v1/webhooks") => {
            Answer::json(201, &json(CreatedWebhook::new(webhook, fixtures::webhook_secret())))
        }
        ("PATCH", Some(""), _) => Answer::json(200, &json(webhook)),
        ("DELETE", Some(""), _) => Answer::new(204, ""),
        ("POST", Some("/rotate-secret"), _) => {
            Answer::json(200, &json(RotatedSecret::new(webhook.id, fixtures::webhook_secret())))
        }
        ("GET", Some("/deliveries"), _) => Answer::json(200, &json(DeliveryList::new(vec![delivery], None))),
        ("POST", Some("/replay"), _) => Answer::json(200, &json(ReplayedDeliveries::new(1_000, true))),
        ("POST", Some("/test"), _) => Answer::json(200, &json(delivery)),
        ("POST", Some(rest), _) if rest == format!("/deliveries/{DELIVERY}/replay") => {
            Answer::json(200, &json(delivery))
        }
        ("GET", None, "/v1/events/stream") => {
            let mut frames = ": hello\n\n".to_owned();
            for kind in [EventKind::Click, EventKind::Conversion] {
                // Writing to a string cannot fail.
                let _ = write!(frames, "{}", fixtures::streamed_event(&kind));
            }
            Answer::new(200, frames).header("content-type", "text/event-stream")
        }
        _ => return None,
    })
}

fn service() -> Double {
    Double::new(|request| of_webhooks(request).unwrap_or_else(|| Answer::error(404, "not_found", "no")))
}

#[test]
fn a_secret_is_shown_once_and_nowhere_else() {
    let double = service();
    let dl = Dl::at(&double.url);
    let made = dl.run("webhooks create --url https://hooks.example.com/ --event click --event attribution -vv");
    assert_eq!(made.ok(), format!("{}\n", secret()));
    assert!(
        !made.stderr.contains(&secret()) && made.says("note: \"attribution\" is now called \"attribute\""),
        "{made}"
    );
    assert!(
        made.says(&format!(
            "created {0}; to send it a test event: dl webhooks test {0}",
            fixtures::webhook_detail("").id
        )),
        "{made}"
    );
    let sent = double.only().json();
    assert_eq!(sent, json!({"url": "https://hooks.example.com/", "events": ["click", "attribute"]}));
    let ran = dl.run("webhooks create --url https://hooks.example.com/ --all-events --out-file s.txt");
    assert_eq!(ran.ok(), format!("{}\n", fixtures::webhook_detail("").id));
    assert!(ran.says("the secret is in s.txt"), "{ran}");
    assert_eq!((dl.read("s.txt"), mode(&dl.dir().join("s.txt"))), (format!("{}\n", secret()), 0o600));
    let hidden = dl.run("webhooks create --url https://hooks.example.com/ --all-events -o id");
    assert!(hidden.fails(2).contains("the secret is shown only once"), "{hidden}");
    let asked = dl.run(&format!("webhooks rotate-secret {WEBHOOK}"));
    assert!(asked.fails(2).contains("use --yes to confirm") && asked.says("one that was replaced less"), "{asked}");
    assert_eq!(dl.run(&format!("webhooks rotate-secret {WEBHOOK} --yes -o json")).json()["secret"], secret());
    for line in ["webhooks list".to_owned(), format!("webhooks deliveries {WEBHOOK}")] {
        for form in ["table", "json", "jsonl", "csv", "id"] {
            let ran = dl.run(&format!("{line} -o {form} -vv"));
            assert!(ran.code == Some(0) && !ran.to_string().contains("whsec_"), "{form}: {ran}");
        }
    }
}

/// An answer that cannot be shown loses the secret: `dl` says how to get another, and prints no part of it.
#[test]
fn a_secret_that_cannot_be_shown_is_said_to_be_lost() {
    let double = service();
    let dl = Dl::at(&double.url);
    let mut command = dl.command(&format!("webhooks rotate-secret {WEBHOOK} --yes"));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let ran = command.stdout(full).output().expect("dl runs");
    let stderr = String::from_utf8(ran.stderr).expect("UTF-8");
    assert_eq!(ran.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("dl webhooks rotate-secret wh_") && !stderr.contains(&secret()[..12]), "{stderr}");
}

#[test]
fn what_is_managed_is_sent_as_it_is_said() {
    let double = service();
    let dl = Dl::at(&double.url);
    for (line, request, body) in [
        ("update {} --active false", "PATCH {}", json!({"active": false})),
        ("update {} --event click,conversion", "PATCH {}", json!({"events": ["click", "conversion"]})),
        (
            "update {} --no-filter --all-events",
            "PATCH {}",
            json!({"events": ["click", "attribute", "identify", "conversion"], "filters": null}),
        ),
        (
            "update {} --affiliate aff_0123456789abcdef01234567",
            "PATCH {}",
            json!({"filters": {"affiliate_id": "aff_0123456789abcdef01234567"}}),
        ),
        ("test {}", "POST {}/test", json!({})),
        ("test {} --event attribution", "POST {}/test", json!({"event": "attribute"})),
    ] {
        dl.run(&format!("webhooks {}", line.replace("{}", WEBHOOK))).ok();
        let last = double.requests().pop().expect("a request");
        assert_eq!(last.line(), request.replace("{}", &format!("/v1/webhooks/{WEBHOOK}")));
        assert_eq!(last.json(), body, "{line}");
    }
    dl.run(&format!("webhooks replay {WEBHOOK} {DELIVERY}")).ok();
    let all = dl.run(&format!("webhooks replay {WEBHOOK} --failed-since 2026-11-20"));
    assert_eq!(all.ok(), "");
    assert!(
        all.says("resending 1000 deliveries") && all.says("there are more: run the command again for them"),
        "{all}"
    );
    let last = double.requests().pop().expect("a request");
    assert_eq!(last.line(), format!("POST /v1/webhooks/{WEBHOOK}/replay"));
    assert_eq!(last.json(), json!({"since": "2026-11-20T00:00:00.000Z"}));
    let sheet = dl.run(&format!("webhooks replay {WEBHOOK} --failed-since 1d -o csv"));
    assert_eq!(sheet.ok(), "count,has_more\r\n1000,true\r\n");
    let all = dl.run(&format!("webhooks replay {WEBHOOK} --failed-since 1d -o json"));
    assert!(all.ok().contains("\"has_more\""), "{all}");
    dl.run(&format!("webhooks deliveries {WEBHOOK} --status failed --limit 7")).ok();
    let last = double.requests().pop().expect("a request");
    assert_eq!((last.query("status"), last.query("limit")), (Some("failed"), Some("7")));
    dl.run(&format!("webhooks delete {WEBHOOK} --yes")).ok();
    let before = double.requests().len();
    for (line, code) in [
        (format!("update {WEBHOOK}"), 2),
        (format!("replay {WEBHOOK}"), 2),
        (format!("replay {WEBHOOK} {DELIVERY} --failed-since 1d"), 2),
        (format!("replay {WEBHOOK} --failed-since soon"), 2),
        ("update wh_1 --active true".to_owned(), 3),
        (format!("update {WEBHOOK} --event clicks"), 3),
        (format!("update {WEBHOOK} --active maybe"), 2),
        ("create --url http://example.com/ --all-events".to_owned(), 3),
        ("create --url https://example.com/".to_owned(), 2),
        ("create --url https://example.com/ --all-events --event click".to_owned(), 2),
        ("create --url https://example.com/ --event sale".to_owned(), 3),
        (format!("deliveries {WEBHOOK} --status gone"), 3),
        (format!("replay {WEBHOOK} {WEBHOOK}"), 3),
        (format!("test {WEBHOOK} --event sale"), 3),
        (format!("delete {WEBHOOK}"), 2),
    ] {
        assert_eq!(dl.run(&format!("webhooks {line}")).code, Some(code), "{line}");
    }
    assert_eq!(double.requests().len(), before, "nothing was sent");
    let usage = dl.run("webhooks create --url https://example.com/");
    assert!(usage.says("<--event <KIND>|--all-events>"), "{usage}");
    let unknown = [format!("test {WEBHOOK} --event sale"), "create --url https://example.com/ --event sale".to_owned()];
    for line in unknown {
        let ran = dl.run(&format!("webhooks {line}"));
        assert!(ran.stderr.starts_with("error[invalid_event]: unknown event \"sale\"; expected click"), "{ran}");
    }
    let ran = dl.run(&format!("webhooks update {WEBHOOK} --active false"));
    assert!(ran.says("note: the webhook is disabled: pending deliveries are canceled"), "{ran}");
}

/// Notes on requests without an effect: a filter that narrows nothing, a webhook that is off or missing.
#[test]
fn what_comes_to_nothing_is_said() {
    let double = Double::new(|request| {
        let mut webhook = fixtures::webhook_detail("https://hooks.example.com/deeplink");
        webhook.filters = WebhookFilters::new().affiliate_id("aff_0123456789abcdef01234567");
        match request.method.as_str() {
            "PATCH" => {
                webhook.events = vec![EventKind::Click];
                Answer::json(200, &json(webhook))
            }
            "POST" if request.path() == "/v1/webhooks" => {
                Answer::json(201, &json(CreatedWebhook::new(webhook, fixtures::webhook_secret())))
            }
            _ if request.path().contains(WEBHOOK) => Answer::json(
                400,
                &json!({"error": "the webhook is not active", "code": "bad_request", "field": "active", "request_id": "r"}),
            ),
            _ => Answer::error(404, "not_found", "no"),
        }
    });
    let dl = Dl::at(&double.url);
    let idle = "the affiliate filter applies only to conversions";
    assert!(dl.run(&format!("webhooks update {WEBHOOK} --event click")).says(idle));
    assert!(!dl.run("webhooks create --url https://hooks.example.com/ --all-events").says(idle));
    for line in [format!("test {WEBHOOK}"), format!("replay {WEBHOOK} {DELIVERY}")] {
        let ran = dl.run(&format!("webhooks {line}"));
        assert!(
            ran.fails(3).contains(&format!("hint: to enable it: dl webhooks update {WEBHOOK} --active true")),
            "{ran}"
        );
    }
    let gone = WEBHOOK.replace('7', "8");
    let ran = dl.run(&format!("webhooks replay {gone} {DELIVERY}"));
    assert!(ran.fails(5).contains("hint: dl webhooks deliveries wh_"), "{ran}");
    assert!(dl.run(&format!("webhooks test {gone}")).fails(5).contains("hint: dl webhooks list"));
}

/// On a terminal of 80 columns every row is one line, URLs show their distinguishing part, and a failure shows its
/// reason.
#[test]
fn tables_fit_a_terminal() {
    let double = Double::new(|request| {
        let [mut first, mut second] =
            ["one", "two"].map(|name| fixtures::webhook_detail(&format!("https://hooks.example.com/receivers/{name}")));
        first.events = EventKind::ALL.to_vec();
        second.events = vec![EventKind::Click, EventKind::Conversion];
        second.active = false;
        let mut failed = fixtures::delivery_detail(&first);
        failed.status = DeliveryStatus::Failed;
        let at = failed.created_at;
        failed.attempts = vec![Attempt::new(at, 10_100, None, Some("no answer within 10 s".into())); 5];
        match (request.method.as_str(), request.path()) {
            ("PATCH", _) => Answer::json(200, &json(second)),
            (_, "/v1/webhooks") => Answer::json(200, &json(WebhookList::new(vec![first, second], None))),
            _ => {
                let mut refused = failed.clone();
                refused.attempts = vec![Attempt::new(at, 7, Some(500), Some("answered 500".into()))];
                Answer::json(200, &json(DeliveryList::new(vec![failed, refused], None)))
            }
        }
    });
    let shown =
        |line: &str, columns| plain(&Screen::sized(Dl::at(&double.url).env("TERM", "xterm"), line, columns).end().1);
    let rows = |text: &str| -> Vec<Vec<String>> {
        text.lines()
            .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect())
            .collect()
    };
    let list = shown("webhooks list", 80);
    assert!(list.lines().count() == 3 && list.lines().all(|line| line.chars().count() <= 80), "{list}");
    let cells = rows(&list);
    assert_eq!(cells[0], ["ID", "URL", "EVENTS", "ACTIVE", "STATUS"], "{list}");
    assert_eq!(cells[1][2..], ["all", "yes", "healthy"], "{list}");
    assert!(
        cells[1][1].starts_with("hooks.ex") && cells[1][1].ends_with("/one") && cells[2][1].ends_with("/two"),
        "{list}"
    );
    assert!(rows(&shown("webhooks list", 160))[0].contains(&"CREATED".to_owned()));
    let log = shown(&format!("webhooks deliveries {WEBHOOK}"), 80);
    assert!(log.lines().count() == 3 && log.lines().all(|line| line.chars().count() <= 80), "{log}");
    let cells = rows(&log);
    assert_eq!(cells[0], ["ID", "EVENT", "STATUS", "ATTEMPTS", "RESPONSE"], "{log}");
    assert_eq!(cells[1][1..4], ["conversion", "failed", "5"], "{log}");
    assert!(cells[1][4].starts_with("no answer within") && cells[2][4] == "500", "{log}");
    let wide = rows(&shown(&format!("webhooks deliveries {WEBHOOK}"), 160));
    assert_eq!(wide[0][5..], ["CREATED", "NEXT ATTEMPT", "EVENT ID"]);
    let csv = Dl::at(&double.url).run(&format!("webhooks deliveries {WEBHOOK} --fields last_status,last_error -o csv"));
    assert_eq!(csv.ok(), "last_status,last_error\r\n,no answer within 10 s\r\n500,answered 500\r\n");
    let now = shown(&format!("webhooks update {WEBHOOK} --active false"), 80);
    assert!(now.contains("events        click, conversion"), "{now}");
}
