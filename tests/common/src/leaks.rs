//! X17, X18: no secret appears in a log or in the database.
//!
//! What this process logs goes to files without a name: our own crates at TRACE, others at DEBUG, or at TRACE after
//! [`log_everything`]. Each test has its own file, identified by its runtime; what is logged outside of such a runtime
//! goes to one more. A [`World`] knows the secrets that were issued or sent in it, and when it ends searches both for
//! the time it lived.
//!
//! [`World`]: super::World

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use aho_corasick::AhoCorasick;
use deeplink_doubles::machine;
use tokio::runtime::{Handle, Id};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, dynamic_filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

static LOGS: LazyLock<Logs> = LazyLock::new(|| {
    // The browser driver logs what it types; that is no log of the service.
    let usual = Targets::new()
        .with_default(LevelFilter::DEBUG)
        .with_target("deeplink", LevelFilter::TRACE)
        .with_target("thirtyfour", LevelFilter::OFF);
    let everything = dynamic_filter_fn(|line, _| {
        ANY_HAS_EVERYTHING.load(Ordering::Relaxed)
            && !line.target().starts_with("thirtyfour")
            && Log::current().has_everything.load(Ordering::Relaxed)
    });
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(Log::current);
    tracing_subscriber::registry()
        .with(lines.with_filter(usual.or(everything)))
        .try_init()
        .expect("the log is set once");
    Logs { of: RwLock::default(), elsewhere: Arc::new(Log::new()) }
});

/// Keeps the log lines of other crates cheap while they are not wanted.
static ANY_HAS_EVERYTHING: AtomicBool = AtomicBool::new(false);

struct Logs {
    of: RwLock<HashMap<Id, Weak<Log>>>,
    elsewhere: Arc<Log>,
}

#[derive(Debug)]
struct Log {
    file: File,
    has_everything: AtomicBool,
}

impl Log {
    fn new() -> Self {
        Self { file: machine::file(), has_everything: AtomicBool::new(false) }
    }

    /// The log of this runtime, created if there is none.
    fn here() -> Arc<Self> {
        let mut of = LOGS.of.write().unwrap_or_else(PoisonError::into_inner);
        let log = of.entry(Handle::current().id()).or_default();
        log.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Self::new());
            *log = Arc::downgrade(&new);
            new
        })
    }

    /// The log that a line belongs to.
    fn current() -> Writer {
        let of = LOGS.of.read().unwrap_or_else(PoisonError::into_inner);
        let here = Handle::try_current().ok().and_then(|runtime| of.get(&runtime.id())?.upgrade());
        Writer(here.unwrap_or_else(|| Arc::clone(&LOGS.elsewhere)))
    }

    fn end(&self) -> u64 {
        self.file.metadata().expect("the log has a length").len()
    }
}

/// Appends to a log; readers give the offset.
struct Writer(Arc<Log>);

impl std::ops::Deref for Writer {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.0
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0.file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The secrets of one world.
#[derive(Debug)]
pub(crate) struct Secrets {
    known: Mutex<Known>,
    /// Where the logs were when the world began.
    since: Mark,
}

#[derive(Debug, Default)]
struct Known {
    texts: BTreeSet<String>,
    /// Matches them all; rebuilt when there is a new one.
    searcher: Option<AhoCorasick>,
}

/// Shorter or longer texts are not secrets.
const LENGTHS: std::ops::RangeInclusive<usize> = 12..=256;

impl Secrets {
    /// From now on.
    pub(crate) fn new() -> Self {
        Self { known: Mutex::default(), since: log_mark() }
    }

    /// Notes a secret.
    pub(crate) fn note(&self, secret: &str) {
        let mut known = self.known();
        if LENGTHS.contains(&secret.len()) && known.texts.insert(secret.to_owned()) {
            known.searcher = None;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn searcher(&self) -> AhoCorasick {
        let mut known = self.known();
        if known.searcher.is_none() {
            known.searcher = Some(AhoCorasick::new(&known.texts).expect("a searcher"));
        }
        known.searcher.clone().expect("it was made")
    }

    /// The first known secret in a text, with the text around it.
    pub(crate) fn found_in(&self, text: &[u8]) -> Option<String> {
        let searcher = self.searcher();
        let found = searcher.find(text)?;
        let around = &text[found.start().saturating_sub(200)..(found.end() + 80).min(text.len())];
        Some(String::from_utf8_lossy(around).into_owned())
    }

    /// Fails when a secret was logged since the world began.
    pub(crate) fn assert_not_logged(&self) {
        let searcher = self.searcher();
        let longest = *LENGTHS.end();
        let mut chunk = vec![0; 1 << 20];
        for (log, since) in &self.since.0 {
            let (mut at, end) = (*since, log.end());
            while at < end {
                let read = log.file.read_at(&mut chunk, at).expect("the log can be read");
                if let Some(found) = searcher.find(&chunk[..read]) {
                    let line = chunk[..read].split(|byte| *byte == b'\n').find(|line| searcher.is_match(line));
                    let line = line.unwrap_or(&chunk[found.start()..found.end()]);
                    panic!("a secret is in the log: {}", String::from_utf8_lossy(line));
                }
                if read <= longest {
                    break;
                }
                at += (read - longest) as u64;
            }
        }
    }
}

/// A position in the logs that a test can see: its own, and what is logged outside of any test's runtime.
#[derive(Debug)]
pub struct Mark([(Arc<Log>, u64); 2]);

/// Where the logs end now, for [`logged_since`].
pub fn log_mark() -> Mark {
    Mark([Log::here(), Arc::clone(&LOGS.elsewhere)].map(|log| {
        let end = log.end();
        (log, end)
    }))
}

/// From here on, this test's log has every crate's lines at TRACE. Call it before the first world.
pub fn log_everything() -> Mark {
    let mark = log_mark();
    mark.0.iter().for_each(|(log, _)| log.has_everything.store(true, Ordering::Relaxed));
    ANY_HAS_EVERYTHING.store(true, Ordering::Relaxed);
    mark
}

/// What was logged since a mark.
pub fn logged_since(mark: &Mark) -> String {
    let read = |(log, since): &(Arc<Log>, u64)| {
        let mut bytes = vec![0; usize::try_from(log.end() - since).unwrap_or(0)];
        log.file.read_exact_at(&mut bytes, *since).expect("the log can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    mark.0.iter().map(read).collect()
}
