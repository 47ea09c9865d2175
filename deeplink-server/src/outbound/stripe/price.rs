//! What plans cost, for people to see before they check out. Stripe never changes the amount of a price, so each is
//! read once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::{Stripe, StripeError, WaitLimit};

/// How long a page waits for prices.
const PAGE_WAIT: Duration = Duration::from_secs(1);
/// How long pages do without a price that could not be read.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// What a plan costs, and how often that is paid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Price {
    /// Such as `$29` or `CHF 29.90`.
    pub(crate) amount: String,
    /// Such as `per month` or `every 3 months`.
    pub(crate) period: String,
}

#[derive(Deserialize)]
struct WirePrice {
    currency: String,
    /// In the currency's smallest unit; null if the amount depends on something else.
    #[serde(default)]
    unit_amount: Option<i64>,
    #[serde(default)]
    recurring: Option<Recurring>,
}

#[derive(Deserialize)]
struct Recurring {
    interval: String,
    interval_count: u32,
}

impl WirePrice {
    /// `None` if it is not one amount for one period.
    fn read(self) -> Option<Price> {
        let Recurring { interval, interval_count } = self.recurring?;
        let period =
            if interval_count == 1 { format!("per {interval}") } else { format!("every {interval_count} {interval}s") };
        Some(Price { amount: amount(u64::try_from(self.unit_amount?).ok()?, &self.currency), period })
    }
}

/// An amount as people write it: without decimals if they are zero.
fn amount(smallest: u64, currency: &str) -> String {
    let decimals = match currency {
        "bif" | "clp" | "djf" | "gnf" | "jpy" | "kmf" | "krw" | "mga" | "pyg" | "rwf" | "vnd" | "vuv" | "xaf"
        | "xof" | "xpf" => 0,
        "bhd" | "jod" | "kwd" | "omr" | "tnd" => 3,
        _ => 2,
    };
    let unit = 10_u64.pow(decimals);
    let digits = (smallest / unit).to_string();
    let mut text = match currency {
        "usd" => "$".to_owned(),
        "eur" => "€".to_owned(),
        "gbp" => "£".to_owned(),
        "jpy" => "¥".to_owned(),
        other => format!("{}\u{a0}", other.to_ascii_uppercase()),
    };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    match smallest % unit {
        0 => text,
        part => format!("{text}.{part:0>width$}", width = decimals as usize),
    }
}

/// What is known of a price.
#[derive(Clone)]
struct Known {
    /// `None` if it is not one amount for one period, or could not be read.
    price: Option<Price>,
    /// When to ask again.
    until: Option<Instant>,
}

/// The prices that were asked for.
#[derive(Default)]
pub(super) struct Prices(Mutex<HashMap<String, Known>>);

impl Prices {
    fn known(&self, id: &str) -> Option<Known> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        known.filter(|known| known.until.is_none_or(|until| Instant::now() < until))
    }

    fn keep(&self, id: &str, known: Known) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), known);
    }
}

impl Stripe {
    /// A price by its id; `None` if it is not one amount for one period, or could not be read a moment ago.
    pub(crate) async fn price(&self, id: &str) -> Result<Option<Price>, StripeError> {
        if let Some(known) = self.read_prices.known(id) {
            return Ok(known.price);
        }
        let read = timeout(PAGE_WAIT, self.get::<WirePrice>(&["prices", id], WaitLimit::Short)).await;
        let slow = |_| Err(StripeError::Unavailable(format!("GET /v1/prices/{id}: too slow for a page")));
        let read = read.unwrap_or_else(slow).map(WirePrice::read);
        let until = read.is_err().then(|| Instant::now() + RETRY_AFTER);
        self.read_prices.keep(id, Known { price: read.as_ref().ok().cloned().flatten(), until });
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_those_that_people_write() {
        for (wire, expected) in [
            (
                r#"{"currency":"usd","unit_amount":2900,"recurring":{"interval":"month","interval_count":1}}"#,
                Some("$29 per month"),
            ),
            (
                r#"{"currency":"eur","unit_amount":119905,"recurring":{"interval":"year","interval_count":1}}"#,
                Some("€1,199.05 per year"),
            ),
            (
                r#"{"currency":"jpy","unit_amount":4900,"recurring":{"interval":"month","interval_count":3}}"#,
                Some("¥4,900 every 3 months"),
            ),
            (
                r#"{"currency":"kwd","unit_amount":9050,"recurring":{"interval":"month","interval_count":1}}"#,
                Some("KWD\u{a0}9.050 per month"),
            ),
            (r#"{"currency":"usd","unit_amount":null,"recurring":{"interval":"month","interval_count":1}}"#, None),
            (r#"{"currency":"usd","unit_amount":2900,"recurring":null}"#, None),
        ] {
            let read = serde_json::from_str::<WirePrice>(wire).expect("a price").read();
            let read = read.map(|price| format!("{} {}", price.amount, price.period));
            assert_eq!(read.as_deref(), expected, "{wire}");
        }
    }
}
