//! The flags that every command takes, and the precedence of flag, variable, profile and default.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::base_url::BaseUrl;
use crate::output::Format;

/// When to color.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// A bar where possible, otherwise plain lines
    Auto,
    /// Same as auto; overrides DL_PROGRESS
    Bar,
    /// A line at the start, every 10 seconds and at the end
    Plain,
    /// Nothing
    Off,
}

/// Flags that may come before or after any command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Profile to use [env: DL_PROFILE] [default: the active profile]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Base URL of the service [env: DL_BASE_URL] [default: the profile's]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) base_url: Option<BaseUrl>,

    /// File with the secret key, or - for stdin [env: DL_API_KEY, DL_API_KEY_FILE]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,

    /// Output format: table, json, jsonl, yaml, csv or id [env: DL_OUTPUT] [default: table]
    #[arg(short, long, global = true, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) output: Option<Format>,

    /// Fields to print, in this order
    #[arg(long, global = true, value_name = "A,B", value_delimiter = ',')]
    pub(crate) fields: Option<Vec<String>>,

    /// JSON with these fields: same as -o json --fields A,B
    #[arg(long = "json", global = true, value_name = "A,B", value_delimiter = ',')]
    pub(crate) json_fields: Option<Vec<String>>,

    /// Run a jq program on each JSON record, or with -o json on whole responses; strings are printed raw
    #[arg(long, global = true, value_name = "PROGRAM", allow_hyphen_values = true)]
    pub(crate) jq: Option<String>,

    /// Render each JSON record, or with -o json whole responses, with a Jinja template
    #[arg(long, global = true, value_name = "TEMPLATE", allow_hyphen_values = true)]
    pub(crate) render: Option<String>,

    /// In CSV (-o csv, or @csv and @tsv of --jq), put ' in front of cells that a spreadsheet would treat as formulas; imports
    /// remove it
    #[arg(long, global = true)]
    pub(crate) spreadsheet_safe: bool,

    /// Colors: auto, always or never [env: NO_COLOR, CLICOLOR_FORCE]
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub(crate) color: When,

    /// Progress: auto, bar, plain or off [env: DL_PROGRESS] [default: auto]
    #[arg(long, global = true, value_name = "MODE", hide_possible_values = true)]
    pub(crate) progress: Option<ProgressMode>,

    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Show requests and retries; -vv also shows headers, without secrets
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Never prompt; fail if input is required [env: DL_NO_INPUT]
    #[arg(long, global = true)]
    pub(crate) no_input: bool,

    /// Time limit for each call, including retries [env: DL_TIMEOUT] [default: 90s]
    #[arg(long, global = true, value_name = "DURATION", value_parser = crate::clock::parse_duration)]
    pub(crate) timeout: Option<std::time::Duration>,

    /// Retries after the first attempt [env: DL_RETRIES] [default: 2]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) retries: Option<u32>,

    /// Answer yes to all prompts
    #[arg(short, long, global = true)]
    pub(crate) yes: bool,

    /// Print what would be sent, without sending it
    #[arg(short = 'n', long, global = true)]
    pub(crate) dry_run: bool,
}

impl Global {
    /// The format that the flags name.
    pub(crate) fn format(&self) -> Option<Format> {
        self.output.or(self.json_fields.as_ref().map(|_| Format::Json))
    }
}
