//! Keys: secret keys, with which programs call the API, and publishable keys, which apps and web pages embed.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use deeplink_core::publishable_key::{CreatePublishableKey, PublishableKeyDetail};
use deeplink_core::secret_key::{MAX_KEYS, SecretKeyDetail};
use deeplink_core::time::Timestamp;

use super::PageResult;
use super::confirm::Question;
use super::form::{Field, Form, FormError, FormView, Group, Kind, View, secret_of};
use super::frame::{Frame, Section, answer};
use super::headers::after_deletion;
use super::person::Person;
use super::secret::{Secret, SecretKind};
use crate::api;
use crate::http::extract::{Path, Query};
use crate::http::once::Answer;
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};

const LIST: &str = "/account/keys";

struct KeyRow {
    id: String,
    prefix: String,
    created: Timestamp,
    last_used: Option<Timestamp>,
}

impl From<SecretKeyDetail> for KeyRow {
    fn from(key: SecretKeyDetail) -> Self {
        let last_used = key.last_used_at;
        Self { id: key.id.to_string(), prefix: key.key_prefix, created: key.created_at, last_used }
    }
}

struct PublishableKeyRow {
    id: String,
    prefix: String,
    domain: String,
    created: Timestamp,
}

impl From<PublishableKeyDetail> for PublishableKeyRow {
    fn from(key: PublishableKeyDetail) -> Self {
        Self { id: key.id.to_string(), prefix: key.key_prefix, domain: key.domain, created: key.created_at }
    }
}

#[derive(Template)]
#[template(path = "pages/keys.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    secret: Vec<KeyRow>,
    max_secret: i64,
    publishable: Vec<PublishableKeyRow>,
    /// The form for a publishable key; without fields while no domain is verified.
    form: FormView,
    /// The error of the button for a secret key.
    secret_error: Option<String>,
}

/// Both lists, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    list_page(&app, &person, View::Opened(Some(&query))).await
}

async fn list_page(app: &Shared, person: &Person, view: View<'_>) -> PageResult {
    let secret = api::secret_keys::list_for(app, &person.caller, PageRequest::at(None)).await?.keys;
    let publishable = api::publishable_keys::list_for(app, &person.caller, PageRequest::at(None)).await?.keys;
    let names = api::domains::verified_of(app, &person.caller).await?;
    let mut groups = Vec::new();
    if !names.is_empty() {
        let choices = names.into_iter().map(|name| (name.clone(), name));
        let field = Field::choice("domain", "Domain", "The key works while this domain is verified.", choices);
        groups.push(Group::plain(vec![field]));
    }
    let mut form = FormView::new(app, groups, &Form::default(), &view);
    // The button for a secret key has no fields.
    let secret_error = if let View::Refused(None, _) = view { form.error.take() } else { None };
    let page = ListPage {
        frame: &Frame::list(app, person, Section::KEYS, &view),
        secret: secret.into_iter().map(KeyRow::from).collect(),
        max_secret: MAX_KEYS,
        publishable: publishable.into_iter().map(PublishableKeyRow::from).collect(),
        form,
        secret_error,
    };
    Ok(answer(app, view.outcome(), page.frame, &page))
}

/// Creates a secret key and shows it once. Submitting the same form again creates and shows nothing.
pub(super) async fn issue(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    let once = secret_of(&person, "/account/keys", &form);
    match api::secret_keys::issue_for(&app, &person.caller, &person.who.user, once).await {
        Ok(Answer { made, .. }) => {
            let secret = Secret {
                section: Section::KEYS,
                title: "Your new secret key",
                lead: "Anyone with this key has full access to your account. Keep it secret.",
                kind: SecretKind::ApiKey,
                back: Section::KEYS.back(),
                repeated: "key-shown",
            };
            Ok(secret.show(&app, &person, made.as_ref().map(|made| made.key.expose())))
        }
        Err(error) => list_page(&app, &person, View::refused(None, error)?).await,
    }
}

/// Creates a publishable key and shows it once.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    let once = secret_of(&person, "/account/keys/publishable", &form);
    let asked = CreatePublishableKey::new(form.value("domain"));
    match api::publishable_keys::create_for(&app, Arc::clone(&person.caller), once, asked).await {
        Ok(Answer { made, .. }) => {
            let secret = Secret {
                section: Section::KEYS,
                title: "Your new publishable key",
                lead: "Embed it in apps and pages of this domain. It can report clicks, installs, users and conversions, and nothing else.",
                kind: SecretKind::PublishableKey,
                back: Section::KEYS.back(),
                repeated: "key-shown",
            };
            Ok(secret.show(&app, &person, made.as_ref().map(|made| made.key.expose())))
        }
        Err(error) => list_page(&app, &person, View::refused(&form, error)?).await,
    }
}

/// Asks for confirmation.
pub(super) async fn confirm(State(app): State<Shared>, person: Person, Path(id): Path<String>) -> PageResult {
    confirm_page(&app, &person, &id, None).await
}

async fn confirm_page(app: &App, person: &Person, id: &str, error: Option<&FormError>) -> PageResult {
    let key = api::secret_keys::find(app, &person.caller, id).await?;
    let lead = "Programs that use it lose access immediately. This cannot be undone.";
    Ok(Question::delete(Section::KEYS, "key", &key.key_prefix, lead, Section::KEYS.back()).ask(app, person, error))
}

/// Deletes a secret key.
pub(super) async fn delete(State(app): State<Shared>, person: Person, Path(id): Path<String>, _: Form) -> PageResult {
    match api::secret_keys::delete_for(&app, &person.caller, &id).await {
        Err(error) if !error.is_not_found() => confirm_page(&app, &person, &id, Some(&FormError::of(error)?)).await,
        deleted => after_deletion(deleted, LIST, "key-deleted"),
    }
}

/// Asks for confirmation.
pub(super) async fn confirm_publishable(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
) -> PageResult {
    let key = api::publishable_keys::find(&app, &person.caller, &id).await?;
    let name = format!("{} for {}", key.key_prefix, key.domain);
    let lead = "Apps and pages that use it can no longer report anything. This cannot be undone.";
    Ok(Question::delete(Section::KEYS, "key", &name, lead, Section::KEYS.back()).ask(&app, &person, None))
}

/// Deletes a publishable key.
pub(super) async fn delete_publishable(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    _: Form,
) -> PageResult {
    let deleted = api::publishable_keys::delete_for(&app, person.caller, &id).await;
    after_deletion(deleted, LIST, "key-deleted")
}
