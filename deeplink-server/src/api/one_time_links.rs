//! One-time links that the operator prints: the person who opens one enters an email address and is signed in to the
//! account, without a mail. The page is in `pages::one_time`.

use std::net::IpAddr;

use axum::response::Response;
use deeplink_core::audit::AuditAction;
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::id::{AuditEntryId, TenantId, UserId};
use deeplink_core::secret::Token;
use deeplink_core::session::NextPath;
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;
use futures_util::FutureExt;
use http::HeaderMap;
use url::Url;

use super::callback::Entry;
use super::users::require_room;
use crate::caller::Actor;
use crate::db::audit::{By, NewEntry};
use crate::db::people::{self, Entered};
use crate::db::users::{self, NewUser, PLACEHOLDER, Standing};
use crate::db::{Conn, DbError, one_time_links, suspensions, tenants};
use crate::error::ApiError;
use crate::http::client_ip::check_limit;
use crate::http::misses;
use crate::notifier::Notification;
use crate::shares::Share;
use crate::state::{App, Shared};

/// Path of the page. A link adds `?token=`.
pub(crate) const PATH: &str = "/signin/once";

/// The link with a token.
pub(crate) fn url(public_url: &Url, token: &Token) -> String {
    let base = public_url.as_str().trim_end_matches('/');
    format!("{base}{PATH}?token={}", token.expose())
}

/// The account that a link opens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opens {
    /// An account that nobody has signed in to yet: the first person becomes its owner.
    New,
    /// An account with a confirmed address: the owner's, or else that of its oldest member.
    Known(String),
    /// An account without a confirmed address: anyone may have created it with these addresses.
    Unproved,
}

impl Opens {
    async fn find(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Self, DbError> {
        let (all, _) = users::count(db, tenant).await?;
        Ok(match users::spokesperson(db, tenant, None).await? {
            Some(address) if address != PLACEHOLDER => Self::Known(address),
            None if all > 0 => Self::Unproved,
            _ => Self::New,
        })
    }
}

/// Whether an address is taken without proof. Where people prove their addresses, by mail or with an identity
/// provider, it would lead the next sign-in of its real owner to this account; so there an address must be confirmed in
/// the account. On one's own machine nobody else signs in.
pub(crate) fn takes_unproved_addresses(app: &App) -> bool {
    let oauth = &app.config.oauth;
    let are_proved = app.config.mail_at(&app.public_url).is_some() || oauth.google.is_some() || oauth.github.is_some();
    app.is_loopback || !are_proved
}

/// Whether the account of the first start waits for its owner, on a service that only its own machine reaches. Somebody who
/// signs in by mail would get another account.
pub(crate) async fn is_first_account_unclaimed(app: &App) -> bool {
    if !app.is_loopback || !app.config.sessions {
        return false;
    }
    let placeholder = async {
        Ok::<_, ApiError>(users::proved(&mut app.db.read().await?.conn(), &PLACEHOLDER.parse()?).await?.address)
    };
    placeholder.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot tell whether the first account has an owner; the page does not mention it");
        false
    })
}

/// What a link opens; `None` if it is used, unknown or has expired.
pub(crate) async fn find(
    app: &App,
    peer: IpAddr,
    headers: &HeaderMap,
    token: &Token,
) -> Result<Option<Opens>, ApiError> {
    if !token.is_well_formed() {
        return Ok(None);
    }
    let (hash, now) = (token.hash(), app.clock.now());
    let found = async {
        let mut reader = app.db.read().await?;
        match one_time_links::tenant_of(&mut reader.conn(), &hash, now).await? {
            Some(tenant) => Opens::find(&mut reader.conn(), &tenant).await.map(Some),
            None => Ok(None),
        }
    };
    misses::look_up(app, app.client_at(peer, headers), false, found).await
}

/// Fails if sign-in is off.
pub(crate) fn require_sessions(app: &App) -> Result<(), ApiError> {
    if !app.config.sessions {
        return Err(ApiError::Plain(ErrorCode::SessionsNotConfigured, "sign-in is disabled on this service"));
    }
    Ok(())
}

/// Refuses an attempt if sign-in is off, or after too many from one address, before anything is read.
pub(crate) fn admit(app: &App, peer: IpAddr, headers: &HeaderMap) -> Result<(), ApiError> {
    require_sessions(app)?;
    check_limit(app, (&app.limits.signins, super::signin::TOO_MANY), peer, headers)
}

/// Uses a link up and signs in the person with this address, who becomes the owner of a new account and a member of
/// another one. Of several requests with one link, one succeeds. `None`: it is used, unknown or has expired.
pub(crate) async fn enter(
    app: &Shared,
    headers: &HeaderMap,
    token: &Token,
    email: Email,
) -> Result<Option<Response>, ApiError> {
    if email.as_str() == PLACEHOLDER {
        return Err(Invalid::field(ErrorCode::InvalidEmail, "email", "this address cannot receive email").into());
    }
    let entry = Entry::draw(app, headers);
    let signed_in = entry.signed_in(app, &NextPath::default());
    let now = app.clock.now();
    let (user, mut entries) =
        app.random(|random| (UserId::new(now, random), [(); 2].map(|()| AuditEntryId::new(now, random))));
    // The log is in the order of its ids.
    entries.sort();
    let (takes_unproved, enforced_at) = (takes_unproved_addresses(app), app.quotas_at(now));
    let enter = Enter { entry, hash: token.hash(), email, user, entries, takes_unproved, now, enforced_at };
    let used = app.write(
        Share::SignIns,
        enter,
        |tx, enter| enter.run(tx).boxed(),
        |app, _, used: &Option<Used>| {
            let Some(used) = used else { return };
            tracing::info!(tenant = %used.tenant, "signed in with a one-time link");
            used.ended_keys.iter().for_each(|hash| app.forget_key(hash));
            app.notifier.notify(Notification::Deliveries(used.tenant.clone()));
        },
    );
    Ok(used.await?.map(|_| signed_in))
}

struct Enter {
    entry: Entry,
    hash: String,
    email: Email,
    /// The id of the person, if they are new here.
    user: UserId,
    /// Of the entries in the audit log: that access ended, and that they joined.
    entries: [AuditEntryId; 2],
    takes_unproved: bool,
    now: Timestamp,
    /// The time to check the plan's limit of people at, if limits are enforced.
    enforced_at: Option<Timestamp>,
}

/// The result of a link's use.
struct Used {
    tenant: TenantId,
    /// Hashes of the ended keys.
    ended_keys: Vec<String>,
}

impl Enter {
    async fn run(&self, tx: &mut Conn<'_>) -> Result<Option<Used>, ApiError> {
        let Some(tenant) = one_time_links::tenant_of(tx, &self.hash, self.now).await? else { return Ok(None) };
        tenants::lock(tx, &tenant).await?;
        if !one_time_links::consume(tx, &self.hash, self.now).await? {
            return Ok(None);
        }
        let (user, ended_keys) = match users::lock_address(tx, &self.email).await? {
            Some(known) if known.tenant != tenant => return Err(taken()),
            Some(known) if !has_placeholder(tx, &tenant).await? => (known.user, Vec::new()),
            _ => self.join(tx, &tenant).await?,
        };
        self.entry.begin(tx, Entered { tenant: tenant.clone(), user }).await?;
        Ok(Some(Used { tenant, ended_keys }))
    }

    /// Adds the person to the account. Returns their id, and the hashes of the keys that end with it.
    async fn join(&self, tx: &mut Conn<'_>, tenant: &TenantId) -> Result<(UserId, Vec<String>), ApiError> {
        // Nothing in the account changes while it is suspended; people who are in it already can sign in.
        if suspensions::is_suspended(tx, tenant).await? {
            return Err(ApiError::account_suspended());
        }
        let opens = Opens::find(tx, tenant).await?;
        if !self.takes_unproved && !has_placeholder(tx, tenant).await? {
            // The operator knows whose an account is that was opened with this address.
            let is_vouched = opens == Opens::Unproved && users::by_email(tx, tenant, &self.email).await?.is_some();
            if !is_vouched {
                let message = "no one in this account has confirmed this address; enter one that is confirmed";
                return Err(Invalid::field(ErrorCode::NotAMember, "email", message).into());
            }
        }
        let (user, ended_keys) = match opens {
            Opens::New => (self.own(tx, tenant).await?, Vec::new()),
            // As when a sign-up is confirmed: what was made before anyone proved an address may be someone else's.
            Opens::Unproved => {
                let ended = people::end_access(tx, tenant, &self.entries[0]).await?;
                (self.own(tx, tenant).await?, ended)
            }
            Opens::Known(_) => (self.become_member(tx, tenant).await?, Vec::new()),
        };
        if !people::confirm(tx, &user).await? {
            return Err(taken());
        }
        let by = By::Caller(Actor::User(user.clone()));
        let joined = NewEntry::new(self.entries[1].clone(), tenant.clone(), by, AuditAction::UserJoined);
        joined.of(&user, None).store(tx).await?;
        Ok((user, ended_keys))
    }

    /// The person as the owner: in place of the placeholder, if there is one.
    async fn own(&self, tx: &mut Conn<'_>, tenant: &TenantId) -> Result<UserId, ApiError> {
        let Some(owner) = users::by_email(tx, tenant, &PLACEHOLDER.parse()?).await? else {
            let stored = users::insert_owner(tx, &self.unverified(tenant)).await?;
            return if stored { Ok(self.user.clone()) } else { Err(taken()) };
        };
        // Invited or a member already: they are one person from now on.
        if let Some(same) = users::by_email(tx, tenant, &self.email).await? {
            users::delete(tx, &same.id).await?;
        }
        users::set_address(tx, &owner.id, &self.email).await?;
        Ok(owner.id)
    }

    /// The person as a member: the invited one, else a new one.
    async fn become_member(&self, tx: &mut Conn<'_>, tenant: &TenantId) -> Result<UserId, ApiError> {
        if let Some(invited) = users::by_email(tx, tenant, &self.email).await? {
            return Ok(invited.id);
        }
        require_room(tx, tenant, self.enforced_at).await?;
        users::insert_invited(tx, &self.unverified(tenant)).await?;
        Ok(self.user.clone())
    }

    fn unverified(&self, tenant: &TenantId) -> NewUser {
        NewUser {
            id: self.user.clone(),
            tenant: tenant.clone(),
            email: self.email.clone(),
            standing: Standing::Unverified,
            created_at: self.now,
        }
    }
}

async fn has_placeholder(tx: &mut Conn<'_>, tenant: &TenantId) -> Result<bool, ApiError> {
    Ok(users::by_email(tx, tenant, &PLACEHOLDER.parse()?).await?.is_some())
}

/// The error for an address that is in use in another account.
fn taken() -> ApiError {
    let message =
        "this address already has its own account on this service; enter another address, or delete that account first";
    Invalid::field(ErrorCode::EmailExists, "email", message).into()
}
