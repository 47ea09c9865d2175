//! `dl config`: single settings of the configuration file.

use clap::{Args, Subcommand, ValueEnum};

use crate::base_url::BaseUrl;
use crate::config::{Config, Profile};
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::output::{self, Format};

/// Show and change settings
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl config get", "dl config set output json"]))]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show one or all settings
    #[command(after_help = help("", &["dl config get", "dl config get base_url --profile staging"]))]
    Get {
        /// Setting: active_profile, base_url or output
        #[arg(hide_possible_values = true)]
        key: Option<Setting>,
    },
    /// Change a setting; an empty value removes it
    #[command(after_help = help("", &[
        "dl config set output json",
        "dl config set base_url https://dl.example.com --profile staging",
    ]))]
    Set {
        /// Setting: active_profile, base_url or output
        #[arg(hide_possible_values = true)]
        key: Setting,
        /// New value
        value: String,
    },
    /// Print the path of the configuration file
    #[command(after_help = help("", &["dl config path", "cat \"$(dl config path)\""]))]
    Path,
}

/// The settings. All but the first belong to the profile in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Setting {
    /// Profile used when none is specified
    #[value(name = "active_profile")]
    ActiveProfile,
    /// URL of the service
    #[value(name = "base_url")]
    BaseUrl,
    /// Output format
    #[value(name = "output")]
    Output,
}

impl Setting {
    fn name(self) -> &'static str {
        match self {
            Self::ActiveProfile => "active_profile",
            Self::BaseUrl => "base_url",
            Self::Output => "output",
        }
    }

    fn get(self, config: &Config, profile: &str) -> Option<String> {
        let profile = config.profiles.get(profile);
        match self {
            Self::ActiveProfile => config.active_profile.clone(),
            Self::BaseUrl => profile?.base_url.clone(),
            Self::Output => profile?.output.clone(),
        }
    }

    fn set(self, config: &mut Config, profile: &str, value: Option<&str>) -> Outcome {
        let entry = |config: &mut Config, set: fn(&mut Profile, Option<String>), value: Option<String>| {
            set(config.profiles.entry(profile.to_owned()).or_default(), value);
        };
        match self {
            Self::ActiveProfile => {
                if let Some(name) = value.filter(|name| !config.profiles.contains_key(*name)) {
                    return Err(Failure::usage(format!("no profile named \"{name}\""))
                        .hint(format!("available profiles: {}", config.names()))
                        .into());
                }
                config.active_profile = value.map(str::to_owned);
            }
            Self::BaseUrl => {
                let base = value.map(str::parse::<BaseUrl>).transpose().map_err(Failure::usage)?;
                entry(config, |profile, value| profile.base_url = value, base.map(|base| base.to_string()));
            }
            Self::Output => {
                let known = |text: &str| Format::from_str(text, false).is_ok();
                if value.is_some_and(|text| !known(text)) {
                    return Err(Failure::usage("output must be one of table, json, jsonl, yaml, csv, id").into());
                }
                entry(config, |profile, value| profile.output = value, value.map(str::to_owned));
            }
        }
        Ok(())
    }
}

impl ConfigCommand {
    pub(crate) fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::Path => {
                ctx.out.line(&ctx.dirs.config_file().to_string_lossy())?;
                ctx.out.flush()
            }
            Action::Get { key: Some(key) } => {
                let sheet = ctx.out.sheet(&output::SETTINGS)?;
                let value = key.get(&ctx.config, &ctx.profile);
                sheet.created(&output::object(&[("key", key.name().into()), ("value", value.into())]))
            }
            Action::Get { key: None } => {
                let sheet = ctx.out.sheet(&output::SETTINGS)?;
                let mut rows = sheet.several();
                for key in Setting::value_variants() {
                    let value = key.get(&ctx.config, &ctx.profile);
                    rows.push(&output::object(&[("key", key.name().into()), ("value", value.into())]))?;
                }
                rows.finish(None)
            }
            Action::Set { key, value } => {
                let value = Some(value.as_str()).filter(|value| !value.is_empty());
                if ctx.global.dry_run {
                    ctx.console.note("--dry-run: the configuration was not changed");
                    return key.set(&mut ctx.config.clone(), &ctx.profile, value);
                }
                Config::change(&ctx.dirs, |config| key.set(config, &ctx.profile, value))
            }
        }
    }
}
