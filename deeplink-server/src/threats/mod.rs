//! The operator's list of refused URLs and hosts: its format and lookups.
//!
//! One URL or host per line. A host covers its subdomains. A URL covers itself; without a fragment also itself with any
//! fragment. `#` at the start of a line or after whitespace starts a comment. Both sides are compared in the URL parser's
//! normal form, without the trailing dot of a host name.

mod page;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use deeplink_core::error::{ErrorCode, Invalid};
use url::{Host, Url};

use crate::watched_file::{self, LoadError, Stamp};

pub(crate) use self::page::{Page, destination_hash, refusing_hashes};

/// Maximum size of a list in bytes: several million lines.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum number of skipped lines listed by number.
const MAX_LISTED: usize = 20;

/// URLs and hosts. A lookup costs one hash lookup per label of the host, whatever the size of the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreatList {
    hosts: HashSet<Box<str>>,
    urls: HashSet<Box<str>>,
}

/// Lines that are neither a URL nor a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Skipped {
    count: usize,
    /// The first of their line numbers, from 1.
    first: Vec<usize>,
}

/// `2, 5, 7 and 4 more`; empty if no lines were skipped.
impl std::fmt::Display for Skipped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<_> = self.first.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(", "))?;
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl Skipped {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl ThreatList {
    /// Parses a list and reports the lines that are neither a URL nor a host.
    fn parse(bytes: &[u8]) -> (Self, Skipped) {
        let (mut list, mut skipped) = (Self::default(), Skipped::default());
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let entry = std::str::from_utf8(line).map(without_comment);
            let is_valid = match entry {
                Ok("") => true,
                Ok(entry) => list.add(entry),
                Err(_) => false,
            };
            if !is_valid {
                skipped.count += 1;
                if skipped.first.len() < MAX_LISTED {
                    skipped.first.push(number);
                }
            }
        }
        (list, skipped)
    }

    fn add(&mut self, entry: &str) -> bool {
        if !entry.contains("://") {
            let host = host(entry);
            return host.map(|host| self.hosts.insert(host.into())).is_some();
        }
        let url = normal(entry).filter(|url| url.username().is_empty() && url.password().is_none());
        url.map(|url| self.urls.insert(String::from(url).into())).is_some()
    }

    /// The entry that covers a destination. Only web addresses are covered, also those that name a browser.
    pub(crate) fn covers(&self, destination: &str) -> Option<&str> {
        let mut url = normal(destination)?;
        if let Some(entry) = self.urls.get(url.as_str()) {
            return Some(entry);
        }
        if url.fragment().is_some() {
            url.set_fragment(None);
            if let Some(entry) = self.urls.get(url.as_str()) {
                return Some(entry);
            }
        }
        let host = url.host_str()?;
        if !matches!(url.host(), Some(Host::Domain(_))) {
            return self.hosts.get(host).map(|entry| &**entry);
        }
        let parents = std::iter::successors(Some(host), |name| name.split_once('.').map(|(_, parent)| parent));
        parents.into_iter().find_map(|name| self.hosts.get(name)).map(|entry| &**entry)
    }

    /// The numbers of hosts and URLs.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.hosts.len(), self.urls.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.urls.is_empty()
    }
}

/// Whether a destination is a web address.
pub(crate) fn is_web(destination: &str) -> bool {
    normal(destination).is_some()
}

/// The line up to the first `#` after whitespace; any other `#` starts a fragment.
fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    let end =
        line.char_indices().find(|(_, char)| std::mem::replace(&mut before, *char).is_whitespace() && *char == '#');
    end.map_or(line, |(at, _)| &line[..at]).trim()
}

/// A web URL in the normal form for comparison; also of a link that only names the browser to open it with.
fn normal(text: &str) -> Option<Url> {
    let mut url = web_url(Url::parse(text).ok()?)?;
    if let Some(name) = url.host_str().filter(|name| name.ends_with('.')) {
        let name = name.trim_end_matches('.').to_owned();
        url.set_host(Some(&name)).ok()?;
    }
    Some(url)
}

/// Schemes by which a browser opens a web address, each followed by the rest of one, and the scheme that it has.
const BROWSER_SCHEMES: [(&str, &str); 11] = [
    ("googlechrome", "http"),
    ("googlechromes", "https"),
    ("x-safari-http", "http"),
    ("x-safari-https", "https"),
    ("microsoft-edge-http", "http"),
    ("microsoft-edge-https", "https"),
    ("opera-http", "http"),
    ("opera-https", "https"),
    ("touch-http", "http"),
    ("touch-https", "https"),
    ("ddgquicklink", "https"),
];

/// Schemes by which a browser opens what the parameter `url` says, or what follows them.
const BROWSERS: [&str; 8] = [
    "brave",
    "firefox",
    "firefox-focus",
    "firefox-klar",
    "googlechrome",
    "googlechrome-x-callback",
    "microsoft-edge",
    "vivaldi",
];

/// The web address that a URL opens by itself or in the browser that it names.
fn web_url(url: Url) -> Option<Url> {
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https");
    if is_web(&url) {
        return Some(url);
    }
    if BROWSERS.contains(&url.scheme()) {
        // The last of several is what most take.
        let named = url.query_pairs().filter(|(name, _)| name == "url").last().map(|(_, value)| value.into_owned());
        let rest = || url.as_str().strip_prefix(url.scheme()).map(|rest| rest[1..].to_owned());
        if let Some(url) = named.or_else(rest).and_then(|url| Url::parse(&url).ok()).filter(is_web) {
            return Some(url);
        }
    }
    let (_, scheme) = BROWSER_SCHEMES.iter().find(|(browser, _)| *browser == url.scheme())?;
    let rest = url.as_str().strip_prefix(url.scheme())?;
    Url::parse(&format!("{scheme}{rest}")).ok()
}

/// A host name or IP address in the normal form for comparison.
fn host(text: &str) -> Option<String> {
    if let Ok(address) = text.parse::<std::net::Ipv6Addr>() {
        return Some(Host::<String>::Ipv6(address).to_string());
    }
    match Host::parse(text.trim_end_matches('.')).ok()? {
        Host::Domain(name) => {
            let is_label = |label: &str| {
                !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            };
            name.split('.').all(is_label).then_some(name)
        }
        address => Some(address.to_string()),
    }
}

/// A list as loaded from the file.
#[derive(Clone)]
pub(crate) struct LoadedList {
    pub(crate) list: Arc<ThreatList>,
    pub(crate) skipped: Skipped,
}

impl LoadedList {
    /// Loads the file.
    pub(crate) fn from_file(path: &Path) -> Result<(Self, Stamp), LoadError> {
        let (bytes, stamp) = watched_file::read(path, MAX_BYTES)?;
        let (list, skipped) = ThreatList::parse(&bytes);
        if list.is_empty() && !skipped.is_empty() {
            return Err(LoadError::Invalid("no line contains a URL or a host".into()));
        }
        Ok((Self { list: Arc::new(list), skipped }, stamp))
    }
}

/// The list's file, and its content at startup.
#[derive(Clone)]
pub struct ThreatFile {
    pub(crate) path: PathBuf,
    pub(crate) initial: LoadedList,
    pub(crate) stamp: Stamp,
}

impl std::fmt::Debug for ThreatFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (hosts, urls) = self.initial.list.counts();
        write!(f, "{} (hosts: {hosts}, URLs: {urls})", self.path.display())
    }
}

impl ThreatFile {
    /// Loads a file with one URL or host per line.
    pub fn read(path: &Path) -> Result<Self, String> {
        let (initial, stamp) =
            LoadedList::from_file(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), initial, stamp })
    }
}

/// The list in effect. Without a file there is none, and checks do nothing.
pub(crate) struct Threats(Option<RwLock<Arc<ThreatList>>>);

impl Threats {
    pub(crate) fn new(file: Option<&ThreatFile>) -> Self {
        Self(file.map(|file| RwLock::new(Arc::clone(&file.initial.list))))
    }

    /// The list, if it is not empty.
    pub(crate) fn current(&self) -> Option<Arc<ThreatList>> {
        let list = self.0.as_ref()?.read().unwrap_or_else(PoisonError::into_inner);
        (!list.is_empty()).then(|| Arc::clone(&list))
    }

    /// Replaces the list.
    pub(crate) fn replace(&self, list: Arc<ThreatList>) {
        if let Some(current) = &self.0 {
            *current.write().unwrap_or_else(PoisonError::into_inner) = list;
        }
    }

    /// Whether a URL is listed.
    pub(crate) fn covers(&self, url: &str) -> bool {
        self.current().is_some_and(|list| list.covers(url).is_some())
    }

    /// Refuses the first of these URLs that is listed; each comes with its field.
    pub(crate) fn check<'a>(&self, urls: impl IntoIterator<Item = (&'static str, &'a str)>) -> Result<(), Invalid> {
        let Some(list) = self.current() else { return Ok(()) };
        match urls.into_iter().find(|(_, url)| list.covers(url).is_some()) {
            None => Ok(()),
            Some((field, _)) => {
                let message = format!("{field}: this URL is on the operator's threat list");
                Err(Invalid::field(ErrorCode::ThreatDetected, field, message))
            }
        }
    }
}

#[cfg(test)]
mod tests;
