//! What every request can reach: everything is present, nothing is optional.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deeplink_core::domain::DomainName;
use deeplink_core::id::TenantId;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::brief::Brief;
use crate::cache::{Face, LinkCache};
use crate::certificates::Certificates;
use crate::clicks::Clicks;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::events::Telling;
use crate::db::{Conn, Db, DbError};
use crate::error::ApiError;
use crate::happened::{Happened, Happenings};
use crate::http::auth::{Caller, KnownKey};
use crate::http::metrics::Metrics;
use crate::http::rate_limit::Limiter;
use crate::outbound::dns::Dns;
use crate::outbound::http::Http;
use crate::outbound::places::Places;
use crate::outbound::providers::Providers;
use crate::qr::Codes;
use crate::qr::logos::Logos;
use crate::stream::Streams;
use crate::threats::Threats;
use crate::uses::Uses;
use crate::vault::Vault;
use crate::visit::association::Files;
use crate::work::mail::smtp::Smtp;

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
    pub(crate) callers: Brief<Arc<KnownKey>>,
    /// Whom a publishable key stands for, by the key's hash.
    pub(crate) pages: Brief<Arc<Caller>>,
    /// When keys were last used.
    pub(crate) uses: Arc<Uses>,
    /// Whose a host is, by name.
    pub(crate) hosts: Brief<Option<Arc<Host>>>,
    /// What a tenant shows of itself, by its id.
    pub(crate) faces: Brief<Arc<Face>>,
    /// A tenant's association files, by its id.
    pub(crate) files: Brief<Arc<Files>>,
    /// QR codes: the finished ones, and how many are drawn at one time.
    pub(crate) codes: Codes,
    /// What connections over TLS are secured with, by name.
    pub(crate) certificates: Certificates,
    /// Whom to ask for the proof of domains.
    pub(crate) dns: Dns,
    /// Places for questions to DNS that somebody waits for.
    pub(crate) lookups: Arc<Places>,
    /// Places for reports, of which a tenant has half.
    pub(crate) reports: Arc<Places>,
    /// Calls what callers named.
    pub(crate) http: Http,
    /// Whom people can sign in with.
    pub(crate) providers: Providers,
    /// Logos that were asked for lately.
    pub(crate) logos: Logos,
    /// Where no link may lead.
    pub(crate) threats: Threats,
    pub(crate) limits: Limiters,
    pub(crate) metrics: Metrics,
    pub(crate) positions: Positions,
    /// The way to the SMTP server, if mails go to one.
    pub(crate) smtp: Option<Smtp>,
    /// Wakes whoever sends mails.
    pub(crate) mail_waits: tokio::sync::Notify,
    /// Wakes whoever credits what was left for later.
    pub(crate) credit_waits: tokio::sync::Notify,
    /// Spreads what just happened on this node.
    pub(crate) happened: Arc<Happenings>,
    /// Whoever reads the event stream on this node.
    pub(crate) streams: Arc<Streams>,
    /// Set once the service is asked to stop: `/ready` says so at once.
    pub(crate) stopping: std::sync::atomic::AtomicBool,
    random: Arc<Mutex<Random>>,
    /// Likewise, for whoever waits: what would go on for long ends.
    pub(crate) ending: CancellationToken,
}

/// A verified custom host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) tenant: TenantId,
    pub(crate) alternate: bool,
}

/// Limits by client address, key or source; each node counts for itself.
pub(crate) struct Limiters {
    /// Resolves of links that are not there.
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
}

/// How long a report may take, the wait for its place included.
const REPORT: Duration = Duration::from_secs(5);
/// Reports of one tenant that may wait.
const WAITING_REPORTS: usize = 64;

impl App {
    /// Runs a report of a tenant: see [`Db::report`]. Nobody waits for another tenant's reports alone.
    pub(crate) async fn report<T, E, F>(&self, tenant: &TenantId, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbError> + Send + 'static,
        F: for<'c> FnOnce(Conn<'c>) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        let until = Instant::now() + REPORT;
        let place = self.reports.wait(tenant, WAITING_REPORTS).ok_or(DbError::Overloaded)?;
        let place = timeout_at(until, place).await.map_err(|_| DbError::Overloaded)?;
        let left = until.saturating_duration_since(Instant::now());
        let report = self.db.report(left, move |db| {
            let work = work(db);
            async move {
                let _place = place;
                work.await
            }
            .boxed()
        });
        report.await
    }

    /// Puts the parts together.
    pub(crate) fn new(
        config: Config,
        public_url: Url,
        db: Db,
        clock: Clock,
        vault: Vault,
        clicks: Arc<Clicks>,
    ) -> Self {
        let hears = db.is_sqlite();
        let mut random = Random::system();
        Self {
            links: LinkCache::new(u64::from(config.link_cache_mb) << 20, hears),
            callers: Brief::new(10_000),
            pages: Brief::new(10_000),
            uses: Arc::default(),
            hosts: Brief::new(10_000),
            certificates: Certificates::new(),
            faces: Brief::new(10_000),
            files: Brief::new(256),
            codes: Codes::new(),
            dns: Dns::new(config.dns_server),
            lookups: Places::new(1_024, 32),
            reports: Places::new(db.report_places(), db.report_places() / 2),
            http: Http::new(&config),
            providers: Providers::new(&config, &public_url),
            logos: Logos::new(),
            threats: Threats::new(config.threat_list.as_ref()),
            limits: Limiters {
                misses: Limiter::per_minute(config.limits.misses_per_minute),
                signins: Limiter::per_minute(config.limits.signins_per_minute),
                signups: Limiter::per_hour(config.limits.signups_per_hour),
                reports: Limiter::per_second(config.limits.reports_per_second, 5),
                key_reports: Limiter::per_second(config.limits.reports_per_key, 1),
                sources: Limiter::per_second(config.limits.source_per_second, 4),
            },
            metrics: Metrics::new(),
            positions: Positions::new(&mut random),
            smtp: Smtp::of(&config, &public_url),
            mail_waits: tokio::sync::Notify::new(),
            happened: Arc::new(Happenings::new()),
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
        }
    }

    /// Runs a write together with what must follow its commit, such as forgetting a cached link, to its end: a client
    /// that hangs up drops the handler, and the write would be there without its consequences.
    pub(crate) async fn to_the_end<T: Send + 'static>(
        work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
    ) -> Result<T, ApiError> {
        match tokio::spawn(tracing::Instrument::in_current_span(work)).await {
            Ok(result) => result,
            Err(_) => Err(ApiError::Internal("a write panicked".into())),
        }
    }

    /// Forgets what is remembered of a tenant, after its domains or apps changed: what it shows of itself, in its files
    /// and in each of its links.
    pub(crate) fn forget_tenant(&self, tenant: &TenantId) {
        self.faces.forget(tenant.as_str());
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
        self.faces.forget_all();
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

    /// What a write of this moment tells with.
    pub(crate) fn telling(&self, now: Timestamp) -> Telling {
        Telling::new(self.clicks.head(), Arc::clone(&self.random), now, self.kept_until(now))
    }

    /// Says, after the commit, what a write has told.
    pub(crate) fn told(&self, telling: &Telling, tenant: &TenantId) {
        if telling.is_told() {
            self.happened.say(Happened::Events(tenant.clone()));
        }
        if telling.is_delivered() {
            self.happened.say(Happened::Deliveries(tenant.clone()));
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
const COUNT_BITS: u32 = 11;
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
