//! The operator's list of refused URLs and hosts: what a line means, and what is on it.
//!
//! One URL or host a line. A host covers its subdomains; a URL stands for itself, and without a fragment also for
//! itself with any. `#` at the start of a line or after white space begins a comment. Both sides are compared in the URL
//! parser's normal form, without the dot that may end a host name.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::{Destinations, LinkPatch};
use deeplink_core::patch::Patch;
use url::{Host, Url};

/// Largest list in bytes: some million lines.
const MAX_BYTES: u64 = 64 << 20;
/// How many line numbers are told of those that were skipped.
const MAX_TOLD: usize = 20;

/// URLs and hosts, found by a lookup for each label of a host, however many there are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreatList {
    hosts: HashSet<Box<str>>,
    urls: HashSet<Box<str>>,
}

/// Lines that are neither a URL nor a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Skipped {
    count: usize,
    /// The numbers of the first of them, from 1.
    first: Vec<usize>,
}

/// `2, 5, 7 and 4 more`; empty when there is none.
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
    /// Reads a list. Lines that cannot be understood are left out and told.
    fn parse(bytes: &[u8]) -> (Self, Skipped) {
        let (mut list, mut skipped) = (Self::default(), Skipped::default());
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let entry = std::str::from_utf8(line).map(without_comment);
            let known = match entry {
                Ok("") => true,
                Ok(entry) => list.add(entry),
                Err(_) => false,
            };
            if !known {
                skipped.count += 1;
                if skipped.first.len() < MAX_TOLD {
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

    /// The entry that covers a destination. Only http and https lead to a host.
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

    /// How many hosts and URLs there are.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.hosts.len(), self.urls.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.urls.is_empty()
    }
}

/// A fragment's `#` has no white space before it, so what a line says ends at the first that has.
fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    let end =
        line.char_indices().find(|(_, char)| std::mem::replace(&mut before, *char).is_whitespace() && *char == '#');
    end.map_or(line, |(at, _)| &line[..at]).trim()
}

/// A web address in the form that both sides are compared in.
fn normal(text: &str) -> Option<Url> {
    let mut url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    if let Some(name) = url.host_str().filter(|name| name.ends_with('.')) {
        let name = name.trim_end_matches('.').to_owned();
        url.set_host(Some(&name)).ok()?;
    }
    Some(url)
}

/// A host's name or address in the same form.
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

/// Why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
    #[error("it is not a file")]
    NotAFile,
    #[error("it is larger than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    /// Rather some other file, such as the page of an error, than a list that became empty.
    #[error("none of its lines is a URL or a host")]
    NoList,
}

/// By which a change of the file is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: SystemTime,
    bytes: u64,
}

impl Stamp {
    pub(crate) fn of(file: &std::fs::Metadata) -> std::io::Result<Self> {
        Ok(Self { modified: file.modified()?, bytes: file.len() })
    }
}

/// What was read at one moment.
#[derive(Clone)]
pub(crate) struct Reading {
    pub(crate) list: Arc<ThreatList>,
    pub(crate) skipped: Skipped,
    pub(crate) stamp: Stamp,
}

impl Reading {
    /// Reads the file as it is now.
    pub(crate) fn of(path: &Path) -> Result<Self, Unusable> {
        // Before it is opened, which would wait for the other end of a pipe.
        if !std::fs::metadata(path)?.is_file() {
            return Err(Unusable::NotAFile);
        }
        let mut file = std::fs::File::open(path)?;
        let mut bytes = Vec::new();
        if (&mut file).take(MAX_BYTES + 1).read_to_end(&mut bytes)? as u64 > MAX_BYTES {
            return Err(Unusable::TooLarge);
        }
        let stamp = Stamp::of(&file.metadata()?)?;
        let (list, skipped) = ThreatList::parse(&bytes);
        if list.is_empty() && !skipped.is_empty() {
            return Err(Unusable::NoList);
        }
        Ok(Self { list: Arc::new(list), skipped, stamp })
    }
}

/// The file of the list, and what it said when the settings were read.
#[derive(Clone)]
pub struct ThreatFile {
    pub(crate) path: PathBuf,
    pub(crate) first: Reading,
}

impl std::fmt::Debug for ThreatFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (hosts, urls) = self.first.list.counts();
        write!(f, "{} (hosts: {hosts}, URLs: {urls})", self.path.display())
    }
}

impl ThreatFile {
    /// Reads a file with one URL or host a line.
    pub fn read(path: &Path) -> Result<Self, String> {
        let first = Reading::of(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), first })
    }
}

/// The list that holds now. Without a file there is none, and nothing is looked up.
pub(crate) struct Threats(Option<RwLock<Arc<ThreatList>>>);

impl Threats {
    pub(crate) fn new(file: Option<&ThreatFile>) -> Self {
        Self(file.map(|file| RwLock::new(Arc::clone(&file.first.list))))
    }

    /// The list, if there is one with anything on it.
    pub(crate) fn now(&self) -> Option<Arc<ThreatList>> {
        let list = self.0.as_ref()?.read().unwrap_or_else(PoisonError::into_inner);
        (!list.is_empty()).then(|| Arc::clone(&list))
    }

    /// Puts another list in its place.
    pub(crate) fn replace(&self, list: Arc<ThreatList>) {
        if let Some(now) = &self.0 {
            *now.write().unwrap_or_else(PoisonError::into_inner) = list;
        }
    }

    /// Refuses a link that leads to what is listed, wherever it leads there.
    pub(crate) fn check(&self, to: &Destinations) -> Result<(), Invalid> {
        let Some(list) = self.now() else { return Ok(()) };
        match fields(to).into_iter().find(|(_, url)| url.is_some_and(|url| list.covers(url).is_some())) {
            None => Ok(()),
            Some((field, _)) => {
                let message = format!("{field}: this address is on the operator's list of threats");
                Err(Invalid::field(ErrorCode::ThreatDetected, field, message))
            }
        }
    }

    /// The same for what an update names.
    pub(crate) fn check_patch(&self, patch: &LinkPatch) -> Result<(), Invalid> {
        if self.0.is_none() {
            return Ok(());
        }
        let set = |patch: &Patch<String>| if let Patch::Set(url) = patch { Some(url.clone()) } else { None };
        self.check(&Destinations {
            ios_deep_link: set(&patch.ios_deep_link),
            ios_store_url: set(&patch.ios_store_url),
            android_deep_link: set(&patch.android_deep_link),
            android_store_url: set(&patch.android_store_url),
            web_url: set(&patch.web_url),
        })
    }
}

/// Everything that a link can lead to, with its field.
pub(crate) fn fields(to: &Destinations) -> [(&'static str, Option<&str>); 5] {
    [
        ("ios_deep_link", to.ios_deep_link.as_deref()),
        ("ios_store_url", to.ios_store_url.as_deref()),
        ("android_deep_link", to.android_deep_link.as_deref()),
        ("android_store_url", to.android_store_url.as_deref()),
        ("web_url", to.web_url.as_deref()),
    ]
}

#[cfg(test)]
mod tests;
