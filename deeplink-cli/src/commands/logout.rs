//! `dl logout`: forgets keys. The keys themselves keep working; a key cannot delete itself.

use clap::Args;

use crate::config::Config;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::ids::Tally;
use crate::output;

/// Remove the stored key
#[derive(Debug, Args)]
#[command(after_help = help(
    "This is local: the key keeps working until you delete it on the service.",
    &["dl logout", "dl logout --all"]
))]
pub(crate) struct Logout {
    /// Remove the keys of all profiles
    #[arg(long)]
    all: bool,
}

/// A key that is kept somewhere.
struct SavedKey {
    profile: String,
    origin: String,
    prefix: String,
    in_keyring: bool,
}

impl Logout {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::IDENTITY)?;
        let mut keys = saved_keys(ctx)?;
        keys.retain(|key| self.all || key.profile == ctx.profile);
        if keys.is_empty() {
            ctx.console.say(&format!("no key is stored for profile {}", ctx.profile));
        }
        let profiles: Vec<String> = keys.iter().map(|key| key.profile.clone()).collect();
        let (mut rows, mut tally) = (sheet.several(), Tally::new(ctx, &profiles));
        for key in &keys {
            if !ctx.global.dry_run
                && let Err(stop) = forget(ctx, key).await
            {
                if keys.len() == 1 {
                    return Err(stop);
                }
                tally.failed(&key.profile, stop)?;
                continue;
            }
            let (profile, prefix) = (&key.profile, &key.prefix);
            let word = if ctx.global.dry_run { "would remove" } else { "removed" };
            ctx.console.say(&format!("{word} {prefix} from profile {profile}"));
            let base = ctx.config.profiles.get(profile).and_then(|profile| profile.base_url.as_deref());
            ctx.console.say(&format!("  it still works: delete it at {}/account", base.unwrap_or(&key.origin)));
            if ctx.out.format != output::Format::Table {
                rows.push(&output::object(&[
                    ("profile", profile.as_str().into()),
                    ("origin", key.origin.as_str().into()),
                    ("key_prefix", prefix.as_str().into()),
                ]))?;
            }
        }
        rows.finish(None)?;
        tally.finish()
    }
}

/// Every key that the configuration or the file contains.
fn saved_keys(ctx: &Context) -> Outcome<Vec<SavedKey>> {
    let of_file = ctx.stores().file().all()?.into_iter().map(|(profile, stored)| SavedKey {
        profile,
        prefix: stored.key.to_string(),
        origin: stored.origin,
        in_keyring: false,
    });
    let in_keyring = ctx.config.profiles.iter().filter(|(_, profile)| profile.is_in_keyring());
    let of_keyring = in_keyring.filter_map(|(name, profile)| {
        let (origin, prefix) = (profile.origin()?, profile.key_prefix.clone()?);
        Some(SavedKey { profile: name.clone(), origin, prefix, in_keyring: true })
    });
    Ok(of_file.chain(of_keyring).collect())
}

async fn forget(ctx: &Context, key: &SavedKey) -> Outcome {
    let stores = ctx.stores();
    if key.in_keyring {
        stores.forget_in_keyring(&key.profile, &key.origin).await?;
    } else {
        stores.file().remove(std::slice::from_ref(&key.profile))?;
    }
    Config::change(&ctx.dirs, |config| {
        if let Some(profile) = config.profiles.get_mut(&key.profile) {
            profile.key_prefix = None;
            profile.login_account = None;
        }
        Ok(())
    })
}
