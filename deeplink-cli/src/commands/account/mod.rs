//! `dl account`: the settings of the account, its export and its deletion.

mod cancel_deletion;
mod delete;
mod export;
mod show;
mod update;

commands! {
    /// Show and change the account, export or delete it
    Account {
        Show(show::Show),
        Update(update::Update),
        Export(export::Export),
        Delete(delete::Delete),
        CancelDeletion(cancel_deletion::CancelDeletion),
    }
}
