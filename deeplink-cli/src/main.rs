//! `dl`: the deeplink command line. Parses, dispatches, reports, and ends with an exit code that means something.

mod base_url;
mod browser;
mod cli;
mod clipboard;
mod clock;
mod commands;
mod complete;
mod config;
mod console;
mod context;
mod credentials;
mod env;
mod error;
mod escape;
mod exit;
mod export;
mod files;
mod given;
mod global;
mod help;
mod hints;
mod ids;
mod import;
mod mailed;
mod mask;
mod metadata;
mod net;
mod new_secret;
mod output;
mod paging;
mod progress;
mod prompt;
mod signals;
mod stack;
mod store;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, PoisonError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, ValueEnum};

use crate::cli::{Cli, Command};
use crate::console::{Console, Manner};
use crate::context::Context;
use crate::env::Env;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::global::When;
use crate::output::{Format, Out, Wanted};
use crate::signals::Signals;

fn main() {
    let args: Vec<OsString> = std::env::args_os().collect();
    let exit = stack::on_large(|| run(&args));
    // A thread that still blocks (an unanswered prompt) must not keep the process alive.
    std::process::exit(exit.code().into());
}

fn run(args: &[OsString]) -> Exit {
    let line = help::line(args, Cli::command);
    let args = &*line;
    let early = Early::guess(args);
    match complete::handle(args) {
        Ok(false) => {}
        Ok(true) => return Exit::Success,
        Err(stop) => return report(&early.console(&Env::for_errors()), stop),
    }
    let env = match Env::read() {
        Ok(env) => env,
        Err(stop) => return report(&early.console(&Env::for_errors()), stop),
    };
    let colors = early.colors(&env);
    let color = if colors.stdout && colors.stderr { clap::ColorChoice::Always } else { clap::ColorChoice::Never };
    let parse = |tree: clap::Command| {
        let matches = tree.color(color).try_get_matches_from_mut(args);
        matches.and_then(|matches| Cli::from_arg_matches(&matches))
    };
    let parsed = match parse(Cli::command()) {
        Err(error) if help::is_short(&error, args) => parse(help::short(Cli::command())),
        parsed => parsed,
    };
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return usage(&with_tip(error, args), &early, &env),
    };
    let manner =
        Manner { quiet: cli.global.quiet, verbosity: cli.global.verbose, json: early.json(&env), color: colors.stderr };
    let console = Arc::new(Console::new(manner));
    let outcome = command(cli, env, Arc::clone(&console), colors);
    match outcome {
        Ok(()) => Exit::Success,
        Err(stop) => report(&console, stop),
    }
}

fn command(cli: Cli, env: Env, console: Arc<Console>, colors: Colors) -> Outcome {
    let alone = Out::new(Wanted::plain(), colors.stdout);
    if let Some(outcome) = cli.command.run_alone(&cli.global, &alone) {
        return outcome;
    }
    let ctx = Context::new(cli.global, env, console, colors.stdout)?;
    if ctx.global.spreadsheet_safe && !cli.command.is_export() {
        ctx.out.check_spreadsheet_safe()?;
    }
    let outcome = with_signals(cli.command, &ctx);
    // Output before a failure is still a result.
    let flushed = ctx.out.flush();
    match (outcome, ctx.out.late()) {
        (Err(Stop::NotSent), _) => not_sent(&ctx),
        (Ok(()), late) => flushed.and(late),
        (Err(stop), late) => {
            if let Err(Stop::Failed(failure)) = late {
                ctx.console.warn(&failure.message);
            }
            Err(stop)
        }
    }
}

fn with_signals(command: Command, ctx: &Context) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::file("start", "the runtime", &error))?;
    let outcome = runtime.block_on(async {
        if command.handles_signals() {
            return command.run(ctx).await;
        }
        let mut signals = Signals::listen().map_err(|error| Failure::file("listen for", "signals", &error))?;
        tokio::select! {
            biased;
            exit = signals.next_harmless(&ctx.signal_hold, &ctx.console) => Err(Stop::Exit(exit)),
            outcome = command.run(ctx) => match (outcome, ctx.signal_hold.pending()) {
                (Ok(()), Some(exit)) => Err(Stop::Exit(exit)),
                (outcome, _) => outcome,
            },
        }
    });
    runtime.shutdown_background();
    outcome
}

/// Prints the requests that `--dry-run` did not send.
fn not_sent(ctx: &Context) -> Outcome {
    let held = ctx.held.lock().unwrap_or_else(PoisonError::into_inner);
    for request in held.iter() {
        if ctx.out.format.is_json() {
            let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
            let body = match request.body.as_str() {
                "" => "null".to_owned(),
                body if is_json(body) => body.to_owned(),
                form => quoted(form),
            };
            let (method, path) = (quoted(&request.method), quoted(&request.path));
            let held = format!("{{\"method\":{method},\"path\":{path},\"body\":{body}}}");
            // A program or a template is for the response.
            if ctx.out.is_filtered() {
                ctx.out.plain_json(&held)?;
            } else {
                ctx.out.json(&held)?;
            }
            continue;
        }
        ctx.out.line(&format!("{} {}", request.method, request.path))?;
        match request.body.as_str() {
            "" => {}
            body if is_json(body) => ctx.out.json(body)?,
            form => ctx.out.line(form)?,
        }
    }
    ctx.out.flush()?;
    ctx.console.note("--dry-run: nothing was sent");
    Ok(())
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Reports why the command ended and returns its exit code.
fn report(console: &Console, stop: Stop) -> Exit {
    match stop {
        Stop::Failed(failure) => {
            console.failure(&failure);
            failure.exit
        }
        Stop::ClosedPipe | Stop::NotSent => Exit::Success,
        Stop::Exit(exit) => exit,
    }
}

/// The same error, with what `dl` calls a flag of other tools, and with what `--json` requires.
fn with_tip(mut error: clap::Error, args: &[OsString]) -> clap::Error {
    let tip = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) if missing.iter().any(|flag| flag == "--from <SERVICE>") => format!(
            "SERVICE is one of {}; csv is for any other service; for a file that dl exported, use 'dl links import FILE'",
            import::Exporter::words().join(", ")
        ),
        Some(ContextValue::Strings(_)) => match after_json(args) {
            Some(word) => {
                format!(
                    "'--json' requires the fields to print, so '{word}' was read as a field; for JSON with all fields, \
                     use '-o json'"
                )
            }
            None => return error,
        },
        Some(ContextValue::String(flag)) if flag.starts_with("--json") => {
            "for JSON with all fields, use '-o json'; with some of them, '--json link_id,url'".to_owned()
        }
        Some(ContextValue::String(flag)) if flag == "--template" => {
            "to render results with a template, use '--render \"{{ url }}\"'".to_owned()
        }
        _ => return error,
    };
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// The word after `--json`, which is its value.
fn after_json(args: &[OsString]) -> Option<&str> {
    let words = args.iter().take_while(|word| *word != "--");
    words.skip_while(|word| *word != "--json").nth(1)?.to_str()
}

/// Help, version, and command lines that cannot be read.
fn usage(error: &clap::Error, early: &Early, env: &Env) -> Exit {
    let text = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let color = early.colors(env).stdout;
            let text = if color { text.ansi().to_string() } else { text.to_string() };
            let mut out = io::stdout().lock();
            return match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    let why = format!("cannot write to stdout: {}", error::plain(&error));
                    report(&early.console(env), Failure::new(Exit::Failure, why).into())
                }
                // A closed pipe is quiet.
                _ => Exit::Success,
            };
        }
        _ => {}
    }
    if early.json(env) {
        let plain = text.to_string();
        let mut lines = plain.lines().map(str::trim).take_while(|line| !line.is_empty());
        let mut message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        // Which arguments are missing is on the next lines.
        if message.ends_with(':') {
            message.extend(lines.flat_map(|line| [" ", line]));
        }
        let tip = match error.get(ContextKind::Suggested) {
            Some(ContextValue::StyledStrs(tips)) => tips.first().map(ToString::to_string),
            _ => None,
        };
        let hint = tip.unwrap_or_else(|| "dl --help lists the commands".to_owned());
        let failure = Failure::usage(message).hint(hint);
        early.console(env).failure(&failure);
        return Exit::Usage;
    }
    let text = if early.colors(env).stderr { text.ansi().to_string() } else { text.to_string() };
    // A key that was typed as an argument must not be repeated.
    let text = mask::secrets(&text);
    let _ = io::stderr().write_all(text.as_bytes());
    if text.contains("dl_live_") {
        let _ =
            io::stderr().write_all(b"\nKeys cannot be passed as arguments: pipe the key in, or use --api-key-file.\n");
    }
    Exit::Usage
}

/// Which streams are colored.
#[derive(Debug, Clone, Copy)]
struct Colors {
    stdout: bool,
    stderr: bool,
}

/// What must be known before the command line is parsed, as far as it can be detected.
struct Early {
    output: Option<Format>,
    /// Whether there is a program or a template, for which the format of the environment does not count.
    filters: bool,
    color: When,
}

impl Early {
    fn guess(args: &[OsString]) -> Self {
        let words: Vec<&str> = args.iter().map_while(|arg| arg.to_str()).take_while(|arg| *arg != "--").collect();
        let value = |long: &str, short: Option<&str>| {
            words.iter().enumerate().rev().find_map(|(at, word)| {
                if *word == long || Some(*word) == short {
                    return words.get(at + 1).copied();
                }
                let rest = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
                rest.or_else(|| short.and_then(|short| word.strip_prefix(short)).filter(|rest| !rest.is_empty()))
            })
        };
        let has = |long: &str| {
            words
                .iter()
                .any(|word| word.strip_prefix(long).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
        };
        let output = value("--output", Some("-o")).and_then(|word| Format::from_str(word, false).ok());
        Self {
            // Without fields it is an error, which says so in text.
            output: output.or(value("--json", None).filter(|fields| !fields.starts_with('-')).map(|_| Format::Json)),
            filters: has("--jq") || has("--render"),
            color: value("--color", None).and_then(|word| When::from_str(word, false).ok()).unwrap_or(When::Auto),
        }
    }

    /// Whether errors are JSON.
    fn json(&self, env: &Env) -> bool {
        let of_env = || {
            let word = env.output.as_deref().filter(|_| !self.filters)?;
            Format::from_str(word, false).ok()
        };
        self.output.or_else(of_env).is_some_and(Format::is_json)
    }

    fn colors(&self, env: &Env) -> Colors {
        let wanted = |terminal: bool| match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto if env.no_color => false,
            When::Auto => env.clicolor_force || terminal && !env.dumb_terminal,
        };
        Colors { stdout: wanted(io::stdout().is_terminal()), stderr: wanted(io::stderr().is_terminal()) }
    }

    fn console(&self, env: &Env) -> Console {
        Console::new(Manner { json: self.json(env), color: self.colors(env).stderr, ..Manner::default() })
    }
}
