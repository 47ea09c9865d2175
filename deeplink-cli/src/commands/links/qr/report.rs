//! Writes codes as files and drawings, reports on them, and warns where a printed code would lead to a notice.

use deeplink_client::{LinkDetail, LinkStatus};
use deeplink_core::time::Timestamp;

use super::destination::{Destination, FILE_EXISTS};
use super::fetch::Fetched;
use super::screen::{Drawing, Pen};
use super::{Ids, Plan};
use crate::clock;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::ids::Tally;
use crate::output::{self, Rows, Sheet};
use crate::progress::{Progress, counted};

/// Number of codes from which progress is shown.
const MANY: usize = 25;
/// Rows that are formatted together on a terminal.
const PAGE: usize = 100;
const HOUR_MILLIS: i64 = 3_600_000;
const DAY_MILLIS: i64 = 24 * HOUR_MILLIS;

/// Writes codes to their destinations sequentially, and reports them.
pub(super) struct Report<'a> {
    ctx: &'a Context,
    plan: &'a Plan,
    sheet: &'a Sheet<'a>,
    rows: Option<Rows<'a>>,
    progress: Option<Progress>,
    total: usize,
    single: bool,
    done: usize,
    kept: usize,
    there: usize,
    ends: Ends,
}

/// The links seen so far that will expire.
#[derive(Default)]
struct Ends {
    seen: usize,
    ending: usize,
    first: Option<(Timestamp, String)>,
    last: Option<Timestamp>,
}

impl<'a> Report<'a> {
    pub(super) fn new(ctx: &'a Context, plan: &'a Plan, sheet: &'a Sheet<'a>, given: &Ids) -> Self {
        let total = given.ids.len();
        let lists = matches!(plan.destination, Some(Destination::Dir(_))) && !plan.shows;
        let progress = (lists && total >= MANY && !ctx.global.dry_run).then(|| {
            let progress = Progress::of(ctx, "QR codes", "code");
            progress.begin("fetching", count(total));
            progress
        });
        let (rows, ends) = (lists.then(|| sheet.several()), Ends::default());
        let (single, there) = (given.is_single(), given.there);
        Self { ctx, plan, sheet, rows, progress, total, single, done: 0, kept: 0, there, ends }
    }

    /// Writes and draws one code.
    pub(super) async fn keep(&mut self, id: &str, code: &Fetched) -> Outcome {
        let (ctx, plan) = (self.ctx, self.plan);
        if let (Some(destination), Some(image)) = (&plan.destination, &code.image) {
            let path = destination.path(id, plan.order.format);
            match destination.write(ctx, &path, image, plan.force).await {
                // Another process has written it in the meantime.
                Err(Stop::Failed(why)) if plan.skips && why.code.as_deref() == Some(FILE_EXISTS) => {
                    self.there += 1;
                    return Ok(());
                }
                written => written?,
            }
            if *destination != Destination::Stdout {
                let file = path.to_string_lossy();
                let link = code.link.as_ref();
                let record = output::object(&[
                    ("id", id.into()),
                    ("file", file.as_ref().into()),
                    ("url", link.map(|link| link.url.as_str()).into()),
                    ("format", plan.order.format.as_str().into()),
                    ("bytes", image.len().into()),
                    ("verified", plan.wanted.proof.then_some(true).into()),
                    ("status", link.map(|link| link.status.as_str()).into()),
                    ("expires_at", link.and_then(|link| link.expires_at).map(|end| end.to_string()).into()),
                ]);
                match &mut self.rows {
                    Some(rows) => rows.push(&record)?,
                    None if plan.shows => ctx.console.say(&format!("{file} written")),
                    None => self.sheet.created(&record)?,
                }
            }
            if let (true, None, Some(link)) = (plan.wanted.proof, &self.rows, &code.link) {
                ctx.console.note(&format!("the code was decoded and contains {}", link.url));
            }
        }
        if let Some(link) = &code.link {
            if plan.shows {
                draw(ctx, plan.invert, &link.link_id, &link.url)?;
            }
            self.heed(link);
        } else if let Some(why) = &code.unseen {
            let which = if self.single { String::new() } else { format!("{id}: ") };
            ctx.console.warn(&format!("{which}could not check whether the link expires: {}", why.message));
        }
        self.kept += 1;
        Ok(())
    }

    /// Warnings before a code is printed on paper.
    fn heed(&mut self, link: &LinkDetail) {
        let (console, id) = (&self.ctx.console, &link.link_id);
        self.ends.seen += 1;
        match (&link.status, link.expires_at) {
            (LinkStatus::Active, None) => {}
            (LinkStatus::Active, Some(end)) if self.single => {
                let when = clock::relative(end, clock::now());
                let people = scanned(link);
                console
                    .warn(&format!("the link expires {when} ({end}); after that, people who scan its code {people}"));
            }
            (LinkStatus::Active, Some(end)) => {
                let ends = &mut self.ends;
                ends.ending += 1;
                ends.last = ends.last.max(Some(end));
                if ends.first.as_ref().is_none_or(|(first, _)| end < *first) {
                    ends.first = Some((end, id.clone()));
                }
            }
            (status, _) => {
                console.warn(&format!("{id} is {}: people who scan its code {}", status.as_str(), scanned(link)));
            }
        }
    }

    /// One more code is done, successfully or not.
    pub(super) fn advance(&mut self) -> Outcome {
        self.done += 1;
        let page = if self.ctx.out.terminal { PAGE } else { 1 };
        if let Some(rows) = &mut self.rows
            && self.done.is_multiple_of(page)
        {
            self.ctx.console.aside(|| rows.page())?;
        }
        if let Some(progress) = &self.progress {
            progress.at(count(self.done), count(self.total), None);
        }
        Ok(())
    }

    /// Ends the report after the last code.
    pub(super) fn finish(mut self) -> Outcome {
        self.close()?;
        if let (Some(Destination::Dir(dir)), false) = (&self.plan.destination, self.plan.shows) {
            let there = match self.there {
                0 => String::new(),
                1 => "; 1 already existed".to_owned(),
                there => format!("; {there} already existed"),
            };
            let proved = match self.kept {
                _ if !self.plan.wanted.proof => "",
                0 => "",
                1 => ", verified",
                _ => ", all verified",
            };
            let codes = counted(count(self.kept), "code");
            self.ctx.console.say(&format!("{codes} in {}{proved}{there}", dir.display()));
        }
        Ok(())
    }

    /// A signal arrived: written files stay.
    pub(super) fn interrupted(mut self, tally: Tally<'_>, exit: Exit) -> Outcome<Stop> {
        match self.close() {
            // The same Ctrl-C often ends the reader of stdout; the progress goes to stderr.
            Ok(()) | Err(Stop::ClosedPipe) => {}
            Err(other) => return Err(other),
        }
        let how = self.resuming();
        let failure = tally.stopped_early(Failure::new(exit, exit.meaning()), self.kept, self.done_with());
        // JSON has not reported the earlier failures yet.
        if !failure.items.is_empty() {
            return Ok(Failure { exit, hint: how.map(str::to_owned), ..failure }.into());
        }
        if let Some(how) = how {
            self.ctx.console.say(&format!("{} of {} written; {how}", self.kept, self.total));
        }
        Ok(Stop::Exit(exit))
    }

    /// The failure of a run that stops early, with its progress.
    pub(super) fn stopped_early(mut self, tally: Tally<'_>, why: Failure) -> Outcome<Stop> {
        self.close()?;
        let failure = tally.stopped_early(why, self.kept, self.done_with());
        Ok(match self.resuming() {
            // Before anything was written, the cause comes first.
            Some(how) if self.kept > 0 || failure.hint.is_none() => failure.hint(how),
            _ => failure,
        }
        .into())
    }

    /// The result of one code.
    fn done_with(&self) -> &'static str {
        if self.plan.destination.is_some() { "written" } else { "displayed" }
    }

    /// How to continue after this run, if possible.
    fn resuming(&self) -> Option<&'static str> {
        let dir = matches!(self.plan.destination, Some(Destination::Dir(_)));
        (dir && !self.single).then_some(if self.plan.force {
            // New files cannot be told from those still to be replaced.
            "run the same command again to start over"
        } else {
            "run the same command with --skip-existing to continue"
        })
    }

    /// Ends the output on stdout, and says which links will expire.
    fn close(&mut self) -> Outcome {
        if let Some(progress) = self.progress.take() {
            progress.end();
        }
        match self.rows.take() {
            Some(rows) => rows.finish(None)?,
            None => self.ctx.out.flush()?,
        }
        let Ends { seen, ending, first: Some((first, id)), last: Some(last) } = &self.ends else { return Ok(()) };
        // Rounded up, but with an hour's tolerance: a slightly slow clock must not turn a new link's 30 days into 31.
        let away = last.as_millis().saturating_sub(clock::now().as_millis()).saturating_sub(HOUR_MILLIS);
        let days = away.max(0) / DAY_MILLIS + 1;
        let days = counted(u64::try_from(days).unwrap_or(u64::MAX), "day");
        let links = counted(count(*seen), "link");
        let verb = if *ending == 1 { "expires" } else { "expire" };
        self.ctx.console.warn(&format!(
            "{ending} of {links} {verb} within {days} (first: {id}, on {first}); after that, people who scan the codes see a notice or are redirected to the link's expired_url"
        ));
        Ok(())
    }
}

/// What happens to people who scan a code once its link is not active.
fn scanned(link: &LinkDetail) -> String {
    match (&link.status, &link.expired_url) {
        (LinkStatus::Active | LinkStatus::Expired, Some(url)) => format!("are redirected to {url}"),
        (LinkStatus::Active, None) => "see that the link has expired".to_owned(),
        _ => "see a notice".to_owned(),
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Draws a link's address and writes it below.
pub(crate) fn draw(ctx: &Context, invert: bool, id: &str, url: &str) -> Outcome {
    let Ok(drawing) = Drawing::of(url) else {
        let what = format!("the URL of {id} is too long for a QR code");
        return Err(Failure::new(Exit::Failure, what).code("url_too_long").into());
    };
    let pen = Pen { color: ctx.out.color, invert, utf8: ctx.env.utf8 };
    let columns = if ctx.out.terminal { output::columns() } else { usize::MAX };
    let half = if pen.utf8 { "" } else { " (half of that with a UTF-8 locale)" };
    let needs = drawing.columns(pen);
    if needs > columns {
        ctx.console.note(&format!(
            "the code needs {needs} columns{half}, but the terminal has {columns}: widen it, or use --out FILE"
        ));
        ctx.out.line(url)?;
        return ctx.out.flush();
    }
    ctx.out.raw(drawing.lines(pen).as_bytes())?;
    ctx.out.line(url)?;
    ctx.out.flush()?;
    // Below the code are the address and the next prompt.
    let needs = drawing.rows(pen) + 2;
    if let Some(rows) = output::height().filter(|rows| ctx.out.terminal && *rows < needs) {
        ctx.console.note(&format!(
            "the code needs {needs} rows{half}, but the terminal has {rows}: enlarge it, or use --out FILE"
        ));
    }
    Ok(())
}
