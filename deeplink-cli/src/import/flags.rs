//! Flags of an import: those that describe the rows, and those that control the import.

use deeplink_core::text::shell_word;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use deeplink_client::bulk::{self, BulkImport, FileOptions, FileSource, RejectsWriter, ResultsWriter};
use serde::{Deserialize, Serialize};

use crate::commands::links::read_link;
use crate::context::{Context, is_stdin};
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::import::{Api, Fetch, Options, Want};

/// The form of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileFormat {
    /// Detected from the file name and content
    Auto,
    /// Values separated by commas, semicolons, tabs or vertical bars
    Csv,
    /// Values separated by tabs
    Tsv,
    /// One JSON object or array
    Json,
    /// One JSON object per line
    Jsonl,
}

impl FileFormat {
    /// The format in the reader's terms; `None` makes it detect the format.
    pub(crate) fn known(self) -> Option<bulk::Format> {
        match self {
            Self::Auto => None,
            Self::Csv => Some(bulk::Format::Csv),
            Self::Tsv => Some(bulk::Format::Tsv),
            Self::Json => Some(bulk::Format::Json),
            Self::Jsonl => Some(bulk::Format::Jsonl),
        }
    }
}

/// The service that wrote the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Exporter {
    /// CSV from Bitly, or links as JSON from its API
    Bitly,
    /// CSV from Dub, or links as JSON from its API
    Dub,
    /// CSV from Shlink's web client, or short URLs as JSON from its API
    Shlink,
    /// CSV from Branch
    Branch,
    /// CSV from Firebase Dynamic Links
    Firebase,
    /// CSV from any other service
    Csv,
}

impl Exporter {
    /// The values of `--from`.
    pub(crate) fn words() -> Vec<String> {
        let values = Self::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        values.map(|value| value.get_name().to_owned()).collect()
    }

    /// The value of `--from` for a service.
    pub(super) fn word_of(provider: bulk::Provider) -> String {
        let exporter = Self::value_variants().iter().find(|exporter| exporter.provider() == provider);
        let value = exporter.and_then(ValueEnum::to_possible_value);
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(super) fn provider(self) -> bulk::Provider {
        match self {
            Self::Bitly => bulk::Provider::Bitly,
            Self::Dub => bulk::Provider::Dub,
            Self::Shlink => bulk::Provider::Shlink,
            Self::Branch => bulk::Provider::Branch,
            Self::Firebase => bulk::Provider::Firebase,
            Self::Csv => bulk::Provider::Csv,
        }
    }

    /// The service's list of links; an error if its API has none.
    pub(crate) fn api(self) -> Outcome<Api> {
        let what = match self {
            Self::Bitly => return Ok(Api::Bitly),
            Self::Dub => return Ok(Api::Dub),
            Self::Shlink => return Ok(Api::Shlink),
            Self::Branch => "Branch's API cannot list links",
            Self::Firebase => "Firebase Dynamic Links has no API that lists links",
            Self::Csv => "--from-api-key-file works only with --from bitly, dub and shlink",
        };
        Err(Failure::usage(what)
            .hint("export the links to a file, and import that; see the /docs/moving-in page of the service")
            .into())
    }
}

/// The description of the rows, which is part of an import's identity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Rows")]
pub(crate) struct SourceFlags {
    /// File format: csv, tsv, json or jsonl [default: detected from its name and content]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<FileFormat>,
    /// Map a column to a field, whatever its name; may be repeated
    #[arg(long, value_name = "COLUMN=FIELD")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) map: Vec<String>,
    /// JSON file with defaults for the rows
    #[arg(long, value_name = "FILE")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) template: Option<PathBuf>,
    /// Set a field in every row, overriding its value; may be repeated
    #[arg(long, value_name = "FIELD=VALUE")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) set: Vec<String>,
}

/// The other flags that determine how rows are read; also part of an import's identity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reading {
    /// The salt of generated ids, if ids are generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) generate_ids: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) ignore_unknown: bool,
    /// The service that wrote the file, if it is another one's export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Exporter>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) sanitize_ids: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) last_segment: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) keep_details: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id_prefix: Option<String>,
    /// The URI scheme of the app, without `://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) app_scheme: Option<String>,
}

/// Flags of the commands that begin an import.
#[derive(Debug, Clone, Args)]
pub(crate) struct Start {
    #[command(flatten)]
    policy: Policy,
    /// Validate every row without sending anything
    #[arg(long)]
    check: bool,
    /// Start over instead of resuming an unfinished import
    #[arg(long)]
    restart: bool,
    /// Directory for the journal, instead of the default
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Do not keep a journal: the import can be repeated, but not resumed
    #[arg(long, conflicts_with_all = ["journal", "restart"])]
    no_journal: bool,
}

impl Start {
    /// Imports the file, which is first read from another service's API if that is given.
    pub(crate) async fn run(self, ctx: &Context, saved: Saved, fetch: Option<Fetch>) -> Outcome {
        let want = if self.check {
            Want::Check
        } else if ctx.global.dry_run {
            Want::Plan
        } else {
            Want::Send
        };
        let journal = match (self.no_journal, self.journal) {
            (true, _) => None,
            (false, Some(dir)) => Some(dir),
            (false, None) => Some(ctx.dirs.imports()),
        };
        super::file(ctx, saved, self.policy, Options { want, restart: self.restart, journal, fetch }).await
    }
}

/// A row whose id is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnConflict {
    /// Accept if the link has the same content, otherwise reject
    Verify,
    /// Reject
    Fail,
    /// Leave the link unchanged
    Skip,
    /// Update the link to the row's content
    Update,
}

/// A row that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// Stop sending; an invalid row prevents the import from starting
    Stop,
    /// Continue with the other rows
    Continue,
}

/// Flags that control the import.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct Policy {
    /// Concurrent requests: auto, or a number from 1 to 64
    #[arg(long, value_name = "N", default_value = "auto", value_parser = concurrency)]
    concurrency: bulk::Concurrency,
    /// Give up after being rate-limited for this long without a successful request
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = crate::clock::parse_duration)]
    max_wait: Duration,
    /// If an ID is in use: verify (accept if the link has the same content), fail, skip or update
    #[arg(long, value_name = "WHAT", default_value = "verify", hide_possible_values = true)]
    on_conflict: OnConflict,
    /// If a row is rejected: stop (stop sending) or continue with the others
    #[arg(long, value_name = "WHAT", default_value = "stop", hide_possible_values = true)]
    pub(crate) on_error: OnError,
    /// Maximum number of errors to print; --rejects has them all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_errors: usize,
    /// Write the result of each row: CSV, or JSONL if the file name ends in .jsonl
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Write the rejected rows, to be fixed and imported again
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
}

fn concurrency(text: &str) -> Result<bulk::Concurrency, String> {
    if text == "auto" {
        return Ok(bulk::Concurrency::Auto);
    }
    let number = text.parse().ok().filter(|number| (1..=64).contains(number));
    number.map(bulk::Concurrency::Fixed).ok_or_else(|| "expected auto or a number from 1 to 64".to_owned())
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            concurrency: bulk::Concurrency::Auto,
            max_wait: Duration::from_mins(15),
            on_conflict: OnConflict::Verify,
            on_error: OnError::Stop,
            max_errors: 100,
            results: None,
            rejects: None,
        }
    }
}

impl Policy {
    /// Applies the policy to the import.
    pub(crate) fn apply(&self, import: BulkImport) -> BulkImport {
        import
            .on_conflict(match self.on_conflict {
                OnConflict::Verify => bulk::OnConflict::Verify,
                OnConflict::Fail => bulk::OnConflict::Fail,
                OnConflict::Skip => bulk::OnConflict::Skip,
                OnConflict::Update => bulk::OnConflict::Update,
            })
            .on_error(match self.on_error {
                OnError::Stop => bulk::OnError::Stop,
                OnError::Continue => bulk::OnError::Continue,
            })
            .concurrency(self.concurrency)
            .max_wait(self.max_wait)
            .keep_faults(self.max_errors)
    }

    /// How long to wait while rate-limited.
    pub(crate) fn max_wait(&self) -> Duration {
        self.max_wait
    }

    /// Begins the file of refused rows.
    pub(crate) fn rejects(&self, source: &FileSource) -> Outcome<Option<RejectsWriter>> {
        let create = |path: &PathBuf| {
            RejectsWriter::create(path, source).map_err(|error| Failure::file("write", path.display(), &error).into())
        };
        self.rejects.as_ref().map(create).transpose()
    }

    /// Begins the file of results.
    pub(crate) fn results(&self) -> Outcome<Option<ResultsWriter>> {
        let create = |path: &PathBuf| {
            ResultsWriter::create(path).map_err(|error| Failure::file("write", path.display(), &error).into())
        };
        self.results.as_ref().map(create).transpose()
    }

    /// Where the refused rows are, for a hint.
    pub(crate) fn rejects_path(&self) -> Option<&Path> {
        self.rejects.as_deref()
    }

    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut word = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
        if let bulk::Concurrency::Fixed(number) = self.concurrency {
            word("--concurrency", number.to_string());
        }
        for (flag, value, usual) in [
            ("--on-conflict", self.on_conflict.to_possible_value(), "verify"),
            ("--on-error", self.on_error.to_possible_value(), "stop"),
        ] {
            if let Some(value) = value.filter(|value| value.get_name() != usual) {
                word(flag, value.get_name().to_owned());
            }
        }
        if self.max_wait != Self::default().max_wait {
            word("--max-wait", format!("{}ms", self.max_wait.as_millis()));
        }
        for (flag, path) in [("--results", &self.results), ("--rejects", &self.rejects)] {
            if let Some(path) = path {
                word(flag, path.to_string_lossy().into_owned());
            }
        }
        words
    }
}

/// What an import reads, as the journal remembers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) file: PathBuf,
    pub(crate) profile: String,
    #[serde(flatten)]
    pub(crate) source: SourceFlags,
    #[serde(flatten)]
    pub(crate) reading: Reading,
}

impl Saved {
    /// The import of this file by the profile in use.
    pub(crate) fn new(ctx: &Context, file: &Path, source: &SourceFlags, reading: Reading) -> Outcome<Self> {
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|error| Stop::from(Failure::file("find", path.display(), &error)))
        };
        let file = if is_stdin(file) { file.to_owned() } else { absolute(file)? };
        let mut source = source.clone();
        source.template = source.template.as_deref().map(absolute).transpose()?;
        Ok(Self { file, profile: ctx.profile.clone(), source, reading })
    }

    /// The identity of an import in the journal.
    pub(crate) fn identity(&self) -> String {
        // A file name that is not UTF-8 cannot be JSON. It still tells imports apart, but cannot be read back.
        serde_json::to_string(self).unwrap_or_else(|_| format!("{self:?}"))
    }

    /// Reads what [`Saved::identity`] wrote.
    pub(crate) fn read(identity: &str) -> Option<Self> {
        serde_json::from_str(identity).ok()
    }

    /// The file's name, for people.
    pub(crate) fn name(&self) -> String {
        if is_stdin(&self.file) {
            return "stdin".to_owned();
        }
        self.file
            .file_name()
            .map_or_else(|| self.file.display().to_string(), |name| name.to_string_lossy().into_owned())
    }

    /// The command that imports such a file.
    pub(crate) fn command(&self) -> String {
        match self.reading.from.and_then(|from| from.to_possible_value()) {
            Some(from) => format!("dl import --from {}", from.get_name()),
            None => "dl links import".to_owned(),
        }
    }

    /// Opens the rows.
    pub(crate) fn open(&self, ctx: &Context) -> Outcome<FileSource> {
        let (flags, reading) = (&self.source, &self.reading);
        let mut options = FileOptions::new().ignore_unknown(reading.ignore_unknown);
        if let Some(from) = reading.from {
            let replace = reading.generate_ids.is_some();
            options = options.provider(from.provider()).sanitize_ids(reading.sanitize_ids).replace_ids(replace);
            options = options.last_segment(reading.last_segment).keep_details(reading.keep_details);
            options = options.now(crate::clock::now());
            if let Some(prefix) = &reading.id_prefix {
                options = options.id_prefix(prefix);
            }
            if let Some(scheme) = &reading.app_scheme {
                options = options.app_scheme(scheme);
            }
        }
        if let Some(format) = flags.format.and_then(FileFormat::known) {
            options = options.format(format);
        }
        for pair in &flags.map {
            let (column, field) = split(pair, "--map requires COLUMN=FIELD")?;
            options = options.map(column, field);
        }
        for pair in &flags.set {
            let (field, value) = split(pair, "--set requires FIELD=VALUE")?;
            options = options.set(field, value);
        }
        if let Some(path) = &flags.template {
            options = options.template(read_link(ctx, path, "--template")?);
        }
        let opened = if is_stdin(&self.file) {
            ctx.take_stdin("FILE")?;
            options.spool(std::io::stdin().lock(), "stdin")
        } else {
            options.open(&self.file)
        };
        opened.map_err(|error| super::unreadable(&self.name(), &error).into())
    }

    /// The command that resumes the import, with every flag that affects its destination or effect.
    pub(crate) fn command_line(&self, ctx: &Context, policy: &Policy, journal: Option<&Path>) -> String {
        let mut words: Vec<String> = self.command().split(' ').map(str::to_owned).collect();
        words.push(self.file.to_string_lossy().into_owned());
        let (source, reading, global) = (&self.source, &self.reading, &ctx.global);
        let mut word = |flag: &str, value: &str| words.extend([flag.to_owned(), value.to_owned()]);
        if let Some(format) = source.format.and_then(|format| format.to_possible_value()) {
            word("--format", format.get_name());
        }
        source.map.iter().for_each(|pair| word("--map", pair));
        source.set.iter().for_each(|pair| word("--set", pair));
        if let Some(path) = &source.template {
            word("--template", &path.to_string_lossy());
        }
        for (flag, value) in [("--id-prefix", &reading.id_prefix), ("--app-scheme", &reading.app_scheme)] {
            if let Some(value) = value {
                word(flag, value);
            }
        }
        if let Some(profile) = &global.profile {
            word("--profile", profile);
        }
        if let Some(base) = &global.base_url {
            word("--base-url", base.as_str());
        }
        for (flag, path) in [("--api-key-file", global.api_key_file.as_deref()), ("--journal", journal)] {
            if let Some(path) = path {
                word(flag, &path.to_string_lossy());
            }
        }
        match reading.generate_ids.as_deref() {
            Some("") => words.push("--generate-ids".into()),
            Some(salt) => words.push(format!("--generate-ids={salt}")),
            None => {}
        }
        for (flag, is_set) in [
            ("--ignore-unknown", reading.ignore_unknown),
            ("--sanitize-ids", reading.sanitize_ids),
            ("--last-segment", reading.last_segment),
            ("--keep-details", reading.keep_details),
        ] {
            if is_set {
                words.push(flag.into());
            }
        }
        words.extend(policy.words());
        words.iter().map(|word| shell_word(word).into_owned()).collect::<Vec<_>>().join(" ")
    }
}

fn split<'a>(pair: &'a str, wants: &str) -> Outcome<(&'a str, &'a str)> {
    pair.split_once('=').ok_or_else(|| Failure::new(Exit::Usage, wants).into())
}
