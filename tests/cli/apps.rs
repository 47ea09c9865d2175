//! What the commands on apps send and print.

use serde_json::json;

use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, FINGERPRINT, app};

const SECOND: &str = "AA:6D:E9:83:C5:73:06:50:D8:EE:B9:95:2F:34:FC:64:16:A0:83:42:E6:1D:BE:A8:8A:04:96:B2:3F:CF:44:E5";

fn willing() -> Double {
    Double::new(|request| match request.method.as_str() {
        "POST" => {
            let sent = request.json();
            let mut made = app(sent["platform"].as_str().expect("a platform"));
            if let Some(prints) = sent.get("sha256_fingerprints") {
                made["sha256_fingerprints"] = prints.clone();
            }
            Answer::json(201, &made)
        }
        "DELETE" => Answer::new(204, ""),
        _ => Answer::json(200, &json!([app("android"), app("ios")])),
    })
}

/// The same for an account without apps.
fn empty() -> Double {
    Double::new(|request| match request.method.as_str() {
        "POST" => Answer::json(201, &app(request.json()["platform"].as_str().expect("a platform"))),
        _ => Answer::json(200, &json!([])),
    })
}

#[test]
fn add_sends_what_the_flags_say_and_prints_the_id() {
    let double = empty();
    let dl = Dl::at(&double.url);
    let ios = dl.run(
        "apps add ios --bundle-id com.example.App --team-id ABCDE12345 --name Shop --icon https://example.com/i.png --theme #0a7cff",
    );
    assert_eq!((ios.ok(), ios.stderr.as_str()), ("app_0123456789abcdef01234567\n", ""));
    let android = dl.run(&format!("apps add android --package com.example.app --sha256 {FINGERPRINT} {SECOND}"));
    assert_eq!(android.ok(), "app_0123456789abcdef0123456a\n");
    dl.run(&format!("apps add android --package com.example.app --sha256 {FINGERPRINT} --sha256 {SECOND}")).ok();
    dl.run(&format!("apps add android --package com.example.app --sha256 {FINGERPRINT},{SECOND}")).ok();
    let (requests, looks): (Vec<_>, Vec<_>) =
        double.requests().into_iter().partition(|request| request.line() == "POST /v1/apps");
    assert!(requests.len() == 4 && looks.len() == 4 && looks.iter().all(|request| request.line() == "GET /v1/apps"));
    assert_eq!(
        requests[0].json(),
        json!({
            "platform": "ios", "bundle_id": "com.example.App", "team_id": "ABCDE12345", "app_name": "Shop",
            "icon_url": "https://example.com/i.png", "theme_color": "#0a7cff",
        })
    );
    for request in &requests[1..] {
        assert_eq!(
            request.json(),
            json!({
                "platform": "android", "package_name": "com.example.app", "sha256_fingerprints": [FINGERPRINT, SECOND],
            })
        );
    }
}

#[test]
fn a_color_needs_no_hash_and_an_icon_that_is_not_shown_is_said_so() {
    let double = empty();
    let dl = Dl::at(&double.url);
    let add =
        "apps add ios --bundle-id com.example.app --team-id ABCDE12345 --theme 0a7cff --icon http://example.com/i.png";
    insta::assert_snapshot!(dl.run(add), @"
    app_0123456789abcdef01234567
    --- stderr
    warning: the icon is not shown: its URL must start with https://
    ");
    let sent = double.requests().pop().expect("a request").json();
    assert_eq!((&sent["theme_color"], &sent["icon_url"]), (&json!("#0a7cff"), &json!("http://example.com/i.png")));
}

#[test]
fn one_fingerprint_is_worth_a_word() {
    let ran = Dl::at(&empty().url).run(&format!("apps add android --package com.example.app --sha256 {FINGERPRINT}"));
    insta::assert_snapshot!(ran, @"
    app_0123456789abcdef0123456a
    --- stderr
    note: only one fingerprint: builds from Google Play are signed with Play's own certificate; add its fingerprint too
    ");
}

#[test]
fn a_replacement_says_so_and_what_is_gone() {
    let double = Double::new(|request| {
        let mut there = app("ios");
        if request.method == "POST" {
            (there["app_name"], there["theme_color"]) = (json!("Store"), json!(null));
            return Answer::json(201, &there);
        }
        there["icon_url"] = "https://example.com/i.png".into();
        Answer::json(200, &json!([app("android"), there]))
    });
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("apps add ios --bundle-id com.example.app --team-id ABCDE12345 --name Store"), @"
    app_0123456789abcdef01234567
    --- stderr
    note: com.example.app was already registered and has been replaced; it now has name Store, no icon, no color
    warning: removed: icon https://example.com/i.png, color #0a7cff; to add it again, use --icon --theme
    ");
    assert_eq!(dl.run("apps add ios --bundle-id com.example.app --team-id ABCDE12345 --name Store -q").stderr, "");
}

#[test]
fn a_wrong_fingerprint_is_refused_by_name_and_nothing_is_sent() {
    let double = willing();
    let dl = Dl::at(&double.url);
    let sha1 = &FINGERPRINT[..59];
    insta::assert_snapshot!(dl.run(&format!("apps add android --package com.example.app --sha256 {sha1}")), @"
    --- stderr
    error[invalid_fingerprint]: this is a SHA-1 fingerprint (20 bytes); Android verifies links with SHA-256 (32 bytes)
    --- exit 3
    ");
    insta::assert_snapshot!(dl.run(&format!("apps add android --package com.example.app --sha256 {FINGERPRINT} {sha1}")), @"
    --- stderr
    error[invalid_fingerprint]: 14:6D:E9:83:…: this is a SHA-1 fingerprint (20 bytes); Android verifies links with SHA-256 (32 bytes)
    --- exit 3
    ");
    insta::assert_snapshot!(dl.run(&format!("apps add android --package com.example.app --sha256 '{FINGERPRINT}\n{SECOND}\n'")), @"
    --- stderr
    error[invalid_fingerprint]: a fingerprint must not contain spaces or line breaks; enter several as separate values
      hint: --sha256 accepts several values: --sha256 FINGERPRINT FINGERPRINT, or $(cat FILE) without quotes
    --- exit 3
    ");
    insta::assert_snapshot!(dl.run(&format!("apps add android --package com.example.app --sha256 'SHA256: {FINGERPRINT}'")), @"
    --- stderr
    error[invalid_fingerprint]: enter only the hex digits, without the label before them
    --- exit 3
    ");
    let error = dl.run(&format!("apps add android --package com.example.app --sha256 {sha1} -o json")).error();
    assert_eq!((&error["code"], &error["field"]), (&json!("invalid_fingerprint"), &json!("sha256_fingerprints")));
    assert!(double.requests().is_empty());
}

#[test]
fn a_list_has_every_form() {
    let dl = Dl::at(&willing().url);
    insta::assert_snapshot!(dl.run("apps list").ok().replace('\t', "<TAB>"), @"
    app_0123456789abcdef0123456a<TAB>android<TAB>com.example.app<TAB>Shop<TAB>2026-11-20T09:30:00.000Z
    app_0123456789abcdef01234567<TAB>ios<TAB>com.example.app<TAB>Shop<TAB>2026-11-20T09:30:00.000Z
    ");
    assert_eq!(dl.run("apps list -o json").json(), json!([app("android"), app("ios")]));
    assert_eq!(dl.run("apps list -o jsonl").ok().lines().count(), 2);
    assert_eq!(dl.run("apps list -o id").ok(), "app_0123456789abcdef0123456a\napp_0123456789abcdef01234567\n");
    insta::assert_snapshot!(dl.run("apps list -o csv --fields platform,team_id,sha256_fingerprints").ok().replace("\r\n", "<CRLF>\n"), @r#"
    platform,team_id,sha256_fingerprints<CRLF>
    android,,"[""14:6D:E9:83:C5:73:06:50:D8:EE:B9:95:2F:34:FC:64:16:A0:83:42:E6:1D:BE:A8:8A:04:96:B2:3F:CF:44:E5""]"<CRLF>
    ios,ABCDE12345,<CRLF>
    "#);
    let none = Double::new(|_| Answer::new(200, "[]"));
    let ran = Dl::at(&none.url).run("apps list -o json");
    assert_eq!(ran.ok(), "[]\n");
    assert!(ran.stderr.contains("no apps yet"), "{ran}");
}

#[test]
fn delete_asks_for_a_yes() {
    let double = willing();
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("apps delete app_0123456789abcdef01234567"), @"
    --- stderr
    error[needs_yes]: confirmation needed: Delete the app app_0123456789abcdef01234567?
      hint: use --yes to confirm
    --- exit 2
    ");
    assert!(double.requests().is_empty());
    assert_eq!(dl.run("apps delete app_0123456789abcdef01234567 --yes").ok(), "app_0123456789abcdef01234567\n");
    assert_eq!(
        dl.run("apps delete app_0123456789abcdef01234567 app_0123456789abcdef0123456a -y -o jsonl").ok(),
        "{\"id\":\"app_0123456789abcdef01234567\",\"deleted\":true}\n{\"id\":\"app_0123456789abcdef0123456a\",\"deleted\":true}\n"
    );
    assert_eq!(
        double.lines(),
        [
            "DELETE /v1/apps/app_0123456789abcdef01234567",
            "DELETE /v1/apps/app_0123456789abcdef01234567",
            "DELETE /v1/apps/app_0123456789abcdef0123456a"
        ]
    );
    let gone = Double::new(|_| Answer::error(404, "not_found", "there is no such app"));
    insta::assert_snapshot!(Dl::at(&gone.url).run("apps delete app_0123456789abcdef01234567 --yes"), @"
    --- stderr
    error[not_found]: there is no such app (HTTP 404)
      hint: dl apps list shows the account's apps
      request id: req-1
    --- exit 5
    ");
}

#[test]
fn an_id_of_no_app_is_refused_and_nothing_is_sent() {
    let double = willing();
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("apps delete nope --yes"), @r#"
    --- stderr
    error[invalid_id]: "nope" is not an ID of the form app_ followed by 24 lowercase hex digits
      hint: dl apps list shows the IDs of this account's apps
    --- exit 3
    "#);
    let both = dl.run("apps delete app_0123456789abcdef01234567 nope --yes -o json");
    assert_eq!((both.code, &both.error()["field"]), (Some(3), &json!("app_id")));
    assert!(double.requests().is_empty());
}
