//! What one write re-credits, and how many links, installs and conversions count.

use std::sync::{Arc, Mutex};

use deeplink_core::id::EventId;
use deeplink_core::lifecycle::Convert;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use crate::db::conversions::{self, ConversionRow};
use crate::db::installs::{self, Bound, NewBinding, NewTouch};
use crate::db::tests::{Scratch, now};

use super::*;

fn publisher(now: Timestamp) -> Publisher {
    Publisher::new(Arc::default(), Arc::new(Mutex::new(Random::system())), now, now)
}

/// A tenant with one user, and no task that completes unfinished work.
struct Stage {
    scratch: Scratch,
    tenant: TenantId,
}

impl Stage {
    async fn new() -> Self {
        let scratch = Scratch::new().await;
        let tenant = TenantId::new(now(), &mut Random::system());
        scratch.execute(format!("INSERT INTO tenants (id, created_at) VALUES ('{tenant}', 0)")).await;
        Self { scratch, tenant }
    }

    async fn number(&self, sql: &'static str) -> i64 {
        let mut reader = self.scratch.db.read().await.expect("a reader");
        on!(&mut reader.conn(), c => sqlx::query_scalar(sql).fetch_one(c).await).expect("a number")
    }

    /// A link opens an install, `nth` milliseconds after the beginning.
    async fn touch(&self, install: i64, link: i64, nth: i64) -> bool {
        let tenant = self.tenant.clone();
        self.scratch
            .write(move |tx| {
                let (tenant, install_id) = (tenant.clone(), format!("install-{install}"));
                async move {
                    let publisher = publisher(now().plus_millis(nth));
                    let new = NewTouch {
                        tenant: &tenant,
                        position: install,
                        install_id: &install_id,
                        link,
                        link_id: "x",
                        app_version: "1",
                        device_model: None,
                        context: None,
                        at: now().plus_millis(nth),
                    };
                    installs::touch(tx, &publisher, &new).await
                }
                .boxed()
            })
            .await
    }

    /// Binds an install to the user.
    async fn bind(&self, install: i64, nth: i64) -> Bound {
        let tenant = self.tenant.clone();
        self.scratch
            .write(move |tx| {
                let (tenant, install_id) = (tenant.clone(), format!("install-{install}"));
                async move {
                    let publisher = publisher(now().plus_millis(nth));
                    let new = NewBinding {
                        tenant: &tenant,
                        positions: [install, 1],
                        install_id: &install_id,
                        user_id: "ann",
                        at: now().plus_millis(nth),
                    };
                    installs::bind(tx, &publisher, &new).await
                }
                .boxed()
            })
            .await
    }

    /// Conversions of the user, one in each millisecond from `nth` on.
    async fn convert(&self, positions: std::ops::Range<i64>, nth: i64) {
        let tenant = self.tenant.clone();
        self.scratch
            .write(move |tx| {
                let (tenant, positions) = (tenant.clone(), positions.clone());
                async move {
                    let user = conversions::lock_user(tx, &tenant, "ann", 1, now()).await?;
                    let new = Convert::new("ann", "t").check().expect("a conversion");
                    let begin = positions.start;
                    for position in positions {
                        let at = now().plus_millis(nth + position - begin);
                        let id = EventId::new(at, &mut Random::system());
                        let stored = ConversionRow {
                            id: &id,
                            tenant: &tenant,
                            user,
                            position,
                            reporter: &conversions::Reporter::Page,
                            new: &new,
                            at,
                        };
                        conversions::insert(tx, &publisher(at), &stored).await?;
                    }
                    Ok(())
                }
                .boxed()
            })
            .await;
    }

    async fn resume(&self, nth: i64) -> bool {
        let at = now().plus_millis(nth);
        self.scratch.write(move |tx| async move { resume(tx, &publisher(at), 1).await }.boxed()).await
    }
}

/// C3: however many conversions a user has, one write re-credits 500 of them, and the rest is recorded.
#[tokio::test]
async fn c3_one_write_credits_five_hundred() {
    let stage = Stage::new().await;
    stage.touch(1, 7, 0).await;
    stage.touch(2, 8, 1).await;
    stage.convert(0..1_200, 100).await;
    let credited = "SELECT COUNT(*) FROM conversion_credits";
    let events = "SELECT COUNT(*) FROM conversions WHERE emitted_at IS NOT NULL";
    assert_eq!(stage.bind(1, 5_000).await, Bound::Theirs { is_left: true });
    assert_eq!((stage.number(credited).await, stage.number(events).await), (500, 500));
    let oldest = "SELECT COUNT(*) FROM conversions WHERE emitted_at IS NOT NULL AND position < 500";
    assert_eq!(stage.number(oldest).await, 500, "the oldest first");
    assert!(stage.resume(6_000).await);
    // Another install whose touch is before all of them: the work under way completes, then starts over, and no
    // event is created twice.
    assert_eq!(stage.bind(2, 7_000).await, Bound::Theirs { is_left: true });
    assert_eq!((stage.number(credited).await, stage.number(events).await), (1_000 + 400, 1_200));
    assert!(stage.resume(8_000).await);
    assert_eq!(stage.number(credited).await, 1_000 + 500 + 400);
    assert!(stage.resume(8_000).await);
    assert!(!stage.resume(9_000).await);
    assert!(!stage.resume(9_000).await);
    assert_eq!((stage.number(credited).await, stage.number(events).await), (2_400, 1_200));
    assert_eq!(stage.number("SELECT COUNT(*) FROM credit_work").await, 0);
    let flags = "
        SELECT COUNT(*) FROM conversion_credits x JOIN conversions c ON c.position = x.conversion
        WHERE x.at = c.at AND x.is_first = (x.link = 7) AND x.is_last = (x.link = 8)
            AND c.first_link = 7 AND c.last_link = 8";
    assert_eq!(stage.number(flags).await, 2_400);
    for (position, nth) in [(0, 5_000), (499, 5_000), (500, 6_000), (999, 6_000), (1_000, 7_000), (1_199, 7_000)] {
        let sql = format!("SELECT emitted_at FROM conversions WHERE position = {position}");
        let at = stage.number(String::leak(sql)).await;
        assert_eq!(at, now().plus_millis(nth).as_millis(), "{position}");
    }
}

/// However often new touches arrive meanwhile, all conversions are credited in the end.
#[tokio::test]
async fn c3_repeated_bindings_do_not_starve_conversions() {
    let stage = Stage::new().await;
    stage.convert(0..2_000, 100).await;
    for install in 1..=6 {
        stage.touch(install, install, install).await;
        stage.bind(install, 5_000 + install).await;
    }
    let events = "SELECT COUNT(*) FROM conversions WHERE emitted_at IS NOT NULL";
    assert_eq!(stage.number(events).await, 2_000);
    let mut writes = 0;
    while stage.resume(6_000).await {
        writes += 1;
        assert!(writes < 20, "it does not end");
    }
    assert_eq!(stage.number("SELECT COUNT(*) FROM conversion_credits").await, 6 * 2_000);
}

/// Up to a hundred links are all credited; of more, only the first, the last and the latest.
#[tokio::test]
async fn a_hundred_links_are_credited() {
    let stage = Stage::new().await;
    for nth in 0..150 {
        // The first three come again, so that they are among the latest.
        stage.touch(1, if nth < 147 { nth } else { nth - 147 }, nth).await;
        if nth == 99 {
            stage.touch(2, 5_000, nth).await;
        }
    }
    assert_eq!(stage.number("SELECT COUNT(*) FROM install_links WHERE install = 1").await, 147);
    assert_eq!(stage.number("SELECT COUNT(*) FROM install_links WHERE install = 1 AND credited").await, 100);
    // One conversion before its user is known, at a time with exactly a hundred links, and one after.
    stage.convert(0..1, 98).await;
    assert_eq!(stage.bind(1, 1_000).await, Bound::Theirs { is_left: false });
    stage.convert(1..2, 1_000).await;
    let latest = "SELECT COUNT(*) FROM install_credits WHERE link < 3 OR link >= 50";
    assert_eq!(stage.number("SELECT COUNT(*) FROM install_credits").await, 100);
    assert_eq!(stage.number(latest).await, 100);
    assert_eq!(stage.number("SELECT COUNT(*) FROM install_credits WHERE is_first AND link = 0").await, 1);
    assert_eq!(stage.number("SELECT COUNT(*) FROM install_credits WHERE is_last AND link = 2").await, 1);
    let of_later = "SELECT COUNT(*) FROM conversion_credits WHERE conversion = 1 AND (link < 3 OR link >= 50)";
    assert_eq!(stage.number("SELECT COUNT(*) FROM conversion_credits WHERE conversion = 1").await, 100);
    assert_eq!(stage.number(of_later).await, 100);
    // The early one is credited to its first and last link, and to those of the latest that came before it.
    let ends = "SELECT COUNT(*) FROM conversions WHERE position = 0 AND first_link = 0 AND last_link = 98";
    assert_eq!(stage.number(ends).await, 1);
    let of_early =
        "SELECT COUNT(*) FROM conversion_credits WHERE conversion = 0 AND (link < 3 OR link BETWEEN 50 AND 98)";
    assert_eq!(stage.number(of_early).await, 52);
    assert_eq!(stage.number("SELECT COUNT(*) FROM conversion_credits WHERE conversion = 0").await, 52);
    let ends = "SELECT COUNT(*) FROM conversion_credits WHERE is_first OR is_last";
    assert_eq!(stage.number(ends).await, 4);
}

/// Exactly a hundred links are all credited.
#[tokio::test]
async fn none_of_a_hundred_links_is_left_out() {
    let stage = Stage::new().await;
    for nth in 0..100 {
        stage.touch(nth % 3 + 1, nth, nth).await;
    }
    for install in 1..=3 {
        stage.bind(install, 200 + install).await;
    }
    stage.convert(0..1, 300).await;
    assert_eq!(stage.number("SELECT COUNT(*) FROM conversion_credits").await, 100);
    assert_eq!(stage.number("SELECT COUNT(*) FROM install_credits").await, 100);
}

/// Only a user's most recently bound installs count.
#[tokio::test]
async fn a_hundred_installs_credit() {
    let stage = Stage::new().await;
    for install in 1..=103 {
        // The last ones bound were touched first.
        stage.touch(install, 1_000 + install, 200 - install).await;
        stage.bind(install, 300 + install).await;
    }
    stage.convert(0..1, 1_000).await;
    assert_eq!(stage.number("SELECT COUNT(*) FROM conversion_credits WHERE link > 1003").await, 100);
    assert_eq!(stage.number("SELECT COUNT(*) FROM conversion_credits").await, 100);
    let ends = "SELECT COUNT(*) FROM conversions WHERE first_link = 1103 AND last_link = 1004";
    assert_eq!(stage.number(ends).await, 1);
}
