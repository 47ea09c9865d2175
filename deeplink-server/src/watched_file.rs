//! Files of the operator that are read again when they change: the threat list and the country database.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Why a file could not be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
    #[error("not a regular file")]
    NotAFile,
    #[error("larger than {} MiB", .0 >> 20)]
    TooLarge(u64),
    /// Probably some other file, such as an HTML error page.
    #[error("{0}")]
    Invalid(String),
}

/// Tells whether the file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: SystemTime,
    bytes: u64,
}

impl Stamp {
    fn of(file: &std::fs::Metadata) -> std::io::Result<Self> {
        Ok(Self { modified: file.modified()?, bytes: file.len() })
    }
}

/// The content of a file.
pub(crate) fn read(path: &Path, max_bytes: u64) -> Result<(Vec<u8>, Stamp), LoadError> {
    // Before the open, which would block on a named pipe.
    if !std::fs::metadata(path)?.is_file() {
        return Err(LoadError::NotAFile);
    }
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len().min(max_bytes) + 1;
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    if (&mut file).take(max_bytes + 1).read_to_end(&mut bytes)? as u64 > max_bytes {
        return Err(LoadError::TooLarge(max_bytes));
    }
    let stamp = Stamp::of(&file.metadata()?)?;
    Ok((bytes, stamp))
}

/// How a file is loaded.
pub(crate) type Load<T> = fn(&Path) -> Result<(T, Stamp), LoadError>;

/// Notices when a file changes. It is read once two looks find it unchanged, so that a half-written one is not taken for
/// another.
pub(crate) struct Watch<T> {
    pub(crate) path: PathBuf,
    load: Load<T>,
    /// The last file that was loaded, and whether it was valid.
    last_loaded: Option<(Stamp, bool)>,
    /// At the last look.
    last_stamp: Option<Stamp>,
    /// Whether it was told that the file cannot be read.
    warned: bool,
}

impl<T: Send + 'static> Watch<T> {
    /// Watches a file that was loaded in this state.
    pub(crate) fn new(path: PathBuf, load: Load<T>, stamp: Stamp) -> Self {
        Self { path, load, last_loaded: Some((stamp, true)), last_stamp: None, warned: false }
    }

    /// The new content, once there is one; or, once each time, why it cannot be loaded.
    pub(crate) async fn poll(&mut self) -> Option<Result<T, LoadError>> {
        let stamp = match tokio::fs::metadata(&self.path).await.and_then(|file| Stamp::of(&file)) {
            Ok(stamp) => stamp,
            Err(error) => {
                self.last_stamp = None;
                return self.tell_once(error.into());
            }
        };
        let is_stable = self.last_stamp.replace(stamp) == Some(stamp);
        if self.last_loaded.is_some_and(|(loaded, _)| loaded == stamp) || !is_stable {
            // A file that was missing and is back unchanged warns again the next time.
            self.warned &= self.last_loaded != Some((stamp, true));
            return None;
        }
        let (path, load) = (self.path.clone(), self.load);
        match tokio::task::spawn_blocking(move || load(&path)).await {
            Ok(Ok((loaded, read))) if read == stamp => {
                self.last_loaded = Some((stamp, true));
                self.warned = false;
                Some(Ok(loaded))
            }
            Ok(Err(error)) => {
                // Permissions can change without the file; its content cannot.
                if !matches!(error, LoadError::Unreadable(_)) {
                    self.last_loaded = Some((stamp, false));
                }
                self.tell_once(error)
            }
            // Written in the meantime, or the service ends.
            Ok(Ok(_)) | Err(_) => None,
        }
    }

    /// What was loaded is not used any more: the file is read again even if it is the same.
    pub(crate) fn forget(&mut self) {
        self.last_loaded = None;
    }

    fn tell_once(&mut self, error: LoadError) -> Option<Result<T, LoadError>> {
        (!std::mem::replace(&mut self.warned, true)).then_some(Err(error))
    }
}
