//! What an account's requests wait for: permits of its shares.

use std::sync::Arc;
use std::time::Duration;

use deeplink_core::error::ErrorCode;
use deeplink_core::id::TenantId;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout_at};

use super::App;
use crate::caller::Caller;
use crate::db::{Conn, DbError};
use crate::error::ApiError;
use crate::shares::limit::{Permit, ShareLimit, UsedUp};
use crate::shares::{Share, Turn};

/// How long a list or report may take, including its wait in the queue.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Downloads of everything in one account at once.
pub(super) const EXPORTS_PER_ACCOUNT: usize = 2;
/// Lists and reports of one tenant that may wait, as many searches, and the same for its affiliates.
const MAX_WAITING_REPORTS: usize = 64;
/// What a search costs, as rows: about as much as sixty lists.
pub(crate) const SEARCHED_ROWS: usize = 512;
/// DNS lookups at once that requests wait for. Each has sockets of its own.
const MAX_LOOKUPS: usize = 1_024;
/// The same of one account: a name server that never answers takes each for five seconds.
const MAX_LOOKUPS_PER_SHARE: usize = 8;
/// Those of them that only accounts without one can have: 96 accounts that take all they may leave one to each of 256
/// others.
const LOOKUPS_RESERVE: usize = 256;
/// Lookups of one account that may wait.
const MAX_WAITING_LOOKUPS: usize = 24;
/// How long a request waits for other lookups.
const LOOKUP_WAIT: Duration = Duration::from_secs(2);
/// Batches of one account that may wait to be parsed.
const MAX_WAITING_BATCHES: usize = 256;
/// How long a batch waits to be parsed.
const BATCH_WAIT: Duration = Duration::from_secs(2);
/// How long a request waits for its tenant's other calls to Stripe.
const PAYER_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests of one tenant that may wait to call Stripe.
const MAX_WAITING_PAYERS: usize = 8;

/// An account's share of lists and reports, until it is dropped.
pub(crate) struct HeldReports {
    _places: Vec<Permit>,
    _line: Vec<BoxFuture<'static, Permit>>,
}

pub(super) fn lookups() -> Arc<ShareLimit> {
    ShareLimit::with_reserve(MAX_LOOKUPS, MAX_LOOKUPS_PER_SHARE, LOOKUPS_RESERVE, MAX_LOOKUPS)
}

/// Half of the threads are left to requests that take less; if there is only one, batches take turns.
pub(super) fn batches() -> Arc<ShareLimit> {
    let at_once = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
    ShareLimit::new(at_once, at_once)
}

fn share_is_used_up() -> ApiError {
    ApiError::Plain(
        ErrorCode::Overloaded,
        "this account has too many lists and reports in progress; try again in a second",
    )
}

impl App {
    /// The only way to read a list or a report of the caller's account: see [`Db::report`]. No account waits for
    /// another account's reads alone, and an account waits for at most one of its affiliates' reads. A read that
    /// exceeds the share or the time is 503 `overloaded`.
    pub(crate) async fn report<T, E, F>(&self, caller: &Caller, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        E: From<DbError> + Into<ApiError> + Send + 'static,
        F: for<'c> FnOnce(Conn<'c>, TenantId) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        self.report_of_rows(caller, 1, work).await
    }

    /// The same for a read that costs as much as this many rows. Reads that cost more than a list use at most half of the
    /// places, across all accounts, and lists come first.
    pub(crate) async fn report_of_rows<T, E, F>(&self, caller: &Caller, rows: usize, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        E: From<DbError> + Into<ApiError> + Send + 'static,
        F: for<'c> FnOnce(Conn<'c>, TenantId) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        let until = Instant::now() + REPORT_TIMEOUT;
        let tenant = caller.tenant.clone();
        let place = async |limit: &Arc<ShareLimit>| {
            let place = limit.acquire_until(Turn::from(&tenant).of_rows(rows), MAX_WAITING_REPORTS, until);
            place.await.map_err(|whose| match whose {
                UsedUp::Own => share_is_used_up(),
                UsedUp::All => DbError::Overloaded.into(),
            })
        };
        let among_affiliates = match &caller.affiliate {
            Some(_) => Some(place(&self.affiliate_reports).await?),
            None => None,
        };
        let permits = (place(&self.reports).await?, among_affiliates);
        let left = until.saturating_duration_since(Instant::now());
        let report = self.db.report(left, move |db| {
            let work = work(db, tenant);
            async move {
                let _permits = permits;
                work.await
            }
            .boxed()
        });
        report.await.map_err(|error| match error.into() {
            ApiError::Database(DbError::Overloaded) => {
                ApiError::Plain(ErrorCode::Overloaded, "the list or report took longer than 5 s; try again")
            }
            error => error,
        })
    }

    /// A permit to parse and to check a batch, as soon as the account's turn comes, within two seconds. Otherwise 503
    /// `overloaded` says whose are used up.
    pub(crate) async fn batch_permit(&self, turn: Turn) -> Result<Permit, ApiError> {
        let end = Instant::now() + BATCH_WAIT;
        self.batches.acquire_until(turn, MAX_WAITING_BATCHES, end).await.map_err(|whose| {
            let message = match whose {
                UsedUp::Own => "this account is sending too many batches at once; try again in a second",
                UsedUp::All => "too many batches are being processed across all accounts; try again in a second",
            };
            ApiError::Plain(ErrorCode::Overloaded, message)
        })
    }

    /// A permit for a DNS lookup that a request waits for, within two seconds. Otherwise 503 `overloaded` says whose are
    /// used up.
    pub(crate) async fn dns_permit(&self, share: Share) -> Result<Permit, ApiError> {
        let end = Instant::now() + LOOKUP_WAIT;
        self.lookups.acquire_until(share.into(), MAX_WAITING_LOOKUPS, end).await.map_err(|whose| {
            let message = match whose {
                UsedUp::Own => "this account has too many DNS lookups in progress; try again in a second",
                UsedUp::All => "too many DNS lookups are in progress across all accounts; try again in a second",
            };
            ApiError::Plain(ErrorCode::Overloaded, message)
        })
    }

    /// Takes an account's share of lists and reports and, with `waiting`, its whole queue: further reads wait, or are
    /// refused.
    pub(crate) fn hold_reports(&self, tenant: &TenantId, waiting: bool) -> HeldReports {
        let line = || self.reports.acquire(tenant.into(), MAX_WAITING_REPORTS).map(FutureExt::boxed);
        HeldReports {
            _places: std::iter::from_fn(|| self.reports.try_acquire(tenant.into())).collect(),
            _line: std::iter::from_fn(line).take_while(|_| waiting).collect(),
        }
    }

    /// A permit to call Stripe for a tenant. One tenant's requests wait for each other, up to a small number.
    pub(crate) async fn payer(&self, tenant: &TenantId) -> Result<Permit, ApiError> {
        let permit = self.payers.acquire(tenant.into(), MAX_WAITING_PAYERS).ok_or(DbError::Overloaded)?;
        Ok(timeout_at(Instant::now() + PAYER_TIMEOUT, permit).await.map_err(|_| DbError::Overloaded)?)
    }
}

#[cfg(test)]
mod tests {
    use deeplink_core::time::Timestamp;

    use super::*;
    use crate::clock::Clock;

    /// R2: 96 accounts whose name servers never answer leave a lookup to every other account.
    #[test]
    fn r2_lookups_of_many_accounts_leave_one_to_others() {
        let lookups = lookups();
        let share = |number: usize| Share::Wallet(number.to_string());
        let held: Vec<_> = (0..96 * 32).filter_map(|number| lookups.try_acquire(share(number % 96))).collect();
        assert_eq!(held.len(), MAX_LOOKUPS - LOOKUPS_RESERVE);
        let others: Vec<_> = (96..1_096).filter_map(|number| lookups.try_acquire(share(number))).collect();
        assert_eq!(others.len(), LOOKUPS_RESERVE);
        drop((held, others));
    }

    /// R2: an account's batches wait for each other to be parsed, up to a limit, and another account's comes next.
    #[tokio::test]
    async fn r2_batches_are_parsed_in_turns() {
        let home = tempfile::tempdir().expect("a directory");
        let config = crate::config::Config::for_tests(home.path());
        let clock = Clock::fixed(Timestamp::from_millis(1_795_167_000_000));
        let running = crate::start::start(config, clock).await.expect("the server starts");
        let app = running.app();
        let turn = |number: usize| Turn::from(Share::Wallet(number.to_string()));
        let mut held: Vec<_> = std::iter::from_fn(|| app.batches.try_acquire(Share::Wallet("0".into()))).collect();
        let mut own: Vec<_> = (0..MAX_WAITING_BATCHES).map(|_| app.batch_permit(turn(1)).boxed()).collect();
        assert!(own.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        let refused = app.batch_permit(turn(1)).now_or_never();
        assert!(matches!(refused, Some(Err(ApiError::Plain(ErrorCode::Overloaded, _)))));
        let mut other = app.batch_permit(turn(2)).boxed();
        assert!((&mut other).now_or_never().is_none(), "it waits");
        held.pop();
        let first = (&mut own[0]).now_or_never();
        let is_others = (&mut other).now_or_never().is_some();
        assert!(first.is_some() != is_others, "one of them has its turn");
        drop(first);
        assert!(is_others || other.now_or_never().is_some(), "the other account is next");
    }
}
