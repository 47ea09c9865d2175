//! The filters and the order of the list of links, as its page reads them from the query and offers them.

use deeplink_core::link::{LinkFilter, LinkSort, LinkStatus};
use deeplink_core::page::MAX_LIMIT;
use deeplink_core::tag::Tag;
use deeplink_core::time::Timestamp;
use deeplink_core::zone::Zone;
use url::form_urlencoded;

use super::link_list::PAGE_SIZE;
use super::person::Person;
use super::range::{NAMED, Named, last_days};
use crate::api;
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::state::App;

/// The path of the list.
pub(super) const LIST: &str = "/account/links";

/// The statuses that can be chosen, in words.
const STATUSES: [(LinkStatus, &str); 4] = [
    (LinkStatus::Active, "Active"),
    (LinkStatus::Expired, "Expired"),
    (LinkStatus::Disabled, "Disabled"),
    (LinkStatus::Flagged, "Flagged as unsafe"),
];

/// The order of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Newest,
    Oldest,
    /// Of the links with the most clicks alone.
    Clicks,
}

/// The orders that can be chosen: the value in the query, and the option.
const ORDERS: [(Order, &str, &str); 3] = [
    (Order::Newest, "newest", "Newest first"),
    (Order::Oldest, "oldest", "Oldest first"),
    (Order::Clicks, "clicks", "Most clicks"),
];

/// A choice in the form of the list.
pub(super) struct Choice {
    /// The parameter.
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) options: Vec<ChoiceOption>,
}

/// An option: what the query has, and its words. The first of a choice is an empty value.
pub(super) struct ChoiceOption {
    pub(super) value: String,
    pub(super) words: String,
    pub(super) is_chosen: bool,
}

impl Choice {
    /// A choice among values with their words, or the first option.
    fn new<V: Into<String>, W: Into<String>>(
        (name, label, first): (&'static str, &'static str, &str),
        options: impl IntoIterator<Item = (V, W, bool)>,
    ) -> Self {
        let first = ChoiceOption { value: String::new(), words: first.to_owned(), is_chosen: false };
        let options = options.into_iter().map(|(value, words, is_chosen)| ChoiceOption {
            value: value.into(),
            words: words.into(),
            is_chosen,
        });
        Self { name, label, options: std::iter::once(first).chain(options).collect() }
    }
}

/// What the query of the list asks for.
pub(super) struct LinkListQuery {
    /// What is searched for; empty for all links.
    pub(super) search: String,
    /// The tag that links must have.
    pub(super) tag: Option<Tag>,
    /// The status that links must have.
    pub(super) status: Option<LinkStatus>,
    /// The host that links must have in their URLs.
    pub(super) domain: Option<String>,
    /// The period up to now in which links must have been created.
    period: Option<Named>,
    order: Order,
    /// What can be chosen, with what is.
    pub(super) choices: Vec<Choice>,
}

impl LinkListQuery {
    /// Reads the query of the list, and what can be chosen there.
    pub(super) async fn read(app: &App, person: &Person, query: &Query) -> Result<Self, ApiError> {
        let mut list = Self::parse(query)?;
        let tags = api::tags::names_for(app, &person.caller).await?;
        let hosts = api::domains::primaries_of(app, &person.caller).await?;
        list.choices = list.choices_of(tags, hosts);
        Ok(list)
    }

    /// Reads the query of the list alone.
    pub(super) fn parse(query: &Query) -> Result<Self, ApiError> {
        let search = query.one("q")?.unwrap_or_default().trim().to_owned();
        let tag = chosen(query, "tag", "a tag", |text| Tag::parse(text).ok())?;
        let status = chosen(query, "status", "active, expired, disabled or flagged", |text| {
            STATUSES.into_iter().map(|(status, _)| status).find(|status| status.as_str() == text)
        })?;
        let domain = chosen(query, "domain", "a host name", deeplink_core::url::host)?;
        let period = chosen(query, "created", "today, 7d, 30d, 90d or 12m", |text| {
            NAMED.into_iter().find(|(name, ..)| *name == text)
        })?;
        let order = chosen(query, "sort", "newest, oldest or clicks", |text| {
            ORDERS.into_iter().find(|(_, value, _)| *value == text).map(|(order, ..)| order)
        })?;
        let order = order.unwrap_or(Order::Newest);
        Ok(Self { search, tag, status, domain, period, order, choices: Vec::new() })
    }

    /// What can be chosen: a tag if the account has any, and a domain if it has several.
    fn choices_of(&self, mut tags: Vec<Tag>, mut hosts: Vec<String>) -> Vec<Choice> {
        let mut choices = Vec::new();
        // What was chosen may be gone from the account.
        if let Some(tag) = self.tag.as_ref().filter(|tag| !tags.contains(tag)) {
            tags.push(tag.clone());
        }
        if !tags.is_empty() {
            let tags = tags.into_iter().map(|tag| {
                let is_chosen = Some(&tag) == self.tag.as_ref();
                (tag.as_str().to_owned(), tag.into_text(), is_chosen)
            });
            choices.push(Choice::new(("tag", "Tag", "All tags"), tags));
        }
        let statuses = STATUSES.into_iter().map(|(status, words)| {
            let is_chosen = Some(&status) == self.status.as_ref();
            (status.as_str().to_owned(), words, is_chosen)
        });
        choices.push(Choice::new(("status", "Status", "All statuses"), statuses));
        if let Some(host) = self.domain.as_ref().filter(|host| !hosts.contains(host)) {
            hosts.push(host.clone());
        }
        if hosts.len() > 1 || self.domain.is_some() {
            let hosts = hosts.into_iter().map(|host| {
                let is_chosen = Some(&host) == self.domain.as_ref();
                (host.clone(), host, is_chosen)
            });
            choices.push(Choice::new(("domain", "Domain", "All domains"), hosts));
        }
        let periods = NAMED.into_iter().map(|period| {
            let is_chosen = Some(period) == self.period;
            (period.0, format!("Created {}", period.3.to_lowercase()), is_chosen)
        });
        choices.push(Choice::new(("created", "Created", "Created any time"), periods));
        let [(_, _, first), others @ ..] = ORDERS;
        let orders = others.into_iter().map(|(order, value, words)| (value, words, order == self.order));
        choices.push(Choice::new(("sort", "Sort by", first), orders));
        choices
    }

    /// Whether no filter is set.
    fn is_unfiltered(&self) -> bool {
        self.search.is_empty() && self.has_no_choice()
    }

    fn has_no_choice(&self) -> bool {
        self.tag.is_none() && self.status.is_none() && self.domain.is_none() && self.period.is_none()
    }

    /// Whether the list has all links.
    pub(super) fn is_all(&self) -> bool {
        self.is_unfiltered() && !self.is_by_clicks()
    }

    pub(super) fn is_by_clicks(&self) -> bool {
        self.order == Order::Clicks
    }

    pub(super) fn is_oldest_first(&self) -> bool {
        self.order == Order::Oldest
    }

    /// The age of the links that follow.
    pub(super) fn next_age(&self) -> &'static str {
        if self.is_oldest_first() { "newer" } else { "older" }
    }

    /// The period in which the links were created, as a sentence says it.
    pub(super) fn created(&self) -> Option<String> {
        self.period.map(words_of)
    }

    /// What the list contains, and in which order.
    pub(super) fn caption(&self) -> String {
        let links = match self.order {
            Order::Clicks if self.is_unfiltered() => {
                return format!("The most-clicked links of the last 30 days, at most {PAGE_SIZE}.");
            }
            Order::Clicks => {
                return format!(
                    "Matching links of the {MAX_LIMIT} most-clicked links of the last 30 days, at most {PAGE_SIZE}."
                );
            }
            _ if self.is_unfiltered() => "Your links",
            _ if self.has_no_choice() => {
                "Links whose ID, aliases, name, title, tags, URLs or metadata contain this text"
            }
            _ => "Matching links",
        };
        let order = if self.is_oldest_first() { "oldest first" } else { "newest first" };
        format!("{links}, {order}. Clicks are from the last 30 days.")
    }

    /// Why the list is empty, if it is one by clicks.
    pub(super) fn no_clicks(&self) -> String {
        if self.is_unfiltered() {
            "No links were clicked in the last 30 days.".to_owned()
        } else {
            format!("None of the {MAX_LIMIT} most-clicked links of the last 30 days match.")
        }
    }

    /// The filter in the service's form. Days are those of the account's time zone.
    pub(super) fn filter(&self, now: Timestamp, zone: &Zone) -> LinkFilter {
        let mut filter = LinkFilter::new();
        filter.q = Some(self.search.clone()).filter(|text| !text.is_empty());
        filter.tags = self.tag.iter().map(|tag| tag.as_str().to_owned()).collect();
        filter.status.clone_from(&self.status);
        filter.domain.clone_from(&self.domain);
        let days = self.period.map(|(_, days, ..)| last_days(zone, days, now));
        // The moments after which links are created do not include the first one.
        filter.created_after = days.and_then(|days| Some(days.first()?.start.plus_millis(-1)));
        filter.sort = self.is_oldest_first().then_some(LinkSort::Oldest);
        filter
    }

    /// Path and query of the list's first page.
    pub(super) fn href(&self) -> String {
        self.href_at(LIST, [])
    }

    /// Path and query of the file with the links of the list.
    pub(super) fn csv_href(&self) -> String {
        self.href_at("/account/links.csv", [])
    }

    /// A path with the parameters of the list, and with more.
    pub(super) fn href_at<'a>(
        &'a self,
        path: &str,
        more: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> String {
        let sort = ORDERS.iter().find(|(order, ..)| *order == self.order).filter(|_| self.order != Order::Newest);
        let own = [
            ("q", Some(&*self.search).filter(|text| !text.is_empty())),
            ("tag", self.tag.as_ref().map(Tag::as_str)),
            ("status", self.status.as_ref().map(LinkStatus::as_str)),
            ("domain", self.domain.as_deref()),
            ("created", self.period.map(|(name, ..)| name)),
            ("sort", sort.map(|(_, value, _)| *value)),
        ];
        href_of(path, own.into_iter().chain(more))
    }
}

/// A period, in a sentence.
fn words_of((_, days, _, title): Named) -> String {
    let title = title.to_lowercase();
    if days == 1 { title } else { format!("in the {title}") }
}

/// The value of a parameter that the form may send empty.
fn chosen<T>(
    query: &Query,
    name: &'static str,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, ApiError> {
    let value = query.parsed(name, expected, |text| match text.trim() {
        "" => Some(None),
        text => parse(text).map(Some),
    });
    Ok(value?.flatten())
}

/// The list of the links with a tag.
pub(super) fn tagged(tag: &str) -> String {
    href_of(LIST, [("tag", Some(tag))])
}

/// A path with these parameters.
fn href_of<'a>(path: &str, parameters: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
