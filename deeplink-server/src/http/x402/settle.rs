//! Settling a payment that has its row, and what is then known of it.

use axum::response::Response;
use deeplink_core::error::ErrorCode;
use deeplink_core::x402::Receipt;
use futures_util::FutureExt;

use super::offer::with_receipt;
use super::{Answered, Checkout, Judged, unavailable};
use crate::config::X402;
use crate::db::DbError;
use crate::db::payments::{self, MISMATCH, NewPayment, StoredPayment};
use crate::error::ApiError;
use crate::http::client_ip::check_limit;
use crate::outbound::facilitator::{Facilitator, Place, Settled};
use crate::state::{App, Shared};

/// After how many milliseconds the background task settles a payment again of which it is not known what came of it.
const RETRIES: [i64; 3] = [10_000, 60_000, 300_000];

/// What came of a payment.
pub(super) enum Settlement {
    /// It is on the chain, in this transaction.
    Settled(String),
    /// It is not, for this reason.
    Refused(String),
    /// Nobody knows yet.
    Unclear,
    /// The facilitator was not asked.
    Unsent,
}

/// What is known of a payment that is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// It was never sent to be settled.
    New,
    /// It was sent, and it is not known what came of that.
    InDoubt,
    /// What the facilitator said of it was about another payer or chain.
    Mismatch,
}

impl Before {
    fn of(stored: &StoredPayment) -> Self {
        if stored.reason.as_deref() == Some(MISMATCH) { Self::Mismatch } else { Self::InDoubt }
    }
}

/// A payment that is settled.
struct Settling<'a> {
    id: &'a str,
    /// What the facilitator is asked.
    message: &'a str,
    payer: &'a str,
    /// How often the background task has tried.
    attempts: i64,
    before: Before,
}

impl Checkout {
    /// Stores the payment and settles it, and then does what it is for.
    pub(super) async fn charge(&self, judged: Judged) -> Result<Response, Answered> {
        let Judged { payer, tried, is_new_wallet } = judged;
        let (facilitator, message) = (self.facilitator()?, self.message.as_deref().ok_or_else(unavailable)?);
        let place = facilitator.place().map_err(|unclear| {
            tracing::warn!(%unclear, "a payment is not settled");
            unavailable()
        })?;
        let now = self.app.clock.now();
        let new = self.new_payment(&payer, message);
        if !self.app.db.write(new, move |tx, new| payments::insert(tx, new, now).boxed()).await? {
            // Another request with the same payment came first.
            let stored = self.stored().await?.ok_or_else(in_progress)?;
            return self.repeat(stored).await;
        }
        // Counted here, so that copies of a payment count once.
        let limited = is_new_wallet
            .then(|| check_limit(&self.app, &self.app.limits.wallets, self.peer, &self.parts.headers))
            .and_then(Result::err);
        if let Some(limited) = limited {
            forget(&self.app, &self.id).await?;
            return Err(limited.into());
        }
        let settling = Settling { id: &self.id, message, payer: &payer, attempts: 0, before: Before::New };
        let settled = settle(&self.app, facilitator, place, settling).await?;
        self.after(settled, &payer, tried).await
    }

    /// Settles a payment once more of which it is not known what came of it.
    pub(super) async fn charge_again(&self, stored: &StoredPayment) -> Result<Response, Answered> {
        let facilitator = self.facilitator()?;
        let place = facilitator.place().map_err(|_| still_unclear())?;
        let now = self.app.clock.now();
        if !self.app.db.write(stored.id.clone(), move |tx, id| payments::lease(tx, id, now).boxed()).await? {
            return Err(in_progress().into());
        }
        let message = opened(&self.app, stored)?;
        let (id, payer, attempts) = (&*stored.id, &*stored.payer, stored.attempts);
        let settling = Settling { id, message: &message, payer, attempts, before: Before::of(stored) };
        let settled = settle(&self.app, facilitator, place, settling).await?;
        self.after(settled, payer, None).await
    }

    async fn after(&self, settled: Settlement, payer: &str, tried: Option<Response>) -> Result<Response, Answered> {
        match settled {
            Settlement::Settled(tx_hash) => Ok(self.effect(payer, &tx_hash, tried).await),
            Settlement::Refused(reason) => Err(self.refused(payer, &reason).into()),
            Settlement::Unclear => Err(still_unclear().into()),
            Settlement::Unsent => Err(unavailable().into()),
        }
    }

    /// The answer to a payment that was not settled.
    pub(super) fn refused(&self, payer: &str, reason: &str) -> Response {
        let receipt = self.receipt(payer, Err(reason));
        with_receipt(self.offer.challenge(reason), self.version, &receipt)
    }

    /// What came of the payment: the transaction, or why there is none.
    pub(super) fn receipt(&self, payer: &str, came: Result<&str, &str>) -> Receipt {
        Receipt {
            success: came.is_ok(),
            transaction: came.unwrap_or_default().to_owned(),
            network: self.offer.network_in(self.version).to_owned(),
            payer: payer.to_owned(),
            error_reason: came.err().map(str::to_owned),
        }
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
            key_hash: self.key_hash.clone(),
            is_read: self.paid.is_read(),
            valid_before: self.authorization.as_ref().map(|it| it.valid_before.timestamp()),
            // Whoever has it can settle it.
            payment: self.app.vault.seal("payments", &self.id, message.as_bytes()),
        }
    }
}

/// Somebody settles the payment at this moment.
pub(super) fn in_progress() -> ApiError {
    ApiError::TryLater(ErrorCode::PaymentInProgress, "the payment is being settled", 1)
}

/// It is not known whether money moved.
fn still_unclear() -> ApiError {
    let message = "it is not known yet whether the payment was settled; repeat the request with the same payment";
    ApiError::Plain(ErrorCode::FacilitatorUnavailable, message)
}

/// What the facilitator is asked about a stored payment.
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

/// Settles a payment, and stores what is known of it then, unless it is settled: that is stored with what it was for.
async fn settle(
    app: &Shared,
    facilitator: &Facilitator,
    place: Place<'_>,
    what: Settling<'_>,
) -> Result<Settlement, ApiError> {
    let Some(x402) = &app.config.x402 else { return Err(ApiError::unauthorized()) };
    let meaning = match facilitator.settle(what.message, place).await {
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
        Ok(Settled::Refused { reason, transaction }) => refusal(x402, &what, reason, transaction),
    };
    match meaning {
        Meaning::Settled(transaction) => Ok(Settlement::Settled(transaction)),
        Meaning::Refused(reason) => {
            let row = (what.id.to_owned(), reason.clone());
            app.db.write(row, |tx, (id, reason)| payments::refuse(tx, id, reason).boxed()).await?;
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

/// What it means that the facilitator refuses to settle.
fn refusal(x402: &X402, what: &Settling<'_>, reason: String, transaction: String) -> Meaning {
    match what.before {
        // The chain takes each authorization once. If it was sent before, it was that time that it was taken.
        Before::InDoubt if x402.is_used(&reason) => {
            tracing::warn!(payment = what.id, %reason, "a payment in doubt counts as settled");
            Meaning::Settled(transaction)
        }
        // With a transaction, money may have moved.
        Before::New if transaction.is_empty() => Meaning::Refused(reason),
        // It says nothing of the time before: what was moved then is not there to be moved again.
        _ => {
            tracing::warn!(payment = what.id, %reason, transaction, "a refused payment may have been settled");
            Meaning::Unclear(reason)
        }
    }
}

/// Whether a settlement is of the payment that was sent.
fn is_of(app: &App, x402: &X402, what: &Settling<'_>, network: &str, payer: Option<&str>) -> bool {
    if payer.is_some_and(|payer| !x402.network.same(payer, what.payer)) {
        app.metrics.payer_mismatch();
        tracing::error!(payment = what.id, "the facilitator settled somebody else's payment");
        return false;
    }
    if !x402.network.is(network) {
        app.metrics.payer_mismatch();
        tracing::error!(payment = what.id, network, "the facilitator settled on another network");
        return false;
    }
    true
}

/// Removes the row of a payment that was not sent to be settled.
async fn forget(app: &App, id: &str) -> Result<(), DbError> {
    app.db.write(id.to_owned(), |tx, id| payments::delete_unsent(tx, id).boxed()).await
}

async fn doubt(app: &App, what: &Settling<'_>, reason: &str) -> Result<(), DbError> {
    let now = app.clock.now();
    let reason = if what.before == Before::Mismatch { MISMATCH } else { reason };
    let retry_at =
        usize::try_from(what.attempts).ok().and_then(|at| RETRIES.get(at)).map(|wait| now.plus_millis(*wait));
    let row = (what.id.to_owned(), reason.to_owned());
    app.db.write(row, move |tx, (id, reason)| payments::doubt(tx, id, reason, now, retry_at).boxed()).await
}

/// Settles a stored payment again, for the background task: what is settled waits for its payer.
pub(crate) async fn settle_again(app: &Shared, id: String) -> Result<(), ApiError> {
    let Some(facilitator) = &app.facilitator else { return Ok(()) };
    // Without a place it stays due.
    let Ok(place) = facilitator.place() else { return Ok(()) };
    let now = app.clock.now();
    let leased = app.db.write(id.clone(), move |tx, id| {
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
    let message = opened(app, &stored)?;
    let (payer, attempts) = (&*stored.payer, stored.attempts);
    let settling = Settling { id: &id, message: &message, payer, attempts, before: Before::of(&stored) };
    if let Settlement::Settled(tx_hash) = settle(app, facilitator, place, settling).await? {
        app.db.write((id, tx_hash), |tx, (id, tx_hash)| payments::credit(tx, id, tx_hash).boxed()).await?;
    }
    Ok(())
}
