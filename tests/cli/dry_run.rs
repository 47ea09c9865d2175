//! `--dry-run` shows what would be sent, and sends nothing.

use deeplink_testing::dl::{Dl, KEY};
use deeplink_testing::double::{Answer, Double, SESSION, TOKEN};

#[test]
fn nothing_is_sent_by_any_command() {
    let double = Double::new(|_| Answer::new(200, "{}"));
    let dl = Dl::at(&double.url);
    dl.file("t.json", r#"{"web_url": "https://example.com"}"#);
    dl.secret_file("session.txt", SESSION);
    for (line, shown) in [
        (
            "links create https://example.com --id spring-42",
            "POST /v1/links\n{\"custom_id\":\"spring-42\",\"web_url\":\"https://example.com\"}\n",
        ),
        ("links update spring-42 --unset metadata", "PUT /v1/links/spring-42\n{\"metadata\":null}\n"),
        ("links delete spring-1", "DELETE /v1/links/spring-1\n"),
        ("links restore spring-1", "POST /v1/links/spring-1/restore\n{}\n"),
        ("links restore spring-1 --version 3", "POST /v1/links/spring-1/restore\n{\"version\":3}\n"),
        ("links delete spring-1 spring-2", "DELETE /v1/links/bulk\n{\"link_ids\":[\"spring-1\",\"spring-2\"]}\n"),
        ("links get spring-1 spring-2", "GET /v1/links/spring-1\nGET /v1/links/spring-2\n"),
        ("links list --limit 5", "GET /v1/links?limit=5\n"),
        (
            "links bulk --template t.json --count 2",
            "POST /v1/links/bulk\n{\"template\":{\"web_url\":\"https://example.com\"},\"count\":2}\n",
        ),
        ("links export", "GET /v1/links?limit=100\n"),
        ("links qr spring-42 --size 300", "GET /v1/links/spring-42/qr.png?size=300\nGET /v1/links/spring-42\n"),
        ("links qr spring-42 --show", "GET /v1/links/spring-42\n"),
        (
            "links qr a-1 b-1 --dir out --format svg --verify",
            "GET /v1/links/a-1/qr.svg\nGET /v1/links/a-1\nGET /v1/links/a-1/qr.png?size=900\n\
             GET /v1/links/b-1/qr.svg\nGET /v1/links/b-1\nGET /v1/links/b-1/qr.png?size=900\n",
        ),
        ("links resolve spring-42", "HEAD /r/spring-42\n"),
        (
            "links explain spring-42 --as curl --redirect",
            "GET /v1/links/spring-42/explain?accept=*%2F*&redirect=1&user_agent=curl%2F8.5.0\n",
        ),
        ("signup --email you@example.com", "POST /v1/auth/signup\n{\"email\":\"you@example.com\"}\n"),
        ("whoami", "GET /v1/auth/whoami\n"),
        ("billing status", "GET /v1/billing/status\n"),
        ("billing checkout pro --open", "POST /v1/billing/stripe/checkout?tier=pro\n"),
        ("billing portal", "POST /v1/billing/stripe/portal\n"),
        ("billing cancel", "POST /v1/billing/cancel\n"),
        ("login --email you@example.com", "POST /v1/auth/signin\n{\"email\":\"you@example.com\"}\n"),
        ("session signout --session-file session.txt", "POST /v1/auth/signout\n"),
        ("team list", "GET /v1/auth/users?limit=100\n"),
        ("team invite new@example.com", "POST /v1/auth/users\n{\"email\":\"new@example.com\"}\n"),
        ("team remove usr_0123456789abcdef01234567", "DELETE /v1/auth/users/usr_0123456789abcdef01234567\n"),
        ("keys list", "GET /v1/auth/secret-keys?limit=100\n"),
        ("keys request --email you@example.com", "POST /v1/auth/secret-keys\n{\"email\":\"you@example.com\"}\n"),
        ("keys issue --session-file session.txt --out-file new.txt", "POST /v1/auth/secret-keys/issue\n{}\n"),
        ("keys delete skid_0123456789abcdef01234567", "DELETE /v1/auth/secret-keys/skid_0123456789abcdef01234567\n"),
        ("pk create go.example.com -o id", "POST /v1/auth/publishable-keys\n{\"domain\":\"go.example.com\"}\n"),
        ("pk delete pkid_0123456789abcdef01234567", "DELETE /v1/auth/publishable-keys/pkid_0123456789abcdef01234567\n"),
        (
            "affiliates create --name Partner --partner-key partner",
            "POST /v1/affiliates\n{\"name\":\"Partner\",\"partner_key\":\"partner\"}\n",
        ),
        (
            "affiliates update aff_0123456789abcdef01234567 --status disabled",
            "PATCH /v1/affiliates/aff_0123456789abcdef01234567\n{\"status\":\"disabled\"}\n",
        ),
        ("affiliates delete aff_0123456789abcdef01234567", "DELETE /v1/affiliates/aff_0123456789abcdef01234567\n"),
        (
            "affiliates creds create aff_0123456789abcdef01234567 --out-file new.txt",
            "POST /v1/affiliates/aff_0123456789abcdef01234567/credentials\n",
        ),
        (
            "apps add ios --bundle-id com.example.app --team-id ABCDE12345 --name Shop",
            "POST /v1/apps\n{\"platform\":\"ios\",\"app_name\":\"Shop\",\"bundle_id\":\"com.example.app\",\"team_id\":\"ABCDE12345\"}\n",
        ),
        ("apps delete app_0123456789abcdef01234567", "DELETE /v1/apps/app_0123456789abcdef01234567\n"),
        ("domains add go.example.com", "POST /v1/domains\n{\"domain\":\"go.example.com\"}\n"),
        ("domains delete go.example.com", "DELETE /v1/domains/go.example.com\n"),
        ("domains verify go.example.com --wait 30m", "POST /v1/domains/go.example.com/verify\n"),
        ("wellknown apple --host go.example.com", "GET /.well-known/apple-app-site-association\n"),
        ("doctor --host go.example.com", "GET /health\n"),
        ("sdk click spring-42", "POST /v1/lifecycle/click\n{\"link_id\":\"spring-42\"}\n"),
        (
            "sdk identify --install install-1 --user user-7",
            "PUT /v1/lifecycle/identify\n{\"install_id\":\"install-1\",\"user_id\":\"user-7\"}\n",
        ),
        (
            "sdk convert --user user-7 --type purchase",
            "POST /v1/lifecycle/convert\n{\"user_id\":\"user-7\",\"type\":\"purchase\"}\n",
        ),
        (
            "sources create Shop --out-file new.txt",
            "POST /v1/sources\n{\"name\":\"Shop\",\"source_type\":\"custom\"}\n",
        ),
        ("sources delete src_0123456789abcdef01234567", "DELETE /v1/sources/src_0123456789abcdef01234567\n"),
        ("stats a-1 b-1", "GET /v1/analytics/stats?credit=last_touch&link_ids=a-1%2Cb-1\n"),
        ("links stats spring-42", "GET /v1/links/spring-42/stats\n"),
        ("ping", "GET /health\n"),
        ("api POST /v1/links -f a=b", "POST /v1/links\n{\"a\":\"b\"}\n"),
    ] {
        let ran = dl.run(&format!("{line} --dry-run"));
        assert_eq!(ran.ok(), shown, "{line}: {ran}");
        assert!(ran.stderr.ends_with("note: --dry-run: nothing was sent\n"), "{line}: {ran}");
    }
    assert!(double.requests().is_empty(), "{:?}", double.lines());
    assert!(!dl.dir().join("new.txt").exists(), "no file is created without a key");
}

#[test]
fn json_is_one_record_a_request() {
    let ran = Dl::at("http://127.0.0.1:1").run("links get spring-1 spring-2 -n -o json");
    assert_eq!(
        ran.ok(),
        "{\"method\":\"GET\",\"path\":\"/v1/links/spring-1\",\"body\":null}\n{\"method\":\"GET\",\"path\":\"/v1/links/spring-2\",\"body\":null}\n"
    );
}

#[test]
fn secrets_in_a_body_are_masked() {
    let ran = Dl::at("http://127.0.0.1:1").run(&format!("api POST /v1/x -f key={KEY} -n"));
    assert!(ran.ok().contains("dl_live_3fa91c07be...") && !ran.stdout.contains(KEY), "{ran}");
    let dl = Dl::at("http://127.0.0.1:1");
    let ran = dl.run_with("keys confirm --email you@example.com --code-stdin -n", "7gk2qx\n");
    assert_eq!(ran.ok(), "POST /v1/auth/secret-keys/confirm\n{\"email\":\"you@example.com\",\"token\":\"...\"}\n");
    let ran = dl.run_with("team accept --link-stdin -n", TOKEN);
    assert_eq!(ran.ok(), "POST /v1/auth/verify\ntoken=...\n");
}

#[test]
fn wrong_input_is_still_wrong() {
    Dl::at("http://127.0.0.1:1").run("links create ftp://x -n").fails(3);
}

#[test]
fn the_plan_of_an_import_reads_and_makes_nothing() {
    let double = Double::new(|_| Answer::new(200, r#"{"links":[],"next_cursor":null}"#));
    let dl = Dl::at(&double.url);
    let rows: String = (0..250)
        .map(|at| format!("same-{at},https://example.com/\n"))
        .chain((0..3).map(|at| format!("other-{at},https://example.com/{at}\n")))
        .collect();
    dl.file("links.csv", &format!("custom_id,web_url\n{rows}"));
    insta::assert_snapshot!(dl.run("links import links.csv --dry-run"), @r"
    253 rows in links.csv
      250 rows from one template, in 3 requests (POST /v1/links/bulk, template and IDs)
      3 rows without a common template, in 1 request (POST /v1/links/bulk, links; one by one if the service does not support that form)
    --- stderr
    note: --dry-run: nothing was created
    ");
    assert_eq!(double.lines(), ["GET /v1/links"]);
    assert_eq!(dl.run("links import links.csv -n -o json").json()["template_requests"], 3);
    assert_eq!(dl.run("imports list -o id").ok(), "", "a plan leaves no journal");
}
