//! `dl links export`: every link, in a form that `dl links import` reads back.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Args;
use deeplink_client::Client;
use deeplink_client::bulk::LinkWriter;
use deeplink_core::link::{LinkDetail, LinkFilter};
use deeplink_core::page::MAX_LIMIT;
use serde::{Deserialize, Serialize};

use crate::commands::links::list::Filter;
use crate::context::{Context, is_stdin};
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::files;
use crate::help::help;
use crate::output::{Format, Out};
use crate::progress::counted;

/// Write all links as CSV or JSONL
#[derive(Debug, Args)]
#[command(after_help = help(
    "Nothing is lost: importing the file again into the same account changes nothing.",
    &[
    "dl links export > links.csv",
    "dl links export -o jsonl --out links.jsonl --resume",
]
))]
pub(crate) struct Export {
    /// File to write; it grows as FILE.part
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Resume an export that was stopped
    #[arg(long, requires = "out")]
    resume: bool,
    #[command(flatten)]
    filter: Filter,
}

impl Export {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let jsonl = match ctx.global.output.or_else(|| by_name(self.out.as_deref())) {
            None | Some(Format::Csv) => false,
            Some(Format::Jsonl) => true,
            Some(_) => return Err(Failure::usage("an export is csv or jsonl").hint("-o csv, or -o jsonl").into()),
        };
        let safe = ctx.global.spreadsheet_safe;
        let mut pages = Pages {
            ctx,
            client: ctx.client().await?,
            filter: self.filter.clone().check()?,
            cursor: None,
            started: false,
            links: 0,
        };
        match self.out.as_deref().filter(|path| !is_stdin(path)) {
            None => {
                let mut writer = writer(Stdout(&ctx.out), jsonl, safe);
                while let Some(links) = pages.next().await? {
                    put(&mut writer, &links).map_err(|error| broken(&error, Path::new("stdout")))?;
                }
            }
            Some(path) => self.to_file(&mut pages, path, jsonl).await?,
        }
        ctx.console.say(&format!("{} exported", counted(pages.links, "link")));
        Ok(())
    }

    /// Writes `path.part` and, after each page, a checkpoint; at the end the file gets its name.
    async fn to_file(&self, pages: &mut Pages<'_>, path: &Path, jsonl: bool) -> Outcome {
        let (part, mark) = (beside(path, ".part"), beside(path, ".cursor"));
        let checkpoint = self.resume.then(|| Checkpoint::read(&mark)).flatten();
        let resumed = checkpoint.is_some();
        let (file, length) = open_part(&part, checkpoint.as_ref()).map_err(|error| broken(&error, &part))?;
        if let Some(checkpoint) = checkpoint {
            pages.ctx.console.note(&format!("resuming after {}", counted(checkpoint.links, "link")));
            (pages.cursor, pages.links) = (Some(checkpoint.cursor), checkpoint.links);
        }
        let length = Rc::new(Cell::new(length));
        let out = Counted { file, length: Rc::clone(&length) };
        let mut writer = writer(out, jsonl, pages.ctx.global.spreadsheet_safe);
        if resumed {
            writer = writer.resumed();
        }
        while let Some(links) = pages.next().await? {
            put(&mut writer, &links).map_err(|error| broken(&error, &part))?;
            if let Some(cursor) = &pages.cursor {
                let checkpoint = Checkpoint { cursor: cursor.clone(), length: length.get(), links: pages.links };
                files::replace(&mark, serde_json::to_string(&checkpoint).unwrap_or_default().as_bytes())?;
            }
        }
        let done =
            writer.into_inner().and_then(|counted| counted.file.sync_all()).and_then(|()| fs::rename(&part, path));
        done.map_err(|error| broken(&error, path))?;
        match fs::remove_file(&mark) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(broken(&error, &mark)),
            _ => Ok(()),
        }
    }
}

fn writer<W: Write>(out: W, jsonl: bool, spreadsheet_safe: bool) -> LinkWriter<W> {
    let writer = if jsonl { LinkWriter::jsonl(out) } else { LinkWriter::csv(out) };
    writer.spreadsheet_safe(spreadsheet_safe)
}

/// Writes a page; the header comes with the first one, even if it is empty.
fn put<W: Write>(writer: &mut LinkWriter<W>, links: &[LinkDetail]) -> io::Result<()> {
    writer.begin()?;
    links.iter().try_for_each(|link| writer.write(link))?;
    writer.flush()
}

/// The links, a page at a time.
struct Pages<'a> {
    ctx: &'a Context,
    client: Client,
    filter: LinkFilter,
    /// Where the next page starts; none before the first page and after the last.
    cursor: Option<String>,
    started: bool,
    links: u64,
}

impl Pages<'_> {
    async fn next(&mut self) -> Outcome<Option<Vec<LinkDetail>>> {
        if std::mem::replace(&mut self.started, true) && self.cursor.is_none() {
            return Ok(None);
        }
        let mut list = self.client.links().list(&self.filter).page_size(MAX_LIMIT);
        if let Some(cursor) = &self.cursor {
            list = list.cursor(cursor);
        }
        let page = list.first_page().await.map_err(|error| self.ctx.stop(&error))?;
        if page.next_cursor.is_some() && page.next_cursor == self.cursor {
            return Err(Failure::new(Exit::Failure, "the list repeats a page").into());
        }
        self.cursor = page.next_cursor;
        self.links += u64::try_from(page.links.len()).unwrap_or_default();
        Ok(Some(page.links))
    }
}

/// Opens the file to write and returns its length. Anything written after the last recorded page is cut off.
fn open_part(part: &Path, checkpoint: Option<&Checkpoint>) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.write(true);
    let Some(checkpoint) = checkpoint else {
        options.create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        return Ok((options.open(part)?, 0));
    };
    let mut file = options.open(part)?;
    file.set_len(checkpoint.length)?;
    file.seek(io::SeekFrom::End(0))?;
    Ok((file, checkpoint.length))
}

fn broken(error: &io::Error, path: &Path) -> Stop {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Stop::ClosedPipe;
    }
    Failure::file("write", path.display(), error).into()
}

fn by_name(path: Option<&Path>) -> Option<Format> {
    let ending = path?.extension()?.to_str()?;
    matches!(ending, "jsonl" | "ndjson").then_some(Format::Jsonl)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The checkpoint of an export: all links before `cursor` are in the first `length` bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Checkpoint {
    cursor: String,
    length: u64,
    links: u64,
}

impl Checkpoint {
    fn read(path: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
    }
}

/// A file that counts its length.
struct Counted {
    file: File,
    length: Rc<Cell<u64>>,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.length.set(self.length.get() + u64::try_from(written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Standard output as a writer; a closed pipe is reported as such.
struct Stdout<'a>(&'a Out);

impl Write for Stdout<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = if self.0.terminal { self.0.text(&String::from_utf8_lossy(bytes)) } else { self.0.raw(bytes) };
        written.map(|()| bytes.len()).map_err(|stop| closed(&stop))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|stop| closed(&stop))
    }
}

fn closed(stop: &Stop) -> io::Error {
    match stop {
        Stop::ClosedPipe => io::ErrorKind::BrokenPipe.into(),
        _ => io::Error::other("stdout cannot be written"),
    }
}
