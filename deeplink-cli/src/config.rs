//! `config.toml`: profiles without secrets, and where `dl` keeps its files. Nothing is read from the working directory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};

use crate::base_url::BaseUrl;
use crate::env::Env;
use crate::error::{Failure, Outcome};
use crate::files::{self, Readers};

/// The profile that is used when none is named.
pub(crate) const DEFAULT_PROFILE: &str = "default";

/// What `config.toml` holds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Config {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) active_profile: Option<String>,
    #[serde(default, rename = "profile", skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) profiles: BTreeMap<String, Profile>,
    /// Preserves what a newer `dl` wrote.
    #[serde(flatten)]
    rest: toml::Table,
}

/// One account on one service.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Profile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) base_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) store: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_prefix: Option<String>,
    /// The account that `dl login` or `dl signup` created the key for; absent for a key that came from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) login_account: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    #[serde(flatten)]
    rest: toml::Table,
}

/// The word for "in `credentials.toml`".
pub(crate) const STORE_FILE: &str = "file";
/// The word for "in the keyring of the desktop".
pub(crate) const STORE_KEYRING: &str = "keyring";

impl Profile {
    /// Whether the profile's key is in the keyring.
    pub(crate) fn is_in_keyring(&self) -> bool {
        self.store.as_deref() == Some(STORE_KEYRING)
    }

    /// Origin of the profile's service.
    pub(crate) fn origin(&self) -> Option<String> {
        Some(self.base_url.as_ref()?.parse::<BaseUrl>().ok()?.origin())
    }
}

/// Where `dl` keeps its files.
#[derive(Debug, Clone)]
pub(crate) struct Dirs {
    pub(crate) config: PathBuf,
    pub(crate) state: PathBuf,
}

impl Dirs {
    /// `$DL_CONFIG_DIR` and `$DL_STATE_DIR`, else the system's standard directories.
    pub(crate) fn find(env: &Env) -> Outcome<Self> {
        let named = |given: &Option<PathBuf>, usual: fn(&dyn Usual) -> PathBuf| -> Outcome<PathBuf> {
            if let Some(dir) = given {
                return Ok(dir.clone());
            }
            let strategy = etcetera::choose_base_strategy()
                .map_err(|_| Failure::usage("no home directory found").hint("set DL_CONFIG_DIR and DL_STATE_DIR"))?;
            Ok(usual(&strategy).join("dl"))
        };
        Ok(Self { config: named(&env.config_dir, |s| s.config())?, state: named(&env.state_dir, |s| s.state())? })
    }

    /// The configuration file.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// Where imports keep their journals.
    pub(crate) fn imports(&self) -> PathBuf {
        self.state.join("imports")
    }

    /// Where links are kept that were read from another service's API and have not all been sent.
    pub(crate) fn reads(&self) -> PathBuf {
        self.state.join("reads")
    }

    /// The file that holds keys.
    pub(crate) fn credentials_file(&self) -> PathBuf {
        self.config.join("credentials.toml")
    }
}

/// The two directories `dl` asks a platform for.
trait Usual {
    fn config(&self) -> PathBuf;
    fn state(&self) -> PathBuf;
}

impl<T: BaseStrategy> Usual for T {
    fn config(&self) -> PathBuf {
        self.config_dir()
    }

    fn state(&self) -> PathBuf {
        self.state_dir().unwrap_or_else(|| self.data_dir())
    }
}

impl Config {
    /// Reads the file; a missing one is empty.
    pub(crate) fn load(dirs: &Dirs) -> Outcome<Self> {
        let path = dirs.config_file();
        let Some(text) = files::read_private(&path)? else { return Ok(Self::default()) };
        toml::from_str(&text).map_err(|error: toml::de::Error| {
            let position = error.span().map_or(String::new(), |span| {
                format!(":{}", text[..span.start.min(text.len())].lines().count().max(1))
            });
            Failure::usage(format!("{}{position}: {}", path.display(), error.message()))
                .hint("fix the line, or move the file away and start over with dl profile add")
                .into()
        })
    }

    /// Changes the file under its lock, starting from its current content.
    pub(crate) fn change(dirs: &Dirs, change: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let _lock = files::Lock::of(&dirs.config)?;
        let mut config = Self::load(dirs)?;
        change(&mut config)?;
        let text = toml::to_string(&config)
            .map_err(|error| Failure::new(crate::exit::Exit::Failure, format!("config.toml: {error}")))?;
        files::replace(&dirs.config_file(), text.as_bytes(), Readers::Owner)
    }

    /// The names of all profiles, for a hint.
    pub(crate) fn names(&self) -> String {
        self.profiles.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// A profile name: 1 to 64 letters, digits, `-` or `_`, so that it needs no quoting anywhere.
pub(crate) fn check_profile_name(name: &str) -> Outcome {
    let fits =
        (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if fits {
        return Ok(());
    }
    Err(Failure::usage("a profile name must be 1 to 64 letters, digits, '-' or '_'").into())
}
