//! `dl pk list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;
use crate::paging::{Fetched, Part};

/// List the publishable keys
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl pk list", "dl pk list --fields id,domain -o csv"]))]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::PUBLISHABLE_KEYS)?;
        let keys = ctx.client().await?.publishable_keys();
        let fetch = async |size, cursor| Fetched::of(keys.list(), size, cursor).await.map_err(|error| ctx.stop(&error));
        let none = "no publishable keys yet; dl pk create go.example.com creates one for a verified domain";
        Part::default().print(ctx, &sheet, none, fetch).await
    }
}
