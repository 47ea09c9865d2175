//! `--jq`: a program of the jq language for every JSON document that is printed.

mod guard;

use std::cell::{Cell, RefCell};
use std::iter;

use deeplink_core::formula;
use jaq_core::compile::Undefined;
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Filter, Vars, native};
use jaq_json::{Num, Val, read};

use super::record::called;
use super::runs::End;
use crate::error::{Failure, Outcome, Stop};
use crate::escape;
use crate::exit::Exit;

use guard::{Data, Guarded, TooDeep, catch};

/// How long a program may be, and how deeply its brackets may be nested: reading it is recursive.
const MAX_LENGTH: usize = 1 << 16;
const MAX_NESTING: usize = 256;
/// How deeply a result may be nested.
const MAX_RESULT: usize = 1_000;

/// One result of a program.
pub(super) enum Output {
    /// The text of a string.
    Text(String),
    /// Any other value.
    Json(String),
    /// A message for stderr.
    Message(String),
}

/// The text of a cell of `@csv` and `@tsv`, without `--spreadsheet-safe` and with it.
const PLAIN_CELLS: &str = "def cell_text: .;";
const SAFE_CELLS: &str = "def cell_text: defused;";

/// The formats `@csv` and `@tsv` of jq's manual, which jaq does not have.
const DEFINITIONS: &str = r#"
def cell_of(text):
  if type == "string" then cell_text | text
  elif type == "array" or type == "object" then error("\(tojson) is not valid in a CSV or TSV row")
  elif . == null then "" else tojson end;
def row_of(name):
  if type == "array" then .
  else error("\(name) requires an array, such as [.link_id, .url] | \(name); this value is of type \(type)") end;
def @csv: row_of("@csv") | map(cell_of("\"" + (split("\"") | join("\"\"")) + "\"")) | join(",");
def @tsv: row_of("@tsv") | map(cell_of(split("\\") | join("\\\\") | split("\t") | join("\\t")
  | split("\n") | join("\\n") | split("\r") | join("\\r"))) | join("\t");
"#;

thread_local! {
    /// What `debug`, `stderr` and `halt_error` have to say: the functions of a program have no other state.
    static MESSAGES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn say(message: String) {
    MESSAGES.with_borrow_mut(|messages| messages.push(message));
}

/// A program that was read.
pub(crate) struct Program {
    filter: Filter<Data>,
    /// Whether it uses `@csv` or `@tsv`.
    has_csv: bool,
    /// The first field that it reads, if it begins with one.
    first: String,
    /// Whether it had results, all of which are null.
    only_nulls: Cell<Option<bool>>,
}

impl Program {
    /// Whether cells for spreadsheets are among its results.
    pub(super) fn has_csv(&self) -> bool {
        self.has_csv
    }

    /// Whether it begins with this field, and all of its results are null.
    pub(super) fn only_nulls_of(&self, field: &str) -> bool {
        self.first == field && self.only_nulls.get() == Some(true)
    }

    fn note_result(&self, is_null: bool) {
        self.only_nulls.set(Some(is_null && self.only_nulls.get() != Some(false)));
    }

    /// Reads a program, whose `@csv` is safe for spreadsheets or not. The failure says where it is wrong.
    pub(super) fn read(code: &str, spreadsheet_safe: bool) -> Outcome<Self> {
        fits(code)?;
        let cells = if spreadsheet_safe { SAFE_CELLS } else { PLAIN_CELLS };
        let own = [cells, DEFINITIONS]
            .into_iter()
            .flat_map(|text| jaq_core::load::parse(text, |parser| parser.defs()).unwrap_or_default());
        let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(own);
        let functions = jaq_core::funs::<Data>().chain(jaq_std::funs()).chain(jaq_json::funs());
        // The environment may hold a key, which dl does not print: `env` is null.
        let functions = functions.filter(|(name, ..)| !["env", "debug_empty", "stderr_empty"].contains(name));
        let functions = functions.chain([
            native::run::<Data>(("env", native::v(0), |_| native::bome(Ok(Val::default())))),
            native::run::<Data>(("defused", native::v(0), |(_, value)| {
                native::bome(Ok(match value {
                    Val::TStr(text) => Val::from(formula::defuse(&String::from_utf8_lossy(&text)).into_owned()),
                    value => value,
                }))
            })),
            native::run::<Data>(("debug_empty", native::v(0), |(_, value)| {
                say(format!("[\"DEBUG:\",{}]", json_of(&value)));
                Box::new(iter::empty())
            })),
            native::run::<Data>(("stderr_empty", native::v(0), |(_, value)| {
                say(match value {
                    Val::TStr(text) => String::from_utf8_lossy(&text).into_owned(),
                    value => json_of(&value),
                });
                Box::new(iter::empty())
            })),
        ]);
        let arena = Arena::default();
        let modules = Loader::new(definitions)
            .load(&arena, File { code, path: () })
            .map_err(|errors| parse_error(code, errors.into_iter().next().map(|(_, error)| error)))?;
        let compiled = Compiler::default().with_funs(functions).compile(modules);
        let filter =
            compiled.map_err(|errors| match errors.into_iter().flat_map(|(_, undefined)| undefined).next() {
                Some((name, Undefined::Filter(arity))) => {
                    at_part(code, Some(name), &format!("{name}/{arity} is not defined"))
                }
                Some((name, what)) => at_part(code, Some(name), &format!("{} {name} is not defined", what.as_str())),
                None => at_part(code, None, "not a jq program"),
            })?;
        let first = code.trim_start().strip_prefix('.').unwrap_or_default();
        let first = first.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().to_owned();
        let has_csv = code.contains("@csv") || code.contains("@tsv");
        Ok(Self { filter, has_csv, first, only_nulls: Cell::default() })
    }

    /// Runs the program on a JSON document.
    pub(super) fn run(&self, json: &str, mut print: impl FnMut(Output) -> Outcome) -> Outcome<End> {
        let stopped = |why: &str, record: &str| {
            let why = escape::one_line(why);
            Stop::from(Failure::new(Exit::Failure, format!("--jq: {why}{record}")))
        };
        let failed = |why: &str| stopped(why, &called(json));
        let too_deep = |TooDeep| failed("the program recurses too deeply");
        let input = read::parse_single(json.as_bytes()).map_err(|error| failed(&error.to_string()))?;
        let context = Ctx::<Data>::new(Guarded::from_here(&self.filter.lut), Vars::new([]));
        let mut results = catch(|| self.filter.id.run((context, input))).map_err(too_deep)?;
        loop {
            let result = catch(|| results.next()).map_err(too_deep)?;
            let result =
                result.map(|result| result.map_err(|exception| exception.get_err().map_err(jaq_core::Exn::get_halt)));
            let mut messages = MESSAGES.take();
            // `halt_error` says why before it halts.
            let last = match &result {
                Some(Err(Err(Ok(code)))) if *code != 0 => messages.pop(),
                _ => None,
            };
            messages.into_iter().try_for_each(|message| print(Output::Message(message)))?;
            if let Some(Ok(value)) = &result {
                self.note_result(*value == Val::Null);
            }
            match result {
                Some(Ok(Val::TStr(text))) => print(Output::Text(String::from_utf8_lossy(&text).into_owned()))?,
                Some(Ok(value)) if is_deep(&value) => {
                    // Dropping it could exhaust the stack.
                    std::mem::forget(value);
                    return Err(failed(&format!("a result is nested more than {MAX_RESULT} levels deep")));
                }
                Some(Ok(value)) => print(Output::Json(json_of(&value)))?,
                Some(Err(Ok(error))) => return Err(failed(&text_of(error))),
                Some(Err(Err(Ok(0)))) => return Ok(End::Halted),
                Some(Err(Err(Ok(code)))) => {
                    let why = last.unwrap_or_else(|| format!("the program halted with {code}"));
                    return Err(stopped(why.trim_end(), ""));
                }
                Some(Err(Err(Err(_)))) | None => return Ok(End::Done),
            }
        }
    }
}

/// Refuses a program that is so long, or nested so deeply, that reading it could exhaust the stack.
fn fits(code: &str) -> Outcome {
    if code.len() > MAX_LENGTH {
        return Err(Failure::usage(format!("--jq: the program is longer than {MAX_LENGTH} bytes")).into());
    }
    let mut depth = 0_usize;
    for byte in code.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            let what = format!("--jq: the program's brackets are nested more than {MAX_NESTING} levels deep");
            return Err(Failure::usage(what).into());
        }
    }
    Ok(())
}

/// What an error says: the text of a string, or else the JSON of a value.
fn text_of(error: jaq_core::Error<Val>) -> String {
    match error.into_val() {
        Val::TStr(text) => String::from_utf8_lossy(&text).into_owned(),
        value if is_deep(&value) => {
            std::mem::forget(value);
            "a deeply nested value".to_owned()
        }
        value => json_of(&value),
    }
}

/// Whether a value is nested so deeply that walking through it could exhaust the stack.
fn is_deep(value: &Val) -> bool {
    let mut next = vec![(value, 0)];
    while let Some((value, depth)) = next.pop() {
        if depth > MAX_RESULT {
            return true;
        }
        match value {
            Val::Arr(items) => next.extend(items.iter().map(|item| (item, depth + 1))),
            Val::Obj(members) => next.extend(members.values().map(|member| (member, depth + 1))),
            _ => {}
        }
    }
    false
}

/// A value as JSON. What JSON does not have is null, if it is a number, or else a string.
fn json_of(value: &Val) -> String {
    let written = value.to_string();
    if serde_json::from_str::<serde::de::IgnoredAny>(&written).is_ok() {
        return written;
    }
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
    match value {
        Val::Num(Num::Float(_)) => "null".to_owned(),
        Val::TStr(bytes) | Val::BStr(bytes) => quoted(&String::from_utf8_lossy(bytes)),
        Val::Arr(items) => format!("[{}]", items.iter().map(json_of).collect::<Vec<_>>().join(",")),
        Val::Obj(members) => {
            let member = |(name, value): (&Val, &Val)| {
                let name = match name {
                    Val::TStr(bytes) => quoted(&String::from_utf8_lossy(bytes)),
                    other => quoted(&other.to_string()),
                };
                format!("{name}:{}", json_of(value))
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
        }
        _ => quoted(&written),
    }
}

/// The failure for a parse error.
fn parse_error(code: &str, error: Option<load::Error<&str>>) -> Failure {
    match error {
        Some(load::Error::Lex(faults)) => match faults.into_iter().next() {
            Some((expected, at)) => at_part(code, Some(at), &format!("expected {}", expected.as_str())),
            None => at_part(code, None, "not a jq program"),
        },
        Some(load::Error::Parse(faults)) => match faults.into_iter().next() {
            Some((expected, at)) => at_part(code, Some(at), &format!("expected {}", expected.as_str())),
            None => at_part(code, None, "not a jq program"),
        },
        Some(load::Error::Io(_)) => at_part(code, None, "modules cannot be imported"),
        None => at_part(code, None, "not a jq program"),
    }
}

/// The failure for an error at a part of the program.
fn at_part(code: &str, at: Option<&str>, what: &str) -> Failure {
    let offset = at.and_then(|at| at.as_ptr().addr().checked_sub(code.as_ptr().addr()));
    let failure = match offset.and_then(|offset| code.get(..offset)) {
        Some(before) if before.len() == code.len() => {
            Failure::usage(format!("--jq: {what} at the end of \"{}\"", escape::one_line(code)))
        }
        Some(before) => {
            let column = before.chars().count() + 1;
            Failure::usage(format!("--jq: {what} at column {column} of \"{}\"", escape::one_line(code)))
        }
        None => Failure::usage(format!("--jq: {what}: \"{}\"", escape::one_line(code))),
    };
    failure.hint("for example, --jq .url, or --jq 'select(.status == \"active\") | .link_id'")
}

#[cfg(test)]
mod tests;
