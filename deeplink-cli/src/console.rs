//! Everything written to stderr: errors, notes, requests. Secrets are masked and control characters escaped.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;
use zeroize::Zeroizing;

use crate::error::Failure;
use crate::{escape, mask};

const RED: &str = "1;31";
const YELLOW: &str = "1;33";
const CYAN: &str = "36";
const DIM: &str = "2";

/// How much is written to stderr, and how.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    /// Errors only.
    pub(crate) quiet: bool,
    /// 1: requests and retries; 2: headers too.
    pub(crate) verbosity: u8,
    /// Errors are JSON.
    pub(crate) json: bool,
    /// Colors are wanted.
    pub(crate) color: bool,
}

/// Standard error.
pub(crate) struct Console {
    manner: Manner,
    json: AtomicBool,
    pub(crate) terminal: bool,
    /// Secrets in use, so that those of unusual form are masked too.
    secrets: Mutex<Vec<Zeroizing<String>>>,
    bar: Mutex<Option<ProgressBar>>,
}

impl Console {
    /// Writes to this process's stderr.
    pub(crate) fn new(manner: Manner) -> Self {
        let terminal = io::stderr().is_terminal();
        Self { manner, json: manner.json.into(), terminal, secrets: Mutex::default(), bar: Mutex::default() }
    }

    /// Reports failures as JSON from now on, or as text.
    pub(crate) fn set_json(&self, json: bool) {
        self.json.store(json, Ordering::Relaxed);
    }

    /// Whether to show requests (1), and their headers (2).
    pub(crate) fn verbosity(&self) -> u8 {
        self.manner.verbosity
    }

    /// Only errors are wanted.
    pub(crate) fn quiet(&self) -> bool {
        self.manner.quiet
    }

    /// Masks a secret in all later output. A bare prefix is ignored.
    pub(crate) fn hide(&self, secret: &str) {
        if mask::is_prefix(secret) {
            return;
        }
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner).push(Zeroizing::new(secret.to_owned()));
    }

    /// Writes lines above this bar until it is removed.
    pub(crate) fn set_bar(&self, bar: Option<ProgressBar>) {
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = bar;
    }

    /// Writes to the same terminal while the bar is hidden.
    pub(crate) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        match &*self.bar.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Writes a line, unless only errors are wanted.
    pub(crate) fn say(&self, text: &str) {
        if !self.manner.quiet {
            self.write(&self.clean(text));
        }
    }

    /// A note.
    pub(crate) fn note(&self, text: &str) {
        if !self.manner.quiet {
            self.write(&format!("{}: {}", self.paint(CYAN, "note"), self.clean(text)));
        }
    }

    /// A warning.
    pub(crate) fn warn(&self, text: &str) {
        if !self.manner.quiet {
            self.write(&format!("{}: {}", self.paint(YELLOW, "warning"), self.clean(text)));
        }
    }

    /// Writes a secret that is meant to be shown; it is not masked, and `-q` does not hide it.
    pub(crate) fn disclose(&self, text: &str) {
        self.write(text);
    }

    /// Sends a control sequence to the terminal.
    pub(crate) fn control(&self, sequence: &str) {
        self.aside(|| {
            // If stderr is closed, nothing is lost that was not printed.
            let _ = write!(io::stderr().lock(), "{sequence}");
        });
    }

    /// One of many faults, written even when only errors are wanted.
    pub(crate) fn fault(&self, text: &str) {
        self.write(&self.clean(text));
    }

    /// A line about a request.
    pub(crate) fn trace(&self, text: &str) {
        self.write(&self.paint(DIM, &self.clean(text)));
    }

    /// Reports a failure; the only thing `-q` lets through.
    pub(crate) fn failure(&self, failure: &Failure) {
        if self.json.load(Ordering::Relaxed) {
            self.write(&escape::json(&self.masked(&failure.to_json()), self.terminal));
            return;
        }
        let word = match &failure.code {
            Some(code) => format!("error[{}]", self.clean(code)),
            None => "error".to_owned(),
        };
        let mut lines = vec![format!("{}: {}", self.paint(RED, &word), self.clean(&failure.message))];
        lines.extend(failure.items.iter().map(|item| self.clean(&item_line(item))));
        for (label, value) in [("hint", &failure.hint), ("request id", &failure.request_id)] {
            lines.extend(value.iter().map(|value| format!("  {}: {}", self.paint(CYAN, label), self.clean(value))));
        }
        self.write(&lines.join("\n"));
    }

    /// Writes a line that is already safe to show.
    fn write(&self, text: &str) {
        let line = || {
            // If stderr is closed, the message is lost.
            let _ = writeln!(io::stderr().lock(), "{text}");
        };
        match &*self.bar.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(bar) => bar.suspend(line),
            None => line(),
        }
    }

    fn masked(&self, text: &str) -> String {
        let mut text = mask::secrets(text).into_owned();
        for secret in self.secrets.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if secret.len() > 4 && text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), "[secret]");
            }
        }
        text
    }

    /// Text without secrets and, on a terminal, without control characters.
    fn clean(&self, text: &str) -> String {
        let text = self.masked(text);
        if self.terminal { escape::visible(&text).into_owned() } else { text }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.manner.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn item_line(item: &crate::error::Item) -> String {
    let which = match (item.index, &item.id) {
        (Some(index), Some(id)) => format!("row {index} \"{id}\""),
        (Some(index), None) => format!("row {index}"),
        (None, Some(id)) => id.clone(),
        (None, None) => String::new(),
    };
    format!("  {which}: {} [{}]", item.message, item.code)
}
