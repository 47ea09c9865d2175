//! `dl affiliates`: partners, and their credentials.

mod create;
mod creds;
mod delete;
mod get;
mod list;
mod update;

commands! {
    /// Manage affiliates and their credentials
    #[command(after_help = crate::help::help("", &[
        "dl affiliates create --name 'Partner' --partner-key partner",
        "dl affiliates creds create aff_0123456789abcdef01234567",
    ]))]
    Affiliates {
        List(list::List),
        Create(create::Create),
        Get(get::Get),
        Update(update::Update),
        Delete(delete::Delete),
        Creds(creds::Creds),
    }
}
