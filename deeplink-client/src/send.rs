//! Executes a call: attempts, waits and retries. What may be repeated is decided in `retry`.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::routes;
use deeplink_core::secret::{PublishableKey, SecretKey, Token};
use deeplink_core::x402::Challenge;
use deeplink_core::{session, x402};
use futures_util::TryStreamExt;
use http::header::{AUTHORIZATION, COOKIE, SET_COOKIE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use tokio::time::{Instant, sleep_until, timeout};

use crate::auth::{Auth, AuthKind};
use crate::call::{Access, Draft, Options, Target};
use crate::connection::{Connection, Inner, is_confidential};
use crate::error::{Error, Kind, Result};
use crate::path;
use crate::payer::{Payer, SentPayment, challenge, paid};
use crate::retry::{Ending, MAX_WAIT, Repeat, Retry, retry_after};
use crate::trace;
use crate::transport::{BodyStream, Failure, TransportError};

/// Maximum size of a response's body.
pub(crate) const MAX_BODY: usize = 16 * 1024 * 1024;

/// Minimum wait before asking again for a payment's outcome, which neither attempts nor the budget limit.
const IN_PROGRESS_WAIT: Duration = Duration::from_secs(1);

/// The final response of a call, whatever its status.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) request_id: Option<String>,
    pub(crate) attempts: u32,
    pub(crate) is_write: bool,
    /// The payment it carried.
    pub(crate) payment: Option<SentPayment>,
    ambiguous: bool,
    retryable: bool,
}

impl Reply {
    /// The decoded response. If decoding fails, the error holds the payment.
    pub(crate) fn read<T>(&self, decode: fn(&Self) -> Result<T>) -> Result<T> {
        decode(self).map_err(|error| error.with_payment(self.payment.as_ref()).with_receipt(&self.headers))
    }

    /// The error for an unsuccessful response.
    pub(crate) fn refusal(&self) -> Error {
        Error::reply(self.status, &self.headers, self.body.clone(), retry_after(&self.headers))
            .with_request_id(self.request_id.as_deref().unwrap_or_default())
            .after(self.attempts, self.retryable, self.ambiguous)
            .with_payment(self.payment.as_ref())
    }
}

/// The response of one attempt.
type Answer = (StatusCode, HeaderMap, Bytes);

/// The result of one attempt.
enum Attempt {
    Reply(Answer),
    Failed(TransportError),
    TooLarge(StatusCode),
}

/// A running call.
struct Run<'a> {
    inner: &'a Inner,
    draft: &'a Draft,
    retry: &'a Retry,
    deadline: Instant,
    is_write: bool,
    repeat: Repeat,
    unpaused: bool,
    attempts: u32,
    /// An earlier attempt may have taken effect, and no response since has settled it.
    open: bool,
}

pub(crate) async fn perform(connection: &Connection, draft: &Draft, options: &Options) -> Result<Reply> {
    let inner = connection.inner();
    let mut payment = options.payment.clone();
    let mut proof = match &payment {
        Some(_) => check_payment(inner, draft).map(|()| None)?,
        None => credential(inner, draft, None).await?,
    };
    let mut headers = draft.headers.clone();
    let request_id = common_headers(inner, &mut headers);
    let payer = inner.payer.as_deref().filter(|_| proof.is_none() && can_be_paid_for(draft));
    // The key proves that a repeat with the same payment is the payer's.
    let keyed = match (&payment, &options.idempotency_key, &draft.method, &proof) {
        (Some(payment), ..) => Some(payment.key()),
        (None, Some(given), ..) => Some(given.clone()),
        (None, None, method, Some(_)) if *method == Method::POST || draft.is_keyed => Some(random_header(inner)),
        (None, None, ..) if payer.is_some() => Some(random_header(inner)),
        _ => None,
    };
    let mut run = Run {
        inner,
        draft,
        retry: options.retry.as_ref().unwrap_or(&inner.limits.retry),
        deadline: Instant::now() + options.timeout.unwrap_or(inner.limits.call),
        is_write: !matches!(draft.method, Method::GET | Method::HEAD | Method::OPTIONS),
        repeat: Repeat::of(&draft.method, keyed.is_some() || draft.keyed_by_body),
        unpaused: options.unpaused || proof.is_none() && payer.is_none() && payment.is_none(),
        attempts: 0,
        open: false,
    };
    if let Some(value) = keyed {
        headers.insert("idempotency-key", value);
    }
    if let Some(payment) = &payment {
        payment.add_to(&mut headers);
    }
    let mut asked_again = false;
    let span = trace::Span::open(draft, &request_id);
    loop {
        authorize(&mut headers, proof.as_ref())?;
        run.wait_for_pause().await;
        run.attempts += 1;
        let attempt = span.within(run.attempt(&headers)).await;
        span.attempted(run.attempts, attempt.status());
        let refused = matches!(attempt.status(), Some(StatusCode::UNAUTHORIZED));
        if refused && !asked_again && matches!(inner.auth, Auth::Provider(_)) && proof.is_some() {
            asked_again = true;
            proof = credential(inner, draft, proof.as_ref()).await?;
            run.attempts -= 1;
            continue;
        }
        if let (Some(payer), Some(challenge)) = (payer.filter(|_| payment.is_none()), attempt.challenge()) {
            let signed = run.pay(payer, &challenge).await;
            let (name, value) = signed.map_err(|error| error.with_request_id(&request_id))?;
            let key = headers.get("idempotency-key").cloned().unwrap_or_else(|| random_header(inner));
            payment.insert(SentPayment::of(name, value, key)).add_to(&mut headers);
            continue;
        }
        if let Some(end) = run.settle(attempt, &request_id).await {
            let end = end.map(|reply| Reply { payment: payment.clone(), ..reply });
            return end.map_err(|error| error.with_request_id(&request_id).with_payment(payment.as_ref()));
        }
    }
}

/// Fails if a given payment would not be sent.
fn check_payment(inner: &Inner, draft: &Draft) -> Result<()> {
    let have = inner.auth.kind();
    if have != AuthKind::None {
        let message = format!("only a client without a credential can send payments, but this one has {have}");
        return Err(Error::wrong_credential(AuthKind::None, have).say(message));
    }
    if !can_be_paid_for(draft) {
        let needs = needed(draft, have).unwrap_or(AuthKind::None);
        return Err(Error::wrong_credential(needs, have).say("this operation cannot be paid for"));
    }
    if !inner.allow_insecure_http && !is_confidential(&inner.base) {
        return Err(Error::validation(
            "payment",
            "a payment cannot be sent over plain http to another machine; use https",
        ));
    }
    Ok(())
}

/// Whether a request without a key can carry a payment.
fn can_be_paid_for(draft: &Draft) -> bool {
    draft.access == Access::Any || x402::paid(draft.method.as_str(), draft.template).is_some()
}

impl Attempt {
    /// The payment that the response asks for.
    fn challenge(&self) -> Option<Challenge> {
        let Self::Reply((StatusCode::PAYMENT_REQUIRED, headers, body)) = self else { return None };
        let record = serde_json::from_slice::<ErrorBody>(body).ok();
        challenge(headers, record.as_ref().map_or(&[], |record| &record.accepts))
    }

    fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Reply((status, ..)) | Self::TooLarge(status) => Some(*status),
            Self::Failed(_) => None,
        }
    }
}

impl Run<'_> {
    async fn wait_for_pause(&self) {
        if let Some(until) = self.inner.pause.until().filter(|until| !self.unpaused && *until < self.deadline) {
            sleep_until(until).await;
        }
    }

    /// The rest of the call's time limit.
    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Has a payment signed. The attempt that was answered with the price had no effect and does not count.
    async fn pay(&mut self, payer: &dyn Payer, challenge: &Challenge) -> Result<(HeaderName, HeaderValue)> {
        let late = |_| {
            let why = TransportError::new(Failure::Timeout, "no signature within the time limit");
            Err(Error::transport(why).say("the payer did not sign within the time limit"))
        };
        let signed = timeout(self.left(), paid(payer, challenge)).await.unwrap_or_else(late);
        let signed = signed.map_err(|error| {
            let is_late = error.kind() == Kind::Timeout;
            error.after(self.attempts, is_late, false).with_asked(challenge)
        })?;
        self.attempts -= 1;
        self.open = false;
        Ok(signed)
    }

    async fn attempt(&self, headers: &HeaderMap) -> Attempt {
        let late = || TransportError::new(Failure::Timeout, "no response within the time limit");
        let exchange = exchange(self.inner, self.draft, headers.clone());
        match timeout(self.left().min(self.inner.limits.attempt), exchange).await {
            Ok(attempt) => attempt,
            Err(_) => Attempt::Failed(late()),
        }
    }

    /// The call's result after an attempt, or `None` after the wait before the next attempt.
    async fn settle(&mut self, attempt: Attempt, request_id: &str) -> Option<Result<Reply>> {
        let (ending, asked) = match &attempt {
            Attempt::Reply((status, headers, body)) if status.is_client_error() || status.is_server_error() => {
                let asked = retry_after(headers);
                (refusal(*status, body, asked.is_some()), asked)
            }
            Attempt::Reply(answer) => {
                self.inner.shared.budget.earn();
                return Some(Ok(self.reply(answer.clone(), request_id, false, false)));
            }
            Attempt::TooLarge(status) => {
                let message = format!("the response is larger than {} MiB", MAX_BODY / 1024 / 1024);
                let error = Error::from_source(Kind::Decode, message, "too large").with_status(*status, None);
                return Some(Err(error.after(self.attempts, false, self.is_write)));
            }
            Attempt::Failed(why) => (Ending::Failed(why.failure()), None),
        };
        if self.open && self.is_done_already(ending) {
            let gone = (StatusCode::NO_CONTENT, HeaderMap::new(), Bytes::new());
            return Some(Ok(self.reply(gone, request_id, false, false)));
        }
        self.share_pause(ending, asked);
        if let Some(wait) = self.next_wait(ending, asked) {
            if ending.is_in_progress() {
                self.attempts -= 1;
            }
            self.open = self.is_write && (ending.is_ambiguous() || self.open && ending.leaves_earlier_open());
            tokio::time::sleep(wait).await;
            return None;
        }
        let conflict = matches!(ending, Ending::Refused { key_conflict: true, .. }) && self.attempts > 1;
        let open = self.open && ending.leaves_earlier_open();
        let ambiguous = self.is_write && (ending.is_ambiguous() || open || conflict);
        let retryable = ending.may_repeat(Repeat::Safe);
        Some(match attempt {
            Attempt::Reply(answer) => Ok(self.reply(answer, request_id, ambiguous, retryable)),
            Attempt::Failed(why) => Err(Error::transport(why).after(self.attempts, retryable, ambiguous)),
            Attempt::TooLarge(_) => return None,
        })
    }

    /// Whether a refusal shows that an earlier attempt, whose response was lost, has taken effect.
    fn is_done_already(&self, ending: Ending) -> bool {
        match ending {
            Ending::Refused { status: 404, .. } => self.draft.method == Method::DELETE,
            // An ended session no longer authenticates.
            Ending::Refused { status: 401, own: true, .. } => self.draft.template == routes::SIGNOUT.path,
            _ => false,
        }
    }

    fn reply(&self, (status, headers, body): Answer, request_id: &str, ambiguous: bool, retryable: bool) -> Reply {
        let request_id = headers
            .get("x-request-id")
            .and_then(|value| value.to_str().ok())
            .map_or_else(|| request_id.to_owned(), str::to_owned);
        Reply {
            status,
            headers,
            body,
            request_id: Some(request_id),
            attempts: self.attempts,
            is_write: self.is_write,
            payment: None,
            ambiguous,
            retryable,
        }
    }

    /// Other calls with this credential wait too when the service asks for it.
    fn share_pause(&self, ending: Ending, asked: Option<Duration>) {
        if let (Ending::Refused { status: 429 | 503, not_configured: false, .. }, Some(asked)) = (ending, asked)
            && asked <= MAX_WAIT
            && !self.unpaused
        {
            self.inner.pause.extend(Instant::now() + asked);
        }
    }

    /// How long to wait before the next attempt, if there is one.
    fn next_wait(&self, ending: Ending, asked: Option<Duration>) -> Option<Duration> {
        // The previous attempt is still running: this one asked for its result.
        let is_question = ending.is_in_progress();
        let is_allowed = is_question || self.retry.allows_another(self.attempts);
        if !ending.may_repeat(self.repeat) || !is_allowed {
            return None;
        }
        let wait = self.inner.shared.random(|random| self.retry.delay(self.attempts, asked, random));
        let wait = if is_question { wait.max(IN_PROGRESS_WAIT) } else { wait };
        let in_time = asked.unwrap_or_default() <= MAX_WAIT && Instant::now() + wait < self.deadline;
        (in_time && (is_question || self.inner.shared.budget.pay(ending))).then_some(wait)
    }
}

fn refusal(status: StatusCode, body: &[u8], asked_to_wait: bool) -> Ending {
    let code = serde_json::from_slice::<ErrorBody>(body).ok().map(|record| record.code);
    Ending::Refused {
        status: status.as_u16(),
        own: code.is_some(),
        not_configured: code.as_ref().is_some_and(ErrorCode::is_not_configured),
        key_conflict: code == Some(ErrorCode::IdempotencyConflict),
        payment_in_progress: code == Some(ErrorCode::PaymentInProgress),
        asked_to_wait,
    }
}

/// Sends the request once and reads the whole response.
async fn exchange(inner: &Inner, draft: &Draft, headers: HeaderMap) -> Attempt {
    let uri = match path::uri(&inner.base, &draft.target) {
        Ok(uri) => uri,
        // This was checked when the call was made; the request cannot be sent.
        Err(error) => return Attempt::Failed(TransportError::new(Failure::Connect, error)),
    };
    let mut request = Request::new(draft.body.clone().unwrap_or_default());
    *request.method_mut() = draft.method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    let reply = match inner.shared.transport.send(request).await {
        Ok(reply) => reply,
        Err(failure) => return Attempt::Failed(failure),
    };
    let (mut parts, mut stream) = reply.into_parts();
    if let http::header::Entry::Occupied(mut cookies) = parts.headers.entry(SET_COOKIE) {
        // They may include a session.
        cookies.iter_mut().for_each(|cookie| cookie.set_sensitive(true));
    }
    let mut body = BytesMut::new();
    loop {
        match stream.try_next().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > MAX_BODY => return Attempt::TooLarge(parts.status),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Attempt::Reply((parts.status, parts.headers, body.freeze())),
            Err(failure) => return Attempt::Failed(failure),
        }
    }
}

/// Sends one request with a streaming response. Retries are up to the caller.
pub(crate) async fn open(connection: &Connection, draft: &Draft) -> Result<BodyStream> {
    let inner = connection.inner();
    let mut headers = draft.headers.clone();
    let request_id = common_headers(inner, &mut headers);
    let mut proof = credential(inner, draft, None).await?;
    let mut asked_again = false;
    loop {
        authorize(&mut headers, proof.as_ref())?;
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = draft.method.clone();
        *request.uri_mut() = path::uri(&inner.base, &draft.target)?;
        *request.headers_mut() = headers.clone();
        let late = || TransportError::new(Failure::Timeout, "no response within the time limit");
        let reply = timeout(inner.limits.attempt, inner.shared.transport.send(request)).await;
        let failed = |why: TransportError| Error::transport(why).after(1, true, false).with_request_id(&request_id);
        let (parts, body) = reply.unwrap_or_else(|_| Err(late())).map_err(failed)?.into_parts();
        if parts.status == StatusCode::OK {
            return Ok(body);
        }
        if parts.status == StatusCode::UNAUTHORIZED && !asked_again && matches!(inner.auth, Auth::Provider(_)) {
            asked_again = true;
            proof = credential(inner, draft, proof.as_ref()).await?;
            continue;
        }
        let (asked, body) = (retry_after(&parts.headers), read_some(inner, body).await);
        let retryable = refusal(parts.status, &body, asked.is_some()).may_repeat(Repeat::Safe);
        let error = Error::reply(parts.status, &parts.headers, body, asked);
        return Err(error.with_request_id(&request_id).after(1, retryable, false));
    }
}

/// Reads the body of an error response, within the time limit and up to the size of any error object.
async fn read_some(inner: &Inner, mut body: BodyStream) -> Bytes {
    const MAX_REFUSAL: usize = 64 * 1024;
    let mut read = BytesMut::new();
    let reading = async {
        while let Ok(Some(chunk)) = body.try_next().await {
            read.extend_from_slice(&chunk[..chunk.len().min(MAX_REFUSAL - read.len())]);
        }
    };
    // Whatever was read by then is enough.
    drop(timeout(inner.limits.attempt, reading).await);
    read.freeze()
}

/// The credential of a request.
enum Proof {
    Secret(SecretKey),
    Publishable(PublishableKey),
    Session(Token),
}

/// The kind of credential that a client with this one must send, or `None` if the request takes none.
fn needed(draft: &Draft, have: AuthKind) -> Option<AuthKind> {
    Some(match (draft.access, &draft.target) {
        (Access::Public, _) | (_, Target::Url(_) | Target::Secret(_)) => return None,
        (Access::SecretKey, _) => AuthKind::SecretKey,
        (Access::PublishableKey, _) => AuthKind::PublishableKey,
        (Access::AnyKey, _) if matches!(have, AuthKind::SecretKey | AuthKind::PublishableKey) => have,
        (Access::AnyKey, _) => AuthKind::AnyKey,
        (Access::Session, _) => AuthKind::Session,
        (Access::Any, _) => have,
    })
}

/// The credential to send, or `None` if the request takes none.
async fn credential(inner: &Inner, draft: &Draft, refused: Option<&Proof>) -> Result<Option<Proof>> {
    let have = inner.auth.kind();
    let Some(needs) = needed(draft, have) else { return Ok(None) };
    if have == AuthKind::None && inner.payer.is_some() && can_be_paid_for(draft) {
        return Ok(None);
    }
    if needs != have {
        return Err(Error::wrong_credential(needs, have));
    }
    match &inner.auth {
        Auth::None => Ok(None),
        Auth::SecretKey(key) => Ok(Some(Proof::Secret(key.clone()))),
        Auth::PublishableKey(key) => Ok(Some(Proof::Publishable(key.clone()))),
        Auth::Session(token) => Ok(Some(Proof::Session(token.clone()))),
        Auth::Provider(provider) => {
            let refused = match refused {
                Some(Proof::Secret(key)) => Some(key),
                _ => None,
            };
            let key = provider.secret_key(refused).await;
            let key = key.map(|key| Some(Proof::Secret(key)));
            key.map_err(|why| Error::from_source(Kind::Auth, "the credential provider returned no key", why))
        }
    }
}

fn authorize(headers: &mut HeaderMap, proof: Option<&Proof>) -> Result<()> {
    let (name, text, field) = match proof {
        None => return Ok(()),
        Some(Proof::Secret(key)) => (AUTHORIZATION, format!("Bearer {}", key.expose()), "secret_key"),
        Some(Proof::Publishable(key)) => (AUTHORIZATION, format!("Bearer {}", key.expose()), "publishable_key"),
        Some(Proof::Session(token)) => (COOKIE, format!("{}={}", session::COOKIE, token.expose()), "session"),
    };
    let wrong = || Error::validation(field, "the credential contains characters that its header cannot contain");
    // The token must not be able to add another cookie (RFC 6265, 4.1.1).
    if name == COOKIE && !text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b',' | b';' | b'\\')) {
        return Err(wrong());
    }
    let mut value = HeaderValue::try_from(text).map_err(|_| wrong())?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

/// Adds the headers of every request of a call; returns the request's id.
fn common_headers(inner: &Inner, headers: &mut HeaderMap) -> String {
    headers.entry(USER_AGENT).or_insert_with(|| inner.user_agent.clone());
    headers.entry("x-request-id").or_insert_with(|| random_header(inner)).to_str().unwrap_or_default().to_owned()
}

/// 32 random hex digits.
fn random_header(inner: &Inner) -> HeaderValue {
    let text: String = inner.shared.random(|random| (0..32).map(|_| random.pick(b"0123456789abcdef")).collect());
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("0"))
}
