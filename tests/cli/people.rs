//! Team, keys, publishable keys and affiliates: lists, creates and deletes, and keys that are shown once.

use serde_json::json;

use crate::screen::Screen;
use deeplink_testing::dl::{Dl, OTHER_KEY, mode};
use deeplink_testing::double::{Answer, Double, PUBLISHABLE, affiliate, of_people, secret_key, user};

const AFFILIATE: &str = "aff_0123456789abcdef01234567";

fn service() -> Double {
    Double::new(|request| {
        let other = || match request.method.as_str() {
            "DELETE" => Answer::new(204, ""),
            _ => Answer::error(404, "not_found", "there is nothing"),
        };
        of_people(request).unwrap_or_else(other)
    })
}

/// Lists print what the service answered; the key in use is marked for people.
#[test]
fn lists_are_what_the_service_answers() {
    let double = service();
    let dl = Dl::at(&double.url);
    for (line, list, field, value) in [
        ("team list", "users", "email", "you@example.com"),
        ("keys list", "keys", "key_prefix", "dl_live_7777777777..."),
        ("pk list", "keys", "domain", "go.example.com"),
        ("affiliates list", "affiliates", "partner_key", "partner"),
        ("affiliates creds list aff_0123456789abcdef01234567", "credentials", "key_prefix", "dl_live_7777777777..."),
    ] {
        let whole = dl.run(&format!("{line} -o json")).json();
        let names: Vec<_> = whole.as_object().expect("an envelope").keys().collect();
        assert_eq!(names, [list, "next_cursor"], "{line}");
        assert_eq!(whole[list][0][field], value, "{line}");
        let ids: Vec<_> = whole[list].as_array().expect("records").iter().map(|record| record["id"].clone()).collect();
        let printed = dl.run(&format!("{line} -o id"));
        assert_eq!(printed.ok().lines().map(serde_json::Value::from).collect::<Vec<_>>(), ids, "{line}");
        assert!(dl.run(line).ok().contains(value), "{line}");
        let lines = dl.run(&format!("{line} -o jsonl"));
        assert_eq!(lines.ok().lines().count(), ids.len(), "{line}");
        let csv = dl.run(&format!("{line} -o csv --fields {field},id"));
        assert!(csv.ok().starts_with(&format!("{field},id\r\n{value},")), "{line}: {csv}");
        let chosen = dl.run(&format!("{line} -o json --fields {field}")).json();
        assert_eq!(chosen[list][0], json!({field: value}), "{line}");
    }
    insta::assert_snapshot!(dl.run("keys list --fields id,key_prefix,in_use"), @r"
    skid_000000000000000000000002	dl_live_7777777777...	false
    skid_000000000000000000000001	dl_live_3fa91c07be...	true
    ");
    assert!(!dl.run("keys list -o json").ok().contains("in_use"), "the whole is the service's");
    let text = Screen::open(Dl::at(&double.url).env("NO_COLOR", "1"), "keys list").end().1;
    let marks: Vec<_> = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(marks, ["no", "yes"], "{text}");
}

/// A record may end with an object, which is kept whole.
#[test]
fn a_record_that_ends_with_an_object_stays_json() {
    let double = Double::new(|_| {
        let record = secret_key(OTHER_KEY, 1).to_string();
        let open = record.strip_suffix('}').expect("an object");
        Answer::new(200, format!(r#"{{"keys":[{open},"later":{{"a":{{"b":1}}}}}}]}}"#))
    });
    let mut whole = secret_key(OTHER_KEY, 1);
    (whole["later"], whole["in_use"]) = (json!({"a": {"b": 1}}), false.into());
    assert_eq!(Dl::at(&double.url).run("keys list -o jsonl").json(), whole);
}

#[test]
fn an_empty_list_says_what_to_do() {
    let double = Double::new(|request| {
        let list = if request.path().ends_with("credentials") {
            "credentials"
        } else if request.path().contains("keys") {
            "keys"
        } else {
            "affiliates"
        };
        Answer::json(200, &json!({list: []}))
    });
    let dl = Dl::at(&double.url);
    for (line, says) in [
        ("pk list", "dl pk create"),
        ("affiliates list", "dl affiliates create"),
        (
            "affiliates creds list aff_0123456789abcdef01234567",
            "dl affiliates creds create aff_0123456789abcdef01234567",
        ),
    ] {
        let ran = dl.run(line);
        assert!(ran.ok().is_empty() && ran.stderr.contains(says), "{line}: {ran}");
    }
}

#[test]
fn people_are_invited_and_removed() {
    let double = service();
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("team invite new@example.com"), @r"
    usr_0123456789abcdef01234567
    --- stderr
    invitation emailed to new@example.com; it is valid for 7 days
    ");
    assert_eq!(double.only().json(), json!({"email": "new@example.com"}));
    assert_eq!(dl.run("team remove usr_0123456789abcdef01234567 --yes").ok(), "usr_0123456789abcdef01234567\n");
    let before = double.requests().len();
    assert!(dl.run("team invite nobody").fails(3).starts_with("error[invalid_email]"));
    assert!(dl.run("team remove you@example.com --yes").fails(3).contains("dl team list shows the IDs"));
    assert_eq!(double.requests().len(), before);
}

/// A key that is shown once is alone on stdout, or goes into a file that was created before the request.
#[test]
fn a_new_key_is_printed_once_or_goes_into_a_file() {
    let double = service();
    let dl = Dl::at(&double.url);
    for (line, member, secret, id) in [
        ("keys confirm --email you@example.com --code-stdin", "key", OTHER_KEY, "skid_000000000000000000000002"),
        ("pk create go.example.com", "key", PUBLISHABLE, "pkid_0123456789abcdef01234567"),
        ("affiliates creds create aff_0123456789abcdef01234567", "api_key", OTHER_KEY, "skid_000000000000000000000003"),
    ] {
        let run = |rest: &str| dl.run_with(&format!("{line} {rest}"), "7GK2QX\n");
        let ran = run("");
        assert_eq!(ran.ok(), format!("{secret}\n"), "{line}");
        assert!(!ran.stderr.contains(&secret[20..]), "{ran}");
        assert_eq!(run("-o json").json()[member], secret);
        assert!(run(&format!("-o csv --fields id,{member}")).ok().contains(&format!("{id},{secret}")));
        let shown = Screen::open(Dl::at(&double.url), "pk create go.example.com").end().1;
        assert_eq!(shown, format!("{PUBLISHABLE}\n"));

        // Into a file.
        for (at, form) in ["", "-o json", "-o csv", "-o id", "--fields id"].into_iter().enumerate() {
            let name = format!("{}-{at}.txt", line.split(' ').next().unwrap_or_default());
            let ran = run(&format!("--out-file {name} {form}"));
            ran.ok();
            assert_eq!((dl.read(&name), mode(&dl.dir().join(&name))), (format!("{secret}\n"), 0o600), "{line} {form}");
            assert!(ran.stdout.contains(id) && !ran.to_string().contains(&secret[20..]), "{line} {form}: {ran}");
            std::fs::remove_file(dl.dir().join(&name)).expect("it is there");
        }
        // If it would be lost, or would overwrite something, no request is sent.
        let before = double.requests().len();
        dl.file("there.txt", "mine");
        assert!(run("-o id").fails(2).contains("use --out-file FILE to save it"));
        assert!(run("--fields id -o json").fails(2).contains("use --out-file FILE to save it"));
        assert!(run("--out-file there.txt").fails(2).contains("there.txt already exists"));
        assert!(run("--out-file nowhere/new.txt").fails(1).contains("nowhere/new.txt"));
        assert_eq!((double.requests().len(), dl.read("there.txt").as_str()), (before, "mine"), "{line}");
    }
    // A request that fails leaves no file.
    let refusing = Double::new(|_| Answer::error(409, "credential_limit", "3 are enough"));
    let dl = Dl::at(&refusing.url);
    let ran = dl.run("affiliates creds create aff_0123456789abcdef01234567 --out-file new.txt");
    assert!(ran.fails(6).contains("delete one with dl affiliates creds delete"), "{ran}");
    assert!(!dl.dir().join("new.txt").exists());
}

#[test]
fn affiliates_are_made_and_changed() {
    let double = service();
    let dl = Dl::at(&double.url);
    let ran = dl.run("affiliates create --name Partner --partner-key partner");
    assert_eq!(ran.ok(), format!("{AFFILIATE}\n"));
    assert!(ran.stderr.contains("dl affiliates creds create aff_"), "{ran}");
    assert_eq!(dl.run("affiliates get aff_0123456789abcdef01234567 -o json").json(), affiliate());
    dl.run("affiliates update aff_0123456789abcdef01234567 --name New --status disabled").ok();
    let sent = double.requests().pop().expect("a request");
    assert_eq!((sent.method.as_str(), sent.json()), ("PATCH", json!({"name": "New", "status": "disabled"})));
    let before = double.requests().len();
    for (line, code) in [
        ("affiliates create --name Partner --partner-key P", 3),
        ("affiliates create --name ' ' --partner-key partner", 3),
        ("affiliates create --name Partner", 2),
        ("affiliates update aff_0123456789abcdef01234567", 2),
        ("affiliates update aff_0123456789abcdef01234567 --status gone", 2),
        ("affiliates update partner --name New", 3),
        ("affiliates get partner", 3),
        ("affiliates creds create partner", 3),
        ("affiliates creds delete aff_0123456789abcdef01234567 nothing --yes", 3),
        ("keys delete nothing --yes", 3),
        ("pk delete skid_0123456789abcdef01234567 --yes", 3),
        ("pk create 'no domain'", 3),
        ("keys request --email nobody", 3),
    ] {
        assert_eq!(dl.run(line).code, Some(code), "{line}");
    }
    let ran = dl.run_with("keys confirm --email you@example.com --code-stdin", "12345\n");
    assert!(ran.fails(3).starts_with("error[invalid_code]: the code must be 6 letters and digits"), "{ran}");
    assert_eq!(double.requests().len(), before);
}

#[test]
fn refusals_have_their_codes_and_say_what_to_do() {
    for (line, status, code, exit, hint) in [
        (
            "keys request --email you@example.com",
            429,
            "request_pending",
            8,
            "already emailed, unless five wrong attempts invalidated it; you can request another in 9 min",
        ),
        ("keys request --email you@example.com", 409, "key_limit", 6, "delete one with dl keys delete ID"),
        ("keys request --email you@example.com", 403, "not_a_member", 4, "only confirmed team members can do this"),
        ("keys request --email you@example.com", 403, "user_unverified", 4, "must first be confirmed"),
        ("keys request --email you@example.com", 503, "secret_keys_not_configured", 9, "ask its operator"),
        (
            "keys confirm --email you@example.com --code-stdin",
            400,
            "invalid_code",
            3,
            "use the code in the newest email",
        ),
        ("keys confirm --email you@example.com --code-stdin", 429, "too_many_attempts", 8, "this code no longer works"),
        ("keys delete skid_0123456789abcdef01234567 --yes", 409, "key_in_use", 6, "replace it with dl keys rotate"),
        ("keys delete skid_0123456789abcdef01234567 --yes", 409, "last_key", 6, "create another key first"),
        ("keys delete skid_0123456789abcdef01234567 --yes", 404, "not_found", 5, "dl keys list shows"),
        ("team invite new@example.com", 409, "user_exists", 6, "dl team list"),
        ("team invite new@example.com", 503, "sessions_not_configured", 9, "ask its operator"),
        ("team remove usr_0123456789abcdef01234567 --yes", 409, "last_user", 6, "invite another member first"),
        ("team remove usr_0123456789abcdef01234567 --yes", 404, "not_found", 5, "dl team list shows"),
        ("pk create go.example.com", 400, "domain_not_verified", 3, "dl domains verify shows"),
        ("pk create go.example.com", 400, "domain_not_found", 3, "dl domains add"),
        ("affiliates create --name Partner --partner-key partner", 409, "partner_key_taken", 6, "dl affiliates list"),
        ("affiliates get aff_0123456789abcdef01234567", 404, "not_found", 5, "dl affiliates list shows"),
        ("affiliates list", 403, "forbidden_scope", 4, "this key belongs to an affiliate"),
    ] {
        let double = Double::new(move |_| Answer::error(status, code, "no").header("retry-after", "500"));
        let ran = Dl::at(&double.url).env("DL_RETRIES", "0").run_with(line, "7GK2QX");
        assert!(ran.fails(exit).starts_with(&format!("error[{code}]: no (HTTP {status})")), "{line}: {ran}");
        assert!(ran.stderr.contains(hint), "{line} {code}: {ran}");
    }
}

/// Irreversible commands ask first: yes or no for one item of many, the name for serious ones.
#[test]
fn what_hurts_is_asked_about() {
    let double = service();
    for (line, question, answer, code, sent) in [
        (
            "pk delete pkid_0123456789abcdef01234567",
            "Delete the publishable key pk_live_3fa91c07be... of go.example.com?",
            "y\n",
            0,
            2,
        ),
        ("pk delete pkid_0123456789abcdef01234567", "[y/N] ", "\n", 2, 1),
        ("pk delete pkid_0123456789abcdef01234567 pkid_0123456789abcdef01234568", "2 publishable keys", "\n", 2, 0),
        (
            "team remove usr_0123456789abcdef01234567",
            "Remove you@example.com (usr_0123456789abcdef01234567) from the team? [y/N] ",
            "y\n",
            0,
            2,
        ),
        ("team remove usr_0123456789abcdef01234567", "[y/N] ", "n\n", 2, 1),
        (
            "affiliates creds delete aff_0123456789abcdef01234567 skid_000000000000000000000003",
            "Delete the credential dl_live_7777777777...?",
            "y\n",
            0,
            2,
        ),
        (
            "keys delete skid_000000000000000000000002",
            "Requests with the key dl_live_7777777777... (never used) will be rejected immediately.",
            "skid_000000000000000000000002\n",
            0,
            2,
        ),
        ("keys delete skid_000000000000000000000002", "Type skid_000000000000000000000002 to continue: ", "y\n", 2, 1),
        ("affiliates delete aff_0123456789abcdef01234567", "Type partner to continue: ", "partner\n", 0, 2),
        ("affiliates delete aff_0123456789abcdef01234567", "\"Partner\" will be deleted.", "Partner\n", 2, 1),
    ] {
        let before = double.requests().len();
        let screen = Screen::open(Dl::at(&double.url), line);
        screen.wait_for(question);
        screen.send(answer);
        assert_eq!(screen.end().0, Some(code), "{line} {answer:?}");
        assert_eq!(double.requests().len() - before, sent, "{line} {answer:?}");
    }
    // There is no question about a missing item.
    for line in [
        "pk delete pkid_ffffffffffffffffffffffff",
        "team remove usr_ffffffffffffffffffffffff",
        "affiliates creds delete aff_0123456789abcdef01234567 skid_ffffffffffffffffffffffff",
    ] {
        let (code, text) = Screen::open(Dl::at(&double.url), line).end();
        assert!(code == Some(5) && text.contains("list") && text.contains("shows the valid IDs"), "{line}: {text}");
    }
    let dl = Dl::at(&double.url);
    let before = double.requests().len();
    for line in [
        "pk delete pkid_0123456789abcdef01234567",
        "team remove usr_0123456789abcdef01234567",
        "affiliates creds delete aff_0123456789abcdef01234567 skid_0123456789abcdef01234567",
        "keys delete skid_0123456789abcdef01234567",
        "affiliates delete aff_0123456789abcdef01234567",
    ] {
        assert!(dl.run(line).fails(2).contains("use --yes to confirm"), "{line}");
    }
    assert_eq!(double.requests().len(), before);
    assert_eq!(
        dl.run_with("pk delete - --yes -o jsonl", "pkid_0123456789abcdef01234567\npkid_0123456789abcdef01234568\n")
            .ok()
            .lines()
            .count(),
        2
    );
}

/// P5: other people's texts are harmless on a terminal.
#[test]
fn p5_names_of_others_are_harmless() {
    const HOSTILE: &str = "a\u{1b}]0;owned\u{7}\u{202e}b";
    let double = Double::new(|request| match request.path() {
        "/v1/auth/users" => Answer::json(200, &json!({"users": [user(HOSTILE)]})),
        _ => {
            let mut partner = affiliate();
            partner["name"] = HOSTILE.into();
            Answer::json(200, &json!({"affiliates": [partner]}))
        }
    });
    for line in ["team list", "affiliates list", "team list -o json", "affiliates list -o csv"] {
        let text = Screen::open(Dl::at(&double.url).env("NO_COLOR", "1"), line).end().1;
        assert!(
            !text.contains(['\u{1b}', '\u{7}', '\u{202e}']) && text.contains("u{1b}") || text.contains("u001b"),
            "{text:?}"
        );
    }
}
