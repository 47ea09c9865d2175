//! Results, rejected rows and exports.

use deeplink_core::colour::Rgb;
use deeplink_core::link::{AgentContext, LinkDetail, SocialPreview};
use deeplink_core::metadata::Metadata;
use deeplink_core::qr::QrOptions;
use deeplink_core::time::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::bulk::tests::{model, quick};
use crate::bulk::{OnConflict, OnError, RowOutcome, RowResult};

/// Imports a file into a model and returns the outcomes.
async fn import(model: &model::Model, source: FileSource) -> Vec<RowOutcome> {
    let import = model.client().bulk_import(source).on_error(OnError::Continue).on_conflict(OnConflict::Verify);
    let mut run = quick(import).start().await.expect("a run");
    futures_util::StreamExt::collect(&mut run).await
}

#[tokio::test]
async fn rejects_can_be_imported_after_repair() {
    let model = model::Model::new();
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
            if let RowResult::Rejected { message, .. } = outcome.result {
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
    let model = model::Model::new();
    let dir = tempfile::tempdir().expect("a directory");
    let table = "id,web\nabc,https://example.com\n!,x\n";
    for (name, expected) in [
        (
            "r.csv",
            "line,custom_id,link_id,url,status,code,message,batch\r\n3,!,,,rejected,invalid_custom_id,\"custom_id \"\"!\"\": use 3 to 64 letters, digits and hyphens, with a letter or digit at each end [invalid_custom_id]\",\r\n2,abc,abc,https://go.example.com/abc,created,,,1\r\n",
        ),
        (
            "r.jsonl",
            "{\"line\":3,\"custom_id\":\"!\",\"link_id\":null,\"url\":null,\"status\":\"rejected\",\"code\":\"invalid_custom_id\",\"message\":\"custom_id \\\"!\\\": use 3 to 64 letters, digits and hyphens, with a letter or digit at each end [invalid_custom_id]\",\"batch\":null}\n{\"line\":2,\"custom_id\":\"abc\",\"link_id\":\"abc\",\"url\":\"https://go.example.com/abc\",\"status\":\"existed\",\"code\":null,\"message\":null,\"batch\":1}\n",
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
        "'=1",
        "''@x",
        "\t=x",
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
    let tags = proptest::collection::vec("[a-zA-Zäß;\"'\\\\=@+-][a-zA-Zäß ;=-]{0,6}[a-zA-Z\"N]", 0..4);
    let owner = (line(), any::<bool>(), proptest::option::of(0..4_000_000_000_000_i64), tags);
    ("[a-zA-Z0-9]{3,12}", web, metadata, line(), text(), line(), text(), any::<bool>(), owner).prop_map(
        |(id, web, metadata, cta, description, title, shown, affiliate, (name, enabled, end, tags))| {
            let social = SocialPreview { title, description: shown, image_url: None };
            let mut link = CreateLink::new();
            link.web_url = web.map(str::to_owned);
            link.metadata = metadata.map(|text| Metadata::parse(&text).expect("JSON"));
            link.agent_context = Some(AgentContext { action: None, cta, description });
            link.social_preview = social.check().ok();
            link.affiliate_id = affiliate.then(|| "aff_0123456789abcdef01234567".to_owned());
            link.name = name;
            link.enabled = Some(enabled);
            link.expires_at = end.map(|end| Timestamp::from_millis(end).to_string());
            link.expired_url = affiliate.then(|| "https://example.com/over?a=1,2".to_owned());
            link.tags = Some(tags);
            link.aliases = affiliate.then(|| vec!["-old_1".to_owned(), "l/été/x.html".to_owned()]);
            link.qr = affiliate.then(|| QrOptions::new().size(300_u32).fg_color(Rgb([10, 124, 255])).logo("name:acme"));
            link.imported_clicks = affiliate.then_some(1_234);
            model::detail(&id, link.check().expect("valid"))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Importing an export gives the same links, in both formats.
    #[test]
    fn exports_import_as_what_they_were(links in proptest::collection::vec(detail(), 0..8), safe in any::<bool>()) {
        let csv = LinkWriter::csv(Vec::new()).spreadsheet_safe(safe);
        let (mut csv, mut jsonl) = (csv, LinkWriter::jsonl(Vec::new()));
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
    let mut link = model::detail("abc", deeplink_core::link::NewLink::default());
    link.agent_context =
        Some(AgentContext { action: None, cta: Some("=1+1".to_owned()), description: Some("'@x".to_owned()) });
    for (safe, cells) in [(false, ["=1+1", "''@x"]), (true, ["'=1+1", "''@x"])] {
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
