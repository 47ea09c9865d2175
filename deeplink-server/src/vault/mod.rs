//! The server keys: what must be read back later is sealed with them before it is stored, cursors are signed, and codes
//! are stored as keyed hashes.
//!
//! The first key seals, every key opens, so keys can be exchanged: put the new one in front, restart every node, and
//! take the old one away. A sealed value names its key and is bound to its table and row, so that it opens nowhere
//! else. Where keys come from, and how a node proves that it has the right ones, is in `unlock`.

mod unlock;

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use deeplink_core::id::TenantId;
use deeplink_core::secret::{ConfirmationCode, Random};
use deeplink_core::user::Email;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

pub(crate) use unlock::Proof;
pub use unlock::{KeyFileError, UnlockError};

/// Bytes of a cursor's signature.
pub const CURSOR_MAC_LEN: usize = 16;

/// 32 random bytes from which the working keys are derived.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct MasterKey([u8; 32]);

impl MasterKey {
    /// A new key.
    pub fn generate(random: &mut Random) -> Self {
        Self(random.bytes())
    }

    fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[master key]")
    }
}

/// The text is not 32 bytes in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key is 32 bytes in base64, as `openssl rand -base64 32` prints them")]
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

/// A sealed value cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unopened {
    /// The value was sealed with a key that this node does not have.
    #[error("sealed with server key {0}, which is not set here")]
    OtherKey(String),
    /// The value was changed, or belongs to another row.
    #[error("the sealed value was changed or stands in the wrong row")]
    Broken,
}

/// The working keys of one master key.
#[derive(Clone)]
struct Keys {
    id: String,
    seal: XChaCha20Poly1305,
    cursor: Hmac<Sha256>,
    code: Hmac<Sha256>,
}

/// Seals, opens and signs with the server keys.
#[derive(Clone)]
pub struct Vault {
    first: Keys,
    older: Vec<Keys>,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keys().map(|keys| &keys.id)).finish()
    }
}

impl Keys {
    fn of(master: &MasterKey) -> Self {
        let mut seal = derive(master, "seal");
        let (cursor, code) = (derive(master, "cursor"), derive(master, "code"));
        let keys = Self {
            id: hex::encode(&derive(master, "id")[..4]),
            seal: XChaCha20Poly1305::new(&seal.into()),
            cursor: mac_with(&cursor),
            code: mac_with(&code),
        };
        seal.zeroize();
        keys
    }
}

/// A key for one purpose: the master key itself never touches data.
fn derive(master: &MasterKey, purpose: &str) -> [u8; 32] {
    mac_with(&master.0).chain_update("deeplink 1 ").chain_update(purpose).finalize().into_bytes().into()
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
fn mac_with(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

impl Vault {
    /// From the keys themselves, the one that seals first.
    pub fn of(first: &MasterKey, older: &[MasterKey]) -> Self {
        Self { first: Keys::of(first), older: older.iter().map(Keys::of).collect() }
    }

    fn keys(&self) -> impl Iterator<Item = &Keys> {
        std::iter::once(&self.first).chain(&self.older)
    }

    /// Seals what is stored in a row, so that only this row opens it.
    pub fn seal(&self, table: &str, row: &str, plain: &[u8]) -> String {
        let nonce: [u8; 24] = Random::system().bytes();
        let payload = Payload { msg: plain, aad: &place(table, row) };
        #[expect(clippy::expect_used, reason = "fails only above 256 GiB")]
        let sealed = self.first.seal.encrypt(&XNonce::from(nonce), payload).expect("a text shorter than 256 GiB");
        format!("{}.{}", self.first.id, URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    /// Opens what [`Vault::seal`] made for the same row.
    pub fn open(&self, table: &str, row: &str, sealed: &str) -> Result<Vec<u8>, Unopened> {
        let (id, text) = sealed.split_once('.').ok_or(Unopened::Broken)?;
        let keys = self.keys().find(|keys| keys.id == id).ok_or_else(|| Unopened::OtherKey(id.to_owned()))?;
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| Unopened::Broken)?;
        let (nonce, sealed) = bytes.split_first_chunk::<24>().ok_or(Unopened::Broken)?;
        let payload = Payload { msg: sealed, aad: &place(table, row) };
        keys.seal.decrypt(&XNonce::from(*nonce), payload).map_err(|_| Unopened::Broken)
    }

    /// Whether a sealed value was made with the key that seals now.
    fn is_current(&self, sealed: &str) -> bool {
        sealed.split_once('.').is_some_and(|(id, _)| id == self.first.id)
    }

    /// Signs what a cursor says.
    pub fn cursor_mac(&self, cursor: &[u8]) -> [u8; CURSOR_MAC_LEN] {
        let full: [u8; 32] = self.first.cursor.clone().chain_update(cursor).finalize().into_bytes().into();
        let mut mac = [0; CURSOR_MAC_LEN];
        mac.copy_from_slice(&full[..CURSOR_MAC_LEN]);
        mac
    }

    /// Whether one of the keys signed this. Takes as long for a wrong signature as for a right one.
    pub fn cursor_is_ours(&self, cursor: &[u8], mac: &[u8]) -> bool {
        mac.len() == CURSOR_MAC_LEN
            && self.keys().any(|keys| keys.cursor.clone().chain_update(cursor).verify_truncated_left(mac).is_ok())
    }

    /// The keyed hash under which a confirmation code is stored, in hex: bound to the account and the address that it was
    /// sent for.
    pub fn code_mac(&self, tenant: &TenantId, email: &Email, code: &ConfirmationCode) -> String {
        let mac = self.first.code.clone().chain_update(code_of(tenant, email, code).as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }

    /// Whether a code is the one that was stored. Takes as long for a wrong code as for a right one.
    pub fn code_is(&self, tenant: &TenantId, email: &Email, code: &ConfirmationCode, mac: &str) -> bool {
        let Ok(mac) = hex::decode(mac) else { return false };
        let text = code_of(tenant, email, code);
        self.keys().any(|keys| keys.code.clone().chain_update(text.as_bytes()).verify_slice(&mac).is_ok())
    }
}

/// What the MAC of a confirmation code covers: whose it is, and the code. An address holds no line break.
fn code_of(tenant: &TenantId, email: &Email, code: &ConfirmationCode) -> Zeroizing<String> {
    Zeroizing::new(format!("{tenant}\n{email}\n{}", code.expose()))
}

/// What a sealed value is bound to. The length keeps `("ab", "c")` and `("a", "bc")` apart.
fn place(table: &str, row: &str) -> Vec<u8> {
    format!("{}:{table}{row}", table.len()).into_bytes()
}

#[cfg(test)]
mod tests;
