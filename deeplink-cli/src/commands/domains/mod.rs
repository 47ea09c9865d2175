//! `dl domains`: host names of the account's own.

mod add;
mod delete;
mod list;
mod verify;

commands! {
    /// Use links on your own domains
    Domains {
        List(list::List),
        Add(add::Add),
        Verify(verify::Verify),
        Delete(delete::Delete),
    }
}

/// A record as a person copies it: the value on a line of its own, which no usual terminal breaks.
fn record(kind: &str, name: &str, value: &str) -> String {
    format!("  {kind:<5}  {name}\n         {value}\n")
}
