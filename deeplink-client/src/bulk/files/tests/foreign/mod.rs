//! Exports of other services, and the encodings in which spreadsheets save them. `tests/cli/moving.rs` has a file of each
//! service.

mod rows;

use std::io::Read as _;

use super::*;

const PROVIDERS: [Provider; 6] =
    [Provider::Bitly, Provider::Dub, Provider::Shlink, Provider::Branch, Provider::Firebase, Provider::Csv];

/// The second pass begins anew; otherwise it would report more than there is.
#[test]
fn every_pass_has_the_same_rows_and_notes() {
    let options = FileOptions::new().provider(Provider::Csv).sanitize_ids(true);
    let file = "Slug,URL,Owner\na_b,https://example.com/1,Ann\nabc,https://example.com/2,\n";
    let source = open(options, "x.csv", file).expect("readable");
    let first = read(&source);
    assert_eq!(
        first,
        [
            r#"2 a-b {"web_url":"https://example.com/1","metadata":{"imported_id":"a_b"},"aliases":["a_b"]}"#,
            r#"3 abc {"web_url":"https://example.com/2"}"#,
        ]
    );
    let notes = source.notes().expect("an export");
    assert_eq!((notes.ignored.as_slice(), notes.sanitized, notes.replaced), (&["Owner".to_owned()][..], 1, 0));
    assert_eq!(read(&source), first);
    assert_eq!(source.notes(), Some(notes));
}

/// An unfinished import is resumed only with the same rows.
#[test]
fn the_digest_depends_on_how_an_export_is_read() {
    let digest = |options: FileOptions| {
        open(options, "x.csv", "link,url\nspring,https://example.com\n").expect("readable").digest().expect("a digest")
    };
    let csv = || FileOptions::new().provider(Provider::Csv);
    assert_eq!(digest(csv()), digest(csv().now(Timestamp::from_millis(1))));
    let others = [
        FileOptions::new().ignore_unknown(true).map("link", "custom_id"),
        FileOptions::new().provider(Provider::Bitly),
        csv().sanitize_ids(true),
        csv().replace_ids(true),
        csv().last_segment(true),
        csv().keep_details(true),
        csv().id_prefix("csv-"),
        csv().app_scheme("myapp"),
    ];
    for other in others {
        assert_ne!(digest(csv()), digest(other.clone()), "{other:?}");
    }
}

#[test]
fn lists_of_another_service_are_found_where_it_puts_them() {
    let rows = |provider, name: &str, text: &str| {
        open(FileOptions::new().provider(provider), name, text).map_or_else(|error| vec![error], |source| read(&source))
    };
    let link = r#"{"shortCode": "abc", "longUrl": "https://example.com"}"#;
    let row = r#" abc {"web_url":"https://example.com"}"#;
    for (name, text, line) in [
        ("x.json", format!("[{link}]"), 0),
        (
            "x.json",
            format!(r#"{{"shortUrls": {{"pagination": {{}}, "data": [{link}], "more": [1]}}, "other": "x"}}"#),
            0,
        ),
        ("stdin", format!(r#"{{"shortUrls": {{"data": [{link}]}}}}"#), 0),
        ("stdin", format!("{link}\n"), 1),
        ("x.jsonl", format!("\n{link}\n"), 2),
    ] {
        assert_eq!(rows(Provider::Shlink, name, &text), [format!("{line}{row}")], "{text}");
    }
    for (text, error) in [
        ("", "line 1, column 1: expected a list or an object, but the input ends here"),
        ("{\"shortUrls\": []}", "line 1, column 15: expected a list or an object, not '['"),
        (
            "{\"shortUrls\": {\"data\": {}}}",
            "line 1, column 1: the input must be a list of links, or an object with one in shortUrls.data",
        ),
        ("{\"links\": [] \"x\"}", "line 1, column 14: expected ',' or '}', not '\\\"'"),
        ("{\"shortUrls\": {\"data\": []}}\n{}", "line 2, column 1: expected the end of the input, not '{'"),
        ("[]\n[]", "error: line 2, column 1: expected the end of the input, not '['"),
        ("[], []", "error: line 1, column 3: expected the end of the input, not ','"),
        ("[1]", "0 not a JSON object: invalid type: integer `1`, expected a JSON object"),
    ] {
        let found = rows(Provider::Shlink, "x.json", text);
        assert!(
            found.len() == 1 && found[0].starts_with(error.split(" (").next().unwrap_or(error)),
            "{text}: {found:?}"
        );
    }
}

/// <https://dev.bitly.com/api-reference#getBitlinksByGroup>
#[test]
fn the_list_of_bitly_has_other_names_than_its_export() {
    let link = r#"{"references": {"group": "x"}, "link": "https://bit.ly/3x", "id": "bit.ly/3x", "title": "Spring",
        "long_url": "https://example.com", "archived": true, "created_at": "2025-03-01T09:30:00+0000", "created_by": "you",
        "client_id": "a1", "custom_bitlinks": ["https://go.example.com/spring"], "tags": ["a"], "deeplinks": []}"#;
    let list = format!(r#"{{"links": [{link}], "pagination": {{"search_after": "", "size": 1}}}}"#);
    for (name, text, line) in [("x.json", list.clone(), 0), ("stdin", list, 0), ("x.jsonl", link.replace('\n', ""), 1)]
    {
        let source = open(FileOptions::new().provider(Provider::Bitly), name, &text).expect("readable");
        let rows = read(&source);
        assert!(rows.len() == 1 && rows[0].starts_with(&format!("{line} spring {{")), "{name}: {rows:?}");
        for part in [r#""web_url":"https://example.com""#, r#""name":"Spring""#, r#""tags":["a"]"#] {
            assert!(rows[0].contains(part), "{name}: {rows:?}");
        }
        let notes = source.notes().expect("an export");
        assert!(notes.ignored.is_empty() && notes.details == ["archived", "created_at"], "{notes:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever the cells contain, reading ends, and every pass finds the same.
    #[test]
    fn no_cell_confuses_the_reader(
        cells in proptest::collection::vec("\\PC{0,12}|https?://[a-z./?#%]{0,12}|[0-9T: +-]{0,25}", 29),
        sanitize in any::<bool>(),
        replace in any::<bool>(),
        keep in any::<bool>(),
    ) {
        let names = [
            "link", "short link", "custom link", "alias", "key", "short code", "url", "long url", "destination url", "title", "tags",
            "clicks", "created", "expires", "status", "proxy", "password", "description", "valid since", "max visits",
            "deep link (link)", "apn", "afl", "ibi", "ifl", "isi", "ofl", "utm source", "$deeplink_path",
        ];
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(names).expect("written");
        writer.write_record(&cells).expect("written");
        let bytes = writer.into_inner().expect("written");
        for provider in PROVIDERS {
            let options = FileOptions::new().provider(provider).sanitize_ids(sanitize).replace_ids(replace);
            let options = options.last_segment(!sanitize).keep_details(keep);
            let now = Timestamp::from_millis(1_795_167_000_000);
            let source = open(options.now(now).format(Format::Csv), "x.csv", &bytes);
            let source = source.expect("every service has these columns");
            let first = read(&source);
            prop_assert!(first.len() == 1 || provider == Provider::Dub && first.is_empty());
            prop_assert_eq!(read(&source), first);
        }
    }

    /// UTF-16 of either order becomes the same text, also across the decoder's buffers.
    #[test]
    fn utf_16_is_decoded(text in "[a-z\u{e9}\u{4e2d}\u{1f44b}\n]{1,50}", times in 1_usize..600) {
        let text = text.repeat(times);
        for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
            let encoded: Vec<u8> = std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(bytes).collect();
            let input = utf16::decoded(Input::spool(&*encoded).expect("a file")).expect("UTF-16");
            let mut decoded = String::new();
            input.from(0).read_to_string(&mut decoded).expect("UTF-8");
            prop_assert!(decoded == text, "{} of {} bytes", decoded.len(), text.len());
        }
    }
}
