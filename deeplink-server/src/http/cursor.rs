//! Pagination cursors: a position in a list, with the list's filters. Opaque, authenticated, bound to the list, the tenant and
//! the credential's scope. Lists without filters are in [`super::pages`].

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::event::EventFilter;
use deeplink_core::link::{LinkFilter, LinkSort};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::caller::Caller;
use crate::error::ApiError;
use crate::vault::{CURSOR_MAC_LEN, Vault};

/// A position in a list.
pub(crate) trait Cursor: Serialize + DeserializeOwned {
    /// The name of the list; a cursor is valid for one list only.
    const LIST: &'static str;

    /// Encodes and signs the cursor.
    fn write(&self, vault: &Vault, caller: &Caller) -> Result<String, ApiError> {
        write(Self::LIST, self, vault, caller)
    }

    /// Decodes a cursor that was issued to this caller.
    fn read(text: &str, vault: &Vault, caller: &Caller) -> Result<Self, ApiError> {
        read(Self::LIST, text, vault, caller)
    }

    /// The refusal of a cursor that is sent with other filters than it was issued with.
    fn filter_mismatch() -> ApiError {
        refused("this cursor was issued for a list with different filters")
    }
}

/// Encodes and signs a position in a list of this name.
pub(super) fn write(list: &str, position: &impl Serialize, vault: &Vault, caller: &Caller) -> Result<String, ApiError> {
    let payload = serde_json::to_vec(position).map_err(|error| ApiError::Internal(error.to_string()))?;
    let mac = vault.cursor_mac(&bound(list, caller, &payload));
    Ok(URL_SAFE_NO_PAD.encode([&mac[..], &payload[..]].concat()))
}

/// Decodes a position in the list of this name that was issued to this caller.
pub(super) fn read<T: DeserializeOwned>(list: &str, text: &str, vault: &Vault, caller: &Caller) -> Result<T, ApiError> {
    let wrong = || refused("invalid cursor for this list; start again without one");
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
    let (mac, payload) = bytes.split_at_checked(CURSOR_MAC_LEN).ok_or_else(wrong)?;
    if !vault.cursor_is_ours(&bound(list, caller, payload), mac) {
        return Err(wrong());
    }
    serde_json::from_slice(payload).map_err(|_| wrong())
}

fn refused(message: &'static str) -> ApiError {
    Invalid::field(ErrorCode::InvalidCursor, "cursor", message).into()
}

/// What the MAC covers: the list, the tenant, the scope and the cursor.
fn bound(list: &str, caller: &Caller, payload: &[u8]) -> Vec<u8> {
    let scope = caller.affiliate.as_ref().map_or("", |affiliate| affiliate.as_str());
    let parts = [list, caller.tenant.as_str(), scope].map(str::as_bytes);
    [parts[0], parts[1], parts[2], payload].join(&b'\n')
}

/// A position in a list of links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkCursor {
    /// The position of the last link that was looked at.
    #[serde(rename = "p")]
    pub(crate) last: i64,
    /// The filters and the order of the list.
    #[serde(rename = "f")]
    pub(crate) filter: LinkFilter,
}

impl LinkCursor {
    /// Whether a list with these filters, in this order, is the cursor's.
    pub(crate) fn is_of(&self, asked: &LinkFilter) -> bool {
        let ordered = |filter: &LinkFilter| {
            let mut filter = filter.clone();
            filter.sort.get_or_insert(LinkSort::Newest);
            filter
        };
        ordered(asked) == ordered(&self.filter)
    }
}

impl Cursor for LinkCursor {
    const LIST: &'static str = "links";

    fn filter_mismatch() -> ApiError {
        refused("this cursor was issued for a list with different filters or a different sort order")
    }
}

/// A position in the log of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EventCursor {
    /// The position up to which the log was read.
    #[serde(rename = "p")]
    pub(crate) after: i64,
    /// The filters of the list.
    #[serde(rename = "f")]
    pub(crate) filter: EventFilter,
}

impl Cursor for EventCursor {
    const LIST: &'static str = "events";
}
