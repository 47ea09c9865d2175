//! Which key a command uses, and where keys are kept.
//!
//! Invariant: a key out of the store is handed out only together with the check that the service it goes to has the
//! origin it was stored for.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use deeplink_core::secret::SecretKey;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::base_url::BaseUrl;
use crate::config::Dirs;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::files;

/// A key as it is kept: with the one origin it may be sent to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredKey {
    pub(crate) origin: String,
    pub(crate) key: SecretKey,
}

impl StoredKey {
    /// The key, if it may go there.
    pub(crate) fn for_origin(&self, base: &BaseUrl, profile: &str) -> Outcome<SecretKey> {
        if self.origin == base.origin() {
            return Ok(self.key.clone());
        }
        let what = format!("the key of profile {profile} belongs to {}, not to {}", self.origin, base.origin());
        Err(Failure::new(Exit::Auth, what)
            .code("origin_mismatch")
            .hint("dl login --with-key --profile NAME stores a key for that service under another name")
            .into())
    }
}

/// Keys in `credentials.toml`, mode 0600.
#[derive(Debug)]
pub(crate) struct FileStore<'a>(pub(crate) &'a Dirs);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    #[serde(default)]
    profile: BTreeMap<String, StoredKey>,
}

impl FileStore<'_> {
    /// Where the keys are.
    pub(crate) fn path(&self) -> PathBuf {
        self.0.credentials_file()
    }

    /// The key of a profile.
    pub(crate) fn get(&self, profile: &str) -> Outcome<Option<StoredKey>> {
        Ok(self.load()?.profile.remove(profile))
    }

    /// Every key with its profile.
    pub(crate) fn all(&self) -> Outcome<Vec<(String, StoredKey)>> {
        Ok(self.load()?.profile.into_iter().collect())
    }

    /// Keeps a key, in place of an older one of the profile.
    pub(crate) fn put(&self, profile: &str, key: &StoredKey) -> Outcome {
        self.change(|content| {
            content.profile.insert(profile.to_owned(), key.clone());
        })
    }

    /// Forgets the keys of these profiles.
    pub(crate) fn remove(&self, profiles: &[String]) -> Outcome {
        self.change(|content| content.profile.retain(|name, _| !profiles.contains(name)))
    }

    fn load(&self) -> Outcome<Content> {
        let path = self.path();
        let Some(text) = files::read_private(&path)?.map(Zeroizing::new) else { return Ok(Content::default()) };
        // The parser's own message quotes the line, and the line may hold the key.
        toml::from_str(&text).map_err(|_| {
            Failure::new(Exit::Auth, format!("{} cannot be read as TOML", path.display()))
                .code("unsafe_file")
                .hint("move the file away and run dl login --with-key")
                .into()
        })
    }

    fn change(&self, change: impl FnOnce(&mut Content)) -> Outcome {
        let _lock = files::Lock::of(&self.0.config)?;
        let mut content = self.load()?;
        change(&mut content);
        let text = toml::to_string(&content)
            .map_err(|_| Failure::new(Exit::Failure, "the credentials cannot be written as TOML"))?;
        files::replace(&self.path(), Zeroizing::new(text).as_bytes())
    }
}

/// Where a key came from, as `dl whoami` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// `--api-key-file`.
    Flag(PathBuf),
    /// `DL_API_KEY`.
    Variable,
    /// `DL_API_KEY_FILE`.
    VariableFile(PathBuf),
    /// `credentials.toml`.
    File { profile: String, path: PathBuf },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(path) => write!(f, "--api-key-file {}", path.display()),
            Self::Variable => f.write_str("DL_API_KEY"),
            Self::VariableFile(path) => write!(f, "DL_API_KEY_FILE ({})", path.display()),
            Self::File { profile, path } => write!(f, "profile {profile} in {}", path.display()),
        }
    }
}

/// Everything that decides which key is used.
#[derive(Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) flag: Option<&'a Path>,
    /// The profile in use.
    pub(crate) profile: &'a str,
    /// It was named by the flag, and so outranks the environment.
    pub(crate) profile_by_flag: bool,
    pub(crate) variable: Option<&'a SecretKey>,
    pub(crate) variable_is_empty: bool,
    pub(crate) variable_file: Option<&'a Path>,
    pub(crate) store: FileStore<'a>,
    /// Where the key will go.
    pub(crate) base: &'a BaseUrl,
}

/// A key that may be sent, and what there is to say about it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) key: SecretKey,
    pub(crate) source: Source,
    pub(crate) notes: Vec<String>,
}

impl Sources<'_> {
    /// Takes the first key of the order; `read` reads a named key file (or stdin).
    pub(crate) fn find(&self, read: impl Fn(&Path) -> Outcome<SecretKey>) -> Outcome<Found> {
        let mut notes = Vec::new();
        let (key, source) = self.first(&read, &mut notes)?;
        if !key.is_well_formed() {
            notes.push(format!("the key from {source} does not look like one: dl_live_ and 48 hex digits"));
        }
        Ok(Found { key, source, notes })
    }

    fn first(
        &self,
        read: &impl Fn(&Path) -> Outcome<SecretKey>,
        notes: &mut Vec<String>,
    ) -> Outcome<(SecretKey, Source)> {
        if let Some(path) = self.flag {
            return Ok((read(path)?, Source::Flag(path.to_owned())));
        }
        if self.profile_by_flag
            && let Some(found) = self.stored()?
        {
            if self.variable.is_some() {
                notes.push(format!("DL_API_KEY is ignored: --profile {} names another key", self.profile));
            }
            return Ok(found);
        }
        if let Some(key) = self.variable {
            return Ok((check_key(key.expose(), "DL_API_KEY")?, Source::Variable));
        }
        if let Some(path) = self.variable_file {
            return Ok((read(path)?, Source::VariableFile(path.to_owned())));
        }
        if !self.profile_by_flag
            && let Some(found) = self.stored()?
        {
            return Ok(found);
        }
        Err(self.none())
    }

    fn stored(&self) -> Outcome<Option<(SecretKey, Source)>> {
        let Some(stored) = self.store.get(self.profile)? else { return Ok(None) };
        let key = stored.for_origin(self.base, self.profile)?;
        Ok(Some((key, Source::File { profile: self.profile.to_owned(), path: self.store.path() })))
    }

    fn none(&self) -> crate::error::Stop {
        let variables = if self.variable_is_empty {
            "DL_API_KEY is empty, DL_API_KEY_FILE is not set"
        } else {
            "DL_API_KEY and DL_API_KEY_FILE are not set"
        };
        let (profile, path) = (self.profile, self.store.path());
        let what = format!(
            "no secret key: --api-key-file is not given, {variables}, and profile {profile} has none in {}",
            path.display()
        );
        Failure::new(Exit::Auth, what).code("no_key").hint("dl login --with-key keeps one, or set DL_API_KEY").into()
    }
}

/// Takes a key as somebody wrote or piped it; `whence` is named when it cannot be one. The text is never repeated.
pub(crate) fn check_key(text: &str, whence: &str) -> Outcome<SecretKey> {
    let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
    let refuse = |what: &str| Err(Failure::invalid(format!("{whence}: {what}")).code("invalid_key_text").into());
    if text.is_empty() {
        return refuse("there is no key");
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return refuse("a key holds no white space and no control characters; is there more than one line?");
    }
    if !text.is_ascii() {
        return refuse("a key holds only ASCII characters");
    }
    if text.starts_with("pk_live_") {
        return refuse("this is a publishable key; the secret key begins with dl_live_");
    }
    Ok(SecretKey::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Stop;

    fn refused(text: &str) -> Failure {
        match check_key(text, "the key") {
            Err(Stop::Failed(failure)) => *failure,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn one_newline_is_trimmed_and_all_else_must_be_a_key() {
        let key = format!("dl_live_{}", "0a".repeat(24));
        for text in [key.clone(), format!("{key}\n"), format!("{key}\r\n")] {
            assert_eq!(check_key(&text, "the key").expect("a key").expose(), key);
        }
        assert_eq!(check_key("another-form", "the key").expect("a key").expose(), "another-form");
        for text in [
            "",
            "\n",
            &format!("{key}\n\n"),
            &format!(" {key}"),
            &format!("{key}\t"),
            "a\u{7f}b",
            "a\u{a0}b",
            "clé",
            &format!("pk_live_{}", "0a".repeat(24)),
        ] {
            let failure = refused(text);
            assert_eq!(failure.exit, Exit::Invalid, "{text:?}");
            assert!(!failure.message.contains("0a0a"), "{}", failure.message);
        }
    }

    #[test]
    fn a_stored_key_goes_to_its_origin_only() {
        let stored = StoredKey { origin: "https://dl.example.com".into(), key: SecretKey::new("k") };
        let to = |url: &str| stored.for_origin(&url.parse().expect("a base URL"), "default");
        assert!(to("https://dl.example.com/prefix").is_ok() && to("https://dl.example.com:443").is_ok());
        for other in [
            "https://dl.example.com:8443",
            "https://example.com",
            "http://localhost",
            "https://dl.example.com.example.net",
        ] {
            assert!(matches!(to(other), Err(Stop::Failed(failure)) if failure.exit == Exit::Auth), "{other}");
        }
    }
}
