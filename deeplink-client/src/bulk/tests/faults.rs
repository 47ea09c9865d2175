//! Faults between client and service: each row is in the account exactly once, whatever is lost.

use super::*;

#[tokio::test]
async fn each_kind_of_trouble_alone_is_survived() {
    for fault in Fault::ALL {
        for remembers in [true, false] {
            let model = Model::new();
            model.edit(|state| state.remembers_keys = remembers);
            let mut count = 0;
            model.trouble(move |path, _| {
                let is_bulk = path.contains("bulk");
                count += usize::from(is_bulk);
                (is_bulk && count % 3 == 1).then_some(fault)
            });
            let (outcomes, summary) =
                import(model.client().bulk_import(same(1_000)).on_conflict(OnConflict::Fail)).await;
            assert!(summary.stopped.is_none(), "{fault:?}: {:?}", summary.stopped);
            assert_eq!(outcomes.len(), 1_000, "{fault:?}");
            assert_eq!(model.edit(|state| state.links.len()), 1_000, "{fault:?}");
            model.edit(|state| assert!(state.made.values().all(|made| *made == 1)));
            let counts = summary.counts;
            assert_eq!(counts.created + counts.existed, 1_000, "{fault:?} {remembers}: {counts:?}");
            assert_eq!(
                counts.existed == 0,
                remembers
                    || !matches!(fault, Fault::ErrorAfter | Fault::ResetAfter | Fault::TimeoutAfter | Fault::Truncated),
                "{fault:?} {remembers}: {counts:?}"
            );
        }
    }
}

#[tokio::test]
async fn all_kinds_of_trouble_together_are_survived() {
    for seed in 0..4 {
        let model = Model::new();
        model.edit(|state| state.remembers_keys = seed % 2 == 0);
        model.mixed_trouble(4);
        let source = if seed < 2 { same(4_000) } else { distinct(4_000) };
        let mut unknown = 1;
        for _ in 0..5 {
            let (_, summary) = import(model.client().bulk_import(source.clone()).on_error(OnError::Continue)).await;
            adds_up(&summary);
            assert_eq!(summary.counts.rejected, 0);
            unknown = summary.counts.unknown + summary.counts.unsent;
            if unknown == 0 {
                break;
            }
        }
        assert_eq!(unknown, 0, "some run ends with every result known");
        assert_eq!(model.edit(|state| state.links.len()), 4_000);
        model.edit(|state| assert!(state.made.values().all(|made| *made == 1)));
    }
}

#[tokio::test]
async fn retries_send_the_same_bytes_under_the_same_key() {
    let model = Model::new();
    let mut count = 0;
    model.trouble(move |_, _| {
        count += 1;
        (count % 2 == 1).then_some(Fault::ErrorBefore)
    });
    let (_, summary) = import(model.client().bulk_import(same(500)).concurrency(Concurrency::Fixed(1))).await;
    assert_eq!((summary.counts.requests, summary.counts.retries), (10, 5));
    model.edit(|state| {
        let mut bodies = std::collections::HashMap::new();
        for (.., key, body) in &state.log {
            assert!(key.starts_with("dl-"), "{key}");
            assert_eq!(bodies.entry(key.clone()).or_insert_with(|| body.clone()), body);
        }
        assert_eq!(bodies.len(), 5);
    });
}

#[tokio::test]
async fn a_service_that_is_down_stops_the_run() {
    let model = Model::new();
    model.trouble(|_, _| Some(Fault::ResetAfter));
    let (outcomes, summary) = import(model.client().bulk_import(same(5_000))).await;
    assert!(matches!(summary.stopped, Some(Stopped::Unavailable(_))), "{:?}", summary.stopped);
    let unknown = statuses(&outcomes)["unknown"];
    assert!((300..=600).contains(&unknown), "three requests in a row, and those in flight at the time: {unknown}");
    adds_up(&summary);
}

#[tokio::test]
async fn rows_that_never_arrived_are_not_sent_rather_than_unknown() {
    let model = Model::new();
    model.trouble(|_, _| Some(Fault::Unreachable));
    let (outcomes, summary) = import(model.client().bulk_import(same(5_000))).await;
    assert!(matches!(summary.stopped, Some(Stopped::Unavailable(_))), "{:?}", summary.stopped);
    assert!(outcomes.is_empty());
    assert_eq!(summary.counts.unsent, 5_000);
    // A service that recovers in between gets all rows.
    let model = Model::new();
    let mut count = 0;
    model.trouble(move |_, _| {
        count += 1;
        (count <= 9).then_some(Fault::Unreachable)
    });
    let (_, summary) = import(model.client().bulk_import(same(500)).concurrency(Concurrency::Fixed(1))).await;
    assert_eq!((summary.counts.created, summary.counts.requests), (500, 14));
}

#[tokio::test]
async fn a_pause_holds_the_whole_pool_and_uses_no_attempt() {
    let model = Model::new();
    let mut count = 0;
    model.trouble(move |_, _| {
        count += 1;
        (count == 6).then_some(Fault::Busy(1))
    });
    model.edit(|state| state.delay = Duration::from_millis(10));
    let mut run = quick(model.client().bulk_import(same(3_000))).start().await.expect("a run");
    let mut watch = run.progress();
    let seen = tokio::spawn(async move {
        while watch.changed().await {
            if let Some(left) = watch.get().paused {
                return Some(left);
            }
        }
        None
    });
    let started = std::time::Instant::now();
    let (_, summary) = run_to_end(&mut run).await;
    assert_eq!((summary.counts.created, summary.counts.retries), (3_000, 0));
    assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(seen.await.expect("it ends").is_some_and(|left| left <= Duration::from_millis(1_100)));
}

#[tokio::test]
async fn waiting_without_a_success_ends() {
    let model = Model::new();
    model.trouble(|_, _| Some(Fault::Busy(600)));
    let run = model.client().bulk_import(same(1_000)).max_wait(Duration::from_mins(1));
    let (_, summary) = import(run).await;
    let Some(Stopped::RateLimited(error)) = &summary.stopped else { panic!("{:?}", summary.stopped) };
    assert_eq!(error.retry_after(), Some(Duration::from_mins(10)));
    assert_eq!(summary.counts.unsent, 1_000);
}

/// A hundred thousand rows with every kind of fault: exactly as many links.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_rows_through_trouble() {
    let model = Model::new();
    model.mixed_trouble(20);
    let (_, summary) = import(model.client().bulk_import(same(100_000))).await;
    assert!(summary.stopped.is_none(), "{:?}", summary.stopped);
    assert_eq!(summary.counts.created, 100_000);
    assert_eq!(model.edit(|state| state.links.len()), 100_000);
}
