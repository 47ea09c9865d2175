//! Runs of imports: listed, shown, resumed, removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deeplink_testing::dl::{Dl, KEY};
use deeplink_testing::double::{Answer, Double};

/// A service that creates links once it is switched on.
pub(crate) fn moody() -> (Double, Arc<AtomicBool>) {
    let willing = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&willing);
    let double = Double::new(move |request| match request.line().as_str() {
        "POST /v1/links/bulk" if told.load(Ordering::SeqCst) => {
            let ids: Vec<_> = match &request.json()["links"] {
                serde_json::Value::Array(links) => links.iter().map(|link| link["custom_id"].clone()).collect(),
                _ => request.json()["custom_ids"].as_array().cloned().unwrap_or_default(),
            };
            let links: Vec<_> = ids.iter().map(|id| serde_json::json!({"link_id": id, "url": format!("https://go.example.com/{}", id.as_str().expect("an id"))})).collect();
            Answer::json(201, &serde_json::json!({"links": links}))
        }
        "POST /v1/links/bulk" => Answer::json(
            402,
            &serde_json::json!({"error": "quota exceeded", "code": "quota_exceeded", "resource": "links", "limit": 0, "current": 0}),
        ),
        _ => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
    });
    (double, willing)
}

#[test]
fn a_refused_run_is_resumed_by_name_or_by_the_same_command() {
    for resume in ["imports resume RUN", "links import links.csv"] {
        let (double, willing) = moody();
        let dl = Dl::at(&double.url);
        dl.file("links.csv", "custom_id,web_url\nspring-1,https://example.com/1\nspring-2,https://example.com/2\n");
        let ran = dl.run("links import links.csv");
        assert!(ran.fails(7).contains("hint: resume with: dl links import "), "{ran}");
        let run = dl.run("imports list -o id").ok().trim().to_owned();
        assert_eq!(dl.run("imports list --fields file,state,done,rows").ok(), "links.csv\tunfinished\t0\t2\n");
        assert_eq!(dl.run(&format!("imports show {} -o json", &run[..10])).json()["state"], "unfinished");
        willing.store(true, Ordering::SeqCst);
        let ran = dl.run(&resume.replace("RUN", &run));
        assert_eq!(ran.code, Some(0), "{ran}");
        assert!(ran.stderr.contains("note: resuming: import ") && ran.says("created 2"), "{ran}");
        assert_eq!(dl.run("imports list --fields run,state,done").ok(), format!("{run}\tfinished\t2\n"));
        assert!(dl.run(&format!("imports resume {run}")).fails(2).contains("has finished"));
    }
}

#[test]
fn another_content_or_service_is_refused_unless_restarted() {
    let (double, willing) = moody();
    let dl = Dl::at(&double.url);
    dl.file("links.csv", "custom_id,web_url\nspring-1,https://example.com/1\n");
    dl.run("links import links.csv").fails(7);
    dl.file("links.csv", "custom_id,web_url\nspring-1,https://example.com/2\n");
    willing.store(true, Ordering::SeqCst);
    let before = double.requests().len();
    let ran = dl.run("links import links.csv");
    assert!(ran.fails(3).starts_with("note: resuming") || ran.stderr.starts_with("error[run_changed]:"), "{ran}");
    assert!(ran.stderr.contains("error[run_changed]: ") && ran.stderr.contains("--restart to start over"), "{ran}");
    assert!(double.requests()[before..].iter().all(|request| request.method == "GET"), "nothing was made");
    dl.run("links import links.csv --restart").ok();
}

/// The command that resumes a run has every flag that it depends on, quoted where a shell needs it.
#[test]
fn the_line_to_go_on_with_is_complete() {
    let (double, willing) = moody();
    let dl = Dl::new().env("DL_API_KEY", KEY);
    dl.file("my links.csv", "Ref,web_url\nspring-1,https://example.com/1\n");
    let flags =
        format!("--map Ref=custom_id --base-url {} --journal kept --on-conflict skip --max-wait 20m", double.url);
    let ran = dl.run(&format!("links import 'my links.csv' {flags}"));
    let line =
        ran.fails(7).lines().find_map(|line| line.strip_prefix("  hint: resume with: dl ")).expect("a line").to_owned();
    assert!(line.contains("my links.csv'") && line.contains(" --max-wait 1200000ms"), "{line}");
    willing.store(true, Ordering::SeqCst);
    let ran = dl.run(&line);
    assert!(ran.code == Some(0) && ran.says("note: resuming: import ") && ran.says("created 1"), "{line}: {ran}");
}

#[test]
fn finished_runs_are_cleared_away_and_unfinished_ones_only_with_a_yes() {
    let (double, willing) = moody();
    let dl = Dl::at(&double.url);
    dl.file("a.csv", "custom_id,web_url\nspring-1,https://example.com/1\n");
    dl.file("b.csv", "custom_id,web_url\nspring-2,https://example.com/1\n");
    dl.run("links import a.csv").fails(7);
    willing.store(true, Ordering::SeqCst);
    dl.run("links import b.csv").ok();
    assert!(dl.run("imports prune --older-than 1d").stderr.contains("0 imports removed"));
    assert!(dl.run("imports prune -n").stderr.contains("1 import would be removed"));
    assert_eq!(dl.run("imports prune --fields file").ok(), "b.csv\n");
    dl.run("imports prune --unfinished").fails(2);
    assert_eq!(dl.run("imports prune --unfinished --yes --fields file").ok(), "a.csv\n");
    assert_eq!(dl.run("imports list -o id").ok(), "");
}

#[test]
fn a_run_belongs_to_its_profile() {
    let (double, _) = moody();
    let dl = Dl::new().stored("default", &double.url, KEY).stored("other", &double.url, KEY);
    dl.file("a.csv", "custom_id,web_url\nspring-1,https://example.com/1\n");
    dl.run("links import a.csv --profile other").fails(7);
    let run = dl.run("imports list -o id").ok().trim().to_owned();
    assert!(dl.run(&format!("imports resume {run}")).fails(2).contains("--profile other"));
    dl.run(&format!("imports resume {run} --profile other")).fails(7);
    assert!(dl.run("imports show nothing").fails(2).contains("no import named"));
}
