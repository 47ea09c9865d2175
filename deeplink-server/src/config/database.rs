//! The URL of the database.

use std::path::Path;
use std::str::FromStr;

use url::Url;

/// Which database to open: `sqlite://PATH` or `postgres://…`. It can hold a password, so `Debug` and `Display` omit it.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(Box<str>);

impl DatabaseUrl {
    /// The URL of a SQLite file.
    pub fn sqlite(path: &Path) -> Self {
        Self(format!("sqlite://{}", path.display()).into())
    }

    /// The whole URL, with the password if it has one.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of the file, if this is SQLite.
    pub fn sqlite_path(&self) -> Option<&Path> {
        self.0.strip_prefix("sqlite://").map(Path::new)
    }
}

/// Shows where the database is, without user, password and parameters.
impl std::fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.sqlite_path().is_some() {
            return f.write_str(&self.0);
        }
        let url = Url::parse(&self.0).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let port = url.as_ref().and_then(Url::port).map(|port| format!(":{port}")).unwrap_or_default();
        write!(f, "postgres://{host}{port}{}", url.as_ref().map_or("", Url::path))
    }
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl FromStr for DatabaseUrl {
    type Err = String;

    // The invalid value may hold a password, so messages must not repeat it.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("sqlite://") {
            Some("" | ":memory:") => Err("sqlite:// must be followed by the path of a file".into()),
            Some(path) if path.contains('?') => Err("parameters after the path are not supported".into()),
            Some(_) => Ok(Self(text.into())),
            None => match Url::parse(text) {
                Ok(url) if matches!(url.scheme(), "postgres" | "postgresql") => Ok(Self(text.into())),
                _ => Err("not a URL of the form sqlite://PATH or postgres://USER:PASSWORD@HOST/NAME".into()),
            },
        }
    }
}
