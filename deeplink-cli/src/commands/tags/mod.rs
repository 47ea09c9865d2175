//! `dl tags`: the words by which links are grouped.

mod delete;
mod list;
mod rename;

commands! {
    /// List, rename, merge and delete tags of links
    Tags {
        List(list::List),
        Rename(rename::Rename),
        Delete(delete::Delete),
    }
}
