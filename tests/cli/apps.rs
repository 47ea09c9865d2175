//! What the commands on apps send and say.

use serde_json::json;

use crate::dl::Dl;
use crate::double::{Answer, Double, FINGERPRINT, app};

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

#[test]
fn add_sends_what_the_flags_say_and_prints_the_id() {
    let double = willing();
    let dl = Dl::at(&double.url);
    let ios = dl.run(
        "apps add ios --bundle-id com.example.App --team-id ABCDE12345 --name Shop --icon https://example.com/i.png --theme #0a7cff",
    );
    assert_eq!((ios.ok(), ios.stderr.as_str()), ("app_0123456789abcdef01234567\n", ""));
    let android = dl.run(&format!("apps add android --package com.example.app --sha256 {FINGERPRINT} {SECOND}"));
    assert_eq!((android.ok(), android.stderr.as_str()), ("app_0123456789abcdef0123456a\n", ""));
    dl.run(&format!("apps add android --package com.example.app --sha256 {FINGERPRINT} --sha256 {SECOND}")).ok();
    dl.run(&format!("apps add android --package com.example.app --sha256 {FINGERPRINT},{SECOND}")).ok();
    let requests = double.requests();
    assert!(requests.iter().all(|request| request.line() == "POST /v1/apps"));
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
fn one_fingerprint_is_worth_a_word() {
    let ran = Dl::at(&willing().url).run(&format!("apps add android --package com.example.app --sha256 {FINGERPRINT}"));
    insta::assert_snapshot!(ran, @"
    app_0123456789abcdef0123456a
    --- stderr
    note: one fingerprint: builds from Google Play carry Play's own signature; add that one too
    ");
}

#[test]
fn a_wrong_fingerprint_is_refused_by_name_and_nothing_is_sent() {
    let double = willing();
    let dl = Dl::at(&double.url);
    let sha1 = &FINGERPRINT[..59];
    insta::assert_snapshot!(dl.run(&format!("apps add android --package com.example.app --sha256 {sha1}")), @"
    --- stderr
    error[invalid_fingerprint]: this is a SHA-1 fingerprint (20 bytes); Android verifies links by SHA-256 (32 bytes)
    --- exit 3
    ");
    insta::assert_snapshot!(dl.run(&format!("apps add android --package com.example.app --sha256 {FINGERPRINT} {sha1}")), @"
    --- stderr
    error[invalid_fingerprint]: 14:6D:E9:83:…: this is a SHA-1 fingerprint (20 bytes); Android verifies links by SHA-256 (32 bytes)
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
    insta::assert_snapshot!(dl.run("apps delete app_1"), @"
    --- stderr
    error[needs_yes]: this needs a yes: Remove the app app_1?
      hint: --yes answers it
    --- exit 2
    ");
    assert!(double.requests().is_empty());
    assert_eq!(dl.run("apps delete app_1 --yes").ok(), "app_1\n");
    assert_eq!(
        dl.run("apps delete app_1 app_2 -y -o jsonl").ok(),
        "{\"id\":\"app_1\",\"deleted\":true}\n{\"id\":\"app_2\",\"deleted\":true}\n"
    );
    assert_eq!(double.lines(), ["DELETE /v1/apps/app_1", "DELETE /v1/apps/app_1", "DELETE /v1/apps/app_2"]);
    let gone = Double::new(|_| Answer::error(404, "not_found", "there is no such app"));
    insta::assert_snapshot!(Dl::at(&gone.url).run("apps delete app_1 --yes"), @"
    --- stderr
    error[not_found]: there is no such app (HTTP 404)
      hint: dl apps list shows what this account has
      request id: req-1
    --- exit 5
    ");
}
