//! The doctor's output and exit code. Each check is tested beside its code.

use serde_json::{Value, json};

use crate::server::Server;
use deeplink_testing::dl::{Dl, chmod};
use deeplink_testing::double::{Answer, Double, PUBLISHABLE, domain};

/// A service on this machine, whose hosts are unreachable.
fn service() -> Double {
    Double::new(|request| match request.path() {
        "/health" => Answer::new(200, r#"{"status":"ok"}"#),
        "/v1/apps" => Answer::new(200, "[]"),
        "/v1/domains" => Answer::json(200, &json!([domain(true)])),
        "/v1/links" => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
        _ => Answer::error(404, "not_found", "not found"),
    })
}

fn statuses(checks: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    checks.as_array().expect("checks").iter().map(|check| (text(&check["id"]), text(&check["status"]))).collect()
}

#[test]
fn an_account_on_this_machine_has_nothing_to_mend() {
    let double = service();
    let dl = Dl::at(&double.url);
    let ran = dl.run("doctor");
    insta::with_settings!({filters => vec![
        (r"http://127\.0\.0\.1:\d+", "http://HERE"), (r"\d+ ms", "N ms"), ("\t", "<TAB>"),
    ]}, {
        insta::assert_snapshot!(ran, @"
        skip<TAB>config.files<TAB>default<TAB>no configuration file: all settings come from flags and environment variables<TAB>
        ok<TAB>config.key<TAB>default<TAB>dl_live_3fa91c07be... from DL_API_KEY, read in N ms<TAB>
        skip<TAB>config.pk<TAB>default<TAB>DL_PUBLISHABLE_KEY is not set<TAB>
        ok<TAB>service.http<TAB>http://HERE<TAB>responds in N ms<TAB>
        skip<TAB>service.tls<TAB>http://HERE<TAB>plain http<TAB>
        skip<TAB>service.clock<TAB>http://HERE<TAB>the service does not report its time<TAB>
        ok<TAB>account.key<TAB>http://HERE<TAB>accepted, for the whole account<TAB>
        ok<TAB>account.domain<TAB>http://HERE<TAB>verified: go.example.com<TAB>
        skip<TAB>domain.txt, domain.route, domain.tls, domain.robots, aasa.origin, aasa.cdn, assetlinks.origin, assetlinks.google<TAB>go.example.com<TAB>the service is only reachable on this machine: to check a host, use a publicly reachable one, or --connect-to go.example.com=IP:PORT<TAB>
        skip<TAB>app.alternate<TAB>iOS<TAB>the account has no iOS app<TAB>
        --- stderr

        4 ok, 0 warnings, 0 failed, 13 skipped
        ");
    });
    let seen = double.requests();
    assert!(seen.iter().all(|request| request.method == "GET"), "{:?}", double.lines());
}

#[test]
fn json_is_an_array_and_jsonl_a_line_a_check() {
    let double = service();
    let dl = Dl::at(&double.url);
    let ran = dl.run("doctor -o json");
    let checks = ran.json();
    assert_eq!(ran.stderr, "");
    assert!(
        ran.stdout.starts_with("[{\"id\":\"config.files\",\"subject\":\"default\",\"status\":\"skip\",\"message\":"),
        "{ran}"
    );
    assert_eq!(dl.run("doctor -o jsonl").ok().lines().count(), checks.as_array().expect("checks").len());
    assert!(dl.run("doctor -o csv").ok().starts_with("id,subject,status,message,fix\r\n"));
}

#[test]
fn a_failed_check_is_exit_1_after_all_have_run() {
    let double = Double::new(|_| Answer::error(401, "invalid_key", "the key is not known"));
    let dl = Dl::at(&double.url);
    let ran = dl.run("doctor -o json");
    assert_eq!(ran.code, Some(1), "{ran}");
    let checks = serde_json::from_str(&ran.stdout).expect("checks");
    let statuses = statuses(&checks);
    let of = |id: &str| statuses.iter().find(|(known, _)| known == id).map(|(_, status)| status.as_str());
    assert_eq!(
        (of("service.http"), of("account.key"), of("account.domain")),
        (Some("fail"), Some("fail"), Some("skip"))
    );
    assert_eq!(ran.error()["code"], "checks_failed");
    assert_eq!(ran.error()["message"], "2 of 8 checks failed");
}

#[test]
fn without_a_key_or_a_service_it_says_so_and_goes_on() {
    let double = service();
    let no_key = Dl::new().env("DL_BASE_URL", &double.url).run("doctor");
    assert!(no_key.code == Some(1) && no_key.stdout.contains("fail\tconfig.key\tdefault\tno secret key"), "{no_key}");
    assert!(no_key.stdout.contains("ok\tservice.http") && no_key.stdout.contains("skip\taccount.key"), "{no_key}");
    let nothing = Dl::new().run("doctor");
    assert!(
        nothing.code == Some(1) && nothing.stdout.contains("fail\tservice.http\tdefault\tno service is configured"),
        "{nothing}"
    );
}

#[test]
fn a_directory_that_others_may_enter_is_a_warning() {
    let double = service();
    let dl = Dl::new().stored("default", &double.url, deeplink_testing::dl::KEY);
    let dir = dl.config("");
    chmod(&dir, 0o755);
    let ran = dl.run("doctor");
    assert!(ran.ok().contains("warn\tconfig.files") && ran.stdout.contains("chmod 700"), "{ran}");
    chmod(&dir, 0o700);
    assert!(dl.run("doctor").ok().contains("ok\tconfig.files"));
}

/// A publishable key is tried with a report that the service refuses, so nothing is counted.
#[test]
fn a_publishable_key_is_tried_without_reporting() {
    for (status, code, verdict) in [
        (400, "bad_request", "ok"),
        (401, "invalid_key", "fail"),
        (404, "not_found", "skip"),
        (500, "internal", "warn"),
    ] {
        let double = Double::new(move |request| match request.path() {
            "/v1/lifecycle/click" => Answer::error(status, code, "no"),
            "/v1/apps" | "/v1/domains" => Answer::new(200, "[]"),
            "/v1/links" => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
            _ => Answer::new(200, r#"{"status":"ok"}"#),
        });
        let dl = Dl::at(&double.url).env("DL_PUBLISHABLE_KEY", PUBLISHABLE);
        let ran = dl.run("doctor -o json -vv");
        let checks = serde_json::from_str(&ran.stdout).expect("checks");
        assert!(statuses(&checks).contains(&("config.pk".to_owned(), verdict.to_owned())), "{ran}");
        assert!(!ran.to_string().contains(&PUBLISHABLE[20..]), "{ran}");
        let tried: Vec<_> = double.requests().into_iter().filter(|request| request.method != "GET").collect();
        assert_eq!(tried.len(), 1, "once, whatever the answer");
        assert_eq!((tried[0].line().as_str(), tried[0].body.as_str()), ("POST /v1/lifecycle/click", "{}"));
    }
}

/// No part of the key is in its output, on either stream.
#[test]
fn the_key_is_not_shown() {
    let double = service();
    let ran = Dl::at(&double.url).run("doctor -vv");
    assert!(!ran.to_string().contains(&deeplink_testing::dl::KEY[20..]), "{ran}");
}

/// In a table, checks that are skipped for the same reason are one line per host; scripts get one record per check.
#[test]
fn what_is_skipped_alike_shares_a_line_in_a_table_only() {
    let double = service();
    let dl = Dl::at(&double.url);
    let hosts = "doctor --host go.example.com --host www.example.com";
    let of_host = |lines: &str, host: &str| lines.lines().filter(|line| line.contains(host)).count();
    let table = dl.run(hosts).ok().to_owned();
    let (csv, jsonl) = (dl.run(&format!("{hosts} -o csv")), dl.run(&format!("{hosts} -o jsonl")));
    let fields = dl.run(&format!("{hosts} --fields id,subject,status"));
    for host in ["go.example.com", "www.example.com"] {
        let lines: Vec<_> = table.lines().filter(|line| line.contains(&format!("\t{host}\t"))).collect();
        assert_eq!(lines.len(), 1, "{table}");
        assert!(lines[0].ends_with(&format!("--connect-to {host}=IP:PORT\t")), "{table}");
        assert_eq!(of_host(csv.ok(), &format!(",{host},")), 8, "{csv}");
        assert_eq!(of_host(jsonl.ok(), &format!("\"subject\":\"{host}\"")), 8, "{jsonl}");
        assert_eq!(of_host(fields.ok(), host), 8, "{fields}");
    }
}

/// The doctor understands the pages of a real service, with each URL as it is stored.
#[test]
fn the_pages_of_the_service_are_as_the_doctor_wants_them() {
    let server = Server::start();
    let dl = server.user("you");
    dl.run(
        "links create https://example.com/p/42?a=1&b=2 --id spring-42 --ios shop://p/42?a=1&b=2 \
         --android shop://p/42?a=1&b=2 --android-store https://play.google.com/store/apps/details?id=com.example.app",
    )
    .ok();
    let looked = dl.run("doctor --link spring-42 -o jsonl");
    let found: Vec<Value> = looked.ok().lines().map(|line| serde_json::from_str(line).expect("a check")).collect();
    let found: Vec<_> =
        found.iter().filter(|check| check["id"] == "link.resolve").map(|check| &check["message"]).collect();
    assert_eq!(
        found,
        [
            "iPhone: page with button to shop://p/42?a=1&b=2 (D2)",
            "Android: page with button to intent://p/42?a=1&b=2#Intent;scheme=shop;package=com.example.app;\
             S.browser_fallback_url=https%3A%2F%2Fplay.google.com%2\u{2026} (D7)",
            "desktop: page with button to https://example.com/p/42?a=1&b=2 (D13)",
            "facebookexternalhit: page with button to https://example.com/p/42?a=1&b=2 (D13)",
            "JSON: active",
        ],
        "{looked}"
    );
}
