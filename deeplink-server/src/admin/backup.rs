//! `backup` and `restore`: copies of a SQLite database. PostgreSQL has its own tools.

use std::path::{Path, PathBuf};

use super::{Failure, output};
use crate::config::Config;
use crate::db;

#[derive(Debug, clap::Args)]
pub(super) struct Into {
    /// File to create; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(super) struct From {
    /// File created by `backup`
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The advice names a service and not the database's URL: its password would be readable in the list of processes.
fn sqlite_only<'a>(config: &'a Config, instead: &str) -> Result<&'a Path, Failure> {
    let usage = || {
        Failure::Usage(format!(
            "this command is for SQLite; for PostgreSQL, define the database in ~/.pg_service.conf as [deeplink], \
             with its password in ~/.pgpass, and run: {instead}"
        ))
    };
    config.database.sqlite_path().ok_or_else(usage)
}

pub(super) async fn run(into: &Into, config: &Config) -> Result<(), Failure> {
    let database = sqlite_only(config, "(umask 077; pg_dump --format=custom --file=FILE --dbname=service=deeplink)")?;
    db::backup(database, &into.file).await?;
    output::print(&format!("{}\n", into.file.display()));
    if config.master_keys.is_empty() {
        output::print_error(&format!(
            "Back up {} as well and keep it separate: it decrypts the secrets in this backup.",
            config.key_file().display()
        ));
    }
    Ok(())
}

pub(super) async fn restore(from: &From, config: &Config) -> Result<(), Failure> {
    let database = sqlite_only(config, "pg_restore --clean --dbname=service=deeplink FILE")?;
    db::restore(database, &from.file).await?;
    output::print(&format!("restored {} from {}\n", database.display(), from.file.display()));
    Ok(())
}
