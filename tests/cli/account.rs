//! What the commands on the account send and print.

use serde_json::json;

use deeplink_client::mock::fixtures;
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double};

fn willing() -> Double {
    Double::new(|request| {
        let account = if request.method == "POST" { fixtures::deleted_account() } else { fixtures::account() };
        Answer::json(200, &serde_json::to_value(account).expect("JSON"))
    })
}

#[test]
fn settings_are_sent_as_named() {
    let double = willing();
    let dl = Dl::at(&double.url);
    dl.run("account update --name Example --time-zone europe/berlin --icon https://example.com/i.png --theme #123")
        .ok();
    dl.run("account update --unset name --unset time-zone --unset icon --unset theme").ok();
    let sent: Vec<_> = double.requests().iter().map(deeplink_testing::double::Request::json).collect();
    let all = json!({
        "name": "Example", "time_zone": "europe/berlin", "icon_url": "https://example.com/i.png", "theme_color": "#123",
    });
    assert_eq!(sent[0], all);
    assert_eq!(sent[1], json!({"name": null, "time_zone": null, "icon_url": null, "theme_color": null}));
    assert_eq!(double.lines(), ["PATCH /v1/account"; 2]);
    let plain = dl.run("account update --icon http://example.com/i.png --theme 2e7d4f");
    assert_eq!(plain.ok().lines().count(), 7, "{plain}");
    assert_eq!(plain.stderr, "warning: the icon is not shown: its URL must start with https://\n");
    let sent = double.requests().pop().expect("a request").json();
    assert_eq!(sent, json!({"icon_url": "http://example.com/i.png", "theme_color": "#2e7d4f"}));
    for (line, code, says) in [
        ("account update", 2, "nothing to change"),
        ("account update --name x --unset name", 2, "name is both set and unset"),
        ("account update --theme red", 3, "theme_color must be"),
        ("account update --time-zone Mars/Olympus", 3, "time_zone must be an IANA time zone name"),
    ] {
        let ran = dl.run(line);
        assert!(ran.fails(code).contains(says), "{line}: {ran}");
    }
    assert_eq!(double.requests().len(), 3, "wrong input is not sent");
}

#[test]
fn a_deletion_is_confirmed_and_canceled() {
    let double = willing();
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("account delete"), @"
    --- stderr
    error[needs_yes]: confirmation needed: the account tnt_01a1f84a95c0e463bcb1a6e5 (Example) and everything in it will be deleted in 7 days
      hint: use --yes to confirm
    --- exit 2
    ");
    assert_eq!(double.lines(), ["GET /v1/account"]);
    let dry = dl.run("account delete --dry-run");
    assert!(dry.ok().starts_with("POST /v1/account/deletion\n{\"confirm\":\"tnt_"), "{dry}");
    insta::assert_snapshot!(dl.run("account delete --yes"), @"
    id	tnt_01a1f84a95c0e463bcb1a6e5
    name	Example
    time_zone	Europe/Berlin
    icon_url	
    theme_color	#2e7d4f
    created_at	2026-11-20T09:30:00.000Z
    deletes_at	2026-11-27T09:30:00.000Z
    --- stderr
    note: the account will be deleted at 2026-11-27T09:30:00.000Z; to keep it: dl account cancel-deletion
    ");
    let id = fixtures::account().id;
    assert_eq!(double.requests().last().expect("a request").json(), json!({"confirm": id}));
    assert_eq!(dl.run("account cancel-deletion -o id").ok(), format!("{id}\n"));
    assert_eq!(double.lines().last().expect("a request"), "DELETE /v1/account/deletion");
}
