//! What one client sent and was told: recorded before each request and after its answer.
//!
//! Everything that is created has its own token in its web URL, and every visit one in its referer, so that each row of
//! the database can be traced to its request.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::report::Report;
use crate::wire::Request;

/// A request that creates links.
#[derive(Debug)]
pub(crate) struct Creation {
    pub(crate) token: String,
    /// Sent with an `Idempotency-Key`, so it may be repeated at any time.
    pub(crate) has_key: bool,
    pub(crate) request: Request,
    /// How many links it creates.
    pub(crate) rows: usize,
    /// The ids it names; empty if they are generated.
    pub(crate) named: Vec<String>,
    pub(crate) outcome: Outcome,
    /// The acknowledgement, once it came.
    pub(crate) reply: Option<String>,
}

/// The known state of a creation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was sent. All of it may be stored, or nothing.
    Open,
    /// It was acknowledged, or found in the database; these are the ids.
    There(Vec<String>),
    /// It was refused, or not found in the database.
    Nowhere,
}

/// The possible states of a link. Versions count its changes; `None` means deleted.
pub(crate) type Possible = Vec<Option<u32>>;

/// A link that was created.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) token: String,
    pub(crate) possible: Possible,
}

/// A visit of a link.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) token: String,
    pub(crate) link: String,
    /// Whether the redirect came.
    pub(crate) answered: bool,
}

/// The subject of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    Read,
    Visit,
}

/// How an answer came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) kind: Kind,
    pub(crate) status: u16,
    /// When it arrived.
    pub(crate) at: Instant,
    pub(crate) took: Duration,
}

/// Everything that one client knows.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) creations: Vec<Creation>,
    /// By id.
    pub(crate) links: HashMap<String, Known>,
    pub(crate) visits: Vec<Visit>,
    pub(crate) reports: Vec<Report>,
    pub(crate) timings: Vec<Timing>,
    /// Writes that were acknowledged.
    pub(crate) acknowledged: usize,
    /// Requests whose connection was cut off, and when.
    pub(crate) cut: Vec<(Instant, String)>,
    /// Codes of the writes that were refused.
    pub(crate) refusals: Vec<String>,
    /// Answers that should not have been given.
    pub(crate) wrong: Vec<String>,
}

impl Journal {
    /// Records that a creation is stored with these ids.
    pub(crate) fn is_there(&mut self, creation: usize, ids: Vec<String>) {
        let creation = &mut self.creations[creation];
        for id in &ids {
            let known = Known { token: creation.token.clone(), possible: vec![Some(0)] };
            self.links.entry(id.clone()).or_insert(known);
        }
        creation.outcome = Outcome::There(ids);
    }

    /// The possible versions of a link, mutable.
    pub(crate) fn possible(&mut self, link: &str) -> &mut Possible {
        &mut self.links.get_mut(link).expect("a link of this client").possible
    }

    /// The known version of a link; `None` if it is unknown or the link is deleted.
    pub(crate) fn version(&self, link: &str) -> Option<u32> {
        match self.links[link].possible[..] {
            [version] => version,
            _ => None,
        }
    }
}

/// The web URL of a link.
pub(crate) fn address(token: &str, version: u32) -> String {
    format!("https://example.com/{token}/{version}")
}

/// The metadata of a link, as it is stored.
pub(crate) fn metadata(token: &str, version: u32) -> String {
    format!("{{\"token\":\"{token}\",\"version\":{version}}}")
}

/// The referer of a visit.
pub(crate) fn referer(token: &str) -> String {
    format!("https://example.com/visits/{token}")
}
