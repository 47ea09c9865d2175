//! The output view: a command's JSON is printed as it is, as YAML, or through a jq program or a template. The flags that
//! choose it are resolved here, before any request.

use super::Format;
use super::jq::Program;
use super::template::Template;
use crate::error::{Failure, Outcome};
use crate::global::Global;

/// The output view.
pub(crate) enum View {
    /// It is printed as it is.
    Json,
    /// It is printed as YAML.
    Yaml,
    /// The results of a jq program are printed.
    Jq(Box<Program>),
    /// A template is rendered.
    Template(Box<Template>),
}

/// How a command line wants its results.
pub(crate) struct Wanted {
    /// The form that commands write. YAML is written as JSON.
    pub(crate) format: Format,
    pub(crate) view: View,
    pub(crate) fields: Option<Vec<String>>,
    /// The flag that named the fields.
    pub(crate) fields_flag: &'static str,
    /// Whether errors are JSON.
    pub(crate) json_errors: bool,
}

impl Wanted {
    /// Tables, for commands without settings.
    pub(crate) const fn plain() -> Self {
        Self { format: Format::Table, view: View::Json, fields: None, fields_flag: "--fields", json_errors: false }
    }

    /// Reads the flags; `default` is the format without any of them.
    pub(crate) fn read(global: &Global, default: impl FnOnce() -> Outcome<Format>) -> Outcome<Self> {
        let (output, whole) = (global.output, global.format() == Some(Format::Json));
        if global.json_fields.is_some() {
            if let Some(other) = output.filter(|format| *format != Format::Json) {
                let hint = format!("-o {} --fields A,B also selects fields", other.name());
                return Err(conflict("--json", &format!("-o {}", other.name()), &hint));
            }
            if global.fields.is_some() {
                return Err(conflict("--json", "--fields", "--json A,B is the same as -o json --fields A,B"));
            }
        }
        let fields = global.json_fields.as_ref().or(global.fields.as_ref());
        let fields = fields.map(|names| names.iter().map(|name| name.trim().to_owned()).collect());
        let fields_flag = if global.json_fields.is_some() { "--json" } else { "--fields" };
        let view = match (&global.jq, &global.render) {
            (Some(_), Some(_)) => {
                return Err(conflict("--jq", "--render", "jq can build text too: --jq '\"\\(.url)\"'"));
            }
            (Some(code), None) => View::Jq(Box::new(Program::read(code, global.spreadsheet_safe)?)),
            (None, Some(text)) => View::Template(Box::new(Template::read(text)?)),
            (None, None) => {
                let format = if whole { Format::Json } else { default()? };
                let (view, written) = match format {
                    Format::Yaml => (View::Yaml, Format::Json),
                    other => (View::Json, other),
                };
                return Ok(Self { format: written, view, fields, fields_flag, json_errors: format.is_json() });
            }
        };
        if let Some(other) = output.filter(|format| !matches!(format, Format::Json | Format::Jsonl)) {
            let flag = if global.jq.is_some() { "--jq" } else { "--render" };
            let hint =
                format!("{flag} reads JSON: omit -o for one record at a time, or use -o json for whole responses");
            return Err(conflict(flag, &format!("-o {}", other.name()), &hint));
        }
        let format = if whole { Format::Json } else { Format::Jsonl };
        Ok(Self { format, view, fields, fields_flag, json_errors: global.format().is_some() })
    }
}

fn conflict(one: &str, other: &str, hint: &str) -> crate::error::Stop {
    Failure::usage(format!("{one} and {other} cannot be used together")).hint(hint).into()
}
