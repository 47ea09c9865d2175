//! Exports of other services: what their columns mean is in [`profiles`]; how a row of them becomes a link is here.
//!
//! What has no field of its own is kept in the metadata under `imported_…`, so that nobody has to go back to the other
//! service for it. Columns without a meaning are left out, and [`ForeignNotes`] names them.

mod moment;
mod profiles;

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::{CreateLink, MAX_NAME, check_custom_id};
use deeplink_core::time::Timestamp;

use super::Mapping;
use super::cells::Draft;
use super::fields::{Field, fold};
use profiles::Profile;

/// A service whose export can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// Bitly's CSV.
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
    /// The short link; the ID is in its path.
    ShortLink,
    /// Short links that replace it, if there are any.
    CustomLinks,
    /// The host of the short link.
    Domain,
    Web,
    /// The destination if there is no [`Role::Web`].
    WebFallback,
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
    Tags,
    Expires,
    ExpiredUrl,
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
            field => Self::Own(field),
        }
    }
}

/// A value of a row, its column, and what that column is, if it is known.
pub(super) struct Cell<'a> {
    pub(super) column: usize,
    pub(super) name: &'a str,
    pub(super) role: Option<Role>,
    pub(super) text: Cow<'a, str>,
}

/// A row that cannot be a link, and the column at fault if it is known.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) id: Option<String>,
    pub(super) column: Option<usize>,
    pub(super) invalid: Invalid,
}

/// What was left out or changed while an export of another service was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ForeignNotes {
    /// Columns that have values but no meaning here, in the order in which they were found.
    pub ignored: Vec<String>,
    /// IDs in which characters were replaced.
    pub sanitized: u64,
    /// IDs in whose place new ones are generated.
    pub replaced: u64,
    /// Short links with a path of several segments, of which the last is the ID.
    pub shortened: u64,
    /// The page of a list that the file is, and how many there are, if it is not the only one.
    pub page: Option<(u64, u64)>,
}

/// How an export of another service is read.
#[derive(Debug)]
pub(super) struct Foreign {
    profile: &'static Profile,
    sanitize: bool,
    replace: bool,
    now: Option<Timestamp>,
    notes: Mutex<ForeignNotes>,
}

impl Foreign {
    pub(super) fn new(provider: Provider, sanitize: bool, replace: bool, now: Option<Timestamp>) -> Self {
        Self { profile: provider.profile(), sanitize, replace, now, notes: Mutex::default() }
    }

    /// Where its JSON has the list of links; an error if its exports are tables.
    pub(super) fn json_path(&self) -> Result<&'static [&'static str], String> {
        let label = self.profile.label;
        self.profile.json.ok_or_else(|| format!("an export of {label} is CSV, but this is JSON"))
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
        let mut notes = self.notes();
        *notes = ForeignNotes { page: notes.page, ..ForeignNotes::default() };
    }

    /// Notes that the file is one page of several.
    pub(super) fn note_page(&self, page: u64, pages: u64) {
        self.notes().page = (pages > 1).then_some((page, pages));
    }

    /// What a column is.
    pub(super) fn role(&self, name: &str, mapping: &Mapping) -> Option<Role> {
        // Files of rejected rows have it.
        if fold(name) == fold("_error") {
            return Some(Role::Own(Field::Ignored));
        }
        mapping.field(name).map(Role::from).or_else(|| self.profile.role(name))
    }

    /// What each column of a header is; an error if the columns that every export has are not there.
    pub(super) fn roles(&self, header: &[String], mapping: &Mapping) -> Result<Vec<Option<Role>>, String> {
        let roles: Vec<_> = header.iter().map(|name| self.role(name, mapping)).collect();
        let has = |wanted: fn(&Role) -> bool| roles.iter().flatten().any(wanted);
        let has_id = self.replace || has(|role| matches!(role, Role::Id | Role::ShortLink | Role::CustomLinks));
        let has_destination = has(Role::is_destination) || mapping.sets_destination();
        let missing = match (has_id, has_destination) {
            (true, true) => return Ok(roles),
            (false, _) => format!("short link or its ID, such as {}", self.profile.id_columns),
            (_, false) => format!("destination, such as {}", self.profile.destination_columns),
        };
        let found: Vec<String> = header.iter().map(|name| format!("\"{}\"", name.escape_debug())).collect();
        Err(format!("no column with the {missing} ({} export); found {}", self.profile.label, found.join(", ")))
    }

    /// The ID and the link of a row.
    pub(super) fn link(
        &self,
        mapping: &Mapping,
        cells: &[Cell<'_>],
    ) -> Result<(Option<String>, CreateLink), Box<Refused>> {
        self.note_ignored(cells);
        let row = RowCells(cells);
        let address = self.address(row);
        let (id, original) = self.id(address.id.clone());
        let refused = |(column, invalid)| Box::new(Refused { id: address.id.clone(), column, invalid });
        let mut draft = Draft::new(&mapping.template);
        let kept = destinations(row, &mut draft).and_then(|kept| {
            self.description(row, &mut draft)?;
            Ok(kept)
        });
        self.metadata(row, &address, original, kept.map_err(refused)?, &mut draft);
        for cell in cells {
            if let (Some(Role::Own(field)), false) = (&cell.role, cell.text.is_empty()) {
                draft.apply(field, Some(&cell.text)).map_err(|invalid| refused((Some(cell.column), invalid)))?;
            }
        }
        let link = mapping.finish(draft).map_err(|invalid| refused((None, invalid)))?;
        if link.destinations().into_array().into_iter().all(Option::is_none) {
            let message = "the row has no destination; a template can set one for such rows";
            return Err(refused((None, Invalid::field(ErrorCode::InvalidUrl, "web_url", message))));
        }
        Ok((id, link))
    }

    fn note_ignored(&self, cells: &[Cell<'_>]) {
        for cell in cells.iter().filter(|cell| cell.role.is_none() && !cell.text.trim().is_empty()) {
            let mut notes = self.notes();
            if !notes.ignored.iter().any(|name| name == cell.name) {
                notes.ignored.push(cell.name.to_owned());
            }
        }
    }

    /// The addresses that the link has, and the ID that follows from them.
    fn address(&self, row: RowCells<'_>) -> Address {
        let customs = row.text(&Role::CustomLinks).unwrap_or_default();
        let customs = customs.split([',', ';', '|', ' ']).filter(|link| !link.is_empty());
        let mut links = customs.chain(row.text(&Role::ShortLink)).map(str::to_owned);
        let (main, others) = (links.next(), links.collect());
        let named = row.text(&Role::Id).map(|id| id.trim_matches('/'));
        let id = match named {
            Some(id) if !id.contains("://") => Some(id.to_owned()),
            Some(link) => self.path(link),
            None => main.as_deref().and_then(|link| self.path(link)),
        };
        let host = row.text(&Role::Domain);
        let url = main.or_else(|| Some(format!("{}/{}", host?.trim_end_matches('/'), id.as_deref()?)));
        Address { id, url, others }
    }

    /// The ID in the path of a short link.
    fn path(&self, link: &str) -> Option<String> {
        let rest = link.split_once("://").map_or(link, |(_, rest)| rest);
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let path = match rest.split_once('/') {
            Some((_, path)) => path.trim_matches('/'),
            // Only a path has no dot.
            None if rest.contains('.') => "",
            None => rest,
        };
        let id = match path.rsplit_once('/') {
            Some((_, last)) if !self.profile.whole_path => {
                self.notes().shortened += 1;
                last
            }
            _ => path,
        };
        (!id.is_empty()).then(|| id.to_owned())
    }

    /// The ID that the link gets, and what it was if that is another one.
    fn id(&self, id: Option<String>) -> (Option<String>, Option<String>) {
        let Some(id) = id else { return (None, None) };
        if check_custom_id(&id).is_ok() {
            return (Some(id), None);
        }
        let sanitized = sanitize(&id);
        if self.sanitize && check_custom_id(&sanitized).is_ok() {
            self.notes().sanitized += 1;
            return (Some(sanitized), Some(id));
        }
        if self.replace {
            self.notes().replaced += 1;
            return (None, Some(id));
        }
        // The general rules report it.
        (Some(id), None)
    }

    /// Sets the name, the preview, the tags and the end.
    fn description(&self, row: RowCells<'_>, draft: &mut Draft) -> Result<(), Fault> {
        if let Some(name) = row.text(&Role::Name) {
            draft.apply(&Field::Name, Some(&short_name(name))).map_err(unplaced)?;
        }
        for (role, field) in [
            (Role::Title, Field::Title),
            (Role::Description, Field::SocialDescription),
            (Role::Image, Field::ImageUrl),
            (Role::ExpiredUrl, Field::ExpiredUrl),
        ] {
            if let Some(text) = row.text(&role) {
                draft.apply(&field, Some(text)).map_err(unplaced)?;
            }
        }
        if let Some(tags) = row.text(&Role::Tags) {
            let tags = tags.split(self.profile.separators).map(str::trim).filter(|tag| !tag.is_empty());
            draft.tags(Some(tags.map(str::to_owned).collect()));
        }
        let Some(cell) = row.first(&Role::Expires) else { return Ok(()) };
        let wrong =
            |message: String| (Some(cell.column), Invalid::field(ErrorCode::InvalidExpiresAt, "expires_at", message));
        let text = cell.text.trim();
        let Some(end) = moment::parse(text) else {
            let text = text.escape_debug();
            return Err(wrong(format!("\"{text}\" is not a date such as 2027-01-31 or 2027-01-31T12:00:00Z")));
        };
        if self.now.is_some_and(|now| end <= now) {
            return Err(wrong(format!("the link expired on {end}, and expired links cannot be created")));
        }
        draft.apply(&Field::ExpiresAt, Some(&end.to_string())).map_err(|invalid| (Some(cell.column), invalid))
    }

    /// Keeps in the metadata what has no field.
    fn metadata(
        &self,
        row: RowCells<'_>,
        address: &Address,
        original: Option<String>,
        kept: Vec<(&'static str, String)>,
        draft: &mut Draft,
    ) {
        let mut set = |key: &str, text: &str| draft.meta_json(key, &serde_json::Value::from(text).to_string());
        if let Some(origin) = self.profile.origin {
            set("imported_from", origin);
        }
        if let Some(url) = &address.url {
            set("imported_url", url);
        }
        if !address.others.is_empty() {
            set("imported_other_urls", &address.others.join(" "));
        }
        if let Some(original) = original {
            set("imported_id", &original);
        }
        if let Some(name) = row.text(&Role::Name).filter(|name| short_name(name) != one_line(name)) {
            set("imported_title", name);
        }
        if let Some(created) = row.text(&Role::Created) {
            let moment = moment::parse(created).map(|moment| moment.to_string());
            set("imported_created_at", moment.as_deref().unwrap_or(created));
        }
        for (key, text) in kept {
            set(key, &text);
        }
        for cell in row.0 {
            let is_first = |key| row.first(&Role::Meta(key)).is_some_and(|first| first.column == cell.column);
            if let Some(Role::Meta(key)) = cell.role
                && is_first(key)
            {
                set(key, cell.text.trim());
            }
        }
        if let Some(clicks) = row.text(&Role::Clicks) {
            match clicks.replace([',', ' ', '\u{a0}', '\u{202f}'], "").parse::<u64>() {
                Ok(number) => draft.meta_json("imported_clicks", &number.to_string()),
                Err(_) => draft.meta_json("imported_clicks", &serde_json::Value::from(clicks).to_string()),
            }
        }
        let is_archived = |text: &str| matches!(text.to_lowercase().as_str(), "true" | "yes" | "1" | "archived");
        if row.text(&Role::Archived).is_some_and(is_archived) {
            draft.meta_json("imported_archived", "true");
        }
    }
}

/// A column, if one is at fault, and what is wrong.
type Fault = (Option<usize>, Invalid);

fn unplaced(invalid: Invalid) -> Fault {
    (None, invalid)
}

impl Role {
    fn is_destination(&self) -> bool {
        match self {
            Self::Web | Self::WebFallback | Self::AppLink => true,
            Self::IosTarget | Self::AndroidTarget | Self::IosFallback | Self::AndroidFallback => true,
            Self::AppPath | Self::IosPath | Self::AndroidPath => true,
            Self::Own(field) => field.is_destination(),
            _ => false,
        }
    }
}

/// The addresses of a link at the other service.
struct Address {
    id: Option<String>,
    url: Option<String>,
    others: Vec<String>,
}

/// The values of a row by their role.
#[derive(Clone, Copy)]
struct RowCells<'a>(&'a [Cell<'a>]);

impl<'a> RowCells<'a> {
    /// The first cell in this role that has a value.
    fn first(self, role: &Role) -> Option<&'a Cell<'a>> {
        self.0.iter().find(|cell| cell.role.as_ref() == Some(role) && !cell.text.trim().is_empty())
    }

    fn text(self, role: &Role) -> Option<&'a str> {
        self.first(role).map(|cell| cell.text.trim())
    }
}

/// Sets the destinations; returns keys of the metadata for those that have no field.
fn destinations(row: RowCells<'_>, draft: &mut Draft) -> Result<Vec<(&'static str, String)>, Fault> {
    let mut kept = Vec::new();
    let mut set = |field: Field, url: &str| draft.apply(&field, Some(url)).map_err(unplaced);
    let app_link = row.text(&Role::AppLink);
    if let Some(url) = row.text(&Role::Web).or_else(|| row.text(&Role::WebFallback)).or(app_link) {
        set(Field::WebUrl, url)?;
    }
    let ios = Platform {
        is_store: |url| CreateLink::new().ios_store_url(url).validate().is_ok(),
        target: Role::IosTarget,
        fallback: Role::IosFallback,
        path: Role::IosPath,
        store: row
            .text(&Role::IosApp)
            .map(|number| format!("https://apps.apple.com/app/id{}", number.trim_start_matches("id"))),
        has_app: row.text(&Role::IosBundle).is_some() || row.text(&Role::IosApp).is_some(),
        fallback_key: "imported_ios_fallback_url",
        path_key: "imported_ios_deep_link_path",
    };
    let android = Platform {
        is_store: |url| CreateLink::new().android_store_url(url).validate().is_ok(),
        target: Role::AndroidTarget,
        fallback: Role::AndroidFallback,
        path: Role::AndroidPath,
        store: row.text(&Role::AndroidApp).map(|name| format!("https://play.google.com/store/apps/details?id={name}")),
        has_app: row.text(&Role::AndroidApp).is_some(),
        fallback_key: "imported_android_fallback_url",
        path_key: "imported_android_deep_link_path",
    };
    for (platform, deep_link, store_url) in
        [(ios, Field::IosDeepLink, Field::IosStoreUrl), (android, Field::AndroidDeepLink, Field::AndroidStoreUrl)]
    {
        let (link, store) = platform.destinations(row, app_link, &mut kept);
        if let Some(link) = link {
            set(deep_link, &link)?;
        }
        if let Some(store) = store {
            set(store_url, &store)?;
        }
    }
    if let Some(path) = row.text(&Role::AppPath).filter(|path| !is_absolute(path)) {
        kept.push(("imported_deep_link_path", path.to_owned()));
    }
    Ok(kept)
}

/// The columns of a platform.
struct Platform {
    is_store: fn(&str) -> bool,
    target: Role,
    fallback: Role,
    path: Role,
    /// The store page of the app that the row names.
    store: Option<String>,
    has_app: bool,
    fallback_key: &'static str,
    path_key: &'static str,
}

impl Platform {
    /// The deep link and the store page.
    fn destinations(
        self,
        row: RowCells<'_>,
        app_link: Option<&str>,
        kept: &mut Vec<(&'static str, String)>,
    ) -> (Option<String>, Option<String>) {
        let (mut deep_link, mut store) = (None, None);
        if let Some(path) = row.text(&self.path) {
            if is_absolute(path) {
                deep_link = Some(path.to_owned());
            } else {
                kept.push((self.path_key, path.to_owned()));
            }
        }
        if let Some(target) = row.text(&self.target) {
            let slot = if (self.is_store)(target) { &mut store } else { &mut deep_link };
            slot.get_or_insert_with(|| target.to_owned());
        }
        if let Some(url) = row.text(&self.fallback) {
            if (self.is_store)(url) {
                store.get_or_insert_with(|| url.to_owned());
            } else {
                kept.push((self.fallback_key, url.to_owned()));
            }
        }
        let shared = row.text(&Role::AppPath).filter(|path| is_absolute(path));
        let app_link = app_link.filter(|_| self.has_app);
        (deep_link.or(shared.or(app_link).map(str::to_owned)), store.or(self.store))
    }
}

/// Whether a text has a scheme.
fn is_absolute(url: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    })
}

/// The text with one space for each run of whitespace.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A title as the name of a link: on one line, and cut to what a name may have.
fn short_name(title: &str) -> String {
    let title = one_line(title);
    if title.chars().count() <= MAX_NAME {
        return title;
    }
    let cut: String = title.chars().take(MAX_NAME - 1).collect();
    format!("{}…", cut.trim_end())
}

/// The ID with `-` for each run of characters that an ID cannot have.
fn sanitize(id: &str) -> String {
    let parts = id.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_from_short_links() {
        let path = |provider, link: &str| Foreign::new(provider, false, false, None).path(link);
        for (link, last, whole) in [
            ("https://go.example.com/spring", Some("spring"), Some("spring")),
            ("go.example.com/spring", Some("spring"), Some("spring")),
            ("https://go.example.com/spring/?a=b#c", Some("spring"), Some("spring")),
            ("https://go.example.com/c/spring", Some("spring"), Some("c/spring")),
            ("https://go.example.com/", None, None),
            ("go.example.com", None, None),
            ("spring", Some("spring"), Some("spring")),
            ("/spring", Some("spring"), Some("spring")),
            ("", None, None),
        ] {
            assert_eq!(path(Provider::Bitly, link).as_deref(), last, "{link}");
            assert_eq!(path(Provider::Dub, link).as_deref(), whole, "{link}");
        }
    }

    #[test]
    fn ids_are_sanitized_without_leading_or_double_hyphens() {
        for (id, sanitized) in [
            ("a_b", "a-b"),
            ("_root", "root"),
            ("c/spring", "c-spring"),
            ("été-2026", "t-2026"),
            ("--a--", "a"),
            ("é", ""),
        ] {
            assert_eq!(sanitize(id), sanitized, "{id}");
        }
    }

    #[test]
    fn long_titles_are_cut_to_the_length_of_a_name() {
        assert_eq!(short_name(" Spring\n sale "), "Spring sale");
        let long = short_name(&"ä".repeat(MAX_NAME + 1));
        assert!(long.chars().count() == MAX_NAME && long.ends_with('…'), "{long}");
        assert_eq!(short_name(&"ä".repeat(MAX_NAME)), "ä".repeat(MAX_NAME));
    }
}
