//! `dl links bulk`: one link under many ids.

use std::path::{Path, PathBuf};

use clap::Args;
use deeplink_client::bulk::MemorySource;
use deeplink_client::{Auth, Ids};
use deeplink_core::bulk::MAX_ROWS;
use deeplink_core::link::CreateLink;

use crate::commands::links::create::read_link;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::help::help;
use crate::import;
use crate::net::Reads;
use crate::output::{self, Format, Record};
use crate::signals::Signals;

/// Create the same link under many IDs
#[derive(Debug, Args)]
#[command(after_help = help(
    "Up to 100 links are created in a single request, all or nothing; more are sent in batches, as with an import.",
    &[
    "dl links bulk --template promo.json --ids spring-1,spring-2,spring-3",
    "dl links bulk --template promo.json --count 50 -o csv",
    "dl links bulk --template promo.json --ids @ids.txt",
]
))]
pub(crate) struct Bulk {
    /// JSON file with the content that the links share (API field names), or - for stdin
    #[arg(long, value_name = "FILE")]
    template: PathBuf,
    /// IDs: a,b,c, or @FILE with one per line, or - for stdin
    #[arg(long, value_name = "IDS", required_unless_present = "count", conflicts_with = "count")]
    ids: Option<String>,
    /// Number of IDs to generate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
}

impl Bulk {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::CREATED)?;
        let mut template = read_link(ctx, &self.template, "--template")?;
        template.custom_id = None;
        template.validate()?;
        let ids = match (&self.ids, self.count) {
            (Some(given), _) => Ids::Custom(read_ids(ctx, given)?),
            (None, count) => Ids::Generated(count.unwrap_or_default()),
        };
        let many = match &ids {
            Ids::Custom(ids) => ids.len() > MAX_ROWS,
            Ids::Generated(count) => usize::try_from(*count).is_ok_and(|count| count > MAX_ROWS),
            _ => false,
        };
        if many {
            return in_batches(ctx, template, ids).await;
        }
        let mut signals = Signals::listen().map_err(|error| Failure::file("listen for", "signals", &error))?;
        let client = ctx.client().await?;
        let made = tokio::select! {
            biased;
            exit = signals.next() => return Err(Stop::Exit(exit)),
            made = client.links().bulk_create(&template, ids).full() => made.map_err(|error| ctx.stop(&error))?,
        };
        let body = String::from_utf8_lossy(&made.raw);
        if ctx.out.format == Format::Json && sheet.fields.is_none() {
            return sheet.one(&body);
        }
        let mut rows = sheet.several();
        for link in Record::read(&body).unwrap_or_default().items("links") {
            rows.push(link.get())?;
        }
        rows.finish(None)
    }
}

fn read_ids(ctx: &Context, given: &str) -> Outcome<Vec<String>> {
    let text = match given.strip_prefix('@') {
        Some(path) => ctx.text_of(Path::new(path), "--ids")?,
        None if given == "-" => ctx.stdin_text("--ids")?,
        None => given.replace(',', "\n"),
    };
    let ids: Vec<String> = text.lines().map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned).collect();
    if ids.is_empty() {
        return Err(Failure::invalid("no IDs given").code("batch_empty").field("custom_ids").into());
    }
    Ok(ids)
}

async fn in_batches(ctx: &Context, template: CreateLink, ids: Ids) -> Outcome {
    let client = ctx.client_for(&ctx.base_url()?, Auth::SecretKey(ctx.key().await?.key), Reads::Sent)?;
    let (ids, salt): (Vec<Option<String>>, _) = match ids {
        Ids::Custom(ids) => (ids.into_iter().map(Some).collect(), None),
        Ids::Generated(count) => ((0..count).map(|_| None).collect(), Some(fresh_salt())),
        _ => (Vec::new(), None),
    };
    import::memory(ctx, &client, MemorySource::same("ids", template, ids), salt).await
}

/// A separate salt for each run, so that every run makes new ids.
fn fresh_salt() -> String {
    format!("{:032x}", u128::from_le_bytes(deeplink_core::secret::Random::system().bytes()))
}
