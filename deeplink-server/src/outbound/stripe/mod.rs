//! Calls to Stripe's API: form-encoded, at a pinned version, with an idempotency key on each POST, and never more of
//! them than Stripe allows.
//!
//! What Stripe says never reaches a caller, and neither our key nor the addresses of its pages reach a log: anyone who
//! has such an address can use the page.

mod price;
mod subscription;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::time::Timestamp;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};
use url::Url;

pub(crate) use self::price::Price;
use self::price::Prices;
pub(crate) use self::subscription::Subscription;
use self::subscription::WireSubscription;
use super::http::{Call, Http, Terms};
use crate::config::{Config, StripeAccount, StripePrices};

/// The API version to use, whatever the account's default is.
const VERSION: &str = "2025-03-31.basil";
/// How long one operation may take, with all its tries.
const TOTAL: Duration = Duration::from_secs(10);
/// Largest answer, in bytes.
const LARGEST: usize = 256 << 10;
/// How long a caller waits for the turn of its call.
const CALLER_WAIT: Duration = Duration::from_secs(3);
/// Minimum time between two warnings about invalid signatures.
const WARNING_MILLIS: u64 = 60_000;
/// The pauses before the second and the third try.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

/// Why there is no result. The texts are for the operator's log; each begins with the call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StripeError {
    /// Stripe cannot be reached, is too slow or is overloaded: another try may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// Too many calls were waiting, so this one was not made.
    #[error("{0}: too many pending calls")]
    TooMany(String),
    /// Stripe refuses the request.
    #[error("{call}: rejected with {status} ({reason})")]
    Refused {
        /// The call, and Stripe's id of the request.
        call: String,
        /// The status.
        status: StatusCode,
        /// Type, code and parameter, if Stripe names them.
        reason: String,
    },
    /// Stripe's answer is not understood.
    #[error("{0}: the response could not be parsed")]
    Malformed(String),
}

impl StripeError {
    /// Whether Stripe says that the object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: StatusCode::NOT_FOUND, .. })
    }

    /// Whether Stripe refuses our key, or the key may not do what was asked: nothing works until the operator fixes
    /// that.
    pub(crate) fn is_about_key(&self) -> bool {
        matches!(self, Self::Refused { status: StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, .. })
    }

    /// Whether Stripe refuses because it does not know the customer.
    pub(crate) fn is_unknown_customer(&self) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason.ends_with("resource_missing, customer"))
    }
}

/// How long a call may wait for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitLimit {
    /// A caller: the call is refused if it could not begin soon, so that later turns are left to the others.
    Short,
    /// An event or a job.
    Long,
}

impl WaitLimit {
    /// Until when a call must have begun.
    fn end(self, terms: Terms) -> Instant {
        match self {
            Self::Short => terms.end().min(Instant::now() + CALLER_WAIT),
            Self::Long => terms.end(),
        }
    }
}

/// The client of Stripe.
pub(crate) struct Stripe {
    http: Http,
    account: StripeAccount,
    /// When the next call may begin.
    next_call: Mutex<Instant>,
    /// When an invalid signature was last logged, in milliseconds since 1970.
    warned_at: AtomicI64,
    read_prices: Prices,
}

/// A checkout page.
#[derive(Debug)]
pub(crate) struct Checkout<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) price: &'a str,
    /// Stripe's id of the account, if it paid before.
    pub(crate) customer: Option<&'a str>,
    /// Where receipts go, if the account never paid.
    pub(crate) email: Option<&'a str>,
    /// Where people return after paying.
    pub(crate) success_url: &'a str,
    /// Where they return without paying.
    pub(crate) cancel_url: &'a str,
    /// Until when the page can be used, in seconds since 1970.
    pub(crate) expires_at: i64,
}

impl Checkout<'_> {
    /// The parameters of the request.
    pub(crate) fn form(&self) -> String {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs([
            ("mode", "subscription"),
            ("line_items[0][price]", self.price),
            ("line_items[0][quantity]", "1"),
            ("success_url", self.success_url),
            ("cancel_url", self.cancel_url),
            ("client_reference_id", self.tenant),
            ("metadata[tenant_id]", self.tenant),
            ("subscription_data[metadata][tenant_id]", self.tenant),
        ]);
        form.append_pair("expires_at", &self.expires_at.to_string());
        match (self.customer, self.email) {
            (Some(customer), _) => drop(form.append_pair("customer", customer)),
            (None, Some(email)) => drop(form.append_pair("customer_email", email)),
            (None, None) => {}
        }
        form.finish()
    }
}

impl Stripe {
    /// With the operator's account.
    pub(crate) fn new(config: &Config, account: &StripeAccount) -> Self {
        Self {
            http: Http::for_operator(config),
            account: account.clone(),
            next_call: Mutex::new(Instant::now()),
            warned_at: AtomicI64::new(0),
            read_prices: Prices::default(),
        }
    }

    /// The prices of plans.
    pub(crate) fn prices(&self) -> &StripePrices {
        &self.account.prices
    }

    /// The secrets that events are signed with.
    pub(crate) fn webhook_secrets(&self) -> &[SecretString] {
        &self.account.webhook_secrets
    }

    /// Creates a checkout page and returns its address. The same key with the same parameters returns the same page.
    pub(crate) async fn checkout(&self, checkout: &Checkout<'_>, key: &str) -> Result<String, StripeError> {
        self.post::<Page>(&["checkout", "sessions"], checkout.form(), key).await.map(|page| page.url)
    }

    /// Creates a page on which a customer's cards and invoices are managed, and returns its address.
    pub(crate) async fn portal(&self, customer: &str, return_url: &str, key: &str) -> Result<String, StripeError> {
        let pairs = [("customer", customer), ("return_url", return_url)];
        let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        self.post::<Page>(&["billing_portal", "sessions"], form, key).await.map(|page| page.url)
    }

    /// Ends a subscription at the end of its period.
    pub(crate) async fn cancel(&self, subscription: &str, key: &str) -> Result<Subscription, StripeError> {
        let form = "cancel_at_period_end=true".to_owned();
        let answer = self.post(&["subscriptions", subscription], form, key).await?;
        self.read(subscription, answer)
    }

    /// Reads a subscription.
    pub(crate) async fn subscription(&self, id: &str, wait_limit: WaitLimit) -> Result<Subscription, StripeError> {
        let answer = self.get(&["subscriptions", id], wait_limit).await?;
        self.read(id, answer)
    }

    /// An answer about a different subscription is invalid.
    fn read(&self, id: &str, answer: WireSubscription) -> Result<Subscription, StripeError> {
        if answer.id == id {
            Ok(answer.read(self.prices()))
        } else {
            Err(StripeError::Malformed(format!("subscription {id}")))
        }
    }

    /// Whether an invalid signature may be logged now: once a minute, since anyone can send one.
    pub(crate) fn may_warn(&self, now: Timestamp) -> bool {
        let now = now.as_millis();
        let is_due = |last: i64| (now.abs_diff(last) >= WARNING_MILLIS).then_some(now);
        self.warned_at.fetch_update(Relaxed, Relaxed, is_due).is_ok()
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str], wait_limit: WaitLimit) -> Result<T, StripeError> {
        let request = StripeRequest { method: Method::GET, path, form: Bytes::new(), key: None };
        self.call(request, wait_limit).await?.json()
    }

    async fn post<T: DeserializeOwned>(&self, path: &[&str], form: String, key: &str) -> Result<T, StripeError> {
        let request = StripeRequest { method: Method::POST, path, form: form.into(), key: Some(key) };
        self.call(request, WaitLimit::Short).await?.json()
    }

    /// Calls until there is an answer, at most three times. The key makes the tries one request. Stripe would repeat a
    /// failure stored under the key for a day, so in that case the request is made once with a new key.
    async fn call(&self, request: StripeRequest<'_>, wait_limit: WaitLimit) -> Result<Answered, StripeError> {
        let mut url = self.account.base.clone();
        let malformed = |()| StripeError::Malformed(request.name());
        url.path_segments_mut().map_err(malformed)?.pop_if_empty().push("v1").extend(request.path);
        let mut headers = self.headers(&request)?;
        let terms = Terms { began: Instant::now(), total: TOTAL, largest: LARGEST };
        let (mut pauses, mut is_new) = (PAUSES.into_iter(), false);
        loop {
            self.turn(wait_limit.end(terms)).await.ok_or_else(|| StripeError::TooMany(request.name()))?;
            let failure = match self.once(&request, &url, &headers, terms).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if let Some(key) = request.key.filter(|_| failure.is_replayed && !is_new) {
                is_new = true;
                headers.insert(IDEMPOTENCY_KEY, header(&request, &format!("{key}:1"))?);
                continue;
            }
            if !matches!(failure.error, StripeError::Unavailable(_)) {
                return Err(failure.error);
            }
            let again = pauses.next().map(|pause| Instant::now() + pause).filter(|again| *again < terms.end());
            let Some(again) = again else { return Err(failure.error) };
            sleep_until(again).await;
        }
    }

    fn headers(&self, request: &StripeRequest<'_>) -> Result<HeaderMap, StripeError> {
        let mut headers = HeaderMap::new();
        let mut bearer = header(request, &format!("Bearer {}", self.account.secret_key.expose_secret()))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(HeaderName::from_static("stripe-version"), HeaderValue::from_static(VERSION));
        if let Some(key) = request.key {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
            headers.insert(IDEMPOTENCY_KEY, header(request, key)?);
        }
        Ok(headers)
    }

    /// Waits until this call may begin. Returns `None` at once if that would be too late.
    async fn turn(&self, end: Instant) -> Option<()> {
        let turn = {
            let mut next = self.next_call.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = (*next).max(Instant::now());
            if turn >= end {
                return None;
            }
            *next = turn + self.account.call_interval;
            turn
        };
        sleep_until(turn).await;
        Some(())
    }

    async fn once(
        &self,
        request: &StripeRequest<'_>,
        url: &Url,
        headers: &HeaderMap,
        terms: Terms,
    ) -> Result<Answered, Failure> {
        let (method, headers, body) = (request.method.clone(), headers.clone(), request.form.clone());
        let call = Call { method, url: url.as_str(), headers, body, accepts: |_| true, terms };
        let answer = self.http.call_with_head(call).await.map_err(|failed| {
            let text = format!("{}: {}", request.name(), failed.in_short());
            Failure { error: StripeError::Unavailable(text), is_replayed: false }
        })?;
        let call = request.answered(answer.headers());
        let is_replayed = answer.headers().get("idempotent-replayed").is_some_and(|value| value == "true");
        let error = match answer.status() {
            status if status.is_success() => return Ok(Answered { call, body: answer.into_body() }),
            status @ (StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS) => busy(&call, status),
            status if status.is_server_error() => busy(&call, status),
            status => StripeError::Refused { call, status, reason: reason(answer.body()) },
        };
        Err(Failure { error, is_replayed })
    }
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The settings were checked, and keys are plain text.
fn header(request: &StripeRequest<'_>, text: &str) -> Result<HeaderValue, StripeError> {
    HeaderValue::from_str(text).map_err(|_| StripeError::Malformed(request.name()))
}

/// A request to Stripe.
struct StripeRequest<'a> {
    method: Method,
    /// Below `/v1`.
    path: &'a [&'a str],
    form: Bytes,
    key: Option<&'a str>,
}

impl StripeRequest<'_> {
    /// The name of the call, for the log.
    fn name(&self) -> String {
        format!("{} /v1/{}", self.method, self.path.join("/"))
    }

    /// As [`StripeRequest::name`], with Stripe's id of the request.
    fn answered(&self, headers: &HeaderMap) -> String {
        let id = headers.get("request-id").and_then(|id| id.to_str().ok()).unwrap_or("none");
        let id: String = id.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '_').take(60).collect();
        format!("{} (request-id {id})", self.name())
    }
}

/// A successful answer.
struct Answered {
    /// The call, for the log.
    call: String,
    body: Bytes,
}

impl Answered {
    fn json<T: DeserializeOwned>(self) -> Result<T, StripeError> {
        serde_json::from_slice(&self.body).map_err(|_| StripeError::Malformed(self.call))
    }
}

/// A failure, and whether Stripe stored it from an earlier try.
struct Failure {
    error: StripeError,
    is_replayed: bool,
}

fn busy(call: &str, status: StatusCode) -> StripeError {
    StripeError::Unavailable(format!("{call}: the response status is {status}"))
}

/// The reason that an error gives. Its message is left out: it may quote what was sent.
fn reason(body: &[u8]) -> String {
    #[derive(Default, Deserialize)]
    struct Answer {
        #[serde(default)]
        error: BTreeMap<String, serde_json::Value>,
    }
    let Answer { error } = serde_json::from_slice(body).unwrap_or_default();
    let words = ["type", "code", "param"].iter().filter_map(|name| error.get(*name)?.as_str());
    let is_plain = |char: &char| char.is_ascii_alphanumeric() || "_[]".contains(*char);
    let words: Vec<String> = words.map(|word| word.chars().filter(is_plain).take(60).collect()).collect();
    if words.is_empty() { "without a reason".to_owned() } else { words.join(", ") }
}

/// A session of the checkout or of the portal.
#[derive(Deserialize)]
struct Page {
    url: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// At most 25 calls a second begin, and a call that would begin too late is refused at once.
    #[tokio::test(start_paused = true)]
    async fn calls_begin_at_a_bounded_rate() {
        let mut account = StripeAccount::new(
            "rk_test",
            &[],
            Url::parse("http://127.0.0.1:1").expect("a URL"),
            StripePrices::new("a", "b", "c"),
        );
        account.call_interval = Duration::from_millis(40);
        let stripe = Stripe::new(&Config::for_tests("data"), &account);
        let began = Instant::now();
        for _ in 0..26 {
            stripe.turn(began + TOTAL).await.expect("a turn");
        }
        assert_eq!(began.elapsed(), Duration::from_secs(1), "the first one begins at once");
        assert!(stripe.turn(began + Duration::from_secs(1)).await.is_none());
        assert_eq!(began.elapsed(), Duration::from_secs(1), "without a wait");
        // Others have taken the turns of the next three seconds: callers are refused, and events still get theirs.
        *stripe.next_call.lock().expect("the turns") = Instant::now() + CALLER_WAIT;
        let terms = Terms { began: Instant::now(), total: TOTAL, largest: LARGEST };
        assert!(stripe.turn(WaitLimit::Short.end(terms)).await.is_none());
        assert!(stripe.turn(WaitLimit::Long.end(terms)).await.is_some());
    }

    #[test]
    fn signatures_that_do_not_fit_are_warned_of_once_a_minute() {
        let url = Url::parse("http://127.0.0.1:1").expect("a URL");
        let account = StripeAccount::new("rk_test", &[], url, StripePrices::new("a", "b", "c"));
        let stripe = Stripe::new(&Config::for_tests("data"), &account);
        let at = |seconds: i64| stripe.may_warn(Timestamp::from_millis((1_795_167_000 + seconds) * 1_000));
        assert_eq!([0, 1, 59, 60, 61, 120].map(at), [true, false, false, true, false, true]);
    }

    #[test]
    fn a_refusal_says_no_more_than_its_kind() {
        let body = json!({"error": {
            "type": "invalid_request_error", "code": "resource_missing", "param": "line_items[0][price]",
            "message": "No such customer: someone@example.com",
        }});
        assert_eq!(
            reason(body.to_string().as_bytes()),
            "invalid_request_error, resource_missing, line_items[0][price]"
        );
        assert_eq!(reason(b"<html>"), "without a reason");
        assert_eq!(reason(br#"{"error":"text"}"#), "without a reason");
    }
}
