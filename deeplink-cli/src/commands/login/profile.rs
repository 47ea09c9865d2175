//! Which profile gets a new key. A stored key may be the only one of its account: it is replaced only if `dl login`
//! created it for the same account, if the service no longer accepts it, or if the person says so.

use std::time::Duration;

use deeplink_client::{Auth, Kind, LinkFilter, Retry};
use deeplink_core::error::ErrorCode;

use crate::base_url::BaseUrl;
use crate::config::check_profile_name;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::net::Reads;

/// Time limit for asking a service about a stored key.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a name is asked for.
const TRIES: usize = 3;

/// The key that a profile has.
pub(crate) struct ProfileKey {
    pub(crate) prefix: String,
    origin: Option<String>,
    /// The account that `dl login` created it for; `None` for every other key.
    account: Option<String>,
}

/// The key of a profile, if it has one.
pub(crate) fn key_of(ctx: &Context, profile: &str) -> Outcome<Option<ProfileKey>> {
    let configured = ctx.config.profiles.get(profile);
    let account = configured.and_then(|profile| profile.login_account.clone());
    if let Some(in_keyring) = configured.filter(|profile| profile.is_in_keyring()) {
        let origin = in_keyring.origin();
        return Ok(in_keyring.key_prefix.clone().map(|prefix| ProfileKey { prefix, origin, account }));
    }
    let stored = ctx.stores().file().get(profile)?;
    Ok(stored.map(|stored| ProfileKey { prefix: stored.key.to_string(), origin: Some(stored.origin), account }))
}

/// A sign-in that is about to store a key.
pub(super) struct NewKey<'a> {
    pub(super) base: &'a BaseUrl,
    /// Address of the person who signs in, if known.
    pub(super) email: Option<&'a str>,
    /// Beginning of the key, if there is one already.
    pub(super) prefix: Option<String>,
}

impl NewKey<'_> {
    /// The profile for the key, before it is known which account it is for.
    pub(super) async fn profile(&self, ctx: &Context) -> Outcome<String> {
        let Some(stored) = key_of(ctx, &ctx.profile)? else { return Ok(ctx.profile.clone()) };
        let same_service = stored.origin.as_deref() == Some(&*self.base.origin());
        if ctx.global.dry_run
            || same_service && (stored.account.is_some() || self.prefix.as_ref() == Some(&stored.prefix))
        {
            return Ok(ctx.profile.clone());
        }
        let why = if same_service { "dl login did not create it" } else { "it is for another service" };
        self.keep_both(ctx, &stored, why).await
    }

    /// The profile for the key, once its account can be told: a key of another account is not replaced. Keys of another
    /// service were asked about before.
    pub(super) async fn profile_for(
        &self,
        ctx: &Context,
        profile: String,
        account: impl AsyncFnOnce() -> Option<String>,
    ) -> Outcome<String> {
        let Some(stored) = key_of(ctx, &profile)? else { return Ok(profile) };
        let same_service = stored.origin.as_deref() == Some(&*self.base.origin());
        if !same_service || stored.account.is_none() || self.prefix.as_ref() == Some(&stored.prefix) {
            return Ok(profile);
        }
        if account().await == stored.account {
            return Ok(profile);
        }
        self.keep_both(ctx, &stored, "it belongs to another account").await
    }

    /// Asks for another profile, unless the stored key is no longer valid.
    async fn keep_both(&self, ctx: &Context, stored: &ProfileKey, why: &str) -> Outcome<String> {
        let Some(whose) = whose(ctx).await else { return Ok(ctx.profile.clone()) };
        let (profile, prefix, suggested) = (&ctx.profile, &stored.prefix, self.suggested(ctx));
        if !ctx.can_ask() {
            let hint = format!(
                "use --profile {suggested} to store the new key in another profile, or remove the stored one with dl \
                 logout"
            );
            let what = format!("profile {profile} already has the key {prefix}{whose}, and {why}; it was not replaced");
            return Err(Failure::usage(what).code("profile_in_use").hint(hint).into());
        }
        ctx.console.say(&format!("profile {profile} already has the key {prefix}, and {why}"));
        if !whose.is_empty() {
            ctx.console.say(&format!("  it is a key{whose}"));
        }
        ctx.console.say(&format!("  choose a profile for the new key, or enter {profile} to replace the stored key"));
        for _ in 0..TRIES {
            let name = ctx.line(&format!("Profile for the new key [{suggested}]: "), "--profile").await?;
            let name = if name.is_empty() { suggested.clone() } else { name };
            check_profile_name(&name)?;
            if name == *profile {
                let question = format!(
                    "Replace {prefix}? If it is the only key of its account, you will lose access to the account."
                );
                return ctx.confirm(&question).await.map(|()| name);
            }
            match key_of(ctx, &name)? {
                None => return Ok(name),
                Some(taken) => ctx.console.say(&format!("profile {name} already has a key, {}", taken.prefix)),
            }
        }
        Err(Failure::usage("no profile was chosen; nothing was stored").hint(format!("--profile {suggested}")).into())
    }

    /// A name that no profile has: the person's, else the host's.
    fn suggested(&self, ctx: &Context) -> String {
        let text = match self.email {
            Some(email) => email.split('@').next().unwrap_or_default().to_owned(),
            None => self.base.host(),
        };
        let letters: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let stem: String = letters.trim_matches('-').chars().take(40).collect();
        let stem = if stem.is_empty() { "account" } else { &stem };
        let numbered = (2..).map(|number| format!("{stem}-{number}"));
        let mut names = std::iter::once(stem.to_owned()).chain(numbered);
        names.find(|name| *name != ctx.profile && !ctx.config.profiles.contains_key(name)).unwrap_or_default()
    }
}

/// Whose the key of the profile in use is, in words; `None` if its service refuses it.
async fn whose(ctx: &Context) -> Option<String> {
    let unknown = Some(String::new());
    let configured = ctx.config.profiles.get(&ctx.profile);
    let Some(base) = configured.and_then(|profile| profile.base_url.as_ref()?.parse::<BaseUrl>().ok()) else {
        return unknown;
    };
    let Ok(Some((key, _))) = ctx.stores().find(&ctx.profile, configured, &base).await else { return unknown };
    ctx.console.hide(key.expose());
    let Ok(client) = ctx.client_for(&base, Auth::SecretKey(key), Reads::Held) else { return unknown };
    let error = match client.whoami().timeout(LOOK_TIMEOUT).retry(Retry::none()).await {
        Ok(who) => {
            let email = who.email.map(|email| format!(", {email}")).unwrap_or_default();
            return Some(format!(" of {}{email} at {base}", who.tenant.id));
        }
        Err(error) => error,
    };
    // A service that predates this operation.
    let error = if error.kind() == Kind::NotFound {
        let list = client.links().list(&LinkFilter::new()).page_size(1).first_page();
        match tokio::time::timeout(LOOK_TIMEOUT, list).await {
            Ok(Err(error)) => error,
            _ => error,
        }
    } else {
        error
    };
    // Not any 401: something between here and the service may want a password of its own.
    if error.code() == Some(&ErrorCode::InvalidKey) { None } else { Some(format!(" for {base}")) }
}
