//! Keys: the secret ones that programs call with, and the publishable ones that apps and pages carry.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::publishable_key::{CreatePublishableKey, CreatedPublishableKey, PublishableKeyDetail};
use deeplink_core::secret_key::{CreatedSecretKey, MAX_KEYS, SecretKeyDetail};
use http::StatusCode;

use super::confirm::Question;
use super::form::{Field, Form, Group, Kind, Trouble, draw_id, fill, secret_of};
use super::frame::{Frame, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use super::secret::{Carrier, Secret};
use super::when::When;
use crate::api;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::state::{App, Shared};

/// A key as its list shows it.
struct Shown {
    id: String,
    prefix: String,
    created: When,
    used: Option<When>,
}

impl From<SecretKeyDetail> for Shown {
    fn from(key: SecretKeyDetail) -> Self {
        let used = key.last_used_at.map(When::from);
        Self { id: key.id.to_string(), prefix: key.key_prefix, created: key.created_at.into(), used }
    }
}

/// A publishable key as its list shows it.
struct ShownPublishable {
    id: String,
    prefix: String,
    domain: String,
    created: When,
}

impl From<PublishableKeyDetail> for ShownPublishable {
    fn from(key: PublishableKeyDetail) -> Self {
        Self { id: key.id.to_string(), prefix: key.key_prefix, domain: key.domain, created: key.created_at.into() }
    }
}

#[derive(Template)]
#[template(path = "pages/keys.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    secret: Vec<Shown>,
    most: i64,
    publishable: Vec<ShownPublishable>,
    /// The form for a publishable key; empty without a verified domain.
    groups: Vec<Group>,
    /// The id of either form.
    form_id: String,
    trouble: Option<String>,
    trouble_below: Option<String>,
}

/// Which of the two forms something is wrong with.
enum Wrong {
    Secret(Trouble),
    Publishable(Trouble),
}

/// Both lists, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> Result<Response, ApiError> {
    list_page(&app, &person, Some(&query), &Form::default(), None).await
}

async fn list_page(
    app: &Shared,
    person: &Person,
    query: Option<&Query>,
    form: &Form,
    wrong: Option<Wrong>,
) -> Result<Response, ApiError> {
    let secret = api::secret_keys::list_for(app, &person.caller.tenant).await?.keys;
    let publishable = api::publishable_keys::list_for(app, &person.caller).await?.keys;
    let domains = api::domains::list_for(app, &person.caller).await?;
    let names: Vec<_> = domains.into_iter().filter(|domain| domain.verified).map(|domain| domain.domain).collect();
    let mut groups = Vec::new();
    if !names.is_empty() {
        let choices = names.into_iter().map(|name| (name.clone(), name));
        let field = Field::choice("domain", "Domain", "The key works while this domain is verified.", choices);
        groups.push(Group::of("", "", vec![field]));
    }
    let status = match &wrong {
        Some(Wrong::Secret(trouble) | Wrong::Publishable(trouble)) => trouble.outcome(),
        None => StatusCode::OK.into(),
    };
    let frame = Frame::of(app, person, Section::KEYS, "Keys").failed(wrong.is_some()).after(query);
    let (trouble, trouble_below) = match wrong {
        Some(Wrong::Secret(trouble)) => (Some(trouble.text), None),
        Some(Wrong::Publishable(trouble)) => (None, fill(&mut groups, form, Some(&trouble))),
        None => (None, None),
    };
    let page = ListPage {
        frame: &frame,
        secret: secret.into_iter().map(Shown::from).collect(),
        most: MAX_KEYS,
        publishable: publishable.into_iter().map(ShownPublishable::from).collect(),
        groups,
        form_id: draw_id(app),
        trouble,
        trouble_below,
    };
    Ok(answer(app, status, &frame, &page))
}

/// Makes a secret key and shows it, this once. The same form again shows and makes nothing.
pub(super) async fn issue(State(app): State<Shared>, person: Person, form: Form) -> Result<Response, ApiError> {
    let once = secret_of(&person, "/account/keys", &form);
    match api::secret_keys::issue_for(&app, &person.caller, &person.who.user, once).await {
        Ok(made) if made.replayed => Ok(see_other("/account/keys?done=key-shown")),
        Ok(made) => {
            let made: CreatedSecretKey = made.said()?;
            let frame = Frame::of(&app, &person, Section::KEYS, "Your new secret key");
            let secret = Secret {
                frame: &frame,
                lead: "Whoever has it can do everything here that you can. Keep it where only your programs find it.",
                secret: made.key.expose(),
                base: app.public_url.as_str().trim_end_matches('/'),
                carried_by: Carrier::Programs,
                back: "/account/keys",
            };
            Ok(answer(&app, StatusCode::OK, &frame, &secret))
        }
        Err(error) => list_page(&app, &person, None, &Form::default(), Some(Wrong::Secret(Trouble::of(error)?))).await,
    }
}

/// Makes a publishable key and shows it, this once.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> Result<Response, ApiError> {
    let once = secret_of(&person, "/account/keys/publishable", &form);
    let asked = CreatePublishableKey::new(form.value("domain"));
    match api::publishable_keys::create_for(&app, Arc::clone(&person.caller), once, asked).await {
        Ok(made) if made.replayed => Ok(see_other("/account/keys?done=key-shown")),
        Ok(made) => {
            let made: CreatedPublishableKey = made.said()?;
            let frame = Frame::of(&app, &person, Section::KEYS, "Your new publishable key");
            let secret = Secret {
                frame: &frame,
                lead: "Apps and pages of this domain carry it. It reports clicks, installs, users and conversions, and can do nothing else.",
                secret: made.key.expose(),
                base: app.public_url.as_str().trim_end_matches('/'),
                carried_by: Carrier::Pages,
                back: "/account/keys",
            };
            Ok(answer(&app, StatusCode::OK, &frame, &secret))
        }
        Err(error) => list_page(&app, &person, None, &form, Some(Wrong::Publishable(Trouble::of(error)?))).await,
    }
}

/// Asks once more.
pub(super) async fn confirm(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    confirm_page(&app, &person, &id, None).await
}

async fn confirm_page(app: &App, person: &Person, id: &str, trouble: Option<&Trouble>) -> Result<Response, ApiError> {
    let key = api::secret_keys::find(app, &person.caller, id).await?;
    let action = format!("/account/keys/{id}/delete");
    let question = Question {
        section: Section::KEYS,
        title: "Delete this key?",
        name: &key.key_prefix,
        lead: "Every program that calls with it is refused from now on. This cannot be taken back.",
        action: &action,
        submit: "Delete the key",
        back: "/account/keys",
    };
    Ok(question.ask(app, person, trouble))
}

/// Deletes a secret key.
pub(super) async fn delete(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    _: Form,
) -> Result<Response, ApiError> {
    match api::secret_keys::delete_for(&app, &person.caller, &id).await {
        Err(error) if !error.is_not_found() => confirm_page(&app, &person, &id, Some(&Trouble::of(error)?)).await,
        deleted => after_deletion(deleted, "/account/keys", "key-deleted"),
    }
}

/// Asks once more.
pub(super) async fn confirm_publishable(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let key = api::publishable_keys::find(&app, &person.caller, &id).await?;
    let action = format!("/account/keys/publishable/{id}/delete");
    let name = format!("{} of {}", key.key_prefix, key.domain);
    let question = Question {
        section: Section::KEYS,
        title: "Delete this key?",
        name: &name,
        lead: "Apps and pages that carry it count nothing any more. This cannot be taken back.",
        action: &action,
        submit: "Delete the key",
        back: "/account/keys",
    };
    Ok(question.ask(&app, &person, None))
}

/// Deletes a publishable key.
pub(super) async fn delete_publishable(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    _: Form,
) -> Result<Response, ApiError> {
    let deleted = api::publishable_keys::delete_for(&app, person.caller, &id).await;
    after_deletion(deleted, "/account/keys", "key-deleted")
}
