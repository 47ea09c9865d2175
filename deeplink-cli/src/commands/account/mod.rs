//! `dl account`: the settings of the account, its export and its deletion.

mod cancel_deletion;
mod delete;
mod export;
mod show;
mod update;

commands! {
    /// Show, update, export or delete the account
    Account {
        Show(show::Show),
        Update(update::Update),
        Export(export::Export),
        Delete(delete::Delete),
        CancelDeletion(cancel_deletion::CancelDeletion),
    }
}
