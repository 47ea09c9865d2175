//! Progress of long work: a bar where one can be drawn, plain lines elsewhere.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::console::Console;
use crate::context::Context;
use crate::global::ProgressMode;

/// Interval between two plain lines.
const EVERY: Duration = Duration::from_secs(10);

/// Reports progress.
pub(crate) struct Progress {
    console: Arc<Console>,
    what: String,
    /// The singular noun for what is counted.
    noun: &'static str,
    form: Form,
    start: Cell<Instant>,
}

enum Form {
    Bar(RefCell<ProgressBar>),
    Lines { last: Cell<Instant> },
    Nothing,
}

impl Progress {
    /// Begins to report on `what`, such as `links.csv`, counted in rows.
    pub(crate) fn new(ctx: &Context, what: &str) -> Self {
        Self::of(ctx, what, "row")
    }

    /// Begins to report on `what`, counted in `noun`.
    pub(crate) fn of(ctx: &Context, what: &str, noun: &'static str) -> Self {
        let (console, start) = (Arc::clone(&ctx.console), Instant::now());
        let form = if ctx.progress == ProgressMode::Off || console.quiet() {
            Form::Nothing
        } else {
            // The bar itself knows where it can be drawn; `plain` gets lines even on a terminal.
            let bar = ProgressBar::new_spinner();
            let plain = ctx.env.no_color || ctx.env.dumb_terminal || ctx.env.unknown_terminal;
            let chosen = ctx.progress == ProgressMode::Plain || console.verbosity() > 0;
            let lines = bar.is_hidden() || plain || chosen;
            if lines { Form::Lines { last: Cell::new(start) } } else { Form::Bar(RefCell::new(bar)) }
        };
        Self { console, what: what.to_owned(), noun, form, start: Cell::new(start) }
    }

    /// The part whose length is not known.
    pub(crate) fn preparing(&self, doing: &str) {
        let bar = ProgressBar::new_spinner().with_style(style("{spinner:.cyan} {msg}  {prefix}"));
        self.show(bar.with_message(format!("{doing} {}", self.what)));
    }

    /// The part with a length begins.
    pub(crate) fn begin(&self, doing: &str, total: u64) {
        self.start.set(Instant::now());
        let look = style("{msg} {bar:24.cyan/dim} {percent:>3}%  {human_pos}/{human_len}  {prefix}");
        let bar = ProgressBar::new(total).with_style(look.progress_chars("━╸─"));
        self.show(bar.with_message(format!("{doing} {}", self.what)));
        if let Form::Lines { .. } = self.form {
            self.console.say(&format!("{doing} {}: {}", self.what, counted(total, self.noun)));
        }
    }

    /// Replaces the bar.
    fn show(&self, bar: ProgressBar) {
        if let Form::Bar(shown) = &self.form {
            bar.enable_steady_tick(Duration::from_millis(100));
            self.console.set_bar(Some(bar.clone()));
            shown.replace(bar).finish_and_clear();
        }
    }

    /// `done` of `total` are done; `paused` is how long the service asked to wait.
    pub(crate) fn at(&self, done: u64, total: u64, paused: Option<Duration>) {
        let remark = || match paused {
            Some(wait) => format!("rate limited, waiting {} s", wait.as_secs().max(1)),
            None => format!("{}/s", grouped(rate(done, self.start.get().elapsed()))),
        };
        match &self.form {
            Form::Bar(bar) => {
                bar.borrow().set_position(done);
                bar.borrow().set_prefix(remark());
            }
            Form::Lines { last } if last.get().elapsed() >= EVERY => {
                last.set(Instant::now());
                self.console.say(&format!("{} of {} ({})", grouped(done), counted(total, self.noun), remark()));
            }
            Form::Lines { .. } | Form::Nothing => {}
        }
    }

    /// `done` are done of a number that is not known.
    pub(crate) fn so_far(&self, done: u64) {
        self.remark(|| counted(done, self.noun));
    }

    /// The same in words.
    pub(crate) fn remark(&self, done: impl FnOnce() -> String) {
        match &self.form {
            Form::Bar(bar) => bar.borrow().set_prefix(done()),
            Form::Lines { last } if last.get().elapsed() >= EVERY => {
                last.set(Instant::now());
                self.console.say(&format!("{} so far", done()));
            }
            Form::Lines { .. } | Form::Nothing => {}
        }
    }

    /// Ends the report; the result is printed elsewhere.
    pub(crate) fn end(&self) {
        if let Form::Bar(bar) = &self.form {
            bar.borrow().finish_and_clear();
            self.console.set_bar(None);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A rate per second.
pub(crate) fn rate(count: u64, elapsed: Duration) -> u64 {
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    count.saturating_mul(1_000) / millis
}

/// `1 row`, `2 rows`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", grouped(count))
}

/// A number with commas: `10,000`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!((counted(1, "row"), counted(2, "row")), ("1 row".into(), "2 rows".into()));
        assert_eq!(rate(10, Duration::ZERO), 10_000);
    }
}
