//! Messages as header values: JSON in base64.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Version;
use crate::metadata::{MAX_DEPTH, depth};

/// Maximum bytes of a payment's header.
pub const MAX_HEADER: usize = 8 << 10;

/// With or without padding; the URL-safe alphabet is changed into this one first.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why a header value is not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAHeader {
    /// It is too long.
    #[error("is longer than {MAX_HEADER} bytes")]
    TooLong,
    /// It is not base64.
    #[error("is not base64")]
    Base64,
    /// The JSON is too deep.
    #[error("is nested deeper than {MAX_DEPTH} levels")]
    Deep,
    /// It is not the JSON that the header carries.
    #[error("is not a valid payment in JSON: {0}")]
    Json(String),
    /// The version inside is not the header's.
    #[error("must contain a payment with \"x402Version\": {}", .0.number())]
    Version(Version),
}

/// Reads a message.
pub fn from_header<T: DeserializeOwned>(value: &[u8]) -> Result<T, NotAHeader> {
    if value.len() > MAX_HEADER {
        return Err(NotAHeader::TooLong);
    }
    let standard: Vec<u8> = value
        .trim_ascii()
        .iter()
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            byte => *byte,
        })
        .collect();
    let json = BASE64.decode(standard).map_err(|_| NotAHeader::Base64)?;
    if depth(&json) > MAX_DEPTH {
        return Err(NotAHeader::Deep);
    }
    // The error must not quote anything that was sent.
    serde_json::from_slice(&json).map_err(|error| {
        NotAHeader::Json(format!("line {}, column {} of the decoded value", error.line(), error.column()))
    })
}

/// Writes a message.
pub fn to_header(message: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_vec(message).map(|json| BASE64.encode(json))
}
