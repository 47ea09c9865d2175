//! `dl apps list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;
use crate::paging::{Fetched, Part};

/// List the apps
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl apps list", "dl apps list --fields id,bundle_id,package_name -o csv"]))]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::APPS)?;
        let apps = ctx.client().await?.apps();
        let fetch = async |size, cursor| Fetched::of(apps.list(), size, cursor).await.map_err(|error| ctx.stop(&error));
        let none = "no apps yet; dl apps add --help shows how to register one";
        Part::default().print(ctx, &sheet, none, fetch).await
    }
}
