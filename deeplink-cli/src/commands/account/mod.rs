//! `dl account`: the settings of the account, its export and its deletion.

mod cancel_deletion;
mod delete;
mod export;
mod show;
mod update;

commands! {
    /// Show, update, export or delete the account
    #[command(after_help = crate::help::help("", &["dl account show", "dl account export --out account.jsonl"]))]
    Account {
        Show(show::Show),
        Update(update::Update),
        Export(export::Export),
        Delete(delete::Delete),
        CancelDeletion(cancel_deletion::CancelDeletion),
    }
}
