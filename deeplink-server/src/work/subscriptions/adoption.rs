//! What a fetched subscription means for its account: a pure function of both and the time.

use deeplink_core::billing::SubscriptionStatus;
use deeplink_core::plan::PlanBasis;
use deeplink_core::time::Timestamp;

use crate::db::billing::BillingAccount;
use crate::metrics::StripeAlarm;
use crate::outbound::stripe::Subscription;

/// The state of an account after a subscription was fetched. A subscription is the account's own if it says so, or if
/// it belongs to the stored customer and names no account. A subscription other than the stored one, or of another
/// customer, replaces it only if it grants a plan and the stored one does not.
pub(crate) fn applied(
    account: &BillingAccount,
    fetched: &Subscription,
    now: Timestamp,
) -> Result<BillingAccount, StripeAlarm> {
    let is_of_customer = account.customer.as_ref() == Some(&fetched.customer);
    let is_own = match &fetched.tenant {
        Some(tenant) => tenant == account.tenant.as_str(),
        None => is_of_customer,
    };
    if !is_own {
        return Err(StripeAlarm::CustomerMismatch);
    }
    let is_another = account.subscription.as_ref().is_some_and(|stored| *stored != fetched.id);
    if is_another || account.customer.is_some() && !is_of_customer {
        if fetched.status == SubscriptionStatus::Canceled {
            let rival = account.rival.clone().filter(|rival| fetched.is_running || *rival != fetched.id);
            return Ok(BillingAccount { rival, ..account.clone() });
        }
        if account.is_granted(now) {
            return Err(StripeAlarm::SecondSubscription);
        }
    }
    Ok(with(account, fetched, now))
}

fn with(account: &BillingAccount, fetched: &Subscription, now: Timestamp) -> BillingAccount {
    let is_same = account.subscription.as_ref() == Some(&fetched.id);
    let seen = account.basis.past_due_since.filter(|_| is_same);
    BillingAccount {
        tenant: account.tenant.clone(),
        version: account.version,
        basis: PlanBasis {
            comp: account.basis.comp.clone(),
            subscribed: fetched.tier.clone(),
            past_due_since: (fetched.status == SubscriptionStatus::PastDue).then(|| seen.unwrap_or(now)),
            status: Some(fetched.status.clone()),
        },
        current_period_end: fetched.current_period_end,
        cancel_scheduled: fetched.cancel_scheduled,
        customer: Some(fetched.customer.clone()),
        subscription: fetched.is_running.then(|| fetched.id.clone()),
        rival: account.rival.clone().filter(|rival| *rival != fetched.id),
    }
}

#[cfg(test)]
mod tests {
    use deeplink_core::plan::Tier;

    use super::*;

    const TENANT: &str = "tnt_0123456789abcdef01234567";

    fn now() -> Timestamp {
        Timestamp::from_millis(1_795_167_000_000)
    }

    fn account(subscription: Option<(&str, &str)>) -> BillingAccount {
        BillingAccount {
            tenant: TENANT.parse().expect("an id"),
            version: 3,
            basis: PlanBasis {
                comp: None,
                subscribed: if subscription.is_some() { Tier::Pro } else { Tier::Free },
                status: subscription.map(|(_, status)| status.into()),
                past_due_since: None,
            },
            current_period_end: None,
            cancel_scheduled: false,
            customer: subscription.map(|_| "cus_1".to_owned()),
            subscription: subscription.map(|(id, _)| id.to_owned()),
            rival: None,
        }
    }

    fn fetched(id: &str, status: &str) -> Subscription {
        Subscription {
            id: id.to_owned(),
            customer: "cus_1".to_owned(),
            status: status.into(),
            is_running: true,
            has_unknown_price: false,
            tier: if status == "canceled" { Tier::Free } else { Tier::Business },
            current_period_end: Some(now().plus_days(30)),
            cancel_scheduled: true,
            tenant: Some(TENANT.to_owned()),
        }
    }

    #[test]
    fn another_subscription_is_adopted_only_in_place_of_one_that_grants_nothing() {
        let adopted = |stored: Option<(&str, &str)>, id: &str, status: &str| {
            applied(&account(stored), &fetched(id, status), now()).map(|account| account.subscription)
        };
        let (one, two) = (Ok(Some("sub_1".to_owned())), Ok(Some("sub_2".to_owned())));
        assert_eq!(adopted(None, "sub_1", "active"), one);
        assert_eq!(adopted(None, "sub_1", "canceled"), one);
        assert_eq!(adopted(Some(("sub_1", "active")), "sub_1", "canceled"), one);
        assert_eq!(adopted(Some(("sub_1", "active")), "sub_2", "canceled"), one);
        assert_eq!(adopted(Some(("sub_1", "canceled")), "sub_2", "canceled"), one);
        assert_eq!(adopted(Some(("sub_1", "canceled")), "sub_2", "active"), two);
        assert_eq!(adopted(Some(("sub_1", "canceled")), "sub_2", "past_due"), two);
        assert_eq!(adopted(Some(("sub_1", "active")), "sub_2", "active"), Err(StripeAlarm::SecondSubscription));
        assert_eq!(adopted(Some(("sub_1", "active")), "sub_2", "past_due"), Err(StripeAlarm::SecondSubscription));
    }

    /// It is remembered until it is adopted or over; while it may still be paid, it is not over.
    #[test]
    fn a_second_subscription_is_remembered_until_it_is_the_first_or_over() {
        let after = |status: &str, id: &str, found: &str, runs: bool| {
            let stored = BillingAccount { rival: Some("sub_2".to_owned()), ..account(Some(("sub_1", status))) };
            let found = Subscription { is_running: runs, ..fetched(id, found) };
            let next = applied(&stored, &found, now()).expect("an account");
            (next.subscription, next.rival)
        };
        let [one, two] = ["sub_1", "sub_2"].map(|id| Some(id.to_owned()));
        assert_eq!(after("canceled", "sub_2", "active", true), (two.clone(), None));
        assert_eq!(after("active", "sub_2", "canceled", false), (one.clone(), None));
        assert_eq!(after("active", "sub_2", "canceled", true), (one.clone(), two.clone()));
        assert_eq!(after("active", "sub_3", "canceled", false), (one.clone(), two.clone()));
        assert_eq!(after("active", "sub_1", "canceled", false), (None, two.clone()));
        assert_eq!(after("active", "sub_1", "active", true), (one, two));
    }

    #[test]
    fn what_has_ended_leaves_the_free_plan_and_the_customer() {
        let ended = Subscription { is_running: false, current_period_end: None, ..fetched("sub_1", "canceled") };
        let left = applied(&account(Some(("sub_1", "active"))), &ended, now()).expect("an account");
        assert_eq!((left.subscription, left.customer.as_deref()), (None, Some("cus_1")));
        assert_eq!((left.basis.subscribed, left.basis.status), (Tier::Free, Some(SubscriptionStatus::Canceled)));
    }

    #[test]
    fn a_failed_payment_is_dated_once() {
        let first =
            applied(&account(Some(("sub_1", "active"))), &fetched("sub_1", "past_due"), now()).expect("an account");
        assert_eq!(first.basis.past_due_since, Some(now()));
        let later = now().plus_days(3);
        let again = applied(&first, &fetched("sub_1", "past_due"), later).expect("an account");
        assert_eq!(again.basis.past_due_since, Some(now()));
        let paid = applied(&again, &fetched("sub_1", "active"), later).expect("an account");
        assert_eq!(paid.basis.past_due_since, None);
    }

    #[test]
    fn a_subscription_of_somebody_else_is_never_stored() {
        let mut other = fetched("sub_1", "active");
        other.tenant = Some("tnt_ffffffffffffffffffffffff".to_owned());
        for stored in [None, Some(("sub_1", "active"))] {
            assert_eq!(applied(&account(stored), &other, now()), Err(StripeAlarm::CustomerMismatch));
        }
        // It names no account, and the customer is not the stored one.
        other.tenant = None;
        assert_eq!(applied(&account(None), &other, now()), Err(StripeAlarm::CustomerMismatch));
        other.customer = "cus_2".to_owned();
        let stored = account(Some(("sub_1", "active")));
        assert_eq!(applied(&stored, &other, now()), Err(StripeAlarm::CustomerMismatch));
    }

    /// Someone who paid on two pages has two customers at Stripe.
    #[test]
    fn a_second_customer_of_an_account_is_adopted_like_a_second_subscription() {
        let adopted = |stored: Option<(&str, &str)>, status: &str| {
            let other = Subscription { customer: "cus_2".to_owned(), ..fetched("sub_2", status) };
            applied(&account(stored), &other, now()).map(|account| account.customer.expect("a customer"))
        };
        let (one, two) = (Ok("cus_1".to_owned()), Ok("cus_2".to_owned()));
        assert_eq!(adopted(None, "canceled"), two, "the first customer of all");
        assert_eq!(adopted(Some(("sub_1", "active")), "canceled"), one);
        assert_eq!(adopted(Some(("sub_1", "canceled")), "canceled"), one);
        assert_eq!(adopted(Some(("sub_1", "canceled")), "active"), two);
        assert_eq!(adopted(Some(("sub_1", "active")), "active"), Err(StripeAlarm::SecondSubscription));
        let mut ended = account(Some(("sub_1", "canceled")));
        ended.subscription = None;
        let other = Subscription { customer: "cus_2".to_owned(), ..fetched("sub_2", "active") };
        let adopted = applied(&ended, &other, now()).expect("an account");
        assert_eq!(adopted.customer.as_deref(), Some("cus_2"));
    }
}
