//! `dl man`: the manual, made from the command tree.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::roff::{Roff, bold, roman};
use deeplink_core::time::Timestamp;

use crate::cli::Cli;
use crate::clock;
use crate::env;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::help::{help, short};
use crate::output::Out;

/// Print the manual page, or write one page per command
#[derive(Debug, Args)]
#[command(after_help = help(
    "If SOURCE_DATE_EPOCH is set, the pages have that date instead of the current one.",
    &["dl man | man -l -", "dl man --dir ~/.local/share/man/man1"]
))]
pub(crate) struct Man {
    /// Write one page per command into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The variables that `dl` reads.
const VARIABLES: &[(&str, &str)] = &[
    ("DL_API_KEY, DL_API_KEY_FILE", "The secret key, or a file that contains it."),
    ("DL_BASE_URL", "Base URL of the service."),
    ("DL_PROFILE", "Profile to use."),
    ("DL_OUTPUT", "Output format: table, json, jsonl, yaml, csv or id."),
    ("DL_PROGRESS", "How progress is shown: auto, bar, plain or off."),
    ("DL_TIMEOUT, DL_RETRIES", "Time limit for each call, and retries after the first attempt."),
    ("DL_NO_INPUT", "If 1, true or yes: never prompt."),
    (
        "DL_KEYRING",
        "auto (the default), off (keys are kept in a file) or require (keys are kept in the keyring or nowhere).",
    ),
    ("DL_PUBLISHABLE_KEY, DL_PUBLISHABLE_KEY_FILE", "The publishable key for dl sdk, or a file that contains it."),
    ("DL_WEBHOOK_SECRET, DL_WEBHOOK_SECRET_FILE", "The signing secret for dl webhooks, or a file that contains it."),
    ("DL_CONFIG_DIR, DL_STATE_DIR", "Directories to use instead of those below."),
    ("NO_COLOR, CLICOLOR_FORCE, TERM", "Whether output is colored."),
    ("CI", "If true: the keyring is not used."),
];

/// The files that `dl` keeps.
const FILES: &[(&str, &str)] = &[
    ("~/.config/dl/config.toml", "Profiles and settings."),
    ("~/.config/dl/credentials.toml", "Keys that are not in a keyring. Only its owner may read it."),
    ("~/.local/state/dl/imports", "Journals of imports, which make them resumable."),
];

impl Man {
    pub(crate) fn run(&self, out: &Out) -> Outcome {
        let mut tree = short(Cli::command());
        tree.build();
        let date =
            env::source_date().map_or_else(clock::now, |seconds| Timestamp::from_millis(seconds.saturating_mul(1_000)));
        let date = date.to_string().split('T').next().unwrap_or_default().to_owned();
        let Some(dir) = &self.dir else {
            let page = page(&tree, "dl", &date).map_err(|error| Failure::file("write", "the manual page", &error))?;
            out.raw(page.as_bytes())?;
            return out.flush();
        };
        let write = || {
            std::fs::create_dir_all(dir)?;
            write_all(&tree, "dl", &date, dir)
        };
        write().map_err(|error| Failure::file("write manual pages to", dir.display(), &error).into())
    }
}

/// Writes the page of a command, and those of the commands below it.
fn write_all(command: &Command, name: &str, date: &str, dir: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_all(below, &format!("{name}-{}", below.get_name()), date, dir)?;
    }
    std::fs::write(dir.join(format!("{name}.1")), page(command, name, date)?)
}

/// The page of a command that is called `name`, such as `dl-links-list`.
fn page(command: &Command, name: &str, date: &str) -> io::Result<String> {
    let is_root = name == "dl";
    let page = clap_mangen::Man::new(command.clone())
        .title(name.to_uppercase())
        .date(date)
        .source(concat!("dl ", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (details, examples) = help.split_once("Examples:\n").unwrap_or((&help, ""));
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    paragraphs(details).to_writer(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let mut end = Roff::default();
    if is_root {
        let codes = Exit::ALL.iter().map(|exit| (exit.code().to_string(), exit.meaning()));
        section(&mut end, "EXIT STATUS", codes);
        section(&mut end, "ENVIRONMENT", VARIABLES.iter().map(|(name, about)| ((*name).to_owned(), *about)));
        section(&mut end, "FILES", FILES.iter().map(|(name, about)| ((*name).to_owned(), *about)));
    }
    end.control("SH", ["EXAMPLES"]).control("nf", []);
    for example in examples.lines().map(str::trim) {
        end.text([roman(example)]);
    }
    end.control("fi", []);
    if !is_root {
        end.control("SH", ["SEE ALSO"]);
        end.text([
            bold("dl"),
            roman("(1) documents the global options, exit statuses, environment variables and files."),
        ]);
    }
    end.to_writer(&mut text)?;
    text.flush()?;
    Ok(without_repetition(&String::from_utf8_lossy(&text)))
}

/// Paragraphs that follow another.
fn paragraphs(text: &str) -> Roff {
    let mut roff = Roff::default();
    for paragraph in text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        roff.control("PP", []);
        for line in paragraph.lines().map(str::trim) {
            roff.text([roman(line)]);
        }
    }
    roff
}

/// A section with a list of names and what they mean.
fn section<'a>(roff: &mut Roff, heading: &str, list: impl Iterator<Item = (String, &'a str)>) {
    roff.control("SH", [heading]);
    for (name, about) in list {
        roff.control("TP", []);
        roff.text([bold(name)]);
        roff.text([roman(about)]);
    }
}

/// The page without the definition of the apostrophe that each part begins with, but for the first, and without line breaks
/// around blank lines, of which mandoc warns.
fn without_repetition(page: &str) -> String {
    let page = page.replace(".br\n\n.br\n", ".sp\n");
    let definition: Vec<&str> = page.lines().take_while(|line| !line.starts_with(".TH")).collect();
    let rest = page.lines().skip(definition.len()).filter(|line| !definition.contains(line));
    definition.iter().copied().chain(rest).flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_page_is_there_once() {
        let mut tree = short(Cli::command());
        tree.build();
        let root = page(&tree, "dl", "2026-11-20").expect("a page");
        assert!(
            root.contains(concat!(".TH DL 1 2026-11-20 \"dl ", env!("CARGO_PKG_VERSION"), "\" \"User Commands\"")),
            "{root}"
        );
        for heading in ["NAME", "SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"] {
            let heading = format!(
                "\n.SH {}\n",
                if heading.contains(' ') { format!("\"{heading}\"") } else { heading.to_owned() }
            );
            assert_eq!(root.matches(&heading).count(), 1, "{heading}");
        }
        assert_eq!(root.matches(".el .ds Aq").count(), 1);
        let (links, name) = (tree.find_subcommand("links").expect("a command"), "dl-links-list");
        let list = page(links.find_subcommand("list").expect("a command"), name, "2026-11-20").expect("a page");
        assert!(list.contains(".TH DL-LINKS-LIST 1 2026-11-20 "), "{list}");
        assert!(!list.contains("EXTRA") && list.contains("$ dl links list"), "{list}");
    }
}
