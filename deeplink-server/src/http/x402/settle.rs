//! Settles a payment that has its row, and stores the outcome.

use std::time::Duration;

use axum::response::Response;
use deeplink_core::error::ErrorCode;
use deeplink_core::secret::sha256_hex;
use deeplink_core::time::Timestamp;
use deeplink_core::x402::Receipt;
use futures_util::FutureExt;
use tokio::time::{Instant, sleep};

use super::offer::{said, unavailable, with_receipt};
use super::{Answered, Checkout, Judged};
use crate::config::X402;
use crate::db::DbError;
use crate::db::payments::{self, Inserted, LEASE_MILLIS, MISMATCH, NewPayment, StoredPayment, UNREADABLE, USED_BEFORE};
use crate::error::ApiError;
use crate::http::client_ip::check_limit;
use crate::outbound::facilitator::{CallPermit, Facilitator, Refused, Settled};
use crate::shares::Share;
use crate::state::{App, Shared};

/// The wait before another attempt to record a settlement.
const NOTE_AGAIN: Duration = Duration::from_millis(500);
/// The waits in milliseconds before the background task settles a payment with an unknown outcome again.
const RETRIES: [i64; 3] = [10_000, 60_000, 300_000];

const NEW_WALLETS: &str = "too many new wallets from this IP address";

/// The outcome of a payment.
pub(super) enum Settlement {
    /// It is on the chain, in this transaction.
    Settled(String),
    /// It is not, for this reason.
    Refused(String),
    /// Not known yet.
    Unclear,
    /// The facilitator was not asked.
    Unsent,
}

/// What is known about a payment that is being settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// It was never sent to be settled.
    New,
    /// It was sent, and the outcome is unknown.
    InDoubt,
    /// The facilitator's answer named another payer or chain.
    Mismatch,
    /// The facilitator's first answer was that it had been used before, so not for this request.
    Foreign,
}

impl Before {
    fn of(stored: &StoredPayment) -> Self {
        match stored.reason.as_deref() {
            Some(MISMATCH) => Self::Mismatch,
            Some(USED_BEFORE) => Self::Foreign,
            _ => Self::InDoubt,
        }
    }

    /// The reason that the row keeps, whatever later answers say.
    const fn reason(self) -> Option<&'static str> {
        match self {
            Self::New | Self::InDoubt => None,
            Self::Mismatch => Some(MISMATCH),
            Self::Foreign => Some(USED_BEFORE),
        }
    }
}

/// When a lease taken now ends, by the monotonic clock: it limits how long a write is retried.
fn lease_end() -> Instant {
    Instant::now() + Duration::from_millis(LEASE_MILLIS.unsigned_abs())
}

/// A payment that is being settled.
struct Settling<'a> {
    id: &'a str,
    /// The request to the facilitator.
    message: &'a str,
    payer: &'a str,
    /// How often the background task has tried.
    attempts: i64,
    before: Before,
    is_repeatable: bool,
    /// When the lease ends.
    until: Instant,
}

impl Checkout {
    /// Stores the payment and settles it, and then does what it is for.
    pub(super) async fn charge(&self, judged: Judged) -> Result<Response, Answered> {
        let Judged { payer, tried, is_new_wallet, .. } = judged;
        let (facilitator, message) = (self.facilitator()?, self.message.as_deref().ok_or_else(unavailable)?);
        let permit = facilitator.permit().map_err(|unclear| {
            tracing::warn!(%unclear, "payment could not be settled: too many pending calls to the facilitator");
            unavailable()
        })?;
        let (now, until) = (self.app.clock.now(), lease_end());
        let (new, used) = (self.new_payment(&payer, message), judged.used);
        match self
            .app
            .db
            .write(Share::Payments, new, move |tx, new| payments::insert(tx, new, used, now).boxed())
            .await?
        {
            Inserted::New => {}
            // Another request with the same payment came first.
            Inserted::Known => {
                let stored = self.stored().await?.ok_or_else(in_progress)?;
                return self.repeat(stored).await;
            }
            Inserted::Busy => return Err(other_in_progress().into()),
            Inserted::Unused => {
                let message = "an earlier payment with this Idempotency-Key is settled but has not been used yet; repeat the \
                    request with that payment, or send another key";
                return Err(said(ErrorCode::IdempotencyConflict, message).into());
            }
        }
        // Counted here, so that copies of a payment count once.
        let limited = is_new_wallet
            .then(|| check_limit(&self.app, (&self.app.limits.wallets, NEW_WALLETS), self.peer, &self.parts.headers))
            .and_then(Result::err);
        if let Some(limited) = limited {
            forget(&self.app, &self.id).await?;
            return Err(limited.into());
        }
        let (before, is_repeatable) = (Before::New, self.is_repeatable());
        let settling = Settling { id: &self.id, message, payer: &payer, attempts: 0, before, is_repeatable, until };
        let settled = settle(&self.app, facilitator, permit, settling).await?;
        self.after(settled, &payer, tried).await
    }

    /// Settles a payment with an unknown outcome once more.
    pub(super) async fn charge_again(&self, stored: &StoredPayment) -> Result<Response, Answered> {
        let facilitator = self.facilitator()?;
        let permit = facilitator.permit().map_err(|_| still_unclear())?;
        let (now, until) = (self.app.clock.now(), lease_end());
        if !self
            .app
            .db
            .write(Share::Payments, stored.id.clone(), move |tx, id| payments::lease(tx, id, now).boxed())
            .await?
        {
            return Err(in_progress().into());
        }
        let settled = settle_stored(&self.app, facilitator, permit, stored, until).await?;
        self.after(settled, &stored.payer, None).await
    }

    async fn after(&self, settled: Settlement, payer: &str, tried: Option<Response>) -> Result<Response, Answered> {
        match settled {
            Settlement::Settled(tx_hash) => Ok(self.effect(payer, &tx_hash, tried).await),
            Settlement::Refused(reason) => Err(self.refused(payer, &reason).into()),
            Settlement::Unclear if self.is_repeatable() => Err(still_unclear().into()),
            Settlement::Unclear => Err(never_clear().into()),
            Settlement::Unsent => Err(unavailable().into()),
        }
    }

    /// The answer to a payment that was not settled.
    pub(super) fn refused(&self, payer: &str, reason: &str) -> Response {
        let receipt = self.receipt(payer, Err(reason));
        with_receipt(self.offer.challenge(reason), self.version, &receipt)
    }

    /// The outcome of the payment: the transaction, or why there is none.
    pub(super) fn receipt(&self, payer: &str, came: Result<&str, &str>) -> Receipt {
        Receipt {
            success: came.is_ok(),
            transaction: came.unwrap_or_default().to_owned(),
            network: self.offer.network_in(self.version).to_owned(),
            payer: payer.to_owned(),
            error_reason: came.err().map(str::to_owned),
        }
    }

    /// Whether a repeat can prove that it is the payer's: settled payments are public.
    fn is_repeatable(&self) -> bool {
        self.key.is_some() || self.is_open()
    }

    /// Identifies the payer's key, whatever the payment.
    pub(super) fn key_scope(&self, payer: &str) -> Option<String> {
        let (namespace, method, path) = (self.offer.network.namespace(), &self.parts.method, self.parts.uri.path());
        let key = self.key.as_deref()?;
        Some(sha256_hex(&format!("{namespace}\n{payer}\n{method}\n{path}\n{key}")))
    }

    fn new_payment(&self, payer: &str, message: &str) -> NewPayment {
        NewPayment {
            id: self.id.clone(),
            network: self.offer.network.to_string(),
            asset: self.offer.asset(),
            payer: payer.to_owned(),
            nonce: self.nonce.clone(),
            amount: self.offer.amount().to_owned(),
            request: self.request.clone(),
            key_hash: self.key_hash(),
            key_scope: self.key_scope(payer),
            is_read: self.paid.is_read(),
            is_repeatable: self.is_repeatable(),
            valid_before: self.authorization.as_ref().map(|it| it.valid_before.timestamp()),
            // Anyone who has it can settle it.
            payment: self.app.vault.seal("payments", &self.id, message.as_bytes()),
        }
    }
}

/// Another request is settling the payment.
pub(super) fn in_progress() -> ApiError {
    ApiError::TryLater(ErrorCode::PaymentInProgress, "the payment is being settled", 1)
}

/// The payer has another payment under way under the same key.
fn other_in_progress() -> ApiError {
    let message = "another payment with this Idempotency-Key may still be in progress; this one is not charged";
    ApiError::TryLater(ErrorCode::PaymentInProgress, message, 1)
}

/// It is not known whether money moved, and it will not be tried again.
fn never_clear() -> ApiError {
    let message = "it is not known whether the payment was settled; the request was not carried out, and without an \
        Idempotency-Key it cannot be repeated with this payment";
    ApiError::Plain(ErrorCode::FacilitatorUnavailable, message)
}

/// It is not known whether money moved.
fn still_unclear() -> ApiError {
    let message = "it is not known yet whether the payment was settled; repeat the request with the same payment";
    ApiError::Plain(ErrorCode::FacilitatorUnavailable, message)
}

/// The request to the facilitator for a stored payment.
fn opened(app: &App, stored: &StoredPayment) -> Result<String, ApiError> {
    let internal = |why: String| ApiError::Internal(format!("payment {}: {why}", stored.id));
    let sealed = stored.payment.as_deref().ok_or_else(|| internal("nothing to settle".into()))?;
    let plain = app.vault.open("payments", &stored.id, sealed).map_err(|error| internal(error.to_string()))?;
    String::from_utf8(plain).map_err(|error| internal(error.to_string()))
}

/// What an answer to a settlement means.
enum Meaning {
    Settled(String),
    Refused(String),
    /// With the reason that the row is given.
    Unclear(String),
    Unsent,
}

/// Settles a payment, and stores the outcome.
async fn settle(
    app: &Shared,
    facilitator: &Facilitator,
    permit: CallPermit<'_>,
    what: Settling<'_>,
) -> Result<Settlement, ApiError> {
    let Some(x402) = &app.config.x402 else { return Err(ApiError::unauthorized()) };
    let meaning = match facilitator.settle(what.message, permit).await {
        Err(unclear) => {
            tracing::warn!(payment = what.id, %unclear, "it is not known whether a payment was settled");
            if unclear.was_sent { Meaning::Unclear("unclear".into()) } else { Meaning::Unsent }
        }
        Ok(Settled::Success { transaction, network, payer }) => {
            if is_of(app, x402, &what, &network, payer.as_deref()) {
                Meaning::Settled(transaction)
            } else {
                Meaning::Unclear(MISMATCH.into())
            }
        }
        Ok(Settled::Refused(refused)) => refusal(x402, &what, refused),
    };
    match meaning {
        Meaning::Settled(transaction) => {
            note(app, &what, &transaction).await;
            Ok(Settlement::Settled(transaction))
        }
        Meaning::Refused(reason) => {
            let row = (what.id.to_owned(), reason.clone());
            app.db.write(Share::Payments, row, |tx, (id, reason)| payments::refuse(tx, id, reason).boxed()).await?;
            Ok(Settlement::Refused(reason))
        }
        Meaning::Unsent if what.before == Before::New => {
            forget(app, what.id).await?;
            Ok(Settlement::Unsent)
        }
        Meaning::Unsent => {
            doubt(app, &what, "unclear").await?;
            Ok(Settlement::Unclear)
        }
        Meaning::Unclear(reason) => {
            doubt(app, &what, &reason).await?;
            Ok(Settlement::Unclear)
        }
    }
}

/// What the facilitator's refusal to settle means.
fn refusal(x402: &X402, what: &Settling<'_>, refused: Refused) -> Meaning {
    let Refused { reason, transaction, .. } = &refused;
    let (is_used, is_without) = (x402.is_used(reason), transaction.is_empty());
    match what.before {
        // The chain accepts each authorization once. If it was sent before, it was accepted then. With a transaction,
        // the same reason can mean that this one was reverted.
        Before::InDoubt if is_used && is_without => {
            tracing::warn!(payment = what.id, %reason, "payment with an unknown outcome is treated as settled");
            Meaning::Settled(String::new())
        }
        Before::New if refused.is_before_sending() => Meaning::Refused(refused.reason),
        // With a transaction, or after it was sent, money may have moved. The refusal says nothing about earlier
        // attempts: what they moved cannot be moved again.
        before => {
            tracing::warn!(payment = what.id, %reason, transaction, "a rejected payment may have been settled");
            let is_foreign = before == Before::New && is_used;
            Meaning::Unclear(if is_foreign { USED_BEFORE.into() } else { refused.reason })
        }
    }
}

/// Records that a payment is settled, before anything is done for it: there is no other record of it. If the database
/// fails, tries again until another caller may settle the payment.
async fn note(app: &App, what: &Settling<'_>, transaction: &str) {
    loop {
        let row = (what.id.to_owned(), transaction.to_owned());
        let noted =
            app.db.write(Share::Payments, row, |tx, (id, tx_hash)| payments::credit(tx, id, tx_hash).boxed()).await;
        let Err(error) = noted else { return };
        if Instant::now() + NOTE_AGAIN >= what.until {
            tracing::error!(payment = what.id, transaction, %error, "a settled payment could not be recorded");
            return;
        }
        tracing::warn!(payment = what.id, transaction, %error, "a settled payment could not be recorded; will retry");
        sleep(NOTE_AGAIN).await;
    }
}

/// Whether a settlement is of the payment that was sent.
fn is_of(app: &App, x402: &X402, what: &Settling<'_>, network: &str, payer: Option<&str>) -> bool {
    if payer.is_some_and(|payer| !x402.network.same(payer, what.payer)) {
        app.metrics.payer_mismatch();
        tracing::error!(payment = what.id, "the facilitator reported a settlement by a different payer");
        return false;
    }
    if !x402.network.is(network) {
        app.metrics.payer_mismatch();
        tracing::error!(payment = what.id, network, "the facilitator reported a settlement on another network");
        return false;
    }
    true
}

/// Removes the row of a payment that was not sent to be settled.
async fn forget(app: &App, id: &str) -> Result<(), DbError> {
    app.db.write(Share::Payments, id.to_owned(), |tx, id| payments::delete_unsent(tx, id).boxed()).await
}

async fn doubt(app: &App, what: &Settling<'_>, reason: &str) -> Result<(), DbError> {
    let now = app.clock.now();
    let reason = what.before.reason().unwrap_or(reason);
    // A payment that its payer cannot use afterwards is not settled again.
    let wait = usize::try_from(what.attempts).ok().and_then(|at| RETRIES.get(at)).filter(|_| what.is_repeatable);
    leave_in_doubt(app, what.id, reason, wait.map(|wait| now.plus_millis(*wait))).await
}

async fn leave_in_doubt(app: &App, id: &str, reason: &str, retry_at: Option<Timestamp>) -> Result<(), DbError> {
    let now = app.clock.now();
    let row = (id.to_owned(), reason.to_owned());
    app.db
        .write(Share::Payments, row, move |tx, (id, reason)| payments::doubt(tx, id, reason, now, retry_at).boxed())
        .await
}

/// Settles a payment from its row, whose lease ends at `until`.
async fn settle_stored(
    app: &Shared,
    facilitator: &Facilitator,
    permit: CallPermit<'_>,
    stored: &StoredPayment,
    until: Instant,
) -> Result<Settlement, ApiError> {
    let message = match opened(app, stored) {
        Ok(message) => message,
        Err(error) => {
            leave_in_doubt(app, &stored.id, UNREADABLE, None).await?;
            return Err(error);
        }
    };
    let (id, payer, attempts) = (&*stored.id, &*stored.payer, stored.attempts);
    let (before, is_repeatable) = (Before::of(stored), stored.is_repeatable);
    let what = Settling { id, message: &message, payer, attempts, before, is_repeatable, until };
    settle(app, facilitator, permit, what).await
}

/// Settles a stored payment again, for the background task: a settled one waits for its payer.
pub(crate) async fn settle_again(app: &Shared, id: String) -> Result<(), ApiError> {
    let Some(facilitator) = &app.facilitator else { return Ok(()) };
    // Without a permit it stays due.
    let Ok(permit) = facilitator.permit() else { return Ok(()) };
    let (now, until) = (app.clock.now(), lease_end());
    let leased = app.db.write(Share::Payments, id.clone(), move |tx, id| {
        async move {
            let leased = payments::lease(tx, id, now).await?;
            if leased {
                payments::attempted(tx, id).await?;
            }
            Ok::<_, DbError>(leased)
        }
        .boxed()
    });
    if !leased.await? {
        return Ok(());
    }
    let Some(stored) = payments::find(&mut app.db.read().await?.conn(), &id).await? else { return Ok(()) };
    settle_stored(app, facilitator, permit, &stored, until).await?;
    Ok(())
}
