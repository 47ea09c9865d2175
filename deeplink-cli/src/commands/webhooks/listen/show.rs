//! A line for each request.

use deeplink_client::receiver::Receipt;
use deeplink_core::event::Event;

use crate::context::Context;
use crate::error::Outcome;
use crate::escape;
use crate::output::{self, Format, Rows, Sheet};

/// Lines being written.
pub(super) struct Lines<'a> {
    ctx: &'a Context,
    /// Everywhere but on a terminal.
    rows: Option<Rows<'a>>,
    /// There is a program to forward events to.
    forwards: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn start(ctx: &'a Context, sheet: &'a Sheet<'a>, forwards: bool) -> Self {
        let for_people = ctx.out.format == Format::Table && ctx.out.terminal && sheet.fields.is_none();
        Self { ctx, rows: (!for_people).then(|| sheet.several()), forwards }
    }

    pub(super) fn push(&mut self, receipt: &Receipt) -> Outcome {
        match &mut self.rows {
            Some(rows) => {
                rows.push(&record(receipt, self.forwards))?;
                rows.page()
            }
            None => {
                self.ctx.out.raw(line(receipt, self.forwards, self.ctx.out.color).as_bytes())?;
                self.ctx.out.flush()
            }
        }
    }

    pub(super) fn finish(self) -> Outcome {
        self.rows.map_or(Ok(()), |rows| rows.finish(None))
    }
}

/// `valid`, `repeated` or `INVALID`.
fn verdict(receipt: &Receipt) -> &'static str {
    match (receipt.is_valid(), receipt.is_repeated) {
        (true, false) => "valid",
        (true, true) => "repeated",
        (false, _) => "INVALID",
    }
}

fn kind(receipt: &Receipt) -> String {
    // An unsigned request may still claim a kind.
    let claimed = || Event::parse(&receipt.body).ok().map(|event| event.kind.to_string());
    let kind = receipt.event.as_ref().ok().map(|event| event.kind.to_string()).or_else(claimed);
    kind.unwrap_or_else(|| "-".to_owned()).chars().take(32).collect()
}

/// Why nothing was forwarded, or the result.
fn remark(receipt: &Receipt, forwards: bool) -> Option<String> {
    match (&receipt.event, &receipt.forwarded) {
        (Err(why), _) => {
            let why = receipt.refused.map_or_else(|| why.to_string(), str::to_owned);
            Some(if forwards { format!("{why}; not forwarded") } else { why })
        }
        (Ok(_), Some(Err(fault))) => Some(fault.text.clone()),
        _ => None,
    }
}

fn record(receipt: &Receipt, forwards: bool) -> String {
    output::object(&[
        ("at", receipt.at.to_string().into()),
        ("verdict", verdict(receipt).to_lowercase().into()),
        ("event", kind(receipt).into()),
        ("id", receipt.id.clone().into()),
        ("status", receipt.answered.into()),
        ("duration_ms", u64::try_from(receipt.took.as_millis()).unwrap_or(u64::MAX).into()),
        ("test", receipt.is_test().into()),
        ("error", remark(receipt, forwards).into()),
    ])
}

/// For people: `04:11:02 valid    conversion  evt_019a4be2…  -> 200  14 ms`.
fn line(receipt: &Receipt, forwards: bool, color: bool) -> String {
    let paint = |code: &str, text: String| if color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text };
    let verdict = format!("{:<8}", verdict(receipt));
    let code = if !receipt.is_valid() {
        "1;31"
    } else if receipt.is_repeated {
        "33"
    } else {
        "32"
    };
    let time: String = receipt.at.to_string().chars().skip(11).take(8).collect();
    let id: String = receipt.id.as_deref().unwrap_or("-").chars().take(64).collect();
    let answer = match (receipt.answered, &receipt.forwarded) {
        // From the stream, and not forwarded.
        (None, None) => String::new(),
        (status, _) => {
            let status = status.map_or_else(|| "-".to_owned(), |status| status.to_string());
            format!("  -> {status}  {} ms", receipt.took.as_millis())
        }
    };
    let made_up = receipt.is_test().then(|| "a test".to_owned());
    let mut remarks = String::new();
    for remark in made_up.into_iter().chain(remark(receipt, forwards)) {
        remarks.push_str("  ");
        remarks.push_str(&escape::one_line(&remark));
    }
    format!(
        "{} {} {:<10}  {}{answer}{remarks}\n",
        paint("2", time),
        paint(code, verdict),
        escape::one_line(&kind(receipt)),
        escape::one_line(&id),
    )
}
