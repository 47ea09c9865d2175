//! Where keys are kept: in the keyring of the desktop, or in a file that only its owner can read.
//!
//! A profile's key is in one of the two, and the configuration says which. A key that the other one may still hold is
//! never used.

mod file;
mod keep;
mod keyring;
mod native;
#[cfg(test)]
mod tests;

use clap::ValueEnum;
use deeplink_core::secret::SecretKey;

use crate::base_url::BaseUrl;
use crate::config::{Profile, STORE_KEYRING};
use crate::context::Context;
use crate::credentials::{Source, check_key};
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;

pub(crate) use file::{FileStore, StoredKey};
pub(crate) use keep::{Destination, KeepError};
use keyring::Keyring;

/// A store as `--store` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreName {
    /// The desktop keyring
    Keyring,
    /// credentials.toml, which only its owner can read
    File,
}

/// Both stores, as far as they exist.
#[derive(Debug)]
pub(crate) struct Stores<'a> {
    file: FileStore<'a>,
    /// Or why there is none.
    keyring: Result<Keyring, String>,
}

/// Where the next key goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Into the keyring; `required` if nothing else is acceptable.
    Keyring { required: bool },
    /// Into the file; `instead` is the reason if it was not requested.
    File { instead: Option<String> },
}

/// The inputs that decide where a key goes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wish<'a> {
    /// `--store`.
    pub(crate) named: Option<StoreName>,
    /// `DL_KEYRING=require`.
    pub(crate) require: bool,
    /// `store` in the configuration.
    pub(crate) configured: Option<&'a str>,
}

/// Where a key is stored.
#[derive(Debug)]
pub(crate) struct KeyLocation {
    pub(crate) source: Source,
    /// Why it is not in the keyring, if that was tried.
    pub(crate) instead: Option<String>,
}

impl Context {
    /// The stores. Nothing is accessed yet.
    pub(crate) fn stores(&self) -> Stores<'_> {
        let keyring = match self.env.without_keyring() {
            Some(why) => Err(why.to_owned()),
            None => native::native().map(|store| Keyring::new(store, &self.console)),
        };
        Stores { file: FileStore(&self.dirs), keyring }
    }
}

impl Stores<'_> {
    /// The file.
    pub(crate) fn file(&self) -> &FileStore<'_> {
        &self.file
    }

    /// The key of a profile for this service.
    pub(crate) async fn find(
        &self,
        profile: &str,
        configured: Option<&Profile>,
        base: &BaseUrl,
    ) -> Outcome<Option<(SecretKey, Source)>> {
        let Some(configured) = configured.filter(|profile| profile.is_in_keyring()) else {
            let Some(stored) = self.file.get(profile)? else { return Ok(None) };
            let key = stored.for_origin(base, profile)?;
            return Ok(Some((key, Source::File { profile: profile.to_owned(), path: self.file.path() })));
        };
        if let Some(origin) = configured.origin().filter(|origin| *origin != base.origin()) {
            return Err(file::another_origin(profile, &origin, base));
        }
        let found = match &self.keyring {
            Ok(keyring) => keyring.get(&account(profile, &base.origin())).await,
            Err(why) => Err(why.clone()),
        };
        let Some(text) = found.map_err(|why| unreadable(profile, &why))? else { return Ok(None) };
        let source = Source::Keyring { profile: profile.to_owned() };
        Ok(Some((check_key(&text, &source.to_string())?, source)))
    }

    /// Where a profile's key should be, for a message.
    pub(crate) fn location_of(&self, configured: Option<&Profile>) -> String {
        match configured {
            Some(profile) if profile.is_in_keyring() => "the keyring".to_owned(),
            _ => self.file.path().display().to_string(),
        }
    }

    /// Decides where the next key goes, and checks whether it can go there, before any request to the service.
    pub(crate) async fn choose(&self, wish: Wish<'_>, profile: &str, base: &BaseUrl) -> Outcome<Choice> {
        let required = match wish.named {
            Some(StoreName::File) => return self.choose_file(None),
            Some(StoreName::Keyring) => true,
            None => wish.require,
        };
        if !required && wish.configured.is_some_and(|store| store != STORE_KEYRING) {
            return self.choose_file(None);
        }
        // A read is the probe: a missing entry is a valid answer.
        let probed = match &self.keyring {
            Ok(keyring) => keyring.get(&account(profile, &base.origin())).await.map(drop),
            Err(why) => Err(why.clone()),
        };
        match probed {
            Ok(()) => Ok(Choice::Keyring { required }),
            Err(why) if required => Err(unusable(&why)),
            Err(why) => self.choose_file(Some(why)),
        }
    }

    fn choose_file(&self, instead: Option<String>) -> Outcome<Choice> {
        self.file.all()?;
        Ok(Choice::File { instead })
    }

    /// Stores a key in the chosen place; if the keyring fails now, in the file.
    pub(crate) async fn keep(&self, choice: &Choice, profile: &str, stored: &StoredKey) -> Outcome<KeyLocation> {
        let instead = match choice {
            Choice::File { instead } => instead.clone(),
            Choice::Keyring { required } => {
                let kept = match &self.keyring {
                    Ok(keyring) => keyring.keep(&account(profile, &stored.origin), stored.key.expose()).await,
                    Err(why) => Err(why.clone()),
                };
                match kept {
                    Ok(()) => {
                        return Ok(KeyLocation {
                            source: Source::Keyring { profile: profile.to_owned() },
                            instead: None,
                        });
                    }
                    Err(why) if *required => return Err(unusable(&why)),
                    Err(why) => Some(why),
                }
            }
        };
        self.file.put(profile, stored)?;
        Ok(KeyLocation { source: Source::File { profile: profile.to_owned(), path: self.file.path() }, instead })
    }

    /// Deletes the keyring's entry for a profile of this origin.
    pub(crate) async fn forget_in_keyring(&self, profile: &str, origin: &str) -> Outcome {
        let forgotten = match &self.keyring {
            Ok(keyring) => keyring.forget(&account(profile, origin)).await,
            Err(why) => Err(why.clone()),
        };
        forgotten.map_err(|why| unreadable(profile, &why))
    }
}

/// The name of a profile's key in the keyring, which includes the one origin it may be sent to.
fn account(profile: &str, origin: &str) -> String {
    format!("{profile}@{origin}")
}

/// The key is in a keyring that does not answer. An older copy elsewhere would be a different key.
fn unreadable(profile: &str, why: &str) -> Stop {
    let what = format!("the key of profile {profile} is in the keyring, which cannot be used: {why}");
    let hint = "unlock it and try again, or store a key in a file with dl login --store file";
    Failure::new(Exit::Auth, what).code("keyring_unavailable").hint(hint).into()
}

/// The keyring was required.
fn unusable(why: &str) -> Stop {
    let what = format!("the keyring cannot be used: {why}");
    let hint = "use --store file to store the key in a file that only you can read";
    Failure::new(Exit::Failure, what).code("keyring_unavailable").hint(hint).into()
}
