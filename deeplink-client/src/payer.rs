//! Paying for single requests (x402): the payer, and the payments it signs.

use std::error::Error as StdError;
use std::fmt;

use deeplink_core::x402::{
    CHALLENGE, Challenge, PAYMENT_V1, PAYMENT_V2, RECEIPT_V1, RECEIPT_V2, Receipt, Requirement, from_header,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::error::{Error, Kind, Result};
use crate::transport::BoxFuture;

/// A wallet, or anything else that signs payments. A client that has one and no key pays for each request that costs
/// something: see [`crate::ClientBuilder::payer`].
pub trait Payer: Send + Sync + 'static {
    /// Signs the payment of a requirement and returns the scheme's payload for this chain. For `exact` on an EVM chain:
    /// `{"signature", "authorization": {"from", "to", "value", "validAfter", "validBefore", "nonce"}}`, all strings,
    /// where the signature covers the token's `TransferWithAuthorization` (EIP-3009) with the name and version in
    /// `extra`.
    ///
    /// A service can request any payment: compare amount, asset and network with what you are willing to pay. An error
    /// means that nothing is paid, and so does a signature that comes after the call's time limit.
    fn pay<'a>(&'a self, requirement: &'a Requirement)
    -> BoxFuture<'a, Result<Value, Box<dyn StdError + Send + Sync>>>;
}

/// A payment as it was sent: it pays only for a repeat of the same request. Keep it until the request has succeeded,
/// and pass it to [`Call::pay_with`](crate::Call::pay_with).
#[derive(Clone, PartialEq, Eq)]
pub struct SentPayment {
    header: HeaderName,
    value: HeaderValue,
    key: HeaderValue,
}

impl SentPayment {
    /// A payment from its stored parts: its header, that header's value, and the `Idempotency-Key` it was sent with.
    pub fn new(header: &str, value: &str, idempotency_key: &str) -> Result<Self> {
        let wrong = || Error::validation("payment", "not a payment that was sent");
        let header = HeaderName::try_from(header).map_err(|_| wrong())?;
        if header != PAYMENT_V1 && header != PAYMENT_V2 {
            return Err(wrong());
        }
        if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong());
        }
        let mut value = HeaderValue::try_from(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        Ok(Self { header, value, key: crate::call::idempotency_key(idempotency_key)? })
    }

    pub(crate) fn of(header: HeaderName, value: HeaderValue, key: HeaderValue) -> Self {
        Self { header, value, key }
    }

    pub(crate) fn key(&self) -> HeaderValue {
        self.key.clone()
    }

    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        headers.insert(self.header.clone(), self.value.clone());
        headers.insert("idempotency-key", self.key.clone());
    }

    /// The header that carries it.
    pub fn header(&self) -> &str {
        self.header.as_str()
    }

    /// The header's value. Anyone who has it can pay with it.
    pub fn value(&self) -> &str {
        self.value.to_str().unwrap_or_default()
    }

    /// The key that proves that a repeat comes from the payer.
    pub fn idempotency_key(&self) -> &str {
        self.key.to_str().unwrap_or_default()
    }
}

/// The payment's value is not shown.
impl fmt::Debug for SentPayment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentPayment").field("header", &self.header).finish_non_exhaustive()
    }
}

/// The payment that a response requires.
pub(crate) fn challenge(headers: &HeaderMap, body: &[deeplink_core::x402::RequirementV1]) -> Option<Challenge> {
    Challenge::read(headers.get(CHALLENGE).map(HeaderValue::as_bytes), body)
}

/// The outcome of the payment, as a response reports it.
pub(crate) fn receipt(headers: &HeaderMap) -> Option<Receipt> {
    let value = headers.get(RECEIPT_V2).or_else(|| headers.get(RECEIPT_V1))?;
    from_header(value.as_bytes()).ok()
}

/// The header that pays the first requirement of a challenge.
pub(crate) async fn paid(payer: &dyn Payer, challenge: &Challenge) -> Result<(HeaderName, HeaderValue)> {
    let wrong = |why: &dyn fmt::Display| Error::validation("payment", format!("the payment cannot be sent: {why}"));
    let Some(requirement) = challenge.accepts.first() else {
        return Err(wrong(&"the service did not offer any way to pay"));
    };
    let payload = payer.pay(requirement).await;
    let payload =
        payload.map_err(|why| Error::from_source(Kind::PaymentRequired, "the payer did not sign the payment", why))?;
    let (name, value) = challenge.payment(requirement, payload).to_header().map_err(|why| wrong(&why))?;
    let mut value = HeaderValue::try_from(value).map_err(|why| wrong(&why))?;
    value.set_sensitive(true);
    Ok((HeaderName::from_static(name), value))
}
