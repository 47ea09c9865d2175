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
