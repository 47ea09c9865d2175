//! What a sign-in does with a key that the profile has already: it may be the only one of its account.

use crate::sign_in::service;
use crate::terminal::Screen;
use deeplink_testing::dl::{Dl, KEY, OTHER_KEY};
use deeplink_testing::double::{Answer, Double, TOKEN, whoami, with_links};

const ISSUE: &str = "POST /v1/auth/secret-keys/issue";

fn kept(dl: &Dl) -> String {
    std::fs::read_to_string(dl.config("credentials.toml")).unwrap_or_default()
}

fn login(double: &Double) -> String {
    format!("login --email you@example.com --link-stdin --base-url {}", double.url)
}

fn link(double: &Double) -> String {
    format!("{}/v1/auth/callback?token={TOKEN}\n", double.url)
}

/// No request makes a key or mails a link.
fn nothing_began(requests: &[String]) -> bool {
    !requests.iter().any(|line| line.starts_with("POST"))
}

/// A key that `dl login` did not create is not replaced where nobody can be asked: not by a mailed link, not by another
/// key, and not by a sign-in to another service. The remedy works.
#[test]
fn a_key_from_elsewhere_is_not_replaced() {
    let by_mail = |double: &Double| (login(double), link(double), "you");
    let by_key = |double: &Double, key: &str| {
        (format!("login --with-key --base-url {}", double.url), key.to_owned(), "127-0-0-1")
    };
    for case in 0..5 {
        let (first, other) = (service(|_| None), service(|_| None));
        let (base, (line, input, name)) = match case {
            0 => (&first, by_mail(&first)),
            1 => (&first, (format!("{} --yes", login(&first)), link(&first), "you")),
            2 => (&first, by_key(&first, OTHER_KEY)),
            3 => (&other, by_mail(&other)),
            _ => (&other, by_key(&other, KEY)),
        };
        let dl = Dl::new().stored("default", &first.url, KEY);
        dl.run("profile use default").ok();
        let before = kept(&dl);
        let ran = dl.run_with(&line, &input);
        let what = "error[profile_in_use]: profile default already has the key dl_live_3fa91c07be... of \
                    tnt_0123456789abcdef01234567, you@example.com at ";
        assert!(ran.fails(2).contains(what), "{line}: {ran}");
        assert!(ran.stderr.contains(&format!("use --profile {name} to store the new key")), "{line}: {ran}");
        assert!(nothing_began(&base.lines()) && kept(&dl) == before, "{line}: {:?}", base.lines());
        dl.run_with(&format!("{line} --profile {name}"), &input).ok();
        assert!(kept(&dl).contains(KEY), "{line}");
        assert_eq!(
            dl.run("profile list -o id").ok(),
            if name == "you" { "default\nyou\n" } else { "127-0-0-1\ndefault\n" }
        );
        assert_eq!(dl.run("config get active_profile").ok(), "default\n", "signing in does not switch");
    }
}

/// The same key again, and another one after the service has ended the first, need no question.
#[test]
fn a_key_that_is_not_lost_is_replaced() {
    let double = service(|request| {
        let ended =
            request.path() == "/v1/auth/whoami" && request.header("authorization") == Some(&format!("Bearer {KEY}"));
        ended.then(|| Answer::error(401, "invalid_key", "this key is not valid"))
    });
    let dl = Dl::new().stored("default", &double.url, KEY);
    dl.run_with("login --with-key", KEY).ok();
    let ran = dl.run_with("login --with-key", OTHER_KEY);
    assert!(
        ran.ok().is_empty() && ran.stderr.contains("dl_live_3fa91c07be..., the previous key of profile default"),
        "{ran}"
    );
    assert!(kept(&dl).contains(OTHER_KEY) && !kept(&dl).contains(KEY));
    // A service that does not know the question is asked in another way.
    let earlier = Double::new(|request| match request.header("authorization") {
        _ if request.path() == "/v1/auth/whoami" => Answer::error(404, "not_found", "no such route"),
        Some(key) if key.ends_with(KEY) => Answer::error(401, "invalid_key", "this key is not valid"),
        _ => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
    });
    let dl = Dl::new().stored("default", &earlier.url, KEY);
    dl.run_with("login --with-key", OTHER_KEY).ok();
    dl.run_with("login --with-key", KEY).fails(2);
    assert!(kept(&dl).contains(OTHER_KEY));
}

/// A key that `dl login` created is replaced by the next one of the same account, with a note; a sign-in to another
/// account keeps both, and the session that it began ends.
#[test]
fn a_key_of_an_earlier_sign_in_is_replaced_for_the_same_account_only() {
    let double = service(|_| None);
    let dl = Dl::new();
    dl.run_with(&login(&double), &link(&double)).ok();
    dl.run_with(&login(&double), &link(&double)).ok();
    assert!(kept(&dl).contains(OTHER_KEY));

    let config = std::fs::read_to_string(dl.config("config.toml")).expect("a file");
    assert!(config.contains("login_account = \"tnt_0123456789abcdef01234567\""), "{config}");
    let config = config.replace("tnt_0123456789abcdef01234567", "tnt_000000000000000000000000");
    std::fs::write(dl.config("config.toml"), config).expect("a file");
    let before = double.requests().len();
    let ran = dl.run_with(&login(&double), &link(&double));
    assert!(ran.fails(2).contains("and it belongs to another account; it was not replaced"), "{ran}");
    let lines = double.lines().split_off(before);
    assert!(!lines.contains(&ISSUE.to_owned()), "no key was created: {lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("POST /v1/auth/signout"));
    // With a key it is the same; logging out frees the profile.
    assert!(
        dl.run_with("login --with-key", KEY).fails(2).contains("it belongs to another account"),
        "the account differs"
    );
    dl.run("logout").ok();
    dl.run_with("login --with-key", KEY).ok();
}

/// On a terminal the person chooses: Enter takes the suggested profile, the profile's own name replaces its key after a
/// question whose answer is no by default.
#[test]
fn on_a_terminal_the_person_chooses() {
    let double = service(|request| {
        (request.path() == "/v1/auth/whoami")
            .then(|| Answer::json(200, &whoami("owner@example.com", "tnt_0123456789abcdef01234567")))
    });
    let question = "Profile for the new key [you]: ";
    let open = || {
        let dl = Dl::new().stored("default", &double.url, KEY).stored("taken", &double.url, OTHER_KEY);
        let screen = Screen::open(dl, &format!("login --email you@example.com --base-url {}", double.url));
        screen.wait_for(question);
        let text = screen.text();
        assert!(
            text.contains("it is a key of tnt_0123456789abcdef01234567, owner@example.com at http://127.0.0.1:"),
            "{text}"
        );
        screen
    };
    let finish = |screen: &Screen| {
        screen.wait_for("Paste the sign-in link");
        screen.send(&format!("{}\n", link(&double).trim_end()));
    };
    let screen = open();
    screen.send("taken\n");
    screen.wait_for_times(2, question);
    screen.send("\n");
    finish(&screen);
    let (code, text, dl) = screen.leave();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("profile taken already has a key, dl_live_7777777777..."), "{text}");
    assert!(text.contains("commands still use profile default; to switch: dl profile use you"), "{text}");
    assert_eq!(dl.run("profile list -o id").ok(), "default\ntaken\nyou\n");
    assert_eq!(dl.run("token").ok(), format!("{KEY}\n"));
    assert_eq!(dl.run("token --profile you").ok(), format!("{OTHER_KEY}\n"));

    for (answer, replaced) in [("\n", false), ("y\n", true)] {
        let before = double.requests().len();
        let screen = open();
        screen.send("default\n");
        screen.wait_for("you will lose access to the account. [y/N]");
        screen.send(answer);
        if replaced {
            finish(&screen);
        }
        let (code, text, dl) = screen.leave();
        assert_eq!(code, Some(if replaced { 0 } else { 2 }), "{text}");
        assert_eq!(dl.run("token").ok(), format!("{}\n", if replaced { OTHER_KEY } else { KEY }));
        assert_eq!(nothing_began(&double.lines().split_off(before)), !replaced);
    }
}

/// A first sign-in, and one into a new profile, ask nothing and send nothing about other keys.
#[test]
fn a_free_profile_is_used_as_it_is() {
    let double = with_links(0);
    let dl = Dl::new().stored("default", "https://dl.example.com", OTHER_KEY);
    dl.run_with(&format!("login --with-key --profile fresh --base-url {}", double.url), KEY).ok();
    assert_eq!(double.lines(), ["GET /v1/links"]);
}
