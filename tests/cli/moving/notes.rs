//! Notes about an export, printed before anything is sent.

use serde_json::{Value, json};

use super::exports::SHLINK_JSON;
use super::sent;
use crate::import::service;
use deeplink_testing::dl::{Dl, Ran};
use deeplink_testing::double::{Answer, Double, domain};

#[test]
fn notes_name_the_columns_that_are_left_out() {
    let double = service();
    let dl = Dl::at(&double.url);
    let columns = |ran: &Ran| -> Vec<String> {
        ran.stderr.lines().filter(|line| line.contains(" column")).map(str::to_owned).collect()
    };
    dl.file(
        "bitly.csv",
        "Link,Destination URL,Owner,QR Code,Empty,Off,Engagements,Campaign\nhttps://bit.ly/abc,https://example.com,Ann,yes,,false,7,sale\n",
    );
    let ran = dl.run("import --from bitly bitly.csv --check");
    assert_eq!(ran.code, Some(0), "{ran}");
    assert_eq!(
        columns(&ran),
        [
            "note: ignored columns: \"Owner\", \"QR Code\"; --map COLUMN=name imports one as the name, --map COLUMN=meta.KEY as metadata, which is public",
            "note: ignored column: \"Campaign\"; --keep-details keeps it as metadata, which is public",
        ]
    );
    let ran = dl.run("import --from bitly bitly.csv --keep-details --map Owner=meta.owner --map 'QR Code=ignore'");
    assert_eq!(columns(&ran), Vec::<String>::new());
    let link = &sent(&double, &ran)[0];
    assert_eq!((&link["metadata"]["owner"], &link["imported_clicks"]), (&json!("Ann"), &json!(7)));
    // What is no count is ignored.
    dl.file("words.csv", "Link,Destination URL,Engagements\nhttps://bit.ly/abc,https://example.com,many\n");
    let ran = dl.run("import --from bitly words.csv --check");
    assert_eq!(
        columns(&ran),
        [
            "note: ignored column: \"Engagements\"; --map COLUMN=name imports one as the name, --map COLUMN=meta.KEY as metadata, which is public"
        ]
    );
    dl.file("shlink.json", SHLINK_JSON);
    let ran = dl.run("import --from shlink shlink.json --check");
    insta::assert_snapshot!(ran, @r#"
    --- stderr
    warning: shlink.json is page 1 of 3; the links on the other pages are not in it
    note: ignored column: "meta.maxVisits"; --map COLUMN=name imports one as the name, --map COLUMN=meta.KEY as metadata, which is public
    note: ignored column: "dateCreated"; --keep-details keeps it as metadata, which is public
    1 row in shlink.json: all valid; nothing was sent
    "#);
}

#[test]
fn everything_that_changes_is_counted() {
    let double = service();
    let dl = Dl::at(&double.url);
    let long = "ä".repeat(130);
    dl.file(
        "bitly.csv",
        &format!(
            "Link,Custom Link,Destination URL,Title,Status,Expires\n\
             https://bit.ly/3x,\"https://go.example.com/l/one,https://go.example.com/two\",https://example.com,{long},Expired,2020-01-31\n"
        ),
    );
    insta::assert_snapshot!(dl.run("import --from bitly bitly.csv --last-segment --check"), @"
    --- stderr
    warning: 1 link is imported as disabled because of a password, start date, click limit or status in the other service: bitly.csv:2
    note: 1 short link has a path with several segments; the new short link has only the last one
    note: 1 link gets an alias, so that its original path keeps working; this requires a verified primary domain
    note: 1 name is truncated to 120 characters
    note: 1 link has expired (bitly.csv:2); expired links are accepted only if the account already has them
    1 row in bitly.csv: all valid; nothing was sent
    ");
    let list: Vec<String> = (0..99)
        .map(|at| format!(r#"{{"key": "a{at}a", "domain": "go.example.com", "url": "https://example.com"}}"#))
        .collect();
    let root = r#"{"key": "_root", "domain": "go.example.com", "url": "https://example.com/?a=b&c"}"#;
    dl.file("dub.json", &format!("[{root},{}]", list.join(",")));
    insta::assert_snapshot!(dl.run("import --from dub dub.json --check"), @"
    --- stderr
    warning: dub.json has exactly 100 links, which is the size of a full page; get the next page, too
    note: 1 row is a domain's root link, which has no path; not imported
    note: to redirect visitors who open the domain itself: dl domains update go.example.com --root-url 'https://example.com/?a=b&c'
    99 rows in dub.json: all valid; nothing was sent
    ");
}

/// Domains of the other service cannot move; those of another one show that the file is another's.
#[test]
fn domains_that_cannot_move_are_named() {
    let double = service();
    let dl = Dl::at(&double.url);
    let rows = "https://bit.ly/3xYz9Ab,https://example.com/1,Archived\nhttps://bit.ly/4AbCdEf,https://example.com/2,Active\n\
                https://go.example.com/spring,https://example.com/3,Archived\n";
    dl.file("links.csv", &format!("Link,Destination URL,Status\n{rows}"));
    insta::assert_snapshot!(dl.run("import --from bitly links.csv --check"), @r#"
    --- stderr
    note: 2 short links on bit.ly cannot be moved from Bitly; their links get new URLs, with the same IDs unless an option changes them
    note: ignored column: "Status"; --keep-details keeps it as metadata, which is public
    note: 2 archived links will work like any other
    3 rows in links.csv: all valid; nothing was sent
    "#);
    let ran = dl.run("import --from dub links.csv --check -o json");
    let warning = "warning: 2 short links in links.csv are on bit.ly, a domain of Bitly: if the file is an export from \
                   Bitly, use --from bitly";
    assert!(ran.says(warning), "{ran}");
    assert_eq!(ran.json(), json!({"rows": 3, "invalid": 0}));
}

/// Before anything is sent, the domains of the account are compared with those of the short links.
#[test]
fn domains_that_the_account_does_not_have_are_named() {
    for (domains, told) in [
        (json!([]), &["the account has no verified domain", "1 short link on go.example.com"][..]),
        (json!([domain(false)]), &["the account has no verified domain", "dl domains add go.example.com"]),
        (json!([domain(true)]), &[]),
    ] {
        let double = Double::new(move |request| match request.line().as_str() {
            "GET /v1/domains" => Answer::json(200, &domains),
            "GET /v1/links" => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
            _ => Answer::json(201, &json!({"links": [{"link_id": "abc", "url": "https://go.example.com/abc"}]})),
        });
        let dl = Dl::at(&double.url);
        dl.file("links.csv", "Slug,URL,Short URL\nabc,https://example.com/,https://go.example.com/abc\n");
        let ran = dl.run("import --from csv links.csv");
        assert_eq!(ran.code, Some(0), "{ran}");
        assert!(told.iter().all(|told| ran.says(told)), "{ran}");
        assert_eq!(ran.stderr.contains("go.example.com") || ran.stderr.contains("warning"), !told.is_empty(), "{ran}");
    }
}

#[test]
fn ids_that_are_not_allowed_are_replaced_on_request() {
    let rows = "Short link,Destination URL\nhttps://go.example.com/a_b,https://example.com/1\n\
                https://go.example.com/c/d,https://example.com/2\nhttps://go.example.com/%C3%A9,https://example.com/3\n\
                https://go.example.com/fine,https://example.com/4\n";
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file("firebase.csv", &rows.replace("Destination URL", "link"));
    insta::assert_snapshot!(dl.run("import --from firebase firebase.csv --sanitize-ids"), @r#"
    --- stderr
    note: 2 links get aliases, so that their original path keeps working; this requires a verified primary domain
    note: changed 2 IDs that contained characters that are not allowed; the original IDs are in the metadata as imported_id
    firebase.csv:4: custom_id "é": use 3 to 64 letters, digits and hyphens, with a letter or digit at each end [invalid_custom_id]
    error: 1 of 4 rows is invalid; nothing was sent
      hint: fix the rows, or skip them with --on-error continue; --rejects FILE collects them; --generate-ids generates IDs instead
    --- exit 3
    "#);
    dl.file("dub.csv", rows);
    let ran = dl.run("import --from dub dub.csv --sanitize-ids --generate-ids --no-journal");
    let links = sent(&double, &ran);
    let ids: Vec<&str> = links.iter().map(|link| link["custom_id"].as_str().expect("an id")).collect();
    assert_eq!((ids[0], ids[1], ids[2].len(), ids[3]), ("a-b", "c-d", 8, "fine"));
    let originals: Vec<&Value> = links.iter().map(|link| &link["metadata"]["imported_id"]).collect();
    assert_eq!(originals, [&json!("a_b"), &json!("c/d"), &json!("é"), &Value::Null]);
    let aliases: Vec<&Value> = links.iter().map(|link| &link["aliases"]).collect();
    assert_eq!(
        aliases,
        [&json!(["a_b"]), &json!(["c/d"]), &json!(["é"]), &Value::Null],
        "the old addresses go on working"
    );
    // In a later export, the rows have another order and other counts.
    let generated = |rows: &str| {
        let double = service();
        let dl = Dl::at(&double.url);
        dl.file("dub.csv", rows);
        let ran = dl.run("import --from dub dub.csv --generate-ids --keep-details");
        assert!(ran.stderr.contains("note: generated 3 IDs, because the originals are not allowed"), "{ran}");
        let mut links = sent(&double, &ran);
        links.sort_by_key(|link| link["web_url"].to_string());
        assert_eq!(links[1]["metadata"]["imported_id"], "c/d");
        links.iter().map(|link| link["custom_id"].clone()).collect::<Vec<_>>()
    };
    let first = generated(rows);
    let mut later: Vec<String> = rows.lines().zip(0..).map(|(row, at)| format!("{row},{at}\n")).collect();
    later[0] = "Short link,Destination URL,Clicks\n".to_owned();
    later[1..].reverse();
    assert_eq!(first, generated(&later.concat()), "the same in every export");
    assert_eq!((&first[3], first[0].as_str().map(str::len)), (&json!("fine"), Some(8)));
    // The same short link twice is the same ID twice.
    let twice = rows.lines().chain(["http://go.example.com/a_b,https://example.com/9"]).collect::<Vec<_>>().join("\n");
    dl.file("twice.csv", &twice);
    let ran = dl.run("import --from dub twice.csv --generate-ids");
    assert!(ran.fails(3).contains("twice.csv:6: custom_id \"") && ran.stderr.contains("also on line 2"), "{ran}");
}
