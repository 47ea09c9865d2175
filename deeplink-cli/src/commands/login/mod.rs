//! `dl login`: signs in by mail and stores a new key, or stores an existing key.

mod mail;
mod profile;

use clap::Args;
use deeplink_client::Auth;
use deeplink_core::secret::SecretKey;

use crate::base_url::BaseUrl;
use crate::commands::whoami::{Identity, Who, probe};
use crate::context::Context;
use crate::credentials::Source;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::help::help;
use crate::net::Reads;
use crate::output::{self, Format};
use crate::store::{Destination, StoreName};

use profile::NewKey;
pub(crate) use profile::key_of;

/// Sign in and store a secret key
#[derive(Debug, Args)]
#[command(after_help = help(
    "dl login emails a sign-in link, prompts for it (input is hidden) and creates a secret key. Do not press \
     Continue in the browser: the link works only once. The first sign-in creates an account. The key is stored in \
     the keyring or, if there is none, in a file that only you can read, and is sent only to this service. With \
     DL_KEYRING=off, the keyring is never used; with DL_KEYRING=require, the key is never stored in a file. --with-key stores an \
     existing key, such as the one shown after you confirm a dl signup, once the service has accepted it.\n\nEach \
     profile holds one key. dl login replaces a key that dl login or dl signup created, if it is for the same account \
     or the service rejects it. Before replacing any other key, it prompts for a different profile name. If \
     it cannot prompt, it fails: choose a name with --profile, or remove the stored key with dl logout.",
    &[
    "dl login --email you@example.com --base-url https://dl.example.com",
    "dl login --email you@example.com --link-stdin < link.txt",
    "dl login --with-key --base-url https://dl.example.com",
    "dl login --with-key --profile staging --store file < key.txt",
]
))]
pub(crate) struct Login {
    /// Email address to sign in with; prompted for if omitted
    #[arg(long, value_name = "ADDRESS", conflicts_with = "with_key")]
    email: Option<String>,
    /// Read the emailed link from stdin after the email has been sent
    #[arg(long, conflicts_with = "with_key")]
    link_stdin: bool,
    /// Store an existing secret key instead of creating one; prompted for, or read from stdin
    #[arg(long)]
    with_key: bool,
    /// Where to keep the key: keyring or file [default: keyring, or file if there is no keyring]
    #[arg(long, value_name = "STORE", hide_possible_values = true)]
    store: Option<StoreName>,
}

impl Login {
    /// The session is ended in any case.
    pub(crate) fn handles_signals(&self) -> bool {
        !self.with_key
    }

    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        if self.with_key {
            return self.take_key(ctx).await;
        }
        if ctx.global.api_key_file.is_some() {
            let what = "--api-key-file provides a key, but dl login creates a new one";
            return Err(Failure::usage(what).hint("to store the key from the file, use dl login --with-key").into());
        }
        mail::sign_in(ctx, self).await
    }

    async fn take_key(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::IDENTITY)?;
        let base = base_url(ctx).await?;
        ctx.choose_store(&ctx.profile, self.store, &base).await?;
        warn_of_variable(ctx);
        let key = match &ctx.global.api_key_file {
            Some(path) => ctx.read_key(path).await?,
            None => ctx.secret(&format!("Secret key for {}: ", base.origin())).await?,
        };
        ctx.console.hide(key.expose());
        if !key.is_well_formed() {
            ctx.console.warn("this does not look like a key: expected dl_live_ and 48 hex digits");
        }
        // First of all: nothing is asked about a key that is not valid.
        let client = ctx.client_for(&base, Auth::SecretKey(key.clone()), Reads::Held)?;
        probe(ctx, &client).await.map_err(|stop| match stop {
            Stop::Failed(mut failure) if failure.exit == Exit::Auth => {
                failure.message = format!("{}; nothing was stored", failure.message);
                failure.hint = Some("check the key and the base URL; keys start with dl_live_".into());
                Stop::Failed(failure)
            }
            other => other,
        })?;
        let new = NewKey::accepted(&base, &key, &client);
        let profile = new.profile(ctx).await?;
        // A service that predates this operation says nothing. A partner's key does not take the place of the account's.
        let account = async || {
            let who = client.whoami().await.ok().filter(|who| who.affiliate.is_none())?;
            Some(who.tenant.id.to_string())
        };
        let profile = new.profile_for(ctx, profile, account).await?;
        let destination = ctx.choose_store(&profile, self.store, &base).await?;
        let source = ctx.keep(&destination, &key, None).await?;
        new.note_replaced(ctx, &profile, &key);
        note_inactive(ctx, &profile);
        if ctx.out.format == Format::Table && sheet.fields.is_none() {
            ctx.console.say(&format!("Logged in to {}; key {key} stored in {}", base.origin(), source.location()));
            return Ok(());
        }
        sheet.one(&kept(&destination, &key, &source).to_json())
    }
}

/// Where to sign in: known, or asked for.
pub(crate) async fn base_url(ctx: &Context) -> Outcome<BaseUrl> {
    match ctx.base_url() {
        Err(Stop::Failed(failure)) if failure.code.as_deref() == Some("no_base_url") && ctx.can_ask() => {
            let text = ctx.line("Base URL of the service: ", "--base-url").await?;
            text.parse().map_err(|why: String| hinting_at_key(&text, Failure::usage(why).into()))
        }
        known => known,
    }
}

/// A key that was typed where something else was asked for.
fn hinting_at_key(text: &str, stop: Stop) -> Stop {
    if !text.starts_with("dl_live_") {
        return stop;
    }
    stop.hinting("this is a key, and it was visible as you typed; dl login --with-key reads it without echo")
}

/// Commands keep using the active profile.
fn note_inactive(ctx: &Context, profile: &str) {
    if *profile != ctx.profile {
        ctx.console.note(&format!(
            "commands still use profile {}; to switch: dl profile use {profile}, or --profile {profile} for a single \
             command",
            ctx.profile
        ));
    }
}

/// The key in the environment would still be used.
pub(crate) fn warn_of_variable(ctx: &Context) {
    let variable = match (&ctx.env.api_key, &ctx.env.api_key_file) {
        (Some(_), _) => "DL_API_KEY",
        (None, Some(_)) => "DL_API_KEY_FILE",
        (None, None) => return,
    };
    ctx.console.warn(&format!("{variable} is set and takes precedence over a stored key, unless --profile is given"));
}

/// Prints the identity of a key that was just stored.
fn kept(to: &Destination, key: &SecretKey, source: &Source) -> Identity {
    Identity {
        who: Who::default(),
        profile: to.profile.clone(),
        base_url: to.base.to_string(),
        origin: to.base.origin(),
        key_source: source.to_string(),
        key_prefix: key.to_string(),
        accepted: true,
        scope: None,
        key_id: None,
        plan: None,
    }
}
