//! The short links of a row, and the ID derived from them.

use std::borrow::Cow;

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::{Alias, MAX_ALIASES, check_custom_id};
use percent_encoding::percent_decode_str;

use super::row::RowCells;
use super::{Foreign, ForeignNotes, Profile, Role};

/// The key that Dub gives to the link of a bare domain.
const ROOT: &str = "_root";

/// The addresses of a link at the other service.
#[derive(Debug, Default)]
pub(super) struct Address {
    pub(super) id: Option<String>,
    pub(super) url: Option<String>,
    pub(super) others: Vec<String>,
    /// It is on a domain of the service, which cannot move.
    pub(super) stays: bool,
}

impl Address {
    /// With `is_mapped`, the caller says which column has the ID.
    pub(super) fn read(row: &RowCells<'_>, is_mapped: bool, profile: &Profile) -> Self {
        let customs = row.all(&Role::CustomLinks).flat_map(|cell| cell.text.split([',', ';', '|', ' ']));
        let mut links: Vec<String> = customs.filter(|link| !link.is_empty()).map(str::to_owned).collect();
        links.extend(row.all(&Role::ShortLink).map(|cell| cell.text.trim().to_owned()));
        // The first that can move.
        links.sort_by_key(|link| profile.owns(&host(link)));
        let id = match (row.text(&Role::Id).and_then(named), links.first().and_then(|link| path(link))) {
            // The short link needs the whole path.
            (Some(id), Some(path)) if !is_mapped && path.rsplit_once('/').is_some_and(|(_, last)| last == id) => {
                Some(path)
            }
            (id, path) => id.or(path),
        };
        let id = id.or_else(|| row.text(&Role::WeakId).and_then(named));
        let host = row.text(&Role::Domain);
        let mut links = links.into_iter();
        let main = links.next();
        let others = links.filter(|link| main.as_deref().map(place) != Some(place(link))).collect();
        let url = main.or_else(|| Some(format!("{}/{}", host?.trim_end_matches('/'), id.as_deref()?)));
        let stays = url.as_deref().is_some_and(|url| profile.owns(&self::host(url)));
        Self { id, url, others, stays }
    }

    /// The domain of the short link, in lower case.
    pub(super) fn host(&self) -> Option<String> {
        self.url.as_deref().map(host).filter(|host| !host.is_empty())
    }

    /// The paths of other short links on the same host, if it can move.
    fn other_paths(&self) -> impl Iterator<Item = String> {
        let host = self.url.as_deref().map(host).filter(|_| !self.stays);
        self.others.iter().filter(move |other| Some(self::host(other)) == host).filter_map(|other| path(other))
    }

    /// The paths on the same host that lead to the link, but are not its ID, as aliases; at most as many as a link can have.
    /// Of its other short links, only those that are free: two hosts may have the same path.
    pub(super) fn aliases(&self, id: Option<&str>, is_free: impl Fn(&Alias) -> bool) -> Vec<Alias> {
        if self.stays {
            return Vec::new();
        }
        // A mapped ID need not be the path of the short link.
        let main = self.url.as_deref().and_then(path);
        let own = self.id.iter().cloned().chain(main).filter_map(|path| as_alias(&path));
        let others = self.other_paths().filter_map(|path| as_alias(&path)).filter(is_free);
        let mut all: Vec<Alias> = Vec::new();
        for alias in own.chain(others).filter(|alias| Some(alias.as_str()) != id) {
            if all.len() < MAX_ALIASES && !all.contains(&alias) {
                all.push(alias);
            }
        }
        all
    }

    /// Whether another short link on the same host is neither the ID nor one of these aliases, and so will stop working.
    pub(super) fn loses_another(&self, id: Option<&str>, aliases: &[Alias]) -> bool {
        let leads =
            |path: &str| as_alias(path).is_some_and(|alias| Some(alias.as_str()) == id || aliases.contains(&alias));
        self.other_paths().any(|path| !leads(&path))
    }

    /// What tells the link apart from all others, in every export: its short link without the scheme.
    pub(super) fn key(&self) -> Option<String> {
        let (host, path) = self.url.as_deref().map(place).unwrap_or_default();
        match (path, &self.url, &self.id) {
            (Some(path), ..) => Some(format!("{host}/{path}")),
            (None, None, Some(id)) => Some(format!("/{id}")),
            (None, ..) => None,
        }
    }
}

/// A decoded path as an alias.
fn as_alias(path: &str) -> Option<Alias> {
    if path.contains('%') { None } else { Alias::parse(path).ok() }
}

/// The ID that a column names, which may be a short link.
fn named(text: &str) -> Option<String> {
    if text.contains("://") {
        return path(text);
    }
    Some(text.trim_matches('/')).filter(|id| !id.is_empty()).map(str::to_owned)
}

/// Which short link it is, however it is written.
fn place(link: &str) -> (String, Option<String>) {
    (host(link), path(link))
}

/// Host and path of a short link; a text without a dot and a slash is a path.
fn split(link: &str) -> (&str, &str) {
    let rest = link.split_once("://").map_or(link, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    match rest.split_once('/') {
        Some((host, path)) => (host, path.trim_matches('/')),
        None if rest.contains('.') => (rest, ""),
        None => ("", rest),
    }
}

fn host(link: &str) -> String {
    split(link).0.to_ascii_lowercase()
}

/// The path of a short link, decoded.
fn path(link: &str) -> Option<String> {
    let (_, path) = split(link);
    (!path.is_empty()).then(|| decoded(path))
}

/// The text with `%C3%A9` as `é`; as it is if that is not text.
fn decoded(path: &str) -> String {
    percent_decode_str(path).decode_utf8().map_or_else(|_| path.to_owned(), Cow::into_owned)
}

impl Foreign {
    /// The domain that a row is about, if that is no short link.
    pub(super) fn root(&self, address: &Address) -> Option<String> {
        let is_root = self.profile.has_roots && address.id.as_deref().is_none_or(|id| id == ROOT);
        address.url.as_deref().filter(|_| is_root).map(host).filter(|host| !host.is_empty())
    }

    /// The ID that the link gets, and what it was if characters were replaced or another is generated. A generated one has no
    /// prefix: it is derived from the whole short link.
    pub(super) fn id(
        &self,
        id: Option<&str>,
        notes: &mut ForeignNotes,
    ) -> Result<(Option<String>, Option<String>), Invalid> {
        let Some(whole) = id else { return Ok((None, None)) };
        let mut id = whole.to_owned();
        if let (true, Some((_, last))) = (self.reading.last_segment, whole.rsplit_once('/')) {
            notes.shortened += 1;
            last.clone_into(&mut id);
        }
        let prefixed = |id: &str| format!("{}{id}", self.reading.id_prefix);
        let named = prefixed(&id);
        if check_custom_id(&named).is_ok() {
            return Ok((Some(named), None));
        }
        let sanitized = prefixed(&sanitize(&id));
        if self.reading.sanitize_ids && sanitized != self.reading.id_prefix && check_custom_id(&sanitized).is_ok() {
            notes.sanitized += 1;
            return Ok((Some(sanitized), Some(id)));
        }
        if self.reading.replace_ids {
            notes.replaced += 1;
            return Ok((None, Some(id)));
        }
        if id.contains('/') {
            let message = "the path has several segments; --last-segment uses the last one as the ID";
            return Err(Invalid::field(ErrorCode::InvalidCustomId, "custom_id", message));
        }
        // The general rules report it.
        Ok((Some(named), None))
    }
}

/// The ID with `-` for each run of characters that are not allowed in an ID.
fn sanitize(id: &str) -> String {
    let parts = id.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::super::profiles::{BITLY, BRANCH};
    use super::*;

    #[test]
    fn ids_are_taken_from_short_links() {
        for (link, id) in [
            ("https://go.example.com/spring", Some("spring")),
            ("go.example.com/spring", Some("spring")),
            ("https://go.example.com/spring/?a=b#c", Some("spring")),
            ("https://go.example.com/c/spring", Some("c/spring")),
            ("https://go.example.com/%C3%A9t%C3%A9%2525", Some("été%25")),
            ("https://go.example.com/a%2Fb", Some("a/b")),
            ("https://go.example.com/100%", Some("100%")),
            ("https://go.example.com/%+1%ff", Some("%+1%ff")),
            ("https://go.example.com/", None),
            ("go.example.com", None),
            ("spring", Some("spring")),
            ("/spring", Some("spring")),
            ("", None),
        ] {
            assert_eq!(path(link).as_deref(), id, "{link}");
        }
    }

    #[test]
    fn domains_of_the_service_are_known_with_their_subdomains() {
        for (profile, host, owns) in [
            (&BITLY, "bit.ly", true),
            (&BITLY, "not-bit.ly", false),
            (&BITLY, "go.example.com", false),
            (&BRANCH, "example.app.link", true),
            (&BRANCH, "app.link.example.com", false),
        ] {
            assert_eq!(profile.owns(host), owns, "{host}");
        }
    }

    #[test]
    fn what_is_not_the_id_becomes_an_alias() {
        let address = |id: &str, others: &[&str]| Address {
            id: Some(id.to_owned()),
            url: Some(format!("https://go.example.com/{id}")),
            others: others.iter().map(|&other| other.to_owned()).collect(),
            stays: false,
        };
        let two = ["https://GO.example.com/two", "https://bit.ly/3x"];
        for (id, others, is_now, aliases, loses) in [
            ("one", &two[..], "one", &["two"][..], false),
            ("l/o_e", &two, "o-e", &["l/o_e", "two"], false),
            ("docs", &[], "docs-1", &[], false),
            ("100%", &["https://go.example.com/a%20b"], "100", &[], true),
            ("a", &["https://go.example.com/a/b/c/d", "https://go.example.com/a"], "x", &["a"], true),
        ] {
            let address = address(id, others);
            let found = address.aliases(Some(is_now), |_| true);
            assert_eq!(found.iter().map(Alias::as_str).collect::<Vec<_>>(), aliases, "{id}");
            assert_eq!(address.loses_another(Some(is_now), &found), loses, "{id}");
        }
        // Only other short links give way to an earlier row.
        let crowded = address("l/o_e", &two);
        let found = crowded.aliases(Some("o-e"), |_| false);
        assert_eq!(found.iter().map(Alias::as_str).collect::<Vec<_>>(), ["l/o_e"]);
        assert!(crowded.loses_another(Some("o-e"), &found));
        // Nothing leads to a domain of the service.
        let staying = Address { stays: true, ..address("l/o_e", &two) };
        assert!(staying.aliases(Some("o-e"), |_| true).is_empty() && !staying.loses_another(Some("o-e"), &[]));
        // The ID is from another column.
        let mapped = |others: &[&str]| Address { id: Some("spring".to_owned()), ..address("3xYz_9", others) };
        let found = mapped(&[]).aliases(Some("spring"), |_| true);
        assert_eq!(found.iter().map(Alias::as_str).collect::<Vec<_>>(), ["3xYz_9"]);
        let two = mapped(&["https://go.example.com/spring", "https://go.example.com/cafe\u{301}"]);
        let found = two.aliases(Some("spring"), |_| true);
        assert_eq!(found.iter().map(Alias::as_str).collect::<Vec<_>>(), ["3xYz_9", "caf\u{e9}"]);
        assert!(!two.loses_another(Some("spring"), &found));
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
    fn a_key_is_the_short_link_however_it_is_written() {
        let key = |url: Option<&str>, id: Option<&str>| {
            Address { id: id.map(str::to_owned), url: url.map(str::to_owned), ..Address::default() }.key()
        };
        for url in ["https://Go.example.com/c/d", "go.example.com/c/d/", "http://go.example.com/c/d?x=1"] {
            assert_eq!(key(Some(url), Some("c/d")).as_deref(), Some("go.example.com/c/d"), "{url}");
        }
        assert_eq!(key(None, Some("a_b")).as_deref(), Some("/a_b"));
        assert_eq!(key(Some("https://go.example.com"), None), None);
    }
}
