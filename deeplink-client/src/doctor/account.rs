//! The account: the scope of its key, and whether it has a verified domain.

use std::sync::Arc;
use std::time::Duration;

use deeplink_core::app::{AppDetail, AppPlatform};
use deeplink_core::domain::{DomainDetail, DomainRole};
use deeplink_core::link::LinkFilter;

use super::{Finding, Setup, Status, Task};
use crate::auth::AuthKind;
use crate::client::Client;
use crate::error::{Error, Kind};

/// The data that could be read with the key.
pub(super) struct Account {
    key: Key,
    /// `None` where they could not be read.
    pub(super) apps: Option<Vec<AppDetail>>,
    domains: Option<Vec<DomainDetail>>,
}

/// The service's answer to the key.
enum Key {
    None,
    Accepted,
    /// It works, but shows links only.
    Scoped,
    Refused(String),
    Unknown(String),
}

impl Account {
    /// Reads with the client's key; anything unreadable is left out.
    pub(super) async fn read(client: &Client) -> Self {
        if client.auth_kind() == AuthKind::None {
            return Self { key: Key::None, apps: None, domains: None };
        }
        let limit = Duration::from_secs(10);
        let links = client.links().list(&LinkFilter::new()).page_size(1);
        let (links, apps, domains) = futures_util::future::join3(
            tokio::time::timeout(limit, links.first_page()),
            tokio::time::timeout(limit, client.apps().list().into_future()),
            tokio::time::timeout(limit, client.domains().list().into_future()),
        )
        .await;
        let key = match (links, &apps, &domains) {
            (Err(_), ..) | (_, Err(_), _) | (.., Err(_)) => Key::Unknown("no response within 10 s".to_owned()),
            (Ok(Err(error)), ..) => Key::of(&error),
            (_, Ok(Err(error)), _) | (.., Ok(Err(error))) => Key::of(error),
            _ => Key::Accepted,
        };
        Self { key, apps: apps.ok().and_then(Result::ok), domains: domains.ok().and_then(Result::ok) }
    }

    /// Verified domains.
    pub(super) fn verified(&self) -> impl Iterator<Item = &DomainDetail> {
        self.domains.iter().flatten().filter(|domain| domain.verified)
    }

    /// Whether the key can read what a landing page's button depends on.
    pub(super) fn is_read(&self) -> bool {
        self.apps.is_some() && self.domains.is_some()
    }

    /// The account's domain of this name.
    pub(super) fn domain(&self, name: &str) -> Option<&DomainDetail> {
        self.domains.iter().flatten().find(|domain| domain.domain == name)
    }

    /// The alternate host for taps.
    pub(super) fn alternate(&self) -> Option<&str> {
        let alternate = self.verified().find(|domain| domain.role == DomainRole::Alternate);
        alternate.map(|domain| domain.domain.as_str())
    }

    /// iOS apps.
    pub(super) fn ios(&self) -> impl Iterator<Item = &AppDetail> {
        self.apps.iter().flatten().filter(|app| app.platform == AppPlatform::Ios)
    }

    /// Android apps.
    pub(super) fn android(&self) -> impl Iterator<Item = &AppDetail> {
        self.apps.iter().flatten().filter(|app| app.platform == AppPlatform::Android)
    }

    /// The package of the only Android app.
    pub(super) fn only_package(&self) -> Option<&str> {
        let mut packages = self.android().filter_map(|app| app.package_name.as_deref());
        packages.next().filter(|_| packages.next().is_none())
    }

    fn check_key(&self) -> Finding {
        match &self.key {
            Key::None => Finding::skip("no key, so the account is not checked"),
            Key::Accepted => Finding::ok("accepted, for the whole account"),
            Key::Scoped => Finding::warn(
                "accepted, but it belongs to an affiliate: apps and domains cannot be read",
                "use an account key",
            ),
            Key::Refused(why) => Finding::fail(why.clone(), "to store another key: dl login --with-key"),
            Key::Unknown(why) => Finding::fail(format!("could not be tested: {why}"), "try again; dl ping shows more"),
        }
    }

    fn check_primary(&self) -> Finding {
        let Some(domains) = &self.domains else { return Finding::skip("the account's domains cannot be read") };
        let primary = |domain: &&DomainDetail| domain.role == DomainRole::Primary;
        let verified: Vec<_> =
            self.verified().filter(|domain| primary(domain)).map(|domain| domain.domain.as_str()).collect();
        if !verified.is_empty() {
            return Finding::ok(format!("verified: {}", verified.join(", ")));
        }
        let fix = match domains.iter().rfind(primary) {
            Some(waiting) => format!("to see what is missing: dl domains verify {}", waiting.domain),
            None => "dl domains add go.example.com, then dl domains verify".to_owned(),
        };
        Finding::warn("no verified primary domain: new links expire and use the service's host", fix)
    }
}

impl Key {
    fn of(error: &Error) -> Self {
        match error.kind() {
            Kind::Forbidden => Self::Scoped,
            Kind::Auth => Self::Refused(error.message().to_owned()),
            _ => Self::Unknown(error.message().to_owned()),
        }
    }
}

pub(super) fn tasks(setup: &Arc<Setup>) -> Vec<Task> {
    let subject = setup.client.base_url().origin().ascii_serialization();
    let (one, two) = (Arc::clone(setup), Arc::clone(setup));
    vec![
        Task::new("account.key", &subject, Status::Fail, async move { one.account.check_key() }),
        Task::new("account.domain", subject, Status::Warn, async move { two.account.check_primary() }),
    ]
}
