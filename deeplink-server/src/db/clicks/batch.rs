//! The statements that store many rows at once. They differ between the databases, because the cheapest way differs:
//! rows of parameters on SQLite (1.3 million clicks per CPU-second in full batches, against 0.5 million through
//! `json_each`), arrays on PostgreSQL.

use std::collections::HashSet;
use std::sync::LazyLock;

use deeplink_core::visitor::referer_host;
use sqlx::{AssertSqlSafe, PgConnection, SqliteConnection};

use super::super::sets::{PADDED_UP_TO, padded_length, placeholders};
use super::super::upsert::{MAX_ROWS, SizedStatements, count};
use super::super::{Conn, DbError, on};
use super::{AppendPosition, Hash, Head, NewClick};

/// A user agent or referer to be stored.
#[derive(Debug, Clone)]
pub(crate) struct NewText<'a> {
    pub(crate) hash: Hash,
    pub(crate) text: &'a str,
}

/// Appends clicks to the log. Returns the position of the first one; the others follow it.
pub(crate) async fn insert(
    db: &mut Conn<'_>,
    head: &Head,
    to: AppendPosition,
    clicks: &[NewClick],
) -> Result<i64, DbError> {
    match db {
        Conn::Sqlite(c) => {
            let first = head.advance(c, to, count(clicks.len())).await?;
            for (nth, clicks) in clicks.chunks(MAX_ROWS).enumerate() {
                insert_on_sqlite(c, first + count(nth * MAX_ROWS), clicks).await?;
            }
            Ok(first)
        }
        Conn::Postgres(c) => insert_on_postgres(c, to, clicks).await,
    }
}

async fn insert_on_sqlite(c: &mut SqliteConnection, first: i64, clicks: &[NewClick]) -> Result<(), sqlx::Error> {
    static SQL: LazyLock<SizedStatements> = LazyLock::new(|| {
        SizedStatements::new("clicks (position, link, at, kind, platform, agent_code, country, agent, referer)", 9, "")
    });
    let mut query = sqlx::query(SQL.for_rows(clicks.len())).bind(count(clicks.len()));
    for (position, click) in (first..).zip(clicks) {
        query = query
            .bind(position)
            .bind(click.link)
            .bind(click.at)
            .bind(i64::from(click.kind))
            .bind(i64::from(click.platform))
            .bind(i64::from(click.agent_code))
            .bind(i64::from(click.country))
            .bind(click.agent.as_ref().map(Hash::as_slice))
            .bind(click.referer.as_ref().map(Hash::as_slice));
    }
    query.execute(c).await?;
    Ok(())
}

async fn insert_on_postgres(c: &mut PgConnection, to: AppendPosition, clicks: &[NewClick]) -> Result<i64, DbError> {
    // The row of the head stays locked until COMMIT, so positions are in the order of commits.
    const SQL: &str = "
        WITH moved AS (
            UPDATE click_marks SET position = CASE WHEN position >= $1 THEN position ELSE $1 END + $9 + $2
            WHERE name = 'head' RETURNING position - $2 AS before
        ), stored AS (
            INSERT INTO clicks (position, link, at, kind, platform, agent_code, country, agent, referer)
            SELECT before + nth, link, at, kind, platform, agent_code, country, agent, referer
            FROM moved, unnest($3::BIGINT[], $4::BIGINT[], $5::BIGINT[], $6::BIGINT[], $10::BIGINT[], $11::BIGINT[], $7::BYTEA[], $8::BYTEA[])
                WITH ORDINALITY AS click (link, at, kind, platform, agent_code, country, agent, referer, nth)
        )
        SELECT before + 1 FROM moved";
    let column = |value: fn(&NewClick) -> i64| clicks.iter().map(value).collect::<Vec<_>>();
    let texts = |value: fn(&NewClick) -> Option<&Hash>| {
        clicks.iter().map(|click| value(click).map(Hash::as_slice)).collect::<Vec<_>>()
    };
    let first = sqlx::query_scalar(SQL)
        .bind(to.after)
        .bind(count(clicks.len()))
        .bind(column(|click| click.link))
        .bind(column(|click| click.at))
        .bind(column(|click| i64::from(click.kind)))
        .bind(column(|click| i64::from(click.platform)))
        .bind(texts(|click| click.agent.as_ref()))
        .bind(texts(|click| click.referer.as_ref()))
        .bind(to.gap)
        .bind(column(|click| i64::from(click.agent_code)))
        .bind(column(|click| i64::from(click.country)))
        .fetch_one(c)
        .await?;
    Ok(first)
}

/// Which of these texts are stored.
pub(crate) async fn known_texts(db: &mut Conn<'_>, texts: &[Hash]) -> Result<HashSet<Hash>, DbError> {
    let mut known = HashSet::new();
    for texts in texts.chunks(PADDED_UP_TO) {
        let length = padded_length(texts.len());
        let sql = format!("SELECT hash FROM visitor_texts WHERE hash IN ({})", placeholders(1, length));
        let found: Vec<Vec<u8>> = on!(db, c => {
            let mut query = sqlx::query_scalar(AssertSqlSafe(sql));
            for text in texts.iter().chain(texts.last()).cycle().take(length) {
                query = query.bind(text.as_slice());
            }
            query.fetch_all(c).await
        })?;
        known.extend(found.into_iter().filter_map(|hash| Hash::try_from(hash).ok()));
    }
    Ok(known)
}

/// Stores the texts that are missing, and records for the others that they were used on the day that began at `day`.
/// They are sorted by hash, so that two transactions cannot deadlock.
pub(crate) async fn insert_texts(db: &mut Conn<'_>, texts: &[NewText<'_>], day: i64) -> Result<(), DbError> {
    debug_assert!(texts.is_sorted_by(|a, b| a.hash < b.hash), "texts come in the order of their hashes, each once");
    match db {
        Conn::Sqlite(c) => insert_texts_on_sqlite(c, texts, day).await,
        Conn::Postgres(c) => insert_texts_on_postgres(c, texts, day).await,
    }
}

async fn insert_texts_on_sqlite(c: &mut SqliteConnection, texts: &[NewText<'_>], day: i64) -> Result<(), DbError> {
    static SQL: LazyLock<SizedStatements> = LazyLock::new(|| {
        SizedStatements::new(
            "visitor_texts (hash, text, used_at, host)",
            4,
            "ON CONFLICT (hash) DO UPDATE SET used_at = excluded.used_at, host = excluded.host \
             WHERE visitor_texts.used_at < excluded.used_at OR visitor_texts.host IS NULL",
        )
    });
    for texts in texts.chunks(MAX_ROWS) {
        let mut query = sqlx::query(SQL.for_rows(texts.len())).bind(count(texts.len()));
        for text in texts {
            query = query.bind(text.hash.as_slice()).bind(text.text).bind(day).bind(referer_host(text.text));
        }
        query.execute(&mut *c).await?;
    }
    Ok(())
}

async fn insert_texts_on_postgres(c: &mut PgConnection, texts: &[NewText<'_>], day: i64) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO visitor_texts (hash, text, used_at, host)
        SELECT hash, text, $3, host FROM unnest($1::BYTEA[], $2::TEXT[], $4::TEXT[]) AS new (hash, text, host)
        ON CONFLICT (hash) DO UPDATE SET used_at = excluded.used_at, host = excluded.host
            WHERE visitor_texts.used_at < excluded.used_at OR visitor_texts.host IS NULL";
    sqlx::query(SQL)
        .bind(texts.iter().map(|text| text.hash.as_slice()).collect::<Vec<_>>())
        .bind(texts.iter().map(|text| text.text).collect::<Vec<_>>())
        .bind(day)
        .bind(texts.iter().map(|text| referer_host(text.text)).collect::<Vec<_>>())
        .execute(c)
        .await?;
    Ok(())
}
