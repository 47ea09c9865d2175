//! `dl links resolve`: what it asks, of whom, and what it says of the answer.

use deeplink_testing::dl::Dl;
use serde_json::json;

use crate::links::willing;
use deeplink_testing::double::{Answer, Double, Nobody};

/// A link as programs see it.
fn resolved(status: &str) -> Answer {
    Answer::json(
        200,
        &json!({
            "link_id": "spring-42", "web_url": "https://example.com/p/42",
            "_service_meta": {
                "source": "tenant_asserted", "status": status, "tenant_domain": null, "tenant_verified": false,
            },
        }),
    )
}

#[test]
fn resolve_asks_with_head_and_follows_nothing() {
    let double = Double::new(|request| match request.path() {
        _ if request.header("accept") == Some("application/json") => resolved("active"),
        _ => Answer::new(302, "").header("location", "https://example.com/p/42"),
    });
    let dl = Dl::at(&double.url);
    assert_eq!(dl.run("links resolve spring-42").ok(), "302\thttps://example.com/p/42\n");
    assert_eq!(
        dl.run("links resolve spring-42 --as ios -o json").ok(),
        "{\"link_id\":\"spring-42\",\"status\":302,\"location\":\"https://example.com/p/42\"}\n"
    );
    dl.run("links resolve spring-42 --as android").ok();
    let counted = dl.run("links resolve spring-42 --as json");
    assert!(counted.ok().contains("status\tactive\n") && counted.stderr.contains("counted as a click"), "{counted}");
    dl.run("links resolve spring-42 --host go.example.com").ok();
    let requests = double.requests();
    let methods: Vec<&str> = requests.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["HEAD", "HEAD", "HEAD", "GET", "HEAD"]);
    let agent = |at: usize| requests[at].header("user-agent").unwrap_or_default();
    assert!(
        agent(0).contains("X11; Linux")
            && agent(1).contains("iPhone")
            && agent(2).contains("Android")
            && agent(3).starts_with("dl/")
    );
    assert_eq!((requests[4].path(), requests[4].header("host")), ("/spring-42", Some("go.example.com")));
    assert!(requests.iter().all(|request| request.header("authorization").is_none()));
}

/// A landing page and a notice have the same status and no destination: a prefetch, which counts no click,
/// distinguishes them, and stdout stays the same.
#[test]
fn resolve_tells_a_page_from_a_notice() {
    let double = Double::new(|request| match request.path() {
        "/r/gone" => Answer::new(410, "").header("content-type", "text/html"),
        path if request.method == "GET" => resolved(if path == "/r/page" { "active" } else { "flagged" }),
        _ => Answer::new(200, "").header("content-type", "text/html"),
    });
    let dl = Dl::at(&double.url);
    let shown = |line: &str| dl.run(line).to_string().replace('\t', "<TAB>");
    insta::assert_snapshot!(shown("links resolve gone"), @"
    410<TAB>
    --- stderr
    note: notice: the link is expired or disabled
    ");
    insta::assert_snapshot!(shown("links resolve page --as android"), @"
    200<TAB>
    --- stderr
    note: page: a landing page, with no single destination
    ");
    insta::assert_snapshot!(shown("links resolve flagged"), @"
    200<TAB>
    --- stderr
    note: notice: the link was flagged as unsafe and does not redirect
    ");
    let requests = double.requests();
    assert_eq!(double.lines(), ["HEAD /r/gone", "HEAD /r/page", "GET /r/page", "HEAD /r/flagged", "GET /r/flagged"]);
    for at in [2, 4] {
        assert_eq!(requests[at].header("sec-purpose"), Some("prefetch"));
    }
    assert_eq!(
        shown("links resolve flagged -q -o json"),
        "{\"link_id\":\"flagged\",\"status\":200,\"location\":null}\n"
    );
    assert_eq!(shown("links resolve flagged --fields status,shows"), "200<TAB>notice\n");
    assert_eq!(shown("links resolve gone --fields status,shows"), "410<TAB>notice\n");
    assert_eq!(shown("links resolve page --fields shows -o json"), "{\"shows\":\"page\"}\n");
}

#[test]
fn resolve_says_which_link_is_not_there() {
    let double = Double::new(|_| Answer::error(404, "not_found", "not found"));
    let dl = Dl::at(&double.url);
    insta::with_settings!({filters => vec![("http://[0-9.:]+", "http://HOST"), ("request id: .*", "request id: ID")]}, {
        insta::assert_snapshot!(dl.run("links resolve nope"), @r#"
        --- stderr
        error[not_found]: no link "nope" at http://HOST (HTTP 404)
          hint: IDs are case-sensitive; dl links list shows the links of the account
          request id: ID
        --- exit 5
        "#);
        insta::assert_snapshot!(dl.run("links resolve nope --host go.example.com"), @r#"
        --- stderr
        error[not_found]: no link "nope" at go.example.com (HTTP 404)
          hint: check that go.example.com is verified and the link is on it: dl domains list, dl links list
          request id: ID
        --- exit 5
        "#);
        insta::assert_snapshot!(dl.run(&format!("links resolve {}/nope", double.url)), @"
        --- stderr
        error[not_found]: no link at http://HOST/nope (HTTP 404)
          hint: IDs are case-sensitive; dl links list shows the links of the account
          request id: ID
        --- exit 5
        ");
    });
    let error = dl.run("links resolve nope --as json -o json").error();
    assert_eq!((&error["code"], &error["status"]), (&json!("not_found"), &json!(404)));
}

#[test]
fn resolve_of_an_address_goes_there_and_nowhere_else() {
    let (service, elsewhere) =
        (willing(), Double::new(|_| Answer::new(302, "").header("location", "https://example.com/")));
    let dl = Dl::at(&service.url);
    dl.run(&format!("links resolve {}/spring-42", elsewhere.url)).ok();
    assert_eq!(elsewhere.only().line(), "HEAD /spring-42");
    assert!(service.requests().is_empty());
    dl.run("links resolve http://example.com/r/spring-42").fails(3);
    dl.run(&format!("links resolve {}/spring-42 --host go.example.com", elsewhere.url)).fails(2);
}

#[test]
fn resolve_names_the_host_that_could_not_be_asked() {
    let (service, reset) = (willing(), Double::new(|_| Answer::reset()));
    let nobody = Nobody::at_a_port();
    let nobody = &nobody.url;
    let dl = Dl::at(&service.url).env("DL_RETRIES", "0");
    let ran = dl.run(&format!("links resolve {nobody}/spring-42"));
    assert!(ran.fails(9).starts_with(&format!("error[cannot_connect]: cannot connect to {nobody}: ")), "{ran}");
    assert!(ran.stderr.contains("hint: check the URL, its DNS and the network\n"), "{ran}");
    let ran = dl.run(&format!("links resolve {}/spring-42", reset.url));
    assert!(ran.fails(9).contains(&format!("the connection to {} was lost", reset.url)), "{ran}");
    let ran = dl.run("links resolve https://nowhere.localhost:1/spring-42 --as ios");
    assert!(ran.fails(9).contains("cannot connect to https://nowhere.localhost:1: "), "{ran}");
    assert!(!ran.stderr.contains("--base-url"), "{ran}");
    assert!(service.requests().is_empty());
}
