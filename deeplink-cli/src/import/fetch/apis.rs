//! The lists of links that other services' APIs have: what is requested, and what a response says.
//!
//! - Bitly: <https://dev.bitly.com/api-reference#getBitlinksByGroup>, for each group, with
//!   [`search_after`](https://dev.bitly.com/docs/getting-started/changes-to-retrieve-bitlinks-by-group/)
//! - Dub: <https://dub.co/docs/api-reference/links/list>, with `startingAfter`, for links without a folder and then for each
//!   folder of <https://dub.co/docs/api-reference/folders/list>
//! - Shlink: <https://api-spec.shlink.io>, `listShortUrls`, by page
//!
//! Branch's API reads single links whose URLs are known, but has no list of them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Links on a page of Bitly or Dub, which allow no more.
const PAGE: usize = 100;
/// Folders on a page of Dub, which allows no more.
const FOLDERS_PAGE: usize = 50;
/// Links on a page of Shlink.
const SHLINK_PAGE: usize = 500;

/// A service whose API lists its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Bitly,
    Dub,
    Shlink,
}

/// Which request is next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Cursor {
    /// The first.
    #[default]
    Start,
    /// Bitly: the groups that are left, and the token of the first group's next page, unless that is its first page.
    Groups { groups: Vec<String>, after: Option<String> },
    /// Dub: a page of the folders, and those on earlier pages.
    Folders { page: u64, listed: Vec<String> },
    /// Dub: the folders that are left, where an empty ID stands for links without one, and the ID of the last link of the
    /// first, unless that is on its first page.
    Links { folders: Vec<String>, after: Option<String> },
    /// Shlink: the number of the page.
    Page(u64),
}

/// What a response contains.
#[derive(Debug)]
pub(super) struct Page {
    /// The links; `None` if it lists something else.
    pub(super) links: Option<Vec<Box<RawValue>>>,
    /// `None` after the last page.
    pub(super) next: Option<Cursor>,
}

#[derive(Deserialize)]
struct BitlyGroups {
    groups: Vec<BitlyGroup>,
}

#[derive(Deserialize)]
struct BitlyGroup {
    guid: String,
}

#[derive(Deserialize)]
struct Bitlinks {
    links: Vec<Box<RawValue>>,
    pagination: BitlyPages,
}

#[derive(Deserialize)]
struct BitlyPages {
    /// Empty on the last page.
    search_after: Option<String>,
}

/// A folder or a link of Dub.
#[derive(Deserialize)]
struct DubItem {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShlinkList {
    short_urls: ShortUrls,
}

#[derive(Deserialize)]
struct ShortUrls {
    data: Vec<Box<RawValue>>,
    pagination: ShlinkPages,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShlinkPages {
    pages_count: u64,
}

impl Api {
    /// The service, for messages.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Bitly => "Bitly",
            Self::Dub => "Dub",
            Self::Shlink => "Shlink",
        }
    }

    /// Where the service's API is, unless everyone has a server of their own.
    pub(super) fn url(self) -> Option<&'static str> {
        match self {
            Self::Bitly => Some("https://api-ssl.bitly.com"),
            Self::Dub => Some("https://api.dub.co"),
            Self::Shlink => None,
        }
    }

    /// The header for the key, unless it is a bearer token.
    pub(super) fn key_header(self) -> Option<&'static str> {
        (self == Self::Shlink).then_some("x-api-key")
    }

    /// Which key the API accepts.
    pub(super) fn permission(self) -> &'static str {
        match self {
            Self::Bitly => {
                "use an access token of a Bitly user who is a member of the group: in Bitly, see Settings, then API"
            }
            Self::Dub => {
                "use an API key for the workspace with read access to links and folders (links.read, folders.read)"
            }
            Self::Shlink => {
                "use an API key that is enabled, has not expired, and has no roles that limit it to some short URLs: \
                 shlink api-key:list"
            }
        }
    }

    /// Path and query of a request.
    pub(super) fn request(self, cursor: &Cursor) -> (String, Vec<(&'static str, String)>) {
        match self {
            Self::Bitly => match cursor {
                Cursor::Groups { groups, after } if !groups.is_empty() => {
                    let mut query = vec![("size", PAGE.to_string()), ("archived", "both".to_owned())];
                    query.extend(after.iter().map(|after| ("search_after", after.clone())));
                    (format!("/v4/groups/{}/bitlinks", groups[0]), query)
                }
                _ => ("/v4/groups".to_owned(), Vec::new()),
            },
            Self::Dub => match cursor {
                Cursor::Links { folders, after } => {
                    let mut query = vec![("pageSize", PAGE.to_string()), ("showArchived", "true".to_owned())];
                    let folder = folders.first().filter(|folder| !folder.is_empty());
                    query.extend(folder.map(|folder| ("folderId", folder.clone())));
                    query.extend(after.iter().map(|after| ("startingAfter", after.clone())));
                    ("/links".to_owned(), query)
                }
                _ => {
                    let query = vec![("page", page_number(cursor).to_string()), ("pageSize", FOLDERS_PAGE.to_string())];
                    ("/folders".to_owned(), query)
                }
            },
            Self::Shlink => {
                // Short URLs that are created meanwhile are on the last page, so that no other page changes.
                let query = vec![
                    ("page", page_number(cursor).to_string()),
                    ("itemsPerPage", SHLINK_PAGE.to_string()),
                    ("orderBy", "dateCreated-ASC".to_owned()),
                ];
                ("/rest/v3/short-urls".to_owned(), query)
            }
        }
    }

    /// Reads a response.
    pub(super) fn page(self, cursor: &Cursor, body: &[u8]) -> Result<Page, String> {
        match self {
            Self::Bitly => match cursor {
                Cursor::Groups { groups, .. } if !groups.is_empty() => bitlinks(groups, body),
                _ => bitly_groups(body),
            },
            Self::Dub => match cursor {
                Cursor::Links { folders, .. } => dub_links(folders, body),
                Cursor::Folders { page, listed } => dub_folders(*page, listed.clone(), body),
                _ => dub_folders(1, Vec::new(), body),
            },
            Self::Shlink => {
                let ShortUrls { data, pagination } = parse::<ShlinkList>(body)?.short_urls;
                let page = page_number(cursor);
                let next = (page < pagination.pages_count).then(|| Cursor::Page(page + 1));
                Ok(Page { links: Some(data), next })
            }
        }
    }
}

fn page_number(cursor: &Cursor) -> u64 {
    match cursor {
        Cursor::Page(page) | Cursor::Folders { page, .. } => *page,
        _ => 1,
    }
}

fn dub_folders(page: u64, mut listed: Vec<String>, body: &[u8]) -> Result<Page, String> {
    let folders: Vec<DubItem> = parse(body)?;
    let is_last = folders.len() < FOLDERS_PAGE;
    listed.extend(folders.into_iter().map(|folder| folder.id).filter(|id| !id.is_empty()));
    let next = if is_last {
        // A list without a folder has none of the links in folders.
        listed.insert(0, String::new());
        Cursor::Links { folders: listed, after: None }
    } else {
        Cursor::Folders { page: page + 1, listed }
    };
    Ok(Page { links: None, next: Some(next) })
}

fn dub_links(folders: &[String], body: &[u8]) -> Result<Page, String> {
    let links: Vec<Box<RawValue>> = parse(body)?;
    let last = links.last().filter(|_| links.len() >= PAGE);
    let after = last.map(|last| parse(last.get().as_bytes()).map(|link: DubItem| link.id)).transpose()?;
    let left = folders.get(usize::from(after.is_none())..).unwrap_or_default().to_vec();
    let next = (!left.is_empty()).then_some(Cursor::Links { folders: left, after });
    Ok(Page { links: Some(links), next })
}

fn bitly_groups(body: &[u8]) -> Result<Page, String> {
    let groups: Vec<String> = parse::<BitlyGroups>(body)?.groups.into_iter().map(|group| group.guid).collect();
    if groups.iter().any(|guid| guid.is_empty() || guid.bytes().any(|byte| !byte.is_ascii_alphanumeric())) {
        return Err("a group has an unexpected ID".to_owned());
    }
    Ok(Page { links: None, next: following(groups, None) })
}

fn bitlinks(groups: &[String], body: &[u8]) -> Result<Page, String> {
    let Bitlinks { links, pagination } = parse(body)?;
    let after = pagination.search_after.filter(|after| !after.is_empty());
    let done = usize::from(after.is_none());
    Ok(Page { links: Some(links), next: following(groups[done..].to_vec(), after) })
}

fn following(groups: Vec<String>, after: Option<String>) -> Option<Cursor> {
    (!groups.is_empty()).then_some(Cursor::Groups { groups, after })
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requests of a whole reading, and the number of links in each response.
    fn read(api: Api, bodies: &[&str]) -> Vec<(String, Option<usize>)> {
        let (mut cursor, mut read) = (Cursor::Start, Vec::new());
        for (at, body) in bodies.iter().enumerate() {
            let (path, query) = api.request(&cursor);
            let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let page = api.page(&cursor, body.as_bytes()).expect(body);
            read.push((format!("{path}?{}", query.join("&")), page.links.map(|links| links.len())));
            match page.next {
                Some(next) => cursor = next,
                None => assert_eq!(at + 1, bodies.len(), "{read:?}"),
            }
        }
        read
    }

    #[test]
    fn bitly_is_read_group_by_group() {
        let read = read(
            Api::Bitly,
            &[
                r#"{"groups": [{"guid": "Ba1", "name": "x"}, {"guid": "Bb2"}]}"#,
                r#"{"links": [{"id": "bit.ly/a"}], "pagination": {"search_after": "t+1", "size": 100}}"#,
                r#"{"links": [{"id": "bit.ly/b"}], "pagination": {"search_after": ""}}"#,
                r#"{"links": [], "pagination": {"size": 100}}"#,
            ],
        );
        let list = |group: &str, after: &str| format!("/v4/groups/{group}/bitlinks?size=100&archived=both{after}");
        assert_eq!(
            read,
            [
                ("/v4/groups?".to_owned(), None),
                (list("Ba1", ""), Some(1)),
                (list("Ba1", "&search_after=t+1"), Some(1)),
                (list("Bb2", ""), Some(0)),
            ]
        );
        assert_eq!(self::read(Api::Bitly, &[r#"{"groups": []}"#]).len(), 1);
        for guid in ["", "a/b", "..", "a?b"] {
            let body = format!(r#"{{"groups": [{{"guid": "{guid}"}}]}}"#);
            assert!(Api::Bitly.page(&Cursor::Start, body.as_bytes()).is_err(), "{guid}");
        }
    }

    #[test]
    fn dub_is_read_folder_by_folder() {
        let items = |name: &str, count: usize| {
            let all: Vec<String> = (0..count).map(|at| format!(r#"{{"id": "{name}_{at}"}}"#)).collect();
            format!("[{}]", all.join(","))
        };
        let (full, one) = (items("link", PAGE), items("link", 1));
        let none = read(Api::Dub, &["[]", &full, "[]"]);
        let list = "/links?pageSize=100&showArchived=true";
        let folders = |page: u32| (format!("/folders?page={page}&pageSize=50"), None);
        let first = (list.to_owned(), Some(PAGE));
        assert_eq!(none, [folders(1), first.clone(), (format!("{list}&startingAfter=link_99"), Some(0))]);
        // Links in folders are on lists of their own.
        let two = [&*items("fold", 2), &one, &full, "[]", &one];
        let in_folder = |at: usize, after: &str| format!("{list}&folderId=fold_{at}{after}");
        assert_eq!(
            read(Api::Dub, &two),
            [
                folders(1),
                (list.to_owned(), Some(1)),
                (in_folder(0, ""), Some(PAGE)),
                (in_folder(0, "&startingAfter=link_99"), Some(0)),
                (in_folder(1, ""), Some(1)),
            ]
        );
        let many = Api::Dub.page(&Cursor::Start, items("fold", FOLDERS_PAGE).as_bytes()).expect("folders");
        assert_eq!(Api::Dub.request(&many.next.expect("another page")).1[0].1, "2");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for api in [Api::Bitly, Api::Dub, Api::Shlink] {
            for body in ["", "<html>", "{}", "null", r#"{"links": []}"#, r#"{"shortUrls": {"data": []}}"#] {
                assert!(api.page(&Cursor::Start, body.as_bytes()).is_err(), "{api:?}: {body}");
            }
        }
    }
}
