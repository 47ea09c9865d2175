//! Any order of visits, batches, failures, spills, stops and kills: what was answered is stored, and nothing twice.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use proptest::prelude::*;

use super::super::queue::lock;
use super::super::{Intake, Recorded, replay, spill};
use super::{Home, NOW, Other, click_at};
use crate::db::{ClickSource, Db, DbError, Job, Ran};

#[derive(Debug, Clone, Copy)]
enum Step {
    /// So many visits.
    Record(usize),
    /// The writer takes a batch, and this becomes of it.
    Write(Outcome),
    /// Somebody has waited too long.
    GiveUp,
    /// The disk takes no file, or takes them again.
    Full(bool),
    /// What is in the spill is stored; with `true` the process is killed before a file is removed.
    Replay(bool),
    /// The process is killed and another one starts.
    Kill,
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Stored,
    /// The transaction never began.
    Refused,
    /// It took too long, and was stored or undone at last.
    GivenUpBefore,
    /// COMMIT took too long, and then succeeded or not.
    GivenUpAtCommit {
        stored: bool,
    },
    /// COMMIT failed without saying whether it did.
    Unknown {
        stored: bool,
    },
    /// The process is killed during COMMIT.
    KilledAtCommit {
        stored: bool,
        given_up: bool,
    },
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        4 => Just(Outcome::Stored),
        1 => Just(Outcome::Refused),
        1 => Just(Outcome::GivenUpBefore),
        2 => any::<bool>().prop_map(|stored| Outcome::GivenUpAtCommit { stored }),
        2 => any::<bool>().prop_map(|stored| Outcome::Unknown { stored }),
        2 => any::<(bool, bool)>().prop_map(|(stored, given_up)| Outcome::KilledAtCommit { stored, given_up }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => prop_oneof![1..5_usize, 1_000..1_100_usize].prop_map(Step::Record),
        6 => outcome().prop_map(Step::Write),
        1 => Just(Step::GiveUp),
        1 => any::<bool>().prop_map(Step::Full),
        2 => any::<bool>().prop_map(Step::Replay),
        1 => Just(Step::Kill),
    ];
    prop::collection::vec(step, 1..30)
}

/// The way past the clicks to the writer, for the process that lives now.
#[derive(Default)]
struct Door(Mutex<Option<Arc<Intake>>>);

impl ClickSource for Door {
    fn ready(&self) -> BoxFuture<'_, ()> {
        async {
            while lock(&self.0).as_ref().is_none_or(|intake| lock(&intake.low_durability).is_empty()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        .boxed()
    }

    fn take(&self) -> Option<Box<dyn Job>> {
        lock(&self.0).as_ref().and_then(|intake| lock(&intake.low_durability).take(false))
    }

    fn may_grow(&self) -> bool {
        false
    }
}

/// One process after another over the same database and directory, and what they answered.
struct World<'a> {
    home: &'a Home,
    db: &'a Db,
    door: &'a Door,
    other: &'a mut Other,
    intake: Arc<Intake>,
    next: i64,
    waiting: Vec<(i64, Recorded)>,
    answered: HashSet<i64>,
    /// Answered, but only in the memory of a process that was killed: the one exception of the promise.
    excused: HashSet<i64>,
}

impl World<'_> {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Record(count) => {
                for _ in 0..count {
                    let link = self.next;
                    self.next += 1;
                    let click = click_at(&self.intake.texts, link, NOW);
                    self.waiting.push((link, self.intake.record(click)));
                }
            }
            Step::Write(outcome) => self.write(outcome).await,
            Step::GiveUp => {
                self.intake.begin_spilling();
                self.intake.abandon_all();
            }
            Step::Full(full) => lock(&self.intake.spill).is_full = full,
            Step::Replay(killed) => self.replay(killed).await,
            Step::Kill => self.kill(),
        }
        self.look();
    }

    /// Which visits were answered by now.
    fn look(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let answered = &mut self.answered;
        self.waiting.retain_mut(|(link, visit)| match visit.poll_unpin(&mut context) {
            Poll::Ready(()) => {
                answered.insert(*link);
                false
            }
            Poll::Pending => true,
        });
    }

    async fn write(&mut self, outcome: Outcome) {
        let Some(mut store) = self.intake.take() else { return };
        if matches!(outcome, Outcome::Refused) {
            return store.answer(Err(DbError::Full));
        }
        if matches!(outcome, Outcome::GivenUpBefore) {
            self.intake.abandon_all();
        }
        self.other.run("BEGIN").await;
        let ran = store.run(self.other.conn()).await;
        assert_eq!(matches!(ran, Ran::Undo), matches!(outcome, Outcome::GivenUpBefore));
        if let Outcome::GivenUpAtCommit { .. } | Outcome::KilledAtCommit { given_up: true, .. } = outcome {
            self.intake.abandon_all();
            self.look();
        }
        let stored = match outcome {
            Outcome::GivenUpBefore => false,
            Outcome::GivenUpAtCommit { stored }
            | Outcome::Unknown { stored }
            | Outcome::KilledAtCommit { stored, .. } => stored,
            _ => true,
        };
        self.other.run(if stored { "COMMIT" } else { "ROLLBACK" }).await;
        match outcome {
            Outcome::KilledAtCommit { .. } => self.kill(),
            Outcome::GivenUpAtCommit { stored: false } | Outcome::Unknown { .. } => {
                store.answer(Err(DbError::Unknown("cut".into())));
            }
            _ => store.answer(Ok(())),
        }
    }

    async fn replay(&mut self, killed: bool) {
        let files = || spill::files(self.home.directory.path()).expect("a directory");
        lock(&self.intake.spill).close();
        let before: Vec<_> = files().into_iter().map(|file| (std::fs::read(&file).expect("a file"), file)).collect();
        replay::replay(&self.intake, self.db, &mut replay::ReportedFiles::default()).await.expect("a replay");
        self.intake.end_spilling();
        assert!(files().is_empty());
        if killed {
            self.kill();
            for (bytes, file) in before {
                std::fs::write(file, bytes).expect("a file");
            }
        }
    }

    /// Another process starts.
    fn begin(&mut self) {
        self.intake = Arc::new(Intake::new(self.home.clock.clone(), self.home.directory.path(), false, Duration::ZERO));
        *lock(&self.door.0) = Some(Arc::clone(&self.intake));
    }

    fn kill(&mut self) {
        self.look();
        // The visits that wait are cut off.
        self.waiting.clear();
        let mut spill = lock(&self.intake.spill);
        while let Some(chunk) = spill.chunk(usize::MAX) {
            self.excused.extend(chunk.clicks.iter().map(|spilled| spilled.click.link));
            spill.chunk = None;
        }
        // A process that dies lets go of its file at once; here a job just done may still hold the intake.
        spill.close();
        drop(spill);
        self.begin();
    }
}

async fn check(home: &Home, db: &Db, door: &Door, other: &mut Other, steps: Vec<Step>) {
    other.run("DELETE FROM clicks").await;
    other.run("DELETE FROM click_spills").await;
    for file in spill::files(home.directory.path()).expect("a directory") {
        std::fs::remove_file(file).expect("a case that failed left this");
    }
    let intake = Arc::new(Intake::new(home.clock.clone(), home.directory.path(), false, Duration::ZERO));
    let mut world = World {
        home,
        db,
        door,
        other,
        intake,
        next: 0,
        waiting: Vec::new(),
        answered: HashSet::new(),
        excused: HashSet::new(),
    };
    world.begin();
    for step in steps {
        world.step(step).await;
    }
    world.kill();
    world.replay(false).await;
    let links = world.other.links().await;
    let stored: HashSet<_> = links.iter().copied().collect();
    assert_eq!(links.len(), stored.len(), "no click is stored twice");
    let is_lost = |link: &&i64| !stored.contains(*link) && !world.excused.contains(*link);
    let lost = world.answered.iter().filter(is_lost).count();
    assert_eq!(lost, 0, "of {} that were answered are not stored", world.answered.len());
    assert!(stored.iter().all(|link| (0..world.next).contains(link)));
    let texts = world.other.stored().await;
    assert!(texts.iter().all(|click| click.5.is_some() && (click.6.is_some() || click.8)), "every text is there");
}

#[test]
fn what_was_answered_is_stored_exactly_once_whatever_happens() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let home = Home::new();
    let (db, mut other) = runtime.block_on(async { (home.open().await, home.other().await) });
    let door = Arc::new(Door::default());
    db.attach_click_source(Arc::clone(&door) as Arc<dyn ClickSource>);
    let other = std::cell::RefCell::new(&mut other);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..Default::default()
    });
    runner
        .run(&steps(), |steps| {
            runtime.block_on(check(&home, &db, &door, &mut other.borrow_mut(), steps));
            Ok(())
        })
        .expect("every case holds");
    runtime.block_on(db.close());
}
