//! New links, one or many at once.

use deeplink_core::id::AffiliateId;
use deeplink_core::link::{LinkStatus, NewLink};
use deeplink_core::qr::QrOptions;
use deeplink_core::time::Timestamp;
use serde::Serialize;
use sqlx::AssertSqlSafe;

use super::super::{Conn, DbError, execute, on};
use super::Link;

/// The columns of a new link's content.
pub(crate) struct Columns {
    pub(crate) metadata: Option<String>,
    pub(crate) agent_context: Option<String>,
    pub(crate) social_preview: Option<String>,
    pub(crate) qr: Option<String>,
}

impl Columns {
    /// The columns of validated content. Serializing our own types cannot fail; if it did, nothing is stored.
    pub(crate) fn of(content: &NewLink) -> Result<Self, DbError> {
        let corrupt = |column| DbError::corrupt("links", column, "new");
        Ok(Self {
            metadata: content.metadata.as_ref().map(|metadata| metadata.as_str().to_owned()),
            agent_context: content.agent_context.as_ref().map(|value| text(value, "agent_context")).transpose()?,
            social_preview: content.social_preview.as_ref().map(|value| text(value, "social_preview")).transpose()?,
            qr: content.qr.as_ref().map(QrOptions::to_stored).transpose().map_err(|_| corrupt("qr"))?,
        })
    }
}

fn text<T: Serialize>(value: &T, column: &'static str) -> Result<String, DbError> {
    serde_json::to_string(value).map_err(|_| DbError::corrupt("links", column, "new"))
}

/// The outcome of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The link is stored.
    Yes,
    /// The tenant has a link with this id already, or needs the claim and another tenant has it.
    Taken,
    /// Another node generated the same position in the same millisecond: generate a new one.
    Collided,
}

/// Stores a new link, with the claim on the service's host if that is free. `must_claim` refuses a link that would
/// have no URL without it.
pub(crate) async fn insert(db: &mut Conn<'_>, link: &Link, must_claim: bool) -> Result<Inserted, DbError> {
    const SQL: &str = "
        INSERT INTO links (tenant_id, link_id, position, claimed, made_under, ios_deep_link, ios_store_url,
            android_deep_link, android_store_url, web_url, metadata, agent_context, social_preview, affiliate_id,
            expires_at, created_at, updated_at, name, expired_url, owner_expires_at, rule_expires_at, enabled, status, qr,
            imported_clicks)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $16, $17, $18, $19, $20, $21, $22,
            $23, $24)
        ON CONFLICT DO NOTHING";
    let columns = Columns::of(&link.content)?;
    let to = &link.content.destinations;
    let claims: &[bool] = if must_claim { &[true] } else { &[true, false] };
    for claimed in claims {
        let made_under = if *claimed { None } else { link.made_under.as_deref() };
        let stored = execute!(db, SQL;
            link.tenant.as_str(), &link.link_id, link.position, claimed, made_under, to.ios_deep_link.as_deref(),
            to.ios_store_url.as_deref(), to.android_deep_link.as_deref(), to.android_store_url.as_deref(),
            to.web_url.as_deref(), columns.metadata.as_deref(), columns.agent_context.as_deref(),
            columns.social_preview.as_deref(), link.content.affiliate_id.as_ref().map(AffiliateId::as_str),
            link.expires_at.map(Timestamp::as_millis), link.created_at.as_millis(), link.content.name.as_deref(),
            link.content.expired_url.as_deref(), link.content.expires_at.map(Timestamp::as_millis),
            link.rule_expires_at.map(Timestamp::as_millis), !link.content.is_disabled,
            link.status.as_ref().map(LinkStatus::as_str), columns.qr.as_deref(), link.content.imported_clicks)?;
        if stored == 1 {
            return Ok(Inserted::Yes);
        }
    }
    let is_taken = is_taken(db, link.tenant.as_str(), &link.link_id, must_claim).await?;
    Ok(if is_taken { Inserted::Taken } else { Inserted::Collided })
}

/// Whether an id is taken. Two lookups, each on its own index: a single condition would scan the table.
pub(in crate::db) const IS_TAKEN: &str = "
    SELECT CASE WHEN EXISTS (SELECT 1 FROM links WHERE tenant_id = $2 AND link_id = $1) THEN TRUE
        WHEN $3 THEN EXISTS (SELECT 1 FROM links WHERE link_id = $1 AND claimed) ELSE FALSE END";

/// Whether an id is taken for this tenant: by its own link or, if the claim is needed, by any claim.
pub(crate) async fn is_taken(
    db: &mut Conn<'_>,
    tenant: &str,
    link_id: &str,
    claim_matters: bool,
) -> Result<bool, DbError> {
    Ok(on!(db, c => sqlx::query_scalar(IS_TAKEN).bind(link_id).bind(tenant).bind(claim_matters).fetch_one(c).await)?)
}

/// A row of a batch that could not be stored.
pub(crate) type TakenRows = Vec<usize>;

/// The columns that a batch fills, and how PostgreSQL reads their values. SQLite's values have their types.
const BATCH: [(&str, &str); 20] = [
    ("link_id", "TEXT"),
    ("position", "BIGINT"),
    ("ios_deep_link", "TEXT"),
    ("ios_store_url", "TEXT"),
    ("android_deep_link", "TEXT"),
    ("android_store_url", "TEXT"),
    ("web_url", "TEXT"),
    ("metadata", "TEXT"),
    ("agent_context", "TEXT"),
    ("social_preview", "TEXT"),
    ("affiliate_id", "TEXT"),
    ("name", "TEXT"),
    ("expired_url", "TEXT"),
    ("expires_at", "BIGINT"),
    ("owner_expires_at", "BIGINT"),
    ("rule_expires_at", "BIGINT"),
    ("enabled", "BOOLEAN"),
    ("status", "TEXT"),
    ("qr", "TEXT"),
    ("imported_clicks", "BIGINT"),
];

/// A value of a column; what the column's default stands for is left out.
#[derive(Serialize)]
#[serde(untagged)]
enum Value<'a> {
    Text(&'a str),
    Made(String),
    Number(i64),
    Bool(bool),
}

/// Stores many links in one statement. Returns the rows (by index) whose id is taken; if there are any,
/// the caller must roll back. All rows have the same tenant and time.
pub(crate) async fn insert_many(db: &mut Conn<'_>, links: &[Link]) -> Result<TakenRows, DbError> {
    let Some(first) = links.first() else { return Ok(Vec::new()) };
    let rows = links.iter().map(values).collect::<Result<Vec<_>, _>>()?;
    // Most batches fill few columns, and each costs time in every row.
    let used: Vec<usize> = (0..BATCH.len()).filter(|at| rows.iter().any(|row| row[*at].is_some())).collect();
    let rows: Vec<Vec<&Option<Value<'_>>>> = rows.iter().map(|row| used.iter().map(|at| &row[*at]).collect()).collect();
    let json = serde_json::to_string(&rows).map_err(|_| DbError::corrupt("links", "batch", "new"))?;
    let sql = batch_sql(&used, matches!(db, Conn::Postgres(_)));
    let stored: Vec<i64> = on!(db, c => sqlx::query_scalar(AssertSqlSafe(sql))
        .bind(first.tenant.as_str()).bind(first.created_at.as_millis()).bind(json)
        .fetch_all(c).await)?;
    if stored.len() == links.len() {
        return Ok(Vec::new());
    }
    let stored: std::collections::HashSet<i64> = stored.into_iter().collect();
    Ok((0..).zip(links).filter(|(_, link)| !stored.contains(&link.position)).map(|(index, _)| index).collect())
}

/// The statement that fills these columns of [`BATCH`]. The tenant is `$1`, the time `$2`, and the rows are arrays in `$3`.
fn batch_sql(used: &[usize], is_postgres: bool) -> String {
    let column = |(nth, at): (usize, &usize)| {
        let (name, kind) = BATCH.get(*at)?;
        let value = if is_postgres { format!("CAST(value ->> {nth} AS {kind})") } else { format!("value ->> {nth}") };
        // The only column whose default is not null.
        Some((*name, if *name == "enabled" { format!("COALESCE({value}, TRUE)") } else { value }))
    };
    let (names, values): (Vec<_>, Vec<_>) = used.iter().enumerate().filter_map(column).unzip();
    let (names, values) = (names.join(", "), values.join(", "));
    let from = if is_postgres { "json_array_elements(CAST($3 AS JSON)) AS rows (value)" } else { "json_each($3)" };
    format!(
        "INSERT INTO links (tenant_id, claimed, created_at, updated_at, {names}) \
         SELECT $1, TRUE, $2, $2, {values} FROM {from} WHERE TRUE ON CONFLICT DO NOTHING RETURNING position"
    )
}

/// The values of a row, in the order of [`BATCH`].
fn values(link: &Link) -> Result<[Option<Value<'_>>; BATCH.len()], DbError> {
    use Value::{Bool, Made, Number, Text};
    let (content, columns) = (&link.content, Columns::of(&link.content)?);
    let [ios, ios_store, android, android_store, web] = content.destinations.as_deref().into_array();
    let time = |time: Option<Timestamp>| time.map(Timestamp::as_millis).map(Number);
    Ok([
        Some(Text(&link.link_id)),
        Some(Number(link.position)),
        ios.map(Text),
        ios_store.map(Text),
        android.map(Text),
        android_store.map(Text),
        web.map(Text),
        columns.metadata.map(Made),
        columns.agent_context.map(Made),
        columns.social_preview.map(Made),
        content.affiliate_id.as_ref().map(AffiliateId::as_str).map(Text),
        content.name.as_deref().map(Text),
        content.expired_url.as_deref().map(Text),
        time(link.expires_at),
        time(content.expires_at),
        time(link.rule_expires_at),
        content.is_disabled.then_some(Bool(false)),
        link.status.as_ref().map(LinkStatus::as_str).map(Text),
        columns.qr.map(Made),
        content.imported_clicks.map(Number),
    ])
}
