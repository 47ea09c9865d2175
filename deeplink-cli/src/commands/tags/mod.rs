//! `dl tags`: tags, which group links.

mod delete;
mod list;
mod rename;

commands! {
    /// List, rename, merge and delete link tags
    Tags {
        List(list::List),
        Rename(rename::Rename),
        Delete(delete::Delete),
    }
}
