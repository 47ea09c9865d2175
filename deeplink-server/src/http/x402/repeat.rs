//! Does what a settled payment is for, and answers repeats of the same payment.
//!
//! A settled authorization is public on the chain, so it does not prove who sends it. A repeat is the payer's if it is
//! the same write and its answer shows no secret, or if it has the `Idempotency-Key` of the first request.

use axum::response::Response;
use deeplink_core::error::ErrorCode;
use deeplink_core::time::Timestamp;
use deeplink_core::x402::{MAX_TIMEOUT_SECONDS, same_amount};
use futures_util::FutureExt;

use super::offer::{said, with_receipt};
use super::settle::in_progress;
use super::{Answered, Checkout, TRIES, stop_of};
use crate::caller::{ChargeRun, SettledPayment};
use crate::db::DbError;
use crate::db::payments::{self, State, StoredPayment, Use};
use crate::db::wallets::{self, Wallet};
use crate::error::{ApiError, Stop};
use crate::http::once::replied;
use crate::shares::Share;

/// How long a read can be repeated.
const READ_MILLIS: i64 = MAX_TIMEOUT_SECONDS.cast_signed() * 1_000;

impl Checkout {
    /// Does what a settled payment is for. If that is refused now, although the trial was not, a repeat can still use
    /// the payment.
    pub(super) async fn effect(&self, payer: &str, tx_hash: &str, tried: Option<Response>) -> Response {
        let done =
            if self.paid.is_read() { self.read(payer, tx_hash, tried).await } else { self.write(payer, tx_hash).await };
        let response = done.unwrap_or_else(|Answered(response)| *response);
        with_receipt(response, self.version, &self.receipt(payer, Ok(tx_hash)))
    }

    async fn write(&self, payer: &str, tx_hash: &str) -> Result<Response, Answered> {
        for _ in 0..TRIES {
            let tenant = self.tenant_of(payer).await?.unwrap_or_else(|| self.new_tenant());
            let (id, request, tx_hash) = (self.id.clone(), self.request.clone(), tx_hash.to_owned());
            let run = ChargeRun::Paid(SettledPayment { id, request, tx_hash });
            let response = self.attempt(payer, &tenant, run).await;
            match stop_of(&response) {
                Some(Stop::OtherTenant) => {}
                Some(Stop::PaymentUsed) => return self.used_meanwhile().await?.ok_or_else(|| in_progress().into()),
                Some(_) => return Err(ApiError::Internal("a paid request stopped early".into()).into()),
                // Another payment under the same key already paid for this, so it was not done again.
                None if response.headers().contains_key("idempotency-replayed") => return Err(response.into()),
                None if response.status().is_success() => return Ok(response),
                // A copy may have been done, which is why this one is refused.
                None => return Ok(self.used_meanwhile().await?.unwrap_or(response)),
            }
        }
        Err(DbError::Overloaded.into())
    }

    /// The answer to a payment that another request has used.
    async fn used_meanwhile(&self) -> Result<Option<Response>, Answered> {
        let stored = self.stored().await?.filter(|stored| stored.state == State::Done);
        let Some(stored) = stored else { return Ok(None) };
        // Under the same key it may have been another request.
        if stored.request == self.request { self.stored_reply(&stored).map(Some) } else { Err(conflict()) }
    }

    async fn read(&self, payer: &str, tx_hash: &str, tried: Option<Response>) -> Result<Response, Answered> {
        let response = match tried {
            Some(response) => response,
            None => self.look(payer).await?,
        };
        let (now, tenant) = (self.app.clock.now(), self.new_tenant());
        let namespace = self.offer.network.namespace().to_owned();
        let row = (self.id.clone(), self.request.clone(), tx_hash.to_owned(), namespace, payer.to_owned(), tenant);
        let stored =
            self.app.db.write(Share::Payments, row, move |tx, (id, request, tx_hash, namespace, address, tenant)| {
                async move {
                    if !payments::hold(tx, id).await? {
                        return Ok(false);
                    }
                    wallets::ensure(tx, Wallet { namespace, address }, tenant, now).await?;
                    payments::done(tx, Use { id, request, is_read: true, tx_hash, reply: None }).await
                }
                .boxed()
            });
        if stored.await? { Ok(response) } else { Err(in_progress().into()) }
    }

    /// The answer to a read.
    async fn look(&self, payer: &str) -> Result<Response, Answered> {
        let tenant = self.tenant_of(payer).await?.unwrap_or_else(|| self.new_tenant());
        let response = self.attempt(payer, &tenant, ChargeRun::Trial).await;
        if response.status().is_success() { Ok(response) } else { Err(response.into()) }
    }

    /// Answers a request whose payment was sent before.
    pub(super) async fn repeat(&self, stored: StoredPayment) -> Result<Response, Answered> {
        if let Some(why) = self.why_foreign(&stored) {
            return Err(said(ErrorCode::PaymentReplayed, why).into());
        }
        let is_same = stored.request == self.request;
        let now = self.app.clock.now();
        match stored.state {
            State::Settling | State::Unknown if stored.lease_until > now => Err(in_progress().into()),
            State::Settling | State::Unknown => self.charge_again(&stored).await,
            State::Refused => Err(self.refused(&stored.payer, stored.reason.as_deref().unwrap_or("refused")).into()),
            State::Credit => Ok(self.effect(&stored.payer, stored.tx_hash.as_deref().unwrap_or_default(), None).await),
            State::Done if !is_same => Err(conflict()),
            State::Done => {
                let response = if stored.is_read {
                    if read_until(&stored) <= now {
                        let message = "this payment has already been used and can no longer be used to repeat the read";
                        return Err(said(ErrorCode::PaymentReplayed, message).into());
                    }
                    self.look(&stored.payer).await?
                } else {
                    self.stored_reply(&stored)?
                };
                let transaction = stored.tx_hash.as_deref().unwrap_or_default();
                Ok(with_receipt(response, self.version, &self.receipt(&stored.payer, Ok(transaction))))
            }
        }
    }

    /// Why a repeat does not count as the payer's, if it does not.
    fn why_foreign(&self, stored: &StoredPayment) -> Option<&'static str> {
        let is_same = stored.request == self.request;
        if self.key.is_some() && self.key_hash() == stored.key_hash {
            // A repeat of the first request costs what it cost then.
            let is_enough = is_same || same_amount(&stored.amount, self.offer.amount());
            return (!is_enough).then_some("the payment amount does not match the price of this request");
        }
        if !is_same {
            return Some("this payment was sent with another request; sign a new one");
        }
        if self.is_open() {
            return None;
        }
        let is_under_way = stored.lease_until > self.app.clock.now();
        Some(match (&stored.key_hash, stored.state) {
            (Some(_), _) => "this payment was sent with another Idempotency-Key; repeat the request with that one",
            (None, State::Settling | State::Unknown | State::Credit) if is_under_way => {
                "this payment was sent before, and without an Idempotency-Key the request cannot be repeated"
            }
            (None, State::Settling | State::Unknown) => {
                "the request was not carried out, and it is not known whether the payment was charged; it is not \
                 retried, because it was sent without an Idempotency-Key"
            }
            (None, State::Refused) => "this payment was rejected and not charged; sign a new one",
            (None, State::Credit) => {
                "this payment was charged, but the request was not carried out and cannot be repeated without an \
                 Idempotency-Key; contact the operator"
            }
            (None, State::Done) => {
                "this payment was used, and without an Idempotency-Key the request cannot be repeated"
            }
        })
    }

    /// The reply that was given before.
    fn stored_reply(&self, stored: &StoredPayment) -> Result<Response, Answered> {
        let internal = |why: String| ApiError::Internal(format!("stored response to payment {}: {why}", stored.id));
        let mut reply = stored.reply.clone().ok_or_else(|| internal("it is missing".into()))?;
        let body = self.app.vault.open("payments", &stored.id, &reply.body);
        let body = body.map_err(|error| internal(error.to_string()))?;
        reply.body = String::from_utf8(body).map_err(|error| internal(error.to_string()))?;
        Ok(replied(reply, true))
    }
}

/// Until when a payment is good for the same read: while it is valid, but not longer than settling it should take.
fn read_until(stored: &StoredPayment) -> Timestamp {
    let until = stored.created_at.plus_millis(READ_MILLIS);
    stored.valid_before.map_or(until, |valid_before| until.min(valid_before))
}

/// The payment was used for something else.
fn conflict() -> Answered {
    said(ErrorCode::IdempotencyConflict, "this Idempotency-Key was already used for a different request").into()
}
