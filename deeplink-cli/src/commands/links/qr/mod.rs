//! `dl links qr`: codes on the terminal, drawn here, and codes in files, drawn by the service.

mod fetch;
mod look;
mod place;
mod screen;

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use deeplink_client::{LinkDetail, LinkStatus};
use deeplink_core::qr::{QrFormat, QrOptions};
use futures_util::{StreamExt, stream};

use self::fetch::{Fetched, Order, Wanted};
use self::look::{Look, one_of};
use self::place::Place;
use self::screen::{Drawing, Pen};
use crate::cli::help;
use crate::clock;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::given;
use crate::ids::{self, Tally};
use crate::output::{self, Format, Rows, Sheet};
use crate::progress::{Progress, counted};

/// Codes under way at one time: enough to hide the network, few enough for the service's queue and for memory.
const IN_FLIGHT: usize = 8;
/// From so many codes on, progress is shown.
const MANY: usize = 25;
/// Rows that are laid out together on a terminal.
const PAGE: usize = 100;

/// Draw links as QR codes
#[derive(Debug, Args)]
#[command(after_help = help(
    "On a terminal the code is drawn there, plainly. Into a pipe or file go the bytes of the service's image, which has \
     the look. Without colours, light modules are drawn in the terminal's foreground; --invert swaps that.",
    &[
    "dl links qr spring-42",
    "dl links qr spring-42 --out spring-42.png --size 1024 --dot-type classy --verify",
    "dl links list --all -o id | dl links qr - --dir out --format svg",
]))]
pub(crate) struct Qr {
    /// Ids of the links, or - for ids on stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
    /// Kind of file [default: that of --out, else png]
    #[arg(long, value_name = "FORMAT", value_parser = one_of!(QrFormat), ignore_case = true)]
    format: Option<QrFormat>,
    /// File to write, or - for stdout
    #[arg(long, value_name = "FILE", conflicts_with = "dir")]
    out: Option<PathBuf>,
    /// Directory to write ID.FORMAT into; made when it is missing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// Read each image back, and keep it only if it says the link's address; else exit 11
    #[arg(long)]
    verify: bool,
    /// Draw the code in characters, into a pipe or beside a file too
    #[arg(long)]
    show: bool,
    /// Draw for dark text on a light background, where colours are off
    #[arg(long)]
    invert: bool,
    #[command(flatten)]
    look: Look,
}

/// What a command line comes to.
struct Plan {
    order: Order,
    /// Where files go, if there are any.
    place: Option<Place>,
    /// Codes are drawn in characters.
    shows: bool,
    invert: bool,
    force: bool,
    wanted: Wanted,
}

impl Qr {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::CODES)?;
        let plan = self.plan(ctx, &sheet)?;
        let ids = self.ids(ctx, &plan)?;
        let client = ctx.client()?;
        let mut codes = stream::iter(&ids)
            .map(async |id| (id, plan.order.fetch(ctx, &client, id, plan.wanted).await))
            .buffered(IN_FLIGHT);
        let (mut report, mut tally) = (Report::new(ctx, &plan, &sheet, ids.len()), Tally::new(ctx, &ids));
        while let Some((id, fetched)) = codes.next().await {
            let kept = match fetched {
                Ok(code) => report.keep(id, &code),
                Err(stop) if ids.len() == 1 => return Err(stop),
                Err(stop) => tally.failed(id, stop),
            };
            kept?;
            report.advance()?;
        }
        if !tally.held_back() {
            report.finish()?;
        }
        tally.finish()
    }

    /// Weighs the flags against each other.
    fn plan(&self, ctx: &Context, sheet: &Sheet<'_>) -> Outcome<Plan> {
        let options = self.look.options()?;
        let place = match (&self.out, &self.dir) {
            (Some(path), _) => Some(Place::out(path.clone())),
            (None, Some(dir)) => Some(Place::Dir(dir.clone())),
            (None, None) if self.show || ctx.out.terminal => None,
            (None, None) => Some(Place::Stdout),
        };
        let format = self.format.or_else(|| self.named_format()).unwrap_or(QrFormat::Png);
        let shows = self.show || place.is_none();
        let has_files = matches!(place, Some(Place::File(_) | Place::Dir(_)));
        let lists = ctx.global.output.is_some_and(|format| format != Format::Table) || sheet.fields.is_some();
        let wrong = match &place {
            Some(Place::Stdout) if shows => Some(("--show and --out - both write to stdout", "give --out a FILE")),
            Some(Place::Stdout) if ctx.out.terminal && format == QrFormat::Png => {
                Some(("a PNG is binary, and stdout is a terminal", "--out FILE keeps it, --show draws the code here"))
            }
            None if self.verify => {
                Some(("--verify checks an image of the service, and none is asked for", "add --out FILE or --dir DIR"))
            }
            _ if self.force && !has_files => Some(("--force goes with --out FILE or --dir DIR", "")),
            _ if self.invert && !shows => Some(("--invert goes with a code in characters", "add --show")),
            _ if lists && shows => Some(("-o and --fields list files, and a drawing takes their place", "")),
            _ if lists && !has_files => Some(("-o and --fields list files", "add --out FILE or --dir DIR")),
            _ => None,
        };
        if let Some((what, hint)) = wrong {
            let failure = Failure::usage(what);
            return Err(if hint.is_empty() { failure } else { failure.hint(hint) }.into());
        }
        if place.is_none() && (self.format.is_some() || options != QrOptions::new()) {
            ctx.console.note("a code in characters has no look; --out FILE keeps the image that has it");
        }
        let wanted = Wanted {
            link: shows || self.verify || has_files && lists_urls(ctx, sheet),
            image: place.is_some(),
            proof: self.verify,
        };
        Ok(Plan { order: Order { format, options }, place, shows, invert: self.invert, force: self.force, wanted })
    }

    /// The format that the name of the file asks for.
    fn named_format(&self) -> Option<QrFormat> {
        self.out.as_ref()?.extension()?.to_str()?.parse().ok()
    }

    /// The ids, each once: a link has one file.
    fn ids(&self, ctx: &Context, plan: &Plan) -> Outcome<Vec<String>> {
        let mut ids = ids::read(ctx, &self.ids, given::link_id)?;
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        if let Some(place) = &plan.place {
            if ids.len() > 1 && !matches!(place, Place::Dir(_)) {
                let what = format!("{} codes do not fit into one file", ids.len());
                return Err(Failure::usage(what).hint("--dir DIR writes a file for each; --show draws them").into());
            }
            place.check(&ids, plan.order.format, plan.force)?;
        }
        Ok(ids)
    }
}

/// Whether the records that will be printed name the link's address.
fn lists_urls(ctx: &Context, sheet: &Sheet<'_>) -> bool {
    match &sheet.fields {
        Some(fields) => fields.iter().any(|field| field.name == "url"),
        None => matches!(ctx.out.format, Format::Json | Format::Jsonl | Format::Csv),
    }
}

/// Puts codes where they belong, one after the other, and says so.
struct Report<'a> {
    ctx: &'a Context,
    plan: &'a Plan,
    sheet: &'a Sheet<'a>,
    rows: Option<Rows<'a>>,
    progress: Option<Progress>,
    total: usize,
    done: usize,
    kept: usize,
}

impl<'a> Report<'a> {
    fn new(ctx: &'a Context, plan: &'a Plan, sheet: &'a Sheet<'a>, total: usize) -> Self {
        let lists = matches!(plan.place, Some(Place::Dir(_))) && !plan.shows && total != 1;
        let progress = (lists && total >= MANY && !ctx.global.dry_run).then(|| {
            let progress = Progress::of(ctx, "QR codes", "code");
            progress.begin("fetching", count(total));
            progress
        });
        Self { ctx, plan, sheet, rows: lists.then(|| sheet.several()), progress, total, done: 0, kept: 0 }
    }

    /// Writes and draws one code.
    fn keep(&mut self, id: &str, code: &Fetched) -> Outcome {
        let (ctx, plan) = (self.ctx, self.plan);
        if let (Some(place), Some(image)) = (&plan.place, &code.image) {
            let path = place.path(id, plan.order.format);
            place.write(ctx, &path, image, plan.force)?;
            self.kept += 1;
            if *place != Place::Stdout {
                let file = path.to_string_lossy();
                let record = output::object(&[
                    ("id", id.into()),
                    ("file", file.as_ref().into()),
                    ("url", code.link.as_ref().map(|link| link.url.as_str()).into()),
                    ("format", plan.order.format.as_str().into()),
                    ("bytes", image.len().into()),
                    ("verified", plan.wanted.proof.into()),
                ]);
                match &mut self.rows {
                    Some(rows) => rows.push(&record)?,
                    None if plan.shows => ctx.console.say(&format!("{file} written")),
                    None => self.sheet.created(&record)?,
                }
            }
        }
        if let Some(link) = &code.link {
            if self.total == 1 {
                caution(ctx, link);
            }
            if plan.shows {
                draw(ctx, plan, link)?;
            }
        }
        Ok(())
    }

    /// One more is through, well or not.
    fn advance(&mut self) -> Outcome {
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

    fn finish(self) -> Outcome {
        if let Some(progress) = &self.progress {
            progress.end();
        }
        let Some(rows) = self.rows else { return self.ctx.out.flush() };
        rows.finish(None)?;
        if let Some(Place::Dir(dir)) = &self.plan.place {
            self.ctx.console.say(&format!("{} in {}", counted(count(self.kept), "code"), dir.display()));
        }
        Ok(())
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// What to know before a code is printed and hung up.
fn caution(ctx: &Context, link: &LinkDetail) {
    let id = &link.link_id;
    match (&link.status, link.expires_at) {
        (LinkStatus::Active, None) => {}
        (LinkStatus::Active, Some(end)) => {
            ctx.console.note(&format!("the link ends {} ({end})", clock::relative(end, clock::now())));
        }
        (status, _) => ctx.console.warn(&format!("{id} is {}: the code leads to a notice", status.as_str())),
    }
}

/// Draws a link's address and writes it below.
fn draw(ctx: &Context, plan: &Plan, link: &LinkDetail) -> Outcome {
    let Ok(drawing) = Drawing::of(&link.url) else {
        let what = format!("the address of {} is too long for a QR code", link.link_id);
        return Err(Failure::new(Exit::Failure, what).into());
    };
    let pen = Pen { color: ctx.out.color, invert: plan.invert, utf8: ctx.env.utf8 };
    let columns = if ctx.out.terminal { output::columns() } else { usize::MAX };
    let needs = drawing.columns(pen);
    if needs <= columns {
        ctx.out.raw(drawing.lines(pen).as_bytes())?;
    } else {
        let half = if pen.utf8 { "" } else { " (half of that where the locale is UTF-8)" };
        ctx.console.note(&format!(
            "the code needs {needs} columns{half}, and the terminal has {columns}: make it wider, or --out FILE"
        ));
    }
    ctx.out.line(&link.url)?;
    ctx.out.flush()
}
