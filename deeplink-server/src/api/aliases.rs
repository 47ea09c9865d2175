//! Aliases of links: given to new ones, and replaced.

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::id::TenantId;
use deeplink_core::link::Alias;
use deeplink_core::time::Timestamp;

use crate::db::Conn;
use crate::db::aliases::{self, Giving, NewAlias};
use crate::db::links::Link;
use crate::error::ApiError;
use crate::state::App;

/// Gives new aliases to links of an account whose verified primary domain is `primary`. Returns those that are taken, by
/// index; if there are any, the write must fail.
pub(super) async fn give(
    app: &App,
    tx: &mut Conn<'_>,
    (tenant, primary): (&TenantId, Option<&str>),
    new: &[NewAlias<'_>],
    now: Timestamp,
) -> Result<Vec<usize>, ApiError> {
    let draw = |count: usize| -> Vec<i64> { app.positions.draw(now, count).collect() };
    let giving = Giving { tenant, must_claim: primary.is_none(), now, draw };
    Ok(aliases::give(tx, &giving, new).await?)
}

/// The same for one link.
pub(super) async fn give_to(
    app: &App,
    tx: &mut Conn<'_>,
    link: &Link,
    aliases: &[&Alias],
    primary: Option<&str>,
    now: Timestamp,
) -> Result<(), ApiError> {
    let new: Vec<NewAlias<'_>> = aliases.iter().map(|alias| (link.position, *alias)).collect();
    match give(app, tx, (&link.tenant, primary), &new, now).await?.first() {
        Some(at) => Err(taken(aliases[*at]).into()),
        None => Ok(()),
    }
}

/// Gives a link the aliases of its content instead of those that it has.
pub(super) async fn replace(
    app: &App,
    tx: &mut Conn<'_>,
    link: &Link,
    held: &[Alias],
    primary: Option<&str>,
    now: Timestamp,
) -> Result<(), ApiError> {
    let wanted = &link.content.aliases;
    let gone: Vec<&Alias> = held.iter().filter(|alias| !wanted.contains(alias)).collect();
    let new: Vec<&Alias> = wanted.iter().filter(|alias| !held.contains(alias)).collect();
    aliases::take(tx, link.position, &gone).await?;
    give_to(app, tx, link, &new, primary, now).await
}

/// The error for an alias that leads to another link already.
pub(super) fn taken(alias: &Alias) -> Invalid {
    let message = format!("the alias \"{}\" is already in use", alias.as_str());
    Invalid::field(ErrorCode::AliasTaken, "aliases", message)
}

impl App {
    /// Drops what is cached of an account's new aliases: that they lead nowhere.
    pub(super) fn forget_aliases<'a>(&self, tenant: &TenantId, aliases: impl IntoIterator<Item = &'a str>) {
        for alias in aliases {
            self.links.drop_link(tenant.as_str(), alias);
        }
    }
}
