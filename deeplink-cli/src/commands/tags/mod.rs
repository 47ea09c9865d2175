//! `dl tags`: tags, which group links.

mod delete;
mod list;
mod rename;

commands! {
    /// List, rename, merge and delete link tags
    #[command(after_help = crate::help::help("", &["dl tags list", "dl tags rename spring \"Spring sale\""]))]
    Tags {
        List(list::List),
        Rename(rename::Rename),
        Delete(delete::Delete),
    }
}
