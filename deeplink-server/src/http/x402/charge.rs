//! What a payment adds to a write: the wallet's account before it and, after it, the record that the payment is used
//! up, with the reply. It all commits with the write, or not at all.

use std::sync::Arc;

use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::StatusCode;
use serde::Serialize;

use crate::caller::{Caller, Charge, ChargeRun};
use crate::db::payments::{self, Use};
use crate::db::replies::Reply;
use crate::db::wallets::{self, Wallet};
use crate::db::{Conn, WriteWork};
use crate::error::{ApiError, Stop};
use crate::http::once::to_json;
use crate::shares::{Share, Turn};
use crate::state::App;
use crate::vault::Vault;

impl Caller {
    /// Whether it is known which account this caller may reach. Before a payment is verified it is not, and then
    /// nothing is looked up.
    pub(crate) fn is_known(&self) -> bool {
        self.charge().is_none_or(|charge| charge.run != ChargeRun::Form)
    }

    /// Whose share a request takes of what is limited by account. A wallet without an account gets a new account id in
    /// each run, so the wallet itself has the share.
    pub(crate) fn share(&self) -> Share {
        match self.charge() {
            Some(charge) => Share::Wallet(format!("{}\n{}", charge.namespace, charge.address)),
            None => Share::from(&self.tenant),
        }
    }

    /// Its turn to write.
    pub(crate) fn turn(&self) -> Turn {
        Turn::from(self.share()).restricted(self.is_restricted())
    }

    /// Stops a request of which only the form is checked. What follows reads, writes or calls out.
    pub(crate) fn form_is_valid(&self) -> Result<(), ApiError> {
        self.charge().map_or(Ok(()), |charge| charge.form_is_valid())
    }
}

impl Charge {
    /// The same with only the payment at hand.
    pub(crate) fn form_is_valid(&self) -> Result<(), ApiError> {
        if self.run == ChargeRun::Form { Err(ApiError::Stopped(Stop::FormIsValid)) } else { Ok(()) }
    }

    /// Whether the payment is settled.
    pub(crate) fn is_paid(&self) -> bool {
        matches!(self.run, ChargeRun::Paid(_))
    }

    /// Runs before everything else in the write. Other requests with the same payment wait here.
    pub(crate) async fn begin(&self, tx: &mut Conn<'_>, now: Timestamp) -> Result<(), ApiError> {
        if let ChargeRun::Paid(settled) = &self.run
            && !payments::hold(tx, &settled.id).await?
        {
            return Err(ApiError::Stopped(Stop::PaymentUsed));
        }
        let wallet = Wallet { namespace: &self.namespace, address: &self.address };
        if wallets::ensure(tx, wallet, &self.tenant, now).await? {
            Ok(())
        } else {
            Err(ApiError::Stopped(Stop::OtherTenant))
        }
    }

    /// Runs after everything else in the write.
    pub(crate) async fn end(&self, tx: &mut Conn<'_>, vault: &Vault, reply: &Reply) -> Result<(), ApiError> {
        let ChargeRun::Paid(settled) = &self.run else { return Err(ApiError::Stopped(Stop::TrialPassed)) };
        // It may show a secret.
        let body = vault.seal("payments", &settled.id, reply.body.as_bytes());
        let reply = Reply { body, ..reply.clone() };
        let (request, tx_hash) = (&*settled.request, &*settled.tx_hash);
        let used = Use { id: &settled.id, request, is_read: false, tx_hash, reply: Some(&reply) };
        if payments::done(tx, used).await? { Ok(()) } else { Err(ApiError::Stopped(Stop::PaymentUsed)) }
    }
}

impl App {
    /// Writes what a request without an `Idempotency-Key` changes, as [`App::write`] does, with its payment.
    pub(crate) async fn write_for<C, T, F, A>(
        self: &Arc<Self>,
        caller: Arc<Caller>,
        context: C,
        work: F,
        committed: A,
    ) -> Result<T, ApiError>
    where
        C: Send + Sync + 'static,
        T: Serialize + Send + 'static,
        F: WriteWork<C, T, ApiError>,
        A: FnOnce(&Arc<Self>, &C, &T) + Send + 'static,
    {
        let turn = caller.turn();
        let Some(charge) = caller.charge().cloned() else { return self.write(turn, context, work, committed).await };
        charge.form_is_valid()?;
        let now = self.clock.now();
        let written = self.write(
            turn,
            (charge, self.vault.clone(), context, work),
            move |tx, (charge, vault, context, work)| {
                async move {
                    charge.begin(tx, now).await?;
                    let mut inner = tx.reborrow();
                    let made = work(&mut inner, context).await?;
                    charge.end(tx, vault, &reply_of(&made)?).await?;
                    Ok(made)
                }
                .boxed()
            },
            move |app, (_, _, context, _), made| committed(app, context, made),
        );
        written.await
    }
}

/// The reply to the caller: 200 with what was made, or 204 if it has no body.
fn reply_of(made: &impl Serialize) -> Result<Reply, ApiError> {
    let body = to_json(made)?;
    let (status, body) = match &*body {
        "null" => (StatusCode::NO_CONTENT, String::new()),
        _ => (StatusCode::OK, body),
    };
    Ok(Reply { status: status.as_u16(), location: None, body })
}

#[cfg(test)]
mod tests {
    use deeplink_core::id::TenantId;

    use super::*;
    use crate::caller::Actor;

    #[test]
    fn a_wallet_has_one_share_whatever_account_it_is_run_for() {
        let share = |tenant: &str, address: &str| {
            let tenant: TenantId = tenant.parse().expect("an id");
            let (namespace, address) = ("eip155".to_owned(), address.to_owned());
            let charge = Charge { namespace, address, tenant: tenant.clone(), run: ChargeRun::Trial };
            Caller { by: Actor::Wallet(Arc::new(charge)), tenant, affiliate: None, is_suspended: false }.share()
        };
        let [one, other] = ["tnt_000000000000000000000001", "tnt_000000000000000000000002"];
        assert_eq!(share(one, "0xa"), share(other, "0xa"));
        assert_ne!(share(one, "0xa"), share(one, "0xb"));
        assert_ne!(share(one, "0xa"), Share::from(&one.parse().expect("an id")));
    }
}
