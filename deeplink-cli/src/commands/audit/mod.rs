//! `dl audit`: who changed what in the account.

mod list;

commands! {
    /// Show who changed what in the account
    Audit {
        List(list::List),
    }
}
