//! The plan: what it includes, its usage, and payment.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::billing::{BillingStatus, SubscriptionStatus, Usage, paid_tier};
use deeplink_core::plan::{Limits, PAST_DUE_DAYS, Tier};
use deeplink_core::time::Timestamp;
use deeplink_core::zone::Zone;
use futures_util::future::join_all;

use super::PageResult;
use super::chart::Count;
use super::confirm::Question;
use super::form::{Form, FormError, View};
use super::frame::{Frame, REPORTS, Section, answer};
use super::headers::see_other;
use super::person::Person;
use super::time;
use crate::api;
use crate::db::billing::BillingAccount;
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::http::once::Once;
use crate::outbound::stripe::{Price, Stripe};
use crate::state::{App, Shared};
use crate::work::subscriptions;

const PATH: &str = "/account/plan";
/// In the query of the path after a payment.
const PAID: &str = "plan-paid";

/// A plan and its usage.
pub(super) struct Plan {
    pub(super) name: &'static str,
    /// Whether this service enforces limits at all.
    pub(super) is_limited: bool,
    pub(super) items: Vec<Item>,
    /// How long individual clicks are kept; `None`: forever.
    kept_for: Option<String>,
}

/// The usage of one resource.
pub(super) struct Item {
    pub(super) name: &'static str,
    pub(super) used: Count,
    /// `None`: unlimited.
    pub(super) limit: Option<Count>,
}

impl Item {
    /// Whether at least 90% is used. A limit of 1 counts as scarce only if it is exceeded.
    pub(super) fn is_scarce(&self) -> bool {
        let tenfold = |count: Count, times: i64| count.number().saturating_mul(times);
        let is_nearly_used = |limit: Count| !limit.is_one() && tenfold(self.used, 10) >= tenfold(limit, 9);
        self.limit.is_some_and(|limit| is_nearly_used(limit) || self.used.number() > limit.number())
    }
}

impl Plan {
    /// A plan's limits with an account's usage.
    pub(super) fn of(limits: &Limits, tier: &Tier, is_limited: bool, usage: &Usage) -> Self {
        let item = |name, used: i64, limit: Option<i64>| {
            let limit = limit.filter(|_| is_limited).map(Count::from);
            Item { name, used: used.into(), limit }
        };
        let mut items = vec![item("Links", usage.links, limits.max_links)];
        // Events are counted only for their limit.
        if is_limited {
            items.push(item("Monthly events", usage.events_this_month, limits.max_events_per_month));
        }
        items.extend([
            item("Domains", usage.domains, limits.max_domains),
            item("Team members", usage.team_members, limits.max_team_members),
            item("Webhooks", usage.webhooks, limits.max_webhooks),
        ]);
        Self { name: name_of(tier), is_limited, items, kept_for: limits.analytics_retention_days.map(time_of) }
    }
}

/// A number of days in words, such as `30 days` or `3 years`.
fn time_of(days: i64) -> String {
    match (days / 365, days % 365) {
        (1, 0) => "1 year".to_owned(),
        (years @ 2.., 0) => format!("{years} years"),
        _ => format!("{} days", Count::from(days)),
    }
}

fn name_of(tier: &Tier) -> &'static str {
    match tier {
        Tier::Pro => "Pro",
        Tier::Business => "Business",
        Tier::Scale => "Scale",
        _ => "Free",
    }
}

/// A plan that can be paid for instead.
struct Offer {
    tier: &'static Tier,
    name: &'static str,
    price: Option<Price>,
    /// What it includes.
    includes: Vec<String>,
}

impl Offer {
    fn of(tier: &'static Tier, limits: Limits, price: Option<Price>) -> Self {
        let Limits {
            max_links,
            max_events_per_month,
            max_domains,
            max_team_members,
            max_webhooks,
            analytics_retention_days,
        } = limits;
        let many = |limit: Option<i64>, what: &str| match limit {
            Some(limit) => format!("{} {what}", Count::from(limit)),
            None => format!("Unlimited {what}"),
        };
        let mut includes = vec![
            many(max_links, "links"),
            many(max_events_per_month, "events a month"),
            many(max_domains, "domains"),
            many(max_team_members, "team members"),
            many(max_webhooks, "webhooks"),
        ];
        let kept = |days| format!("Clicks and other events kept for {}", time_of(days));
        includes.extend(analytics_retention_days.map(kept));
        Self { tier, name: name_of(tier), price, includes }
    }
}

#[derive(Template)]
#[template(path = "pages/plan.html")]
struct PlanPage<'a> {
    frame: &'a Frame,
    /// Class and label of the subscription's state.
    sign: Option<(&'static str, &'static str)>,
    error: Option<&'a str>,
    /// Whether there is more to show than usage.
    has_plan: bool,
    plan: Plan,
    lead: String,
    /// Relevant dates.
    facts: Vec<(&'static str, Timestamp)>,
    /// Whether choosing another plan changes a subscription.
    is_paid: bool,
    /// Whether a payment is being confirmed.
    is_confirming: bool,
    /// Whether a payment is missing, so that managing the subscription comes first.
    is_owed: bool,
    can_manage: bool,
    can_cancel: bool,
    offers: Vec<Offer>,
    /// Whether each offer has its price.
    has_prices: bool,
}

/// The plan and its usage.
pub(super) async fn show(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    page(&app, &person, &View::Opened(Some(&query))).await
}

async fn page(app: &Shared, person: &Person, view: &View<'_>) -> PageResult {
    let has_returned = view.query().one("done")? == Some(PAID);
    let standing = Standing::of(app, person, has_returned).await?;
    let Standing { status, account, is_confirming, .. } = &standing;
    let has_stripe = app.config.stripe.is_some();
    // A customer who has just paid is not asked to pay again, and a subscription on hold cannot be changed to another plan.
    let offers = if *is_confirming || standing.is_on_hold() { Vec::new() } else { offers(app, status).await };
    let frame = Frame::of(app, person, Section::PLAN, "Plan and usage").with(&REPORTS);
    let mut frame = frame.showing(view).leading_to_payment(app);
    frame.notice = frame.notice.filter(|_| !is_confirming);
    let page = PlanPage {
        frame: &frame,
        sign: standing.sign(),
        error: view.error().map(|error| error.text.as_str()),
        has_plan: status.quotas_enforced
            || *is_confirming
            || standing.is_subscribed()
            || status.comp_active
            || !offers.is_empty(),
        plan: Plan::of(&status.limits, &status.effective_tier, status.quotas_enforced, &status.usage),
        lead: standing.lead(),
        facts: standing.facts(),
        is_paid: standing.is_subscribed(),
        is_confirming: *is_confirming,
        is_owed: standing.is_owed(),
        // Former payers still have invoices.
        can_manage: has_stripe && account.customer.is_some(),
        can_cancel: has_stripe && standing.can_cancel(),
        has_prices: offers.iter().all(|offer| offer.price.is_some()),
        offers,
    };
    Ok(answer(app, view.outcome(), &frame, &page))
}

/// The plans above the current one, if plans are sold.
async fn offers(app: &App, status: &BillingStatus) -> Vec<Offer> {
    let Ok(stripe) = app.stripe() else { return Vec::new() };
    let present = status.plan_tier.rank().max(status.effective_tier.rank());
    let tiers = Tier::ALL.iter().filter(|tier| tier.rank() > present);
    join_all(tiers.map(async |tier| Offer::of(tier, app.config.limits_of(tier), price(app, stripe, tier).await))).await
}

/// What a plan costs. A page without it is better than no page: the processor's page shows it too.
async fn price(app: &App, stripe: &Stripe, tier: &Tier) -> Option<Price> {
    let read = stripe.price(stripe.prices().of(tier)?).await;
    read.map_err(|error| subscriptions::unavailable(app, &error)).ok()?
}

/// The state of an account's subscription.
struct Standing {
    status: BillingStatus,
    account: BillingAccount,
    now: Timestamp,
    zone: Zone,
    /// Whether a payment was made that the processor has not confirmed yet.
    is_confirming: bool,
}

impl Standing {
    /// `has_returned`: the person comes from the page where a subscription is paid.
    async fn of(app: &App, person: &Person, has_returned: bool) -> Result<Self, ApiError> {
        let status = api::billing::status_for(app, &person.caller).await?;
        let account = subscriptions::read(app, &person.caller.tenant).await?;
        let is_confirming = has_returned && account.subscription.is_none();
        Ok(Self { status, account, now: app.clock.now(), zone: person.who.zone.clone(), is_confirming })
    }

    /// Whether there is a subscription that grants a plan, or recently did.
    fn is_granting(&self) -> bool {
        self.account.running_subscription().is_some()
    }

    /// Whether there is a subscription that has not ended but grants nothing: it is unpaid, paused or for another
    /// price.
    fn is_on_hold(&self) -> bool {
        self.account.subscription.is_some() && !self.is_granting()
    }

    fn is_subscribed(&self) -> bool {
        self.account.subscription.is_some()
    }

    /// Until when a subscription grants its plan if it is canceled now; `None`: it grants none. If a payment failed,
    /// this may be before the end of the period.
    fn granted_until(&self) -> Option<String> {
        let end = self.account.current_period_end;
        let failed = self.account.basis.past_due_since.map(|since| since.plus_days(PAST_DUE_DAYS));
        let until = end.into_iter().chain(failed).min().map(|until| time::day(until, &self.zone));
        let until = until.unwrap_or_else(|| "the current period ends".to_owned());
        self.account.is_granted(self.now).then_some(until)
    }

    /// What is kept once the subscription is over: everything created, and clicks for as long as the next plan keeps
    /// them.
    fn kept(&self, verb: &str) -> String {
        let kept = format!(
            "Nothing {verb} deleted: you keep your links, domains, team members and webhooks, and your links keep working."
        );
        match self.tier_afterwards().limits().analytics_retention_days.filter(|_| self.status.quotas_enforced) {
            Some(days) => {
                format!("{kept} Individual clicks and other events are kept for only {}.", time_of(days))
            }
            None => kept,
        }
    }

    fn tier_afterwards(&self) -> &Tier {
        self.account.basis.comp.as_ref().unwrap_or(&Tier::Free)
    }

    /// The consequences of the end of the subscription.
    fn afterwards(&self) -> String {
        let kept = self.kept("is");
        if !self.status.quotas_enforced {
            return kept;
        }
        format!("After the plan ends, the limits of the {} plan apply. {kept}", name_of(self.tier_afterwards()))
    }

    /// Whether a payment is missing.
    fn is_owed(&self) -> bool {
        self.is_on_hold() || self.is_granting() && self.status.status == SubscriptionStatus::PastDue
    }

    fn can_cancel(&self) -> bool {
        self.is_subscribed() && !self.status.cancel_scheduled
    }

    fn sign(&self) -> Option<(&'static str, &'static str)> {
        match &self.status.status {
            _ if self.is_confirming => Some(("wait", "Confirming payment")),
            _ if self.is_on_hold() => Some(("bad", "On hold")),
            SubscriptionStatus::Canceled => Some(("over", "Ended")),
            _ if !self.is_granting() => None,
            SubscriptionStatus::PastDue => Some(("bad", "Payment failed")),
            _ if self.status.cancel_scheduled => Some(("wait", "Canceled")),
            _ => Some(("good", "Active")),
        }
    }

    /// The plan's origin and what happens to it next, in full sentences.
    fn lead(&self) -> String {
        let (paid, holds) = (&self.status.plan_tier, &self.status.effective_tier);
        let subscription = match &self.status.status {
            _ if self.is_confirming => {
                "Thank you. Your plan changes as soon as the payment is confirmed, usually within a minute.".to_owned()
            }
            _ if self.is_on_hold() => {
                let limits = format!(", so the limits of the {} plan apply", name_of(holds));
                let limits = if self.status.quotas_enforced { limits } else { String::new() };
                format!(
                    "Your subscription is on hold{limits}. To pay or resume it, open “Manage billing”. If that does \
                     not help, contact the operator of this service."
                )
            }
            SubscriptionStatus::Canceled => format!("Your subscription has ended. {}", self.kept("was")),
            _ if !self.is_granting() => {
                if self.status.comp_active { "" } else { "You have no subscription." }.to_owned()
            }
            SubscriptionStatus::PastDue => {
                let goal = if holds.rank() < paid.rank() { "restore the plan" } else { "keep the plan" };
                format!(
                    "The last payment for {} failed. Pay, or update your card, under “Manage billing” to {goal}.",
                    name_of(paid)
                )
            }
            _ if self.status.cancel_scheduled => {
                format!("Your {} subscription will not renew. {}", name_of(paid), self.afterwards())
            }
            _ => format!("You are subscribed to {}.", name_of(paid)),
        };
        let is_granted = self.status.comp_active && (holds.rank() > paid.rank() || !self.is_granting());
        let granted = if is_granted {
            format!("The operator of this service has granted you {}.", name_of(holds))
        } else {
            String::new()
        };
        [subscription, granted].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Relevant dates: when a payment failed and until when the plan is kept anyway, and when the period ends.
    fn facts(&self) -> Vec<(&'static str, Timestamp)> {
        let is_late = self.status.status == SubscriptionStatus::PastDue;
        let failed = self
            .account
            .basis
            .past_due_since
            .filter(|_| is_late)
            .map(|since| [("Payment failed on", since), ("Pay by", since.plus_days(PAST_DUE_DAYS))]);
        let name = match self.status.cancel_scheduled {
            true => Some("Ends on"),
            false if self.is_granting() && !is_late => Some("Renews on"),
            false => None,
        };
        let end = self.account.current_period_end.filter(|_| self.is_subscribed() && !is_late);
        let end = name.zip(end);
        failed.into_iter().flatten().chain(end).collect()
    }
}

/// Redirects to the plan: a bookmark or a sign-in comes back without the form.
pub(super) async fn back(_: Person) -> PageResult {
    Ok(see_other(PATH))
}

/// Redirects to the checkout page for a plan.
pub(super) async fn checkout(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    let session = async {
        let tier = paid_tier(form.value("tier"))?;
        let made = api::stripe::checkout_for(&app, &person.caller, &tier, Once::none(person.caller.turn())).await?;
        made.into_made()
    };
    match session.await {
        Ok(session) => Ok(see_other(&session.checkout_url)),
        Err(error) => page(&app, &person, &View::refused(None, error)?).await,
    }
}

/// Redirects to the page to manage cards and invoices.
pub(super) async fn portal(State(app): State<Shared>, person: Person, _: Form) -> PageResult {
    match api::stripe::portal_for(&app, &person.caller, Once::none(person.caller.turn())).await {
        Ok(made) => Ok(see_other(&made.into_made()?.portal_url)),
        Err(error) => page(&app, &person, &View::refused(None, error)?).await,
    }
}

/// Asks for confirmation before the subscription is canceled.
pub(super) async fn confirm(State(app): State<Shared>, person: Person) -> PageResult {
    let standing = Standing::of(&app, &person, false).await?;
    if !standing.can_cancel() {
        return Ok(see_other(PATH));
    }
    Ok(question(&app, &person, &standing, None))
}

fn question(app: &App, person: &Person, standing: &Standing, error: Option<&FormError>) -> Response {
    let lead = match standing.granted_until() {
        None => format!(
            "It ends at the end of the current billing period and cannot be resumed after that. {}",
            standing.kept("is")
        ),
        Some(until) => format!("You keep the plan until {until}; it will not renew. {}", standing.afterwards()),
    };
    let subject = if standing.is_on_hold() { "Subscription on hold" } else { name_of(&standing.status.plan_tier) };
    let question = Question {
        section: Section::PLAN,
        title: "Cancel your subscription?".to_owned(),
        subject,
        lead: &lead,
        submit: "Cancel subscription".to_owned(),
        is_typed: false,
        keep: "Keep subscription",
        back: Section::PLAN.back(),
    };
    question.ask(app, person, error)
}

/// Cancels the subscription at the end of its period.
pub(super) async fn cancel(State(app): State<Shared>, person: Person, _: Form) -> PageResult {
    match api::billing::cancel_for(&app, &person.caller, Once::none(person.caller.turn())).await {
        Ok(_) => Ok(see_other(&format!("{PATH}?done=plan-canceled"))),
        Err(error) => {
            let error = FormError::of(error)?;
            Ok(question(&app, &person, &Standing::of(&app, &person, false).await?, Some(&error)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_used_is_scarce() {
        let limits =
            [(44, 50, false), (45, 50, true), (50, 50, true), (0, 1, false), (1, 1, false), (2, 1, true), (2, 2, true)];
        for (used, limit, expected) in limits {
            let item = Item { name: "Links", used: Count::from(used), limit: Some(Count::from(limit)) };
            assert_eq!(item.is_scarce(), expected, "{used} of {limit}");
        }
        assert!(!Item { name: "Links", used: Count::from(i64::MAX), limit: None }.is_scarce());
    }
}
