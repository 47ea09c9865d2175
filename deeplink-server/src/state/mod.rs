//! The state that every request can reach.

mod permits;
mod positions;

use std::sync::{Arc, Mutex, PoisonError};

use deeplink_core::domain::DomainName;
use deeplink_core::error::ErrorCode;
use deeplink_core::id::TenantId;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use deeplink_core::url::{domain_origin, link_url};
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
use crate::db::{Db, WriteError, WriteWork};
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
use crate::shares::Turn;
use crate::shares::accounts::AccountBytes;
use crate::shares::budget::Used;
use crate::shares::limit::ShareLimit;
use crate::stream::Streams;
use crate::threats::Threats;
use crate::ttl_cache::TtlCache;
use crate::uses::Uses;
use crate::vault::Vault;

pub(crate) use permits::SEARCHED_ROWS;

use permits::EXPORTS_PER_ACCOUNT;
use positions::Positions;

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

impl App {
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
            lookups: permits::lookups(),
            batches: permits::batches(),
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
