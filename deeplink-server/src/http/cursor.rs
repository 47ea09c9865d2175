//! Cursors: where a list goes on, with the filters it was started with. Opaque, authenticated, bound to the list, the tenant
//! and the credential's scope.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::LinkFilter;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::auth::Caller;
use crate::error::ApiError;
use crate::vault::{CURSOR_MAC_LEN, Vault};

/// Where a list goes on.
pub(crate) trait Cursor: Serialize + DeserializeOwned {
    /// What it is a list of. A cursor of one list is none of another.
    const LIST: &'static str;

    /// The cursor as text.
    fn write(&self, vault: &Vault, caller: &Caller) -> Result<String, ApiError> {
        let payload = serde_json::to_vec(self).map_err(|error| ApiError::Internal(error.to_string()))?;
        let mac = vault.cursor_mac(&bound(Self::LIST, caller, &payload));
        Ok(URL_SAFE_NO_PAD.encode([&mac[..], &payload[..]].concat()))
    }

    /// Reads a cursor that this service made for this caller.
    fn read(text: &str, vault: &Vault, caller: &Caller) -> Result<Self, ApiError> {
        let wrong = || refused("this cursor was not made by this list; start again without one");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
        let (mac, payload) = bytes.split_at_checked(CURSOR_MAC_LEN).ok_or_else(wrong)?;
        if !vault.cursor_is_ours(&bound(Self::LIST, caller, payload), mac) {
            return Err(wrong());
        }
        serde_json::from_slice(payload).map_err(|_| wrong())
    }

    /// The refusal of a cursor that comes with filters that are not its own.
    fn of_another_list() -> ApiError {
        refused("this cursor belongs to a list with other filters")
    }
}

fn refused(message: &'static str) -> ApiError {
    Invalid::field(ErrorCode::InvalidCursor, "cursor", message).into()
}

/// What the MAC covers besides the cursor: whose list it is.
fn bound(list: &str, caller: &Caller, payload: &[u8]) -> Vec<u8> {
    let scope = caller.affiliate.as_ref().map_or("", |affiliate| affiliate.as_str());
    let parts = [list, caller.tenant.as_str(), scope].map(str::as_bytes);
    [parts[0], parts[1], parts[2], payload].join(&b'\n')
}

/// Where a list of links goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkCursor {
    /// The position of the last link shown.
    #[serde(rename = "p")]
    pub(crate) before: i64,
    /// The filters of the list.
    #[serde(rename = "f")]
    pub(crate) filter: LinkFilter,
}

impl Cursor for LinkCursor {
    const LIST: &'static str = "links";
}
