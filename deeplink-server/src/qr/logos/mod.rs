//! Logos that were asked for lately. Who asks for one that is being fetched waits for that one; whoever hangs up takes
//! nothing from the others.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::id::TenantId;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;
use url::Url;

use super::picture::Picture;
use super::{Logo, NotALogo};
use crate::error::ApiError;
use crate::outbound::http::{Call, Failed, Terms};
use crate::outbound::places::{Place, Places};
use crate::state::Shared;

/// For how long a logo is kept.
const KEPT: Duration = Duration::from_mins(10);
/// Memory for logos that are kept, in bytes.
const ROOM: usize = 32 << 20;
/// Memory for logos that are kept and the one that is being decoded, in bytes: what is kept gives way.
const TOGETHER: u64 = 48 << 20;
/// What an entry takes beside pixels and names.
const ENTRY: usize = 256;
/// Fetches at one time, and those of one tenant.
const PLACES: (usize, usize) = (16, 4);
/// How long a fetch may take, with the wait for its place.
const TOTAL: Duration = Duration::from_secs(5);
/// Largest file, in bytes.
const LARGEST: usize = 512 << 10;

/// Why there is no logo: all that a caller gets to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum NoLogo {
    #[error("could not be fetched")]
    NotFetched,
    #[error("larger than 512 KiB")]
    TooLarge,
    #[error(transparent)]
    NotALogo(#[from] NotALogo),
}

impl From<NoLogo> for ApiError {
    fn from(why: NoLogo) -> Self {
        Self::Invalid(Invalid::field(ErrorCode::InvalidQrOptions, "logo", format!("logo: {why}")))
    }
}

/// Whose logo, and where it is.
type Key = (TenantId, String);
type Outcome = Result<Arc<Logo>, NoLogo>;

/// The logos of this node.
#[derive(Debug)]
pub(crate) struct Logos {
    state: Mutex<State>,
    places: Arc<Places>,
    decoder: Decoder,
}

#[derive(Debug, Default)]
struct State {
    kept: Kept,
    under_way: HashMap<Key, watch::Receiver<Option<Outcome>>>,
}

impl Logos {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), places: Places::new(PLACES.0, PLACES.1), decoder: Decoder::default() }
    }

    /// The logo at a URL, for a tenant. A refusal names the parameter and says what is wrong with the file, or that
    /// there is none to be had, whatever the reason.
    pub(crate) async fn get(&self, app: &Shared, tenant: &TenantId, url: &str) -> Result<Arc<Logo>, ApiError> {
        let key = (tenant.clone(), url.to_owned());
        let mut outcome = {
            let mut state = self.state();
            if let Some(logo) = state.kept.get(&key, app.clock.monotonic_millis()) {
                return Ok(logo);
            }
            let under_way = state.under_way.get(&key).cloned();
            under_way.unwrap_or_else(|| {
                let (sender, receiver) = watch::channel(None);
                state.under_way.insert(key.clone(), receiver.clone());
                let fetch = Fetch { app: Arc::clone(app), key, sender, is_over: false };
                tokio::spawn(fetch.run().in_current_span());
                receiver
            })
        };
        let outcome = match outcome.wait_for(Option::is_some).await {
            Ok(outcome) => (*outcome).clone(),
            Err(_) => None,
        };
        Ok(outcome.unwrap_or(Err(NoLogo::NotFetched))?)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fetch that is under way.
struct Fetch {
    app: Shared,
    key: Key,
    sender: watch::Sender<Option<Outcome>>,
    is_over: bool,
}

/// However it ends, nobody waits for it afterwards.
impl Drop for Fetch {
    fn drop(&mut self) {
        if !self.is_over {
            self.app.logos.state().under_way.remove(&self.key);
        }
    }
}

impl Fetch {
    async fn run(mut self) {
        let outcome = self.logo().await.map(Arc::new);
        {
            let now = self.app.clock.monotonic_millis();
            let mut state = self.app.logos.state();
            if let Ok(logo) = &outcome {
                state.kept.keep(self.key.clone(), Arc::clone(logo), now);
            }
            // Before anybody is told, so that who asks again after a failure asks afresh.
            state.under_way.remove(&self.key);
        }
        self.is_over = true;
        self.sender.send_replace(Some(outcome));
    }

    async fn logo(&self) -> Result<Logo, NoLogo> {
        let (place, file) = self.file().await?;
        // Held until the pixels are there, so that no more files than places are in memory.
        let logo = decode(&self.app, file).await;
        drop(place);
        logo.inspect_err(|why| tracing::info!(host = self.host(), %why, "a logo is not drawn"))
    }

    async fn file(&self) -> Result<(Place, Bytes), NoLogo> {
        let (tenant, url) = &self.key;
        let terms = Terms { began: Instant::now(), total: TOTAL, largest: LARGEST };
        let Ok(place) = timeout_at(terms.end(), self.app.logos.places.wait(tenant)).await else {
            tracing::info!(host = self.host(), "a logo was not fetched: too many are being fetched");
            return Err(NoLogo::NotFetched);
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("image/png, image/jpeg, image/webp"));
        let accepts = |status| status == StatusCode::OK;
        let call = Call { method: Method::GET, url, headers, body: Bytes::new(), accepts, terms };
        match self.app.http.call(call).await {
            Ok(file) => Ok((place, file)),
            Err(error) => {
                tracing::info!(host = self.host(), error = error.in_short(), "a logo was not fetched");
                Err(if matches!(error, Failed::TooLarge(_)) { NoLogo::TooLarge } else { NoLogo::NotFetched })
            }
        }
    }

    /// For the log; the rest of a URL may be nobody's business.
    fn host(&self) -> String {
        let url = Url::parse(&self.key.1).ok();
        url.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned()
    }
}

async fn decode(app: &Shared, file: Bytes) -> Result<Logo, NoLogo> {
    let shared = Arc::clone(app);
    let decoded = app.logos.decoder.run(move || {
        let picture = Picture::read(&file)?;
        let left = usize::try_from(TOGETHER.saturating_sub(picture.memory())).unwrap_or(ROOM);
        shared.logos.state().kept.shrink_to(left);
        picture.decode()
    });
    match decoded.await {
        Some(logo) => Ok(logo?),
        None => {
            tracing::warn!("a decoder of images panicked, or there is no thread for it");
            Err(NotALogo::NotAnImage.into())
        }
    }
}

/// The thread that decodes, one picture at a time: each may take as much memory as all may. It is always the same one,
/// because the allocator keeps what was freed for the thread that asked for it.
#[derive(Debug, Default)]
struct Decoder(OnceLock<mpsc::Sender<Work>>);

type Work = Box<dyn FnOnce() + Send>;

impl Decoder {
    /// Runs this when its turn comes. `None` if it panicked.
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        let work = Box::new(move || {
            if let Ok(result) = catch_unwind(AssertUnwindSafe(work)) {
                // Whoever has gone does not want it any more.
                let _ = sender.send(result);
            }
        });
        self.0.get_or_init(Self::start).send(work).ok()?;
        receiver.await.ok()
    }

    fn start() -> mpsc::Sender<Work> {
        let (sender, receiver) = mpsc::channel::<Work>();
        let thread = std::thread::Builder::new().name("logos".to_owned());
        if let Err(error) = thread.spawn(move || receiver.into_iter().for_each(|work| work())) {
            tracing::warn!(%error, "no thread for decoding images");
        }
        sender
    }
}

/// Logos in memory, the least recently used out first.
#[derive(Debug, Default)]
struct Kept {
    entries: HashMap<Key, Entry>,
    bytes: usize,
    /// Grows with each use.
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    logo: Arc<Logo>,
    until: u64,
    used: u64,
}

impl Kept {
    fn get(&mut self, key: &Key, now: u64) -> Option<Arc<Logo>> {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        if entry.until <= now {
            self.drop_one(&key.clone());
            return None;
        }
        entry.used = self.uses;
        Some(Arc::clone(&entry.logo))
    }

    fn keep(&mut self, key: Key, logo: Arc<Logo>, now: u64) {
        self.drop_one(&key);
        self.uses += 1;
        self.bytes += bytes(&key, &logo);
        let until = now + u64::try_from(KEPT.as_millis()).unwrap_or(u64::MAX);
        self.entries.insert(key, Entry { logo, until, used: self.uses });
        self.shrink_to(ROOM);
    }

    /// Lets go what was used longest ago until the rest takes so many bytes.
    fn shrink_to(&mut self, room: usize) {
        while self.bytes > room {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            self.drop_one(&oldest);
        }
    }

    fn drop_one(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= bytes(key, &entry.logo);
        }
    }
}

fn bytes((tenant, url): &Key, logo: &Logo) -> usize {
    logo.rgba().len() + url.len() + tenant.as_str().len() + ENTRY
}

#[cfg(test)]
mod tests;
