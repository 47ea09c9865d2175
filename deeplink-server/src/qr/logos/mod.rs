//! Logos that were asked for lately. Who asks for one that is being fetched waits for that one; whoever hangs up takes
//! nothing from the others.

mod decoder;
mod kept;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::id::TenantId;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;
use url::Url;

use self::decoder::{Decoder, NotDone};
use self::kept::Kept;
use super::picture::{Picture, SAMPLES};
use super::{Logo, NotALogo};
use crate::error::ApiError;
use crate::outbound::http::{Call, Failed, Terms};
use crate::outbound::places::{Place, Places};
use crate::state::Shared;

/// Fetches at one time, and those of one tenant.
const PLACES: (usize, usize) = (16, 4);
/// Fetches of one tenant that wait for a place. Who comes after them could hardly be served in time.
const WAITING: usize = 64;
/// How long a fetch may take, with the wait for its place and for the decoder.
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
    /// Nothing was tried, so nothing is said about the logo.
    #[error("too many are being fetched")]
    Overloaded,
}

impl From<NoLogo> for ApiError {
    fn from(why: NoLogo) -> Self {
        match why {
            NoLogo::Overloaded => Self::Plain(ErrorCode::Overloaded, "too many logos are being fetched; try again"),
            _ => Self::Invalid(Invalid::field(ErrorCode::InvalidQrOptions, "logo", format!("logo: {why}"))),
        }
    }
}

/// Whose logo, and where it is.
type Key = (TenantId, String);
type Outcome = Result<Arc<Logo>, NoLogo>;
/// Tells all who wait for one fetch how it ended.
type Told = watch::Sender<Option<Outcome>>;

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
    under_way: HashMap<Key, Arc<Told>>,
}

impl Logos {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), places: Places::new(PLACES.0, PLACES.1), decoder: Decoder::new() }
    }

    /// The logo at a URL, for a tenant. A refusal names the parameter and says what is wrong with the file, or that
    /// there is none to be had, whatever the reason.
    pub(crate) async fn get(&self, app: &Shared, tenant: &TenantId, url: &str) -> Result<Arc<Logo>, ApiError> {
        // A fragment is nobody's business but the reader's, and never sent.
        let url = url.split_once('#').map_or(url, |(url, _)| url);
        let key = (tenant.clone(), url.to_owned());
        let (mut outcome, started) = {
            let mut state = self.state();
            if let Some(logo) = state.kept.get(&key, app.clock.monotonic_millis()) {
                return Ok(Arc::new(logo));
            }
            match state.under_way.get(&key) {
                Some(told) => (told.subscribe(), None),
                None => {
                    let told = Arc::new(Told::new(None));
                    state.under_way.insert(key.clone(), Arc::clone(&told));
                    (told.subscribe(), Some(told))
                }
            }
        };
        // Not under the lock: a runtime that shuts down drops the fetch at once, which takes the lock.
        if let Some(told) = started {
            let fetch = Fetch { app: Arc::clone(app), key, told, is_over: false };
            tokio::spawn(fetch.run().in_current_span());
        }
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
    told: Arc<Told>,
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
        let terms = Terms { began: Instant::now(), total: TOTAL, largest: LARGEST };
        let outcome = match self.place(&terms).await {
            Ok(Some(place)) => self.logo(place, terms).await.map(Arc::new),
            Ok(None) => return self.is_over = true,
            Err(why) => Err(why),
        };
        {
            let now = self.app.clock.monotonic_millis();
            let mut state = self.app.logos.state();
            if let Ok(logo) = &outcome {
                state.kept.keep(self.key.clone(), logo, now);
            }
            // Before anybody is told, so that who asks again after a failure asks afresh.
            state.under_way.remove(&self.key);
        }
        self.is_over = true;
        self.told.send_replace(Some(outcome));
    }

    /// A place, or none if nobody wants the logo any more.
    async fn place(&self, terms: &Terms) -> Result<Option<Place>, NoLogo> {
        let waiting = self.app.logos.places.wait(&self.key.0, WAITING).ok_or(NoLogo::Overloaded)?;
        let mut waiting = std::pin::pin!(timeout_at(terms.end(), waiting));
        loop {
            tokio::select! {
                biased;
                () = self.told.closed() => if self.is_unwanted() {
                    return Ok(None);
                },
                place = &mut waiting => return place.map(Some).map_err(|_| {
                    tracing::info!(host = self.host(), "a logo was not fetched: too many are being fetched");
                    NoLogo::NotFetched
                }),
            }
        }
    }

    /// Whether everybody has gone; if so, nobody joins any more.
    fn is_unwanted(&self) -> bool {
        let mut state = self.app.logos.state();
        let is_unwanted = self.told.is_closed();
        if is_unwanted {
            state.under_way.remove(&self.key);
        }
        is_unwanted
    }

    async fn logo(&self, place: Place, terms: Terms) -> Result<Logo, NoLogo> {
        let url = &self.key.1;
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("image/png, image/jpeg, image/webp"));
        let accepts = |status| status == StatusCode::OK;
        let call = Call { method: Method::GET, url, headers, body: Bytes::new(), accepts, terms };
        match self.app.http.call(call).await {
            Ok(file) => self.decode(place, file, terms.end()).await,
            Err(error) => {
                tracing::info!(host = self.host(), error = error.in_short(), "a logo was not fetched");
                Err(if matches!(error, Failed::TooLarge(_)) { NoLogo::TooLarge } else { NoLogo::NotFetched })
            }
        }
    }

    async fn decode(&self, place: Place, file: Bytes, end: Instant) -> Result<Logo, NoLogo> {
        let (shared, tenant) = (Arc::clone(&self.app), self.key.0.clone());
        let decoded = self.app.logos.decoder.run(&self.key.0, end, move || {
            // Held as long as the file is there, so that no more files than places are in memory.
            let _place = place;
            let picture = Picture::read(&file)?;
            // What is kept and the samples have the same room: what is kept gives way, the tenant's own first.
            let left = usize::try_from(SAMPLES.saturating_sub(picture.samples())).unwrap_or(0);
            shared.logos.state().kept.shrink_to(left, &tenant);
            picture.decode()
        });
        let logo: Result<Logo, NoLogo> = match decoded.await {
            Ok(logo) => logo.map_err(NoLogo::from),
            Err(NotDone::Panicked) => {
                tracing::warn!(host = self.host(), "a decoder of images panicked");
                Err(NotALogo::NotAnImage.into())
            }
            Err(why) => {
                tracing::warn!(host = self.host(), %why, "a logo was not decoded");
                // Nothing is known about the logo, and it may do next time.
                Err(NoLogo::Overloaded)
            }
        };
        logo.inspect_err(|why| tracing::info!(host = self.host(), %why, "a logo is not drawn"))
    }

    /// For the log; the rest of a URL may be nobody's business.
    fn host(&self) -> String {
        let url = Url::parse(&self.key.1).ok();
        url.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests;
