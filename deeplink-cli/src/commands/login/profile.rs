//! Which profile gets a new key. A stored key may be the only one of its account, even if the service refuses it: another
//! server may have used the address before. It is replaced only if `dl login` or `dl signup` created it, for the same account
//! or for one that the service no longer knows, or if the person says so.

use std::cell::Cell;
use std::time::Duration;

use deeplink_client::{Auth, Client, Kind, LinkFilter, Retry};
use deeplink_core::error::ErrorCode;
use deeplink_core::secret::SecretKey;

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
    /// The account that `dl login` or `dl signup` created it for; `None` for every other key.
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
    email: Option<&'a str>,
    /// Beginning of the key and a client that uses it, if there is one already.
    key: Option<(String, &'a Client)>,
    /// Whether the service of the stored key refuses that key.
    is_refused: Cell<bool>,
}

impl<'a> NewKey<'a> {
    /// A key that signing in will create.
    pub(super) fn to_create(base: &'a BaseUrl, email: &'a str) -> Self {
        Self { base, email: Some(email), key: None, is_refused: Cell::new(false) }
    }

    /// A key that the service has accepted.
    pub(super) fn accepted(base: &'a BaseUrl, key: &SecretKey, client: &'a Client) -> Self {
        Self { base, email: None, key: Some((key.to_string(), client)), is_refused: Cell::new(false) }
    }

    fn is(&self, stored: &ProfileKey) -> bool {
        self.key.as_ref().is_some_and(|(prefix, _)| *prefix == stored.prefix)
    }

    /// The profile for the key, before it is known which account it is for.
    pub(super) async fn profile(&self, ctx: &Context) -> Outcome<String> {
        let Some(stored) = key_of(ctx, &ctx.profile)? else { return Ok(ctx.profile.clone()) };
        let same_service = stored.origin.as_deref() == Some(&*self.base.origin());
        if ctx.global.dry_run || same_service && (stored.account.is_some() || self.is(&stored)) {
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
        if !same_service || stored.account.is_none() || self.is(&stored) {
            return Ok(profile);
        }
        if account().await == stored.account {
            return Ok(profile);
        }
        self.keep_both(ctx, &stored, "it belongs to another account").await
    }

    /// Replacing the profile's previous key does not delete it.
    pub(super) fn note_replaced(&self, ctx: &Context, profile: &str, key: &SecretKey) {
        let Some(before) = ctx.config.profiles.get(profile) else { return };
        let (Some(old), Some(base)) = (&before.key_prefix, &before.base_url) else { return };
        if *old == key.to_string() {
            return;
        }
        let old = format!("{old}, the previous key of profile {profile},");
        ctx.console.note(&if self.is_refused.get() {
            format!(
                "{old} is not valid at {base}; if it is for another server that used this address, delete it on that \
                 server"
            )
        } else if before.origin().as_deref() == Some(&*self.base.origin()) {
            format!("{old} may still work: delete it at {base}/account, or with dl keys delete")
        } else {
            // The stored key is another service's now, and so are the keys that dl deletes.
            format!("{old} may still work: delete it at {base}/account")
        });
    }

    /// Asks for another profile. Only a key that `dl` created, and could create again, is replaced without a question if the
    /// service refuses it.
    async fn keep_both(&self, ctx: &Context, stored: &ProfileKey, why: &str) -> Outcome<String> {
        let whose = whose(ctx).await;
        self.is_refused.set(matches!(whose, Whose::Refused(_)));
        if self.is_refused.get() && stored.account.is_some() {
            return Ok(ctx.profile.clone());
        }
        let (profile, prefix, suggested) = (&ctx.profile, &stored.prefix, self.suggested(ctx).await);
        if !ctx.can_ask() {
            let whose = match &whose {
                Whose::Unknown => String::new(),
                Whose::Known(words) => words.clone(),
                Whose::Refused(base) => format!(", which {base} does not accept"),
            };
            let hint = format!(
                "use --profile {suggested} to store the new key in another profile, or remove the stored one with dl \
                 logout"
            );
            let what = format!("profile {profile} already has the key {prefix}{whose}, and {why}; it was not replaced");
            return Err(Failure::usage(what).code("profile_in_use").hint(hint).into());
        }
        ctx.console.say(&format!("profile {profile} already has the key {prefix}, and {why}"));
        match &whose {
            Whose::Unknown => {}
            Whose::Known(words) => ctx.console.say(&format!("  it is a key{words}")),
            Whose::Refused(base) => ctx.console.say(&format!(
                "  {base} does not accept it: it was revoked, or is for another server that used this address"
            )),
        }
        ctx.console.say(&format!(
            "  choose a profile for the new key, or enter {profile} to replace the stored key, or n to cancel"
        ));
        for _ in 0..TRIES {
            let name = ctx.line(&format!("Profile for the new key [{suggested}]: "), "--profile").await?;
            // An answer to "replace it?", which some expect here.
            if name != *profile && matches!(name.to_ascii_lowercase().as_str(), "n" | "no") {
                return Err(Failure::usage("nothing was stored").into());
            }
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

    /// A name that no profile has: that of the account or the person, else the host's.
    async fn suggested(&self, ctx: &Context) -> String {
        let mut texts = vec![self.email.map(str::to_owned)];
        if let Some((_, client)) = &self.key
            && let Ok(who) = client.whoami().timeout(LOOK_TIMEOUT).retry(Retry::none()).await
        {
            texts.extend([who.tenant.name, who.email]);
        }
        let stems = texts.iter().flatten().map(|text| stem(text.split('@').next().unwrap_or_default()));
        let stem = stems.chain([stem(&self.base.host()), "account".to_owned()]).find(|stem| !stem.is_empty());
        let stem = stem.unwrap_or_default();
        let numbered = (2..).map(|number| format!("{stem}-{number}"));
        let mut names = std::iter::once(stem.clone()).chain(numbered);
        names.find(|name| *name != ctx.profile && !ctx.config.profiles.contains_key(name)).unwrap_or_default()
    }
}

/// The part of a profile's name that a text gives.
fn stem(text: &str) -> String {
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-").chars().take(40).collect::<String>().trim_end_matches('-').to_owned()
}

/// Whose the key of a profile is.
enum Whose {
    Unknown,
    /// In words.
    Known(String),
    /// This service refuses it.
    Refused(BaseUrl),
}

/// Whose the key of the profile in use is.
async fn whose(ctx: &Context) -> Whose {
    let configured = ctx.config.profiles.get(&ctx.profile);
    let Some(base) = configured.and_then(|profile| profile.base_url.as_ref()?.parse::<BaseUrl>().ok()) else {
        return Whose::Unknown;
    };
    let Ok(Some((key, _))) = ctx.stores().find(&ctx.profile, configured, &base).await else { return Whose::Unknown };
    ctx.console.hide(key.expose());
    let Ok(client) = ctx.client_for(&base, Auth::SecretKey(key), Reads::Held) else { return Whose::Unknown };
    let error = match client.whoami().timeout(LOOK_TIMEOUT).retry(Retry::none()).await {
        Ok(who) => {
            let email = who.email.map(|email| format!(" ({email})")).unwrap_or_default();
            return Whose::Known(format!(" for account {}{email} at {base}", who.tenant.id));
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
    if error.code() == Some(&ErrorCode::InvalidKey) {
        Whose::Refused(base)
    } else {
        Whose::Known(format!(" for {base}"))
    }
}
