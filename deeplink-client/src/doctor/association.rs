//! The association files: as the host serves them, and as Apple and Google have cached them.

use std::sync::Arc;

use http::Method;
use serde_json::Value;

use super::probe::{Answer, Fault, FaultKind, Headers, Site, ask, short};
use super::{Finding, Setup, Status, Task};

/// Maximum size of a file that Apple reads.
const MAX_FILE: usize = 128 * 1024;

/// Why Apple and Google have no copy of a local host's files.
const ONLY_HERE: &str = "names under .localhost are only reachable on this machine";

const APPLE_BOT: Headers<'_> = &[("user-agent", "AASA-Bot/1.0.0")];
const BROWSER: Headers<'_> = &[
    (
        "user-agent",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
         Version/18.0 Mobile/15E148 Safari/604.1",
    ),
    ("accept", "text/html,application/xhtml+xml,*/*;q=0.8"),
];

/// Which of the two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum File {
    Apple,
    Google,
}

impl File {
    const fn path(self) -> &'static str {
        match self {
            Self::Apple => "/.well-known/apple-app-site-association",
            Self::Google => "/.well-known/assetlinks.json",
        }
    }

    const fn platform(self) -> &'static str {
        match self {
            Self::Apple => "iOS",
            Self::Google => "Android",
        }
    }
}

pub(super) fn tasks(setup: &Arc<Setup>, site: &Arc<Site>) -> Vec<Task> {
    let host = || site.name.clone();
    let pair = || (Arc::clone(setup), Arc::clone(site));
    let [one, two, three, four] = [0; 4].map(|_| pair());
    vec![
        Task::new("aasa.origin", host(), Status::Fail, async move { one.0.check_origin(&one.1, File::Apple).await }),
        Task::new("aasa.cdn", host(), Status::Warn, async move { two.0.check_cdn(&two.1).await }),
        Task::new("assetlinks.origin", host(), Status::Fail, async move {
            three.0.check_origin(&three.1, File::Google).await
        }),
        Task::new("assetlinks.google", host(), Status::Warn, async move { four.0.check_google(&four.1).await }),
    ]
}

impl Setup {
    /// What the file must contain: ids of iOS apps, or packages with their fingerprints.
    fn wanted(&self, file: File) -> Vec<(String, Vec<String>)> {
        match file {
            File::Apple => {
                let id = |app: &deeplink_core::app::AppDetail| {
                    Some((format!("{}.{}", app.team_id.as_deref()?, app.bundle_id.as_deref()?), Vec::new()))
                };
                self.account.ios().filter_map(id).collect()
            }
            File::Google => {
                let statement = |app: &deeplink_core::app::AppDetail| {
                    Some((app.package_name.clone()?, app.sha256_fingerprints.clone().unwrap_or_default()))
                };
                self.account.android().filter_map(statement).collect()
            }
        }
    }

    async fn check_origin(&self, site: &Site, file: File) -> Finding {
        if let Some(skip) = self.out_of_reach(&site.name) {
            return skip;
        }
        let wanted = self.wanted(file);
        let nothing = || Finding::skip(format!("the account has no {} app", file.platform()));
        let first = match site.get(file.path(), APPLE_BOT, MAX_FILE).await {
            Ok(answer) if answer.status == 404 && self.account.apps.is_some() && wanted.is_empty() => return nothing(),
            Ok(answer) => answer,
            Err(fault) => {
                return Finding::fail(
                    format!("could not be fetched: {}", fault.text),
                    "see domain.route and domain.tls",
                );
            }
        };
        if let Err(finding) = judge(&first, file, &wanted) {
            return finding;
        }
        if let Some(difference) = differs(site, file, &first).await {
            return Finding::fail(
                format!("not the same for every visitor: {difference}"),
                "serve the same bytes at every IP address and to every user agent, without any challenge",
            );
        }
        match wanted.len() {
            0 => Finding::ok("served, and well-formed"),
            1 => Finding::ok(format!("served, with {}", wanted[0].0)),
            several => Finding::ok(format!("served, with all {several} apps")),
        }
    }

    async fn check_cdn(&self, site: &Site) -> Finding {
        if let Some(skip) = self.out_of_reach(&site.name) {
            return skip;
        }
        if site.is_local {
            return Finding::skip(ONLY_HERE);
        }
        if self.account.apps.is_some() && self.account.ios().next().is_none() {
            return Finding::skip("the account has no iOS app");
        }
        let url = format!("{}/a/v1/{}", self.apple, site.name);
        let cdn = match ask(self.probe.plain(), Method::GET, &url, &[], MAX_FILE).await {
            Ok(cdn) => cdn,
            Err(fault) => {
                return Finding::warn(format!("Apple's copy could not be fetched: {}", fault.text), "try again");
            }
        };
        let origin = site.get(File::Apple.path(), APPLE_BOT, MAX_FILE).await.ok();
        let origin = origin.filter(|origin| origin.status == 200).and_then(|origin| json(&origin));
        let why = failure(&cdn);
        match (cdn.status, origin) {
            (200, Some(origin)) if json(&cdn) == Some(origin.clone()) => Finding::ok("Apple has this file"),
            (200, Some(_)) => Finding::warn(
                format!("Apple has a different copy{why}"),
                "updates can take a day; until then, add ?mode=developer to the app's applinks entry on test phones",
            ),
            (200, None) => Finding::warn("Apple has a file, but the host serves none", "see aasa.origin"),
            (404, Some(_)) => Finding::fail(
                format!("Apple has no file for this host{why}"),
                "make the host reachable from the whole internet: Apple fetches from its own network",
            ),
            (404, None) => {
                Finding::warn(format!("Apple has no file, and the host serves none{why}"), "see aasa.origin")
            }
            _ => Finding::warn(format!("Apple's server returns {}{why}", cdn.outline()), "try again"),
        }
    }

    async fn check_google(&self, site: &Site) -> Finding {
        if let Some(skip) = self.out_of_reach(&site.name) {
            return skip;
        }
        if site.is_local {
            return Finding::skip(ONLY_HERE);
        }
        let wanted = self.wanted(File::Google);
        if self.account.apps.is_some() && wanted.is_empty() {
            return Finding::skip("the account has no Android app");
        }
        let url = format!(
            "{}/v1/statements:list?source.web.site=https://{}&relation={}",
            self.google,
            site.name,
            deeplink_core::association::AssetStatement::HANDLE_ALL_URLS
        );
        let answer = match ask(self.probe.plain(), Method::GET, &url, &[], MAX_FILE).await {
            Ok(answer) => answer,
            Err(fault) => return Finding::warn(format!("Google could not be queried: {}", fault.text), "try again"),
        };
        let Some(found) = json(&answer).filter(|_| answer.status == 200) else {
            return Finding::warn(format!("Google's server returns {}", answer.outline()), "try again");
        };
        let statements = found["statements"].as_array().map(Vec::as_slice).unwrap_or_default();
        let known = |package: &str, print: &str| {
            statements.iter().any(|statement| {
                let app = &statement["target"]["androidApp"];
                let same = |text: &Value| text.as_str().is_some_and(|text| text.eq_ignore_ascii_case(print));
                app["packageName"] == package && same(&app["certificate"]["sha256Fingerprint"])
            })
        };
        let missing: Vec<&str> = wanted
            .iter()
            .filter(|(package, prints)| prints.iter().any(|print| !known(package, print)))
            .map(|(package, _)| package.as_str())
            .collect();
        if missing.is_empty() && !(wanted.is_empty() && statements.is_empty()) {
            return Finding::ok("Google lists every app and fingerprint");
        }
        let codes = found["errorCode"].as_array().map(Vec::as_slice).unwrap_or_default();
        let codes: Vec<_> = codes.iter().filter_map(Value::as_str).collect();
        let debug = found["debugString"].as_str().map(str::trim).unwrap_or_default();
        let what = if missing.is_empty() { "any app".to_owned() } else { missing.join(", ") };
        let mut said = vec![format!("Google does not list {what}")];
        said.extend([codes.join(", "), short(debug)].into_iter().filter(|text| !text.is_empty()));
        Finding::warn(said.join("; "), "see assetlinks.origin; Google fetches the file again within the hour")
    }
}

/// Checks what the host serves.
fn judge(answer: &Answer, file: File, wanted: &[(String, Vec<String>)]) -> Result<(), Finding> {
    let (path, platform) = (file.path(), file.platform());
    match answer.status {
        200 => {}
        300..=399 => {
            let fix = "serve the file at exactly this URL: phones do not follow redirects here";
            return Err(Finding::fail(format!("{path} returns {}", answer.outline()), fix));
        }
        404 => {
            let fix = format!(
                "check that the host is verified and an {platform} app is registered: dl domains list, dl \
                    apps list"
            );
            return Err(Finding::fail(format!("{path} does not exist (HTTP 404)"), fix));
        }
        _ => {
            let fix = "serve it to everyone, without authentication, challenges or rate limits";
            return Err(Finding::fail(format!("{path} returns {}", answer.outline()), fix));
        }
    }
    if answer.media_type() != "application/json" {
        let what = format!("the media type is \"{}\"", short(&answer.media_type()));
        return Err(Finding::fail(what, "serve it as application/json"));
    }
    if answer.cut {
        return Err(Finding::fail("the file is larger than 128 KiB", "remove apps that are no longer in use"));
    }
    let Some(found) = json(answer) else {
        return Err(Finding::fail("the file is not JSON", "something between the service and the host modifies it"));
    };
    let missing: Vec<String> = wanted.iter().filter_map(|(app, prints)| lacking(&found, file, app, prints)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let fix = "the host serves an old file or another site's file: purge the caches in between";
    Err(Finding::fail(format!("the file does not contain {}", missing.join(", ")), fix))
}

/// What a file lacks about an app, if anything.
fn lacking(found: &Value, file: File, app: &str, prints: &[String]) -> Option<String> {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match file {
        File::Apple => {
            let names = |detail: &Value| items(&detail["appIDs"]).iter().any(|id| id == app) || detail["appID"] == app;
            let there = items(&found["applinks"]["details"]).iter().any(names);
            (!there).then(|| app.to_owned())
        }
        File::Google => {
            let relation = deeplink_core::association::AssetStatement::HANDLE_ALL_URLS;
            let statements: Vec<Value> = items(found)
                .into_iter()
                .filter(|statement| statement["target"]["package_name"] == app)
                .filter(|statement| items(&statement["relation"]).iter().any(|known| known == relation))
                .collect();
            if statements.is_empty() {
                return Some(app.to_owned());
            }
            let known: Vec<Value> = statements
                .iter()
                .flat_map(|statement| items(&statement["target"]["sha256_cert_fingerprints"]))
                .collect();
            let same =
                |print: &str, other: &Value| other.as_str().is_some_and(|other| other.eq_ignore_ascii_case(print));
            let missing = prints.iter().find(|print| !known.iter().any(|other| same(print, other)))?;
            Some(format!("fingerprint {}\u{2026} of {app}", missing.get(..11).unwrap_or(missing)))
        }
    }
}

/// How another visitor or address family gets something different from the first; `None` if all get the same.
async fn differs(site: &Site, file: File, first: &Answer) -> Option<String> {
    let compare = |who: &str, other: Result<Answer, Fault>| match other {
        // A machine without IPv6 cannot tell what others get over it.
        Err(fault) if fault.kind == FaultKind::NoWay => None,
        Err(fault) => Some(format!("{who} gets no response ({})", fault.text)),
        Ok(other) if other.status != first.status => Some(format!("{who} gets {}", other.outline())),
        Ok(other) if other.body != first.body => Some(format!("{who} gets different bytes")),
        Ok(_) => None,
    };
    if let Some(difference) = compare("a browser", site.get(file.path(), BROWSER, MAX_FILE).await) {
        return Some(difference);
    }
    let url = format!("{}{}", site.origin, file.path());
    for (family, client) in &site.ways().await.ok()?.families {
        let answer = ask(client, Method::GET, &url, APPLE_BOT, MAX_FILE).await;
        if let Some(difference) = compare(&format!("a visitor over {family}"), answer) {
            return Some(difference);
        }
    }
    None
}

fn json(answer: &Answer) -> Option<Value> {
    serde_json::from_slice(&answer.body).ok().filter(|_| !answer.cut)
}

/// What Apple's server says about a failure: its `Apple-Failure-…` headers.
fn failure(answer: &Answer) -> String {
    let named = answer.headers.iter().filter(|(name, _)| name.as_str().starts_with("apple-failure-"));
    let said: Vec<String> = named
        .map(|(name, value)| format!("{}: {}", name.as_str(), short(&String::from_utf8_lossy(value.as_bytes()))))
        .collect();
    if said.is_empty() { String::new() } else { format!(" ({})", said.join("; ")) }
}

/// Whether a host serves a file at all.
pub(super) async fn serves(site: &Site, apple: bool) -> Result<(), String> {
    let file = if apple { File::Apple } else { File::Google };
    match site.get(file.path(), APPLE_BOT, MAX_FILE).await {
        Ok(answer) if answer.status == 200 && json(&answer).is_some() => Ok(()),
        Ok(answer) => Err(format!("{} returns {}", file.path(), answer.outline())),
        Err(fault) => Err(format!("{} could not be fetched: {}", file.path(), fault.text)),
    }
}
