//! Importing a file. The engine has its own tests; this tests flags, texts and exit codes.

use serde_json::json;

use deeplink_testing::dl::Dl;
use deeplink_testing::double::{Answer, Double, link};

/// A service that creates every link except those called `taken-…`.
pub(crate) fn service() -> Double {
    Double::new(|request| match request.line().as_str() {
        "GET /v1/links" => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
        "POST /v1/links/bulk" => {
            let body = request.json();
            let ids: Vec<String> = match (&body["links"], &body["custom_ids"]) {
                (serde_json::Value::Array(links), _) => {
                    links.iter().map(|link| link["custom_id"].as_str().expect("an id").to_owned()).collect()
                }
                (_, ids) => {
                    ids.as_array().expect("ids").iter().map(|id| id.as_str().expect("an id").to_owned()).collect()
                }
            };
            let errors: Vec<_> = ids.iter().enumerate().filter(|(_, id)| id.starts_with("taken-"))
                .map(|(index, id)| json!({"index": index, "code": "link_id_taken", "message": "the id is in use", "custom_id": id})).collect();
            if !errors.is_empty() {
                return Answer::json(400, &json!({"error": "rows", "code": "invalid_batch", "errors": errors}));
            }
            let links: Vec<_> =
                ids.iter().map(|id| json!({"link_id": id, "url": format!("https://go.example.com/{id}")})).collect();
            Answer::json(201, &json!({"links": links}))
        }
        line => match line.strip_prefix("GET /v1/links/taken-") {
            Some(_) => Answer::json(200, &link("somebody-elses")),
            None => Answer::error(404, "not_found", "no"),
        },
    })
}

/// Of many rejected rows, the first are printed, and the number of the others.
#[test]
fn rejected_rows_that_are_not_printed_are_counted() {
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file(
        "links.csv",
        "id,web\ntaken-1,https://example.com/\ntaken-2,https://example.com/\ntaken-3,https://example.com/\n",
    );
    for (more, told) in
        [("", "\n… and 2 more; --rejects FILE collects all\n"), (" --rejects bad.csv", "\n… and 2 more\n")]
    {
        let ran = dl.run(&format!("links import links.csv --on-error continue --no-journal --max-errors 1{more}"));
        assert!(ran.fails(10).contains(told), "{ran}");
        assert_eq!(ran.stderr.matches("[link_id_taken]").count(), 1, "{ran}");
    }
}

#[test]
fn a_file_is_imported_and_summed_up() {
    let double = service();
    let dl = Dl::at(&double.url);
    let rows: Vec<String> = (0..120).map(|at| format!("row-{at},https://example.com/\n")).collect();
    dl.file("links.csv", &format!("id,web\n{}", rows.concat()));
    let ran = dl.run("links import links.csv");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""));
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines[0], "importing links.csv: 120 rows");
    assert!(lines[1].starts_with("done: 120 rows of links.csv in "), "{ran}");
    assert_eq!(lines[2..], ["  created         120", "  in 2 requests"]);
    let again = dl.run("links import links.csv -o json");
    let summary = again.json();
    assert_eq!((&summary["rows"], &summary["created"], &summary["requests"]), (&json!(120), &json!(120), &json!(2)));
    let order = [
        "run", "rows", "created", "existed", "updated", "skipped", "rejected", "unknown", "unsent", "requests",
        "retries", "seconds",
    ];
    let places: Vec<_> =
        order.iter().map(|name| again.stdout.find(&format!("\"{name}\":")).expect("documented")).collect();
    assert!(places.is_sorted(), "{again}");
}

/// Invalid rows are reported with their lines, all of them, and no request is sent.
#[test]
fn invalid_rows_keep_everything_back() {
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file("links.csv", "custom_id,web_url\ngood-1,https://example.com\nab,https://example.com\ngood-2,ftp://example.com\ngood-1,https://example.com\n");
    insta::assert_snapshot!(dl.run("links import links.csv --rejects bad.csv"), @r#"
    --- stderr
    links.csv:3: custom_id "ab": use 3 to 64 letters, digits and hyphens, with a letter or digit at each end [invalid_custom_id]
    links.csv:4: web_url: must start with http:// or https:// [invalid_url]
    links.csv:5: custom_id "good-1": also on line 2 [duplicate_custom_id_in_batch]
    error: 3 of 4 rows are invalid; nothing was sent
      hint: fix the rows, or fix those in bad.csv and import that file
    --- exit 3
    "#);
    insta::assert_snapshot!(dl.read("bad.csv").replace("\r\n", "\n"), @r#"
    custom_id,web_url,_error
    ab,https://example.com,"custom_id ""ab"": use 3 to 64 letters, digits and hyphens, with a letter or digit at each end [invalid_custom_id]"
    good-2,ftp://example.com,web_url: must start with http:// or https:// [invalid_url]
    good-1,https://example.com,"custom_id ""good-1"": also on line 2 [duplicate_custom_id_in_batch]"
    "#);
    assert!(double.requests().is_empty());
    let error = dl.run("links import links.csv -o json").error();
    assert_eq!((error["items"].as_array().map(Vec::len), &error["items"][1]["field"]), (Some(3), &json!("web_url")));
    assert!(dl.run("links import links.csv --max-errors 1").stderr.contains("… and 2 more"));
}

/// IDs and aliases share one namespace, so both are compared with each other.
#[test]
fn a_name_that_two_rows_have_keeps_everything_back() {
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file(
        "links.csv",
        "custom_id,web_url,aliases\none,https://example.com/1,\"old,l/old\"\ntwo,https://example.com/2,\"free,l/old\"\n\
         old,https://example.com/3,\nfour,https://example.com/4,one\nfive,https://example.com/5,five\n",
    );
    let said = "links.csv:3: aliases[1]: \"l/old\" is also an alias on line 2 [alias_taken]\n\
                links.csv:4: custom_id \"old\": also an alias on line 2 [duplicate_custom_id_in_batch]\n\
                links.csv:5: aliases[0]: \"one\" is also the ID on line 2 [alias_taken]\n\
                links.csv:6: aliases[0]: this is the link's own ID [invalid_alias]\n\
                error: 4 of 5 rows are invalid; nothing was sent\n";
    assert!(dl.run("links import links.csv --check").fails(3).starts_with(said));
    assert!(dl.run("links import links.csv --rejects bad.csv").fails(3).starts_with(said));
    assert!(dl.read("bad.csv").contains("\"aliases[1]: \"\"l/old\"\" is also an alias on line 2 [alias_taken]\""));
    assert!(double.requests().is_empty());
    let ran = dl.run("links import links.csv --on-error continue");
    assert!(ran.fails(10).contains("4 of 5 rows are invalid and were skipped") && ran.says("created 1"), "{ran}");
}

#[test]
fn malformed_files_name_line_and_column_and_send_nothing() {
    let double = service();
    let dl = Dl::at(&double.url);
    for (name, content, place) in [
        ("broken.json", "[{\"custom_id\": \"abc\"},\n {\"custom_id\": }]", "broken.json"),
        (
            "broken.jsonl",
            "{\"custom_id\":\"abc\",\"web_url\":\"https://example.com\"}\n{\"custom_id\":\"abd\",\"web_url\":\n",
            "broken.jsonl:2:",
        ),
        ("ragged.csv", "custom_id,web_url\nabc,https://example.com\nabd\n", "ragged.csv:3"),
        ("unknown.csv", "custom_id,web_ulr\nabc,https://example.com\n", "unknown.csv"),
        ("twice.csv", "custom_id,web_url,web\nabc,https://example.com,https://example.com\n", "twice.csv"),
        ("empty.csv", "", "empty.csv"),
    ] {
        dl.file(name, content);
        let ran = dl.run(&format!("links import {name}"));
        assert!(ran.fails(3).contains(place), "{name}: {ran}");
    }
    std::fs::write(dl.dir().join("latin.csv"), b"custom_id,web_url\nabc,https://example.com/\xe9\n").expect("a file");
    assert!(dl.run("links import latin.csv").fails(3).contains("UTF-8"));
    assert!(double.requests().is_empty(), "{:?}", double.lines());
}

#[test]
fn check_needs_neither_service_nor_key() {
    let dl = Dl::new();
    dl.file("links.csv", "custom_id,web_url\ngood-1,https://example.com\nGOOD-1,https://example.com\n");
    insta::assert_snapshot!(dl.run("links import links.csv --check"), @r#"
    --- stderr
    note: links.csv:3: ID "GOOD-1" differs only in case from the one on line 2
    2 rows in links.csv: all valid; nothing was sent
    "#);
    dl.file("bad.csv", "custom_id\nab\n");
    dl.run("links import bad.csv --check").fails(3);
}

#[test]
fn continue_leaves_invalid_rows_out() {
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file("links.csv", "custom_id,web_url\ngood-1,https://example.com\nab,https://example.com\n");
    let ran = dl.run("links import links.csv --on-error continue --rejects bad.csv --results done.csv");
    assert!(
        ran.fails(10).contains("warning: 1 of 2 rows is invalid and was skipped")
            && ran.says("created 1 rejected 1 in 1 request"),
        "{ran}"
    );
    assert!(dl.read("bad.csv").contains("ab,https://example.com,"));
    assert!(
        dl.read("done.csv").contains("good-1")
            && dl.read("done.csv").starts_with("line,custom_id,link_id,url,status,code,message,batch")
    );
    let double_requests = double.requests();
    assert!(double_requests.iter().all(|request| !request.body.contains("\"ab\"")));
}

#[test]
fn refused_rows_are_named_and_collected() {
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file("links.csv", "custom_id,web_url\ngood-1,https://example.com/1\ntaken-1,https://example.com/2\n");
    let ran = dl.run("links import links.csv --on-error continue --rejects bad.csv");
    assert!(ran.fails(10).contains("links.csv:3: \"taken-1\": ") && ran.stderr.contains("[link_id_taken]"), "{ran}");
    assert!(
        ran.stderr
            .contains("error: not all rows in links.csv were imported: 1 rejected; links already created are kept"),
        "{ran}"
    );
    assert!(dl.read("bad.csv").contains("taken-1,https://example.com/2,"));
    // The journal says so too: such an import has ended, but not as planned.
    assert_eq!(dl.run("imports list --fields state,done,rejected").ok(), "partly rejected\t2\t1\n");
    dl.file("taken.csv", "custom_id,web_url\ntaken-1,https://example.com/2\n");
    dl.run("links import taken.csv --on-error continue").fails(10);
    assert!(dl.run("imports list --fields file,state").ok().lines().any(|run| run == "taken.csv\trejected"));
    let skipped = dl.run("links import links.csv --on-conflict skip --restart -o json");
    assert_eq!(skipped.json()["skipped"], 1);
}

#[test]
fn stdin_is_a_file_too() {
    let double = service();
    let dl = Dl::at(&double.url);
    let ran =
        dl.run_with("links import - --format jsonl -o json", "{\"custom_id\":\"a-1\"}\n{\"custom_id\":\"a-2\"}\n");
    assert_eq!(ran.json()["created"], 2);
    let ran = dl.run_with("links import -", "custom_id,web_url\nab,https://example.com\n");
    assert!(ran.fails(3).starts_with("stdin:2: custom_id \"ab\""), "{ran}");
}

#[test]
fn columns_templates_and_settings() {
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file("t.json", r#"{"web_url": "https://example.com/t", "metadata": {"from": "template"}}"#);
    dl.file("links.csv", "Ref;Ziel;Note\nrow-1;;ignored\nrow-2;https://example.com/2;ignored\n");
    dl.run("links import links.csv --map Ref=custom_id --map Ziel=web_url --ignore-unknown --template t.json --set agent.cta=Now").ok();
    let body = double.requests().last().expect("a request").json();
    assert_eq!(
        body["links"][0],
        json!({"custom_id": "row-1", "web_url": "https://example.com/t", "metadata": {"from": "template"}, "agent_context": {"action": null, "cta": "Now", "description": null}})
    );
    assert_eq!(body["links"][1]["web_url"], "https://example.com/2");
    dl.file("no-id.csv", "web_url\nhttps://example.com\n");
    dl.run("links import no-id.csv").fails(3);
    let made = |line: &str| {
        dl.run(line).ok();
        double.requests().last().expect("a request").json()["links"][0]["custom_id"].as_str().expect("an id").to_owned()
    };
    let first = made("links import no-id.csv --generate-ids=salt --no-journal");
    assert_eq!((first.len(), made("links import no-id.csv --generate-ids=salt --no-journal")), (8, first.clone()));
    assert_ne!(made("links import no-id.csv --generate-ids=other --no-journal"), first);
}

#[test]
fn what_stops_a_run_decides_its_code() {
    for (status, code, exit) in [
        (401, "invalid_key", 4),
        (403, "forbidden_scope", 4),
        (402, "quota_exceeded", 7),
        (503, "sessions_not_configured", 9),
    ] {
        let double = Double::new(move |request| match request.method.as_str() {
            "POST" => Answer::error(status, code, "no"),
            _ => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
        });
        let dl = Dl::at(&double.url);
        dl.file("links.csv", "custom_id,web_url\nrow-1,https://example.com\n");
        let ran = dl.run("links import links.csv");
        assert!(ran.fails(exit).contains(&format!("error[{code}]: no (HTTP {status})")), "{ran}");
        assert!(ran.stderr.contains("hint: resume with: dl links import ") && ran.says("unsent 1"), "{ran}");
    }
    let double = Double::new(|request| match request.method.as_str() {
        "POST" => Answer::error(429, "rate_limited", "slow down").header("retry-after", "2"),
        _ => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
    });
    let dl = Dl::at(&double.url);
    dl.file("links.csv", "custom_id,web_url\nrow-1,https://example.com\n");
    dl.run("links import links.csv --max-wait 1s").fails(8);
}

#[test]
fn progress_is_lines_off_a_terminal_and_can_be_off() {
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file("links.csv", "custom_id,web_url\nrow-1,https://example.com\n");
    for line in
        ["links import links.csv", "links import links.csv --progress bar", "links import links.csv --progress plain"]
    {
        let ran = dl.run(line);
        assert!(
            ran.stderr.starts_with("importing links.csv: 1 row\n") && !ran.stderr.contains('\u{1b}'),
            "{line}: {ran}"
        );
    }
    assert!(dl.run("links import links.csv --progress off").stderr.starts_with("done: "));
    assert_eq!(dl.run("links import links.csv -q").stderr, "");
}
