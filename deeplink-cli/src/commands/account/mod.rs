//! `dl account`: the settings of the account, and its deletion.

mod delete;
mod keep;
mod show;
mod update;

commands! {
    /// Change the settings of the account, or delete it
    Account {
        Show(show::Show),
        Update(update::Update),
        Delete(delete::Delete),
        Keep(keep::Keep),
    }
}
