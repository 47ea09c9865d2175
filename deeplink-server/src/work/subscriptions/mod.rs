//! Accounts' subscriptions at Stripe: read when an event says that one changed, and daily where a paid period is over
//! and no event came, or where a second subscription may have to replace the first.
//!
//! Events come late, repeated and in any order, so nothing that they say about a subscription is stored: it is fetched.
//! Each result is stored under the version of the account that was read before; if that has changed, the subscription
//! is fetched again.

mod adoption;

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::error::ErrorCode;
use deeplink_core::id::TenantId;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

pub(crate) use self::adoption::applied;
use crate::db::billing::{self, BillingAccount};
use crate::db::{Conn, DbError, leases, tenants};
use crate::error::ApiError;
use crate::metrics::StripeAlarm;
use crate::outbound::stripe::{Stripe, StripeError, WaitLimit};
use crate::shares::Share;
use crate::state::{App, Shared};

/// Seconds after which a caller may retry a request that Stripe did not answer.
const RETRY_SECS: u64 = 5;
/// How often a subscription is fetched because its account changed meanwhile.
const MAX_FETCHES: usize = 5;
/// Interval between checks whether the daily round is due.
const SCAN_INTERVAL: Duration = Duration::from_mins(1);
/// Between two rounds.
const ROUND_DAYS: i64 = 1;
/// How long a node may take for a round, and after how long a failed one is repeated.
const RETRY_MILLIS: i64 = 3_600_000;
/// The text of [`overtaken`].
const OVERTAKEN: &str = "the subscription is being changed";
/// The text of [`unavailable`] if the next request would fail too.
const NO_ANSWER: &str = "the payment processor is not responding";
/// The same if only this request fails.
const NOT_DONE: &str = "the payment processor did not complete the request";
/// For an event about a subscription that does not exist.
const NOT_THERE: &str = "the payment processor has no record of the subscription";

/// The object at Stripe that an event is about.
#[derive(Debug, Clone)]
pub(crate) struct StripeEvent {
    pub(crate) id: String,
    pub(crate) subscription: String,
    pub(crate) customer: Option<String>,
    /// The account that the checkout was made for, if the event names it.
    pub(crate) tenant: Option<String>,
}

/// The refusal of a request that needs Stripe while Stripe fails. The reason is for the log.
pub(crate) fn unavailable(app: &App, error: &StripeError) -> ApiError {
    if matches!(error, StripeError::Refused { .. }) {
        app.metrics.stripe_call_refused();
    }
    if error.is_about_key() {
        tracing::error!(%error, "Stripe rejected the key, or the key lacks a permission");
    } else {
        tracing::warn!(%error, "Stripe did not complete the request");
    }
    match error {
        StripeError::TooMany(_) => DbError::Overloaded.into(),
        StripeError::Refused { .. } | StripeError::Malformed(_) if !error.is_about_key() => try_later(NOT_DONE),
        _ => try_later(NO_ANSWER),
    }
}

fn try_later(why: &'static str) -> ApiError {
    ApiError::TryLater(ErrorCode::UpstreamUnavailable, why, RETRY_SECS)
}

/// Whether further requests to Stripe would fail now.
fn is_silent(error: &ApiError) -> bool {
    matches!(error, ApiError::TryLater(_, NO_ANSWER, _) | ApiError::Database(DbError::Overloaded))
}

/// The refusal of a state that was fetched for an account which has changed since.
fn overtaken() -> ApiError {
    ApiError::TryLater(ErrorCode::UpstreamUnavailable, OVERTAKEN, 1)
}

/// Whether a write was refused because what it stores was overtaken.
pub(crate) fn is_overtaken(error: &ApiError) -> bool {
    matches!(error, ApiError::TryLater(_, OVERTAKEN, _))
}

/// Processes an event: fetches the subscription that it is about and stores its state with the event. An event that
/// belongs to no account only raises an alarm. One about a subscription that Stripe does not know is also refused, so
/// that Stripe repeats it: the key may be wrong.
pub(crate) async fn take(app: &App, stripe: &Stripe, event: &StripeEvent) -> Result<(), ApiError> {
    if billing::has_event(&mut app.db.read().await?.conn(), &event.id).await? {
        return Ok(());
    }
    let taken = match account_of(app, stripe, event).await? {
        Ok(tenant) => refresh(app, stripe, &tenant, &event.subscription, Some(&event.id)).await?,
        Err(alarm) => Err(alarm),
    };
    let Err(alarm) = taken else { return Ok(()) };
    let (customer, tenant) = (event.customer.as_deref(), event.tenant.as_deref());
    raise(app, alarm, &Concern { event: Some(&event.id), subscription: &event.subscription, customer, tenant });
    if alarm == StripeAlarm::UnknownSubscription { Err(try_later(NOT_THERE)) } else { Ok(()) }
}

/// What an alarm is about, as far as known.
struct Concern<'a> {
    event: Option<&'a str>,
    subscription: &'a str,
    customer: Option<&'a str>,
    tenant: Option<&'a str>,
}

fn raise(app: &App, alarm: StripeAlarm, concern: &Concern<'_>) {
    app.metrics.stripe_alarm(alarm);
    let Concern { event, subscription, customer, tenant } = concern;
    tracing::error!(
        alarm = alarm.as_str(),
        event,
        subscription,
        customer,
        tenant,
        "Stripe subscription needs operator action"
    );
}

/// The account of an event: the one stored with the customer, else the one that the checkout was made for.
async fn account_of(
    app: &App,
    stripe: &Stripe,
    event: &StripeEvent,
) -> Result<Result<TenantId, StripeAlarm>, ApiError> {
    if let Some(customer) = &event.customer
        && let Some(account) = billing::by_customer(&mut app.db.read().await?.conn(), customer).await?
    {
        let is_other = event.tenant.as_ref().is_some_and(|tenant| tenant != account.tenant.as_str());
        return Ok(if is_other { Err(StripeAlarm::CustomerMismatch) } else { Ok(account.tenant) });
    }
    let named = match &event.tenant {
        Some(tenant) => Some(tenant.clone()),
        None => match stripe.subscription(&event.subscription, WaitLimit::Long).await {
            Ok(subscription) => subscription.tenant,
            Err(error) if error.is_not_found() => return Ok(Err(StripeAlarm::UnknownSubscription)),
            Err(error) => return Err(unavailable(app, &error)),
        },
    };
    let named = named.and_then(|tenant| tenant.parse::<TenantId>().ok());
    let Some(tenant) = named else { return Ok(Err(StripeAlarm::UnknownCustomer)) };
    let account = billing::find(&mut app.db.read().await?.conn(), &tenant).await?;
    Ok(account.map(|account| account.tenant).ok_or(StripeAlarm::UnknownCustomer))
}

/// Fetches a subscription and stores what it means for an account, with the event, if there is one. Inner `Err`: an
/// alarm, and nothing was stored.
pub(crate) async fn refresh(
    app: &App,
    stripe: &Stripe,
    tenant: &TenantId,
    subscription: &str,
    event: Option<&str>,
) -> Result<Result<(), StripeAlarm>, ApiError> {
    let mut checked_stored = false;
    for _ in 0..MAX_FETCHES {
        let account = read(app, tenant).await?;
        let fetched = match stripe.subscription(subscription, WaitLimit::Long).await {
            Err(error) if error.is_not_found() => return Ok(Err(StripeAlarm::UnknownSubscription)),
            fetched => fetched.map_err(|error| unavailable(app, &error))?,
        };
        let (next, alarm) = match applied(&account, &fetched, app.clock.now()) {
            // The event that ended the stored one may still be on its way.
            Err(StripeAlarm::SecondSubscription) if !checked_stored => {
                checked_stored = true;
                refresh_stored(app, stripe, account).await?;
                continue;
            }
            // Remembered, because Stripe does not report it when the stored one ends.
            Err(alarm @ StripeAlarm::SecondSubscription) => {
                (BillingAccount { rival: Some(fetched.id.clone()), ..account }, Some(alarm))
            }
            Err(alarm) => return Ok(Err(alarm)),
            Ok(next) => {
                let unknown_price = fetched.has_unknown_price.then_some(StripeAlarm::UnknownPrice);
                (with_rival(app, stripe, next).await?, unknown_price)
            }
        };
        match store(app, next, event).await {
            Err(error) if is_overtaken(&error) => {}
            Err(error) => return Err(error),
            Ok(()) => {
                if let Some(alarm) = alarm {
                    let (customer, tenant) = (Some(fetched.customer.as_str()), Some(tenant.as_str()));
                    raise(app, alarm, &Concern { event, subscription, customer, tenant });
                }
                return Ok(Ok(()));
            }
        }
    }
    Err(overtaken())
}

/// An account whose first subscription grants nothing, after its second one was fetched: that replaces the first if it
/// grants a plan, and is forgotten if it is over.
async fn with_rival(app: &App, stripe: &Stripe, account: BillingAccount) -> Result<BillingAccount, ApiError> {
    let now = app.clock.now();
    let Some(rival) = account.rival.as_deref().filter(|_| !account.is_granted(now)) else { return Ok(account) };
    let next = match stripe.subscription(rival, WaitLimit::Long).await {
        Err(error) if error.is_not_found() => Err(StripeAlarm::UnknownSubscription),
        fetched => applied(&account, &fetched.map_err(|error| unavailable(app, &error))?, now),
    };
    Ok(next.unwrap_or_else(|alarm| {
        let (customer, tenant) = (account.customer.as_deref(), Some(account.tenant.as_str()));
        raise(app, alarm, &Concern { event: None, subscription: rival, customer, tenant });
        BillingAccount { rival: None, ..account.clone() }
    }))
}

/// Fetches the subscription that an account has, and stores its state.
async fn refresh_stored(app: &App, stripe: &Stripe, account: BillingAccount) -> Result<(), ApiError> {
    let Some(subscription) = &account.subscription else { return Ok(()) };
    let fetched = match stripe.subscription(subscription, WaitLimit::Long).await {
        Err(error) if error.is_not_found() => return Ok(()),
        fetched => fetched.map_err(|error| unavailable(app, &error))?,
    };
    let Ok(next) = applied(&account, &fetched, app.clock.now()) else { return Ok(()) };
    store_if_unchanged(app, next).await
}

/// Stores what an account pays, unless it changed since it was read: then it was read again.
async fn store_if_unchanged(app: &App, next: BillingAccount) -> Result<(), ApiError> {
    match store(app, next, None).await {
        Err(error) if !is_overtaken(&error) => Err(error),
        _ => Ok(()),
    }
}

/// An account that must exist.
pub(crate) async fn read(app: &App, tenant: &TenantId) -> Result<BillingAccount, ApiError> {
    let found = billing::find(&mut app.db.read().await?.conn(), tenant).await?;
    found.ok_or_else(|| tenants::missing(tenant).into())
}

async fn store(app: &App, account: BillingAccount, event: Option<&str>) -> Result<(), ApiError> {
    let now = app.clock.now();
    let stored = app.db.write(Share::Service, (account, event.map(str::to_owned)), move |tx, (account, event)| {
        async move {
            tenants::lock(tx, &account.tenant).await?;
            if let Some(event) = event
                && !billing::note_event(tx, event, now).await?
            {
                return Ok(());
            }
            store_in(tx, account).await
        }
        .boxed()
    });
    stored.await
}

/// Stores what an account pays, unless it changed since it was read.
pub(crate) async fn store_in(tx: &mut Conn<'_>, account: &BillingAccount) -> Result<(), ApiError> {
    if billing::store(tx, account).await? { Ok(()) } else { Err(overtaken()) }
}

/// Makes the daily rounds. Runs only with Stripe.
pub(super) async fn run(app: Weak<App>) {
    let holder = hex::encode(Random::system().bytes::<12>());
    let mut due = Timestamp::from_millis(0);
    loop {
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        let now = app.clock.now();
        if now >= due {
            due = match round(&app, &holder, now).await {
                Ok(next) => next,
                Err(error) => {
                    tracing::warn!(%error, "subscriptions could not be checked; will retry");
                    now.plus_millis(RETRY_MILLIS)
                }
            };
        }
        let clock = app.clock.clone();
        drop(app);
        clock.pause(SCAN_INTERVAL, now).await;
    }
}

/// Reads every subscription whose paid period is over, and second ones, unless another node does or has done so today.
/// Returns when the next round is due. A subscription that cannot be read stays as it is; if Stripe does not answer, so
/// do the rest.
async fn round(app: &Shared, holder: &str, now: Timestamp) -> Result<Timestamp, ApiError> {
    let stripe = app.stripe()?;
    let (mut after, mut has_failed) = (None, false);
    loop {
        // Renewed for each page: a round may take longer than the lease.
        let at = app.clock.now();
        let retry = at.plus_millis(RETRY_MILLIS);
        if !take_lease(app, holder, at, retry).await? {
            return Ok(retry);
        }
        let found = billing::due(&mut app.db.read().await?.conn(), now, after.as_ref()).await?;
        let Some(last) = found.last() else { break };
        after = Some(last.tenant.clone());
        for account in &found {
            let Err(error) = check(app, stripe, account, now).await else { continue };
            has_failed = true;
            tracing::warn!(tenant = %account.tenant, %error, "subscription could not be read; left unchanged");
            if is_silent(&error) {
                return Ok(retry);
            }
        }
    }
    if has_failed {
        return Ok(app.clock.now().plus_millis(RETRY_MILLIS));
    }
    let next = now.plus_days(ROUND_DAYS);
    take_lease(app, holder, app.clock.now(), next).await?;
    Ok(next)
}

/// Reads the subscription of an account whose paid period is over, or the second one if the first grants nothing.
async fn check(app: &App, stripe: &Stripe, account: &BillingAccount, now: Timestamp) -> Result<(), ApiError> {
    let ended = account.subscription.as_deref().filter(|_| account.current_period_end.is_some_and(|end| end <= now));
    let Some(subscription) = ended else {
        let next = with_rival(app, stripe, account.clone()).await?;
        return if next == *account { Ok(()) } else { store_if_unchanged(app, next).await };
    };
    if let Err(alarm) = refresh(app, stripe, &account.tenant, subscription, None).await? {
        let (customer, tenant) = (account.customer.as_deref(), Some(account.tenant.as_str()));
        raise(app, alarm, &Concern { event: None, subscription, customer, tenant });
    }
    Ok(())
}

async fn take_lease(app: &App, holder: &str, now: Timestamp, until: Timestamp) -> Result<bool, ApiError> {
    let taken = app.db.write(Share::Service, holder.to_owned(), move |tx, holder| {
        leases::take(tx, leases::SUBSCRIPTIONS, holder, now, until).boxed()
    });
    Ok(taken.await?)
}
