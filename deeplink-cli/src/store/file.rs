//! Keys in `credentials.toml`, which only its owner can read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use deeplink_core::secret::SecretKey;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::base_url::BaseUrl;
use crate::config::Dirs;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::files::{self, Readers};

/// A stored key, with the one origin it may be sent to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoredKey {
    pub(crate) origin: String,
    pub(crate) key: SecretKey,
}

impl StoredKey {
    /// The key, if it may be sent there.
    pub(crate) fn for_origin(&self, base: &BaseUrl, profile: &str) -> Outcome<SecretKey> {
        if self.origin == base.origin() {
            return Ok(self.key.clone());
        }
        Err(another_origin(profile, &self.origin, base))
    }
}

/// The failure for a stored key of another origin.
pub(super) fn another_origin(profile: &str, origin: &str, base: &BaseUrl) -> Stop {
    let what = format!("the key of profile {profile} belongs to {origin}, not to {}", base.origin());
    let hint = "use dl login --profile NAME to store a key for that service under another name";
    Failure::new(Exit::Auth, what).code("origin_mismatch").hint(hint).into()
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

    /// Stores a key, replacing an older one of the profile.
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
                .hint("move the file away and run dl login")
                .into()
        })
    }

    fn change(&self, change: impl FnOnce(&mut Content)) -> Outcome {
        let _lock = files::Lock::of(&self.0.config)?;
        let mut content = self.load()?;
        change(&mut content);
        let text = toml::to_string(&content)
            .map_err(|_| Failure::new(Exit::Failure, "the credentials cannot be written as TOML"))?;
        files::replace(&self.path(), Zeroizing::new(text).as_bytes(), Readers::Owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
