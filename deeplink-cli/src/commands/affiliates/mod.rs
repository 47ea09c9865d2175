//! `dl affiliates`: partners, and their credentials.

mod create;
mod creds;
mod delete;
mod get;
mod list;
mod update;

commands! {
    /// Manage affiliates and their credentials
    Affiliates {
        List(list::List),
        Create(create::Create),
        Get(get::Get),
        Update(update::Update),
        Delete(delete::Delete),
        Creds(creds::Creds),
    }
}
