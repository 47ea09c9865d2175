//! Loads the server keys, and verifies with a check value that they match the database.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use deeplink_core::secret::Random;
use futures_util::FutureExt;
use url::Url;

use super::{DecryptError, MasterKey, Vault};
use crate::config::{Config, is_loopback};
use crate::db::{Db, DbError, acme, certificates, mails, payments, replies, sources, vault_check, webhooks};

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
    #[error("{} does not contain a server key (32 bytes in base64)", .0.display())]
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

/// Why the server keys cannot be used with this database.
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
    /// The check value cannot be decrypted.
    #[error("the server keys do not match this database: {0}")]
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
        let known = vault_check::find(&mut db.read().await?.conn()).await?;
        if let KeyCheck::NoKeyFile = Self::check_keys(config, public_url, known.as_deref())? {
            let path = config.key_file();
            create_key(&path).map_err(|error| KeyFileError::File { path, error })?;
        }
        // Checked again, because two processes may have created the file at the same time.
        match Self::check_keys(config, public_url, known.as_deref())? {
            KeyCheck::Valid(vault) => {
                if known.is_none_or(|known| !vault.is_current(&known)) {
                    vault.reencrypt(db).await?;
                }
                Ok(*vault)
            }
            KeyCheck::NoKeyFile => Err(UnlockError::KeyFileMissing(config.key_file())),
        }
    }

    /// Loads the keys and tries them on the check value. Changes nothing.
    pub(crate) fn check_keys(config: &Config, public_url: &Url, known: Option<&str>) -> Result<KeyCheck, UnlockError> {
        let vault = match config.master_keys.split_first() {
            Some((first, older)) => Self::of(first, older),
            None if config.database.sqlite_path().is_none() && !is_loopback(public_url) => {
                return Err(UnlockError::MustBeSet);
            }
            None => match read_key(&config.key_file()) {
                Err(KeyFileError::File { path, error }) if error.kind() == ErrorKind::NotFound => {
                    return if known.is_some() {
                        Err(UnlockError::KeyFileMissing(path))
                    } else {
                        Ok(KeyCheck::NoKeyFile)
                    };
                }
                key => Self::of(&key?, &[]),
            },
        };
        known.map(|known| vault.check(known)).transpose()?;
        Ok(KeyCheck::Valid(Box::new(vault)))
    }

    /// Whether the check value is encrypted with the first key; an error if it cannot be decrypted.
    fn check(&self, value: &str) -> Result<bool, UnlockError> {
        match self.open("service", vault_check::NAME, value) {
            Ok(plain) if plain == CHECK => Ok(self.is_current(value)),
            Ok(_) => Err(UnlockError::WrongKeys(DecryptError::Invalid)),
            Err(error) => Err(UnlockError::WrongKeys(error)),
        }
    }

    /// A value re-encrypted with the first key; `None` if it is current already or cannot be decrypted.
    fn renewed(&self, table: &str, row: &str, sealed: &str) -> Option<String> {
        if self.is_current(sealed) {
            return None;
        }
        self.open(table, row, sealed).ok().map(|plain| self.seal(table, row, &plain))
    }

    /// Re-encrypts everything with the first key, so that older ones can be removed.
    async fn reencrypt(&self, db: &Db) -> Result<(), UnlockError> {
        db.write(self.clone(), |tx, vault| {
            async move {
                let value = vault.seal("service", vault_check::NAME, CHECK);
                vault_check::insert(tx, &value).await?;
                // Another node may have stored its own value first, with another key.
                let stored = vault_check::find(tx).await?.unwrap_or_default();
                if !vault.check(&stored)? {
                    vault_check::replace(tx, &value).await?;
                }
                for (id, sealed) in mails::all_sealed(tx).await? {
                    if let Some(sealed) = vault.renewed("mails", &id, &sealed) {
                        mails::reseal(tx, &id, &sealed).await?;
                    }
                }
                for (id, sealed) in certificates::all_sealed(tx).await? {
                    if let Some(sealed) = vault.renewed("certificates", &id, &sealed) {
                        certificates::reseal(tx, &id, &sealed).await?;
                    }
                }
                for (directory, sealed) in acme::all_sealed(tx).await? {
                    if let Some(sealed) = vault.renewed("acme_accounts", &directory, &sealed) {
                        acme::reseal(tx, &directory, &sealed).await?;
                    }
                }
                for (id, sealed) in replies::all_sealed(tx).await? {
                    if let Some(sealed) = vault.renewed("replies", &id, &sealed) {
                        replies::reseal(tx, &id, &sealed).await?;
                    }
                }
                for (id, sealed) in sources::all_sealed(tx).await? {
                    if let Some(sealed) = vault.renewed("sources", &id, &sealed) {
                        sources::reseal(tx, &id, &sealed).await?;
                    }
                }
                for (id, payment, body) in payments::all_sealed(tx).await? {
                    let renew = |sealed: &Option<String>| vault.renewed("payments", &id, sealed.as_deref()?);
                    let renewed = (renew(&payment), renew(&body));
                    if renewed.0.is_some() || renewed.1.is_some() {
                        let (payment, body) = (renewed.0.or(payment), renewed.1.or(body));
                        payments::reseal(tx, &id, payment.as_deref(), body.as_deref()).await?;
                    }
                }
                for secrets in webhooks::all_sealed(tx).await? {
                    let renew = |sealed: &str| vault.renewed("webhooks", &secrets.id, sealed);
                    let now = renew(&secrets.sealed);
                    let before = secrets.before.as_deref().and_then(renew);
                    if now.is_some() || before.is_some() {
                        let (now, before) = (now.unwrap_or(secrets.sealed), before.or(secrets.before));
                        webhooks::reseal(tx, &secrets.id, &now, before.as_deref()).await?;
                    }
                }
                Ok(())
            }
            .boxed()
        })
        .await
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
    fs::create_dir_all(folder)?;
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&part)?;
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
