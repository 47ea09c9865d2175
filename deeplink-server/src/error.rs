//! Every failure of the service as one enum, and its response: status, error object, headers.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use deeplink_core::bulk::RowError;
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::time::Timestamp;
use http::{HeaderValue, StatusCode, header};

use crate::db::{DbError, WriteError};

/// Seconds after which a request refused for load may be repeated.
const RETRY_SOON: u64 = 1;

/// The message of a 404 that does not say what is missing; `http::missing` puts that in for paths with an ID.
pub(crate) const NOT_FOUND: &str = "not found";

/// Whole seconds until a moment, rounded up: the value of `Retry-After`.
pub(crate) fn seconds_until(now: Timestamp, then: Timestamp) -> u64 {
    u64::try_from(then.as_millis() - now.as_millis()).unwrap_or(0).div_ceil(1_000).max(1)
}

/// Where a paid request stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The checks that need no account passed.
    FormIsValid,
    /// The trial run succeeded.
    TrialPassed,
    /// The wallet's account is not the one the request ran for.
    OtherTenant,
    /// The payment was used in the meantime.
    PaymentUsed,
}

/// Why a request was rejected or failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// Input broke a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Rows of a batch broke rules.
    #[error("{}; nothing was stored", if .0.len() == 1 { "1 row is invalid".into() } else { format!("{} rows are invalid", .0.len()) })]
    Rows(Vec<RowError>),
    /// A code and a sentence suffice.
    #[error("{1}")]
    Plain(ErrorCode, &'static str),
    /// A limit is reached, or something must end first; the number is the seconds until then.
    #[error("{1}; try again in {2} s")]
    TryLater(ErrorCode, &'static str, u64),
    /// The path exists, but not with this method. Holds the allowed methods, unless the router adds them.
    #[error("method not allowed for this path")]
    MethodNotAllowed(Option<&'static str>),
    /// The plan's limit is reached.
    #[error("the plan includes {limit} {resource}; the account has {current}")]
    Quota {
        /// The resource that ran out.
        resource: &'static str,
        /// How many the plan includes.
        limit: i64,
        /// How many there are.
        current: i64,
    },
    /// The limit of an account is reached, whatever its plan.
    #[error("the limit is {limit} {resource}, and this account has {current}; delete one first")]
    Full {
        /// What the limit counts.
        resource: &'static str,
        /// The limit.
        limit: i64,
        /// How many there are.
        current: i64,
    },
    /// A paid request stopped where it should; only for the code that runs it, never sent to a client.
    #[error("a paid request stopped: {0:?}")]
    Stopped(Stop),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DbError),
    /// Something inside failed; the text is for the log.
    #[error("{0}")]
    Internal(String),
}

impl ApiError {
    /// A limit is reached: the sentence says whose.
    pub(crate) fn limited(sentence: &'static str) -> impl FnOnce(u64) -> Self {
        move |seconds| Self::TryLater(ErrorCode::RateLimited, sentence, seconds)
    }

    /// One more than an account may have: with its plan, or with any plan if `limit` is `most`.
    pub(crate) fn one_too_many(resource: &'static str, limit: i64, current: i64, most: i64) -> Self {
        if limit < most { Self::Quota { resource, limit, current } } else { Self::Full { resource, limit, current } }
    }

    /// It does not exist, or is not the caller's.
    pub(crate) fn not_found() -> Self {
        Self::Plain(ErrorCode::NotFound, NOT_FOUND)
    }

    /// Something of a given kind does not exist, or is not the caller's.
    pub(crate) fn no_such(message: &'static str) -> Self {
        Self::Plain(ErrorCode::NotFound, message)
    }

    /// Whether the database was unavailable, so that a stale value is the better answer.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Database(DbError::Unavailable(_) | DbError::Overloaded))
    }

    /// Whether this is a "not found".
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Plain(ErrorCode::NotFound, _))
    }

    /// The link id is in use.
    pub(crate) fn link_id_taken(id: &str) -> Self {
        let message = format!("the ID \"{id}\" is already in use");
        Self::Invalid(Invalid::field(ErrorCode::LinkIdTaken, "custom_id", message))
    }

    /// No credential where one is needed.
    pub(crate) fn unauthorized() -> Self {
        Self::Plain(ErrorCode::Unauthorized, "send a secret key in the Authorization header: Bearer KEY")
    }

    /// Not signed in. Unknown, ended and revoked sessions look alike.
    pub(crate) fn no_session() -> Self {
        Self::Plain(ErrorCode::Unauthorized, "not signed in")
    }

    /// Another site made a browser send this.
    pub(crate) fn csrf_rejected() -> Self {
        Self::Plain(ErrorCode::CsrfRejected, "this request came from another site")
    }

    /// Unknown and revoked keys look alike.
    pub(crate) fn invalid_key() -> Self {
        Self::Plain(ErrorCode::InvalidKey, "this key is not valid")
    }

    /// The credential's scope does not reach this operation.
    pub(crate) fn forbidden_scope() -> Self {
        Self::Plain(ErrorCode::ForbiddenScope, "an affiliate's credential cannot do this")
    }

    /// The operator suspended the account.
    pub(crate) fn account_suspended() -> Self {
        let message = "this account is suspended by the operator of this service; you can read its data, but not change \
            anything";
        Self::Plain(ErrorCode::AccountSuspended, message)
    }

    /// The request is malformed.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::Invalid(Invalid::whole(ErrorCode::BadRequest, message))
    }

    /// A parameter or field is malformed.
    pub(crate) fn bad_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid(Invalid::field(ErrorCode::BadRequest, field.into(), message))
    }

    /// The code and message for the caller, without internal details.
    pub(crate) fn body(&self) -> ErrorBody {
        match self {
            Self::Invalid(invalid) => invalid.clone().into(),
            Self::Rows(rows) => {
                let mut body = ErrorBody::new(ErrorCode::InvalidBatch, self.to_string());
                body.errors.clone_from(rows);
                body
            }
            Self::Plain(code, message) => ErrorBody::new(code.clone(), *message),
            Self::TryLater(code, ..) => ErrorBody::new(code.clone(), self.to_string()),
            Self::MethodNotAllowed(_) => ErrorBody::new(ErrorCode::MethodNotAllowed, self.to_string()),
            Self::Quota { resource, limit, current } | Self::Full { resource, limit, current } => {
                let mut body = ErrorBody::new(ErrorCode::QuotaExceeded, self.to_string());
                body.resource = Some((*resource).to_owned());
                body.limit = Some(*limit);
                body.current = Some(*current);
                body
            }
            Self::Database(DbError::Overloaded) => ErrorBody::new(
                ErrorCode::Overloaded,
                format!("the service is overloaded and the request was not applied; try again in {RETRY_SOON} s"),
            ),
            Self::Database(DbError::ShareUsedUp) => ErrorBody::new(
                ErrorCode::Overloaded,
                format!(
                    "this account has too many pending writes and the request was not applied; try again in \
                     {RETRY_SOON} s"
                ),
            ),
            Self::Database(DbError::Full) => {
                ErrorBody::new(ErrorCode::StorageFull, "the service's disk is full; the request was not applied")
            }
            Self::Database(DbError::Unavailable(_) | DbError::Deadlock(_)) => ErrorBody::new(
                ErrorCode::DatabaseUnavailable,
                "the database is unavailable and the request was not applied; try again",
            ),
            Self::Database(_) | Self::Internal(_) | Self::Stopped(_) => {
                ErrorBody::new(ErrorCode::Internal, "internal error; it was logged with the request ID")
            }
        }
    }
}

impl WriteError for ApiError {
    fn database(&self) -> Option<&DbError> {
        if let Self::Database(error) = self { Some(error) } else { None }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.to_response()
    }
}

impl ApiError {
    /// The status of its code.
    pub(crate) fn status(&self) -> StatusCode {
        let status = self.body().code.status().and_then(|status| StatusCode::from_u16(status).ok());
        status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Seconds after which the same request may be sent again, where waiting helps.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        match self {
            Self::TryLater(.., seconds) => Some((*seconds).max(1)),
            _ => {
                let passes = self.status() == StatusCode::SERVICE_UNAVAILABLE && !self.body().code.is_not_configured();
                passes.then_some(RETRY_SOON)
            }
        }
    }

    /// The response for this error.
    pub(crate) fn to_response(&self) -> Response {
        let (body, status) = (self.body(), self.status());
        // A feature that the operator switched off is not a failure.
        let cause = (status.is_server_error() && !body.code.is_not_configured()).then(|| self.to_string());
        let mut response = Response::new(axum::body::Body::empty());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Self::MethodNotAllowed(Some(methods)) = self {
            headers.insert(header::ALLOW, HeaderValue::from_static(methods));
        }
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Self::Stopped(stop) = self {
            response.extensions_mut().insert(*stop);
        }
        // The body is written last, when the request's id is known.
        response.extensions_mut().insert(Record { body, cause });
        response
    }
}

/// The error object of a response that has no request id yet.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    body: ErrorBody,
    /// The internal cause, for the log.
    cause: Option<String>,
}

impl Record {
    /// The error body for the caller.
    pub(crate) fn body(&self) -> &ErrorBody {
        &self.body
    }

    /// The same, mutable.
    pub(crate) fn body_mut(&mut self) -> &mut ErrorBody {
        &mut self.body
    }

    /// Logs the internal cause, under the request's id.
    pub(crate) fn log(&self, request_id: &str) {
        let Some(cause) = &self.cause else { return };
        // A caller can be refused as often as it likes; `/metrics` counts it.
        if self.body.code == ErrorCode::Overloaded {
            tracing::debug!(request_id, error = cause, "request rejected");
        } else {
            tracing::error!(request_id, code = %self.body.code, error = cause, "request failed");
        }
    }

    /// The record as JSON, with the request's id. The internal cause goes to the log, under the same id.
    pub(crate) fn into_bytes(mut self, request_id: &str) -> Bytes {
        self.log(request_id);
        self.body.request_id = Some(request_id.to_owned());
        serde_json::to_vec(&self.body)
            .map_or_else(|_| Bytes::from_static(b"{\"code\":\"internal\",\"error\":\"\"}"), Bytes::from)
    }
}
