//! The result of a command: the only writer of stdout.
//!
//! `json`, `jsonl`, `yaml`, `csv` and `id` are stable; `table` is for people on a terminal, and tab-separated elsewhere. Values
//! are the text the service sent. A closed pipe ends the command silently.

mod billing;
mod chart;
mod jq;
mod noun;
mod people;
mod record;
mod reports;
mod rows;
mod runs;
mod sheet;
mod table;
mod template;
mod view;
mod webhooks;
mod yaml;

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::ValueEnum;
use deeplink_core::formula;

pub(crate) use billing::*;
pub(crate) use chart::{Line, Pen, columns_of, padded};
pub(crate) use noun::*;
pub(crate) use people::*;
pub(crate) use record::{Record, indent, object};
pub(crate) use reports::*;
pub(crate) use rows::Rows;
pub(crate) use sheet::Sheet;
pub(crate) use view::{View, Wanted};
pub(crate) use webhooks::*;

use runs::{End, Runs};

use crate::console::Console;
use crate::error::{Failure, Outcome, Stop};
use crate::escape;
use crate::exit::Exit;

/// How deeply JSON may be nested for YAML and jq.
const MAX_DEPTH: usize = 128;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns on a terminal; tab-separated lines elsewhere
    Table,
    /// The service's response
    Json,
    /// One JSON record per line
    Jsonl,
    /// The service's response as YAML
    Yaml,
    /// RFC 4180 with a header line
    Csv,
    /// One ID per line
    Id,
}

impl Format {
    /// Whether it is JSON, as which YAML counts.
    pub(crate) const fn is_json(self) -> bool {
        // JSON is YAML too.
        matches!(self, Self::Json | Self::Jsonl | Self::Yaml)
    }

    /// Its name, as `-o` takes it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
            Self::Yaml => "yaml",
            Self::Csv => "csv",
            Self::Id => "id",
        }
    }
}

/// Standard output.
pub(crate) struct Out {
    pub(crate) format: Format,
    pub(crate) terminal: bool,
    pub(crate) color: bool,
    /// Whether errors are JSON.
    pub(crate) json_errors: bool,
    fields: Option<Vec<String>>,
    /// The flag that named the fields.
    fields_flag: &'static str,
    spreadsheet_safe: bool,
    view: View,
    runs: Runs,
    /// Where a program's messages go.
    console: Option<Arc<Console>>,
    /// Whether a YAML document was written, from which the next is separated.
    begun: Cell<bool>,
    to: RefCell<io::BufWriter<io::Stdout>>,
}

impl Out {
    /// Writes to this process's stdout.
    pub(crate) fn new(wanted: Wanted, color: bool) -> Self {
        let Wanted { format, view, fields, fields_flag, json_errors } = wanted;
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let to = RefCell::new(io::BufWriter::with_capacity(1 << 16, stdout));
        let (runs, begun) = (Runs::default(), Cell::new(false));
        Self {
            format,
            terminal,
            color,
            json_errors,
            fields,
            fields_flag,
            spreadsheet_safe: false,
            view,
            runs,
            console: None,
            begun,
            to,
        }
    }

    /// Sends the messages of programs there.
    pub(crate) fn messages_to(mut self, console: Arc<Console>) -> Self {
        self.console = Some(console);
        self
    }

    /// To be set when a request has changed something: a program or a template that fails then does not end the command.
    pub(crate) fn changed(&self) -> Arc<AtomicBool> {
        self.runs.changed()
    }

    /// The failure of a program or a template that is to be reported at the end.
    pub(crate) fn late(&self) -> Outcome {
        self.runs.late().map_or(Ok(()), |failure| Err(Stop::Failed(failure)))
    }

    /// Whether JSON goes through a program or a template.
    pub(crate) fn is_filtered(&self) -> bool {
        matches!(self.view, View::Jq(_) | View::Template(_))
    }

    /// Whether JSON is not printed as it is.
    pub(crate) fn is_viewed(&self) -> bool {
        !matches!(self.view, View::Json)
    }

    /// Whether JSON is printed as YAML.
    fn is_yaml(&self) -> bool {
        matches!(self.view, View::Yaml)
    }

    /// Refuses `--jq` and `--render` for a command that prints something else than JSON; `hint` is what to do instead.
    pub(crate) fn refuse_filter(&self, what: &str, hint: &str) -> Outcome {
        if self.is_filtered() { Err(not_filtered(what).hint(hint).into()) } else { Ok(()) }
    }

    /// Whether CSV cells are made safe for spreadsheets.
    pub(crate) fn spreadsheet_safe(mut self, safe: bool) -> Self {
        self.spreadsheet_safe = safe;
        self
    }

    /// Refuses `--spreadsheet-safe` where no CSV is written: elsewhere it would do nothing.
    pub(crate) fn check_spreadsheet_safe(&self) -> Outcome {
        let has_csv = match &self.view {
            View::Jq(program) => program.has_csv(),
            View::Json => self.format == Format::Csv,
            View::Yaml | View::Template(_) => false,
        };
        if has_csv { Ok(()) } else { Err(without_csv().into()) }
    }

    /// Writes text as it is.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Outcome {
        self.to.borrow_mut().write_all(bytes).map_err(|error| stopped(&error))
    }

    /// Writes text from elsewhere, made safe for a terminal.
    pub(crate) fn text(&self, text: &str) -> Outcome {
        if self.terminal { self.raw(escape::visible(text).as_bytes()) } else { self.raw(text.as_bytes()) }
    }

    /// Writes one line of text from elsewhere.
    pub(crate) fn line(&self, text: &str) -> Outcome {
        self.text(text)?;
        self.raw(b"\n")
    }

    /// Writes a record of CSV (RFC 4180).
    pub(crate) fn csv(&self, cells: impl Iterator<Item = String>) -> Outcome {
        self.records(&csv_record(cells, self.spreadsheet_safe))
    }

    /// Writes records as they are in a file. On a terminal lines end with LF: the CR would be shown as an escape.
    pub(crate) fn records(&self, records: &[u8]) -> Outcome {
        if self.terminal {
            self.text(&String::from_utf8_lossy(records).replace("\r\n", "\n"))
        } else {
            self.raw(records)
        }
    }

    /// Writes a JSON document as it is wanted.
    pub(crate) fn json(&self, json: &str) -> Outcome {
        match &self.view {
            View::Json => self.plain_json(json),
            View::Yaml => {
                self.yaml_begins()?;
                self.yaml(&yaml::document(shallow(json)?))
            }
            View::Jq(program) => {
                let print = |result| match result {
                    jq::Output::Text(text) => self.line(&text),
                    jq::Output::Json(json) => self.plain_json(&json),
                    jq::Output::Message(message) => {
                        self.console.iter().for_each(|console| console.fault(&message));
                        Ok(())
                    }
                };
                self.runs.run(|| program.run(shallow(json)?, print), || self.plain_json(json))
            }
            View::Template(template) => {
                let render = || self.text(&template.render(shallow(json)?)?).map(|()| End::Done);
                self.runs.run(render, || self.plain_json(json))
            }
        }
    }

    /// Notes that a program which found nothing in the records of a list was probably meant for the whole list.
    fn note_only_nulls(&self, list: &str) {
        if let (View::Jq(program), Some(console)) = (&self.view, &self.console)
            && self.format == Format::Jsonl
            && program.only_nulls_of(list)
        {
            console.note(&format!(
                "all results are null: the program runs on each record; for a whole response, which has .{list}, use -o json"
            ));
        }
    }

    /// Writes one of many records, each of them a line of JSON.
    pub(crate) fn json_line(&self, json: &str) -> Outcome {
        if self.is_filtered() {
            return self.json(json);
        }
        self.raw(escape::json(json, self.terminal).as_bytes())?;
        self.raw(b"\n")
    }

    /// Writes JSON: indented on a terminal, on one line anywhere else.
    pub(crate) fn plain_json(&self, json: &str) -> Outcome {
        let json = escape::json(json, self.terminal);
        let text = if self.terminal { indent(&json).into() } else { json };
        self.raw(text.as_bytes())?;
        self.raw(b"\n")
    }

    /// Separates a YAML document from the one before.
    fn yaml_begins(&self) -> Outcome {
        if self.begun.replace(true) { self.raw(b"---\n") } else { Ok(()) }
    }

    /// Writes a part of a YAML document. All that `escape` changes is in double quotes, where YAML has the same escapes.
    fn yaml(&self, yaml: &str) -> Outcome {
        self.raw(escape::json(yaml, self.terminal).as_bytes())
    }

    /// Flushes.
    pub(crate) fn flush(&self) -> Outcome {
        self.to.borrow_mut().flush().map_err(|error| stopped(&error))
    }
}

/// The failure of `--jq` or `--render` with a command that prints something else than JSON.
pub(crate) fn not_filtered(what: &str) -> Failure {
    Failure::usage(format!("--jq and --render do not apply to {what}"))
}

/// The failure of `--spreadsheet-safe` without CSV.
pub(crate) fn without_csv() -> Failure {
    Failure::usage("--spreadsheet-safe applies only to CSV")
        .hint("add -o csv, or use @csv or @tsv in the program of --jq")
}

/// JSON that is not nested so deeply that walking through it could exhaust the stack.
fn shallow(json: &str) -> Outcome<&str> {
    let (mut depth, mut inside, mut escaped) = (0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            b'"' if !escaped => inside = !inside,
            b'{' | b'[' if !inside => depth += 1,
            b'}' | b']' if !inside => depth = depth.saturating_sub(1),
            _ => {}
        }
        escaped = inside && byte == b'\\' && !escaped;
        if depth > MAX_DEPTH {
            return Err(Failure::new(Exit::Failure, "the response is nested too deeply").hint("use -o json").into());
        }
    }
    Ok(json)
}

/// A record of CSV (RFC 4180), with cells that are made safe for spreadsheets or not.
pub(crate) fn csv_record(cells: impl Iterator<Item = String>, spreadsheet_safe: bool) -> Vec<u8> {
    let mut line = Vec::new();
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(&mut line);
    let cells = cells.map(|cell| formula::written(&cell, spreadsheet_safe).into_owned());
    // Writing to memory cannot fail.
    let written = writer.write_record(cells.map(String::into_bytes)).is_ok() && writer.flush().is_ok();
    drop(writer);
    debug_assert!(written);
    line
}

/// Columns for text layout: those of the terminal, and at least 20.
pub(crate) fn width() -> usize {
    columns().max(20)
}

/// Columns of the terminal; 80 if unknown.
pub(crate) fn columns() -> usize {
    comfy_table::Table::new().width().filter(|columns| *columns > 0).map_or(80, usize::from)
}

/// Rows of the terminal, if it says.
#[cfg(unix)]
pub(crate) fn height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

/// Rows of the terminal, if it says.
#[cfg(not(unix))]
pub(crate) fn height() -> Option<usize> {
    None
}

/// Breaks a text between words; every further line is indented. A word that is too long, such as
/// an address, is not broken.
pub(crate) fn wrapped(text: &str, room: usize, indent: usize) -> String {
    let (mut out, mut used) = (String::with_capacity(text.len() + 32), 0);
    let next = format!("\n{:indent$}", "");
    for word in text.split(' ') {
        let long = word.chars().count();
        if used > 0 && used + 1 + long > room {
            out.push_str(&next);
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += long;
    }
    out
}

fn stopped(error: &io::Error) -> Stop {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Stop::ClosedPipe;
    }
    Failure::new(Exit::Failure, format!("cannot write the result: {}", crate::error::plain(error))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_json_is_refused() {
        assert!(shallow(&format!("{}{}", "[".repeat(128), "]".repeat(128))).is_ok());
        assert!(shallow(&"[".repeat(129)).is_err());
        assert!(shallow(&format!(r#"{{"a\"":"{}"}}"#, "[\\\"".repeat(200))).is_ok(), "strings are not nested");
    }

    #[test]
    fn words_stay_whole() {
        let next = "\n    ";
        assert_eq!(wrapped("one two three", 7, 4), format!("one two{next}three"));
        assert_eq!(wrapped("https://go.example.com/x is long", 7, 4), format!("https://go.example.com/x{next}is long"));
        assert_eq!(wrapped("", 7, 4), "");
    }
}
