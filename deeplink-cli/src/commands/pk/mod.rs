//! `dl pk`: publishable keys, which apps and pages carry.

mod create;
mod delete;
mod list;

commands! {
    /// Manage publishable keys for apps and web pages
    Pk {
        List(list::List),
        Create(create::Create),
        Delete(delete::Delete),
    }
}
