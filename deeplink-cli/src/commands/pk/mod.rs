//! `dl pk`: publishable keys, which apps and pages carry.

mod create;
mod delete;
mod list;

commands! {
    /// Manage the publishable keys of apps and pages
    Pk {
        List(list::List),
        Create(create::Create),
        Delete(delete::Delete),
    }
}
