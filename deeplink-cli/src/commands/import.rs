//! `dl import`: links from another service's export. What its columns mean is in the client; this is the flags.

use std::path::PathBuf;

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::import::{Exporter, Reading, Saved, SourceFlags, Start};

/// Import links from another service's export
#[derive(Debug, Args)]
#[command(after_help = help(
    "Short links keep their IDs, so that on your domain they stay the same. Every row is checked before anything is sent. \
     To resume an interrupted import, run the same command again. What has no field here becomes metadata: \
     imported_from, imported_url, imported_clicks, imported_created_at. Other columns are ignored. docs/moving-in.md has \
     the details for each service; \"dl links import\" reads files with our own columns.",
    &[
    "dl import --from bitly bitly.csv --check",
    "dl import --from bitly bitly.csv --sanitize-ids --rejects bad.csv",
    "dl import --from shlink short-urls.json",
    "dl import --from csv links.csv --set tags=moved",
]
))]
pub(crate) struct Import {
    /// The file, or - for stdin
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// The service that wrote the file: bitly, dub, shlink, branch, firebase, or csv for any other
    #[arg(long, value_name = "SERVICE", hide_possible_values = true)]
    from: Exporter,
    #[command(flatten)]
    source: SourceFlags,
    /// Replace characters that an ID cannot have with '-'
    #[arg(long, help_heading = "Rows")]
    sanitize_ids: bool,
    /// Generate IDs for rows without an allowed one, from the row content: a second run generates the same IDs
    #[arg(long, value_name = "SALT", num_args = 0..=1, require_equals = true, default_missing_value = "",
        help_heading = "Rows")]
    generate_ids: Option<String>,
    #[command(flatten)]
    start: Start,
}

impl Import {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let Self { file, from, source, sanitize_ids, generate_ids, start } = self;
        let reading = Reading { generate_ids, from: Some(from), sanitize_ids, ..Reading::default() };
        start.run(ctx, Saved::new(ctx, &file, &source, reading)?).await
    }
}
