//! `dl webhooks verify`, `sign`, `sample`, `trigger` and `listen`: the tools of those who write receivers.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use base64::Engine as _;
use deeplink_core::signature::{Signer, WebhookSecret};
use serde_json::Value;

use crate::dl::{Dl, Ran, words};
use crate::double::{Answer, Double};
use crate::server::Server;
use crate::signals::{send, wait_for};
use crate::webhooks::of_webhooks;

const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
/// When signatures that are made here were made, in seconds since 1970.
const SIGNED_AT: i64 = 1_795_167_000;
/// A body that ends in a newline.
const SIGNED_BODY: &str = "{}\n";
const BODY: &str = r#"{"event":"refund","timestamp":"2026-11-20T09:30:00Z","data":{"n":1}}"#;

fn with_secret() -> Dl {
    let dl = Dl::new();
    dl.secret_file("s.txt", &format!("{SECRET}\n"));
    dl.file("b.json", BODY);
    dl
}

/// The headers that `sign` prints for the body.
fn signed(dl: &Dl, more: &str) -> Vec<(String, String)> {
    let ran = dl.run(&format!("webhooks sign --body b.json --secret-file s.txt {more}"));
    ran.ok()
        .lines()
        .map(|line| {
            let (name, value) = line.split_once(": ").expect("a header");
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

fn value<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    &headers.iter().find(|(header, _)| header == name).expect("a header").1
}

/// Each row of the documentation's table, with its exit code, and what is said to be wrong.
#[test]
fn a_signature_is_checked_and_a_wrong_one_explained() {
    let dl = with_secret();
    let headers = signed(&dl, "--id evt_1");
    let hex = value(&headers, "x-service-signature").to_owned();
    let bytes: Vec<u8> = (0..32).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex")).collect();
    let base64 = base64::engine::general_purpose::STANDARD.encode(bytes);
    let verify = |signature: &str, body: &str, secret: &str, more: &str| -> Ran {
        dl.file("body", body);
        dl.secret_file("secret", secret);
        dl.run(&format!("webhooks verify --signature '{signature}' --body body --secret-file secret {more}"))
    };
    verify(&hex, BODY, SECRET, "").ok();
    verify(&hex, BODY, &format!("{OTHER}\n{SECRET}\n"), "").ok();
    // Space around one secret says nothing against what another one signed.
    verify(&hex, BODY, &format!("{OTHER} \n{SECRET}\n"), "").ok();
    for (signature, body, secret, why) in [
        (hex.clone(), format!("{BODY}\n"), SECRET.to_owned(), "an added newline"),
        (hex.clone(), format!("{BODY}\r\n"), SECRET.to_owned(), "an added newline"),
        (hex.clone(), BODY.replace("\":", "\": "), SECRET.to_owned(), "parsed and written again"),
        (base64, BODY.to_owned(), SECRET.to_owned(), "in base64"),
        (hex.to_uppercase(), BODY.to_owned(), SECRET.to_owned(), "in upper-case hex"),
        (format!("sha256={hex}"), BODY.to_owned(), SECRET.to_owned(), "\"sha256=\" before it"),
        (hex.clone(), BODY.to_owned(), format!("{SECRET} \n"), "space around the secret"),
        (hex.clone(), BODY.to_owned(), format!("  {SECRET}"), "space around the secret"),
        (hex.clone(), BODY.to_owned(), format!("{OTHER}\n{SECRET} \n"), "space around the secret"),
        (hex_mac(format!("{SECRET}\n").as_bytes()), signed_text(), SECRET.to_owned(), "space around the secret"),
        (hex_mac(&SECRET.as_bytes()[6..]), signed_text(), SECRET.to_owned(), "without the secret's \"whsec_\""),
        (hex_mac(&base64_of(&SECRET[6..])), signed_text(), SECRET.to_owned(), "not with its text"),
        (hex_mac(SECRET.as_bytes()), signed_text().trim_end().to_owned(), SECRET.to_owned(), "lacks the newline"),
    ] {
        let ran = verify(&signature, &body, &secret, "");
        assert!(ran.fails(11).starts_with("error[invalid_signature]: ") && ran.says(why), "{why}: {ran}");
        assert!(ran.stdout.is_empty() && !ran.stderr.contains(&SECRET[6..]), "{ran}");
    }
    let unexplained = verify(&hex, BODY, OTHER, "");
    assert!(unexplained.fails(11).contains("does not match") && !unexplained.stderr.contains("hint"), "{unexplained}");
    assert_eq!(verify(&hex, BODY, "secret", "").fails(3).lines().count(), 1);
    assert_eq!(verify(&hex, BODY, SECRET, "--print").ok(), BODY);
    assert_eq!(verify(&hex, BODY, SECRET, "-o json").json()["event"], "refund");
    assert!(verify(&hex, BODY, SECRET, "--event conversion").fails(3).contains("not conversion"));
    assert!(verify(&hex, BODY, SECRET, "--max-age 5m").fails(2).contains("webhook-timestamp"));
    dl.file("b.json", "[]");
    let odd = value(&signed(&dl, ""), "x-service-signature").to_owned();
    assert!(verify(&odd, "[]", SECRET, "").fails(3).contains("the signature is good, but the body is not an event"));
    for (line, code) in [
        ("webhooks verify --signature aa --body b.json", 2),
        ("webhooks verify --body b.json --secret-file s.txt", 2),
        ("webhooks verify --headers none.txt --body b.json --secret-file s.txt", 2),
        ("webhooks verify --headers b.json --body b.json --secret-file s.txt", 3),
        ("webhooks verify --signature aa --raw b.json --secret-file s.txt", 2),
    ] {
        assert_eq!(dl.run(line).code, Some(code), "{line}");
    }
}

/// What a receiver may have computed in place of `X-Service-Signature`, of [`signed_text`] under any key: the other signature
/// is of such a text, and its key is whatever stands in base64.
fn hex_mac(key: &[u8]) -> String {
    let mac = base64_of(standard(key, SIGNED_BODY).strip_prefix("v1,").expect("a version"));
    mac.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// `webhook-signature` of a body under any key.
fn standard(key: &[u8], body: &str) -> String {
    let secret = format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(key));
    let signer = Signer::new(&WebhookSecret::new(secret)).expect("a secret");
    signer.standard("evt_1", SIGNED_AT, body.as_bytes())
}

fn signed_text() -> String {
    format!("evt_1.{SIGNED_AT}.{SIGNED_BODY}")
}

fn base64_of(text: &str) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
}

/// The same slips with `webhook-signature`, and headers of it that are missing.
#[test]
fn a_standard_signature_that_is_wrong_is_explained() {
    let dl = Dl::new();
    let key = base64_of(&SECRET[6..]);
    let good = standard(&key, BODY);
    let verify = |signature: &str, body: &str, secret: &str, more: &str| -> Ran {
        dl.file("body", body);
        dl.secret_file("secret", secret);
        let headers = ["webhook-id: evt_1", &format!("webhook-timestamp: {SIGNED_AT}")].join("\n");
        dl.file("h.txt", &format!("{headers}\nwebhook-signature: {signature}\n"));
        dl.run(&format!("webhooks verify --headers h.txt --body body --secret-file secret {more}"))
    };
    verify(&good, BODY, SECRET, "").ok();
    verify(&format!("v1,{} {good}", "A".repeat(44)), BODY, SECRET, "").ok();
    for (signature, body, secret, why) in [
        (good.clone(), format!("{BODY}\n"), SECRET.to_owned(), "an added newline"),
        (good.clone(), BODY.replace("\":", "\": "), SECRET.to_owned(), "parsed and written again"),
        (good.clone(), BODY.to_owned(), format!("{SECRET} \n"), "space around the secret"),
        (good[3..].to_owned(), BODY.to_owned(), SECRET.to_owned(), "lacks its version"),
        (standard(SECRET.as_bytes(), BODY), BODY.to_owned(), SECRET.to_owned(), "keyed with the text of the secret"),
    ] {
        let ran = verify(&signature, &body, &secret, "");
        assert!(ran.fails(11).starts_with("error[invalid_signature]: ") && ran.says(why), "{why}: {ran}");
    }
    assert!(verify(&good, BODY, OTHER, "").fails(11).contains("does not match"));
    assert!(verify(&good, BODY, SECRET, "--max-age 5m").fails(11).contains("too old"));
    // What is missing is named, whatever else is there.
    let service = format!("x-service-signature: {}\n", "0".repeat(64));
    for gone in ["webhook-signature", "webhook-id", "webhook-timestamp"] {
        let all = [
            format!("webhook-signature: {good}\n"),
            "webhook-id: evt_1\n".to_owned(),
            format!("webhook-timestamp: {SIGNED_AT}\n"),
        ];
        let rest: String = all.iter().filter(|line| !line.starts_with(gone)).map(String::as_str).collect();
        let line = "webhooks verify --headers h.txt --body body --secret-file secret";
        dl.file("h.txt", &format!("{service}{rest}"));
        let ran = dl.run(&format!("{line} --max-age 5m"));
        assert!(ran.fails(2).contains(&format!("needs the header {gone}, which is not there")), "{ran}");
        dl.file("h.txt", &rest);
        let ran = dl.run(line);
        let what = if gone == "webhook-signature" { "there is no signature" } else { gone };
        assert!(ran.fails(2).starts_with("error[no_signature]") && ran.says(what), "{ran}");
    }
}

#[test]
fn whole_requests_are_checked_as_they_came() {
    let dl = with_secret();
    let headers = signed(&dl, "--id evt_1");
    let lines = |headers: &[(String, String)]| -> String {
        let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        lines.concat()
    };
    dl.file("h.txt", &lines(&headers));
    dl.file("raw.txt", &format!("POST /hook HTTP/1.1\r\nHost: example.com\r\n{}\r\n{BODY}", lines(&headers)));
    let ran = dl.run("webhooks verify --raw raw.txt --secret-file s.txt --max-age 5m -o json");
    assert_eq!((ran.json()["id"].as_str(), ran.json()["valid"].as_bool()), (Some("evt_1"), Some(true)));
    let ran = dl.run_with("webhooks verify --headers h.txt --secret-file s.txt --max-age 5m", BODY);
    assert!(ran.ok().contains("evt_1"), "{ran}");
    dl.file("h.txt", &lines(&signed(&dl, "--id evt_1 --timestamp 10m")));
    let ran = dl.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt --max-age 5m");
    assert!(ran.fails(11).contains("too old"), "{ran}");
    dl.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt").ok();
    let spoilt: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.clone(), if name.starts_with('x') { "0".repeat(64) } else { value.clone() }))
        .collect();
    dl.file("h.txt", &lines(&spoilt));
    let ran = dl.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt");
    assert!(ran.code == Some(0) && ran.says("webhook-signature is good, and x-service-signature is not"), "{ran}");
    dl.file("h.txt", "Content-Type: application/json\n");
    let ran = dl.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt");
    assert!(ran.fails(2).starts_with("error[no_signature]"), "{ran}");
}

/// What `sign` prints is what the vectors say.
#[test]
fn signatures_are_those_of_the_vectors() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/webhooks.json");
    let vectors: Value = serde_json::from_str(&std::fs::read_to_string(file).expect("the vectors")).expect("JSON");
    let mut signed = 0;
    for vector in vectors["vectors"].as_array().expect("vectors").iter().take(10) {
        let texts: Vec<&str> =
            vector["secrets"].as_array().expect("secrets").iter().filter_map(Value::as_str).collect();
        let dl = Dl::new().env("DL_WEBHOOK_SECRET", &texts.join("\n"));
        let at = jiff(vector["headers"]["webhook-timestamp"].as_str().expect("text"));
        let line = format!("webhooks sign --id evt_019a1b2c3d4e5f6071829304 --timestamp {at} -o json");
        let ran = dl.run_with(&line, vector["body"].as_str().expect("text"));
        assert_eq!(ran.json(), vector["headers"], "{}", vector["name"]);
        signed += 1;
    }
    assert_eq!(signed, 10);
}

fn jiff(seconds: &str) -> String {
    let seconds: i64 = seconds.parse().expect("seconds");
    deeplink_core::time::Timestamp::from_millis(seconds * 1_000).to_string()
}

#[test]
fn samples_of_a_seed_are_the_same_bytes() {
    let dl = Dl::new();
    for kind in ["click", "attribute", "identify", "conversion", "attribution"] {
        let line = format!("webhooks sample {kind} --seed 7");
        let body = dl.run(&line).ok().to_owned();
        assert!(body == dl.run(&line).ok() && !body.ends_with('\n'), "{kind}");
        assert_ne!(body, dl.run(&format!("webhooks sample {kind}")).ok(), "{kind}: another seed");
    }
    let set = "--set data.amount_cents=500 --set data.user_id=42 --set data.metadata.a=true --set data.currency=EUR";
    let sale = dl.run(&format!("webhooks sample conversion {set}")).json();
    assert_eq!((&sale["data"]["amount_cents"], &sale["data"]["user_id"]), (&500.into(), &"42".into()));
    assert_eq!(sale["data"]["metadata"]["a"], true);
    assert_eq!(dl.run("webhooks sample attribute --legacy").json()["event"], "attribution");
    assert!(dl.run("webhooks sample conversion --legacy").json()["data"]["link_id"].is_string());
    for (line, code) in
        [("sale", 2), ("click --set data", 2), ("click --set data.link_id.x=1", 2), ("click --set data=1", 3)]
    {
        assert_eq!(dl.run(&format!("webhooks sample {line}")).code, Some(code), "{line}");
    }
}

/// A `dl` that listens, and where.
struct Listening {
    child: Child,
    address: String,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Listening {
    fn start(dl: &Dl, more: &str) -> Self {
        let mut command = dl.command("webhooks listen --port 0 --secret-file s.txt -o jsonl");
        command.args(words(more)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("dl starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a line");
        let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(';').next());
        Self { address: address.unwrap_or_else(|| panic!("{line}")).to_owned(), child, stderr }
    }

    /// Its exit code, what it printed and what it said.
    fn end(mut self) -> (Option<i32>, Vec<Value>, String) {
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.stderr, &mut said).expect("UTF-8");
        let output = self.child.wait_with_output().expect("dl ends");
        let stdout = String::from_utf8(output.stdout).expect("UTF-8");
        let rows = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        (output.status.code(), rows, said)
    }
}

/// What is triggered is received; what is tampered with is noticed, with any of two secrets; what comes again is marked.
#[test]
fn what_is_triggered_arrives() {
    let dl = with_secret();
    dl.secret_file("s.txt", &format!("{SECRET}\n{OTHER}\n"));
    let program = Double::new(|request| {
        let taken = request.header("webhook-id").is_some() && request.header("x-service-signature").is_some();
        Answer::new(if taken { 204 } else { 500 }, "")
    });
    let listening = Listening::start(&dl, &format!("--forward-to {}/hook --count 2 --save kept", program.url));
    let to = &listening.address;
    let trigger = |more: &str| dl.run(&format!("webhooks trigger {more} --to {to}/x --secret-file s.txt -o jsonl"));
    let ran = trigger("conversion --repeat 2");
    assert_eq!(ran.ok().lines().count(), 2);
    for what in ["body", "signature"] {
        let ran = trigger(&format!("click --tamper {what}"));
        assert!(ran.ok().contains("\"status\":401"), "{ran}");
    }
    trigger("click --simulate-retries").ok();
    let (code, rows, said) = listening.end();
    assert_eq!(code, Some(0), "{said}");
    let verdicts: Vec<_> = rows.iter().map(|row| (row["verdict"].as_str().expect("text"), &row["status"])).collect();
    let (taken, refused) = (&Value::from(204), &Value::from(401));
    assert_eq!(
        verdicts,
        [("valid", taken), ("repeated", taken), ("invalid", refused), ("invalid", refused), ("valid", taken)]
    );
    assert!(said.contains("2 valid, 1 repeated, 2 invalid, 3 taken by the program"), "{said}");
    let received = program.requests();
    assert_eq!(received.len(), 3, "nothing that is not signed is handed on");
    assert_eq!(received[0].body, dl.run("webhooks sample conversion").ok(), "the very bytes");
    let mut kept: Vec<_> = std::fs::read_dir(dl.dir().join("kept"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    kept.sort();
    assert_eq!(kept.len(), 6, "{kept:?}");
    let stem = kept[0].strip_suffix(".headers").expect("headers");
    dl.run(&format!("webhooks verify --headers kept/{stem}.headers --body kept/{stem}.json --secret-file s.txt")).ok();
}

#[test]
fn listening_ends_as_it_was_told_to() {
    let dl = with_secret();
    let (code, rows, said) = Listening::start(&dl, "--timeout 300ms --count 1").end();
    assert!(code == Some(12) && rows.is_empty() && said.contains("0 of 1 events came in time"), "{said}");
    let listening = Listening::start(&dl, "--strict");
    let to = format!("{}/", listening.address);
    dl.run(&format!("webhooks trigger click --to {to} --secret-file s.txt --tamper body")).ok();
    let (code, rows, said) = listening.end();
    assert!(code == Some(11) && rows.len() == 1 && said.contains("the service did not sign"), "{said}");
    let listening = Listening::start(&dl, "--strict");
    dl.file("odd", "[]");
    let ran = dl.run(&format!("webhooks trigger click --body odd --to {} --secret-file s.txt", listening.address));
    assert!(ran.fails(1).contains("400"), "{ran}");
    let (code, rows, said) = listening.end();
    assert!(code == Some(11) && rows.len() == 1 && said.contains("a signed request came that is no event"), "{said}");
    let listening = Listening::start(&dl, "");
    dl.run(&format!("webhooks trigger click --to {} --secret-file s.txt", listening.address)).ok();
    send(&listening.child, "-INT");
    let (code, rows, said) = listening.end();
    assert!(code == Some(130) && rows.len() == 1 && said.contains("1 valid"), "{said}");
    assert!(dl.run("webhooks listen --port 0").fails(2).starts_with("error[no_secret]"));
    let stream = Dl::at("http://127.0.0.1:1");
    let empty = stream.secret_file("empty", " \n");
    for line in ["webhooks listen --port 0", "webhooks listen --stream"] {
        let ran = stream.run(&format!("{line} --secret-file {}", empty.display()));
        assert!(ran.fails(2).contains("--secret-file holds no secret"), "{line}: {ran}");
    }
}

/// What cannot be kept ends it, and what came is still told.
#[test]
fn requests_that_cannot_be_kept_end_it() {
    let dl = with_secret();
    dl.file("taken", "");
    let ran = dl.run("webhooks listen --port 0 --secret-file s.txt --save taken");
    assert!(ran.code == Some(1) && !ran.stderr.contains("listening"), "before anything is taken: {ran}");
    let listening = Listening::start(&dl, "--save kept");
    std::fs::remove_dir(dl.dir().join("kept")).expect("an empty folder");
    dl.file("kept", "");
    dl.run(&format!("webhooks trigger click --to {} --secret-file s.txt", listening.address)).ok();
    let (code, rows, said) = listening.end();
    assert!(code == Some(1) && rows.len() == 1 && said.contains("1 valid"), "{said}");
}

/// Whatever ends it, a request that the program has in hand gets the program's answer: cut off, it would come again.
#[test]
fn requests_in_hand_are_answered_before_it_ends() {
    let dl = with_secret();
    let (both, first) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (arrived, answered) = (Arc::clone(&both), Arc::clone(&first));
    let program = Double::new(move |request| {
        arrived.wait();
        if request.body.contains("\"conversion\"") {
            answered.wait();
        }
        Answer::new(204, "")
    });
    let listening = Listening::start(&dl, &format!("--forward-to {} --count 1", program.url));
    let trigger = |kind: &str| {
        let mut command =
            dl.command(&format!("webhooks trigger {kind} --to {} --secret-file s.txt", listening.address));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("dl starts")
    };
    let (quick, slow) = (trigger("click"), trigger("conversion"));
    assert_eq!(quick.wait_with_output().expect("dl ends").status.code(), Some(0));
    first.wait();
    let slow = slow.wait_with_output().expect("dl ends");
    assert_eq!(slow.status.code(), Some(0), "{}", String::from_utf8_lossy(&slow.stderr));
    let (code, rows, said) = listening.end();
    assert_eq!((code, rows.len(), program.requests().len()), (Some(0), 1, 2), "{said}");
}

#[test]
fn the_programs_answer_goes_back() {
    let dl = with_secret();
    for (answer, status, code) in
        [(Answer::new(503, ""), "503", 9), (Answer::new(302, "").header("location", "/"), "302", 1)]
    {
        let program = Double::new(move |_| answer.clone());
        let listening = Listening::start(&dl, &format!("--forward-to {} --count 1", program.url));
        let ran = dl.run(&format!("webhooks trigger click --to {} --secret-file s.txt", listening.address));
        assert!(ran.fails(code).contains(status), "{ran}");
        assert_eq!((listening.end().0, program.requests().len()), (Some(0), 1), "no redirect is followed");
    }
    let listening = Listening::start(&dl, "--forward-to http://127.0.0.1:1/ --count 1");
    let ran = dl.run(&format!("webhooks trigger click --to {} --secret-file s.txt", listening.address));
    assert!(ran.fails(9).contains("502"), "{ran}");
    let (_, rows, _) = listening.end();
    assert!(rows[0]["error"].as_str().is_some_and(|error| error.contains("refused")), "{rows:?}");
}

#[test]
fn events_go_to_this_machine_or_over_https() {
    let dl = with_secret();
    for to in ["http://example.com/", "ftp://127.0.0.1/", "https://u@example.com/", "https://example.com/#x", "here"] {
        for line in [format!("trigger click --to {to}"), format!("listen --port 0 --forward-to {to}")] {
            let ran = dl.run(&format!("webhooks {line} --secret-file s.txt"));
            assert!(ran.fails(2).contains("http:// to this machine"), "{ran}");
        }
    }
    let ran = dl.run("webhooks trigger click --to http://127.0.0.1:1/ --secret-file s.txt -n");
    assert!(ran.ok().starts_with("POST http://127.0.0.1:1/\n{\"event\":\"click\""), "{ran}");
    assert!(
        dl.run("webhooks trigger click --to http://127.0.0.1:1/ --secret-file s.txt").fails(9).contains("no answer")
    );
    let liar = Double::new(|_| Answer::new(200, ""));
    let ran = dl.run(&format!("webhooks trigger click --to {} --secret-file s.txt --tamper signature", liar.url));
    assert!(ran.fails(11).starts_with("error[tampered_event_taken]"), "{ran}");
}

/// A program without a public address hears of what happens at the service, signed with the secret that is shown.
#[test]
fn the_stream_reaches_a_local_program() {
    let server = Server::start();
    let user = server.user("you");
    user.run("links create https://example.com/p/42 --id spring-42").ok();
    let program = Double::new(|_| Answer::new(200, ""));
    let mut command = user.command(&format!("webhooks listen --stream --forward-to {}/hook -o jsonl", program.url));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("dl starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a line");
    let secret = line.trim_end().strip_prefix("events are signed with ").expect("a secret").to_owned();
    wait_for("the program hears of a click", || {
        user.run("links resolve spring-42 --as json").ok();
        !program.requests().is_empty()
    });
    send(&child, "-INT");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut said).expect("UTF-8");
    let output = child.wait_with_output().expect("dl ends");
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains(" valid, ") && said.contains("taken by the program"), "{said}");
    let request = &program.requests()[0];
    assert_eq!((request.json()["event"].as_str(), request.path()), (Some("click"), "/hook"));
    let headers: String =
        request.headers.iter().fold(String::new(), |all, (name, value)| all + name + ": " + value + "\n");
    user.file("h.txt", &headers);
    user.file("b.json", &request.body);
    user.secret_file("s.txt", &secret);
    user.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt --max-age 5m --event click").ok();
    let row: Value = serde_json::from_slice(output.stdout.split(|b| *b == b'\n').next().expect("a row")).expect("JSON");
    assert_eq!((row["id"].as_str(), row["verdict"].as_str()), (request.header("webhook-id"), Some("valid")));
    let refused = Dl::new().env("DL_BASE_URL", &server.url).env("DL_API_KEY", crate::dl::KEY);
    assert_eq!(refused.run("webhooks listen --stream").code, Some(4));
}

/// A stream that is refused ends with why, after what it gave before was handed on.
#[test]
fn a_stream_that_is_refused_says_so() {
    let asked = Arc::new(AtomicUsize::new(0));
    let opened = Arc::clone(&asked);
    let service = Double::new(move |request| match opened.fetch_add(1, Ordering::SeqCst) {
        0 => of_webhooks(request).expect("a stream of two events"),
        _ => Answer::error(403, "forbidden", "no"),
    });
    let dl = Dl::at(&service.url);
    // Until the refusal is on its way, the program has the first event in hand.
    let program = Double::new(move |_| {
        wait_for("the stream is refused", || asked.load(Ordering::SeqCst) > 1);
        Answer::new(200, "").after(Duration::from_millis(300))
    });
    let ran = dl.run(&format!("webhooks listen --stream --forward-to {} -o jsonl", program.url));
    assert_eq!((ran.fails(4).lines().count() > 1, ran.stdout.lines().count()), (true, 2), "{ran}");
    assert!(ran.says("2 valid, 2 taken by the program") && program.requests().len() == 2, "{ran}");
    for (status, code) in [(401, 4), (403, 4), (429, 8)] {
        let service = Double::new(move |_| Answer::error(status, "refused", "no").header("retry-after", "0"));
        let ran = Dl::at(&service.url).run("webhooks listen --stream --retries 0");
        assert!(ran.code == Some(code) && ran.says("error["), "{status}: {ran}");
    }
}
