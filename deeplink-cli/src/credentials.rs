//! Which key a command uses.
//!
//! Invariant: a key from a store is returned only after checking that the service it goes to has the origin it was
//! stored for.

use std::fmt;
use std::path::{Path, PathBuf};

use deeplink_core::secret::SecretKey;

use crate::base_url::BaseUrl;
use crate::config::Profile;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::store::Stores;

/// Where a key came from, as `dl whoami` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// `--api-key-file`.
    Flag(PathBuf),
    /// `DL_API_KEY`.
    Variable,
    /// `DL_API_KEY_FILE`.
    VariableFile(PathBuf),
    /// The desktop keyring.
    Keyring { profile: String },
    /// `credentials.toml`.
    File { profile: String, path: PathBuf },
}

impl Source {
    /// The same, as the place where a key is stored.
    pub(crate) fn location(&self) -> String {
        match self {
            Self::Keyring { profile } => format!("the keyring (profile {profile})"),
            Self::File { profile, path } => format!("{} (profile {profile})", path.display()),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(path) => write!(f, "--api-key-file {}", path.display()),
            Self::Variable => f.write_str("DL_API_KEY"),
            Self::VariableFile(path) => write!(f, "DL_API_KEY_FILE ({})", path.display()),
            Self::Keyring { profile } => write!(f, "profile {profile} in the keyring"),
            Self::File { profile, path } => write!(f, "profile {profile} in {}", path.display()),
        }
    }
}

/// All sources of a key, and what determines their order.
pub(crate) struct Sources<'a> {
    pub(crate) flag: Option<&'a Path>,
    /// The profile in use.
    pub(crate) profile: &'a str,
    /// It was named by the flag, and so outranks the environment.
    pub(crate) profile_by_flag: bool,
    pub(crate) variable: Option<&'a SecretKey>,
    pub(crate) variable_is_empty: bool,
    pub(crate) variable_file: Option<&'a Path>,
    pub(crate) stores: Stores<'a>,
    /// The profile in the configuration.
    pub(crate) configured: Option<&'a Profile>,
    /// Where the key will go.
    pub(crate) base: &'a BaseUrl,
}

/// A key that may be sent, its source, and notes about it.
#[derive(Debug)]
pub(crate) struct ResolvedKey {
    pub(crate) key: SecretKey,
    pub(crate) source: Source,
    pub(crate) notes: Vec<String>,
}

impl Sources<'_> {
    /// Takes the first key of the order; `read` reads a named key file (or stdin).
    pub(crate) async fn find(&self, read: impl AsyncFn(&Path) -> Outcome<SecretKey>) -> Outcome<ResolvedKey> {
        let mut notes = Vec::new();
        let (key, source) = self.first(&read, &mut notes).await?;
        if !key.is_well_formed() {
            notes.push(format!("the key from {source} does not look like a key: expected dl_live_ and 48 hex digits"));
        }
        Ok(ResolvedKey { key, source, notes })
    }

    async fn first(
        &self,
        read: &impl AsyncFn(&Path) -> Outcome<SecretKey>,
        notes: &mut Vec<String>,
    ) -> Outcome<(SecretKey, Source)> {
        if let Some(path) = self.flag {
            return Ok((read(path).await?, Source::Flag(path.to_owned())));
        }
        if self.profile_by_flag
            && let Some(found) = self.stored().await?
        {
            if self.variable.is_some() {
                notes.push(format!("DL_API_KEY is ignored because --profile {} selects another key", self.profile));
            }
            return Ok(found);
        }
        if let Some(key) = self.variable {
            return Ok((check_key(key.expose(), "DL_API_KEY")?, Source::Variable));
        }
        if let Some(path) = self.variable_file {
            return Ok((read(path).await?, Source::VariableFile(path.to_owned())));
        }
        if !self.profile_by_flag
            && let Some(found) = self.stored().await?
        {
            return Ok(found);
        }
        Err(self.none())
    }

    async fn stored(&self) -> Outcome<Option<(SecretKey, Source)>> {
        self.stores.find(self.profile, self.configured, self.base).await
    }

    fn none(&self) -> crate::error::Stop {
        let variables = if self.variable_is_empty {
            "DL_API_KEY is empty, DL_API_KEY_FILE is not set"
        } else {
            "DL_API_KEY and DL_API_KEY_FILE are not set"
        };
        let (profile, location) = (self.profile, self.stores.location_of(self.configured));
        let what = format!(
            "no secret key: --api-key-file was not given, {variables}, and profile {profile} has none in {location}"
        );
        Failure::new(Exit::Auth, what).code("no_key").hint("run dl login, or set DL_API_KEY").into()
    }
}

/// The failure of a text that is no key.
pub(crate) fn invalid_key(what: impl Into<String>) -> Failure {
    Failure::invalid(what).code("invalid_key_text")
}

/// Parses a key as typed or piped; an error names `whence` and never repeats the text.
pub(crate) fn check_key(text: &str, whence: &str) -> Outcome<SecretKey> {
    let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
    let refuse = |what: &str| Err(invalid_key(format!("{whence}: {what}")).into());
    if text.is_empty() {
        return refuse("no key given");
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return refuse("a key cannot contain whitespace or control characters; is there more than one line?");
    }
    if !text.is_ascii() {
        return refuse("a key can contain only ASCII characters");
    }
    if text.starts_with("pk_live_") {
        return refuse("this is a publishable key; the secret key starts with dl_live_");
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
}
