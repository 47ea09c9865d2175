//! [`SignedEvent`]: a handler's parameter that exists only if the service signed it.

use std::fmt;

use axum_core::body::Body;
use axum_core::extract::{FromRef, FromRequest, Request};
use axum_core::response::{IntoResponse, Response};
use deeplink_core::error::{ErrorBody, ErrorCode};
use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::{Error, Event, MAX_BODY, Verifier};

/// An event that the service signed, for axum handlers. The router's state contains the [`Verifier`].
///
/// ```
/// use axum_core::extract::FromRef;
/// use deeplink_client::webhook::{SignedEvent, Verifier};
///
/// #[derive(Clone)]
/// struct State {
///     verifier: Verifier,
/// }
///
/// impl FromRef<State> for Verifier {
///     fn from_ref(state: &State) -> Self {
///         state.verifier.clone()
///     }
/// }
///
/// // With axum: Router::new().route("/hook", post(hook)).with_state(state)
/// async fn hook(SignedEvent { event, id, .. }: SignedEvent) {
///     println!("{} {id:?}", event.kind);
/// }
/// ```
///
/// It reads at most 1 MiB of the body, and parses no JSON of an unsigned request. It is as strict about time as its
/// verifier ([`Verifier::require_timestamp`]), and accepts the same event again: [`Deduplicator`](super::Deduplicator)
/// detects repeats.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SignedEvent {
    /// The event.
    pub event: Event,
    /// The event's id, to deduplicate by. It is present if `webhook-signature` is valid; with
    /// [`Verifier::require_timestamp`], always.
    pub id: Option<String>,
}

/// Why a request was not a [`SignedEvent`]: the response to its sender, as `{error, code}`.
#[derive(Debug)]
#[non_exhaustive]
pub enum Refused {
    /// 401 `invalid_signature`: the signature is not valid.
    Unsigned(Error),
    /// 400 `invalid_event`: the signature is valid, but the body is not an event that this build can read.
    Unreadable(Error),
    /// 413 `payload_too_large`: the body is longer than 1 MiB.
    TooLarge,
    /// 400 `bad_request`: the body was truncated.
    Broken,
}

impl Refused {
    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Unsigned(_) => StatusCode::UNAUTHORIZED,
            Self::Unreadable(_) | Self::Broken => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    fn code(&self) -> ErrorCode {
        match self {
            Self::Unsigned(_) => ErrorCode::from("invalid_signature"),
            Self::Unreadable(_) => ErrorCode::InvalidEvent,
            Self::TooLarge => ErrorCode::PayloadTooLarge,
            Self::Broken => ErrorCode::BadRequest,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(why) => why.fmt(f),
            Self::Unreadable(_) => f.write_str("the body is not an event"),
            Self::TooLarge => f.write_str("the body is longer than 1 MiB"),
            Self::Broken => f.write_str("the body was truncated"),
        }
    }
}

impl std::error::Error for Refused {}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = ErrorBody::new(self.code(), self.to_string());
        let body = serde_json::to_string(&body).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

impl<S> FromRequest<S> for SignedEvent
where
    S: Send + Sync,
    Verifier: FromRef<S>,
{
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let verifier = Verifier::from_ref(state);
        let (parts, body) = request.into_parts();
        let body = match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(why) if why.is::<LengthLimitError>() => return Err(Refused::TooLarge),
            Err(_) => return Err(Refused::Broken),
        };
        let verified = verifier.verify(&parts.headers, &body).map_err(Refused::Unsigned)?;
        let event = Event::parse(&body).map_err(|why| Refused::Unreadable(Error::Parse(why)))?;
        Ok(Self { event, id: verified.id.map(str::to_owned) })
    }
}
