//! Pages at Stripe: to pay for a plan, and to manage cards and invoices.
//!
//! The URL of such a page is a secret: anyone who has it can use the page. It is given only to the caller.

use axum::extract::State;
use deeplink_core::billing::{CheckoutSession, PortalSession, paid_tier};
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::plan::Tier;
use deeplink_core::secret::sha256_hex;
use http::HeaderMap;
use serde::Serialize;

use crate::caller::Caller;
use crate::db::billing::BillingAccount;
use crate::db::{Conn, users};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{FullKey, IdempotencyKey, NeedsProcessor};
use crate::http::extract::Query;
use crate::http::once::{Answer, Once, Outcome, Work, done};
use crate::outbound::stripe::{Checkout, Stripe, StripeError};
use crate::state::{App, Shared};
use crate::work::subscriptions::{self, unavailable};

/// The page of this service that Stripe redirects back to.
const RETURN_PATH: &str = "/account/plan";
const HOUR_SECS: i64 = 3_600;
/// How long a checkout page is valid after the clock hour in which it was created. Stripe requires at least 30 minutes;
/// the rest allows for clock skew and retries.
const PAYABLE_SECS: i64 = 35 * 60;

/// Creates a checkout page for a plan.
///
/// The URL is valid for one payment, until 35 minutes after the end of the clock hour; within the same clock
/// hour, a repeated request returns the same URL. If the account already has a subscription, the URL is that
/// of the billing portal instead, so that no one pays twice.
#[utoipa::path(
    post, path = "/v1/billing/stripe/checkout", operation_id = "create_checkout", tag = "billing", security(("secret_key" = [])),
    params(("tier" = String, Query, description = "The plan: `pro`, `business` or `scale`", example = "pro"), IdempotencyKey),
    responses(
        (status = 200, description = "The page's URL", body = CheckoutSession, headers(("Idempotency-Replayed" = String))),
        FullKey, NeedsProcessor,
        (status = 400, description = "This plan is not available for purchase (`invalid_tier`), or `Idempotency-Key` is malformed", body = ErrorBody),
        (status = 409, description = "The account is scheduled for deletion (`deletion_scheduled`), or the `Idempotency-Key` was already used for a different request", body = ErrorBody),
    )
)]
pub(crate) async fn checkout(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
    headers: HeaderMap,
) -> Result<Answer<CheckoutSession>, ApiError> {
    let tier = paid_tier(query.one("tier")?.unwrap_or_default())?;
    let once = Once::read(&headers, &caller, "/v1/billing/stripe/checkout", tier.as_str().as_bytes())?;
    checkout_for(&app, &caller, &tier, once).await
}

/// Creates a checkout page for the caller.
pub(crate) async fn checkout_for(
    app: &Shared,
    caller: &Caller,
    tier: &Tier,
    once: Once,
) -> Result<Answer<CheckoutSession>, ApiError> {
    let stripe = app.stripe()?;
    let once = once.sealed(&app.vault);
    if let Some(answer) = once.earlier(app).await? {
        return Ok(answer);
    }
    if super::account::find(app, caller).await?.deletes_at.is_some() {
        let message = "the account is scheduled for deletion; cancel the deletion before you subscribe";
        return Err(ApiError::Plain(ErrorCode::DeletionScheduled, message));
    }
    let _permit = app.payer(&caller.tenant).await?;
    let account = subscriptions::read(app, &caller.tenant).await?;
    // Until a subscription has ended, whatever its state, a checkout could start a second one beside it.
    let url = match (account.subscription.as_ref().or(account.rival.as_ref()), &account.customer) {
        (Some(_), Some(customer)) => {
            portal_at(app, stripe, customer).await.map_err(|error| unavailable(app, &error))?
        }
        _ => checkout_at(app, stripe, &account, tier).await?,
    };
    say(app, once, CheckoutSession::new(url)).await
}

async fn checkout_at(app: &App, stripe: &Stripe, account: &BillingAccount, tier: &Tier) -> Result<String, ApiError> {
    let tenant = account.tenant.as_str();
    let email = users::spokesperson(&mut app.db.read().await?.conn(), &account.tenant, None).await?;
    let email = email.filter(|address| address != users::PLACEHOLDER);
    let no_price = || ApiError::Internal(format!("the {tier} plan has no price"));
    let return_url = return_url(app);
    // A double click, or a retry after a lost response, makes one page: the parameters stay the same within the hour.
    let hour = app.clock.now().as_millis().div_euclid(HOUR_SECS * 1_000);
    let checkout = Checkout {
        tenant,
        price: stripe.prices().of(tier).ok_or_else(no_price)?,
        customer: account.customer.as_deref(),
        email: email.as_deref(),
        success_url: &format!("{return_url}?done=plan-paid"),
        cancel_url: &return_url,
        expires_at: (hour + 1) * HOUR_SECS + PAYABLE_SECS,
    };
    let key = |checkout: &Checkout<'_>| sha256_hex(&format!("{tenant}\n{tier}\n{hour}\n{}", checkout.form()));
    let page = match stripe.checkout(&checkout, &key(&checkout)).await {
        Err(error) if error.is_unknown_customer() => {
            tracing::warn!(%error, tenant, "Stripe does not have the account's customer; a new one will be created");
            let checkout = Checkout { customer: None, ..checkout };
            stripe.checkout(&checkout, &key(&checkout)).await
        }
        page => page,
    };
    page.map_err(|error| unavailable(app, &error))
}

/// Creates a billing portal session, in which the account's cards and invoices can be managed.
#[utoipa::path(
    post, path = "/v1/billing/stripe/portal", operation_id = "create_portal", tag = "billing", security(("secret_key" = [])),
    params(IdempotencyKey),
    responses(
        (status = 200, description = "The page's URL", body = PortalSession, headers(("Idempotency-Replayed" = String))),
        FullKey, NeedsProcessor,
        (status = 400, description = "The account has never paid, or Stripe no longer has its customer (`no_customer`), or `Idempotency-Key` is malformed", body = ErrorBody),
    )
)]
pub(crate) async fn portal(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    headers: HeaderMap,
) -> Result<Answer<PortalSession>, ApiError> {
    let once = Once::read(&headers, &caller, "/v1/billing/stripe/portal", b"")?;
    portal_for(&app, &caller, once).await
}

/// Creates a page to manage the caller's cards and invoices.
pub(crate) async fn portal_for(app: &Shared, caller: &Caller, once: Once) -> Result<Answer<PortalSession>, ApiError> {
    let stripe = app.stripe()?;
    let once = once.sealed(&app.vault);
    if let Some(answer) = once.earlier(app).await? {
        return Ok(answer);
    }
    let account = subscriptions::read(app, &caller.tenant).await?;
    let customer = account.customer.ok_or(no_customer("this account has never paid; check out first"))?;
    let _permit = app.payer(&caller.tenant).await?;
    let url = portal_at(app, stripe, &customer).await.map_err(|error| {
        if !error.is_unknown_customer() {
            return unavailable(app, &error);
        }
        tracing::warn!(%error, tenant = %caller.tenant, "Stripe does not have the account's customer");
        no_customer("the payment processor has no record of this account")
    })?;
    say(app, once, PortalSession::new(url)).await
}

fn no_customer(why: &'static str) -> ApiError {
    ApiError::Plain(ErrorCode::NoCustomer, why)
}

async fn portal_at(app: &App, stripe: &Stripe, customer: &str) -> Result<String, StripeError> {
    let key = app.random(|random| hex::encode(random.bytes::<16>()));
    stripe.portal(customer, &return_url(app), &key).await
}

/// From the configuration: a request's own headers can be forged.
fn return_url(app: &App) -> String {
    format!("{}{RETURN_PATH}", app.public_url.as_str().trim_end_matches('/'))
}

/// Returns what was made, and stores it for a repeat of the request.
async fn say<T>(app: &Shared, once: Once, made: T) -> Result<Answer<T>, ApiError>
where
    T: Clone + Serialize + Send + Sync + 'static,
{
    if once.is_keyed() { app.once(once, ReplyOnly(made)).await } else { Answer::done(made) }
}

/// A reply for which nothing else is stored.
struct ReplyOnly<T>(T);

impl<T: Clone + Serialize + Send + Sync + 'static> Work for ReplyOnly<T> {
    type Made = T;

    async fn run(&self, _: &mut Conn<'_>) -> Result<Outcome<T>, ApiError> {
        done(self.0.clone())
    }
}
