//! Aliases of links: given to new ones, and replaced.

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::id::TenantId;
use deeplink_core::link::{Alias, alias_field};
use deeplink_core::time::Timestamp;

use crate::db::Conn;
use crate::db::aliases::{self, Giving, NewAlias};
use crate::db::links::Link;
use crate::error::ApiError;
use crate::state::App;

/// Gives new aliases to links of an account, and returns those that are taken, by index.
pub(super) async fn give(
    app: &App,
    tx: &mut Conn<'_>,
    tenant: &TenantId,
    new: &[NewAlias<'_>],
    now: Timestamp,
) -> Result<Vec<usize>, ApiError> {
    let draw = |count: usize| -> Vec<i64> { app.positions.draw(now, count).collect() };
    Ok(aliases::give(tx, &Giving { tenant, now, draw }, new).await?)
}

/// Gives new aliases to a link of an account whose verified primary domain is `primary`. `asked` are the aliases of the
/// request.
pub(super) async fn give_to(
    app: &App,
    tx: &mut Conn<'_>,
    link: &Link,
    aliases: &[&Alias],
    asked: &[String],
    primary: Option<&str>,
    now: Timestamp,
) -> Result<(), ApiError> {
    check_domain(!aliases.is_empty(), primary)?;
    match give_free(app, tx, link, aliases, now).await?.first() {
        Some(alias) => Err(taken(tx, &link.tenant, alias, asked).await?.into()),
        None => Ok(()),
    }
}

/// Gives new aliases to a link, and returns those that are taken.
async fn give_free<'a>(
    app: &App,
    tx: &mut Conn<'_>,
    link: &Link,
    aliases: &[&'a Alias],
    now: Timestamp,
) -> Result<Vec<&'a Alias>, ApiError> {
    let new: Vec<NewAlias<'_>> = aliases.iter().map(|alias| (link.position, *alias)).collect();
    let taken = give(app, tx, &link.tenant, &new, now).await?;
    Ok(taken.into_iter().map(|at| aliases[at]).collect())
}

/// Gives a link the aliases of its content, which are those of the request, instead of those that it has.
pub(super) async fn replace(
    app: &App,
    tx: &mut Conn<'_>,
    link: &Link,
    held: &[Alias],
    asked: &[String],
    primary: Option<&str>,
    now: Timestamp,
) -> Result<(), ApiError> {
    let new = take_others(tx, link, held).await?;
    give_to(app, tx, link, &new, asked, primary, now).await
}

/// Gives a link the aliases of its content that are still free instead of those that it has, and removes the others from its
/// content.
pub(super) async fn restore(
    app: &App,
    tx: &mut Conn<'_>,
    link: &mut Link,
    held: &[Alias],
    now: Timestamp,
) -> Result<(), ApiError> {
    let new = take_others(tx, link, held).await?;
    let taken: Vec<Alias> = give_free(app, tx, link, &new, now).await?.into_iter().cloned().collect();
    link.content.aliases.retain(|alias| !taken.contains(alias));
    Ok(())
}

/// Takes from a link the aliases that are not in its content, and returns those that are new.
async fn take_others<'l>(tx: &mut Conn<'_>, link: &'l Link, held: &[Alias]) -> Result<Vec<&'l Alias>, ApiError> {
    let wanted = &link.content.aliases;
    let gone: Vec<&Alias> = held.iter().filter(|alias| !wanted.contains(alias)).collect();
    aliases::take(tx, link.position, &gone).await?;
    Ok(wanted.iter().filter(|alias| !held.contains(alias)).collect())
}

/// Refuses new aliases to an account without a verified primary domain, whose links have no host of its own.
pub(super) fn check_domain(has_new: bool, primary: Option<&str>) -> Result<(), Invalid> {
    if !has_new || primary.is_some() {
        return Ok(());
    }
    let message = "aliases require a verified primary domain; add and verify one first";
    Err(Invalid::field(ErrorCode::InvalidAlias, "aliases", message))
}

/// The error for an alias that leads to a link already, of a request with the aliases `asked`.
pub(super) async fn taken(
    tx: &mut Conn<'_>,
    tenant: &TenantId,
    alias: &Alias,
    asked: &[String],
) -> Result<Invalid, ApiError> {
    let field = alias_field(asked, alias);
    let alias = alias.as_str();
    let link_id = aliases::resolved(tx, tenant, alias).await?;
    let message = if link_id == alias {
        format!("the alias \"{alias}\" is the ID of a link")
    } else {
        format!("the alias \"{alias}\" already leads to the link \"{link_id}\"")
    };
    Ok(Invalid::field(ErrorCode::AliasTaken, field, message))
}

impl App {
    /// Drops what is cached of an account's new aliases: that they lead nowhere.
    pub(super) fn forget_aliases<'a>(&self, tenant: &TenantId, aliases: impl IntoIterator<Item = &'a str>) {
        for alias in aliases {
            self.links.drop_link(tenant.as_str(), alias);
        }
    }
}
