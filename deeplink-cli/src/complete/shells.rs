//! What the shells get.

use std::ffi::OsString;
use std::io::{Error, Write};
use std::path::Path;

use clap::Command;
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

/// The script for bash: the one of clap does not join what bash splits, and takes values with blanks for several.
pub(super) const BASH: &[u8] = include_bytes!("dl.bash");

/// The shells.
pub(super) const ALL: [&dyn EnvCompleter; 5] =
    [&Valued(Bash), &Valued(Elvish), &Valued(Fish), &Valued(Powershell), &Valued(Zsh)];

/// A shell that is offered no options where a value comes next, so that the values of the service are not lost among them, and
/// options do not take their place if there are none.
struct Valued<T>(T);

impl<T: EnvCompleter> EnvCompleter for Valued<T> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn is(&self, name: &str) -> bool {
        self.0.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> Result<(), Error> {
        self.0.write_registration(var, name, bin, completer, buf)
    }

    fn write_complete(
        &self,
        command: &mut Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> Result<(), Error> {
        let wants_value = args.last().is_some_and(|last| last.is_empty()) && takes_listed_value(command, &args);
        let mut all = Vec::new();
        self.0.write_complete(command, args, current_dir, &mut all)?;
        let all = String::from_utf8_lossy(&all);
        let is_option = |line: &str| line.starts_with('-');
        // The script for PowerShell does not quote.
        let is_split = |line: &str| {
            self.name() == "powershell" && line.split('\t').next().is_some_and(|value| value.contains(' '))
        };
        let offered: Vec<&str> =
            all.split('\n').filter(|line| !(wants_value && is_option(line) || is_split(line))).collect();
        buf.write_all(offered.join("\n").as_bytes())
    }
}

/// Whether the command of a line takes a value that the service lists, without a flag before it.
fn takes_listed_value(root: &Command, args: &[OsString]) -> bool {
    let words = args.iter().skip(1).filter_map(|word| word.to_str());
    let command = words.fold(root, |command, word| command.find_subcommand(word).unwrap_or(command));
    command.get_positionals().any(|value| value.get::<ArgValueCompleter>().is_some())
}
