//! Everything an operator can set, each variable beside its default. Nothing else reads the environment.
//!
//! A variable `DEEPLINK_X_Y` has the flag `--x-y`, except where it can hold a secret: those have no flag, because
//! command lines are visible to everybody on the machine, but each can be read from a file named by `DEEPLINK_X_FILE`.
//! An empty variable counts as absent. A bad value stops the start with its name.

mod environment;
mod mail;
mod networks;
mod oauth;
mod tls;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::CommandFactory;
use deeplink_core::webhook::DELIVERIES_KEPT_DAYS;
use ipnet::IpNet;
use lettre::message::Mailbox;
use url::{Host, Url};

use crate::threats::ThreatFile;
use crate::vault::MasterKey;

pub use environment::Environment;
pub use mail::{MailTransport, SmtpUrl};
pub use networks::Networks;
pub use oauth::{OauthProvider, OauthProviders};
pub use tls::{Tls, TrustedRoots};

/// What `--help` says about the variables that have no flag.
pub const SECRETS_HELP: &str = "\
Variables without a flag, because they can hold a secret (each also as X_FILE, the name of a file with the value):
  DEEPLINK_DATABASE_URL  sqlite://PATH or postgres://USER:PASSWORD@HOST/NAME [default: deeplink.db in the data directory]
  DEEPLINK_MASTER_KEY    32 bytes in base64; several separated by commas: the first seals, all open
                         [default: master.key in the data directory, made at the first start]
  DEEPLINK_SMTP_URL      smtps://USER:PASSWORD@HOST[:PORT], or smtp://…?tls=required for STARTTLS: mails go out there
                         [default: none; see DEEPLINK_MAIL_DIR]
  DEEPLINK_OAUTH_GOOGLE_CLIENT_SECRET, DEEPLINK_OAUTH_GITHUB_CLIENT_SECRET
                         for signing in with that provider, with its client id [default: none]";

/// The flags and their variables, as text; [`Config::read`] gives them meaning.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Settings")]
pub struct Settings {
    /// Directory of the key file, the spill file, mails and, unless said otherwise, the database
    #[arg(long, global = true, env = "DEEPLINK_DATA_DIR", value_name = "DIR", default_value = "./data")]
    data_dir: String,
    /// Address to serve on; port 0 takes a free one
    #[arg(long, global = true, env = "DEEPLINK_LISTEN", value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    listen: String,
    /// Address of /metrics, /health and /ready for operators; keep it private [default: off]
    #[arg(long, global = true, env = "DEEPLINK_ADMIN_LISTEN", value_name = "IP:PORT")]
    admin_listen: Option<String>,
    /// Where people reach the service: https:// and a host [default: http:// and the address served on]
    #[arg(long, global = true, env = "DEEPLINK_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
    /// Address to serve https on, with certificates from DEEPLINK_ACME_DIRECTORY; port 0 takes a free one [default: off]
    #[arg(long, global = true, env = "DEEPLINK_TLS_LISTEN", value_name = "IP:PORT")]
    tls_listen: Option<String>,
    /// Directory of the ACME server that issues certificates for verified custom domains and, when the public URL is
    /// https, its host. Each name must reach DEEPLINK_LISTEN at port 80. Setting it accepts that server's terms
    /// [default: off]
    #[arg(long, global = true, env = "DEEPLINK_ACME_DIRECTORY", value_name = "URL")]
    acme_directory: Option<String>,
    /// Mail address that the ACME server may write to, such as before a certificate expires [default: none]
    #[arg(long, global = true, env = "DEEPLINK_ACME_CONTACT", value_name = "ADDRESS")]
    acme_contact: Option<String>,
    /// PEM file with certificates of authorities to trust beside the system's, where this service calls others, such as
    /// the one that your own receiver of webhooks has its certificate from [default: none]
    #[arg(long, global = true, env = "DEEPLINK_OUTBOUND_CA", value_name = "FILE")]
    outbound_ca: Option<String>,
    /// Networks that webhooks and logos may also be at, at any port, separated by commas, such as 127.0.0.0/8 for a receiver on
    /// this machine: for development only, and refused with a public https URL, because whoever has an account could reach
    /// them through this service [default: none]
    #[arg(long, global = true, env = "DEEPLINK_OUTBOUND_ALLOW", value_name = "CIDRS")]
    outbound_allow: Option<String>,
    /// Name server to ask for the proof of custom domains and for the hosts of webhooks and logos [default: the system's]
    #[arg(long, global = true, env = "DEEPLINK_DNS_SERVER", value_name = "IP:PORT")]
    dns_server: Option<String>,
    /// Host that custom domains are pointed to with a CNAME record [default: the public URL's host]
    #[arg(long, global = true, env = "DEEPLINK_CNAME_TARGET", value_name = "HOST")]
    cname_target: Option<String>,
    /// File of URLs and hosts that no link may lead to, one a line, with # comments; a host covers its subdomains. It is
    /// read again when it changes, and links that lead there by then are flagged [default: none]
    #[arg(long, global = true, env = "DEEPLINK_THREAT_LIST", value_name = "FILE")]
    threat_list: Option<String>,
    /// Networks of the proxies whose forwarding headers count, separated by commas [default: none]
    #[arg(long, global = true, env = "DEEPLINK_TRUSTED_PROXIES", value_name = "CIDRS")]
    trusted_proxies: Option<String>,
    /// Whether anybody may open an account, by signing up or by a first sign-in: open, closed
    #[arg(long, global = true, env = "DEEPLINK_SIGNUP", value_name = "WORD", default_value = "open")]
    signup: String,
    /// Whether people may sign up and sign in, by mail or with a provider: on, off
    #[arg(long, global = true, env = "DEEPLINK_SESSIONS", value_name = "WORD", default_value = "on")]
    sessions: String,
    /// Directory that each mail is written to as one .eml file [default: mail in the data directory when the public URL
    /// is this machine's, else none]
    #[arg(long, global = true, env = "DEEPLINK_MAIL_DIR", value_name = "DIR")]
    mail_dir: Option<String>,
    /// Sender of mails [default: no-reply at the public URL's host]
    #[arg(long, global = true, env = "DEEPLINK_MAIL_FROM", value_name = "ADDRESS")]
    mail_from: Option<String>,
    /// Website whose /signin people come to from an invitation: https:// and a host [default: the public URL]
    #[arg(long, global = true, env = "DEEPLINK_MARKETING_URL", value_name = "URL")]
    marketing_url: Option<String>,
    /// Client id for signing in with Google; its secret is DEEPLINK_OAUTH_GOOGLE_CLIENT_SECRET [default: off]
    #[arg(long, global = true, env = "DEEPLINK_OAUTH_GOOGLE_CLIENT_ID", value_name = "ID")]
    oauth_google_client_id: Option<String>,
    /// Where to find Google's endpoints /authorize, /token and /userinfo, for tests [default: Google's own]
    #[arg(long, global = true, env = "DEEPLINK_OAUTH_GOOGLE_ISSUER_BASE", value_name = "URL")]
    oauth_google_issuer_base: Option<String>,
    /// Client id for signing in with GitHub; its secret is DEEPLINK_OAUTH_GITHUB_CLIENT_SECRET [default: off]
    #[arg(long, global = true, env = "DEEPLINK_OAUTH_GITHUB_CLIENT_ID", value_name = "ID")]
    oauth_github_client_id: Option<String>,
    /// Where to find GitHub's endpoints /login/oauth/authorize, /login/oauth/access_token, /user and /user/emails, for
    /// tests [default: GitHub's own]
    #[arg(long, global = true, env = "DEEPLINK_OAUTH_GITHUB_ISSUER_BASE", value_name = "URL")]
    oauth_github_issuer_base: Option<String>,
    /// Whether plans limit their tenants: enforce, off
    #[arg(long, global = true, env = "DEEPLINK_QUOTAS", value_name = "WORD", default_value = "off")]
    quotas: String,
    /// Taps on unknown links that one address may make in a minute; 0 = any number
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_MISSES", value_name = "N", default_value = "600")]
    limit_misses: String,
    /// Sign-ins that one address may begin in a minute; 0 = any number
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_SIGNIN", value_name = "N", default_value = "10")]
    limit_signin: String,
    /// Sign-ups that one address may make in an hour; 0 = any number
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_SIGNUP", value_name = "N", default_value = "5")]
    limit_signup: String,
    /// Reports that one address may make in a second with one publishable key, after a burst of five times as many; 0 =
    /// any number
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_PK", value_name = "N", default_value = "20")]
    limit_pk: String,
    /// Reports that may be made in a second with one publishable key; 0 = any number
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_PK_KEY", value_name = "N", default_value = "2000")]
    limit_pk_key: String,
    /// Conversions that may be posted to one source in a second, after a burst of four times as many; 0 = any number
    #[arg(long, global = true, env = "DEEPLINK_LIMIT_SOURCE", value_name = "N", default_value = "50")]
    limit_source: String,
    /// Memory for links that were asked for lately, in MiB
    #[arg(long, global = true, env = "DEEPLINK_LINK_CACHE_MB", value_name = "MIB", default_value = "32")]
    link_cache_mb: String,
    /// Days after which links of a tenant without a verified domain expire; 0 = never
    #[arg(long, global = true, env = "DEEPLINK_UNVERIFIED_LINK_TTL_DAYS", value_name = "DAYS", default_value = "30")]
    unverified_link_ttl_days: String,
    /// Days for which single clicks are kept; counts stay. 0 = for ever; where plans limit, the plan's value holds
    #[arg(long, global = true, env = "DEEPLINK_RETENTION_DAYS", value_name = "DAYS", default_value = "0")]
    retention_days: String,
    /// What to log: a level, or a filter such as info,deeplink_server=debug
    #[arg(long, global = true, env = "DEEPLINK_LOG", value_name = "FILTER", default_value = "info")]
    log: String,
}

/// A setting that cannot be used; the message begins with the variable's name.
#[derive(Debug, thiserror::Error)]
#[error("{variable}: {problem}")]
pub struct BadSetting {
    /// The variable at fault.
    pub variable: String,
    problem: String,
}

/// Carries the settings for clap's metadata; the real command line is in `admin`.
#[derive(clap::Parser)]
struct Bare {
    #[command(flatten)]
    settings: Settings,
}

/// See [`Config::database_patience`].
const DATABASE_PATIENCE: Duration = Duration::from_secs(2);
/// The same in tests, where a machine that stands still for a while is no fault of the service.
pub(crate) const BUSY_MACHINE: Duration = Duration::from_secs(30);

/// How the server is set up, checked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// Directory of the key file, the spill file and mails.
    pub data_dir: PathBuf,
    /// Where the data lives.
    pub database: DatabaseUrl,
    /// How long work may wait for the database before it is refused, unexecuted. Two seconds; operators cannot set it.
    pub database_patience: Duration,
    /// Address to serve on.
    pub listen: SocketAddr,
    /// Address for operators.
    pub admin_listen: Option<SocketAddr>,
    /// Where people reach the service, if the operator said it; see [`Config::public_url_at`].
    pub public_url: Option<Url>,
    /// TLS of our own, if the operator wants it.
    pub tls: Option<Tls>,
    /// Authorities to trust beside the system's.
    pub outbound_ca: Option<TrustedRoots>,
    /// Networks that are called although they are not public, at any port: for development and tests.
    pub outbound_allow: Networks,
    /// Name server to ask for the proof of custom domains and for the hosts of webhooks and logos; without one, the system's are
    /// asked.
    pub dns_server: Option<SocketAddr>,
    /// Host that custom domains are pointed to, if the operator said it; see [`Config::cname_target_at`].
    pub cname_target: Option<String>,
    /// URLs and hosts that no link may lead to.
    pub threat_list: Option<ThreatFile>,
    /// Server keys from the environment; empty means the key file.
    pub master_keys: Vec<MasterKey>,
    /// Networks of the proxies whose forwarding headers count.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether anybody may open an account.
    pub signup_open: bool,
    /// Whether people may sign up and sign in by mail.
    pub sessions: bool,
    /// Where mails go, if the operator said it; see [`Config::mail_at`].
    pub mail: Option<MailTransport>,
    /// Sender of mails, if the operator said it; see [`Config::mail_from_at`].
    pub mail_from: Option<Mailbox>,
    /// Website that people come to from an invitation, if it is not the service's own; see
    /// [`Config::marketing_url_at`].
    pub marketing_url: Option<Url>,
    /// Identity providers to sign in with.
    pub oauth: OauthProviders,
    /// Whether plans limit their tenants.
    pub enforce_quotas: bool,
    /// How much one address may ask for.
    pub limits: Limits,
    /// Memory for the link cache, in MiB.
    pub link_cache_mb: u32,
    /// Days until links of a tenant without a verified domain expire; 0 = never.
    pub unverified_link_ttl_days: u32,
    /// Days for which single clicks are kept; 0 = for ever.
    pub retention_days: u32,
    /// What to log.
    pub log: String,
}

/// How much one address may ask for; 0 = any amount.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Limits {
    /// Taps on unknown links in a minute.
    pub misses_per_minute: u32,
    /// Sign-ins in a minute.
    pub signins_per_minute: u32,
    /// Sign-ups in an hour.
    pub signups_per_hour: u32,
    /// Reports with one publishable key in a second, after a burst of five times as many.
    pub reports_per_second: u32,
    /// Reports with one publishable key in a second, from all addresses together.
    pub reports_per_key: u32,
    /// Conversions posted to one source in a second, after a burst of four times as many.
    pub source_per_second: u32,
}

/// Which database to open: `sqlite://PATH` or `postgres://…`. It can hold a password, so it does not show itself.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(Box<str>);

impl DatabaseUrl {
    /// The file.
    pub fn sqlite(path: &Path) -> Self {
        Self(format!("sqlite://{}", path.display()).into())
    }

    /// The whole URL, with the password if it has one.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The file, if it is one.
    pub fn sqlite_path(&self) -> Option<&Path> {
        self.0.strip_prefix("sqlite://").map(Path::new)
    }
}

/// Shows where the database is, without user, password and parameters.
impl std::fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.sqlite_path().is_some() {
            return f.write_str(&self.0);
        }
        let url = Url::parse(&self.0).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let port = url.as_ref().and_then(Url::port).map(|port| format!(":{port}")).unwrap_or_default();
        write!(f, "postgres://{host}{port}{}", url.as_ref().map_or("", Url::path))
    }
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl FromStr for DatabaseUrl {
    type Err = String;

    // What is refused may hold a password, so no message repeats it.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("sqlite://") {
            Some("" | ":memory:") => Err("sqlite:// must be followed by the path of a file".into()),
            Some(path) if path.contains('?') => Err("parameters after the path are not supported".into()),
            Some(_) => Ok(Self(text.into())),
            None => match Url::parse(text) {
                Ok(url) if matches!(url.scheme(), "postgres" | "postgresql") => Ok(Self(text.into())),
                _ => Err("not a URL of the form sqlite://PATH or postgres://USER:PASSWORD@HOST/NAME".into()),
            },
        }
    }
}

impl Config {
    /// Reads every setting, or says which one cannot be used.
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
        let days = |text: &str| number(text, 0, 36_500);
        let limit = |text: &str| number(text, 0, 1_000_000_000);
        Ok(Self {
            data_dir,
            database,
            database_patience: DATABASE_PATIENCE,
            listen: setting("DEEPLINK_LISTEN", &settings.listen, address)?,
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
            trusted_proxies: optional("DEEPLINK_TRUSTED_PROXIES", settings.trusted_proxies.as_deref(), str::parse)?
                .map(|Networks(networks)| networks)
                .unwrap_or_default(),
            signup_open: setting("DEEPLINK_SIGNUP", &settings.signup, |text| either(text, "open", "closed"))?,
            sessions: setting("DEEPLINK_SESSIONS", &settings.sessions, |text| either(text, "on", "off"))?,
            mail: MailTransport::read(settings.mail_dir.as_deref(), environment)?,
            mail_from: optional("DEEPLINK_MAIL_FROM", settings.mail_from.as_deref(), |text| {
                text.parse().map_err(|_| format!("{text:?} is not an address, such as deeplink <links@example.com>"))
            })?,
            marketing_url: optional("DEEPLINK_MARKETING_URL", settings.marketing_url.as_deref(), self::public_url)?,
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
            enforce_quotas: setting("DEEPLINK_QUOTAS", &settings.quotas, |text| either(text, "enforce", "off"))?,
            limits: Limits {
                misses_per_minute: setting("DEEPLINK_LIMIT_MISSES", &settings.limit_misses, limit)?,
                signins_per_minute: setting("DEEPLINK_LIMIT_SIGNIN", &settings.limit_signin, limit)?,
                signups_per_hour: setting("DEEPLINK_LIMIT_SIGNUP", &settings.limit_signup, limit)?,
                reports_per_second: setting("DEEPLINK_LIMIT_PK", &settings.limit_pk, limit)?,
                reports_per_key: setting("DEEPLINK_LIMIT_PK_KEY", &settings.limit_pk_key, limit)?,
                source_per_second: setting("DEEPLINK_LIMIT_SOURCE", &settings.limit_source, limit)?,
            },
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

    /// The defaults, with everything in one directory, a free port, and patience with the database: for servers inside
    /// tests.
    pub fn for_tests(data_dir: impl Into<PathBuf>) -> Self {
        let data_dir = data_dir.into();
        Self {
            database: DatabaseUrl::sqlite(&data_dir.join("deeplink.db")),
            database_patience: BUSY_MACHINE,
            data_dir,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            admin_listen: None,
            public_url: None,
            tls: None,
            outbound_ca: None,
            outbound_allow: Networks::default(),
            dns_server: None,
            cname_target: None,
            threat_list: None,
            master_keys: Vec::new(),
            trusted_proxies: Vec::new(),
            signup_open: true,
            sessions: true,
            mail: None,
            mail_from: None,
            marketing_url: None,
            oauth: OauthProviders::default(),
            enforce_quotas: false,
            limits: Limits::default(),
            link_cache_mb: 4,
            unverified_link_ttl_days: 30,
            retention_days: 0,
            log: "info".into(),
        }
    }

    /// For how many days deliveries are shown: as long as single clicks are kept, and thirty at most.
    pub(crate) fn deliveries_kept_days(&self) -> i64 {
        match i64::from(self.retention_days) {
            0 => DELIVERIES_KEPT_DAYS,
            days => days.min(DELIVERIES_KEPT_DAYS),
        }
    }

    /// Where people reach the service: what the operator said, else the bound address, where "every address" counts
    /// as `localhost`.
    pub fn public_url_at(&self, bound: SocketAddr) -> Url {
        self.public_url.clone().unwrap_or_else(|| own_url(bound))
    }

    /// Where mails go: what the operator said, else the directory `mail` in the data directory when the public URL is this
    /// machine's. `None`: nobody can be mailed, so nobody can sign up or sign in.
    pub fn mail_at(&self, public_url: &Url) -> Option<MailTransport> {
        if !self.sessions {
            return None;
        }
        let own = is_loopback(public_url).then(|| MailTransport::Directory(self.data_dir.join("mail")));
        self.mail.clone().or(own)
    }

    /// The website that people come to from an invitation: what the operator said, else the service's own.
    pub fn marketing_url_at(&self, public_url: &Url) -> Url {
        self.marketing_url.clone().unwrap_or_else(|| public_url.clone())
    }

    /// Who mails come from.
    pub fn mail_from_at(&self, public_url: &Url) -> Option<Mailbox> {
        let host = match public_url.host() {
            Some(Host::Domain(host)) => host,
            _ => "localhost",
        };
        self.mail_from.clone().or_else(|| format!("deeplink <no-reply@{host}>").parse().ok())
    }

    /// Host that custom domains are pointed to: what the operator said, else the public URL's.
    pub fn cname_target_at(&self, public_url: &Url) -> String {
        self.cname_target.clone().unwrap_or_else(|| public_url.host_str().unwrap_or_default().to_owned())
    }

    /// The key file.
    pub fn key_file(&self) -> PathBuf {
        self.data_dir.join("master.key")
    }
}

/// Whether a URL leads to the machine it is opened on.
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

/// What an empty value stands for, from the one place where defaults are written.
fn or_default(variable: &str, given: &str) -> String {
    if !given.is_empty() {
        return given.to_owned();
    }
    let command = Bare::command();
    let arg = command.get_arguments().find(|arg| arg.get_env().is_some_and(|env| env == variable));
    let default = arg.and_then(|arg| arg.get_default_values().first()?.to_str().map(str::to_owned));
    default.unwrap_or_default()
}

fn setting<T>(variable: &str, given: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, BadSetting> {
    parse(or_default(variable, given).trim()).map_err(|problem| BadSetting { variable: variable.into(), problem })
}

fn optional<T>(
    variable: &str,
    given: Option<&str>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, BadSetting> {
    given.filter(|text| !text.trim().is_empty()).map(|text| setting(variable, text, parse)).transpose()
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not an address of the form IP:PORT, such as 127.0.0.1:8080"))
}

fn name_server(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not the address of a name server, such as 192.0.2.53:53"))
}

fn host_name(text: &str) -> Result<String, String> {
    match Host::parse(text) {
        Ok(Host::Domain(host)) if !host.ends_with('.') => Ok(host),
        _ => Err(format!("{text:?} is not a host name, such as links.example.com")),
    }
}

fn number(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let value = text.parse().ok().filter(|value| (least..=most).contains(value));
    value.ok_or_else(|| format!("{text:?} is not a number from {least} to {most}"))
}

fn either(text: &str, yes: &str, no: &str) -> Result<bool, String> {
    match text {
        text if text == yes => Ok(true),
        text if text == no => Ok(false),
        _ => Err(format!("{text:?} is neither {yes} nor {no}")),
    }
}

fn public_url(text: &str) -> Result<Url, String> {
    let wrong = |why: &str| Err(format!("{text:?} {why}"));
    match Url::parse(text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") || !url.has_host() => {
            wrong("is not of the form https://HOST")
        }
        // What is repeated could be a password, so it is not.
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("a user or password has no place here".into())
        }
        Ok(url) if url.path() != "/" || url.query().is_some() || url.fragment().is_some() => {
            wrong("has a path: the service is always at the root of its host")
        }
        Ok(url) => Ok(url),
        Err(_) => wrong("is not a URL, such as https://links.example.com"),
    }
}

/// What is open to every account must not be open to the world.
fn outbound_allow(text: &str, public_url: Option<&Url>) -> Result<Networks, String> {
    let networks = text.parse::<Networks>()?;
    match public_url.filter(|url| url.scheme() == "https" && !is_loopback(url)) {
        Some(url) if !networks.is_empty() => Err(format!(
            "is for development: with the public URL {url} anybody with an account could reach {networks} through this \
             service; unset it"
        )),
        _ => Ok(networks),
    }
}

fn master_keys(text: &str) -> Result<Vec<MasterKey>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.parse::<MasterKey>().map_err(|error| error.to_string())).collect()
}

fn log_filter(text: &str) -> Result<String, String> {
    match tracing_subscriber::EnvFilter::builder().parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{text:?} is not a filter, such as info: {error}")),
    }
}

#[cfg(test)]
mod tests;
