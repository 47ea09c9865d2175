//! The machine's own delays: how late a thread wakes, and how long the disk takes for a page. Tests subtract them from
//! their measurements, since no server could have been faster.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// The interval between two samples.
const PAUSE: Duration = Duration::from_millis(10);
/// Samples between two page writes, so that this does not keep the disk busy.
const EVERY: usize = 10;
/// A page write takes at least this long on any disk.
const USUAL: Duration = Duration::from_millis(5);
/// An answer needs several threads in turn, in this process and in the server's, and each may be late.
const THREADS: u32 = 3;

/// A delay: when it ended, and how long it was.
type Note = (Instant, Duration);

/// Samples until it is dropped.
#[derive(Debug)]
pub struct Meter {
    notes: Arc<Mutex<Vec<Note>>>,
    end: Arc<AtomicBool>,
    looking: Option<JoinHandle<()>>,
}

impl Meter {
    /// Starts sampling, with its own page on the disk that this file is on.
    pub fn start(page: PathBuf) -> Self {
        let (notes, end) = (Arc::<Mutex<Vec<Note>>>::default(), Arc::<AtomicBool>::default());
        let (into, ends) = (Arc::clone(&notes), Arc::clone(&end));
        let looking = std::thread::spawn(move || look(&page, &into, &ends));
        Self { notes, end, looking: Some(looking) }
    }

    fn delays(&self, from: impl Into<Instant>, to: impl Into<Instant>) -> Vec<Duration> {
        let (from, to) = (from.into(), to.into());
        let notes = self.notes.lock().expect("the notes");
        notes.iter().filter(|(at, took)| *at > from && *at < to + *took).map(|(_, took)| *took).collect()
    }

    /// The longest delay between two moments.
    pub fn worst(&self, from: impl Into<Instant>, to: impl Into<Instant>) -> Duration {
        self.delays(from, to).into_iter().max().unwrap_or_default()
    }

    /// The delay that one answer may have had between two moments.
    pub fn lost_by_one(&self, from: impl Into<Instant>, to: impl Into<Instant>) -> Duration {
        self.worst(from, to) * THREADS
    }

    /// The delay between two moments of something that ran all the time.
    pub fn lost(&self, from: impl Into<Instant>, to: impl Into<Instant>) -> Duration {
        self.delays(from, to).into_iter().sum()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        drop(self.looking.take().map(JoinHandle::join));
    }
}

fn look(page: &Path, notes: &Mutex<Vec<Note>>, end: &AtomicBool) {
    let mut file = File::create(page).expect("a file beside the data");
    for nth in 0_usize.. {
        if end.load(Ordering::Relaxed) {
            return;
        }
        let began = Instant::now();
        sleep(PAUSE);
        let mut late = began.elapsed().saturating_sub(PAUSE);
        if nth % EVERY == 0 {
            let began = Instant::now();
            let written = file.rewind().and_then(|()| file.write_all(&[b'x'; 4_096])).and_then(|()| file.sync_all());
            written.expect("the page is written");
            late += began.elapsed().saturating_sub(USUAL);
        }
        notes.lock().expect("the notes").push((Instant::now(), late));
    }
}
