//! What a refused or failed request means for its batch: the table, as a pure function.

use std::time::Duration;

use deeplink_core::error::ErrorCode;

use crate::error::{Error, Kind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Nothing was inserted, and the response says which rows are at fault, or that ids are taken.
    Rows,
    /// The key was used for another request: use a new key, and compare existing links.
    NewKey,
    /// The request is too large: send its halves.
    Split,
    /// The template is at fault.
    Refused,
    /// All requests wait; no attempt is counted.
    Wait(Option<Duration>),
    /// Send the same body with the same key again.
    Again,
    /// The run cannot continue.
    Stop,
}

pub(crate) fn react(error: &Error) -> Reaction {
    let code = error.code();
    let status = error.status().map_or(0, |status| status.as_u16());
    match error.kind() {
        Kind::RateLimited => Reaction::Wait(error.retry_after()),
        Kind::Unavailable if code.is_some_and(ErrorCode::is_not_configured) => Reaction::Stop,
        Kind::Unavailable if error.retry_after().is_some() => Reaction::Wait(error.retry_after()),
        Kind::Unavailable | Kind::Server | Kind::Connect | Kind::Timeout | Kind::Transport | Kind::Decode => {
            Reaction::Again
        }
        Kind::Conflict if code == Some(&ErrorCode::PaymentInProgress) => Reaction::Wait(error.retry_after()),
        Kind::Conflict if code == Some(&ErrorCode::IdempotencyConflict) => Reaction::NewKey,
        Kind::Conflict if code == Some(&ErrorCode::LinkIdTaken) => Reaction::Rows,
        Kind::BadRequest if code == Some(&ErrorCode::InvalidBatch) => Reaction::Rows,
        Kind::BadRequest if status == 413 => Reaction::Split,
        // Not an error object: a proxy's page, or an incomplete response. The request may have taken effect.
        Kind::BadRequest | Kind::NotFound | Kind::Conflict if code.is_none() => Reaction::Again,
        Kind::BadRequest | Kind::NotFound | Kind::Conflict => Reaction::Refused,
        Kind::Api if matches!(status, 200..=299 | 408) => Reaction::Again,
        Kind::Api if status >= 400 => Reaction::Refused,
        _ => Reaction::Stop,
    }
}

/// Whether a refusal says that the service does not know the `links` form.
pub(crate) fn refuses_links(error: &Error) -> bool {
    matches!(error.code(), Some(ErrorCode::BatchModeMissing | ErrorCode::BatchModeAmbiguous))
        || matches!(error.field(), Some("template" | "links" | "custom_ids" | "count"))
        || matches!(error.status().map(|status| status.as_u16()), Some(404 | 405))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use deeplink_core::error::ErrorBody;
    use http::{HeaderMap, StatusCode};

    fn reply(status: u16, code: Option<ErrorCode>, wait: Option<u64>) -> Error {
        let body = code
            .map_or_else(|| b"<html>".to_vec(), |code| serde_json::to_vec(&ErrorBody::new(code, "no")).expect("JSON"));
        let status = StatusCode::from_u16(status).expect("a status");
        Error::reply(status, &HeaderMap::new(), Bytes::from(body), wait.map(Duration::from_secs))
    }

    #[test]
    fn each_reply_has_its_reaction() {
        use ErrorCode as C;
        let wait = |seconds| Reaction::Wait(Some(Duration::from_secs(seconds)));
        for (status, code, asked, reaction) in [
            (400, Some(C::InvalidBatch), None, Reaction::Rows),
            (409, Some(C::LinkIdTaken), None, Reaction::Rows),
            (409, Some(C::IdempotencyConflict), None, Reaction::NewKey),
            (409, Some(C::PaymentInProgress), Some(1), wait(1)),
            (400, Some(C::InvalidUrl), None, Reaction::Refused),
            (400, None, None, Reaction::Again),
            (404, None, None, Reaction::Again),
            (413, None, None, Reaction::Split),
            (404, Some(C::AffiliateNotFound), None, Reaction::Refused),
            (405, Some(C::MethodNotAllowed), None, Reaction::Refused),
            (413, Some(C::PayloadTooLarge), None, Reaction::Split),
            (401, Some(C::InvalidKey), None, Reaction::Stop),
            (403, Some(C::ForbiddenScope), None, Reaction::Stop),
            (402, Some(C::QuotaExceeded), None, Reaction::Stop),
            (503, Some(C::BillingNotConfigured), Some(1), Reaction::Stop),
            (301, None, None, Reaction::Stop),
            (429, Some(C::RateLimited), Some(7), wait(7)),
            (429, None, None, Reaction::Wait(None)),
            (503, Some(C::Overloaded), Some(2), wait(2)),
            (503, Some(C::DatabaseUnavailable), None, Reaction::Again),
            (500, Some(C::Internal), None, Reaction::Again),
            (502, None, None, Reaction::Again),
            (504, None, Some(1), Reaction::Again),
            (408, None, None, Reaction::Again),
            (200, None, None, Reaction::Again),
        ] {
            assert_eq!(react(&reply(status, code.clone(), asked)), reaction, "{status} {code:?}");
        }
    }
}
