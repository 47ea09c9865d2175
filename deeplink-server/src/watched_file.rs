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

/// What went wrong, without its details: another kind is worth another warning.
type Kind = (std::mem::Discriminant<LoadError>, Option<std::io::ErrorKind>);

impl LoadError {
    fn kind(&self) -> Kind {
        let io = if let Self::Unreadable(error) = self { Some(error.kind()) } else { None };
        (std::mem::discriminant(self), io)
    }
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
    /// Why the file cannot be loaded, as was told last.
    told: Option<Kind>,
}

impl<T: Send + 'static> Watch<T> {
    /// Watches a file that was loaded in this state.
    pub(crate) fn new(path: PathBuf, load: Load<T>, stamp: Stamp) -> Self {
        Self { path, load, last_loaded: Some((stamp, true)), last_stamp: None, told: None }
    }

    /// The new content, once there is one; or why it cannot be loaded, once for each kind of error until that changes.
    pub(crate) async fn poll(&mut self) -> Option<Result<T, LoadError>> {
        let stamp = match tokio::fs::metadata(&self.path).await.and_then(|file| Stamp::of(&file)) {
            Ok(stamp) => stamp,
            Err(error) => {
                self.last_stamp = None;
                return self.tell(error.into());
            }
        };
        let is_stable = self.last_stamp.replace(stamp) == Some(stamp);
        if self.last_loaded.is_some_and(|(loaded, _)| loaded == stamp) || !is_stable {
            // A file that was missing and is back unchanged warns again the next time.
            if self.last_loaded == Some((stamp, true)) {
                self.told = None;
            }
            return None;
        }
        let (path, load) = (self.path.clone(), self.load);
        match tokio::task::spawn_blocking(move || load(&path)).await {
            Ok(Ok((loaded, read))) if read == stamp => {
                self.last_loaded = Some((stamp, true));
                self.told = None;
                Some(Ok(loaded))
            }
            Ok(Err(error)) => {
                // Permissions can change without the file; its content cannot.
                if !matches!(error, LoadError::Unreadable(_)) {
                    self.last_loaded = Some((stamp, false));
                }
                self.tell(error)
            }
            // Written in the meantime, or the service ends.
            Ok(Ok(_)) | Err(_) => None,
        }
    }

    /// What was loaded is not used any more: the file is read again even if it is the same.
    pub(crate) fn forget(&mut self) {
        self.last_loaded = None;
    }

    fn tell(&mut self, error: LoadError) -> Option<Result<T, LoadError>> {
        let kind = Some(error.kind());
        (std::mem::replace(&mut self.told, kind) != kind).then_some(Err(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(path: &Path) -> Result<(Vec<u8>, Stamp), LoadError> {
        let (bytes, stamp) = read(path, 100)?;
        if bytes.starts_with(b"<") { Err(LoadError::Invalid("a page".into())) } else { Ok((bytes, stamp)) }
    }

    /// What two looks at the file tell: the first one only sees that it has changed.
    async fn told(watch: &mut Watch<Vec<u8>>) -> Vec<String> {
        let mut told = Vec::new();
        for _ in 0..2 {
            told.extend(watch.poll().await.map(|loaded| match loaded {
                Ok(bytes) => String::from_utf8(bytes).expect("text"),
                Err(LoadError::Unreadable(error)) => format!("{:?}", error.kind()),
                Err(error) => error.to_string(),
            }));
        }
        told
    }

    /// An invalid file in place of one that had vanished was not told.
    #[tokio::test]
    async fn another_kind_of_error_is_told_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("list");
        std::fs::write(&path, "first").expect("written");
        let (_, stamp) = load(&path).expect("valid");
        let mut watch = Watch::new(path.clone(), load, stamp);
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        assert_eq!(told(&mut watch).await, Vec::<String>::new());
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(told(&mut watch).await, ["NotFound"]);
        assert_eq!(told(&mut watch).await, Vec::<String>::new(), "once");
        write("<html>");
        assert_eq!(told(&mut watch).await, ["a page"]);
        write("<another page>");
        assert_eq!(told(&mut watch).await, Vec::<String>::new(), "the same kind");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(told(&mut watch).await, ["NotFound"]);
        write("second, even longer");
        assert_eq!(told(&mut watch).await, ["second, even longer"]);
        write("<html>");
        assert_eq!(told(&mut watch).await, ["a page"], "a valid one came between");
    }
}
