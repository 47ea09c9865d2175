//! `dl links import`: the flags. `crate::import` carries them out.

use std::path::PathBuf;

use clap::Args;
use deeplink_client::bulk::{FileOptions, FileSource};

use crate::commands::links::create::read_link;
use crate::context::{Context, is_stdin};
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::help::help;
use crate::import::{self, Policy, Saved, SourceFlags, Want};

/// Create links from a file of any size
#[derive(Debug, Args)]
#[command(after_help = help(
    "Every row is validated before anything is sent. To resume an interrupted import, run the same command again; no \
     row is ever created twice. Columns: custom_id (or id, slug, link_id), web_url (web, url, destination), \
     ios_deep_link, ios_store_url, android_deep_link, android_store_url, metadata or meta.KEY, agent.action, \
     agent.cta, agent.description, social.title, social.description, social.image_url, affiliate_id, \
     name, enabled, expires_at or owner_expires_at, expired_url, tags.",
    &[
    "dl links import links.csv",
    "dl links import links.csv --check --rejects bad.csv",
    "dl links export | dl links import - --profile staging --on-conflict update",
]
))]
pub(crate) struct Import {
    /// CSV, TSV, JSON or JSONL file, or - for stdin
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    #[command(flatten)]
    source: SourceFlags,
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

impl Import {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
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
        let saved = Saved::new(ctx, &self.file, &self.source)?;
        import::file(ctx, saved, self.policy, import::Options { want, restart: self.restart, journal }).await
    }
}

/// Opens the rows that the flags describe.
pub(crate) fn open(ctx: &Context, saved: &Saved) -> Outcome<FileSource> {
    let flags = &saved.source;
    let mut options = FileOptions::new().ignore_unknown(flags.ignore_unknown);
    if let Some(format) = flags.format.and_then(import::FileFormat::known) {
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
    let opened = if is_stdin(&saved.file) {
        ctx.take_stdin("FILE")?;
        options.spool(std::io::stdin().lock(), "stdin")
    } else {
        options.open(&saved.file)
    };
    opened.map_err(|error| import::unreadable(&saved.name(), &error).into())
}

fn split<'a>(pair: &'a str, wants: &str) -> Outcome<(&'a str, &'a str)> {
    pair.split_once('=').ok_or_else(|| Failure::new(Exit::Usage, wants).into())
}
