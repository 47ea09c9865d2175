//! `dl links qr` ended by a signal: it says how far it got, what failed, and how to continue.

use std::fs;
use std::io::{BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::qr_batch::{answer, files, ids};
use crate::signals::{send, wait_for};
use deeplink_testing::dl::{Dl, Ran};
use deeplink_testing::double::{Answer, Double, Request};

/// Starts a line with the file `ids` on stdin, if there is one, and both outputs kept.
fn start(dl: &Dl, line: &str) -> Child {
    let stdin = fs::File::open(dl.dir().join("ids")).map_or_else(|_| Stdio::null(), Stdio::from);
    dl.command(line).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("dl starts")
}

/// Ends a run as Ctrl-C does, and checks its exit code.
fn interrupt(child: Child) -> Ran {
    send(&child, "-INT");
    let ended = child.wait_with_output().expect("dl ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let ran = Ran { code: ended.status.code(), stdout: text(ended.stdout), stderr: text(ended.stderr) };
    assert_eq!(ran.code, Some(130), "{ran}");
    ran
}

/// Every code but one is answered at once.
fn stuck_at_five(request: &Request) -> Answer {
    let answer = answer(request);
    if request.path().contains("link-005/") { answer.after(Duration::from_secs(30)) } else { answer }
}

#[test]
fn after_ctrl_c_the_same_command_goes_on() {
    let double = Double::new(stuck_at_five);
    let dl = Dl::at(&double.url);
    for (flag, how) in [
        ("--skip-existing", "run the same command with --skip-existing to continue"),
        // The files may be old: only the start of the message is certain.
        ("--force", "run the same command again to start over"),
    ] {
        let dir = if flag == "--force" { "forced" } else { "out" };
        dl.file("ids", &ids(30));
        let child = start(&dl, &format!("links qr - --dir {dir} {flag} --progress off -o json"));
        wait_for("five are written", || files(&dl.dir().join(dir)) == 5);
        let ended = interrupt(child);
        assert_eq!(ended.stderr, format!("5 of 30 written; {how}\n"));
        let rows: serde_json::Value = serde_json::from_str(&ended.stdout).expect("whole JSON");
        assert_eq!(rows.as_array().map(Vec::len), Some(5));
    }
}

/// A pipe that was closed before the signal, as in a pipeline that Ctrl-C ends, hides neither the count nor the exit
/// code.
#[test]
fn after_ctrl_c_a_reader_who_has_left_hides_nothing() {
    let double = Double::new(stuck_at_five);
    let dl = Dl::at(&double.url);
    dl.file("ids", &ids(30));
    let mut child = start(&dl, "links qr - --dir left --progress off -o json");
    let (mut stdout, mut read) = (BufReader::new(child.stdout.take().expect("a pipe")), Vec::new());
    while !String::from_utf8_lossy(&read).contains("link-004.png") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).expect("five rows");
        read.extend(byte);
    }
    drop(stdout);
    let ended = interrupt(child);
    assert_eq!(ended.stderr, "5 of 30 written; run the same command with --skip-existing to continue\n");
}

/// In JSON, failures before the signal are in the final record.
#[test]
fn after_ctrl_c_json_tells_what_had_failed() {
    let double = Double::new(|request| match request.path() {
        path if path.contains("link-001") => Answer::error(404, "not_found", "there is no such link"),
        path if path.contains("link-004") => Answer::reset(),
        _ => stuck_at_five(request),
    });
    let dl = Dl::at(&double.url).env("DL_RETRIES", "0");
    dl.file("ids", &ids(30));
    for (form, dir) in [("json", "a"), ("jsonl", "b"), ("table", "c")] {
        // Eight are fetched concurrently: link 12 is requested as soon as link 4 is done.
        let asked = || double.lines().iter().filter(|line| line.ends_with("link-012/qr.png")).count();
        let before = asked();
        let child = start(&dl, &format!("links qr - --dir {dir} --progress off -o {form}"));
        wait_for("five are done", || asked() > before);
        let ended = interrupt(child);
        if form == "table" {
            assert!(ended.says("error[not_found]: link-001: there is no such link"), "{ended}");
            assert!(ended.says("error[connection_broken]: link-004: "), "{ended}");
            assert!(ended.stderr.ends_with("3 of 30 written; run the same command with --skip-existing to continue\n"));
            continue;
        }
        let error = ended.error();
        let told = error["items"].as_array().expect("items").iter().map(|item| item["id"].as_str());
        assert_eq!(told.collect::<Vec<_>>(), [Some("link-001"), Some("link-004")], "{ended}");
        assert_eq!(
            (&error["code"], &error["message"], &error["hint"]),
            (
                &"interrupted".into(),
                &"stopped by Ctrl-C (SIGINT); 3 of 30 written, 2 failed, 25 not tried".into(),
                &"run the same command with --skip-existing to continue".into()
            ),
        );
        assert_eq!(ended.stderr.lines().count(), 1, "{ended}");
    }
}

/// Of several ids, the only one left besides existing files is reported as one of several.
#[test]
fn after_ctrl_c_the_last_of_several_goes_on_too() {
    let double = Double::new(|request| match request.path() {
        "/v1/links/slow-1/qr.png" => answer(request).after(Duration::from_secs(30)),
        _ => answer(request),
    });
    let dl = Dl::at(&double.url);
    dl.run("links qr fine-1 --dir out").ok();
    for (line, says) in
        [("fine-1 slow-1", "0 of 1 written; run the same command with --skip-existing to continue\n"), ("slow-1", "")]
    {
        let asked = || double.lines().iter().filter(|line| line.contains("slow-1/")).count();
        let before = asked();
        let child = start(&dl, &format!("links qr {line} --dir out --skip-existing"));
        wait_for("the request is out", || asked() > before);
        assert_eq!(interrupt(child).stderr, says, "{line}");
    }
}

/// Whether one of a command's threads is opening a pipe without a reader, according to the kernel.
fn waits_for_a_reader(child: &Child) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().filter_map(Result::ok);
    let waits_in = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("wchan")).unwrap_or_default();
    threads.map(waits_in).any(|function| function == "wait_for_partner")
}

/// A pipe without a reader does not keep a signal from ending the program.
#[test]
fn a_pipe_without_a_reader_hides_no_signal() {
    let double = Double::new(answer);
    let dl = Dl::at(&double.url);
    assert!(Command::new("mkfifo").arg(dl.dir().join("pipe.png")).status().expect("mkfifo").success());
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let before = double.requests().len();
        let mut child = start(&dl, "links qr fine-1 --out pipe.png");
        wait_for("the image and the link are asked for", || double.requests().len() == before + 2);
        wait_for("it waits at the pipe", || waits_for_a_reader(&child));
        send(&child, signal);
        wait_for("dl ends", || child.try_wait().expect("a child").is_some());
        assert_eq!(child.wait().expect("a code").code(), Some(code));
    }
}
