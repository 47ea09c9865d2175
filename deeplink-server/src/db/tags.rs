//! Tags, and which links have them. Every function that changes them is called with the account's row locked, so that counts
//! are exact, and no tag is removed while a link is given it.

use deeplink_core::id::TenantId;
use deeplink_core::tag::{MAX_TAGS, MAX_TAGS_OF_ACCOUNT, Tag};
use sqlx::AssertSqlSafe;

use super::sets::{PADDED_UP_TO, padded, padded_length, placeholders};
use super::{Conn, DbError, execute, on};

/// Maximum links of a tag that are counted to find the rarest tag of a filter.
const COMPARED: i64 = 1_000;

/// Attempts to generate numbers for new tags, in case another node generates the same ones in the same millisecond.
const DRAWS: usize = 4;

/// Maximum links from which one write removes a tag.
pub(crate) const BATCH: u16 = 500;

/// The progress of replacing a tag on all links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Some links still have it.
    Some,
    /// No link has it any more.
    Done,
    /// The account does not have it.
    NoTag,
}

/// The outcome of giving tags to links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// Each link has its tags.
    Yes,
    /// The account would have too many different tags; the caller must refuse the write.
    TooMany,
}

/// A link, by its position, and tags for it.
pub(crate) type Tagged<'a> = (i64, &'a [Tag]);

/// Adds tags to links. `draw` makes numbers for tags that the account does not have yet.
pub(crate) async fn give(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    links: &[Tagged<'_>],
    draw: impl Fn(usize) -> Vec<i64>,
) -> Result<Given, DbError> {
    let pairs: usize = links.iter().map(|(_, tags)| tags.len()).sum();
    if pairs == 0 {
        return Ok(Given::Yes);
    }
    for _ in 0..DRAWS {
        let stored = match links {
            [(_, tags), ..] if links.iter().all(|(_, others)| others == tags) => {
                insert_product(db, tenant, links, tags).await?
            }
            _ => insert_pairs(db, tenant, links).await?,
        };
        if stored == pairs {
            return Ok(Given::Yes);
        }
        let mut all: Vec<&Tag> = links.iter().flat_map(|(_, tags)| tags.iter()).collect();
        all.sort();
        all.dedup();
        if !insert(db, tenant, &all, &draw(all.len())).await? {
            return Ok(Given::TooMany);
        }
    }
    Err(DbError::corrupt("tags", "number", tenant.as_str()))
}

fn json<T: serde::Serialize>(rows: &T) -> Result<String, DbError> {
    serde_json::to_string(rows).map_err(|_| DbError::corrupt("tags", "key", "new"))
}

/// Adds those of the tags that the account already has to all of the links, and returns the number of pairs of a link and a tag.
/// Each tag is looked up once.
async fn insert_product(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    links: &[Tagged<'_>],
    tags: &[Tag],
) -> Result<usize, DbError> {
    const SQLITE: &str = "
        INSERT INTO link_tags (link, tag)
        SELECT l.value, t.number FROM tags t CROSS JOIN json_each($2) AS l
        WHERE t.tenant_id = $1 AND t.key IN (SELECT value FROM json_each($3))
        ON CONFLICT (link, tag) DO UPDATE SET tag = excluded.tag";
    const POSTGRES: &str = "
        INSERT INTO link_tags (link, tag)
        SELECT CAST(l.value AS BIGINT), t.number FROM tags t CROSS JOIN json_array_elements_text(CAST($2 AS JSON)) AS l (value)
        WHERE t.tenant_id = $1 AND t.key IN (SELECT value FROM json_array_elements_text(CAST($3 AS JSON)))
        ON CONFLICT (link, tag) DO UPDATE SET tag = excluded.tag";
    let sql = match db {
        Conn::Sqlite(_) => SQLITE,
        Conn::Postgres(_) => POSTGRES,
    };
    let links: Vec<i64> = links.iter().map(|(link, _)| *link).collect();
    let keys: Vec<&str> = tags.iter().map(Tag::key).collect();
    let stored = execute!(db, sql; tenant.as_str(), json(&links)?, json(&keys)?)?;
    Ok(usize::try_from(stored).unwrap_or(0))
}

/// The same for links that have different tags.
async fn insert_pairs(db: &mut Conn<'_>, tenant: &TenantId, links: &[Tagged<'_>]) -> Result<usize, DbError> {
    const SQLITE: &str = "
        INSERT INTO link_tags (link, tag)
        SELECT pair.value ->> 0, t.number FROM json_each($2) AS pair CROSS JOIN tags t
        WHERE t.tenant_id = $1 AND t.key = pair.value ->> 1
        ON CONFLICT (link, tag) DO UPDATE SET tag = excluded.tag";
    const POSTGRES: &str = "
        INSERT INTO link_tags (link, tag)
        SELECT CAST(pair.value ->> 0 AS BIGINT), t.number
        FROM json_array_elements(CAST($2 AS JSON)) AS pair (value) JOIN tags t ON t.key = pair.value ->> 1
        WHERE t.tenant_id = $1
        ON CONFLICT (link, tag) DO UPDATE SET tag = excluded.tag";
    let sql = match db {
        Conn::Sqlite(_) => SQLITE,
        Conn::Postgres(_) => POSTGRES,
    };
    let pairs: Vec<(i64, &str)> =
        links.iter().flat_map(|(link, tags)| tags.iter().map(|tag| (*link, tag.key()))).collect();
    let stored = execute!(db, sql; tenant.as_str(), json(&pairs)?)?;
    Ok(usize::try_from(stored).unwrap_or(0))
}

/// Inserts those of these tags that the account does not have yet. `false`: it would then have too many.
async fn insert(db: &mut Conn<'_>, tenant: &TenantId, tags: &[&Tag], numbers: &[i64]) -> Result<bool, DbError> {
    const SQLITE: &str = "
        INSERT INTO tags (number, tenant_id, key, tag)
        SELECT value ->> 0, $1, value ->> 1, value ->> 2 FROM json_each($2) WHERE TRUE
        ON CONFLICT DO NOTHING";
    const POSTGRES: &str = "
        INSERT INTO tags (number, tenant_id, key, tag)
        SELECT CAST(value ->> 0 AS BIGINT), $1, value ->> 1, value ->> 2
        FROM json_array_elements(CAST($2 AS JSON)) AS rows (value)
        ON CONFLICT DO NOTHING";
    const COUNT: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM tags WHERE tenant_id = $1";
    let sql = match db {
        Conn::Sqlite(_) => SQLITE,
        Conn::Postgres(_) => POSTGRES,
    };
    let rows: Vec<_> = numbers.iter().zip(tags).map(|(number, tag)| (number, tag.key(), tag.as_str())).collect();
    execute!(db, sql; tenant.as_str(), json(&rows)?)?;
    let count: i64 = on!(db, c => sqlx::query_scalar(COUNT).bind(tenant.as_str()).fetch_one(c).await)?;
    Ok(count <= MAX_TAGS_OF_ACCOUNT)
}

/// Replaces the tags of links, up to 100, with these.
pub(crate) async fn replace(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    links: &[i64],
    tags: &[Tag],
    draw: impl Fn(usize) -> Vec<i64>,
) -> Result<Given, DbError> {
    let kept = numbers_of(db, tenant, tags).await?;
    let (all, kept) = (padded(links), padded(&kept));
    // Built only from our own text.
    let sql = AssertSqlSafe(format!(
        "DELETE FROM link_tags WHERE link IN ({}) AND tag NOT IN ({}) RETURNING tag",
        placeholders(1, all.len()),
        placeholders(all.len() + 1, kept.len())
    ));
    let mut gone: Vec<i64> = on!(db, c => all.iter().chain(&kept)
        .fold(sqlx::query_scalar(sql), |query, number| query.bind(*number)).fetch_all(c).await)?;
    gone.sort_unstable();
    gone.dedup();
    // Tags that are no longer used are removed first, so that they do not count towards the limit.
    prune(db, &gone).await?;
    let tagged: Vec<Tagged<'_>> = links.iter().map(|link| (*link, tags)).collect();
    give(db, tenant, &tagged, draw).await
}

/// Adds tags to links, up to 100, and removes others from them. Returns the links that would have too many tags, for which the
/// caller must refuse the write.
pub(crate) async fn change(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    links: &[i64],
    (add, remove): (&[Tag], &[Tag]),
    draw: impl Fn(usize) -> Vec<i64>,
) -> Result<(Given, Vec<i64>), DbError> {
    let gone = numbers_of(db, tenant, remove).await?;
    if !gone.is_empty() {
        let (gone, links) = (padded(&gone), padded(links));
        // Built only from our own text.
        let sql = AssertSqlSafe(format!(
            "DELETE FROM link_tags WHERE tag IN ({}) AND link IN ({})",
            placeholders(1, gone.len()),
            placeholders(gone.len() + 1, links.len())
        ));
        on!(db, c => gone.iter().chain(&links).fold(sqlx::query(sql), |query, number| query.bind(*number))
            .execute(c).await.map(drop))?;
        // First, so that tags that are no longer used do not count towards the limit.
        prune(db, &gone).await?;
    }
    let tagged: Vec<Tagged<'_>> = links.iter().map(|link| (*link, add)).collect();
    if give(db, tenant, &tagged, draw).await? == Given::TooMany {
        return Ok((Given::TooMany, Vec::new()));
    }
    let links = padded(links);
    // Built only from our own text.
    let sql = AssertSqlSafe(format!(
        "SELECT link FROM link_tags WHERE link IN ({}) GROUP BY link HAVING COUNT(*) > {MAX_TAGS}",
        placeholders(1, links.len())
    ));
    let full =
        on!(db, c => links.iter().fold(sqlx::query_scalar(sql), |query, link| query.bind(*link)).fetch_all(c).await)?;
    Ok((Given::Yes, full))
}

/// Removes all tags from a link.
pub(crate) async fn take(db: &mut Conn<'_>, link: i64) -> Result<(), DbError> {
    let before = remove(db, link).await?;
    prune(db, &before).await
}

async fn remove(db: &mut Conn<'_>, link: i64) -> Result<Vec<i64>, DbError> {
    const SQL: &str = "DELETE FROM link_tags WHERE link = $1 RETURNING tag";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(link).fetch_all(c).await)?)
}

/// Deletes those of these tags that no link has.
async fn prune(db: &mut Conn<'_>, numbers: &[i64]) -> Result<(), DbError> {
    for numbers in numbers.chunks(PADDED_UP_TO).map(padded) {
        // Built only from our own text.
        let sql = AssertSqlSafe(format!(
            "DELETE FROM tags WHERE number IN ({}) AND NOT EXISTS (SELECT 1 FROM link_tags m WHERE m.tag = tags.number)",
            placeholders(1, numbers.len())
        ));
        on!(db, c => numbers.iter().fold(sqlx::query(sql), |query, number| query.bind(*number))
            .execute(c).await.map(drop))?;
    }
    Ok(())
}

/// The numbers of those of these tags that the account has.
async fn numbers_of(db: &mut Conn<'_>, tenant: &TenantId, tags: &[Tag]) -> Result<Vec<i64>, DbError> {
    if tags.is_empty() {
        return Ok(Vec::new());
    }
    let length = padded_length(tags.len());
    // Built only from our own text.
    let sql = format!("SELECT number FROM tags WHERE tenant_id = $1 AND key IN ({})", placeholders(2, length));
    Ok(on!(db, c => {
        let mut query = sqlx::query_scalar(AssertSqlSafe(sql)).bind(tenant.as_str());
        for tag in tags.iter().chain(tags.last()).cycle().take(length) {
            query = query.bind(tag.key());
        }
        query.fetch_all(c).await
    })?)
}

/// The number of an account's tag.
async fn number(db: &mut Conn<'_>, tenant: &TenantId, tag: &Tag) -> Result<Option<i64>, DbError> {
    const SQL: &str = "SELECT number FROM tags WHERE tenant_id = $1 AND key = $2";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(tag.key()).fetch_optional(c).await)?)
}

/// All tags of an account, and how many links have each.
pub(crate) async fn list(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Vec<(String, i64)>, DbError> {
    const SQL: &str = "
        SELECT t.tag, (SELECT CAST(COUNT(*) AS BIGINT) FROM link_tags m WHERE m.tag = t.number)
        FROM tags t WHERE t.tenant_id = $1";
    Ok(on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_all(c).await)?)
}

/// All tags of an account, in alphabetical order.
pub(crate) async fn names(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Vec<Tag>, DbError> {
    const SQL: &str = "SELECT tag FROM tags WHERE tenant_id = $1";
    let found: Vec<String> = on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_all(c).await)?;
    Ok(deeplink_core::tag::set_of(found.into_iter().map(Tag::of_stored)))
}

/// How many links have any of two tags.
pub(crate) async fn count_links(db: &mut Conn<'_>, tenant: &TenantId, tags: &[Tag; 2]) -> Result<i64, DbError> {
    const SQL: &str = "
        SELECT CAST(COUNT(DISTINCT m.link) AS BIGINT) FROM tags t JOIN link_tags m ON m.tag = t.number
        WHERE t.tenant_id = $1 AND t.key IN ($2, $3)";
    let [one, other] = tags;
    Ok(
        on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(one.key()).bind(other.key()).fetch_one(c).await)?,
    )
}

/// Replaces a tag with another on some of its links, or removes it from them. If the account does not have the new tag
/// yet, the old one is renamed.
pub(crate) async fn replace_everywhere(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    old: &Tag,
    new: Option<&Tag>,
) -> Result<Progress, DbError> {
    const RENAME: &str = "UPDATE tags SET key = $2, tag = $3 WHERE number = $1";
    let Some(from) = number(db, tenant, old).await? else { return Ok(Progress::NoTag) };
    let Some(new) = new else { return move_some(db, from, None).await };
    let to = number(db, tenant, new).await?;
    execute!(db, RENAME; to.unwrap_or(from), new.key(), new.as_str())?;
    match to {
        Some(to) if to != from => move_some(db, from, Some(to)).await,
        _ => Ok(Progress::Done),
    }
}

/// Removes a tag from some of its links, and adds another one instead.
async fn move_some(db: &mut Conn<'_>, from: i64, to: Option<i64>) -> Result<Progress, DbError> {
    const GIVE: &str = "
        INSERT INTO link_tags (link, tag)
        SELECT link, $2 FROM (SELECT link FROM link_tags WHERE tag = $1 ORDER BY link LIMIT $3) AS part
        WHERE TRUE ON CONFLICT DO NOTHING";
    const TAKE: &str = "
        DELETE FROM link_tags
        WHERE tag = $1 AND link IN (SELECT link FROM link_tags WHERE tag = $1 ORDER BY link LIMIT $2)";
    let most = i64::from(BATCH);
    if let Some(to) = to {
        execute!(db, GIVE; from, to, most)?;
    }
    if i64::try_from(execute!(db, TAKE; from, most)?).is_ok_and(|taken| taken == most) {
        return Ok(Progress::Some);
    }
    prune(db, &[from]).await?;
    Ok(Progress::Done)
}

/// The tags of a link.
pub(crate) async fn of_link(db: &mut Conn<'_>, link: i64) -> Result<Vec<Tag>, DbError> {
    const SQL: &str = "SELECT t.tag FROM link_tags m JOIN tags t ON t.number = m.tag WHERE m.link = $1";
    let found: Vec<String> = on!(db, c => sqlx::query_scalar(SQL).bind(link).fetch_all(c).await)?;
    Ok(deeplink_core::tag::set_of(found.into_iter().map(Tag::of_stored)))
}

/// The numbers of a filter's tags, the rarest first. `None`: no link has all of them.
pub(super) async fn filtered(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    tags: &[String],
) -> Result<Option<Vec<i64>>, DbError> {
    const COUNT: &str = "
        SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT link FROM link_tags WHERE tag = $1 LIMIT $2) AS part";
    let tags: Vec<Tag> = tags.iter().cloned().map(Tag::of_stored).collect();
    let mut numbers = numbers_of(db, tenant, &tags).await?;
    if numbers.len() < tags.len() {
        return Ok(None);
    }
    if let [_, _, ..] = *numbers {
        let mut counted = Vec::with_capacity(numbers.len());
        for number in numbers {
            let count: i64 = on!(db, c => sqlx::query_scalar(COUNT).bind(number).bind(COMPARED).fetch_one(c).await)?;
            counted.push((count, number));
        }
        counted.sort_unstable();
        numbers = counted.into_iter().map(|(_, number)| number).collect();
    }
    Ok(Some(numbers))
}

/// The numbers of an account's tags that contain a lowercase text.
pub(super) async fn containing(db: &mut Conn<'_>, tenant: &TenantId, text: &str) -> Result<Vec<i64>, DbError> {
    const SQL: &str = "SELECT number, tag FROM tags WHERE tenant_id = $1";
    let all: Vec<(i64, String)> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_all(c).await)?;
    Ok(all.into_iter().filter(|(_, tag)| tag.to_lowercase().contains(text)).map(|(number, _)| number).collect())
}
