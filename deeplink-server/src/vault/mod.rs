//! The master keys: they encrypt ("seal") secrets that must be read back from the database, sign cursors, and hash
//! confirmation codes.
//!
//! The first key encrypts and all keys decrypt, so keys can be rotated: every node must know the new one before any
//! node encrypts with it, and the old one is removed when no value needs it. A sealed value names its key and is bound
//! to its table and row. Where keys come from, and how a node checks that they match the database, is in `unlock`;
//! `reseal` re-encrypts the values of older keys.

mod reseal;
mod unlock;
mod unopened;

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use deeplink_core::id::TenantId;
use deeplink_core::secret::{ConfirmationCode, Random};
use deeplink_core::user::Email;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use self::unopened::Unopened;
use crate::db::sealed::COLUMNS;

pub use crate::config::{MasterKey, NotAMasterKey};
pub(crate) use unlock::KeyCheck;
pub use unlock::{KeyFileError, UnlockError};

/// Table and name of every column that holds sealed values.
pub fn sealed_columns() -> impl Iterator<Item = (&'static str, &'static str)> {
    COLUMNS.iter().map(|column| (column.table, column.name))
}

/// Length of a cursor's signature in bytes.
pub const CURSOR_MAC_LEN: usize = 16;

/// Why a sealed value cannot be decrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecryptError {
    /// The value was encrypted with a key that this node does not have.
    #[error("encrypted with master key {0}, which is not configured")]
    UnknownKey(String),
    /// The value was modified, or belongs to another row.
    #[error("the encrypted value was modified or belongs to another row")]
    Invalid,
}

/// The keys derived from one master key.
#[derive(Clone)]
struct Keys {
    id: String,
    seal: XChaCha20Poly1305,
    cursor: Hmac<Sha256>,
    code: Hmac<Sha256>,
    network: Hmac<Sha256>,
}

/// Encrypts, decrypts and signs with the master keys.
#[derive(Clone)]
pub struct Vault {
    first: Keys,
    older: Vec<Keys>,
    unopened: Arc<Unopened>,
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
            network: mac_with(&derive(master, "network")),
        };
        seal.zeroize();
        keys
    }
}

/// A key for one purpose: the master key itself is never used on data.
fn derive(master: &MasterKey, purpose: &str) -> [u8; 32] {
    mac_with(&master.0).chain_update("deeplink 1 ").chain_update(purpose).finalize().into_bytes().into()
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
fn mac_with(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

impl Vault {
    /// From master keys; the first one encrypts.
    pub fn of(first: &MasterKey, older: &[MasterKey]) -> Self {
        Self { first: Keys::of(first), older: older.iter().map(Keys::of).collect(), unopened: Arc::default() }
    }

    fn keys(&self) -> impl Iterator<Item = &Keys> {
        std::iter::once(&self.first).chain(&self.older)
    }

    /// Encrypts a value of a row; it can be decrypted for this row only.
    pub fn seal(&self, table: &str, row: &str, plain: &[u8]) -> String {
        let nonce: [u8; 24] = Random::system().bytes();
        let payload = Payload { msg: plain, aad: &associated_data(table, row) };
        #[expect(clippy::expect_used, reason = "fails only above 256 GiB")]
        let sealed = self.first.seal.encrypt(&XNonce::from(nonce), payload).expect("a value shorter than 256 GiB");
        format!("{}.{}", self.first.id, URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat()))
    }

    /// The ids of the keys; the first one encrypts.
    pub(crate) fn key_ids(&self) -> impl Iterator<Item = &str> {
        self.keys().map(|keys| keys.id.as_str())
    }

    /// Decrypts the result of [`Vault::seal`] for the same row. A failure is counted and logged.
    pub fn open(&self, table: &str, row: &str, sealed: &str) -> Result<Vec<u8>, DecryptError> {
        self.try_open(table, row, sealed).inspect_err(|error| self.unopened.note(table, row, error))
    }

    fn try_open(&self, table: &str, row: &str, sealed: &str) -> Result<Vec<u8>, DecryptError> {
        let (id, text) = sealed.split_once('.').ok_or(DecryptError::Invalid)?;
        let keys = self.keys().find(|keys| keys.id == id).ok_or_else(|| DecryptError::UnknownKey(id.to_owned()))?;
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| DecryptError::Invalid)?;
        let (nonce, sealed) = bytes.split_first_chunk::<24>().ok_or(DecryptError::Invalid)?;
        let payload = Payload { msg: sealed, aad: &associated_data(table, row) };
        keys.seal.decrypt(&XNonce::from(*nonce), payload).map_err(|_| DecryptError::Invalid)
    }

    /// Whether a value is encrypted with the first key.
    fn is_current(&self, sealed: &str) -> bool {
        sealed.split_once('.').is_some_and(|(id, _)| id == self.first.id)
    }

    /// How often a value could not be opened, by reason.
    pub(crate) fn unopened(&self) -> [(&'static str, u64); 2] {
        self.unopened.counts()
    }

    /// The signature of a cursor.
    pub fn cursor_mac(&self, cursor: &[u8]) -> [u8; CURSOR_MAC_LEN] {
        let full: [u8; 32] = self.first.cursor.clone().chain_update(cursor).finalize().into_bytes().into();
        let mut mac = [0; CURSOR_MAC_LEN];
        mac.copy_from_slice(&full[..CURSOR_MAC_LEN]);
        mac
    }

    /// Whether one of the keys signed this cursor. Takes constant time.
    pub fn cursor_is_ours(&self, cursor: &[u8], mac: &[u8]) -> bool {
        mac.len() == CURSOR_MAC_LEN
            && self.keys().any(|keys| keys.cursor.clone().chain_update(cursor).verify_truncated_left(mac).is_ok())
    }

    /// The keyed hash of a confirmation code in hex, as stored: bound to the account and the email address it was sent to.
    pub fn code_mac(&self, tenant: &TenantId, email: &Email, code: &ConfirmationCode) -> String {
        let mac = self.first.code.clone().chain_update(mac_input(tenant, email, code).as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }

    /// The keyed hash of a client's network, 16 hex digits: a dump of the database does not reveal the client.
    pub fn network_mac(&self, network: &str) -> String {
        let mac = self.first.network.clone().chain_update(network).finalize().into_bytes();
        hex::encode(&mac[..8])
    }

    /// Whether a code matches the stored hash. Takes constant time.
    pub fn code_is(&self, tenant: &TenantId, email: &Email, code: &ConfirmationCode, mac: &str) -> bool {
        let Ok(mac) = hex::decode(mac) else { return false };
        let text = mac_input(tenant, email, code);
        self.keys().any(|keys| keys.code.clone().chain_update(text.as_bytes()).verify_slice(&mac).is_ok())
    }
}

/// The input of a confirmation code's MAC: the account, the email address and the code. None contains a line break.
fn mac_input(tenant: &TenantId, email: &Email, code: &ConfirmationCode) -> Zeroizing<String> {
    Zeroizing::new(format!("{tenant}\n{email}\n{}", code.expose()))
}

/// Binds a sealed value to its row. The length distinguishes `("ab", "c")` from `("a", "bc")`.
fn associated_data(table: &str, row: &str) -> Vec<u8> {
    format!("{}:{table}{row}", table.len()).into_bytes()
}

#[cfg(test)]
mod tests;
