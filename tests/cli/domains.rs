//! What the commands on domains send and print.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, Request, TOKEN, domain, verification};

fn willing() -> Double {
    Double::new(|request| match request.line().as_str() {
        "POST /v1/domains" => Answer::json(201, &domain(false)),
        "POST /v1/domains/go.example.com/verify" => Answer::json(200, &verification(None)),
        "PATCH /v1/domains/go.example.com" => Answer::json(200, &domain(false)),
        "DELETE /v1/domains/go.example.com" => Answer::new(204, ""),
        "GET /v1/domains" => Answer::json(200, &json!([domain(false), domain(true)])),
        _ => Answer::error(404, "not_found", "there is no such domain"),
    })
}

#[test]
fn add_prints_the_domain_and_the_records_to_copy() {
    let double = willing();
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("domains add go.example.com"), @"
    go.example.com
    --- stderr

    create these two DNS records (name, then value):

      TXT    _deeplink-verify.go.example.com
             3fa91c07be5d28463fa91c07be5d28463fa91c07be5d28463fa91c07be5d2846

      CNAME  go.example.com
             links.example.com

    then: dl domains verify go.example.com --wait 30m
    ");
    dl.run("domains add go.example.com --role alternate").ok();
    let bodies: Vec<_> = double.requests().iter().map(Request::json).collect();
    assert_eq!(bodies, [json!({"domain": "go.example.com"}), json!({"domain": "go.example.com", "role": "alternate"})]);
    let quiet = dl.run("domains add go.example.com -q");
    assert_eq!((quiet.ok(), quiet.stderr.as_str()), ("go.example.com\n", ""));
    let record = dl.run("domains add go.example.com -o json");
    assert_eq!((&record.json()["verification_token"], record.stderr.as_str()), (&json!(TOKEN), ""));
    assert_eq!(
        dl.run("domains add go.example.com --fields txt_record,cname_target -o csv").ok(),
        "txt_record,cname_target\r\n_deeplink-verify.go.example.com,links.example.com\r\n"
    );
}

#[test]
fn where_the_service_has_no_name_no_cname_is_asked_for() {
    let shown = |target: &'static str| {
        let double = Double::new(move |_| {
            let mut made = domain(false);
            made["cname_target"] = target.into();
            Answer::json(201, &made)
        });
        Dl::at(&double.url).run("domains add go.example.com")
    };
    insta::assert_snapshot!(shown("192.0.2.7"), @"
    go.example.com
    --- stderr

    create these two DNS records (name, then value):

      TXT    _deeplink-verify.go.example.com
             3fa91c07be5d28463fa91c07be5d28463fa91c07be5d28463fa91c07be5d2846

      A      go.example.com
             192.0.2.7

    then: dl domains verify go.example.com --wait 30m
    ");
    assert!(shown("[2001:db8::7]").stderr.contains("  AAAA   go.example.com\n         2001:db8::7\n"));
    insta::assert_snapshot!(shown("127.0.0.1"), @"
    go.example.com
    --- stderr

    create this DNS record (name, then value):

      TXT    _deeplink-verify.go.example.com
             3fa91c07be5d28463fa91c07be5d28463fa91c07be5d28463fa91c07be5d2846

    no DNS record can route visitors to 127.0.0.1, the public host of the service: its operator must set a publicly
    reachable name with --public-url or DEEPLINK_CNAME_TARGET

    then: dl domains verify go.example.com --wait 30m
    to try out a domain on this machine: dl domains add shop.localhost
    ");
}

#[test]
fn a_local_name_needs_no_record() {
    let double = Double::new(|_| {
        let mut made = domain(true);
        made["domain"] = "shop.localhost".into();
        Answer::json(201, &made)
    });
    insta::assert_snapshot!(Dl::at(&double.url).run("domains add shop.localhost"), @"
    shop.localhost
    --- stderr

    shop.localhost is verified: names under .localhost always resolve to this machine, so no DNS records are needed

    to create a link on it: dl links create https://example.com/
    ");
}

#[test]
fn update_changes_only_what_is_named() {
    let double = willing();
    let dl = Dl::at(&double.url);
    let both = "--root-url https://www.example.com --not-found-url https://www.example.com/help";
    insta::assert_snapshot!(dl.run(&format!("domains update GO.example.com. {both}")).to_string().replace('\t', "<TAB>"), @"
    domain<TAB>go.example.com
    role<TAB>primary
    verified<TAB>false
    created_at<TAB>2026-11-20T09:30:00.000Z
    txt_record<TAB>_deeplink-verify.go.example.com
    verification_token<TAB>3fa91c07be5d28463fa91c07be5d28463fa91c07be5d28463fa91c07be5d2846
    cname_target<TAB>links.example.com
    root_url<TAB>
    not_found_url<TAB>
    long_links<TAB>false
    allowed_hosts<TAB>
    --- stderr
    note: go.example.com is not verified, so visitors are not redirected yet
    ");
    dl.run("domains update go.example.com --unset root_url").ok();
    dl.run("domains update go.example.com --root-url https://www.example.com --unset not-found-url").ok();
    let hosts = "--allowed-host www.example.com --allowed-host apps.apple.com";
    dl.run(&format!("domains update go.example.com --long-links true {hosts}")).ok();
    dl.run("domains update go.example.com --long-links false --unset allowed_hosts").ok();
    let bodies: Vec<_> = double.requests().iter().map(Request::json).collect();
    let root = "https://www.example.com";
    assert_eq!(
        bodies,
        [
            json!({"root_url": root, "not_found_url": "https://www.example.com/help"}),
            json!({"root_url": null}),
            json!({"root_url": root, "not_found_url": null}),
            json!({"long_links": true, "allowed_hosts": ["www.example.com", "apps.apple.com"]}),
            json!({"long_links": false, "allowed_hosts": null}),
        ]
    );
    for (line, code, what) in [
        ("domains update go.example.com", 2, "nothing to change"),
        (
            "domains update go.example.com --root-url https://a.example.com --unset root_url",
            2,
            "root_url is both set and unset",
        ),
        ("domains update go.example.com --unset role", 2, "role"),
        (
            "domains update go.example.com --allowed-host a.example.com --unset allowed_hosts",
            2,
            "allowed_hosts is both set and unset",
        ),
        ("domains update go.example.com --allowed-host https://a.example.com", 3, "allowed_hosts[0]"),
        ("domains update go.example.com --root-url www.example.com", 3, "root_url: not an absolute URL"),
        ("domains update 'bad domain' --unset root_url", 3, "not a host name"),
    ] {
        let ran = dl.run(line);
        assert!(ran.fails(code).contains(what), "{line}: {ran}");
    }
    assert_eq!(double.requests().len(), 5, "nothing of these is sent");
    let missing = dl.run("domains update www.example.com --unset root_url");
    assert!(missing.fails(5).contains("dl domains list shows the account's domains"), "{missing}");
}

#[test]
fn what_is_no_domain_is_refused_and_nothing_is_sent() {
    let double = willing();
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("domains verify 'bad domain'"), @"
    --- stderr
    error[invalid_domain]: not a host name: use letters, digits and hyphens, at most 63 characters per label and 253 in total
    --- exit 3
    ");
    insta::assert_snapshot!(dl.run("domains add ab--cd.io"), @r#"
    --- stderr
    error[invalid_domain]: "ab--cd": hyphens in the third and fourth positions are reserved for internationalized names
    --- exit 3
    "#);
    for line in
        ["domains verify 'bad domain'", "domains delete 'bad domain' --yes", "domains delete https://go.example.com"]
    {
        let ran = dl.run(&format!("{line} -o json"));
        assert_eq!((ran.code, &ran.error()["field"]), (Some(3), &json!("domain")), "{line}: {ran}");
    }
    assert!(double.requests().is_empty());
}

#[test]
fn a_domain_that_is_taken_says_what_to_do() {
    for (code, hint) in
        [("domain_taken", "dl domains list shows your domains"), ("alternate_limit", "one verified alternate")]
    {
        let double = Double::new(move |_| Answer::error(409, code, "no"));
        let ran = Dl::at(&double.url).run("domains add go.example.com");
        assert!(ran.fails(6).contains(hint), "{ran}");
    }
}

#[test]
fn a_list_shows_what_still_waits() {
    let dl = Dl::at(&willing().url);
    let listed = dl.run("domains list");
    insta::assert_snapshot!(listed.to_string().replace('\t', "<TAB>"), @"
    go.example.com<TAB>primary<TAB>false<TAB>2026-11-20T09:30:00.000Z<TAB><TAB>
    go.example.com<TAB>primary<TAB>true<TAB>2026-11-20T09:30:00.000Z<TAB>https://www.example.com/<TAB>
    --- stderr
    note: go.example.com is not verified; to see why: dl domains verify go.example.com
    ");
    assert_eq!(dl.run("domains list -o json").json()[0], domain(false));
    assert_eq!(dl.run("domains list -o id").ok(), "go.example.com\ngo.example.com\n");
    assert_eq!(
        dl.run("domains list -o csv").ok().lines().next(),
        Some(
            "domain,role,verified,created_at,txt_record,verification_token,cname_target,root_url,not_found_url,long_links,allowed_hosts"
        )
    );
}

#[test]
fn verify_shows_what_was_found() {
    let dl = Dl::at(&willing().url);
    insta::assert_snapshot!(dl.run("domains verify go.example.com").to_string().replace('\t', "<TAB>"), @r#"
    domain<TAB>go.example.com
    verified<TAB>true
    checked_at<TAB>2026-11-20T09:30:00.000Z
    txt_found<TAB>["3fa91c07be5d28463fa91c07be5d28463fa91c07be5d28463fa91c07be5d2846"]
    reason<TAB>
    "#);
    insta::assert_snapshot!(dl.run("domains verify www.example.com"), @"
    --- stderr
    error[not_found]: there is no such domain (HTTP 404)
      hint: dl domains list shows the account's domains
      request id: req-1
    --- exit 5
    ");
}

const MISSING: &str = "there is no TXT record at _deeplink-verify.go.example.com";

#[test]
fn what_is_not_verified_is_12_with_the_reason() {
    let double = Double::new(|_| Answer::json(200, &verification(Some(MISSING))));
    let dl = Dl::at(&double.url);
    let ran = dl.run("domains verify go.example.com -o json");
    assert_eq!(ran.code, Some(12));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&ran.stdout).expect("the answer")["verified"], false);
    let error = ran.error();
    assert_eq!(error["code"], "domain_not_verified");
    assert_eq!(error["message"], format!("go.example.com is not verified: {MISSING}"));
    insta::assert_snapshot!(dl.run("domains verify go.example.com"), @"
    --- stderr
    error[domain_not_verified]: go.example.com is not verified: there is no TXT record at _deeplink-verify.go.example.com
      hint: dl domains verify go.example.com --wait 30m keeps checking
    --- exit 12
    ");
}

#[test]
fn verify_shows_what_dns_has_and_what_it_needs() {
    let double = Double::new(|request| match request.line().as_str() {
        "GET /v1/domains" => Answer::json(200, &json!([domain(false)])),
        _ => {
            let mut looked =
                verification(Some("no TXT value at _deeplink-verify.go.example.com is the verification token"));
            looked["txt_found"] = json!(["v=spf1 -all", TOKEN[1..]]);
            Answer::json(200, &looked)
        }
    });
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("domains verify GO.example.com."), @"
    --- stderr

    current TXT values at _deeplink-verify.go.example.com:

      v=spf1 -all
      fa91c07be5d28463fa91c07be5d28463fa91c07be5d28463fa91c07be5d2846

    required DNS record (name, then value):

      TXT    _deeplink-verify.go.example.com
             3fa91c07be5d28463fa91c07be5d28463fa91c07be5d28463fa91c07be5d2846

    error[domain_not_verified]: go.example.com is not verified: no TXT value at _deeplink-verify.go.example.com is the verification token
      hint: dl domains verify go.example.com --wait 30m keeps checking
    --- exit 12
    ");
    let waited = dl.run("domains verify go.example.com --wait 1s");
    assert_eq!(
        waited.fails(12).matches("current TXT values at").count(),
        1,
        "known values are not printed again: {waited}"
    );
    assert_eq!(dl.run("domains verify go.example.com -q").stderr.lines().count(), 2);
    let before = double.requests().len();
    let ran = dl.run("domains verify go.example.com -o json");
    assert_eq!((ran.code, ran.stderr.lines().count(), double.requests().len() - before), (Some(12), 1, 1), "{ran}");
}

#[test]
fn wait_goes_on_looking_until_it_is_there() {
    let looks = AtomicUsize::new(0);
    let double = Double::new(move |_| match looks.fetch_add(1, Ordering::Relaxed) {
        0 => Answer::json(200, &verification(Some(MISSING))),
        _ => Answer::json(200, &verification(None)),
    });
    let start = Instant::now();
    let ran = Dl::at(&double.url).run("domains verify go.example.com --wait 1s -o id");
    assert_eq!(ran.ok(), "go.example.com\n");
    assert!(start.elapsed() >= Duration::from_millis(900), "the last check is at the end of the wait");
    assert!(ran.stderr.starts_with("go.example.com is not verified yet: there is no TXT record"), "{ran}");
    let keys: Vec<_> =
        double.requests().iter().map(|request| request.header("idempotency-key").map(str::to_owned)).collect();
    assert!(keys.len() == 2 && keys[0].is_some() && keys[0] != keys[1], "each check is a new request: {keys:?}");
}

#[test]
fn a_wait_that_runs_out_is_12() {
    let double = Double::new(|_| Answer::json(200, &verification(Some(MISSING))));
    let ran = Dl::at(&double.url).run("domains verify go.example.com --wait 1s");
    assert!(ran.fails(12).ends_with("shows the required DNS record\n"), "{ran}");
    let looks = double.lines().iter().filter(|line| line.starts_with("POST ")).count();
    assert_eq!((looks, double.requests().len()), (2, 3), "the needed records are requested once");
}

#[test]
fn a_service_that_is_away_for_a_moment_does_not_end_the_wait() {
    let looks = AtomicUsize::new(0);
    let double = Double::new(move |_| match looks.fetch_add(1, Ordering::Relaxed) {
        0 => Answer::error(503, "database_unavailable", "away").header("retry-after", "0"),
        _ => Answer::json(200, &verification(None)),
    });
    let dl = Dl::at(&double.url).env("DL_RETRIES", "0");
    dl.run("domains verify go.example.com --wait 1s").ok();
    assert_eq!(double.requests().len(), 2);
}

#[test]
fn delete_needs_a_yes_and_says_what_is_lost() {
    let double = willing();
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("domains delete go.example.com"), @"
    --- stderr
    error[needs_yes]: confirmation needed: go.example.com will be deleted; if it is verified, all URLs on it will stop working immediately.
      hint: use --yes to confirm
    --- exit 2
    ");
    assert!(double.requests().is_empty());
    assert_eq!(dl.run("domains delete GO.EXAMPLE.COM. --yes").ok(), "go.example.com\n");
    assert_eq!(
        dl.run("domains delete go.example.com --yes -o json").ok(),
        "{\"id\":\"go.example.com\",\"deleted\":true}\n"
    );
}
