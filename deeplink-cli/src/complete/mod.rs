//! Completion requests: a shell runs `dl` with `DL_COMPLETE` set to its name, and gets what may come next.
//!
//! IDs come from the service of the profile, within two seconds. Whatever fails, there is nothing to complete, and nothing is
//! printed: the user is in the middle of a line.

mod fields;
mod shells;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory, Parser};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use deeplink_core::delivery::DeliveryStatus;
use deeplink_core::event::EventKind;
use deeplink_core::funnel::{Credit, GroupBy};
use deeplink_core::link::{Action, LinkSort, LinkStatus};
use deeplink_core::plan::Tier;
use http::Method;
use serde_json::value::RawValue;

use crate::cli::Cli;
use crate::config::{Config, Dirs};
use crate::console::{Console, Manner};
use crate::context::{Context, is_stdin};
use crate::env::Env;
use crate::error::{Failure, Outcome};
use crate::escape;
use crate::output::Record;

/// Set by the shells' functions to the name of the shell.
const VARIABLE: &str = "DL_COMPLETE";
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How many values are requested, if the service lists a part.
const MAX_VALUES: &str = "100";

/// Handles a completion request; `false` if there is none.
pub(crate) fn handle(args: &[OsString]) -> Outcome<bool> {
    let words = Arc::new(args.to_vec());
    let tree = || with_sources(Cli::command(), "", &words);
    let dir = std::env::current_dir().ok();
    let request = CompleteEnv::with_factory(tree).var(VARIABLE).shells(Shells(&shells::ALL));
    let handled = request.try_complete(args.iter().cloned(), dir.as_deref());
    // Only a request can fail. The scripts of the shells put the line after `--`, and print no failure.
    handled.or_else(|_| if args.iter().any(|word| word == "--") { Ok(true) } else { Err(unknown_shell().into()) })
}

/// The variable is set, but not by a shell's script: without this failure every command would do nothing.
fn unknown_shell() -> Failure {
    let shells = Shells::builtins().names().collect::<Vec<_>>().join(", ");
    Failure::usage(format!("{VARIABLE} is set, but not to one of {shells}"))
        .hint(format!("unset {VARIABLE}, which only completion scripts set"))
}

/// The script that makes a shell ask.
pub(crate) fn registration(shell: &str) -> Vec<u8> {
    if shell == "bash" {
        return shells::BASH.into();
    }
    let mut script = Vec::new();
    if let Some(shell) = Shells::builtins().completer(shell) {
        // Writing to memory cannot fail.
        let written = shell.write_registration(VARIABLE, "dl", "dl", "dl", &mut script);
        debug_assert!(written.is_ok());
    }
    if shell == "zsh" {
        // As a file in the function path, it is first run to complete.
        script.extend_from_slice(b"if [[ ${funcstack[1]} == _dl ]]; then _clap_dynamic_completer_dl \"$@\"; fi\n");
    }
    script
}

/// Where the values of an argument come from, if clap does not know them.
#[derive(Debug, Clone, PartialEq)]
enum Source {
    /// These words.
    Words(Vec<&'static str>),
    /// The profiles of the configuration.
    Profiles,
    /// The fields of what the command prints.
    Fields,
    /// A list of the service.
    List(&'static List),
}

/// A list of the service.
#[derive(Debug, PartialEq)]
struct List {
    path: &'static str,
    /// The member with the items; a bare array has none.
    items: Option<&'static str>,
    id: &'static str,
    /// What describes an item.
    about: &'static str,
    /// Whether the service returns a part.
    paged: bool,
}

const fn list(path: &'static str, items: Option<&'static str>, id: &'static str, about: &'static str) -> List {
    List { path, items, id, about, paged: true }
}

static LINKS: List = list("/v1/links", Some("links"), "link_id", "name");
static TAGS: List = List { paged: false, ..list("/v1/tags", Some("tags"), "tag", "") };
static LOGOS: List = List { paged: false, ..list("/v1/qr-logos", Some("logos"), "name", "") };
static DOMAINS: List = list("/v1/domains", None, "domain", "role");
static WEBHOOKS: List = list("/v1/webhooks", Some("webhooks"), "id", "url");
static APPS: List = list("/v1/apps", None, "id", "app_name");
static AFFILIATES: List = list("/v1/affiliates", Some("affiliates"), "id", "name");
static SOURCES: List = list("/v1/sources", Some("sources"), "id", "name");
static USERS: List = list("/v1/auth/users", Some("users"), "id", "email");
static SECRET_KEYS: List = list("/v1/auth/secret-keys", Some("keys"), "id", "key_prefix");
static PUBLISHABLE_KEYS: List = list("/v1/auth/publishable-keys", Some("keys"), "id", "domain");

/// Where the values of an argument come from: `flag` is its long name, and empty for what has none.
fn source(path: &str, flag: &str, value_name: &str) -> Option<Source> {
    let group = path.split(' ').next().unwrap_or_default();
    Some(match (path, flag, value_name) {
        (_, "profile", _) | ("profile use" | "profile remove", "", _) => Source::Profiles,
        (_, "fields" | "json", "A,B") => Source::Fields,
        (_, "affiliate", _) | (_, "", "AFFILIATE") => Source::List(&AFFILIATES),
        (_, "tag", _) | ("links tag", "add" | "remove", _) | (_, "", "TAG") => Source::List(&TAGS),
        (_, "domain", _) | (_, "", "DOMAIN") if path != "domains add" => Source::List(&DOMAINS),
        ("links resolve" | "links explain" | "explain" | "wellknown" | "doctor", "host", _) => Source::List(&DOMAINS),
        (_, "link", "ID") => Source::List(&LINKS),
        (_, "action", "WORD") => words(Action::ALL, Action::as_str),
        ("links list" | "links export", "status", _) => words(LinkStatus::ALL, LinkStatus::as_str),
        ("links list", "sort", _) => words(LinkSort::ALL, LinkSort::as_str),
        ("stats", "group-by", _) => words(GroupBy::ALL, GroupBy::as_str),
        ("stats", "top", _) => words(GroupBy::ALL.iter().filter(|by| by.millis().is_none()), GroupBy::as_str),
        ("stats", "credit", _) => words(Credit::ALL, Credit::as_str),
        ("webhooks deliveries", "status", _) => words(DeliveryStatus::ALL, DeliveryStatus::as_str),
        (_, "event", "KIND")
        | ("webhooks sample" | "webhooks trigger", "", "KIND")
        | ("events list" | "events export", "kind", _) => words(EventKind::ALL, EventKind::as_str),
        ("billing checkout", "", _) => words(Tier::ALL.iter().filter(|tier| **tier != Tier::Free), Tier::as_str),
        (_, "", "NAME") if group == "qr-logos" => Source::List(&LOGOS),
        (_, "", "ID" | "ID|-" | "ID|URL") => Source::List(match group {
            "links" | "stats" | "explain" | "open" | "sdk" => &LINKS,
            "webhooks" => &WEBHOOKS,
            "apps" => &APPS,
            // The credentials of an affiliate are not listed without its ID.
            "affiliates" if path != "affiliates creds delete" => &AFFILIATES,
            "sources" => &SOURCES,
            "team" => &USERS,
            "keys" => &SECRET_KEYS,
            "pk" => &PUBLISHABLE_KEYS,
            _ => return None,
        }),
        _ => return None,
    })
}

/// The words of an enumeration.
fn words<T: 'static>(all: impl IntoIterator<Item = &'static T>, word: fn(&'static T) -> &'static str) -> Source {
    Source::Words(all.into_iter().map(word).collect())
}

/// The tree, with the sources of values; `words` is the line.
fn with_sources(command: Command, path: &str, words: &Arc<Vec<OsString>>) -> Command {
    let add = |arg: Arg| {
        let name = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
        match source(path, arg.get_long().unwrap_or_default(), name.as_deref().unwrap_or_default()) {
            Some(Source::Words(known)) => {
                arg.add(ArgValueCandidates::new(move || known.iter().map(CompletionCandidate::new).collect::<Vec<_>>()))
            }
            Some(Source::Profiles) => arg.add(ArgValueCandidates::new(profiles)),
            Some(Source::Fields) => {
                let words = Arc::clone(words);
                arg.add(ArgValueCandidates::new(move || fields::of_line(&typed(&words))))
            }
            Some(Source::List(list)) => {
                let words = Arc::clone(words);
                arg.add(ArgValueCompleter::new(move |typed: &OsStr| {
                    typed.to_str().and_then(|typed| values(list, typed, &words)).unwrap_or_default()
                }))
            }
            None => arg,
        }
    };
    command.mut_args(add).mut_subcommands(|command| {
        let below = format!("{path} {}", command.get_name());
        with_sources(command, below.trim_start(), words)
    })
}

/// The names of the profiles, with their services.
fn profiles() -> Vec<CompletionCandidate> {
    let config = Env::read().and_then(|env| Dirs::find(&env)).and_then(|dirs| Config::load(&dirs)).unwrap_or_default();
    let profiles = config.profiles.iter();
    profiles.map(|(name, profile)| candidate(name, profile.base_url.as_deref().unwrap_or_default())).collect()
}

/// The values of a list that begin with what was typed.
fn values(list: &'static List, typed: &str, words: &[OsString]) -> Option<Vec<CompletionCandidate>> {
    let ctx = context(words)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let found =
        runtime.block_on(async { tokio::time::timeout(TIMEOUT, fetch(&ctx, list, typed)).await.ok().flatten() });
    runtime.shutdown_background();
    found
}

async fn fetch(ctx: &Context, list: &List, typed: &str) -> Option<Vec<CompletionCandidate>> {
    let mut call = ctx.client().await.ok()?.request(Method::GET, list.path);
    if list.paged {
        call = call.query("limit", MAX_VALUES);
    }
    if list.path == LINKS.path && !typed.is_empty() {
        call = call.query("id_prefix", typed);
    }
    let reply = call.await.ok().filter(|reply| reply.status.is_success())?;
    let body = String::from_utf8_lossy(&reply.body);
    let items: Vec<&RawValue> = match list.items {
        Some(name) => Record::read(&body)?.items(name),
        None => serde_json::from_str(&body).ok()?,
    };
    let read = |item: &&RawValue| {
        let record = Record::read(item.get())?;
        let id = record.cell(list.id).filter(|id| id.starts_with(typed) && is_word(id))?;
        Some(candidate(&id, &record.cell(list.about).unwrap_or_default()))
    };
    Some(items.iter().filter_map(read).collect())
}

/// The words of the line that is being typed.
fn typed(words: &[OsString]) -> Vec<&str> {
    words.iter().skip_while(|word| *word != "--").skip(1).filter_map(|word| word.to_str()).collect()
}

/// The settings of the line that is being typed, for a command that only reads and never prompts.
fn context(words: &[OsString]) -> Option<Context> {
    let mut line: Vec<OsString> =
        ["dl", "--quiet", "--no-input", "--retries=0", "--timeout=2s"].into_iter().map(Into::into).collect();
    let typed = typed(words);
    for flag in ["--profile", "--base-url", "--api-key-file"] {
        if let Some(value) = value_of(&typed, flag) {
            line.push(format!("{flag}={value}").into());
        }
    }
    line.push("ping".into());
    let (global, env) = (Cli::try_parse_from(line).ok()?.global, Env::read().ok()?);
    // A key on stdin is for the command itself, and a pipe may stay silent for ever.
    let is_file = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|found| found.is_file()) && !is_stdin(path);
    if ![&global.api_key_file, &env.api_key_file].into_iter().flatten().all(is_file) {
        return None;
    }
    let console = Console::new(Manner { quiet: true, ..Manner::default() });
    Context::new(global, env, Arc::new(console), false).ok()
}

/// The last value of a flag on the line. An earlier script for bash splits words at `=` and `:`, so that what belongs together
/// is joined.
fn value_of(words: &[&str], flag: &str) -> Option<String> {
    let is_break = |word: &&&str| !word.is_empty() && word.chars().all(|c| matches!(c, '=' | ':'));
    let at = words.iter().rposition(|word| word.split('=').next() == Some(flag))?;
    let mut rest = words[at + 1..].iter().peekable();
    let mut value = match words[at].split_once('=') {
        Some((_, value)) => value.to_owned(),
        None => {
            rest.next_if(|word| **word == "=");
            (*rest.next()?).to_owned()
        }
    };
    while let Some(between) = rest.next_if(is_break) {
        value.push_str(between);
        value.push_str(rest.next().copied().unwrap_or_default());
    }
    Some(value)
}

/// A value with its description.
fn candidate(value: &str, about: &str) -> CompletionCandidate {
    let about = escape::one_line(about).into_owned();
    CompletionCandidate::new(value).help((!about.is_empty()).then(|| about.into()))
}

/// Whether a value is one word to every shell, without quotes but those that the scripts add to blanks.
fn is_word(value: &str) -> bool {
    let is_safe = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/' | '@' | ' ');
    !value.is_empty() && value.trim() == value && value.chars().all(is_safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_the_values_of_their_kind() {
        for (path, flag, name, wanted) in [
            ("links get", "", "ID|-", Source::List(&LINKS)),
            ("links resolve", "", "ID|URL", Source::List(&LINKS)),
            ("explain", "", "ID", Source::List(&LINKS)),
            ("open", "", "ID|URL", Source::List(&LINKS)),
            ("stats", "", "ID|-", Source::List(&LINKS)),
            ("events list", "link", "ID", Source::List(&LINKS)),
            ("links create", "affiliate", "ID", Source::List(&AFFILIATES)),
            ("affiliates creds create", "", "AFFILIATE", Source::List(&AFFILIATES)),
            ("links tag", "add", "TAG", Source::List(&TAGS)),
            ("tags rename", "", "TAG", Source::List(&TAGS)),
            ("domains verify", "", "DOMAIN", Source::List(&DOMAINS)),
            ("webhooks test", "", "ID", Source::List(&WEBHOOKS)),
            ("apps delete", "", "ID|-", Source::List(&APPS)),
            ("", "profile", "NAME", Source::Profiles),
            ("", "fields", "A,B", Source::Fields),
            ("", "json", "A,B", Source::Fields),
            ("profile use", "", "NAME", Source::Profiles),
            ("links list", "sort", "ORDER", Source::Words(vec!["newest", "oldest"])),
            ("billing checkout", "", "PLAN", Source::Words(vec!["pro", "business", "scale"])),
        ] {
            assert_eq!(source(path, flag, name), Some(wanted), "{path} {flag}");
        }
        for (path, flag, name) in [
            ("links create", "id", "ID"),
            ("links create", "", "WEB_URL"),
            ("domains add", "", "DOMAIN"),
            ("links rename", "", "NAME"),
            ("webhooks listen", "host", "ADDRESS"),
            ("webhooks replay", "", "DELIVERY_ID"),
        ] {
            assert_eq!(source(path, flag, name), None, "{path} {flag}");
        }
    }

    #[test]
    fn values_are_joined_where_bash_splits_them() {
        for (line, wanted) in [
            ("dl --base-url http://a.example:8080 links get", Some("http://a.example:8080")),
            ("dl --base-url=http://a.example:8080 links get", Some("http://a.example:8080")),
            ("dl --base-url http : //a.example : 8080 links get", Some("http://a.example:8080")),
            ("dl --base-url = http : //a.example : 8080 links get", Some("http://a.example:8080")),
            ("dl --base-url a --base-url b", Some("b")),
            ("dl --base-url", None),
            ("dl links get", None),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(value_of(&words, "--base-url").as_deref(), wanted, "{line}");
        }
    }

    #[test]
    fn only_words_are_offered() {
        assert!(is_word("spring-42") && is_word("Größe") && is_word("go.example.com") && is_word("Spring sale"));
        for value in ["", " ", " a", "a ", "a\tb", "$(id)", "a $(id)", "a*", "a'b", "a\u{1b}", "a;b"] {
            assert!(!is_word(value), "{value}");
        }
    }

    #[test]
    fn the_tree_stays_sound() {
        with_sources(Cli::command(), "", &Arc::default()).debug_assert();
    }
}
