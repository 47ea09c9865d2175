//! Reading files; writing is tested in [`written`].

mod foreign;
mod written;

use std::fmt::Write as _;
use std::io::Write as _;

use proptest::prelude::*;

use super::records::{Next, Record, Records};
use super::*;
use crate::bulk::{MemorySource, SourceRow};

fn open(options: FileOptions, name: &str, content: impl AsRef<[u8]>) -> Result<FileSource, String> {
    options.spool(content.as_ref(), name).map_err(|error| error.to_string())
}

/// Each row as `line id JSON`, each fault as `line:column message`.
fn read(source: &FileSource) -> Vec<String> {
    let mut rows = Vec::new();
    for row in source.rows().expect("readable") {
        rows.push(match row {
            Ok(SourceRow::Row(row)) => {
                let json = serde_json::to_string(&*row.template).expect("JSON");
                format!("{} {} {json}", row.line, row.id.as_deref().unwrap_or("-"))
            }
            Ok(SourceRow::Fault(fault)) => {
                let column = fault.column.map_or_else(String::new, |column| format!(":{column}"));
                format!("{}{column} {}", fault.line, fault.message)
            }
            Err(error) => format!("error: {error}"),
        });
    }
    rows
}

fn rows(name: &str, content: impl AsRef<[u8]>) -> Vec<String> {
    open(FileOptions::new(), name, content).map_or_else(|error| vec![error], |source| read(&source))
}

/// Each file, with the rows and faults expected from it.
fn check(cases: &[(&str, &str, &[&str])]) {
    for (name, content, expected) in cases {
        assert_eq!(rows(name, content), *expected, "{name}: {:?}", content.get(..100).unwrap_or(content));
    }
}

#[test]
fn lines_are_counted_as_an_editor_counts_them() {
    check(&[
        (
            "x.csv",
            "id,agent.description\n\n\nabc,\"one\ntwo\r\nthree\rfour\"\r\nabd,\r\n\"abe\",\"a \"\"b\"\"\"",
            &[
                r#"4 abc {"agent_context":{"action":null,"cta":null,"description":"one\ntwo\r\nthree\rfour"}}"#,
                "8 abd {}",
                r#"9 abe {"agent_context":{"action":null,"cta":null,"description":"a \"b\""}}"#,
            ],
        ),
        ("x.csv", "id\rabc\rabd\r", &["2 abc {}", "3 abd {}"]),
        ("x.csv", "\u{feff}id,web\nabc,https://example.com", &[r#"2 abc {"web_url":"https://example.com"}"#]),
    ]);
}

#[test]
fn a_bad_record_names_line_and_column_and_the_next_is_read() {
    let next = r#"3 abd {"web_url":"x"}"#;
    let long = format!("id,web\nabc,{}\nabd,x\n", "x".repeat(1 << 20));
    let open_quote = format!("id,web\nabc,\"{}\nabd,x\n", "x\n".repeat(1 << 19));
    check(&[
        ("x.csv", "id,web\nabc\nabd,x\n", &["2 the line has 1 values, but the header has 2", next]),
        ("x.csv", "id,web\nabc,x,y\nabd,x\n", &["2:7 the line has 3 values, but the header has 2", next]),
        (
            "x.csv",
            "id,web\nabc,\"x\"y\nabd,x\n",
            &["2:8 there is text after the closing quote; to include a quote in a quoted value, write \"\"", next],
        ),
        ("x.csv", "id,web\nä,x\nabc,\"x\nabd,x\n", &[r#"2 ä {"web_url":"x"}"#, "3:5 the quote is never closed"]),
        (
            "x.csv",
            "id,meta.n:int\nabc,1\nabd,one\n",
            &[r#"2 abc {"metadata":{"n":1}}"#, "3:5 metadata.n: \"one\" is not a whole number"],
        ),
        (
            "x.csv",
            "id,metadata\nabc,\"{\"\"a\"\":1}\"\nabd,\"{\"\n",
            &[
                r#"2 abc {"metadata":{"a":1}}"#,
                "3:5 metadata is not JSON: EOF while parsing an object at line 1 column 1",
            ],
        ),
        ("x.csv", &long, &["2 the record is longer than 1 MiB", next]),
        ("x.csv", &open_quote, &["2 the record is longer than 1 MiB; the quote at byte 5 may never be closed"]),
    ]);
    let not_utf8 =
        "error: line 3, column 3: the input is not UTF-8; save it as UTF-8 (try `iconv -f WINDOWS-1252 -t UTF-8`)";
    assert_eq!(rows("x.csv", b"id,web\nabc,x\nab\xe9,x\n"), [r#"2 abc {"web_url":"x"}"#, not_utf8]);
}

#[test]
fn the_delimiter_is_that_of_the_header() {
    let url = "https://example.com/?a=1,2;3|4";
    for (delimiter, name) in
        [(",", "x.csv"), (";", "x.csv"), ("\t", "x.csv"), ("|", "x.csv"), ("\t", "x.tsv"), (",", "x"), ("\t", "x.tab")]
    {
        let cell = if delimiter == "\t" { url.to_owned() } else { format!("\"{url}\"") };
        let table = [["custom_id", "web", "agent.cta"], ["abc", &cell, "x"]].map(|row| row.join(delimiter)).join("\n");
        let agent = r#"{"action":null,"cta":"x","description":null}"#;
        check(&[(name, &table, &[&format!(r#"2 abc {{"web_url":"{url}","agent_context":{agent}}}"#)])]);
    }
    assert_eq!(sniff(b"one\na,b,c\n"), b',');
    assert_eq!(sniff(b"\"a;b;c;d\",e\n"), b',');
}

#[test]
fn columns_are_known_mapped_or_refused() {
    let plain = FileOptions::new;
    for (options, content, error) in [
        (plain(), "id,web_ulr\n", r#"line 1, column 4: unknown column "web_ulr"; did you mean web_url?"#),
        (
            plain(),
            "id,price\n",
            r#"line 1, column 4: unknown column "price"; map it to a field, or ignore unknown columns"#,
        ),
        (plain(), "id,slug\n", r#"line 1, column 4: columns "id" and "slug" both map to custom_id"#),
        (plain(), "id,web,destination\n", r#"line 1, column 8: columns "web" and "destination" both map to web_url"#),
        (
            plain(),
            "id,meta.a,meta.a:int\n",
            r#"line 1, column 11: columns "meta.a" and "meta.a:int" both map to metadata.a"#,
        ),
        (plain().map("nix", "web_url"), "id,web\n", r#"line 1: no column "nix" to map; the columns are id, web"#),
        (plain().map("price", "wbe_url"), "id,price\n", r#"unknown field "wbe_url"; did you mean web_url?"#),
        (plain().set("nix", "1"), "id\n", r#"unknown field "nix"; map it to a field, or ignore unknown columns"#),
        (plain().set("custom_id", "1"), "id\n", r#""custom_id" cannot be set for every row"#),
        (plain(), "", "the input is empty; its first line must contain the column names"),
    ] {
        assert_eq!(open(options, "x.csv", content).map(drop).unwrap_err(), error);
    }

    let mapped = plain()
        .map("Price", "meta.price:number")
        .map("note", "ignore")
        .set("affiliate", "aff_0123456789abcdef01234567");
    let source = open(mapped, "x.csv", "id,price,note\nabc,1.50,x\n").expect("a source");
    assert_eq!(read(&source), [r#"2 abc {"metadata":{"price":1.50},"affiliate_id":"aff_0123456789abcdef01234567"}"#]);
    let ignoring = open(plain().ignore_unknown(true), "x.csv", "id,price\nabc,1.50\n").expect("a source");
    assert_eq!(read(&ignoring), ["2 abc {}"]);
}

#[test]
fn url_is_the_web_page_or_the_short_address() {
    check(&[
        ("x.csv", "id,url\nabc,x\n", &[r#"2 abc {"web_url":"x"}"#]),
        ("x.csv", "id,URL\nabc,x\n", &[r#"2 abc {"web_url":"x"}"#]),
        ("x.csv", "link_id,url\nabc,x\n", &["2 abc {}"]),
        ("x.csv", "id,url,web_url\nabc,x,y\n", &[r#"2 abc {"web_url":"y"}"#]),
    ]);
    let mapped = open(FileOptions::new().map("url", "web"), "x.csv", "link_id,url\nabc,x\n").expect("a source");
    assert_eq!(read(&mapped), [r#"2 abc {"web_url":"x"}"#]);
}

#[test]
fn template_row_and_set_come_in_this_order() {
    let template = CreateLink::new().web_url("t").ios_deep_link("t").android_deep_link("t").custom_id("no");
    let options = || FileOptions::new().template(template.clone()).set("android", "s");
    let row = r#"{"ios_deep_link":"t","android_deep_link":"s","web_url":"r"}"#;
    for (options, name, content, expected) in [
        (options(), "x.csv", "id,web,ios,android\nabc,r,,r\n", format!("2 abc {row}")),
        (options(), "x.jsonl", r#"{"custom_id":"abc","web_url":"r","android_deep_link":"r"}"#, format!("1 abc {row}")),
        (
            options().set("ios", r"\N"),
            "x.csv",
            "id\nabc\n",
            r#"2 abc {"android_deep_link":"s","web_url":"t"}"#.to_owned(),
        ),
    ] {
        assert_eq!(read(&open(options, name, content).expect("a source")), [expected]);
    }
}

#[test]
fn lines_of_json_are_rows() {
    let lines = concat!(
        "\u{feff}{\"custom_id\":\"abc\",\"metadata\":{\"b\": 1.50},\"social_preview\":{\"title\":\"x\"}}\r\n",
        "\n",
        "  {\"id\":null,\"web_url\":null,\"agent_context\":null}\n",
        "{\"custom_id\":\"abd\",\n",
        "[1]\n",
        "{\"custom_id\":7}\n",
        "{\"ä\":1, \"web_ulr\":\"x\"}\n",
        "{\"web_url\":\"x\",\"web\":\"y\"}\n",
        "{\"link_id\":\"abe\",\"url\":\"short\",\"status\":\"active\",\"created_at\":\"x\"} \n",
        "{\"url\":\"web\"}",
    );
    let long = format!("{{\"web_url\":\"{}\"}}\n{{}}\n", "x".repeat(1 << 20));
    check(&[
        (
            "x.jsonl",
            lines,
            &[
                r#"1 abc {"metadata":{"b":1.50},"social_preview":{"title":"x","description":null,"image_url":null}}"#,
                "3 - {}",
                "4:19 not a JSON object: EOF while parsing a value",
                "5:1 not a JSON object: invalid type: sequence, expected a JSON object",
                "6 custom_id must be a string or null",
                "7 unknown field \"ä\"; map it to a field, or ignore unknown columns",
                "8 duplicate field web_url",
                "9 abe {}",
                r#"10 - {"web_url":"web"}"#,
            ],
        ),
        ("x.jsonl", &long, &["1 the line is longer than 1 MiB", "2 - {}"]),
    ]);
    let not_utf8 = rows("x.jsonl", b"{\"web_url\":\"\xe9\"}").pop().expect("an error");
    assert!(not_utf8.starts_with("error: line 1, column 13: the input is not UTF-8"), "{not_utf8}");
}

#[test]
fn json_comes_in_three_forms() {
    check(&[
        ("x.json", "[]", &[]),
        (
            "x.json",
            "[ {\"id\":\"abc\"} ,\n {\"id\":\"abd\",\"web\":\"[,]}\\\"\"},\n\"x\", {\"id\": 1}]\n",
            &[
                "0 abc {}",
                r#"1 abd {"web_url":"[,]}\""}"#,
                "2 not a JSON object: invalid type: string \"x\", expected a JSON object (line 3, column 3)",
                "3 custom_id must be a string or null",
            ],
        ),
        ("x.json", r#"{"links":[{"id":"abc"}]}"#, &["0 abc {}"]),
        (
            "x.json",
            r#"{"custom_ids":["abc","abd",7],"template":{"web_url":"x","custom_id":null}}"#,
            &[r#"0 abc {"web_url":"x"}"#, r#"1 abd {"web_url":"x"}"#, "2 an ID must be a string (line 1, column 28)"],
        ),
    ]);
    for (name, location) in [("x.json", "x.json[17]"), ("x.jsonl", "x.jsonl:17:3")] {
        assert_eq!(open(FileOptions::new(), name, "[{}]").expect("a source").location(17, Some(3)), location);
    }
}

#[test]
fn malformed_json_names_line_and_column() {
    for (json, error) in [
        ("", "line 1, column 1: the input is empty"),
        ("7", "line 1, column 1: expected a list or an object, not '7'"),
        ("{\"links\":[]", "line 1, column 12: expected ',' or '}', but the input ends here"),
        ("{\"links\":[1", "line 1, column 12: the input ends inside the value that begins on line 1, column 10"),
        (
            "{\"template\":{}}",
            "line 1, column 1: the input must be a list of links, or an object with `links`, or one with `template` and `custom_ids`",
        ),
        (
            "{\"a\":1}",
            "line 1, column 2: unexpected \"a\": the input must be a list of links, or an object with `links`, or \
                one with `template` and `custom_ids`",
        ),
        (
            "{\"template\":{\"web_url\":1},\"custom_ids\":[]}",
            "line 1, column 13: template: web_url must be a string or null",
        ),
        ("{\"links\":[]} x", "line 1, column 14: expected the end of the input, not 'x'"),
        ("[{\"id\":\"abc\"}\n{}]", "0 abc {}|error: line 2, column 1: expected ',' or ']', not '{'"),
        ("[{\"id\":\"abc\"},]", "0 abc {}|error: line 1, column 15: expected a value, not ']'"),
        ("[{\"id\":\"abc\"}", "0 abc {}|error: line 1, column 14: expected ',' or ']', but the input ends here"),
        ("[{\"id\":\"abc\"}] []", "0 abc {}|error: line 1, column 16: expected the end of the input, not '['"),
        ("[\n  {\"id\":\n \"abc\", }]", "0 not a JSON object: trailing comma (line 3, column 9)"),
    ] {
        assert_eq!(rows("x.json", json).join("|"), error, "{json}");
    }
}

#[test]
fn forms_are_told_by_name_or_content() {
    for (name, content, format) in [
        ("x.CSV", "id\n[", Some(Format::Csv)),
        ("x.ndjson", "", Some(Format::Jsonl)),
        ("x", "id,web\n", Some(Format::Csv)),
        ("-", " \n[{}]", Some(Format::Json)),
        ("-", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n", Some(Format::Jsonl)),
        ("-", "{\"id\":\"a\"}", Some(Format::Jsonl)),
        ("-", "{\"template\":{},\"custom_ids\":[\"abc\"]}", Some(Format::Json)),
        ("-", "{\n\"links\":[]\n}", Some(Format::Json)),
    ] {
        let told = open(FileOptions::new(), name, content).ok().map(|source| source.format());
        assert_eq!(told, format, "{name} {content}");
    }
}

#[test]
fn rows_that_repeat_share_their_link() {
    let shared = |name: &str, content: &str| {
        let links: Vec<Arc<CreateLink>> = open(FileOptions::new(), name, content)
            .expect("a source")
            .rows()
            .expect("rows")
            .map(|row| match row {
                Ok(SourceRow::Row(row)) => row.template,
                other => panic!("{other:?}"),
            })
            .collect();
        links.windows(2).map(|pair| Arc::ptr_eq(&pair[0], &pair[1])).collect::<Vec<bool>>()
    };
    assert_eq!(shared("x.csv", "id,web\na,x\nb,x\nc,y\n"), [true, false]);
    // Doubled quotes inside a quoted value differ from those in an unquoted one.
    assert_eq!(shared("x.csv", "id,agent.cta\na,\"x\"\"y\"\nb,x\"\"y\n"), [false]);
    assert_eq!(
        shared("x.jsonl", "{\"id\":\"a\",\"web\":\"x\"}\n{\"web\":\"x\",\"id\":\"b\"}\n{\"id\":\"b\"}\n"),
        [true, false]
    );
}

#[test]
fn digests_tell_inputs_apart() {
    let digest = |options: FileOptions, content: &str| {
        open(options, "x.csv", content).expect("a source").digest().expect("readable")
    };
    let plain = FileOptions::new;
    let all = [
        digest(plain(), "id\nabc\n"),
        digest(plain(), "id\nabd\n"),
        digest(plain().set("web", "x"), "id\nabc\n"),
        digest(plain().map("id", "custom_id"), "id\nabc\n"),
        digest(plain().template(CreateLink::new().web_url("x")), "id\nabc\n"),
        digest(plain().ignore_unknown(true), "id\nabc\n"),
    ];
    let distinct: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
    assert_eq!(digest(plain(), "id\nabc\n"), all[0]);
}

#[test]
fn a_file_is_read_from_its_path_and_a_pipe_is_copied() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("links.csv");
    std::fs::write(&path, "id\nabc\n").expect("written");
    let source = FileOptions::new().open(&path).expect("a source");
    assert_eq!((source.name(), read(&source)), ("links.csv".to_owned(), vec!["2 abc {}".to_owned()]));
    let missing = FileOptions::new().open(dir.path().join("nix.csv")).expect_err("missing");
    assert!(missing.to_string().ends_with("nix.csv could not be read"), "{missing}");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(b"id\nabc\n").expect("written");
    drop(writer);
    let source = FileOptions::new().spool(reader, "-").expect("a source");
    assert_eq!((read(&source), read(&source)), (vec!["2 abc {}".to_owned()], vec!["2 abc {}".to_owned()]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// What the `csv` crate writes is read back field for field, with lines as an editor counts them.
    #[test]
    fn tables_are_read_as_another_reader_wrote_them(
        table in proptest::collection::vec(proptest::collection::vec("[a\"',;\\r\\n ä]{0,5}", 3), 1..6),
        always in any::<bool>(),
        crlf in any::<bool>(),
    ) {
        let mut writer = csv::WriterBuilder::new()
            .quote_style(if always { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary })
            .terminator(if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') })
            .from_writer(Vec::new());
        for row in &table {
            writer.write_record(row).expect("written");
        }
        let bytes = writer.into_inner().expect("written");
        let mut records = Records::new(Input::spool(&*bytes).expect("a file").from(0), b',', 0, 1);
        let mut record = Record::default();
        for row in &table {
            prop_assert!(matches!(records.read(&mut record), Ok(Next::Record)));
            let values: Vec<String> = record.values().map(std::borrow::Cow::into_owned).collect();
            prop_assert_eq!(&values, row);
            let before = std::str::from_utf8(&bytes[..usize::try_from(record.at).expect("small")]).expect("text");
            let lines = before.replace("\r\n", "\n").matches(['\n', '\r']).count() as u64 + 1;
            prop_assert_eq!(record.line, lines);
        }
        prop_assert!(matches!(records.read(&mut record), Ok(Next::End)));
    }

    /// For any input, reading ends, and each record is at its reported position.
    #[test]
    fn any_bytes_are_read_to_their_end(bytes in proptest::collection::vec(proptest::sample::select(b"ab\",\r\n\xc3\xa4 ".to_vec()), 0..60)) {
        let mut records = Records::new(Input::spool(&*bytes).expect("a file").from(0), b',', 0, 1);
        let (mut record, mut last) = (Record::default(), None);
        loop {
            match records.read(&mut record) {
                Ok(Next::End) | Err(_) => break,
                Ok(Next::Record) => {
                    prop_assert!(last < Some(record.at));
                    last = Some(record.at);
                }
                Ok(Next::Bad(bad)) => {
                    prop_assert!(last < Some(bad.at));
                    last = Some(bad.at);
                }
            }
        }
    }
}

#[test]
fn memory_and_file_sources_are_told_apart_by_their_digest() {
    let one = MemorySource::links("x", [CreateLink::new().custom_id("abc")]);
    let two = MemorySource::links("x", [CreateLink::new().custom_id("abd")]);
    assert_ne!(one.digest().expect("a digest"), two.digest().expect("a digest"));
    let mut name = String::new();
    write!(name, "{}", one.location(3, Some(4))).expect("written");
    assert_eq!(name, "x:3:4");
}
