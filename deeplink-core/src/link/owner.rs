//! What a link's owner decides besides its content: its name, when it ends, and the clicks counted before it moved here.

use crate::destinations::UrlField;
use crate::error::{ErrorCode, Invalid};
use crate::text::TextField;
use crate::time::Timestamp;
use crate::url;

/// Maximum characters of a link's name.
pub const MAX_NAME: usize = 120;
/// The latest expiry that an owner can set, in days from now: 100 years.
pub const MAX_EXPIRY_DAYS: i64 = 36_525;

/// The largest count of imported clicks: beyond it, JSON numbers lose digits in many programs.
pub const MAX_IMPORTED_CLICKS: i64 = 9_007_199_254_740_991;

pub(super) const EXPIRED_URL: UrlField = UrlField::new("expired_url", url::web);

/// Applies the rules of a name; a blank one counts as absent.
pub(super) fn name(text: Option<&str>) -> Result<Option<String>, Invalid> {
    TextField::line("name", MAX_NAME, ErrorCode::InvalidName).optional(text)
}

/// Refuses a count that is negative or too large.
pub(super) fn imported_clicks(count: i64) -> Result<i64, Invalid> {
    if (0..=MAX_IMPORTED_CLICKS).contains(&count) {
        return Ok(count);
    }
    let message = "imported_clicks must be a whole number between 0 and 9,007,199,254,740,991";
    Err(Invalid::field(ErrorCode::BadRequest, "imported_clicks", message))
}

fn wrong(message: impl Into<String>) -> Invalid {
    Invalid::field(ErrorCode::InvalidExpiresAt, "expires_at", message)
}

/// Parses an end.
pub(super) fn end(text: &str) -> Result<Timestamp, Invalid> {
    text.parse().map_err(|why| wrong(format!("expires_at is {why}")))
}

/// Rejects an expiry that is not in the future, or that is more than 100 years ahead.
pub fn check_end(end: Option<Timestamp>, now: Timestamp) -> Result<(), Invalid> {
    match end {
        Some(end) if end <= now => Err(wrong("expires_at must be in the future")),
        Some(end) if end > now.plus_days(MAX_EXPIRY_DAYS) => Err(wrong("expires_at must be within the next 100 years")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_later_than_now_and_within_a_hundred_years() {
        let now: Timestamp = "2026-11-20T09:30:00Z".parse().expect("a time");
        for (text, is_allowed) in [
            ("2026-11-20T09:30:00Z", false),
            ("2026-11-20T10:30:00.000+01:00", false),
            ("2026-11-20T09:30:00.001Z", true),
            ("2126-11-20T09:30:00Z", true),
            ("2126-11-22T09:30:00Z", false),
        ] {
            let end = end(text).expect("a time");
            assert_eq!(check_end(Some(end), now).is_ok(), is_allowed, "{text}");
        }
        assert_eq!(check_end(None, now), Ok(()));
    }
}
