//! No secret is accepted as an argument, and none is sent or printed where it does not belong.

use crate::help::leaves;
use deeplink_testing::dl::{Dl, KEY, words};
use deeplink_testing::double::{Answer, Double};

/// P1: no flag takes a secret value. Flags that sound like it take a file.
#[test]
fn p1_no_flag_takes_a_secret_value() {
    for leaf in leaves() {
        let help = Dl::new().run(&format!("{leaf} --help-all"));
        for line in help.ok().lines().filter(|line| line.trim_start().starts_with('-')) {
            let flags: Vec<&str> =
                line.split_whitespace().take_while(|word| word.starts_with(['-', '<', '['])).collect();
            let secret = flags
                .iter()
                .any(|flag| ["key", "token", "secret", "password", "auth"].iter().any(|word| flag.contains(word)));
            let harmless = [
                "--api-key-file",
                "--from-api-key-file",
                "--secret-file",
                "--with-key",
                "--auth",
                "--partner-key",
                "--idempotency-key",
            ]
            .iter()
            .any(|known| flags.contains(known));
            assert!(!secret || harmless, "{leaf}: {line}");
        }
    }
}

/// P1: while a command runs with a key from a file, the environment or stdin, no process argument holds it.
#[test]
fn p1_the_command_line_never_holds_the_key() {
    // Used by this test only: others run concurrently, and some pass theirs as an argument.
    const OWN: &str = "dl_live_b1c2d3e4f5a6978869504132231405f6e7d8c9bab1c2d3e4";
    let double = Double::new(|request| {
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&line).contains(OWN), "an argument holds the key");
        }
        if request.path() == "/v1/auth/whoami" {
            return Answer::error(404, "not_found", "no such route");
        }
        Answer::new(200, r#"{"links":[],"next_cursor":null}"#)
    });
    let dl = Dl::new().env("DL_BASE_URL", &double.url);
    let file = dl.secret_file("key", OWN);
    dl.run(&format!("whoami --api-key-file {}", file.display())).ok();
    dl.run_with("login --with-key", OWN).ok();
    Dl::at(&double.url).env("DL_API_KEY", OWN).run("whoami").ok();
    let probes = double.lines().iter().filter(|line| *line == "GET /v1/links").count();
    assert_eq!(probes, 3);
}

#[test]
fn a_key_typed_as_an_argument_is_not_repeated() {
    let dl = Dl::new().env("DL_BASE_URL", "http://127.0.0.1:1");
    for line in [
        format!("login {KEY}"),
        format!("login --with-key {KEY}"),
        format!("--api-key {KEY} links list"),
        format!("links list --base-url https://{KEY}@example.com"),
        format!("api GET /v1/links -H 'Authorization: Bearer {KEY}'"),
        format!("links list -o json --fields {KEY}"),
        format!("help {KEY}"),
        format!("profile use {KEY}"),
        format!("api GET {KEY}"),
    ] {
        let ran = dl.run(&line);
        assert_eq!(ran.code, Some(2), "{line}: {ran}");
        assert!(!ran.to_string().contains(&KEY[20..]), "{line}: {ran}");
    }
}

/// At `-vv` and on every failure path, neither stream contains the key, and its headers are shown as hidden.
#[test]
fn no_output_holds_a_key_at_any_verbosity() {
    let answers: [fn(&str) -> Answer; 6] = [
        |_| Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
        |sent| Answer::error(401, "invalid_key", &format!("the key {sent} is unknown")),
        |sent| Answer::error(500, "internal", &format!("you sent {sent}")),
        |sent| Answer::new(502, format!("<html>{sent}")),
        |_| Answer::reset(),
        |sent| Answer::new(200, format!("not json {sent}")),
    ];
    for (at, answer) in answers.into_iter().enumerate() {
        let double = Double::new(move |request| {
            let sent = request.header("authorization").unwrap_or_default().trim_start_matches("Bearer ").to_owned();
            answer(&sent).header("x-echo", &sent).header("set-cookie", "session_token=0123456789abcdef0123456789abcdef")
        });
        for key in [KEY, "an-unusual-key-0123456789abcdef"] {
            for line in
                ["links list -vv", "links list -vv -o json", "links create https://example.com -v", "links export -vv"]
            {
                let ran = Dl::at(&double.url).env("DL_API_KEY", key).env("DL_RETRIES", "1").run(line);
                let stderr = &ran.stderr;
                assert!(!stderr.contains(&key[20..]) && !stderr.contains("0123456789abcdef0123"), "{at} {line}: {ran}");
                assert!(!line.contains("-vv") || stderr.contains("> authorization: [hidden]"), "{at} {line}: {ran}");
            }
        }
    }
}

/// P4: a redirect is not followed, to any origin or scheme, so the key stays with the service.
#[test]
fn p4_the_key_follows_no_redirect() {
    let other = Double::new(|_| Answer::new(200, "{}"));
    let targets = [
        format!("{}/v1/links", other.url),
        "https://example.com/".into(),
        "http://example.com/".into(),
        "/v1/links/elsewhere".into(),
    ];
    for status in [301, 302, 303, 307, 308] {
        for target in targets.clone() {
            let double = Double::new(move |_| Answer::new(status, "").header("location", &target));
            for line in [
                "links get spring-42",
                "links qr spring-42 -q",
                "links create https://example.com",
                "links delete spring-42",
                "api GET /v1/links",
                "whoami",
                "links list",
            ] {
                assert_eq!(Dl::at(&double.url).run(line).code, Some(1), "{status} {line}");
            }
            let requests = double.requests();
            assert_eq!(requests.len(), 7);
            assert!(requests.iter().all(|request| !request.path().contains("elsewhere")));
        }
    }
    assert!(other.requests().is_empty(), "nothing reached the other origin, with a key or without");
}

/// P4: `http://` is for loopback only, whether the address comes from a flag, a variable or the configuration.
#[test]
fn p4_plain_http_is_for_loopback_only() {
    for address in ["http://example.com", "http://10.0.0.1:8080", "http://localhost.example.com"] {
        let of_flag = Dl::new().env("DL_API_KEY", KEY).run(&format!("links list --base-url {address}"));
        let of_variable = Dl::at(address).run("links list");
        let of_profile = Dl::new().env("DL_API_KEY", KEY).stored("default", address, KEY).run("links list");
        for ran in [of_flag, of_variable, of_profile] {
            assert!(ran.fails(2).contains("http:// would expose your key to the network; use https://"), "{ran}");
        }
    }
}

#[test]
fn token_prints_the_key_for_a_pipe() {
    let dl = Dl::at("https://dl.example.com");
    assert_eq!(dl.run("token").ok(), format!("{KEY}\n"));
}

#[test]
fn a_shell_line_is_split_as_a_shell_does() {
    assert_eq!(words(r#"a 'b c' "d \" e" '' f"g"h"#), ["a", "b c", "d \" e", "", "fgh"]);
}
