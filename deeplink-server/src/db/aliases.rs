//! Aliases of links. Each is a row of `links` whose ID is the alias, so that the unique index of IDs decides who has a name
//! on an account's hosts: an ID or an alias. On the service's own host there are only IDs. Lists skip these rows, because they
//! have `deleted_at`. Every function that changes them is called with the account's row locked.

use std::collections::HashSet;

use deeplink_core::id::TenantId;
use deeplink_core::link::Alias;
use deeplink_core::time::Timestamp;
use serde::Serialize;
use sqlx::AssertSqlSafe;

use super::sets::{padded_texts, placeholders};
use super::{Conn, DbError, execute, links, on};

/// Attempts to generate a position, in case another node generates the same one in the same millisecond.
const DRAWS: usize = 16;

/// Where aliases are given, and how.
pub(crate) struct Giving<'a, D> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) now: Timestamp,
    /// Makes the positions of new rows.
    pub(crate) draw: D,
}

/// A link, by its position, and an alias for it.
pub(crate) type NewAlias<'a> = (i64, &'a Alias);

/// A new row.
#[derive(Serialize)]
struct Row<'a> {
    alias: &'a str,
    position: i64,
    link: i64,
}

/// Gives aliases to links in one statement. Returns the aliases (by index) that are taken, by a link or as an alias: they are
/// not given, the others are.
pub(crate) async fn give<D: Fn(usize) -> Vec<i64>>(
    db: &mut Conn<'_>,
    giving: &Giving<'_, D>,
    aliases: &[NewAlias<'_>],
) -> Result<Vec<usize>, DbError> {
    if aliases.is_empty() {
        return Ok(Vec::new());
    }
    // In key order, so that two writes with common aliases wait for each other instead of deadlocking. A write that stores a
    // link first, whose ID another write gives as an alias and the other way round, can still deadlock on PostgreSQL; it is
    // run again, as after any deadlock.
    let mut order: Vec<usize> = (0..aliases.len()).collect();
    order.sort_by_key(|at| aliases[*at].1);
    let rows = order.iter().zip((giving.draw)(aliases.len())).map(|(at, position)| {
        let (link, alias) = aliases[*at];
        Row { alias: alias.as_str(), position, link }
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let stored: HashSet<i64> = insert(db, giving.tenant, &rows, giving.now).await?.into_iter().collect();
    let mut taken = Vec::new();
    for (at, row) in order.into_iter().zip(rows) {
        if !stored.contains(&row.position) && !insert_alone(db, giving, row).await? {
            taken.push(at);
        }
    }
    taken.sort_unstable();
    Ok(taken)
}

/// Inserts those rows that nothing is in the way of, and returns their positions.
async fn insert(db: &mut Conn<'_>, tenant: &TenantId, rows: &[Row<'_>], now: Timestamp) -> Result<Vec<i64>, DbError> {
    const SQLITE: &str = "
        INSERT INTO links (tenant_id, link_id, position, claimed, alias_of, created_at, updated_at, deleted_at)
        SELECT $1, value ->> 'alias', value ->> 'position', FALSE, value ->> 'link', $2, $2, $2
        FROM json_each($3) WHERE TRUE
        ON CONFLICT DO NOTHING RETURNING position";
    const POSTGRES: &str = "
        INSERT INTO links (tenant_id, link_id, position, claimed, alias_of, created_at, updated_at, deleted_at)
        SELECT $1, value ->> 'alias', CAST(value ->> 'position' AS BIGINT), FALSE, CAST(value ->> 'link' AS BIGINT),
            $2, $2, $2
        FROM json_array_elements(CAST($3 AS JSON)) AS rows (value)
        ON CONFLICT DO NOTHING RETURNING position";
    let sql = match db {
        Conn::Sqlite(_) => SQLITE,
        Conn::Postgres(_) => POSTGRES,
    };
    let json = serde_json::to_string(rows).map_err(|_| DbError::corrupt("links", "alias_of", "new"))?;
    Ok(on!(db, c => sqlx::query_scalar(sql)
        .bind(tenant.as_str()).bind(now.as_millis()).bind(json).fetch_all(c).await)?)
}

/// Inserts a row that was not inserted with the others, under another position. `false` if its alias is taken.
async fn insert_alone<D: Fn(usize) -> Vec<i64>>(
    db: &mut Conn<'_>,
    giving: &Giving<'_, D>,
    mut row: Row<'_>,
) -> Result<bool, DbError> {
    for _ in 0..DRAWS {
        if links::is_taken(db, giving.tenant.as_str(), row.alias, false).await? {
            return Ok(false);
        }
        row.position = (giving.draw)(1).first().copied().unwrap_or_default();
        if !insert(db, giving.tenant, std::slice::from_ref(&row), giving.now).await?.is_empty() {
            return Ok(true);
        }
    }
    Err(DbError::corrupt("links", "position", row.alias))
}

/// Takes these aliases from a link.
pub(crate) async fn take(db: &mut Conn<'_>, link: i64, aliases: &[&Alias]) -> Result<(), DbError> {
    if aliases.is_empty() {
        return Ok(());
    }
    let texts: Vec<&str> = aliases.iter().map(|alias| alias.as_str()).collect();
    let texts = padded_texts(&texts);
    // Built only from our own text.
    let sql = AssertSqlSafe(format!(
        "DELETE FROM links WHERE alias_of = $1 AND link_id IN ({})",
        placeholders(2, texts.len())
    ));
    on!(db, c => texts.iter().fold(sqlx::query(sql).bind(link), |query, text| query.bind(*text))
        .execute(c).await.map(drop))?;
    Ok(())
}

/// Takes all aliases from a link.
pub(super) async fn take_all(db: &mut Conn<'_>, link: i64) -> Result<(), DbError> {
    const SQL: &str = "DELETE FROM links WHERE alias_of = $1";
    execute!(db, SQL; link)?;
    Ok(())
}

/// The ID of the link that an account's alias leads to; the ID itself if it is no alias.
pub(crate) async fn resolved(db: &mut Conn<'_>, tenant: &TenantId, link_id: &str) -> Result<String, DbError> {
    const SQL: &str = "
        SELECT l.link_id FROM links a JOIN links l ON l.position = a.alias_of
        WHERE a.tenant_id = $1 AND a.link_id = $2 AND a.alias_of IS NOT NULL";
    let found: Option<String> =
        on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(link_id).fetch_optional(c).await)?;
    Ok(found.unwrap_or_else(|| link_id.to_owned()))
}

/// Those of a link's earlier aliases that no other link has by now; it has those in `held`.
pub(crate) async fn available(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    earlier: Vec<Alias>,
    held: &[Alias],
) -> Result<Vec<Alias>, DbError> {
    let mut available = Vec::with_capacity(earlier.len());
    for alias in earlier {
        if held.contains(&alias) || !links::is_taken(db, tenant.as_str(), alias.as_str(), false).await? {
            available.push(alias);
        }
    }
    Ok(available)
}
