//! Lists: how many items a page has, and where the next one begins. Cursors are opaque to everyone but the server that
//! made them.

use crate::error::{ErrorCode, Invalid};

/// Default number of links or deliveries per page; for everything else it is [`MAX_LIMIT`].
pub const DEFAULT_LIMIT: u32 = 50;
/// Maximum items per page.
pub const MAX_LIMIT: u32 = 100;

/// One page of a list.
pub trait Page {
    /// The type of the items.
    type Item;

    /// Where the next page begins; `None` on the last.
    fn next_cursor(&self) -> Option<&str>;

    /// The page's items.
    fn into_items(self) -> Vec<Self::Item>;
}

/// Reads a `limit`: 1 to 100, `default` when absent.
pub fn limit(text: Option<&str>, default: u32) -> Result<u32, Invalid> {
    limit_to(text, default, MAX_LIMIT)
}

/// Reads a `limit`: 1 to `most`, `default` when absent.
pub fn limit_to(text: Option<&str>, default: u32, most: u32) -> Result<u32, Invalid> {
    let Some(text) = text else { return Ok(default) };
    text.parse().ok().filter(|limit| (1..=most).contains(limit) && text.bytes().all(|b| b.is_ascii_digit())).ok_or_else(
        || Invalid::field(ErrorCode::BadRequest, "limit", format!("limit must be a number from 1 to {most}")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!(limit(None, DEFAULT_LIMIT), Ok(50));
        for (text, value) in [
            ("1", Some(1)),
            ("100", Some(100)),
            ("0", None),
            ("101", None),
            ("-1", None),
            ("+5", None),
            ("", None),
            ("1.5", None),
            ("ten", None),
        ] {
            assert_eq!(limit(Some(text), 7).ok(), value, "{text}");
        }
    }
}
