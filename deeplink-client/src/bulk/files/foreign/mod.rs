//! Exports of other services: what their columns mean is in [`profiles`]; how a row of them becomes a link is here.
//!
//! Metadata is public, so only the original short links and ID are kept there unless the caller asks
//! for details. Values that fit no field of a link are left out, and [`ForeignNotes`] lists their columns.

mod address;
mod description;
mod destinations;
mod kept;
mod member;
mod moment;
mod notes;
mod profiles;
mod row;
mod state;

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::{Alias, CreateLink};
use deeplink_core::time::Timestamp;

use super::Mapping;
use super::cells::Draft;
use super::fields::{Field, fold};
use crate::bulk::template::hash;
use address::Address;
use kept::Kept;
pub(super) use member::{Member, flatten};
pub use notes::{ForeignHost, ForeignNotes, MarkedRows};
use profiles::Profile;
pub(super) use row::Cell;
use row::RowCells;

/// A service whose export can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// Bitly's CSV, or the list of links of its API.
    Bitly,
    /// Dub's CSV, or the list of links of its API.
    Dub,
    /// The CSV of Shlink's web client, or the list of short URLs of its API.
    Shlink,
    /// Branch's CSV.
    Branch,
    /// The CSV of Firebase Dynamic Links.
    Firebase,
    /// CSV of any other service, by the usual names of columns.
    Csv,
}

impl Provider {
    const ALL: [Self; 6] = [Self::Bitly, Self::Dub, Self::Shlink, Self::Branch, Self::Firebase, Self::Csv];

    /// The service that has this domain for the short links of its users.
    fn owner_of(host: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.profile().owns(host))
    }

    /// The name of the service.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.profile().label
    }

    fn profile(self) -> &'static Profile {
        match self {
            Self::Bitly => &profiles::BITLY,
            Self::Dub => &profiles::DUB,
            Self::Shlink => &profiles::SHLINK,
            Self::Branch => &profiles::BRANCH,
            Self::Firebase => &profiles::FIREBASE,
            Self::Csv => &profiles::ANY,
        }
    }
}

/// What a column of an export is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    /// The link's ID.
    Id,
    /// The link's ID, or the number of a record: counts if the row has no other.
    WeakId,
    /// The short link; the ID is its path.
    ShortLink,
    /// Short links that replace it, if there are any.
    CustomLinks,
    /// The host of the short link.
    Domain,
    Web,
    /// The destination if there is no [`Role::Web`].
    WebFallback,
    /// The destination of a row that names an app, whose [`Role::AppLink`] is then a deep link only.
    Desktop,
    /// The destination if there is no [`Role::Web`], and also what opens the apps that the row names.
    AppLink,
    /// Where people on iOS are sent: a store page, or else a deep link.
    IosTarget,
    AndroidTarget,
    /// Where people without the app are sent: a store page, or else a page that has no field.
    IosFallback,
    AndroidFallback,
    /// A deep link, or a path in an app.
    AppPath,
    IosPath,
    AndroidPath,
    /// The app's number in the App Store.
    IosApp,
    IosBundle,
    /// The app's package name.
    AndroidApp,
    Name,
    Title,
    Description,
    Image,
    /// Whether the service shows its own preview of the link, rather than that of the destination.
    Proxy,
    Tags,
    Expires,
    ExpiredUrl,
    Password,
    DisabledAt,
    /// When the link begins to work.
    Begins,
    MaxClicks,
    /// A word such as `active`.
    Status,
    /// How many clicks the other service counted.
    Clicks,
    Created,
    Archived,
    /// A key of the metadata.
    Meta(&'static str),
    /// What the caller mapped the column to.
    Own(Field),
}

impl From<Field> for Role {
    fn from(field: Field) -> Self {
        match field {
            Field::CustomId => Self::Id,
            Field::WebUrl => Self::Web,
            Field::Name => Self::Name,
            Field::Tags => Self::Tags,
            Field::ExpiresAt => Self::Expires,
            Field::ImportedClicks => Self::Clicks,
            field => Self::Own(field),
        }
    }
}

impl Role {
    /// The field that it sets, if it sets no other: a column that the caller maps to the field takes its place.
    fn field(&self) -> Option<Field> {
        Some(match self {
            Self::Id | Self::WeakId => Field::CustomId,
            Self::Web | Self::WebFallback => Field::WebUrl,
            Self::Name => Field::Name,
            Self::Title => Field::Title,
            Self::Description => Field::SocialDescription,
            Self::Image => Field::ImageUrl,
            Self::Tags => Field::Tags,
            Self::Expires => Field::ExpiresAt,
            Self::ExpiredUrl => Field::ExpiredUrl,
            Self::Clicks => Field::ImportedClicks,
            _ => return None,
        })
    }

    fn is_id(&self) -> bool {
        matches!(self, Self::Id | Self::WeakId | Self::ShortLink | Self::CustomLinks)
    }

    fn is_destination(&self) -> bool {
        match self {
            Self::Web | Self::WebFallback | Self::Desktop | Self::AppLink => true,
            Self::IosTarget | Self::AndroidTarget | Self::IosFallback | Self::AndroidFallback => true,
            Self::AppPath | Self::IosPath | Self::AndroidPath => true,
            Self::Own(field) => field.is_destination(),
            _ => false,
        }
    }

    /// Whether only [`Reading::keep_details`] keeps it.
    fn is_detail(&self) -> bool {
        matches!(
            self,
            Self::Created | Self::Archived | Self::Status | Self::IosFallback | Self::AndroidFallback | Self::Meta(_)
        )
    }
}

/// A row that cannot be a link, and the column at fault if it is known.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) id: Option<String>,
    pub(super) column: Option<usize>,
    pub(super) invalid: Invalid,
}

/// A column, if one is at fault, and what is wrong.
type Fault = (Option<usize>, Invalid);

fn unplaced(invalid: Invalid) -> Fault {
    (None, invalid)
}

/// What a row says.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) id: Option<String>,
    /// What a generated ID is derived from.
    pub(super) key: Option<String>,
    pub(super) link: CreateLink,
}

/// The caller's choices.
#[derive(Debug, Clone, Default)]
pub(super) struct Reading {
    /// Goes before each ID.
    pub(super) id_prefix: String,
    /// The scheme of deep links that are paths.
    pub(super) app_scheme: Option<String>,
    pub(super) sanitize_ids: bool,
    pub(super) replace_ids: bool,
    pub(super) last_segment: bool,
    pub(super) keep_details: bool,
    pub(super) now: Option<Timestamp>,
}

/// How an export of another service is read.
#[derive(Debug)]
pub(super) struct Foreign {
    profile: &'static Profile,
    reading: Reading,
    notes: Mutex<ForeignNotes>,
    /// Hashes of the aliases of the rows that were read in this pass.
    given: Mutex<HashSet<u64>>,
}

impl Foreign {
    pub(super) fn new(provider: Provider, reading: Reading) -> Self {
        Self { profile: provider.profile(), reading, notes: Mutex::default(), given: Mutex::default() }
    }

    /// Where its JSON has the list of links; an error if its exports are tables.
    pub(super) fn json_path(&self) -> Result<&'static [&'static str], String> {
        let label = self.profile.label;
        self.profile.json.ok_or_else(|| format!("found JSON instead of a CSV file ({label} export)"))
    }

    fn notes(&self) -> MutexGuard<'_, ForeignNotes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The notes of the last pass.
    pub(super) fn noted(&self) -> ForeignNotes {
        self.notes().clone()
    }

    /// Begins a pass.
    pub(super) fn begin(&self) {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut notes = self.notes();
        *notes = ForeignNotes { page: notes.page, ..ForeignNotes::default() };
    }

    /// Notes that the file is one page of several.
    pub(super) fn note_page(&self, page: u64, pages: u64) {
        self.notes().page = (pages > 1).then_some((page, pages));
    }

    /// Notes the number of links in a list: a list of exactly the maximum page size may be one page of several.
    pub(super) fn note_end(&self, rows: u64) {
        self.notes().full_page = Some(rows).filter(|rows| self.profile.page == Some(*rows));
    }

    /// What a column is.
    pub(super) fn role(&self, name: &str, mapping: &Mapping) -> Option<Role> {
        // Files of rejected rows have it.
        if fold(name) == fold("_error") {
            return Some(Role::Own(Field::Ignored));
        }
        let is_mapped = |role: &Role| role.field().is_some_and(|field| mapping.maps(&field));
        let own = || self.profile.role(name).filter(|role| !is_mapped(role));
        mapping.field(name).map(Role::from).or_else(own)
    }

    /// What each column of a header is; an error if the columns that every export has are not there.
    pub(super) fn roles(&self, header: &[String], mapping: &Mapping) -> Result<Vec<Option<Role>>, String> {
        let roles: Vec<_> = header.iter().map(|name| self.role(name, mapping)).collect();
        let has = |wanted: fn(&Role) -> bool| roles.iter().flatten().any(wanted);
        let has_id = self.reading.replace_ids || has(Role::is_id);
        let has_destination = has(Role::is_destination) || mapping.sets_destination();
        let missing = match (has_id, has_destination) {
            (true, true) => return Ok(roles),
            (false, _) => format!("short link or its ID, such as {}", self.profile.id_columns),
            (_, false) => format!("destination, such as {}", self.profile.destination_columns),
        };
        let found: Vec<String> = header.iter().map(|name| format!("\"{}\"", name.escape_debug())).collect();
        Err(format!("no column with the {missing} ({} export); found {}", self.profile.label, found.join(", ")))
    }

    /// The link of a row, if it is one.
    pub(super) fn link(&self, mapping: &Mapping, line: u64, cells: &[Cell<'_>]) -> Result<Option<Found>, Box<Refused>> {
        let (row, mut notes) = (RowCells::new(cells), self.notes());
        let address = Address::read(&row, mapping.maps(&Field::CustomId), self.profile);
        if let Some(host) = self.root(&address) {
            notes.add_root(&host, row.text(&Role::Web));
            return Ok(None);
        }
        let (id, original) = match self.id(address.id.as_deref(), &mut notes) {
            Ok(ids) => ids,
            Err(invalid) => return Err(Box::new(Refused { id: address.id, column: None, invalid })),
        };
        let aliases = self.aliases(&address, id.as_deref());
        let link = self.content(mapping, line, &row, &address, (id.as_deref(), original, &aliases), &mut notes);
        let link = link.map_err(|(column, invalid)| {
            Box::new(Refused { id: id.clone().or(address.id.clone()), column, invalid })
        })?;
        self.give(&aliases);
        if let Some(host) = address.host() {
            notes.add_host(host);
        }
        let key = if id.is_none() { address.key() } else { None };
        Ok(Some(Found { id, key, link }))
    }

    /// The aliases of a link: those of its other short links only if no earlier valid row has them.
    fn aliases(&self, address: &Address, id: Option<&str>) -> Vec<Alias> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        address.aliases(id, |alias| !given.contains(&hash(alias.as_str().as_bytes())))
    }

    /// Gives a valid row these aliases.
    fn give(&self, aliases: &[Alias]) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.extend(aliases.iter().map(|alias| hash(alias.as_str().as_bytes())));
    }

    fn content(
        &self,
        mapping: &Mapping,
        line: u64,
        row: &RowCells<'_>,
        address: &Address,
        (id, original, aliases): (Option<&str>, Option<String>, &[Alias]),
        notes: &mut ForeignNotes,
    ) -> Result<CreateLink, Fault> {
        let mut draft = Draft::new(&mapping.template);
        let mut kept = Kept::new(address, id, original, aliases, self.reading.keep_details);
        if !aliases.is_empty() {
            draft.aliases(Some(aliases.iter().cloned().map(Alias::into_text).collect()));
        }
        destinations::set(row, self.reading.app_scheme.as_deref(), &mut draft, &mut kept, notes)?;
        self.describe(row, &mut draft, notes)?;
        if let Some(clicks) = state::clicks(row) {
            draft.imported_clicks(Some(clicks));
        }
        self.state(row, line, &mut draft, notes)?;
        kept.details(self.profile.origin, row);
        for (cell, field) in row.own() {
            draft.apply(field, Some(cell.text.trim())).map_err(|invalid| (Some(cell.column), invalid))?;
        }
        row.left().for_each(|cell| notes.add_ignored(cell, self.reading.keep_details));
        let link = kept.add_to(mapping.finish(draft).map_err(unplaced)?, notes).map_err(unplaced)?;
        if link.destinations().into_array().into_iter().all(Option::is_none) {
            let message = "the row has no destination; a template can set one for such rows";
            return Err(unplaced(Invalid::field(ErrorCode::InvalidUrl, "web_url", message)));
        }
        notes.archived += u64::from(state::is_kept_active(row));
        if link.enabled == Some(false) && state::is_off(row, self.reading.now) {
            notes.disabled.add(line);
        }
        notes.aliased += u64::from(link.aliases.as_ref().is_some_and(|aliases| !aliases.is_empty()));
        Ok(link)
    }
}
