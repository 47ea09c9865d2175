//! Logos: fetched or uploaded, decoded and cached. Concurrent requests for one logo share its fetch, which does not depend on
//! any single caller.

mod cache;
mod decoder;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::id::TenantId;
use deeplink_core::qr_logo::MAX_LOGO_BYTES;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument;
use url::Url;

use self::cache::LogoCache;
use self::decoder::{Decoder, DecoderError};
use super::picture::{MAX_SAMPLE_BYTES, Picture};
use super::{Logo, NotALogo};
use crate::clock::Clock;
use crate::error::ApiError;
use crate::outbound::http::{Call, CallError, Http, Terms};
use crate::shares::Turn;
use crate::shares::limit::{Permit, ShareLimit, UsedUp};

/// Concurrent fetches.
const MAX_FETCHES: usize = 16;
/// Concurrent fetches of one tenant.
const MAX_FETCHES_PER_TENANT: usize = 4;
/// Those of them with credentials that the tenant gives away.
const MAX_RESTRICTED_FETCHES: usize = MAX_FETCHES_PER_TENANT / 2;
/// Fetches of one tenant that may wait for a permit. More would hardly finish in time.
const MAX_WAITING: usize = 64;
/// How long a fetch of a tenant with most permits keeps its permit while another tenant waits for its first: hosts that do
/// not answer, and large images that wait for the decoder, must not keep others' logos waiting. Checked at this interval.
const UNDISTURBED: Duration = Duration::from_secs(1);
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Pixels that cost as much as a row of a batch, so that an image of up to 512 × 512 px costs as much as a single row.
const PIXELS_PER_ROW: usize = 512 * 512 / 8;
/// How long a fetch may take, including the waits for its permit and for the decoder.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest file, in bytes.
const MAX_BYTES: usize = MAX_LOGO_BYTES;

/// Why there is no logo, as far as the caller may know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum LogoError {
    #[error("could not be fetched")]
    NotFetched,
    #[error("larger than 512 KiB")]
    TooLarge,
    #[error(transparent)]
    NotALogo(#[from] NotALogo),
    /// Not attempted, or given up for others: the limit of concurrent work is reached.
    #[error("too many are being processed")]
    Overloaded(UsedUp),
}

impl From<LogoError> for ApiError {
    fn from(why: LogoError) -> Self {
        match why {
            LogoError::Overloaded(UsedUp::Own) => {
                Self::Plain(ErrorCode::Overloaded, "this account is processing too many logos; try again in a second")
            }
            LogoError::Overloaded(UsedUp::All) => Self::Plain(
                ErrorCode::Overloaded,
                "too many logos are being processed across all accounts; try again in a second",
            ),
            _ => Self::Invalid(Invalid::field(ErrorCode::InvalidQrOptions, "logo", format!("logo: {why}"))),
        }
    }
}

impl LogoError {
    /// The answer to an upload.
    fn of_upload(self) -> ApiError {
        match self {
            Self::NotALogo(why) => Invalid::whole(ErrorCode::InvalidLogo, format!("logo: {why}")).into(),
            other => other.into(),
        }
    }
}

/// Tenant, and the URL or, for a file of the tenant's own, its digest.
type Key = (TenantId, String);
type Outcome = Result<Arc<Logo>, LogoError>;
/// Sends the outcome of a fetch to all waiters.
type OutcomeSender = watch::Sender<Option<Outcome>>;

/// The logos of this node.
pub(crate) struct Logos {
    http: Arc<Http>,
    clock: Clock,
    state: Mutex<State>,
    fetches: Arc<ShareLimit>,
    /// Of each tenant's fetches with credentials that it gives away.
    restricted: Arc<ShareLimit>,
    decoder: Decoder,
}

#[derive(Debug, Default)]
struct State {
    cache: LogoCache,
    /// Of those with the tenant's own credentials, and of those with credentials that it gives away: only the latter join
    /// either, so that the tenant's own do not wait for the permits of the others.
    in_flight: [HashMap<Key, Arc<OutcomeSender>>; 2],
}

impl State {
    fn joined(&self, key: &Key, turn: &Turn) -> Option<&Arc<OutcomeSender>> {
        let [own, restricted] = &self.in_flight;
        own.get(key).or_else(|| turn.is_restricted().then(|| restricted.get(key)).flatten())
    }

    fn in_flight(&mut self, turn: &Turn) -> &mut HashMap<Key, Arc<OutcomeSender>> {
        &mut self.in_flight[usize::from(turn.is_restricted())]
    }
}

impl Logos {
    pub(crate) fn new(http: Arc<Http>, clock: Clock) -> Self {
        Self {
            http,
            clock,
            state: Mutex::default(),
            fetches: ShareLimit::new(MAX_FETCHES, MAX_FETCHES_PER_TENANT),
            restricted: ShareLimit::new(usize::MAX, MAX_RESTRICTED_FETCHES),
            decoder: Decoder::new(),
        }
    }

    /// The logo at a URL, for a tenant. A refusal names the parameter and what is wrong with the file; all failures to
    /// fetch it read the same.
    pub(crate) async fn get(self: &Arc<Self>, tenant: &TenantId, turn: Turn, url: &str) -> Result<Arc<Logo>, ApiError> {
        // A fragment is not sent.
        let url = url.split_once('#').map_or(url, |(url, _)| url);
        let key = (tenant.clone(), url.to_owned());
        let (mut outcome, started) = {
            let mut state = self.state();
            if let Some(logo) = state.cache.get(&key, self.clock.monotonic_millis()) {
                return Ok(Arc::new(logo));
            }
            match state.joined(&key, &turn) {
                Some(sender) => (sender.subscribe(), None),
                None => {
                    let sender = Arc::new(OutcomeSender::new(None));
                    state.in_flight(&turn).insert(key.clone(), Arc::clone(&sender));
                    (sender.subscribe(), Some(sender))
                }
            }
        };
        // Not under the lock: a runtime that is shutting down drops the fetch at once, which takes the lock.
        if let Some(sender) = started {
            let fetch = Fetch { logos: Arc::clone(self), key, turn, sender, is_done: false };
            tokio::spawn(fetch.run().in_current_span());
        }
        let outcome = match outcome.wait_for(Option::is_some).await {
            Ok(outcome) => (*outcome).clone(),
            Err(_) => None,
        };
        Ok(outcome.unwrap_or(Err(LogoError::NotFetched))?)
    }

    /// Decodes a file that a tenant uploads. It is not cached: what is stored is another file.
    pub(crate) async fn decode(self: &Arc<Self>, tenant: &TenantId, turn: Turn, file: Bytes) -> Result<Logo, ApiError> {
        let key = own_key(tenant, UNCACHED);
        self.decode_own(key, turn, async { Ok(file) }).await?.map_err(LogoError::of_upload)
    }

    /// The uploaded logo of a tenant whose file has this digest. `read` reads the file, which waits until it may be
    /// decoded, so that few are in memory.
    pub(crate) async fn uploaded(
        self: &Arc<Self>,
        tenant: &TenantId,
        turn: Turn,
        digest: &str,
        read: impl Future<Output = Result<Bytes, ApiError>>,
    ) -> Result<Arc<Logo>, ApiError> {
        let key = own_key(tenant, digest);
        let cached = self.state().cache.get(&key, self.clock.monotonic_millis());
        match cached {
            Some(logo) => Ok(Arc::new(logo)),
            None => Ok(self.decode_own(key, turn, read).await?.map(Arc::new)?),
        }
    }

    /// Decodes a file that needs no fetch, with the permit and the turn of one that does.
    async fn decode_own(
        self: &Arc<Self>,
        key: Key,
        turn: Turn,
        read: impl Future<Output = Result<Bytes, ApiError>>,
    ) -> Result<Result<Logo, LogoError>, ApiError> {
        let end = Instant::now() + FETCH_TIMEOUT;
        let held = self.permit(&turn, end).await.map_err(LogoError::Overloaded)?;
        let bytes = read.await?;
        // Nobody joins it, so it is not in flight.
        let sender = Arc::new(OutcomeSender::new(None));
        let own = Fetch { logos: Arc::clone(self), key, turn, sender, is_done: true };
        Ok(own.decode(bytes, held, end).await)
    }

    /// Waits for a permit. With a credential that its tenant gives away, a fetch first waits for one of those that all of
    /// these have, which leaves others to the tenant.
    async fn permit(&self, turn: &Turn, end: Instant) -> Result<HeldPermit, UsedUp> {
        let wait = async |limit: &Arc<ShareLimit>| limit.acquire_until(turn.clone(), MAX_WAITING, end).await;
        let restricted =
            if turn.is_restricted() { Some(wait(&self.restricted).await.map_err(|_| UsedUp::Own)?) } else { None };
        Ok(HeldPermit { permit: wait(&self.fetches).await?, _restricted: restricted, since: Instant::now() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In the key of a file that is not cached, instead of its digest.
const UNCACHED: &str = "";

/// The key of a file of a tenant's own, which is no URL.
fn own_key(tenant: &TenantId, digest: &str) -> Key {
    (tenant.clone(), format!("sha256:{digest}"))
}

/// A fetch in flight.
struct Fetch {
    logos: Arc<Logos>,
    key: Key,
    /// Of the caller who came first.
    turn: Turn,
    sender: Arc<OutcomeSender>,
    is_done: bool,
}

/// However it ends, it is not in flight afterwards.
impl Drop for Fetch {
    fn drop(&mut self) {
        if !self.is_done {
            self.logos.state().in_flight(&self.turn).remove(&self.key);
        }
    }
}

impl Fetch {
    async fn run(mut self) {
        let terms = Terms { began: Instant::now(), total: FETCH_TIMEOUT, largest: MAX_BYTES };
        let outcome = match self.permit(&terms).await {
            Ok(Some(held)) => self.logo(held, terms).await.map(Arc::new),
            Ok(None) => return self.is_done = true,
            Err(why) => Err(why),
        };
        // Before the outcome is sent, so that a request after a failure starts another fetch.
        self.logos.state().in_flight(&self.turn).remove(&self.key);
        self.is_done = true;
        self.sender.send_replace(Some(outcome));
    }

    /// A permit, or none if every caller has gone.
    async fn permit(&self, terms: &Terms) -> Result<Option<HeldPermit>, LogoError> {
        let mut waiting = std::pin::pin!(self.logos.permit(&self.turn, terms.end()));
        loop {
            tokio::select! {
                biased;
                () = self.sender.closed() => if self.is_unwanted() {
                    return Ok(None);
                },
                held = &mut waiting => return held.map(Some).map_err(|whose| {
                    tracing::info!(host = self.host(), "logo not fetched: too many fetches at once");
                    LogoError::Overloaded(whose)
                }),
            }
        }
    }

    /// Whether every caller has gone; if so, no caller can join any more.
    fn is_unwanted(&self) -> bool {
        let mut state = self.logos.state();
        let is_unwanted = self.sender.is_closed();
        if is_unwanted {
            state.in_flight(&self.turn).remove(&self.key);
        }
        is_unwanted
    }

    async fn logo(&self, mut held: HeldPermit, terms: Terms) -> Result<Logo, LogoError> {
        let url = &self.key.1;
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("image/png, image/jpeg, image/webp"));
        let accepts = |status| status == StatusCode::OK;
        let call = Call { method: Method::GET, url, headers, body: Bytes::new(), accepts, terms };
        let Some(fetched) = held.during(self.logos.http.call(call)).await else { return Err(self.abandoned()) };
        match fetched {
            Ok(file) => self.decode(file, held, terms.end()).await,
            Err(error) => {
                tracing::info!(host = self.host(), error = error.in_short(), "logo could not be fetched");
                // The host may not be at fault.
                let is_late = held.since > terms.began + UNDISTURBED && Instant::now() >= terms.end();
                Err(match error {
                    CallError::TooLarge(_) => LogoError::TooLarge,
                    _ if is_late && self.logos.fetches.is_used_up(&self.turn.share) => {
                        LogoError::Overloaded(UsedUp::Own)
                    }
                    _ if is_late => LogoError::Overloaded(UsedUp::All),
                    _ => LogoError::NotFetched,
                })
            }
        }
    }

    fn abandoned(&self) -> LogoError {
        tracing::info!(host = self.host(), "logo fetch abandoned: other accounts are waiting");
        LogoError::Overloaded(UsedUp::All)
    }

    /// Waits for a turn at the decoder by the number of pixels, which the headers name.
    async fn decode(&self, file: Bytes, held: HeldPermit, end: Instant) -> Result<Logo, LogoError> {
        let picture = Picture::read(file).map_err(|why| self.refused(why.into()))?;
        let mut file = File { picture, held };
        let turn = self.turn.clone().of_rows(file.picture.pixels().div_ceil(PIXELS_PER_ROW));
        let waiting = self.logos.decoder.turn(turn, end);
        let Some(turn) = file.held.during(waiting).await else { return Err(self.abandoned()) };
        let turn = turn.map_err(|why| self.not_decoded(why))?;
        let (logos, key) = (Arc::clone(&self.logos), self.key.clone());
        let done = self.logos.decoder.run(turn, end, move || file.decode(&logos, key)).await;
        done.map_err(|why| self.not_decoded(why))?.map_err(|why| self.refused(why.into()))
    }

    fn not_decoded(&self, why: DecoderError) -> LogoError {
        match why {
            DecoderError::Panicked => {
                tracing::warn!(host = self.host(), "logo decoder panicked");
                self.refused(NotALogo::NotAnImage.into())
            }
            // The logo itself may be fine.
            DecoderError::UsedUp(whose) => {
                tracing::info!(host = self.host(), "logo not decoded: {why}");
                LogoError::Overloaded(whose)
            }
            DecoderError::Late | DecoderError::NoThread => {
                tracing::warn!(host = self.host(), "logo not decoded: {why}");
                LogoError::Overloaded(UsedUp::All)
            }
        }
    }

    fn refused(&self, why: LogoError) -> LogoError {
        tracing::info!(host = self.host(), %why, "logo rejected");
        why
    }

    /// The host for the log; the rest of a URL may be private.
    fn host(&self) -> String {
        let url = Url::parse(&self.key.1).ok();
        url.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned()
    }
}

/// The permit of a fetch, and since when it has had it.
struct HeldPermit {
    permit: Permit,
    _restricted: Option<Permit>,
    since: Instant,
}

impl HeldPermit {
    /// The output of a future, or none once the permit was given to another tenant.
    async fn during<T>(&mut self, waiting: impl Future<Output = T>) -> Option<T> {
        let given_up = async {
            sleep_until(self.since + UNDISTURBED).await;
            while !self.permit.give_up() {
                sleep(CHECK_INTERVAL).await;
            }
        };
        tokio::select! {
            biased;
            output = waiting => Some(output),
            () = given_up => None,
        }
    }
}

/// A picture to decode, and the permit that bounds how many are in memory.
struct File {
    picture: Picture,
    held: HeldPermit,
}

impl File {
    fn decode(self, logos: &Logos, key: Key) -> Result<Logo, NotALogo> {
        let now = logos.clock.monotonic_millis();
        // Decoded for a request that could not wait for it.
        if let Some(logo) = logos.state().cache.get(&key, now) {
            return Ok(logo);
        }
        let picture = &self.picture;
        // The cache and the samples share one limit: the cache shrinks, the tenant's own logos first.
        let left = usize::try_from(MAX_SAMPLE_BYTES.saturating_sub(picture.samples())).unwrap_or(0);
        logos.state().cache.shrink_to(left, &key.0);
        let logo = picture.decode()?;
        // Here, so that a logo that took too long is there when it is asked for again.
        if key.1 != own_key(&key.0, UNCACHED).1 {
            logos.state().cache.insert(key, &logo, now);
        }
        Ok(logo)
    }
}

#[cfg(test)]
mod tests;
