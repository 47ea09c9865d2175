//! The first pass.

use super::*;

async fn report(source: MemorySource) -> Report {
    let checked = Model::new().client().bulk_import(source).keep_faults(5).check().await.expect("checked");
    checked.report().clone()
}

fn rows(ids: &[&str]) -> MemorySource {
    MemorySource::same("rows", CreateLink::new(), ids.iter().map(|id| Some((*id).to_owned())))
}

#[tokio::test]
async fn duplicates_name_both_lines() {
    let report = report(rows(&["abc", "abd", "abc", "a", "abc", "ABD"])).await;
    let faults: Vec<String> = report.faults.iter().map(|fault| format!("{}: {fault}", fault.line)).collect();
    assert_eq!(
        faults,
        [
            r#"3: custom_id "abc": also on line 1 [duplicate_custom_id_in_batch]"#,
            r#"4: custom_id "a": use 3 to 64 letters, digits and hyphens, with a letter or digit at each end [invalid_custom_id]"#,
            r#"5: custom_id "abc": also on line 1 [duplicate_custom_id_in_batch]"#,
        ]
    );
    assert_eq!((report.rows, report.invalid), (6, 3));
    assert_eq!(report.case_pairs, [(2, 6, "ABD".to_owned())]);
    assert_eq!(report.plan.other_rows + report.plan.template_rows, 3);
}

/// Rows of IDs and aliases; without an ID, one is made.
fn named(rows: &[(&str, &[&str])]) -> MemorySource {
    let links = rows.iter().enumerate().map(|(number, (id, aliases))| {
        let link = CreateLink::new().web_url(format!("https://example.com/{number}"));
        let link = if id.is_empty() { link } else { link.custom_id(*id) };
        if aliases.is_empty() { link } else { link.aliases(aliases.iter().copied()) }
    });
    MemorySource::links("rows", links)
}

/// Each row of these has a name of an earlier one, except for the first and those that name themselves.
const TAKEN: [(&str, &[&str]); 9] = [
    ("one", &["old", "l/old", "/old"]),
    ("two", &["free", "one"]),
    ("old", &[]),
    ("three", &["L/old", "l/%6Fld"]),
    ("one", &["old", "x"]),
    ("four", &["x", "y", "x"]),
    ("five", &["z", "five"]),
    ("six", &["z"]),
    ("OLD", &["One", "FREE"]),
];

#[tokio::test]
async fn duplicates_among_aliases_and_ids_name_both_lines() {
    let expected = [
        r#"2: aliases[1]: "one" is also the ID on line 1 [alias_taken]"#,
        r#"3: custom_id "old": also an alias on line 1 [duplicate_custom_id_in_batch]"#,
        r#"4: aliases[1]: "l/old" is also an alias on line 1 [alias_taken]"#,
        r#"5: custom_id "one": also on line 1 [duplicate_custom_id_in_batch]"#,
        r#"6: aliases[0]: "x" is also an alias on line 5 [alias_taken]"#,
        "7: aliases[1]: this is the link's own ID [invalid_alias]",
        r#"8: aliases[0]: "z" is also an alias on line 7 [alias_taken]"#,
    ];
    let model = Model::new();
    let checked = model.client().bulk_import(named(&TAKEN)).keep_faults(20).check().await.expect("checked");
    let report = checked.report().clone();
    let said = |fault: &RowFault| format!("{}: {fault}", fault.line);
    assert_eq!(report.faults.iter().map(said).collect::<Vec<_>>(), expected);
    assert_eq!((report.rows, report.invalid, report.plan.other_rows), (9, 7, 2));
    let mut all = Vec::new();
    checked.each_fault(|fault| all.push(said(fault))).expect("readable");
    assert_eq!(all, expected);
    assert!(report.case_pairs.is_empty(), "aliases may differ only in case");
    assert!(model.edit(|state| state.log.is_empty()), "nothing is sent for a check");

    let (outcomes, summary) = import(model.client().bulk_import(named(&TAKEN)).on_error(OnError::Continue)).await;
    assert_eq!(statuses(&outcomes), [("created", 2), ("rejected", 7)].into());
    adds_up(&summary);
}

#[tokio::test]
async fn an_id_that_was_made_gives_way_to_an_alias() {
    let model = Model::new();
    let plain: &[(&str, &[&str])] = &[("", &[]), ("", &[])];
    let (outcomes, _) = import(model.client().bulk_import(named(plain)).generate_ids("x")).await;
    let ids: Vec<String> = outcomes.iter().filter_map(|outcome| outcome.id.clone()).collect();
    for id in &ids {
        let (model, alias) = (Model::new(), [id.as_str()]);
        let rows: [(&str, &[&str]); 3] = [("", &[]), ("", &[]), ("named", &alias)];
        let (outcomes, _) = import(model.client().bulk_import(named(&rows)).generate_ids("x")).await;
        assert_eq!(statuses(&outcomes), [("created", 3)].into(), "{id}");
        assert!(outcomes.iter().all(|outcome| outcome.id.as_ref() != Some(id)), "{outcomes:?}");
    }
}

/// A template cannot have aliases, so rows that share some are not sent as one; and all but the first are duplicates.
#[tokio::test]
async fn aliases_that_rows_share_are_given_once() {
    let model = Model::new();
    let template = CreateLink::new().web_url("https://example.com/p").aliases(["old"]);
    let source = MemorySource::same("rows", template, (0..12).map(|row| Some(format!("id-{row:02}"))));
    let checked = model.client().bulk_import(source).on_error(OnError::Continue).check().await.expect("checked");
    let plan = checked.report().plan;
    assert_eq!((checked.report().invalid, plan.groups, plan.other_rows), (11, 0, 1));
    let (outcomes, _) = import(checked.import).await;
    assert_eq!(statuses(&outcomes), [("created", 1), ("rejected", 11)].into());
    model.edit(|state| assert!(state.log.iter().all(|(.., body)| !body.starts_with(b"{\"template\""))));
}

#[tokio::test]
async fn the_first_faults_are_kept_and_all_are_given() {
    let ids: Vec<String> = (0..120).map(|row| format!("id-{}", row % 40)).collect();
    let source = MemorySource::same("rows", CreateLink::new(), ids.into_iter().map(Some));
    let checked = Model::new().client().bulk_import(source).keep_faults(5).check().await.expect("checked");
    let lines: Vec<u64> = checked.report().faults.iter().map(|fault| fault.line).collect();
    assert_eq!((checked.report().invalid, lines), (80, vec![41, 42, 43, 44, 45]));
    let mut all = Vec::new();
    checked.each_fault(|fault| all.push((fault.line, fault.message.clone()))).expect("readable");
    let expected: Vec<(u64, String)> =
        (41..=120).map(|line| (line, format!("also on line {}", (line - 1) % 40 + 1))).collect();
    assert_eq!(all, expected);
    let refused = checked.start().await.map(drop).expect_err("invalid");
    assert_eq!(refused.to_string(), "80 of 120 rows are invalid; nothing was sent");
}

#[tokio::test]
async fn good_rows_go_on_when_told_to() {
    let model = Model::new();
    let import_ = model.client().bulk_import(rows(&["abc", "abd", "abc", "!", "abe"])).on_error(OnError::Continue);
    let (outcomes, summary) = import(import_).await;
    assert_eq!(statuses(&outcomes), [("created", 3), ("rejected", 2)].into());
    adds_up(&summary);
    let mut rejected: Vec<u64> = outcomes.iter().filter(|o| o.result.status() == "rejected").map(|o| o.line).collect();
    rejected.sort_unstable();
    assert_eq!(rejected, [3, 4]);
}

#[tokio::test]
async fn rows_without_an_id_need_permission() {
    let source = || MemorySource::same("rows", CreateLink::new(), [None, Some("abc".to_owned())]);
    assert_eq!(report(source()).await.faults[0].message, "the row has no ID");
    let checked = Model::new().client().bulk_import(source()).generate_ids("").check().await.expect("checked");
    assert_eq!(checked.report().invalid, 0);
}

#[tokio::test]
async fn a_written_id_goes_before_one_that_was_made() {
    let model = Model::new();
    let made = || MemorySource::same("rows", CreateLink::new(), [None, None]);
    let (outcomes, _) = import(model.client().bulk_import(made()).generate_ids("x")).await;
    let ids: Vec<String> = outcomes.iter().filter_map(|outcome| outcome.id.clone()).collect();
    for named in [[None, None, Some(ids[0].clone())], [Some(ids[1].clone()), None, None]] {
        let model = Model::new();
        let source = MemorySource::same("rows", CreateLink::new(), named.clone());
        // The generated ids depend on the position; only those that collide change.
        let (outcomes, _) = import(model.client().bulk_import(source).generate_ids("x")).await;
        assert_eq!(statuses(&outcomes), [("created", 3)].into(), "{named:?}");
    }
}

#[tokio::test]
async fn a_source_that_changes_is_noticed() {
    /// Returns fewer rows each time.
    struct Shrinking(std::sync::atomic::AtomicUsize);
    impl RowSource for Shrinking {
        fn name(&self) -> String {
            "shrinking".to_owned()
        }
        fn digest(&self) -> Result<[u8; 32], SourceError> {
            Ok([0; 32])
        }
        fn rows(&self) -> Result<Rows, SourceError> {
            let rows = self.0.fetch_sub(10, std::sync::atomic::Ordering::Relaxed);
            same(rows).rows()
        }
    }
    let model = Model::new();
    let source = Shrinking(std::sync::atomic::AtomicUsize::new(1_000));
    let (_, summary) = import(model.client().bulk_import(source)).await;
    let Some(Stopped::Source(error)) = &summary.stopped else { panic!("{:?}", summary.stopped) };
    assert_eq!(error.to_string(), "the input has changed: it had 1000 rows and now has 990");
}
