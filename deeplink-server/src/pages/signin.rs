//! Signing in: by a link in a mail, or with an identity provider.

use askama::Template;
use axum::Extension;
use axum::extract::{FromRequest, Request, State};
use axum::response::Response;
use deeplink_core::session::{NextPath, Signin};
use http::StatusCode;

use super::form::{Field, Form, Group, Kind, Trouble, fill};
use super::frame::{Frame, Outcome, answer};
use super::headers::see_other;
use super::person::Anybody;
use crate::api;
use crate::config::MailTransport;
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::service::Peer;
use crate::state::{App, Shared};

#[derive(Template)]
#[template(path = "pages/signin.html")]
struct SigninPage<'a> {
    frame: &'a Frame,
    /// What went wrong, or what went well, before.
    trouble: Option<&'a str>,
    good_news: Option<&'static str>,
    /// The field for the address; `None` where mail is not set up.
    groups: Vec<Group>,
    /// Identity providers: their names and where they are begun with.
    providers: Vec<(&'static str, String)>,
    next: &'a NextPath,
    /// Whether who has no account gets one.
    is_open: bool,
}

#[derive(Template)]
#[template(path = "pages/sent.html")]
struct SentPage<'a> {
    frame: &'a Frame,
    /// Whether mails are files on this machine, which only who runs it knows.
    is_in_files: bool,
}

#[derive(Template)]
#[template(path = "pages/already.html")]
struct AlreadyPage<'a> {
    frame: &'a Frame,
    email: &'a str,
    trouble: Option<&'static str>,
    good_news: Option<&'static str>,
    next: &'a NextPath,
}

/// What is said after an invitation.
const JOINED: &str = "You have joined the team. Sign in with the address that was invited.";

/// What an `error` in the address says. What is not known gets a general text, and nothing of it is shown.
fn words(error: &str) -> &'static str {
    match error {
        "link_expired" => "That link has been used, or its 15 minutes are over. Ask for a new one.",
        "invite_invalid" => {
            "That invitation has been used or withdrawn, its 7 days are over, or its address has an account of its own already. Ask whoever invited you."
        }
        "invalid_request" => "That came from another website, so nothing was done. Please try again from here.",
        "oauth_denied" => {
            "You did not allow it there, so you are not signed in. You can try again, or sign in by mail."
        }
        "oauth_state_invalid" => "That sign-in took too long or was begun in another browser. Please try again.",
        "oauth_provider_error" => "The other service could not sign you in right now. Try again, or sign in by mail.",
        "oauth_email_unverified" => {
            "Your address is not confirmed there yet. Confirm it with that service first, or sign in by mail."
        }
        "oauth_no_email" => "That service told us no e-mail address of yours. Sign in by mail instead.",
        "oauth_not_configured" => "Nobody can sign in with that service here. Sign in another way.",
        "signup_closed" => {
            "Nobody has an account here with that address, and this service opens no new ones. If you were invited, press the button in that mail; else ask to be."
        }
        "session_expired" => "You have been signed out. Sign in again to go on.",
        _ => "That did not work. Please try again.",
    }
}

/// The page to sign in on. Whoever is signed in already goes on.
pub(super) async fn show(State(app): State<Shared>, Anybody(who): Anybody, query: Query) -> Response {
    let next = query.one("next").ok().flatten().map(NextPath::read).unwrap_or_default();
    let has = |name: &'static str| !matches!(query.one(name), Ok(None));
    let error = has("error").then(|| query.one("error").ok().flatten().unwrap_or_default());
    let has_joined = matches!(query.one("invite"), Ok(Some("accepted")));
    if let Some(who) = who {
        // Whoever has signed in again meanwhile goes on; whatever else became of what they did is said first.
        return match error {
            None | Some("session_expired") if !has_joined => see_other(next.as_str()),
            _ => already(&app, &who.email, error.map(words), &next),
        };
    }
    if has("sent") {
        let frame = Frame::alone(&app, "Check your mail");
        let is_in_files =
            app.is_loopback && matches!(app.config.mail_at(&app.public_url), Some(MailTransport::Directory(_)));
        return answer(&app, StatusCode::OK, &frame, &SentPage { frame: &frame, is_in_files });
    }
    let good_news = if has_joined {
        Some(JOINED)
    } else if has("signed_out") {
        Some("You are signed out.")
    } else {
        None
    };
    page(&app, error.map(words), good_news, &Form::default(), None, &next, StatusCode::OK)
}

/// The page for who is signed in already: what became of what they did, and both ways on.
fn already(app: &App, email: &str, trouble: Option<&'static str>, next: &NextPath) -> Response {
    let frame = Frame::alone(app, "You are signed in").failed(trouble.is_some());
    let good_news = trouble.is_none().then_some(JOINED);
    answer(app, StatusCode::OK, &frame, &AlreadyPage { frame: &frame, email, trouble, good_news, next })
}

fn page(
    app: &App,
    trouble: Option<&str>,
    good_news: Option<&'static str>,
    form: &Form,
    at_fault: Option<&Trouble>,
    next: &NextPath,
    outcome: impl Into<Outcome>,
) -> Response {
    let mut groups = Vec::new();
    if app.config.mail_at(&app.public_url).is_some() {
        let field = Field::mail("email", "E-mail address", "").required().completed_by("email");
        groups.push(Group::of("", "", vec![field.such_as("you@example.com")]));
    }
    let elsewhere = fill(&mut groups, form, at_fault);
    let providers = if app.config.sessions { providers(app, next) } else { Vec::new() };
    let is_set_up = !groups.is_empty() || !providers.is_empty();
    let frame = Frame::alone(app, "Sign in").failed(trouble.is_some() || at_fault.is_some());
    let trouble = elsewhere.as_deref().or(trouble);
    let page =
        SigninPage { frame: &frame, trouble, good_news, groups, providers, next, is_open: app.config.signup_open };
    let outcome = if is_set_up { outcome.into() } else { StatusCode::SERVICE_UNAVAILABLE.into() };
    answer(app, outcome, &frame, &page)
}

fn providers(app: &App, next: &NextPath) -> Vec<(&'static str, String)> {
    let oauth = &app.config.oauth;
    let all = [("Google", "google", oauth.google.is_some()), ("GitHub", "github", oauth.github.is_some())];
    let next: String = url::form_urlencoded::byte_serialize(next.as_str().as_bytes()).collect();
    let set_up = all.into_iter().filter(|(.., is_set_up)| *is_set_up);
    set_up.map(|(name, word, _)| (name, format!("/v1/auth/oauth/{word}/start?next={next}"))).collect()
}

/// Mails the link. Nothing in the answer tells whether the address has an account.
pub(super) async fn send(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, ApiError> {
    match api::signin::admit(&app, peer, request.headers()) {
        Ok(()) => {}
        Err(ApiError::RateLimited(seconds)) => {
            let text = Some("Too many sign-ins from your network. Wait a minute, then try again.");
            // What was typed stays, and so does where it was to lead.
            let form = Form::from_request(request, &app).await.unwrap_or_default();
            let next = NextPath::read(form.value("next"));
            let outcome = Outcome { status: StatusCode::TOO_MANY_REQUESTS, retry_after: Some(seconds.max(1)) };
            return Ok(page(&app, text, None, &form, None, &next, outcome));
        }
        // Mail is not set up, as the page says.
        Err(_) => {
            let (form, next) = (Form::default(), NextPath::default());
            return Ok(page(&app, None, None, &form, None, &next, StatusCode::SERVICE_UNAVAILABLE));
        }
    }
    let form = Form::from_request(request, &app).await?;
    let next = NextPath::read(form.value("next"));
    let asked = Signin::new(form.value("email")).next(next.as_str());
    let sent = async {
        let (email, next) = asked.check()?;
        api::signin::send_link(&app, email, next).await
    };
    match sent.await {
        Ok(()) => Ok(see_other("/signin?sent=1")),
        Err(error) => {
            let trouble = Trouble::of(error)?;
            Ok(page(&app, None, None, &form, Some(&trouble), &next, trouble.outcome()))
        }
    }
}
