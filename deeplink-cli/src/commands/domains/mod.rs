//! `dl domains`: the account's own host names.

mod add;
mod delete;
mod list;
mod update;
mod verify;

commands! {
    /// Manage custom domains
    #[command(after_help = crate::help::help("", &[
        "dl domains add go.example.com",
        "dl domains verify go.example.com",
        "dl domains list",
    ]))]
    Domains {
        List(list::List),
        Add(add::Add),
        Verify(verify::Verify),
        Update(update::Update),
        Delete(delete::Delete),
    }
}

/// A record, ready to copy: the value on a separate line, which fits common terminals unbroken.
fn record(kind: &str, name: &str, value: &str) -> String {
    format!("  {kind:<5}  {name}\n         {value}\n")
}
