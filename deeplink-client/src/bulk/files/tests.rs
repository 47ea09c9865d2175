//! Reading and writing of files.

use std::fmt::Write as _;
use std::io::Write as _;

use deeplink_core::link::{AgentContext, LinkDetail, SocialPreview};
use deeplink_core::metadata::Metadata;
use proptest::prelude::*;

use super::records::{Next, Record, Records};
use super::*;
use crate::bulk::tests::quick;
use crate::bulk::{MemorySource, OnConflict, SourceRow};

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

#[test]
fn lines_are_counted_as_an_editor_counts_them() {
    let table = "id,agent.description\n\n\nabc,\"one\ntwo\r\nthree\rfour\"\r\nabd,\r\n\"abe\",\"a \"\"b\"\"\"";
    let described = |text: &str| {
        format!(r#"{{"agent_context":{{"action":null,"cta":null,"description":{}}}}}"#, serde_json::Value::from(text))
    };
    assert_eq!(
        rows("x.csv", table),
        [
            format!("4 abc {}", described("one\ntwo\r\nthree\rfour")),
            "8 abd {}".to_owned(),
            format!("9 abe {}", described("a \"b\"")),
        ]
    );
    assert_eq!(rows("x.csv", "id\rabc\rabd\r"), ["2 abc {}", "3 abd {}"]);
    assert_eq!(
        rows("x.csv", "\u{feff}id,web\nabc,https://example.com"),
        [r#"2 abc {"web_url":"https://example.com"}"#]
    );
}

#[test]
fn a_bad_record_names_line_and_column_and_the_next_is_read() {
    for (table, expected) in [
        ("id,web\nabc\nabd,x\n", ["2 the line has 1 values, the header 2", r#"3 abd {"web_url":"x"}"#]),
        ("id,web\nabc,x,y\nabd,x\n", ["2:7 the line has 3 values, the header 2", r#"3 abd {"web_url":"x"}"#]),
        (
            "id,web\nabc,\"x\"y\nabd,x\n",
            ["2:8 text follows the closing quote; inside quotes, write \"\" for a quote", r#"3 abd {"web_url":"x"}"#],
        ),
        ("id,web\nä,x\nabc,\"x\nabd,x\n", [r#"2 ä {"web_url":"x"}"#, "3:5 the quote is never closed"]),
        (
            "id,meta.n:int\nabc,1\nabd,one\n",
            [r#"2 abc {"metadata":{"n":1}}"#, "3:5 metadata.n: \"one\" is not a whole number"],
        ),
        (
            "id,metadata\nabc,\"{\"\"a\"\":1}\"\nabd,\"{\"\n",
            [
                r#"2 abc {"metadata":{"a":1}}"#,
                "3:5 metadata is not JSON: EOF while parsing an object at line 1 column 1",
            ],
        ),
    ] {
        assert_eq!(rows("x.csv", table), expected, "{table}");
    }
    let long = format!("id,web\nabc,{}\nabd,x\n", "x".repeat(1 << 20));
    assert_eq!(rows("x.csv", &long), ["2 the record is longer than 1 MiB", r#"3 abd {"web_url":"x"}"#]);
    let open_quote = format!("id,web\nabc,\"{}\nabd,x\n", "x\n".repeat(1 << 19));
    assert_eq!(
        rows("x.csv", &open_quote),
        ["2 the record is longer than 1 MiB; the quote at byte 5 may never be closed"]
    );
    assert_eq!(
        rows("x.csv", b"id,web\nabc,x\nab\xe9,x\n"),
        [
            r#"2 abc {"web_url":"x"}"#,
            "error: line 3, column 3: the input is not UTF-8; save it as UTF-8 (`iconv -f WINDOWS-1252 -t UTF-8` may do it)"
        ]
    );
}

#[test]
fn the_delimiter_is_that_of_the_header() {
    for (delimiter, name) in
        [(",", "x.csv"), (";", "x.csv"), ("\t", "x.csv"), ("|", "x.csv"), ("\t", "x.tsv"), (",", "x"), ("\t", "x.tab")]
    {
        let table = ["custom_id", "web", "agent.cta"].join(delimiter)
            + "\n"
            + &["abc", "https://example.com/?a=1,2;3|4", "x"].join(delimiter);
        let table = if delimiter == "\t" {
            table
        } else {
            table.replace("https://example.com/?a=1,2;3|4", "\"https://example.com/?a=1,2;3|4\"")
        };
        let link = r#"{"web_url":"https://example.com/?a=1,2;3|4","agent_context":{"action":null,"cta":"x","description":null}}"#;
        assert_eq!(rows(name, &table), [format!("2 abc {link}")], "{table}");
    }
    assert_eq!(sniff(b"one\na,b,c\n"), b',');
    assert_eq!(sniff(b"\"a;b;c;d\",e\n"), b',');
}

#[test]
fn columns_are_known_mapped_or_refused() {
    let header =
        |options: FileOptions, names: &str| open(options, "x.csv", format!("{names}\n")).map(drop).unwrap_err();
    let plain = FileOptions::new;
    assert_eq!(
        header(plain(), "id,web_ulr"),
        r#"line 1, column 4: column "web_ulr" is not known; did you mean web_url?"#
    );
    assert_eq!(
        header(plain(), "id,price"),
        r#"line 1, column 4: column "price" is not known; map it to a field, or ignore unknown columns"#
    );
    assert_eq!(header(plain(), "id,slug"), r#"line 1, column 4: columns "id" and "slug" both mean custom_id"#);
    assert_eq!(
        header(plain(), "id,web,destination"),
        r#"line 1, column 8: columns "web" and "destination" both mean web_url"#
    );
    assert_eq!(
        header(plain(), "id,meta.a,meta.a:int"),
        r#"line 1, column 11: columns "meta.a" and "meta.a:int" both mean metadata.a"#
    );
    assert_eq!(
        header(plain().map("nix", "web_url"), "id,web"),
        r#"line 1: there is no column "nix" to map; there are id, web"#
    );
    assert_eq!(
        header(plain().map("price", "wbe_url"), "id,price"),
        r#"field "wbe_url" is not known; did you mean web_url?"#
    );
    assert_eq!(
        header(plain().set("nix", "1"), "id"),
        r#"field "nix" is not known; map it to a field, or ignore unknown columns"#
    );
    assert_eq!(header(plain().set("custom_id", "1"), "id"), r#""custom_id" cannot be set for every row"#);
    assert_eq!(
        open(plain(), "x.csv", "").map(drop).unwrap_err(),
        "the input is empty; its first line must name the columns"
    );

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
    for (header, link) in [("id,url", r#"{"web_url":"x"}"#), ("id,URL", r#"{"web_url":"x"}"#), ("link_id,url", "{}")] {
        assert_eq!(rows("x.csv", format!("{header}\nabc,x\n")), [format!("2 abc {link}")], "{header}");
    }
    assert_eq!(rows("x.csv", "id,url,web_url\nabc,x,y\n"), [r#"2 abc {"web_url":"y"}"#]);
    let mapped = open(FileOptions::new().map("url", "web"), "x.csv", "link_id,url\nabc,x\n").expect("a source");
    assert_eq!(read(&mapped), [r#"2 abc {"web_url":"x"}"#]);
}

#[test]
fn template_row_and_set_come_in_this_order() {
    let template = CreateLink::new().web_url("t").ios_deep_link("t").android_deep_link("t").custom_id("no");
    let options = || FileOptions::new().template(template.clone()).set("android", "s");
    let row = r#"{"ios_deep_link":"t","android_deep_link":"s","web_url":"r"}"#;
    let source = open(options(), "x.csv", "id,web,ios,android\nabc,r,,r\n").expect("a source");
    assert_eq!(read(&source), [format!("2 abc {row}")]);
    let source =
        open(options(), "x.jsonl", r#"{"custom_id":"abc","web_url":"r","android_deep_link":"r"}"#).expect("a source");
    assert_eq!(read(&source), [format!("1 abc {row}")]);
    let cleared = open(options().set("ios", r"\N"), "x.csv", "id\nabc\n").expect("a source");
    assert_eq!(read(&cleared), [r#"2 abc {"android_deep_link":"s","web_url":"t"}"#]);
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
    assert_eq!(
        rows("x.jsonl", lines),
        [
            r#"1 abc {"metadata":{"b":1.50},"social_preview":{"title":"x","description":null,"image_url":null}}"#,
            "3 - {}",
            "4:19 not a JSON object: EOF while parsing a value",
            "5:1 not a JSON object: invalid type: sequence, expected a JSON object",
            "6 custom_id must be a text or null",
            "7 field \"ä\" is not known; map it to a field, or ignore unknown columns",
            "8 web_url is named twice",
            "9 abe {}",
            r#"10 - {"web_url":"web"}"#,
        ]
    );
    let long = format!("{{\"web_url\":\"{}\"}}\n{{}}\n", "x".repeat(1 << 20));
    assert_eq!(rows("x.jsonl", long), ["1 the line is longer than 1 MiB", "2 - {}"]);
    assert!(
        rows("x.jsonl", b"{\"web_url\":\"\xe9\"}")
            .pop()
            .expect("an error")
            .starts_with("error: line 1, column 13: the input is not UTF-8")
    );
}

#[test]
fn json_comes_in_three_forms() {
    assert_eq!(rows("x.json", "[]"), Vec::<String>::new());
    assert_eq!(
        rows("x.json", "[ {\"id\":\"abc\"} ,\n {\"id\":\"abd\",\"web\":\"[,]}\\\"\"},\n\"x\", {\"id\": 1}]\n"),
        [
            "0 abc {}",
            r#"1 abd {"web_url":"[,]}\""}"#,
            "2 not a JSON object: invalid type: string \"x\", expected a JSON object (line 3, column 3)",
            "3 custom_id must be a text or null",
        ]
    );
    assert_eq!(rows("x.json", r#"{"links":[{"id":"abc"}]}"#), ["0 abc {}"]);
    assert_eq!(
        rows("x.json", r#"{"custom_ids":["abc","abd",7],"template":{"web_url":"x","custom_id":null}}"#),
        [r#"0 abc {"web_url":"x"}"#, r#"1 abd {"web_url":"x"}"#, "2 an id must be a text (line 1, column 28)"]
    );
    let source = open(FileOptions::new(), "x.json", "[{}]").expect("a source");
    assert_eq!(source.place(17, Some(3)), "x.json[17]");
    let source = open(FileOptions::new(), "x.jsonl", "{}").expect("a source");
    assert_eq!(source.place(17, Some(3)), "x.jsonl:17:3");
}

#[test]
fn malformed_json_names_line_and_column() {
    for (json, error) in [
        ("", "line 1, column 1: the input is empty"),
        ("7", "line 1, column 1: a list or an object is expected, not '7'"),
        ("{\"links\":[]", "line 1, column 12: the input ends where ',' or '}' is expected"),
        ("{\"links\":[1", "line 1, column 12: the input ends inside the value that begins on line 1, column 10"),
        (
            "{\"template\":{}}",
            "line 1, column 1: the input is a list of links, or an object with `links`, or one with `template` and `custom_ids`",
        ),
        (
            "{\"a\":1}",
            "line 1, column 2: \"a\" is not expected: the input is a list of links, or an object with `links`, or one with `template` and `custom_ids`",
        ),
        (
            "{\"template\":{\"web_url\":1},\"custom_ids\":[]}",
            "line 1, column 13: template: web_url must be a text or null",
        ),
        ("{\"links\":[]} x", "line 1, column 14: the end of the input is expected, not 'x'"),
        ("[{\"id\":\"abc\"}\n{}]", "0 abc {}|error: line 2, column 1: ',' or ']' is expected, not '{'"),
        ("[{\"id\":\"abc\"},]", "0 abc {}|error: line 1, column 15: a value is expected, not ']'"),
        ("[{\"id\":\"abc\"}", "0 abc {}|error: line 1, column 14: the input ends where ',' or ']' is expected"),
        ("[{\"id\":\"abc\"}] []", "0 abc {}|error: line 1, column 16: the end of the input is expected, not '['"),
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
        assert_eq!(
            open(FileOptions::new(), name, content).ok().map(|source| source.format()),
            format,
            "{name} {content}"
        );
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
    // Quotes that are doubled inside quotes are not those that stand outside of them.
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
    assert!(missing.to_string().ends_with("nix.csv cannot be read"), "{missing}");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(b"id\nabc\n").expect("written");
    drop(writer);
    let source = FileOptions::new().spool(reader, "-").expect("a source");
    assert_eq!((read(&source), read(&source)), (vec!["2 abc {}".to_owned()], vec!["2 abc {}".to_owned()]));
}

/// Imports a file into a model; gives the outcomes.
async fn import(model: &crate::bulk::tests::model::Model, source: FileSource) -> Vec<crate::bulk::RowOutcome> {
    let import =
        model.client().bulk_import(source).on_error(crate::bulk::OnError::Continue).on_conflict(OnConflict::Verify);
    let mut run = quick(import).start().await.expect("a run");
    futures_util::StreamExt::collect(&mut run).await
}

#[tokio::test]
async fn rejects_can_be_imported_after_repair() {
    let model = crate::bulk::tests::model::Model::new();
    let dir = tempfile::tempdir().expect("a directory");
    for (name, input, rejected, repaired) in [
        ("r.csv", "Id;Web;_error\nabc;\"https://example.com/\nx\"\"y\";old\na;https://example.com;\nabd;https://example.com;\nabe\n".to_owned(),
         "Id;Web;_error\r\na;https://example.com;3 to 64\r\n\"abc\";\"https://example.com/\nx\"\"y\";line\r\nabe;;2 values\r\n",
         ("Id;Web;_error\r\na2a;https://example.com;3 to 64\r\n", 1)),
        ("r.jsonl", "{\"id\":\"a\", \"web\":\"https://example.com\"}\n{\"id\":\"abf\"}\n".to_owned(),
         "{\"id\":\"a\",\"web\":\"https://example.com\",\"_error\":\"3 to 64\"}\n",
         ("{\"id\":\"a3a\",\"web\":\"https://example.com\",\"_error\":\"3 to 64\"}\n", 1)),
    ] {
        let source = open(FileOptions::new(), name, &input).expect("a source");
        let path = dir.path().join(name);
        let mut rejects = RejectsWriter::create(&path, &source).expect("a file");
        let mut outcomes = import(&model, source).await;
        outcomes.sort_by_key(|outcome| outcome.result.status() == "rejected" && outcome.id.as_deref() != Some("a"));
        for outcome in outcomes {
            if let crate::bulk::RowResult::Rejected { message, .. } = outcome.result {
                let word = ["3 to 64", "control", "values"].into_iter().find(|word| message.contains(word)).expect(&message);
                rejects.write(outcome.at, match word { "control" => "line", "values" => "2 values", word => word }).expect("written");
            }
        }
        assert!(!path.exists() && dir.path().join(format!("{name}.part")).exists());
        rejects.finish().expect("finished");
        let written = std::fs::read_to_string(&path).expect("readable");
        assert_eq!(written.replace("\"abc\"", "abc"), rejected.replace("\"abc\"", "abc"));
        let (text, rows) = repaired;
        let outcomes = import(&model, open(FileOptions::new(), name, text).expect("a source")).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.result.status() == "created").count(), rows);
    }
    let list = open(
        FileOptions::new(),
        "x.json",
        "{\"custom_ids\":[\"a\"],\"template\":{\"web_url\":\"https://example.com\"}}",
    )
    .expect("a source");
    let mut rejects = RejectsWriter::create(dir.path().join("l.jsonl"), &list).expect("a file");
    let Some(Ok(SourceRow::Row(row))) = list.rows().expect("rows").next() else { panic!("a row") };
    rejects.write(row.at, "short").expect("written");
    rejects.finish().expect("finished");
    let written = std::fs::read_to_string(dir.path().join("l.jsonl")).expect("readable");
    assert_eq!(written, "{\"custom_id\":\"a\",\"web_url\":\"https://example.com\",\"_error\":\"short\"}\n");
    let wrong = RejectsWriter::create(dir.path().join("l.csv"), &list).expect_err("the wrong form");
    assert!(wrong.to_string().contains(".jsonl"), "{wrong}");
}

#[tokio::test]
async fn results_name_every_row() {
    let model = crate::bulk::tests::model::Model::new();
    let dir = tempfile::tempdir().expect("a directory");
    let table = "id,web\nabc,https://example.com\n!,x\n";
    for (name, expected) in [
        (
            "r.csv",
            "line,custom_id,link_id,url,status,code,message,batch\r\n3,!,,,rejected,invalid_custom_id,\"custom_id \"\"!\"\": 3 to 64 letters, digits or '-' [invalid_custom_id]\",\r\n2,abc,abc,https://go.example.com/abc,created,,,1\r\n",
        ),
        (
            "r.jsonl",
            "{\"line\":3,\"custom_id\":\"!\",\"link_id\":null,\"url\":null,\"status\":\"rejected\",\"code\":\"invalid_custom_id\",\"message\":\"custom_id \\\"!\\\": 3 to 64 letters, digits or '-' [invalid_custom_id]\",\"batch\":null}\n{\"line\":2,\"custom_id\":\"abc\",\"link_id\":\"abc\",\"url\":\"https://go.example.com/abc\",\"status\":\"existed\",\"code\":null,\"message\":null,\"batch\":1}\n",
        ),
    ] {
        let mut results = ResultsWriter::create(dir.path().join(name)).expect("a file");
        let mut outcomes = import(&model, open(FileOptions::new(), "x.csv", table).expect("a source")).await;
        outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.line));
        for outcome in &outcomes {
            results.write(outcome).expect("written");
        }
        results.finish().expect("finished");
        assert_eq!(std::fs::read_to_string(dir.path().join(name)).expect("readable"), expected);
    }
}

fn text() -> impl Strategy<Value = Option<String>> {
    let odd = proptest::sample::select(vec![
        r"\N",
        r"\\N",
        r"\\\N",
        "=1+1",
        "-x",
        "a,b;c|d\te",
        "\"",
        "'",
        " x ",
        "ä👋",
        "a\r\nb",
        "a\rb",
    ]);
    prop_oneof![
        Just(None),
        odd.prop_map(|text| Some(text.to_owned())),
        "[a-zA-Z0-9 ,;\"'\\\\äß\\n=@+-]{0,12}".prop_map(Some),
    ]
}

/// A link as the service would show it: the rules have been applied.
fn detail() -> impl Strategy<Value = LinkDetail> {
    let line = || text().prop_map(|text| text.map(|text| text.replace(['\n', '\r', '\t'], " ")));
    let metadata = prop_oneof![
        Just(None),
        Just(Some("{}".to_owned())),
        Just(Some(r#"{"b":1e400,"a":[1.50,"x,\"y\""],"\u00e9":null}"#.to_owned())),
    ];
    let web =
        proptest::option::of(proptest::sample::select(vec!["https://example.com/", "https://example.com/a?b=%22,;|"]));
    ("[a-zA-Z0-9]{3,12}", web, metadata, line(), text(), line(), text(), any::<bool>()).prop_map(
        |(id, web, metadata, cta, description, title, shown, affiliate)| {
            let social = SocialPreview { title, description: shown, image_url: None };
            let mut link = CreateLink::new();
            link.web_url = web.map(str::to_owned);
            link.metadata = metadata.map(|text| Metadata::parse(&text).expect("JSON"));
            link.agent_context = Some(AgentContext { action: None, cta, description });
            link.social_preview = social.check().ok();
            link.affiliate_id = affiliate.then(|| "aff_0123456789abcdef01234567".to_owned());
            crate::bulk::tests::model::detail(&id, link.check().expect("valid"))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// What the `csv` crate writes is read as it was, field for field, with lines as an editor counts them.
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

    /// Whatever bytes come, reading ends, and each record is where it says.
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

    /// An export that is imported again says the same of every link, in both forms.
    #[test]
    fn exports_import_as_what_they_were(links in proptest::collection::vec(detail(), 0..8)) {
        let (mut csv, mut jsonl) = (LinkWriter::csv(Vec::new()), LinkWriter::jsonl(Vec::new()));
        for link in &links {
            csv.write(link).expect("written");
            jsonl.write(link).expect("written");
        }
        csv.begin().expect("written");
        for (name, bytes) in [("x.csv", csv.into_inner()), ("x.jsonl", jsonl.into_inner())] {
            let source = open(FileOptions::new(), name, bytes.expect("written")).expect("a source");
            let rows: Vec<SourceRow> = source.rows().expect("rows").collect::<Result<_, _>>().expect("readable");
            prop_assert_eq!(rows.len(), links.len());
            for (row, link) in rows.into_iter().zip(&links) {
                let SourceRow::Row(row) = row else { panic!("{row:?}") };
                prop_assert_eq!(row.id.as_deref(), Some(link.link_id.as_str()));
                let wanted = (*row.template).clone().check().expect("valid");
                let differences = crate::differences(&wanted, link);
                prop_assert!(differences.is_empty(), "{}: {:?}", name, differences);
            }
        }
    }
}

#[test]
fn formulas_are_made_harmless_only_when_asked() {
    let mut link = crate::bulk::tests::model::detail("abc", deeplink_core::link::NewLink::default());
    link.agent_context =
        Some(AgentContext { action: None, cta: Some("=1+1".to_owned()), description: Some("@x".to_owned()) });
    for (safe, cells) in [(false, ["=1+1", "@x"]), (true, ["'=1+1", "'@x"])] {
        let mut csv = LinkWriter::csv(Vec::new()).spreadsheet_safe(safe);
        csv.write(&link).expect("written");
        let text = String::from_utf8(csv.into_inner().expect("written")).expect("text");
        let row: Vec<&str> = text.lines().nth(1).expect("a row").split(',').collect();
        assert_eq!(row[9..11], cells);
    }
    let mut resumed = LinkWriter::csv(Vec::new()).resumed();
    resumed.write(&link).expect("written");
    let text = String::from_utf8(resumed.into_inner().expect("written")).expect("text");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn memory_and_file_sources_are_told_apart_by_their_digest() {
    let one = MemorySource::links("x", [CreateLink::new().custom_id("abc")]);
    let two = MemorySource::links("x", [CreateLink::new().custom_id("abd")]);
    assert_ne!(one.digest().expect("a digest"), two.digest().expect("a digest"));
    let mut name = String::new();
    write!(name, "{}", one.place(3, Some(4))).expect("written");
    assert_eq!(name, "x:3:4");
}
