//! What a start on a developer's machine prints. The first creates an account and a sample link, and prints commands to try.
//!
//! The key goes to stdout once and never through the logger, because logs are kept.

use std::path::Path;

use deeplink_core::error::Invalid;
use deeplink_core::id::TenantId;
use deeplink_core::link::{Action, AgentContext, CreateLink, NewLink};
use deeplink_core::secret::SecretKey;
use deeplink_core::text::shell_word;
use futures_util::FutureExt;

use super::Failure;
use crate::api::links::new_link;
use crate::api::one_time_links::url;
use crate::caller::{Actor, Caller};
use crate::config::{DEFAULT_DATA_DIR, MailTransport};
use crate::db::accounts::{self, NewAccount};
use crate::db::links::{self, Inserted, Link};
use crate::db::one_time_links::{self, OneTimeLink};
use crate::db::users::{PLACEHOLDER, Standing};
use crate::db::{DbError, tenants};
use crate::shares::Share;
use crate::state::{App, Shared};

/// Creates an account if there is none, this is a loopback server on SQLite, and the settings do not forbid it. Returns the
/// text to print.
pub(super) async fn prepare(app: &Shared) -> Result<String, Failure> {
    let is_local = app.db.is_sqlite() && app.is_loopback;
    let accounts = tenants::first_two(&mut app.db.read().await?.conn()).await?;
    if !accounts.is_empty() {
        return Ok(if is_local { again(app, &accounts) } else { String::new() });
    }
    if !is_local || !app.config.first_account {
        tracing::info!("no account yet; create one with: deeplink-server tenant create --email you@example.com");
        return Ok(String::new());
    }
    let wrong = |error: Invalid| Failure::Refused(error.to_string());
    let email = PLACEHOLDER.parse().map_err(wrong)?;
    let now = app.clock.now();
    let account = app.random(|random| NewAccount::draw(email, Standing::Verified, now, random));
    let caller = Caller {
        by: Actor::Key(account.key.id.clone()),
        tenant: account.owner.tenant.clone(),
        affiliate: None,
        is_suspended: false,
    };
    let link = new_link(app, &caller, sample().map_err(wrong)?, None, now);
    let one_time = app.random(|random| OneTimeLink::draw(account.owner.tenant.clone(), now, random));
    let banner = banner(app, &account.key.key, &link, &one_time);
    store(app, account, link, one_time).await?;
    Ok(banner)
}

/// What a later start prints.
fn again(app: &App, accounts: &[TenantId]) -> String {
    if !app.config.sessions {
        return String::new();
    }
    let account = if let [only] = accounts { only.as_str() } else { "TENANT_ID" };
    format!(
        "
To print a one-time link that signs you in to an account in a browser:

  {command}

Data: {data}
{mails}Press Ctrl-C to stop the server.

",
        command = sign_in_command(app, account),
        data = app.config.data_dir.display(),
        mails = mails(app),
    )
}

/// The command that prints a sign-in link, as it can be run where this server was started.
fn sign_in_command(app: &App, account: &str) -> String {
    let program =
        std::env::args().next().filter(|path| path.contains('/')).unwrap_or_else(|| "deeplink-server".to_owned());
    let data = &app.config.data_dir;
    let options = if *data == Path::new(DEFAULT_DATA_DIR) {
        String::new()
    } else {
        let data = std::path::absolute(data).unwrap_or_else(|_| data.clone());
        format!(" \\\n    --data-dir {}", shell_word(&data.to_string_lossy()))
    };
    let program = shell_word(&program);
    format!("{program} tenant signin \\\n    --tenant {account}{options}")
}

/// A link that shows what a browser and an agent get.
fn sample() -> Result<NewLink, Invalid> {
    let context = AgentContext {
        action: Some(Action::Open),
        cta: Some("Try the sample link".to_owned()),
        description: Some("Created when the server first started, to show what a link tells an agent.".to_owned()),
    };
    CreateLink::new().web_url("https://example.com/").agent_context(context).check()
}

async fn store(app: &App, account: NewAccount, link: Link, one_time: OneTimeLink) -> Result<(), DbError> {
    app.db
        .write(Share::Service, (account, link, one_time), |tx, (account, link, one_time)| {
            async move {
                let opened = accounts::open(tx, account).await?;
                one_time_links::insert(tx, one_time).await?;
                tenants::count_links(tx, &link.tenant, 1, None).await?;
                // The database was empty, so neither the address nor the ID can be taken.
                if opened && links::insert(tx, link, true).await? == Inserted::Yes {
                    Ok(())
                } else {
                    Err(DbError::corrupt("tenants", "id", account.owner.tenant.as_str()))
                }
            }
            .boxed()
        })
        .await
}

fn banner(app: &App, key: &SecretKey, link: &Link, one_time: &OneTimeLink) -> String {
    let base = app.public_url.as_str().trim_end_matches('/');
    let url = app.url_of(link, None);
    let key = key.expose();
    format!(
        "
This is the server's first start, so it created an account. The secret key is
shown only once:

  {key}

Log in with the dl command-line tool, which prompts for the key:

  dl login --with-key --base-url {base}

Create a link:

  curl {base}/v1/links \\
    -H 'Authorization: Bearer {key}' \\
    -H 'Content-Type: application/json' \\
    -d '{{\"web_url\": \"https://example.com/\"}}'

{in_a_browser}Open the sample link in a browser, or request it as an AI agent does:

  {url}
  curl -H 'Accept: application/json' {url}

{expiry}Documentation: {base}/docs
Data: {data}
{mails}Press Ctrl-C to stop the server.

",
        data = app.config.data_dir.display(),
        in_a_browser = in_a_browser(app, one_time),
        expiry = expiry(app.config.unverified_link_ttl_days),
        mails = mails(app),
    )
}

/// How to sign in to the account in a browser.
fn in_a_browser(app: &App, one_time: &OneTimeLink) -> String {
    if !app.config.sessions {
        return String::new();
    }
    format!(
        "Open this account in a browser and enter your email address there; no email is
sent. The link works only once and expires after {hours} hours:

  {url}

To print another one-time link:

  {command}

",
        hours = one_time_links::LINK_HOURS,
        command = sign_in_command(app, one_time.tenant.as_str()),
        url = url(&app.public_url, &one_time.token),
    )
}

/// Where emails are, if they are files on this machine.
fn mails(app: &App) -> String {
    match app.config.mail_at(&app.public_url) {
        Some(MailTransport::Directory(folder)) => format!("Emails: files in {}\n", folder.display()),
        Some(MailTransport::Smtp(_)) | None => String::new(),
    }
}

/// How long links last without a verified domain.
fn expiry(days: u32) -> String {
    if days == 0 {
        return String::new();
    }
    format!(
        "Links expire {days} days after they are created, unless the account has a verified
domain. To create links that never expire, start the server with
DEEPLINK_UNVERIFIED_LINK_TTL_DAYS=0; this applies to new links.

"
    )
}
