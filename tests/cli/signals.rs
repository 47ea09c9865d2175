//! Ctrl-C, SIGTERM, and closed pipes.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use deeplink_doubles::wait::{PATIENCE, eventually_blocking};
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, with_links};

/// Sends a signal such as `-INT`.
pub(crate) fn send(child: &Child, signal: &str) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill");
    assert!(status.success());
}

/// Waits for a condition.
pub(crate) fn wait_for(what: &str, is: impl FnMut() -> bool) {
    eventually_blocking(what, PATIENCE, is);
}

/// Waits until a command has read its stdin and wants more. It listens for signals before it reads. The result keeps it
/// waiting.
pub(crate) fn wait_until_it_reads(child: &mut Child) -> ChildStdin {
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"-").expect("there is room in a pipe");
    wait_for("it reads", || rustix::io::ioctl_fionread(&stdin).expect("a pipe") == 0);
    stdin
}

/// The exit code of a command that ends.
pub(crate) fn end_of(child: &mut Child) -> Option<i32> {
    let mut ended = None;
    wait_for("dl ends", || {
        ended = child.try_wait().expect("a status");
        ended.is_some()
    });
    ended.and_then(|status| status.code())
}

/// A pipe whose reader is closed.
pub(crate) fn left() -> Stdio {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    // A process that another test is just starting may have it open for a moment longer.
    wait_for("the pipe is closed", || writer.write(b"-").is_err());
    writer.into()
}

/// Waits for a line that begins so, and returns the output up to it.
pub(crate) fn hear(stderr: &mut impl BufRead, start: &str) -> String {
    let mut said = String::new();
    loop {
        let before = said.len();
        assert!(stderr.read_line(&mut said).expect("text") > 0, "it ended: {said}");
        if said[before..].starts_with(start) {
            return said;
        }
    }
}

#[test]
fn signals_have_their_codes() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let double = Double::new(|_| Answer::new(200, "{}").after(Duration::from_secs(30)));
        let mut child =
            Dl::at(&double.url).command("links get spring-42").stderr(Stdio::null()).spawn().expect("dl starts");
        wait_for("the request is out", || !double.requests().is_empty());
        send(&child, signal);
        assert_eq!(child.wait().expect("dl ends").code(), Some(code));
    }
}

/// Waiting for input that never comes ends with the signal, and no request is sent.
#[test]
fn a_signal_ends_the_wait_for_stdin() {
    for (line, signal, code) in [
        ("links get -", "-INT", 130),
        ("stats -", "-TERM", 143),
        ("links delete - -y", "-INT", 130),
        ("webhooks sign --secret-file s.txt", "-INT", 130),
        ("webhooks verify --signature 00 --secret-file s.txt", "-TERM", 143),
        ("webhooks verify --raw - --secret-file s.txt", "-INT", 130),
        ("webhooks trigger click --to http://127.0.0.1:9/ --body - --secret-file s.txt", "-INT", 130),
    ] {
        let double = Double::new(|_| Answer::new(200, "{}"));
        let dl = Dl::at(&double.url);
        dl.secret_file("s.txt", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n");
        let mut child = dl.command(line).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("dl starts");
        let stdin = wait_until_it_reads(&mut child);
        send(&child, signal);
        assert_eq!((end_of(&mut child), double.requests().len()), (Some(code), 0), "{line}");
        drop(stdin);
    }
}

/// The first Ctrl-C of an import waits for requests in flight, and says so; the second does not.
#[test]
fn the_second_ctrl_c_ends_an_import_at_once() {
    let double = Double::new(|request| match request.method.as_str() {
        "POST" => Answer::new(201, r#"{"links":[]}"#).after(Duration::from_secs(30)),
        _ => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
    });
    let dl = Dl::at(&double.url);
    dl.file("links.csv", "custom_id,web_url\nrow-1,https://example.com\n");
    let mut child = dl.command("links import links.csv").stderr(Stdio::piped()).spawn().expect("dl starts");
    wait_for("the batch is out", || double.lines().contains(&"POST /v1/links/bulk".to_owned()));
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    send(&child, "-INT");
    hear(&mut stderr, "stopping: waiting up to 10 s for requests in flight");
    let start = Instant::now();
    send(&child, "-INT");
    assert_eq!(child.wait().expect("dl ends").code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(25), "the answer takes 30 s");
    assert_eq!(dl.run("imports list --fields state,done").ok(), "unfinished\t0\n");
}

/// A closed pipe ends the command with 0 and without a message.
#[test]
fn a_closed_pipe_is_quiet() {
    let double = with_links(1_000);
    for form in ["table", "json", "jsonl", "csv", "id"] {
        let dl = Dl::at(&double.url);
        let mut command = dl.command(&format!("links list --all -o {form}"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("dl starts");
        let mut line = String::new();
        let mut stdout = BufReader::with_capacity(16, child.stdout.take().expect("a pipe"));
        stdout.read_line(&mut line).expect("a line");
        drop(stdout);
        let mut stderr = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
        assert_eq!((child.wait().expect("dl ends").code(), stderr.as_str()), (Some(0), ""), "{form}");
    }
}

#[test]
fn help_into_a_closed_pipe_is_quiet() {
    for line in ["--help", "man", "completions bash", "help exit-codes", "config path"] {
        let script = format!("{} {line} | true; echo ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_dl"));
        let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
        assert_eq!(
            (String::from_utf8_lossy(&output.stdout).trim(), String::from_utf8_lossy(&output.stderr).trim()),
            ("0", ""),
            "{line}"
        );
    }
}
