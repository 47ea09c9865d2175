//! `dl links qr`: codes on the terminal, drawn here, and codes in files, drawn by the service.

pub(crate) mod destination;
mod fetch;
mod look;
mod report;
mod screen;
mod upload;

use std::collections::HashSet;
use std::path::PathBuf;
use std::pin::pin;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use deeplink_client::Client;
use deeplink_core::qr::QrFormat;
use futures_util::{StreamExt, stream};
use tokio::sync::Semaphore;

pub(crate) use self::report::draw;

use self::destination::Destination;
use self::fetch::{Need, Order, Wanted};
use self::look::{Look, one_of};
use self::report::Report;
use self::upload::Upload;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::escape;
use crate::given;
use crate::help::help;
use crate::ids::{self, Tally};
use crate::output::{self, Format, Sheet};
use crate::signals::Signals;

/// Maximum concurrent requests: enough to hide the network, few enough for the service's queue and for memory.
const IN_FLIGHT: usize = 8;
/// Links in a row without a connection before the run stops.
const GONE: usize = 3;

/// Create QR codes for links
#[derive(Debug, Args)]
#[command(after_help = help(
    "On a terminal, a plain code is displayed. A pipe or file gets the image from the service. It uses the link's saved \
     design (dl links update --qr) unless you specify any style flag other than --size. \
     Without colors, light modules use the terminal's foreground color; --invert swaps light and dark.\n\nFor print, \
     use --level M or higher, --margin 2 or more, dark modules on a light background and at least 3 px per module. PDF \
     and EPS files use 300 px per inch, so the default width is 50.8 mm. \
     Warnings are shown for links that are not active and links that will expire.",
    &[
    "dl links qr spring-42",
    "dl links qr spring-42 --out spring-42.png --size 1024 --dot-type classy --verify",
    "dl links list --all -o id | dl links qr - --dir out --format svg",
]))]
pub(crate) struct Qr {
    /// IDs of the links, or - to read IDs from stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
    /// File format [default: from the --out extension (.png, .svg, .pdf or .eps), otherwise png]
    #[arg(long, value_name = "FORMAT", value_parser = one_of!(QrFormat), ignore_case = true)]
    format: Option<QrFormat>,
    /// File to write, or - for stdout
    #[arg(long, value_name = "FILE", conflicts_with = "dir")]
    out: Option<PathBuf>,
    /// Directory to write ID.FORMAT into; created if missing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Skip links whose file already exists in the directory, to resume an interrupted run
    #[arg(long, conflicts_with = "force")]
    skip_existing: bool,
    /// Decode each image, and keep it only if it contains the link's URL; otherwise exit with code 11. SVG,
    /// PDF and EPS files are verified by decoding a PNG with the same design
    #[arg(long)]
    verify: bool,
    /// Display the code as text, even in a pipe or in addition to a file
    #[arg(long)]
    show: bool,
    /// Display for a terminal with dark text on a light background, if colors are off
    #[arg(long)]
    invert: bool,
    #[command(flatten)]
    look: Look,
}

/// The plan of a command line.
struct Plan {
    order: Order,
    /// Where files go, if there are any.
    destination: Option<Destination>,
    /// Codes are drawn in characters.
    shows: bool,
    invert: bool,
    force: bool,
    skips: bool,
    wanted: Wanted,
    /// The logo to upload first.
    upload: Option<Upload>,
}

/// The links of a command line.
struct Ids {
    /// Those to fetch.
    ids: Vec<String>,
    /// How many already have their file.
    there: usize,
}

impl Ids {
    /// At most one id was given, so messages need not name it.
    fn is_single(&self) -> bool {
        self.ids.len() + self.there <= 1
    }
}

impl Qr {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::CODES)?;
        let plan = self.plan(ctx, &sheet)?;
        let given = self.ids(ctx, &plan).await?;
        let client = ctx.client().await?;
        if let Some(upload) = plan.upload.as_ref().filter(|_| !given.ids.is_empty()) {
            upload.send(ctx, &client).await?;
        }
        run(ctx, &plan, &sheet, &given, &client).await
    }

    /// Checks the flags against each other.
    fn plan(&self, ctx: &Context, sheet: &Sheet<'_>) -> Outcome<Plan> {
        let upload = self.look.upload()?;
        let options = self.look.options(upload.as_ref())?;
        let destination = match (&self.out, &self.dir) {
            (Some(path), _) => Some(Destination::out(path.clone())),
            (None, Some(dir)) => Some(Destination::Dir(dir.clone())),
            (None, None) if self.show || ctx.out.terminal => None,
            (None, None) => Some(Destination::Stdout),
        };
        let format = self.kind(destination.as_ref())?;
        let shows = self.show || destination.is_none();
        let has_files = matches!(destination, Some(Destination::File(_) | Destination::Dir(_)));
        let filters = ctx.out.is_filtered();
        let lists = ctx.global.format().is_some_and(|format| format != Format::Table) || sheet.fields.is_some();
        let wrong = match &destination {
            Some(Destination::Stdout) if shows => Some(("--show and --out - both write to stdout", "use --out FILE")),
            Some(Destination::Stdout) if ctx.out.terminal && matches!(format, QrFormat::Png | QrFormat::Pdf) => Some((
                if format == QrFormat::Png {
                    "a PNG is binary, and stdout is a terminal"
                } else {
                    "a PDF is binary, and stdout is a terminal"
                },
                "use --out FILE to save it, or --show to display the code here",
            )),
            None if self.verify => Some((
                "--verify checks an image from the service, and none was requested",
                "add --out FILE or --dir DIR",
            )),
            _ if self.force && !has_files => Some(("--force works only with --out FILE or --dir DIR", "")),
            _ if self.skip_existing && self.dir.is_none() => Some(("--skip-existing works only with --dir DIR", "")),
            _ if self.invert && !shows => Some(("--invert works only with a code displayed as text", "add --show")),
            _ if filters && !has_files => Some((
                "--jq and --render apply to the list of files, but none are written",
                "add --out FILE or --dir DIR",
            )),
            _ if filters && shows => Some(("--jq and --render do not work with a displayed code", "omit --show")),
            _ if lists && shows => Some(("-o and --fields list files and do not work with a displayed code", "")),
            _ if lists && !has_files => {
                Some(("-o and --fields list files, but none are written", "add --out FILE or --dir DIR"))
            }
            _ => None,
        };
        if let Some((what, hint)) = wrong {
            let failure = Failure::usage(what);
            return Err(if hint.is_empty() { failure } else { failure.hint(hint) }.into());
        }
        if destination.is_none() {
            self.note_look(ctx);
        }
        // With -q there are no warnings, so data that only a warning needs is not requested.
        let tells = has_files && tells_of_links(ctx, sheet);
        let link = if shows || self.verify || tells {
            Need::Result
        } else if ctx.console.quiet() {
            Need::Nothing
        } else {
            Need::Warning
        };
        let wanted = Wanted { link, image: destination.is_some(), proof: self.verify };
        let (order, skips) = (Order { format, options }, self.skip_existing);
        let upload = upload.filter(|_| wanted.image);
        Ok(Plan { order, destination, shows, invert: self.invert, force: self.force, skips, wanted, upload })
    }

    /// The requested format, by the flag and the file name, which must agree.
    fn kind(&self, destination: Option<&Destination>) -> Outcome<QrFormat> {
        let ending = match destination {
            Some(Destination::File(path)) => path.extension().map(|ending| ending.to_string_lossy()),
            _ => None,
        };
        let (Some(ending), Some(path)) = (ending, &self.out) else { return Ok(self.format.unwrap_or(QrFormat::Png)) };
        let named: Option<QrFormat> = ending.parse().ok();
        let file = || escape::one_line(&path.to_string_lossy()).into_owned();
        let (what, hint) = match (self.format, named) {
            (Some(format), Some(named)) if format != named => (
                format!("--format {format} conflicts with --out {}", file()),
                format!("omit --format, or use a file name ending in .{format}"),
            ),
            (Some(format), _) | (None, Some(format)) => return Ok(format),
            (None, None) => (
                format!("--out: unsupported file type .{}", escape::one_line(&ending)),
                "use a file name ending in .png, .svg, .pdf or .eps, or --format".to_owned(),
            ),
        };
        Err(Failure::usage(what).hint(hint).into())
    }

    /// Notes which options a code in characters ignores.
    fn note_look(&self, ctx: &Context) {
        let mut flags = self.look.given();
        if self.format.is_some() {
            flags.insert(0, "--format");
        }
        if !flags.is_empty() {
            let verb = if flags.len() == 1 { "applies" } else { "apply" };
            ctx.console
                .note(&format!("the terminal shows a plain code; {} {verb} only with --out FILE", flags.join(", ")));
        }
    }

    /// The ids, each once: a link has one file.
    async fn ids(&self, ctx: &Context, plan: &Plan) -> Outcome<Ids> {
        let mut ids = ids::read(ctx, &self.ids, given::link_id).await?;
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(id.clone()));
        if ids.is_empty() {
            ctx.console.note("no IDs on stdin; nothing to do");
        }
        let all = ids.len();
        if let Some(destination) = &plan.destination {
            if all > 1 && !matches!(destination, Destination::Dir(_)) {
                let what = format!("cannot write {all} codes into one file");
                return Err(Failure::usage(what)
                    .hint("use --dir DIR for one file per code, or --show to display them")
                    .into());
            }
            if plan.skips {
                ids.retain(|id| !destination.path(id, plan.order.format).is_file());
            }
            destination.check(&ids, plan.order.format, plan.force)?;
        }
        Ok(Ids { there: all - ids.len(), ids })
    }
}

/// Fetches and writes the codes until all are done, a signal arrives, or continuing is pointless.
async fn run<'a>(ctx: &Context, plan: &Plan, sheet: &Sheet<'_>, given: &'a Ids, client: &Client) -> Outcome {
    let ids = &given.ids;
    let permits = Semaphore::new(IN_FLIGHT);
    let fetch = async |id: &'a String| (id, plan.order.fetch(ctx, client, &permits, id, plan.wanted).await);
    let mut codes = pin!(stream::iter(ids).map(fetch).buffered(IN_FLIGHT));
    let mut signals = Signals::listen().map_err(|error| Failure::file("listen for", "signals", &error))?;
    let (mut report, mut tally) = (Report::new(ctx, plan, sheet, given), Tally::new(ctx, ids));
    // Links for which the service could not be reached, since the last success.
    let mut lost: Vec<(&String, Box<Failure>)> = Vec::new();
    loop {
        let next = tokio::select! {
            biased;
            exit = signals.next() => {
                lost.drain(..).try_for_each(|(id, failure)| tally.failed(id, Stop::Failed(failure)))?;
                return Err(report.interrupted(tally, exit)?);
            }
            next = codes.next() => next,
        };
        let Some((id, fetched)) = next else { break };
        match fetched {
            Err(stop) if given.is_single() => return Err(stop.naming_link(id)),
            Err(Stop::Failed(failure)) if is_unreachable(&failure) => lost.push((id, failure)),
            fetched => {
                // The service is reachable: each of them failed individually.
                lost.drain(..).try_for_each(|(id, failure)| tally.failed(id, Stop::Failed(failure)))?;
                let kept = match fetched {
                    Ok(code) => tokio::select! {
                        biased;
                        exit = signals.next() => return Err(report.interrupted(tally, exit)?),
                        kept = report.keep(id, &code) => Ok(kept),
                    },
                    Err(stop) => Err(stop),
                };
                match kept {
                    Ok(Ok(())) => {}
                    Ok(Err(stop)) if given.is_single() => return Err(stop),
                    // Nothing more can be written.
                    Ok(Err(Stop::Failed(why))) if why.code.is_none() => {
                        tally.covered(id, &why);
                        return Err(report.stopped_early(tally, *why)?);
                    }
                    Ok(Err(stop)) | Err(stop) => tally.failed(id, stop)?,
                }
            }
        }
        if lost.len() == GONE
            && let Some((_, why)) = lost.last().cloned()
        {
            for (id, failure) in &lost {
                tally.covered(id, failure);
            }
            return Err(report.stopped_early(tally, *why)?);
        }
        report.advance()?;
    }
    lost.drain(..).try_for_each(|(id, failure)| tally.failed(id, Stop::Failed(failure)))?;
    if !tally.not_sent() {
        report.finish()?;
    }
    tally.finish()
}

/// Whether the service gave no answer at all.
fn is_unreachable(failure: &Failure) -> bool {
    matches!(failure.code.as_deref(), Some("cannot_connect" | "connection_broken" | "timeout"))
}

/// Whether the records that will be printed say something about the link itself.
fn tells_of_links(ctx: &Context, sheet: &Sheet<'_>) -> bool {
    match &sheet.fields {
        Some(fields) => fields.iter().any(|field| ["url", "status", "expires_at"].contains(&field.name)),
        None => matches!(ctx.out.format, Format::Json | Format::Jsonl | Format::Csv),
    }
}
