//! What was left out or changed.

use super::Provider;
use super::row::Cell;

/// Columns that are named.
const MAX_COLUMNS: usize = 50;
/// Lines of a kind, and bare domains, that are named.
const MAX_NAMED: usize = 5;

/// Rows that have something in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MarkedRows {
    /// How many there are.
    pub count: u64,
    /// The first lines.
    pub lines: Vec<u64>,
}

impl MarkedRows {
    pub(super) fn add(&mut self, line: u64) {
        self.count += 1;
        if self.lines.len() < MAX_NAMED {
            self.lines.push(line);
        }
    }
}

/// A domain of short links in an export.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignHost {
    /// The domain, in lower case.
    pub host: String,
    /// Number of links whose short link is on it.
    pub links: u64,
    /// The service that owns it, if one does: its short links cannot move.
    pub owner: Option<Provider>,
}

/// What was left out or changed while an export of another service was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ForeignNotes {
    /// Columns with values that are not in the links, in the order in which they were found; at most 50.
    pub ignored: Vec<String>,
    /// Columns that [`FileOptions::keep_details`](crate::bulk::FileOptions::keep_details) would keep; at most 50.
    pub details: Vec<String>,
    /// Whether there are more such columns.
    pub has_more: bool,
    /// IDs in which characters were replaced.
    pub sanitized: u64,
    /// IDs that are replaced with generated ones.
    pub replaced: u64,
    /// Short links with a path of several segments, of which the last is the ID.
    pub shortened: u64,
    /// The first domains of short links, at most five.
    pub hosts: Vec<ForeignHost>,
    /// Links that are archived in the other service, and work like any other here.
    pub archived: u64,
    /// Links with aliases, which require a verified primary domain.
    pub aliased: u64,
    /// Links with another short link on the same host, which is neither created nor an alias.
    pub others: u64,
    /// Links with a deep link that has no scheme, which is not imported.
    pub paths: u64,
    /// Names that were truncated.
    pub cut_names: u64,
    /// Titles and descriptions of previews that were truncated.
    pub cut_previews: u64,
    /// Links whose metadata became too large, so that the longest imported values were left out.
    pub crowded: u64,
    /// Links that are created disabled, because the other service does not redirect everyone to their destination.
    pub disabled: MarkedRows,
    /// Links that have expired.
    pub expired: MarkedRows,
    /// Number of rows for a domain's root link, which has no path.
    pub roots: u64,
    /// The first of these domains, and the destination of each.
    pub named_roots: Vec<(String, String)>,
    /// If the file is one page of several: its page number, and the number of pages.
    pub page: Option<(u64, u64)>,
    /// The number of links in the list, if it equals the maximum page size.
    pub full_page: Option<u64>,
}

impl ForeignNotes {
    pub(super) fn add_ignored(&mut self, cell: &Cell<'_>, keeps_details: bool) {
        let is_detail = !keeps_details && cell.role.as_ref().is_some_and(super::Role::is_detail);
        let columns = if is_detail { &mut self.details } else { &mut self.ignored };
        if columns.iter().any(|name| name == cell.name) {
            return;
        }
        if columns.len() == MAX_COLUMNS {
            self.has_more = true;
        } else {
            columns.push(cell.name.to_owned());
        }
    }

    /// Counts a link on a domain.
    pub(super) fn add_host(&mut self, host: String) {
        if let Some(known) = self.hosts.iter_mut().find(|known| known.host == host) {
            known.links += 1;
        } else if self.hosts.len() < MAX_NAMED {
            let owner = Provider::owner_of(&host);
            self.hosts.push(ForeignHost { host, links: 1, owner });
        }
    }

    pub(super) fn add_root(&mut self, host: &str, url: Option<&str>) {
        self.roots += 1;
        let is_new = self.named_roots.iter().all(|(known, _)| known != host);
        if let Some(url) = url.filter(|_| is_new && self.named_roots.len() < MAX_NAMED) {
            self.named_roots.push((host.to_owned(), url.to_owned()));
        }
    }
}
