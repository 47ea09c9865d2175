//! `tenant`: accounts that the operator opens.

use std::sync::Arc;

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::secret::Random;
use deeplink_core::user::Email;
use futures_util::FutureExt;

use super::{Failure, open_beside, output};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::accounts::{self, NewAccount};
use crate::db::users::Standing;
use crate::db::{DbError, WriteError};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Opens an account and prints its first key; makes the database when there is none
    Create(Create),
}

#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// The owner's address; it counts as verified, because the operator vouches for it
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    email: Email,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

fn address(text: &str) -> Result<Email, Invalid> {
    text.parse()
}

pub(super) async fn run(command: Command, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let Command::Create(create) = command;
    let account = NewAccount::draw(create.email, Standing::Verified, clock.now(), &mut Random::system());
    let opened = account.opened();
    let db = open_beside(config).await?;
    let stored = db
        .write({
            let account = Arc::new(account);
            move |mut tx| {
                let account = Arc::clone(&account);
                async move { if accounts::open(&mut tx, &account).await? { Ok(()) } else { Err(Refusal::Exists) } }
                    .boxed()
            }
        })
        .await;
    db.close().await;
    stored.map_err(|refusal| match refusal {
        Refusal::Exists => {
            Failure::Refused(format!("{}: an account with this address exists already", ErrorCode::EmailExists))
        }
        Refusal::Database(error) => error.into(),
    })?;
    if create.json {
        let json = serde_json::to_string(&opened).map_err(|error| Failure::Refused(error.to_string()))?;
        output::say(&format!("{json}\n"));
    } else {
        let key = opened.api_key.expose();
        output::say(&format!("tenant_id  {}\nuser_id    {}\napi_key    {key}\n", opened.tenant_id, opened.user_id));
        output::complain("The key is not shown again.");
    }
    Ok(())
}

enum Refusal {
    Exists,
    Database(DbError),
}

impl From<DbError> for Refusal {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

impl WriteError for Refusal {
    fn database(&self) -> Option<&DbError> {
        if let Self::Database(error) = self { Some(error) } else { None }
    }
}
