//! How events are signed: one set of functions for the server that signs, the client that verifies and the command line
//! that does both.
//!
//! Two signatures go with a body. `X-Service-Signature` is the lowercase hex of the HMAC-SHA-256 of the body, keyed with
//! the ASCII bytes of the whole secret as it is written. `webhook-signature` follows the Standard Webhooks specification
//! 1.0.0 (<https://www.standardwebhooks.com>): `v1,` and the base64 of the HMAC-SHA-256 of `id.timestamp.body`, keyed with
//! the bytes that the base64 after `whsec_` encodes.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::secret::Random;

/// The header of the hex signature.
pub const SERVICE_SIGNATURE: &str = "x-service-signature";
/// The header of the event's id, the same in every attempt.
pub const WEBHOOK_ID: &str = "webhook-id";
/// The header of an attempt's time, in whole seconds since 1970.
pub const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
/// The header of the signatures of the Standard Webhooks form, separated by spaces.
pub const WEBHOOK_SIGNATURE: &str = "webhook-signature";
/// The header of a test event; its value is `true`. It is not signed, since the body has to be an event like any other.
pub const SERVICE_TEST: &str = "x-service-test";

/// What a secret begins with.
const PREFIX: &str = "whsec_";
/// Bytes of a secret.
const LENGTH: usize = 32;

/// A webhook's secret: `whsec_` followed by the base64 of 32 bytes.
#[derive(Clone, Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^whsec_[A-Za-z0-9+/]{43}=$"))]
#[serde(transparent)]
pub struct WebhookSecret(String);

/// The text is not a webhook secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a webhook secret: expected whsec_ followed by base64")]
pub struct NotASecret;

impl WebhookSecret {
    /// A new secret.
    pub fn generate(random: &mut Random) -> Self {
        Self(format!("{PREFIX}{}", STANDARD.encode(random.bytes::<LENGTH>())))
    }

    /// Takes a secret as it was entered. [`WebhookSecret::is_well_formed`] says whether it can be one.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself. The caller is responsible for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the text is `whsec_` and base64 of at least one byte.
    pub fn is_well_formed(&self) -> bool {
        self.key().is_ok()
    }

    /// The bytes that the base64 after the prefix encodes.
    fn key(&self) -> Result<zeroize::Zeroizing<Vec<u8>>, NotASecret> {
        let encoded = self.0.strip_prefix(PREFIX).ok_or(NotASecret)?;
        let key = STANDARD.decode(encoded).map_err(|_| NotASecret)?;
        if key.is_empty() { Err(NotASecret) } else { Ok(key.into()) }
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[webhook secret]")
    }
}

impl PartialEq for WebhookSecret {
    fn eq(&self, other: &Self) -> bool {
        use subtle::ConstantTimeEq;
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for WebhookSecret {}

type HmacSha256 = Hmac<Sha256>;

fn hmac(key: &[u8]) -> HmacSha256 {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length (RFC 2104, section 3)")]
    HmacSha256::new_from_slice(key).expect("a key of any length")
}

/// Whether this is the HMAC-SHA-256 of a message under any key: for diagnosing other signatures. Takes constant time.
pub fn is_mac(key: &[u8], message: &[&[u8]], given: &[u8]) -> bool {
    let mut mac = hmac(key);
    for part in message {
        mac.update(part);
    }
    mac.verify_slice(given).is_ok()
}

/// Whether one of these is the HMAC-SHA-256 of a message, which is computed only once. Takes constant time.
pub fn is_any_mac(key: &[u8], message: &[&[u8]], given: &[[u8; 32]]) -> bool {
    use subtle::ConstantTimeEq;
    let mut mac = hmac(key);
    for part in message {
        mac.update(part);
    }
    let mac = mac.finalize().into_bytes();
    given.iter().any(|given| mac.as_slice().ct_eq(given).into())
}

/// Signs bodies with a secret whose two keys are prepared once.
#[derive(Clone)]
pub struct Signer {
    service: HmacSha256,
    standard: HmacSha256,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

/// The signatures of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Signatures {
    /// The value of `X-Service-Signature`.
    pub service: String,
    /// One value of `webhook-signature`.
    pub standard: String,
}

impl Signer {
    /// Signs with this secret.
    pub fn new(secret: &WebhookSecret) -> Result<Self, NotASecret> {
        let key = secret.key()?;
        Ok(Self { service: hmac(secret.0.as_bytes()), standard: hmac(&key) })
    }

    fn service_mac(&self, body: &[u8]) -> HmacSha256 {
        let mut mac = self.service.clone();
        mac.update(body);
        mac
    }

    fn standard_mac(&self, id: &str, timestamp: &str, body: &[u8]) -> HmacSha256 {
        let mut mac = self.standard.clone();
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }

    /// The value of `X-Service-Signature` for a body.
    pub fn service(&self, body: &[u8]) -> String {
        hex::encode(self.service_mac(body).finalize().into_bytes())
    }

    /// One value of `webhook-signature` for an event's id, an attempt's time in whole seconds since 1970, and a body.
    pub fn standard(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mac = self.standard_mac(id, &timestamp.to_string(), body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }

    /// Both signatures.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> Signatures {
        Signatures { service: self.service(body), standard: self.standard(id, timestamp, body) }
    }

    /// Whether this is the body's hex signature, exactly as it is written here. Takes constant time.
    pub fn is_service(&self, signature: &str, body: &[u8]) -> bool {
        // Decoding accepts upper case as well, which the documented form does not have.
        let is_lower = signature.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let Some(given) = hex::decode(signature).ok().filter(|_| is_lower) else { return false };
        self.service_mac(body).verify_slice(&given).is_ok()
    }

    /// Whether one of the signatures in a `webhook-signature` header is this body's, with the id and the time as in
    /// their headers. Signatures of other versions are skipped.
    pub fn is_standard(&self, signatures: &str, id: &str, timestamp: &str, body: &[u8]) -> bool {
        let mac = self.standard_mac(id, timestamp, body);
        signatures
            .split(' ')
            .filter_map(|one| one.strip_prefix("v1,"))
            .any(|one| STANDARD.decode(one).is_ok_and(|given| mac.clone().verify_slice(&given).is_ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that the Standard Webhooks project publishes for its libraries.
    #[test]
    fn the_published_example_verifies() {
        let signer = Signer::new(&WebhookSecret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")).expect("a secret");
        let (id, at, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        let signature = signer.standard(id, at, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let several = format!("v1a,xxx v1,AAAA {signature}");
        assert!(signer.is_standard(&several, id, "1614265330", body));
        for (signatures, id, at, body) in [
            (signature.as_str(), "msg_other", "1614265330", &body[..]),
            (&signature, id, "1614265331", body),
            (&signature, id, "1614265330", br#"{"test": 2432232315}"#),
            ("v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", id, "1614265330", body),
            ("v1,", id, "1614265330", body),
            ("", id, "1614265330", body),
        ] {
            assert!(!signer.is_standard(signatures, id, at, body), "{signatures} {id} {at}");
        }
    }

    /// RFC 4231, section 4.3, whose key happens to be text; the whole secret is the key of this signature.
    #[test]
    fn the_hex_signature_is_keyed_with_the_text() {
        let signer = Signer { service: hmac(b"Jefe"), standard: hmac(b"") };
        let body = b"what do ya want for nothing?";
        let signature = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(signer.service(body), signature);
        assert!(signer.is_service(signature, body));
        for wrong in [&signature.to_uppercase(), &signature[1..], "", &format!(" {signature}")] {
            assert!(!signer.is_service(wrong, body), "{wrong}");
        }
        assert!(!signer.is_service(signature, b"what do ya want for nothing"));
        let given = hex::decode(signature).expect("hex");
        assert!(is_mac(b"Jefe", &[b"what do ya want ", b"for nothing?"], &given) && !is_mac(b"jefe", &[body], &given));
        let given: [u8; 32] = given.try_into().expect("32 bytes");
        assert!(is_any_mac(b"Jefe", &[b"what do ya want ", b"for nothing?"], &[[0; 32], given]));
        assert!(!is_any_mac(b"jefe", &[body], &[[0; 32], given]) && !is_any_mac(b"Jefe", &[body], &[]));
    }

    #[test]
    fn secrets_have_the_documented_form() {
        let secret = WebhookSecret::generate(&mut Random::seeded(1));
        assert!(secret.is_well_formed() && secret.expose().len() == 6 + 44);
        assert_eq!(format!("{secret:?}"), "[webhook secret]");
        for wrong in
            ["", "whsec_", "whsec_!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS"]
        {
            assert!(!WebhookSecret::new(wrong).is_well_formed(), "{wrong}");
            assert_eq!(Signer::new(&WebhookSecret::new(wrong)).err(), Some(NotASecret), "{wrong}");
        }
    }
}
