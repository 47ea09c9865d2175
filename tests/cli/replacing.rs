//! What a sign-in does with a key that the profile has already: it may be the only one of its account.

use crate::screen::Screen;
use crate::sign_in::service;
use deeplink_testing::dl::{Dl, KEY, OTHER_KEY};
use deeplink_testing::double::{Answer, Double, TOKEN, signed_up_with, whoami, with_links};

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
    let by_key =
        |double: &Double, key: &str| (format!("login --with-key --base-url {}", double.url), key.to_owned(), "you");
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
        let what = "error[profile_in_use]: profile default already has the key dl_live_3fa91c07be... for \
                    account tnt_0123456789abcdef01234567 (you@example.com) at ";
        assert!(ran.fails(2).contains(what), "{line}: {ran}");
        assert!(ran.stderr.contains(&format!("use --profile {name} to store the new key")), "{line}: {ran}");
        assert!(nothing_began(&base.lines()) && kept(&dl) == before, "{line}: {:?}", base.lines());
        dl.run_with(&format!("{line} --profile {name}"), &input).ok();
        assert!(kept(&dl).contains(KEY), "{line}");
        assert_eq!(dl.run("profile list -o id").ok(), "default\nyou\n");
        assert_eq!(dl.run("config get active_profile").ok(), "default\n", "signing in does not switch");
    }
}

/// A service that accepts every key but this one.
fn refusing(key: &'static str, is_current: bool) -> Double {
    service(move |request| {
        // A service that does not know the question is asked in another way.
        if request.path() == "/v1/auth/whoami" && !is_current {
            return Some(Answer::error(404, "not_found", "no such route"));
        }
        let is_refused = request.header("authorization").is_some_and(|bearer| bearer.ends_with(key));
        is_refused.then(|| Answer::error(401, "invalid_key", "this key is not valid"))
    })
}

/// The same key again needs no question. A key that the service refuses does: it may be the only one of an account on
/// another server that used this address.
#[test]
fn a_refused_key_from_elsewhere_is_not_replaced() {
    let accepting = service(|_| None);
    let dl = Dl::new().stored("default", &accepting.url, KEY);
    assert_eq!(dl.run_with("login --with-key", KEY).ok(), "");
    for is_current in [true, false] {
        let double = refusing(KEY, is_current);
        let name = if is_current { "you" } else { "127-0-0-1" };
        for (line, input, name) in
            [("login --with-key".to_owned(), OTHER_KEY.to_owned(), name), (login(&double), link(&double), "you")]
        {
            let dl = Dl::new().stored("default", &double.url, KEY);
            let ran = dl.run_with(&line, &input);
            let what = format!(
                "error[profile_in_use]: profile default already has the key dl_live_3fa91c07be..., which {} does not \
                 accept, and dl login did not create it; it was not replaced",
                double.url
            );
            assert!(ran.fails(2).contains(&what), "{line}: {ran}");
            assert!(ran.stderr.contains(&format!("use --profile {name} to store the new key")), "{line}: {ran}");
            assert!(kept(&dl).contains(KEY) && !kept(&dl).contains(OTHER_KEY), "{line}");
        }
    }
}

/// On a terminal the person is asked about a refused key too, and the note sends nobody to a server that does not know it.
#[test]
fn a_refused_key_is_replaced_only_by_a_person() {
    let double = refusing(KEY, true);
    for (answer, code, stored) in [("n\n", 2, KEY), ("No\n", 2, KEY), ("default\ny\n", 0, OTHER_KEY)] {
        let dl = Dl::new().stored("default", &double.url, KEY);
        dl.secret_file("key.txt", OTHER_KEY);
        let config = std::fs::read_to_string(dl.config("config.toml")).expect("a file");
        let config = config.replace("store = ", "key_prefix = \"dl_live_3fa91c07be...\"\nstore = ");
        std::fs::write(dl.config("config.toml"), config).expect("a file");
        let screen = Screen::open(dl, "login --with-key --api-key-file key.txt");
        screen.wait_for("Profile for the new key [you]: ");
        screen.send(answer);
        let (ended, text, dl) = screen.leave();
        assert_eq!(ended, Some(code), "{answer:?}: {text}");
        assert!(text.contains("does not accept it: it was revoked, or is for another server"), "{text}");
        assert_eq!(dl.run("token").ok(), format!("{stored}\n"), "{answer:?}");
        let note = format!("the previous key of profile default, is not valid at {}; if it is for", double.url);
        assert_eq!(text.contains(&note), stored == OTHER_KEY, "{text}");
        assert!(!text.contains("may still work") && text.contains("nothing was stored") == (code == 2), "{text}");
    }
}

/// A new key that the service refuses is reported before anything is said about the stored one.
#[test]
fn a_wrong_key_is_refused_before_a_question() {
    let double = refusing(OTHER_KEY, true);
    let dl = Dl::new().stored("default", &double.url, KEY);
    let ran = dl.run_with("login --with-key", OTHER_KEY);
    assert!(ran.fails(4).contains("nothing was stored") && !ran.stderr.contains("already has"), "{ran}");
    assert_eq!(double.lines(), ["GET /v1/links"], "nobody is asked whose the stored key is");
}

/// The suggested profile has the name of the new key's account.
#[test]
fn a_profile_is_suggested_by_the_account() {
    for (name, email, suggested) in [
        (Some("Winter & Söhne GmbH"), Some("owner@example.com"), "Winter-S-hne-GmbH"),
        (Some("冬"), Some("jane.doe@example.com"), "jane-doe"),
        (None, Some("default@example.com"), "default-2"),
        (None, None, "127-0-0-1"),
    ] {
        let double = service(move |request| {
            let mut who = whoami("you@example.com", "tnt_0123456789abcdef01234567");
            who["tenant"]["name"] = name.into();
            who["email"] = email.into();
            (request.path() == "/v1/auth/whoami").then(|| Answer::json(200, &who))
        });
        let dl = Dl::new().stored("default", &double.url, KEY);
        let ran = dl.run_with("login --with-key", OTHER_KEY);
        assert!(ran.fails(2).contains(&format!("use --profile {suggested} to store")), "{name:?}: {ran}");
    }
}

/// The key of a sign-up is revoked when the address is confirmed: the key that replaces it needs no question.
#[test]
fn the_key_of_a_sign_up_makes_room() {
    let double = service(|request| {
        (request.path() == "/v1/auth/signup").then(|| signed_up_with(KEY)).or_else(|| {
            let is_first = request.header("authorization").is_some_and(|bearer| bearer.ends_with(KEY));
            is_first.then(|| Answer::error(401, "invalid_key", "this key is not valid"))
        })
    });
    let dl = Dl::new();
    dl.run(&format!("signup --email you@example.com --base-url {}", double.url)).ok();
    dl.run_with("login --with-key", OTHER_KEY).ok();
    assert!(kept(&dl).contains(OTHER_KEY) && !kept(&dl).contains(KEY));
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
            text.contains(
                "it is a key for account tnt_0123456789abcdef01234567 (owner@example.com) at http://127.0.0.1:"
            ),
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
