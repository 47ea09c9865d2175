//! What each command on links sends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use deeplink_doubles::wait::{PATIENCE, eventually_blocking};
use deeplink_testing::dl::{Dl, chmod};
use serde_json::json;

use crate::screen::Screen;
use deeplink_testing::double::{Answer, Double, link, many_links};

/// A service that creates and changes everything as requested.
pub(crate) fn willing() -> Double {
    Double::new(|request| match request.method.as_str() {
        "PATCH" => many_links(request, &[]).expect("a request for many links"),
        "POST" if request.path() == "/v1/links/bulk" => {
            let ids = match &request.json()["custom_ids"] {
                serde_json::Value::Array(ids) => ids.clone(),
                _ => vec![
                    json!("AAAA0000");
                    usize::try_from(request.json()["count"].as_u64().expect("a count")).expect("small")
                ],
            };
            let links: Vec<_> = ids.iter().map(|id| json!({"link_id": id, "url": format!("https://go.example.com/{}", id.as_str().expect("an id"))})).collect();
            Answer::json(201, &json!({"links": links}))
        }
        "POST" => Answer::json(
            201,
            &json!({"link_id": "spring-42", "url": "https://go.example.com/spring-42", "expires_at": null}),
        ),
        "DELETE" => Answer::new(204, ""),
        _ => Answer::json(200, &link("spring-42")),
    })
}

#[test]
fn create_sends_what_the_flags_say() {
    let double = willing();
    let dl = Dl::at(&double.url);
    dl.run(
        "links create https://example.com/p/42 --id spring-42 --ios shop://p/42 --ios-store https://apps.apple.com/app/id1 \
         --android shop://p/42 --android-store https://play.google.com/store/apps/details?id=a --meta season=spring --meta n=1 \
         --action purchase --cta 'Buy now' --description why --title T --og-description D --image https://example.com/i.png \
         --affiliate aff_0123456789abcdef01234567",
    )
    .ok();
    let request = double.only();
    assert_eq!(request.line(), "POST /v1/links");
    assert!(request.header("idempotency-key").is_some());
    assert_eq!(request.header("user-agent").map(|agent| agent.starts_with("dl/")), Some(true));
    assert_eq!(
        request.json(),
        json!({
            "custom_id": "spring-42", "web_url": "https://example.com/p/42", "ios_deep_link": "shop://p/42",
            "ios_store_url": "https://apps.apple.com/app/id1", "android_deep_link": "shop://p/42",
            "android_store_url": "https://play.google.com/store/apps/details?id=a", "metadata": {"season": "spring", "n": "1"},
            "agent_context": {"action": "purchase", "cta": "Buy now", "description": "why"},
            "social_preview": {"title": "T", "description": "D", "image_url": "https://example.com/i.png"},
            "affiliate_id": "aff_0123456789abcdef01234567",
        })
    );
}

#[test]
fn create_reads_a_file_and_flags_outrank_it() {
    let double = willing();
    let dl = Dl::at(&double.url);
    dl.file(
        "link.json",
        r#"{"custom_id": "from-file", "web_url": "https://example.com/file", "metadata": {"big": 1e400}}"#,
    );
    dl.run("links create --from-file link.json --id from-flag").ok();
    dl.run_with("links create https://example.com/flag --from-file -", r#"{"web_url": "https://example.com/file"}"#)
        .ok();
    dl.file("meta.json", r#"{"n": 1.50}"#);
    let ran = dl.run("links create --meta-json @meta.json");
    let note = "note: the link has no destination yet; to set one: dl links update spring-42 --web https://…\n";
    assert!(!ran.ok().is_empty() && ran.stderr.contains(note), "{ran}");
    let bodies: Vec<String> = double.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(
        bodies,
        [
            r#"{"custom_id":"from-flag","web_url":"https://example.com/file","metadata":{"big":1e400}}"#,
            r#"{"web_url":"https://example.com/flag"}"#,
            r#"{"metadata":{"n":1.50}}"#,
        ]
    );
}

#[test]
fn an_existing_link_with_the_same_content_will_do() {
    let double = Double::new(|request| match request.line().as_str() {
        "POST /v1/links" => Answer::error(409, "link_id_taken", "the id is in use"),
        "GET /v1/links/spring-42" => Answer::json(200, &link("spring-42")),
        _ => Answer::error(404, "not_found", "there is no such link"),
    });
    let dl = Dl::at(&double.url);
    let same = "--meta season=spring --action purchase --cta 'Buy now' --if-not-exists";
    let ran = dl.run(&format!("links create https://example.com/p/spring-42 --id spring-42 {same}"));
    assert_eq!(ran.ok(), "https://go.example.com/spring-42\n");
    insta::assert_snapshot!(dl.run("links create https://example.com/other --id spring-42 --meta season=spring --if-not-exists"), @r#"
    --- stderr
      web_url: existing https://example.com/p/spring-42, requested https://example.com/other
      agent_context: existing {"action":"purchase","cta":"Buy now","description":null}, requested nothing
    error[link_id_taken]: the ID "spring-42" is already used by a link with different content
      hint: to change it: dl links update spring-42
      request id: req-1
    --- exit 6
    "#);
    let foreign = dl.run("links create https://example.com --id theirs --if-not-exists");
    assert!(foreign.fails(6).contains("the link belongs to someone else"), "{foreign}");
}

#[test]
fn update_sends_only_what_is_named() {
    let double = willing();
    let dl = Dl::at(&double.url);
    dl.run("links update spring-42 --web https://example.com/new --unset metadata --unset agent_context").ok();
    dl.run("links update spring-42 --cta Now --unset ios --replace").ok();
    let requests = double.requests();
    assert_eq!(requests[0].line(), "PUT /v1/links/spring-42");
    assert_eq!(
        requests[0].json(),
        json!({"web_url": "https://example.com/new", "metadata": null, "agent_context": null})
    );
    assert_eq!(
        requests[1].json(),
        json!({"agent_context": {"action": null, "cta": "Now", "description": null}, "ios_deep_link": null})
    );
}

/// What is one object for the service are several flags for people: those that are not named stay.
#[test]
fn update_merges_objects_with_what_the_link_has() {
    let double = Double::new(|_| {
        let mut link = link("spring-42");
        link["web_url"] = "https://example.com/p?a=1&utm_source=old#top".into();
        link["metadata"] = json!({"season": "spring", "n": 1});
        link["agent_context"] = json!({"action": "purchase", "cta": "Buy", "description": "why"});
        link["social_preview"] = json!({"title": "T", "description": "D", "image_url": null});
        Answer::json(200, &link)
    });
    let dl = Dl::at(&double.url);
    for (line, sent) in [
        ("--cta Now", json!({"agent_context": {"action": "purchase", "cta": "Now", "description": "why"}})),
        ("--title New", json!({"social_preview": {"title": "New", "description": "D", "image_url": null}})),
        ("--meta season=fall --meta x=y", json!({"metadata": {"season": "fall", "n": 1, "x": "y"}})),
        ("--meta-json {}", json!({"metadata": {}})),
        ("--meta x=y --replace", json!({"metadata": {"x": "y"}})),
        ("--utm-source poster", json!({"web_url": "https://example.com/p?a=1&utm_source=poster#top"})),
        (
            "--web https://example.com/b --utm-medium print",
            json!({"web_url": "https://example.com/b?utm_medium=print"}),
        ),
    ] {
        dl.run(&format!("links update spring-42 {line}")).ok();
        let last = double.requests().pop().expect("a request");
        assert_eq!((last.line(), last.json()), ("PUT /v1/links/spring-42".into(), sent), "{line}");
    }
    let before = double.requests().len();
    let shown = dl.run("links update spring-42 --cta Now --dry-run");
    assert!(shown.ok().contains("\"description\":\"why\""), "{shown}");
    assert!(double.requests()[before..].iter().all(|request| request.method == "GET"), "nothing is changed");
    let ran = dl.run("links update spring-42 --unset web_url --utm-source poster");
    assert!(ran.fails(2).contains("the link has no web page URL to add UTM parameters to"), "{ran}");
    dl.run("links create https://example.com/a --utm-source poster --utm-campaign 'spring sale'").ok();
    let made = double.requests().pop().expect("a request").json();
    assert_eq!(made["web_url"], "https://example.com/a?utm_source=poster&utm_campaign=spring+sale");
}

#[test]
fn a_links_url_is_opened_or_copied() {
    const URL: &str = "https://go.example.com/spring-42";
    let double = Double::new(|_| Answer::json(200, &link("spring-42")));
    let with = |program: &str, script: &str| {
        let dl = Dl::at(&double.url);
        let file = dl.file(program, script);
        chmod(&file, 0o755);
        let path = dl.dir().to_string_lossy().into_owned();
        dl.env("PATH", &path)
    };
    let dl = with("xdg-open", "#!/bin/sh\necho \"$1\" > opened.part && /bin/mv opened.part opened\n");
    assert_eq!(dl.run("links open spring-42").ok(), format!("{URL}\n"));
    eventually_blocking("the browser starts", PATIENCE, || dl.dir().join("opened").exists());
    assert_eq!(dl.read("opened"), format!("{URL}\n"));

    let dl = with("wl-copy", "#!/bin/sh\n/bin/cat > copied\n");
    let ran = dl.run("links copy spring-42");
    assert_eq!((ran.ok(), ran.stderr.as_str()), (format!("{URL}\n").as_str(), "note: copied to the clipboard\n"));
    assert_eq!(dl.read("copied"), URL);
    // A program that fails, as xclip does without a display, leaves it to the terminal.
    let dl = || with("xclip", "#!/bin/sh\nexit 1\n");
    let ran = dl().run("links copy spring-42");
    assert!(ran.ok() == format!("{URL}\n") && ran.stderr.contains("warning: could not copy"), "{ran}");
    let (code, text) = Screen::sized(dl().env("TERM", "xterm"), "links copy spring-42", 80).end();
    let sequence = format!("\u{1b}]52;c;{}\u{7}", STANDARD.encode(URL));
    assert!(code == Some(0) && text.contains(&sequence), "{text:?}");
}

/// Commands for what an owner decides send an update of one field, to each of the links.
#[test]
fn links_are_switched_renamed_and_given_an_end() {
    let double = willing();
    let dl = Dl::at(&double.url);
    dl.run("links create https://example.com --disabled --name Spring --expires-at 2099-01-01 --expired-url https://example.com/over --tag 'Spring sale' --tag poster --alias 3xYz9Ab --alias l/spring_sale --qr dotType=classy --qr fg-color=0a7cff --imported-clicks 1204").ok();
    let created = double.only().json();
    let expected = json!({
        "web_url": "https://example.com", "name": "Spring", "enabled": false, "expires_at": "2099-01-01T00:00:00.000Z",
        "expired_url": "https://example.com/over", "tags": ["Spring sale", "poster"],
        "aliases": ["3xYz9Ab", "l/spring_sale"],
        "qr": {"dotType": "classy", "fgColor": "#0a7cff"}, "imported_clicks": 1204,
    });
    assert_eq!(created, expected);
    for (line, ids, body) in [
        ("links enable spring-1", vec!["spring-1"], json!({"enabled": true})),
        ("links rename spring-1 'Spring sale'", vec!["spring-1"], json!({"name": "Spring sale"})),
        (
            "links expire spring-1 --at 2099-01-01T10:00:00+01:00",
            vec!["spring-1"],
            json!({"expires_at": "2099-01-01T09:00:00.000Z"}),
        ),
        ("links expire spring-1 --never", vec!["spring-1"], json!({"expires_at": null})),
        (
            "links update spring-1 --unset name --unset expired_url",
            vec!["spring-1"],
            json!({"name": null, "expired_url": null}),
        ),
        ("links update spring-1 --tag a --tag b", vec!["spring-1"], json!({"tags": ["a", "b"]})),
        ("links update spring-1 --unset tags", vec!["spring-1"], json!({"tags": null})),
        ("links update spring-1 --alias a/b --alias c_d", vec!["spring-1"], json!({"aliases": ["a/b", "c_d"]})),
        ("links update spring-1 --unset aliases", vec!["spring-1"], json!({"aliases": null})),
        ("links update spring-1 --unset qr", vec!["spring-1"], json!({"qr": null})),
        ("links update spring-1 --imported-clicks 0", vec!["spring-1"], json!({"imported_clicks": 0})),
        ("links update spring-1 --unset imported_clicks", vec!["spring-1"], json!({"imported_clicks": null})),
        ("links update spring-1 --replace --qr level=q", vec!["spring-1"], json!({"qr": {"level": "Q"}})),
    ] {
        let before = double.requests().len();
        dl.run(line).ok();
        let sent: Vec<_> = double.requests().split_off(before).iter().map(|one| (one.line(), one.json())).collect();
        let expected: Vec<_> = ids.iter().map(|id| (format!("PUT /v1/links/{id}"), body.clone())).collect();
        assert_eq!(sent, expected, "{line}");
    }
    let before = double.requests().len();
    dl.run("links disable spring-1 spring-2").ok();
    let sent: Vec<_> = double.requests().split_off(before).iter().map(|one| (one.line(), one.json())).collect();
    let body = json!({"link_ids": ["spring-1", "spring-2"], "set": {"enabled": false}});
    assert_eq!(sent, [("PATCH /v1/links/bulk".to_owned(), body)], "several are one request");
    assert_eq!(dl.run_with("links disable - -o id", "spring-1\nspring-2\n").ok(), "spring-1\nspring-2\n");
    let ids: Vec<String> = (0..150).map(|nth| format!("id-{nth}")).collect();
    let before = double.requests().len();
    assert_eq!(dl.run_with("links enable - -o id", &ids.join("\n")).ok(), format!("{}\n", ids.join("\n")));
    assert_eq!(double.requests().len() - before, 2, "a hundred a request");
    dl.run("links expire spring-1").fails(2);
    dl.run("links expire spring-1 --at tomorrow").fails(2);
    dl.run("links update spring-1 --tag a --unset tag").fails(2);
    let before = double.requests().len();
    dl.run("links update spring-1 --tag a,b").fails(3);
    dl.run("links create https://example.com --tag ' '").fails(3);
    assert_eq!(double.requests().len(), before, "nothing is sent");
}

/// Without a verified domain, a link still expires after its owner's expiry is removed.
#[test]
fn an_expiry_that_stays_is_noted() {
    let with = |owner: Option<&'static str>, end: Option<&'static str>| {
        Double::new(move |request| {
            let ends = |mut link: serde_json::Value| {
                link["owner_expires_at"] = json!(owner);
                link["expires_at"] = json!(end);
                link
            };
            match request.method.as_str() {
                "PATCH" => Answer::json(200, &json!({"links": [ends(link("spring-1")), ends(link("spring-2"))]})),
                _ => Answer::json(200, &ends(link("spring-1"))),
            }
        })
    };
    let note = |expire: &str| {
        format!("note: {expire} because the account has no verified domain; to add one: dl domains add NAME\n")
    };
    let one = || note("the link still expires, 30 days after its creation,");
    let (month, odd) = ("2026-12-20T09:30:00.000Z", "2026-12-20T09:30:00.001Z");
    for (owner, end, line, says) in [
        (None, Some(month), "links expire spring-1 --never", one()),
        (None, Some(month), "links update spring-1 --unset expires_at", one()),
        (
            None,
            Some(month),
            "links expire spring-1 spring-2 --never",
            note("links still expire, 30 days after their creation,"),
        ),
        (None, Some(odd), "links expire spring-1 --never", note("the link still expires")),
        (None, None, "links expire spring-1 --never", String::new()),
        (None, None, "links expire spring-1 spring-2 --never", String::new()),
        (Some(month), Some(month), "links expire spring-1 --at 2099-01-01", String::new()),
        (None, Some(month), "links disable spring-1", String::new()),
        (None, Some(month), "links disable spring-1 spring-2", String::new()),
    ] {
        let ran = Dl::at(&with(owner, end).url).run(line);
        assert!(!ran.ok().is_empty(), "{line}");
        assert_eq!(ran.stderr, says, "{line}");
    }
}

/// The service says only that something was not found; `dl` knows what it asked for.
#[test]
fn a_link_that_was_not_found_is_named() {
    let double = Double::new(|_| Answer::error(404, "not_found", "not found"));
    let dl = Dl::at(&double.url);
    for line in [
        "links get nope-1",
        "links update nope-1 --name x",
        "links rename nope-1 x",
        "links tag nope-1 --add x",
        "links delete nope-1 --yes",
        "links history nope-1",
        "links restore nope-1",
        "links explain nope-1",
        "links explain nope-1 --as android",
        "links stats nope-1",
        "links timeseries nope-1",
        "links qr nope-1 --out x.png",
    ] {
        let ran = dl.run(line);
        assert!(ran.fails(5).starts_with("error[not_found]: no link with ID nope-1 (HTTP 404)\n"), "{line}: {ran}");
    }
    for line in ["tags delete nope --yes", "tags rename nope other"] {
        assert!(dl.run(line).fails(5).starts_with("error[not_found]: no tag \"nope\" (HTTP 404)\n"), "{line}");
    }
}

#[test]
fn list_sends_its_filters() {
    let double = Double::new(|_| Answer::new(200, r#"{"links":[],"next_cursor":null}"#));
    let dl = Dl::at(&double.url);
    dl.run("links list --affiliate aff_0123456789abcdef01234567 --status expired --created-after 2026-11-01 --created-before 2026-11-02T10:00:00+02:00 --q spring- --id-prefix s --tag 'Spring sale' --tag b --limit 7").ok();
    assert_eq!(
        double.only().target,
        "/v1/links?affiliate_id=aff_0123456789abcdef01234567&created_after=2026-11-01T00%3A00%3A00.000Z\
         &created_before=2026-11-02T08%3A00%3A00.000Z&id_prefix=s&q=spring-&status=expired&tag=Spring+sale&tag=b&limit=7"
    );
    dl.run("links list --enabled false --domain go.example.com --sort oldest").ok();
    assert_eq!(
        double.requests().pop().expect("a request").target,
        "/v1/links?domain=go.example.com&enabled=false&sort=oldest&limit=50"
    );
    let sent = double.requests().len();
    dl.run("links list --tag a,b").fails(3);
    for (option, message) in [
        ("--status resting", "--status \"resting\": must be active, expired, flagged, disabled or deleted"),
        (
            "--domain https://go.example.com/",
            "--domain \"https://go.example.com/\": must be a host name such as go.example.com, without a scheme or port",
        ),
        ("--affiliate aff_1", "--affiliate \"aff_1\": must be aff_ and 24 hex digits"),
        ("--sort name", "--sort \"name\": must be newest or oldest"),
    ] {
        let refused = dl.run(&format!("links list {option}"));
        assert!(refused.fails(3).contains(message), "{option}");
    }
    dl.run("links list --enabled perhaps").fails(2);
    assert_eq!(double.requests().len(), sent, "nothing is sent");
    // A cursor carries its filters; 7d is no longer the moment that it was on the first page.
    dl.run("links list --created-after 7d --status expired --cursor abc").ok();
    assert_eq!(double.requests().pop().expect("a request").target, "/v1/links?cursor=abc&limit=50");
    dl.run("links list --status expired --cursor abc").ok();
    assert_eq!(double.requests().pop().expect("a request").target, "/v1/links?status=expired&cursor=abc&limit=50");
}

#[test]
fn what_can_be_no_id_is_refused_and_nothing_is_sent() {
    let double = willing();
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("links resolve 'a b'"), @r#"
    --- stderr
    error[invalid_id]: "a b" is not a link ID; IDs have 3 to 64 letters, digits or '-'
    --- exit 3
    "#);
    for line in [
        "links get a/../b?c=d%2F#e",
        "links get ..",
        "links get spring-1 'a b'",
        "links delete 'a b'",
        "links update 'a b' --unset metadata",
        "links timeseries ab",
        "links resolve ''",
    ] {
        let error = dl.run(&format!("{line} -o json")).error();
        assert_eq!((&error["code"], &error["field"]), (&json!("invalid_id"), &json!("link_id")), "{line}");
        dl.run(line).fails(3);
    }
    assert_eq!(dl.run_with("links delete - --yes", "spring-1\na b\n").code, Some(3));
    for host in ["http://go.example.com", "'x y'", "''", "go.example.com:8080"] {
        for line in ["links resolve spring-42", "wellknown apple"] {
            let ran = dl.run(&format!("{line} --host {host}"));
            assert!(ran.fails(3).starts_with("error[invalid_domain]: --host: "), "{ran}");
            assert_eq!(dl.run(&format!("{line} --host {host} -o json")).error()["field"], "host");
        }
    }
    assert!(double.requests().is_empty());
    dl.run("links resolve spring-42 --host GO.example.com.").ok();
    assert!(double.requests().iter().all(|request| request.header("host") == Some("go.example.com")));
}

#[test]
fn timeseries_shows_buckets_and_their_sum() {
    let double = Double::new(|_| {
        Answer::json(
            200,
            &json!({
                "link_id": "spring-42", "granularity": "daily", "from": "2026-11-01T00:00:00.000Z", "to": "2026-11-02T12:00:00.000Z",
                "data": [{"date": "2026-11-01", "clicks": 40}, {"date": "2026-11-02", "clicks": 2}],
            }),
        )
    });
    let dl = Dl::at(&double.url);
    insta::assert_snapshot!(dl.run("links timeseries spring-42 --from 2026-11-01 --to 2026-11-02T12:00:00Z"), @r"
    2026-11-01	40
    2026-11-02	2
    --- stderr
    42 clicks from 2026-11-01T00:00:00.000Z to 2026-11-02T12:00:00.000Z
    ");
    dl.run("links timeseries spring-42 --from 2026-11-01 --to 2026-11-02T12:00:00Z --kind preview").ok();
    assert_eq!(
        double.requests()[1].target,
        "/v1/links/spring-42/timeseries?from=2026-11-01T00%3A00%3A00.000Z&granularity=daily&kind=preview&to=2026-11-02T12%3A00%3A00.000Z"
    );
    assert_eq!(dl.run("links timeseries spring-42 -o csv").ok(), "date,clicks\r\n2026-11-01,40\r\n2026-11-02,2\r\n");
    assert_eq!(dl.run("links timeseries spring-42 -o json").json()["data"][0]["clicks"], 40);
}

/// A link that is enabled and does not work was stopped by the operator.
#[test]
fn a_stopped_link_says_where_the_reason_is() {
    let note = "note: the operator took down this link or suspended the account; for details: dl links explain spring-42 --as desktop\n";
    for (status, enabled, said) in [
        ("active", true, ""),
        ("flagged", true, note),
        ("disabled", true, note),
        ("disabled", false, ""),
        ("expired", true, ""),
    ] {
        let double = Double::new(move |_| {
            let mut link = link("spring-42");
            (link["status"], link["enabled"]) = (status.into(), enabled.into());
            Answer::json(200, &link)
        });
        let ran = Dl::at(&double.url).run("links get spring-42");
        assert!(ran.ok().contains(&format!("status\t{status}\n")), "{ran}");
        assert_eq!(ran.stderr, said, "{status} {enabled}");
    }
}
