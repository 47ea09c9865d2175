//! What a payment says, compared with what was asked for.

use std::cmp::Ordering;

use serde::Deserialize;
use serde_json::Value;

use super::{EXACT, Network, Payment, Requirement, Version};
use crate::time::Timestamp;

/// Seconds that an authorization must remain valid, so that it can be settled.
const MARGIN_SECS: i64 = 6;

/// A transfer that its payer authorized by signature (EIP-3009).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorization {
    /// Who pays, in lower case.
    pub from: String,
    /// Wallet address of the payee.
    pub to: String,
    /// How much, in the asset's smallest unit.
    pub value: String,
    /// When it becomes valid.
    pub valid_after: Moment,
    /// When it expires.
    pub valid_before: Moment,
    /// 32 bytes in hex, in lower case; a chain accepts each once.
    pub nonce: String,
}

/// A time in unix seconds, as decimal digits that may exceed any real clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment(String);

impl Moment {
    fn cmp_secs(&self, secs: i64) -> Ordering {
        cmp_decimal(&self.0, &secs.max(0).to_string())
    }

    /// As a timestamp, clamped to the last one.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_millis(self.0.parse::<i64>().unwrap_or(i64::MAX).saturating_mul(1_000))
    }
}

/// Why a payment is not the one that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It meets another requirement.
    #[error("the payment does not match a payment requirement of this request")]
    Requirement,
    /// It pays someone else.
    #[error("the payment's recipient is not payTo")]
    Recipient,
    /// It is for another amount.
    #[error("the payment is not for the required amount")]
    Amount,
    /// It cannot be used yet.
    #[error("the payment is not valid yet")]
    Early,
    /// It has expired, or will too soon.
    #[error("the payment is not valid for long enough; sign a new one")]
    Late,
    /// It claims to be an authorization but is malformed.
    #[error("payload.authorization needs from, to, value, validAfter, validBefore and a nonce of 32 bytes")]
    Malformed,
    /// It holds two transfers, only one of which is checked here.
    #[error("payload has both authorization and permit2Authorization; send one of them")]
    Ambiguous,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    from: String,
    to: String,
    value: String,
    valid_after: String,
    valid_before: String,
    nonce: String,
}

impl Authorization {
    /// The authorization of a payload on this chain; `None` where the payload has another shape, which only a facilitator
    /// understands.
    pub fn of(network: &Network, payload: &Value) -> Result<Option<Self>, Unfit> {
        if payload.get("authorization").is_some() && payload.get("permit2Authorization").is_some() {
            return Err(Unfit::Ambiguous);
        }
        let Some(written) = payload.get("authorization").filter(|_| network.is_evm()) else { return Ok(None) };
        let written: Written = Deserialize::deserialize(written).map_err(|_| Unfit::Malformed)?;
        let digits = written.nonce.strip_prefix("0x").unwrap_or_default();
        let is_nonce = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let numbers = [&written.value, &written.valid_after, &written.valid_before];
        let is_signed = payload.get("signature").is_some_and(Value::is_string);
        if !is_nonce
            || !is_signed
            || !network.is_address(&written.from)
            || !network.is_address(&written.to)
            || !numbers.into_iter().all(|number| is_decimal(number))
        {
            return Err(Unfit::Malformed);
        }
        Ok(Some(Self {
            from: network.normal(&written.from),
            to: written.to,
            value: written.value,
            valid_after: Moment(written.valid_after),
            valid_before: Moment(written.valid_before),
            nonce: written.nonce.to_ascii_lowercase(),
        }))
    }

    /// Whether it pays what is required: to whom, and how much. Version 1 lets a payer pay more.
    pub fn pays(&self, network: &Network, requirement: &Requirement, version: Version) -> Result<(), Unfit> {
        if !network.same(&self.to, &requirement.pay_to) {
            return Err(Unfit::Recipient);
        }
        match (version, cmp_decimal(&self.value, &requirement.amount)) {
            (_, Ordering::Equal) | (Version::V1, Ordering::Greater) => Ok(()),
            _ => Err(Unfit::Amount),
        }
    }

    /// Whether it can be used now, and for long enough to be settled.
    pub fn is_timely(&self, now: Timestamp) -> Result<(), Unfit> {
        let secs = now.as_millis().div_euclid(1_000);
        if self.valid_after.cmp_secs(secs) == Ordering::Greater {
            return Err(Unfit::Early);
        }
        // Fractions of a second are rounded up.
        let until = (now.as_millis() + MARGIN_SECS * 1_000 + 999).div_euclid(1_000);
        if self.valid_before.cmp_secs(until) == Ordering::Less {
            return Err(Unfit::Late);
        }
        Ok(())
    }
}

impl Payment {
    /// Whether it meets this requirement, field by field. Version 1 names scheme and network only.
    pub fn meets(&self, network: &Network, required: &Requirement) -> bool {
        match self {
            Self::V1(payment) => payment.scheme == EXACT && Some(&*payment.network) == network.v1(),
            Self::V2(payment) => {
                let accepted = &payment.accepted;
                accepted.scheme == required.scheme
                    && accepted.network == required.network
                    && accepted.amount == required.amount
                    && network.same(&accepted.asset, &required.asset)
                    && network.same(&accepted.pay_to, &required.pay_to)
                    && accepted.max_timeout_seconds == required.max_timeout_seconds
                    && accepted.extra == required.extra
            }
        }
    }
}

/// An amount in the smallest unit: decimal digits, at most as many as a chain's largest number has.
pub fn amount(text: &str) -> Option<String> {
    is_decimal(text).then(|| significant(text).to_owned())
}

/// Whether two amounts are the same number.
pub fn same_amount(one: &str, other: &str) -> bool {
    cmp_decimal(one, other) == Ordering::Equal
}

fn is_decimal(text: &str) -> bool {
    (1..=78).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn significant(text: &str) -> &str {
    let digits = text.trim_start_matches('0');
    if digits.is_empty() { "0" } else { digits }
}

fn cmp_decimal(one: &str, other: &str) -> Ordering {
    let (one, other) = (significant(one), significant(other));
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}
