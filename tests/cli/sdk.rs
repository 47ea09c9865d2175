//! `dl sdk`: what is sent, with which key, and what is printed.

use serde_json::json;

use crate::reports::{EVENT, converted, service};
use deeplink_testing::dl::{Dl, KEY, OTHER_KEY};
use deeplink_testing::double::{Answer, Double, PUBLISHABLE};

const ATTRIBUTE: &str = "sdk attribute spring-42 --install install-1 --app-version 2.4.0";
const IDENTIFY: &str = "sdk identify --install install-1 --user user-7";
const CONVERT: &str = "sdk convert --user user-7 --type purchase";

#[test]
fn what_is_reported_is_what_was_said() {
    let double = service();
    let dl = Dl::at(&double.url).env("DL_PUBLISHABLE_KEY", PUBLISHABLE);
    for (line, path, body) in [
        ("sdk click spring-42".to_owned(), "POST /v1/lifecycle/click", json!({"link_id": "spring-42"})),
        (
            ATTRIBUTE.to_owned(),
            "POST /v1/lifecycle/attribute",
            json!({"link_id": "spring-42", "install_id": "install-1", "app_version": "2.4.0"}),
        ),
        (
            format!(
                "{ATTRIBUTE} --os iOS --os-version 18.1 --device-model iPhone17,1 --device-manufacturer Apple \
                 --locale en-GB --platform ios --region GB --timezone Europe/London"
            ),
            "POST /v1/lifecycle/attribute",
            json!({"link_id": "spring-42", "install_id": "install-1", "app_version": "2.4.0", "context": {
                "os": "iOS", "os_version": "18.1", "device_model": "iPhone17,1", "device_manufacturer": "Apple",
                "locale": "en-GB", "platform": "ios", "region": "GB", "timezone": "Europe/London",
            }}),
        ),
        (IDENTIFY.to_owned(), "PUT /v1/lifecycle/identify", json!({"install_id": "install-1", "user_id": "user-7"})),
        (CONVERT.to_owned(), "POST /v1/lifecycle/convert", json!({"user_id": "user-7", "type": "purchase"})),
        (
            format!(
                "{CONVERT} --amount-cents -4200 --currency EUR --idempotency-key order-1 --meta a=1 --meta b=x=y \
                 --occurred-at 2026-11-01T00:30:00+02:00"
            ),
            "POST /v1/lifecycle/convert",
            json!({
                "user_id": "user-7", "type": "purchase", "amount_cents": -4200, "currency": "EUR",
                "idempotency_key": "order-1", "metadata": {"a": "1", "b": "x=y"},
                "occurred_at": "2026-10-31T22:30:00.000Z",
            }),
        ),
        (
            format!("{CONVERT} --meta-json '{{\"n\": 1.50}}'"),
            "POST /v1/lifecycle/convert",
            json!({"user_id": "user-7", "type": "purchase", "metadata": {"n": 1.50}}),
        ),
    ] {
        dl.run(&line).ok();
        let request = double.requests().pop().expect("a request");
        assert_eq!((request.line().as_str(), request.json()), (path, body), "{line}");
        assert_eq!(request.header("authorization"), Some(format!("Bearer {PUBLISHABLE}").as_str()), "{line}");
        assert_eq!(request.header("idempotency-key").is_some(), request.method == "POST", "{line}");
        assert!(!request.target.contains('?'), "no URL contains a key: {line}");
    }
}

#[test]
fn what_is_said_of_it_can_be_read_by_people_and_scripts() {
    let dl = |double: &Double| Dl::at(&double.url);
    let double = service();
    insta::assert_snapshot!(dl(&double).run("sdk click spring-42 -o csv --fields link_id,platform,web_url"), @r"
    link_id,platform,web_url
    spring-42,ios,https://example.com/
    ");
    assert_eq!(dl(&double).run("sdk click spring-42 -o id").ok(), "spring-42\n");
    assert_eq!(dl(&double).run("sdk click spring-42 -o json").json()["_service_meta"]["status"], "active");
    assert_eq!(dl(&double).run(ATTRIBUTE).ok(), "success\ttrue\n");
    assert_eq!(dl(&double).run(&format!("{IDENTIFY} -o json")).ok(), "{\"success\":true}\n");
    for (what, code, said) in [
        ("accepted", 0, ""),
        ("deduped", 0, "note: already recorded with this idempotency key: nothing was stored\n"),
        (
            "unattributed",
            0,
            "note: user user-7 has no install yet; the conversion is credited once dl sdk identify binds one\n",
        ),
    ] {
        let ran = dl(&Double::new(move |_| converted(what))).run(CONVERT);
        assert_eq!((ran.code, ran.stdout, ran.stderr.as_str()), (Some(code), format!("{EVENT}\n"), said), "{what}");
    }
    let full = dl(&Double::new(|_| converted("failed"))).run(CONVERT);
    assert!(full.fails(7).starts_with("error[quota_exceeded]: monthly event limit reached"), "{full}");
    assert_eq!(full.stdout, "");
    let full = dl(&Double::new(|_| converted("failed"))).run(&format!("{CONVERT} -o json"));
    assert!(full.code == Some(7) && full.stdout.contains("\"failed\":1") && full.error()["code"] == "quota_exceeded");
}

/// The publishable key if one is set, else the secret one; a flag outranks the environment.
#[test]
fn the_publishable_key_comes_first() {
    let double = service();
    let key_of = |dl: &Dl, line: &str| {
        dl.run(line).ok();
        let request = double.requests().pop().expect("a request");
        (request.line(), request.header("authorization").unwrap_or_default().trim_start_matches("Bearer ").to_owned())
    };
    let secret = Dl::at(&double.url);
    let both = Dl::at(&double.url).env("DL_PUBLISHABLE_KEY", PUBLISHABLE);
    let file = Dl::at(&double.url);
    let path = file.secret_file("pk.txt", &format!("{PUBLISHABLE}\n"));
    let file = file.env("DL_PUBLISHABLE_KEY_FILE", &path.to_string_lossy());
    for line in ["sdk click spring-42", ATTRIBUTE, IDENTIFY, CONVERT] {
        assert_eq!(key_of(&secret, line).1, KEY, "{line}");
        assert_eq!(key_of(&both, line).1, PUBLISHABLE, "{line}");
        assert_eq!(key_of(&file, line).1, PUBLISHABLE, "{line}");
        both.secret_file("key.txt", OTHER_KEY);
        assert_eq!(key_of(&both, &format!("{line} --api-key-file key.txt")).1, OTHER_KEY, "{line}");
    }
    for (line, asked, key) in [
        ("sdk click spring-42", "POST /v1/attribution/click", PUBLISHABLE),
        (ATTRIBUTE, "POST /v1/attribution/report", PUBLISHABLE),
        (IDENTIFY, "PUT /v1/attribution/link", KEY),
    ] {
        assert_eq!(key_of(&both, &format!("{line} --legacy")), (asked.to_owned(), key.to_owned()), "{line}");
    }
}

#[test]
fn the_earlier_form_has_no_use_for_another_key() {
    let double = service();
    let dl = Dl::at(&double.url);
    for line in ["sdk click spring-42 --legacy", &format!("{ATTRIBUTE} --legacy")] {
        let ran = dl.run(line);
        assert!(ran.fails(4).starts_with("error[no_key]: no publishable key"), "{ran}");
        assert!(ran.says("hint: dl pk create go.example.com creates one"), "{ran}");
    }
    let odd = Dl::at(&double.url).env("DL_PUBLISHABLE_KEY", KEY).run("sdk click spring-42");
    assert!(odd.code == Some(3) && !odd.to_string().contains(&KEY[18..]), "{odd}");
    let dl = dl.env("DL_PUBLISHABLE_KEY", PUBLISHABLE);
    assert!(dl.run(&format!("{ATTRIBUTE} --legacy --os iOS")).fails(2).contains("does not accept device flags"));
    assert!(double.requests().is_empty());
    let refused = Double::new(|_| Answer::error(401, "invalid_key", "the key is not known"));
    let ran = Dl::at(&refused.url).env("DL_PUBLISHABLE_KEY", PUBLISHABLE).run("sdk click spring-42 -vv");
    assert!(ran.fails(4).contains("dl pk list shows the account's keys"), "{ran}");
    assert!(!ran.stderr.contains(&PUBLISHABLE[20..]), "{ran}");
}

#[test]
fn wrong_input_is_3_and_nothing_is_sent() {
    let double = service();
    let dl = Dl::at(&double.url);
    let long = "u".repeat(256);
    for (line, code) in [
        ("sdk click ab".to_owned(), "invalid_id"),
        ("sdk click https://go.example.com/spring-42".to_owned(), "invalid_id"),
        ("sdk attribute spring-42 --install ' ' --app-version 1".to_owned(), "bad_request"),
        (format!("{ATTRIBUTE} --locale {long}"), "bad_request"),
        (format!("sdk identify --install i --user {long}"), "bad_request"),
        ("sdk convert --user u --type ''".to_owned(), "parse_error"),
        (format!("{CONVERT} --amount-cents 5"), "parse_error"),
        (format!("{CONVERT} --amount-cents 5 --currency usd"), "parse_error"),
        (format!("{CONVERT} --amount-cents 9007199254740992 --currency EUR"), "parse_error"),
        (format!("{CONVERT} --meta-json []"), "parse_error"),
        (format!("{CONVERT} --meta-json nope"), "invalid_metadata"),
        (format!("{CONVERT} --meta a={}", "x".repeat(1_024)), "parse_error"),
        (format!("{CONVERT} --occurred-at 401d"), "parse_error"),
        (format!("{CONVERT} --occurred-at 9999-01-01"), "parse_error"),
    ] {
        let ran = dl.run(&line);
        assert!(ran.fails(3).starts_with(&format!("error[{code}]: ")), "{line}: {ran}");
    }
    for line in [
        "sdk",
        "sdk click",
        "sdk attribute spring-42 --install i",
        "sdk convert --user u",
        &format!("{CONVERT} --occurred-at yesterday"),
        &format!("{CONVERT} --meta a"),
        &format!("{CONVERT} --amount-cents 1.5 --currency EUR"),
        "sdk convert --user u --type t --legacy",
    ] {
        assert_eq!(dl.run(line).code, Some(2), "{line}");
    }
    assert!(double.requests().is_empty(), "{:?}", double.lines());
}

#[test]
fn each_refusal_has_its_code_and_hint() {
    for (line, status, code, exit, hint) in [
        (IDENTIFY, 409, "identify_conflict", 6, "remains bound to its first user"),
        (ATTRIBUTE, 404, "not_found", 5, "dl links list"),
        (CONVERT, 400, "parse_error", 3, ""),
        (CONVERT, 429, "rate_limited", 8, "try again in 500 s"),
    ] {
        let double = Double::new(move |_| Answer::error(status, code, "no").header("retry-after", "500"));
        let ran = Dl::at(&double.url).env("DL_RETRIES", "0").run(line);
        assert!(ran.fails(exit).starts_with(&format!("error[{code}]: no (HTTP {status})")), "{line}: {ran}");
        assert!(ran.stderr.contains(hint), "{line}: {ran}");
    }
}
