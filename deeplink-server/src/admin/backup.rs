//! `backup` and `restore`: copies of a SQLite database. PostgreSQL has tools of its own.

use std::path::{Path, PathBuf};

use super::{Failure, output};
use crate::config::Config;
use crate::db;

#[derive(Debug, clap::Args)]
pub(super) struct Into {
    /// The file to make; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(super) struct From {
    /// A file that `backup` made
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

fn sqlite_only<'a>(config: &'a Config, instead: &str) -> Result<&'a Path, Failure> {
    let told = || Failure::Usage(format!("this database is PostgreSQL, which has its own tool: {instead}"));
    config.database.sqlite_path().ok_or_else(told)
}

pub(super) async fn run(into: &Into, config: &Config) -> Result<(), Failure> {
    let database = sqlite_only(config, "pg_dump --format=custom --file=FILE \"$DEEPLINK_DATABASE_URL\"")?;
    db::backup(database, &into.file).await?;
    output::say(&format!("{}\n", into.file.display()));
    if config.master_keys.is_empty() {
        output::complain(&format!(
            "Keep {} as well, away from this copy: it opens what is sealed in it.",
            config.key_file().display()
        ));
    }
    Ok(())
}

pub(super) async fn restore(from: &From, config: &Config) -> Result<(), Failure> {
    let database = sqlite_only(config, "pg_restore --clean --dbname=\"$DEEPLINK_DATABASE_URL\" FILE")?;
    db::restore(database, &from.file).await?;
    output::say(&format!("{} now holds what {} holds\n", database.display(), from.file.display()));
    Ok(())
}
