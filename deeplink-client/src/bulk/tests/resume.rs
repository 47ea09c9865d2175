//! Runs that are interrupted anywhere and resumed.

use std::path::Path;
use std::sync::{Arc, Mutex};

use deeplink_core::secret::Random;

use super::journal::Entry;
use super::*;
use crate::Client;

fn journal(dir: &Path) -> FileJournal {
    FileJournal::new(dir.join("imports")).command("import rows")
}

/// Runs and drops the run at random points until it ends by itself.
async fn kill_until_done(model: &Model, dir: &Path, import: impl Fn(&Model) -> BulkImport, seed: u64) -> Summary {
    let mut random = Random::seeded(seed);
    for kill in 0..200 {
        let mut run = quick(import(model)).start().await.expect("a run");
        assert_eq!(run.is_resumed(), kill > 0);
        let polls = random.below(40) * random.below(60);
        let mut seen = 0;
        let ended = loop {
            if seen >= polls && kill < 30 {
                break false;
            }
            let pause = Duration::from_micros(random.below(3_000));
            match tokio::time::timeout(pause, run.next()).await {
                Ok(Some(_)) => seen += 1,
                Ok(None) => break true,
                Err(_) if kill < 30 && random.below(4) == 0 => break false,
                Err(_) => {}
            }
        };
        if ended && run.summary().stopped.is_none() {
            return run.summary();
        }
        drop(run);
        tear(&mut random, dir);
    }
    panic!("the run did not end");
}

/// What a killed process may leave behind: the end of the last write is missing.
fn tear(random: &mut Random, dir: &Path) {
    for run in std::fs::read_dir(dir.join("imports")).expect("runs") {
        let path = run.expect("a run").path().join("journal.wal");
        // The writer of the dropped run may still be working.
        std::thread::sleep(Duration::from_millis(2));
        let Ok(file) = std::fs::OpenOptions::new().append(true).open(&path) else { continue };
        if random.below(2) == 0 {
            use std::io::Write;
            let torn = random.bytes::<7>();
            let _ = (&file).write_all(&torn[..usize::try_from(random.below(7)).expect("small")]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_anywhere_each_row_is_there_once() {
    for seed in 0..6 {
        let model = Model::new();
        model.edit(|state| (state.delay, state.remembers_keys) = (Duration::from_micros(300), seed % 2 == 0));
        if seed >= 3 {
            model.mixed_trouble(10);
        }
        let dir = tempfile::tempdir().expect("a directory");
        let start = |model: &Model| {
            let source = match seed % 3 {
                0 => same(3_000),
                1 => distinct(3_000),
                _ => MemorySource::same("rows", CreateLink::new(), (0..3_000).map(|_| None)),
            };
            let import = model.client().bulk_import(source).journal_with(journal(dir.path()).patient());
            if seed % 3 == 2 { import.generate_ids("salt") } else { import }
        };
        let summary = kill_until_done(&model, dir.path(), start, seed).await;
        assert_eq!(model.edit(|state| state.links.len()), 3_000, "seed {seed}");
        model.edit(|state| assert!(state.made.values().all(|made| *made == 1), "seed {seed}"));
        let counts = summary.counts;
        assert_eq!(
            (counts.created + counts.existed, counts.unsent, counts.unknown),
            (3_000, 0, 0),
            "seed {seed}: {counts:?}"
        );
        // A run whose requests were remembered has made each link itself.
        if seed % 2 == 0 {
            assert_eq!(counts.created, 3_000, "seed {seed}: {counts:?}");
        }
        let runs = FileJournal::list(&dir.path().join("imports")).expect("runs");
        assert_eq!((runs.len(), runs[0].finished, runs[0].counts), (1, true, counts));
    }
}

/// Stops a run after its first outcomes.
async fn half_way(model: &Model, dir: &Path, source: MemorySource) -> Summary {
    model.edit(|state| state.delay = Duration::from_millis(3));
    let mut run = patient(model.client().bulk_import(source).journal_with(journal(dir))).start().await.expect("a run");
    for _ in 0..150 {
        run.next().await.expect("an outcome");
    }
    run.stop();
    let (_, summary) = run_to_end(&mut run).await;
    assert!(summary.counts.unsent > 0);
    summary
}

#[tokio::test]
async fn a_resumed_run_tells_all_its_rows() {
    let (model, dir) = (Model::new(), tempfile::tempdir().expect("a directory"));
    let before = half_way(&model, dir.path(), same(5_000)).await;
    let pending = journal(dir.path()).pending().expect("readable").expect("an unfinished run");
    assert_eq!((pending.run.as_str(), pending.finished, pending.locked), (before.run.as_str(), false, false));
    assert_eq!(pending.counts.created, before.counts.created);
    model.clear_log();
    let mut run =
        quick(model.client().bulk_import(same(5_000)).journal_with(journal(dir.path()))).start().await.expect("a run");
    assert!(run.is_resumed());
    let (outcomes, summary) = run_to_end(&mut run).await;
    assert_eq!((summary.run, summary.counts.created, outcomes.len()), (before.run, 5_000, 5_000));
    let mut lines: Vec<u64> = outcomes.iter().map(|outcome| outcome.line).collect();
    lines.sort_unstable();
    assert_eq!(lines, (1..=5_000).collect::<Vec<u64>>());
    assert!(outcomes.iter().all(|outcome| {
        outcome.result.url() == Some(&*format!("https://go.example.com/{}", outcome.id.as_deref().expect("an id")))
    }));
    assert!(model.requests("POST", "/") < 50, "settled rows are not sent again");
    assert!(journal(dir.path()).pending().expect("readable").is_none());
    // The same command starts a new run and finds everything there.
    let (outcomes, _) = import(model.client().bulk_import(same(5_000)).journal_with(journal(dir.path()))).await;
    assert_eq!(statuses(&outcomes), [("existed", 5_000)].into());
}

#[tokio::test]
async fn changed_content_service_or_account_is_refused() {
    let (model, dir) = (Model::new(), tempfile::tempdir().expect("a directory"));
    half_way(&model, dir.path(), same(5_000)).await;
    let start = |import: BulkImport| async { quick(import).start().await.map(drop).expect_err("refused") };
    let changed = start(model.client().bulk_import(same(5_001)).journal_with(journal(dir.path()))).await;
    assert!(matches!(changed, ImportError::Journal(JournalError::Changed { what: "content", .. })), "{changed:?}");

    let elsewhere = Client::builder("https://other.example.com").transport(model.clone()).build().expect("a client");
    let changed = start(elsewhere.bulk_import(same(5_000)).journal_with(journal(dir.path()))).await;
    assert!(matches!(changed, ImportError::Journal(JournalError::Changed { what: "service", .. })), "{changed:?}");

    let other_account = start(Model::new().client().bulk_import(same(5_000)).journal_with(journal(dir.path()))).await;
    assert!(matches!(other_account, ImportError::Journal(JournalError::OtherAccount { .. })), "{other_account:?}");

    let restarted = model.client().bulk_import(same(5_001)).journal_with(journal(dir.path()).restart(true));
    let (_, summary) = import(restarted).await;
    assert_eq!(summary.counts.rows, 5_001);
    assert_eq!(FileJournal::list(&dir.path().join("imports")).expect("runs").len(), 2);
}

#[tokio::test]
async fn a_run_has_one_process() {
    let (model, dir) = (Model::new(), tempfile::tempdir().expect("a directory"));
    model.edit(|state| state.delay = Duration::from_millis(50));
    let mut run =
        quick(model.client().bulk_import(same(5_000)).journal_with(journal(dir.path()))).start().await.expect("a run");
    run.next().await.expect("an outcome");
    let runs = FileJournal::list(&dir.path().join("imports")).expect("runs");
    assert!(runs[0].locked);
    assert!(matches!(FileJournal::remove(&runs[0]), Err(JournalError::Locked { .. })));
    let second = quick(model.client().bulk_import(same(5_000)).journal_with(journal(dir.path()))).start().await;
    assert!(matches!(second.map(drop), Err(ImportError::Journal(JournalError::Locked { .. }))));
    drop(run);
    tokio::time::sleep(Duration::from_millis(100)).await;
    FileJournal::remove(&runs[0]).expect("removed");
    assert!(FileJournal::list(&dir.path().join("imports")).expect("runs").is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_may_read_a_journal() {
    use std::os::unix::fs::PermissionsExt;
    let (model, dir) = (Model::new(), tempfile::tempdir().expect("a directory"));
    import(model.client().bulk_import(same(200)).journal_with(journal(dir.path()))).await;
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let run = FileJournal::list(&dir.path().join("imports")).expect("runs").remove(0);
    assert_eq!((mode(&dir.path().join("imports")), mode(&run.dir)), (0o700, 0o700));
    let mut names: Vec<String> = std::fs::read_dir(&run.dir)
        .expect("files")
        .map(|entry| {
            let path = entry.expect("a file").path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
            let text = String::from_utf8_lossy(&std::fs::read(&path).expect("readable")).into_owned();
            assert!(!text.contains("dl_live"), "{}", path.display());
            path.file_name().expect("a name").to_string_lossy().into_owned()
        })
        .collect();
    names.sort();
    assert_eq!(names, ["journal.wal", "lock", "plan.json", "summary.json"]);
}

/// A journal in memory that can be edited between runs.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Entry>>>);

impl Journal for Notes {
    fn open(&self, _: &RunPlan) -> Result<Opened, JournalError> {
        Ok(Opened::new("notes", !self.0.lock().expect("not poisoned").is_empty()))
    }

    fn replay(&self, each: &mut dyn FnMut(Entry)) -> Result<(), JournalError> {
        self.0.lock().expect("not poisoned").iter().cloned().for_each(each);
        Ok(())
    }

    fn append(&self, entry: Entry) -> crate::transport::BoxFuture<'static, Result<(), JournalError>> {
        self.0.lock().expect("not poisoned").push(entry);
        Box::pin(async { Ok(()) })
    }
}

/// A run that was killed after its requests were applied and before any response was journaled.
async fn all_intents_open(model: &Model, source: MemorySource) -> Notes {
    let notes = Notes::default();
    import(model.client().bulk_import(source).journal_with(notes.clone())).await;
    notes.0.lock().expect("not poisoned").retain(|entry| matches!(entry, Entry::Intent(_)));
    model.clear_log();
    notes
}

#[tokio::test]
async fn an_intent_alone_is_resent_under_its_key() {
    for source in [same(450), distinct(450)] {
        let model = Model::new();
        let notes = all_intents_open(&model, source.clone()).await;
        let run = model.client().bulk_import(source).journal_with(notes).on_conflict(OnConflict::Fail);
        let (outcomes, summary) = import(run).await;
        assert_eq!(statuses(&outcomes), [("created", 450)].into(), "replayed");
        assert_eq!((summary.counts.requests, model.requests("GET", "/")), (5, 0));
    }
}

#[tokio::test]
async fn an_old_or_forgotten_key_is_not_trusted() {
    let model = Model::new();
    for age_hours in [0, 22, 24] {
        model.edit(|state| (state.links.clear(), state.replies.clear()));
        let notes = all_intents_open(&model, same(450)).await;
        for entry in &mut *notes.0.lock().expect("not poisoned") {
            if let Entry::Intent(intent) = entry {
                intent.at = intent.at.plus_millis(-age_hours * 3_600_000);
                // Another service, or a body that cannot be reproduced, shows as a different digest.
                if age_hours == 0 {
                    intent.body = "0".repeat(64);
                }
            }
        }
        let run = model.client().bulk_import(same(450)).journal_with(notes).on_conflict(OnConflict::Fail);
        let (outcomes, _) = import(run).await;
        let expected = if age_hours == 22 { "created" } else { "existed" };
        assert_eq!(statuses(&outcomes), [(expected, 450)].into(), "{age_hours}");
        assert_eq!(model.edit(|state| state.links.len()), 450);
    }
}

#[tokio::test]
async fn a_key_that_was_used_for_something_else_is_given_up() {
    let model = Model::new();
    let notes = all_intents_open(&model, same(450)).await;
    // The service remembers different bytes under these keys.
    let _ = all_intents_open(&model, distinct(450)).await;
    for entry in &mut *notes.0.lock().expect("not poisoned") {
        if let Entry::Intent(intent) = entry {
            let other = model.edit(|state| state.log.clone());
            assert!(other.is_empty());
            intent.key = format!("dl-taken-{}", intent.batch);
        }
    }
    let client = model.client();
    for batch in 1..=5 {
        let call = client.request(http::Method::POST, "/v1/links").idempotency_key(format!("dl-taken-{batch}"));
        call.json(&CreateLink::new().custom_id(format!("other-{batch}"))).await.expect("a reply");
    }
    let (outcomes, _) = import(client.bulk_import(same(450)).journal_with(notes).on_conflict(OnConflict::Fail)).await;
    assert_eq!(statuses(&outcomes), [("existed", 450)].into());
}

#[test]
fn a_torn_tail_is_cut_and_the_rest_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let plan = RunPlan { source: "rows".into(), digest: "0".into(), origin: "https://example.com".into(), rows: 3 };
    let done = |batch: u64| {
        let rows = vec![(Settled::Created, [batch].into_iter().collect())];
        Entry::Done(Done { batch, attempt: 0, rows, base: "https://go.example.com/".into() })
    };
    let open = || {
        let journal = FileJournal::new(dir.path());
        let opened = journal.open(&plan).expect("a journal");
        let mut entries = Vec::new();
        journal.replay(&mut |entry| entries.push(entry)).expect("readable");
        (journal, opened, entries)
    };
    let (journal, first, _) = open();
    for batch in 0..3 {
        drop(journal.append(done(batch)));
    }
    drop(journal);
    let path = dir.path().join(&first.run).join("journal.wal");
    let whole = std::fs::read(&path).expect("a journal");
    let entries = [done(0), done(1), done(2)];
    for cut in 0..whole.len() {
        std::fs::write(&path, &whole[..cut]).expect("written");
        let (journal, opened, found) = open();
        assert!(opened.resumed && entries.starts_with(&found), "{cut}");
        // The next write follows the last complete entry.
        drop(journal.append(done(9)));
        drop(journal);
        let (_, _, more) = open();
        assert_eq!(more.last(), Some(&done(9)), "{cut}");
        assert_eq!(more.len(), found.len() + 1);
    }
    // Nothing after a flipped bit can be trusted.
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    std::fs::write(&path, &flipped).expect("written");
    assert_eq!(open().2, vec![done(0)]);
}
