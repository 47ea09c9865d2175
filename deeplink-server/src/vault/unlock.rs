//! Loads the master keys, and verifies that they match the database: with a check value, and by the keys that sealed values
//! name.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use deeplink_core::secret::Random;
use futures_util::FutureExt;
use url::Url;

use super::{DecryptError, MasterKey, Vault};
use crate::config::{Config, is_loopback};
use crate::db::sealed::{self, KeyCount, SealedValues};
use crate::db::{Db, DbError, acme, certificates, vault_check};
use crate::private;
use crate::shares::Share;

const CHECK: &[u8] = b"deeplink";

/// Why the key file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// Other users can read or write it.
    #[error("{} is accessible to other users (mode {mode:03o}); run: chmod 600 {}", path.display(), path.display())]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It does not contain a key.
    #[error("{} does not contain a master key (32 bytes in base64)", .0.display())]
    NotAKey(PathBuf),
    /// It cannot be read or created.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        error: std::io::Error,
    },
}

/// Why the master keys cannot be used with this database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The key file cannot be used.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// The database contains encrypted values, and the key file is missing.
    #[error(
        "{} is missing, but this database contains secrets encrypted with its key; restore the file or set \
         DEEPLINK_MASTER_KEY",
        .0.display()
    )]
    KeyFileMissing(PathBuf),
    /// Several nodes can share the database, so a local key file is not enough.
    #[error(
        "DEEPLINK_MASTER_KEY must be set with PostgreSQL, to the same value on all nodes; create one with: openssl rand -base64 32"
    )]
    MustBeSet,
    /// Values are encrypted with keys that are not configured.
    #[error(
        "the master keys do not match this database, which needs: {needed}. Add the missing keys to \
         DEEPLINK_MASTER_KEY, after the first key and separated by commas. If a key is permanently lost, set \
         DEEPLINK_LOST_MASTER_KEYS={ids} to start the server without the values that need it"
    )]
    MissingKeys {
        /// The ids of the keys, each with the number and kind of values that need it.
        needed: String,
        /// The ids alone, separated by commas.
        ids: String,
    },
    /// The check value cannot be decrypted.
    #[error("the master keys do not match this database: {0}")]
    WrongKeys(DecryptError),
    /// A database error.
    #[error(transparent)]
    Database(#[from] DbError),
}

/// The result of checking the keys.
#[derive(Debug)]
pub(crate) enum KeyCheck {
    /// They match, or nothing is encrypted yet.
    Valid(Box<Vault>),
    /// No key is configured, and none was ever used.
    NoKeyFile,
}

impl crate::db::WriteError for UnlockError {
    fn database(&self) -> Option<&DbError> {
        if let Self::Database(error) = self { Some(error) } else { None }
    }
}

impl Vault {
    /// Loads the keys from the settings or the key file and verifies that they match the database. Creates the key file if
    /// nothing is encrypted yet.
    pub async fn unlock(config: &Config, db: &Db, public_url: &Url) -> Result<Self, UnlockError> {
        let known = sealed::survey(&mut db.read().await?.conn()).await?;
        if let KeyCheck::NoKeyFile = Self::check_keys(config, public_url, &known)? {
            let path = config.key_file();
            create_key(&path).map_err(|error| KeyFileError::File { path, error })?;
        }
        // Checked again, because two processes may have created the file at the same time.
        match Self::check_keys(config, public_url, &known)? {
            KeyCheck::Valid(vault) => {
                if known.check.is_none_or(|known| !vault.is_current(&known)) {
                    vault.keep_check_value(db, &config.lost_master_keys).await?;
                }
                vault.give_up(db, &config.lost_master_keys).await?;
                if let Err(error) = vault.reseal(db).await {
                    tracing::warn!(%error, "not everything is encrypted with the first master key yet; will retry");
                }
                Ok(*vault)
            }
            KeyCheck::NoKeyFile => Err(UnlockError::KeyFileMissing(config.key_file())),
        }
    }

    /// Loads the keys, tries them on the check value, and compares them with those that values name. Changes nothing.
    pub(crate) fn check_keys(config: &Config, public_url: &Url, known: &SealedValues) -> Result<KeyCheck, UnlockError> {
        let vault = match config.master_keys.split_first() {
            Some((first, older)) => Self::of(first, older),
            None if config.database.sqlite_path().is_none() && !is_loopback(public_url) => {
                return Err(UnlockError::MustBeSet);
            }
            None => match read_key(&config.key_file()) {
                Err(KeyFileError::File { path, error }) if error.kind() == ErrorKind::NotFound => {
                    return if known.check.is_some() {
                        Err(UnlockError::KeyFileMissing(path))
                    } else {
                        Ok(KeyCheck::NoKeyFile)
                    };
                }
                key => Self::of(&key?, &[]),
            },
        };
        vault.check_counts(known.counts.as_deref().unwrap_or_default(), &config.lost_master_keys)?;
        known.check.as_deref().map(|known| vault.check(known, &config.lost_master_keys)).transpose()?;
        Ok(KeyCheck::Valid(Box::new(vault)))
    }

    /// Whether the check value is encrypted with the first key; an error if it cannot be decrypted, but not for a lost key.
    fn check(&self, value: &str, lost: &[String]) -> Result<bool, UnlockError> {
        match self.try_open("service", vault_check::NAME, value) {
            Ok(plain) if plain == CHECK => Ok(self.is_current(value)),
            Err(DecryptError::UnknownKey(id)) if lost.contains(&id) => Ok(false),
            Ok(_) => Err(UnlockError::WrongKeys(DecryptError::Invalid)),
            Err(error) => Err(UnlockError::WrongKeys(error)),
        }
    }

    /// Stores the check value, encrypted with the first key.
    async fn keep_check_value(&self, db: &Db, lost: &[String]) -> Result<(), UnlockError> {
        let value = self.seal("service", vault_check::NAME, CHECK);
        db.write(Share::Service, (self.clone(), value, lost.to_vec()), |tx, (vault, value, lost)| {
            async move {
                vault_check::insert(tx, value).await?;
                // Another node may have stored its own value first, with another key.
                let stored = vault_check::find(tx).await?.unwrap_or_default();
                if !vault.check(&stored, lost)? {
                    vault_check::replace(tx, value).await?;
                }
                Ok(())
            }
            .boxed()
        })
        .await
    }

    /// Marks for renewal the values of lost keys that only the service can replace: certificates, and the ACME account
    /// that orders them.
    async fn give_up(&self, db: &Db, lost: &[String]) -> Result<(), DbError> {
        let lost: Vec<_> = lost.iter().filter(|lost| self.key_ids().all(|known| known != *lost)).cloned().collect();
        if lost.is_empty() {
            return Ok(());
        }
        db.write(Share::Service, lost, |tx, lost| {
            async move {
                for key in lost {
                    certificates::renew_sealed_with(tx, key).await?;
                    acme::forget_sealed_with(tx, key).await?;
                }
                Ok::<_, DbError>(())
            }
            .boxed()
        })
        .await
    }

    /// Fails if values are encrypted with keys that are neither known nor lost.
    fn check_counts(&self, counts: &[KeyCount], lost: &[String]) -> Result<(), UnlockError> {
        let mut needed = BTreeMap::<&str, Vec<String>>::new();
        for count in counts {
            let Some(id) = count.key.as_deref() else { continue };
            if !self.key_ids().any(|known| known == id) && !lost.iter().any(|lost| lost == id) {
                needed.entry(id).or_default().push(count.column.in_words(count.values));
            }
        }
        if needed.is_empty() {
            return Ok(());
        }
        let values: Vec<_> = needed.iter().map(|(id, values)| format!("key {id} for {}", values.join(", "))).collect();
        let ids: Vec<_> = needed.into_keys().collect();
        Err(UnlockError::MissingKeys { needed: values.join("; "), ids: ids.join(",") })
    }
}

fn read_key(path: &Path) -> Result<MasterKey, KeyFileError> {
    let fail = |error| KeyFileError::File { path: path.to_owned(), error };
    let mut file = File::open(path).map_err(fail)?;
    check_mode(path, &file)?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut file, &mut text).map_err(fail)?;
    text.parse().map_err(|_| KeyFileError::NotAKey(path.to_owned()))
}

#[cfg(unix)]
fn check_mode(path: &Path, file: &File) -> Result<(), KeyFileError> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = file.metadata().map_err(|error| KeyFileError::File { path: path.to_owned(), error })?;
    let mode = metadata.permissions().mode() & 0o777;
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(KeyFileError::TooOpen { path: path.to_owned(), mode }),
    }
}

#[cfg(not(unix))]
fn check_mode(_: &Path, _: &File) -> Result<(), KeyFileError> {
    Ok(())
}

/// Creates the key file atomically, and never replaces an existing one.
fn create_key(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    private::create_dir(folder)?;
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let mut file = private::options().write(true).create(true).truncate(true).open(&part)?;
    writeln!(file, "{}", MasterKey::generate(&mut Random::system()).to_base64())?;
    file.sync_all()?;
    // A link, not a rename: when two processes start at once, the first one's key stays.
    match fs::hard_link(&part, path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::remove_file(&part)?;
    File::open(folder)?.sync_all()
}
