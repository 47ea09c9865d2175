//! Paying for one request, by x402 in its versions 1 and 2: what goes over the wire, how headers carry it, and whether a
//! payment is the one that was asked for.
//!
//! Signatures and chains are the facilitator's job; nothing here handles either. What both versions share is a
//! [`Requirement`]; version 1 writes it with other names.

mod challenge;
mod header;
mod networks;
mod payload;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::routes::{self, Route};

pub use challenge::Challenge;
pub use header::{MAX_HEADER, NotAHeader, from_header, to_header};
pub use networks::{Network, Usdc};
pub use payload::{Authorization, Moment, Unfit, amount, same_amount};

/// Header of a version 1 payment.
pub const PAYMENT_V1: &str = "x-payment";
/// Header of a version 1 receipt.
pub const RECEIPT_V1: &str = "x-payment-response";
/// Header of a version 2 challenge.
pub const CHALLENGE: &str = "payment-required";
/// Header of a version 2 payment.
pub const PAYMENT_V2: &str = "payment-signature";
/// Header of a version 2 receipt.
pub const RECEIPT_V2: &str = "payment-response";
/// The one scheme that is offered: exactly this amount.
pub const EXACT: &str = "exact";
/// Seconds within which a payment should be settled. It is tried for about seven minutes.
pub const MAX_TIMEOUT_SECONDS: u64 = 600;

/// The version of the protocol that a message is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// Challenge in the body, `X-PAYMENT`.
    V1,
    /// Challenge in a header, `PAYMENT-SIGNATURE`.
    V2,
}

impl Version {
    /// The number used in messages.
    pub const fn number(self) -> u64 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// The header that carries its receipts.
    pub const fn receipt_header(self) -> &'static str {
        match self {
            Self::V1 => RECEIPT_V1,
            Self::V2 => RECEIPT_V2,
        }
    }
}

/// What is to be paid, as version 2 writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// How it is paid; `exact` here.
    pub scheme: String,
    /// The chain, as CAIP-2 (`eip155:8453`), or by its version 1 name (`base`) where it came from a version 1 challenge.
    pub network: String,
    /// Amount, in the smallest unit of the asset.
    pub amount: String,
    /// The token's contract.
    pub asset: String,
    /// Wallet address of the payee.
    pub pay_to: String,
    /// Seconds within which the payment should be settled.
    pub max_timeout_seconds: u64,
    /// For tokens that are authorized by signature: the name and version that the signature covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
}

/// Payment requirement in x402 version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RequirementV1 {
    /// Payment scheme: `exact`.
    pub scheme: String,
    /// The chain, such as `base`.
    pub network: String,
    /// Amount, in the smallest unit of the asset.
    pub max_amount_required: String,
    /// The token's contract.
    pub asset: String,
    /// Wallet address of the payee.
    pub pay_to: String,
    /// URL of the operation.
    pub resource: String,
    /// Description of the operation.
    pub description: String,
    /// Media type of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Seconds within which the payment should be settled.
    pub max_timeout_seconds: u64,
    /// Name and version in the token's signing domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
}

impl From<RequirementV1> for Requirement {
    fn from(v1: RequirementV1) -> Self {
        Self {
            scheme: v1.scheme,
            network: v1.network,
            amount: v1.max_amount_required,
            asset: v1.asset,
            pay_to: v1.pay_to,
            max_timeout_seconds: v1.max_timeout_seconds,
            extra: v1.extra,
        }
    }
}

/// What is paid for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Its URL.
    pub url: String,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Media type of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// What a version 2 challenge asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChallengeV2 {
    /// 2.
    #[serde(rename = "x402Version")]
    pub version: u64,
    /// Why the payment was not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What is paid for.
    pub resource: Resource,
    /// The ways to pay for it.
    pub accepts: Vec<Requirement>,
}

/// A version 1 payment. `Debug` does not show the signature.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentMessageV1 {
    /// 1.
    #[serde(rename = "x402Version")]
    pub version: u64,
    /// How it is paid.
    pub scheme: String,
    /// The chain.
    pub network: String,
    /// What the scheme says on this chain.
    pub payload: Value,
}

/// A version 2 payment. `Debug` does not show the signature.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentMessageV2 {
    /// 2.
    #[serde(rename = "x402Version")]
    pub version: u64,
    /// What is paid for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
    /// The requirement that is met.
    pub accepted: Requirement,
    /// What the scheme says on this chain.
    pub payload: Value,
    /// Anything else that both sides agreed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Value>,
}

impl fmt::Debug for PaymentMessageV1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaymentMessageV1").field("network", &self.network).finish_non_exhaustive()
    }
}

impl fmt::Debug for PaymentMessageV2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaymentMessageV2").field("accepted", &self.accepted).finish_non_exhaustive()
    }
}

/// A payment of either version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payment {
    /// Of version 1.
    V1(PaymentMessageV1),
    /// Of version 2.
    V2(Box<PaymentMessageV2>),
}

impl Payment {
    /// Reads the value of a header. The version inside must be the header's.
    pub fn read(version: Version, header: &[u8]) -> Result<Self, NotAHeader> {
        let payment = match version {
            Version::V1 => Self::V1(from_header(header)?),
            Version::V2 => Self::V2(Box::new(from_header(header)?)),
        };
        let said = match &payment {
            Self::V1(payment) => payment.version,
            Self::V2(payment) => payment.version,
        };
        if said == version.number() { Ok(payment) } else { Err(NotAHeader::Version(version)) }
    }

    /// Its version.
    pub fn version(&self) -> Version {
        match self {
            Self::V1(_) => Version::V1,
            Self::V2(_) => Version::V2,
        }
    }

    /// What the scheme says.
    pub fn payload(&self) -> &Value {
        match self {
            Self::V1(payment) => &payment.payload,
            Self::V2(payment) => &payment.payload,
        }
    }
}

/// The outcome of a payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Whether it was settled.
    pub success: bool,
    /// The transaction on the chain; empty on failure.
    pub transaction: String,
    /// The chain.
    pub network: String,
    /// Who paid.
    pub payer: String,
    /// Why it was not settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
}

/// An operation that can be paid for.
#[derive(Debug, Clone, Copy)]
pub struct Paid {
    /// The operation.
    pub route: &'static Route,
    /// What it is called in the settings: its price is `DEEPLINK_X402_PRICE_` and this.
    pub name: &'static str,
    /// Whether its answer shows a secret, which is not returned when the request is repeated without its
    /// `Idempotency-Key`.
    pub shows_secret: bool,
}

impl Paid {
    const fn of(route: &'static Route, name: &'static str) -> Self {
        Self { route, name, shows_secret: false }
    }

    const fn secret(self) -> Self {
        Self { shows_secret: true, ..self }
    }

    /// Whether it only reads.
    pub fn is_read(&self) -> bool {
        self.route.method == "GET"
    }
}

/// Every operation that can be paid for.
pub const PAID: [Paid; 27] = [
    Paid::of(&routes::LIST_LINKS, "LINKS_LIST"),
    Paid::of(&routes::CREATE_LINK, "LINKS_CREATE"),
    Paid::of(&routes::BULK_CREATE_LINKS, "LINKS_BULK"),
    Paid::of(&routes::GET_LINK, "LINKS_GET"),
    Paid::of(&routes::UPDATE_LINK, "LINKS_UPDATE"),
    Paid::of(&routes::DELETE_LINK, "LINKS_DELETE"),
    Paid::of(&routes::LINK_QR, "LINKS_QR"),
    Paid::of(&routes::LIST_APPS, "APPS_LIST"),
    Paid::of(&routes::CREATE_APP, "APPS_CREATE"),
    Paid::of(&routes::DELETE_APP, "APPS_DELETE"),
    Paid::of(&routes::LIST_DOMAINS, "DOMAINS_LIST"),
    Paid::of(&routes::CREATE_DOMAIN, "DOMAINS_CREATE"),
    Paid::of(&routes::UPDATE_DOMAIN, "DOMAINS_UPDATE"),
    Paid::of(&routes::DELETE_DOMAIN, "DOMAINS_DELETE"),
    Paid::of(&routes::VERIFY_DOMAIN, "DOMAINS_VERIFY"),
    Paid::of(&routes::LIST_SOURCES, "SOURCES_LIST"),
    Paid::of(&routes::CREATE_SOURCE, "SOURCES_CREATE").secret(),
    Paid::of(&routes::GET_SOURCE, "SOURCES_GET"),
    Paid::of(&routes::DELETE_SOURCE, "SOURCES_DELETE"),
    Paid::of(&routes::LIST_WEBHOOKS, "WEBHOOKS_LIST"),
    Paid::of(&routes::CREATE_WEBHOOK, "WEBHOOKS_CREATE").secret(),
    Paid::of(&routes::UPDATE_WEBHOOK, "WEBHOOKS_UPDATE"),
    Paid::of(&routes::DELETE_WEBHOOK, "WEBHOOKS_DELETE"),
    Paid::of(&routes::ROTATE_WEBHOOK_SECRET, "WEBHOOKS_ROTATE").secret(),
    Paid::of(&routes::TEST_WEBHOOK, "WEBHOOKS_TEST"),
    Paid::of(&routes::LIST_DELIVERIES, "WEBHOOKS_DELIVERIES"),
    Paid::of(&routes::REPLAY_DELIVERY, "WEBHOOKS_REPLAY"),
];

/// The operation with this method and path template, if it can be paid for.
pub fn paid(method: &str, path: &str) -> Option<&'static Paid> {
    PAID.iter().find(|paid| paid.route.method == method && paid.route.path == path)
}
