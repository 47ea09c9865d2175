//! Tags on the pages of links, and the filter of the list.

use deeplink_core::link::{LinkDetail, LinkFilter, LinkStatus};
use deeplink_core::patch::Patch;
use deeplink_core::tag::Tag;
use url::form_urlencoded;

use super::form::{Field, Form};
use super::person::Person;
use crate::api;
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::state::App;

/// The field of a form.
pub(super) fn field() -> Field {
    Field::line(
        "tags",
        "Tags",
        "Group links, for example by campaign. Separate tags with commas. Only you and your team see them.",
    )
    .placeholder("spring, poster")
}

/// The text of the field for these tags.
pub(super) fn text_of(tags: &[String]) -> String {
    tags.join(", ")
}

/// The tags in a form; `None` if there are none.
pub(super) fn in_form(form: &Form) -> Option<Vec<String>> {
    let text = form.filled("tags")?;
    Some(text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect())
}

/// The change of a link's tags by a form.
pub(super) fn change_in(form: &Form, now: &LinkDetail) -> Patch<Vec<String>> {
    if !form.has("tags") || form.value("tags") == text_of(&now.tags) {
        return Patch::Keep;
    }
    in_form(form).map_or(Patch::Clear, Patch::Set)
}

/// A tag that links to the list of links with it.
pub(super) struct TagLink {
    pub(super) text: String,
    pub(super) href: String,
}

/// A link's tags.
pub(super) fn links_of(tags: &[String]) -> Vec<TagLink> {
    tags.iter().map(|tag| TagLink { text: tag.clone(), href: list_of("", Some(tag), None) }).collect()
}

/// The list of links that contain a text, and have a tag and a status.
fn list_of(search: &str, tag: Option<&str>, status: Option<&LinkStatus>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(Some(("q", search)).filter(|_| !search.is_empty()));
    query.extend_pairs(tag.map(|tag| ("tag", tag)));
    query.extend_pairs(status.map(|status| ("status", status.as_str())));
    let query = query.finish();
    if query.is_empty() { "/account/links".to_owned() } else { format!("/account/links?{query}") }
}

/// What the list shows.
pub(super) struct Shown {
    /// What is searched for; empty for all links.
    pub(super) search: String,
    /// The tag that links must have.
    pub(super) tag: Option<String>,
    /// The account's tags; those chosen are marked.
    pub(super) choices: Vec<(String, bool)>,
    /// The status that links must have.
    pub(super) status: Option<LinkStatus>,
    /// Each status and its words; the one chosen is marked.
    pub(super) statuses: Vec<(LinkStatus, &'static str, bool)>,
}

/// The statuses that can be chosen, in words.
fn statuses() -> [(LinkStatus, &'static str); 4] {
    [
        (LinkStatus::Active, "Active"),
        (LinkStatus::Expired, "Expired"),
        (LinkStatus::Disabled, "Disabled"),
        (LinkStatus::Flagged, "Flagged as unsafe"),
    ]
}

impl Shown {
    /// Reads the query of the list.
    pub(super) async fn read(app: &App, person: &Person, query: &Query) -> Result<Self, ApiError> {
        let search = api::link_list::searched(query)?.unwrap_or_default().trim().to_owned();
        let tag = query.parsed("tag", "a tag", |text| match text.trim() {
            "" => Some(None),
            text => Tag::parse(text).ok().map(Some),
        });
        let tag = tag?.flatten();
        let status = query.parsed("status", "active, expired, disabled or flagged", |text| match text {
            "" => Some(None),
            text => statuses().into_iter().map(|(status, _)| status).find(|status| status.as_str() == text).map(Some),
        });
        let status = status?.flatten();
        let statuses = statuses().map(|(one, words)| (one.clone(), words, Some(&one) == status.as_ref())).into();
        let all = api::tags::names_for(app, &person.caller).await?;
        let choices = all.into_iter().map(|one| (one.as_str().to_owned(), Some(&one) == tag.as_ref())).collect();
        Ok(Self { search, tag: tag.map(Tag::into_text), choices, status, statuses })
    }

    /// Whether all links are shown.
    pub(super) fn is_all(&self) -> bool {
        self.search.is_empty() && self.tag.is_none() && self.status.is_none()
    }

    /// The filter in the service's form.
    pub(super) fn filter(&self) -> LinkFilter {
        let mut filter = LinkFilter::new();
        filter.q = Some(self.search.clone()).filter(|text| !text.is_empty());
        filter.tags = self.tag.iter().cloned().collect();
        filter.status.clone_from(&self.status);
        filter
    }

    /// Path and query of the list's first page.
    pub(super) fn href(&self) -> String {
        list_of(&self.search, self.tag.as_deref(), self.status.as_ref())
    }
}
