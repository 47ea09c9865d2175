//! `dl login`: keeps a key for later commands, after the service has accepted it.

use clap::Args;
use deeplink_client::Auth;
use deeplink_core::secret::SecretKey;

use crate::base_url::BaseUrl;
use crate::cli::help;
use crate::commands::whoami::{Identity, probe};
use crate::config::{Config, STORE_FILE};
use crate::context::Context;
use crate::credentials::StoredKey;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::net::Reads;
use crate::output::{self, Format};

/// Keep a secret key for this service
#[derive(Debug, Args)]
#[command(after_help = help(
    "The key is asked for without being shown, or read from stdin or --api-key-file. It is kept once the service has accepted it, in credentials.toml, for the profile in use, and is sent to this service only.",
    &[
    "dl login --with-key --base-url https://dl.example.com",
    "dl login --with-key --base-url https://dl.example.com --profile staging < key.txt",
]
))]
pub(crate) struct Login {
    /// Sign in with a secret key
    #[arg(long)]
    with_key: bool,
}

impl Login {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        if !self.with_key {
            let what = "signing in by mail is not available in this version of dl";
            return Err(Failure::usage(what).hint("dl login --with-key takes a secret key").into());
        }
        let sheet = ctx.out.sheet(&output::IDENTITY)?;
        let base = base_url(ctx).await?;
        warn_of_variable(ctx);
        let key = match &ctx.global.api_key_file {
            Some(path) => ctx.read_key(path)?,
            None => ctx.secret(&format!("Secret key for {}: ", base.origin())).await?,
        };
        ctx.console.hide(&key);
        if !key.is_well_formed() {
            ctx.console.warn("this does not look like a key: dl_live_ and 48 hex digits");
        }
        let client = ctx.client_for(&base, Auth::SecretKey(key.clone()), Reads::Held)?;
        probe(ctx, &client).await.map_err(|stop| match stop {
            Stop::Failed(mut failure) if failure.exit == Exit::Auth => {
                failure.message = format!("{}; nothing was stored", failure.message);
                failure.hint = Some("check the key and the address; keys begin with dl_live_".into());
                Stop::Failed(failure)
            }
            other => other,
        })?;
        let identity = keep(ctx, &base, &key)?;
        if ctx.out.format == Format::Table {
            ctx.console.say(&format!("key {} kept in {}", identity.key_prefix, identity.key_source));
            return Ok(());
        }
        sheet.one(&serde_json::to_string(&identity).unwrap_or_default())
    }
}

/// Where to sign in: known, or asked for.
pub(crate) async fn base_url(ctx: &Context) -> Outcome<BaseUrl> {
    match ctx.base_url() {
        Err(Stop::Failed(failure)) if failure.code.as_deref() == Some("no_base_url") && ctx.can_ask() => {
            let text = ctx.line("Base URL of the service: ", "--base-url").await?;
            text.parse().map_err(|why: String| Failure::usage(why).into())
        }
        known => known,
    }
}

/// The key in the environment would go on being used.
pub(crate) fn warn_of_variable(ctx: &Context) {
    if ctx.env.api_key.is_some() {
        ctx.console.warn("DL_API_KEY is set and outranks a stored key, unless --profile names one");
    }
}

/// Stores a key for the profile in use and makes the profile point to its service.
pub(crate) fn keep(ctx: &Context, base: &BaseUrl, key: &SecretKey) -> Outcome<Identity> {
    ctx.store().put(&ctx.profile, &StoredKey { origin: base.origin(), key: key.clone() })?;
    Config::change(&ctx.dirs, |config| {
        let profile = config.profiles.entry(ctx.profile.clone()).or_default();
        profile.base_url = Some(base.to_string());
        profile.store = Some(STORE_FILE.to_owned());
        profile.key_prefix = Some(key.to_string());
        config.active_profile.get_or_insert_with(|| ctx.profile.clone());
        Ok(())
    })?;
    Ok(Identity {
        profile: ctx.profile.clone(),
        base_url: base.to_string(),
        origin: base.origin(),
        key_source: format!("profile {} in {}", ctx.profile, ctx.store().path().display()),
        key_prefix: key.to_string(),
        accepted: true,
    })
}
