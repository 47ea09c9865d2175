//! Replacing the stored key.

use crate::sign_in::service;
use deeplink_testing::dl::{Dl, KEY, OTHER_KEY};
use deeplink_testing::double::Answer;

/// A whole rotation: a code, a new key that is stored and tried, and the old one deleted with it.
#[test]
fn a_key_is_rotated() {
    let double = service(|_| None);
    let dl = Dl::new().stored("default", &double.url, KEY);
    let ran = dl.run_with("keys rotate --email you@example.com --code-stdin", "7gk2qx\n");
    assert_eq!(ran.ok(), "skid_000000000000000000000002\n");
    assert!(ran.stderr.contains("code emailed to you@example.com"), "{ran}");
    assert!(ran.stderr.ends_with("; dl_live_3fa91c07be... deleted\n"), "{ran}");
}

#[test]
fn a_rotation_that_stops_leaves_a_key_that_works() {
    let delete = "DELETE /v1/auth/secret-keys/skid_000000000000000000000001";
    let line = "keys rotate --email you@example.com --code-stdin";
    for (step, answer, code, new) in [
        ("POST /v1/auth/secret-keys", Answer::error(409, "key_limit", "no"), 6, false),
        ("POST /v1/auth/secret-keys", Answer::error(403, "not_a_member", "no"), 4, false),
        ("POST /v1/auth/secret-keys/confirm", Answer::error(400, "invalid_code", "no"), 3, false),
        ("POST /v1/auth/secret-keys/confirm", Answer::error(429, "too_many_attempts", "no"), 8, false),
        ("GET /v1/links", Answer::error(500, "internal", "no"), 9, true),
        (delete, Answer::error(500, "internal", "no"), 9, true),
    ] {
        let double = service(move |request| (request.line() == step).then(|| answer.clone()));
        let dl = Dl::new().env("DL_RETRIES", "0").stored("default", &double.url, KEY);
        let ran = dl.run_with(line, "7GK2QX");
        assert_eq!(ran.code, Some(code), "{step}: {ran}");
        assert_eq!(dl.run("token").ok().trim_end(), if new { OTHER_KEY } else { KEY }, "{step}");
        let says = "the new key is stored; the old one, dl_live_3fa91c07be..., still works: delete it with dl keys delete skid_000000000000000000000001";
        assert_eq!(ran.stderr.contains(says), new, "{step}: {ran}");
    }
    // A code has already been mailed.
    let double = service(|request| {
        let asks = request.line() == "POST /v1/auth/secret-keys";
        let gone = request.method == "DELETE";
        asks.then(|| Answer::error(429, "request_pending", "wait").header("retry-after", "1"))
            .or_else(|| gone.then(|| Answer::new(204, "")))
    });
    let dl = Dl::new().stored("default", &double.url, KEY);
    let ran = dl.run_with(line, "7GK2QX");
    assert!(
        ran.ok().starts_with("skid_")
            && ran
                .stderr
                .contains("note: enter the code that was already emailed, unless five wrong attempts invalidated it"),
        "{ran}"
    );
    let last = double.requests().into_iter().next_back().expect("a request");
    assert_eq!(
        (last.line().as_str(), last.header("authorization")),
        (delete, Some(format!("Bearer {OTHER_KEY}").as_str()))
    );
    // A key from elsewhere would be read from there again.
    let ran = Dl::at(&double.url).run_with(line, "7GK2QX");
    assert!(ran.fails(2).contains("the key comes from DL_API_KEY, where dl cannot replace it"), "{ran}");
}
