//! Exports: a list of any length on stdout, or as a file that grows page by page and can be resumed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::context::{Context, is_stdin};
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::files::{self, Readers};
use crate::output::{self, Format};
use crate::progress::{Progress, counted};

/// Where an export goes.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// File to write; written to FILE.part until complete
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Resume an interrupted export
    #[arg(long, requires = "out")]
    resume: bool,
}

/// A page as it is written.
pub(crate) struct Chunk {
    /// Its records, after the header if it is the first page.
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: u64,
    /// Where the next page begins; `None` after the last.
    pub(crate) next_cursor: Option<String>,
}

impl Target {
    /// Whether the export is JSONL rather than CSV.
    pub(crate) fn is_jsonl(&self, ctx: &Context) -> Outcome<bool> {
        ctx.out.refuse_filter(
            "exports",
            "the commands that list print JSON: for example, dl links list --all --jq .url",
        )?;
        match ctx.global.format().or_else(|| by_name(self.out.as_deref())) {
            None | Some(Format::Csv) => Ok(false),
            Some(Format::Jsonl) if ctx.global.spreadsheet_safe => Err(output::without_csv().into()),
            Some(Format::Jsonl) => Ok(true),
            Some(_) => Err(Failure::usage("exports are CSV or JSONL").hint("use -o csv or -o jsonl").into()),
        }
    }

    /// Writes all pages; `noun` is what is counted, and `form` says what is written and how, so that nothing else is added to
    /// a file. `page` gets a cursor, which carries the filters, and whether the header is to be written.
    pub(crate) async fn write(
        &self,
        ctx: &Context,
        noun: &'static str,
        form: &str,
        page: impl AsyncFn(Option<String>, bool) -> Outcome<Chunk>,
    ) -> Outcome {
        let (mut cursor, mut records) = (None, 0);
        let file = match self.out.as_deref().filter(|path| !is_stdin(path)) {
            Some(path) => Some(Growing::open(path, self.resume, form)?),
            None => None,
        };
        let mut file = file.map(|(file, checkpoint)| {
            if let Some(checkpoint) = checkpoint {
                ctx.console.note(&format!("resuming after {}", counted(checkpoint.records, noun)));
                (cursor, records) = (Some(checkpoint.cursor), checkpoint.records);
            }
            file
        });
        let mut unfinished = Unfinished { ctx, noun, records: file.as_ref().map_or(0, |_| records) };
        let mut is_first = cursor.is_none();
        let progress = file.as_ref().map(|_| Progress::of(ctx, &format!("{noun}s"), noun));
        if let Some(progress) = &progress {
            progress.preparing("exporting");
        }
        loop {
            let chunk = page(cursor.clone(), is_first).await?;
            is_first = false;
            if chunk.next_cursor.is_some() && chunk.next_cursor == cursor {
                return Err(Failure::new(Exit::Failure, "the service returned the same page twice").into());
            }
            records += chunk.records;
            cursor = chunk.next_cursor;
            match &mut file {
                None => print(ctx, &chunk.bytes)?,
                Some(file) => {
                    file.add(&chunk.bytes, cursor.as_deref(), records)?;
                    // The last page has no checkpoint.
                    if cursor.is_some() {
                        unfinished.records = records;
                    }
                }
            }
            if let Some(progress) = &progress {
                progress.so_far(records);
            }
            if cursor.is_none() {
                break;
            }
        }
        drop(progress);
        if let Some(file) = file {
            file.finish()?;
        }
        unfinished.records = 0;
        ctx.console.say(&format!("{} exported", counted(records, noun)));
        Ok(())
    }
}

/// Flags as they were given, each with a space before it.
pub(crate) fn flags_given(flags: &[(&str, Option<&str>)]) -> String {
    flags.iter().filter_map(|(name, value)| Some(format!(" --{name} {}", (*value)?))).collect::<Vec<_>>().concat()
}

/// Writes records to stdout.
pub(crate) fn print(ctx: &Context, bytes: &[u8]) -> Outcome {
    ctx.out.records(bytes)?;
    ctx.out.flush()
}

/// Says how to continue when an export ends early, because of an error or Ctrl-C.
struct Unfinished<'a> {
    ctx: &'a Context,
    noun: &'static str,
    /// Those in the file that a resumed export keeps.
    records: u64,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.records > 0 {
            let kept = counted(self.records, self.noun);
            self.ctx.console.note(&format!("{kept} written so far; to continue, run the same command with --resume"));
        }
    }
}

/// A file that gets its name only once it is complete.
struct Growing<'a> {
    path: &'a Path,
    part: PathBuf,
    mark: PathBuf,
    file: File,
    length: u64,
    form: &'a str,
}

impl<'a> Growing<'a> {
    /// Opens `path.part`; with the checkpoint of an export that was stopped, after the last recorded page.
    fn open(path: &'a Path, resume: bool, form: &'a str) -> Outcome<(Self, Option<Checkpoint>)> {
        let (part, mark) = (beside(path, ".part"), beside(path, ".cursor"));
        let checkpoint = resume.then(|| Checkpoint::read(&mark)).flatten();
        if let Some(begun) = checkpoint.as_ref().and_then(|begun| begun.form.as_deref()).filter(|begun| *begun != form)
        {
            let what = format!("the interrupted export wrote {begun}, but this one writes {form}");
            let hint = "use the same options as before, or omit --resume to start over";
            return Err(Failure::usage(what).hint(hint).into());
        }
        let (file, length) = open_part(&part, checkpoint.as_ref()).map_err(|error| broken(&error, &part))?;
        Ok((Self { path, part, mark, file, length, form }, checkpoint))
    }

    /// Writes a page, then its checkpoint.
    fn add(&mut self, bytes: &[u8], cursor: Option<&str>, records: u64) -> Outcome {
        // On disk before the checkpoint that counts on it.
        self.file.write_all(bytes).and_then(|()| self.file.sync_data()).map_err(|error| broken(&error, &self.part))?;
        self.length += u64::try_from(bytes.len()).unwrap_or_default();
        let Some(cursor) = cursor else { return Ok(()) };
        let (cursor, form) = (cursor.to_owned(), Some(self.form.to_owned()));
        let checkpoint = Checkpoint { cursor, length: self.length, records, form };
        let text = serde_json::to_string(&checkpoint).unwrap_or_default();
        files::replace(&self.mark, text.as_bytes(), Readers::Umask)
    }

    fn finish(self) -> Outcome {
        let done = self.file.sync_all().and_then(|()| fs::rename(&self.part, self.path));
        done.map_err(|error| broken(&error, self.path))?;
        match fs::remove_file(&self.mark) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(broken(&error, &self.mark)),
            _ => Ok(()),
        }
    }
}

/// Opens the file to write and returns its length. Anything written after the last recorded page is cut off.
fn open_part(part: &Path, checkpoint: Option<&Checkpoint>) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.write(true);
    let Some(checkpoint) = checkpoint else {
        return Ok((options.create(true).truncate(true).open(part)?, 0));
    };
    let mut file = options.open(part)?;
    if file.metadata()?.len() < checkpoint.length {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is shorter than its checkpoint says"));
    }
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

/// The checkpoint of an export: all records before `cursor` are in the first `length` bytes.
#[derive(Debug, Serialize, Deserialize)]
struct Checkpoint {
    cursor: String,
    length: u64,
    // Earlier versions exported links alone.
    #[serde(alias = "links")]
    records: u64,
    /// What is written; earlier versions do not say.
    #[serde(default)]
    form: Option<String>,
}

impl Checkpoint {
    fn read(path: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
    }
}
