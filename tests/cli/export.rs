//! Every link, in a form that comes back as it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deeplink_testing::dl::{Dl, mode};
use deeplink_testing::double::{Answer, Double, link, with_links};

#[test]
fn an_export_is_csv_or_jsonl() {
    let dl = Dl::at(&with_links(250).url);
    let csv = dl.run("links export");
    assert_eq!(csv.ok().lines().count(), 251);
    assert!(csv.ok().starts_with("link_id,url,ios_deep_link,"), "{csv}");
    assert_eq!(csv.stderr, "250 links exported\n");
    assert_eq!(csv.stdout, dl.run("links list --all -o csv").stdout, "list and export agree");
    assert_eq!(dl.run("links export -o jsonl").ok().lines().count(), 250);
    dl.run("links export -o json").fails(2);
    assert_eq!(Dl::at(&with_links(0).url).run("links export").ok().lines().count(), 1, "an empty account is a header");
}

#[test]
fn a_file_grows_beside_its_name() {
    let dl = Dl::at(&with_links(250).url);
    dl.run("links export --out links.jsonl").ok();
    assert_eq!(dl.read("links.jsonl").lines().count(), 250);
    assert_eq!(mode(&dl.dir().join("links.jsonl")), 0o600);
    let names: Vec<_> =
        std::fs::read_dir(dl.dir()).expect("a directory").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(names, ["links.jsonl"]);
}

#[test]
fn a_stopped_export_goes_on() {
    let failing = Arc::new(AtomicUsize::new(2));
    let fails = Arc::clone(&failing);
    let whole = with_links(350);
    let (all, url) = (Dl::at(&whole.url).run("links export"), whole.url.clone());
    let double = Double::new(move |request| {
        if request.query("cursor") == Some("at-200") && fails.swap(0, Ordering::SeqCst) > 0 {
            return Answer::error(400, "invalid_cursor", "no");
        }
        let mut inner = std::process::Command::new(env!("CARGO_BIN_EXE_dl"));
        inner.args(["api", "GET", &request.target, "--auth", "none", "--base-url", &url]);
        Answer::new(200, inner.output().expect("dl runs").stdout)
    });
    let dl = Dl::at(&double.url);
    dl.run("links export --out links.csv").fails(3);
    assert!(dl.dir().join("links.csv.part").is_file() && !dl.dir().join("links.csv").exists());
    // What a crash may have left after the last page that counts.
    let part = dl.read("links.csv.part");
    dl.file("links.csv.part", &format!("{part}torn,half a li"));
    let ran = dl.run("links export --out links.csv --resume");
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stderr.starts_with("note: resuming after 200 links\n"), "{ran}");
    assert_eq!(dl.read("links.csv"), all.stdout);
    assert!(!dl.dir().join("links.csv.cursor").exists() && !dl.dir().join("links.csv.part").exists());
}

/// L23: only `--spreadsheet-safe` puts `'` before cells that a spreadsheet would take for a formula.
#[test]
fn l23_formulas_are_defused_on_request_only() {
    let double = Double::new(|_| {
        let mut link = link("spring-42");
        link["agent_context"]["cta"] = "=HYPERLINK(\"https://example.com\")".into();
        Answer::json(200, &serde_json::json!({"links": [link], "next_cursor": null}))
    });
    let dl = Dl::at(&double.url);
    assert!(dl.run("links export").ok().contains(r#","=HYPERLINK(""https://example.com"")","#));
    assert!(dl.run("links export --spreadsheet-safe").ok().contains(r#","'=HYPERLINK(""https://example.com"")","#));
}
