//! The plan: what it includes, how much of it is used, and how it is paid for.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::billing::{BillingMethod, BillingStatus, SubscriptionStatus, Usage, paid_tier};
use deeplink_core::plan::{Limits, PAST_DUE_DAYS, Tier};
use deeplink_core::time::Timestamp;

use super::PageResult;
use super::chart::Count;
use super::confirm::Question;
use super::form::{Form, FormError, View};
use super::frame::{Frame, Section, answer};
use super::headers::see_other;
use super::person::Person;
use super::time::DisplayTime;
use crate::api;
use crate::db::billing;
use crate::http::extract::Query;
use crate::http::once::Once;
use crate::state::{App, Shared};

const PATH: &str = "/account/plan";

/// What follows from the end of a subscription.
const AFTERWARDS: &str = "Nothing is deleted and your links keep working, but you can add nothing beyond the limits of the plan that then applies.";

/// A plan, and how much of it is used.
pub(super) struct Plan {
    pub(super) name: &'static str,
    /// Whether this service enforces limits at all.
    pub(super) is_limited: bool,
    pub(super) items: Vec<Item>,
    /// Days for which single clicks are kept; `None`: for ever.
    kept_days: Option<Count>,
}

/// How much of one thing is used.
pub(super) struct Item {
    pub(super) name: &'static str,
    pub(super) used: Count,
    /// `None`: unlimited.
    pub(super) limit: Option<Count>,
}

impl Item {
    /// Whether at least 90 % is used.
    pub(super) fn is_scarce(&self) -> bool {
        let tenfold = |count: Count, times: i64| count.number().saturating_mul(times);
        self.limit.is_some_and(|limit| tenfold(self.used, 10) >= tenfold(limit, 9))
    }
}

impl Plan {
    /// The plan whose limits hold for an account that uses this much.
    pub(super) fn of(tier: &Tier, is_limited: bool, usage: &Usage) -> Self {
        let limits = tier.limits();
        let item = |name, used: i64, limit: Option<i64>| {
            let limit = limit.filter(|_| is_limited).map(Count::from);
            Item { name, used: used.into(), limit }
        };
        let mut items = vec![item("Links", usage.links, limits.max_links)];
        // They are counted only for their limit.
        if is_limited {
            items.push(item("Monthly events", usage.events_this_month, limits.max_events_per_month));
        }
        items.extend([
            item("Domains", usage.domains, limits.max_domains),
            item("Team members", usage.team_members, limits.max_team_members),
            item("Webhooks", usage.webhooks, limits.max_webhooks),
        ]);
        Self { name: name_of(tier), is_limited, items, kept_days: limits.analytics_retention_days.map(Count::from) }
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
    /// What it includes.
    includes: Vec<String>,
}

impl Offer {
    fn of(tier: &'static Tier) -> Self {
        let Limits {
            max_links,
            max_events_per_month,
            max_domains,
            max_team_members,
            max_webhooks,
            analytics_retention_days,
        } = tier.limits();
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
        includes.extend(analytics_retention_days.map(|days| format!("Clicks kept for {} days", Count::from(days))));
        Self { tier, name: name_of(tier), includes }
    }
}

#[derive(Template)]
#[template(path = "pages/plan.html")]
struct PlanPage<'a> {
    frame: &'a Frame,
    /// Class and label of how the subscription stands.
    sign: Option<(&'static str, &'static str)>,
    error: Option<&'a str>,
    /// Whether there is more to say than what is used.
    has_plan: bool,
    plan: Plan,
    lead: String,
    /// Days that matter.
    facts: Vec<(&'static str, DisplayTime)>,
    /// Whether another plan is a change of the subscription.
    is_paid: bool,
    can_manage: bool,
    can_cancel: bool,
    offers: Vec<Offer>,
}

/// The plan and its use.
pub(super) async fn show(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    page(&app, &person, &View::Opened(Some(&query))).await
}

async fn page(app: &Shared, person: &Person, view: &View<'_>) -> PageResult {
    let status = api::billing::status_for(app, &person.caller).await?;
    let account = billing::find(&mut app.db.read().await?.conn(), &person.caller.tenant).await?;
    let is_paid = has_subscription(&status);
    let has_stripe = app.config.stripe.is_some();
    let offers = if has_stripe { offers(&status) } else { Vec::new() };
    let frame = Frame::of(app, person, Section::PLAN, "Plan and usage").showing(view).leading_to_payment(app);
    let page = PlanPage {
        frame: &frame,
        sign: sign(&status),
        error: view.error().map(|error| error.text.as_str()),
        has_plan: status.quotas_enforced || is_paid || status.comp_active || !offers.is_empty(),
        plan: Plan::of(&status.effective_tier, status.quotas_enforced, &status.usage),
        lead: lead(&status),
        facts: facts(&status, account.as_ref().and_then(|account| account.basis.past_due_since)),
        is_paid,
        // Who has paid before still has invoices.
        can_manage: has_stripe && account.is_some_and(|account| account.customer.is_some()),
        can_cancel: has_stripe && can_cancel(&status),
        offers,
    };
    Ok(answer(app, view.outcome(), &frame, &page))
}

/// Whether there is a subscription that is not over.
fn has_subscription(status: &BillingStatus) -> bool {
    status.billing_method == BillingMethod::Stripe && status.status != SubscriptionStatus::Canceled
}

fn can_cancel(status: &BillingStatus) -> bool {
    has_subscription(status) && !status.cancel_scheduled
}

/// The plans above the present one.
fn offers(status: &BillingStatus) -> Vec<Offer> {
    let present = status.plan_tier.rank().max(status.effective_tier.rank());
    Tier::ALL.iter().filter(|tier| tier.rank() > present).map(Offer::of).collect()
}

fn sign(status: &BillingStatus) -> Option<(&'static str, &'static str)> {
    match &status.status {
        SubscriptionStatus::Canceled => Some(("over", "Ended")),
        _ if !has_subscription(status) => None,
        SubscriptionStatus::PastDue => Some(("bad", "Payment failed")),
        _ if status.cancel_scheduled => Some(("wait", "Canceled")),
        _ => Some(("good", "Active")),
    }
}

/// How the plan came about and what becomes of it, in whole sentences.
fn lead(status: &BillingStatus) -> String {
    let (paid, holds) = (&status.plan_tier, &status.effective_tier);
    let subscription = match &status.status {
        SubscriptionStatus::Canceled => {
            "Your subscription has ended. Nothing was deleted, and your links keep working.".into()
        }
        _ if !has_subscription(status) => if status.comp_active { "" } else { "You have no subscription." }.to_owned(),
        SubscriptionStatus::PastDue => {
            let goal = if holds.rank() < paid.rank() { "get it back" } else { "keep it" };
            format!(
                "The last payment for {} failed. Pay or change your card under “Manage billing” to {goal}.",
                name_of(paid)
            )
        }
        _ if status.cancel_scheduled => format!("Your {} subscription is not renewed. {AFTERWARDS}", name_of(paid)),
        _ => format!("You are subscribed to {}.", name_of(paid)),
    };
    let is_granted = status.comp_active && (holds.rank() > paid.rank() || !has_subscription(status));
    let granted = if is_granted {
        format!("Whoever runs this service has granted you {}.", name_of(holds))
    } else {
        String::new()
    };
    [subscription, granted].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Days that matter: when a payment failed and until when the plan stays all the same, and when the period ends.
fn facts(status: &BillingStatus, failed: Option<Timestamp>) -> Vec<(&'static str, DisplayTime)> {
    let is_late = status.status == SubscriptionStatus::PastDue;
    let failed = failed.filter(|_| is_late).map(|since| {
        [("Payment failed on", DisplayTime::from(since)), ("Pay by", since.plus_days(PAST_DUE_DAYS).into())]
    });
    let end = status.current_period_end.filter(|_| has_subscription(status) && !is_late).map(Timestamp::from_millis);
    let end = end.map(|end| (if status.cancel_scheduled { "Ends on" } else { "Renews on" }, end.into()));
    failed.into_iter().flatten().chain(end).collect()
}

/// Redirects to the plan: a bookmark or a sign-in comes back without the form.
pub(super) async fn back(_: Person) -> PageResult {
    Ok(see_other(PATH))
}

/// Leads to the page on which a plan is paid for.
pub(super) async fn checkout(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    let session = async {
        let tier = paid_tier(form.value("tier"))?;
        let made = api::stripe::checkout_for(&app, &person.caller, &tier, Once::none()).await?;
        made.into_made()
    };
    match session.await {
        Ok(session) => Ok(see_other(&session.checkout_url)),
        Err(error) => page(&app, &person, &View::refused(None, error)?).await,
    }
}

/// Leads to the page on which cards and invoices are managed.
pub(super) async fn portal(State(app): State<Shared>, person: Person, _: Form) -> PageResult {
    match api::stripe::portal_for(&app, &person.caller, Once::none()).await {
        Ok(made) => Ok(see_other(&made.into_made()?.portal_url)),
        Err(error) => page(&app, &person, &View::refused(None, error)?).await,
    }
}

/// Asks for confirmation before the subscription is canceled.
pub(super) async fn confirm(State(app): State<Shared>, person: Person) -> PageResult {
    let status = api::billing::status_for(&app, &person.caller).await?;
    if !can_cancel(&status) {
        return Ok(see_other(PATH));
    }
    Ok(question(&app, &person, &status, None))
}

fn question(app: &App, person: &Person, status: &BillingStatus, error: Option<&FormError>) -> Response {
    let until = status.current_period_end.map(|end| DisplayTime::from(Timestamp::from_millis(end)));
    let until = until.map_or_else(|| "the period that you paid for ends".to_owned(), |end| end.to_string());
    let lead = format!("You keep the plan until {until}; it is not renewed. {AFTERWARDS}");
    let question = Question {
        section: Section::PLAN,
        title: "Cancel your subscription?".to_owned(),
        subject: name_of(&status.plan_tier),
        lead: &lead,
        submit: "Cancel subscription".to_owned(),
        keep: "Keep subscription",
        back: PATH,
    };
    question.ask(app, person, error)
}

/// Cancels the subscription at the end of its period.
pub(super) async fn cancel(State(app): State<Shared>, person: Person, _: Form) -> PageResult {
    match api::billing::cancel_for(&app, &person.caller, Once::none()).await {
        Ok(_) => Ok(see_other(&format!("{PATH}?done=plan-canceled"))),
        Err(error) => {
            let error = FormError::of(error)?;
            let status = api::billing::status_for(&app, &person.caller).await?;
            Ok(question(&app, &person, &status, Some(&error)))
        }
    }
}
