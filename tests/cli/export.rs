//! Every link, in a form that an import restores.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::server::Server;
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
    assert_eq!(
        Dl::at(&with_links(0).url).run("links export").ok().lines().count(),
        1,
        "an empty account gives only a header"
    );
}

#[test]
fn a_file_grows_beside_its_name() {
    let dl = Dl::at(&with_links(250).url);
    dl.run("links export --out links.jsonl").ok();
    assert_eq!(dl.read("links.jsonl").lines().count(), 250);
    let usual = dl.dir().join("usual");
    std::fs::write(&usual, "").expect("a file");
    assert_eq!(mode(&dl.dir().join("links.jsonl")), mode(&usual));
    std::fs::remove_file(&usual).expect("it is ours");
    let names: Vec<_> =
        std::fs::read_dir(dl.dir()).expect("a directory").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(names, ["links.jsonl"]);
}

#[test]
fn an_export_is_filtered_and_goes_on_with_the_same_filter_alone() {
    let double = Double::new(|request| match request.query("cursor") {
        None => Answer::new(200, r#"{"links":[],"next_cursor":"next"}"#),
        Some(_) => Answer::error(400, "invalid_cursor", "no"),
    });
    let dl = Dl::at(&double.url);
    let filtered = "links export --out links.csv --enabled false --domain go.example.com";
    dl.run(filtered).fails(3);
    let first = double.requests().remove(0);
    assert_eq!((first.query("enabled"), first.query("domain")), (Some("false"), Some("go.example.com")));
    for other in ["--enabled true --domain go.example.com", "--enabled false --domain example.com", "--enabled false"] {
        let said = dl.run(&format!("links export --out links.csv {other} --resume")).fails(2).to_owned();
        assert!(said.contains("--domain go.example.com"), "{other}: {said}");
    }
    dl.run(&format!("{filtered} --resume")).fails(3);
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
    let stopped = dl.run("links export --out links.csv");
    let said = stopped.fails(3);
    assert!(
        said.contains("note: 200 links written so far; to continue, run the same command with --resume\n"),
        "{said}"
    );
    assert!(dl.dir().join("links.csv.part").is_file() && !dl.dir().join("links.csv").exists());
    // What a crash may have left after the last complete page.
    let part = dl.read("links.csv.part");
    dl.file("links.csv.part", &format!("{part}torn,half a li"));
    let ran = dl.run("links export --out links.csv --resume");
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stderr.starts_with("note: resuming after 200 links\n"), "{ran}");
    assert_eq!(dl.read("links.csv"), all.stdout);
    assert!(!dl.dir().join("links.csv.cursor").exists() && !dl.dir().join("links.csv.part").exists());
}

/// Only `--spreadsheet-safe` puts `'` before cells that a spreadsheet would treat as a formula.
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

/// An import removes the prefix that an export puts before a cell that a spreadsheet would run: links are unchanged.
#[test]
fn r9_an_export_comes_back_whether_or_not_it_is_made_safe() {
    let server = Server::start();
    let dl = server.user("you");
    let texts = ["=HYPERLINK(\"https://example.com\")", "+1", "-1", "@SUM(A1)", "'=1", "''@x", "'quoted'"];
    let link = |(n, text): (usize, &&str)| {
        let link = serde_json::json!({
            "custom_id": format!("cell-{n}"), "web_url": "https://example.com/",
            "agent_context": {"cta": text, "description": format!("\t{text}")}, "social_preview": {"title": text},
        });
        format!("{link}\n")
    };
    dl.file("links.jsonl", &texts.iter().enumerate().map(link).collect::<String>());
    dl.run("links import links.jsonl").ok();
    for (flag, is_safe) in [("", false), ("--spreadsheet-safe", true)] {
        for command in ["links export", "links list --all -o csv"] {
            let csv = dl.run(&format!("{command} {flag}"));
            assert_eq!((csv.ok().contains(",+1,"), csv.stdout.contains(",'+1,")), (!is_safe, is_safe), "{csv}");
            dl.file("links.csv", &csv.stdout);
            let back = dl.run("links import links.csv -o json").json();
            assert_eq!((&back["existed"], &back["updated"]), (&texts.len().into(), &0.into()), "{command} {flag}");
        }
    }
}

/// A visitor's referrer never reaches a spreadsheet as a formula.
#[test]
fn r9_a_report_can_be_made_safe() {
    let double = Double::new(|request| {
        let key = "=HYPERLINK(\"\"https://example.com\"\")";
        if request.query("format").is_some() {
            let csv = format!("key,clicks\r\n\"{key}\",3\r\n\"-2+3\",1\r\n");
            return Answer::new(200, csv).header("content-type", "text/csv; charset=utf-8");
        }
        Answer::json(404, &serde_json::json!({"error": "none", "code": "not_found"}))
    });
    let dl = Dl::at(&double.url);
    let report = "stats spring-42 --group-by referer_host -o csv -q";
    assert_eq!(dl.run(report).ok(), "key,clicks\r\n\"=HYPERLINK(\"\"https://example.com\"\")\",3\r\n-2+3,1\r\n");
    assert_eq!(
        dl.run(&format!("{report} --spreadsheet-safe")).ok(),
        "key,clicks\r\n\"'=HYPERLINK(\"\"https://example.com\"\")\",3\r\n'-2+3,1\r\n"
    );
}
