//! `dl sources`: URLs that are stored like keys, and what is posted to them.

use std::fs::OpenOptions;
use std::io::{BufReader, Read};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::reports::{EVENT, SECRET, SOURCE, converted, of_reports, service, source};
use crate::screen::Screen;
use crate::signals::{hear, left, send, wait_for};
use deeplink_testing::dl::{Dl, KEY, mode};
use deeplink_testing::double::{Answer, Double, Gate};

#[test]
fn a_url_is_shown_when_it_is_made_and_cut_from_then_on() {
    let double = service();
    let dl = Dl::at(&double.url);
    let url = format!("{}/in/{SECRET}", double.url);
    let made = dl.run("sources create Shop -vv");
    assert_eq!(made.ok(), format!("{url}\n"));
    assert!(!made.stderr.contains(SECRET), "{made}");
    assert_eq!(double.only().json(), json!({"name": "Shop", "source_type": "custom"}));
    assert_eq!(dl.run("sources create Shop -o json").json()["webhook_url"], url.as_str());
    assert_eq!(dl.run("sources create Shop -o id").ok(), format!("{SOURCE}\n"), "it can be shown again");
    for line in ["sources list".to_owned(), format!("sources get {SOURCE}")] {
        for form in ["table", "json", "jsonl", "csv", "id"] {
            let ran = dl.run(&format!("{line} -o {form} -vv"));
            assert!(ran.code == Some(0) && !ran.to_string().contains(SECRET), "{form}: {ran}");
            let whole = dl.run(&format!("{line} -o {form} --reveal -vv"));
            assert_eq!(whole.stdout.contains(&url), form != "id", "{form}: {whole}");
            assert!(!whole.stderr.contains(SECRET), "{whole}");
        }
        let fields = dl.run(&format!("{line} -o json --fields webhook_url,id"));
        assert!(!fields.to_string().contains(SECRET) && fields.stdout.contains("/in/...\",\"id\":"), "{fields}");
    }
    let listed = dl.run("sources list -o json").json();
    let mut cut = source(&double.url);
    cut["webhook_url"] = format!("{}/in/...", double.url).into();
    assert_eq!(listed, json!({"sources": [cut], "next_cursor": null}));
    let none = Double::new(|_| Answer::new(200, r#"{"sources":[]}"#));
    assert!(Dl::at(&none.url).run("sources list").says("no sources yet; dl sources create NAME creates one"));
}

/// A URL that the service cannot decrypt is left out of lists, and commands that need it say so and how to get another
/// one.
#[test]
fn r10_a_url_that_the_service_cannot_read_is_said_to_be_so() {
    let double = Double::new(|request| match request.line().as_str() {
        "GET /v1/sources" => Answer::json(200, &json!({"sources": [unread()]})),
        line if line == format!("GET /v1/sources/{SOURCE}") => Answer::json(200, &unread()),
        _ => of_reports(request).expect("an answer"),
    });
    let dl = Dl::at(&double.url);
    for line in ["sources list".to_owned(), format!("sources get {SOURCE}")] {
        for form in ["table", "json", "csv", "id"] {
            let ran = dl.run(&format!("{line} -o {form} --reveal"));
            assert!(ran.code == Some(0) && ran.stdout.contains(SOURCE), "{form}: {ran}");
        }
    }
    assert_eq!(dl.run(&format!("sources get {SOURCE} -o json")).json()["webhook_url"], json!(null));
    let refused = dl.run(&format!("sources send {SOURCE} --user ann --type purchase"));
    let said = refused.fails(1);
    assert!(said.contains("the service cannot decrypt the URL") && said.contains("dl sources rotate"), "{said}");
    assert!(double.lines().iter().all(|line| !line.starts_with("POST")), "{:?}", double.lines());
    let rotated = dl.run(&format!("sources rotate {SOURCE} --yes"));
    assert_eq!(rotated.ok(), format!("{}/in/{SECRET}\n", double.url), "which is what helps");
}

fn unread() -> Value {
    let mut unread = source("");
    unread["webhook_url"] = Value::Null;
    unread
}

#[test]
fn a_url_goes_into_a_file_of_its_own() {
    let double = service();
    let dl = Dl::at(&double.url);
    let ran = dl.run("sources create Shop --out-file source.txt");
    assert_eq!((ran.ok(), ran.stderr.as_str()), (format!("{SOURCE}\n").as_str(), "the URL is in source.txt\n"));
    assert_eq!(dl.read("source.txt"), format!("{}/in/{SECRET}\n", double.url));
    assert_eq!(mode(&dl.dir().join("source.txt")), 0o600);
    assert!(dl.run("sources create Shop --out-file source.txt").fails(2).contains("file_exists"));
    assert_eq!(double.requests().len(), 1, "no source is created if the file exists");
    assert!(dl.run("sources create ' '").fails(3).starts_with("error[invalid_name]"));
    let taken = Double::new(|_| Answer::error(409, "name_taken", "no"));
    assert!(Dl::at(&taken.url).run("sources create Shop").fails(6).contains("dl sources rotate replaces its URL"));
    let full = Double::new(|_| Answer::error(402, "quota_exceeded", "no"));
    assert!(Dl::at(&full.url).run("sources create Shop").fails(7).contains("delete one with dl sources delete"));
}

/// Replaces a source with one of the same name; therefore the old one is deleted first.
#[test]
fn a_source_gets_a_new_url() {
    let double = service();
    let dl = Dl::at(&double.url);
    let ran = dl.run(&format!("sources rotate {SOURCE} --yes"));
    assert_eq!(ran.ok(), format!("{}/in/{SECRET}\n", double.url));
    assert_eq!(
        double.lines(),
        [format!("GET /v1/sources/{SOURCE}"), format!("DELETE /v1/sources/{SOURCE}"), "POST /v1/sources".into()]
    );
    assert!(dl.run(&format!("sources rotate {SOURCE}")).fails(2).contains("use --yes to confirm"));
    assert_eq!(double.requests().len(), 3, "nothing is asked for before the yes");
    let held = dl.run(&format!("sources rotate {SOURCE} -n --out-file source.txt"));
    assert_eq!(
        held.ok(),
        format!(
            "GET /v1/sources/{SOURCE}\nDELETE /v1/sources/{SOURCE}\nPOST /v1/sources\n\
             {{\"name\":\"(the same name)\",\"source_type\":\"custom\"}}\n"
        )
    );
    assert!(!dl.dir().join("source.txt").exists());
    let half = Double::new(|request| match request.method.as_str() {
        "POST" => Answer::error(503, "overloaded", "no").header("retry-after", "500"),
        _ => of_reports(request).expect("a source"),
    });
    let ran = Dl::at(&half.url).run(&format!("sources rotate {SOURCE} --yes"));
    assert!(ran.fails(9).contains("the old source was deleted; create it again: dl sources create Shop"), "{ran}");
}

/// The command that creates a source again can be pasted, whatever its name.
#[test]
fn a_name_like_a_flag_is_made_again() {
    let half = Double::new(|request| match request.method.as_str() {
        "POST" => Answer::error(400, "invalid_name", "no"),
        "GET" => {
            let mut named = source("http://127.0.0.1:1");
            named["name"] = "--foo".into();
            Answer::json(200, &named)
        }
        _ => of_reports(request).expect("a source"),
    });
    let ran = Dl::at(&half.url).run(&format!("sources rotate {SOURCE} --yes"));
    assert!(ran.fails(3).contains("create it again: dl sources create -- --foo"), "{ran}");
    let double = service();
    Dl::at(&double.url).run("sources create -- --foo").ok();
    assert_eq!(double.only().json()["name"], "--foo");
}

/// A request with a lost reply is repeated: a source that is already deleted is not a failure, and no second one is
/// created.
#[test]
fn a_lost_reply_of_a_rotation_is_no_lost_source() {
    for lost in ["DELETE", "POST"] {
        let seen = std::sync::atomic::AtomicUsize::new(0);
        let double = Double::new(move |request| {
            let answer = of_reports(request).expect("a source");
            let first = request.method == lost && seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
            match lost {
                _ if first => Answer::reset(),
                "DELETE" if request.method == "DELETE" => Answer::error(404, "not_found", "no"),
                _ => answer,
            }
        });
        let ran = Dl::at(&double.url).run(&format!("sources rotate {SOURCE} --yes"));
        assert_eq!(ran.ok(), format!("{}/in/{SECRET}\n", double.url), "{lost}");
        let asked = double.requests();
        let again: Vec<_> = asked.iter().filter(|request| request.method == lost).collect();
        assert_eq!((asked.len(), again.len()), (4, 2), "{lost}");
        let key = again[0].header("idempotency-key");
        assert!(key == again[1].header("idempotency-key") && (lost == "DELETE" || key.is_some()), "{lost}: one source");
    }
}

/// A closed pipe or a full disk: the source exists all the same, and can be shown again.
#[test]
fn a_url_that_cannot_be_shown_is_not_lost() {
    let double = service();
    let dl = Dl::at(&double.url);
    for line in ["sources create Shop".to_owned(), format!("sources rotate {SOURCE} --yes")] {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("a device");
        for stdout in [full.into(), left()] {
            let output = dl.command(&line).stdin(Stdio::null()).stdout(stdout).output().expect("dl runs");
            let stderr = String::from_utf8(output.stderr).expect("UTF-8");
            assert_eq!(output.status.code(), Some(1), "{line}: {stderr}");
            assert!(stderr.contains(&format!("dl sources get {SOURCE} --reveal")), "{line}: {stderr}");
            assert!(!stderr.contains(SECRET), "{line}: {stderr}");
        }
    }
}

/// A rotation that gets a signal while it waits for the answer to this method. Then a second signal comes, or the
/// answer. Returns its exit code, its output, and the service's URL.
fn interrupted(slow: &'static str, signal: &str, second: Option<&str>) -> (std::process::Output, String, String) {
    let gate = Gate::default();
    let closed = gate.clone();
    let double = Double::new(move |request| {
        if request.method == slow {
            closed.wait();
        }
        of_reports(request).expect("a source")
    });
    let dl = Dl::at(&double.url);
    let mut command = dl.command(&format!("sources rotate {SOURCE} --yes"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("dl starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    wait_for("it is requested", || double.lines().iter().any(|line| line.starts_with(slow)));
    send(&child, signal);
    let mut said = hear(&mut stderr, "stopping: waiting for a response");
    match second {
        Some(second) => send(&child, second),
        None => gate.open(),
    }
    stderr.read_to_string(&mut said).expect("UTF-8");
    (child.wait_with_output().expect("dl ends"), said, double.url.clone())
}

/// Ctrl-C during or after the deletion of the old source waits until there is a new one, and its URL is shown.
#[test]
fn a_signal_waits_for_the_new_url() {
    for (slow, signal, code) in [("DELETE", "-INT", 130), ("POST", "-INT", 130), ("POST", "-TERM", 143)] {
        let (output, _, url) = interrupted(slow, signal, None);
        assert_eq!(output.status.code(), Some(code), "{slow} {signal}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{url}/in/{SECRET}\n"), "{slow} {signal}");
    }
}

/// A second signal does not wait, and prints what may be deleted and how to create it again.
#[test]
fn the_second_signal_says_what_may_be_gone() {
    for (slow, second, code) in [("DELETE", "-INT", 130), ("POST", "-TERM", 143)] {
        let (output, stderr, _) = interrupted(slow, "-INT", Some(second));
        assert_eq!(output.status.code(), Some(code), "{slow}: {stderr}");
        let said =
            "the source Shop may have been deleted; check with dl sources list; if it is gone: dl sources create Shop";
        assert!(stderr.contains(said) && !stderr.contains("a key may have been created"), "{slow}: {stderr}");
    }
}

#[test]
fn what_is_lost_is_asked_about() {
    let double = service();
    for (line, question, answer, code, sent) in [
        ("delete", "Delete the source Shop? Its URL will stop working immediately. [y/N] ", "y\n", 0, 2),
        ("delete", "[y/N] ", "\n", 2, 1),
        (
            "rotate",
            "Replace the URL of the source Shop? The old one will stop working immediately. [y/N] ",
            "y\n",
            0,
            3,
        ),
        ("rotate", "[y/N] ", "n\n", 2, 1),
    ] {
        let before = double.requests().len();
        let screen = Screen::open(Dl::at(&double.url), &format!("sources {line} {SOURCE}"));
        screen.wait_for(question);
        screen.send(answer);
        assert_eq!(screen.end().0, Some(code), "{line} {answer:?}");
        assert_eq!(double.requests().len() - before, sent, "{line} {answer:?}");
    }
    let before = double.requests().len();
    let dl = Dl::at(&double.url);
    assert!(dl.run(&format!("sources delete {SOURCE}")).fails(2).contains("use --yes to confirm"));
    assert_eq!(double.requests().len(), before);
    assert_eq!(dl.run(&format!("sources delete {SOURCE} --yes -o json")).json()["deleted"], true);
    let gone = Double::new(|_| Answer::error(404, "not_found", "no"));
    for line in ["get", "delete --yes", "rotate --yes", "send --user u --type t"] {
        let ran = Dl::at(&gone.url).run(&format!("sources {line} {SOURCE}"));
        assert!(ran.fails(5).contains("dl sources list shows"), "{line}: {ran}");
    }
}

/// X17: a conversion is posted to the URL without a key, and no output contains the URL.
#[test]
fn x17_a_conversion_is_posted_without_a_key() {
    let double = service();
    let dl = Dl::at(&double.url);
    let flags = "--user user-7 --type purchase --amount-cents 4200 --currency EUR --idempotency-key order-1";
    let ran = dl.run(&format!("sources send {SOURCE} {flags} -vv"));
    assert_eq!(ran.ok(), format!("{EVENT}\n"));
    assert!(ran.stderr.contains("POST") && ran.stderr.contains("/in/...") && !ran.stderr.contains(SECRET), "{ran}");
    let requests = double.requests();
    assert_eq!(
        requests[0].header("authorization"),
        Some(format!("Bearer {KEY}").as_str()),
        "it is looked up with the key"
    );
    assert_eq!((requests[1].line(), requests[1].header("authorization")), (format!("POST /in/{SECRET}"), None));
    assert_eq!(
        requests[1].json(),
        json!({
            "user_id": "user-7", "type": "purchase", "amount_cents": 4200, "currency": "EUR", "idempotency_key": "order-1",
        })
    );
    // With the URL on stdin no configuration and no lookup is needed.
    let url = format!("{}/in/{SECRET}\n", double.url);
    let ran = Dl::new().run_with("sources send - --user user-7 --type signup -vv", &url);
    assert!(ran.ok() == format!("{EVENT}\n") && !ran.stderr.contains(SECRET), "{ran}");
    assert_eq!(double.lines()[2..], [format!("POST /in/{SECRET}")]);
    let held = Dl::new().run_with("sources send - --user user-7 --type signup -n", &url);
    assert_eq!(held.ok(), "POST /in/...\n{\"user_id\":\"user-7\",\"type\":\"signup\"}\n");
    assert_eq!(dl.run(&format!("sources send {SOURCE} {flags} -n")).ok(), format!("GET /v1/sources/{SOURCE}\n"));
    let unknown = Double::new(|_| converted("unattributed"));
    let ran = Dl::new().run_with("sources send - --user u --type t", &format!("{}/in/{SECRET}", unknown.url));
    assert!(ran.says("note: user u has no install yet"), "{ran}");
}

#[test]
fn what_is_no_url_is_not_posted_to() {
    let double = service();
    let dl = Dl::at(&double.url);
    let here = double.url.clone();
    for (stdin, code) in [
        (String::new(), "invalid_url"),
        ("not a URL".to_owned(), "invalid_url"),
        (format!("{here}/r/{SECRET}"), "invalid_url"),
        (format!("ftp://127.0.0.1/in/{SECRET}"), "invalid_input"),
        (format!("http://example.com/in/{SECRET}"), "invalid_input"),
        (format!("{}@127.0.0.1/in/{SECRET}", "https://you"), "invalid_input"),
    ] {
        let ran = dl.run_with("sources send - --user u --type t -o json", &stdin);
        assert_eq!((ran.code, ran.error()["code"].as_str()), (Some(3), Some(code)), "{stdin}: {ran}");
        assert!(!ran.to_string().contains(SECRET), "{ran}");
    }
    for line in [
        "sources send src_1 --user u --type t".to_owned(),
        format!("sources send {here}/in/{SECRET} --user u --type t"),
        "sources get nothing".to_owned(),
        "sources delete nothing --yes".to_owned(),
        "sources send - --user u --type ''".to_owned(),
    ] {
        let ran = dl.run(&line);
        assert!(ran.code == Some(3) && !ran.to_string().contains(SECRET), "{line}: {ran}");
    }
    let both = dl.run_with("sources send - --user u --type t --meta-json @-", &format!("{here}/in/{SECRET}"));
    assert!(both.fails(2).contains("both read stdin"), "{both}");
    assert!(double.requests().is_empty(), "{:?}", double.lines());
}
