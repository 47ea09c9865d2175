//! `dl demo`: a sample to look at.

use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, link};
use serde_json::json;

use crate::screen::Screen;

/// A service with these names for its link `dl-demo`, if it has one.
fn service(name: Option<&'static str>) -> Double {
    Double::new(move |request| match (request.line().as_str(), name) {
        ("POST /v1/links", Some(_)) => Answer::error(409, "link_id_taken", "the id is in use"),
        ("POST /v1/links", None) => Answer::json(
            201,
            &json!({"link_id": "dl-demo", "url": "https://go.example.com/dl-demo", "expires_at": null}),
        ),
        ("GET /v1/links/dl-demo", Some(name)) => {
            let mut link = link("dl-demo");
            link["name"] = name.into();
            Answer::json(200, &link)
        }
        ("DELETE /v1/links/dl-demo", Some(_)) => Answer::new(204, ""),
        _ => Answer::error(404, "not_found", "not found"),
    })
}

#[test]
fn a_sample_has_everything_and_says_what_to_try() {
    let double = service(None);
    let ran = Dl::at(&double.url).run("demo");
    assert_eq!(ran.ok(), "https://go.example.com/dl-demo\n");
    for next in ["dl links explain dl-demo", "dl links qr dl-demo --out ", "dl stats dl-demo", "dl demo --delete"] {
        assert!(ran.stderr.contains(next), "{next}: {ran}");
    }
    let sent = double.only().json();
    for field in [
        "web_url",
        "ios_deep_link",
        "ios_store_url",
        "android_deep_link",
        "android_store_url",
        "metadata",
        "agent_context",
        "social_preview",
        "tags",
        "name",
        "expires_at",
    ] {
        assert!(!sent[field].is_null(), "{field}: {sent}");
    }
    assert_eq!(Dl::at(&service(None).url).run("demo -o id").ok(), "dl-demo\n");
    let held = Dl::at(&double.url).run("demo --dry-run");
    assert!(held.ok().starts_with("POST /v1/links\n{") && held.says("nothing was sent"), "{held}");
}

#[test]
fn on_a_terminal_the_code_is_drawn() {
    let double = service(None);
    let (code, text) = Screen::open(Dl::at(&double.url).env("LANG", "C.UTF-8"), "demo").end();
    assert!(code == Some(0) && text.contains('▀') && text.contains("\nhttps://go.example.com/dl-demo\n"), "{text}");
    assert!(text.contains("Try next:"), "{text}");
}

#[test]
fn a_sample_is_made_once_and_deleted() {
    let there = service(Some("Sample link from dl demo"));
    let ran = Dl::at(&there.url).run("demo");
    assert!(ran.ok() == "https://go.example.com/dl-demo\n" && ran.says("note: the sample link dl-demo already exists"));
    assert_eq!(Dl::at(&there.url).run("demo --delete").ok(), "dl-demo\n");
    let ran = Dl::at(&service(None).url).run("demo --delete");
    assert!(ran.fails(5).contains("no link with ID dl-demo") && ran.says("hint: dl demo creates it"), "{ran}");
}

/// A link of the account that happens to have the ID is neither shown as the sample nor deleted.
#[test]
fn a_link_of_the_account_is_left_alone() {
    let theirs = service(Some("Spring sale"));
    for line in ["demo", "demo --delete"] {
        let ran = Dl::at(&theirs.url).run(line);
        assert!(ran.fails(6).contains("used by a link that dl demo did not create"), "{line}: {ran}");
    }
    assert!(theirs.requests().iter().all(|request| request.method != "DELETE"));
}

/// The ID of an expired sample stays in use, and so does that of a disabled one: both are made to work again.
#[test]
fn a_sample_that_no_longer_works_is_renewed() {
    for (status, enabled) in [("expired", true), ("disabled", false)] {
        let double = Double::new(move |request| {
            let mut sample = link("dl-demo");
            sample["name"] = "Sample link from dl demo".into();
            match request.line().as_str() {
                "POST /v1/links" => return Answer::error(409, "link_id_taken", "the id is in use"),
                "GET /v1/links/dl-demo" => {
                    sample["status"] = status.into();
                    sample["enabled"] = enabled.into();
                }
                _ => {}
            }
            Answer::json(200, &sample)
        });
        let ran = Dl::at(&double.url).run("demo -o json");
        assert_eq!(ran.json(), {
            let mut sample = link("dl-demo");
            sample["name"] = "Sample link from dl demo".into();
            sample
        });
        assert!(ran.says(&format!("was {status}; it works again")), "{ran}");
        let sent = double.requests().pop().expect("a request").json();
        assert!(sent["expires_at"].as_str().is_some_and(|end| end > "2026"), "{sent}");
        assert_eq!(sent.get("enabled").is_some(), !enabled, "{sent}");
    }
}

/// Only of a link that does not exist may be said that `dl demo` creates it.
#[test]
fn other_failures_keep_their_hints() {
    let refused = Double::new(|_| Answer::error(401, "unauthorized", "the key is not valid"));
    let ran = Dl::at(&refused.url).run("demo --delete");
    assert!(!ran.fails(4).contains("dl demo creates it"), "{ran}");
}

#[test]
fn what_to_try_is_in_columns() {
    let ran = Dl::at(&service(None).url).run("demo");
    let columns = ran.stderr.lines().filter(|line| line.starts_with("  dl ")).map(|line| {
        let (command, rest) = line[2..].split_once("  ").expect("a column");
        2 + command.len() + 2 + rest.len() - rest.trim_start().len()
    });
    let columns: Vec<usize> = columns.collect();
    assert!(columns.len() == 6 && columns.iter().all(|column| *column == columns[0]), "{ran}");
}
