//! Diagnosis of an account's domains, apps and links as phones, crawlers and Apple's and Google's servers see them.
//!
//! Nothing is written and no click is counted. Every check is independent, follows no redirect, ends within its time
//! limit, and reports in one line what to do.
//!
//! ```no_run
//! # async fn example(dl: deeplink_client::Client) -> Result<(), deeplink_client::Error> {
//! use futures_util::StreamExt;
//!
//! let examination = dl.doctor().link("spring-42").begin().await?;
//! let mut checks = Box::pin(examination.run());
//! while let Some(check) = checks.next().await {
//!     println!("{} {} {}: {}", check.status, check.id, check.subject, check.message);
//! }
//! # Ok(()) }
//! ```

mod account;
mod app;
mod association;
mod domain;
mod link;
mod names;
mod page;
mod probe;
mod robots;
mod service;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use deeplink_core::domain::DomainName;
use deeplink_core::url::is_localhost;
use futures_util::{Stream, StreamExt, stream};
use serde::Serialize;
use url::Url;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::transport::BoxFuture;
use account::Account;
use probe::{Probe, Settings, Site};

/// Maximum concurrent checks.
const AT_ONCE: usize = 16;
/// Default time limit of a check.
const LIMIT: Duration = Duration::from_secs(10);

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Status {
    /// The check passed.
    Ok,
    /// It works, but not for everyone or not for much longer.
    Warn,
    /// It does not work.
    Fail,
    /// There is nothing to check.
    Skip,
}

impl Status {
    /// `ok`, `warn`, `fail` or `skip`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Skip => "skip",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Check {
    /// Id of the check, such as `domain.txt`.
    pub id: &'static str,
    /// Its subject: a host, an app, a link.
    pub subject: String,
    /// The outcome.
    pub status: Status,
    /// What was found, in one line.
    pub message: String,
    /// What to do about it, in one line.
    pub fix: Option<String>,
}

impl Check {
    /// The caller's own finding, to be shown with the others.
    pub fn new(
        id: &'static str,
        subject: impl Into<String>,
        status: Status,
        message: impl Into<String>,
        fix: Option<String>,
    ) -> Self {
        Self { id, subject: subject.into(), status, message: message.into(), fix }
    }
}

/// Configures an examination. Made by [`Client::doctor`].
#[derive(Debug, Clone)]
#[must_use]
pub struct Doctor {
    client: Client,
    hosts: Vec<String>,
    links: Vec<String>,
    apple: String,
    google: String,
    settings: Settings,
}

impl Client {
    /// Configures an examination of the account that this client's key belongs to. Without a key, only the service
    /// and the named hosts are checked.
    pub fn doctor(&self) -> Doctor {
        Doctor {
            client: self.clone(),
            hosts: Vec::new(),
            links: Vec::new(),
            apple: "https://app-site-association.cdn-apple.com".to_owned(),
            google: "https://digitalassetlinks.googleapis.com".to_owned(),
            settings: Settings { limit: LIMIT, dns: None, connect: Vec::new(), roots: Vec::new() },
        }
    }
}

impl Doctor {
    /// Checks this host instead of every verified domain of the account.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Also checks this link.
    pub fn link(mut self, link_id: impl Into<String>) -> Self {
        self.links.push(link_id.into());
        self
    }

    /// Queries this server instead of Apple's.
    pub fn apple_cdn(mut self, base: impl Into<String>) -> Self {
        self.apple = base.into();
        self
    }

    /// Queries this server instead of Google's.
    pub fn google_api(mut self, base: impl Into<String>) -> Self {
        self.google = base.into();
        self
    }

    /// Queries this name server instead of the system's.
    pub fn dns_server(mut self, server: SocketAddr) -> Self {
        self.settings.dns = Some(server);
        self
    }

    /// Uses this IP address and port for a host instead of DNS. A host can have several.
    pub fn connect_to(mut self, host: impl Into<String>, address: SocketAddr) -> Self {
        self.settings.connect.push((host.into().to_ascii_lowercase(), address));
        self
    }

    /// Also trusts this certificate (PEM).
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.settings.roots.push(pem.into());
        self
    }

    /// Time limit for one check; 10 s by default.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.settings.limit = limit;
        self
    }

    /// Reads the account and plans the checks.
    pub async fn begin(self) -> Result<Examination> {
        let hosts = self.hosts.iter().map(|host| host.parse::<DomainName>().map_err(Error::invalid));
        let hosts = hosts.collect::<Result<Vec<_>>>()?;
        let setup = Arc::new(Setup {
            apple: base_of(&self.apple)?,
            google: base_of(&self.google)?,
            probe: Arc::new(Probe::new(self.settings, self.client.base_url().clone())?),
            account: Account::read(&self.client).await,
            client: self.client,
        });
        Ok(plan_checks(&setup, &hosts, &self.links))
    }
}

/// The URL of a server, without a trailing slash.
fn base_of(text: &str) -> Result<String> {
    let known = Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if known {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    Err(Error::builder(format!("\"{text}\" is not a server URL: it must start with http:// or https://")))
}

/// What all checks share.
struct Setup {
    client: Client,
    probe: Arc<Probe>,
    apple: String,
    google: String,
    account: Account,
}

impl Setup {
    /// Whether the service is publicly reachable.
    fn is_loopback(&self) -> bool {
        match self.client.base_url().host() {
            Some(url::Host::Domain(name)) => is_localhost(name),
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }

    /// Why a host cannot be checked, if so.
    fn out_of_reach(&self, host: &str) -> Option<Finding> {
        let hidden = self.is_loopback() && !self.probe.knows(host) && !self.probe.is_local(host);
        hidden.then(|| {
            Finding::skip(format!(
                "the service is only reachable on this machine: to check a host, use a publicly reachable one, or \
                 --connect-to {host}=IP:PORT"
            ))
        })
    }
}

/// The result of a check.
struct Finding {
    status: Status,
    message: String,
    fix: Option<String>,
}

impl Finding {
    fn ok(message: impl Into<String>) -> Self {
        Self { status: Status::Ok, message: message.into(), fix: None }
    }

    fn skip(message: impl Into<String>) -> Self {
        Self { status: Status::Skip, message: message.into(), fix: None }
    }

    fn warn(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: Status::Warn, message: message.into(), fix: Some(fix.into()) }
    }

    fn fail(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { status: Status::Fail, message: message.into(), fix: Some(fix.into()) }
    }
}

/// A check that has not run yet.
struct Task {
    id: &'static str,
    subject: String,
    /// The status if it does not end in time.
    worst: Status,
    run: BoxFuture<'static, Finding>,
}

impl Task {
    fn new(
        id: &'static str,
        subject: impl Into<String>,
        worst: Status,
        run: impl Future<Output = Finding> + Send + 'static,
    ) -> Self {
        Self { id, subject: subject.into(), worst, run: Box::pin(run) }
    }

    async fn end(self, limit: Duration) -> Check {
        let finding = tokio::time::timeout(limit, self.run).await.unwrap_or_else(|_| Finding {
            status: self.worst,
            message: format!("no response within {} s", limit.as_secs().max(1)),
            fix: Some("try again; if the problem persists, check name servers, firewalls and load".to_owned()),
        });
        Check { id: self.id, subject: self.subject, status: finding.status, message: finding.message, fix: finding.fix }
    }
}

/// Checks that have not run yet.
#[must_use = "nothing is checked before it runs"]
pub struct Examination {
    tasks: Vec<Task>,
    limit: Duration,
    packages: Vec<String>,
    /// Hosts whose association file an iPhone may hold.
    hosts: Vec<String>,
}

impl Examination {
    /// Id and subject of every check, in the order in which [`Examination::run`] yields them.
    pub fn planned(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.tasks.iter().map(|task| (task.id, task.subject.as_str()))
    }

    /// Commands to query a phone itself: for each Android app and, if the account has iOS apps, for each host, and
    /// where to look on an iPhone.
    pub fn device_commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        for package in &self.packages {
            commands.push(format!("adb shell pm get-app-links {package}"));
            commands.push(format!("adb shell pm verify-app-links --re-verify {package}"));
        }
        commands.extend(self.hosts.iter().map(|host| format!("sudo swcutil dl -d {host}")));
        if !self.hosts.is_empty() {
            commands.push("iOS: Settings \u{2192} Developer \u{2192} Universal Links \u{2192} Diagnostics".to_owned());
        }
        commands
    }

    /// Runs the checks concurrently and yields them in order, each as soon as it and those before it have ended.
    pub fn run(self) -> impl Stream<Item = Check> + Send {
        let limit = self.limit;
        stream::iter(self.tasks).map(move |task| task.end(limit)).buffered(AT_ONCE)
    }
}

impl fmt::Debug for Examination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.planned()).finish()
    }
}

fn plan_checks(setup: &Arc<Setup>, named: &[DomainName], links: &[String]) -> Examination {
    let hosts: Vec<String> = if named.is_empty() {
        setup.account.verified().map(|domain| domain.domain.clone()).collect()
    } else {
        named.iter().map(ToString::to_string).collect()
    };
    let mut tasks = service::tasks(setup);
    tasks.extend(account::tasks(setup));
    for host in &hosts {
        let site = Arc::new(Site::new(&setup.probe, host));
        tasks.extend(domain::tasks(setup, &site));
        tasks.extend(association::tasks(setup, &site));
    }
    tasks.extend(app::tasks(setup, links));
    for link in links {
        tasks.extend(link::tasks(setup, link));
    }
    let has_ios = setup.account.apps.is_none() || setup.account.ios().next().is_some();
    let hosts = if has_ios { hosts } else { Vec::new() };
    let packages = setup.account.android().filter_map(|app| app.package_name.clone()).collect();
    Examination { tasks, limit: setup.probe.limit(), packages, hosts }
}
