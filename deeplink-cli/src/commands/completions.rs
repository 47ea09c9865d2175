//! `dl completions`: completion scripts for shells.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::error::Outcome;
use crate::help::help;
use crate::output::Out;

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_help = help("", &[
    "dl completions bash > ~/.local/share/bash-completion/completions/dl",
    "dl completions zsh > ~/.zfunc/_dl",
]))]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, out: &Out) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "dl", &mut script);
        out.raw(&script)?;
        out.flush()
    }
}
