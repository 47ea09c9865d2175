//! `clicks load`: loads the click journal of a permanently lost node.

use std::path::PathBuf;

use super::{Failure, output};
use crate::clicks;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{Access, Db};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Loads the clicks of a journal into the database, each exactly once, and removes its files
    ///
    /// DIR is the `clicks` directory in a node's data directory, or a copy of it. It must not be in use by a server.
    /// With SQLite, first stop the deeplink server that uses the database; it loads its own journal when it starts.
    Load {
        /// Directory of the journal
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

pub(super) async fn run(command: &Command, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let Command::Load { folder } = command;
    if !folder.is_dir() {
        return Err(Failure::Usage(format!("{} is not a directory", folder.display())));
    }
    // On a SQLite file positions are drawn in the memory of the one process that serves it.
    let db = Db::open(config.database.as_str(), Access::Serve, config.database_timeout).await?;
    let loaded = clicks::load_folder(&db, clock.clone(), folder, config.enforce_quotas).await;
    db.close().await;
    let loaded = loaded.map_err(|error| Failure::Refused(error.to_string()))?;
    output::print(&format!("clicks loaded from {}: {loaded}\n", folder.display()));
    Ok(())
}
