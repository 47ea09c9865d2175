//! `dl links`: one file for each command on links.

mod bulk;
mod content;
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
mod many;
mod qr;
mod rename;
mod resolve;
mod restore;
mod stats;
mod tag;
mod timeseries;
mod update;

pub(crate) use import::open;

commands! {
    /// Create, list, update, restore, explain, report on and import links
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
        Resolve(resolve::Resolve),
        Explain(explain::Explain),
        Qr(Box<qr::Qr>),
        Stats(stats::Stats),
        Timeseries(timeseries::Series),
        Import(Box<import::Import>),
        Export(export::Export),
    }
}

impl Links {
    pub(crate) fn handles_signals(&self) -> bool {
        matches!(self.action, Action::Import(_) | Action::Bulk(_) | Action::Qr(_))
    }
}
