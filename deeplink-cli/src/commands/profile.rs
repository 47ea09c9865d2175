//! `dl profile`: several accounts side by side.

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::config::{Config, check_profile_name};
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::output;

/// Manage profiles for several accounts
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl profile list", "dl profile use staging"]))]
pub(crate) struct ProfileCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the profiles
    #[command(after_help = help("", &["dl profile list", "dl profile list -o json"]))]
    List,
    /// Switch to another profile
    #[command(after_help = help("", &["dl profile use staging", "dl profile use default"]))]
    Use {
        /// Name of the profile
        name: String,
    },
    /// Add a profile with the URL given by --base-url
    #[command(after_help = help("", &[
        "dl profile add staging --base-url https://staging.example.com",
        "dl profile add local --base-url http://127.0.0.1:8080",
    ]))]
    Add {
        /// Name of the profile: letters, digits, '-' and '_'
        name: String,
    },
    /// Remove a profile and its key
    #[command(after_help = help("", &["dl profile remove staging", "dl profile remove local --dry-run"]))]
    Remove {
        /// Name of the profile
        name: String,
    },
}

#[derive(Debug, Serialize)]
struct Row<'a> {
    name: &'a str,
    active: bool,
    base_url: Option<&'a str>,
    store: Option<&'a str>,
    key_prefix: Option<&'a str>,
    output: Option<&'a str>,
}

impl ProfileCommand {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::List => list(ctx),
            Action::Use { name } => {
                change(ctx, |config| {
                    known(config, &name)?;
                    config.active_profile = Some(name.clone());
                    Ok(())
                })?;
                ctx.console.say(&format!("profile {name} is now active"));
                Ok(())
            }
            Action::Add { name } => {
                check_profile_name(&name)?;
                let Some(base) = &ctx.global.base_url else {
                    let hint = format!("dl profile add {name} --base-url https://dl.example.com");
                    return Err(Failure::usage("--base-url is required: it is the URL of the service")
                        .hint(hint)
                        .into());
                };
                change(ctx, |config| {
                    if config.profiles.contains_key(&name) {
                        let what = format!("profile \"{name}\" already exists");
                        return Err(Failure::usage(what).hint(format!("dl profile remove {name}")).into());
                    }
                    config.profiles.entry(name.clone()).or_default().base_url = Some(base.to_string());
                    config.active_profile.get_or_insert_with(|| name.clone());
                    Ok(())
                })?;
                ctx.console.say(&format!("profile {name} added; to give it a key: dl login --profile {name}"));
                Ok(())
            }
            Action::Remove { name } => {
                known(&ctx.config, &name)?;
                if !ctx.global.dry_run {
                    let stores = ctx.stores();
                    let profile = ctx.config.profiles.get(&name).filter(|profile| profile.is_in_keyring());
                    if let Some(origin) = profile.and_then(crate::config::Profile::origin) {
                        stores.forget_in_keyring(&name, &origin).await?;
                    }
                    stores.file().remove(std::slice::from_ref(&name))?;
                }
                change(ctx, |config| {
                    config.profiles.remove(&name);
                    config.active_profile.take_if(|active| *active == name);
                    Ok(())
                })?;
                ctx.console.say(&format!("profile {name} removed"));
                Ok(())
            }
        }
    }
}

/// Changes the configuration, unless nothing is to be done.
fn change(ctx: &Context, change: impl FnOnce(&mut Config) -> Outcome) -> Outcome {
    if ctx.global.dry_run {
        ctx.console.note("--dry-run: the configuration was not changed");
        return change(&mut ctx.config.clone());
    }
    Config::change(&ctx.dirs, change)
}

fn known(config: &Config, name: &str) -> Outcome {
    if config.profiles.contains_key(name) {
        return Ok(());
    }
    let hint = match config.names() {
        names if names.is_empty() => "there are no profiles yet; dl profile add creates one".to_owned(),
        names => format!("available profiles: {names}"),
    };
    Err(Failure::usage(format!("no profile named \"{name}\"")).hint(hint).into())
}

fn list(ctx: &Context) -> Outcome {
    let sheet = ctx.out.sheet(&output::PROFILES)?;
    let mut rows = sheet.several();
    for (name, profile) in &ctx.config.profiles {
        let row = Row {
            name,
            active: *name == ctx.profile,
            base_url: profile.base_url.as_deref(),
            store: profile.store.as_deref(),
            key_prefix: profile.key_prefix.as_deref(),
            output: profile.output.as_deref(),
        };
        rows.push(&serde_json::to_string(&row).unwrap_or_default())?;
    }
    if rows.count() == 0 {
        ctx.console.say("no profiles yet; dl login --base-url URL creates one");
    }
    rows.finish(None)
}
