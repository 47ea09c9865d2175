//! The result of each row, in the order in which results arrive.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::private::{create_private, sync_parent};
use super::Format;
use crate::bulk::{RowOutcome, RowResult};

/// A file that gets its name only once it is complete.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    part: PathBuf,
    pub(super) file: BufWriter<File>,
}

impl Part {
    pub(super) fn create(path: PathBuf) -> io::Result<Self> {
        let mut part = path.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        // An unfinished file is started over: a resumed run emits all its rows again.
        match std::fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = BufWriter::new(create_private(&part)?);
        Ok(Self { path, part, file })
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        std::fs::rename(&self.part, &self.path)?;
        sync_parent(&self.path)
    }
}

/// Whether a file of this name holds JSON lines.
pub(super) fn is_jsonl(path: &Path) -> bool {
    matches!(Format::of_name(&path.to_string_lossy()), Some(Format::Jsonl | Format::Json))
}

/// Writes the result of each row: JSONL if the file name has an extension for JSON or JSONL, otherwise CSV. The file is
/// `NAME.part` until it is complete, readable only by its owner.
#[derive(Debug)]
pub struct ResultsWriter {
    part: Part,
    jsonl: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    line: u64,
    custom_id: Option<&'a str>,
    link_id: Option<&'a str>,
    url: Option<&'a str>,
    status: &'a str,
    code: Option<&'a str>,
    message: Option<&'a str>,
    batch: Option<u64>,
}

impl ResultsWriter {
    /// Creates the file; an existing file is replaced once the new one is complete.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let jsonl = is_jsonl(&path);
        let mut part = Part::create(path)?;
        if !jsonl {
            part.file.write_all(b"line,custom_id,link_id,url,status,code,message,batch\r\n")?;
        }
        Ok(Self { part, jsonl })
    }

    /// Adds a row.
    pub fn write(&mut self, outcome: &RowOutcome) -> io::Result<()> {
        let id = outcome.id.as_deref();
        let url = outcome.result.url().filter(|url| !url.is_empty());
        let (code, message) = match &outcome.result {
            RowResult::Rejected { code, message } => (Some(code.as_str()), Some(message.as_str())),
            RowResult::Unknown { message } => (None, Some(message.as_str())),
            _ => (None, None),
        };
        let line = Line {
            line: outcome.line,
            custom_id: id,
            link_id: id.filter(|_| outcome.result.url().is_some()),
            url,
            status: outcome.result.status(),
            code,
            message,
            batch: (outcome.batch > 0).then_some(outcome.batch),
        };
        if self.jsonl {
            serde_json::to_writer(&mut self.part.file, &line)?;
            return self.part.file.write_all(b"\n");
        }
        write_record(&mut self.part.file, b',', |cells| {
            let text = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
            cells.push(text(Some(line.line)));
            for cell in [line.custom_id, line.link_id, line.url, Some(line.status), line.code, line.message] {
                cells.push(cell.unwrap_or_default().to_owned());
            }
            cells.push(text(line.batch));
        })
    }

    /// Completes the file and gives it its final name.
    pub fn finish(self) -> io::Result<()> {
        self.part.finish()
    }
}

/// Writes one record (RFC 4180).
pub(super) fn write_record(out: &mut impl Write, delimiter: u8, fill: impl FnOnce(&mut Vec<String>)) -> io::Result<()> {
    let mut cells = Vec::new();
    fill(&mut cells);
    let mut writer = csv::WriterBuilder::new().delimiter(delimiter).terminator(csv::Terminator::CRLF).from_writer(out);
    writer.write_record(&cells)?;
    writer.flush()
}
