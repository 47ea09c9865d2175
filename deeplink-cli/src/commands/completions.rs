//! `dl completions`: completion scripts for shells.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::complete;
use crate::error::Outcome;
use crate::help::help;
use crate::output::Out;

/// Print a shell completion script
#[derive(Debug, Args)]
#[command(after_help = help(
    "With this script, the shell runs dl to complete a command line, so that IDs of links, domains, webhooks, apps, \
     affiliates and tags, and names of profiles and of fields (--fields, --json) are completed, too. IDs come from the profile's service; if it does not \
     respond within two seconds, no IDs are offered. If the key is in a locked keyring, completing an ID may prompt you \
     to unlock it. --static prints a script that never runs dl. After you update dl, save the script again.",
    &[
    "dl completions bash > ~/.local/share/bash-completion/completions/dl",
    "dl completions zsh > ~/.zfunc/_dl",
    "dl completions fish --static > dl.fish",
]
))]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
    /// Complete commands and options only, without running dl
    #[arg(long = "static")]
    is_static: bool,
}

impl Completions {
    pub(crate) fn run(&self, out: &Out) -> Outcome {
        if self.is_static {
            let mut script = Vec::new();
            clap_complete::generate(self.shell, &mut Cli::command(), "dl", &mut script);
            out.raw(&script)?;
        } else {
            out.raw(&complete::registration(&self.shell.to_string()))?;
        }
        out.flush()
    }
}
