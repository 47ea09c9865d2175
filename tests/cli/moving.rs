//! Moving in: exports of other services become links. The rows then go the way of any other import, which `import` tests.
//!
//! The fixtures have the columns that each service's documentation names; `docs/moving-in.md` says where, and what could not
//! be verified.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::import::service;
use crate::imports::moody;
use crate::server::Server;
use deeplink_testing::dl::{Dl, Ran};
use deeplink_testing::double::Double;

/// The names of the first three columns are those that <https://github.com/URLR/urlr-docs> (`migration/bitly.md`) describes;
/// those of the others could not be verified.
const BITLY: &str = "\
Link,Custom Link,Destination URL,Title,Tags,Created,Engagements,Archived
https://bit.ly/3xYz9Ab,https://go.example.com/spring-sale,https://example.com/sale?utm_source=bitly,Spring sale,\"spring, sale\",2025-03-01T09:30:00+0000,\"1,204\",FALSE
https://bit.ly/4AbCdEf,,https://example.com/about,,,2024-12-24,7,TRUE
";

/// The columns of `exportLinksColumns` in <https://github.com/dubinc/dub>.
const DUB_CSV: &str = "\
Short link,Destination URL,Clicks,Created at,Updated at,Tags,Archived
https://go.example.com/spring,https://example.com/sale,42,2025-03-01T09:30:00.000Z,2025-03-02T09:30:00.000Z,\"Spring, Sale\",false
";

/// A list of links as `LinkSchema` in <https://github.com/dubinc/dub> describes it, without the members that play no role.
const DUB_JSON: &str = r#"[
  {"id": "link_1", "domain": "go.example.com", "key": "the-app", "url": "https://example.com/app", "archived": false,
   "expiresAt": "2099-12-31T00:00:00.000Z", "expiredUrl": "https://example.com/over", "password": null,
   "title": "The app", "description": null, "image": "https://example.com/app.png", "comments": "Print",
   "ios": "https://apps.apple.com/app/id123456789", "android": "example://open", "geo": null,
   "tags": [{"id": "tag_1", "name": "Spring", "color": "red"}], "utm_source": "print",
   "shortLink": "https://go.example.com/the-app", "clicks": 3, "createdAt": "2025-03-01T09:30:00.000Z"}
]"#;

/// The columns of Shlink's web client: `ExportableShortUrl` in <https://github.com/shlinkio/shlink-web-component>.
const SHLINK_CSV: &str = "\
createdAt,title,shortUrl,domain,shortCode,longUrl,tags,visits
2025-03-01T10:30:00+01:00,Spring,https://go.example.com/spring,go.example.com,spring,https://example.com/sale,a|b,5
";

/// A list of short URLs as <https://api-spec.shlink.io> describes it.
const SHLINK_JSON: &str = r#"{"shortUrls": {
  "data": [
    {"shortUrl": "https://go.example.com/spring", "shortCode": "spring", "longUrl": "https://example.com/sale",
     "dateCreated": "2025-03-01T10:30:00+01:00", "visitsSummary": {"total": 5, "nonBots": 4, "bots": 1},
     "tags": ["a", "b"], "meta": {"validSince": null, "validUntil": "2099-12-31T00:00:00+00:00", "maxVisits": 100},
     "domain": null, "title": "Spring", "crawlable": false}
  ],
  "pagination": {"currentPage": 1, "pagesCount": 3, "itemsPerPage": 1, "itemsInCurrentPage": 1, "totalItems": 3}
}}"#;

/// The keys of a link's data at <https://help.branch.io/apidocs/createdeeplinkurl>. How Branch names the columns of
/// its CSV could not be verified.
const BRANCH: &str = "\
url,alias,$marketing_title,~channel,~campaign,~tags,$desktop_url,$fallback_url,$ios_deeplink_path,$deeplink_path,$ios_url,$android_url,$og_title,creation_date,clicks
https://example.app.link/spring,spring,Spring sale,email,sale,\"a,b\",https://example.com/sale,https://example.com/,example://sale,sale/1,https://apps.apple.com/app/id123456789,https://example.com/android,Sale,2025-03-01,9
https://example.app.link/AbC123xYz,,,,,,,https://example.com/,,,,,,,
";

/// The columns of <https://firebase.google.com/support/guides/export-dynamic-links>.
const FIREBASE: &str = "\
Short link,Deep link (link),Android package name (apn),Android fallback link (afl),Android minimum package version code (amv),iOS bundle ID (ibi),iOS fallback link (ifl),iOS custom scheme (ius),iOS iPad fallback link (ipfl),iOS iPad bundle ID (ipbi),iOS app store ID (isi),iOS minimum version (imv),Enable forced redirect? (efr),Desktop fallback link (ofl),Social title (st),Social description (sd),Social image link (si),UTM source (utm_source),UTM medium (utm_medium),UTM campaign (utm_campaign),UTM term (utm_term),UTM content (utm_content),iTunes connect at,iTunes connect ct,iTunes connect mt,iTunes connect pt,Archived?,Link name,Creation timestamp
https://example.page.link/m9Mm,https://example.com/welcome,com.example.android,,,com.example.ios,https://example.com/ios,,,,123456789,,1,https://example.com/desktop,Welcome,Come in,https://example.com/w.png,print,,,,,,,,,false,Welcome,1740821400
https://example.page.link/invite,https://example.com/invite,,,,,,,,,,,,,,,,,,,,,,,,,true,,
";

/// As a person who keeps links in a spreadsheet might name columns.
const ANY: &str = "\
Slug;Long URL;Title;Clicks;Created
spring;https://example.com/sale;Spring;1 204;01.03.2025
";

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

/// Moves a file in; it must be refused before anything is sent.
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
fn the_exports_of_each_service_become_links() {
    let bitly = [
        json!({
            "custom_id": "spring-sale", "web_url": "https://example.com/sale?utm_source=bitly", "name": "Spring sale",
            "tags": ["spring", "sale"],
            "metadata": {
                "imported_from": "bitly", "imported_url": "https://go.example.com/spring-sale",
                "imported_other_urls": "https://bit.ly/3xYz9Ab", "imported_created_at": "2025-03-01T09:30:00.000Z",
                "imported_clicks": 1204,
            },
        }),
        json!({
            "custom_id": "4AbCdEf", "web_url": "https://example.com/about",
            "metadata": {
                "imported_from": "bitly", "imported_url": "https://bit.ly/4AbCdEf",
                "imported_created_at": "2024-12-24T00:00:00.000Z", "imported_clicks": 7, "imported_archived": true,
            },
        }),
    ];
    let dub_csv = [json!({
        "custom_id": "spring", "web_url": "https://example.com/sale", "tags": ["Spring", "Sale"],
        "metadata": {
            "imported_from": "dub", "imported_url": "https://go.example.com/spring",
            "imported_created_at": "2025-03-01T09:30:00.000Z", "imported_clicks": 42,
        },
    })];
    let dub_json = [json!({
        "custom_id": "the-app", "web_url": "https://example.com/app", "name": "Print", "tags": ["Spring"],
        "ios_store_url": "https://apps.apple.com/app/id123456789", "android_deep_link": "example://open",
        "expires_at": "2099-12-31T00:00:00.000Z", "expired_url": "https://example.com/over",
        "social_preview": {"title": "The app", "description": null, "image_url": "https://example.com/app.png"},
        "metadata": {
            "imported_from": "dub", "imported_url": "https://go.example.com/the-app", "utm_source": "print",
            "imported_created_at": "2025-03-01T09:30:00.000Z", "imported_clicks": 3,
        },
    })];
    let shlink = |expires: Value| {
        let mut link = json!({
            "custom_id": "spring", "web_url": "https://example.com/sale", "name": "Spring", "tags": ["a", "b"],
            "metadata": {
                "imported_from": "shlink", "imported_url": "https://go.example.com/spring",
                "imported_created_at": "2025-03-01T09:30:00.000Z", "imported_clicks": 5,
            },
        });
        if !expires.is_null() {
            link["expires_at"] = expires;
        }
        [link]
    };
    let branch = [
        json!({
            "custom_id": "spring", "web_url": "https://example.com/sale", "name": "Spring sale", "tags": ["a", "b"],
            "ios_deep_link": "example://sale", "ios_store_url": "https://apps.apple.com/app/id123456789",
            "social_preview": {"title": "Sale", "description": null, "image_url": null},
            "metadata": {
                "imported_from": "branch", "imported_url": "https://example.app.link/spring",
                "imported_created_at": "2025-03-01T00:00:00.000Z", "imported_clicks": 9,
                "imported_android_fallback_url": "https://example.com/android", "imported_deep_link_path": "sale/1",
                "channel": "email", "campaign": "sale",
            },
        }),
        json!({
            "custom_id": "AbC123xYz", "web_url": "https://example.com/",
            "metadata": {"imported_from": "branch", "imported_url": "https://example.app.link/AbC123xYz"},
        }),
    ];
    let firebase = [
        json!({
            "custom_id": "m9Mm", "web_url": "https://example.com/desktop", "name": "Welcome",
            "ios_deep_link": "https://example.com/welcome", "android_deep_link": "https://example.com/welcome",
            "ios_store_url": "https://apps.apple.com/app/id123456789",
            "android_store_url": "https://play.google.com/store/apps/details?id=com.example.android",
            "social_preview": {
                "title": "Welcome", "description": "Come in", "image_url": "https://example.com/w.png",
            },
            "metadata": {
                "imported_from": "firebase", "imported_url": "https://example.page.link/m9Mm",
                "imported_created_at": "2025-03-01T09:30:00.000Z", "utm_source": "print",
                "imported_ios_fallback_url": "https://example.com/ios",
            },
        }),
        json!({
            "custom_id": "invite", "web_url": "https://example.com/invite",
            "metadata": {
                "imported_from": "firebase", "imported_url": "https://example.page.link/invite",
                "imported_archived": true,
            },
        }),
    ];
    let any = [json!({
        "custom_id": "spring", "web_url": "https://example.com/sale", "name": "Spring",
        "metadata": {"imported_created_at": "01.03.2025", "imported_clicks": 1204},
    })];
    let cases: [(&str, &str, &str, &[Value]); 8] = [
        ("--from bitly", "bitly.csv", BITLY, &bitly),
        ("--from dub", "links_export.csv", DUB_CSV, &dub_csv),
        ("--from dub", "dub.json", DUB_JSON, &dub_json),
        ("--from shlink", "shlink.csv", SHLINK_CSV, &shlink(Value::Null)),
        ("--from shlink", "shlink.json", SHLINK_JSON, &shlink("2099-12-31T00:00:00.000Z".into())),
        ("--from branch", "branch.csv", BRANCH, &branch),
        ("--from firebase", "firebase.csv", FIREBASE, &firebase),
        ("--from csv", "links.csv", ANY, &any),
    ];
    for (line, name, content, links) in cases {
        assert_eq!(moved(line, name, content), links, "{line} {name}");
    }
}

#[test]
fn one_note_names_the_columns_that_are_left_out() {
    let double = service();
    let dl = Dl::at(&double.url);
    let columns = |ran: &Ran| -> Vec<String> {
        ran.stderr.lines().filter(|line| line.starts_with("note: ignored")).map(str::to_owned).collect()
    };
    dl.file("bitly.csv", "Link,Destination URL,Owner,QR Code,Empty\nhttps://bit.ly/abc,https://example.com,Ann,yes,\n");
    let ran = dl.run("import --from bitly bitly.csv --check");
    assert_eq!(ran.code, Some(0), "{ran}");
    assert_eq!(
        columns(&ran),
        ["note: ignored columns: \"Owner\", \"QR Code\"; --map COLUMN=meta.KEY keeps one as metadata"]
    );
    let ran = dl.run("import --from bitly bitly.csv --map Owner=meta.owner --map 'QR Code=ignore'");
    assert_eq!(columns(&ran), Vec::<String>::new());
    assert_eq!(sent(&double, &ran)[0]["metadata"]["owner"], "Ann");
    dl.file("shlink.json", SHLINK_JSON);
    let ran = dl.run("import --from shlink shlink.json --check");
    insta::assert_snapshot!(ran, @r#"
    --- stderr
    warning: shlink.json is page 1 of 3; the links on the other pages are not in it
    note: ignored columns: "visitsSummary.nonBots", "visitsSummary.bots", "meta.maxVisits", "crawlable"; --map COLUMN=meta.KEY keeps one as metadata
    1 row of shlink.json: all valid; nothing was sent
    "#);
}

/// Everything that is wrong with a file is said before anything is sent: with its line, the rule, and what to do.
#[test]
fn bad_files_are_refused_with_the_reason() {
    let head = "Link,Destination URL,Expires\n";
    let cases: [(&str, &str, Vec<u8>, &[&str]); 19] = [
        (
            "--from bitly",
            "x.csv",
            b"Name,Address\na,b\n".into(),
            &[
                "error[missing_column]: x.csv:1: no column with the short link or its ID, such as \"Link\", \"Bitlink\" or \
                 \"Custom Link\" (Bitly export); found \"Name\", \"Address\"",
                "hint: choose the service with --from, or name the column with --map COLUMN=FIELD; nothing was sent",
            ],
        ),
        (
            "--from bitly",
            "x.csv",
            b"Link\nhttps://bit.ly/abc\n".into(),
            &["no column with the destination", "found \"Link\""],
        ),
        ("--from shlink", "x.csv", BITLY.into(), &["(Shlink export)", "\"shortCode\" or \"shortUrl\""]),
        ("--from bitly", "x.csv", Vec::new(), &["x.csv: the input is empty"]),
        (
            "--from bitly",
            "x.csv",
            format!("{head}https://bit.ly/a_b,https://example.com,\n").into(),
            &[
                "x.csv:2: custom_id \"a_b\": 3 to 64 letters, digits or '-' [invalid_custom_id]",
                "--sanitize-ids replaces characters that an ID cannot have, and --generate-ids generates IDs instead",
            ],
        ),
        (
            "--from bitly",
            "x.csv",
            format!("{head}https://bit.ly/docs,https://example.com,\n").into(),
            &["x.csv:2: custom_id \"docs\": this word is reserved [invalid_custom_id]"],
        ),
        (
            "--from bitly",
            "x.csv",
            format!("{head}https://bit.ly/,https://example.com,\n").into(),
            &["x.csv:2: custom_id: the row has no ID [invalid_custom_id]", "--generate-ids"],
        ),
        (
            "--from bitly",
            "x.csv",
            format!("{head}https://bit.ly/abc,,\n").into(),
            &["x.csv:2: web_url: the row has no destination; a template can set one for such rows [invalid_url]"],
        ),
        (
            "--from bitly",
            "x.csv",
            format!("{head}https://bit.ly/abc,example.com,\n").into(),
            &["x.csv:2: web_url: ", "[invalid_url]"],
        ),
        (
            "--from bitly",
            "x.csv",
            format!("{head}https://bit.ly/abc,https://example.com,12/31/2099\n").into(),
            &["x.csv:2:40: expires_at: \"12/31/2099\" is not a date such as 2027-01-31 or 2027-01-31T12:00:00Z \
             [invalid_expires_at]"],
        ),
        (
            "--from bitly",
            "x.csv",
            format!("{head}https://bit.ly/abc,https://example.com,2020-01-31\n").into(),
            &[
                "x.csv:2:40: expires_at: the link expired on 2020-01-31T00:00:00.000Z, and expired links cannot be created",
            ],
        ),
        (
            "--from bitly",
            "x.csv",
            format!("{head}https://bit.ly/abc,https://example.com,\nhttps://go.example.com/abc,https://example.com,\n")
                .into(),
            &["x.csv:3: custom_id \"abc\": also on line 2 [duplicate_custom_id_in_batch]"],
        ),
        (
            "--from bitly --sanitize-ids",
            "x.csv",
            format!("{head}https://bit.ly/a_b,https://example.com,\nhttps://bit.ly/a-b,https://example.com,\n").into(),
            &["x.csv:3: custom_id \"a-b\": also on line 2 [duplicate_custom_id_in_batch]"],
        ),
        (
            "--from bitly",
            "x.csv",
            format!("{head}https://bit.ly/abc,https://example.com\n").into(),
            &["x.csv:2: the line has 2 values, but the header has 3"],
        ),
        (
            "--from bitly",
            "x.csv",
            b"Link,Destination URL,Title\nhttps://bit.ly/abc,https://example.com,Caf\xe9\n".into(),
            &["x.csv:2:39: the input is not UTF-8; save it as UTF-8 (try `iconv -f WINDOWS-1252 -t UTF-8`)"],
        ),
        (
            "--from bitly",
            "x.csv",
            utf16("Link,Destination URL\n", u16::to_le_bytes)[2..].into(),
            &[
                "x.csv: the input is UTF-16 without a byte order mark; save it as UTF-8 (try `iconv -f UTF-16LE -t UTF-8`)",
            ],
        ),
        ("--from bitly", "x.csv", b"\xff\xfeL\0i\0n\0k\0\n\0\x00\xd8".into(), &["the UTF-16 is broken near byte 14"]),
        ("--from bitly", "x.json", b"[]".into(), &["x.json: an export of Bitly is CSV, but this is JSON"]),
        (
            "--from shlink",
            "x.json",
            br#"{"shortUrls": {"items": []}}"#.into(),
            &["x.json:1:1: the input must be a list of links, or an object with one in shortUrls.data"],
        ),
    ];
    for (line, name, content, texts) in cases {
        let said = refused(line, name, content);
        for text in texts {
            assert!(said.contains(text), "{line}: {text:?} is not in {said}");
        }
    }
}

/// The text with a byte order mark.
fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(bytes).collect()
}

#[test]
fn what_excel_saves_is_read() {
    let text = "Link;Destination URL;Title\r\nhttps://bit.ly/abc;https://example.com;Café 👋\r\n";
    let unicode = text.replace(';', "\t");
    for (name, content) in [
        ("sep.csv", format!("sep=;\r\n{text}").into_bytes()),
        ("mark.csv", format!("\u{feff}sep=;\r\n{text}").into_bytes()),
        ("quoted.csv", format!("\"sep=;\"\n{text}").into_bytes()),
        // The delimiter that the line names counts, not the more frequent one.
        ("pipe.csv", format!("sep=|\n{}", text.replace(';', "|").replace("Title", "Title, or, not;")).into_bytes()),
        ("little.csv", utf16(text, u16::to_le_bytes)),
        ("big.csv", utf16(text, u16::to_be_bytes)),
        ("unicode.txt", utf16(&unicode, u16::to_le_bytes)),
        ("both.csv", utf16(&format!("sep=;\r\n{text}"), u16::to_le_bytes)),
    ] {
        let link = &moved("--from bitly", name, content)[0];
        assert_eq!(link["custom_id"], "abc", "{name}");
        if name != "pipe.csv" {
            assert_eq!(link["name"], "Café 👋", "{name}");
        }
    }
    // Our own files, too, with the lines as an editor counts them.
    let double = service();
    let dl = Dl::at(&double.url);
    std::fs::write(
        dl.dir().join("links.csv"),
        utf16("sep=;\nid;web\nabc;https://example.com\nab;\n", u16::to_le_bytes),
    )
    .expect("a file");
    assert!(dl.run("links import links.csv").fails(3).starts_with("links.csv:4: custom_id \"ab\": "));
}

#[test]
fn ids_that_are_not_allowed_are_replaced_on_request() {
    let rows = "Short link,Destination URL\nhttps://go.example.com/a_b,https://example.com/1\n\
                https://go.example.com/c/d,https://example.com/2\nhttps://go.example.com/%C3%A9,https://example.com/3\n\
                https://go.example.com/fine,https://example.com/4\nhttps://go.example.com,https://example.com/5\n";
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file("dub.csv", rows);
    insta::assert_snapshot!(dl.run("import --from dub dub.csv --sanitize-ids"), @r#"
    --- stderr
    note: changed 3 IDs to allowed characters; imported_id in the metadata is the original
    dub.csv:6: custom_id: the row has no ID [invalid_custom_id]
    error: 1 of 5 rows is invalid; nothing was sent
      hint: fix the rows, or skip them with --on-error continue; --rejects FILE collects them; --sanitize-ids replaces characters that an ID cannot have, and --generate-ids generates IDs instead
    --- exit 3
    "#);
    let ran = dl.run("import --from dub dub.csv --sanitize-ids --generate-ids --no-journal");
    let links = sent(&double, &ran);
    let ids: Vec<&str> = links.iter().map(|link| link["custom_id"].as_str().expect("an id")).collect();
    assert_eq!(ids[..4], ["a-b", "c-d", "C3-A9", "fine"]);
    assert_eq!(ids[4].len(), 8, "{ids:?}");
    let originals: Vec<&Value> = links.iter().map(|link| &link["metadata"]["imported_id"]).collect();
    assert_eq!(originals, [&json!("a_b"), &json!("c/d"), &json!("%C3%A9"), &Value::Null, &Value::Null]);
    let generated = |line: &str| {
        let double = service();
        let dl = Dl::at(&double.url);
        dl.file("dub.csv", rows);
        let ran = dl.run(line);
        let links = sent(&double, &ran);
        assert!(ran.stderr.contains("note: generated 3 IDs in place of those that are not allowed"), "{ran}");
        assert_eq!(links[1]["metadata"]["imported_id"], "c/d");
        links.iter().map(|link| link["custom_id"].clone()).collect::<Vec<_>>()
    };
    let first = generated("import --from dub dub.csv --generate-ids");
    assert_eq!(first, generated("import --from dub dub.csv --generate-ids"), "the same in every run");
    assert_eq!((&first[3], first[0].as_str().map(str::len)), (&json!("fine"), Some(8)));
}

#[test]
fn paths_of_several_segments_are_counted() {
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file("bitly.csv", "Link,Destination URL\nhttps://go.example.com/l/abc,https://example.com\n");
    let ran = dl.run("import --from bitly bitly.csv");
    assert!(ran.stderr.contains("note: 1 short link has a path of several segments; the ID is the last one"), "{ran}");
    let link = &sent(&double, &ran)[0];
    assert_eq!(
        (&link["custom_id"], &link["metadata"]["imported_url"]),
        (&json!("abc"), &json!("https://go.example.com/l/abc"))
    );
}

#[test]
fn long_titles_are_cut_and_kept_whole_in_the_metadata() {
    let title = "Spring ".repeat(30);
    let rows = format!("Link,Destination URL,Title\nhttps://bit.ly/abc,https://example.com,{title}\n");
    let link = &moved("--from bitly", "bitly.csv", rows)[0];
    let name = link["name"].as_str().expect("a name");
    assert!(name.chars().count() <= 120 && name.starts_with("Spring Spring") && name.ends_with('…'), "{name}");
    assert_eq!(link["metadata"]["imported_title"], title.trim());
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

/// Everything after the reading is that of any import.
#[test]
fn an_export_is_checked_planned_rejected_and_resumed_as_any_file() {
    let double = service();
    let dl = Dl::at(&double.url);
    dl.file("bitly.csv", &format!("{BITLY}https://bit.ly/a_b,,https://example.com,,,,,\n"));
    let ran = dl.run("import --from bitly bitly.csv --rejects bad.csv --on-error continue --results done.csv");
    assert!(ran.fails(10).contains("warning: 1 of 3 rows are invalid and were skipped"), "{ran}");
    assert!(ran.says("created 2 rejected 1"), "{ran}");
    assert!(dl.read("done.csv").contains("spring-sale"));
    // Repaired, they are an export again.
    let bad = dl.read("bad.csv");
    assert!(bad.starts_with("Link,Custom Link,Destination URL,"), "{bad}");
    dl.file("good.csv", &bad.replace("bit.ly/a_b", "bit.ly/a-b"));
    let ran = dl.run("import --from bitly good.csv");
    assert!(ran.says("created 1") && !ran.stderr.contains("ignored"), "{ran}");
    let plan = dl.run("import --from bitly good.csv --dry-run -o json").json();
    assert_eq!((&plan["rows"], &plan["other_requests"]), (&json!(1), &json!(1)));
    let json = dl.run("import --from bitly bitly.csv --check -o json").error();
    assert_eq!((&json["items"][0]["code"], &json["items"][0]["id"]), (&json!("invalid_custom_id"), &json!("a_b")));
    dl.file("taken.csv", "Link,Destination URL\nhttps://bit.ly/taken-1,https://example.com\n");
    dl.run("import --from bitly taken.csv").fails(10);
    assert_eq!(dl.run("import --from bitly taken.csv --on-conflict skip --restart -o json").json()["skipped"], 1);
    let piped = dl.run_with("import --from shlink - -o json", &SHLINK_JSON.replace('\n', " "));
    assert_eq!(piped.json()["created"], 1, "the list of an API, on one line: {piped}");

    for resume in ["imports resume RUN", "import --from bitly bitly.csv --sanitize-ids"] {
        let (double, willing) = moody();
        let dl = Dl::at(&double.url);
        dl.file("bitly.csv", &format!("{BITLY}https://bit.ly/a_b,,https://example.com,,,,,\n"));
        let ran = dl.run("import --from bitly bitly.csv --sanitize-ids");
        let hint = ran.fails(7).lines().find(|line| line.contains("resume with:")).unwrap_or_default().to_owned();
        assert!(
            hint.contains("dl import /") && hint.contains(" --from bitly ") && hint.contains("--sanitize-ids"),
            "{ran}"
        );
        let run = dl.run("imports list -o id").ok().trim().to_owned();
        willing.store(true, Ordering::SeqCst);
        let ran = dl.run(&resume.replace("RUN", &run));
        assert!(ran.code == Some(0) && ran.says("created 3"), "{ran}");
        assert_eq!(dl.run("imports list --fields state").ok(), "finished\n");
    }
}

#[test]
fn a_new_user_moves_in() {
    let server = Server::start();
    let dl = server.user("you");
    dl.file("bitly.csv", BITLY);
    dl.run("import --from bitly bitly.csv --check").ok();
    assert_eq!(dl.run("links list -o id").ok(), "");
    let made = dl.run("import --from bitly bitly.csv -o json").json();
    assert_eq!((&made["rows"], &made["created"]), (&json!(2), &json!(2)));
    let link = dl.run("links get spring-sale -o json").json();
    assert_eq!((&link["name"], &link["metadata"]["imported_clicks"]), (&json!("Spring sale"), &json!(1204)));
    assert_eq!(link["tags"], json!(["sale", "spring"]));
    assert_eq!(dl.run("links resolve 4AbCdEf").ok(), "302\thttps://example.com/about\n");
    let again = dl.run("import --from bitly bitly.csv -o json").json();
    assert_eq!((&again["existed"], &again["created"], &again["updated"]), (&json!(2), &json!(0), &json!(0)));
    dl.file("later.csv", &BITLY.replace("\"1,204\"", "1300"));
    let later = dl.run("import --from bitly later.csv --on-conflict update -o json").json();
    assert_eq!((&later["existed"], &later["updated"]), (&json!(1), &json!(1)));
    for (from, name, content, count) in
        [("firebase", "f.csv", FIREBASE, 2), ("branch", "b.csv", BRANCH, 2), ("dub", "d.json", DUB_JSON, 1)]
    {
        dl.file(name, content);
        assert_eq!(dl.run(&format!("import --from {from} {name} -o json")).json()["created"], count, "{from}");
    }
}
