//! `dl audit`: who changed what in the account.

mod list;

commands! {
    /// Show who changed what in the account
    #[command(after_help = crate::help::help("", &["dl audit list", "dl audit list -o csv"]))]
    Audit {
        List(list::List),
    }
}
