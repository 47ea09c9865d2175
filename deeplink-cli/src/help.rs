//! The end of a command's help. It depends on no command, so that all can use it.

/// The text after the flags in a command's help: details, and examples as they would be typed.
pub(crate) fn help(details: &str, examples: &[&str]) -> clap::builder::StyledStr {
    let heading = anstyle::Style::new().bold().underline();
    let details = if details.is_empty() { String::new() } else { format!("{details}\n\n") };
    format!("{details}{heading}Examples:{heading:#}\n  $ {}", examples.join("\n  $ ")).into()
}
