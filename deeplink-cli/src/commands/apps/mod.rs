//! `dl apps`: what opens the account's links.

mod add;
mod delete;
mod list;

commands! {
    /// Manage the apps that open the account's links
    Apps {
        List(list::List),
        Add(add::Add),
        Delete(delete::Delete),
    }
}
