//! `dl logout`: forgets keys. The keys themselves go on working; a key cannot delete itself.

use clap::Args;

use crate::cli::help;
use crate::config::Config;
use crate::context::Context;
use crate::error::Outcome;
use crate::output;

/// Forget the stored key
#[derive(Debug, Args)]
#[command(after_help = help(
    "This is local: the key goes on working until it is deleted on the service.",
    &["dl logout", "dl logout --all"]
))]
pub(crate) struct Logout {
    /// Forget the keys of all profiles
    #[arg(long)]
    all: bool,
}

impl Logout {
    pub(crate) fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::IDENTITY)?;
        let mut stored = ctx.store().all()?;
        stored.retain(|(profile, _)| self.all || *profile == ctx.profile);
        let names: Vec<String> = stored.iter().map(|(name, _)| name.clone()).collect();
        if !ctx.global.dry_run && !names.is_empty() {
            ctx.store().remove(&names)?;
            Config::change(&ctx.dirs, |config| {
                for name in &names {
                    if let Some(profile) = config.profiles.get_mut(name) {
                        profile.key_prefix = None;
                    }
                }
                Ok(())
            })?;
        }
        if names.is_empty() {
            ctx.console.say(&format!("no key is stored for profile {}", ctx.profile));
        }
        let mut rows = sheet.several();
        for (profile, stored) in &stored {
            let prefix = stored.key.to_string();
            let word = if ctx.global.dry_run { "would forget" } else { "forgot" };
            ctx.console.say(&format!("{word} {prefix} of profile {profile}"));
            let base = ctx.config.profiles.get(profile).and_then(|profile| profile.base_url.as_deref());
            ctx.console.say(&format!("  it still works: delete it at {}/account", base.unwrap_or(&stored.origin)));
            if ctx.out.format != output::Format::Table {
                rows.push(&output::object(&[
                    ("profile", profile.as_str().into()),
                    ("origin", stored.origin.as_str().into()),
                    ("key_prefix", prefix.into()),
                ]))?;
            }
        }
        rows.finish(None)
    }
}
