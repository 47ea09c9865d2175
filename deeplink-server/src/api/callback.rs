//! Sign-in links sent by mail: a page that changes nothing, since scanners open links too, and its form, which signs
//! in. All sessions begin here, however a person signs in. A sign-up is confirmed in `signup`.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use deeplink_core::audit::AuditAction;
use deeplink_core::id::{AuditEntryId, SessionId};
use deeplink_core::secret::Token;
use deeplink_core::session::{NextPath, SESSION_SECS};
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, header};

use crate::caller::{Actor, SignedIn};
use crate::db::audit::{By, NewEntry};
use crate::db::people::{self, EnterIds, Entered};
use crate::db::sessions::{self, NewSession};
use crate::db::tokens::{self, Purpose};
use crate::db::{Conn, DbError, sign_ins};
use crate::error::ApiError;
use crate::http::client_ip::Peer;
use crate::http::documented::{FormBody, Unavailable};
use crate::http::extract::{SIGN_IN_BODY_LIMIT, form_body};
use crate::http::redirect::see_other;
use crate::http::session::{Presented, presented, set_cookie};
use crate::http::{csrf, misses};
use crate::shares::Share;
use crate::state::{App, Shared};

/// Redirect for a form sent from another site.
pub(crate) const FOREIGN: &str = "/signin?error=invalid_request";
/// Redirect for a link that is used or has expired.
pub(crate) const EXPIRED: &str = "/signin?error=link_expired";
/// Redirect for an address without an account while sign-up is closed.
pub(crate) const CLOSED: &str = "/signin?error=signup_closed";

/// Signs in with the token of an emailed link.
///
/// If several requests use the same token, only one gets the session. The browser's previous session ends. A
/// sign-up link does not work here: it has its own page.
#[utoipa::path(
    post, path = "/v1/auth/callback", operation_id = "callback", tag = "sessions",
    request_body(content = CallbackForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 303, description = "Signed in: redirect to the requested path, with the cookie `session_token`. Otherwise, redirect to `/signin?error=link_expired`, `signup_closed` for an address without an account if sign-up is closed, or `invalid_request` for a form from another site", headers(("Location" = String), ("Set-Cookie" = String))),
        Unavailable, FormBody,
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, ApiError> {
    if csrf::is_cross_site(&app, request.headers()) {
        return Ok(see_other(FOREIGN));
    }
    let entry = Arc::new(Entry::draw(&app, request.headers()));
    let client = app.client_at(peer, request.headers());
    let form = form_body(request, SIGN_IN_BODY_LIMIT).await?;
    let token = Token::new(form.one("token")?.unwrap_or_default());
    let next = form.one("next")?.filter(|text| !text.is_empty()).map(NextPath::read);
    if !token.is_well_formed() {
        return Ok(see_other(EXPIRED));
    }
    let by_mail = (Arc::clone(&entry), token.hash());
    let used = app.db.write(Share::SignIns, by_mail, |tx, (entry, hash)| entry.by_mail(tx, hash).boxed());
    Ok(match misses::look_up(&app, client, false, used).await? {
        Some(Used::Up(stored)) => entry.signed_in(&app, &stored.or(next).unwrap_or_default()),
        Some(Used::Closed) => see_other(CLOSED),
        None => see_other(EXPIRED),
    })
}

/// A link sent by mail.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MailedLink {
    /// It signs in.
    SignIn,
    /// It confirms a sign-up.
    SignUp,
    /// It accepts an invitation.
    Invitation,
}

/// Whether a mailed link no longer works; it is not used up. If that cannot be found out now, the link counts as one that
/// works: its form tells.
pub(crate) async fn is_dead(app: &App, peer: IpAddr, headers: &HeaderMap, token: &Token, link: MailedLink) -> bool {
    if !token.is_well_formed() {
        return true;
    }
    let (hash, now) = (token.hash(), app.clock.now());
    let found = async {
        let mut reader = app.db.read().await?;
        let db = &mut reader.conn();
        let exists = match link {
            MailedLink::SignIn => sign_ins::exists(db, &hash, now).await?,
            MailedLink::SignUp => tokens::tenant_of(db, &hash, Purpose::Signup, now).await?.is_some(),
            MailedLink::Invitation => tokens::tenant_of(db, &hash, Purpose::Invite, now).await?.is_some(),
        };
        Ok(exists.then_some(()))
    };
    matches!(misses::look_up(app, app.client_at(peer, headers), false, found).await, Ok(None))
}

/// The form behind an emailed sign-in link.
#[derive(utoipa::ToSchema)]
#[schema(examples(json!({"token": "TOKEN"})))]
#[expect(dead_code, reason = "describes the fields; they are read one by one")]
pub(crate) struct CallbackForm {
    /// The link's token; without it the sign-in fails.
    #[schema(required = false)]
    token: String,
    /// Path on this service to redirect to, unless the sign-in request specified one.
    next: Option<String>,
}

/// The result of using a mailed token.
enum Used {
    /// It signs in; holds the path to go to, if one was named.
    Up(Option<NextPath>),
    /// Its address has no account, and none are opened.
    Closed,
}

/// A sign-in with its random values, drawn before it is known who signs in.
pub(crate) struct Entry {
    /// Ids of a new account, if one may be opened.
    ids: Option<EnterIds>,
    session: SessionId,
    /// Of the entry in the audit log.
    entry: AuditEntryId,
    token: Token,
    /// Hash of the token that the browser presented.
    presented: Option<String>,
    now: Timestamp,
}

impl Entry {
    /// Draws the session, and the ids of an account in case one must be opened.
    pub(crate) fn draw(app: &App, headers: &HeaderMap) -> Self {
        let now = app.clock.now();
        let presented = match presented(headers) {
            Presented::One(token) => Some(token.hash()),
            Presented::None | Presented::Several => None,
        };
        app.random(|random| Self {
            ids: app.config.signup_open.then(|| EnterIds::draw(now, random)),
            session: SessionId::new(now, random),
            entry: AuditEntryId::new(now, random),
            token: Token::generate(random),
            presented,
            now,
        })
    }

    /// Signs in the person who has just proved an address; `false` if it has no account and sign-up is closed.
    pub(crate) async fn enter(&self, tx: &mut Conn<'_>, email: &Email) -> Result<bool, DbError> {
        match people::enter(tx, email, self.ids.clone(), self.now).await? {
            Some(entered) => self.begin(tx, entered).await.map(|()| true),
            None => Ok(false),
        }
    }

    /// Stores the session of a user.
    pub(super) async fn begin(&self, tx: &mut Conn<'_>, Entered { tenant, user }: Entered) -> Result<(), DbError> {
        let by = By::Caller(Actor::User(user.clone()));
        let entry = NewEntry::new(self.entry.clone(), tenant.clone(), by, AuditAction::UserSignedIn);
        entry.of(&user, None).store(tx).await?;
        let session = NewSession {
            id: self.session.clone(),
            token: self.token.clone(),
            tenant,
            user,
            created_at: self.now,
            expires_at: self.now.plus_millis(1_000 * SESSION_SECS),
        };
        begin_session(tx, &session, self.presented.as_deref()).await
    }

    /// Uses up a mailed token; `None` if it is not a valid magic-link token.
    async fn by_mail(&self, tx: &mut Conn<'_>, hash: &str) -> Result<Option<Used>, DbError> {
        let Some((email, next)) = sign_ins::consume(tx, hash, self.now).await? else { return Ok(None) };
        Ok(Some(if self.enter(tx, &email).await? { Used::Up(next) } else { Used::Closed }))
    }

    /// The answer once the session is stored.
    pub(crate) fn signed_in(&self, app: &App, next: &NextPath) -> Response {
        let mut response = see_other(next.as_str());
        response.headers_mut().insert(header::SET_COOKIE, self.cookie(app));
        response
    }

    /// The cookie of the stored session.
    pub(super) fn cookie(&self, app: &App) -> HeaderValue {
        set_cookie(app, &self.token)
    }

    /// The user of the stored session.
    pub(super) async fn who(&self, tx: &mut Conn<'_>) -> Result<Arc<SignedIn>, DbError> {
        let found = sessions::by_hash(tx, &self.token.hash(), self.now).await?;
        found.ok_or_else(|| DbError::corrupt("sessions", "user_id", self.session.as_str()))
    }
}

/// Begins a session, and ends the one whose token the browser presented, so that an attacker who planted that token is
/// not signed in too.
pub(crate) async fn begin_session(
    tx: &mut Conn<'_>,
    session: &NewSession,
    presented_hash: Option<&str>,
) -> Result<(), DbError> {
    if let Some(hash) = presented_hash {
        sessions::delete_by_hash(tx, hash).await?;
    }
    sessions::insert(tx, session).await
}
