//! Ids in use, refusals, and what they do to a run.

use deeplink_core::error::ErrorCode;
use deeplink_core::qr::QrOptions;

use super::*;

#[tokio::test]
async fn a_second_run_changes_nothing() {
    let model = Model::new();
    for source in [same(300), distinct(300)] {
        import(model.client().bulk_import(source.clone())).await;
        model.clear_log();
        let (outcomes, summary) = import(model.client().bulk_import(source)).await;
        assert_eq!(statuses(&outcomes), [("existed", 300)].into());
        assert!(summary.stopped.is_none());
        assert_eq!(outcomes[0].result.url().map(|url| url.starts_with("https://go.example.com/p")), Some(true));
    }
    model.edit(|state| assert!(state.made.values().all(|made| *made == 1)));
}

#[tokio::test]
async fn many_comparisons_read_the_list_once() {
    let model = Model::new();
    import(model.client().bulk_import(same(3_000))).await;
    model.clear_log();
    let (outcomes, _) = import(model.client().bulk_import(same(3_000))).await;
    assert_eq!(statuses(&outcomes), [("existed", 3_000)].into());
    let pages =
        model.edit(|state| state.log.iter().filter(|(m, p, ..)| m == "GET" && p.starts_with("/v1/links?")).count());
    assert_eq!(pages, 31);
    assert!(model.requests("GET", "/v1/links/") <= 1_000);
}

/// The other service may have counted further clicks since: only an update renews the count, and none is taken away.
#[tokio::test]
async fn other_counts_of_imported_clicks_make_no_other_link() {
    let rows = |count: Option<i64>| {
        let link = CreateLink::new().web_url("https://example.com/");
        let link = count.map_or(link.clone(), |count| link.imported_clicks(count));
        MemorySource::same("rows", link, (0..1_200).map(|at| Some(format!("promo-{at}"))))
    };
    let model = Model::new();
    import(model.client().bulk_import(rows(Some(5)))).await;
    let counted = |count| model.edit(|state| state.links.values().all(|link| link.imported_clicks == Some(count)));
    for (policy, count, status, now) in [
        (OnConflict::Verify, Some(7), "existed", 5),
        (OnConflict::Update, Some(7), "updated", 7),
        (OnConflict::Update, Some(7), "existed", 7),
        (OnConflict::Update, None, "existed", 7),
        (OnConflict::Verify, None, "existed", 7),
    ] {
        model.clear_log();
        let (outcomes, _) = import(model.client().bulk_import(rows(count)).on_conflict(policy)).await;
        assert_eq!(statuses(&outcomes), [(status, 1_200)].into(), "{policy:?} {count:?}");
        assert!(counted(now), "{policy:?} {count:?}");
        if policy == OnConflict::Verify {
            assert!(model.requests("GET", "/v1/links/") <= 1_000, "the list is as good");
        }
    }
}

#[tokio::test]
async fn each_policy_treats_taken_ids_its_way() {
    let other = || {
        MemorySource::links(
            "rows",
            [
                CreateLink::new().custom_id("same-1").web_url("https://example.com/1"),
                CreateLink::new().custom_id("other-1").web_url("https://example.com/new"),
                CreateLink::new().custom_id("foreign-1").web_url("https://example.com/3"),
                CreateLink::new().custom_id("fresh-1").web_url("https://example.com/4"),
            ],
        )
    };
    let there = MemorySource::links(
        "rows",
        [
            CreateLink::new().custom_id("same-1").web_url("https://EXAMPLE.com/1"),
            CreateLink::new().custom_id("other-1").web_url("https://example.com/old").ios_deep_link("app://x"),
        ],
    );
    for (policy, expected) in [
        (OnConflict::Verify, [("created", 1), ("existed", 1), ("rejected", 2)].as_slice()),
        (OnConflict::Fail, &[("created", 1), ("rejected", 3)]),
        (OnConflict::Skip, &[("created", 1), ("skipped", 3)]),
        (OnConflict::Update, &[("created", 1), ("existed", 1), ("rejected", 1), ("updated", 1)]),
    ] {
        let model = Model::new();
        model.edit(|state| state.foreign.push("foreign-1".to_owned()));
        import(model.client().bulk_import(there.clone())).await;
        let run = model.client().bulk_import(other()).on_conflict(policy).on_error(OnError::Continue);
        let (outcomes, summary) = import(run).await;
        assert_eq!(statuses(&outcomes), expected.iter().copied().collect(), "{policy:?}");
        adds_up(&summary);
        model.edit(|state| {
            let link = &state.links["other-1"];
            let changed = policy == OnConflict::Update;
            let web = if changed { "https://example.com/new" } else { "https://example.com/old" };
            assert_eq!(link.web_url.as_deref(), Some(web));
            assert_eq!(link.ios_deep_link.is_none(), changed, "null where the row has nothing");
        });
        for outcome in outcomes {
            if let RowResult::Rejected { code, .. } = outcome.result {
                assert_eq!(code, ErrorCode::LinkIdTaken);
            }
        }
    }
}

#[tokio::test]
async fn another_affiliate_cannot_be_updated_away() {
    let model = Model::new();
    let link = || CreateLink::new().custom_id("abc").web_url("https://example.com/1");
    let theirs = link().affiliate_id("aff_0123456789abcdef01234567");
    import(model.client().bulk_import(MemorySource::links("rows", [theirs]))).await;
    let source = MemorySource::links("rows", [link()]);
    let (outcomes, _) = import(model.client().bulk_import(source).on_conflict(OnConflict::Update)).await;
    assert_eq!(statuses(&outcomes), [("rejected", 1)].into());
}

/// A file from before there were aliases and designs does not take any from printed links.
#[tokio::test]
async fn a_row_without_aliases_and_a_design_keeps_those_of_the_link() {
    let model = Model::new();
    let link = || CreateLink::new().custom_id("abc").web_url("https://example.com/1");
    let printed = link().aliases(["old"]).qr(QrOptions::new().size(300_u32));
    import(model.client().bulk_import(MemorySource::links("rows", [printed]))).await;
    let other = link().web_url("https://example.com/2");
    // An export says that a link has no aliases.
    for (row, expected) in [(link(), "existed"), (link().aliases([""; 0]), "existed"), (other, "updated")] {
        let source = MemorySource::links("rows", [row]);
        let (outcomes, _) = import(model.client().bulk_import(source).on_conflict(OnConflict::Update)).await;
        assert_eq!(statuses(&outcomes), [(expected, 1)].into());
    }
    model.edit(|state| {
        let link = &state.links["abc"];
        assert_eq!((link.aliases.as_slice(), link.qr.is_some()), (&["old".to_owned()][..], true));
    });
}

#[tokio::test]
async fn an_affiliates_own_key_finds_its_links_again() {
    let model = Model::new();
    model.edit(|state| state.scoped_to = Some("aff_0123456789abcdef01234567".to_owned()));
    for rows in [50, 1_500] {
        import(model.client().bulk_import(same(rows))).await;
        model.clear_log();
        let (outcomes, _) = import(model.client().bulk_import(same(rows))).await;
        assert_eq!(statuses(&outcomes), [("existed", rows)].into());
        let probes = model.edit(|state| state.log.iter().filter(|(_, path, ..)| path.contains("/timeseries")).count());
        assert_eq!(probes, 1, "asked once");
    }
}

#[tokio::test]
async fn a_rejected_row_ends_the_run_unless_told_otherwise() {
    let model = Model::new();
    model.edit(|state| state.foreign.push("promo-000050".to_owned()));
    model.edit(|state| state.delay = Duration::from_millis(5));
    let (outcomes, summary) = import(model.client().bulk_import(same(10_000)).concurrency(Concurrency::Fixed(1))).await;
    assert!(matches!(summary.stopped, Some(Stopped::RowRejected)));
    assert_eq!(statuses(&outcomes)["rejected"], 1);
    assert!(summary.counts.unsent > 9_000);
    adds_up(&summary);

    let model = Model::new();
    model.edit(|state| state.foreign.push("promo-000050".to_owned()));
    let (outcomes, summary) = import(model.client().bulk_import(same(10_000)).on_error(OnError::Continue)).await;
    assert_eq!(statuses(&outcomes), [("created", 9_999), ("rejected", 1)].into());
    assert!(summary.stopped.is_none());
}

#[tokio::test]
async fn a_refused_template_takes_its_group_and_no_other() {
    let model = Model::new();
    model.edit(|state| (state.refuses, state.delay) = (Some("/bad".to_owned()), Duration::from_millis(2)));
    let links = (0..2_000).map(|row| {
        let web = if row % 2 == 0 { "https://example.com/good" } else { "https://example.com/bad" };
        CreateLink::new().custom_id(format!("row-{row:04}")).web_url(web)
    });
    let source = MemorySource::links("rows", links);
    let run = model.client().bulk_import(source).on_error(OnError::Continue).concurrency(Concurrency::Fixed(1));
    let (outcomes, _) = import(run).await;
    assert_eq!(statuses(&outcomes), [("created", 1_000), ("rejected", 1_000)].into());
    let bad = model
        .edit(|state| state.log.iter().filter(|(.., body)| String::from_utf8_lossy(body).contains("/bad")).count());
    assert!(bad <= 3, "{bad} requests for a template that was refused");
}

#[tokio::test]
async fn one_bad_row_among_many_that_differ_is_found() {
    for knows in [true, false] {
        let model = Model::new();
        model.edit(|state| (state.refuses, state.knows_links_form) = (Some("/p/33".to_owned()), knows));
        let run = model.client().bulk_import(distinct(250)).on_error(OnError::Continue);
        let (outcomes, summary) = import(run).await;
        assert_eq!(statuses(&outcomes), [("created", 249), ("rejected", 1)].into());
        let rejected = outcomes.iter().find(|outcome| outcome.result.status() == "rejected").expect("one");
        assert_eq!((rejected.line, rejected.id.as_deref()), (34, Some("page-000033")));
        adds_up(&summary);
    }
}

#[tokio::test]
async fn a_service_without_the_links_form_gets_rows_one_by_one() {
    let model = Model::new();
    model.edit(|state| state.knows_links_form = false);
    let (_, summary) = import(model.client().bulk_import(distinct(250)).concurrency(Concurrency::Fixed(1))).await;
    assert_eq!(summary.counts.created, 250);
    assert_eq!(model.requests("POST", "/v1/links/bulk"), 1, "the refusal is remembered");
    assert_eq!(summary.counts.requests, 251);
}

#[tokio::test]
async fn a_request_that_is_too_large_is_halved() {
    let model = Model::new();
    model.edit(|state| state.most_bytes = 3_000);
    let (_, summary) = import(model.client().bulk_import(distinct(500))).await;
    assert_eq!(summary.counts.created, 500);
}

#[tokio::test]
async fn refusals_of_the_whole_stop_at_once() {
    for (status, code) in [
        (401, ErrorCode::InvalidKey),
        (403, ErrorCode::ForbiddenScope),
        (402, ErrorCode::QuotaExceeded),
        (503, ErrorCode::BillingNotConfigured),
    ] {
        let model = Model::new();
        model.edit(|state| state.always = Some((status, code.clone())));
        let (outcomes, summary) = import(model.client().bulk_import(same(5_000))).await;
        let Some(Stopped::Refused(error)) = &summary.stopped else { panic!("{:?}", summary.stopped) };
        assert_eq!(error.code(), Some(&code));
        assert!(outcomes.is_empty());
        assert_eq!((summary.counts.unsent, summary.counts.rows), (5_000, 5_000));
        assert!(model.requests("POST", "/") <= 4);
    }
}

#[tokio::test]
async fn made_ids_are_the_same_in_every_run() {
    let model = Model::new();
    let template = || CreateLink::new().web_url("https://example.com");
    let source = || MemorySource::same("rows", template(), (0..500).map(|_| None));
    let (outcomes, _) = import(model.client().bulk_import(source()).generate_ids("a")).await;
    assert_eq!(statuses(&outcomes), [("created", 500)].into());
    let (again, _) = import(model.client().bulk_import(source()).generate_ids("a")).await;
    assert_eq!(statuses(&again), [("existed", 500)].into());
    let (other, _) = import(model.client().bulk_import(source()).generate_ids("b")).await;
    assert_eq!(statuses(&other), [("created", 500)].into());
    assert_eq!(model.edit(|state| state.links.len()), 1_000);
}

#[tokio::test]
async fn a_made_id_that_somebody_has_is_made_anew() {
    let model = Model::new();
    let source = || MemorySource::same("rows", CreateLink::new(), (0..200).map(|_| None));
    let (outcomes, _) = import(model.client().bulk_import(source()).generate_ids("a")).await;
    let ids: Vec<String> = outcomes.into_iter().filter_map(|outcome| outcome.id).collect();
    // In a new account some of the ids belong to others, and some to links with other content.
    let model = Model::new();
    model.edit(|state| {
        state.foreign = ids[..20].to_vec();
        for id in &ids[20..40] {
            let link = CreateLink::new().web_url("https://example.com/else").check().expect("valid");
            state.links.insert(id.clone(), model::detail(id, link));
        }
    });
    for policy in [OnConflict::Fail, OnConflict::Verify] {
        let run = model.client().bulk_import(source()).generate_ids("a").on_conflict(policy);
        let (outcomes, _) = import(run).await;
        let status = if policy == OnConflict::Fail { "created" } else { "existed" };
        assert_eq!(statuses(&outcomes), [(status, 200)].into(), "the second run finds the same tries");
        assert_eq!(model.edit(|state| state.links.len()), 220);
    }
}
