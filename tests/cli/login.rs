//! Signing in, signing up, signing out, and `whoami`.

use deeplink_testing::dl::{Dl, KEY, OTHER_KEY, mode};
use deeplink_testing::double::{Answer, Double, billing_status, secret_key, signed_up, whoami, with_links};

fn kept(dl: &Dl) -> String {
    std::fs::read_to_string(dl.config("credentials.toml")).unwrap_or_default()
}

#[test]
fn a_key_is_kept_once_the_service_takes_it() {
    let double = with_links(0);
    let dl = Dl::new();
    let ran = dl.run_with(&format!("login --with-key --base-url {}", double.url), &format!("{KEY}\n"));
    assert_eq!(ran.ok(), "");
    let file = dl.config("credentials.toml");
    let place = format!("{} (profile default)", file.display());
    let told = format!("Logged in to {}; key dl_live_3fa91c07be... stored in {place}\n", double.url);
    assert!(ran.stderr.ends_with(&told), "{ran}");
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
fn a_key_in_the_environment_draws_a_warning() {
    let double = with_links(0);
    let dl = Dl::at(&double.url).env("DL_API_KEY", OTHER_KEY);
    let ran = dl.run_with("login --with-key", KEY);
    assert!(ran.stderr.starts_with("warning: DL_API_KEY is set and takes precedence over a stored key"), "{ran}");
    assert!(kept(&dl).contains(KEY) && !kept(&dl).contains(OTHER_KEY));
    let dl = Dl::new().env("DL_BASE_URL", &double.url);
    let file = dl.secret_file("other.txt", OTHER_KEY);
    let dl = dl.env("DL_API_KEY_FILE", &file.to_string_lossy());
    let ran = dl.run_with("login --with-key", KEY);
    assert!(ran.stderr.starts_with("warning: DL_API_KEY_FILE is set and takes precedence over a stored key"), "{ran}");
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
        signed_up()
    });
    let dl = Dl::new().env("DL_KEYRING", "off");
    let ran = dl.run(&format!("signup --email you@example.com --base-url {} --store file", double.url));
    let shown = ran.to_string().replace(&*dl.dir().to_string_lossy(), "HOME");
    insta::assert_snapshot!(shown, @"
    tnt_0123456789abcdef01234567
    --- stderr
    key dl_live_3fa91c07be... stored in HOME/config/credentials.toml (profile default)
    open the link that was emailed to you@example.com to confirm your address
      this key works until you confirm your address; the page then shows a new one: store it with dl login --with-key
    ");
    assert_eq!(double.only().json(), serde_json::json!({"email": "you@example.com"}));
    assert!(kept(&dl).contains(KEY));
    assert_eq!(dl.run("token").ok(), format!("{KEY}\n"));
}

/// The key of one account is not replaced by that of another.
#[test]
fn a_sign_up_leaves_the_key_of_another_account() {
    let double = Double::new(|_| signed_up());
    let dl = Dl::new().stored("default", &double.url, OTHER_KEY);
    let ran = dl.run("signup --email you@example.com");
    assert!(
        ran.fails(2).starts_with(
            "error[profile_in_use]: profile default already has a key for an account (dl_live_7777777777...)"
        ),
        "{ran}"
    );
    assert!(double.requests().is_empty() && kept(&dl).contains(OTHER_KEY));
    dl.run(&format!("signup --email you@example.com --profile second --base-url {}", double.url)).ok();
    assert!(kept(&dl).contains(OTHER_KEY) && kept(&dl).contains(KEY));
    dl.run("logout").ok();
    dl.run("signup --email you@example.com").ok();
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

/// The key is only in one reply: if it cannot be stored, it is printed, once.
#[test]
fn a_key_that_cannot_be_stored_is_printed() {
    let dl = Dl::new();
    let in_the_way = dl.config("credentials.toml");
    let double = Double::new(move |_| {
        std::fs::create_dir_all(&in_the_way).expect("something in the way");
        signed_up()
    });
    let ran = dl.run(&format!("signup --email you@example.com --base-url {}", double.url));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), format!("{KEY}\n").as_str()), "{ran}");
    assert!(
        ran.stderr.contains("it is printed above and will not be shown again") && !ran.stderr.contains(KEY),
        "{ran}"
    );
}

/// A store that cannot take a key is detected before any request.
#[test]
fn the_store_is_tried_before_anything_is_sent() {
    let double = Double::new(|_| signed_up());
    for line in [
        "signup --email you@example.com",
        "login --email you@example.com --link-stdin",
        "login --with-key --api-key-file key",
    ] {
        let line = format!("{line} --base-url {}", double.url);
        let dl = Dl::new();
        dl.secret_file("key", KEY);
        std::fs::create_dir_all(dl.config("credentials.toml")).expect("something in the way");
        dl.run(&line).fails(1);
        for (dl, line) in [
            (Dl::new().env("DL_KEYRING", "require"), line.clone()),
            (Dl::new(), format!("{line} --store keyring")),
            (Dl::new().env("DL_KEYRING", "off"), format!("{line} --store keyring")),
        ] {
            dl.secret_file("key", KEY);
            let ran = dl.run(&line);
            assert!(ran.fails(1).starts_with("error[keyring_unavailable]: the keyring cannot be used: "), "{ran}");
        }
    }
    assert!(double.requests().is_empty(), "{:?}", double.lines());
}

/// P3: if a key goes into the file because there is no keyring, `dl` says so, with the reason and the path.
#[test]
fn p3_the_file_in_place_of_a_keyring_is_announced() {
    let double = with_links(0);
    let bus = ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere/bus");
    for (variables, why) in [
        (&[][..], "no session bus"),
        (&[("XDG_RUNTIME_DIR", "/nowhere")], "no session bus"),
        (&[bus, ("DL_KEYRING", "off")], "DL_KEYRING is off"),
        (&[bus, ("CI", "true")], "CI is true"),
        // There is an address where nothing listens.
        (&[bus], ""),
    ] {
        let dl = variables.iter().fold(Dl::new(), |dl, (name, value)| dl.env(name, value));
        let ran = dl.run_with(&format!("login --with-key --base-url {}", double.url), KEY);
        ran.ok();
        let notice = format!("warning: no keyring ({why}");
        let place = dl.config("credentials.toml");
        assert!(ran.stderr.contains(&notice) && ran.stderr.contains(&*place.to_string_lossy()), "{variables:?}: {ran}");
        assert_eq!(dl.run("profile list --fields store").ok(), "file\n");
        assert_eq!(mode(&place), 0o600);
        // From now on the key is in the file, and nothing else is tried or printed.
        let again = dl.run_with("login --with-key", KEY);
        assert!(!again.stderr.contains("keyring"), "{again}");
        assert_eq!(dl.run("links list -q").stderr, "");
    }
    let dl = Dl::new();
    let ran = dl.run_with(&format!("login --with-key --store file --base-url {}", double.url), KEY);
    assert!(!ran.stderr.contains("warning"), "it was requested: {ran}");
}

/// The key of a profile is in the keyring, and there is no keyring: that is an error, and no other key is used.
#[test]
fn a_key_in_a_keyring_that_is_away_is_not_replaced() {
    let double = with_links(0);
    let dl = Dl::new().stored("default", &double.url, OTHER_KEY);
    let config = std::fs::read_to_string(dl.config("config.toml")).expect("it is there");
    let config = config.replace("store = \"file\"", "store = \"keyring\"\nkey_prefix = \"dl_live_3fa91c07be...\"");
    std::fs::write(dl.config("config.toml"), config).expect("a file");
    for line in ["links list", "whoami", "token", "logout"] {
        let ran = dl.run(line);
        let what = "error[keyring_unavailable]: the key of profile default is in the keyring, which cannot be used: \
            no session bus";
        assert!(line == "logout" || ran.fails(4).starts_with(what), "{line}: {ran}");
        assert!(!ran.stdout.contains(OTHER_KEY), "{ran}");
    }
    assert!(double.requests().is_empty());
    let elsewhere = with_links(0);
    let ran = dl.run(&format!("links list --base-url {}", elsewhere.url));
    assert!(ran.fails(4).starts_with("error[origin_mismatch]"), "{ran}");
    dl.env("DL_API_KEY", KEY).run("links list").ok();
}

#[test]
fn logout_is_local() {
    let dl = Dl::new().stored("default", "https://dl.example.com", KEY).stored(
        "second",
        "https://two.example.com",
        OTHER_KEY,
    );
    insta::assert_snapshot!(dl.run("logout"), @"
    --- stderr
    removed dl_live_3fa91c07be... from profile default
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

/// Who the key acts for: a person and an account, or a partner of the account.
#[test]
fn whoami_says_who() {
    let reply = |scoped: bool| {
        Double::new(move |request| match request.line().as_str() {
            "GET /v1/auth/whoami" => {
                let mut who = whoami("you@example.com", "tnt_0123456789abcdef01234567");
                if scoped {
                    (who["email"], who["plan"]) = (serde_json::Value::Null, serde_json::Value::Null);
                    who["scope"] = "affiliate".into();
                    who["affiliate"] = serde_json::json!({"id": "aff_0123456789abcdef01234567", "name": "Partner"});
                }
                Answer::json(200, &who)
            }
            "GET /v1/billing/status" => Answer::json(200, &billing_status()),
            line => panic!("{line}"),
        })
    };
    let double = reply(false);
    let ran = Dl::new().stored("default", &double.url, KEY).run("whoami");
    let shown = ran.ok().replace(&double.url, "URL");
    let shown = shown.lines().filter(|line| !line.starts_with("key_source")).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(shown, @"
    email	you@example.com
    tenant_id	tnt_0123456789abcdef01234567
    tenant_name	
    affiliate_id	
    affiliate_name	
    profile	default
    base_url	URL
    origin	URL
    key_prefix	dl_live_3fa91c07be...
    accepted	true
    scope	account
    key_id	skid_000000000000000000000001
    plan	business
    usage	19204 of 20000 links, 120400 of 500000 events this month, 5 of 20 domains, 7 team members, 2 of 2 webhooks
    ");
    let double = reply(true);
    let who = Dl::at(&double.url).run("whoami -o json").json();
    assert_eq!((who.get("email"), who.get("plan"), &who["affiliate_name"]), (None, None, &"Partner".into()));
    assert_eq!(double.lines(), ["GET /v1/auth/whoami"]);
}

/// The scope of a key at a service from before the operation `whoami`: an affiliate's key may not list the account's keys.
#[test]
fn whoami_names_the_scope() {
    let reply = |scoped: bool| {
        Double::new(move |request| match request.path() {
            "/v1/links" => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
            "/v1/auth/whoami" => Answer::error(404, "not_found", "no such route"),
            _ if scoped => Answer::error(403, "forbidden_scope", "this key is an affiliate's"),
            _ => Answer::json(200, &serde_json::json!({"keys": [secret_key(OTHER_KEY, 1), secret_key(KEY, 2)]})),
        })
    };
    let (full, scoped) = (reply(false), reply(true));
    let who = Dl::at(&full.url).run("whoami -o json").json();
    assert_eq!((&who["scope"], &who["key_id"]), (&"account".into(), &"skid_000000000000000000000002".into()));
    assert_eq!(
        full.lines(),
        ["GET /v1/auth/whoami", "GET /v1/links", "GET /v1/auth/secret-keys", "GET /v1/billing/status"]
    );
    let who = Dl::at(&scoped.url).run("whoami -o json").json();
    assert_eq!((&who["scope"], who.get("key_id")), (&"affiliate".into(), None));
    assert_eq!(
        scoped.lines(),
        ["GET /v1/auth/whoami", "GET /v1/links", "GET /v1/auth/secret-keys"],
        "an affiliate's credential has no plan"
    );
    // If a service cannot report it, the key is stored all the same.
    let ran = Dl::at(&with_links(0).url).run("whoami -o json");
    assert!(ran.json()["accepted"] == true && ran.stderr.starts_with("warning: the service does not report"), "{ran}");
}

/// One keyring entry that cannot be deleted does not prevent deleting the others.
#[test]
fn a_log_out_of_all_goes_on_after_a_failure() {
    let url = "https://dl.example.com";
    let dl = Dl::new().env("DL_KEYRING", "off").stored("third", url, KEY);
    let config = std::fs::read_to_string(dl.config("config.toml")).expect("a file");
    let in_keyring = |name: &str| {
        format!(
            "[profile.{name}]\nbase_url = \"{url}\"\nstore = \"keyring\"\nkey_prefix = \"dl_live_3fa91c07be...\"\n\n"
        )
    };
    let config = format!("{config}{}{}", in_keyring("first"), in_keyring("second"));
    std::fs::write(dl.config("config.toml"), config).expect("a file");
    let ran = dl.run("logout --all");
    assert!(ran.fails(10).contains("2 of 3 failed"), "{ran}");
    assert!(ran.stderr.contains("first: ") && ran.stderr.contains("second: "), "{ran}");
    assert!(
        ran.stderr.contains("removed dl_live_3fa91c07be... from profile third") && !kept(&dl).contains(KEY),
        "{ran}"
    );
    assert!(dl.run("logout --profile first").fails(4).starts_with("error[keyring_unavailable]"));
}
