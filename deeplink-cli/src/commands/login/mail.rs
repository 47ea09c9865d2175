//! Signing in by mail: a link is mailed and pasted, a session begins, makes a key, and ends.

use std::cell::RefCell;
use std::time::Duration;

use deeplink_client::{Auth, Client, Kind, SignIn, Signin};
use deeplink_core::error::ErrorCode;
use deeplink_core::secret::Token;

use super::{Login, NewKey, base_url, hinting_at_key, kept, note_inactive, warn_of_variable};
use crate::commands::whoami::{Identity, Who, probe};
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::mailed::{self, Purpose};
use crate::net::Reads;
use crate::new_secret::print_instead;
use crate::output::{self, Format};
use crate::signals::Signals;
use crate::{given, output::Sheet};

/// Time limit for ending the session: nothing else depends on it.
const SIGNOUT_TIMEOUT: Duration = Duration::from_secs(2);

/// State that must be cleaned up, however the sign-in ends.
#[derive(Default)]
struct Open {
    /// A client of the session.
    session: Option<Client>,
    /// The message about a key that is stored but not yet verified.
    kept: Option<String>,
}

pub(super) async fn sign_in(ctx: &Context, login: Login) -> Outcome {
    let sheet = ctx.out.sheet(&output::IDENTITY)?;
    let open = RefCell::new(Open::default());
    let mut signals = Signals::listen().map_err(|error| Failure::file("listen for", "signals", &error))?;
    let outcome = tokio::select! {
        biased;
        exit = signals.next_harmless(&ctx.signal_hold, &ctx.console) => Err(Stop::Exit(exit)),
        outcome = steps(ctx, &sheet, login, &open) => outcome,
    };
    let open = open.into_inner();
    if let (Err(Stop::Exit(_)), Some(kept)) = (&outcome, open.kept) {
        ctx.console.say(&kept);
    }
    if let Some(session) = open.session {
        sign_out(ctx, &session).await;
    }
    outcome
}

async fn steps(ctx: &Context, sheet: &Sheet<'_>, login: Login, open: &RefCell<Open>) -> Outcome {
    let email = login.email.as_deref().map(given::email).transpose()?;
    ctx.check_mailed(login.link_stdin)?;
    let base = base_url(ctx).await?;
    ctx.choose_store(&ctx.profile, login.store, &base).await?;
    warn_of_variable(ctx);
    let email = match email {
        Some(email) => email,
        None => {
            let text = ctx.line("Email address: ", "--email").await?;
            given::email(&text).map_err(|stop| hinting_at_key(&text, stop))?
        }
    };
    let new = NewKey::to_create(&base, email.as_str());
    let profile = new.profile(ctx).await?;
    let client = ctx.client_for(&base, Auth::None, Reads::Held)?;
    let sent = client.sessions().signin(&Signin::new(email.as_str())).await;
    sent.map_err(|error| match error.code() {
        Some(ErrorCode::SessionsNotConfigured) => ctx
            .stop(&error)
            .hinting("use dl login --with-key if you have a key; the operator of the service can create one"),
        _ => ctx.stop(&error),
    })?;
    if login.link_stdin {
        ctx.console.say(&format!("email sent to {email}; waiting for its link on stdin"));
    } else {
        ctx.console.say("Email sent.");
        if base.is_loopback() {
            ctx.console
                .say("If this is your own server and it has no SMTP settings, the email is a file in\nthe directory set with --mail-dir (by default, mail/ in the data directory).");
        }
    }
    let question = "Paste the sign-in link here (do not press Continue in the browser): ";
    let spend = async |token| spend(ctx, &client, &token).await;
    let session = ctx.mailed(Purpose::SignIn, &base, login.link_stdin, question, spend).await?;
    let signed_in = client.with_auth(session).map_err(|error| ctx.stop(&error))?;
    open.borrow_mut().session = Some(signed_in.clone());

    let me = signed_in.sessions().me().await.map_err(|error| match error.kind() {
        Kind::Auth => ctx.stop(&error).hinting("the session has already ended; dl login emails a new link"),
        _ => ctx.stop(&error),
    })?;
    if me.user.email != email.as_str() {
        let what = format!("the link was not sent to {email}: it signs in someone else; nothing was stored");
        let hint = "the person who gave you this link would see what you do with this account";
        return Err(Failure::new(Exit::Auth, what).code("another_person").hint(hint).into());
    }
    let account = me.tenant.id.as_str();
    let profile = new.profile_for(ctx, profile, async || Some(account.to_owned())).await?;
    let destination = ctx.choose_store(&profile, login.store, &base).await?;
    // Signals are deferred from here on: the key is only in this answer.
    let hold = ctx.signal_hold.begin();
    let issued = signed_in.keys().issue().await.map_err(|error| match error.code() {
        Some(ErrorCode::KeyLimit) => {
            let hint = format!("delete a key at {base}/account, or with another key: dl keys list, dl keys delete ID");
            ctx.stop(&error).hinting(&hint)
        }
        _ => ctx.stop(&error),
    })?;
    ctx.console.hide(issued.key.expose());
    let source = ctx.keep(&destination, &issued.key, Some(account)).await.map_err(|error| {
        let what = "you are signed in, but the new key could not be stored";
        print_instead(ctx, &issued.key, issued.id.as_str(), error, what)
    })?;
    open.borrow_mut().kept = Some(format!("key {} is stored in {}", issued.key, source.location()));
    drop(hold);
    new.note_replaced(ctx, &profile, &issued.key);
    note_inactive(ctx, &profile);
    let with_key = client.with_auth(issued.key.clone()).map_err(|error| ctx.stop(&error))?;
    probe(ctx, &with_key).await?;
    if ctx.out.format == Format::Table && sheet.fields.is_none() {
        ctx.console.say(&format!("Signed in as {email}; key {} in {}", issued.key, source.location()));
        return Ok(());
    }
    let who = Who { email: Some(me.user.email), tenant_id: Some(account.to_owned()), ..Who::default() };
    sheet.one(&Identity { who, ..kept(&destination, &issued.key, &source) }.to_json())
}

/// Spends the link's token for a session.
async fn spend(ctx: &Context, client: &Client, token: &Token) -> Outcome<Token> {
    match client.sessions().callback(token).await.map_err(|error| ctx.stop(&error))? {
        SignIn::SignedIn { session, .. } => {
            ctx.console.hide(session.expose());
            Ok(session)
        }
        SignIn::Refused { code, .. } => Err(mailed::refused(&code)),
        _ => Err(Failure::new(Exit::Failure, "unexpected response from the service; update dl").into()),
    }
}

/// Ends the session: the key does not need it.
async fn sign_out(ctx: &Context, session: &Client) {
    let why = match tokio::time::timeout(SIGNOUT_TIMEOUT, session.sessions().signout()).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => ctx.failure(&error).message,
        Err(_) => format!("no response within {} s", SIGNOUT_TIMEOUT.as_secs()),
    };
    ctx.console.warn(&format!("the session could not be ended ({why}) and remains valid for up to 30 days"));
}
