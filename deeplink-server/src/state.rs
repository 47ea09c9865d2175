//! What every request can reach: everything is present, nothing is optional.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deeplink_core::domain::DomainName;
use deeplink_core::error::ErrorCode;
use deeplink_core::id::TenantId;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::cache::{AssociationFiles, LinkCache};
use crate::caller::{Caller, KnownKey};
use crate::clicks::Clicks;
use crate::clock::Clock;
use crate::config::Config;
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
use crate::shares::Share;
use crate::shares::bodies::AccountBodies;
use crate::shares::limit::{Permit, ShareLimit};
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
    /// Whether the public URL is this machine.
    pub(crate) is_loopback: bool,
    pub(crate) is_https: bool,
    pub(crate) db: Db,
    pub(crate) clock: Clock,
    pub(crate) vault: Vault,
    pub(crate) clicks: Arc<Clicks>,
    pub(crate) links: LinkCache,
    /// Whom a key stands for, by the key's hash.
    pub(crate) callers: TtlCache<Arc<KnownKey>>,
    /// Whom a publishable key stands for, by the key's hash.
    pub(crate) pages: TtlCache<Arc<Caller>>,
    /// When keys were last used.
    pub(crate) uses: Arc<Uses>,
    /// Hashes of sessions and sources' addresses that were valid lately. Each use is looked up; this only says that an
    /// address with no misses left may ask for them.
    pub(crate) valid_tokens: TtlCache<()>,
    /// Whose a host is, by name.
    pub(crate) hosts: TtlCache<Option<Arc<Host>>>,
    /// What pages show of a tenant, by its id.
    pub(crate) brandings: TtlCache<Arc<TenantBranding>>,
    /// A tenant's association files, by its id.
    pub(crate) files: TtlCache<Arc<AssociationFiles>>,
    /// QR codes: the finished ones, and how many are drawn at one time.
    pub(crate) codes: Codes,
    /// Whom to ask for the proof of domains.
    pub(crate) dns: Dns,
    /// Limits DNS lookups that a request waits for.
    pub(crate) lookups: Arc<ShareLimit>,
    /// Limits lists and reports; a tenant may have half of them.
    pub(crate) reports: Arc<ShareLimit>,
    /// Of a tenant's affiliates, one at a time waits for a tenant's report.
    pub(crate) affiliate_reports: Arc<ShareLimit>,
    /// Calls what callers named.
    pub(crate) http: Arc<Http>,
    /// Whom people can sign in with.
    pub(crate) providers: Providers,
    /// Through whom plans are paid for, if anybody; see [`App::stripe`].
    stripe: Option<Stripe>,
    /// Limits calls of Stripe that a request waits for.
    payers: Arc<ShareLimit>,
    /// Who settles payments for single requests, if they can be paid for.
    pub(crate) facilitator: Option<Facilitator>,
    /// Payments that are being settled and used; a stop waits for them, whether or not a client does.
    pub(crate) payments: TaskTracker,
    /// Logos that were asked for lately.
    pub(crate) logos: Arc<Logos>,
    /// Where no link may lead.
    pub(crate) threats: Threats,
    pub(crate) limits: Limiters,
    /// Bytes that bodies of callers who are not known may still take.
    pub(crate) anonymous_bodies: Arc<Semaphore>,
    /// What bodies of known callers take.
    pub(crate) account_bodies: Arc<AccountBodies>,
    pub(crate) metrics: Metrics,
    pub(crate) positions: Positions,
    /// Wakes whoever sends mails.
    pub(crate) mail_waits: tokio::sync::Notify,
    /// Wakes whoever credits what was left for later.
    pub(crate) credit_waits: tokio::sync::Notify,
    /// Says on this node what was committed.
    pub(crate) notifier: Arc<Notifier>,
    /// Whoever reads the event stream on this node.
    pub(crate) streams: Arc<Streams>,
    /// Set once the service is asked to stop: `/ready` says so at once.
    pub(crate) stopping: std::sync::atomic::AtomicBool,
    random: Arc<Mutex<Random>>,
    /// Likewise, for whoever waits: what would go on for long ends.
    pub(crate) ending: CancellationToken,
}

/// Limits by client address, key or source; each node counts for itself.
pub(crate) struct Limiters {
    /// Look-ups of ids, hosts and keys that are not there.
    pub(crate) misses: Limiter,
    /// Sign-ins that are begun.
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

/// Bytes that the bodies of callers who are not known may take at once.
const ANONYMOUS_BODIES: usize = 32 << 20;
/// How long a list or report may take, the wait for its place included.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Lists and reports of one tenant that may wait, and as many of its affiliates.
const MAX_WAITING_REPORTS: usize = 64;
/// How long a request waits until its tenant's others have asked Stripe.
const PAYER_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests of one tenant that may wait to ask Stripe.
const MAX_WAITING_PAYERS: usize = 8;

/// An account's share of lists and reports, until it is dropped.
pub(crate) struct HeldReports {
    _places: Vec<Permit>,
    _line: Vec<BoxFuture<'static, Permit>>,
}

fn share_is_used_up() -> ApiError {
    ApiError::Plain(
        ErrorCode::Overloaded,
        "this account's share of lists and reports is used up; try again in a second",
    )
}

impl App {
    /// Reads a list or a report of the caller's account, and nothing else does: see [`Db::report`]. Nobody waits for
    /// another account's reads alone, and an account waits for one of its affiliates' at most. What exceeds the share, and
    /// what is not read in time, is 503 `overloaded`.
    pub(crate) async fn report<T, E, F>(&self, caller: &Caller, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        E: From<DbError> + Into<ApiError> + Send + 'static,
        F: for<'c> FnOnce(Conn<'c>, TenantId) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        let until = Instant::now() + REPORT_TIMEOUT;
        let tenant = caller.tenant.clone();
        let place = async |limit: &Arc<ShareLimit>| {
            let place = limit.acquire((&tenant).into(), MAX_WAITING_REPORTS).ok_or_else(share_is_used_up)?;
            timeout_at(until, place).await.map_err(|_| share_is_used_up())
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
            ApiError::Database(DbError::Overloaded) => ApiError::Plain(
                ErrorCode::Overloaded,
                "this took longer than the 5 s that a list or report may; try again",
            ),
            error => error,
        })
    }

    /// Takes an account's share of lists and reports and, with `waiting`, its whole line: further reads wait, or are
    /// refused.
    pub(crate) fn hold_reports(&self, tenant: &TenantId, waiting: bool) -> HeldReports {
        let line = || self.reports.acquire(tenant.into(), MAX_WAITING_REPORTS).map(FutureExt::boxed);
        HeldReports {
            _places: std::iter::from_fn(|| self.reports.try_acquire(tenant.into())).collect(),
            _line: std::iter::from_fn(line).take_while(|_| waiting).collect(),
        }
    }

    /// Puts the parts together.
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
            lookups: ShareLimit::new(1_024, 32),
            reports: ShareLimit::new(db.max_reports(), db.max_reports() / 2),
            affiliate_reports: ShareLimit::new(1_024, 1),
            providers: Providers::new(&config, &public_url),
            payers: ShareLimit::new(1_024, 2),
            stripe: config.stripe.as_ref().map(|account| Stripe::new(&config, account)),
            payments: TaskTracker::new(),
            facilitator: config.x402.as_ref().map(|x402| Facilitator::new(&config, x402)),
            logos: Arc::new(Logos::new(Arc::clone(&http), clock.clone())),
            http,
            threats: Threats::new(config.threat_list.as_ref()),
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
            anonymous_bodies: Arc::new(Semaphore::new(ANONYMOUS_BODIES)),
            account_bodies: Arc::default(),
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

    /// Writes what a request changes, and then does what must follow the commit: see [`Db::write_then`].
    pub(crate) async fn write<C, T, E, F, A>(
        self: &Arc<Self>,
        share: impl Into<Share>,
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
        self.db.write_then(share, context, work, committed).await
    }

    /// Forgets what is remembered of a tenant, after its domains or apps changed: what it shows of itself, in its files
    /// and in each of its links.
    pub(crate) fn forget_tenant(&self, tenant: &TenantId) {
        self.brandings.forget(tenant.as_str());
        self.files.forget(tenant.as_str());
        self.links.forget_tenant(tenant.as_str());
    }

    /// Forgets whose a host is, whom its publishable keys stand for, and what its tenant shows of itself.
    pub(crate) fn forget_host(&self, host: &DomainName, tenant: &TenantId) {
        self.hosts.forget(host.as_str());
        // They are known by their hashes only, and hosts change seldom: each key is looked up once more.
        self.pages.forget_all();
        self.forget_tenant(tenant);
    }

    /// Forgets what an account may do and what its links show, after the operator suspended or resumed it.
    pub(crate) fn forget_account(&self, tenant: &TenantId) {
        // Keys are known by their hashes only, and operators change accounts seldom: each is looked up once more.
        self.callers.forget_all();
        self.pages.forget_all();
        self.forget_tenant(tenant);
        // Deliveries that waited are due.
        self.notifier.notify(Notification::Deliveries(tenant.clone()));
    }

    /// Forgets whom a key stands for, after it was deleted or its affiliate changed.
    pub(crate) fn forget_key(&self, key_hash: &str) {
        self.callers.forget(key_hash);
        self.pages.forget(key_hash);
    }

    /// Forgets everything that another node may have changed unheard.
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

    /// Until when an event is kept that is on its way to a webhook at this moment: a day longer than its delivery is shown.
    pub(crate) fn kept_until(&self, now: Timestamp) -> Timestamp {
        now.plus_days(self.config.deliveries_kept_days() + 1)
    }

    /// Through whom plans are paid for, or the refusal of what needs them.
    pub(crate) fn stripe(&self) -> Result<&Stripe, ApiError> {
        let refusal = ApiError::Plain(ErrorCode::ProcessorNotConfigured, "plans cannot be paid for at this service");
        self.stripe.as_ref().ok_or(refusal)
    }

    /// The right to ask Stripe for a tenant. One tenant's requests wait for each other, and few of them do.
    pub(crate) async fn payer(&self, tenant: &TenantId) -> Result<Permit, ApiError> {
        let permit = self.payers.acquire(tenant.into(), MAX_WAITING_PAYERS).ok_or(DbError::Overloaded)?;
        Ok(timeout_at(Instant::now() + PAYER_TIMEOUT, permit).await.map_err(|_| DbError::Overloaded)?)
    }

    /// The time at which plans limit what is made now; `None` where they are not enforced.
    pub(crate) fn quotas_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.config.enforce_quotas.then_some(now)
    }

    /// Publishes the events of a write at this time.
    pub(crate) fn publisher(&self, now: Timestamp) -> Publisher {
        Publisher::new(self.clicks.head(), Arc::clone(&self.random), now, self.kept_until(now))
    }

    /// Wakes, after the commit, what sends the published events.
    pub(crate) fn announce(&self, publisher: &Publisher, tenant: &TenantId) {
        if publisher.has_events() {
            self.notifier.notify(Notification::Events(tenant.clone()));
        }
        if publisher.has_deliveries() {
            self.notifier.notify(Notification::Deliveries(tenant.clone()));
        }
    }

    /// The service's own host, where https serves it under a name; else an empty text.
    pub(crate) fn own_secured_name(&self) -> &str {
        match self.public_url.host() {
            Some(url::Host::Domain(_)) if self.is_https && !self.is_loopback => &self.service_host,
            _ => "",
        }
    }

    /// The address of a link: its tenant's oldest verified primary domain, else the service's own host. A link without
    /// the claim on that host keeps the domain it was made under.
    pub(crate) fn link_url(&self, link_id: &str, primary: Option<&str>) -> String {
        match primary {
            Some(domain) => format!("https://{domain}/{link_id}"),
            None => format!("{}/r/{link_id}", self.public_url.as_str().trim_end_matches('/')),
        }
    }
}

/// Bits of a position below the milliseconds: a count within the millisecond, then the node's salt.
const COUNT_BITS: u32 = POSITION_BITS - SALT_BITS;
const SALT_BITS: u32 = 10;

/// Draws the positions of new links: unique, and in the order of time. On several nodes the salt keeps them apart; the
/// unique index settles the rest.
pub(crate) struct Positions {
    last: AtomicI64,
    salt: i64,
}

impl Positions {
    fn new(random: &mut Random) -> Self {
        let salt = i64::try_from(random.below(1 << SALT_BITS)).unwrap_or(0);
        Self { last: AtomicI64::new(0), salt }
    }

    /// `count` positions that follow each other, each larger than any drawn before on this node.
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
