//! X17, X18: no secret stands in a log at any level or in the database.
//!
//! Everything that any crate of this process logs at TRACE goes to one file without a name. A [`World`] knows the secrets
//! that were issued or sent in it, and searches what was logged in its time when it ends.
//!
//! [`World`]: super::World

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use aho_corasick::AhoCorasick;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

static LOG: LazyLock<Log> = LazyLock::new(|| {
    let log = Log(tempfile::tempfile().expect("a file for the log"));
    // What drives a browser writes down what it types into it; that is no log of the service.
    let all = Targets::new().with_default(LevelFilter::TRACE).with_target("thirtyfour", LevelFilter::OFF);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(|| Append);
    tracing_subscriber::registry().with(lines.with_filter(all)).try_init().expect("nobody else takes the log");
    log
});

struct Log(File);

/// Writes to the end of the log; whoever reads names the place.
struct Append;

impl Write for Append {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&LOG.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const _: fn() = || {
    fn is_make_writer<T: for<'a> MakeWriter<'a>>(_: T) {}
    is_make_writer(|| Append);
};

/// The secrets of one world.
#[derive(Debug)]
pub(super) struct Secrets {
    known: Mutex<Known>,
    /// Where the log was when the world began.
    since: u64,
}

#[derive(Debug, Default)]
struct Known {
    texts: BTreeSet<String>,
    /// Finds them all; made anew when there is a new one.
    searcher: Option<AhoCorasick>,
}

/// What is shorter or longer is no secret.
const LENGTHS: std::ops::RangeInclusive<usize> = 12..=256;

impl Secrets {
    /// From now on.
    pub(super) fn new() -> Self {
        Self { known: Mutex::default(), since: log_end() }
    }

    /// Notes a secret.
    pub(super) fn note(&self, secret: &str) {
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

    /// The first known secret in a text, with what stands around it.
    pub(super) fn found_in(&self, text: &[u8]) -> Option<String> {
        let searcher = self.searcher();
        let found = searcher.find(text)?;
        let around = &text[found.start().saturating_sub(200)..(found.end() + 80).min(text.len())];
        Some(String::from_utf8_lossy(around).into_owned())
    }

    /// Fails when a secret was logged since the world began.
    pub(super) fn assert_not_logged(&self) {
        let searcher = self.searcher();
        let longest = *LENGTHS.end();
        let (mut at, end) = (self.since, log_end());
        let mut chunk = vec![0; 1 << 20];
        while at < end {
            let read = LOG.0.read_at(&mut chunk, at).expect("the log can be read");
            if let Some(found) = searcher.find(&chunk[..read]) {
                let line = chunk[..read].split(|byte| *byte == b'\n').find(|line| searcher.is_match(line));
                let line = line.unwrap_or(&chunk[found.start()..found.end()]);
                panic!("a secret stands in the log: {}", String::from_utf8_lossy(line));
            }
            if read <= longest {
                break;
            }
            at += (read - longest) as u64;
        }
    }
}

fn log_end() -> u64 {
    LOG.0.metadata().expect("the log has a length").len()
}

/// Where the log ends now, for [`logged_since`].
pub(crate) fn log_mark() -> u64 {
    log_end()
}

/// What was logged since a mark, by everybody in this process.
pub(crate) fn logged_since(mark: u64) -> String {
    let mut bytes = vec![0; usize::try_from(log_end() - mark).unwrap_or(0)];
    let read = LOG.0.read_at(&mut bytes, mark).expect("the log can be read");
    bytes.truncate(read);
    String::from_utf8_lossy(&bytes).into_owned()
}
