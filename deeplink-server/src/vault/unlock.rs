//! Where the server keys come from, and the check value that stops a node which has other ones.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use deeplink_core::secret::Random;
use futures_util::FutureExt;
use url::Url;

use super::{MasterKey, Unopened, Vault};
use crate::config::{Config, is_loopback};
use crate::db::{Db, DbError, acme, certificates, mails, replies, sources, vault_check, webhooks};

const CHECK: &[u8] = b"deeplink";

/// Why the key file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// Others than its owner may read or write it.
    #[error("{} can be used by others than its owner (mode {mode:03o}); run: chmod 600 {}", path.display(), path.display())]
    TooOpen {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It holds something else.
    #[error("{} does not hold a server key: 32 bytes in base64 are expected", .0.display())]
    NotAKey(PathBuf),
    /// It cannot be read or made.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
}

/// Why a node may not use this database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnlockError {
    /// The key file cannot be used.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// The database is in use with a key, and the file with it is gone.
    #[error(
        "{} is missing, and what this database keeps was sealed with the key in it; put the file back or set \
         DEEPLINK_MASTER_KEY",
        .0.display()
    )]
    KeyFileMissing(PathBuf),
    /// Several nodes share the database, so a key file of one of them will not do.
    #[error(
        "DEEPLINK_MASTER_KEY must be set with PostgreSQL, the same on every node; make one with: openssl rand -base64 32"
    )]
    MustBeSet,
    /// The check value does not open.
    #[error("the server keys set here are not those of this database: {0}")]
    WrongKeys(Unopened),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DbError),
}

/// What became of trying the keys.
#[derive(Debug)]
pub(crate) enum Proof {
    /// They fit, or nothing is sealed yet.
    Opens(Box<Vault>),
    /// No key is set, and none was ever used.
    FileIsMissing,
}

impl crate::db::WriteError for UnlockError {
    fn database(&self) -> Option<&DbError> {
        if let Self::Database(error) = self { Some(error) } else { None }
    }
}

impl Vault {
    /// Takes the keys from the settings or the key file, which is made for a database that no key has sealed yet, and
    /// proves that they open what the database keeps.
    pub async fn unlock(config: &Config, db: &Db, public_url: &Url) -> Result<Self, UnlockError> {
        let known = vault_check::find(&mut db.read().await?.conn()).await?;
        if let Proof::FileIsMissing = Self::prove(config, public_url, known.as_deref())? {
            let path = config.key_file();
            make_key(&path).map_err(|error| KeyFileError::File { path, error })?;
        }
        // Proved again, because two processes may have made the file at the same time.
        match Self::prove(config, public_url, known.as_deref())? {
            Proof::Opens(vault) => {
                if known.is_none_or(|known| !vault.is_current(&known)) {
                    vault.take_over(db).await?;
                }
                Ok(*vault)
            }
            Proof::FileIsMissing => Err(UnlockError::KeyFileMissing(config.key_file())),
        }
    }

    /// Takes the keys from where they are and tries them on the check value. Changes nothing.
    pub(crate) fn prove(config: &Config, public_url: &Url, known: Option<&str>) -> Result<Proof, UnlockError> {
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
                        Ok(Proof::FileIsMissing)
                    };
                }
                key => Self::of(&key?, &[]),
            },
        };
        known.map(|known| vault.check(known)).transpose()?;
        Ok(Proof::Opens(Box::new(vault)))
    }

    /// Whether the check value opens, and with the key that seals now.
    fn check(&self, value: &str) -> Result<bool, UnlockError> {
        match self.open("service", vault_check::NAME, value) {
            Ok(plain) if plain == CHECK => Ok(self.is_current(value)),
            Ok(_) => Err(UnlockError::WrongKeys(Unopened::Broken)),
            Err(error) => Err(UnlockError::WrongKeys(error)),
        }
    }

    /// What is sealed with an older key, sealed with the first one. What does not open stays as it is.
    fn renewed(&self, table: &str, row: &str, sealed: &str) -> Option<String> {
        if self.is_current(sealed) {
            return None;
        }
        self.open(table, row, sealed).ok().map(|plain| self.seal(table, row, &plain))
    }

    /// Seals everything with the first key, so that an older one can be taken away.
    async fn take_over(&self, db: &Db) -> Result<(), UnlockError> {
        let vault = self.clone();
        db.write(move |mut tx| {
            let vault = vault.clone();
            async move {
                let value = vault.seal("service", vault_check::NAME, CHECK);
                vault_check::insert(&mut tx, &value).await?;
                // Another node may have been faster, with another key.
                let stored = vault_check::find(&mut tx).await?.unwrap_or_default();
                if !vault.check(&stored)? {
                    vault_check::replace(&mut tx, &value).await?;
                }
                for (id, sealed) in mails::all_sealed(&mut tx).await? {
                    if let Some(sealed) = vault.renewed("mails", &id, &sealed) {
                        mails::reseal(&mut tx, &id, &sealed).await?;
                    }
                }
                for (id, sealed) in certificates::all_sealed(&mut tx).await? {
                    if let Some(sealed) = vault.renewed("certificates", &id, &sealed) {
                        certificates::reseal(&mut tx, &id, &sealed).await?;
                    }
                }
                for (directory, sealed) in acme::all_sealed(&mut tx).await? {
                    if let Some(sealed) = vault.renewed("acme_accounts", &directory, &sealed) {
                        acme::reseal(&mut tx, &directory, &sealed).await?;
                    }
                }
                for (id, sealed) in replies::all_sealed(&mut tx).await? {
                    if let Some(sealed) = vault.renewed("replies", &id, &sealed) {
                        replies::reseal(&mut tx, &id, &sealed).await?;
                    }
                }
                for (id, sealed) in sources::all_sealed(&mut tx).await? {
                    if let Some(sealed) = vault.renewed("sources", &id, &sealed) {
                        sources::reseal(&mut tx, &id, &sealed).await?;
                    }
                }
                for secrets in webhooks::all_sealed(&mut tx).await? {
                    let renew = |sealed: &str| vault.renewed("webhooks", &secrets.id, sealed);
                    let now = renew(&secrets.sealed);
                    let before = secrets.before.as_deref().and_then(renew);
                    if now.is_some() || before.is_some() {
                        let (now, before) = (now.unwrap_or(secrets.sealed), before.or(secrets.before));
                        webhooks::reseal(&mut tx, &secrets.id, &now, before.as_deref()).await?;
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
    refuse_others(path, &file)?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut file, &mut text).map_err(fail)?;
    text.parse().map_err(|_| KeyFileError::NotAKey(path.to_owned()))
}

#[cfg(unix)]
fn refuse_others(path: &Path, file: &File) -> Result<(), KeyFileError> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = file.metadata().map_err(|error| KeyFileError::File { path: path.to_owned(), error })?;
    let mode = metadata.permissions().mode() & 0o777;
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(KeyFileError::TooOpen { path: path.to_owned(), mode }),
    }
}

#[cfg(not(unix))]
fn refuse_others(_: &Path, _: &File) -> Result<(), KeyFileError> {
    Ok(())
}

/// Makes the key file, complete or not at all, and never in the place of another one.
fn make_key(path: &Path) -> std::io::Result<()> {
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
