//! `dl webhooks trigger` and `listen`: POSTs arrive, are checked and forwarded.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::Server;
use crate::signals::{send, wait_for};
use crate::webhook_tools::{OTHER, SECRET, with_secret};
use crate::webhooks::of_webhooks;
use deeplink_testing::dl::{Dl, words};
use deeplink_testing::double::{Answer, Double};

/// A listening `dl`, and its address.
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

    /// Its exit code, stdout and stderr.
    fn end(mut self) -> (Option<i32>, Vec<Value>, String) {
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.stderr, &mut said).expect("UTF-8");
        let output = self.child.wait_with_output().expect("dl ends");
        let stdout = String::from_utf8(output.stdout).expect("UTF-8");
        let rows = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        (output.status.code(), rows, said)
    }
}

/// Triggered events are received; tampering is detected, with either of two secrets; repeats are marked.
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
    assert!(said.contains("2 valid, 1 repeated, 2 invalid, 3 accepted by the server"), "{said}");
    let received = program.requests();
    assert_eq!(received.len(), 3, "only signed requests are forwarded");
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
    assert!(code == Some(12) && rows.is_empty() && said.contains("0 of 1 events arrived in time"), "{said}");
    let listening = Listening::start(&dl, "--strict");
    let to = format!("{}/", listening.address);
    dl.run(&format!("webhooks trigger click --to {to} --secret-file s.txt --tamper body")).ok();
    let (code, rows, said) = listening.end();
    assert!(code == Some(11) && rows.len() == 1 && said.contains("was not signed by the service"), "{said}");
    let listening = Listening::start(&dl, "--strict");
    let mut stream = std::net::TcpStream::connect(listening.address.trim_start_matches("http://")).expect("it listens");
    std::io::Write::write_all(&mut stream, b"GET /favicon.ico HTTP/1.1\r\nhost: x\r\n\r\n").expect("written");
    let (code, rows, said) = listening.end();
    assert!(
        code == Some(11) && rows.len() == 1 && said.contains("is not an event from the service: use POST"),
        "{said}"
    );
    let listening = Listening::start(&dl, "--strict");
    dl.file("odd", "[]");
    let ran = dl.run(&format!("webhooks trigger click --body odd --to {} --secret-file s.txt", listening.address));
    assert!(ran.fails(1).contains("400"), "{ran}");
    let (code, rows, said) = listening.end();
    assert!(code == Some(11) && rows.len() == 1 && said.contains("a signed request is not an event"), "{said}");
    let program = Double::new(|_| Answer::new(500, ""));
    let listening = Listening::start(&dl, &format!("--strict --count 1 --forward-to {}", program.url));
    let ran = dl.run(&format!("webhooks trigger click --to {} --secret-file s.txt", listening.address));
    assert_eq!(ran.code, Some(9), "{ran}");
    let (code, rows, said) = listening.end();
    assert!(code == Some(9) && rows.len() == 1 && said.contains("the server responded with 500"), "{said}");
    let listening = Listening::start(&dl, "--host localhost");
    dl.run(&format!("webhooks trigger click --to {} --secret-file s.txt", listening.address)).ok();
    send(&listening.child, "-INT");
    let (code, rows, said) = listening.end();
    assert!(code == Some(130) && rows.len() == 1 && said.contains("1 valid"), "{said}");
    assert!(dl.run("webhooks listen --port 0").fails(2).starts_with("error[no_secret]"));
    let stream = Dl::at("http://127.0.0.1:1");
    let empty = stream.secret_file("empty", " \n");
    for line in ["webhooks listen --port 0", "webhooks listen --stream"] {
        let ran = stream.run(&format!("{line} --secret-file {}", empty.display()));
        assert!(ran.fails(2).contains("--secret-file contains no secret"), "{line}: {ran}");
    }
}

/// An event that cannot be saved ends it, and received ones are still reported.
#[test]
fn requests_that_cannot_be_kept_end_it() {
    let dl = with_secret();
    dl.file("taken", "");
    let ran = dl.run("webhooks listen --port 0 --secret-file s.txt --save taken");
    assert!(ran.fails(1).contains("taken already exists and is not a directory"), "before anything is accepted: {ran}");
    assert!(!ran.stderr.contains("listening"), "{ran}");
    let listening = Listening::start(&dl, "--save kept");
    std::fs::remove_dir(dl.dir().join("kept")).expect("an empty folder");
    dl.file("kept", "");
    dl.run(&format!("webhooks trigger click --to {} --secret-file s.txt", listening.address)).ok();
    let (code, rows, said) = listening.end();
    assert!(code == Some(1) && rows.len() == 1 && said.contains("1 valid"), "{said}");
}

/// However it ends, a request that the program is handling gets the program's answer: cut off, it would be sent again.
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
            assert!(ran.fails(2).contains("http:// on this machine"), "{ran}");
        }
    }
    let dry =
        |more: &str| dl.run(&format!("webhooks trigger click --to http://127.0.0.1:1/ --secret-file s.txt -n {more}"));
    let ran = dry("");
    assert!(
        ran.ok().starts_with("POST http://127.0.0.1:1/\n") && ran.stdout.contains("\n\n{\"event\":\"click\""),
        "{ran}"
    );
    assert!(ran.stdout.contains("\nwebhook-signature: v1,"), "{ran}");
    let json = dry("-o json").json();
    assert_eq!((&json["method"], &json["url"]), (&"POST".into(), &"http://127.0.0.1:1/".into()));
    assert_eq!(json["headers"]["x-service-signature"].as_str().map(str::len), Some(64));
    assert_eq!(json["body"].as_str(), Some(dl.run("webhooks sample click").ok()));
    assert!(
        dl.run("webhooks trigger click --to http://127.0.0.1:1/ --secret-file s.txt").fails(9).contains("no response")
    );
    let liar = Double::new(|_| Answer::new(200, ""));
    let ran = dl.run(&format!("webhooks trigger click --to {} --secret-file s.txt --tamper signature", liar.url));
    assert!(ran.fails(11).starts_with("error[tampered_event_taken]"), "{ran}");
}

/// A program without a public address gets the service's events, signed with the secret that is shown.
#[test]
fn the_stream_reaches_a_local_program() {
    let server = Server::start();
    let user = server.user("you");
    user.run("links create https://example.com/p/42 --id spring-42").ok();
    let program = Double::new(|_| Answer::new(200, ""));
    let mut command = user.command(&format!("webhooks listen --stream --forward-to {}/hook -o jsonl", program.url));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("dl starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut lines = stderr.by_ref().lines().map(|line| line.expect("a line"));
    let secret = lines.find_map(|line| line.strip_prefix("events are signed with ").map(str::to_owned));
    let secret = secret.expect("a secret");
    wait_for("the program gets a click", || {
        user.run("links resolve spring-42 --as json").ok();
        !program.requests().is_empty()
    });
    let (mut row, mut stdout) = (String::new(), BufReader::new(child.stdout.take().expect("a pipe")));
    stdout.read_line(&mut row).expect("a row");
    send(&child, "-INT");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut said).expect("UTF-8");
    assert_eq!(child.wait().expect("dl ends").code(), Some(130), "{said}");
    assert!(said.contains(" valid, ") && said.contains("accepted by the server"), "{said}");
    let request = &program.requests()[0];
    assert_eq!((request.json()["event"].as_str(), request.path()), (Some("click"), "/hook"));
    let headers: String =
        request.headers.iter().fold(String::new(), |all, (name, value)| all + name + ": " + value + "\n");
    user.file("h.txt", &headers);
    user.file("b.json", &request.body);
    user.secret_file("s.txt", &secret);
    user.run("webhooks verify --headers h.txt --body b.json --secret-file s.txt --max-age 5m --event click").ok();
    let row: Value = serde_json::from_str(&row).expect("JSON");
    assert_eq!((row["id"].as_str(), row["verdict"].as_str()), (request.header("webhook-id"), Some("valid")));
    let refused = Dl::new().env("DL_BASE_URL", &server.url).env("DL_API_KEY", deeplink_testing::dl::KEY);
    let ran = refused.run("webhooks listen --stream --save kept");
    assert!(ran.code == Some(4) && !ran.stderr.contains("whsec_") && !ran.stderr.contains("0 valid"), "{ran}");
}

/// A refused stream ends with the reason, after its earlier events were forwarded.
#[test]
fn a_stream_that_is_refused_says_so() {
    let asked = Arc::new(AtomicUsize::new(0));
    let opened = Arc::clone(&asked);
    let service = Double::new(move |request| match opened.fetch_add(1, Ordering::SeqCst) {
        0 => of_webhooks(request).expect("a stream of two events"),
        _ => Answer::error(403, "forbidden", "no"),
    });
    let dl = Dl::at(&service.url);
    // Until the refusal is sent, the program is still handling the first event.
    let program = Double::new(move |_| {
        wait_for("the stream is refused", || asked.load(Ordering::SeqCst) > 1);
        Answer::new(200, "").after(Duration::from_millis(300))
    });
    let ran = dl.run(&format!("webhooks listen --stream --forward-to {} -o jsonl", program.url));
    assert_eq!((ran.fails(4).lines().count() > 1, ran.stdout.lines().count()), (true, 2), "{ran}");
    assert!(ran.says("2 valid, 2 accepted by the server") && program.requests().len() == 2, "{ran}");
    assert!(ran.says("connected events are signed with whsec_") && ran.says("connection lost; reconnecting"), "{ran}");
    for (status, code) in [(401, 4), (403, 4), (429, 8)] {
        let service = Double::new(move |_| Answer::error(status, "refused", "no").header("retry-after", "0"));
        let ran = Dl::at(&service.url).run("webhooks listen --stream --retries 0");
        assert!(ran.code == Some(code) && ran.says("error["), "{status}: {ran}");
    }
}

/// The connection's state is printed, and the secret only if it is needed; without a key there is only the error.
#[test]
fn a_stream_says_how_its_connection_does() {
    let asked = AtomicUsize::new(0);
    let service = Double::new(move |request| match asked.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => of_webhooks(request).expect("a stream of two events"),
        _ => Answer::error(403, "forbidden", "no"),
    });
    let ran = Dl::at(&service.url).run("webhooks listen --stream -o id");
    let said: Vec<&str> = ran.fails(4).lines().collect();
    let (lost, again) = ("connection lost; reconnecting", "reconnected");
    assert_eq!(said[..5], ["streaming events; Ctrl-C to stop", "connected", lost, again, lost], "{ran}");
    assert!(!ran.stderr.contains("whsec_") && ran.says("2 valid"), "{ran}");
    let nobody = Dl::new().env("DL_BASE_URL", &service.url);
    let ran = nobody.run("webhooks listen --stream --forward-to http://127.0.0.1:1/");
    assert!(ran.fails(4).starts_with("error[no_key]"), "{ran}");
}

/// The timeout covers all attempts together, and the requests can be traced.
#[test]
fn what_is_triggered_can_be_watched_and_ends_in_time() {
    let dl = with_secret();
    let silent = Double::new(|_| Answer::new(200, "").after(Duration::from_secs(30)));
    let start = Instant::now();
    let to = |url: &str| format!("webhooks trigger click --to {url}/hook --secret-file s.txt");
    let ran = dl.run(&format!("{} --timeout 400ms -o json", to(&silent.url)));
    assert_eq!((ran.code, &ran.error()["code"]), (Some(12), &"timeout".into()), "{ran}");
    assert!(ran.stdout.contains("\"error\":\"no response in time\""), "{ran}");
    let failing = Double::new(|_| Answer::new(500, "sorry"));
    let ran = dl.run(&format!("{} --simulate-retries --timeout 5500ms", to(&failing.url)));
    assert!(
        ran.fails(12).contains("timed out (--timeout) in attempt 4 of 5") && ran.stdout.lines().count() == 3,
        "{ran}"
    );
    assert!(
        start.elapsed() < Duration::from_secs(28),
        "the answer, and all attempts, take 30 s: {:?}",
        start.elapsed()
    );
    let odd = Double::new(|_| Answer::new(400, "{\"why\":\"no\u{1b}[1m such type\"}\n"));
    let ran = dl.run(&to(&odd.url));
    assert!(ran.fails(1).contains("responded with 400") && ran.says("hint: its response: {\"why\":\"no"), "{ran}");
    let ran = dl.run(&format!("{} --tamper body -vv", to(&odd.url)));
    for said in ["> POST http://127.0.0.1:", "> webhook-signature: v1,", "< 400 in ", "< {\"why\":"] {
        assert!(ran.code == Some(0) && ran.stderr.contains(said), "{said}: {ran}");
    }
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains(&SECRET[6..]), "{ran}");
}

/// A body determines its own kind; another kind, or a body that is not an event, causes a warning.
#[test]
fn a_body_needs_no_kind() {
    let dl = with_secret();
    let receiver = Double::new(|_| Answer::new(200, ""));
    dl.file("click", dl.run("webhooks sample click").ok());
    dl.file("odd", "[]");
    let trigger = |more: &str| dl.run(&format!("webhooks trigger {more} --to {} --secret-file s.txt", receiver.url));
    assert!(trigger("--body click").ok().contains("200") && trigger("click --body click").stderr.is_empty());
    assert!(trigger("conversion --body click").says("warning: --body contains a click event, not conversion"));
    assert!(trigger("--body odd").says("warning: --body: not an event"));
    assert_eq!((trigger("").code, trigger("sale").code), (Some(2), Some(3)));
}

/// Every request is reported: also other methods and bodies that are too long, and an id only if it is signed.
#[test]
fn requests_that_are_refused_are_told() {
    let dl = with_secret();
    let listening = Listening::start(&dl, "--count 1");
    let send = |head: &str, body: &str| {
        let mut stream =
            std::net::TcpStream::connect(listening.address.trim_start_matches("http://")).expect("it listens");
        let length = body.len();
        let text = format!("{head}\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        // A body that is too long is not read to its end.
        let _ = std::io::Write::write_all(&mut stream, text.as_bytes());
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        String::from_utf8(answer.to_vec()).expect("text")
    };
    assert_eq!(send("GET / HTTP/1.1\r\nwebhook-id: evt_x", ""), "HTTP/1.1 405");
    assert_eq!(send("POST / HTTP/1.1", &"x".repeat((1 << 20) + 1)), "HTTP/1.1 413");
    let body = dl.run("webhooks sample click").ok().to_owned();
    let signed = dl.run_with("webhooks sign --secret-file s.txt --id evt_1", &body).ok().to_owned();
    let forged = signed.trim_end().replace("evt_1", "evt_forged").replace('\n', "\r\n");
    assert_eq!(send(&format!("POST / HTTP/1.1\r\n{forged}"), &body), "HTTP/1.1 401");
    let service = signed.lines().find(|line| line.starts_with("x-")).expect("a signature");
    let unsigned = format!("POST / HTTP/1.1\r\n{service}\r\nx-service-test: true\r\nwebhook-id: evt_unsigned");
    assert_eq!(send(&unsigned, &body), "HTTP/1.1 200");
    let (code, rows, said) = listening.end();
    assert!(code == Some(0) && said.contains("1 valid, 3 invalid"), "{said}");
    assert_eq!(rows.iter().map(|row| row["test"] == true).collect::<Vec<_>>(), [false, false, false, true]);
    let told: Vec<_> =
        rows.iter().map(|row| (row["status"].as_u64(), row["id"].as_str(), row["error"].as_str())).collect();
    assert_eq!(
        told,
        [
            (Some(405), Some("evt_x"), Some("use POST")),
            (Some(413), None, Some("the body is longer than 1 MiB")),
            (Some(401), Some("evt_forged"), Some("the signature does not match")),
            (Some(200), None, None),
        ]
    );
}
