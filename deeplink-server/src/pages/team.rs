//! The team: who is in it and who is invited, one more, one fewer.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::user::{InviteUser, UserDetail, UserStatus};

use super::confirm::Question;
use super::form::{Field, Form, Group, Kind, Trouble, draw_id, fill, status_of};
use super::frame::{Frame, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use super::when::When;
use crate::api;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::state::{App, Shared};

/// Somebody as the list shows them.
struct Shown {
    id: String,
    email: String,
    is_pending: bool,
    is_owner: bool,
    /// Nobody removes themselves here: they would be left without the page they are on.
    is_me: bool,
    since: When,
}

#[derive(Template)]
#[template(path = "pages/team.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    people: Vec<Shown>,
    /// The form for an invitation; empty where mail is not set up.
    groups: Vec<Group>,
    form_id: String,
    trouble: Option<String>,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> Result<Response, ApiError> {
    list_page(&app, &person, Some(&query), &Form::default(), None).await
}

async fn list_page(
    app: &App,
    person: &Person,
    query: Option<&Query>,
    form: &Form,
    trouble: Option<&Trouble>,
) -> Result<Response, ApiError> {
    let people = api::users::list_for(app, &person.caller).await?.users.into_iter().map(|user| Shown {
        is_pending: user.status == UserStatus::Pending,
        is_owner: user.is_owner,
        is_me: user.id == person.who.user,
        since: user.created_at.into(),
        id: user.id.to_string(),
        email: user.email,
    });
    let people = people.collect();
    let mut groups = Vec::new();
    if app.config.mail_at(&app.public_url).is_some() {
        let hint = "They get a mail with a link that works for 7 days. Whoever is invited again gets a new one.";
        let field = Field::mail("email", "E-mail address", hint).required().such_as("you@example.com");
        groups.push(Group::of("", "", vec![field]));
    }
    let elsewhere = fill(&mut groups, form, trouble);
    let frame = Frame::of(app, person, Section::TEAM, "Team").failed(trouble.is_some()).after(query);
    let page = ListPage { frame: &frame, people, groups, form_id: draw_id(app), trouble: elsewhere };
    Ok(answer(app, status_of(trouble), &frame, &page))
}

/// Invites somebody.
pub(super) async fn invite(State(app): State<Shared>, person: Person, form: Form) -> Result<Response, ApiError> {
    let once = Once::form(&person.caller, "/account/team", form.value("form"), &form.whole());
    let invited = async {
        let email = InviteUser::new(form.value("email")).check()?;
        api::users::invite_for(&app, &person.caller, email, once).await
    };
    match invited.await {
        Ok(_) => Ok(see_other("/account/team?done=invited")),
        Err(error) => list_page(&app, &person, None, &form, Some(&Trouble::of(error)?)).await,
    }
}

async fn named(app: &App, person: &Person, id: &str) -> Result<UserDetail, ApiError> {
    let user = api::users::find(app, &person.caller, id).await?;
    if user.id == person.who.user { Err(ApiError::not_found()) } else { Ok(user) }
}

/// Asks once more.
pub(super) async fn confirm(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let user = named(&app, &person, &id).await?;
    Ok(confirm_page(&app, &person, &user, None))
}

fn confirm_page(app: &App, person: &Person, user: &UserDetail, trouble: Option<&Trouble>) -> Response {
    let action = format!("/account/team/{}/remove", user.id);
    let question = Question {
        section: Section::TEAM,
        title: "Remove them from the team?",
        name: &user.email,
        lead: "They are signed out everywhere, and an invitation of theirs ends. Links and keys that they made stay.",
        action: &action,
        submit: "Remove them",
        back: "/account/team",
    };
    question.ask(app, person, trouble)
}

/// Removes somebody else.
pub(super) async fn remove(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    _: Form,
) -> Result<Response, ApiError> {
    if id == person.who.user.as_str() {
        return Err(ApiError::not_found());
    }
    let user = match named(&app, &person, &id).await {
        Ok(user) => user,
        Err(error) => return after_deletion(Err(error), "/account/team", "person-removed"),
    };
    match api::users::remove_for(&app, &person.caller, user.id.clone()).await {
        Err(error) if !error.is_not_found() => Ok(confirm_page(&app, &person, &user, Some(&Trouble::of(error)?))),
        removed => after_deletion(removed, "/account/team", "person-removed"),
    }
}
