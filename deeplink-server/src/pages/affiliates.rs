//! Affiliates: the list with the form for one more, and one affiliate with its credentials.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::affiliate::{
    AffiliateDetail, AffiliateStatus, CreateAffiliate, CreatedCredential, MAX_CREDENTIALS, MAX_NAME, UpdateAffiliate,
};
use http::StatusCode;

use super::confirm::Question;
use super::form::{Field, Form, Group, Kind, Trouble, draw_id, fill, secret_of, status_of};
use super::frame::{Frame, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use super::secret::{Carrier, Secret};
use super::when::When;
use crate::api;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::state::{App, Shared};

/// An affiliate as the pages show it.
struct Shown {
    id: String,
    name: String,
    partner_key: String,
    is_active: bool,
    created: When,
}

impl From<AffiliateDetail> for Shown {
    fn from(affiliate: AffiliateDetail) -> Self {
        Self {
            id: affiliate.id.to_string(),
            is_active: affiliate.status == AffiliateStatus::Active,
            created: affiliate.created_at.into(),
            name: affiliate.name,
            partner_key: affiliate.partner_key,
        }
    }
}

#[derive(Template)]
#[template(path = "pages/affiliates.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    affiliates: Vec<Shown>,
    groups: Vec<Group>,
    form_id: String,
    trouble: Option<String>,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> Result<Response, ApiError> {
    list_page(&app, &person, Some(&query), &Form::default(), None).await
}

async fn list_page(
    app: &Shared,
    person: &Person,
    query: Option<&Query>,
    form: &Form,
    trouble: Option<&Trouble>,
) -> Result<Response, ApiError> {
    let all = api::affiliates::list_for(app, &person.caller).await?;
    let hint = "For programs: 2 to 32 small letters, digits and hyphens. It stays as it is.";
    let mut groups = vec![Group::of(
        "",
        "",
        vec![
            Field::line("name", "Name", "").required().up_to(MAX_NAME).such_as("Spring partner"),
            Field::line("partner_key", "Partner key", hint).required().up_to(32).such_as("spring-partner"),
        ],
    )];
    let elsewhere = fill(&mut groups, form, trouble);
    let frame = Frame::of(app, person, Section::AFFILIATES, "Affiliates").failed(trouble.is_some()).after(query);
    let affiliates = all.affiliates.into_iter().map(Shown::from).collect();
    let page = ListPage { frame: &frame, affiliates, groups, form_id: draw_id(app), trouble: elsewhere };
    Ok(answer(app, status_of(trouble), &frame, &page))
}

/// Adds an affiliate.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> Result<Response, ApiError> {
    let once = Once::form(&person.caller, "/account/affiliates", form.value("form"), &form.whole());
    let asked = CreateAffiliate::new(form.value("name"), form.value("partner_key"));
    match api::affiliates::create_for(&app, &person.caller, once, &asked).await {
        Ok(made) => {
            let path = made.reply.location.unwrap_or_default();
            let id = path.rsplit('/').next().unwrap_or_default();
            Ok(see_other(&format!("/account/affiliates/{id}?done=affiliate-made")))
        }
        Err(error) => list_page(&app, &person, None, &form, Some(&Trouble::of(error)?)).await,
    }
}

/// A credential as the page shows it.
struct ShownCredential {
    id: String,
    prefix: String,
    created: When,
}

#[derive(Template)]
#[template(path = "pages/affiliate.html")]
struct AffiliatePage<'a> {
    frame: &'a Frame,
    affiliate: Shown,
    credentials: Vec<ShownCredential>,
    most: i64,
    groups: Vec<Group>,
    form_id: String,
    trouble: Option<String>,
}

/// One affiliate.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    query: Query,
) -> Result<Response, ApiError> {
    page(&app, &person, &id, Some(&query), None, None).await
}

async fn named(app: &App, person: &Person, id: &str) -> Result<AffiliateDetail, ApiError> {
    api::affiliates::find(app, &person.caller, &api::affiliates::named(id)?).await
}

async fn page(
    app: &Shared,
    person: &Person,
    id: &str,
    query: Option<&Query>,
    form: Option<&Form>,
    trouble: Option<&Trouble>,
) -> Result<Response, ApiError> {
    let affiliate = named(app, person, id).await?;
    let all = api::credentials::list_for(app, &person.caller, &affiliate.id).await?;
    let credentials = all.credentials.into_iter().map(|key| ShownCredential {
        id: key.id.to_string(),
        prefix: key.key_prefix,
        created: key.created_at.into(),
    });
    let statuses = [("active", "Its credentials work"), ("disabled", "Its credentials are refused")];
    let mut groups = vec![Group::of(
        "",
        "",
        vec![
            Field::line("name", "Name", "").required().up_to(MAX_NAME),
            Field::choice("status", "Status", "Its links go on working either way.", statuses),
        ],
    )];
    let stored = Form::with([("name", Some(affiliate.name.as_str())), ("status", Some(affiliate.status.as_str()))]);
    let elsewhere = fill(&mut groups, form.unwrap_or(&stored), trouble);
    let frame =
        Frame::of(app, person, Section::AFFILIATES, affiliate.name.clone()).failed(trouble.is_some()).after(query);
    let page = AffiliatePage {
        frame: &frame,
        affiliate: affiliate.into(),
        credentials: credentials.collect(),
        most: MAX_CREDENTIALS,
        groups,
        form_id: draw_id(app),
        trouble: elsewhere,
    };
    Ok(answer(app, status_of(trouble), &frame, &page))
}

/// Changes an affiliate.
pub(super) async fn update(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, ApiError> {
    let affiliate = named(&app, &person, &id).await?;
    let asked = UpdateAffiliate::new().name(form.value("name")).status(AffiliateStatus::from(form.value("status")));
    match api::affiliates::update_for(Arc::clone(&app), Arc::clone(&person.caller), affiliate.id, &asked).await {
        Ok(_) => Ok(see_other(&format!("/account/affiliates/{id}?done=affiliate-saved"))),
        Err(error) => page(&app, &person, &id, None, Some(&form), Some(&Trouble::of(error)?)).await,
    }
}

/// Asks once more.
pub(super) async fn confirm(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let affiliate = named(&app, &person, &id).await?;
    let back = format!("/account/affiliates/{id}");
    let action = format!("{back}/delete");
    let question = Question {
        section: Section::AFFILIATES,
        title: "Delete this affiliate?",
        name: &affiliate.name,
        lead: "Its credentials are refused from now on. Its links go on working. This cannot be taken back.",
        action: &action,
        submit: "Delete the affiliate",
        back: &back,
    };
    Ok(question.ask(&app, &person, None))
}

/// Deletes an affiliate.
pub(super) async fn delete(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    _: Form,
) -> Result<Response, ApiError> {
    let deleted = api::affiliates::delete_for(app, person.caller, &id).await;
    after_deletion(deleted, "/account/affiliates", "affiliate-deleted")
}

/// Makes a credential and shows it, this once.
pub(super) async fn mint(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, ApiError> {
    let back = format!("/account/affiliates/{id}");
    let affiliate = named(&app, &person, &id).await?;
    let once = secret_of(&person, &back, &form);
    match api::credentials::create_for(&app, Arc::clone(&person.caller), once, affiliate.id).await {
        Ok(made) if made.replayed => Ok(see_other(&format!("{back}?done=key-shown"))),
        Ok(made) => {
            let made: CreatedCredential = made.said()?;
            let frame = Frame::of(&app, &person, Section::AFFILIATES, "The new credential");
            let secret = Secret {
                frame: &frame,
                lead: "Hand it to the affiliate in a safe way. It makes and lists the affiliate’s own links and their QR codes, and can do nothing else.",
                secret: made.api_key.expose(),
                base: app.public_url.as_str().trim_end_matches('/'),
                carried_by: Carrier::Programs,
                back: &back,
            };
            Ok(answer(&app, StatusCode::OK, &frame, &secret))
        }
        Err(error) => page(&app, &person, &id, None, None, Some(&Trouble::of(error)?)).await,
    }
}

/// Asks once more.
pub(super) async fn confirm_credential(
    State(app): State<Shared>,
    person: Person,
    Path((id, key)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let found = api::credentials::find_for(&app, &person.caller, &id, &key).await?;
    let back = format!("/account/affiliates/{id}");
    let action = format!("{back}/credentials/{key}/delete");
    let question = Question {
        section: Section::AFFILIATES,
        title: "Delete this credential?",
        name: &found.key_prefix,
        lead: "Every program that calls with it is refused from now on. This cannot be taken back.",
        action: &action,
        submit: "Delete the credential",
        back: &back,
    };
    Ok(question.ask(&app, &person, None))
}

/// Deletes a credential.
pub(super) async fn delete_credential(
    State(app): State<Shared>,
    person: Person,
    Path((id, key)): Path<(String, String)>,
    _: Form,
) -> Result<Response, ApiError> {
    let affiliate = named(&app, &person, &id).await?;
    let deleted = api::credentials::delete_for(app, person.caller, &id, &key).await;
    after_deletion(deleted, &format!("/account/affiliates/{}", affiliate.id), "credential-deleted")
}
