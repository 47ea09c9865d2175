//! Links that are read from another service's API. The responses have the form that the page named beside them documents.

use std::io::BufReader;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::sent;
use crate::import::service;
use crate::imports::moody;
use crate::signals::{hear, send, wait_for};
use deeplink_testing::dl::{Dl, KEY as OWN_KEY, chmod, mode};
use deeplink_testing::double::{Answer, Double, Gate, Request};

/// The key of the other service.
const KEY: &str = "2c6d2ae3-7d1b-4a4e-9d0e-3f4a5b6c7d8e";
const SERVICES: [&str; 3] = ["bitly", "dub", "shlink"];

/// The requests that read a service's two pages of links, in order, and the responses.
fn script(from: &str) -> Vec<(String, Value)> {
    match from {
        "bitly" => bitly(),
        "dub" => dub(),
        _ => shlink(),
    }
}

/// <https://dev.bitly.com/api-reference#getGroups> and <https://dev.bitly.com/api-reference#getBitlinksByGroup>;
/// `search_after` is at <https://dev.bitly.com/docs/getting-started/changes-to-retrieve-bitlinks-by-group/>.
fn bitly() -> Vec<(String, Value)> {
    let link = |id: &str, title: &str, custom: &[&str]| {
        json!({
            "references": {"group": "https://api-ssl.bitly.com/v4/groups/Ba1bc23dE4F"},
            "link": format!("https://bit.ly/{id}"), "id": format!("bit.ly/{id}"),
            "long_url": format!("https://example.com/{id}"), "title": title, "archived": false,
            "created_at": "2025-03-01T09:30:00+0000", "created_by": "you", "client_id": "a1b2c3",
            "custom_bitlinks": custom, "tags": ["sale"], "launchpad_ids": [], "deeplinks": [],
        })
    };
    let list = "/v4/groups/Ba1bc23dE4F/bitlinks?size=100&archived=both";
    vec![
        (
            "/v4/groups".to_owned(),
            json!({"groups": [{
                "references": {"organization": "https://api-ssl.bitly.com/v4/organizations/Oa1bc23dE4F"},
                "name": "Shop", "bsds": [], "created": "2025-03-01T09:30:00+0000", "is_active": true,
                "modified": "2025-03-01T09:30:00+0000", "organization_guid": "Oa1bc23dE4F", "role": "org-admin",
                "guid": "Ba1bc23dE4F",
            }]}),
        ),
        (
            list.to_owned(),
            json!({
                "links": [link("3xYz9Ab", "Spring sale", &["https://go.example.com/spring-sale"])],
                "pagination": {"next": "https://api-ssl.bitly.com/…", "search_after": "c2VhcmNo=", "size": 1},
            }),
        ),
        (
            format!("{list}&search_after=c2VhcmNo%3D"),
            json!({"links": [link("4AbCdEf", "", &[])], "pagination": {"next": "", "search_after": "", "size": 1}}),
        ),
    ]
}

/// <https://dub.co/docs/api-reference/folders/list> and <https://dub.co/docs/api-reference/links/list>
fn dub() -> Vec<(String, Value)> {
    let link = |at: u32| {
        json!({
            "id": format!("link_{at}"), "domain": "go.example.com", "key": format!("row-{at}"),
            "url": format!("https://example.com/{at}"), "trackConversion": false, "externalId": null, "tenantId": null,
            "archived": false, "expiresAt": null, "expiredUrl": null, "disabledAt": null, "password": null,
            "proxy": false, "title": "Example", "description": null, "image": null, "video": null, "rewrite": false,
            "doIndex": false, "ios": null, "android": null, "geo": null, "publicStats": false, "tags": [],
            "folderId": null, "webhookIds": [], "comments": null, "shortLink": format!("https://go.example.com/row-{at}"),
            "qrCode": "https://api.dub.co/qr?url=…", "userId": "user_1", "workspaceId": "ws_1", "clicks": 3, "leads": 0,
            "sales": 0, "saleAmount": 0, "lastClicked": null, "createdAt": "2025-03-01T09:30:00.000Z",
            "updatedAt": "2025-03-02T09:30:00.000Z",
        })
    };
    let list = "/links?pageSize=100&showArchived=true";
    let full: Vec<Value> = (0..100).map(link).collect();
    vec![
        ("/folders?page=1&pageSize=50".to_owned(), json!([])),
        (list.to_owned(), full.into()),
        (format!("{list}&startingAfter=link_99"), json!([link(100)])),
    ]
}

/// `listShortUrls` at <https://api-spec.shlink.io>
fn shlink() -> Vec<(String, Value)> {
    let page = |page: u32, code: &str| {
        let link = json!({
            "shortCode": code, "shortUrl": format!("https://go.example.com/{code}"),
            "longUrl": format!("https://example.com/{code}"), "dateCreated": "2025-03-01T10:30:00+01:00",
            "visitsSummary": {"total": 5, "nonBots": 4, "bots": 1}, "tags": ["a", "b"],
            "meta": {"validSince": null, "validUntil": null, "maxVisits": null}, "domain": null, "title": null,
            "crawlable": false, "forwardQuery": true, "hasRedirectRules": false,
        });
        let pagination = json!({
            "currentPage": page, "pagesCount": 2, "itemsPerPage": 500, "itemsInCurrentPage": 1, "totalItems": 2,
        });
        let target = format!("/rest/v3/short-urls?page={page}&itemsPerPage=500&orderBy=dateCreated-ASC");
        (target, json!({"shortUrls": {"data": [link], "pagination": pagination}}))
    };
    vec![page(1, "spring"), page(2, "summer")]
}

/// The refusal of a key that is not known, as each service words it.
fn unauthorized(from: &str) -> (Value, &'static str) {
    match from {
        "bitly" => (json!({"message": "FORBIDDEN", "description": "Not permitted."}), "Not permitted."),
        // <https://dub.co/docs/api-reference/errors>
        "dub" => (json!({"error": {"code": "unauthorized", "message": "Invalid API key."}}), "Invalid API key."),
        _ => (
            json!({
                "type": "https://shlink.io/api/error/invalid-api-key", "title": "Invalid API key", "status": 401,
                "detail": "Provided API key does not exist or is invalid.",
            }),
            "Provided API key does not exist or is invalid.",
        ),
    }
}

fn has_key(request: &Request) -> bool {
    let bearer = format!("Bearer {KEY}");
    match request.header("x-api-key") {
        Some(key) => key == KEY && request.header("authorization").is_none(),
        None => request.header("authorization") == Some(&bearer),
    }
}

/// The service. The first requests for the last page are answered otherwise.
fn foreign(from: &'static str, bad: Answer, times: usize) -> Double {
    let (pages, left) = (script(from), AtomicUsize::new(times));
    Double::new(move |request| {
        if !has_key(request) {
            return Answer::json(401, &unauthorized(from).0);
        }
        let Some(at) = pages.iter().position(|(target, _)| *target == request.target) else {
            return Answer::new(404, "no such page");
        };
        let take = |left: usize| left.checked_sub(1);
        if at + 1 == pages.len() && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            return bad.clone();
        }
        // As text with line breaks, which the file must not have.
        Answer::new(200, serde_json::to_string_pretty(&pages[at].1).expect("JSON"))
    })
}

fn fine(from: &'static str) -> Double {
    foreign(from, Answer::reset(), 0)
}

fn targets(double: &Double) -> Vec<String> {
    double.requests().into_iter().map(|request| request.target).collect()
}

fn all_targets(from: &str) -> Vec<String> {
    script(from).into_iter().map(|(target, _)| target).collect()
}

/// A user of our service who has the other service's key in a file.
fn user(double: &Double) -> Dl {
    let dl = Dl::at(&double.url);
    dl.secret_file("their.key", &format!("{KEY}\n"));
    dl
}

fn line(from: &str, theirs: &Double) -> String {
    format!("import --from {from} --from-api-key-file their.key --from-url {}", theirs.url)
}

/// The files in which links are kept; none of them holds the key.
fn kept(dl: &Dl) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dl.dir().join("state").join("reads")) else { return Vec::new() };
    let files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    for file in &files {
        assert_eq!(mode(file), 0o600, "{}", file.display());
        assert!(!std::fs::read_to_string(file).expect("a text").contains(KEY), "{}", file.display());
    }
    files
}

#[test]
fn every_page_is_read_once_and_becomes_links() {
    for from in SERVICES {
        let (double, theirs) = (service(), fine(from));
        let dl = user(&double);
        let ran = dl.run(&format!("{} -vv", line(from, &theirs)));
        let links = sent(&double, &ran);
        assert_eq!(targets(&theirs), all_targets(from), "{from}");
        assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY), "{from}: {ran}");
        assert!(ran.stderr.contains(": [hidden]") && !ran.stderr.contains("--map"), "{from}: {ran}");
        let count = if from == "dub" { 101 } else { 2 };
        assert!(ran.says(&format!("read {count} links on 2 pages from ")), "{from}: {ran}");
        assert_eq!((links.len(), kept(&dl).len()), (count, 0), "{from}");
        let theirs = theirs.requests();
        assert!(theirs.iter().all(|request| !format!("{request:?}").contains(OWN_KEY)), "{from}");
        assert!(double.requests().iter().all(|request| !format!("{request:?}").contains(KEY)), "{from}");
        let first = match from {
            "bitly" => json!({
                "custom_id": "spring-sale", "web_url": "https://example.com/3xYz9Ab", "name": "Spring sale",
                "tags": ["sale"],
                "metadata": {
                    "imported_url": "https://go.example.com/spring-sale",
                    "imported_other_urls": "https://bit.ly/3xYz9Ab",
                },
            }),
            "dub" => json!({
                "custom_id": "row-0", "web_url": "https://example.com/0", "name": "Example",
                "metadata": {"imported_url": "https://go.example.com/row-0"}, "imported_clicks": 3,
            }),
            _ => json!({
                "custom_id": "spring", "web_url": "https://example.com/spring", "tags": ["a", "b"],
                "metadata": {"imported_url": "https://go.example.com/spring"}, "imported_clicks": 5,
            }),
        };
        // Requests with up to 100 links may overtake each other.
        let found = links.iter().find(|link| link["custom_id"] == first["custom_id"]);
        assert_eq!(found, Some(&first), "{from}");
    }
}

#[test]
fn reading_waits_as_long_as_the_service_asks() {
    for from in SERVICES {
        for (flags, code) in [("", 0), (" --retries 0", 0), (" --retries 0 --max-wait 500ms", 8)] {
            let limited = Answer::new(429, "").header("retry-after", "1");
            let (double, theirs) = (service(), foreign(from, limited, 1));
            let (dl, started) = (user(&double), Instant::now());
            let ran = dl.run(&format!("{}{flags}", line(from, &theirs)));
            assert_eq!(ran.code, Some(code), "{from}{flags}: {ran}");
            let mut expected = all_targets(from);
            if code == 0 {
                assert!(started.elapsed() >= Duration::from_secs(1), "{from}{flags}");
                expected.extend(expected.last().cloned());
            } else {
                assert!(ran.stderr.contains(" returned HTTP 429\n  hint: to resume after "), "{from}: {ran}");
            }
            assert_eq!(targets(&theirs), expected, "{from}{flags}");
        }
    }
}

#[test]
fn a_rejected_key_is_an_error_that_names_the_file() {
    for from in SERVICES {
        let (double, theirs) = (service(), fine(from));
        let dl = user(&double);
        dl.secret_file("their.key", "wrong-2c6d2ae37d1b");
        let ran = dl.run(&line(from, &theirs));
        let said = ran.fails(4);
        assert!(said.contains("error[key_rejected]: "), "{from}: {ran}");
        let text = format!(" rejected the key in their.key (HTTP 401): {}\n  hint: use an ", unauthorized(from).1);
        assert!(said.contains(&text) && !said.contains("wrong-2c6d"), "{from}: {ran}");
        assert_eq!((theirs.requests().len(), double.requests().len()), (1, 0), "{from}");
    }
}

/// However reading breaks off, it is resumed with the page that is missing.
#[test]
fn an_interrupted_reading_is_resumed() {
    for from in SERVICES {
        for (bad, code) in [
            (Answer::new(200, "<html>"), 1),
            (Answer::new(200, "[{\"id\": "), 1),
            (Answer::new(500, ""), 9),
            (Answer::reset(), 9),
        ] {
            let (double, theirs) = (service(), foreign(from, bad, 1));
            let dl = user(&double);
            let line = format!("{} --retries 0", line(from, &theirs));
            let ran = dl.run(&line);
            let links = if from == "dub" { "100 links" } else { "1 link" };
            let step = format!("hint: to resume after {links} on 1 page, run the same command again");
            assert!(ran.fails(code).contains(&step), "{from}: {ran}");
            assert_eq!((kept(&dl).len(), double.requests().len()), (2, 0), "{from}");
            let ran = dl.run(&line);
            assert!(ran.says(&format!("note: resuming after {links} on 1 page, read from ")), "{from}: {ran}");
            assert_eq!(sent(&double, &ran).len(), if from == "dub" { 101 } else { 2 }, "{from}");
            let mut expected = all_targets(from);
            expected.extend(expected.last().cloned());
            assert_eq!(targets(&theirs), expected, "{from}: only the last page is requested again");
            assert_eq!(kept(&dl).len(), 0, "{from}");
        }
    }
}

/// A command that waits for the second page.
fn waiting(dl: &Dl, theirs: &Double) -> Child {
    let mut command = dl.command(&line("shlink", theirs));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("dl starts");
    wait_for("the second request", || theirs.requests().len() == 2);
    child
}

#[test]
fn a_reading_that_was_killed_is_resumed() {
    for (signal, code) in [("-INT", Some(130)), ("-TERM", Some(143)), ("-KILL", None)] {
        let (double, gate, pages) = (service(), Gate::default(), shlink());
        let opened = gate.clone();
        let theirs = Double::new(move |request| {
            if request.target == pages[1].0 {
                opened.wait();
            }
            let page = pages.iter().find(|(target, _)| *target == request.target).expect("a page");
            Answer::json(200, &page.1)
        });
        let dl = user(&double);
        let mut child = waiting(&dl, &theirs);
        let busy = dl.run(&line("shlink", &theirs));
        assert!(busy.fails(6).contains("error[run_locked]: another dl is reading these links"), "{busy}");
        send(&child, signal);
        if code.is_some() {
            let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
            hear(&mut stderr, "stopped; to resume, run the same command again");
        }
        let status = child.wait().expect("dl ends");
        assert_eq!((status.code(), status.signal().is_some()), (code, code.is_none()), "{signal}");
        gate.open();
        assert_eq!(sent(&double, &dl.run(&line("shlink", &theirs))).len(), 2, "{signal}");
        let mut expected = all_targets("shlink");
        expected.extend(expected.last().cloned());
        assert_eq!(targets(&theirs), expected, "{signal}");
    }
}

/// What has been read is kept until it has been sent.
#[test]
fn links_that_were_read_are_not_read_again_until_they_have_been_sent() {
    for resume in ["imports resume RUN", "the same"] {
        let ((double, willing), theirs) = (moody(), fine("shlink"));
        let dl = user(&double);
        let line = line("shlink", &theirs);
        let ran = dl.run(&format!("{line} --check"));
        assert!(ran.code == Some(0) && ran.says("2 rows in shlink-"), "{ran}");
        assert!(dl.run(&format!("{line} --dry-run -o json")).json()["rows"] == 2);
        assert_eq!((theirs.requests().len(), kept(&dl).len()), (2, 2), "once for both");
        let ran = dl.run(&line);
        assert!(ran.fails(7).contains("note: using 2 links on 2 pages, read from Shlink "), "{ran}");
        let run = dl.run("imports list -o id").ok().trim().to_owned();
        willing.store(true, Ordering::SeqCst);
        let again = if resume == "the same" { line.clone() } else { resume.replace("RUN", &run) };
        let ran = dl.run(&again);
        assert!(ran.code == Some(0) && ran.says("note: resuming: import ") && ran.says("created 2"), "{ran}");
        assert_eq!((theirs.requests().len(), kept(&dl).len()), (2, 0), "{resume}");
        dl.run(&format!("{line} --check")).ok();
        dl.run(&format!("{line} --check --restart")).ok();
        assert_eq!(theirs.requests().len(), 6, "{resume}");
    }
}

/// Another account's links are not mixed with them.
#[test]
fn every_key_has_its_own_links() {
    let (double, theirs) = (service(), foreign("shlink", Answer::new(200, ""), 1));
    let dl = user(&double);
    dl.run(&line("shlink", &theirs)).fails(1);
    dl.secret_file("their.key", "another-key-of-theirs");
    dl.run(&line("shlink", &theirs)).fails(4);
    let first = &all_targets("shlink")[0];
    assert_eq!(targets(&theirs).iter().filter(|target| *target == first).count(), 2);
}

#[test]
fn the_flags_are_checked_before_anything_is_sent() {
    let (double, theirs) = (service(), fine("shlink"));
    let dl = user(&double);
    chmod(&dl.file("open.key", KEY), 0o644);
    dl.secret_file("own.key", OWN_KEY);
    dl.secret_file("two.key", "one\ntwo\n");
    let url = &theirs.url;
    for (rest, code, text) in [
        ("shlink --from-api-key-file their.key".to_owned(), 2, "hint: for example --from-url https://go.example.com"),
        ("branch --from-api-key-file their.key".to_owned(), 2, "Branch's API cannot list links"),
        ("firebase --from-api-key-file their.key".to_owned(), 2, "Firebase Dynamic Links has no API"),
        (format!("csv --from-api-key-file their.key --from-url {url}"), 2, "only with --from bitly, dub and shlink"),
        ("shlink --from-api-key-file their.key --from-url http://go.example.com".to_owned(), 2, "loopback"),
        (format!("shlink x.json --from-api-key-file their.key --from-url {url}"), 2, "cannot be used with"),
        (format!("shlink x.json --from-url {url}"), 2, "--from-api-key-file"),
        ("shlink".to_owned(), 2, "required"),
        (format!("shlink --from-api-key-file no.key --from-url {url}"), 2, "no such file: no.key"),
        (format!("shlink --from-api-key-file open.key --from-url {url}"), 4, "chmod 600 open.key"),
        (format!("shlink --from-api-key-file two.key --from-url {url}"), 3, "more than one line"),
        (format!("shlink --from-api-key-file own.key --from-url {url}"), 3, "this is a key of this service"),
    ] {
        let ran = dl.run(&format!("import --from {rest}"));
        assert!(ran.fails(code).contains(text), "{rest}: {ran}");
    }
    assert_eq!((theirs.requests().len(), double.requests().len()), (0, 0));
    let piped = dl.run_with(&format!("import --from shlink --from-api-key-file - --from-url {url}"), KEY);
    assert_eq!(sent(&double, &piped).len(), 2);
    // What is there is no Shlink.
    let ran = dl.run(&format!("import --from shlink --from-api-key-file their.key --from-url {url}/elsewhere"));
    assert!(ran.fails(5).contains("Shlink returned HTTP 404\n  hint: check --from-url; dl asked http"), "{ran}");
}
