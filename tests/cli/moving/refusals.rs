//! Files that cannot be read, and those that spreadsheets save.

use super::exports::BITLY;
use super::{moved, refused};
use crate::import::service;
use deeplink_testing::dl::Dl;

/// Everything that is wrong with a file is said before anything is sent: with its line, the rule, and what to do.
#[test]
fn bad_files_are_refused_with_the_reason() {
    let head = "Link,Destination URL,Expires\n";
    let cases: [(&str, &str, Vec<u8>, &[&str]); 23] = [
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
                "x.csv:2: custom_id \"a_b\": use 3 to 64 letters, digits and hyphens, with a letter or digit at each end [invalid_custom_id]",
                "--sanitize-ids replaces characters that are not allowed in an ID, and --generate-ids generates IDs instead",
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
            format!("{head}https://bit.ly/abc,https://example.com,2199-01-31\n").into(),
            &["x.csv:2:40: expires_at must be within the next 100 years [invalid_expires_at]"],
        ),
        (
            "--from bitly",
            "x.csv",
            format!("{head}https://go.example.com/l/abc,https://example.com,\n").into(),
            &[
                "x.csv:2: custom_id \"l/abc\": the path has several segments; --last-segment uses the last one as the ID \
                 [invalid_custom_id]",
            ],
        ),
        (
            "--from csv",
            "x.csv",
            format!("slug,url,tags\nabc,https://example.com,{}\n", "x".repeat(41)).into(),
            &["x.csv:2: tags: a tag must be at most 40 characters (currently 41) [invalid_tag]"],
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
            &["x.csv:2:43: the input is not UTF-8; save it as UTF-8 (try `iconv -f WINDOWS-1252 -t UTF-8`)"],
        ),
        (
            "--from bitly",
            "x.csv",
            utf16("Link,Destination URL\n", u16::to_le_bytes)[2..].into(),
            &[
                "x.csv: the input is UTF-16 without a byte order mark; save it as UTF-8 (try `iconv -f UTF-16LE -t UTF-8`)",
            ],
        ),
        ("--from bitly", "x.csv", b"\xff\xfeL\0i\0n\0k\0\n\0\x00\xd8".into(), &["invalid UTF-16 near byte 14"]),
        ("--from bitly", "x.csv", b"\xff\xfe\0\0L\0\0\0".into(), &["the input is UTF-32; save it as UTF-8"]),
        (
            "--from bitly",
            "x.csv",
            b"PK\x03\x04\x14\0".into(),
            &["x.csv: the input is an Excel workbook or another ZIP file; save it as CSV"],
        ),
        ("--from branch", "x.json", b"[]".into(), &["x.json: found JSON instead of a CSV file (Branch export)"]),
        (
            "--from shlink",
            "x.json",
            br#"{"shortUrls": {"items": []}}"#.into(),
            &["x.json:1:1: the input must be a list of links, or an object with one in shortUrls.data"],
        ),
    ];
    for (line, name, content, texts) in cases {
        let said = refused(line, name, content);
        assert_eq!(said.contains("--map COLUMN=FIELD"), said.contains("missing_column"), "{said}");
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
        // The delimiter named by the line is used, not the more frequent one.
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
    // `--format` takes precedence over the line.
    let rows = "sep=;\nLink\tDestination URL;\nhttps://bit.ly/abc\thttps://example.com/a;b\n".replace("URL;", "URL");
    assert_eq!(moved("--from bitly --format tsv", "x.csv", rows)[0]["web_url"], "https://example.com/a;b");
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
