//! `dl pk`: publishable keys, which apps and pages carry.

mod create;
mod delete;
mod list;

commands! {
    /// Manage publishable keys for apps and web pages
    #[command(after_help = crate::help::help("", &["dl pk create go.example.com", "dl pk list"]))]
    Pk {
        List(list::List),
        Create(create::Create),
        Delete(delete::Delete),
    }
}
