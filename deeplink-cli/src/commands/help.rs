//! `dl help`: the help of a command, or of a topic.

use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::help::help;
use crate::output::Out;

/// Show help for a command or a topic (exit-codes)
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl help links create", "dl help exit-codes"]))]
pub(crate) struct Help {
    /// Command, or "exit-codes"
    #[arg(value_name = "COMMAND|TOPIC")]
    topic: Vec<String>,
}

impl Help {
    pub(crate) fn run(&self, out: &Out) -> Outcome {
        if self.topic == ["exit-codes"] {
            for exit in Exit::ALL {
                out.raw(format!("{:>3}  {}\n", exit.code(), exit.meaning()).as_bytes())?;
            }
            out.raw(b"\nWith several IDs, all are tried: 0 if all succeed; if all fail the same way, that code; otherwise 10.\n")?;
            return out.flush();
        }
        let mut command = Cli::command();
        // Building fills in the full command line of each leaf command.
        command.build();
        let mut found = &mut command;
        for name in &self.topic {
            let unknown = || {
                Failure::usage(format!("no command or topic named \"{}\"", self.topic.join(" ")))
                    .hint("dl --help lists the commands; the only topic is exit-codes")
            };
            found = found.find_subcommand_mut(name).ok_or_else(unknown)?;
        }
        let help = found.render_help();
        let text = if out.color { help.ansi().to_string() } else { help.to_string() };
        out.raw(text.as_bytes())?;
        out.flush()
    }
}
