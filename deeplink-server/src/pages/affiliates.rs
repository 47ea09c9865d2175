//! Affiliates: the list with a form to add one, and one affiliate with its credentials.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use deeplink_core::affiliate::{
    AffiliateDetail, AffiliateStatus, CreateAffiliate, MAX_CREDENTIALS, MAX_NAME, UpdateAffiliate,
};
use deeplink_core::link::LinkFilter;
use deeplink_core::time::Timestamp;

use super::PageResult;
use super::affiliate_numbers::{MAX_LINKS, Numbers};
use super::chart::Report;
use super::confirm::Question;
use super::form::{Field, Form, FormView, Group, Kind, View, secret_of};
use super::frame::{Back, Frame, Pager, REPORTS, Section, answer};
use super::headers::{after_deletion, see_other};
use super::link_list::{self, LinkRow};
use super::person::Person;
use super::range::Range;
use super::secret::{Secret, SecretKind};
use crate::api;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::once::{Answer, Once};
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};

/// Links per page of an affiliate's list, which is below a report.
const LINKS_PER_PAGE: u32 = 25;

struct AffiliateView {
    id: String,
    name: String,
    partner_key: String,
    is_active: bool,
    created: Timestamp,
}

impl From<AffiliateDetail> for AffiliateView {
    fn from(affiliate: AffiliateDetail) -> Self {
        Self {
            id: affiliate.id.to_string(),
            is_active: affiliate.status == AffiliateStatus::Active,
            created: affiliate.created_at,
            name: affiliate.name,
            partner_key: affiliate.partner_key,
        }
    }
}

#[derive(Template)]
#[template(path = "pages/affiliates.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    affiliates: Vec<(AffiliateView, Numbers)>,
    pager: Pager,
    form: FormView,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    list_page(&app, &person, View::Opened(Some(&query))).await
}

async fn list_page(app: &Shared, person: &Person, view: View<'_>) -> PageResult {
    let cursor = view.cursor()?;
    let found = api::affiliates::list_for(app, &person.caller, PageRequest::at(cursor)).await?;
    let hint = "A short ID for use in code: 2 to 32 lowercase letters, digits and hyphens. It cannot be changed later.";
    let fields = vec![
        Field::line("name", "Name", "").required().max_length(MAX_NAME).placeholder("Spring partner"),
        Field::line("partner_key", "Partner key", hint).required().max_length(32).placeholder("spring-partner"),
    ];
    let form = FormView::new(app, vec![Group::plain(fields)], &Form::default(), &view);
    let frame = Frame::list(app, person, Section::AFFILIATES, &view);
    let ids = found.affiliates.iter().map(|affiliate| affiliate.id.clone()).collect();
    let numbers = Numbers::of(app, &person.caller, ids).await?;
    let affiliates = found.affiliates.into_iter().map(AffiliateView::from).zip(numbers).collect();
    let pager = Pager::new("/account/affiliates", cursor, found.next_cursor);
    Ok(answer(app, view.outcome(), &frame, &ListPage { frame: &frame, affiliates, pager, form }))
}

/// Adds an affiliate.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    let asked_in = |form: &Form| CreateAffiliate::new(form.value("name"), form.value("partner_key"));
    if let Some(refused) = View::checked(&form, stand_in, |form| asked_in(form).check().map(drop)) {
        return list_page(&app, &person, refused).await;
    }
    let once = Once::form(&person.caller, "/account/affiliates", form.value("form"), &form.whole());
    let asked = asked_in(&form);
    match api::affiliates::create_for(&app, &person.caller, once, &asked).await {
        Ok(made) => {
            let id = made.into_made()?.id;
            Ok(see_other(&format!("/account/affiliates/{id}?done=affiliate-made")))
        }
        Err(error) => list_page(&app, &person, View::refused(&form, error)?).await,
    }
}

/// A valid value for each required field.
fn stand_in(field: &str) -> Option<(&'static str, &'static str)> {
    match field {
        "name" => Some(("name", "Partner")),
        "partner_key" => Some(("partner_key", "partner")),
        _ => None,
    }
}

struct CredentialRow {
    id: String,
    prefix: String,
    created: Timestamp,
}

#[derive(Template)]
#[template(path = "pages/affiliate.html")]
struct AffiliatePage<'a> {
    frame: &'a Frame,
    affiliate: AffiliateView,
    report: Report,
    /// One page of its links.
    links: Vec<LinkRow>,
    pager: Pager,
    credentials: Vec<CredentialRow>,
    max_credentials: i64,
    form: FormView,
}

/// One affiliate.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    query: Query,
) -> PageResult {
    page(&app, &person, &id, View::Opened(Some(&query))).await
}

async fn named(app: &App, person: &Person, id: &str) -> Result<AffiliateDetail, ApiError> {
    api::affiliates::find(app, &person.caller, &api::affiliates::named(id)?).await
}

fn links_of(affiliate: &AffiliateDetail) -> LinkFilter {
    LinkFilter::new().affiliate_id(affiliate.id.as_str())
}

/// The report on an affiliate's links, or on its newest if there are too many for one report.
async fn report_of(app: &App, person: &Person, affiliate: &AffiliateDetail, range: Range) -> Result<Report, ApiError> {
    let found = api::link_list::page_of(app, &person.caller, links_of(affiliate), None, MAX_LINKS).await?;
    let ids: Vec<String> = found.links.into_iter().map(|link| link.link_id).collect();
    let about = if found.next_cursor.is_some() { "Includes only this affiliate’s 100 newest links." } else { "" };
    let is_nothing = ids.is_empty() && range.error.is_none();
    Ok(if is_nothing { Report::NoLinks } else { Report::of(app, &person.caller, about, &ids, range).await })
}

async fn page(app: &Shared, person: &Person, id: &str, view: View<'_>) -> PageResult {
    let affiliate = named(app, person, id).await?;
    let all = api::credentials::list_for(app, &person.caller, &affiliate.id, PageRequest::at(None)).await?;
    let credentials = all.credentials.into_iter().map(|key| CredentialRow {
        id: key.id.to_string(),
        prefix: key.key_prefix,
        created: key.created_at,
    });
    let statuses = [("active", "Active"), ("disabled", "Disabled: its credentials are rejected")];
    let fields = vec![
        Field::line("name", "Name", "").required().max_length(MAX_NAME),
        Field::choice("status", "Status", "Its links keep working either way.", statuses),
    ];
    let stored = Form::with([("name", Some(affiliate.name.as_str())), ("status", Some(affiliate.status.as_str()))]);
    let form = FormView::new(app, vec![Group::plain(fields)], &stored, &view);
    let frame = Frame::of(app, person, Section::AFFILIATES, affiliate.name.clone()).with(&REPORTS).showing(&view);
    let cursor = view.cursor()?;
    let (links, next) = link_list::rows(app, person, links_of(&affiliate), cursor, LINKS_PER_PAGE).await?;
    let path = format!("/account/affiliates/{id}");
    let range = Range::read(path.as_str(), view.query(), app.clock.now(), &person.who.zone)?;
    let first = path + &range.query();
    let report = report_of(app, person, &affiliate, range).await?;
    let outcome = if let View::Opened(_) = view { report.status().into() } else { view.outcome() };
    let page = AffiliatePage {
        frame: &frame,
        report,
        links,
        pager: Pager::new(first, cursor, next),
        affiliate: affiliate.into(),
        credentials: credentials.collect(),
        max_credentials: MAX_CREDENTIALS,
        form,
    };
    Ok(answer(app, outcome, &frame, &page))
}

/// Changes an affiliate.
pub(super) async fn update(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> PageResult {
    let affiliate = named(&app, &person, &id).await?;
    let asked = UpdateAffiliate::new().name(form.value("name")).status(AffiliateStatus::from(form.value("status")));
    match api::affiliates::update_for(&app, Arc::clone(&person.caller), affiliate.id, &asked).await {
        Ok(_) => Ok(see_other(&format!("/account/affiliates/{id}?done=affiliate-saved"))),
        Err(error) => page(&app, &person, &id, View::refused(&form, error)?).await,
    }
}

/// Asks for confirmation.
pub(super) async fn confirm(State(app): State<Shared>, person: Person, Path(id): Path<String>) -> PageResult {
    let affiliate = named(&app, &person, &id).await?;
    let back = Back { path: &format!("/account/affiliates/{id}"), name: &affiliate.name };
    let lead = "Its credentials will stop working immediately. Its links will keep working. This cannot be undone.";
    let question = Question::delete(Section::AFFILIATES, "affiliate", &affiliate.name, lead, back);
    Ok(question.ask(&app, &person, None))
}

/// Deletes an affiliate.
pub(super) async fn delete(State(app): State<Shared>, person: Person, Path(id): Path<String>, _: Form) -> PageResult {
    let deleted = api::affiliates::delete_for(&app, person.caller, &id).await;
    after_deletion(deleted, "/account/affiliates", "affiliate-deleted")
}

/// Creates a credential and shows it once.
pub(super) async fn mint(State(app): State<Shared>, person: Person, Path(id): Path<String>, form: Form) -> PageResult {
    let path = format!("/account/affiliates/{id}");
    let affiliate = named(&app, &person, &id).await?;
    let once = secret_of(&person, &path, &form);
    match api::credentials::create_for(&app, Arc::clone(&person.caller), once, affiliate.id).await {
        Ok(Answer { made, .. }) => {
            let secret = Secret {
                section: Section::AFFILIATES,
                title: "New credential",
                lead: "Send it to the affiliate through a secure channel. It can only create, list and read the affiliate’s own links, and get their QR codes.",
                kind: SecretKind::ApiKey,
                back: Back { path: &path, name: &affiliate.name },
                repeated: "key-shown",
            };
            Ok(secret.show(&app, &person, made.as_ref().map(|made| made.api_key.expose())))
        }
        Err(error) => page(&app, &person, &id, View::refused(None, error)?).await,
    }
}

/// Asks for confirmation.
pub(super) async fn confirm_credential(
    State(app): State<Shared>,
    person: Person,
    Path((id, key)): Path<(String, String)>,
) -> PageResult {
    let found = api::credentials::find_for(&app, &person.caller, &id, &key).await?;
    let affiliate = named(&app, &person, &id).await?;
    let back = Back { path: &format!("/account/affiliates/{id}"), name: &affiliate.name };
    let lead = "Programs that use it lose access immediately. This cannot be undone.";
    let question = Question::delete(Section::AFFILIATES, "credential", &found.key_prefix, lead, back);
    Ok(question.ask(&app, &person, None))
}

/// Deletes a credential.
pub(super) async fn delete_credential(
    State(app): State<Shared>,
    person: Person,
    Path((id, key)): Path<(String, String)>,
    _: Form,
) -> PageResult {
    let affiliate = named(&app, &person, &id).await?;
    let deleted = api::credentials::delete_for(&app, person.caller, &id, &key).await;
    after_deletion(deleted, &format!("/account/affiliates/{}", affiliate.id), "credential-deleted")
}
