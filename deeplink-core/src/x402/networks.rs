//! Chains by name, and their dollar token.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

/// A chain by its CAIP-2 name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network(Cow<'static, str>);

/// USDC on a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usdc {
    /// Its contract.
    pub asset: &'static str,
    /// The name that its signatures cover (EIP-712).
    pub name: &'static str,
    /// The version that they cover.
    pub version: &'static str,
}

impl Usdc {
    /// The `extra` of a requirement for it.
    pub fn extra(&self) -> Value {
        json!({"name": self.name, "version": self.version})
    }
}

impl Usdc {
    /// On Base.
    pub const ON_BASE: Self =
        Self { asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", name: "USD Coin", version: "2" };
    /// On Base's test network.
    pub const ON_BASE_SEPOLIA: Self =
        Self { asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e", name: "USDC", version: "2" };
}

struct Known {
    v1: &'static str,
    network: Network,
    usdc: Usdc,
}

const KNOWN: [Known; 2] = [
    Known { v1: "base", network: Network::BASE, usdc: Usdc::ON_BASE },
    Known { v1: "base-sepolia", network: Network::BASE_SEPOLIA, usdc: Usdc::ON_BASE_SEPOLIA },
];

impl Network {
    /// Base.
    pub const BASE: Self = Self(Cow::Borrowed("eip155:8453"));
    /// Base's test network.
    pub const BASE_SEPOLIA: Self = Self(Cow::Borrowed("eip155:84532"));

    /// The CAIP-2 name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace of its addresses: the part before the colon.
    pub fn namespace(&self) -> &str {
        self.0.split_once(':').map_or(&self.0, |(namespace, _)| namespace)
    }

    /// Whether its addresses are Ethereum's, which are case-insensitive.
    pub fn is_evm(&self) -> bool {
        self.namespace() == "eip155"
    }

    /// The name in version 1, which knows few chains.
    pub fn v1(&self) -> Option<&'static str> {
        self.known().map(|known| known.v1)
    }

    /// USDC on it, where that is known.
    pub fn usdc(&self) -> Option<Usdc> {
        self.known().map(|known| known.usdc)
    }

    fn known(&self) -> Option<&'static Known> {
        KNOWN.iter().find(|known| known.network == *self)
    }

    /// Whether a text names it, in either version.
    pub fn is(&self, name: &str) -> bool {
        name == self.0 || self.v1() == Some(name)
    }

    /// An address as it is compared and stored.
    pub fn normal(&self, address: &str) -> String {
        if self.is_evm() { address.to_ascii_lowercase() } else { address.to_owned() }
    }

    /// Whether two addresses are the same.
    pub fn same(&self, one: &str, other: &str) -> bool {
        one == other || self.is_evm() && one.eq_ignore_ascii_case(other)
    }

    /// Whether a text can be an address.
    pub fn is_address(&self, text: &str) -> bool {
        if self.is_evm() {
            let digits = text.strip_prefix("0x").unwrap_or_default();
            return digits.len() == 40 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        }
        (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text does not name a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not base, base-sepolia or a CAIP-2 name such as eip155:8453")]
pub struct NotANetwork;

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        if let Some(known) = KNOWN.iter().find(|known| known.v1 == text) {
            return Ok(known.network.clone());
        }
        let (namespace, reference) = text.split_once(':').ok_or(NotANetwork)?;
        let named = (3..=8).contains(&namespace.len())
            && namespace.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        let referred = (1..=32).contains(&reference.len())
            && reference.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if named && referred { Ok(Self(text.to_owned().into())) } else { Err(NotANetwork) }
    }
}
