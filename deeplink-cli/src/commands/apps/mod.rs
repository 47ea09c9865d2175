//! `dl apps`: what opens the account's links.

mod add;
mod delete;
mod list;

pub(crate) use add::warn_of_icon;

commands! {
    /// Manage the apps that open the account's links
    #[command(after_help = crate::help::help("", &[
        "dl apps add ios --bundle-id com.example.app --team-id ABCDE12345",
        "dl apps list",
    ]))]
    Apps {
        List(list::List),
        Add(add::Add),
        Delete(delete::Delete),
    }
}
