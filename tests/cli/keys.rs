//! Which key is used, and where it may go.

use deeplink_testing::dl::{Dl, KEY, OTHER_KEY, chmod};
use deeplink_testing::double::{Double, with_links};

/// A key that shows which source it came from.
fn key(of: usize) -> String {
    format!("dl_live_{}", of.to_string().repeat(48))
}

/// The places a key can come from, in their order of precedence.
const SOURCES: [&str; 5] = ["--api-key-file", "--profile", "DL_API_KEY", "DL_API_KEY_FILE", "active profile"];

fn bearer(double: &Double) -> Option<String> {
    let requests = double.requests();
    requests.last()?.header("authorization").map(|value| value.trim_start_matches("Bearer ").to_owned())
}

/// Every combination of the five sources: the first one present wins, and `whoami` names it.
#[test]
fn the_first_source_of_the_order_wins() {
    for mask in 0..1_u32 << SOURCES.len() {
        let is = |source: usize| mask & 1 << source != 0;
        let double = with_links(1);
        let mut dl = Dl::new().env("DL_BASE_URL", &double.url);
        let mut line = "whoami -o json".to_owned();
        let file = dl.secret_file("flag.key", &key(0));
        if is(0) {
            line = format!("{line} --api-key-file {}", file.display());
        }
        if is(1) {
            dl = dl.stored("named", &double.url, &key(1));
            line.push_str(" --profile named");
        }
        if is(2) {
            dl = dl.env("DL_API_KEY", &key(2));
        }
        let file = dl.secret_file("variable.key", &format!("{}\n", key(3)));
        if is(3) {
            dl = dl.env("DL_API_KEY_FILE", &file.to_string_lossy());
        }
        if is(4) {
            dl = dl.stored("default", &double.url, &key(4));
        }
        let ran = dl.run(&line);
        // With --profile, the active profile is the one the flag names, so its key is the second source, not the last.
        let winner = (0..5).find(|&source| is(source) && !(source == 4 && is(1)));
        let Some(winner) = winner else {
            assert!(ran.fails(4).contains("\"no_key\""), "{ran}");
            assert!(double.requests().is_empty());
            continue;
        };
        assert_eq!(bearer(&double).as_deref(), Some(key(winner).as_str()), "{mask:05b}: {ran}");
        let source = ran.json()["key_source"].as_str().expect("a source").to_owned();
        let named = ["--api-key-file", "profile named", "DL_API_KEY", "DL_API_KEY_FILE", "profile default"][winner];
        assert!(source.starts_with(named), "{source} should be {named}");
        assert_eq!(ran.json()["key_prefix"], format!("{}...", &key(winner)[..18]));
        let ignored = winner == 1 && is(2);
        assert_eq!(ran.stderr.contains("DL_API_KEY is ignored"), ignored, "{ran}");
    }
}

#[test]
fn without_a_key_the_error_says_what_was_tried() {
    let dl = Dl::new().env("DL_BASE_URL", "http://127.0.0.1:1");
    let ran = dl.run("links list");
    let stderr = ran.fails(4).replace(&*dl.dir().to_string_lossy(), "HOME");
    insta::assert_snapshot!(stderr, @r"
    error[no_key]: no secret key: --api-key-file was not given, DL_API_KEY and DL_API_KEY_FILE are not set, and profile default has none in HOME/config/credentials.toml
      hint: run dl login, or set DL_API_KEY
    ");
    let ran = dl.env("DL_API_KEY", "").run("links list");
    assert!(ran.fails(4).contains("DL_API_KEY is empty"), "{ran}");
}

#[test]
fn dl_profile_only_selects() {
    let double = with_links(1);
    let dl = Dl::new().stored("one", &double.url, &key(1)).stored("two", &double.url, &key(2)).env("DL_PROFILE", "two");
    dl.run("links list").ok();
    assert_eq!(bearer(&double), Some(key(2)));
    let dl = dl.env("DL_API_KEY", &key(3));
    dl.run("links list").ok();
    assert_eq!(bearer(&double), Some(key(3)), "the variable outranks the store of a profile that no flag names");
}

#[test]
fn a_stored_key_goes_to_its_origin_only() {
    let (home, other) = (with_links(1), with_links(1));
    let dl = Dl::new().stored("default", &home.url, KEY);
    for line in ["links list", "whoami", "links get link-0000", "api GET /v1/links", "links export"] {
        let ran = dl.run(&format!("{line} --base-url {}", other.url));
        assert!(ran.fails(4).starts_with("error[origin_mismatch]: the key of profile default belongs to "), "{ran}");
    }
    assert!(other.requests().is_empty(), "no request, with or without a key");
    dl.run(&format!("links list --base-url {}/", home.url)).ok();
}

#[test]
fn keys_that_were_named_go_to_the_base_url() {
    let other = with_links(1);
    let dl = Dl::new().stored("default", "https://dl.example.com", KEY).env("DL_API_KEY", OTHER_KEY);
    dl.run(&format!("links list --base-url {}", other.url)).ok();
    assert_eq!(bearer(&other).as_deref(), Some(OTHER_KEY));
}

#[test]
fn what_cannot_be_a_key_is_refused() {
    let double = with_links(1);
    let dl = Dl::new().env("DL_BASE_URL", &double.url);
    for (text, why) in [
        ("", "no key given"),
        ("dl_live_a b", "whitespace"),
        ("dl_live_a\n\n", "whitespace"),
        ("dl_live_a\u{7}", "control characters"),
        ("pk_live_3fa91c07be5d2846a0c1e2f3948576b8d9eafc0b1c2d3e4f", "publishable key"),
    ] {
        let file = dl.secret_file("key", text);
        let ran = dl.run(&format!("links list --api-key-file {}", file.display()));
        assert!(ran.fails(3).contains(why), "{text:?}: {ran}");
        assert!(!ran.stderr.contains("3fa91c07be5d"), "{ran}");
    }
    assert!(double.requests().is_empty());
    let file = dl.secret_file("key", "another-form\r\n");
    let ran = dl.run(&format!("links list --api-key-file {}", file.display()));
    assert!(ran.stderr.contains("does not look like a key: expected dl_live_ and 48 hex digits"), "{ran}");
    assert_eq!(bearer(&double).as_deref(), Some("another-form"));
}

#[test]
fn a_key_can_be_piped_in() {
    let double = with_links(1);
    let dl = Dl::new().env("DL_BASE_URL", &double.url);
    dl.run_with("links list --api-key-file -", &format!("{KEY}\n")).ok();
    assert_eq!(bearer(&double).as_deref(), Some(KEY));
    let ran = dl.run_with("links get - --api-key-file -", KEY);
    assert!(ran.fails(2).contains("both read stdin"), "{ran}");
}

#[test]
fn key_files_of_others_are_refused() {
    let double = with_links(1);
    let dl = Dl::new().env("DL_BASE_URL", &double.url);
    let file = dl.file("open.key", KEY);
    for mode in [0o644, 0o640, 0o604, 0o660, 0o622] {
        chmod(&file, mode);
        let named = Dl::new().env("DL_BASE_URL", &double.url).env("DL_API_KEY_FILE", &file.to_string_lossy());
        for ran in [dl.run(&format!("links list --api-key-file {}", file.display())), named.run("links list")] {
            assert!(ran.fails(4).contains(&format!("chmod 600 {}", file.display())), "{mode:o}: {ran}");
        }
    }
    assert!(double.requests().is_empty());
    chmod(&file, 0o400);
    dl.run(&format!("links list --api-key-file {}", file.display())).ok();
}

#[test]
fn public_commands_need_and_send_no_key() {
    let double = Double::new(|_| deeplink_testing::double::Answer::new(200, r#"{"status":"ok"}"#));
    let dl = Dl::new().env("DL_BASE_URL", &double.url).env("DL_API_KEY", KEY);
    for line in
        ["ping", "ping --ready", "links resolve spring-42", "links resolve spring-42 --as ios", "api GET /health"]
    {
        dl.run(line);
    }
    let paths: Vec<_> = double.requests().iter().map(|request| request.path().to_owned()).collect();
    let resolved = ["/r/spring-42"; 4];
    assert_eq!(paths, [&["/health", "/ready"][..], &resolved, &["/health"]].concat(), "a page is fetched once more");
    assert!(double.requests().iter().all(|request| request.header("authorization").is_none()));
}
