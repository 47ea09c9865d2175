//! Aliases of links. Each is a row of `links` whose ID is the alias, so that the unique indexes of IDs decide who has a
//! name: an ID or an alias, on an account's hosts and on the service's own. Lists skip these rows, because they have
//! `deleted_at`. Every function that changes them is called with the account's row locked.

use std::collections::HashSet;

use deeplink_core::id::TenantId;
use deeplink_core::link::Alias;
use deeplink_core::time::Timestamp;
use serde::Serialize;
use sqlx::AssertSqlSafe;

use super::sets::{padded_texts, placeholders};
use super::{Conn, DbError, execute, link_history, links, on};

/// Attempts to generate a position, in case another node generates the same one in the same millisecond.
const DRAWS: usize = 16;

/// Where aliases are given, and how.
pub(crate) struct Giving<'a, D> {
    pub(crate) tenant: &'a TenantId,
    /// Whether an alias in the form of an ID must work on the service's own host, because the account has no other.
    pub(crate) must_claim: bool,
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
    is_claimed: bool,
    link: i64,
}

/// Gives aliases to links in one statement. Returns the aliases (by index) that are taken: by a link, another alias, or a
/// link that can be restored. If there are any, the caller must roll back.
pub(crate) async fn give<D: Fn(usize) -> Vec<i64>>(
    db: &mut Conn<'_>,
    giving: &Giving<'_, D>,
    aliases: &[NewAlias<'_>],
) -> Result<Vec<usize>, DbError> {
    if aliases.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<&str> = aliases.iter().filter(|(_, alias)| alias.is_id()).map(|(_, alias)| alias.as_str()).collect();
    let restorable = link_history::restorable(db, giving.tenant, &ids, giving.now).await?;
    // In key order, so that two writes with common aliases wait for each other instead of deadlocking.
    let mut order: Vec<usize> = (0..aliases.len()).collect();
    order.sort_by_key(|at| aliases[*at].1);
    let rows = order.iter().zip((giving.draw)(aliases.len())).map(|(at, position)| {
        let (link, alias) = aliases[*at];
        Row { alias: alias.as_str(), position, is_claimed: alias.is_id(), link }
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let stored: HashSet<i64> = insert(db, giving.tenant, &rows, giving.now).await?.into_iter().collect();
    let mut taken = Vec::new();
    for (at, row) in order.into_iter().zip(rows) {
        let is_stored = !restorable.contains(row.alias)
            && (stored.contains(&row.position) || insert_alone(db, giving, row).await?);
        if !is_stored {
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
        SELECT $1, value ->> 'alias', value ->> 'position', value ->> 'is_claimed', value ->> 'link', $2, $2, $2
        FROM json_each($3) WHERE TRUE
        ON CONFLICT DO NOTHING RETURNING position";
    const POSTGRES: &str = "
        INSERT INTO links (tenant_id, link_id, position, claimed, alias_of, created_at, updated_at, deleted_at)
        SELECT $1, value ->> 'alias', CAST(value ->> 'position' AS BIGINT), CAST(value ->> 'is_claimed' AS BOOLEAN),
            CAST(value ->> 'link' AS BIGINT), $2, $2, $2
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

/// Inserts a row that was not inserted with the others: without the claim on the service's own host, or under another
/// position. `false` if its alias is taken.
async fn insert_alone<D: Fn(usize) -> Vec<i64>>(
    db: &mut Conn<'_>,
    giving: &Giving<'_, D>,
    mut row: Row<'_>,
) -> Result<bool, DbError> {
    let (is_id, must_claim) = (row.is_claimed, row.is_claimed && giving.must_claim);
    let claims: &[bool] = match (is_id, must_claim) {
        (false, _) => &[false],
        (true, true) => &[true],
        (true, false) => &[true, false],
    };
    for _ in 0..DRAWS {
        for claimed in claims {
            row.is_claimed = *claimed;
            row.position = (giving.draw)(1).first().copied().unwrap_or_default();
            if !insert(db, giving.tenant, std::slice::from_ref(&row), giving.now).await?.is_empty() {
                return Ok(true);
            }
        }
        if links::is_taken(db, giving.tenant.as_str(), row.alias, must_claim).await? {
            return Ok(false);
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
