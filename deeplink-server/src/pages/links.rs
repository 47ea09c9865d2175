//! Links: one link, and its deletion. Their list is in [`super::link_list`], the forms that create and change one in
//! [`super::link_form`].

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use deeplink_core::link::{LinkDetail, LinkStatus};
use deeplink_core::time::Timestamp;

use super::chart::{Count, Report};
use super::confirm::Question;
use super::form::Form;
use super::frame::{Back, Frame, REPORTS, Section, answer};
use super::headers::after_deletion;
use super::link_form::label_of;
use super::person::Person;
use super::range::Range;
use super::tags::{self, TagLink};
use super::{PageResult, explanations, qr_look};
use crate::api;
use crate::api::explanations::takedown_of;
use crate::db::domains;
use crate::http::extract::{Path, Query};
use crate::state::Shared;
use crate::visit::explanation::Address;

/// A status in words, and the class of its badge.
pub(super) struct Status {
    pub(super) word: &'static str,
    pub(super) class: &'static str,
}

impl From<&LinkStatus> for Status {
    fn from(status: &LinkStatus) -> Self {
        let (word, class) = match status {
            LinkStatus::Active => ("Active", "good"),
            LinkStatus::Expired => ("Expired", "over"),
            LinkStatus::Flagged => ("Flagged as unsafe", "bad"),
            _ => ("Disabled", "over"),
        };
        Self { word, class }
    }
}

/// A link's name, else its title.
pub(super) fn name_of(link: &LinkDetail) -> Option<String> {
    let title = || link.social_preview.as_ref().and_then(|preview| preview.title.clone());
    link.name.clone().or_else(title)
}

/// The first destination of a link.
pub(super) fn destination_of(link: &LinkDetail) -> Option<String> {
    let destinations =
        [&link.web_url, &link.ios_deep_link, &link.android_deep_link, &link.ios_store_url, &link.android_store_url];
    destinations.into_iter().find_map(Clone::clone)
}

#[derive(Template)]
#[template(path = "pages/link.html")]
struct LinkPage<'a> {
    frame: &'a Frame,
    link: &'a LinkDetail,
    status: Status,
    /// Whether the operator flagged or disabled it.
    is_taken_down: bool,
    /// The operator's reason.
    takedown: Option<String>,
    created: Timestamp,
    expires: Option<Timestamp>,
    is_expired: bool,
    /// Whether the end is that of an account without a verified domain.
    ends_without_domain: bool,
    /// Whether the service is on the person's own machine, so that its settings are theirs.
    is_loopback: bool,
    report: Report,
    tags: Vec<TagLink>,
    /// Clicks that a previous service counted.
    imported: Option<Count>,
    /// Label and URL of each destination.
    destinations: Vec<(&'static str, &'a str)>,
    explained: Vec<explanations::Answer>,
    action: Option<&'static str>,
    /// The QR code as an image source that needs no escaping between double quotes.
    qr: Option<Arc<str>>,
    /// Whether the image fails if the server of its logo does.
    fetches_logo: bool,
}

/// One link.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    query: Query,
) -> PageResult {
    let now = app.clock.now();
    let (link, is_taken_down, takedown, address) = {
        let mut reader = app.db.read().await?;
        let mut db = reader.conn();
        let link = api::links::find(&mut db, &person.caller, &id).await?;
        let primary = domains::primary_of(&mut db, &person.caller.tenant).await?;
        let mut address = Address::of(&app, &mut db, &link, primary.as_deref(), None).await?;
        let takedown = takedown_of(&mut db, &person.caller, &link).await?;
        address.takedown.clone_from(&takedown);
        let is_taken_down = link.is_taken_down;
        (app.detail(link, primary.as_deref(), now), is_taken_down, takedown, address)
    };
    // Nobody should print a code that shows only a notice.
    let qr = match &link.qr {
        _ if is_taken_down => None,
        Some(_) => Some(qr_look::shown(&link).into()),
        None => app.codes.on_page(person.caller.tenant.as_str(), &link.url).await,
    };
    let destinations = [
        ("Web page", &link.web_url),
        ("iOS app", &link.ios_deep_link),
        ("App Store", &link.ios_store_url),
        ("Android app", &link.android_deep_link),
        ("Google Play", &link.android_store_url),
    ];
    let range = Range::read(format!("/account/links/{id}"), &query, now, &person.who.zone)?;
    let report = Report::of(&app, &person.caller, "", std::slice::from_ref(&link.link_id), range).await;
    let status = report.status();
    let frame = Frame::of(&app, &person, Section::LINKS, id).with(&REPORTS).after(&query);
    let page = LinkPage {
        frame: &frame,
        status: Status::from(&link.status),
        is_taken_down,
        takedown,
        created: link.created_at,
        expires: link.expires_at,
        is_expired: link.status == LinkStatus::Expired,
        ends_without_domain: link.expires_at != link.owner_expires_at,
        is_loopback: app.is_loopback,
        report,
        destinations: destinations.into_iter().filter_map(|(name, url)| Some((name, url.as_deref()?))).collect(),
        explained: explanations::by_device(&app, &address).await?,
        action: link.agent_context.as_ref().and_then(|context| context.action.as_ref()).map(label_of),
        tags: tags::links_of(&link.tags),
        fetches_logo: link.qr.as_ref().is_some_and(qr_look::fetches_logo),
        imported: link.imported_clicks.map(Count::from),
        link: &link,
        qr,
    };
    Ok(answer(&app, status, &frame, &page))
}

/// Asks for confirmation.
pub(super) async fn confirm(State(app): State<Shared>, person: Person, Path(id): Path<String>) -> PageResult {
    let link = api::links::get_for(&app, &person.caller, &id).await?;
    let lead = "Anyone who clicks it gets a “not found” page, wherever it is printed or posted. You can restore it for 30 days.";
    let back = Back { path: &format!("/account/links/{id}"), name: &id };
    Ok(Question::delete(Section::LINKS, "link", &link.url, lead, back).ask(&app, &person, None))
}

/// Deletes a link.
pub(super) async fn delete(State(app): State<Shared>, person: Person, Path(id): Path<String>, _: Form) -> PageResult {
    let deleted = api::links::delete_for(&app, Arc::clone(&person.caller), id).await;
    after_deletion(deleted, "/account/links", "link-deleted")
}
