//! `Idempotency-Key`: look up, run, keep the reply, all in the transaction of the effect.
//!
//! A repeat of the same request gets the first reply; another request under the same key is a conflict. A refusal
//! rolls the claim back with everything else, so the key may be used again.

use axum::response::{IntoResponse, Response};
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::secret::sha256_hex;
use deeplink_core::time::Timestamp;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sha2::{Digest, Sha256};

use super::auth::Caller;
use crate::db::replies::{self, Claim, Reply};
use crate::db::{Conn, DbError};
use crate::error::ApiError;

/// The key of a request together with what it stands for.
#[derive(Debug, Clone)]
pub(crate) struct Once {
    /// `None` when the request carries no key: every request is then a first one.
    key: Option<Key>,
}

#[derive(Debug, Clone)]
struct Key {
    id: String,
    request: String,
}

impl Once {
    /// Reads the key. It is scoped to the tenant, the credential's scope, the method and the path.
    pub(crate) fn read(
        headers: &HeaderMap,
        caller: &Caller,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Self, ApiError> {
        let mut values = headers.get_all("idempotency-key").iter();
        let Some(value) = values.next() else { return Ok(Self { key: None }) };
        let wrong = || {
            let message = "Idempotency-Key is one value of 1 to 255 printable ASCII characters";
            ApiError::Invalid(Invalid::field(ErrorCode::BadRequest, "Idempotency-Key", message))
        };
        let key = value.to_str().map_err(|_| wrong())?;
        if values.next().is_some() || !(1..=255).contains(&key.len()) {
            return Err(wrong());
        }
        let scope = caller.affiliate.as_ref().map_or("", |affiliate| affiliate.as_str());
        let id = sha256_hex(&format!("{}\n{scope}\n{method}\n{path}\n{key}", caller.tenant));
        Ok(Self { key: Some(Key { id, request: hex::encode(Sha256::digest(body)) }) })
    }

    /// Claims the key; a reply means that the work was done before and this is what was said.
    pub(crate) async fn claim(&self, db: &mut Conn<'_>, now: Timestamp) -> Result<Option<Reply>, ApiError> {
        let Some(key) = &self.key else { return Ok(None) };
        match replies::claim(db, &key.id, &key.request, now).await? {
            Claim::First => Ok(None),
            Claim::Again(reply) => Ok(Some(reply)),
            Claim::Other => {
                let message = "this Idempotency-Key was used for another request";
                Err(ApiError::Invalid(Invalid::field(ErrorCode::IdempotencyConflict, "Idempotency-Key", message)))
            }
        }
    }

    /// Keeps the reply with the effect.
    pub(crate) async fn keep(&self, db: &mut Conn<'_>, reply: &Reply) -> Result<(), DbError> {
        match &self.key {
            Some(key) => replies::keep(db, &key.id, reply).await,
            None => Ok(()),
        }
    }
}

/// A reply on its way out, new or repeated.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) replayed: bool,
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = Response::new(axum::body::Body::from(self.reply.body));
        *response.status_mut() = StatusCode::from_u16(self.reply.status).unwrap_or(StatusCode::OK);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(location) = self.reply.location.and_then(|path| HeaderValue::try_from(path).ok()) {
            headers.insert(header::LOCATION, location);
        }
        if self.replayed {
            headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
        }
        response
    }
}
