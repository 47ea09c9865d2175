//! Events one by one: listed, exported, and followed.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deeplink_client::EventKind;
use deeplink_client::mock::fixtures;
use serde_json::{Value, json};

use crate::server::Server;
use crate::signals::{send, wait_for};
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double};

const COLUMNS: &str = "id,event,timestamp,link_id,first_touch_link_id,last_touch_link_id,install_id,user_id,platform,\
    user_agent,referer,app_version,conversion_type,amount_cents,currency,source_id,metadata";

/// From a click to a purchase, against the real service: what a list prints, an export writes, and what `--follow` adds.
#[test]
fn events_are_listed_exported_and_followed() {
    let server = Server::start();
    let user = server.user("you");
    assert!(user.run("events list").ok().is_empty());
    assert!(user.run("events list").stderr.contains("no events in the last 24 hours"));
    assert_eq!(user.run("events export").ok().trim_end(), COLUMNS, "a log without events is a header");
    user.run("links create https://example.com/p/42 --id spring-42").ok();
    user.run("links create https://example.com/p/7 --id autumn-7").ok();
    user.run("links resolve spring-42 --as json").ok();
    // A click is stored after the answer.
    wait_for("the click is listed", || !user.run("events list -o id").ok().is_empty());
    for line in [
        "sdk attribute spring-42 --install install-1 --app-version 2.4.0",
        "sdk identify --install install-1 --user ann",
        "sdk convert --user ann --type purchase --amount-cents 1999 --currency EUR",
        "links resolve autumn-7 --as json",
    ] {
        user.run(line).ok();
    }
    let kinds = |jsonl: &str| -> Vec<String> {
        let events = jsonl.lines().map(|line| serde_json::from_str::<Value>(line).expect("an event"));
        events.map(|event| event["event"].as_str().expect("a kind").to_owned()).collect()
    };
    let listed = user.run("events list -o jsonl").ok().to_owned();
    assert_eq!(kinds(&listed), ["click", "attribute", "identify", "conversion", "click"]);
    let body: Value = serde_json::from_str(listed.lines().nth(3).expect("a purchase")).expect("JSON");
    assert_eq!(body.as_object().expect("an object").keys().collect::<Vec<_>>(), ["id", "event", "timestamp", "data"]);
    assert_eq!(
        (&body["data"]["amount_cents"], &body["data"]["last_touch_link_id"]),
        (&json!(1999), &json!("spring-42"))
    );
    assert_eq!(user.run("events list --limit 2 -o jsonl").ok(), first_lines(&listed, 2));
    let filtered = |line: &str| kinds(user.run(&format!("events list {line} -o jsonl")).ok());
    assert_eq!(filtered("--kind click"), ["click", "click"]);
    assert_eq!(filtered("--link spring-42"), ["click", "attribute", "identify", "conversion"]);
    assert_eq!(filtered("--link autumn-7 --kind click"), ["click"]);
    assert_eq!(filtered("--to 2020-01-01").len(), 0);
    for (line, code, named) in [
        ("--kind sale", 3, "kind must be click"),
        ("--from 1d --to 2d", 3, "to must not be earlier than from"),
        ("--from soon", 2, "--from"),
    ] {
        let ran = user.run(&format!("events list {line}"));
        assert!(ran.code == Some(code) && ran.stderr.contains(named), "{ran}");
    }

    assert_eq!(user.run("events export -o jsonl").ok(), listed);
    user.run("events export --out all.jsonl").ok();
    assert_eq!(user.read("all.jsonl"), listed, "the same twice");
    let csv = user.run("events export").ok().to_owned();
    assert_eq!((csv.lines().next(), csv.lines().count()), (Some(COLUMNS), 6), "{csv}");
    assert_eq!(user.run("events list --all -o csv").ok(), csv, "list and export agree");
    let sale = csv.lines().nth(4).expect("a purchase");
    assert!(sale.contains(",spring-42,spring-42,,ann,") && sale.contains(",purchase,1999,EUR,"), "{sale}");
    // A time that is relative to now is carried by the cursor.
    let first = user.run("events list --kind click --limit 1 -o json").json();
    let next = first["next_cursor"].as_str().expect("a cursor").to_owned();
    let rest = user.run(&format!("events list --cursor {next} -o jsonl"));
    assert_eq!((kinds(rest.ok()).len(), kinds(&listed).len()), (1, 5));
    assert!(user.run(&format!("events list --kind click --cursor {next}")).fails(2).contains("includes the filters"));
    user.run("events export -o json").fails(2);
    user.run("events export --follow --out all.csv").fails(2);

    let mut command = user.command("events export --kind click -o jsonl --follow");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("dl starts");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains("following") {
        line.clear();
        assert_ne!(said.read_line(&mut line).expect("a line"), 0, "it goes on");
    }
    user.run("links resolve autumn-7 --as json").ok();
    user.run("sdk convert --user ann --type purchase").ok();
    user.run("links resolve spring-42 --as json").ok();
    let mut followed = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let links: Vec<String> = followed
        .by_ref()
        .take(4)
        .map(|line| {
            let event: Value = serde_json::from_str(&line.expect("a line")).expect("an event");
            event["data"]["link_id"].as_str().expect("a link").to_owned()
        })
        .collect();
    assert_eq!(links, ["spring-42", "autumn-7", "autumn-7", "spring-42"]);
    send(&child, "-INT");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("UTF-8");
    assert_eq!(child.wait().expect("dl ends").code(), Some(130), "{rest}");
    assert_eq!(kinds(user.run("events list --kind click -o jsonl").ok()).len(), 4, "what was followed is in the log");
}

fn first_lines(text: &str, count: usize) -> String {
    text.split_inclusive('\n').take(count).collect()
}

/// A service with events on three pages, the second of them empty.
fn with_events(fails: Arc<AtomicBool>) -> Double {
    Double::new(move |request| {
        let event = |kind: &EventKind| json!(fixtures::stored_event(kind));
        let (events, next) = match request.query("cursor") {
            None => (vec![event(&EventKind::Click), event(&EventKind::Attribute)], Some("second")),
            Some("second") => (vec![], Some("third")),
            Some(_) if fails.swap(false, Ordering::SeqCst) => return Answer::error(400, "invalid_cursor", "no"),
            Some(_) => (vec![event(&EventKind::Identify), event(&EventKind::Conversion)], None),
        };
        Answer::json(200, &json!({"events": events, "next_cursor": next}))
    })
}

/// An export that was stopped goes on after its last page; an empty page is not the end.
#[test]
fn a_stopped_export_of_events_goes_on() {
    for name in ["events.csv", "events.jsonl"] {
        let fails = Arc::new(AtomicBool::new(false));
        let dl = Dl::at(&with_events(Arc::clone(&fails)).url);
        dl.run(&format!("events export --out whole-{name}")).ok();
        fails.store(true, Ordering::SeqCst);
        dl.run(&format!("events export --out {name}")).fails(3);
        let part = dl.read(&format!("{name}.part"));
        dl.file(&format!("{name}.part"), &format!("{part}torn,half a li"));
        let ran = dl.run(&format!("events export --out {name} --resume"));
        assert_eq!(ran.stderr, "note: resuming after 2 events\n4 events exported\n", "{ran}");
        assert_eq!(dl.read(name), dl.read(&format!("whole-{name}")));
        assert!(!dl.dir().join(format!("{name}.part")).exists(), "{name}");
    }
}

/// A resumed export adds to the file only what it was begun with.
#[test]
fn another_export_is_not_added_to_a_file() {
    let fails = Arc::new(AtomicBool::new(true));
    let dl = Dl::at(&with_events(Arc::clone(&fails)).url);
    dl.run("events export --out events.csv -o csv --kind click").fails(3);
    for line in [
        "-o jsonl --kind click",
        "-o csv",
        "-o csv --kind click --link spring-42",
        "-o csv --kind click --from 1d",
        "-o csv --kind click --spreadsheet-safe",
    ] {
        let ran = dl.run(&format!("events export --out events.csv --resume {line}"));
        assert!(ran.code == Some(2) && ran.says("the interrupted export wrote events --kind click as CSV"), "{ran}");
    }
    dl.file("events.csv.part", "short");
    assert!(dl.run("events export --out events.csv -o csv --kind click --resume").fails(1).contains("shorter"));
}

/// Following begins where the export ended, also when none was exported and nothing has happened on the service since.
#[test]
fn a_quiet_service_is_followed() {
    let server = Server::start();
    let user = server.user("you");
    user.run("links create https://example.com/p/42 --id spring-42").ok();
    user.run("links resolve spring-42 --as json").ok();
    let mut command = user.command("events export --kind identify -o jsonl --from 0s --follow");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("dl starts");
    let mut said = BufReader::new(child.stderr.take().expect("a pipe")).lines().map(|line| line.expect("a line"));
    assert!(said.any(|line| line.contains("following")), "it goes on");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    user.run("sdk identify --install install-1 --user ann").ok();
    let line = lines.next().expect("an event").expect("a line");
    assert!(line.contains(r#""event":"identify""#) && line.contains("install-1"), "{line}");
    send(&child, "-INT");
    child.wait().expect("dl ends");
}

/// Only `--spreadsheet-safe` puts `'` before cells that a spreadsheet would treat as a formula.
#[test]
fn l23_formulas_in_events_are_defused_on_request_only() {
    let double = Double::new(|_| {
        let mut event = json!(fixtures::stored_event(&EventKind::Click));
        event["data"]["user_agent"] = "=HYPERLINK(1)".into();
        Answer::json(200, &json!({"events": [event], "next_cursor": null}))
    });
    let dl = Dl::at(&double.url);
    assert!(dl.run("events export").ok().contains(",=HYPERLINK(1),"));
    assert!(dl.run("events export --spreadsheet-safe").ok().contains(",'=HYPERLINK(1),"));
}
