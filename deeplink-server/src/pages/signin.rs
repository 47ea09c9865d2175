//! Signing in: by an emailed link, or with an identity provider.

use askama::Template;
use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use deeplink_core::session::{NextPath, Signin};
use http::StatusCode;

use super::PageResult;
use super::form::{Field, Form, FormView, Group, Kind, View};
use super::frame::{Frame, answer};
use super::headers::see_other;
use super::person::MaybeSignedIn;
use crate::api;
use crate::api::one_time_links::is_first_account_unclaimed;
use crate::config::MailTransport;
use crate::http::client_ip::Peer;
use crate::http::extract::{Query, SIGN_IN_BODY_LIMIT};
use crate::state::{App, Shared};

#[derive(Template)]
#[template(path = "pages/signin.html")]
struct SigninPage<'a> {
    frame: &'a Frame,
    error: Option<&'a str>,
    /// Whether the operator's command for a new one-time link follows the error.
    names_command: bool,
    notice: Option<&'static str>,
    /// With a field for the email address; without fields if email is not set up.
    form: FormView,
    /// Where emails are written, if they are files on this machine.
    mail_directory: Option<String>,
    /// Identity providers: their names and where signing in with them starts.
    providers: Vec<(&'static str, String)>,
    next: &'a NextPath,
    /// Whether a new address gets a new account.
    is_open: bool,
    /// Whether the account of the first start waits for its owner.
    is_unclaimed: bool,
}

#[derive(Template)]
#[template(path = "pages/sent.html")]
struct SentPage<'a> {
    frame: &'a Frame,
    /// Where emails are written, if they are files on this machine.
    mail_directory: Option<String>,
}

#[derive(Template)]
#[template(path = "pages/already.html")]
struct AlreadyPage<'a> {
    frame: &'a Frame,
    email: &'a str,
    error: Option<&'static str>,
    notice: Option<&'static str>,
    next: &'a NextPath,
}

const JOINED: &str = "You have joined the team. Sign in with the invited address.";

const ONCE_INVALID: &str = "That link has already been used, or it is more than 24 hours old. The operator of this service can create a new one.";

/// The text for the `error` in the query. An unknown code gets a general text and is not itself shown.
fn text_of(error: &str) -> &'static str {
    match error {
        "link_expired" => "That link has already been used, or it is more than 15 minutes old. Request a new one.",
        "invite_invalid" => {
            "That invitation has already been used or withdrawn, is more than 7 days old, or is for an address that already has its own account. Ask the person who invited you for a new one."
        }
        "once_invalid" => ONCE_INVALID,
        "signup_invalid" => {
            "That confirmation link has already been used, is more than 7 days old, or is for an address that already has its own account. A new key is shown only once; if you have lost it, create another one under Keys."
        }
        "invalid_request" => "That request came from another website, so it was ignored. Please try again here.",
        "oauth_denied" => "You did not allow access, so you are not signed in. Try again, or sign in by email.",
        "oauth_state_invalid" => "That sign-in took too long or started in another browser. Please try again.",
        "oauth_provider_error" => "The provider could not sign you in right now. Try again, or sign in by email.",
        "oauth_email_unverified" => {
            "Your email address is not confirmed with that provider. Confirm it there first, or sign in by email."
        }
        "oauth_no_email" => "That provider did not share an email address. Sign in by email instead.",
        "oauth_not_configured" => "That provider is not available here. Sign in another way.",
        "signup_closed" => {
            "No account here uses that address, and this service is not accepting new accounts. If you were invited, use the button in the invitation; otherwise, ask for an invitation."
        }
        "session_expired" => "You have been signed out. Sign in again to continue.",
        _ => "That did not work. Please try again.",
    }
}

/// The sign-in page. Anyone already signed in is redirected to `next`.
pub(super) async fn show(State(app): State<Shared>, MaybeSignedIn(who): MaybeSignedIn, query: Query) -> Response {
    let next = query.one("next").ok().flatten().map(NextPath::read).unwrap_or_default();
    let has = |name: &'static str| !matches!(query.one(name), Ok(None));
    let error = has("error").then(|| query.one("error").ok().flatten().unwrap_or_default());
    let has_joined = matches!(query.one("invite"), Ok(Some("accepted")));
    if let Some(who) = who {
        // An expired session does not matter to someone who has signed in again, nor does a used link of the server's first
        // start; other errors are shown first.
        return match error {
            None | Some("session_expired" | "once_invalid") if !has_joined => see_other(next.as_str()),
            _ => already(&app, &who.email, error.map(text_of), &next),
        };
    }
    if has("sent") {
        let frame = Frame::alone(&app, "Check your email");
        let mail_directory = mail_directory(&app);
        return answer(&app, StatusCode::OK, &frame, &SentPage { frame: &frame, mail_directory });
    }
    let notice = if has_joined {
        Some(JOINED)
    } else if has("signed_out") {
        Some("You are signed out.")
    } else {
        None
    };
    page(&app, &View::Opened(None), error.map(text_of), notice, &next).await
}

/// The directory that emails are written to, if they are not sent. Only on one's own machine: strangers need not know.
fn mail_directory(app: &App) -> Option<String> {
    match app.config.mail_at(&app.public_url) {
        Some(MailTransport::Directory(folder)) if app.is_loopback => {
            Some(std::path::absolute(&folder).unwrap_or(folder).display().to_string())
        }
        _ => None,
    }
}

/// Whether anyone can sign in here.
pub(super) fn is_set_up(app: &App) -> bool {
    let oauth = &app.config.oauth;
    let by_provider = app.config.sessions && (oauth.google.is_some() || oauth.github.is_some());
    by_provider || app.config.mail_at(&app.public_url).is_some()
}

/// The page for someone already signed in: what happened, and where to go.
fn already(app: &App, email: &str, error: Option<&'static str>, next: &NextPath) -> Response {
    let frame = Frame::alone(app, "You are signed in").failed(error.is_some());
    let notice = error.is_none().then_some(JOINED);
    answer(app, StatusCode::OK, &frame, &AlreadyPage { frame: &frame, email, error, notice, next })
}

async fn page(
    app: &App,
    view: &View<'_>,
    error: Option<&str>,
    notice: Option<&'static str>,
    next: &NextPath,
) -> Response {
    let mut groups = Vec::new();
    if app.config.mail_at(&app.public_url).is_some() {
        let field = Field::email("email", "Email address", "").required().autocomplete("email");
        groups.push(Group::plain(vec![Field { focused: true, ..field.placeholder("you@example.com") }]));
    }
    let mut form = FormView::new(app, groups, &Form::default(), view);
    let form_error = form.error.take();
    let error = form_error.as_deref().or(error);
    let providers = if app.config.sessions { providers(app, next) } else { Vec::new() };
    let mut frame = Frame::alone(app, "Sign in").failed(error.is_some() || view.error().is_some());
    let (is_open, is_unclaimed) = (app.config.signup_open, is_first_account_unclaimed(app).await);
    if is_unclaimed {
        frame = frame.with_script();
    }
    let names_command = error == Some(ONCE_INVALID);
    let mail_directory = mail_directory(app);
    let page = SigninPage {
        frame: &frame,
        error,
        names_command,
        notice,
        form,
        mail_directory,
        providers,
        next,
        is_open,
        is_unclaimed,
    };
    let outcome = if is_set_up(app) { view.outcome() } else { StatusCode::SERVICE_UNAVAILABLE.into() };
    answer(app, outcome, &frame, &page)
}

fn providers(app: &App, next: &NextPath) -> Vec<(&'static str, String)> {
    let oauth = &app.config.oauth;
    let all = [("Google", "google", oauth.google.is_some()), ("GitHub", "github", oauth.github.is_some())];
    let next: String = url::form_urlencoded::byte_serialize(next.as_str().as_bytes()).collect();
    let set_up = all.into_iter().filter(|(.., is_set_up)| *is_set_up);
    set_up.map(|(name, word, _)| (name, format!("/v1/auth/oauth/{word}/start?next={next}"))).collect()
}

/// Emails the link. The response does not reveal whether the address has an account.
pub(super) async fn send(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> PageResult {
    if app.config.mail_at(&app.public_url).is_none() {
        let mut response = page(&app, &View::Opened(None), None, None, &NextPath::default()).await;
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        return Ok(response);
    }
    let admitted = api::signin::admit(&app, peer, request.headers());
    let form = Form::read(request, SIGN_IN_BODY_LIMIT).await;
    let form = if admitted.is_ok() { form? } else { form.unwrap_or_default() };
    let next = NextPath::read(form.value("next"));
    let asked = Signin::new(form.value("email")).next(next.as_str());
    let sent = async {
        let network = admitted?;
        let (email, next) = asked.check()?;
        api::signin::send_link(&app, network, email, next).await
    };
    match sent.await {
        Ok(()) => Ok(see_other("/signin?sent=1")),
        Err(error) => Ok(page(&app, &View::refused(&form, error)?, None, None, &next).await),
    }
}
