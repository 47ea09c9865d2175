//! Any window counts exactly what lies in it, for any set of links and grouping, however clicks came and whatever was removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use proptest::prelude::*;

use super::counts::{HOUR, START, store};
use super::{Home, NOW, Other};
use crate::clicks::Retention;
use crate::db::Db;
use crate::db::clicks::{self, By, Hash, Head, Kinds, NewClick, NewText, Scope};
use crate::shares::Share;

#[derive(Debug, Clone)]
enum Step {
    /// Clicks that are stored at this time of the clock.
    Store(Vec<Made>, i64),
    /// Deletes what is more than this many hours old.
    Remove(i64),
    /// Clicks of some links in a window, in milliseconds after the start.
    Count(Vec<i64>, i64, i64),
}

/// A click: when in milliseconds after the start, and by which of [`REFERERS`].
#[derive(Debug, Clone, Copy)]
struct Made {
    link: i64,
    at: i64,
    kind: u8,
    platform: u8,
    agent_code: u32,
    country: u16,
    referer: Option<usize>,
}

const REFERERS: [(&str, &str); 4] = [
    ("https://news.example.com/a", "news.example.com"),
    ("https://News.example.com/b", "news.example.com"),
    ("http://example.org", "example.org"),
    ("android-app://com.example", ""),
];
const LINKS: i64 = 4;

fn hash(nth: usize) -> Hash {
    [u8::try_from(nth).expect("few"); 16]
}

fn moment() -> impl Strategy<Value = i64> {
    let hour = prop_oneof![0..4_i64, 0..100_i64];
    prop_oneof![
        0..3 * HOUR,
        0..90 * HOUR,
        hour.clone().prop_map(|hour| hour * HOUR),
        hour.prop_map(|hour| hour * HOUR + HOUR - 1)
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let referer = prop::option::of(0..REFERERS.len());
    let agent_code = prop_oneof![Just(0), Just(33), Just(u32::MAX)];
    let country = prop_oneof![Just(0), Just(1), Just(676)];
    let click = (1..=LINKS, moment(), 0..4_u8, 0..5_u8, agent_code, country, referer).prop_map(
        |(link, at, kind, platform, agent_code, country, referer)| Made {
            link,
            at,
            kind,
            platform,
            agent_code,
            country,
            referer,
        },
    );
    let links = prop::collection::btree_set(1..=LINKS, 0..=4).prop_map(|links| links.into_iter().collect());
    let step = prop_oneof![
        4 => (prop::collection::vec(click, 1..12), moment()).prop_map(|(clicks, now)| Step::Store(clicks, now)),
        5 => (links, moment(), moment()).prop_map(|(links, a, b)| Step::Count(links, a.min(b), a.max(b))),
    ];
    (prop::collection::vec(step, 1..25), prop::option::weighted(0.3, 0..90_i64)).prop_map(|(mut steps, removed)| {
        steps.extend(removed.map(Step::Remove));
        steps
    })
}

impl Made {
    fn row(&self) -> NewClick {
        let Self { link, at, kind, platform, agent_code, country, referer } = *self;
        NewClick { link, at: START + at, kind, platform, agent_code, country, agent: None, referer: referer.map(hash) }
    }

    fn is_of(&self, kinds: Kinds) -> bool {
        match kinds {
            Kinds::Funnel => self.kind == 0 || self.kind == 3,
            Kinds::One(one) => self.kind == one.code(),
            Kinds::All => true,
        }
    }

    fn key(&self, by: By) -> i64 {
        let at = START + self.at;
        match by {
            By::Nothing => 0,
            By::Day => at - at % (24 * HOUR),
            By::Hour => at - at % HOUR,
            By::Link => self.link,
            By::Kind => self.kind.into(),
            By::Platform => self.platform.into(),
            By::UserAgent => self.agent_code.into(),
            By::Country => self.country.into(),
        }
    }

    fn host(&self) -> String {
        self.referer.map_or_else(String::new, |nth| REFERERS[nth].1.to_owned())
    }
}

fn tally<K: Ord>(clicks: impl Iterator<Item = K>) -> BTreeMap<K, i64> {
    let mut counts = BTreeMap::new();
    for key in clicks {
        *counts.entry(key).or_insert(0) += 1;
    }
    counts
}

/// Every grouping of a window against the clicks one by one.
///
/// What they are broken down by may have gone with the log: then there may be fewer of it, and never more.
async fn check_counts(db: &Db, all: &[Made], links: &[i64], (from, to): (i64, i64), is_swept: bool) {
    let mut reader = db.read().await.expect("a reader");
    let window = Scope { links, from: START + from, to: START + to, kinds: Kinds::Funnel };
    let inside = |kinds: Kinds| {
        all.iter().filter(move |made| links.contains(&made.link) && (from..=to).contains(&made.at) && made.is_of(kinds))
    };
    for by in [By::Nothing, By::Day, By::Hour, By::Link, By::Kind, By::UserAgent, By::Platform, By::Country] {
        let one = Kinds::One(deeplink_core::visitor::ClickKind::Preview);
        for kinds in
            [Kinds::Funnel, one, Kinds::All].into_iter().filter(|kinds| !of_funnel(by) || *kinds == Kinds::Funnel)
        {
            let known = |made: &&Made| by != By::Country || made.country > 0;
            let expected = tally(inside(kinds).filter(known).map(|made| made.key(by)));
            let counted = clicks::count(&mut reader.conn(), Scope { kinds, ..window }, by).await.expect("counts");
            let all_there = !is_swept || !of_funnel(by);
            assert!(
                if all_there { counted == expected } else { is_part(&counted, &expected) },
                "{counted:?} instead of {expected:?}: {by:?} of {kinds:?} clicks on {links:?} from {from} to {to}"
            );
        }
    }
    let expected = tally(inside(Kinds::Funnel).map(Made::host));
    let counted = clicks::count_by_host(&mut reader.conn(), window).await.expect("counts");
    assert!(
        if is_swept { is_part(&counted, &expected) } else { counted == expected },
        "{counted:?} instead of {expected:?}: by host, on {links:?} from {from} to {to}"
    );
}

/// Whether only the funnel's clicks are counted so.
fn of_funnel(by: By) -> bool {
    matches!(by, By::Platform | By::Country)
}

fn is_part<K: Ord>(counted: &BTreeMap<K, i64>, of: &BTreeMap<K, i64>) -> bool {
    counted.iter().all(|(key, clicks)| of.get(key).is_some_and(|most| clicks <= most))
}

async fn check(home: &Home, db: &Db, other: &mut Other, head: &Arc<Head>, steps: Vec<Step>) {
    other.forget_clicks().await;
    other.run("UPDATE click_marks SET position = 0").await;
    store_referers(db).await;
    let mut all: Vec<Made> = Vec::new();
    for step in steps {
        match step {
            Step::Store(clicks, now) => {
                // What is stored late, and what the clock says then, must not matter.
                let rows = clicks.iter().map(|made| (made.row(), made.host())).collect();
                let latest = clicks.iter().map(|made| made.at).max().map_or(now, |at| at.max(now));
                store(db, head, START + latest, rows, false).await;
                all.extend(clicks);
            }
            Step::Count(links, from, to) => check_counts(db, &all, &links, (from, to), false).await,
            Step::Remove(hours) => {
                // A day is kept beyond the time.
                home.clock.set(Timestamp::from_millis(START + hours * HOUR + 2 * 86_400_000));
                crate::clicks::retention::sweep(db, home.clock.now(), Retention::Days(1)).await.expect("a sweep");
                let kept = other.stored().await;
                assert!(kept.iter().all(|click| click.0 > clicks::position_at(START + hours * HOUR)));
                // Whole hours and days stay exact without the log.
                for (from, to) in [(0, 200), (3, 40), (20, 21)] {
                    check_counts(db, &all, &[1, 2, 3, 4], (from * HOUR, to * HOUR - 1), true).await;
                }
            }
        }
    }
}

async fn store_referers(db: &Db) {
    db.write(Share::Service, (), |tx, ()| {
        async move {
            let texts = REFERERS.iter().enumerate();
            let texts: Vec<_> = texts.map(|(nth, (text, _))| NewText { hash: hash(nth), text }).collect();
            // Used until far in the future, so that no sweep takes them.
            clicks::insert_texts(tx, &texts, NOW * 2).await
        }
        .boxed()
    })
    .await
    .expect("stored texts");
}

#[test]
fn any_window_counts_exactly_what_lies_in_it() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let home = Home::new();
    let (db, mut other) = runtime.block_on(async { (home.open().await, home.other().await) });
    let head = Arc::new(Head::default());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..Default::default()
    });
    let other = std::cell::RefCell::new(&mut other);
    runner
        .run(&steps(), |steps| {
            runtime.block_on(check(&home, &db, &mut other.borrow_mut(), &head, steps));
            Ok(())
        })
        .expect("every case holds");
    runtime.block_on(db.close());
}
