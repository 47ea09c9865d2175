//! The master keys in the settings.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use deeplink_core::secret::Random;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// 32 random bytes from which the purpose keys are derived.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct MasterKey(pub(crate) [u8; 32]);

impl MasterKey {
    /// A new random key.
    pub fn generate(random: &mut Random) -> Self {
        Self(random.bytes())
    }

    pub(crate) fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }
}

/// Whether a text can be the id of a master key: 8 hex digits.
pub(crate) fn is_key_id(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[master key]")
    }
}

/// The text is not 32 bytes in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a 32-byte key in base64; create one with: openssl rand -base64 32")]
pub struct NotAMasterKey;

impl FromStr for MasterKey {
    type Err = NotAMasterKey;

    fn from_str(text: &str) -> Result<Self, NotAMasterKey> {
        let mut bytes =
            STANDARD_NO_PAD.decode(text.trim().trim_end_matches('=').as_bytes()).map_err(|_| NotAMasterKey)?;
        let key = <[u8; 32]>::try_from(bytes.as_slice()).map(Self).map_err(|_| NotAMasterKey);
        bytes.zeroize();
        key
    }
}
