//! The state that every request can reach.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deeplink_core::domain::DomainName;
use deeplink_core::error::ErrorCode;
use deeplink_core::id::TenantId;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use deeplink_core::url::{domain_origin, link_url};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::cache::{AssociationFiles, LinkCache};
use crate::caller::{Caller, KnownKey};
use crate::clicks::Clicks;
use crate::clock::Clock;
use crate::config::Config;
use crate::country::Countries;
use crate::db::events::Publisher;
use crate::db::hosts::{Host, TenantBranding};
use crate::db::link_list::POSITION_BITS;
use crate::db::{Conn, Db, DbError, WriteError, WriteWork};
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::notifier::{Notification, Notifier};
use crate::outbound::dns::Dns;
use crate::outbound::facilitator::Facilitator;
use crate::outbound::http::Http;
use crate::outbound::providers::Providers;
use crate::outbound::stripe::Stripe;
use crate::qr::Codes;
use crate::qr::logos::Logos;
use crate::rate_limit::Limiter;
use crate::shares::accounts::AccountBytes;
use crate::shares::budget::Used;
use crate::shares::limit::{Permit, ShareLimit, UsedUp};
use crate::shares::{Share, Turn};
use crate::stream::Streams;
use crate::threats::Threats;
use crate::ttl_cache::TtlCache;
use crate::uses::Uses;
use crate::vault::Vault;

/// The state behind every handler.
pub(crate) type Shared = Arc<App>;

/// The running service.
pub(crate) struct App {
    pub(crate) config: Config,
    /// Where people reach the service.
    pub(crate) public_url: Url,
    /// The host of the public URL.
    pub(crate) service_host: String,
    /// Whether the public URL is a loopback address.
    pub(crate) is_loopback: bool,
    pub(crate) is_https: bool,
    pub(crate) db: Db,
    pub(crate) clock: Clock,
    pub(crate) vault: Vault,
    pub(crate) clicks: Arc<Clicks>,
    pub(crate) links: LinkCache,
    /// Callers of secret keys, by the key's hash.
    pub(crate) callers: TtlCache<Arc<KnownKey>>,
    /// Callers of publishable keys, by the key's hash.
    pub(crate) pages: TtlCache<Arc<Caller>>,
    /// When keys were last used.
    pub(crate) uses: Arc<Uses>,
    /// Hashes of sessions and source URLs that were valid recently. Each use is looked up; this only lets an address
    /// with no misses left use them.
    pub(crate) valid_tokens: TtlCache<()>,
    /// Hosts and their tenants, by name.
    pub(crate) hosts: TtlCache<Option<Arc<Host>>>,
    /// The branding of tenants, by id.
    pub(crate) brandings: TtlCache<Arc<TenantBranding>>,
    /// A tenant's association files, by its id.
    pub(crate) files: TtlCache<Arc<AssociationFiles>>,
    /// QR codes: finished ones, and a limit on how many are drawn at once.
    pub(crate) codes: Codes,
    /// The DNS client that proves domains.
    pub(crate) dns: Dns,
    /// Limits DNS lookups that a request waits for.
    pub(crate) lookups: Arc<ShareLimit>,
    /// Batches that are parsed and checked: each takes some milliseconds of a thread, and those that arrive together would
    /// take them from everybody.
    batches: Arc<ShareLimit>,
    /// Limits lists and reports; a tenant may have half of them.
    pub(crate) reports: Arc<ShareLimit>,
    /// Lets one of a tenant's affiliates at a time wait for the tenant's reports.
    pub(crate) affiliate_reports: Arc<ShareLimit>,
    /// Calls URLs that callers named.
    pub(crate) http: Arc<Http>,
    /// The sign-in providers.
    pub(crate) providers: Providers,
    /// The processor that plans are paid through, if any; see [`App::stripe`].
    stripe: Option<Stripe>,
    /// Limits calls to Stripe that a request waits for.
    payers: Arc<ShareLimit>,
    /// Settles payments for single requests, if they are enabled.
    pub(crate) facilitator: Option<Facilitator>,
    /// Payments that are being settled and used; a stop waits for them, whether or not a client does.
    pub(crate) payments: TaskTracker,
    /// Recently used logos.
    pub(crate) logos: Arc<Logos>,
    /// URLs and hosts that no link may lead to.
    pub(crate) threats: Threats,
    /// Where visitors come from.
    pub(crate) countries: Countries,
    pub(crate) limits: Limiters,
    /// Bytes taken by the bodies of unknown callers.
    pub(crate) anonymous_bodies: Arc<Used>,
    /// Bytes taken by the bodies of known callers.
    pub(crate) account_bodies: Arc<AccountBytes>,
    /// Requests in progress of known callers.
    pub(crate) account_requests: Arc<AccountBytes>,
    /// Downloads of everything in an account, a few at once; what clients do not read of them counts as unread.
    pub(crate) exports: Arc<ShareLimit>,
    pub(crate) metrics: Metrics,
    pub(crate) positions: Positions,
    /// Wakes the mail sender.
    pub(crate) mail_waits: tokio::sync::Notify,
    /// Wakes the task that computes deferred credits.
    pub(crate) credit_waits: tokio::sync::Notify,
    /// Notifies tasks on this node of commits.
    pub(crate) notifier: Arc<Notifier>,
    /// The readers of the event stream on this node.
    pub(crate) streams: Arc<Streams>,
    /// Set once the service is asked to stop: `/ready` reports it at once.
    pub(crate) stopping: std::sync::atomic::AtomicBool,
    random: Arc<Mutex<Random>>,
    /// Canceled at the same time: ends long-running requests.
    pub(crate) ending: CancellationToken,
}

/// Limits by client address, key or source; each node counts for itself.
pub(crate) struct Limiters {
    /// Look-ups of ids, hosts and keys that do not exist.
    pub(crate) misses: Limiter,
    /// Sign-ins that are started.
    pub(crate) signins: Limiter,
    /// Sign-ups.
    pub(crate) signups: Limiter,
    /// Reports by publishable key and address.
    pub(crate) reports: Limiter,
    /// Reports by publishable key.
    pub(crate) key_reports: Limiter,
    /// Conversions by source.
    pub(crate) sources: Limiter,
    /// Payments for single requests.
    pub(crate) payments: Limiter,
    /// Wallets that pay for the first time.
    pub(crate) wallets: Limiter,
}

/// How long a list or report may take, including its wait in the queue.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Downloads of everything in one account at once.
const EXPORTS_PER_ACCOUNT: usize = 2;
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

fn lookups() -> Arc<ShareLimit> {
    ShareLimit::with_reserve(MAX_LOOKUPS, MAX_LOOKUPS_PER_SHARE, LOOKUPS_RESERVE, MAX_LOOKUPS)
}

/// Half of the threads are left to requests that take less.
fn batches() -> Arc<ShareLimit> {
    let at_once = std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
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

    /// Assembles the state.
    pub(crate) fn new(
        config: Config,
        public_url: Url,
        db: Db,
        clock: Clock,
        vault: Vault,
        clicks: Arc<Clicks>,
        metrics: Metrics,
    ) -> Self {
        let hears = db.is_sqlite();
        let mut random = Random::system();
        let http = Arc::new(Http::new(&config));
        Self {
            links: LinkCache::new(u64::from(config.link_cache_mb) << 20, hears),
            callers: TtlCache::new(10_000),
            pages: TtlCache::new(10_000),
            uses: Arc::default(),
            valid_tokens: TtlCache::new(10_000),
            hosts: TtlCache::new(10_000),
            brandings: TtlCache::new(10_000),
            files: TtlCache::new(256),
            codes: Codes::new(),
            dns: Dns::new(config.dns_server),
            lookups: lookups(),
            batches: batches(),
            reports: ShareLimit::with_reserve(db.max_reports(), db.max_reports() / 2, 0, db.max_reports() / 2),
            affiliate_reports: ShareLimit::new(1_024, 1),
            providers: Providers::new(&config, &public_url),
            payers: ShareLimit::new(1_024, 2),
            stripe: config.stripe.as_ref().map(|account| Stripe::new(&config, account)),
            payments: TaskTracker::new(),
            facilitator: config.x402.as_ref().map(|x402| Facilitator::new(&config, x402)),
            logos: Arc::new(Logos::new(Arc::clone(&http), clock.clone())),
            http,
            threats: Threats::new(config.threat_list.as_ref()),
            countries: Countries::new(config.country.as_ref()),
            limits: Limiters {
                misses: Limiter::per_minute(config.limits.misses_per_minute),
                signins: Limiter::per_minute(config.limits.signins_per_minute),
                signups: Limiter::per_hour(config.limits.signups_per_hour),
                reports: Limiter::per_second(config.limits.reports_per_second, 5),
                key_reports: Limiter::per_second(config.limits.reports_per_key, 1),
                sources: Limiter::per_second(config.limits.source_per_second, 4),
                payments: Limiter::per_minute(config.limits.payments_per_minute),
                wallets: Limiter::per_hour(config.limits.wallets_per_hour),
            },
            anonymous_bodies: Arc::default(),
            account_bodies: AccountBytes::of_bodies(),
            account_requests: AccountBytes::of_requests(),
            exports: ShareLimit::new(usize::MAX, EXPORTS_PER_ACCOUNT),
            positions: Positions::new(&mut random),
            mail_waits: tokio::sync::Notify::new(),
            notifier: Arc::new(Notifier::new()),
            credit_waits: tokio::sync::Notify::new(),
            stopping: std::sync::atomic::AtomicBool::new(false),
            random: Arc::new(Mutex::new(random)),
            streams: Arc::new(Streams::new()),
            ending: CancellationToken::new(),
            service_host: public_url.host_str().unwrap_or_default().to_owned(),
            is_loopback: crate::config::is_loopback(&public_url),
            is_https: public_url.scheme() == "https",
            config,
            public_url,
            db,
            clock,
            vault,
            clicks,
            metrics,
        }
    }

    /// Writes a request's changes, then does what must follow the commit: see [`Db::write_then`].
    pub(crate) async fn write<C, T, E, F, A>(
        self: &Arc<Self>,
        turn: impl Into<Turn>,
        context: C,
        work: F,
        committed: A,
    ) -> Result<T, E>
    where
        C: Send + Sync + 'static,
        T: Send + 'static,
        E: WriteError,
        F: WriteWork<C, T, E>,
        A: FnOnce(&Arc<Self>, &C, &T) + Send + 'static,
    {
        let (app, span) = (Arc::clone(self), tracing::Span::current());
        let committed = move |context: &C, value: &T| span.in_scope(|| committed(&app, context, value));
        self.db.write_then(turn, context, work, committed).await
    }

    /// Expires the cached branding, association files and links of a tenant, after its domains or apps changed.
    pub(crate) fn forget_tenant(&self, tenant: &TenantId) {
        self.brandings.forget(tenant.as_str());
        self.files.forget(tenant.as_str());
        self.links.forget_tenant(tenant.as_str());
    }

    /// Expires the cached tenant of a host, the callers of publishable keys, and the tenant's branding, files and
    /// links.
    pub(crate) fn forget_host(&self, host: &DomainName, tenant: &TenantId) {
        self.hosts.forget(host.as_str());
        // Publishable keys are cached by hash only, and hosts rarely change: all expire and are looked up again.
        self.pages.forget_all();
        self.forget_tenant(tenant);
    }

    /// Expires the cached callers and links of an account, after the operator suspended or resumed it.
    pub(crate) fn forget_account(&self, tenant: &TenantId) {
        self.forget_credentials(tenant);
        // Deliveries that were held back are due.
        self.notifier.notify(Notification::Deliveries(tenant.clone()));
    }

    /// Expires the cached callers, hosts and links of an account.
    pub(crate) fn forget_credentials(&self, tenant: &TenantId) {
        // Keys are cached by hash only, and accounts rarely end: all expire and are looked up again.
        self.callers.forget_all();
        self.pages.forget_all();
        // A suspended account's hosts send nobody anywhere.
        self.hosts.forget_all();
        self.forget_tenant(tenant);
    }

    /// Expires the cached caller of a key, after it was deleted or its affiliate changed.
    pub(crate) fn forget_key(&self, key_hash: &str) {
        self.callers.forget(key_hash);
        self.pages.forget(key_hash);
    }

    /// Expires everything cached that another node may have changed without this node being notified.
    pub(crate) fn forget_all(&self) {
        self.callers.forget_all();
        self.pages.forget_all();
        self.hosts.forget_all();
        self.brandings.forget_all();
        self.files.forget_all();
    }

    /// Uses the source of randomness.
    pub(crate) fn random<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Until when to keep an event that is being delivered to a webhook now: a day longer than its delivery is shown.
    pub(crate) fn kept_until(&self, now: Timestamp) -> Timestamp {
        now.plus_days(self.config.deliveries_kept_days() + 1)
    }

    /// The payment processor for plans, or an error if none is configured.
    pub(crate) fn stripe(&self) -> Result<&Stripe, ApiError> {
        let refusal = ApiError::Plain(ErrorCode::ProcessorNotConfigured, "this service does not sell paid plans");
        self.stripe.as_ref().ok_or(refusal)
    }

    /// A permit to call Stripe for a tenant. One tenant's requests wait for each other, up to a small number.
    pub(crate) async fn payer(&self, tenant: &TenantId) -> Result<Permit, ApiError> {
        let permit = self.payers.acquire(tenant.into(), MAX_WAITING_PAYERS).ok_or(DbError::Overloaded)?;
        Ok(timeout_at(Instant::now() + PAYER_TIMEOUT, permit).await.map_err(|_| DbError::Overloaded)?)
    }

    /// The time to check plan limits at; `None` where they are not enforced.
    pub(crate) fn quotas_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.config.enforce_quotas.then_some(now)
    }

    /// A publisher for the events of a write at `now`.
    pub(crate) fn publisher(&self, now: Timestamp) -> Publisher {
        Publisher::new(self.clicks.head(), Arc::clone(&self.random), now, self.kept_until(now))
    }

    /// Wakes the senders of the published events, after the commit.
    pub(crate) fn announce(&self, publisher: &Publisher, tenant: &TenantId) {
        if publisher.has_events() {
            self.notifier.notify(Notification::Events(tenant.clone()));
        }
        if publisher.has_deliveries() {
            self.notifier.notify(Notification::Deliveries(tenant.clone()));
        }
    }

    /// The service's own host, where https serves it under a name; else an empty string.
    pub(crate) fn own_secured_name(&self) -> &str {
        match self.public_url.host() {
            Some(url::Host::Domain(_)) if self.is_https && !self.is_loopback => &self.service_host,
            _ => "",
        }
    }

    /// The address of a link: its tenant's oldest verified primary domain, else the service's own host. A link without
    /// the claim on that host keeps the domain it was made under.
    pub(crate) fn link_url(&self, link_id: &str, primary: Option<&str>) -> String {
        link_url(&self.public_url, link_id, primary)
    }

    /// The origin of a custom domain.
    pub(crate) fn origin_of(&self, domain: &str) -> String {
        domain_origin(&self.public_url, domain)
    }

    /// Whether a domain needs no proof: it never leaves this machine, and neither does the service.
    pub(crate) fn needs_no_proof(&self, domain: &DomainName) -> bool {
        self.is_loopback && domain.is_local()
    }
}

/// Bits of a position below the milliseconds: a count within the millisecond, then the node's salt.
const COUNT_BITS: u32 = POSITION_BITS - SALT_BITS;
const SALT_BITS: u32 = 10;

/// Draws the positions of new links: unique, and ordered by time. The salt keeps nodes apart; the unique index catches
/// the rest.
pub(crate) struct Positions {
    last: AtomicI64,
    salt: i64,
}

impl Positions {
    fn new(random: &mut Random) -> Self {
        let salt = i64::try_from(random.below(1 << SALT_BITS)).unwrap_or(0);
        Self { last: AtomicI64::new(0), salt }
    }

    /// `count` ascending positions, each larger than any drawn before on this node.
    pub(crate) fn draw(&self, now: Timestamp, count: usize) -> impl Iterator<Item = i64> + use<> {
        let count = i64::try_from(count).unwrap_or(0);
        let floor = now.as_millis().max(0) << COUNT_BITS;
        let next = |last: i64| last.max(floor - 1) + count;
        let last = self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| Some(next(last)));
        let end = next(last.unwrap_or_else(|last| last));
        let salt = self.salt;
        (end - count + 1..=end).map(move |step| (step << SALT_BITS) | salt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    proptest::proptest! {
        #[test]
        fn positions_grow_whatever_the_clock_does(steps in proptest::collection::vec((0_i64..3_000, 1_usize..200), 1..50)) {
            let positions = Positions::new(&mut Random::seeded(1));
            let mut last = -1;
            for (millis, count) in steps {
                let drawn: Vec<i64> = positions.draw(Timestamp::from_millis(1_795_167_000_000 + millis), count).collect();
                proptest::prop_assert_eq!(drawn.len(), count);
                for position in drawn {
                    proptest::prop_assert!(position > last);
                    last = position;
                }
            }
        }
    }
}
