//! The team: its members and invitations, inviting and removing people.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::time::Timestamp;
use deeplink_core::user::{InviteUser, UserDetail, UserStatus};

use super::PageResult;
use super::confirm::Question;
use super::form::{Field, Form, FormError, FormView, Group, Kind, View};
use super::frame::{Frame, Pager, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use crate::api;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};

const LIST: &str = "/account/team";

struct MemberRow {
    id: String,
    email: String,
    is_pending: bool,
    is_owner: bool,
    /// People cannot remove themselves here: they would lose access to the page they are on.
    is_me: bool,
    since: Timestamp,
}

#[derive(Template)]
#[template(path = "pages/team.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    members: Vec<MemberRow>,
    pager: Pager,
    /// The form for an invitation; without fields if email is not set up.
    form: FormView,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    list_page(&app, &person, View::Opened(Some(&query))).await
}

async fn list_page(app: &App, person: &Person, view: View<'_>) -> PageResult {
    let cursor = view.cursor()?;
    let found = api::users::list_for(app, &person.caller, PageRequest::at(cursor)).await?;
    let pager = Pager::new("/account/team", cursor, found.next_cursor);
    let members = found.users.into_iter().map(|user| MemberRow {
        is_pending: user.status == UserStatus::Pending,
        is_owner: user.is_owner,
        is_me: user.id == person.who.user,
        since: user.created_at,
        id: user.id.to_string(),
        email: user.email,
    });
    let members = members.collect();
    let mut groups = Vec::new();
    if app.config.mail_at(&app.public_url).is_some() {
        let hint = "They get an email with a link that is valid for 7 days. Invite them again to send a new one.";
        let field = Field::email("email", "Email address", hint).required().placeholder("name@example.com");
        groups.push(Group::plain(vec![field]));
    }
    let form = FormView::new(app, groups, &Form::default(), &view);
    let frame = Frame::list(app, person, Section::TEAM, &view);
    Ok(answer(app, view.outcome(), &frame, &ListPage { frame: &frame, members, pager, form }))
}

/// Invites a person.
pub(super) async fn invite(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    let once = Once::form(&person.caller, "/account/team", form.value("form"), &form.whole());
    let invited = async {
        let email = InviteUser::new(form.value("email")).check()?;
        api::users::invite_for(&app, &person.caller, email, once).await
    };
    match invited.await {
        Ok(_) => Ok(see_other("/account/team?done=invited")),
        Err(error) => list_page(&app, &person, View::refused(&form, error)?).await,
    }
}

async fn named(app: &App, person: &Person, id: &str) -> Result<UserDetail, ApiError> {
    let user = api::users::find(app, &person.caller, id).await?;
    if user.id == person.who.user { Err(ApiError::not_found()) } else { Ok(user) }
}

/// Asks for confirmation.
pub(super) async fn confirm(State(app): State<Shared>, person: Person, Path(id): Path<String>) -> PageResult {
    let user = named(&app, &person, &id).await?;
    Ok(confirm_page(&app, &person, &user, None))
}

fn confirm_page(app: &App, person: &Person, user: &UserDetail, error: Option<&FormError>) -> Response {
    let (title, lead, submit, keep) = if user.status == UserStatus::Pending {
        let lead = "The link in their email will stop working.";
        ("Cancel this invitation?", lead, "Cancel invitation", "Keep invitation")
    } else {
        let lead = "They will be signed out everywhere. Links and keys that they created will be kept.";
        ("Remove this person?", lead, "Remove from team", "Cancel")
    };
    let (title, submit) = (title.to_owned(), submit.to_owned());
    let (section, subject) = (Section::TEAM, &*user.email);
    let question =
        Question { section, title, subject, lead, submit, is_typed: false, keep, back: Section::TEAM.back() };
    question.ask(app, person, error)
}

/// Removes another person.
pub(super) async fn remove(State(app): State<Shared>, person: Person, Path(id): Path<String>, _: Form) -> PageResult {
    if id == person.who.user.as_str() {
        return Err(ApiError::not_found());
    }
    let user = match named(&app, &person, &id).await {
        Ok(user) => user,
        Err(error) => return after_deletion(Err(error), LIST, "person-removed"),
    };
    match api::users::remove_for(&app, &person.caller, user.id.clone()).await {
        Err(error) if !error.is_not_found() => Ok(confirm_page(&app, &person, &user, Some(&FormError::of(error)?))),
        removed => after_deletion(removed, LIST, "person-removed"),
    }
}
