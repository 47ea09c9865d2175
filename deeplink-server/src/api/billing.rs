//! An account's plan: what it includes, its usage, and the cancellation of its subscription.

use axum::Json;
use axum::extract::State;
use deeplink_core::billing::{BillingMethod, BillingStatus, CancelScheduled, SubscriptionStatus, Usage};
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::HeaderMap;

use crate::caller::Caller;
use crate::db::billing::{self, BillingAccount};
use crate::db::tenants;
use crate::db::wallets;
use crate::db::{Conn, DbError};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{FullKey, IdempotencyKey, NeedsProcessor};
use crate::http::once::{Answer, Once, Outcome, Work, done};
use crate::outbound::stripe::{Stripe, StripeError, Subscription, WaitLimit};
use crate::state::{App, Shared};
use crate::work::subscriptions::{self, unavailable};

/// Tries to store a cancellation while the account keeps changing.
const MAX_TRIES: usize = 5;

/// Returns the account's plan and usage.
///
/// The data comes from this service, so it is available even while the payment processor is down.
#[utoipa::path(
    get, path = "/v1/billing/status", operation_id = "billing_status", tag = "billing", security(("secret_key" = [])),
    responses(
        (status = 200, description = "Plan, limits and usage", body = BillingStatus),
        FullKey,
        (status = 503, description = "Billing is disabled (`billing_not_configured`), or retry after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn status(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
) -> Result<Json<BillingStatus>, ApiError> {
    status_for(&app, &caller).await.map(Json)
}

/// The caller's plan and usage.
pub(crate) async fn status_for(app: &App, caller: &Caller) -> Result<BillingStatus, ApiError> {
    if !app.config.billing {
        return Err(ApiError::Plain(ErrorCode::BillingNotConfigured, "billing is disabled on this service"));
    }
    let (quotas, now) = (app.config.enforce_quotas, app.clock.now());
    let status =
        app.report(caller, move |mut db, tenant| async move { status_of(&mut db, &tenant, quotas, now).await }.boxed());
    let mut status = status.await?.ok_or_else(|| tenants::missing(&caller.tenant))?;
    status.limits = app.config.limits_of(&status.effective_tier);
    Ok(status)
}

/// An account's plan and usage; `None` if there is no such account.
pub(crate) async fn status_of(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    quotas_enforced: bool,
    now: Timestamp,
) -> Result<Option<BillingStatus>, DbError> {
    let Some(account) = billing::find(db, tenant).await? else { return Ok(None) };
    let used = tenants::usage(db, tenant, now).await?;
    let usage = Usage::new(used.links, used.events_this_month, used.domains, used.people, used.webhooks);
    let tier = account.basis.effective_tier(now);
    let limits = tier.limits();
    let method = if wallets::has(db, tenant).await? {
        BillingMethod::X402
    } else if account.subscription.is_some() {
        BillingMethod::Stripe
    } else {
        BillingMethod::Free
    };
    Ok(Some(BillingStatus::new(
        account.basis.subscribed,
        tier,
        account.basis.comp.is_some(),
        method,
        account.current_period_end.map(Timestamp::as_millis),
        account.basis.status.unwrap_or(SubscriptionStatus::Active),
        account.cancel_scheduled,
        quotas_enforced,
        limits,
        usage,
    )))
}

/// Cancels the subscription at the end of its period.
///
/// The plan remains in effect until then. Repeating the request has no effect.
#[utoipa::path(
    post, path = "/v1/billing/cancel", operation_id = "cancel_subscription", tag = "billing", security(("secret_key" = [])),
    params(IdempotencyKey),
    responses(
        (status = 200, description = "The subscription ends at the end of its current period", body = CancelScheduled, headers(("Idempotency-Replayed" = String))),
        FullKey, NeedsProcessor,
        (status = 400, description = "There is no subscription to cancel (`no_subscription`), or `Idempotency-Key` is malformed", body = ErrorBody),
    )
)]
pub(crate) async fn cancel(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    headers: HeaderMap,
) -> Result<Answer<CancelScheduled>, ApiError> {
    let once = Once::read(&headers, &caller, "/v1/billing/cancel", b"")?;
    cancel_for(&app, &caller, once).await
}

/// Cancels the caller's subscription at the end of its period.
pub(crate) async fn cancel_for(app: &Shared, caller: &Caller, once: Once) -> Result<Answer<CancelScheduled>, ApiError> {
    let stripe = app.stripe()?;
    if let Some(answer) = once.earlier(app).await? {
        return Ok(answer);
    }
    subscriptions::read(app, &caller.tenant).await?.subscription.ok_or_else(no_subscription)?;
    let _permit = app.payer(&caller.tenant).await?;
    for _ in 0..MAX_TRIES {
        let account = subscriptions::read(app, &caller.tenant).await?;
        let subscription = account.subscription.as_deref().ok_or_else(no_subscription)?;
        let canceled = cancel_at(app, stripe, subscription).await?;
        // What Stripe reports about another customer's subscription is not stored; an event raises the alarm.
        let next = subscriptions::applied(&account, &canceled, app.clock.now()).map_err(|_| no_subscription())?;
        match app.once(once.clone(), Cancel { account: next }).await {
            Err(error) if subscriptions::is_overtaken(&error) => {}
            settled => return settled,
        }
    }
    let changes = "the subscription kept changing while it was being canceled";
    Err(unavailable(app, &StripeError::Unavailable(changes.into())))
}

/// Cancels at Stripe, unless it already ends with its period, whoever canceled it, or can no longer be canceled.
async fn cancel_at(app: &App, stripe: &Stripe, subscription: &str) -> Result<Subscription, ApiError> {
    let read = async || {
        let found = stripe.subscription(subscription, WaitLimit::Short).await;
        found.map_err(|error| unavailable(app, &error))
    };
    let found = read().await?;
    if found.cancel_scheduled || !found.is_running {
        return Ok(found);
    }
    // Not derived from the request: a cancellation that was undone can be requested again.
    let key = app.random(|random| hex::encode(random.bytes::<16>()));
    match stripe.cancel(subscription, &key).await {
        Ok(canceled) => Ok(canceled),
        Err(refused @ StripeError::Refused { .. }) => {
            // It may have ended in the meantime.
            let found = read().await?;
            if found.is_running { Err(unavailable(app, &refused)) } else { Ok(found) }
        }
        Err(error) => Err(unavailable(app, &error)),
    }
}

fn no_subscription() -> ApiError {
    ApiError::Plain(ErrorCode::NoSubscription, "there is no subscription to cancel")
}

/// Stores a canceled subscription.
struct Cancel {
    account: BillingAccount,
}

impl Work for Cancel {
    type Made = CancelScheduled;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<CancelScheduled>, ApiError> {
        subscriptions::store_in(tx, &self.account).await?;
        if self.account.subscription.is_none() {
            // It was over already: that is stored, and the request is refused.
            return Ok(Outcome::Refused(no_subscription()));
        }
        done(CancelScheduled::new(self.account.current_period_end.map(Timestamp::as_millis)))
    }
}
