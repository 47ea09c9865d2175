//! `Idempotency-Key`: look up, run, keep the reply, all in the transaction of the effect.
//!
//! A repeat of the same request gets the first reply; another request under the same key is a conflict. A refusal
//! rolls the claim back with everything else, so the key may be used again. A reply that shows a secret is kept sealed, or
//! not at all.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::secret::sha256_hex;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::auth::{Actor, Caller};
use crate::db::replies::{self, Claim, Reply, SEALED};
use crate::db::{Conn, Db, DbError};
use crate::error::ApiError;
use crate::vault::Vault;

/// What a request does, in a write.
pub(crate) trait Work: Send + Sync + 'static {
    /// Does it. What a repeat must not be refused for is looked up or judged here, because the key is claimed by then.
    fn run(&self, tx: &mut Conn<'_>) -> impl Future<Output = Result<Reply, ApiError>> + Send;

    /// Does what comes last, because others wait for what it takes.
    fn finish(&self, _tx: &mut Conn<'_>) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }

    /// Does what follows the commit.
    fn committed(&self) {}
}

/// The key of a request together with what it stands for.
#[derive(Debug, Clone)]
pub(crate) struct Once {
    /// `None` when the request carries no key: every request is then a first one.
    key: Option<Key>,
    keeps: Keeps,
}

/// What is kept of a reply.
#[derive(Debug, Clone)]
enum Keeps {
    Whole,
    /// It shows a secret, which this seals.
    Sealed(Box<Vault>),
    /// It shows a secret to somebody who cannot be shown it twice: that it went out is all that is kept.
    Nothing,
}

#[derive(Debug, Clone)]
struct Key {
    id: String,
    request: String,
}

impl Once {
    /// Of a request that cannot be repeated.
    pub(crate) fn none() -> Self {
        Self { key: None, keeps: Keeps::Whole }
    }

    /// Whether the request can be repeated.
    pub(crate) fn is_keyed(&self) -> bool {
        self.key.is_some()
    }

    /// The same for a reply that shows a secret: what is kept of it opens in its own place only, with the server key.
    pub(crate) fn sealed(self, vault: &Vault) -> Self {
        match self.key {
            Some(_) => Self { keeps: Keeps::Sealed(Box::new(vault.clone())), ..self },
            None => self,
        }
    }

    /// The same for a reply that is said once: a repeat is told no more than that.
    pub(crate) fn said_once(self) -> Self {
        Self { keeps: Keeps::Nothing, ..self }
    }

    /// Reads the key. It is scoped to the tenant, the credential's scope, the method and the path.
    pub(crate) fn read(
        headers: &HeaderMap,
        caller: &Caller,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Self, ApiError> {
        let mut values = headers.get_all("idempotency-key").iter();
        let Some(value) = values.next() else { return Ok(Self::none()) };
        let wrong = || {
            let message = "Idempotency-Key is one value of 1 to 255 printable ASCII characters";
            ApiError::Invalid(Invalid::field(ErrorCode::BadRequest, "Idempotency-Key", message))
        };
        let key = value.to_str().map_err(|_| wrong())?;
        if values.next().is_some() || !(1..=255).contains(&key.len()) {
            return Err(wrong());
        }
        let scope = match (&caller.affiliate, &caller.by) {
            (Some(affiliate), _) => affiliate.as_str(),
            (None, Actor::User(user)) => user.as_str(),
            (None, Actor::Page(key)) => key.as_str(),
            (None, Actor::Key(_)) => "",
        };
        let id = sha256_hex(&format!("{}\n{scope}\n{method}\n{path}\n{key}", caller.tenant));
        Ok(Self { key: Some(Key { id, request: hex::encode(Sha256::digest(body)) }), keeps: Keeps::Whole })
    }

    /// A form that somebody was shown. `id` is the form's own, drawn when it was shown; the same form filled in otherwise
    /// is another request.
    pub(crate) fn form(caller: &Caller, path: &str, id: &str, filled: &str) -> Self {
        let filled = sha256_hex(filled);
        let by = match &caller.by {
            Actor::Key(key) => key.as_str(),
            Actor::Page(key) => key.as_str(),
            Actor::User(user) => user.as_str(),
        };
        let id = sha256_hex(&format!("{}\n{by}\nform\n{path}\n{id}\n{filled}", caller.tenant));
        Self { key: Some(Key { id, request: filled }), keeps: Keeps::Whole }
    }

    /// Does the work in a write, unless the key says that it was done: then its reply is said again.
    pub(crate) async fn run(self, db: &Db, now: Timestamp, work: impl Work) -> Result<Answer, ApiError> {
        let job = Arc::new((self, work));
        let of_write = Arc::clone(&job);
        let answer = db.write(move |mut tx| {
            let job = Arc::clone(&of_write);
            async move { job.0.apply(&mut tx, now, &job.1).await }.boxed()
        });
        let answer: Result<Answer, ApiError> = answer.await;
        if answer.as_ref().is_ok_and(|answer| !answer.replayed) {
            job.1.committed();
        }
        answer
    }

    async fn apply(&self, tx: &mut Conn<'_>, now: Timestamp, work: &impl Work) -> Result<Answer, ApiError> {
        if let Some(reply) = self.claim(tx, now).await? {
            return Ok(Answer::again(reply));
        }
        let reply = work.run(tx).await?;
        self.keep(tx, &reply).await?;
        work.finish(tx).await?;
        Ok(Answer::first(reply))
    }

    /// Claims the key; a reply means that the work was done before and this is what was said.
    pub(crate) async fn claim(&self, db: &mut Conn<'_>, now: Timestamp) -> Result<Option<Reply>, ApiError> {
        let Some(key) = &self.key else { return Ok(None) };
        match replies::claim(db, &key.id, &key.request, now).await? {
            Claim::First => Ok(None),
            Claim::Again(reply) => self.opened(&key.id, reply).map(Some),
            Claim::Other => {
                let message = "this Idempotency-Key was used for another request";
                Err(ApiError::Invalid(Invalid::field(ErrorCode::IdempotencyConflict, "Idempotency-Key", message)))
            }
        }
    }

    /// Keeps the reply with the effect.
    pub(crate) async fn keep(&self, db: &mut Conn<'_>, reply: &Reply) -> Result<(), DbError> {
        match &self.key {
            Some(key) => replies::keep(db, &key.id, &self.closed(&key.id, reply)).await,
            None => Ok(()),
        }
    }

    /// Gives the key back, for a refusal that is committed with what it changed.
    pub(crate) async fn release(&self, db: &mut Conn<'_>) -> Result<(), DbError> {
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

/// The reply that something was made, and where it is.
pub(crate) fn created(location: String, body: &impl Serialize) -> Result<Reply, ApiError> {
    let body = serde_json::to_string(body).map_err(|error| ApiError::Internal(error.to_string()))?;
    Ok(Reply { status: StatusCode::CREATED.as_u16(), location: Some(location), body })
}

/// The reply that something was done.
pub(crate) fn done(body: &impl Serialize) -> Result<Reply, ApiError> {
    let body = serde_json::to_string(body).map_err(|error| ApiError::Internal(error.to_string()))?;
    Ok(Reply { status: StatusCode::OK.as_u16(), location: None, body })
}

/// A reply on its way out, new or repeated.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) replayed: bool,
}

impl Answer {
    /// A reply to a first request.
    pub(crate) fn first(reply: Reply) -> Self {
        Self { reply, replayed: false }
    }

    /// A reply that was given before.
    pub(crate) fn again(reply: Reply) -> Self {
        Self { reply, replayed: true }
    }

    /// What the reply says.
    pub(crate) fn said<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_str(&self.reply.body).map_err(|error| ApiError::Internal(error.to_string()))
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = Response::new(axum::body::Body::from(self.reply.body));
        *response.status_mut() = StatusCode::from_u16(self.reply.status).unwrap_or(StatusCode::OK);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // It may show a secret, and it is of no use to anybody else.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(location) = self.reply.location.and_then(|path| HeaderValue::try_from(path).ok()) {
            headers.insert(header::LOCATION, location);
        }
        if self.replayed {
            headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
        }
        response
    }
}
