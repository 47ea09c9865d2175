//! Payments for single requests: who settles them, who is paid, and what each operation costs.

use std::collections::BTreeMap;
use std::time::Duration;

use deeplink_core::x402::{self, Network, PAID, Paid, Usdc};
use secrecy::SecretString;
use serde_json::{Value, json};
use url::Url;

use super::settings::{Settings, optional};
use super::{BadSetting, Environment, oauth};

const FACILITATOR: &str = "DEEPLINK_X402_FACILITATOR_URL";
const PAY_TO: &str = "DEEPLINK_X402_PAY_TO";
const NETWORK: &str = "DEEPLINK_X402_NETWORK";
const ASSET: &str = "DEEPLINK_X402_ASSET";
const PRICE: &str = "DEEPLINK_X402_PRICE";
const USED_REASONS: &str = "DEEPLINK_X402_USED_REASONS";
const TOKEN: &str = "DEEPLINK_X402_FACILITATOR_TOKEN";

/// Reasons by which facilitators report that an authorization was already used.
const USED: [&str; 3] = ["invalid_transaction_state", "duplicate_settlement", "invalid_exact_evm_nonce_already_used"];

/// The settings of payments for single requests.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct X402 {
    /// Base URL of the facilitator, which verifies and settles payments.
    pub facilitator: Url,
    /// The bearer token for the facilitator, if it needs one.
    pub token: Option<SecretString>,
    /// The address that receives payments.
    pub pay_to: String,
    /// The chain.
    pub network: Network,
    /// The token's contract.
    pub asset: String,
    /// The name and version that the token's signatures cover, if it has any.
    pub extra: Option<Value>,
    /// Prices of operations, in the asset's smallest unit, by their names in the route table. Others cannot be paid
    /// for.
    pub prices: BTreeMap<&'static str, String>,
    /// Reasons by which the facilitator reports that an authorization was already used. If one of them comes without a
    /// transaction, a payment with an unknown outcome is treated as settled.
    pub used_reasons: Vec<String>,
    /// Timeout for verifying a payment. Not configurable.
    pub verify_timeout: Duration,
    /// Timeout for settling a payment. Not configurable.
    pub settle_timeout: Duration,
}

impl X402 {
    /// On Base Sepolia, with one price for every operation; for servers inside tests.
    pub fn new(facilitator: Url, pay_to: impl Into<String>, price: &str) -> Self {
        let usdc = Usdc::ON_BASE_SEPOLIA;
        Self {
            facilitator,
            token: None,
            pay_to: pay_to.into(),
            network: Network::BASE_SEPOLIA,
            asset: usdc.asset.to_owned(),
            extra: Some(usdc.extra()),
            prices: PAID.iter().map(|paid| (paid.route.operation, price.to_owned())).collect(),
            used_reasons: USED.map(str::to_owned).to_vec(),
            verify_timeout: Duration::from_secs(10),
            settle_timeout: Duration::from_secs(30),
        }
    }

    /// The price of an operation; `None`: it cannot be paid for.
    pub(crate) fn price(&self, paid: &Paid) -> Option<&str> {
        self.prices.get(paid.route.operation).map(String::as_str)
    }

    /// Whether a reason means that an authorization was already used.
    pub(crate) fn is_used(&self, reason: &str) -> bool {
        self.used_reasons.iter().any(|used| used == reason)
    }

    /// Reads the variables. `None`: requests cannot be paid for.
    pub(super) fn read(settings: &Settings, environment: &Environment) -> Result<Option<Self>, BadSetting> {
        let facilitator = optional(FACILITATOR, settings.x402_facilitator_url.as_deref(), oauth::base_url)?;
        let network = optional(NETWORK, settings.x402_network.as_deref(), |text| {
            text.parse::<Network>().map_err(|error| format!("{text:?} is {error}"))
        })?;
        let price = optional(PRICE, settings.x402_price.as_deref(), price)?;
        let prices = prices(price.as_deref(), environment)?;
        let used_reasons = optional(USED_REASONS, settings.x402_used_reasons.as_deref(), |text| {
            Ok(text.split(',').map(|reason| reason.trim().to_owned()).filter(|reason| !reason.is_empty()).collect())
        })?;
        let token = environment.secret(TOKEN)?.map(token).transpose()?;
        let [pay_to, asset] = [&settings.x402_pay_to, &settings.x402_asset]
            .map(|text| text.as_deref().map(str::trim).filter(|text| !text.is_empty()));
        let set = [
            (FACILITATOR, facilitator.is_some()),
            (PAY_TO, pay_to.is_some()),
            (NETWORK, network.is_some()),
            (ASSET, asset.is_some()),
            (PRICE, price.is_some() || !prices.is_empty()),
        ];
        let Some((first, _)) = set.iter().find(|(_, is_set)| *is_set) else {
            let alone = [(USED_REASONS, used_reasons.is_some()), (TOKEN, token.is_some())];
            let alone = alone.into_iter().find(|(_, is_set)| *is_set);
            return alone.map_or(Ok(None), |(name, _)| Err(BadSetting::alone(name, FACILITATOR)));
        };
        let needed = |name| BadSetting::alone(first, name);
        let facilitator = facilitator.ok_or_else(|| needed(FACILITATOR))?;
        let network = network.ok_or_else(|| needed(NETWORK))?;
        let pay_to = address(PAY_TO, &network, pay_to.ok_or_else(|| needed(PAY_TO))?)?;
        let (asset, extra) = match (asset, network.usdc()) {
            (Some(text), usdc) => {
                let (asset, extra) = named_asset(&network, text)?;
                let own = usdc.filter(|usdc| network.same(usdc.asset, &asset)).map(|usdc| usdc.extra());
                (asset, extra.or(own))
            }
            (None, Some(usdc)) => (usdc.asset.to_owned(), Some(usdc.extra())),
            (None, None) => return Err(BadSetting::alone(NETWORK, ASSET)),
        };
        if price.is_none() && prices.is_empty() {
            return Err(needed(PRICE));
        }
        let defaults = Self::new(facilitator, pay_to, "0");
        let used_reasons = used_reasons.unwrap_or(defaults.used_reasons);
        Ok(Some(Self { token, network, asset, extra, prices, used_reasons, ..defaults }))
    }
}

/// A token that can be sent in a header.
fn token(text: String) -> Result<SecretString, BadSetting> {
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.into());
    }
    // Not shown: it is a secret.
    Err(BadSetting { variable: TOKEN.into(), problem: "contains characters that a token cannot contain".into() })
}

/// The variable with the price of one operation.
fn price_variable(paid: &Paid) -> String {
    format!("{PRICE}_{}", paid.name)
}

/// The variables with the prices of single operations.
pub(super) fn price_variables() -> impl Iterator<Item = String> {
    PAID.iter().map(price_variable)
}

/// The price of each operation: its own, else the general one. "0" means that it cannot be paid for.
fn prices(all: Option<&str>, environment: &Environment) -> Result<BTreeMap<&'static str, String>, BadSetting> {
    let mut prices = BTreeMap::new();
    for paid in &PAID {
        let variable = price_variable(paid);
        let own = optional(&variable, environment.value(&variable), price)?;
        if let Some(price) = own.as_deref().or(all).filter(|price| *price != "0") {
            prices.insert(paid.route.operation, price.to_owned());
        }
    }
    Ok(prices)
}

fn price(text: &str) -> Result<String, String> {
    x402::amount(text)
        .ok_or_else(|| format!("{text:?} is not a whole number in the asset's smallest unit, such as 10000"))
}

fn address(variable: &str, network: &Network, text: &str) -> Result<String, BadSetting> {
    if network.is_address(text) {
        return Ok(text.to_owned());
    }
    Err(BadSetting { variable: variable.into(), problem: format!("{text:?} is not an address on {network}") })
}

/// An asset by its address, with the name and version of its signatures where they are not USDC's: ADDRESS/NAME/VERSION.
fn named_asset(network: &Network, text: &str) -> Result<(String, Option<Value>), BadSetting> {
    let mut parts = text.splitn(3, '/');
    let asset = address(ASSET, network, parts.next().unwrap_or_default())?;
    match (parts.next(), parts.next()) {
        (None, _) => Ok((asset, None)),
        (Some(name), Some(version)) if !name.is_empty() && !version.is_empty() => {
            Ok((asset, Some(json!({"name": name, "version": version}))))
        }
        _ => {
            let problem = format!("{text:?} is neither ADDRESS nor ADDRESS/NAME/VERSION");
            Err(BadSetting { variable: ASSET.into(), problem })
        }
    }
}
