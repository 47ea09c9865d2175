//! Checks as they arrive: under a heading for each subject on a terminal, as records elsewhere.
//!
//! In a table, skipped checks of one subject with the same message share a line. The other formats have one record per
//! check.

use deeplink_client::doctor::{Check, Status};

use crate::context::Context;
use crate::error::Outcome;
use crate::escape;
use crate::output::{self, Format, Rows, Sheet};

/// Where the text of a check begins on a terminal.
const INDENT: usize = 27;

/// Writes checks and counts them.
pub(super) struct CheckPrinter<'a> {
    sheet: &'a Sheet<'a>,
    rows: Option<Rows<'a>>,
    subject: Option<String>,
    /// Skipped checks with the same message, to share a line.
    alike: Vec<Check>,
    counts: [usize; 4],
}

impl<'a> CheckPrinter<'a> {
    pub(super) fn new(sheet: &'a Sheet<'a>) -> Self {
        let out = sheet.out;
        let for_people = out.terminal && out.format == Format::Table && sheet.fields.is_none();
        Self { sheet, rows: (!for_people).then(|| sheet.several()), subject: None, alike: Vec::new(), counts: [0; 4] }
    }

    pub(super) fn push(&mut self, check: Check) -> Outcome {
        self.counts[index_of(check.status)] += 1;
        let says = |check: &Check| (check.subject.clone(), check.message.clone());
        if self.alike.first().is_some_and(|first| says(first) != says(&check)) || check.status != Status::Skip {
            self.release()?;
        }
        if check.status == Status::Skip && self.shares_lines() {
            self.alike.push(check);
            return Ok(());
        }
        self.write(&check, &[check.id])
    }

    /// Whether checks may share a line.
    fn shares_lines(&self) -> bool {
        self.sheet.out.format == Format::Table && self.sheet.fields.is_none()
    }

    /// Writes the collected checks.
    fn release(&mut self) -> Outcome {
        let alike = std::mem::take(&mut self.alike);
        let Some(first) = alike.first() else { return Ok(()) };
        let ids: Vec<_> = alike.iter().map(|check| check.id).collect();
        self.write(first, &ids)
    }

    /// Writes one check, or several ids with the same message.
    fn write(&mut self, check: &Check, ids: &[&str]) -> Outcome {
        if let Some(rows) = &mut self.rows {
            let mut record = serde_json::to_value(check).unwrap_or_default();
            let mut names = ids.to_vec();
            names.dedup();
            record["id"] = names.join(", ").into();
            rows.push(&record.to_string())?;
            return rows.page();
        }
        let out = self.sheet.out;
        if self.subject.as_ref() != Some(&check.subject) {
            let gap = if self.subject.is_some() { "\n" } else { "" };
            out.raw(format!("{gap}{}\n", self.paint("1", &escape::one_line(&check.subject))).as_bytes())?;
            self.subject = Some(check.subject.clone());
        }
        out.raw(self.lines(check, ids).as_bytes())?;
        out.flush()
    }

    /// Prints the totals, and commands to run on devices.
    pub(super) fn finish(mut self, ctx: &Context, devices: &[String]) -> Outcome {
        self.release()?;
        let [ok, warn, fail, skip] = self.counts;
        if let Some(rows) = self.rows {
            rows.finish(None)?;
        }
        if ctx.out.format == Format::Table {
            let warnings = if warn == 1 { "warning" } else { "warnings" };
            ctx.console.say(&format!("\n{ok} ok, {warn} {warnings}, {fail} failed, {skip} skipped"));
            if !devices.is_empty() {
                ctx.console.say(&format!("\non a device:\n  {}", devices.join("\n  ")));
            }
        }
        if fail > 0 { Err(super::failed(fail, ok + warn + fail + skip)) } else { Ok(()) }
    }

    fn lines(&self, check: &Check, ids: &[&str]) -> String {
        let word = format!("{:<4}", check.status.as_str());
        let colour = match check.status {
            Status::Ok => "32",
            Status::Warn => "33",
            Status::Fail => "31",
            _ => "2",
        };
        let room = output::width().saturating_sub(INDENT).max(20);
        let message = output::wrapped(&escape::one_line(&check.message), room, INDENT);
        let mut text = format!("  {}  {:<17}  {message}\n", self.paint(colour, &word), named(ids));
        if let Some(fix) = &check.fix {
            let fix = output::wrapped(&format!("\u{2192} {}", escape::one_line(fix)), room, INDENT);
            let fix: Vec<String> = fix.split('\n').map(|line| self.paint("36", line.trim_start())).collect();
            let below = format!("\n{:INDENT$}  ", "");
            text = format!("{text}{:INDENT$}{}\n", "", fix.join(&below));
        }
        text
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.sheet.out.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Which checks a line is about, in a few characters.
fn named(ids: &[&str]) -> String {
    match ids {
        [id] => (*id).to_owned(),
        [first, ..] if ids.iter().all(|id| id == first) => format!("{first} \u{d7}{}", ids.len()),
        _ => format!("{} checks", ids.len()),
    }
}

const fn index_of(status: Status) -> usize {
    match status {
        Status::Ok => 0,
        Status::Warn => 1,
        Status::Fail => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_checks_have_one_name() {
        assert_eq!(named(&["domain.txt"]), "domain.txt");
        assert_eq!(named(&["link.resolve"; 5]), "link.resolve \u{d7}5");
        assert_eq!(named(&["domain.txt", "domain.tls", "domain.tls"]), "3 checks");
    }
}
