//! `dl links qr` for many links: expired ones are named, and an interrupted run says how far it got and can be
//! continued.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use deeplink_core::qr::QrFormat;

use deeplink_testing::dl::{Dl, Ran};
use deeplink_testing::double::{Answer, Double, Nobody, Request, link, qr_code};

/// A service that has every link: `expired-…`, `flagged-…` and `disabled-…` have that status, and `ends-DAY` expires
/// then.
pub(crate) fn answer(request: &Request) -> Answer {
    let id = request.path().trim_start_matches("/v1/links/");
    match id.split_once('/') {
        Some((_, "qr.png")) => qr_code(QrFormat::Png),
        Some(_) => qr_code(QrFormat::Svg),
        None => {
            let mut found = link(id);
            match id.split_once('-') {
                Some((status @ ("expired" | "flagged" | "disabled"), _)) => found["status"] = status.into(),
                Some(("ends", days)) => found["expires_at"] = in_days(days.parse().expect("days")).into(),
                _ => {}
            }
            Answer::json(200, &found)
        }
    }
}

/// The time this many days from now.
#[expect(clippy::disallowed_methods, reason = "dl compares it with the wall clock")]
fn in_days(days: u64) -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    let millis = i64::try_from(since.as_millis()).expect("in range");
    deeplink_core::time::Timestamp::from_millis(millis).plus_days(i64::try_from(days).expect("in range")).to_string()
}

/// How many files are in a directory.
pub(crate) fn files(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

pub(crate) fn ids(count: usize) -> String {
    (0..count).map(|at| format!("link-{at:03}")).collect::<Vec<_>>().join("\n")
}

/// Runs a line of bash in which `dl` is the command.
fn bash(dl: &Dl, line: &str) -> Ran {
    let script = format!("dl() {{ {} \"$@\"; }}; {line}", env!("CARGO_BIN_EXE_dl"));
    let mut command = Command::new("bash");
    let ran = command.args(["-c", &script]).current_dir(dl.dir()).env_clear().envs(dl.variables()).output();
    let ran = ran.expect("bash");
    Ran {
        code: ran.status.code(),
        stdout: String::from_utf8_lossy(&ran.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&ran.stderr).into_owned(),
    }
}

#[test]
fn links_that_have_ended_or_will_are_named_wherever_a_code_goes() {
    let double = Double::new(answer);
    let dl = Dl::at(&double.url);
    for status in ["expired", "flagged", "disabled"] {
        for to in ["--out x.png --force", "--dir out --force", "| cat", "--show"] {
            let ran = bash(&dl, &format!("dl links qr {status}-1 {to} >/dev/null"));
            ran.ok();
            let warned = format!("warning: {status}-1 is {status}: people who scan its code see a notice\n");
            assert!(ran.stderr.starts_with(&warned), "{to}: {ran}");
        }
    }
    for to in ["--out x.png --force", "--dir out --force", "| cat", "--show"] {
        let ran = bash(&dl, &format!("dl links qr ends-30 {to} >/dev/null"));
        assert!(ran.code == Some(0) && ran.stderr.starts_with("warning: the link expires in 30d ("), "{to}: {ran}");
    }
    // Of many, each expired one is named, and those that will expire share one line.
    let ran = dl.run("links qr fine-1 expired-1 ends-30 ends-7 flagged-2 fine-2 --dir many -o csv");
    let rows: Vec<_> = ran.ok().lines().collect();
    assert!(rows[2].contains(",expired,") && rows[3].contains(",active,20") && rows[6].ends_with(",active,"), "{ran}");
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{ran}");
    assert_eq!(lines[0], "warning: expired-1 is expired: people who scan its code see a notice");
    assert_eq!(lines[1], "warning: flagged-2 is flagged: people who scan its code see a notice");
    assert!(lines[2].starts_with("warning: 2 of 6 links expire within 30 days (first: ends-7, on 20"), "{ran}");
    let json = dl.run("links qr disabled-1 ends-2 --dir many -o json").json();
    assert_eq!((&json[0]["status"], &json[0]["expires_at"]), (&"disabled".into(), &().into()));
    assert!(json[1]["expires_at"].as_str().is_some_and(|end| end.ends_with('Z')), "{json}");
    assert!(dl.run("links qr fine-1 ends-1 --show").says("1 of 2 links expires within 1 day (first: ends-1"));
    assert_eq!(dl.run("links qr expired-1 ends-3 --dir many --force -q").stderr, "");
}

/// Both requests for one code are concurrent: neither is answered before the other has arrived.
#[test]
fn a_pipe_waits_for_the_slower_of_two_answers_and_not_for_both() {
    let (arrived, alone) = (Arc::new((Mutex::new(0), Condvar::new())), Arc::new(AtomicBool::new(false)));
    let (both, waited) = (Arc::clone(&arrived), Arc::clone(&alone));
    let double = Double::new(move |request| {
        let (count, changed) = &*both;
        let mut count = count.lock().expect("no panic");
        *count += 1;
        changed.notify_all();
        let limit = Duration::from_secs(25);
        let (_count, end) = changed.wait_timeout_while(count, limit, |count| *count < 2).expect("no panic");
        waited.fetch_or(end.timed_out(), Ordering::SeqCst);
        answer(request)
    });
    bash(&Dl::at(&double.url), "dl links qr fine-1 | cat >/dev/null").ok();
    assert!(!alone.load(Ordering::SeqCst), "one was answered before the other came");
    assert_eq!(double.requests().len(), 2);
}

/// If the link is only fetched to warn of its expiry, the code is written even without the answer.
#[test]
fn a_link_that_cannot_be_looked_at_does_not_cost_its_code() {
    let double = Double::new(|request| match request.path().rsplit_once('/') {
        Some((_, "lost-1")) => Answer::error(500, "internal", "something broke"),
        _ => answer(request),
    });
    let dl = Dl::at(&double.url).env("DL_RETRIES", "0");
    let warned = "warning: could not check whether the link expires: something broke (HTTP 500)\n";
    for line in ["dl links qr lost-1 | cat >piped.png", "dl links qr lost-1 --out file.png >/dev/null"] {
        let ran = bash(&dl, line);
        assert_eq!((ran.ok(), ran.stderr.as_str()), ("", warned), "{line}");
    }
    let wanted = deeplink_client::mock::fixtures::qr_code(QrFormat::Png).to_vec();
    for name in ["piped.png", "file.png"] {
        assert_eq!(fs::read(dl.dir().join(name)).expect("a file"), wanted, "{name}");
    }
    let ran = dl.run("links qr fine-1 lost-1 --dir out");
    assert_eq!(ran.ok().lines().count(), 2, "{ran}");
    assert_eq!(ran.stderr, format!("{}2 codes in out\n", warned.replace("could", "lost-1: could")));
    // If the answer is part of the result, the code fails without it.
    for flags in ["--verify", "-o json", "--show", "--fields status"] {
        let ran = dl.run(&format!("links qr lost-1 --out not.png {flags}"));
        assert!(ran.fails(9).contains("something broke"), "{flags}: {ran}");
    }
    assert!(!dl.dir().join("not.png").exists());
    // A failed image is a failure, whatever the answer about the link.
    let none = Double::new(|request| match request.path().rsplit_once('/') {
        Some((_, "qr.png")) => Answer::error(500, "internal", "something broke"),
        _ => answer(request),
    });
    let ran = Dl::at(&none.url).env("DL_RETRIES", "0").run("links qr fine-1 --out not.png");
    assert!(ran.fails(9).starts_with("error[internal]: something broke"), "{ran}");
}

#[test]
fn what_is_there_is_skipped_and_not_asked_for() {
    let double = Double::new(answer);
    let dl = Dl::at(&double.url);
    dl.run("links qr link-000 link-001 --dir out").ok();
    fs::write(dl.dir().join("out/link-001.png"), "mine").expect("a file");
    let before = double.requests().len();
    let ran = dl.run_with("links qr - --dir out --skip-existing -o id", &ids(4));
    assert_eq!((ran.ok(), ran.stderr.as_str()), ("link-002\nlink-003\n", "2 codes in out; 2 already existed\n"));
    assert_eq!((double.requests().len() - before, dl.read("out/link-001.png").as_str()), (4, "mine"));
    let ran = dl.run_with("links qr - --dir out --skip-existing", &ids(4));
    assert_eq!((ran.ok(), ran.stderr.as_str()), ("", "0 codes in out; 4 already existed\n"));
    let ran = dl.run_with("links qr - --dir out", &ids(4));
    assert!(
        ran.fails(2).contains("hint: use --skip-existing to keep existing files, or --force to replace them"),
        "{ran}"
    );
    // A directory of that name is not an existing code.
    fs::create_dir(dl.dir().join("out/link-004.png")).expect("a directory");
    let before = double.requests().len();
    for flag in ["--skip-existing", "--force", ""] {
        let ran = dl.run_with(&format!("links qr - --dir out {flag}"), &ids(5));
        assert!(
            ran.fails(2).contains("--dir: out/link-004.png already exists and is not a file\n  hint: move it"),
            "{ran}"
        );
    }
    assert_eq!(double.requests().len(), before);
}

/// Of several ids, the only one left to draw is named in errors as among several.
#[test]
fn the_last_of_several_is_still_one_of_several() {
    let double = Double::new(|request| match request.path() {
        path if path.contains("gone") => Answer::error(404, "not_found", "there is no such link"),
        _ => answer(request),
    });
    let dl = Dl::at(&double.url);
    dl.run("links qr fine-1 fine-2 --dir out").ok();
    let ran = dl.run("links qr fine-1 gone-1 --dir out --skip-existing");
    assert!(ran.fails(5).contains("error[not_found]: gone-1: there is no such link (HTTP 404)\n"), "{ran}");
    let ran = dl.run("links qr fine-1 gone-1 --dir out --skip-existing -o json");
    assert_eq!((ran.stdout.as_str(), &ran.error()["items"][0]["id"]), ("[]\n", &"gone-1".into()), "{ran}");
    let ran = dl.run("links qr fine-1 ends-30 --dir out --skip-existing");
    assert!(ran.stderr.starts_with("warning: 1 of 1 link expires within 30 days (first: ends-30"), "{ran}");
    // A single id keeps its own failure.
    let ran = dl.run("links qr gone-1 --dir out --skip-existing");
    assert!(ran.fails(5).starts_with("error[not_found]: there is no such link (HTTP 404)\n"), "{ran}");
}

#[test]
fn a_service_that_is_gone_is_said_once() {
    // Nothing listens there: nothing was written, and all attempts failed alike.
    let nobody = Nobody::at_a_port();
    let url = &nobody.url;
    let ran = Dl::at(url).env("DL_RETRIES", "0").run_with("links qr - --dir out --progress off", &ids(200));
    let says = format!(
        "error[cannot_connect]: cannot connect to {url}: connection refused; 0 of 200 written, 3 failed, 197 not \
            tried\n  hint: is the server running?\n"
    );
    assert_eq!(ran.fails(9), says);
    // Midway: written files are counted.
    let double = Double::new(|request| match request.path()[..].get(15..18).and_then(|at| at.parse::<u32>().ok()) {
        Some(20..) => Answer::reset(),
        _ => answer(request),
    });
    let dl = Dl::at(&double.url).env("DL_RETRIES", "0");
    let ran = dl.run_with("links qr - --dir out --progress off", &ids(200));
    assert!(ran.fails(10).starts_with("error[connection_broken]: the connection to "), "{ran}");
    assert!(
        ran.stderr.contains("; 20 of 200 written, 3 failed, 177 not tried\n  hint: run the same command with"),
        "{ran}"
    );
    assert_eq!((ran.stderr.lines().count(), files(&dl.dir().join("out"))), (2, 20), "{ran}");
    let ran = dl.run_with("links qr - --dir out --force --progress off", &ids(200));
    assert!(ran.fails(10).ends_with("\n  hint: run the same command again to start over\n"), "{ran}");
    let ran = dl.run_with("links qr - --dir json --progress off -o json", &ids(200));
    let (rows, error): (serde_json::Value, _) = (serde_json::from_str(&ran.stdout).expect("whole JSON"), ran.error());
    assert_eq!((rows.as_array().map(Vec::len), error["items"].as_array().map(Vec::len)), (Some(20), Some(3)));
    assert_eq!((&error["items"][2]["id"], &error["code"]), (&"link-022".into(), &"connection_broken".into()));
}

/// Two failures in a row and then a success: the service is reachable, and each failure is named.
#[test]
fn a_connection_that_breaks_now_and_then_ends_nothing() {
    let double =
        Double::new(|request| if request.path().contains("link-1") { Answer::reset() } else { answer(request) });
    let dl = Dl::at(&double.url).env("DL_RETRIES", "0");
    let ran = dl.run("links qr link-10 link-11 link-20 link-12 link-13 link-21 link-14 --dir out");
    assert_eq!(ran.code, Some(10), "{ran}");
    assert_eq!(ran.stderr.matches("error[connection_broken]: link-1").count(), 5, "{ran}");
    assert!(ran.stderr.contains("2 codes in out\n") && ran.stderr.ends_with("error: 5 of 7 failed\n"), "{ran}");
}

#[test]
fn a_full_disk_ends_a_batch_with_its_counts() {
    // Files are limited to 1 KiB here: a PNG is smaller, and a longer answer is larger.
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let double = Double::new(move |request| {
        if request.path().ends_with("/link-003/qr.png") {
            return Answer::new(200, vec![b' '; 4_096]).header("content-type", "image/png");
        }
        counted.fetch_add(1, Ordering::SeqCst);
        answer(request)
    });
    let dl = Dl::at(&double.url);
    dl.file("ids", &ids(100));
    let line = "trap '' XFSZ; ulimit -f 1; dl links qr - --dir out --progress off <ids";
    let ran = bash(&dl, line);
    assert!(ran.fails(10).starts_with("error: cannot write out/link-003.png: file too large"), "{ran}");
    assert!(
        ran.stderr.ends_with(
            "; 3 of 100 written, 1 failed, 96 not tried\n  hint: run the same command with --skip-existing to \
                continue\n"
        ),
        "{ran}"
    );
    assert_eq!((ran.stdout.lines().count(), files(&dl.dir().join("out"))), (3, 3));
    assert!(asked.load(Ordering::SeqCst) < 60, "nothing more is requested");
    fs::remove_dir_all(dl.dir().join("out")).expect("a directory");
    let ran = bash(&dl, &format!("{line} -o json"));
    let items = ran.error()["items"].clone();
    assert_eq!((ran.code, &items[0]["id"], items.as_array().map(Vec::len)), (Some(10), &"link-003".into(), Some(1)));
}

#[test]
fn what_is_no_id_is_named_by_its_line_with_what_was_meant() {
    let double = Double::new(answer);
    let dl = Dl::at(&double.url);
    for (stdin, says) in [
        (
            "spring-42\n\nhttps://go.example.com/r/spring-42/?a=b\n",
            "error[invalid_id]: line 3 of stdin: \"https://go.example.com/r/spring-42/?a=b\" is not a link ID; IDs \
                have 3 to 64 letters, digits or '-' hint: the ID is the last part of a link's URL: use spring-42",
        ),
        ("link_id,url\nspring-42,https\n", "line 1 of stdin: \"link_id,url\" is not a link ID"),
        ("link_id,url\n", "hint: dl links list --all -o id prints only IDs, one per line"),
        ("link_id\n", "hint: dl links list --all -o id"),
        ("spring-42\tactive\n", "hint: dl links list --all -o id"),
        ("a b\n", "line 1 of stdin: \"a b\" is not a link ID"),
    ] {
        let ran = dl.run_with("links qr - --dir out", stdin);
        assert!(ran.code == Some(3) && ran.says(says), "{stdin}: {ran}");
        assert_eq!(ran.stderr.contains("hint"), !stdin.starts_with("a b"), "{ran}");
    }
    let ran = dl.run("links qr https://go.example.com/spring-42");
    assert!(ran.fails(3).starts_with("error[invalid_id]: \"https://go.example.com/spring-42\" is not"), "{ran}");
    assert!(ran.says("use spring-42") && double.requests().is_empty());
}
