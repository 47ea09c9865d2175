//! Cursors: where a list goes on, with the filters it was started with. Opaque, authenticated, bound to the tenant and
//! the credential's scope.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::LinkFilter;
use serde::{Deserialize, Serialize};

use super::auth::Caller;
use crate::error::ApiError;
use crate::vault::{CURSOR_MAC_LEN, Vault};

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

/// What the MAC covers besides the cursor: whose list it is.
fn bound(caller: &Caller, payload: &[u8]) -> Vec<u8> {
    let scope = caller.affiliate.as_ref().map_or("", |affiliate| affiliate.as_str());
    [b"links\n", caller.tenant.as_str().as_bytes(), b"\n", scope.as_bytes(), b"\n", payload].concat()
}

impl LinkCursor {
    /// The cursor as text.
    pub(crate) fn write(&self, vault: &Vault, caller: &Caller) -> Result<String, ApiError> {
        let payload = serde_json::to_vec(self).map_err(|error| ApiError::Internal(error.to_string()))?;
        let mac = vault.cursor_mac(&bound(caller, &payload));
        Ok(URL_SAFE_NO_PAD.encode([&mac[..], &payload[..]].concat()))
    }

    /// Reads a cursor that this service made for this caller.
    pub(crate) fn read(text: &str, vault: &Vault, caller: &Caller) -> Result<Self, ApiError> {
        let wrong = || {
            let message = "this cursor was not made by this list; start again without one";
            ApiError::Invalid(Invalid::field(ErrorCode::InvalidCursor, "cursor", message))
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
        let (mac, payload) = bytes.split_at_checked(CURSOR_MAC_LEN).ok_or_else(wrong)?;
        if !vault.cursor_is_ours(&bound(caller, payload), mac) {
            return Err(wrong());
        }
        serde_json::from_slice(payload).map_err(|_| wrong())
    }
}
