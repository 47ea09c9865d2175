//! Limits on concurrent drawing, and a cache of finished codes.

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

/// Requests that wait for a drawing slot.
const MAX_WAITING: usize = 16;
/// Cached codes, in bytes.
const CACHE_BYTES: u64 = 32 << 20;
/// Cached codes of landing pages, in bytes.
const PAGE_CACHE_BYTES: u64 = 16 << 20;
/// Overhead of an entry: handles, table slot, counters.
const ENTRY_BYTES: usize = 160;

/// Draws codes on the threads for blocking work, so that redirects do not wait, and caches them.
#[derive(Debug)]
pub(crate) struct Codes {
    /// By entity tag.
    images: Cache<Box<str>, Bytes, Weight>,
    /// Values of `src`, by the link's URL.
    page_images: Cache<String, Arc<str>, Weight>,
    /// Requests being drawn or waiting.
    admitted: Semaphore,
    slots: Arc<Semaphore>,
    /// A page's code is small, so it has a slot of its own and does not wait for large ones.
    page_slot: Arc<Semaphore>,
}

impl Codes {
    pub(crate) fn new() -> Self {
        let at_once = at_once();
        Self {
            images: Cache::with_weighter(1_000, CACHE_BYTES, Weight),
            page_images: Cache::with_weighter(1_000, PAGE_CACHE_BYTES, Weight),
            admitted: Semaphore::new(at_once + MAX_WAITING),
            slots: Arc::new(Semaphore::new(at_once)),
            page_slot: Arc::new(Semaphore::new(1)),
        }
    }

    /// A cached code.
    pub(crate) fn cached(&self, tag: &str) -> Option<Bytes> {
        self.images.get(tag)
    }

    /// A permit to wait for a slot, or a refusal at once. A caller who hangs up returns it, and drawing does not start.
    pub(crate) fn admit(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        let full = ApiError::Plain(ErrorCode::Overloaded, "too many codes are being drawn; try again");
        self.admitted.try_acquire().map_err(|_| full)
    }

    /// Runs a task once a slot is free.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        _permit: &SemaphorePermit<'_>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        run(&self.slots, work).await
    }

    /// Caches a code.
    pub(crate) fn insert(&self, tag: String, image: Bytes) {
        self.images.insert(tag.into(), image);
    }

    /// A link's code in the default style for a page: the value of `src`, without double quotes. Concurrent
    /// requests draw it once.
    pub(crate) async fn on_page(&self, url: &str) -> Result<Arc<str>, ApiError> {
        let content = url.to_owned();
        self.page_images
            .get_or_insert_async(url, async { run(&self.page_slot, move || source_of(&content)).await? })
            .await
    }
}

/// Slots: one per core. With more, redirects would wait for a core.
fn at_once() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Runs a task on the threads for blocking work once a slot is free.
async fn run<T: Send + 'static>(
    slots: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let closed = |_| ApiError::Internal("the drawing slots are closed".into());
    let slot = Arc::clone(slots).acquire_owned().await.map_err(closed)?;
    let done = tokio::task::spawn_blocking(move || {
        // Held until the task is done, even if its caller has gone.
        let _slot = slot;
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
    // Escapes what would end the attribute or the URL; adds a third of what base64 would.
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

    /// Q2: one code per core is drawn at a time, 16 wait, and the next is refused at once.
    #[tokio::test]
    async fn q2_the_queue_is_limited() {
        let codes = Codes::new();
        let at_once = at_once();
        let mut permits: Vec<_> = (0..at_once + MAX_WAITING).map(|_| codes.admit().expect("a permit")).collect();
        assert!(matches!(codes.admit(), Err(ApiError::Plain(ErrorCode::Overloaded, _))));
        // All slots are used: a barrier that one fewer could not pass.
        assert_eq!(codes.slots.available_permits(), at_once);
        let barrier = Arc::new(Barrier::new(at_once));
        let drawn = permits[..at_once].iter().map(|permit| {
            let barrier = Arc::clone(&barrier);
            codes.run(permit, move || barrier.wait().is_leader())
        });
        for done in futures_util::future::join_all(drawn).await {
            done.expect("drawn");
        }
        permits.pop();
        drop(codes.admit().expect("a returned permit"));
    }

    /// A caller who hangs up while a code is drawn does not free its slot.
    #[tokio::test]
    async fn a_slot_is_held_until_its_task_is_done() {
        let codes = Codes::new();
        let at_once = codes.slots.available_permits();
        let permit = codes.admit().expect("a permit");
        let (open, closed) = std::sync::mpsc::channel::<()>();
        let (begun, at_work) = tokio::sync::oneshot::channel();
        let work = codes.run(&permit, move || {
            let _ = begun.send(());
            assert!(closed.recv().is_err(), "until the other end is gone");
        });
        tokio::select! {
            _ = work => panic!("it cannot be done yet"),
            begun = at_work => begun.expect("begun"),
        }
        assert_eq!(codes.slots.available_permits(), at_once - 1);
        drop(open);
        let all = u32::try_from(at_once).expect("a small number");
        drop(codes.slots.acquire_many(all).await.expect("all slots, once it is done"));
    }

    #[tokio::test]
    async fn a_pages_code_is_a_data_url_and_drawn_once() {
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
