//! `dl links qr`: codes in files, as the service draws them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deeplink_client::mock::fixtures;
use deeplink_core::qr::QrFormat;

use crate::signals::{send, wait_for};
use deeplink_testing::dl::{Dl, chmod, mode};
use deeplink_testing::double::{Answer, Double, Request, link, qr_code};

/// A service with every link except `gone`, and one code for all: that of `spring-42`.
pub(crate) fn service() -> Double {
    Double::new(answer)
}

pub(crate) fn answer(request: &Request) -> Answer {
    match request.path().trim_start_matches("/v1/links/").split_once('/') {
        _ if request.path().contains("gone") => Answer::error(404, "not_found", "there is no such link"),
        Some((_, "qr.png")) => qr_code(QrFormat::Png),
        Some((_, "qr.svg")) => qr_code(QrFormat::Svg),
        Some((_, "qr.pdf")) => qr_code(QrFormat::Pdf),
        Some((_, "qr.eps")) => qr_code(QrFormat::Eps),
        Some((_, path)) => panic!("unexpected request for {path}"),
        None => Answer::json(200, &link(request.path().trim_start_matches("/v1/links/"))),
    }
}

/// Runs a line with binary output.
pub(crate) fn run(dl: &Dl, line: &str) -> Output {
    dl.command(line).stdin(Stdio::null()).output().expect("dl runs")
}

/// The names in a directory, in order; none if it is not there.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_pipe_gets_the_bytes_of_the_service() {
    let double = service();
    let dl = Dl::at(&double.url);
    for (line, format) in [
        ("links qr spring-42", QrFormat::Png),
        ("links qr spring-42 --format svg", QrFormat::Svg),
        ("links qr spring-42 --format SVG --out -", QrFormat::Svg),
        ("links qr spring-42 --format pdf --verify", QrFormat::Pdf),
        ("links qr spring-42 --format eps", QrFormat::Eps),
        ("links qr spring-42 --verify", QrFormat::Png),
        ("links qr spring-42 --format svg --verify", QrFormat::Svg),
        // Settings for lists in the profile or environment do not affect an image.
        ("links qr spring-42 -o table", QrFormat::Png),
    ] {
        let ran = run(&dl, line);
        assert_eq!((ran.status.code(), ran.stdout), (Some(0), fixtures::qr_code(format).to_vec()), "{line}");
        let note = "note: the code was decoded and contains https://go.example.com/spring-42\n";
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(said, if line.ends_with("--verify") { note } else { "" }, "{line}");
    }
    let ran = run(&dl.env("DL_OUTPUT", "json"), "links qr spring-42");
    assert_eq!(ran.stdout, fixtures::qr_code(QrFormat::Png).to_vec());
}

#[test]
fn a_file_is_written_whole_with_the_usual_mode_and_never_over_another() {
    let double = service();
    let dl = Dl::at(&double.url);
    let (png, svg) = (fixtures::qr_code(QrFormat::Png).to_vec(), fixtures::qr_code(QrFormat::Svg).to_vec());
    let at = |name: &str| dl.dir().join(name);
    assert_eq!(dl.run("links qr spring-42 --out code.png").ok(), "code.png\n");
    dl.file("usual", "");
    assert_eq!((fs::read(at("code.png")).expect("a file"), mode(&at("code.png"))), (png.clone(), mode(&at("usual"))));
    // The name determines the format, unless a flag does.
    dl.run("links qr spring-42 --out code.svg").ok();
    assert_eq!(fs::read(at("code.svg")).expect("a file"), svg);
    dl.run("links qr spring-42 --out code.txt --format svg").ok();
    assert_eq!(fs::read(at("code.txt")).expect("a file"), svg);

    let asked = double.requests().len();
    dl.file("code.png", "mine");
    let ran = dl.run("links qr spring-42 --out code.png");
    assert_eq!(ran.fails(2), "error[file_exists]: code.png already exists\n  hint: use --force to replace it\n");
    assert_eq!((dl.read("code.png").as_str(), double.requests().len()), ("mine", asked), "no request was sent");
    chmod(&at("code.png"), 0o600);
    dl.run("links qr spring-42 --out code.png --force").ok();
    assert_eq!((fs::read(at("code.png")).expect("a file"), mode(&at("code.png"))), (png.clone(), 0o600), "as it was");

    // A symbolic link is followed, even if its target does not exist yet.
    std::os::unix::fs::symlink("code.svg", at("link.svg")).expect("a link");
    std::os::unix::fs::symlink("new.svg", at("dangling.svg")).expect("a link");
    std::os::unix::fs::symlink("nowhere/new.svg", at("lost.svg")).expect("a link");
    dl.file("code.svg", "mine");
    assert!(dl.run("links qr spring-42 --out link.svg").fails(2).contains("link.svg already exists"));
    assert_eq!(dl.read("code.svg"), "mine");
    dl.run("links qr spring-42 --out link.svg --force").ok();
    dl.run("links qr spring-42 --out dangling.svg").ok();
    assert_eq!(
        (fs::read(at("code.svg")).expect("a file"), fs::read(at("new.svg")).expect("a file")),
        (svg.clone(), svg)
    );
    assert!(["link.svg", "dangling.svg"].iter().all(|link| at(link).is_symlink()));
    assert!(dl.run("links qr spring-42 --out lost.svg").fails(2).contains("no such directory: nowhere"));

    // If stdout is a file, /dev/stdout is that file, and its earlier content stays.
    let script = format!("(echo first; {} links qr spring-42 --out /dev/stdout) >all", env!("CARGO_BIN_EXE_dl"));
    let ran =
        Command::new("bash").args(["-c", &script]).current_dir(dl.dir()).env_clear().envs(dl.variables()).output();
    assert!(ran.expect("bash").status.success());
    assert_eq!(fs::read(at("all")).expect("a file"), [&b"first\n"[..], &png].concat());

    // A special file is written to and not replaced.
    dl.run("links qr spring-42 --out /dev/null").ok();
    assert!(!fs::metadata("/dev/null").expect("it is there").is_file());
    assert!(dl.run("links qr spring-42 --out /dev/full").fails(1).contains("cannot write /dev/full"));
}

#[test]
fn a_directory_gets_a_file_for_each_link() {
    let double = service();
    let dl = Dl::at(&double.url);
    let ran = dl.run_with("links qr first-1 - --dir a/b --format svg", "second-2\n\n  third-3\r\nfirst-1\n");
    assert_eq!(
        ran.ok(),
        "first-1\ta/b/first-1.svg\t2410\nsecond-2\ta/b/second-2.svg\t2410\nthird-3\ta/b/third-3.svg\t2410\n"
    );
    assert_eq!(ran.stderr, "3 codes in a/b\n");
    let dir = dl.dir().join("a/b");
    let usual = dl.dir().join("usual");
    fs::create_dir(&usual).expect("a directory");
    assert_eq!(
        (names(&dir), mode(&dir)),
        (["first-1.svg", "second-2.svg", "third-3.svg"].map(String::from).to_vec(), mode(&usual))
    );
    assert_eq!(double.requests().len(), 6, "an id that is given twice has one file");
    let ran = dl.run("links qr third-3 new-4 --dir a/b --format svg");
    assert!(ran.fails(2).contains("a/b/third-3.svg already exists"), "{ran}");
    let ran = dl.run("links qr third-3 new-4 first-1 --dir a/b --format svg");
    assert!(ran.fails(2).contains("2 files already exist, such as a/b/third-3.svg"), "{ran}");
    assert_eq!((names(&dir).len(), double.requests().len()), (3, 6));
    dl.run("links qr third-3 new-4 --dir a/b --format svg --force").ok();
    // One link has the columns that several have.
    let one = dl.run("links qr third-3 --dir a/b");
    assert_eq!((one.ok(), one.stderr.as_str()), ("third-3\ta/b/third-3.png\t320\n", "1 code in a/b\n"));
    assert_eq!(dl.run("links qr third-3 --dir a/b --force -o json").json()[0]["file"], "a/b/third-3.png");
    assert_eq!(names(&dir), ["first-1.svg", "new-4.svg", "second-2.svg", "third-3.png", "third-3.svg"]);
    let none = dl.run_with("links qr - --dir empty", "\n");
    assert_eq!((none.ok(), names(dl.dir())), ("", vec!["a".to_owned(), "usual".to_owned()]));
    assert_eq!(none.stderr, "note: no IDs on stdin; nothing to do\n0 codes in empty\n");
    for line in ["links qr -", "links qr - --show", "links qr - --out x.png"] {
        let none = dl.run_with(line, "");
        assert!(none.ok().is_empty() && none.says("note: no IDs on stdin"), "{none}");
    }
}

#[test]
fn files_are_listed_in_every_form() {
    let double = service();
    let dl = Dl::at(&double.url);
    let one = dl.run("links qr spring-42 --out a.png -o json --verify").json();
    let wanted = serde_json::json!({
        "id": "spring-42", "file": "a.png", "url": "https://go.example.com/spring-42", "format": "png", "bytes": 320,
        "verified": true, "status": "active", "expires_at": null,
    });
    assert_eq!(one, wanted);
    let several = dl.run("links qr a-1 b-1 --dir out -o json --format svg").json();
    assert_eq!(several[1]["file"], "out/b-1.svg");
    assert_eq!((&several[0]["url"], &several[0]["verified"]), (&"https://go.example.com/a-1".into(), &().into()));
    assert!(several[0].as_object().is_some_and(|record| record.contains_key("verified")), "not checked: null");
    let line = "links qr a-1 b-1 --dir out --force";
    assert_eq!(dl.run(&format!("{line} -o id")).ok(), "a-1\nb-1\n");
    assert_eq!(dl.run(&format!("{line} -o jsonl")).ok().lines().count(), 2);
    assert!(
        dl.run(&format!("{line} -o csv"))
            .ok()
            .starts_with("id,file,url,format,bytes,verified,status,expires_at\r\na-1,out/a-1.png,https")
    );
    assert_eq!(
        dl.run(&format!("{line} --fields file,url")).ok().lines().next(),
        Some("out/a-1.png\thttps://go.example.com/a-1")
    );
    // The link is fetched if the output depends on it; -q prints only what was requested.
    for (flags, asks) in [
        ("--fields id,file,bytes -o json -q", false),
        ("-q", false),
        ("", true),
        ("--fields status -q", true),
        ("--fields expires_at -q", true),
        ("-o csv -q", true),
    ] {
        let before = double.requests().len();
        dl.run(&format!("{line} {flags}")).ok();
        let asked = &double.lines()[before..];
        assert_eq!(asked.len(), if asks { 4 } else { 2 }, "{flags}: {asked:?}");
    }
}

#[test]
fn what_does_not_say_the_links_address_is_not_kept() {
    // The code is that of spring-42, for every request.
    let double = service();
    let dl = Dl::at(&double.url);
    let ran = dl.run("links qr spring-42 --out good.png --verify");
    assert_eq!(ran.ok(), "good.png\n");
    assert_eq!(ran.stderr, "note: the code was decoded and contains https://go.example.com/spring-42\n");
    let ran = dl.run("links qr spring-42 --dir good --verify");
    assert!(!ran.ok().is_empty() && ran.stderr == "1 code in good, verified\n", "{ran}");
    fs::remove_dir_all(dl.dir().join("good")).expect("a directory");
    dl.file("kept.png", "mine");
    for line in ["--out bad.png", "--out bad.svg", "--out kept.png --force", "--dir out", "--out -", ""] {
        let ran = dl.run(&format!("links qr other-1 --verify {line}"));
        assert!(ran.fails(11).starts_with(
            "error[qr_mismatch]: the code contains \"https://go.example.com/spring-42\", but the URL of the link is \
                https://go.example.com/other-1\n"
        ), "{line}: {ran}");
        assert_eq!(ran.stdout, "", "{line}");
    }
    assert_eq!((names(dl.dir()), dl.read("kept.png").as_str()), (vec!["good.png".into(), "kept.png".into()], "mine"));
    let ran = dl.run("links qr other-1 spring-42 --dir out --verify -o json");
    assert_eq!((ran.code, ran.error()["items"][0]["code"].as_str()), (Some(10), Some("qr_mismatch")), "{ran}");
    assert_eq!(names(&dl.dir().join("out")), ["spring-42.png"]);
    dl.run("links qr other-1 other-2 --dir out --verify").fails(11);

    for body in [&b"\x89PNG\r\n\x1a\n"[..], b"<svg/>", &fixtures::qr_code(QrFormat::Png)[..200]] {
        let body = body.to_vec();
        let double = Double::new(move |request| match request.path() {
            "/v1/links/spring-42" => answer(request),
            _ => Answer::new(200, body.clone()).header("content-type", "image/png"),
        });
        let dl = Dl::at(&double.url);
        assert!(dl.run("links qr spring-42 --out x.png --verify").fails(11).starts_with("error[qr_unreadable]: "));
        assert!(names(dl.dir()).is_empty());
    }
}

#[test]
fn an_svg_is_read_back_from_the_png_of_the_same_look() {
    let double = service();
    let dl = Dl::at(&double.url);
    for (flags, asked) in [
        ("--shape circle --size 40", "shape=circle&size=900"),
        ("--size 1024 --level H", "level=H&size=1024"),
        ("", "size=900"),
    ] {
        let before = double.requests().len();
        dl.run(&format!("links qr spring-42 --verify --force --out x.svg {flags}")).ok();
        let targets: Vec<_> = double.requests()[before..].iter().map(|request| request.target.clone()).collect();
        assert!(targets.contains(&format!("/v1/links/spring-42/qr.png?{asked}")), "{targets:?}");
        assert_eq!(targets.len(), 3);
        assert_eq!(fs::read(dl.dir().join("x.svg")).expect("a file"), fixtures::qr_code(QrFormat::Svg));
    }
}

#[test]
fn all_are_tried_and_mixed_ends_are_partial() {
    let double = service();
    let dl = Dl::at(&double.url);
    let ran = dl.run("links qr gone-1 a-1 gone-2 b-1 --dir out -o jsonl");
    assert_eq!(ran.code, Some(10), "{ran}");
    assert_eq!(ran.stdout.lines().count(), 2);
    let items = ran.error()["items"].clone();
    assert_eq!(
        (&items[0]["id"], &items[1]["id"], &items[1]["code"]),
        (&"gone-1".into(), &"gone-2".into(), &"not_found".into())
    );
    assert_eq!(names(&dl.dir().join("out")), ["a-1.png", "b-1.png"]);
    assert!(dl.run("links qr gone-1 gone-2 --dir none").fails(5).ends_with("error: 2 of 2 failed\n"));
    let ran = dl.run("links qr gone-1 --out x.png");
    assert!(
        ran.fails(5).starts_with("error[not_found]: there is no such link (HTTP 404)\n  hint: dl links list"),
        "{ran}"
    );
    assert_eq!(names(dl.dir()), ["out"]);

    let refused = Double::new(|_| {
        let message = "size must be at least 66 for this link and these options";
        let body = serde_json::json!({"error": message, "code": "invalid_qr_options", "field": "size"});
        Answer::json(400, &body)
    });
    let ran = Dl::at(&refused.url).run("links qr spring-42 --size 65 --out x.png -o json");
    assert_eq!((ran.code, ran.error()["field"].as_str()), (Some(3), Some("size")), "{ran}");
}

#[test]
fn a_page_that_is_no_image_is_not_kept() {
    for answer in [
        Answer::new(200, "<html>").header("content-type", "text/html"),
        Answer::new(200, vec![b' '; 16 * 1024 * 1024 + 1]).header("content-type", "image/png"),
    ] {
        let double = Double::new(move |_| answer.clone());
        let dl = Dl::at(&double.url);
        assert!(dl.run("links qr spring-42 --out x.png").fails(1).starts_with("error[unexpected_answer]: "));
        assert!(names(dl.dir()).is_empty());
    }
}

#[test]
fn several_are_under_way_at_once_and_are_told_in_order() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (current, highest) = (Arc::clone(&now), Arc::clone(&most));
    let double = Double::new(move |request| {
        let many = current.fetch_add(1, Ordering::SeqCst) + 1;
        highest.fetch_max(many, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(if request.path().contains("-003/") { 200 } else { 10 }));
        current.fetch_sub(1, Ordering::SeqCst);
        answer(request)
    });
    let dl = Dl::at(&double.url);
    let ids: Vec<String> = (0..60).map(|at| format!("link-{at:03}")).collect();
    let ran = dl.run_with("links qr - --dir out -o id", &ids.join("\n"));
    assert_eq!(ran.ok().lines().collect::<Vec<_>>(), ids);
    assert_eq!(ran.stderr, "fetching QR codes: 60 codes\n60 codes in out\n");
    assert_eq!(names(&dl.dir().join("out")).len(), 60);
    let most = most.load(Ordering::SeqCst);
    assert!((2..=8).contains(&most), "{most} at once");
    let quiet = dl.run_with("links qr - --dir out -o id --force -q", &ids.join("\n"));
    assert_eq!((quiet.ok().lines().count(), quiet.stderr.as_str()), (60, ""));
}

/// However a run ends, every file in the directory is complete.
#[test]
fn neither_ctrl_c_nor_a_full_disk_leaves_half_a_file() {
    let double = Double::new(|request| match request.path() {
        "/v1/links/slow-1/qr.png" => qr_code(QrFormat::Png).after(Duration::from_secs(30)),
        _ => answer(request),
    });
    let dl = Dl::at(&double.url);
    for (line, signal, code, left) in [
        ("links qr spring-42 slow-1 --dir out", "-INT", 130, vec!["spring-42.png"]),
        ("links qr slow-1 --out x.png", "-TERM", 143, vec![]),
    ] {
        let slow = || double.lines().iter().filter(|line| line.contains("slow-1")).count();
        let before = slow();
        let mut child = dl.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("dl starts");
        wait_for("the request is out", || slow() > before && (left.is_empty() || names(&dl.dir().join("out")) == left));
        send(&child, signal);
        assert_eq!(child.wait().expect("dl ends").code(), Some(code));
    }
    assert_eq!((names(dl.dir()), names(&dl.dir().join("out"))), (vec!["out".into()], vec!["spring-42.png".into()]));

    // Files are limited to 1 KiB here, and the SVG is larger.
    dl.file("kept.svg", "mine");
    for line in ["links qr spring-42 --out kept.svg --force", "links qr a-1 spring-42 --dir full --format svg"] {
        let script = format!("trap '' XFSZ; ulimit -f 1; exec {} {line}", env!("CARGO_BIN_EXE_dl"));
        let ran = Command::new("bash")
            .args(["-c", &script])
            .current_dir(dl.dir())
            .env_clear()
            .envs(dl.variables())
            .output()
            .expect("bash");
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(1) && stderr.starts_with("error: cannot write "), "{line}: {stderr}");
    }
    assert_eq!((dl.read("kept.svg").as_str(), names(&dl.dir().join("full"))), ("mine", vec![]));
    assert_eq!(names(dl.dir()), ["full", "kept.svg", "out"]);
}

#[test]
fn a_reader_who_leaves_is_no_failure() {
    let double = service();
    let dl = Dl::at(&double.url);
    for line in ["links qr spring-42", "links qr spring-42 --show", "links qr spring-42 --out /dev/stdout"] {
        let script = format!("{} {line} | true; echo ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_dl"));
        let ran = Command::new("bash")
            .args(["-c", &script])
            .current_dir(dl.dir())
            .env_clear()
            .envs(dl.variables())
            .output()
            .expect("bash");
        assert_eq!((ran.stdout.as_slice(), ran.stderr.as_slice()), (&b"0\n"[..], &b""[..]), "{line}");
    }
}
