//! `--jq`: a program of the jq language for every JSON document that is printed.

use std::cell::RefCell;
use std::iter;

use jaq_core::compile::Undefined;
use jaq_core::data::JustLut;
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Filter, Vars, native};
use jaq_json::{Num, Val, read};

use super::runs::End;
use crate::error::{Failure, Outcome, Stop};
use crate::escape;
use crate::exit::Exit;

type Data = JustLut<Val>;

/// One result of a program.
pub(super) enum Output {
    /// The text of a string.
    Text(String),
    /// Any other value.
    Json(String),
    /// A message for stderr.
    Message(String),
}

/// The formats `@csv` and `@tsv` of jq's manual, which jaq does not have.
const DEFINITIONS: &str = r#"
def cell_of(text):
  if type == "string" then text
  elif type == "array" or type == "object" then error("\(tojson) is not valid in a CSV or TSV row")
  elif . == null then "" else tojson end;
def @csv: map(cell_of("\"" + (split("\"") | join("\"\"")) + "\"")) | join(",");
def @tsv: map(cell_of(split("\\") | join("\\\\") | split("\t") | join("\\t") | split("\n") | join("\\n")
  | split("\r") | join("\\r"))) | join("\t");
"#;

thread_local! {
    /// What `debug`, `stderr` and `halt_error` have to say: the functions of a program have no other state.
    static MESSAGES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn say(message: String) {
    MESSAGES.with_borrow_mut(|messages| messages.push(message));
}

/// A program that was read.
pub(crate) struct Program(Filter<Data>);

impl Program {
    /// Reads a program. The failure says where it is wrong.
    pub(super) fn read(code: &str) -> Outcome<Self> {
        let own = jaq_core::load::parse(DEFINITIONS, |parser| parser.defs()).unwrap_or_default();
        let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(own);
        let functions = jaq_core::funs::<Data>().chain(jaq_std::funs()).chain(jaq_json::funs());
        // The environment may hold a key, which dl does not print: `env` is null.
        let functions = functions.filter(|(name, ..)| !["env", "debug_empty", "stderr_empty"].contains(name));
        let functions = functions.chain([
            native::run::<Data>(("env", native::v(0), |_| native::bome(Ok(Val::default())))),
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
        Ok(Self(filter))
    }

    /// Runs the program on a JSON document.
    pub(super) fn run(&self, json: &str, mut print: impl FnMut(Output) -> Outcome) -> Outcome<End> {
        let failed = |why: &str| Stop::from(Failure::new(Exit::Failure, format!("--jq: {}", escape::one_line(why))));
        let input = read::parse_single(json.as_bytes()).map_err(|error| failed(&error.to_string()))?;
        let context = Ctx::<Data>::new(&self.0.lut, Vars::new([]));
        let mut results = self.0.id.run((context, input));
        loop {
            let result = results
                .next()
                .map(|result| result.map_err(|exception| exception.get_err().map_err(jaq_core::Exn::get_halt)));
            let mut messages = MESSAGES.take();
            // `halt_error` says why before it halts.
            let last = match &result {
                Some(Err(Err(Ok(code)))) if *code != 0 => messages.pop(),
                _ => None,
            };
            messages.into_iter().try_for_each(|message| print(Output::Message(message)))?;
            match result {
                Some(Ok(Val::TStr(text))) => print(Output::Text(String::from_utf8_lossy(&text).into_owned()))?,
                Some(Ok(value)) => print(Output::Json(json_of(&value)))?,
                Some(Err(Ok(error))) => return Err(failed(&error.to_string())),
                Some(Err(Err(Ok(0)))) => return Ok(End::Halted),
                Some(Err(Err(Ok(code)))) => {
                    let why = last.unwrap_or_else(|| format!("the program halted with {code}"));
                    return Err(failed(why.trim_end()));
                }
                Some(Err(Err(Err(_)))) | None => return Ok(End::Done),
            }
        }
    }
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
mod tests {
    use super::*;

    fn results(code: &str, json: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let program = Program::read(code).unwrap_or_else(|stop| panic!("{code}: {stop:?}"));
        let print = |result| {
            lines.push(match result {
                Output::Text(text) => text,
                Output::Json(json) => format!("json {json}"),
                Output::Message(message) => format!("message {message}"),
            });
            Ok(())
        };
        program.run(json, print).unwrap_or_else(|stop| panic!("{code}: {stop:?}"));
        lines
    }

    #[test]
    fn strings_are_raw_and_all_else_is_json() {
        let json = r#"{"url":"https://go.example.com/é","n":1e400,"tags":["a","b"],"o":{"z":1,"a":null}}"#;
        assert_eq!(results(".url", json), ["https://go.example.com/é"]);
        assert_eq!(results(".tags[]", json), ["a", "b"]);
        assert_eq!(results(".n, .o, .none", json), ["json 1e400", r#"json {"z":1,"a":null}"#, "json null"]);
        assert_eq!(results("[.tags[] | ascii_upcase] | join(\",\")", json), ["A,B"]);
        assert_eq!(results("empty", json), Vec::<String>::new());
        assert_eq!(results("env, (env | type)", json), ["json null", "null"], "the environment stays here");
    }

    #[test]
    fn a_wrong_program_says_where() {
        for (code, place) in [
            (".url |", "at the end of"),
            (".url | nothing", "nothing/0 is not defined at column 8"),
            (".[", "expected closing bracket at the end of"),
            (".\"é\" | )", "at column 8"),
            ("$x", "variable $x is not defined at column 1"),
            ("", "at the end of"),
        ] {
            let Err(Stop::Failed(failure)) = Program::read(code) else { panic!("{code} was read") };
            assert!(failure.message.contains(place), "{code}: {}", failure.message);
            assert_eq!(failure.exit, Exit::Usage);
        }
    }

    #[test]
    fn a_failure_on_a_record_ends_the_command() {
        let program = Program::read(".url.host").unwrap_or_else(|stop| panic!("{stop:?}"));
        let Err(Stop::Failed(failure)) = program.run(r#"{"url":"x"}"#, |_| Ok(())) else { panic!("it ran") };
        assert!(failure.exit == Exit::Failure && failure.message.starts_with("--jq: "), "{}", failure.message);
        let halted = Program::read("halt").unwrap_or_else(|stop| panic!("{stop:?}")).run("{}", |_| Ok(()));
        assert!(matches!(halted, Ok(End::Halted)));
    }

    #[test]
    fn messages_are_for_stderr() {
        assert_eq!(results("debug", "1"), ["message [\"DEBUG:\",1]", "json 1"]);
        assert_eq!(results("stderr | empty", "\"a\""), ["message a"]);
        let program = Program::read("\"gone\\n\" | halt_error").unwrap_or_else(|stop| panic!("{stop:?}"));
        let Err(Stop::Failed(failure)) = program.run("{}", |_| panic!("it only fails")) else { panic!("it ran") };
        assert_eq!(failure.message, "--jq: gone");
    }

    #[test]
    fn every_result_is_json() {
        assert_eq!(results("nan, infinite, [-infinite, 1]", "0"), ["json null", "json null", "json [null,1]"]);
        assert_eq!(results("{a: nan, b: (\"x\" | tobytes)}", "0"), [r#"json {"a":null,"b":"x"}"#]);
    }
}
