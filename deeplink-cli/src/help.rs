//! Help: its end, and what of it is printed. It depends on no command, so that all can use it.

use std::borrow::Cow;
use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, Command};

/// The text after the flags in a command's help: details, and examples as they would be typed.
pub(crate) fn help(details: &str, examples: &[&str]) -> clap::builder::StyledStr {
    let heading = anstyle::Style::new().bold().underline();
    let details = if details.is_empty() { String::new() } else { format!("{details}\n\n") };
    format!("{details}{heading}Examples:{heading:#}\n  $ {}", examples.join("\n  $ ")).into()
}

/// The line with `--help-all` after the command that it names, if it has that flag: clap prints the help of the command that it
/// has read so far, and the flag may be anywhere.
pub(crate) fn line(args: &[OsString], tree: impl FnOnce() -> Command) -> Cow<'_, [OsString]> {
    let flag = |word: &OsString| word == "--help-all";
    let words = args.iter().skip(1).take_while(|word| *word != "--");
    if !words.clone().any(flag) {
        return Cow::Borrowed(args);
    }
    let tree = tree();
    let (mut command, mut line) = (&tree, args[..1].to_vec());
    for word in words {
        if let Some(below) = word.to_str().and_then(|word| command.find_subcommand(word)) {
            command = below;
            line.push(word.clone());
        }
    }
    line.push("--help-all".into());
    Cow::Owned(line)
}

/// Whether this error is the help of a command, and these arguments do not ask for all of it.
pub(crate) fn is_short(error: &clap::Error, args: &[OsString]) -> bool {
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
    is_help && !args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--help-all")
}

/// The tree for short help: only the root shows the global options. Elsewhere they are hidden, but still taken.
pub(crate) fn short(tree: Command) -> Command {
    fn hide(command: Command, global: &[Arg]) -> Command {
        // An argument with the ID of a global one keeps that from being added later.
        let own: Vec<_> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
        let missing = global.iter().filter(|arg| !own.contains(arg.get_id()));
        command.args(missing).mut_subcommands(|command| hide(command, global))
    }
    let global = tree.get_arguments().filter(|arg| arg.is_global_set() && arg.get_id() != "help_all");
    let hidden: Vec<Arg> = global.map(|arg| arg.clone().hide(true)).collect();
    tree.mut_subcommands(|command| hide(command, &hidden))
}
