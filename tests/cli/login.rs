//! Signing in, signing up, signing out, and who one is.

use crate::dl::{Dl, KEY, OTHER_KEY};
use crate::double::{Answer, Double, with_links};

fn kept(dl: &Dl) -> String {
    std::fs::read_to_string(dl.config("credentials.toml")).unwrap_or_default()
}

#[test]
fn a_key_is_kept_once_the_service_takes_it() {
    let double = with_links(0);
    let dl = Dl::new();
    let ran = dl.run_with(&format!("login --with-key --base-url {}", double.url), &format!("{KEY}\n"));
    assert_eq!(ran.ok(), "");
    assert!(ran.stderr.starts_with("key dl_live_3fa91c07be... kept in profile default in "), "{ran}");
    let probe = double.only();
    assert_eq!(
        (probe.target.as_str(), probe.header("authorization")),
        ("/v1/links?limit=1", Some(format!("Bearer {KEY}").as_str()))
    );
    dl.run("links list").ok();
    let who = dl.run("whoami -o json").json();
    assert_eq!(who["origin"], double.url);
    assert_eq!(who["key_prefix"], "dl_live_3fa91c07be...");
    assert!(who["key_source"].as_str().is_some_and(|source| source.ends_with("/config/credentials.toml")));
    assert_eq!(dl.run("config get active_profile").ok(), "default\n");
}

#[test]
fn a_refused_key_is_not_kept() {
    let double = Double::new(|_| Answer::error(401, "invalid_key", "this key is not valid"));
    let dl = Dl::new();
    let ran = dl.run_with(&format!("login --with-key --base-url {}", double.url), KEY);
    assert!(
        ran.fails(4).starts_with("error[invalid_key]: this key is not valid (HTTP 401); nothing was stored"),
        "{ran}"
    );
    assert_eq!(kept(&dl), "");
    assert!(!dl.config("config.toml").exists());
}

#[test]
fn mail_sign_in_says_what_to_do_instead() {
    insta::assert_snapshot!(Dl::new().run("login --base-url https://dl.example.com"), @r"
    --- stderr
    error: signing in by mail is not available in this version of dl
      hint: dl login --with-key takes a secret key
    --- exit 2
    ");
}

#[test]
fn a_key_in_the_environment_draws_a_warning() {
    let double = with_links(0);
    let dl = Dl::at(&double.url).env("DL_API_KEY", OTHER_KEY);
    let ran = dl.run_with("login --with-key", KEY);
    assert!(ran.stderr.starts_with("warning: DL_API_KEY is set and outranks a stored key"), "{ran}");
    assert!(kept(&dl).contains(KEY) && !kept(&dl).contains(OTHER_KEY));
}

#[test]
fn profiles_keep_keys_apart() {
    let (one, two) = (with_links(0), with_links(0));
    let dl = Dl::new();
    dl.run_with(&format!("login --with-key --base-url {}", one.url), KEY).ok();
    dl.run_with(&format!("login --with-key --profile second --base-url {}", two.url), OTHER_KEY).ok();
    dl.run("whoami --profile second").ok();
    dl.run("whoami").ok();
    let last = |double: &Double| {
        double.requests().last().and_then(|request| request.header("authorization").map(str::to_owned))
    };
    assert_eq!(last(&one), Some(format!("Bearer {KEY}")));
    assert_eq!(last(&two), Some(format!("Bearer {OTHER_KEY}")));
    insta::assert_snapshot!(dl.run("profile list -o csv --fields name,active,store,key_prefix").ok().replace("\r\n", "\n"), @r"
    name,active,store,key_prefix
    default,true,file,dl_live_3fa91c07be...
    second,false,file,dl_live_7777777777...
    ");
}

#[test]
fn sign_up_keeps_the_first_key() {
    let double = Double::new(|request| {
        assert_eq!(request.line(), "POST /v1/auth/signup");
        assert_eq!((request.header("authorization"), request.header("idempotency-key")), (None, None));
        Answer::json(
            201,
            &serde_json::json!({
                "tenant_id": "tnt_0123456789abcdef01234567", "user_id": "usr_0123456789abcdef01234567",
                "id": "skid_0123456789abcdef01234567", "api_key": KEY, "key_prefix": "dl_live_3fa91c07be...",
                "created_at": "2026-11-20T09:30:00.000Z",
            }),
        )
    });
    let dl = Dl::new();
    let ran = dl.run(&format!("signup --email you@example.com --base-url {}", double.url));
    insta::assert_snapshot!(ran, @r"
    tnt_0123456789abcdef01234567
    --- stderr
    key dl_live_3fa91c07be... kept for profile default
    confirm the link that was mailed to you@example.com
    ");
    assert_eq!(double.only().json(), serde_json::json!({"email": "you@example.com"}));
    assert!(kept(&dl).contains(KEY));
    assert_eq!(dl.run("token").ok(), format!("{KEY}\n"));
}

#[test]
fn sign_up_is_never_repeated() {
    for (status, code, exit) in [
        (503, "overloaded", 9),
        (500, "internal", 9),
        (429, "rate_limited", 8),
        (409, "email_exists", 6),
        (403, "signup_closed", 4),
    ] {
        let double = Double::new(move |_| Answer::error(status, code, "no").header("retry-after", "0"));
        let dl = Dl::new();
        dl.run(&format!("signup --email you@example.com --base-url {}", double.url)).fails(exit);
        assert_eq!((double.requests().len(), kept(&dl)), (1, String::new()), "{code}");
    }
}

/// The key is in one reply and nowhere else: if it cannot be stored, it is printed, once.
#[test]
fn a_key_that_cannot_be_stored_is_printed() {
    let double = Double::new(|_| {
        Answer::json(
            201,
            &serde_json::json!({
                "tenant_id": "tnt_0123456789abcdef01234567", "user_id": "usr_0123456789abcdef01234567",
                "id": "skid_0123456789abcdef01234567", "api_key": KEY, "key_prefix": "dl_live_3fa91c07be...",
                "created_at": "2026-11-20T09:30:00.000Z",
            }),
        )
    });
    let dl = Dl::new();
    std::fs::create_dir(dl.dir().join("config")).expect("a directory");
    std::fs::create_dir(dl.config("credentials.toml")).expect("something in the way");
    let ran = dl.run(&format!("signup --email you@example.com --base-url {}", double.url));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), format!("{KEY}\n").as_str()), "{ran}");
    assert!(ran.stderr.contains("it is printed above, once") && !ran.stderr.contains(KEY), "{ran}");
}

#[test]
fn logout_is_local() {
    let dl = Dl::new().stored("default", "https://dl.example.com", KEY).stored(
        "second",
        "https://two.example.com",
        OTHER_KEY,
    );
    insta::assert_snapshot!(dl.run("logout"), @r"
    --- stderr
    forgot dl_live_3fa91c07be... of profile default
      it still works: delete it at https://dl.example.com/account
    ");
    assert!(!kept(&dl).contains(KEY) && kept(&dl).contains(OTHER_KEY));
    assert!(dl.run("links list").fails(4).starts_with("error[no_key]:"));
    assert!(dl.run("logout").stderr.starts_with("no key is stored for profile default"));
    dl.run("logout --all").ok();
    assert!(!kept(&dl).contains(OTHER_KEY));
}

#[test]
fn whoami_names_the_source_of_a_refused_key() {
    let double = Double::new(|_| Answer::error(401, "invalid_key", "this key is not valid"));
    let ran = Dl::at(&double.url).run("whoami");
    assert!(ran.fails(4).contains("the key dl_live_3fa91c07be... came from DL_API_KEY"), "{ran}");
}
