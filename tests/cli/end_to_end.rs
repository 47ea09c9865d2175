//! End to end: `dl` against the real service.

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use deeplink_client::qr_reader::read_png;

use crate::server::Server;
use crate::signals::wait_for;
use deeplink_doubles::authority::Authority;
use deeplink_server::clock::Clock;
use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, FINGERPRINT};

fn rows(prefix: &str, count: usize) -> String {
    let rows: Vec<String> =
        (0..count).map(|at| format!("{prefix}-{at:05},https://example.com/p/{},{at}\n", at % 7)).collect();
    format!("custom_id,web_url,meta.n:int\n{}", rows.concat())
}

/// How often `spring-42` was visited.
fn clicks(dl: &Dl) -> i64 {
    let series = dl.run("links timeseries spring-42 --from 1d -o json").json();
    series["data"].as_array().expect("buckets").iter().filter_map(|bucket| bucket["clicks"].as_i64()).sum()
}

#[test]
fn a_new_user_makes_a_link() {
    let server = Server::start();
    let dl = server.user("you");
    let made = dl.run("links create https://example.com/p/42 --id spring-42 --action purchase --cta 'Buy now'");
    assert_eq!(made.ok(), format!("{}/r/spring-42\n", server.url));
    let setting = "DEEPLINK_UNVERIFIED_LINK_TTL_DAYS=0";
    assert!(made.stderr.starts_with("note: the link expires in 30d") && made.stderr.contains(setting), "{made}");
    let own = dl.run("links create https://example.com --id soon-1 --expires-at 2d");
    assert!(own.ok().ends_with("/r/soon-1\n") && own.stderr.is_empty(), "the end that was asked for: {own}");
    dl.run("links delete soon-1").ok();
    let taken = dl.run("links create https://example.com --id spring-42");
    assert!(taken.fails(6).starts_with(
        "error[link_id_taken]: the ID \"spring-42\" is already in use (HTTP 409)\n  hint: dl links get spring-42 shows \
         it; choose another --id, or use --if-not-exists\n  request id: "
    ), "{taken}");
    dl.run("links create https://example.com/p/42 --id spring-42 --action purchase --cta 'Buy now' --if-not-exists")
        .ok();
    assert_eq!(dl.run("links resolve spring-42").ok(), "302\thttps://example.com/p/42\n");
    dl.run("links resolve spring-42 --as json").ok();
    // A click that is answered before it is stored is counted slightly later.
    wait_for("the click is counted", || clicks(&dl) > 0);
    assert_eq!(clicks(&dl), 1, "HEAD is not a click, GET is one");
    dl.run("links create https://example.com --id page-1 --ios shop://p/1").ok();
    let page = dl.run("links resolve page-1 --as ios");
    assert!(page.ok() == "200\t\n" && page.stderr.starts_with("note: page: "), "{page}");
    let clicks = dl.run("links timeseries page-1 --from 1d");
    assert!(clicks.stderr.starts_with("0 clicks "), "checking a page is not a click: {clicks}");
    dl.run("links delete page-1").ok();
    assert_eq!(dl.run("links update spring-42 --unset agent_context --meta a=b -o json").json()["metadata"]["a"], "b");
    assert_eq!(dl.run("links list -o id").ok(), "spring-42\n");
    assert_eq!(server.user("other").run("links get spring-42").code, Some(5));
    dl.run("links delete spring-42").ok();
    dl.run("links get spring-42").fails(5);
    assert!(dl.run("api GET /openapi.json").ok().contains("\"openapi\""));
    assert_eq!(dl.run("ping --ready").ok(), "ready\n");
    assert_eq!(dl.run("whoami -o json").json()["accepted"], true);
}

/// On one's own machine a name under .localhost is a domain at once.
#[test]
fn a_new_user_has_a_domain_without_dns() {
    let server = Server::start();
    let dl = server.user("you");
    let port = server.url.rsplit(':').next().expect("a port").trim_end_matches('/');
    let added = dl.run("domains add shop.localhost");
    assert!(added.ok() == "shop.localhost\n" && added.stderr.contains("is verified"), "{added}");
    dl.run("domains verify shop.localhost").ok();
    let made = dl.run("links create https://example.com/p/42 --id spring-42");
    assert_eq!(made.ok(), format!("http://shop.localhost:{port}/spring-42\n"));
    dl.run("domains update shop.localhost --root-url https://www.example.com").ok();
    let listed = dl.run("domains list --fields domain,verified,root_url,not_found_url");
    assert_eq!(listed.ok(), "shop.localhost\ttrue\thttps://www.example.com/\t\n");
    dl.run("domains update shop.localhost --unset root_url").ok();
}

#[test]
fn ten_thousand_rows_go_in_come_out_and_change_nothing_the_second_time() {
    let server = Server::start();
    let dl = server.user("you");
    dl.file("links.csv", &rows("row", 10_000));
    let made = dl.run("links import links.csv -o json").json();
    assert_eq!((&made["rows"], &made["created"]), (&10_000.into(), &10_000.into()));
    let again = dl.run("links import links.csv -o json").json();
    assert_eq!((&again["existed"], &again["created"], &again["updated"]), (&10_000.into(), &0.into(), &0.into()));
    dl.run("links export --out out.csv").ok();
    assert_eq!(dl.read("out.csv").lines().count(), 10_001);
    let before = dl.run("links list --all -o jsonl");
    let back = dl.run("links import out.csv -o json").json();
    assert_eq!((&back["existed"], &back["created"], &back["updated"]), (&10_000.into(), &0.into(), &0.into()));
    let piped = Command::new("bash")
        .args(["-c", "set -o pipefail; $DL links export -o jsonl -q | $DL links import - -o json"])
        .current_dir(dl.dir())
        .env_clear()
        .envs(dl.variables())
        .env("DL", env!("CARGO_BIN_EXE_dl"))
        .output()
        .expect("bash");
    let piped: serde_json::Value = serde_json::from_slice(&piped.stdout).expect("a summary");
    assert_eq!(piped["existed"], 10_000);
    assert_eq!(before.ok(), dl.run("links list --all -o jsonl").ok(), "nothing was written");
}

#[test]
fn a_malformed_file_sends_nothing() {
    let server = Server::start();
    let dl = server.user("you");
    let mut text = rows("row", 500);
    text.push_str("ab,https://example.com,1\n");
    dl.file("links.csv", &text);
    let ran = dl.run("links import links.csv");
    assert!(
        ran.fails(3)
            .starts_with("links.csv:502: custom_id \"ab\": use 3 to 64 letters, digits and hyphens, with a letter or digit at each end [invalid_custom_id]\n"),
        "{ran}"
    );
    dl.file("links.jsonl", "{\"custom_id\": \"abc\"}\n{\"custom_id\": nope}\n");
    assert!(dl.run("links import links.jsonl").fails(3).starts_with("links.jsonl:2:"), "line and column");
    assert_eq!(dl.run("links list -o id").ok(), "");
}

/// Stopped by Ctrl-C, then killed outright several times, each time in the middle: in the end the account has each row
/// once.
#[test]
fn an_interrupted_import_is_resumed_and_each_row_is_there_once() {
    const ROWS: usize = 40_000;
    let server = Server::start();
    let dl = server.user("you");
    dl.file("links.csv", &rows("row", ROWS));
    let begin = |dl: &Dl| {
        let mut command = dl.command("links import links.csv --concurrency 2");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("dl starts")
    };
    let done = |dl: &Dl| dl.run("imports list --fields done").ok().trim().parse::<usize>().unwrap_or(0);
    let wait_beyond = |dl: &Dl, rows: usize| {
        let start = Instant::now();
        while done(dl) <= rows {
            assert!(start.elapsed() < Duration::from_mins(1), "{} rows done", done(dl));
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let child = begin(&dl);
    wait_beyond(&dl, 200);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    let output = child.wait_with_output().expect("dl ends");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("resume with: dl links import ") && stderr.contains("unsent"), "{stderr}");
    for kill in 1..=4 {
        let before = done(&dl);
        let mut child = begin(&dl);
        wait_beyond(&dl, before + 300 * kill);
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
    }
    assert!(done(&dl) < ROWS, "it was stopped in the middle each time");
    let ran = dl.run("links import links.csv -o json");
    assert_eq!(
        ran.json()["created"].as_u64().unwrap_or(0) + ran.json()["existed"].as_u64().unwrap_or(0),
        ROWS as u64,
        "{ran}"
    );
    let listed = dl.run("links list --all -o id");
    let ids: HashSet<&str> = listed.ok().lines().collect();
    assert_eq!((ids.len(), listed.ok().lines().count()), (ROWS, ROWS));
    assert_eq!(dl.run("imports list --fields state").ok(), "finished\n");
}

/// A link whose end has passed is in the export, and the service makes no link that has ended already.
#[test]
fn an_export_with_ended_links_is_imported_again() {
    let clock = Clock::fixed("2026-11-20T09:30:00Z".parse().expect("a time"));
    let server = Server::start_at(clock.clone());
    let dl = server.user("you");
    let end = "2026-11-21T00:00:00Z";
    dl.file(
        "same.csv",
        &format!("custom_id,web_url,expires_at\na-1,https://example.com,{end}\na-2,https://example.com,{end}\n"),
    );
    dl.file(
        "mixed.csv",
        &format!("custom_id,web_url,expires_at\nb-1,https://example.com/1,{end}\nb-2,https://example.com/2,\n"),
    );
    for file in ["same.csv", "mixed.csv"] {
        dl.run(&format!("links import {file} --no-journal")).ok();
    }
    clock.advance(Duration::from_hours(48));
    dl.run("links export -o csv --out backup.csv").ok();

    let counts = |dl: &Dl, line: &str| {
        let ran = dl.run(&format!("links import {line} --no-journal --on-error continue -o json"));
        let counts: serde_json::Value = serde_json::from_str(&ran.stdout).expect("a summary");
        ["created", "existed", "skipped", "updated", "rejected"].map(|of| counts[of].as_u64().expect("a count"))
    };
    for (line, expected) in [
        ("backup.csv", [0, 4, 0, 0, 0]),
        ("backup.csv --on-conflict update", [0, 4, 0, 0, 0]),
        ("backup.csv --on-conflict skip", [0, 3, 1, 0, 0]),
        ("backup.csv --on-conflict fail", [0, 0, 0, 0, 4]),
        ("same.csv", [0, 2, 0, 0, 0]),
        ("mixed.csv", [0, 2, 0, 0, 0]),
    ] {
        assert_eq!(counts(&dl, line), expected, "{line}");
    }
    // What else has changed is brought up to date, but for an end that would be new and past.
    dl.file("new.csv", &format!("custom_id,web_url,expires_at\na-1,https://example.com/new,{end}\na-2,https://example.com,2026-11-21T06:00:00Z\n"));
    assert_eq!(counts(&dl, "new.csv --on-conflict update"), [0, 0, 0, 1, 1]);
    assert_eq!(dl.run("links get a-1 --fields web_url").ok(), "https://example.com/new\n");

    let other = server.user("other");
    for file in ["same.csv", "mixed.csv"] {
        other.file(file, &dl.read(file).replace("a-", "c-").replace("b-", "d-"));
    }
    let refused = other.run("links import same.csv --no-journal");
    assert!(refused.fails(10).contains("expires_at"), "{refused}");
    assert_eq!(counts(&other, "mixed.csv"), [1, 0, 0, 0, 1]);
}

/// From the claim to a link that opens on the domain, with no other steps.
#[test]
fn a_domain_goes_from_a_claim_to_a_resolving_link() {
    let (server, dns) = Server::start_with_dns();
    let dl = server.user("you");
    let early = dl.run("links create https://example.com/early --id early-1");
    assert!(early.ok().contains("/r/early-1") && early.stderr.contains("the link expires in 30d"), "{early}");

    let claimed = dl.run("domains add go.example.com");
    assert_eq!(claimed.ok(), "go.example.com\n");
    assert!(dl.run("domains verify go.example.com").fails(12).contains("_deeplink-verify.go.example.com"));
    let mut lines = claimed.stderr.lines().skip_while(|line| !line.starts_with("  TXT "));
    let name = lines.next().and_then(|line| line.trim().strip_prefix("TXT ")).expect("the name of a TXT record");
    let value = lines.next().expect("its value");
    dns.txt(name.trim(), &["v=spf1 -all", value.trim()]);
    assert!(dl.run("domains verify go.example.com --wait 1m -o json").json()["verified"] == true);
    assert!(dl.run("domains list --fields domain,verified").ok().contains("go.example.com\ttrue"));

    dl.run("apps add ios --bundle-id com.example.app --team-id ABCDE12345 --name Shop").ok();
    let android = dl.run(&format!("apps add android --package com.example.app --sha256 {FINGERPRINT}"));
    let made = dl.run("links create https://example.com/p/42 --id spring-42");
    assert!(made.ok().contains("spring-42") && made.stderr.is_empty(), "it never expires: {made}");
    assert_eq!(dl.run("links get spring-42 --fields url,expires_at").ok(), "https://go.example.com/spring-42\t\n");
    assert_eq!(dl.run("links get early-1 --fields expires_at").ok(), "\n", "earlier links no longer expire");
    assert_eq!(dl.run("links resolve spring-42 --host go.example.com").ok(), "302\thttps://example.com/p/42\n");
    dl.run("links resolve spring-42 --host www.example.com").fails(5);
    assert_eq!(
        dl.run("wellknown apple --host go.example.com").json()["webcredentials"]["apps"][0],
        "ABCDE12345.com.example.app"
    );
    let links = dl.run("wellknown android --host go.example.com").json();
    assert_eq!(links[0]["target"]["sha256_cert_fingerprints"][0], FINGERPRINT);
    dl.run("wellknown apple").fails(5);

    let authority = Authority::new();
    let pem = dl.file("root.pem", &authority.pem());
    let at = server.https(&authority, &["go.example.com"]);
    let doctor = format!(
        "doctor --link spring-42 --dns-server {} --connect-to go.example.com={at} --root-certificate {} \
         --apple-cdn {url} --google-api {url} -o jsonl",
        dns.address(),
        pem.display(),
        url = server.url
    );
    let looked = dl.run(&doctor);
    let of = |id: &str| -> Vec<String> {
        let checks =
            looked.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a check"));
        let found = checks.filter(|check| check["id"] == id);
        found
            .map(|check| {
                format!(
                    "{} {}",
                    check["status"].as_str().expect("a status"),
                    check["message"].as_str().expect("a message")
                )
            })
            .collect()
    };
    for (id, found) in [
        ("domain.txt", "ok the TXT record exists"),
        ("domain.route", "ok points to the service (127.0.0.1)"),
        ("domain.tls", "ok valid for 90 more days"),
        ("domain.robots", "ok /robots.txt blocks nothing"),
        ("aasa.origin", "ok served, with ABCDE12345.com.example.app"),
        ("assetlinks.origin", "ok served, with com.example.app"),
        ("app.alternate", "warn no alternate domain: iOS does not open apps from a page on the link's own host"),
        ("account.domain", "ok verified: go.example.com"),
    ] {
        assert_eq!(of(id), [found], "{looked}");
    }
    assert!(of("app.fingerprints")[0].starts_with("warn only one signing certificate"), "{looked}");
    assert!(of("link.resolve").iter().all(|found| found.starts_with("ok ")), "{looked}");
    assert_eq!(of("link.resolve").len(), 5);
    assert_eq!(clicks(&dl), 0, "a doctor is not a visitor");

    let id = android.ok().trim();
    dl.run(&format!("apps delete {id} --yes")).ok();
    dl.run("wellknown android --host go.example.com").fails(5);
    dl.run("domains delete go.example.com --yes").ok();
    dl.run("links resolve spring-42 --host go.example.com").fails(5);
    assert_eq!(dl.run("domains list -o id").ok(), "");
}

/// Names of the files in a directory, in order.
fn files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The text of the QR code in a PNG file.
fn code(path: &Path) -> String {
    read_png(&std::fs::read(path).expect("a file")).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

#[test]
fn a_link_is_printed_in_any_look_and_read_back() {
    let server = Server::start();
    let dl = server.user("you");
    dl.run("links create https://example.com/p/42 --id spring-42").ok();
    let url = format!("{}/r/spring-42", server.url);
    for (number, look) in [
        "",
        "--format svg",
        "--size 66 --margin 0 --dot-type square --corner-square-type square --corner-dot-type square",
        "--size 2048 --level H --dot-type dots --corner-square-type dot --shape circle",
        "--size 40 --format svg --dot-type classy --corner-dot-type square",
        "--dot-type classy-rounded --fg-color 0a3c8c --bg-color fffbe6 --corner-dot-color '#c00000'",
        "--dot-type extra-rounded --fg-color fff --bg-color 1a1a1a --margin 4",
        "--hide-logo --logo https://example.com/logo.png",
    ]
    .into_iter()
    .enumerate()
    {
        let format = if look.contains("svg") { "svg" } else { "png" };
        let name = format!("{number}.{format}");
        let ran = dl.run(&format!("links qr spring-42 --verify --out {name} -o json {look}")).json();
        assert_eq!(
            (&ran["url"], &ran["verified"], &ran["format"]),
            (&url.as_str().into(), &true.into(), &format.into())
        );
        let length = std::fs::metadata(dl.dir().join(&name)).expect("a file").len();
        assert_eq!(ran["bytes"], length);
        match format {
            "png" => assert_eq!(code(&dl.dir().join(&name)), url, "{look}"),
            _ => assert!(dl.read(&name).starts_with("<svg") && dl.read(&name).ends_with("</svg>"), "{look}"),
        }
    }
    let refused = dl.run("links qr spring-42 --size 40 --out small.png -o json");
    assert_eq!((refused.code, refused.error()["field"].as_str()), (Some(3), Some("size")), "{refused}");
    assert_eq!(dl.run("links qr other-1 --out other.png -o json").error()["code"], "not_found");
    assert_eq!(server.user("other").run("links qr spring-42 --out mine.png").code, Some(5));
    let images = files(dl.dir()).into_iter().filter(|name| name.contains('.'));
    assert_eq!(images.count(), 8, "a refusal leaves no file");
    // Drawing is not a visit.
    let clicks = dl.run("links timeseries spring-42 --from 1d");
    assert!(clicks.stderr.starts_with("0 clicks "), "{clicks}");
}

#[test]
fn every_link_of_an_account_gets_its_code() {
    let server = Server::start();
    let dl = server.user("you");
    dl.file("links.csv", &rows("row", 230));
    dl.run("links import links.csv -q").ok();
    let shell = |line: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("set -o pipefail; dl() {{ {} \"$@\"; }}; {line}", env!("CARGO_BIN_EXE_dl"))]);
        let ran = bash.current_dir(dl.dir()).env_clear().envs(dl.variables()).output().expect("bash");
        assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
        ran.stdout
    };
    shell("dl links list --all -o id | dl links qr - --dir out --format svg");
    let names: Vec<_> = (0..230).map(|at| format!("row-{at:05}.svg")).collect();
    assert_eq!(files(&dl.dir().join("out")), names);
    let listed = shell("dl links list --all --q row-0000 -o id | dl links qr - --dir out --verify -o jsonl");
    let listed = String::from_utf8(listed).expect("text");
    assert_eq!(listed.lines().count(), 10);
    for line in listed.lines() {
        let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let file = dl.dir().join(record["file"].as_str().expect("a name"));
        assert_eq!((code(&file).as_str(), &record["verified"]), (record["url"].as_str().expect("a URL"), &true.into()));
    }
    // A pipe gets the same bytes as a file, and so does the service's answer itself.
    let piped = shell("dl links qr row-00007 | cat");
    assert_eq!(piped, std::fs::read(dl.dir().join("out/row-00007.png")).expect("a file"));
    assert_eq!(piped, shell("dl api GET /v1/links/row-00007/qr.png | cat"));
}

#[test]
fn a_partner_draws_the_links_that_are_theirs() {
    let server = Server::start();
    let owner = server.user("you");
    let (partner, id) = server.affiliate(&owner);
    owner.run(&format!("links create https://example.com/p/1 --id theirs-1 --affiliate {id}")).ok();
    owner.run("links create https://example.com/p/2 --id ours-1").ok();
    partner.run("links create https://example.com/p/3 --id theirs-2").ok();
    partner.run("links qr theirs-1 --verify --out theirs.png").ok();
    assert_eq!(code(&partner.dir().join("theirs.png")), format!("{}/r/theirs-1", server.url));
    assert!(partner.run("links qr ours-1 --out ours.png").fails(5).starts_with("error[not_found]: "));
    assert!(partner.run("links qr ours-1 --show").fails(5).starts_with("error[not_found]: "));
    let ran = partner.run_with("links qr - --dir out --format svg", partner.run("links list --all -o id").ok());
    // There is no verified domain, so both of them expire.
    assert!(
        ran.code == Some(0) && ran.stderr.starts_with("warning: 2 of 2 links expire within 30 days (first: theirs-1"),
        "{ran}"
    );
    assert!(
        ran.stderr.ends_with("see a notice or are redirected to the link's expired_url\n2 codes in out\n"),
        "{ran}"
    );
    assert_eq!(partner.run("links qr theirs-1 ours-1 --dir out").code, Some(10));
    assert_eq!(files(&partner.dir().join("out")), ["theirs-1.png", "theirs-1.svg", "theirs-2.svg"]);
    owner.run("links qr theirs-1 ours-1 theirs-2 --dir all --verify").ok();
}

#[test]
fn a_logo_is_fetched_by_the_service_and_the_code_is_still_read() {
    /// One red pixel.
    const LOGO: &[u8] = b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\xdac8\xa0`\x00\x00\x02\xb4\x01\x11\x10=X\x1e\x00\x00\x00\x00IEND\xaeB`\x82";
    let logos = Double::new(|request| match request.path() {
        "/logo.png" => Answer::new(200, LOGO).header("content-type", "image/png"),
        _ => Answer::new(404, ""),
    });
    let server = Server::start_that_fetches_here();
    let dl = server.user("you");
    dl.run("links create https://example.com/p/42 --id spring-42").ok();
    let line = format!("links qr spring-42 --logo {}/logo.png --verify", logos.url);
    dl.run(&format!("{line} --out logo.png")).ok();
    assert_eq!(code(&dl.dir().join("logo.png")), format!("{}/r/spring-42", server.url));
    dl.run(&format!("{line} --out logo.svg")).ok();
    assert!(dl.read("logo.svg").contains("<image "), "the logo is in the file");
    dl.run(&format!("{line} --out plain.svg --hide-logo")).ok();
    assert!(!dl.read("plain.svg").contains("<image "));
    let ran = dl.run(&format!("links qr spring-42 --logo {}/none.png --out none.png -o json", logos.url));
    assert_eq!((ran.code, ran.error()["field"].as_str()), (Some(3), Some("logo")), "{ran}");
    assert!(!dl.dir().join("none.png").exists());
    assert!(logos.requests().iter().all(|request| request.header("authorization").is_none()), "no key goes there");
}
