//! `dl man`: the manual, made from the command tree.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::output::Out;

/// Print the manual page, or write one page per command
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl man | man -l -", "dl man --dir ~/.local/share/man/man1"]))]
pub(crate) struct Man {
    /// Write one page per command into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(&self, out: &Out) -> Outcome {
        let Some(dir) = &self.dir else {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .map_err(|error| Failure::file("write", "the manual page", &error))?;
            out.raw(&page)?;
            return out.flush();
        };
        let write = || {
            std::fs::create_dir_all(dir)?;
            clap_mangen::generate_to(Cli::command(), dir)
        };
        write().map_err(|error| Failure::file("write manual pages to", dir.display(), &error).into())
    }
}
