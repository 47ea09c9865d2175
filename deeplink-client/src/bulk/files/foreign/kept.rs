//! What is kept in the metadata, which everybody who asks for a link's JSON can read.

use deeplink_core::error::Invalid;
use deeplink_core::link::{Alias, CreateLink};
use serde_json::Value;

use super::super::cells::{members, merge};
use super::address::Address;
use super::row::RowCells;
use super::{ForeignNotes, Role, moment, state};

/// Keys of the metadata with their values as JSON.
pub(super) struct Kept {
    keys: Vec<(String, String)>,
    has_details: bool,
    loses_another: bool,
}

impl Kept {
    /// Keeps the addresses by which the link is recognized.
    pub(super) fn new(
        address: &Address,
        id: Option<&str>,
        original: Option<String>,
        aliases: &[Alias],
        has_details: bool,
    ) -> Self {
        let mut kept = Self { keys: Vec::new(), has_details, loses_another: address.loses_another(id, aliases) };
        if let Some(url) = &address.url {
            kept.set("imported_url", url.as_str());
        }
        if !address.others.is_empty() {
            kept.set("imported_other_urls", address.others.join(" "));
        }
        if let Some(original) = original {
            kept.set("imported_id", original);
        }
        kept
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.keys.push((key.to_owned(), value.into().to_string()));
    }

    /// Keeps a detail if the caller asked for details; returns whether it did.
    pub(super) fn detail(&mut self, key: &str, value: &str) -> bool {
        if self.has_details {
            self.set(key, value);
        }
        self.has_details
    }

    /// Keeps what else a row says about its link, if the caller wants that.
    pub(super) fn details(&mut self, origin: Option<&str>, row: &RowCells<'_>) {
        if !self.has_details {
            return;
        }
        if let Some(origin) = origin {
            self.set("imported_from", origin);
        }
        if let Some(created) = row.text(&Role::Created) {
            let moment = moment::parse(created).map(|moment| moment.to_string());
            self.set("imported_created_at", moment.as_deref().unwrap_or(created));
        }
        for (key, text) in row.further() {
            self.set(key, text);
        }
        for role in [Role::Archived, Role::Status] {
            if row.peek(&role).is_some_and(state::is_archived) {
                row.text(&role);
                self.set("imported_archived", true);
            }
        }
    }

    /// Adds the keys that the metadata does not have yet. If they do not fit, the longest are left out.
    pub(super) fn add_to(mut self, mut link: CreateLink, notes: &mut ForeignNotes) -> Result<CreateLink, Invalid> {
        notes.others += u64::from(self.loses_another);
        let given = link.metadata.as_ref().and_then(|metadata| members(metadata.as_str()).ok()).unwrap_or_default();
        self.keys.retain(|(key, _)| given.iter().all(|(known, _)| known != key));
        let count = self.keys.len();
        while !self.keys.is_empty() {
            let metadata = merge(link.metadata.as_ref(), &self.keys)?;
            if metadata.check().is_ok() {
                notes.crowded += u64::from(self.keys.len() < count);
                link.metadata = Some(metadata);
                return Ok(link);
            }
            let longest = (0..self.keys.len()).max_by_key(|at| self.keys[*at].1.len());
            longest.map(|at| self.keys.remove(at));
        }
        notes.crowded += u64::from(count > 0);
        Ok(link)
    }
}
