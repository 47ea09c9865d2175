//! The facilitator, which verifies payments for single requests and settles them on the chain.
//!
//! Its answers are checked before they count: an invalid answer says nothing about whether money moved.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::x402::{EXACT, Network, Version};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError};
use tokio::time::Instant;

use super::http::{Call, Http, Terms};
use crate::config::{Config, X402};

/// Largest answer, in bytes.
const LARGEST: usize = 64 << 10;
/// Maximum concurrent calls.
const MAX_CONCURRENT: usize = 80;
/// How many of them may be calls other than settlements, so that unpaid requests never delay paid ones.
const MAX_UNPAID: usize = 64;
/// Timeout for asking what it can settle.
const SUPPORTED: Duration = Duration::from_secs(5);
/// After this long a facilitator that settles nothing we want is asked again.
const ASK_AGAIN_MILLIS: u64 = 10_000;
/// After this long one that settles some of what we want is asked again.
const ASK_STILL_MILLIS: u64 = 600_000;
/// Prefixes of reasons for which a payment is not sent to the chain.
const BEFORE_SENDING: [&str; 3] = ["insufficient_", "invalid_", "unsupported_"];
/// Suffixes of reasons that look like those, but also apply to payments that were sent.
const MAYBE_SENT: [&str; 2] = ["invalid_transaction_state", "transaction_failed"];
/// Characters of a reason that are shown.
const SHOWN: usize = 80;

/// Adds the customer's credentials to a call. Some vendors require a token made for each call.
pub(crate) trait Credentials: Send + Sync {
    /// The headers of a call.
    fn headers(&self, method: &Method, path: &str) -> HeaderMap;
}

/// For a facilitator that requires no credentials.
struct Open;

impl Credentials for Open {
    fn headers(&self, _: &Method, _: &str) -> HeaderMap {
        HeaderMap::new()
    }
}

/// For a facilitator that gave its customer a token.
struct Bearer(HeaderValue);

impl Credentials for Bearer {
    fn headers(&self, _: &Method, _: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, self.0.clone())])
    }
}

fn credentials(token: Option<&SecretString>) -> Box<dyn Credentials> {
    // The settings accept no token that is not a header value.
    let value = token.and_then(|token| HeaderValue::try_from(format!("Bearer {}", token.expose_secret())).ok());
    let Some(mut value) = value else { return Box::new(Open) };
    value.set_sensitive(true);
    Box::new(Bearer(value))
}

/// Its answer about a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verified {
    /// It could be settled; who pays, if the answer says so.
    Valid(Option<String>),
    /// It could not, for this reason.
    Invalid(String),
}

/// Its answer to a settlement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It is on the chain.
    Success { transaction: String, network: String, payer: Option<String> },
    /// It says that the payment is not, which is not always certain.
    Refused(Refused),
}

/// A settlement that it refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) reason: String,
    /// Empty if none was sent or none is known.
    pub(crate) transaction: String,
    status: StatusCode,
}

impl Refused {
    /// Whether nothing was sent to the chain, so that no money can have moved. For any other reason it may have.
    pub(crate) fn is_before_sending(&self) -> bool {
        self.transaction.is_empty()
            && !self.status.is_server_error()
            && BEFORE_SENDING.iter().any(|start| self.reason.starts_with(start))
            && !MAYBE_SENT.iter().any(|end| self.reason.ends_with(end))
    }
}

/// It did not answer, or not in a form that we understand; the text is for the log.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Unclear {
    why: String,
    /// Whether it may have read the request.
    pub(crate) was_sent: bool,
}

impl Unclear {
    fn sent(why: &str) -> Self {
        Self { why: why.into(), was_sent: true }
    }
}

/// A permit for one of the concurrent calls.
#[derive(Debug)]
pub(crate) struct CallPermit<'a>(
    #[expect(dead_code, reason = "it is held until the call is over")] SemaphorePermit<'a>,
);

/// What a facilitator can settle of what we want: for each version, the extra fields of a requirement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) v1: Option<Extra>,
    pub(crate) v2: Option<Extra>,
}

/// The extra fields of a requirement.
pub(crate) type Extra = Option<Value>;

/// The client of the facilitator.
pub(crate) struct Facilitator {
    http: Http,
    base: String,
    network: Network,
    extra: Extra,
    verify_timeout: Duration,
    settle_timeout: Duration,
    credentials: Box<dyn Credentials>,
    permits: Semaphore,
    /// A second permit, for calls other than settlements.
    unpaid: Semaphore,
    cache: RwLock<KindsCache>,
}

#[derive(Default)]
struct KindsCache {
    /// Its last answer.
    kinds: Option<Kinds>,
    asked_at: Option<u64>,
}

#[derive(Deserialize)]
struct Supported {
    kinds: Vec<Kind>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    #[serde(rename = "x402Version")]
    version: u64,
    scheme: String,
    network: String,
    #[serde(default)]
    extra: Extra,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VerifyAnswer {
    is_valid: bool,
    invalid_reason: Option<String>,
    payer: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SettleAnswer {
    success: bool,
    error_reason: Option<String>,
    payer: Option<String>,
    transaction: Option<String>,
    network: Option<String>,
}

impl Kinds {
    /// Whether it settles nothing that we want.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Facilitator {
    /// With the operator's settings.
    pub(crate) fn new(config: &Config, x402: &X402) -> Self {
        Self {
            http: Http::for_operator(config),
            base: x402.facilitator.as_str().trim_end_matches('/').to_owned(),
            network: x402.network.clone(),
            extra: x402.extra.clone(),
            verify_timeout: x402.verify_timeout,
            settle_timeout: x402.settle_timeout,
            credentials: credentials(x402.token.as_ref()),
            permits: Semaphore::new(MAX_CONCURRENT),
            unpaid: Semaphore::new(MAX_UNPAID),
            cache: RwLock::default(),
        }
    }

    /// What it can settle of what we want, which may be nothing; `None` until it has answered.
    pub(crate) fn kinds(&self) -> Option<Kinds> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner).kinds.clone()
    }

    /// Whether it is time to ask what it settles.
    pub(crate) fn is_to_be_asked(&self, now_millis: u64) -> bool {
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let is_on = cache.kinds.as_ref().is_some_and(|kinds| !kinds.is_empty());
        let wait = if is_on { ASK_STILL_MILLIS } else { ASK_AGAIN_MILLIS };
        cache.asked_at.is_none_or(|at| now_millis.saturating_sub(at) >= wait)
    }

    /// Asks what it settles. If it does not answer, its earlier answer still counts.
    pub(crate) async fn ask(&self, now_millis: u64) {
        let supported = self.call(Method::GET, "/supported", Bytes::new(), SUPPORTED).await;
        let kinds = match supported {
            Ok(supported) => {
                let kinds = self.wanted(&supported);
                if kinds.is_empty() {
                    tracing::error!(network = %self.network, "the facilitator does not settle on this network; x402 is disabled");
                }
                Some(kinds)
            }
            Err(error) => {
                tracing::error!(%error, "supported networks of the facilitator could not be read");
                None
            }
        };
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        cache.asked_at = Some(now_millis);
        cache.kinds = kinds.or(cache.kinds.take());
    }

    fn wanted(&self, supported: &Supported) -> Kinds {
        let find = |version: Version, name: Option<&str>| {
            let is =
                |kind: &&Kind| kind.version == version.number() && kind.scheme == EXACT && Some(&*kind.network) == name;
            supported.kinds.iter().find(is).map(|kind| self.with_own(kind.extra.clone()))
        };
        Kinds { v1: find(Version::V1, self.network.v1()), v2: find(Version::V2, Some(self.network.as_str())) }
    }

    /// The facilitator's extra fields, and ours, which the token's signatures cover.
    fn with_own(&self, theirs: Extra) -> Extra {
        match (theirs, self.extra.clone()) {
            (Some(Value::Object(mut theirs)), Some(Value::Object(own))) => {
                theirs.extend(own);
                Some(Value::Object(theirs))
            }
            (theirs, own) => own.or(theirs.filter(Value::is_object)),
        }
    }

    /// Asks whether a payment could be settled.
    pub(crate) async fn verify(&self, message: &str) -> Result<Verified, Unclear> {
        let body = Bytes::copy_from_slice(message.as_bytes());
        let answer: VerifyAnswer = self.call(Method::POST, "/verify", body, self.verify_timeout).await?;
        if answer.is_valid {
            Ok(Verified::Valid(answer.payer))
        } else {
            Ok(Verified::Invalid(reason(answer.invalid_reason)))
        }
    }

    /// A permit for one call, to be acquired before anything is stored for the call.
    pub(crate) fn permit(&self) -> Result<CallPermit<'_>, Unclear> {
        self.permits.try_acquire().map(CallPermit).map_err(full)
    }

    /// Settles a payment.
    pub(crate) async fn settle(&self, message: &str, _: CallPermit<'_>) -> Result<Settled, Unclear> {
        let body = Bytes::copy_from_slice(message.as_bytes());
        let (status, answer): (_, SettleAnswer) =
            self.exchange(Method::POST, "/settle", body, self.settle_timeout).await?;
        let transaction = answer.transaction.unwrap_or_default();
        if !is_plain(&transaction) {
            return Err(Unclear::sent("the transaction in its response is invalid"));
        }
        if !answer.success {
            return Ok(Settled::Refused(Refused { reason: reason(answer.error_reason), transaction, status }));
        }
        let network = answer.network.filter(|_| !transaction.is_empty());
        let network = network.ok_or_else(|| Unclear::sent("it reported a settlement without a transaction"))?;
        Ok(Settled::Success { transaction, network, payer: answer.payer })
    }

    async fn call<T: for<'de> Deserialize<'de>>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        total: Duration,
    ) -> Result<T, Unclear> {
        let _unpaid = self.unpaid.try_acquire().map_err(full)?;
        let _permit = self.permit()?;
        Ok(self.exchange(method, path, body, total).await?.1)
    }

    /// Makes a call, for which the caller has a permit. An answer of any status counts if it is the expected JSON.
    async fn exchange<T: for<'de> Deserialize<'de>>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        total: Duration,
    ) -> Result<(StatusCode, T), Unclear> {
        let mut headers = self.credentials.headers(&method, path);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if method == Method::POST {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let url = format!("{}{path}", self.base);
        let terms = Terms { began: Instant::now(), total, largest: LARGEST };
        let call = Call { method, url: &url, headers, body, accepts: |_| true, terms };
        let answer = self.http.call_with_head(call).await;
        let answer = answer.map_err(|failed| Unclear { why: failed.in_short(), was_sent: failed.was_sent() })?;
        let read = serde_json::from_slice(answer.body());
        let read = read.map_err(|_| Unclear::sent("its response is not the expected JSON"))?;
        Ok((answer.status(), read))
    }
}

/// There is no permit for a call.
fn full(_: TryAcquireError) -> Unclear {
    Unclear { why: "too many calls are pending".into(), was_sent: false }
}

/// A reason in a form that can be shown: the facilitator may send anything.
fn reason(said: Option<String>) -> String {
    let said = said.unwrap_or_default();
    let plain: String = said.chars().filter(|char| is_word(*char)).take(SHOWN).collect();
    if plain.is_empty() { "refused".into() } else { plain }
}

fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.' | ':')
}

/// Whether a text can be the name of a transaction.
fn is_plain(text: &str) -> bool {
    text.len() <= 128 && text.chars().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_shown_without_what_does_not_belong_there() {
        for (said, shown) in [
            (Some("insufficient_funds"), "insufficient_funds"),
            (Some("<b>no</b>\r\nSet-Cookie: x"), "bnobSet-Cookie:x"),
            (Some("\u{1}"), "refused"),
            (None, "refused"),
        ] {
            assert_eq!(reason(said.map(str::to_owned)), shown);
        }
        assert_eq!(reason(Some("x".repeat(1_000))).len(), SHOWN);
        assert!(is_plain("0xabc") && is_plain("") && !is_plain("0x abc") && !is_plain(&"x".repeat(129)));
    }

    #[test]
    fn only_what_is_said_before_sending_is_a_refusal() {
        let refused = |reason: &str, transaction: &str, status| {
            Refused { reason: reason.into(), transaction: transaction.into(), status }.is_before_sending()
        };
        for reason in ["insufficient_funds", "invalid_exact_evm_payload_signature", "unsupported_scheme"] {
            assert!(refused(reason, "", StatusCode::OK) && refused(reason, "", StatusCode::BAD_REQUEST), "{reason}");
            assert!(!refused(reason, "0xabc", StatusCode::OK), "{reason}");
            assert!(!refused(reason, "", StatusCode::BAD_GATEWAY), "{reason}");
        }
        for reason in [
            "transaction_failed",
            "invalid_transaction_state",
            "invalid_exact_evm_transaction_failed",
            "duplicate_settlement",
            "unexpected_settle_error",
            "refused",
        ] {
            assert!(!refused(reason, "", StatusCode::OK), "{reason}");
        }
    }
}
