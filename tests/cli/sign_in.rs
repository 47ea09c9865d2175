//! Signing in by mail, step by step, and what each step does when it fails.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::screen::Screen;
use crate::signals::{send, wait_for};
use deeplink_testing::dl::{Dl, KEY, OTHER_KEY, mode};
use deeplink_testing::double::{
    Answer, Double, PUBLISHABLE, Request, SESSION, TOKEN, me, of_people, see_other, signed_up_with,
};

/// The steps of a sign-in, in order.
const STEPS: [&str; 6] = [
    "POST /v1/auth/signin",
    "POST /v1/auth/callback",
    "GET /v1/auth/me",
    "POST /v1/auth/secret-keys/issue",
    "GET /v1/links",
    "POST /v1/auth/signout",
];

/// A service where every step works, except those that `answer` overrides.
pub(crate) fn service(answer: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static) -> Double {
    Double::new(move |request| {
        answer(request).or_else(|| of_people(request)).unwrap_or_else(|| match request.line().as_str() {
            "GET /v1/links" => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
            line if line.starts_with("DELETE ") => Answer::new(204, ""),
            _ => Answer::error(404, "not_found", "there is nothing"),
        })
    })
}

fn login(double: &Double) -> String {
    format!("login --email you@example.com --link-stdin --base-url {}", double.url)
}

fn link(double: &Double) -> String {
    format!("{}/v1/auth/callback?token={TOKEN}\n", double.url)
}

fn kept(dl: &Dl) -> String {
    std::fs::read_to_string(dl.config("credentials.toml")).unwrap_or_default()
}

#[test]
fn the_mailed_link_becomes_a_key() {
    let double = service(|_| None);
    for text in [link(&double), format!("{TOKEN}\n"), format!("  {TOKEN}")] {
        let (dl, before) = (Dl::new(), double.requests().len());
        let ran = dl.run_with(&login(&double), &text);
        assert_eq!(ran.ok(), "");
        let place = dl.config("credentials.toml");
        let end = format!(
            "Signed in as you@example.com; key dl_live_7777777777... in {} (profile default)\n",
            place.display()
        );
        assert!(ran.stderr.ends_with(&end), "{ran}");
        assert!(
            ran.stderr.starts_with("email sent to you@example.com; waiting for its link on stdin\nwarning: no keyring"),
            "{ran}"
        );
        let requests = double.requests().split_off(before);
        assert_eq!(requests.iter().map(Request::line).collect::<Vec<_>>(), STEPS);
        assert_eq!(requests[0].json(), serde_json::json!({"email": "you@example.com"}));
        assert_eq!(requests[1].body, format!("token={TOKEN}"));
        assert_eq!(requests[3].body, "{}");
        let (cookie, bearer) = (format!("session_token={SESSION}"), format!("Bearer {OTHER_KEY}"));
        for (at, request) in requests.iter().enumerate() {
            assert_eq!(
                request.header("cookie"),
                [2, 3, 5].contains(&at).then_some(cookie.as_str()),
                "{}",
                request.line()
            );
            assert_eq!(request.header("authorization"), (at == 4).then_some(bearer.as_str()), "{}", request.line());
            assert_eq!(request.header("idempotency-key").is_some(), [3, 5].contains(&at), "{}", request.line());
            assert!(request.header("origin").is_none());
        }
        assert_eq!((dl.run("token").ok(), mode(&place)), (format!("{OTHER_KEY}\n").as_str(), 0o600));
        assert_eq!(dl.run("config get active_profile").ok(), "default\n");
    }
    let ran = Dl::new().run_with(&format!("{} -o json --store file", login(&double)), &link(&double));
    assert_eq!(ran.json()["key_prefix"], "dl_live_7777777777...");
}

/// The token of a link goes only to the service that sent it.
#[test]
fn a_link_of_another_origin_is_not_followed() {
    let (double, relay) = (service(|_| None), service(|_| None));
    for text in [link(&relay), link(&relay).replace("127.0.0.1", "localhost"), link(&double).replace("http:", "https:")]
    {
        let (dl, before) = (Dl::new(), double.requests().len());
        let ran = dl.run_with(&login(&double), &text);
        assert!(ran.fails(3).contains("error[foreign_link]: the link leads to "), "{ran}");
        assert!(!ran.stderr.contains(TOKEN));
        assert_eq!(double.lines().split_off(before), ["POST /v1/auth/signin"]);
        assert_eq!(kept(&dl), "");
    }
    assert!(relay.requests().is_empty());
    for text in ["", "\n", "nonsense", &format!("{}/v1/auth/verify?token={TOKEN}", double.url)] {
        let ran = Dl::new().run_with(&login(&double), text);
        assert!(ran.fails(3).contains("error[not_a_link]: this is "), "{text:?}: {ran}");
    }
    assert!(!double.lines().contains(&"POST /v1/auth/callback".to_owned()));
}

/// Each failure has its code; a session that was started is ended; nothing is stored.
#[test]
fn each_step_fails_in_its_own_way() {
    type Case = (&'static str, fn() -> Answer, i32, &'static str, usize);
    let cases: [Case; 11] = [
        (
            STEPS[0],
            || Answer::error(429, "rate_limited", "slow down").header("retry-after", "99"),
            8,
            "try again in 99 s",
            1,
        ),
        (
            STEPS[0],
            || Answer::error(503, "sessions_not_configured", "no mail"),
            9,
            "use dl login --with-key if you have a key",
            1,
        ),
        (
            STEPS[1],
            || see_other("/signin?error=link_expired", None),
            4,
            "error[link_refused]: the link has expired, was already used",
            2,
        ),
        (
            STEPS[1],
            || see_other("/signin?error=invalid_request", None),
            4,
            "error[link_refused]: the service did not accept",
            2,
        ),
        (STEPS[1], || Answer::new(200, "<html>").header("content-type", "text/html"), 1, "error[unexpected_answer]", 2),
        (
            STEPS[2],
            || Answer::json(200, &me("other@example.com")),
            4,
            "error[another_person]: the link was not sent to you@example.com",
            4,
        ),
        (STEPS[2], || Answer::error(401, "unauthorized", "no session"), 4, "dl login emails a new link", 4),
        (STEPS[3], || Answer::error(409, "key_limit", "5 keys are enough"), 6, "/account, or with another key", 5),
        (STEPS[3], || Answer::error(503, "secret_keys_not_configured", "no"), 9, "no (HTTP 503)", 5),
        (STEPS[3], || Answer::new(201, "{}"), 1, "error[unexpected_answer]", 5),
        (STEPS[4], || Answer::error(500, "internal", "no"), 9, "no (HTTP 500)", 6),
    ];
    for (step, answer, code, says, requests) in cases {
        let double = service(move |request| (request.line() == step).then(answer));
        let dl = Dl::new().env("DL_RETRIES", "0");
        let ran = dl.run_with(&login(&double), &link(&double));
        assert!(ran.fails(code).contains(says), "{step}: {ran}");
        assert_eq!(ran.stdout, "");
        let began = requests > 2;
        assert_eq!(double.requests().len(), requests, "{step}: {:?}", double.lines());
        assert_eq!(double.lines().last().is_some_and(|line| line == STEPS[5]), began, "{step}");
        assert_eq!(kept(&dl).contains(OTHER_KEY), step == STEPS[4], "{step}");
        for secret in [TOKEN, SESSION, OTHER_KEY] {
            assert!(!ran.stderr.contains(&secret[20..]), "{step}: {ran}");
        }
    }
}

#[test]
fn a_session_that_cannot_be_ended_is_a_warning() {
    let answers: [fn() -> Answer; 2] =
        [|| Answer::error(500, "internal", "no"), || Answer::new(204, "").after(Duration::from_secs(30))];
    for answer in answers {
        let double = service(move |request| (request.line() == STEPS[5]).then(answer));
        let start = Instant::now();
        let ran = Dl::new().env("DL_RETRIES", "0").run_with(&login(&double), &link(&double));
        assert!(ran.ok().is_empty() && ran.stderr.contains("warning: the session could not be ended"), "{ran}");
        assert!(start.elapsed() < Duration::from_secs(25), "the end of a session is not waited for");
    }
}

/// The key is only in one answer: if it cannot be stored it is printed, once, and the session ends.
#[test]
fn a_key_that_cannot_be_stored_is_printed_and_the_session_ends() {
    let dl = Dl::new();
    let in_the_way = dl.config("credentials.toml");
    let double = service(move |request| {
        if request.line() == STEPS[3] {
            std::fs::create_dir_all(&in_the_way).expect("something in the way");
        }
        None
    });
    let ran = dl.run_with(&login(&double), &link(&double));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), format!("{OTHER_KEY}\n").as_str()), "{ran}");
    assert!(
        ran.stderr.contains("it is printed above and will not be shown again") && !ran.stderr.contains(OTHER_KEY),
        "{ran}"
    );
    assert_eq!(double.lines().last().map(String::as_str), Some(STEPS[5]));
}

#[test]
fn wrong_input_and_a_missing_terminal_send_nothing() {
    let double = service(|_| None);
    let at = |line: &str| format!("{line} --base-url {}", double.url);
    let dl = Dl::new();
    for (line, code, says) in [
        (at("login --email nobody --link-stdin"), 3, "error[invalid_email]"),
        (at("login --email you@example.com"), 2, "use --link-stdin to read it from stdin"),
        (at("login"), 2, "use --link-stdin to read it from stdin"),
        (at("login --link-stdin"), 2, "--email is required"),
        (at("login --with-key --email you@example.com"), 2, "cannot be used with"),
        (
            at("login --email you@example.com --link-stdin --api-key-file key"),
            2,
            "to store the key from the file, use dl login --with-key",
        ),
        (at("team accept"), 2, "use --link-stdin to read it from stdin"),
        (at("keys confirm --email you@example.com"), 2, "use --code-stdin to read it from stdin"),
        ("login --email you@example.com --link-stdin".to_owned(), 2, "no service is configured"),
    ] {
        let ran = dl.run(&line);
        assert!(ran.fails(code).contains(says), "{line}: {ran}");
    }
    assert!(double.requests().is_empty(), "{:?}", double.lines());
}

/// P1: during a sign-in, no process argument contains the link, the session or the key; P2: and only the owner can read
/// the stored files.
#[test]
fn p1_no_argument_holds_what_a_sign_in_brings() {
    const CODE: &str = "7GK2QX";
    let double = service(|request| {
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            assert!(
                ![TOKEN, SESSION, OTHER_KEY, CODE, PUBLISHABLE].iter().any(|secret| line.contains(secret)),
                "an argument holds it"
            );
        }
        (request.path() == "/v1/auth/signup").then(|| signed_up_with(OTHER_KEY))
    });
    let dl = Dl::new();
    dl.run_with(&login(&double), &link(&double)).ok();
    assert_eq!(double.requests().len(), STEPS.len());
    dl.secret_file("session.txt", SESSION);
    for line in [
        "keys rotate --email you@example.com --code-stdin",
        "keys confirm --email you@example.com --code-stdin",
        "keys issue --session-file session.txt",
        "session me --session-file session.txt",
        "pk create go.example.com",
        "affiliates creds create aff_0123456789abcdef01234567",
    ] {
        dl.run_with(line, CODE).ok();
    }
    dl.run(&format!("signup --email you@example.com --profile second --store file --base-url {}", double.url)).ok();
    let invitation = format!("{}/v1/auth/verify?token={TOKEN}\n", double.url);
    dl.run_with("team accept --link-stdin", &invitation).ok();
    for (name, wanted) in [("", 0o700), ("config.toml", 0o600), ("credentials.toml", 0o600)] {
        assert_eq!(mode(&dl.config(name)), wanted, "{name}");
    }
    assert!(!std::fs::read_to_string(dl.config("config.toml")).expect("a file").contains(&OTHER_KEY[18..]));
}

#[test]
fn nothing_of_a_sign_in_is_shown_at_any_verbosity() {
    let double = service(|_| None);
    for line in [login(&double), format!("{} -o json", login(&double))] {
        let ran = Dl::new().run_with(&format!("{line} -vv"), &link(&double));
        ran.ok();
        assert!(ran.stderr.contains("> cookie: [hidden]") && ran.stderr.contains("< set-cookie: [hidden]"), "{ran}");
        for secret in [TOKEN, SESSION, OTHER_KEY] {
            assert!(!ran.to_string().contains(&secret[20..]), "{ran}");
        }
    }
}

/// On a terminal the link is pasted without echo, and a wrong one may be replaced, twice.
#[test]
fn a_link_is_pasted_unseen_and_may_be_pasted_again() {
    let double = service(|request| {
        let spent = request.line() == STEPS[1] && !request.body.contains(TOKEN);
        spent.then(|| see_other("/signin?error=link_expired", None))
    });
    let other = TOKEN.replace('3', "4");
    let question = "Paste the sign-in link here (do not press Continue in the browser): ";
    let screen = Screen::open(Dl::new(), &format!("login --base-url {}", double.url));
    screen.wait_for("Email address: ");
    screen.send("you@example.com\n");
    for (at, text) in [(1, "half a link"), (2, other.as_str()), (3, link(&double).trim_end())] {
        screen.wait_for_times(at, question);
        screen.send(&format!("{text}\n"));
    }
    let (code, text) = screen.end();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("two more tries") && text.contains("one more try"), "{text}");
    let sent = "Email sent.\nIf this is your own server and it has no SMTP settings, the email is a file in\nthe directory set with --mail-dir (by default, mail/ in the data directory).\n";
    let text = text.replace('\r', "");
    assert_eq!(text.matches(sent).count(), 1, "{text}");
    assert_eq!(text.matches("Email sent").count(), 1, "said once: {text}");
    assert!(text.contains("Signed in as you@example.com; key dl_live_7777777777... in "), "{text}");
    for secret in ["half a link", &other, TOKEN, SESSION, &OTHER_KEY[20..]] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(double.lines().iter().filter(|line| *line == STEPS[1]).count(), 2, "half a link was not sent");
}

#[test]
fn an_empty_key_is_no_key() {
    let double = service(|_| None);
    let screen = Screen::open(Dl::new(), &format!("login --with-key --base-url {}", double.url));
    screen.wait_for("Secret key for ");
    screen.send("\n");
    let (code, text) = screen.end();
    assert!(code == Some(3) && text.contains("no key given"), "{code:?} {text}");
    assert!(double.requests().is_empty());
}

#[test]
fn ctrl_c_ends_a_sign_in_and_its_session() {
    let double = service(|_| None);
    let screen = Screen::open(Dl::new(), &format!("login --email you@example.com --base-url {}", double.url));
    screen.wait_for("Paste the sign-in link");
    screen.send("\u{3}");
    assert_eq!(screen.end().0, Some(130));
    assert_eq!(double.lines(), ["POST /v1/auth/signin"], "no session was started");

    // In the middle of a step, after the session began.
    let double =
        service(|request| (request.line() == STEPS[2]).then(|| Answer::new(200, "{}").after(Duration::from_mins(1))));
    let dl = Dl::new();
    let mut command = dl.command(&login(&double));
    let input = dl.secret_file("link.txt", &link(&double));
    command.stdin(std::fs::File::open(input).expect("a file")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("dl starts");
    wait_for("the step is under way", || double.lines().contains(&STEPS[2].to_owned()));
    send(&child, "-INT");
    let output = child.wait_with_output().expect("dl ends");
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(double.lines().last().map(String::as_str), Some(STEPS[5]));
    assert_eq!(kept(&dl), "");
}

#[test]
fn an_invitation_is_accepted_with_its_link() {
    let double = service(|_| None);
    let dl = Dl::new().env("DL_BASE_URL", &double.url);
    let invitation = format!("{}/v1/auth/verify?token={TOKEN}\n", double.url);
    let ran = dl.run_with("team accept --link-stdin", &invitation);
    assert!(ran.ok().is_empty() && ran.stderr.starts_with("you are now a member of the team"), "{ran}");
    assert_eq!(dl.run_with("team accept --link-stdin -o json", &invitation).json()["status"], "accepted");
    let request = &double.requests()[0];
    assert_eq!(
        (request.line().as_str(), request.body.as_str()),
        ("POST /v1/auth/verify", format!("token={TOKEN}").as_str())
    );
    assert!(request.header("authorization").is_none());
    assert!(dl.run_with("team accept --link-stdin", &link(&double)).fails(3).contains("use it with dl login"));
    let refusing = service(|_| Some(see_other("https://example.com/signin?error=invite_invalid", None)));
    let ran = Dl::new().env("DL_BASE_URL", &refusing.url).run_with("team accept --link-stdin", TOKEN);
    assert!(ran.fails(4).starts_with("error[link_refused]: the link has expired"), "{ran}");
}

/// A new key for a user with their own session has the same answer and needs the same care.
#[test]
fn a_session_of_a_browser_is_of_use_too() {
    let double = service(|_| None);
    let dl = Dl::new().env("DL_BASE_URL", &double.url);
    let file = dl.secret_file("session.txt", &format!("{SESSION}\n"));
    assert_eq!(dl.run("session me --session-file session.txt -o id").ok(), "usr_0123456789abcdef01234567\n");
    assert!(dl.run("session me --session-file session.txt").ok().contains("you@example.com"));
    assert_eq!(dl.run("keys issue --session-file session.txt").ok(), format!("{OTHER_KEY}\n"));
    assert_eq!(dl.run_with("session signout --session-file - -o json", SESSION).json()["status"], "signed_out");
    for request in double.requests() {
        assert_eq!(request.header("cookie"), Some(format!("session_token={SESSION}").as_str()));
        assert!(request.header("authorization").is_none());
    }
    let before = double.requests().len();
    deeplink_testing::dl::chmod(&file, 0o644);
    assert!(dl.run("session me --session-file session.txt").fails(4).contains("chmod 600"));
    for text in ["", "nonsense", KEY, &SESSION[1..]] {
        let ran = dl.run_with("session me --session-file -", text);
        assert!(ran.fails(3).contains("64 hex digits"), "{text}: {ran}");
    }
    assert_eq!(double.requests().len(), before);
}

/// A key typed instead of an address is an error with a hint.
#[test]
fn a_key_in_place_of_an_address_is_told_where_it_goes() {
    let double = service(|_| None);
    let screen = Screen::open(Dl::new(), &format!("login --base-url {}", double.url));
    screen.wait_for("Email address: ");
    screen.send(&format!("{KEY}\n"));
    let (code, text) = screen.end();
    assert!(code == Some(3) && text.contains("dl login --with-key reads it without echo"), "{text}");
    let screen = Screen::open(Dl::new(), "login");
    screen.wait_for("Base URL of the service: ");
    screen.send(&format!("{KEY}\n"));
    let (code, text) = screen.end();
    assert!(code == Some(2) && text.contains("dl login --with-key reads it without echo"), "{text}");
    assert!(double.requests().is_empty());
}

/// An expired session is not blamed on a key.
#[test]
fn a_session_that_has_ended_is_no_matter_of_keys() {
    let double = service(|_| Some(Answer::error(401, "unauthorized", "no session")));
    let dl = Dl::new().env("DL_BASE_URL", &double.url);
    dl.secret_file("session.txt", SESSION);
    for line in ["session me", "session signout", "keys issue"] {
        let ran = dl.run(&format!("{line} --session-file session.txt"));
        assert!(ran.fails(4).contains("the session has ended") && !ran.stderr.contains("dl whoami"), "{line}: {ran}");
    }
}
