//! Migration: exports of other services become links. From there, the rows are handled as in any other import, which
//! `import` tests.

mod apis;
mod exports;
mod notes;
mod refusals;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deeplink_server::clock::Clock;
use serde_json::{Value, json};

use crate::import::service;
use crate::imports::moody;
use crate::server::Server;
use deeplink_testing::dl::{Dl, Ran};
use deeplink_testing::double::{Answer, Double, Request};
use exports::{BITLY, BRANCH, DUB_JSON, FIREBASE, SHLINK_JSON};

/// The links that are sent, after a run that succeeds.
fn sent(double: &Double, ran: &Ran) -> Vec<Value> {
    assert_eq!(ran.code, Some(0), "{ran}");
    let bodies = double.requests().into_iter().filter(|request| request.method == "POST");
    bodies.flat_map(|request| request.json()["links"].as_array().cloned().unwrap_or_default()).collect()
}

fn moved(line: &str, name: &str, content: impl AsRef<[u8]>) -> Vec<Value> {
    let double = service();
    let dl = Dl::at(&double.url);
    std::fs::write(dl.dir().join(name), content).expect("a file");
    sent(&double, &dl.run(&format!("import {line} {name}")))
}

/// Imports a file, which must be rejected before anything is sent.
fn refused(line: &str, name: &str, content: impl AsRef<[u8]>) -> String {
    let double = service();
    let dl = Dl::at(&double.url);
    std::fs::write(dl.dir().join(name), content).expect("a file");
    let ran = dl.run(&format!("import {line} {name}"));
    let said = ran.fails(3).to_owned();
    assert!(double.requests().is_empty(), "{line}: {:?}", double.lines());
    said
}

#[test]
fn templates_settings_and_mappings_apply() {
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file("links.csv", "Code,Where,Title\nspring,,Spring\nsummer,https://example.com/summer,Summer\n");
    dl.file("t.json", r#"{"web_url": "https://example.com/", "metadata": {"campaign": "moved"}}"#);
    let ran = dl.run(
        "import --from csv links.csv --map Where=web_url --map Title=social.title --template t.json --set tags=moved \
         --set meta.clicks:int=0",
    );
    let links = sent(&double, &ran);
    assert_eq!(
        links[0],
        json!({
            "custom_id": "spring", "web_url": "https://example.com/", "tags": ["moved"],
            "social_preview": {"title": "Spring", "description": null, "image_url": null},
            "metadata": {"campaign": "moved", "clicks": 0},
        })
    );
    assert_eq!(links[1]["web_url"], "https://example.com/summer");
    assert!(dl.run("import --from csv links.csv --map Wo=web_url").fails(3).contains("no column \"Wo\" to map"));
    dl.run("import --from tinyurl links.csv").fails(2);
    dl.run("import links.csv").fails(2);
}

/// After reading, everything works as in any other import.
#[test]
fn an_export_is_checked_planned_rejected_and_resumed_as_any_file() {
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file("bitly.csv", &format!("{BITLY}https://bit.ly/a_b,,,,https://example.com,,\n"));
    let ran = dl.run("import --from bitly bitly.csv --rejects bad.csv --on-error continue --results done.csv");
    assert!(ran.fails(10).contains("warning: 1 of 3 rows is invalid and was skipped"), "{ran}");
    assert!(ran.says("created 2 rejected 1"), "{ran}");
    assert!(dl.read("done.csv").contains("spring-sale"));
    // Repaired, they are an export again.
    let bad = dl.read("bad.csv");
    assert!(bad.starts_with("Link,Custom Link,Date created,"), "{bad}");
    dl.file("good.csv", &bad.replace("bit.ly/a_b", "bit.ly/a-b"));
    let ran = dl.run("import --from bitly good.csv");
    assert!(ran.says("created 1") && !ran.stderr.contains("ignored"), "{ran}");
    let plan = dl.run("import --from bitly good.csv --dry-run -o json").json();
    assert_eq!((&plan["rows"], &plan["other_requests"]), (&json!(1), &json!(1)));
    let json = dl.run("import --from bitly bitly.csv --check -o json").error();
    assert_eq!((&json["items"][0]["code"], &json["items"][0]["id"]), (&json!("invalid_custom_id"), &json!("a_b")));
    dl.file("taken.csv", "Link,Destination URL\nhttps://bit.ly/taken-1,https://example.com\n");
    let taken = "IDs in use: --on-conflict skip keeps the existing links, and --on-conflict update changes them";
    assert!(dl.run("import --from bitly taken.csv").fails(10).contains(taken));
    assert_eq!(dl.run("import --from bitly taken.csv --on-conflict skip --restart -o json").json()["skipped"], 1);
    let piped = dl.run_with("import --from shlink - -o json", &SHLINK_JSON.replace('\n', " "));
    assert_eq!(piped.json()["created"], 1, "the list of an API, on one line: {piped}");
}

/// What is done before the stop is not sent again, and what is read is the same.
#[test]
fn an_interrupted_import_of_an_export_is_resumed() {
    for resume in ["imports resume RUN", "import --from bitly bitly.csv --sanitize-ids --last-segment --id-prefix b-"] {
        let (double, willing) = limited(100);
        let dl = Dl::at(&double.url);
        let rows: Vec<String> =
            (0..150).map(|at| format!("https://go.example.com/l/a_{at},https://example.com/{at}\n")).collect();
        dl.file("bitly.csv", &format!("Link,Destination URL\n{}", rows.concat()));
        let ran = dl.run("import --from bitly bitly.csv --sanitize-ids --last-segment --id-prefix b- --concurrency 1");
        let hint = ran.fails(7).lines().find(|line| line.contains("resume with:")).unwrap_or_default().to_owned();
        for part in ["dl import --from bitly /", "--sanitize-ids", "--last-segment", "--id-prefix b-"] {
            assert!(hint.contains(part), "{part}: {ran}");
        }
        let done = created(&double);
        assert!(done.len() == 100 && done.iter().all(|id| id.starts_with("b-a-")), "{ran}");
        let (before, run) = (double.requests().len(), dl.run("imports list -o id").ok().trim().to_owned());
        willing.store(true, Ordering::SeqCst);
        let ran = dl.run(&resume.replace("RUN", &run));
        assert!(ran.code == Some(0) && ran.says("created 150"), "{ran}");
        let later: Vec<String> = double.requests()[before..].iter().flat_map(ids).collect();
        assert!(later.len() == 50 && later.iter().all(|id| !done.contains(id)), "{later:?}");
        assert_eq!(dl.run("imports list --fields state").ok(), "finished\n");
    }
}

#[test]
fn the_rows_of_a_pipe_are_wanted_again_with_their_service() {
    let (double, _) = moody();
    let dl = Dl::at(&double.url);
    dl.run_with("import --from shlink -", SHLINK_JSON).fails(7);
    let run = dl.run("imports list -o id").ok().trim().to_owned();
    let ran = dl.run(&format!("imports resume {run}"));
    assert!(ran.fails(2).contains("pipe the same rows into dl import --from shlink -"), "{ran}");
}

/// A service that creates up to a limited number of links, and the rest once it is switched on.
fn limited(most: usize) -> (Double, Arc<AtomicBool>) {
    let (willing, made) = (Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
    let told = Arc::clone(&willing);
    let double = Double::new(move |request| match request.line().as_str() {
        "POST /v1/links/bulk" => {
            let ids = ids(request);
            if made.fetch_add(ids.len(), Ordering::SeqCst) + ids.len() > most && !told.load(Ordering::SeqCst) {
                let body = json!({
                    "error": "quota exceeded", "code": "quota_exceeded", "resource": "links", "limit": 0, "current": 0,
                });
                return Answer::json(402, &body);
            }
            let links: Vec<_> =
                ids.iter().map(|id| json!({"link_id": id, "url": format!("https://go.example.com/{id}")})).collect();
            Answer::json(201, &json!({"links": links}))
        }
        "GET /v1/links" => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
        _ => Answer::json(200, &deeplink_testing::double::link("a-0")),
    });
    (double, willing)
}

/// The IDs of a request.
fn ids(request: &Request) -> Vec<String> {
    if request.method != "POST" {
        return Vec::new();
    }
    let links = request.json()["links"].as_array().cloned().unwrap_or_default();
    links.iter().map(|link| link["custom_id"].as_str().expect("an id").to_owned()).collect()
}

/// The IDs of the first request that creates links.
fn created(double: &Double) -> Vec<String> {
    double.requests().iter().map(ids).find(|ids| !ids.is_empty()).unwrap_or_default()
}

#[test]
fn a_new_user_moves_in() {
    let server = Server::start();
    let dl = server.user("you");
    dl.file("bitly.csv", BITLY);
    dl.run("import --from bitly bitly.csv --check").ok();
    assert_eq!(dl.run("links list -o id").ok(), "");
    let made = dl.run("import --from bitly bitly.csv --keep-details -o json").json();
    assert_eq!((&made["rows"], &made["created"]), (&json!(2), &json!(2)));
    let link = dl.run("links get spring-sale -o json").json();
    assert_eq!((&link["name"], &link["imported_clicks"]), (&json!("Spring sale"), &json!(1204)));
    let stats = dl.run("stats spring-sale -o json").json();
    assert_eq!((&stats["funnel"]["clicks"], &stats["imported_clicks"]), (&json!(0), &json!(1204)), "apart");
    assert_eq!(dl.run("links resolve 4AbCdEf").ok(), "302\thttps://example.com/about\n");
    let again = dl.run("import --from bitly bitly.csv --keep-details -o json").json();
    assert_eq!((&again["existed"], &again["created"], &again["updated"]), (&json!(2), &json!(0), &json!(0)));
    // The other service may have counted on: only an update renews the count.
    dl.file("later.csv", &BITLY.replace("\"1,204\"", "1300"));
    let later = dl.run("import --from bitly later.csv --keep-details -o json").json();
    assert_eq!((&later["existed"], &later["rejected"]), (&json!(2), &json!(0)));
    let later = dl.run("import --from bitly later.csv --keep-details --on-conflict update -o json").json();
    assert_eq!((&later["existed"], &later["updated"]), (&json!(1), &json!(1)));
    assert_eq!(dl.run("links get spring-sale -o json").json()["imported_clicks"], 1300);
    // A file without counts takes none away.
    dl.file("without.csv", "Link,Custom Link,Destination URL,Title\nhttps://bit.ly/3xYz9Ab,https://go.example.com/spring-sale,https://example.com/sale?utm_source=bitly,Sale\n");
    let without = dl.run("import --from bitly without.csv --on-conflict update -o json").json();
    assert_eq!(without["updated"], 1);
    let link = dl.run("links get spring-sale -o json").json();
    assert_eq!((&link["name"], &link["imported_clicks"]), (&json!("Sale"), &json!(1300)));
    for (from, name, content, count) in
        [("firebase", "f.csv", FIREBASE, 2), ("branch", "b.csv", BRANCH, 2), ("dub", "d.json", DUB_JSON, 1)]
    {
        dl.file(name, content);
        assert_eq!(dl.run(&format!("import --from {from} {name} -o json")).json()["created"], count, "{from}");
    }
}

/// The result is the same before and after a link expires.
#[test]
fn an_export_is_imported_again_after_a_link_has_expired() {
    let clock = Clock::fixed("2025-01-01T00:00:00Z".parse().expect("a time"));
    let server = Server::start_at(clock.clone());
    let dl = server.user("you");
    let row = |slug: &str| format!("Slug,URL,Expires\n{slug},https://example.com/,2025-01-02\n");
    dl.file("links.csv", &row("spring"));
    assert_eq!(dl.run("import --from csv links.csv -o json").json()["created"], 1);
    clock.advance(Duration::from_hours(48));
    let again = dl.run("import --from csv links.csv");
    assert!(again.code == Some(0) && again.says("existed 1"), "{again}");
    assert!(again.says("note: 1 link has expired (links.csv:2)"), "{again}");
    // A new expired link is rejected like any other.
    dl.file("late.csv", &row("summer"));
    dl.run("import --from csv late.csv --check").ok();
    assert!(dl.run("import --from csv late.csv").fails(10).contains("[invalid_expires_at]"));
}

/// Aliases that the account cannot have are found before anything is sent. Short links on the other service's own domain do
/// not become aliases, because they cannot move.
#[test]
fn aliases_without_a_domain_are_refused_before_anything_is_sent() {
    let server = Server::start_at(Clock::fixed("2026-01-01T00:00:00Z".parse().expect("a time")));
    let dl = server.user("you");
    let rows = "https://go.example.com/a_b,https://example.com/\nhttps://bit.ly/c_d,https://example.com/\n";
    dl.file("links.csv", &format!("Link,Destination URL\n{rows}"));
    let import = "import --from bitly links.csv --sanitize-ids";
    dl.run(&format!("{import} --check")).ok();
    for line in [import.to_owned(), format!("{import} --dry-run")] {
        let ran = dl.run(&line);
        let said = ran.fails(3);
        let told = "1 link has an alias, which requires a verified primary domain; nothing was sent";
        assert!(said.contains(told) && said.contains("--set 'aliases=\\N'"), "{line}: {ran}");
    }
    assert_eq!(dl.run("links list -o json").json()["links"], json!([]));
    let ran = dl.run(&format!("{import} --on-error continue"));
    assert!(ran.fails(10).contains("aliases require a verified primary domain"), "{ran}");
    assert!(ran.says("created 1 rejected 1"), "{ran}");
    assert_eq!(dl.run(&format!("{import} --set aliases=\\N -o json")).json()["created"], 1);
}
