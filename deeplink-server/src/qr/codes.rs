//! Limits on concurrent drawing, and a cache of finished codes.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::error::ErrorCode;
use deeplink_core::id::TenantId;
use deeplink_core::qr::{QrFormat, QrStyle};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::timeout;

use super::{Layout, draw};
use crate::error::ApiError;
use crate::shares::limit::ShareLimit;
use crate::shares::{Share, Turn};

/// Requests of an account that wait for a drawing slot.
const MAX_WAITING: usize = 16;
/// How long a page waits for the slot.
const PAGE_WAIT: Duration = Duration::from_millis(100);
/// Cached codes, in bytes.
const CACHE_BYTES: u64 = 32 << 20;
/// Cached codes of landing pages, in bytes.
const PAGE_CACHE_BYTES: u64 = 16 << 20;
/// Overhead of an entry: handles, table slot, counters.
const ENTRY_BYTES: usize = 160;

/// Draws codes on the threads for blocking work, so that redirects do not wait, and caches them.
#[derive(Debug)]
pub(crate) struct Codes {
    /// Images by entity tag.
    images: Cache<Box<str>, Bytes, Weight>,
    /// Values of `src`, by the link's URL.
    page_images: Cache<String, Arc<str>, Weight>,
    /// Accounts take turns.
    slots: Arc<ShareLimit>,
    /// A page's code is small, so it has its own slot and does not wait for large ones.
    page_slot: Arc<ShareLimit>,
    page_wait: Duration,
}

impl Codes {
    pub(crate) fn new() -> Self {
        let at_once = at_once();
        Self {
            images: Cache::with_weighter(1_000, CACHE_BYTES, Weight),
            page_images: Cache::with_weighter(1_000, PAGE_CACHE_BYTES, Weight),
            slots: ShareLimit::new(at_once, at_once),
            page_slot: ShareLimit::new(1, 1),
            page_wait: PAGE_WAIT,
        }
    }

    /// A cached code.
    pub(crate) fn cached(&self, tag: &str) -> Option<Bytes> {
        self.images.get(tag)
    }

    /// Runs an account's task once a slot is free, or refuses it at once. If the caller hangs up first, drawing does
    /// not start.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        turn: Turn,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        const FULL: &str = "too many QR codes for this account are being generated; try again in a second";
        let full = ApiError::Plain(ErrorCode::Overloaded, FULL);
        let slot = self.slots.acquire(turn, MAX_WAITING).ok_or(full)?.await;
        draw_holding(slot, work).await
    }

    /// Caches a code.
    pub(crate) fn insert(&self, tag: String, image: Bytes) {
        self.images.insert(tag.into(), image);
    }

    /// The code of an account's link in the default style for a page: the value of `src`, without double quotes.
    /// Concurrent requests draw it once. `None` if it is not drawn soon: a page without its code is better than a late
    /// one.
    pub(crate) async fn on_page(&self, tenant: &str, url: &str) -> Option<Arc<str>> {
        let source = self.page_images.get_or_insert_async(url, async {
            let tenant: TenantId =
                tenant.parse().map_err(|_| Some(ApiError::Internal("a link's account has no valid id".into())))?;
            let slot = self.page_slot.acquire(Share::Account(tenant).into(), MAX_WAITING).ok_or(None)?;
            let slot = timeout(self.page_wait, slot).await.map_err(|_| None)?;
            let content = url.to_owned();
            draw_holding(slot, move || source_of(&content)).await.flatten().map_err(Some)
        });
        source
            .await
            .inspect_err(|error| {
                if let Some(error) = error {
                    tracing::error!(%error, "QR code could not be drawn");
                }
            })
            .ok()
    }
}

/// Slots: one per core. With more, redirects would wait for a core.
fn at_once() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Runs a task on the threads for blocking work. It holds its slot until it is done, even if its caller has gone.
async fn draw_holding<T: Send + 'static>(
    slot: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(move || {
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
    // Escapes characters that would end the attribute or the URL; this adds a third of the overhead of base64.
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
    use std::sync::{Barrier, Mutex};

    use futures_util::FutureExt;

    use super::*;

    fn tenant(number: u32) -> TenantId {
        format!("tnt_{number:024x}").parse().expect("an id")
    }

    /// Q2: one code per core is drawn at a time, 16 of an account wait, and the next is refused at once; another
    /// account's is not.
    #[tokio::test]
    async fn q2_the_queue_is_limited() {
        let (codes, tenants) = (Codes::new(), [tenant(1), tenant(2)]);
        // All slots are used: a barrier that one fewer could not pass.
        let barrier = Arc::new(Barrier::new(at_once() + 1));
        let drawn = (0..at_once()).map(|_| {
            let barrier = Arc::clone(&barrier);
            codes.run(Turn::from(&tenants[0]), move || {
                barrier.wait();
            })
        });
        let mut asked: Vec<_> = drawn.map(FutureExt::boxed_local).collect();
        asked.extend((0..MAX_WAITING).map(|_| codes.run(Turn::from(&tenants[0]), || ()).boxed_local()));
        asked.push(codes.run(Turn::from(&tenants[1]), || ()).boxed_local());
        for drawing in &mut asked {
            assert!(drawing.now_or_never().is_none(), "it is drawn or waits");
        }
        let refused = codes.run(Turn::from(&tenants[0]), || ()).now_or_never().expect("an answer at once");
        assert!(matches!(refused, Err(ApiError::Plain(ErrorCode::Overloaded, _))));
        tokio::task::spawn_blocking(move || barrier.wait());
        for done in futures_util::future::join_all(asked).await {
            done.expect("drawn");
        }
        codes.run(Turn::from(&tenants[0]), || ()).await.expect("there is room again");
    }

    /// Q2: as many codes as its affiliates may ask for leave an account the next slot but one.
    #[tokio::test]
    async fn q2_an_account_and_its_affiliates_take_turns() {
        let (codes, tenant, drawn) = (Codes::new(), tenant(1), Arc::new(Mutex::new(Vec::new())));
        let mut slots: Vec<_> = std::iter::from_fn(|| codes.slots.try_acquire((&tenant).into())).collect();
        let run = |is_restricted| {
            let drawn = Arc::clone(&drawn);
            let turn = Turn::from(&tenant).restricted(is_restricted);
            codes.run(turn, move || drawn.lock().expect("the codes").push(is_restricted)).boxed_local()
        };
        let mut asked: Vec<_> = (0..MAX_WAITING).map(|_| run(true)).collect();
        for drawing in &mut asked {
            assert!(drawing.now_or_never().is_none(), "it waits");
        }
        assert!(run(true).now_or_never().expect("an answer at once").is_err());
        let mut own = run(false);
        assert!((&mut own).now_or_never().is_none(), "it waits");
        asked.push(own);
        drop(slots.pop());
        for done in futures_util::future::join_all(asked).await {
            done.expect("drawn");
        }
        assert!(drawn.lock().expect("the codes")[..2].contains(&false));
    }

    /// A caller who hangs up while a code is drawn does not free its slot.
    #[tokio::test]
    async fn a_slot_is_held_until_its_task_is_done() {
        let (codes, tenant) = (Codes::new(), tenant(1));
        let (open, closed) = std::sync::mpsc::channel::<()>();
        let (begun, at_work) = tokio::sync::oneshot::channel();
        let work = codes.run(Turn::from(&tenant), move || {
            let _ = begun.send(());
            assert!(closed.recv().is_err(), "until the other end is dropped");
        });
        tokio::select! {
            _ = work => panic!("it cannot be done yet"),
            begun = at_work => begun.expect("begun"),
        }
        let free: Vec<_> = std::iter::from_fn(|| codes.slots.try_acquire((&tenant).into())).collect();
        assert_eq!(free.len(), at_once() - 1);
        drop(open);
        drop(codes.slots.acquire((&tenant).into(), 1).expect("a place").await);
    }

    /// Q2: 16 pages of an account wait for their codes, and the next is shown without its code at once, like one that
    /// waits for long; another account's waits for a turn of its own.
    #[tokio::test(start_paused = true)]
    async fn q2_pages_of_an_account_leave_slots_to_others() {
        let (codes, tenants) = (Codes::new(), [tenant(1), tenant(2)]);
        let url = |number: usize| format!("https://go.example.com/r/{number:08}");
        let slot = codes.page_slot.try_acquire((&tenants[0]).into()).expect("a slot");
        assert_eq!(
            codes.on_page(tenants[1].as_str(), &url(0)).await,
            None,
            "the slot is used for longer than a page waits"
        );
        // Drawing takes real time, on a busy machine longer than a page waits.
        tokio::time::resume();
        let codes = Codes { page_slot: Arc::clone(&codes.page_slot), page_wait: Duration::from_hours(1), ..codes };
        let urls: Vec<_> = (0..=MAX_WAITING).map(url).collect();
        let waiting = urls[..MAX_WAITING].iter().map(|url| codes.on_page(tenants[0].as_str(), url));
        let mut waiting = futures_util::future::join_all(waiting).boxed_local();
        assert!((&mut waiting).now_or_never().is_none(), "all wait");
        assert_eq!(codes.on_page(tenants[0].as_str(), &url(99)).now_or_never(), Some(None), "no place to wait");
        let mut other = codes.on_page(tenants[1].as_str(), &urls[MAX_WAITING]).boxed_local();
        assert!((&mut other).now_or_never().is_none(), "another account's waits");
        drop(slot);
        let (other, waiting) = tokio::join!(other, waiting);
        assert!(other.is_some() && waiting.iter().all(Option::is_some));
    }

    #[tokio::test]
    async fn a_pages_code_is_a_data_url_and_drawn_once() {
        let (codes, tenant) = (Codes::new(), tenant(1));
        let url = "https://go.example.com/r/AbC12345";
        let source = codes.on_page(tenant.as_str(), url).await.expect("a source");
        assert!(source.starts_with("data:image/svg+xml,%3Csvg "), "{source}");
        assert!(!source.contains(['"', '<', '>', '&', '#']), "{source}");
        assert!(Arc::ptr_eq(&source, &codes.on_page(tenant.as_str(), url).await.expect("a source")));
        let plain = source.replace("%3C", "<").replace("%3E", ">").replace("%23", "#").replace('\'', "\"");
        let style = QrStyle::default();
        let layout = Layout::of(&style, QrFormat::Svg, url).expect("a layout");
        assert_eq!(plain.trim_start_matches("data:image/svg+xml,").as_bytes(), draw(&layout, &style, url, None));
    }
}
