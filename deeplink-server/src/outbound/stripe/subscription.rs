//! Subscriptions in Stripe's form, and what they mean here.

use std::collections::BTreeMap;

use deeplink_core::billing::SubscriptionStatus;
use deeplink_core::plan::Tier;
use deeplink_core::time::Timestamp;
use serde::Deserialize;

use crate::config::StripePrices;

/// A subscription as Stripe reports it, in our terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) id: String,
    pub(crate) customer: String,
    /// `canceled` for everything that grants no plan.
    pub(crate) status: SubscriptionStatus,
    /// Whether it is paid or may be again: it has not ended for good and is not waiting for its first payment. An
    /// account has at most one.
    pub(crate) is_running: bool,
    /// Whether it is paid for at a price of no plan.
    pub(crate) has_unknown_price: bool,
    /// The plan that it grants; free if none.
    pub(crate) tier: Tier,
    /// If it ends on a date within its period: that date.
    pub(crate) current_period_end: Option<Timestamp>,
    /// Whether it ends with its period or within it. One that ends on a later date is renewed until then.
    pub(crate) cancel_scheduled: bool,
    /// The account that the checkout was made for.
    pub(crate) tenant: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct WireSubscription {
    pub(super) id: String,
    customer: Named,
    status: String,
    #[serde(default)]
    cancel_at_period_end: bool,
    #[serde(default)]
    cancel_at: Option<i64>,
    #[serde(default)]
    current_period_end: Option<i64>,
    #[serde(default)]
    items: Items,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

/// An id, or the object that has it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Named {
    Id(String),
    Object { id: String },
}

impl Named {
    fn id(self) -> String {
        match self {
            Self::Id(id) | Self::Object { id } => id,
        }
    }
}

#[derive(Default, Deserialize)]
struct Items {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    /// Absent where something other than a price is paid.
    #[serde(default)]
    price: Option<Price>,
    #[serde(default)]
    current_period_end: Option<i64>,
}

#[derive(Deserialize)]
struct Price {
    id: String,
}

impl WireSubscription {
    /// Translates it to our terms. An unknown status or price grants nothing.
    pub(super) fn read(mut self, prices: &StripePrices) -> Subscription {
        let tiers = self.items.data.iter().filter_map(|item| prices.tier(&item.price.as_ref()?.id));
        let tier = tiers.max_by_key(Tier::rank);
        let is_paid = matches!(self.status.as_str(), "trialing" | "active" | "past_due");
        let has_unknown_price = is_paid && tier.is_none();
        let (status, tier) = match (self.status.as_str(), tier) {
            ("trialing" | "active", Some(tier)) => (SubscriptionStatus::Active, tier),
            ("past_due", Some(tier)) => (SubscriptionStatus::PastDue, tier),
            _ => (SubscriptionStatus::Canceled, Tier::Free),
        };
        let is_running = !matches!(self.status.as_str(), "canceled" | "incomplete" | "incomplete_expired");
        // Since version 2025-03-31 each item has its own.
        let of_items = self.items.data.iter().filter_map(|item| item.current_period_end).min();
        let period_end = self.current_period_end.or(of_items);
        let date = self.cancel_at.filter(|date| period_end.is_none_or(|end| *date <= end));
        let end = date.or(period_end).filter(|_| is_running);
        Subscription {
            id: self.id,
            customer: self.customer.id(),
            status,
            is_running,
            has_unknown_price,
            tier,
            current_period_end: end.map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1_000))),
            cancel_scheduled: is_running && (self.cancel_at_period_end || date.is_some()),
            tenant: self.metadata.remove("tenant_id"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(change: impl FnOnce(&mut Value)) -> Subscription {
        let mut subscription = json!({
            "id": "sub_1", "object": "subscription", "customer": "cus_1", "status": "active",
            "cancel_at_period_end": false, "cancel_at": null, "metadata": {"tenant_id": "tnt_1", "other": "x"},
            "items": {"object": "list", "data": [{"id": "si_1", "price": {"id": "price_pro"}, "current_period_end": 1_800_000_000}]},
        });
        change(&mut subscription);
        let wire: WireSubscription = serde_json::from_value(subscription).expect("a subscription");
        wire.read(&StripePrices::new("price_pro", "price_business", "price_scale"))
    }

    /// Trial and active grant the plan, a failed payment grants it for now, and everything else, known or not, grants
    /// nothing; the same goes for a price that is not ours.
    #[test]
    fn bl2_statuses_and_prices_grant_what_they_should() {
        for (status, ours, running) in [
            ("trialing", "active", true),
            ("active", "active", true),
            ("past_due", "past_due", true),
            ("canceled", "canceled", false),
            ("unpaid", "canceled", true),
            ("paused", "canceled", true),
            ("incomplete", "canceled", false),
            ("incomplete_expired", "canceled", false),
            ("something_new", "canceled", true),
        ] {
            for (price, tier) in [("price_pro", "pro"), ("price_scale", "scale"), ("price_of_socks", "")] {
                let found = read(|wire| {
                    wire["status"] = status.into();
                    wire["items"]["data"][0]["price"]["id"] = price.into();
                });
                let (expected_status, expected_tier) = match (ours, tier) {
                    ("canceled", _) | (_, "") => ("canceled", "free"),
                    granted => granted,
                };
                assert_eq!(
                    (found.status.as_str(), found.tier.as_str()),
                    (expected_status, expected_tier),
                    "{status} {price}"
                );
                assert_eq!(found.is_running, running, "{status}");
                let is_paid = ours != "canceled";
                assert_eq!(found.has_unknown_price, is_paid && tier.is_empty(), "{status} {price}");
            }
        }
        let two = read(|wire| {
            wire["items"]["data"].as_array_mut().expect("items").push(json!({"price": {"id": "price_business"}}));
        });
        assert_eq!(two.tier, Tier::Business, "the highest of several");
        let bare = read(|wire| drop(wire.as_object_mut().expect("an object").remove("items")));
        assert_eq!((bare.status, bare.tier), (SubscriptionStatus::Canceled, Tier::Free));
    }

    /// The end of the period is the subscription's own, else the smallest of its items', else unknown.
    #[test]
    fn bl3_the_end_of_the_period_is_read_in_both_forms() {
        let end = |change: fn(&mut Value)| read(change).current_period_end.map(Timestamp::as_millis);
        assert_eq!(end(|_| ()), Some(1_800_000_000_000));
        assert_eq!(end(|wire| wire["current_period_end"] = 1_700_000_000.into()), Some(1_700_000_000_000));
        let two = |wire: &mut Value| {
            let more = json!({"price": {"id": "price_pro"}, "current_period_end": 1_750_000_000});
            wire["items"]["data"].as_array_mut().expect("items").push(more);
        };
        assert_eq!(end(two), Some(1_750_000_000_000));
        assert_eq!(end(|wire| wire["items"]["data"][0]["current_period_end"] = Value::Null), None);
        assert_eq!(end(|wire| wire["items"]["data"] = json!([])), None);
    }

    /// A date counts if it comes with the end of the period or before it, and is the end then.
    #[test]
    fn a_cancellation_is_scheduled_by_the_period_or_by_a_date() {
        let end = 1_800_000_000;
        for (at_period_end, date, scheduled, ends) in [
            (false, None, false, end),
            (true, None, true, end),
            (true, Some(end), true, end),
            (false, Some(end), true, end),
            (false, Some(end - 1), true, end - 1),
            (false, Some(end + 1), false, end),
            (true, Some(end + 1), true, end),
        ] {
            let found = read(|wire| {
                wire["cancel_at_period_end"] = at_period_end.into();
                wire["cancel_at"] = date.into();
            });
            let ends = Some(Timestamp::from_millis(ends * 1_000));
            assert_eq!(
                (found.cancel_scheduled, found.current_period_end),
                (scheduled, ends),
                "{at_period_end} {date:?}"
            );
        }
        let undated = read(|wire| {
            wire["items"] = json!({"data": [{"price": {"id": "price_pro"}}]});
            wire["cancel_at"] = end.into();
        });
        assert!(undated.cancel_scheduled && undated.current_period_end == Some(Timestamp::from_millis(end * 1_000)));
        let expanded = read(|wire| wire["customer"] = json!({"id": "cus_2", "object": "customer"}));
        assert_eq!((expanded.customer.as_str(), expanded.tenant.as_deref()), ("cus_2", Some("tnt_1")));
    }
}
