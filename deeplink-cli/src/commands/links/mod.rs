//! `dl links`: one file for each command on links.

mod bulk;
mod content;
mod copy;
mod create;
mod delete;
mod disable;
mod enable;
mod expire;
mod explain;
mod export;
mod get;
mod history;
mod import;
mod list;
mod looks;
mod many;
mod open;
pub(crate) mod qr;
mod rename;
mod resolve;
mod restore;
mod stats;
mod tag;
mod timeseries;
mod update;
mod utm;

pub(crate) use create::read_link;
pub(crate) use explain::Explain;

use crate::context::Context;
use crate::error::Outcome;
use crate::given;

commands! {
    /// Create, list, update, restore, explain, report on and import links
    #[command(after_help = crate::help::help("", &[
        "dl links create https://example.com/p/42",
        "dl links list --q \"spring sale\"",
        "dl links update spring-42 --web https://example.com/p/43",
        "dl links qr spring-42",
    ]))]
    Links {
        Create(Box<create::Create>),
        List(list::List),
        Get(get::Get),
        Update(Box<update::Update>),
        Rename(rename::Rename),
        Tag(tag::TagLinks),
        Enable(enable::Enable),
        Disable(disable::Disable),
        Expire(expire::Expire),
        Delete(delete::Delete),
        History(history::History),
        Restore(restore::Restore),
        Bulk(bulk::Bulk),
        Open(open::Open),
        Copy(copy::Copy),
        Resolve(resolve::Resolve),
        Explain(explain::Explain),
        Qr(Box<qr::Qr>),
        Stats(stats::Stats),
        Timeseries(timeseries::Series),
        Import(Box<import::Import>),
        Export(export::Export),
    }
}

/// A link's URL, as the service has it.
async fn url_of(ctx: &Context, id: &str) -> Outcome<String> {
    given::link_id(id)?;
    let found = ctx.client().await?.links().get(id).await;
    Ok(found.map_err(|error| ctx.stop(&error).naming_link(id))?.url)
}

impl Links {
    pub(crate) fn handles_signals(&self) -> bool {
        matches!(self.action, Action::Import(_) | Action::Bulk(_) | Action::Qr(_))
    }

    pub(crate) fn is_export(&self) -> bool {
        matches!(self.action, Action::Export(_))
    }
}
