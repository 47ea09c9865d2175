//! Keys that are only in one answer: they are shown, stored, or reported as lost.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use crate::sign_in::service;
use crate::signals::{hear, left, send, wait_for};
use deeplink_testing::dl::{Dl, KEY, OTHER_KEY};
use deeplink_testing::double::{Answer, Double, Gate, SESSION, TOKEN, of_people};

/// Each command that shows a key once, with its request, the key's id, and how such a key is deleted.
const MAKERS: [(&str, &str, &str, &str); 4] = [
    (
        "keys confirm --email you@example.com --code-stdin",
        "POST /v1/auth/secret-keys/confirm",
        "skid_000000000000000000000002",
        "dl keys delete skid_000000000000000000000002",
    ),
    (
        "keys issue --session-file session.txt",
        "POST /v1/auth/secret-keys/issue",
        "skid_000000000000000000000002",
        "dl keys delete skid_000000000000000000000002",
    ),
    (
        "pk create go.example.com",
        "POST /v1/auth/publishable-keys",
        "pkid_0123456789abcdef01234567",
        "dl pk delete pkid_0123456789abcdef01234567",
    ),
    (
        "affiliates creds create aff_0123456789abcdef01234567",
        "POST /v1/affiliates/aff_0123456789abcdef01234567/credentials",
        "skid_000000000000000000000003",
        "dl affiliates creds delete aff_0123456789abcdef01234567 skid_000000000000000000000003",
    ),
];

/// The request after which a sign-in has its key.
const ISSUE: &str = "POST /v1/auth/secret-keys/issue";

/// A service that answers this request when the gate is open.
fn slow(line: &'static str) -> (Double, Gate) {
    let gate = Gate::default();
    let closed = gate.clone();
    let double = service(move |request| {
        if request.line() != line {
            return None;
        }
        closed.wait();
        of_people(request)
    });
    (double, gate)
}

/// A user of this service, with everything that the commands read.
fn somebody(double: &Double) -> Dl {
    let dl = Dl::at(&double.url);
    dl.secret_file("session.txt", SESSION);
    dl.secret_file("code.txt", "7GK2QX\n");
    dl.secret_file("link.txt", TOKEN);
    dl
}

/// Starts a command that reads this file.
fn start(dl: &Dl, line: &str, stdin: &str, stdout: Stdio) -> Child {
    let input = File::open(dl.dir().join(stdin)).expect("a file");
    dl.command(line).stdin(input).stdout(stdout).stderr(Stdio::piped()).spawn().expect("dl starts")
}

/// The output, with the exit code.
fn end(child: Child) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = child.wait_with_output().expect("dl ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

/// The same after a signal, with the answer released once `dl` says that it waits for it.
fn interrupt(mut child: Child, signal: &str, gate: &Gate) -> (Option<i32>, String, String) {
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    send(&child, signal);
    let mut said = hear(&mut stderr, "stopping: waiting for a response");
    gate.open();
    stderr.read_to_string(&mut said).expect("UTF-8");
    let (code, stdout, _) = end(child);
    (code, stdout, said)
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("a device").into()
}

/// A closed pipe or a full disk loses the key: that is a failure that names the key.
#[test]
fn a_key_that_cannot_be_shown_is_named_with_the_way_to_delete_it() {
    for (line, request, id, delete) in MAKERS {
        let double = service(|_| None);
        let dl = somebody(&double);
        for (form, reason) in [("", "no space left"), ("-o json", "no space left"), ("", "stdout was closed")] {
            let line = format!("{line} {form}");
            let stdout = if reason == "stdout was closed" { left() } else { full() };
            let (code, _, stderr) = end(start(&dl, &line, "code.txt", stdout));
            assert!(double.lines().contains(&request.to_owned()), "{line}");
            assert_eq!(code, Some(1), "{line}: {stderr}");
            let shown = if line.starts_with("pk") { "pk_live_3fa91c07be..." } else { "dl_live_7777777777..." };
            for part in [reason, "key_lost", shown, id, delete] {
                assert!(stderr.contains(part), "{line}: no {part:?} in {stderr}");
            }
            assert!(!stderr.contains(&OTHER_KEY[20..]) && !stderr.contains("5d2846"), "{line}: {stderr}");
        }
    }
}

/// Whether a program or a template prints the key is known only after it was created, so that a file is required.
#[test]
fn a_filter_requires_a_file_for_a_key() {
    for (line, request, id, _) in MAKERS {
        let double = service(|_| None);
        let dl = somebody(&double);
        for filter in ["--jq .id", "--jq empty", "--render '{{ id }}'", "-o json --jq .", "--fields id --jq ."] {
            let line = format!("{line} {filter}");
            let (code, stdout, stderr) = end(start(&dl, &line, "code.txt", Stdio::piped()));
            assert!(code == Some(2) && stdout.is_empty(), "{line}: {code:?} {stdout} {stderr}");
            assert!(stderr.contains("shown only once") && stderr.contains("--out-file FILE"), "{line}: {stderr}");
        }
        assert!(!double.lines().contains(&request.to_owned()), "{line}");
        let line = format!("{line} --out-file new.txt --jq .id");
        let (code, stdout, stderr) = end(start(&dl, &line, "code.txt", Stdio::piped()));
        assert_eq!((code, stdout), (Some(0), format!("{id}\n")), "{line}: {stderr}");
        assert!(dl.read("new.txt").contains("_live_"), "{line}");
    }
}

/// The same if the key was to be stored: the reason why it was not comes first.
#[test]
fn a_key_that_can_be_neither_kept_nor_shown_is_named() {
    for (line, request, shown) in [
        ("login --email you@example.com --link-stdin", ISSUE, "dl_live_7777777777..."),
        ("signup --email you@example.com", "POST /v1/auth/signup", "dl_live_3fa91c07be..."),
    ] {
        for closed in [false, true] {
            let dl = Dl::new();
            dl.secret_file("link.txt", TOKEN);
            let in_the_way = dl.config("credentials.toml");
            let double = service(move |asked| {
                if asked.line() == request {
                    std::fs::create_dir_all(&in_the_way).expect("something in the way");
                }
                None
            });
            let line = format!("{line} --base-url {}", double.url);
            let (code, _, stderr) = end(start(&dl, &line, "link.txt", if closed { left() } else { full() }));
            assert_eq!(code, Some(1), "{line}: {stderr}");
            let why = stderr.find("credentials.toml: ").expect("why it was not kept");
            let lost = stderr.find("error[key_lost]").expect("that it is lost");
            assert!(why < lost && stderr[lost..].contains(shown) && stderr.contains("/account"), "{line}: {stderr}");
            assert!(!stderr.contains(&KEY[20..]) && !stderr.contains(&OTHER_KEY[20..]), "{line}: {stderr}");
        }
    }
}

/// Only the configuration failed: the key is stored, and the message says so.
#[test]
fn a_key_that_is_kept_without_the_configuration_is_said_to_be_kept() {
    let dl = Dl::new();
    let in_the_way = dl.config("config.toml");
    let double = service(move |request| {
        if request.line() == "POST /v1/auth/signup" {
            std::fs::create_dir_all(&in_the_way).expect("something in the way");
        }
        None
    });
    let ran = dl.run(&format!("signup --email you@example.com --base-url {}", double.url));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), format!("{KEY}\n").as_str()), "{ran}");
    assert!(std::fs::read_to_string(dl.config("credentials.toml")).expect("a file").contains(KEY));
    assert!(ran.stderr.contains("credentials.toml (profile default), but the configuration could not"), "{ran}");
    assert!(!ran.stderr.contains("could not be stored"), "{ran}");
}

/// Ctrl-C between the request and its answer would lose the key: `dl` waits for the answer.
#[test]
fn a_signal_waits_for_a_key_that_is_being_made() {
    for (line, request, ..) in MAKERS {
        let (double, gate) = slow(request);
        let dl = somebody(&double);
        let child = start(&dl, line, "code.txt", Stdio::piped());
        wait_for("the request is out", || double.lines().contains(&request.to_owned()));
        let (code, stdout, stderr) = interrupt(child, "-INT", &gate);
        let key = if line.starts_with("pk") { "pk_live_3fa91c07be5d2846" } else { OTHER_KEY };
        assert!(code == Some(130) && stdout.starts_with(key), "{line}: {code:?} {stdout} {stderr}");
    }
    // Before the request Ctrl-C takes effect at once.
    let double = Double::new(|_| Answer::new(200, "{}").after(Duration::from_secs(30)));
    let child = start(&somebody(&double), "keys list", "code.txt", Stdio::piped());
    wait_for("the request is out", || !double.requests().is_empty());
    send(&child, "-INT");
    assert_eq!(end(child).0, Some(130));
}

#[test]
fn a_signal_waits_until_the_first_key_is_kept() {
    for signal in ["-INT", "-TERM"] {
        let (double, gate) = slow("POST /v1/auth/signup");
        let dl = Dl::new();
        dl.secret_file("nothing.txt", "");
        let line = format!("signup --email you@example.com --base-url {}", double.url);
        let child = start(&dl, &line, "nothing.txt", Stdio::piped());
        wait_for("the request is out", || !double.requests().is_empty());
        let (code, _, stderr) = interrupt(child, signal, &gate);
        assert_eq!(code, Some(if signal == "-INT" { 130 } else { 143 }), "{stderr}");
        assert_eq!(dl.run("token").ok(), format!("{KEY}\n"));
    }
}

/// A sign-in that is interrupted while its key is made stores the key, says so, and ends the session.
#[test]
fn a_signal_during_a_sign_in_leaves_no_key_behind() {
    let (double, gate) = slow(ISSUE);
    let dl = Dl::new();
    dl.secret_file("link.txt", TOKEN);
    let line = format!("login --email you@example.com --link-stdin --base-url {}", double.url);
    let child = start(&dl, &line, "link.txt", Stdio::piped());
    wait_for("the key is asked for", || double.lines().contains(&ISSUE.to_owned()));
    let (code, _, stderr) = interrupt(child, "-INT", &gate);
    assert_eq!(code, Some(130), "{stderr}");
    assert!(stderr.contains("key dl_live_7777777777... is stored in "), "{stderr}");
    // The signal may interrupt the key's first use, which then arrives before or after the end of the session, or
    // never.
    let after_the_key = || {
        let lines = double.lines().into_iter().skip_while(|line| line != ISSUE).skip(1);
        lines.filter(|line| line != "GET /v1/links").collect::<Vec<_>>()
    };
    wait_for("the session is ended", || !after_the_key().is_empty());
    assert_eq!(after_the_key(), ["POST /v1/auth/signout"]);
    assert_eq!(dl.run("token").ok(), format!("{OTHER_KEY}\n"));
}
