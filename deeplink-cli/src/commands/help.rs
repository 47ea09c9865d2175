//! `dl help`: the help of a command, or of a topic.

use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::help::help;
use crate::output::Out;

/// Show help for a command or a topic (exit-codes, output)
#[derive(Debug, Args)]
#[command(after_help = help(
    "The topic output also describes --jq and --render.",
    &["dl help links create", "dl help exit-codes", "dl help output"]
))]
pub(crate) struct Help {
    /// Command, or "exit-codes" or "output"
    #[arg(value_name = "COMMAND|TOPIC")]
    topic: Vec<String>,
}

const OUTPUT: &str = "\
Results go to stdout in one of these formats (-o, DL_OUTPUT, or dl config set output):

  table  columns on a terminal, tab-separated lines elsewhere
  json   the service's response; the pages of a list become one document
  jsonl  one JSON record per line, written as pages arrive
  yaml   the same document as json, as YAML
  csv    RFC 4180 with a header line
  id     one ID per line

--fields A,B selects fields. --json A,B is the same as -o json --fields A,B.

--jq runs a jq program, and --render a Jinja template, on each record, that is, on each line that -o
jsonl prints. With -o json or --json, they run on whole responses instead, which are then kept in
memory. --jq prints strings raw and everything else as JSON, one result per line, or indented on a
terminal; nan and infinite, such as 1/0, are printed as null. In a template, fields are variables, an
array is the variable items, booleans, objects and lists are rendered as JSON, and null (or none) as
an empty string; a line break is added unless the text ends with one.

The jq language is that of jaq, which lacks IN, input, input_filename, input_line_number, ascii,
$ENV, $__loc__ and %Z in strptime; env is null. Jinja is that of MiniJinja, without truncate, macros
or include.

If a program or template does not parse, the exit code is 2, and nothing is sent. If it fails on a
record, the exit code is 1: a command that only reads stops there, and any other one continues and
prints that record unfiltered, because its request has succeeded. Requests that --dry-run does not
send are printed unfiltered.";

const OUTPUT_EXAMPLES: &[&str] = &[
    "dl links list --all --jq .url",
    "dl links list --jq 'select(.status == \"active\") | [.link_id, .url] | @tsv'",
    "dl links list --json link_id,url --jq '.links | length'",
    "dl links list --render '{{ link_id }}: {{ name or url }}'",
    "dl links get spring-42 -o yaml",
];

impl Help {
    pub(crate) fn run(&self, out: &Out) -> Outcome {
        if self.topic == ["exit-codes"] {
            for exit in Exit::ALL {
                out.raw(format!("{:>3}  {}\n", exit.code(), exit.meaning()).as_bytes())?;
            }
            out.raw(b"\nWith several IDs, all are tried: 0 if all succeed; if all fail the same way, that code; otherwise 10.\n")?;
            return out.flush();
        }
        if ["output", "jq", "render"].iter().any(|topic| self.topic == [*topic]) {
            let text = help(OUTPUT, OUTPUT_EXAMPLES);
            let text = if out.color { text.ansi().to_string() } else { text.to_string() };
            out.line(&text)?;
            return out.flush();
        }
        let mut command = crate::help::short(Cli::command());
        // Building fills in the full command line of each leaf command.
        command.build();
        let mut found = &mut command;
        for name in &self.topic {
            let unknown = || {
                Failure::usage(format!("no command or topic named \"{}\"", self.topic.join(" ")))
                    .hint("dl --help lists the commands; the topics are exit-codes and output")
            };
            found = found.find_subcommand_mut(name).ok_or_else(unknown)?;
        }
        let help = found.render_help();
        let text = if out.color { help.ansi().to_string() } else { help.to_string() };
        out.raw(text.as_bytes())?;
        out.flush()
    }
}
