//! How many codes are drawn at one time, and the finished ones of this node.

use std::sync::Arc;
use std::thread::available_parallelism;

use bytes::Bytes;
use deeplink_core::error::ErrorCode;
use deeplink_core::qr::{QrFormat, QrStyle};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Layout, draw};
use crate::error::ApiError;

/// Requests that wait for their turn.
const WAITING: usize = 16;
/// Finished codes that are kept, in bytes.
const FINISHED_BYTES: u64 = 32 << 20;
/// Codes of landing pages that are kept, in bytes.
const ON_PAGES_BYTES: u64 = 16 << 20;
/// What an entry costs beside its texts: handles, table slot, counters.
const ENTRY_BYTES: usize = 160;

/// Draws codes on the threads for blocking work, so that nobody's redirect waits for a picture, and keeps them.
#[derive(Debug)]
pub(crate) struct Codes {
    /// By entity tag.
    finished: Cache<Box<str>, Bytes, Weight>,
    /// As the source of an image, by the link's address.
    on_pages: Cache<String, Arc<str>, Weight>,
    /// Requests at work and in the line.
    admitted: Semaphore,
    at_work: Arc<Semaphore>,
    /// A page's code is small, so it has a place of its own and does not stand in the line of those who want large ones.
    for_pages: Arc<Semaphore>,
}

impl Codes {
    pub(crate) fn new() -> Self {
        let at_once = at_once();
        Self {
            finished: Cache::with_weighter(1_000, FINISHED_BYTES, Weight),
            on_pages: Cache::with_weighter(1_000, ON_PAGES_BYTES, Weight),
            admitted: Semaphore::new(at_once + WAITING),
            at_work: Arc::new(Semaphore::new(at_once)),
            for_pages: Arc::new(Semaphore::new(1)),
        }
    }

    /// A finished code.
    pub(crate) fn finished(&self, tag: &str) -> Option<Bytes> {
        self.finished.get(tag)
    }

    /// Takes a place in the line, or refuses at once. Whoever hangs up before the turn gives it back, and nothing is
    /// begun.
    pub(crate) fn admit(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        let full = ApiError::Plain(ErrorCode::Overloaded, "too many codes are being drawn; try again");
        self.admitted.try_acquire().map_err(|_| full)
    }

    /// Does a piece of work when it is its turn.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        _place: &SemaphorePermit<'_>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        run(&self.at_work, work).await
    }

    /// Keeps a finished code.
    pub(crate) fn keep(&self, tag: String, image: Bytes) {
        self.finished.insert(tag.into(), image);
    }

    /// A link's code in the default style for a page: the value of `src`, ready to stand between double quotes. It is
    /// drawn once, however many ask at the same time.
    pub(crate) async fn on_page(&self, url: &str) -> Result<Arc<str>, ApiError> {
        let content = url.to_owned();
        self.on_pages.get_or_insert_async(url, async { run(&self.for_pages, move || source_of(&content)).await? }).await
    }
}

/// Pieces of work at one time: one for each core. With more than that at work, redirects wait for a core.
fn at_once() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Runs on the threads for blocking work, which are told apart from the ones that answer.
async fn run<T: Send + 'static>(
    places: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let closed = |_| ApiError::Internal("the places for drawing are closed".into());
    let place = Arc::clone(places).acquire_owned().await.map_err(closed)?;
    let done = tokio::task::spawn_blocking(move || {
        // Kept until the work is done, also when nobody waits for it any more.
        let _place = place;
        work()
    });
    done.await.map_err(|error| ApiError::Internal(format!("drawing failed: {error}")))
}

fn source_of(content: &str) -> Result<Arc<str>, ApiError> {
    let style = QrStyle::default();
    let layout = Layout::of(&style, QrFormat::Svg, content).map_err(|why| ApiError::Internal(why.to_string()))?;
    let svg = draw(&layout, &style, content, None);
    let mut source = String::with_capacity(svg.len() + svg.len() / 8);
    source.push_str("data:image/svg+xml,");
    // What would end the attribute or the address; a third of what base64 would add.
    for byte in svg {
        match byte {
            b'"' => source.push('\''),
            b'<' => source.push_str("%3C"),
            b'>' => source.push_str("%3E"),
            b'#' => source.push_str("%23"),
            b'%' => source.push_str("%25"),
            b'&' => source.push_str("%26"),
            _ => source.push(char::from(byte)),
        }
    }
    Ok(source.into())
}

#[derive(Debug, Clone)]
struct Weight;

impl Weighter<Box<str>, Bytes> for Weight {
    fn weight(&self, key: &Box<str>, image: &Bytes) -> u64 {
        (ENTRY_BYTES + key.len() + image.len()) as u64
    }
}

impl Weighter<String, Arc<str>> for Weight {
    fn weight(&self, key: &String, source: &Arc<str>) -> u64 {
        (ENTRY_BYTES + key.len() + source.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// Q2: one code at a time for each core, 16 in the line, and the next is refused at once.
    #[tokio::test]
    async fn q2_the_line_has_an_end() {
        let codes = Codes::new();
        let at_once = at_once();
        let mut places: Vec<_> = (0..at_once + WAITING).map(|_| codes.admit().expect("a place")).collect();
        assert!(matches!(codes.admit(), Err(ApiError::Plain(ErrorCode::Overloaded, _))));
        // All that may be drawn at one time is: a barrier that one fewer could not pass.
        assert_eq!(codes.at_work.available_permits(), at_once);
        let barrier = Arc::new(Barrier::new(at_once));
        let drawn = places[..at_once].iter().map(|place| {
            let barrier = Arc::clone(&barrier);
            codes.work(place, move || barrier.wait().is_leader())
        });
        for done in futures_util::future::join_all(drawn).await {
            done.expect("drawn");
        }
        places.pop();
        drop(codes.admit().expect("a place that was given back"));
    }

    /// Whoever hangs up while a code is drawn does not make room for one more.
    #[tokio::test]
    async fn what_was_begun_counts_until_it_is_done() {
        let codes = Codes::new();
        let at_once = codes.at_work.available_permits();
        let place = codes.admit().expect("a place");
        let (open, closed) = std::sync::mpsc::channel::<()>();
        let (begun, at_work) = tokio::sync::oneshot::channel();
        let work = codes.work(&place, move || {
            let _ = begun.send(());
            assert!(closed.recv().is_err(), "until the other end is gone");
        });
        tokio::select! {
            _ = work => panic!("it cannot be done yet"),
            begun = at_work => begun.expect("begun"),
        }
        assert_eq!(codes.at_work.available_permits(), at_once - 1);
        drop(open);
        let all = u32::try_from(at_once).expect("a small number");
        drop(codes.at_work.acquire_many(all).await.expect("all places, once it is done"));
    }

    #[tokio::test]
    async fn a_pages_code_is_one_address_and_drawn_once() {
        let codes = Codes::new();
        let url = "https://go.example.com/r/AbC12345";
        let source = codes.on_page(url).await.expect("a source");
        assert!(source.starts_with("data:image/svg+xml,%3Csvg "), "{source}");
        assert!(!source.contains(['"', '<', '>', '&', '#']), "{source}");
        assert!(Arc::ptr_eq(&source, &codes.on_page(url).await.expect("a source")));
        let plain = source.replace("%3C", "<").replace("%3E", ">").replace("%23", "#").replace('\'', "\"");
        let style = QrStyle::default();
        let layout = Layout::of(&style, QrFormat::Svg, url).expect("a layout");
        assert_eq!(plain.trim_start_matches("data:image/svg+xml,").as_bytes(), draw(&layout, &style, url, None));
    }
}
