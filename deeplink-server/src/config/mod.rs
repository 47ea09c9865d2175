//! All settings, each variable next to its default. Nothing else reads the environment.
//!
//! A variable `DEEPLINK_X_Y` has the flag `--x-y`, except where it can hold a secret: those have no flag, because
//! command lines are visible to every user of the machine. Each can instead be read from a file named by `DEEPLINK_X_FILE`.
//! An empty variable counts as unset. An invalid value stops the startup with an error that names the variable.

mod billing;
mod database;
mod environment;
mod mail;
mod master_key;
mod networks;
mod oauth;
mod settings;
mod tls;
mod values;
mod x402;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use deeplink_core::plan::{self, Tier};
use deeplink_core::webhook::DELIVERY_RETENTION_DAYS;
use ipnet::IpNet;
use lettre::message::Mailbox;
use url::{Host, Url};

pub(crate) use settings::DEFAULT_DATA_DIR;
use settings::{optional, or_default, setting};
use values::{
    address, country_source, either, home_url, host_name, key_ids, log_filter, master_keys, name_server, number,
    outbound_allow, public_url,
};

use crate::country::CountrySource;
use crate::threats::ThreatFile;

pub use billing::{StripeAccount, StripePrices};
pub use database::DatabaseUrl;
pub use environment::Environment;
pub use mail::{MailTransport, SmtpUrl};
pub(crate) use master_key::is_key_id;
pub use master_key::{MasterKey, NotAMasterKey};
pub use networks::Networks;
pub use oauth::{OauthProvider, OauthProviders};
pub use settings::{BadSetting, SECRETS_HELP, Settings};
pub use tls::{Tls, TrustedRoots};
pub use x402::X402;

/// See [`Config::database_timeout`].
const DATABASE_TIMEOUT: Duration = Duration::from_secs(2);
/// The same in tests, where a stalled machine must not fail a request.
pub(crate) const TEST_DATABASE_TIMEOUT: Duration = Duration::from_secs(30);

/// The validated settings.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Directory for the key file, the click journal and mail files.
    pub data_dir: PathBuf,
    /// The database.
    pub database: DatabaseUrl,
    /// How long an operation may wait for the database before it is refused without being run. Not configurable.
    pub database_timeout: Duration,
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Address of the operators' listener.
    pub admin_listen: Option<SocketAddr>,
    /// URL under which clients reach the service, if configured; see [`Config::public_url_at`].
    pub public_url: Option<Url>,
    /// TLS served by this process, if configured.
    pub tls: Option<Tls>,
    /// CA certificates to trust in addition to the system's.
    pub outbound_ca: Option<TrustedRoots>,
    /// Non-public networks that may be called, at any port: for development and tests.
    pub outbound_allow: Networks,
    /// DNS server for verifying custom domains and resolving the hosts of webhooks and logos; `None` uses the system's.
    pub dns_server: Option<SocketAddr>,
    /// Host that custom domains point to, if configured; see [`Config::cname_target_at`].
    pub cname_target: Option<String>,
    /// URLs and hosts that links must not lead to.
    pub threat_list: Option<ThreatFile>,
    /// Master keys from the environment; if empty, the key file is used.
    pub master_keys: Vec<MasterKey>,
    /// Ids of permanently lost master keys; values that need them remain unreadable.
    pub lost_master_keys: Vec<String>,
    /// Networks of the proxies whose `X-Forwarded-*` headers are trusted, and that may open as many connections as there are.
    pub trusted_proxies: Vec<IpNet>,
    /// Where the country of visitors comes from.
    pub country: Option<CountrySource>,
    /// Whether anyone may create an account.
    pub signup_open: bool,
    /// Whether the first start of a server for its own machine creates an account.
    pub first_account: bool,
    /// Whether people can sign up and sign in.
    pub sessions: bool,
    /// Where mails go, if configured; see [`Config::mail_at`].
    pub mail: Option<MailTransport>,
    /// Sender of mails, if configured; see [`Config::mail_from_at`].
    pub mail_from: Option<Mailbox>,
    /// Website that invitations link to, if not this service; see [`Config::marketing_url_at`].
    pub marketing_url: Option<Url>,
    /// Where people who open the home page are redirected; `None` shows them one.
    pub home_url: Option<Url>,
    /// Identity providers to sign in with.
    pub oauth: OauthProviders,
    /// Whether accounts can see their plan and usage.
    pub billing: bool,
    /// The payment processor for plans.
    pub stripe: Option<StripeAccount>,
    /// Payments for single requests, if enabled.
    pub x402: Option<X402>,
    /// Whether the limits of plans are enforced.
    pub enforce_quotas: bool,
    /// Rate limits.
    pub limits: Limits,
    /// Maximum number of webhooks per account.
    pub webhook_limit: u32,
    /// Memory for the link cache, in MiB.
    pub link_cache_mb: u32,
    /// Days after which links of a tenant without a verified domain expire; 0 = never.
    pub unverified_link_ttl_days: u32,
    /// Days to keep individual clicks and other events; 0 = indefinitely.
    pub retention_days: u32,
    /// Log level or filter.
    pub log: String,
}

/// Rate limits; 0 = unlimited.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Limits {
    /// Requests for nonexistent links per minute for each IP address.
    pub misses_per_minute: u32,
    /// Sign-in attempts per minute for each IP address.
    pub signins_per_minute: u32,
    /// Sign-ups per hour for each IP address.
    pub signups_per_hour: u32,
    /// Requests per second for each publishable key and IP address, with bursts of five times that.
    pub reports_per_second: u32,
    /// Requests per second for each publishable key, from all addresses together.
    pub reports_per_key: u32,
    /// Conversions per second for each source, with bursts of four times that.
    pub source_per_second: u32,
    /// Payments for single requests per minute for each IP address.
    pub payments_per_minute: u32,
    /// Wallets that pay for the first time per hour for each IP address. Not configurable.
    pub wallets_per_hour: u32,
}

impl Config {
    /// Parses all settings; the error names the first invalid one.
    pub fn read(settings: &Settings, environment: &Environment) -> Result<Self, BadSetting> {
        let data_dir = PathBuf::from(or_default("DEEPLINK_DATA_DIR", &settings.data_dir));
        let database = match environment.secret("DEEPLINK_DATABASE_URL")? {
            Some(text) => setting("DEEPLINK_DATABASE_URL", &text, str::parse)?,
            None => DatabaseUrl::sqlite(&data_dir.join("deeplink.db")),
        };
        let master_keys = match environment.secret("DEEPLINK_MASTER_KEY")? {
            Some(text) => setting("DEEPLINK_MASTER_KEY", &text, master_keys)?,
            None => Vec::new(),
        };
        let public_url = optional("DEEPLINK_PUBLIC_URL", settings.public_url.as_deref(), public_url)?;
        let outbound_allow = optional("DEEPLINK_OUTBOUND_ALLOW", settings.outbound_allow.as_deref(), |text| {
            outbound_allow(text, public_url.as_ref())
        })?;
        let listen = Self::listen_address(settings)?;
        let home_url = optional("DEEPLINK_HOME_URL", settings.home_url.as_deref(), |text| {
            home_url(text, &public_url.clone().unwrap_or_else(|| own_url(listen)))
        })?;
        let billing = setting("DEEPLINK_BILLING", &settings.billing, |text| either(text, "on", "off"))?;
        let stripe = StripeAccount::read(settings, environment)?.filter(|_| billing);
        let quotas = optional("DEEPLINK_QUOTAS", settings.quotas.as_deref(), |text| either(text, "enforce", "off"))?;
        let trusted_proxies = optional("DEEPLINK_TRUSTED_PROXIES", settings.trusted_proxies.as_deref(), str::parse)?
            .map(|Networks(networks)| networks)
            .unwrap_or_default();
        let days = |text: &str| number(text, 0, 36_500);
        let limit = |text: &str| number(text, 0, 1_000_000_000);
        Ok(Self {
            data_dir,
            database,
            database_timeout: DATABASE_TIMEOUT,
            listen,
            admin_listen: optional("DEEPLINK_ADMIN_LISTEN", settings.admin_listen.as_deref(), address)?,
            public_url,
            tls: Tls::read(
                settings.tls_listen.as_deref(),
                settings.acme_directory.as_deref(),
                settings.acme_contact.as_deref(),
            )?,
            outbound_ca: optional("DEEPLINK_OUTBOUND_CA", settings.outbound_ca.as_deref(), |path| {
                TrustedRoots::read(Path::new(path))
            })?,
            outbound_allow: outbound_allow.unwrap_or_default(),
            dns_server: optional("DEEPLINK_DNS_SERVER", settings.dns_server.as_deref(), name_server)?,
            cname_target: optional("DEEPLINK_CNAME_TARGET", settings.cname_target.as_deref(), host_name)?,
            threat_list: optional("DEEPLINK_THREAT_LIST", settings.threat_list.as_deref(), |path| {
                ThreatFile::read(Path::new(path))
            })?,
            master_keys,
            lost_master_keys: optional("DEEPLINK_LOST_MASTER_KEYS", settings.lost_master_keys.as_deref(), key_ids)?
                .unwrap_or_default(),
            country: country_source(settings, &trusted_proxies)?,
            trusted_proxies,
            signup_open: setting("DEEPLINK_SIGNUP", &settings.signup, |text| either(text, "open", "closed"))?,
            first_account: setting("DEEPLINK_FIRST_ACCOUNT", &settings.first_account, |text| {
                either(text, "on", "off")
            })?,
            sessions: setting("DEEPLINK_SESSIONS", &settings.sessions, |text| either(text, "on", "off"))?,
            mail: MailTransport::read(settings.mail_dir.as_deref(), environment)?,
            mail_from: optional("DEEPLINK_MAIL_FROM", settings.mail_from.as_deref(), |text| {
                text.parse()
                    .map_err(|_| format!("{text:?} is not a sender address such as deeplink <links@example.com>"))
            })?,
            marketing_url: optional("DEEPLINK_MARKETING_URL", settings.marketing_url.as_deref(), self::public_url)?,
            home_url,
            oauth: OauthProviders {
                google: OauthProvider::read(
                    "GOOGLE",
                    settings.oauth_google_client_id.as_deref(),
                    settings.oauth_google_issuer_base.as_deref(),
                    environment,
                )?,
                github: OauthProvider::read(
                    "GITHUB",
                    settings.oauth_github_client_id.as_deref(),
                    settings.oauth_github_issuer_base.as_deref(),
                    environment,
                )?,
            },
            billing,
            // With plans for sale, limits are enforced by default.
            enforce_quotas: quotas.unwrap_or(stripe.is_some()),
            stripe,
            x402: X402::read(settings, environment)?,
            limits: Limits {
                misses_per_minute: setting("DEEPLINK_LIMIT_MISSES", &settings.limit_misses, limit)?,
                signins_per_minute: setting("DEEPLINK_LIMIT_SIGNIN", &settings.limit_signin, limit)?,
                signups_per_hour: setting("DEEPLINK_LIMIT_SIGNUP", &settings.limit_signup, limit)?,
                reports_per_second: setting("DEEPLINK_LIMIT_PK", &settings.limit_pk, limit)?,
                reports_per_key: setting("DEEPLINK_LIMIT_PK_KEY", &settings.limit_pk_key, limit)?,
                source_per_second: setting("DEEPLINK_LIMIT_SOURCE", &settings.limit_source, limit)?,
                payments_per_minute: setting("DEEPLINK_LIMIT_PAYER", &settings.limit_payer, limit)?,
                wallets_per_hour: 20,
            },
            webhook_limit: setting("DEEPLINK_WEBHOOK_LIMIT", &settings.webhook_limit, |text| number(text, 1, 100))?,
            link_cache_mb: setting("DEEPLINK_LINK_CACHE_MB", &settings.link_cache_mb, |text| number(text, 1, 65_536))?,
            unverified_link_ttl_days: setting(
                "DEEPLINK_UNVERIFIED_LINK_TTL_DAYS",
                &settings.unverified_link_ttl_days,
                days,
            )?,
            retention_days: setting("DEEPLINK_RETENTION_DAYS", &settings.retention_days, days)?,
            log: setting("DEEPLINK_LOG", &settings.log, log_filter)?,
        })
    }

    /// [`Config::listen`], whatever the other settings are.
    pub(crate) fn listen_address(settings: &Settings) -> Result<SocketAddr, BadSetting> {
        setting("DEEPLINK_LISTEN", &settings.listen, address)
    }

    /// The limits of a plan on this service.
    pub(crate) fn limits_of(&self, tier: &Tier) -> plan::Limits {
        plan::Limits { max_webhooks: Some(self.webhook_limit.into()), ..tier.limits() }
    }

    /// The defaults, with everything in one directory, a free port and a long database timeout: for servers inside tests.
    pub fn for_tests(data_dir: impl Into<PathBuf>) -> Self {
        let data_dir = data_dir.into();
        #[expect(clippy::expect_used, reason = "the defaults are valid")]
        let defaults = Self::read(&Settings::default(), &Environment::default()).expect("the defaults are valid");
        Self {
            database: DatabaseUrl::sqlite(&data_dir.join("deeplink.db")),
            database_timeout: TEST_DATABASE_TIMEOUT,
            data_dir,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            limits: Limits::default(),
            link_cache_mb: 4,
            ..defaults
        }
    }

    /// Days to keep deliveries: as long as individual clicks, but at most thirty.
    pub(crate) fn deliveries_kept_days(&self) -> i64 {
        match i64::from(self.retention_days) {
            0 => DELIVERY_RETENTION_DAYS,
            days => days.min(DELIVERY_RETENTION_DAYS),
        }
    }

    /// URL under which clients reach the service: the configured one, or else the bound address, with `localhost` for an
    /// unspecified address.
    pub fn public_url_at(&self, bound: SocketAddr) -> Url {
        self.public_url.clone().unwrap_or_else(|| own_url(bound))
    }

    /// Where mails go: as configured, or else into `mail` in the data directory if the public URL is a loopback address.
    /// `None`: no mail, so no sign-up and no sign-in by mail.
    pub fn mail_at(&self, public_url: &Url) -> Option<MailTransport> {
        if !self.sessions {
            return None;
        }
        let own = is_loopback(public_url).then(|| MailTransport::Directory(self.data_dir.join("mail")));
        self.mail.clone().or(own)
    }

    /// The website that invitations link to: the configured one, or else the service itself.
    pub fn marketing_url_at(&self, public_url: &Url) -> Url {
        self.marketing_url.clone().unwrap_or_else(|| public_url.clone())
    }

    /// The sender of mails.
    pub fn mail_from_at(&self, public_url: &Url) -> Option<Mailbox> {
        let host = match public_url.host() {
            Some(Host::Domain(host)) => host,
            _ => "localhost",
        };
        self.mail_from.clone().or_else(|| format!("deeplink <no-reply@{host}>").parse().ok())
    }

    /// Host that custom domains point to: the configured one, or else the public URL's.
    pub fn cname_target_at(&self, public_url: &Url) -> String {
        self.cname_target.clone().unwrap_or_else(|| public_url.host_str().unwrap_or_default().to_owned())
    }

    /// The path of the key file.
    pub fn key_file(&self) -> PathBuf {
        self.data_dir.join("master.key")
    }
}

/// Whether a URL's host is `localhost` or a loopback address.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(host)) => host == "localhost" || host.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn own_url(bound: SocketAddr) -> Url {
    let host = if bound.ip().is_unspecified() {
        "localhost".to_owned()
    } else {
        SocketAddr::new(bound.ip(), 0).to_string().trim_end_matches(":0").to_owned()
    };
    #[expect(clippy::expect_used, reason = "an address is always a valid host")]
    Url::parse(&format!("http://{host}:{}", bound.port())).expect("an address is a host")
}

#[cfg(test)]
mod tests;
