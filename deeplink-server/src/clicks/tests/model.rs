//! Any order of visits, loads, interruptions, full disks and kills: what was answered is stored and counted, nothing twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::super::load::Loader;
use super::super::{Intake, record};
use super::counts::total;
use super::{Home, NOW, Other, click_at};
use crate::clicks::Click;
use crate::db::{Db, on};

/// More clicks than a case records.
const MAX_CLICKS: i64 = 1_000_000;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// So many visits.
    Record(usize),
    /// The loader does its work, with `true` for a report; the other number is after how many microseconds it is interrupted,
    /// which leaves open what became of its last transaction.
    Load(bool, Option<u64>),
    /// The disk takes no file, or takes them again.
    Full(bool),
    /// The process is killed and another one starts; with `true` segments that were removed are there again.
    Kill(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cut = prop::option::weighted(0.6, prop_oneof![0..300_u64, 300..6_000_u64]);
    let step = prop_oneof![
        5 => prop_oneof![1..5_usize, 1_000..6_000_usize].prop_map(Step::Record),
        7 => (any::<bool>(), cut).prop_map(|(asked, cut)| Step::Load(asked, cut)),
        1 => any::<bool>().prop_map(Step::Full),
        2 => any::<bool>().prop_map(Step::Kill),
    ];
    prop::collection::vec(step, 1..25)
}

/// One process after another over the same database and folder, and what they answered.
struct World<'a> {
    home: &'a Home,
    db: &'a Db,
    intake: Arc<Intake>,
    loader: Loader,
    /// The first of the links of this case, each with one click.
    first: i64,
    recorded: i64,
    /// Answered, but only in the memory of a process that was killed: the one exception of the promise.
    excused: HashSet<i64>,
    /// Bytes of all segments that were there.
    segments: Vec<(std::path::PathBuf, Vec<u8>)>,
}

impl World<'_> {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Record(count) => {
                for _ in 0..count {
                    let click = Click { kind: 0, ..click_at(&self.intake.texts, self.first + self.recorded, NOW) };
                    self.intake.record(&click);
                    self.recorded += 1;
                }
                self.remember();
            }
            Step::Load(asked, cut) => {
                let round = self.loader.round(asked);
                match cut {
                    None => drop(round.await.expect("a round")),
                    Some(micros) => drop(tokio::time::timeout(Duration::from_micros(micros), round).await),
                }
            }
            Step::Full(full) => {
                self.intake.journal.set_full(full);
                drop(self.intake.journal.leave_memory());
                self.remember();
            }
            Step::Kill(restores) => self.kill(restores),
        }
    }

    fn remember(&mut self) {
        for path in self.home.segments() {
            let bytes = std::fs::read(&path).expect("a segment");
            self.segments.retain(|(known, _)| *known != path);
            self.segments.push((path, bytes));
        }
    }

    fn kill(&mut self, restores: bool) {
        for segment in self.intake.journal.kill() {
            let bytes = segment.read(record::HEADER, segment.length()).expect("its bytes");
            let mut rest = &bytes[..];
            while let Some(kept) = record::take(&mut rest) {
                if let record::Record::Click(click) = kept {
                    self.excused.insert(click.link);
                }
            }
        }
        if restores {
            for (path, bytes) in &self.segments {
                std::fs::write(path, bytes).expect("a segment");
            }
        }
        self.intake = self.home.intake();
        self.loader = Loader::new(Arc::clone(&self.intake), self.db.clone());
    }
}

async fn check(home: &Home, db: &Db, other: &mut Other, first: i64, steps: Vec<Step>) {
    const COUNTS: &str = "
        SELECT CAST(COALESCE(SUM(clicks), 0) AS BIGINT), CAST(COUNT(*) AS BIGINT) FROM click_hours WHERE link >= $1";
    other.forget_clicks().await;
    other.run("DELETE FROM click_journals").await;
    for file in home.segments() {
        std::fs::remove_file(file).expect("a case that failed left this");
    }
    let intake = home.intake();
    let loader = Loader::new(Arc::clone(&intake), db.clone());
    let mut world =
        World { home, db, intake, loader, first, recorded: 0, excused: HashSet::new(), segments: Vec::new() };
    for step in steps {
        world.step(step).await;
    }
    world.kill(true);
    world.loader.round(true).await.expect("a round");
    world.intake.journal.kill();
    // An interrupted transaction may end at any time: between the two questions, or in the next case.
    other.lock().await;
    let mut links = other.links().await;
    links.retain(|link| *link >= first);
    let counted: (i64, i64) =
        on!(&mut other.conn(), c => sqlx::query_as(COUNTS).bind(first).fetch_one(c).await).expect("the sums");
    other.unlock().await;
    let stored: HashSet<_> = links.iter().copied().collect();
    assert_eq!(links.len(), stored.len(), "no click is stored twice");
    let are_recorded = first..first + world.recorded;
    let lost = are_recorded.clone().filter(|link| !stored.contains(link) && !world.excused.contains(link)).count();
    assert_eq!(lost, 0, "of {} that were answered are not stored", world.recorded);
    assert!(stored.iter().all(|link| are_recorded.contains(link)));
    // Each link has one click.
    let are = i64::try_from(links.len()).expect("a count");
    assert_eq!(counted, (are, are), "each click is counted once");
    if let Some(link) = links.first() {
        assert_eq!(total(db, *link, NOW, NOW).await, 1);
    }
}

#[test]
fn whatever_happens_what_was_answered_is_stored_and_counted_once() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let home = Home::new();
    let (db, mut other) = runtime.block_on(async { (home.open().await, home.other().await) });
    drop(home.intake());
    let (other, cases) = (std::cell::RefCell::new(&mut other), std::cell::Cell::new(0));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..Default::default()
    });
    runner
        .run(&steps(), |steps| {
            let first = cases.replace(cases.get() + MAX_CLICKS);
            runtime.block_on(check(&home, &db, &mut other.borrow_mut(), first, steps));
            Ok(())
        })
        .expect("every case holds");
    runtime.block_on(db.close());
}
