//! `dl team`: the people of the account.

mod accept;
mod invite;
mod list;
mod remove;

commands! {
    /// Manage team members
    Team {
        List(list::List),
        Invite(invite::Invite),
        Remove(remove::Remove),
        Accept(accept::Accept),
    }
}
