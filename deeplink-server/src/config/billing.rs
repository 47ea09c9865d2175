//! Stripe, the payment processor for plans.

use std::fmt;
use std::time::Duration;

use deeplink_core::plan::Tier;
use secrecy::SecretString;
use url::Url;

use super::oauth::base_url;
use super::settings::Settings;
use super::{BadSetting, Environment, optional, setting};

/// Base URL of Stripe's API.
const API_BASE: &str = "https://api.stripe.com";
/// 25 calls a second: the lowest rate limit that Stripe gives an account.
const CALL_INTERVAL: Duration = Duration::from_millis(40);
const SECRET_KEY: &str = "DEEPLINK_STRIPE_SECRET_KEY";
const WEBHOOK_SECRET: &str = "DEEPLINK_STRIPE_WEBHOOK_SECRET";
const BASE: &str = "DEEPLINK_STRIPE_API_BASE";
const PRICE_PRO: &str = "DEEPLINK_STRIPE_PRICE_PRO";
const PRICE_BUSINESS: &str = "DEEPLINK_STRIPE_PRICE_BUSINESS";
const PRICE_SCALE: &str = "DEEPLINK_STRIPE_PRICE_SCALE";

/// Our account at Stripe.
#[derive(Clone)]
#[non_exhaustive]
pub struct StripeAccount {
    /// The key for API calls.
    pub secret_key: SecretString,
    /// The secrets of the webhook endpoint; several while one replaces another.
    pub webhook_secrets: Vec<SecretString>,
    /// Base URL of the API, without `/v1`.
    pub base: Url,
    /// The recurring prices of each plan that can be paid for.
    pub prices: StripePrices,
    /// Time between the starts of two calls of a node. Not configurable.
    pub call_interval: Duration,
}

/// The ids of the plans' prices: the first of each plan for new subscriptions, the others for earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StripePrices {
    /// Of `pro`.
    pub pro: Vec<String>,
    /// Of `business`.
    pub business: Vec<String>,
    /// Of `scale`.
    pub scale: Vec<String>,
}

impl StripePrices {
    /// One price for each plan.
    pub fn new(pro: impl Into<String>, business: impl Into<String>, scale: impl Into<String>) -> Self {
        Self { pro: vec![pro.into()], business: vec![business.into()], scale: vec![scale.into()] }
    }

    /// The plan that a price pays for.
    pub(crate) fn tier(&self, price: &str) -> Option<Tier> {
        let is_of = |tier: &Tier| self.all(tier).iter().any(|known| known == price);
        [Tier::Pro, Tier::Business, Tier::Scale].into_iter().find(is_of)
    }

    /// The price at which a plan is sold.
    pub(crate) fn of(&self, tier: &Tier) -> Option<&str> {
        self.all(tier).first().map(String::as_str)
    }

    fn all(&self, tier: &Tier) -> &[String] {
        match tier {
            Tier::Pro => &self.pro,
            Tier::Business => &self.business,
            Tier::Scale => &self.scale,
            _ => &[],
        }
    }

    /// A price must identify the plan that was paid for.
    fn check(&self) -> Result<(), BadSetting> {
        let (pro, business, scale) =
            ((PRICE_PRO, &self.pro), (PRICE_BUSINESS, &self.business), (PRICE_SCALE, &self.scale));
        for ((first, ours), (second, theirs)) in [(pro, business), (pro, scale), (business, scale)] {
            if let Some(both) = theirs.iter().find(|price| ours.contains(price)) {
                let problem = format!("{both} is also in {first}, so a payment would not identify the plan");
                return Err(BadSetting { variable: second.to_owned(), problem });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for StripeAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &mut f.debug_struct("StripeAccount");
        shown.field("base", &self.base.as_str()).field("prices", &self.prices).finish_non_exhaustive()
    }
}

impl StripeAccount {
    /// An account at the given base URL, which may be called at any rate; for servers inside tests.
    pub fn new(secret_key: &str, webhook_secrets: &[&str], base: Url, prices: StripePrices) -> Self {
        let webhook_secrets = webhook_secrets.iter().map(|secret| SecretString::from(*secret)).collect();
        Self { secret_key: secret_key.into(), webhook_secrets, base, prices, call_interval: Duration::ZERO }
    }

    /// Reads the variables; all but the base are needed together. `None`: not configured.
    pub(super) fn read(settings: &Settings, environment: &Environment) -> Result<Option<Self>, BadSetting> {
        let key = environment.secret(SECRET_KEY)?.map(|text| setting(SECRET_KEY, &text, secret_key)).transpose()?;
        let secrets = environment.secret(WEBHOOK_SECRET)?;
        let secrets = secrets.map(|text| setting(WEBHOOK_SECRET, &text, webhook_secrets)).transpose()?;
        let base = optional(BASE, settings.stripe_api_base.as_deref(), base_url)?;
        let pro = optional(PRICE_PRO, settings.stripe_price_pro.as_deref(), price_ids)?;
        let business = optional(PRICE_BUSINESS, settings.stripe_price_business.as_deref(), price_ids)?;
        let scale = optional(PRICE_SCALE, settings.stripe_price_scale.as_deref(), price_ids)?;
        let given = [
            (SECRET_KEY, key.is_some()),
            (WEBHOOK_SECRET, secrets.is_some()),
            (PRICE_PRO, pro.is_some()),
            (PRICE_BUSINESS, business.is_some()),
            (PRICE_SCALE, scale.is_some()),
            (BASE, base.is_some()),
        ];
        let Some((first, _)) = given.iter().find(|(_, is_given)| *is_given) else { return Ok(None) };
        let missing = |variable: &str| BadSetting {
            variable: variable.to_owned(),
            problem: format!("must be set too, because {first} is; Stripe needs its key, webhook secret and prices"),
        };
        let prices = StripePrices {
            pro: pro.ok_or_else(|| missing(PRICE_PRO))?,
            business: business.ok_or_else(|| missing(PRICE_BUSINESS))?,
            scale: scale.ok_or_else(|| missing(PRICE_SCALE))?,
        };
        prices.check()?;
        Ok(Some(Self {
            secret_key: key.ok_or_else(|| missing(SECRET_KEY))?,
            webhook_secrets: secrets.ok_or_else(|| missing(WEBHOOK_SECRET))?,
            base: match base {
                Some(base) => base,
                None => setting(BASE, API_BASE, base_url)?,
            },
            prices,
            call_interval: CALL_INTERVAL,
        }))
    }
}

/// A key that can be sent in a header.
fn secret_key(text: &str) -> Result<SecretString, String> {
    if text.starts_with("pk_") {
        return Err("is a publishable key; use a restricted key (rk_…) or a secret key (sk_…)".into());
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.into())
    } else {
        Err("is not a Stripe key, such as rk_live_… or sk_live_…".into())
    }
}

fn webhook_secrets(text: &str) -> Result<Vec<SecretString>, String> {
    let parts: Vec<_> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(Into::into).collect();
    if parts.is_empty() {
        Err("contains no secret; Stripe shows one for each endpoint (whsec_…)".into())
    } else {
        Ok(parts)
    }
}

fn price_ids(text: &str) -> Result<Vec<String>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let ids = parts.map(price_id).collect::<Result<Vec<_>, _>>()?;
    if ids.is_empty() { Err("contains no price; Stripe shows the ID of each (price_…)".into()) } else { Ok(ids) }
}

/// Rejects other ids that Stripe shows beside a price; secrets are not repeated.
fn price_id(text: &str) -> Result<String, String> {
    if ["sk_", "rk_", "pk_", "whsec_"].iter().any(|prefix| text.starts_with(prefix)) {
        return Err("contains a Stripe key or secret; price IDs begin with price_".into());
    }
    if text.starts_with("prod_") {
        return Err(format!("{text:?} is the ID of a product; each of its prices has its own ID (price_…)"));
    }
    let is_id = text.len() <= 255 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if is_id { Ok(text.to_owned()) } else { Err(format!("{text:?} is not the ID of a price, such as price_1Nv0FG…")) }
}
