//! `Idempotency-Key`: look up, run, keep the reply, all in the transaction of the effect.
//!
//! A repeat of the same request gets the first reply; another request under the same key is a conflict. A refusal
//! rolls the claim back with everything else, so the key may be used again. A reply that shows a secret is kept sealed, or
//! not at all.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::secret::sha256_hex;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::extract::{BULK_BODY_LIMIT, json_body, parse};
use crate::caller::{Actor, Caller, Charge};
use crate::db::replies::{self, Claim, Reply, SEALED};
use crate::db::{Conn, DbError};
use crate::error::ApiError;
use crate::shares::Turn;
use crate::shares::limit::Permit;
use crate::state::{App, Shared};
use crate::vault::Vault;

/// What a request does. `App::once` runs it in one write with the claim of its key and the reply that is kept.
pub(crate) trait Work: Send + Sync + 'static {
    /// What the reply says.
    type Made: Serialize + Send + Sync + 'static;

    /// Does the work. Checks that must not refuse a repeat belong here, because the key is claimed by then.
    fn run(&self, tx: &mut Conn<'_>) -> impl Future<Output = Result<Outcome<Self::Made>, ApiError>> + Send;

    /// Does what must come last, because other writes wait for the locks that it takes.
    fn finish(&self, _tx: &mut Conn<'_>) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }

    /// The body of the reply, if it differs from what is kept.
    fn body(&self, made: &Self::Made) -> Result<String, ApiError> {
        to_json(made)
    }

    /// Does what must follow the commit, whether or not the caller still waits: see `Db::write_then`.
    fn committed(&self, _app: &Shared, _made: &Self::Made) {}
}

/// The outcome of a request.
pub(crate) enum Outcome<T> {
    /// It was done, and a repeat gets the same reply.
    Done(Answer<T>),
    /// It was refused, and what the attempt changed is committed. Its key can be used again.
    Refused(ApiError),
}

/// Something was created, at this location.
pub(crate) fn created<T: Serialize>(location: String, made: T) -> Result<Outcome<T>, ApiError> {
    Answer::first(StatusCode::CREATED, Some(location), made).map(Outcome::Done)
}

/// Something was done.
pub(crate) fn done<T: Serialize>(made: T) -> Result<Outcome<T>, ApiError> {
    Answer::done(made).map(Outcome::Done)
}

impl App {
    /// Does the work of a request, unless its key says that it was done: then the first reply is returned again.
    pub(crate) async fn once<W: Work>(self: &Arc<Self>, once: Once, work: W) -> Result<Answer<W::Made>, ApiError> {
        if let Some(charge) = &once.charge {
            charge.form_is_valid()?;
        }
        let now = self.clock.now();
        let answered = self.write(
            once.turn.clone(),
            (once, work, self.vault.clone()),
            move |tx, (once, work, vault)| once.answer(tx, now, work, vault).boxed(),
            |app, (_, work, _), answered| {
                if let Ok(Answer { made: Some(made), .. }) = answered {
                    work.committed(app, made);
                }
            },
        );
        answered.await?
    }
}

/// The key of a request together with what it stands for.
#[derive(Debug, Clone)]
pub(crate) struct Once {
    /// `None` when the request carries no key: every request is then a first one.
    key: Option<Key>,
    keeps: Keeps,
    /// What the request is paid with.
    charge: Option<Arc<Charge>>,
    /// Its turn among the writes.
    turn: Turn,
}

/// What is kept of a reply.
#[derive(Debug, Clone)]
enum Keeps {
    Whole,
    /// It shows a secret, which this seals.
    Sealed(Box<Vault>),
    /// It shows a secret that must not be shown twice: only the fact that it was sent is kept.
    Nothing,
}

#[derive(Debug, Clone)]
struct Key {
    id: String,
    request: String,
}

impl Once {
    /// For a request that cannot be repeated.
    pub(crate) fn none(turn: impl Into<Turn>) -> Self {
        Self { key: None, keeps: Keeps::Whole, charge: None, turn: turn.into() }
    }

    /// The same for a batch of rows, which takes a longer turn among the writes.
    pub(crate) fn of_rows(self, rows: usize) -> Self {
        Self { turn: self.turn.of_rows(rows), ..self }
    }

    /// Whether the request can be repeated.
    pub(crate) fn is_keyed(&self) -> bool {
        self.key.is_some()
    }

    /// The same for a reply that shows a secret: it is kept sealed, and opens only in its own row and with the server
    /// key.
    pub(crate) fn sealed(self, vault: &Vault) -> Self {
        match self.key {
            Some(_) => Self { keeps: Keeps::Sealed(Box::new(vault.clone())), ..self },
            None => self,
        }
    }

    /// The same for a reply that is given once: a repeat learns only that.
    pub(crate) fn said_once(self) -> Self {
        Self { keeps: Keeps::Nothing, ..self }
    }

    /// Reads a JSON request: its key, and what it asks for.
    pub(crate) async fn json<T: DeserializeOwned>(
        request: Request,
        caller: &Caller,
        limit: usize,
    ) -> Result<(Self, T), ApiError> {
        let (once, asked, ()) = Self::json_after(request, caller, limit, async { Ok(()) }).await?;
        Ok((once, asked))
    }

    /// The same for a batch, with the permit to parse and to check it. What is already paid for needs none.
    pub(crate) async fn batch<T: DeserializeOwned>(
        app: &App,
        request: Request,
        caller: &Caller,
    ) -> Result<(Self, T, Option<Permit>), ApiError> {
        let is_paid = caller.charge().is_some_and(|charge| charge.is_paid());
        let permit = async { if is_paid { Ok(None) } else { app.batch_permit(caller.turn()).await.map(Some) } };
        Self::json_after(request, caller, BULK_BODY_LIMIT, permit).await
    }

    /// Parses the body once `permit` is there.
    async fn json_after<T: DeserializeOwned, P>(
        request: Request,
        caller: &Caller,
        limit: usize,
        permit: impl Future<Output = Result<P, ApiError>>,
    ) -> Result<(Self, T, P), ApiError> {
        let (headers, path) = (request.headers().clone(), request.uri().path().to_owned());
        let method = request.method().clone();
        let body = json_body(request, limit).await?;
        let permit = permit.await?;
        Ok((Self::of(&method, &headers, caller, &path, &body)?, parse(&body)?, permit))
    }

    /// Reads the key of a POST, and the payment.
    pub(crate) fn read(headers: &HeaderMap, caller: &Caller, path: &str, body: &[u8]) -> Result<Self, ApiError> {
        Self::of(&Method::POST, headers, caller, path, body)
    }

    /// Reads the key, and the payment. The key is scoped to the tenant, the credential's scope, the method and the path.
    fn of(method: &Method, headers: &HeaderMap, caller: &Caller, path: &str, body: &[u8]) -> Result<Self, ApiError> {
        let (charge, turn) = (caller.charge().cloned(), caller.turn());
        let Some(key) = key_of(headers)? else { return Ok(Self { charge, ..Self::none(turn) }) };
        let scope = match (&caller.affiliate, &caller.by) {
            (Some(affiliate), _) => affiliate.as_str(),
            (None, Actor::User(user)) => user.as_str(),
            (None, Actor::Page(key)) => key.as_str(),
            (None, Actor::Key(_) | Actor::Wallet(_)) => "",
        };
        let id = sha256_hex(&format!("{}\n{scope}\n{method}\n{path}\n{key}", caller.tenant));
        let key = Key { id, request: hex::encode(Sha256::digest(body)) };
        Ok(Self { key: Some(key), keeps: Keeps::Whole, charge, turn })
    }

    /// A form that was shown to a user. `id` is the form's own, generated when it was shown; the same form with other
    /// values is another request.
    pub(crate) fn form(caller: &Caller, path: &str, id: &str, filled: &str) -> Self {
        let filled = sha256_hex(filled);
        let by = match &caller.by {
            Actor::Key(key) => key.as_str(),
            Actor::Page(key) => key.as_str(),
            Actor::User(user) => user.as_str(),
            // A wallet is shown no form.
            Actor::Wallet(_) => "",
        };
        let id = sha256_hex(&format!("{}\n{by}\nform\n{path}\n{id}\n{filled}", caller.tenant));
        Self { key: Some(Key { id, request: filled }), ..Self::none(caller.turn()) }
    }

    /// The steps of [`App::once`]. The inner error is a refusal that is committed.
    async fn answer<W: Work>(
        &self,
        tx: &mut Conn<'_>,
        now: Timestamp,
        work: &W,
        vault: &Vault,
    ) -> Result<Result<Answer<W::Made>, ApiError>, ApiError> {
        if let Some(charge) = &self.charge {
            charge.begin(tx, now).await?;
        }
        if let Some(reply) = self.claim(tx, now).await? {
            return Ok(Ok(Answer { reply, made: None }));
        }
        let answer = match work.run(tx).await? {
            Outcome::Done(answer) => answer,
            Outcome::Refused(error) if self.charge.is_some() => return Err(error),
            Outcome::Refused(error) => {
                self.release(tx).await?;
                return Ok(Err(error));
            }
        };
        self.keep(tx, &answer.reply).await?;
        work.finish(tx).await?;
        if let (Some(charge), Some(made)) = (&self.charge, &answer.made) {
            let reply = Reply { body: work.body(made)?, ..answer.reply.clone() };
            charge.end(tx, vault, &reply).await?;
        }
        Ok(Ok(answer))
    }

    /// Claims the key; a reply means that the work was already done and this was the answer.
    async fn claim(&self, db: &mut Conn<'_>, now: Timestamp) -> Result<Option<Reply>, ApiError> {
        let Some(key) = &self.key else { return Ok(None) };
        self.judged(key, replies::claim(db, &key.id, &key.request, now).await?)
    }

    /// The reply to an earlier request with the key, for operations that call out before they write.
    pub(crate) async fn earlier<T>(&self, app: &App) -> Result<Option<Answer<T>>, ApiError> {
        let Some(key) = &self.key else { return Ok(None) };
        let claim = replies::find(&mut app.db.read().await?.conn(), &key.id, &key.request, app.clock.now()).await?;
        Ok(self.judged(key, claim)?.map(|reply| Answer { reply, made: None }))
    }

    /// The earlier reply, if there was one; another request with the key is a conflict.
    fn judged(&self, key: &Key, claim: Claim) -> Result<Option<Reply>, ApiError> {
        match claim {
            Claim::First => Ok(None),
            Claim::Again(reply) => self.opened(&key.id, reply).map(Some),
            Claim::Other => {
                let message = "this Idempotency-Key was already used for a different request";
                Err(ApiError::Invalid(Invalid::field(ErrorCode::IdempotencyConflict, "Idempotency-Key", message)))
            }
        }
    }

    /// Keeps the reply with the effect.
    async fn keep(&self, db: &mut Conn<'_>, reply: &Reply) -> Result<(), DbError> {
        match &self.key {
            Some(key) => replies::keep(db, &key.id, &self.closed(&key.id, reply)).await,
            None => Ok(()),
        }
    }

    /// Releases the key.
    async fn release(&self, db: &mut Conn<'_>) -> Result<(), DbError> {
        match &self.key {
            Some(key) => replies::release(db, &key.id).await,
            None => Ok(()),
        }
    }

    /// The reply as it is kept.
    fn closed(&self, id: &str, reply: &Reply) -> Reply {
        let mut kept = reply.clone();
        match &self.keeps {
            Keeps::Whole => {}
            Keeps::Sealed(vault) => {
                kept.body = format!("{SEALED}{}", vault.seal("replies", id, reply.body.as_bytes()));
            }
            Keeps::Nothing => kept.body.clear(),
        }
        kept
    }

    /// The reply as it went out.
    fn opened(&self, id: &str, mut kept: Reply) -> Result<Reply, ApiError> {
        if let (Keeps::Sealed(vault), Some(sealed)) = (&self.keeps, kept.body.strip_prefix(SEALED)) {
            let plain = vault.open("replies", id, sealed).map_err(|error| ApiError::Internal(error.to_string()))?;
            kept.body = String::from_utf8(plain).map_err(|error| ApiError::Internal(error.to_string()))?;
        }
        Ok(kept)
    }
}

/// A reply on its way out, new or repeated.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    reply: Reply,
    /// The content of the reply; a repeated one has only its bytes.
    pub(crate) made: Option<T>,
}

impl<T> Answer<T> {
    /// Whether the reply was given before.
    pub(crate) fn is_replay(&self) -> bool {
        self.made.is_none()
    }

    /// The location of what an earlier request created, if this repeats its reply.
    pub(crate) fn replayed_location(&self) -> Option<&str> {
        self.reply.location.as_deref().filter(|_| self.is_replay())
    }
}

impl<T: Serialize> Answer<T> {
    /// The reply to a first request.
    pub(crate) fn first(status: StatusCode, location: Option<String>, made: T) -> Result<Self, ApiError> {
        let body = to_json(&made)?;
        Ok(Self { reply: Reply { status: status.as_u16(), location, body }, made: Some(made) })
    }

    /// The reply that something was done.
    pub(crate) fn done(made: T) -> Result<Self, ApiError> {
        Self::first(StatusCode::OK, None, made)
    }
}

impl<T: DeserializeOwned> Answer<T> {
    /// The same reply with a body that is rebuilt from what was kept.
    pub(crate) fn rebuilt<U: Serialize>(mut self, body: impl FnOnce(T) -> U) -> Result<Answer<U>, ApiError> {
        let is_replay = self.is_replay();
        let (status, location) = (self.reply.status, self.reply.location.take());
        let made = body(self.into_made()?);
        let body = to_json(&made)?;
        Ok(Answer { reply: Reply { status, location, body }, made: (!is_replay).then_some(made) })
    }

    /// What the reply says.
    pub(crate) fn into_made(self) -> Result<T, ApiError> {
        match self.made {
            Some(made) => Ok(made),
            None => serde_json::from_str(&self.reply.body).map_err(|error| ApiError::Internal(error.to_string())),
        }
    }
}

/// The value of `Idempotency-Key`.
pub(super) fn key_of(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let wrong = || {
        let message = "Idempotency-Key must be a single value of 1 to 255 printable ASCII characters";
        ApiError::Invalid(Invalid::field(ErrorCode::BadRequest, "Idempotency-Key", message))
    };
    let key = value.to_str().map_err(|_| wrong())?;
    if values.next().is_some() || !(1..=255).contains(&key.len()) {
        return Err(wrong());
    }
    Ok(Some(key))
}

pub(crate) fn to_json(made: &impl Serialize) -> Result<String, ApiError> {
    serde_json::to_string(made).map_err(|error| ApiError::Internal(error.to_string()))
}

impl<T> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        let is_replay = self.is_replay();
        replied(self.reply, is_replay)
    }
}

/// A reply as it goes out.
pub(super) fn replied(reply: Reply, is_replay: bool) -> Response {
    let mut response = Response::new(axum::body::Body::from(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
    let is_empty = response.status() == StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    if !is_empty {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    // It may show a secret, and is only for this caller.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(location) = reply.location.and_then(|path| HeaderValue::try_from(path).ok()) {
        headers.insert(header::LOCATION, location);
    }
    if is_replay {
        headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    response
}
