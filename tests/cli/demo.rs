//! `dl demo`: a sample to look at.

use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, link};
use serde_json::json;

use crate::terminal::Screen;

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
    let there = service(Some("Sample of dl demo"));
    let ran = Dl::at(&there.url).run("demo");
    assert!(ran.ok() == "https://go.example.com/dl-demo\n" && ran.says("note: the sample link dl-demo exists already"));
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
