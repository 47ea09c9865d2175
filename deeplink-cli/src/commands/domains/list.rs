//! `dl domains list`.

use std::cell::RefCell;

use clap::Args;
use deeplink_client::DomainDetail;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;
use crate::paging::{Fetched, Part};

/// List the domains
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl domains list", "dl domains list --fields domain,txt_record,verification_token"]))]
pub(crate) struct List {
    #[command(flatten)]
    part: Part,
}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DOMAINS)?;
        let domains = ctx.client().await?.domains();
        let waiting = RefCell::new(Vec::new());
        let fetch = async |size, cursor| {
            let page = Fetched::of(domains.list(), size, cursor).await.map_err(|error| ctx.stop(&error))?;
            let shown: Vec<DomainDetail> = serde_json::from_slice(&page.raw).unwrap_or_default();
            let unverified = shown.into_iter().filter(|domain| !domain.verified).map(|domain| domain.domain);
            waiting.borrow_mut().extend(unverified);
            Ok(page)
        };
        self.part.print(ctx, &sheet, "no domains yet; dl domains add go.example.com adds one", fetch).await?;
        match waiting.into_inner().as_slice() {
            [] => {}
            [name] => ctx.console.note(&format!("{name} is not verified; to see why: dl domains verify {name}")),
            several => {
                let count = several.len();
                ctx.console.note(&format!("{count} domains are not verified; to see why: dl domains verify NAME"));
            }
        }
        Ok(())
    }
}
