//! `dl team`: the people of the account.

mod accept;
mod invite;
mod list;
mod remove;

commands! {
    /// Manage team members
    #[command(after_help = crate::help::help("", &["dl team invite new@example.com", "dl team list"]))]
    Team {
        List(list::List),
        Invite(invite::Invite),
        Remove(remove::Remove),
        Accept(accept::Accept),
    }
}
