//! The first run on somebody's own machine: an account, a link to try, and the commands to try it with.
//!
//! The key goes to stdout once and never through the logger, whose lines are kept.

use std::sync::Arc;

use deeplink_core::error::Invalid;
use deeplink_core::link::{Action, AgentContext, CreateLink, NewLink};
use deeplink_core::secret::SecretKey;
use futures_util::FutureExt;

use super::Failure;
use crate::api::links::new_link;
use crate::db::accounts::{self, NewAccount};
use crate::db::links::{self, Inserted, Link};
use crate::db::users::Standing;
use crate::db::{DbError, tenants};
use crate::http::auth::{Actor, Caller};
use crate::state::{App, Shared};

/// Nobody can have this address: `invalid` is a domain that will never exist (RFC 2606).
const OWNER: &str = "owner@deeplink.invalid";

/// Makes an account when there is none and this is somebody's own machine, and says how to go on.
pub(super) async fn prepare(app: &Shared) -> Result<Option<String>, Failure> {
    if tenants::any(&mut app.db.read().await?.conn()).await? {
        return Ok(None);
    }
    if !app.db.is_sqlite() || !app.is_loopback {
        tracing::info!("there is no account yet; open one with: deeplink-server tenant create --email you@example.com");
        return Ok(None);
    }
    let wrong = |error: Invalid| Failure::Refused(error.to_string());
    let email = OWNER.parse().map_err(wrong)?;
    let now = app.clock.now();
    let account = app.random(|random| NewAccount::draw(email, Standing::Verified, now, random));
    let caller =
        Caller { by: Actor::Key(account.key.id.clone()), tenant: account.owner.tenant.clone(), affiliate: None };
    let link = new_link(app, &caller, sample().map_err(wrong)?, None, now);
    let banner = banner(app, &account.key.key, &link);
    store(app, account, link).await?;
    Ok(Some(banner))
}

/// A link that shows what a person and a program get.
fn sample() -> Result<NewLink, Invalid> {
    let context = AgentContext {
        action: Some(Action::Open),
        cta: Some("Try the sample link".to_owned()),
        description: Some("Made at the first start, to show what a link tells a program.".to_owned()),
    };
    CreateLink::new().web_url("https://example.com/").agent_context(context).check()
}

async fn store(app: &App, account: NewAccount, link: Link) -> Result<(), DbError> {
    let job = Arc::new((account, link));
    app.db
        .write(move |mut tx| {
            let job = Arc::clone(&job);
            async move {
                let (account, link) = &*job;
                let opened = accounts::open(&mut tx, account).await?;
                tenants::count_links(&mut tx, &link.tenant, 1, false).await?;
                // The database was empty, so neither the address nor the id can be taken.
                if opened && links::insert(&mut tx, link, true).await? == Inserted::Yes {
                    Ok(())
                } else {
                    Err(DbError::corrupt("tenants", "id", account.owner.tenant.as_str()))
                }
            }
            .boxed()
        })
        .await
}

fn banner(app: &App, key: &SecretKey, link: &Link) -> String {
    let base = app.public_url.as_str().trim_end_matches('/');
    let url = app.url_of(link, None);
    let key = key.expose();
    format!(
        "
This is the first run, so there is an account now. Its secret key is shown this once:

  {key}

Log in with the command line, which asks for the key:

  dl login --with-key --base-url {base}

Make a link:

  curl {base}/v1/links \\
    -H 'Authorization: Bearer {key}' \\
    -H 'Content-Type: application/json' \\
    -d '{{\"web_url\": \"https://example.com/\"}}'

In a browser, {base}/signin opens an account of your own. To reach this one there, let it invite
you first, and then press the button in the mail, which is a file in {data}/mail:

  dl team invite you@example.com

Open the sample link in a browser, or ask it as a program does:

  {url}
  curl -H 'Accept: application/json' {url}

The interface is described at {base}/docs. Ctrl-C stops the service; {data} keeps everything.

",
        data = app.config.data_dir.display(),
    )
}
