//! `dl links import`: the flags. `crate::import` carries them out.

use std::path::PathBuf;

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::import::{Reading, Saved, SourceFlags, Start};

/// Create links from a file of any size
#[derive(Debug, Args)]
#[command(after_help = help(
    "Every row is validated before anything is sent. To resume an interrupted import, run the same command again; no \
     row is ever created twice. --dry-run shows how the rows would be sent, and --progress plain prints progress as \
     lines. Columns: custom_id (or id, slug, link_id), web_url (web, url, destination), \
     ios_deep_link, ios_store_url, android_deep_link, android_store_url, metadata or meta.KEY, agent.action, \
     agent.cta, agent.description, social.title, social.description, social.image_url, affiliate_id, \
     name, enabled, expires_at or owner_expires_at, expired_url, tags, aliases, qr (JSON), imported_clicks.",
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
    /// Generate IDs for rows without one, from the row content: a second run generates the same IDs
    #[arg(long, value_name = "SALT", num_args = 0..=1, require_equals = true, default_missing_value = "",
        help_heading = "Rows")]
    generate_ids: Option<String>,
    /// Ignore columns that match no field
    #[arg(long, help_heading = "Rows")]
    ignore_unknown: bool,
    #[command(flatten)]
    start: Start,
}

impl Import {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let Self { file, source, generate_ids, ignore_unknown, start } = self;
        let reading = Reading { generate_ids, ignore_unknown, ..Reading::default() };
        start.run(ctx, Saved::new(ctx, &file, &source, reading)?, None).await
    }
}
