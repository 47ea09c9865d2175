//! Requests kept in a folder: `0001-conversion-evt_….json`, and beside it `….headers`, as `dl webhooks verify` reads them.

use std::cell::Cell;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use deeplink_client::receiver::Receipt;

use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::files::{self, Readers};

pub(super) struct Folder {
    path: PathBuf,
    next: Cell<u32>,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Outcome<Self> {
        if path.exists() && !path.is_dir() {
            let what = format!("--save: {} already exists and is not a directory", path.display());
            return Err(Failure::new(Exit::Failure, what).into());
        }
        files::make_dir(path).map_err(|error| Failure::file("create", path.display(), &error))?;
        Ok(Self { path: path.to_owned(), next: Cell::new(1) })
    }

    /// Keeps a request under the next free number. Nothing is overwritten.
    pub(super) fn keep(&self, receipt: &Receipt) -> Outcome {
        // Text from elsewhere must not name a path.
        let word = |text: &str| -> String {
            text.chars().filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).take(48).collect()
        };
        let kind = receipt.event.as_ref().map_or_else(|_| String::new(), |event| word(event.kind.as_str()));
        let id = receipt.id.as_deref().map(word).unwrap_or_default();
        loop {
            let number = self.next.replace(self.next.get().saturating_add(1));
            let name = format!("{number:04}-{kind}-{id}");
            if files::create(&self.path.join(format!("{name}.json")), &receipt.body, Readers::Owner)? {
                let mut headers = String::new();
                for (name, value) in &receipt.headers {
                    // Writing to a string cannot fail.
                    let _ = writeln!(headers, "{name}: {}", String::from_utf8_lossy(value.as_bytes()));
                }
                files::create(&self.path.join(format!("{name}.headers")), headers.as_bytes(), Readers::Owner)?;
                return Ok(());
            }
        }
    }
}
