//! Looks after domains: verified ones are asked for in DNS every day, claims that nobody proves end after a week.
//!
//! A re-check is claimed in the database before DNS is asked, so several nodes share the work and none does it twice.
//! Only what DNS surely says counts against a domain; a name server that fails, hangs or is not there changes nothing.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::id::MailId;
use deeplink_core::time::Timestamp;
use futures_util::{FutureExt, StreamExt, stream};

use super::link_expiry;
use super::mail::Mail;
use crate::db::domain_proofs::{self, Due};
use crate::db::{Conn, DbError, domains, mails, users};
use crate::state::{App, Shared};

/// Days until an unproved claim ends.
pub(crate) const CLAIM_DAYS: i64 = 7;

/// How often it is looked whether anything is due.
const LOOK: Duration = Duration::from_secs(15);
/// How long no other node asks for a domain that was taken: longer than all answers of one round take.
const LEASE_MILLIS: i64 = 60_000;
/// Questions at one time.
const AT_ONCE: usize = 8;
/// After how long DNS is asked again when nobody could say anything.
const AGAIN_MILLIS: i64 = 3_600_000;
const DAY_MILLIS: i64 = 24 * 3_600_000;
/// By how much the days of two domains differ at most, so that they do not come all at once.
const SPREAD_MILLIS: u64 = 3_600_000;
/// For how long a mail about a lost domain is tried.
const MAIL_DAYS: i64 = 3;

pub(super) async fn run(app: Weak<App>) {
    loop {
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        let now = app.clock.now();
        if let Err(error) = look(&app).await {
            tracing::warn!(%error, "domains cannot be looked after; it is tried again");
        }
        let clock = app.clock.clone();
        drop(app);
        clock.pause(LOOK, now).await;
    }
}

async fn look(app: &Shared) -> Result<(), DbError> {
    link_expiry::resume(app).await?;
    end_claims(app).await?;
    while round(app).await? {}
    Ok(())
}

/// Ends the claims that nobody proved in time.
async fn end_claims(app: &App) -> Result<(), DbError> {
    let since = app.clock.now().plus_days(-CLAIM_DAYS);
    loop {
        let tenants = domains::with_lapsed_claims(&mut app.db.read().await?.conn(), since).await?;
        if tenants.is_empty() {
            return Ok(());
        }
        for tenant in tenants {
            app.db
                .write(move |mut tx| {
                    let tenant = tenant.clone();
                    async move { domains::lapse(&mut tx, &tenant, since).await }.boxed()
                })
                .await?;
        }
    }
}

/// Makes some re-checks that are due; `true` when there may be more.
async fn round(app: &Shared) -> Result<bool, DbError> {
    let now = app.clock.now();
    if !domain_proofs::any_due(&mut app.db.read().await?.conn(), now).await? {
        return Ok(false);
    }
    let until = now.plus_millis(LEASE_MILLIS);
    let claimed =
        app.db.write(move |mut tx| async move { domain_proofs::claim_due(&mut tx, now, until).await }.boxed()).await?;
    let checks = claimed.into_iter().map(|due| check(app, due, until));
    let said: Vec<_> = stream::iter(checks).buffer_unordered(AT_ONCE).collect().await;
    let said = said.into_iter().collect::<Result<Vec<_>, _>>()?;
    // While nobody answers at all, one round at each look is enough.
    Ok(said.iter().any(|said| *said != Said::Nothing))
}

/// What DNS said of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Proved,
    NotProved,
    Nothing,
}

async fn check(app: &Shared, due: Due, until: Timestamp) -> Result<Said, DbError> {
    let said = match app.dns.txt(&due.name.txt_record()).await {
        Ok(found) if found.values.contains(&due.token) => Said::Proved,
        Ok(_) => Said::NotProved,
        Err(error) => {
            tracing::info!(domain = %due.name, %error, "a domain could not be looked up; it stays as it is");
            Said::Nothing
        }
    };
    settle(app, due, until, said).await?;
    Ok(said)
}

/// Keeps what was said. Runs to its end, because caches must forget a domain that is lost.
async fn settle(app: &Shared, due: Due, until: Timestamp, said: Said) -> Result<(), DbError> {
    let (now, check_at) = (app.clock.now(), next_check(app));
    let lost = app
        .db
        .write({
            let (app, due) = (Shared::clone(app), due.clone());
            move |mut tx| {
                let (app, due) = (Shared::clone(&app), due.clone());
                async move {
                    match said {
                        Said::Proved => domain_proofs::seen(&mut tx, &due.id, &due.token, check_at).await?,
                        Said::Nothing => {
                            domain_proofs::put_off(&mut tx, &due, now.plus_millis(AGAIN_MILLIS)).await?;
                        }
                        Said::NotProved => {
                            if domain_proofs::missed(&mut tx, &due, until, now, check_at).await? {
                                tell_owners(&app, &mut tx, &due, now).await?;
                                return Ok(true);
                            }
                        }
                    }
                    Ok::<_, DbError>(false)
                }
                .boxed()
            }
        })
        .await?;
    if lost {
        app.forget_host(&due.name, &due.tenant);
        app.mail_waits.notify_one();
        tracing::warn!(domain = %due.name, tenant = %due.tenant, "a domain's proof is gone from DNS; it is a claim again");
    }
    Ok(())
}

/// When a verified domain is asked for next: after a day, or up to an hour earlier.
pub(crate) fn next_check(app: &App) -> Timestamp {
    let earlier = i64::try_from(app.random(|random| random.below(SPREAD_MILLIS))).unwrap_or(0);
    app.clock.now().plus_millis(DAY_MILLIS - earlier)
}

async fn tell_owners(app: &App, tx: &mut Conn<'_>, due: &Due, now: Timestamp) -> Result<(), DbError> {
    if app.config.mail_at(&app.public_url).is_none() {
        tracing::warn!(domain = %due.name, "mail is not set up, so nobody is told that the domain is lost");
        return Ok(());
    }
    for owner in users::owners_of(tx, &due.tenant).await? {
        let id = app.random(|random| MailId::new(now, random));
        let sealed = Mail::domain_lost(owner, &due.name, &due.token, now.plus_days(CLAIM_DAYS)).seal(&app.vault, &id);
        mails::insert(tx, &id, &sealed, now, now.plus_days(MAIL_DAYS)).await?;
    }
    Ok(())
}
