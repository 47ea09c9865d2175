//! The engine against a model of the service.

mod faults;
pub(crate) mod model;
mod policies;
mod resume;
mod survey;

use std::time::Duration;

use futures_util::StreamExt;

use super::pace::Times;
use super::*;
use crate::CreateLink;
use model::{Fault, Model};

/// Short waits, so that faults cost no time.
const QUICK: Times =
    Times { retry: Duration::from_millis(1), cut: Duration::from_millis(10), drain: Duration::from_millis(200) };

pub(crate) fn quick(mut import: BulkImport) -> BulkImport {
    import.settings.times = QUICK;
    import
}

/// The same, with time for requests in flight when the run is asked to stop.
fn patient(import: BulkImport) -> BulkImport {
    let mut import = quick(import);
    import.settings.times.drain = Duration::from_mins(1);
    import
}

/// `rows` ids of one template.
fn same(rows: usize) -> MemorySource {
    let template = CreateLink::new().web_url("https://example.com/p");
    MemorySource::same("rows", template, (0..rows).map(|row| Some(format!("promo-{row:06}"))))
}

/// `rows` distinct links.
fn distinct(rows: usize) -> MemorySource {
    MemorySource::links(
        "rows",
        (0..rows).map(|row| {
            CreateLink::new().custom_id(format!("page-{row:06}")).web_url(format!("https://example.com/p/{row}"))
        }),
    )
}

async fn run_to_end(run: &mut BulkRun) -> (Vec<RowOutcome>, Summary) {
    let outcomes: Vec<RowOutcome> = run.by_ref().collect().await;
    (outcomes, run.summary())
}

async fn import(import: BulkImport) -> (Vec<RowOutcome>, Summary) {
    let mut run = quick(import).start().await.expect("a run");
    run_to_end(&mut run).await
}

fn statuses(outcomes: &[RowOutcome]) -> std::collections::BTreeMap<&'static str, usize> {
    let mut counts = std::collections::BTreeMap::new();
    for outcome in outcomes {
        *counts.entry(outcome.result.status()).or_default() += 1;
    }
    counts
}

fn adds_up(summary: &Summary) {
    let counts = summary.counts;
    assert_eq!(counts.settled() + counts.unsent, counts.rows, "{counts:?}");
}

#[tokio::test]
async fn a_template_goes_in_hundreds_and_rows_that_differ_go_together() {
    let model = Model::new();
    let (outcomes, summary) = import(model.client().bulk_import(same(1_050))).await;
    assert_eq!((outcomes.len(), summary.counts.created, summary.counts.requests), (1_050, 1_050, 11));
    adds_up(&summary);
    let (_, summary) = import(model.client().bulk_import(distinct(950))).await;
    assert_eq!((summary.counts.created, summary.counts.requests, summary.counts.retries), (950, 10, 0));
    assert!(summary.stopped.is_none());
    model.edit(|state| {
        assert_eq!(state.links.len(), 2_000);
        let forms: Vec<bool> = state.log.iter().map(|(.., body)| body.starts_with(b"{\"links\":[")).collect();
        assert_eq!((&forms[..11], &forms[11..]), (&[false; 11][..], &[true; 10][..]));
        let link = &state.links["promo-000007"];
        assert_eq!(link.web_url.as_deref(), Some("https://example.com/p"));
    });
    let first = outcomes.iter().find(|outcome| outcome.line == 1).expect("the first row");
    assert_eq!(first.result.url(), Some("https://go.example.com/promo-000000"));
    assert!(first.batch > 0);
}

#[tokio::test]
async fn the_plan_says_how_rows_would_go() {
    let model = Model::new();
    let mixed = (0..9).map(|row| format!("small-{row}")).chain((0..250).map(|row| format!("large-{row}")));
    let links = mixed.map(|id| {
        let web = if id.starts_with("large") { "https://example.com/l" } else { "https://example.com/s" };
        CreateLink::new().custom_id(id).web_url(web)
    });
    let source = MemorySource::links("rows", links);
    let checked = model.client().bulk_import(source).check().await.expect("checked");
    let plan = Batches { groups: 1, template_rows: 250, template_requests: 3, other_rows: 9, other_requests: 1 };
    assert_eq!(checked.report().plan, plan);
    assert!(model.edit(|state| state.log.is_empty()), "nothing is sent for a check");
    let mut run = quick(checked.import).start().await.expect("a run");
    assert_eq!(run_to_end(&mut run).await.1.counts.requests, 4);
}

#[tokio::test]
async fn concurrency_grows_to_its_limit_and_not_beyond() {
    const REQUESTS: usize = 600;
    let model = Model::new();
    // Twenty answers raise it by one; the last requests have no successors.
    model.edit(|state| {
        state.together =
            Some(|came, answered| if came == REQUESTS { 0 } else { (4 + answered.saturating_sub(1) / 20).min(16) });
    });
    import(model.client().bulk_import(same(100 * REQUESTS))).await;
    assert_eq!(model.edit(|state| state.most_in_flight), 16);
    let fixed = Model::new();
    fixed.edit(|state| state.together = Some(|came, _| if came == 30 { 0 } else { 3 }));
    import(fixed.client().bulk_import(same(3_000)).concurrency(Concurrency::Fixed(3))).await;
    assert_eq!(fixed.edit(|state| state.most_in_flight), 3);
}

#[tokio::test]
async fn not_polling_stops_dispatch() {
    let model = Model::new();
    let mut run = quick(model.client().bulk_import(same(50_000))).start().await.expect("a run");
    run.next().await.expect("an outcome");
    let (mut sent, mut looks) = (0, 0);
    while looks < 50 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let now = model.requests("POST", "/");
        looks = if now == sent { looks + 1 } else { 0 };
        sent = now;
    }
    assert!(sent < 100, "{sent} requests without a reader");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(model.requests("POST", "/"), sent);
    assert_eq!(run_to_end(&mut run).await.1.counts.created, 50_000);
}

#[tokio::test]
async fn stopping_waits_for_what_is_under_way() {
    let model = Model::new();
    model.edit(|state| state.delay = Duration::from_millis(20));
    let mut run = patient(model.client().bulk_import(same(20_000))).start().await.expect("a run");
    run.next().await.expect("an outcome");
    run.stopper().stop();
    let (_, summary) = run_to_end(&mut run).await;
    assert!(matches!(summary.stopped, Some(Stopped::Asked)));
    adds_up(&summary);
    assert!(summary.counts.unsent > 0 && summary.counts.unknown == 0);
    assert_eq!(summary.counts.created, model.edit(|state| state.links.len()) as u64);
}

#[tokio::test]
async fn progress_is_followed_from_elsewhere() {
    let model = Model::new();
    let mut run = quick(model.client().bulk_import(same(3_000))).start().await.expect("a run");
    let mut progress = run.progress();
    assert_eq!(progress.get().counts.rows, 3_000);
    let follower = tokio::spawn(async move {
        let mut most = 0;
        while progress.changed().await {
            most = most.max(progress.get().counts.created);
        }
        (most, progress.get().counts.created)
    });
    run_to_end(&mut run).await;
    drop(run);
    assert_eq!(follower.await.expect("it ends with the run"), (3_000, 3_000));
}
