//! A database like that of a service after some months: links of very different popularity, their clicks, the installs
//! that they opened, the users of these and their conversions, with every row that the service would have written.
//!
//! Counts are what the service would have counted each second.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use deeplink_core::secret::{Random, Token, sha256_hex};
use deeplink_core::visitor::referer_host;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use crate::scenario::Failure;

/// The amounts of data.
#[derive(Debug, Clone, Args)]
pub(crate) struct Amounts {
    /// The database, which the service made.
    #[arg(long)]
    pub(crate) database: PathBuf,
    /// Clicks in the log.
    #[arg(long, default_value_t = 5_000_000)]
    pub(crate) clicks: usize,
    /// Links, named `bench-0` (the most popular), `bench-1`, …
    #[arg(long, default_value_t = 20_000)]
    pub(crate) links: usize,
    /// Installs.
    #[arg(long, default_value_t = 300_000)]
    pub(crate) installs: usize,
    /// Touches of all installs.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) touches: usize,
    /// Conversions.
    #[arg(long, default_value_t = 200_000)]
    pub(crate) conversions: usize,
    /// Days until now over which all of it is distributed.
    #[arg(long, default_value_t = 90)]
    pub(crate) days: i64,
    /// The same seed gives the same data, except for its end time.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

const DAY: i64 = 86_400_000;
const AGENTS: usize = 40;
const COUNTRIES: usize = 40;
/// User agents of people by their code, the most frequent first.
const CODES: [u32; 12] = [
    code(2, 1, 1),
    code(3, 2, 1),
    code(2, 3, 3),
    code(3, 4, 3),
    code(4, 3, 3),
    code(2, 4, 3),
    code(5, 3, 3),
    code(6, 1, 1),
    code(2, 5, 3),
    code(4, 1, 1),
    code(7, 1, 1),
    code(3, 2, 2),
];

/// The code of a browser of its own on a system and a device.
const fn code(browser: u8, os: u8, device: u8) -> u32 {
    u32::from_le_bytes([browser, 1, os, device])
}

const REFERERS: usize = 200;
const HOSTS: usize = 25;

/// The token of a session of the account's owner.
pub(crate) const SESSION: &str = "0000000000000000000000000000000000000000000000000000000000000001";

/// Fills the database.
pub(crate) async fn run(amounts: &Amounts) -> Result<(), Failure> {
    let options = SqliteConnectOptions::new().filename(&amounts.database).foreign_keys(false);
    let mut db = SqliteConnection::connect_with(&options).await?;
    for pragma in ["PRAGMA synchronous=OFF", "PRAGMA cache_size=-1000000", "PRAGMA temp_store=MEMORY"] {
        sqlx::query(pragma).execute(&mut db).await?;
    }
    let (tenant, now): (String, i64) =
        sqlx::query_as("SELECT id, CAST(strftime('%s', 'now') AS INTEGER) * 1000 FROM tenants ORDER BY id LIMIT 1")
            .fetch_one(&mut db)
            .await?;
    let mut made = Made {
        random: Random::seeded(amounts.seed),
        fame: Fame::new(amounts.links),
        begin: now - amounts.days * DAY,
        end: now - 60_000,
        tenant,
    };
    sqlx::query("BEGIN").execute(&mut db).await?;
    made.links(&mut db, amounts.links).await?;
    made.texts(&mut db).await?;
    made.clicks(&mut db, amounts.clicks).await?;
    made.counts(&mut db).await?;
    let people = made.installs(&mut db, amounts).await?;
    made.conversions(&mut db, amounts.conversions, &people).await?;
    made.account(&mut db).await?;
    made.session(&mut db).await?;
    sqlx::query("COMMIT").execute(&mut db).await?;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut db).await?;
    Ok(db.close().await?)
}

/// Zipf's law: the nth link is 1/n as popular as the first.
struct Fame(Vec<f64>);

impl Fame {
    #[expect(clippy::cast_precision_loss, reason = "links are few")]
    fn new(links: usize) -> Self {
        let mut sum = 0.0;
        let up_to = (1..=links).map(|nth| {
            sum += 1.0 / nth as f64;
            sum
        });
        Self(up_to.collect())
    }

    fn draw(&self, random: &mut Random) -> usize {
        let all = self.0.last().copied().unwrap_or(0.0);
        #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
        let share = random.below(1 << 50) as f64 / (1_u64 << 50) as f64;
        self.0.partition_point(|sum| *sum < share * all).min(self.0.len() - 1)
    }
}

/// A user, and the touches of their installs by moment, install and number.
#[derive(Default)]
struct Person {
    bound_at: i64,
    touches: Vec<(i64, i64, i64, i64)>,
}

/// The generated data, and its time range.
struct Made {
    random: Random,
    fame: Fame,
    begin: i64,
    end: i64,
    tenant: String,
}

/// Rows to insert into a table, many per statement.
struct Rows {
    into: &'static str,
    columns: usize,
    text: String,
    count: usize,
}

impl Rows {
    fn new(into: &'static str) -> Self {
        Self { into, columns: into.matches(',').count() + 1, text: String::new(), count: 0 }
    }

    /// Adds a row of SQL values.
    async fn add(&mut self, db: &mut SqliteConnection, row: &str) -> Result<(), Failure> {
        debug_assert!(row.matches(',').count() + 1 >= self.columns, "{row}");
        self.text.push_str(if self.count == 0 { "(" } else { "),(" });
        self.text.push_str(row);
        self.count += 1;
        if self.count == 500 { self.flush(db).await } else { Ok(()) }
    }

    async fn flush(&mut self, db: &mut SqliteConnection) -> Result<(), Failure> {
        if self.count > 0 {
            let sql = format!("INSERT INTO {} VALUES {})", self.into, self.text);
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(db).await?;
            self.text.clear();
            self.count = 0;
        }
        Ok(())
    }
}

/// A number in the database's type.
fn number(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// `links.position` of the nth link.
fn place(nth: usize) -> i64 {
    (1_700_000_000_000 << 20) + number(nth)
}

impl Made {
    /// Signs the account's owner in.
    async fn session(&self, db: &mut SqliteConnection) -> Result<(), Failure> {
        const SQL: &str = "
            INSERT INTO sessions (id, token_hash, tenant_id, user_id, created_at, expires_at)
            SELECT 'ses_' || substr(id, 5), $1, tenant_id, id, $2, $2 + 86400000 FROM users WHERE tenant_id = $3 LIMIT 1";
        let hash = Token::new(SESSION).hash();
        sqlx::query(SQL).bind(hash).bind(self.end).bind(&self.tenant).execute(db).await?;
        Ok(())
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.below(end.max(1) as u64)).unwrap_or(0)
    }

    /// A random time in a range.
    fn moment(&mut self, from: i64, to: i64) -> i64 {
        let length = u64::try_from(to - from).unwrap_or(0).max(1);
        from + i64::try_from(self.random.below(length)).unwrap_or(0)
    }

    async fn links(&mut self, db: &mut SqliteConnection, count: usize) -> Result<(), Failure> {
        let mut rows = Rows::new("links (tenant_id, link_id, position, claimed, web_url, created_at, updated_at)");
        for nth in 0..count {
            let (tenant, position, at) = (&self.tenant, place(nth), self.begin);
            let row = format!("'{tenant}','bench-{nth}',{position},TRUE,'https://example.com/{nth}',{at},{at}");
            rows.add(db, &row).await?;
        }
        rows.flush(db).await?;
        let count_links = format!("UPDATE tenants SET link_count = link_count + {count} WHERE id = '{}'", self.tenant);
        sqlx::query(AssertSqlSafe(count_links)).execute(db).await?;
        Ok(())
    }

    /// User agents and referers, stored under their hashes.
    async fn texts(&mut self, db: &mut SqliteConnection) -> Result<(), Failure> {
        let mut rows = Rows::new("visitor_texts (hash, text, used_at, host)");
        for text in (0..AGENTS).map(agent).chain((0..REFERERS).map(referer)) {
            let day = self.end - self.end % DAY;
            let row = format!("{},'{text}',{day},'{}'", hash(&text), referer_host(&text));
            rows.add(db, &row).await?;
        }
        rows.flush(db).await
    }

    async fn clicks(&mut self, db: &mut SqliteConnection, count: usize) -> Result<(), Failure> {
        let agents: Vec<String> = (0..AGENTS).map(|nth| hash(&agent(nth))).collect();
        let referers: Vec<String> = (0..REFERERS).map(|nth| hash(&referer(nth))).collect();
        let mut rows = Rows::new("clicks (position, link, at, kind, platform, agent_code, country, agent, referer)");
        let (mut last, width) = (0, (self.end - self.begin) / number(count).max(1));
        for nth in 0..count {
            let at = self.begin + number(nth) * width + self.moment(0, width.max(1));
            last = (at << 20).max(last + 1);
            let link = place(self.fame.draw(&mut self.random));
            let kind = [0, 0, 0, 0, 0, 0, 0, 3, 1, 2][self.below(10)];
            let (platform, who) = ([0, 0, 1, 1, 2, 3, 3, 4][self.below(8)], self.below(AGENTS));
            let from = if self.below(2) == 0 { "NULL" } else { referers[self.below(REFERERS)].as_str() };
            // Of people alone. A few of them lead, as everywhere.
            let code = if kind == 0 { CODES[self.below(CODES.len()).min(self.below(CODES.len()))] } else { 0 };
            let country = 1 + self.below(COUNTRIES).min(self.below(COUNTRIES)) * 11;
            let row = format!("{last},{link},{at},{kind},{platform},{code},{country},{},{from}", agents[who]);
            rows.add(db, &row).await?;
        }
        rows.flush(db).await
    }

    /// Installs with their touches, three of five of them with a user.
    async fn installs(&mut self, db: &mut SqliteConnection, amounts: &Amounts) -> Result<Vec<Person>, Failure> {
        let mut users = Rows::new("app_users (position, tenant_id, user_id, created_at)");
        let mut installs = Rows::new(
            "installs (position, tenant_id, install_id, touches, first_link, last_link, app_user, bound_at, bound_as, created_at)",
        );
        let mut touches = Rows::new("touches (install, at, number, link, first_link, opened_before, app_version)");
        let mut links = Rows::new("install_links (install, link, first_at, last_opened_at)");
        let mut credits = Rows::new("install_credits (link, at, bound_as, is_first, is_last, install)");
        let mut people: Vec<Person> = Vec::new();
        let more = amounts.touches.saturating_sub(amounts.installs) * 2 / amounts.installs.max(1);
        for nth in 0..amounts.installs {
            let created = self.begin + (self.end - self.begin) / number(amounts.installs) * number(nth);
            let install = (created << 20) + number(nth);
            let mut moments = vec![created];
            moments.extend((0..self.below(more + 1)).map(|_| self.moment(created, self.end)));
            moments.sort_unstable();
            moments.dedup();
            let bound_at = (self.below(5) < 3).then(|| self.moment(created, self.end));
            let first = place(self.fame.draw(&mut self.random));
            let (mut seen, mut last): (BTreeMap<i64, (i64, Option<i64>)>, i64) = (BTreeMap::new(), first);
            let mut chain = Vec::new();
            for (number, at) in (1_i64..).zip(moments) {
                last = if number == 1 { first } else { place(self.fame.draw(&mut self.random)) };
                let (_, opened) = seen.entry(last).or_insert((at, None));
                let before = opened.map_or("NULL".into(), |at| at.to_string());
                if number > 1 {
                    *opened = Some(at);
                }
                touches.add(db, &format!("{install},{at},{number},{last},{first},{before},'1.0'")).await?;
                chain.push((at, install, number, last));
            }
            for (link, (first_at, opened)) in &seen {
                let opened = opened.map_or("NULL".into(), |at| at.to_string());
                links.add(db, &format!("{install},{link},{first_at},{opened}")).await?;
            }
            let mut bound = "NULL,NULL,NULL".to_owned();
            if let Some(at) = bound_at {
                let known = (self.below(5) == 0 && !people.is_empty()).then(|| self.below(people.len()));
                let who = known.unwrap_or(people.len());
                let how = i64::from(known.is_some()) * number(1 + self.below(2));
                if known.is_none() {
                    let user = person(who);
                    users.add(db, &format!("{user},'{}','user-{who}',{at}", self.tenant)).await?;
                    people.push(Person { bound_at: at, ..Person::default() });
                }
                bound = format!("{},{at},{how}", person(who));
                let before: Vec<i64> = chain.iter().filter(|touch| touch.0 <= at).map(|touch| touch.3).collect();
                for (link, is_first, is_last) in credited(&before) {
                    credits.add(db, &format!("{link},{at},{how},{is_first},{is_last},{install}")).await?;
                }
                people[who].touches.extend(&chain);
            }
            let row =
                format!("{install},'{}','install-{nth}',{},{first},{last},{bound},{created}", self.tenant, chain.len());
            installs.add(db, &row).await?;
        }
        for rows in [&mut users, &mut installs, &mut touches, &mut links, &mut credits] {
            rows.flush(db).await?;
        }
        Ok(people)
    }

    async fn conversions(&mut self, db: &mut SqliteConnection, count: usize, people: &[Person]) -> Result<(), Failure> {
        const KINDS: [&str; 4] = ["purchase", "signup", "trial", "renewal"];
        let mut conversions = Rows::new(
            "conversions (position, id, tenant_id, app_user, conversion_type, amount_cents, currency, at, received_at, emitted_at, first_link, last_link)",
        );
        let mut credits = Rows::new(
            "conversion_credits (link, at, conversion_type, is_first, is_last, conversion, amount_cents, currency)",
        );
        for nth in 0..count {
            let who = self.below(people.len());
            let Some(person_of) = people.get(who) else { break };
            let at = self.moment(person_of.bound_at, self.end.max(person_of.bound_at + 1));
            let (kind, position) = (KINDS[self.below(KINDS.len())], (at << 20) + number(nth));
            let mut touches: Vec<_> = person_of.touches.iter().filter(|touch| touch.0 <= at).collect();
            touches.sort_unstable();
            let chain: Vec<i64> = touches.iter().map(|touch| touch.3).collect();
            let end = |link: Option<&i64>| link.map_or("NULL".to_owned(), i64::to_string);
            let (first, last) = (end(chain.first()), end(chain.last()));
            let amount =
                if kind == "purchase" { format!("{},'EUR'", 100 + self.below(10_000)) } else { "NULL,NULL".into() };
            let row = format!(
                "{position},'evt_{position:024x}','{}',{},'{kind}',{amount},{at},{at},{at},{first},{last}",
                self.tenant,
                person(who)
            );
            conversions.add(db, &row).await?;
            for (link, is_first, is_last) in credited(&chain) {
                credits.add(db, &format!("{link},{at},'{kind}',{is_first},{is_last},{position},{amount}")).await?;
            }
        }
        conversions.flush(db).await?;
        credits.flush(db).await
    }
}

impl Made {
    /// Clicks of each link by hour and day, and of all of them together.
    async fn counts(&self, db: &mut SqliteConnection) -> Result<(), Failure> {
        let account = format!("(SELECT account FROM tenants WHERE id = '{}')", self.tenant);
        for (hours, days, of, key, from) in [
            ("click_hours", "click_days", "visitor", "kind + 8 * agent_code", "clicks"),
            (
                "click_facets",
                "click_facet_days",
                "platform, host",
                "platform, COALESCE(t.host, '')",
                "clicks LEFT JOIN visitor_texts t ON t.hash = clicks.referer WHERE kind IN (0, 3)",
            ),
            ("click_countries", "click_country_days", "country", "country", "clicks WHERE kind IN (0, 3)"),
        ] {
            let columns = "clicks, first_position, last_position, first_at, last_at";
            for sql in [
                format!(
                    "INSERT INTO {hours} (link, hour, {of}, {columns})
                     SELECT link, at - at % 3600000, {key}, COUNT(*), MIN(position), MAX(position), MIN(at), MAX(at)
                     FROM {from} GROUP BY link, at - at % 3600000, {key}"
                ),
                format!(
                    "INSERT INTO {hours} (link, hour, {of}, {columns})
                     SELECT {account}, hour, {of}, SUM(clicks), MIN(first_position), MAX(last_position), MIN(first_at),
                         MAX(last_at) FROM {hours} GROUP BY hour, {of}"
                ),
                format!(
                    "INSERT INTO {days} (link, day, {of}, clicks)
                     SELECT link, hour - hour % 86400000, {of}, SUM(clicks) FROM {hours}
                     GROUP BY link, hour - hour % 86400000, {of}"
                ),
            ] {
                sqlx::query(AssertSqlSafe(sql)).execute(&mut *db).await?;
            }
        }
        Ok(())
    }

    /// What all links led to together.
    async fn account(&self, db: &mut SqliteConnection) -> Result<(), Failure> {
        let account = format!("(SELECT account FROM tenants WHERE id = '{}')", self.tenant);
        for sql in [
            format!("UPDATE touches SET account = {account}"),
            "UPDATE touches SET account_before = earlier.at_before FROM (
                 SELECT install, at, number, LAG(at) OVER (PARTITION BY install ORDER BY at, number) AS at_before
                 FROM touches WHERE number > 1) AS earlier
             WHERE earlier.install = touches.install AND earlier.at = touches.at AND earlier.number = touches.number"
                .to_owned(),
            format!(
                "INSERT INTO install_credits (link, at, bound_as, is_first, is_last, install)
                 SELECT {account}, at, bound_as, TRUE, TRUE, install FROM install_credits WHERE is_last"
            ),
            format!(
                "INSERT INTO conversion_credits (link, at, conversion_type, is_first, is_last, conversion, amount_cents, currency)
                 SELECT CASE WHEN first_link IS NULL THEN {account} - 1 ELSE {account} END,
                     at, conversion_type, TRUE, TRUE, position, amount_cents, currency FROM conversions"
            ),
        ]
        .into_iter()
        .chain(SUMS.split(";\n").filter(|sql| sql.trim_start().starts_with("INSERT")).map(str::to_owned))
        {
            sqlx::query(AssertSqlSafe(sql)).execute(&mut *db).await?;
        }
        Ok(())
    }
}

/// The statements that sum up what is there.
const SUMS: &str = concat!(
    include_str!("../../migrations/0035_account_sums.sql"),
    include_str!("../../migrations/0036_account_links.sql")
);

/// Each link of a chain once, and whether it is the first and the last.
fn credited(chain: &[i64]) -> Vec<(i64, bool, bool)> {
    let mut links = chain.to_vec();
    links.sort_unstable();
    links.dedup();
    let (first, last) = (chain.first().copied(), chain.last().copied());
    links.into_iter().map(|link| (link, first == Some(link), last == Some(link))).collect()
}

fn person(nth: usize) -> i64 {
    (1_700_000_000_001 << 20) + number(nth)
}

fn agent(nth: usize) -> String {
    format!("Mozilla/5.0 (X11; Linux x86_64; rv:{}.0) Gecko/20100101 Firefox/{}.0", 100 + nth, 100 + nth)
}

fn referer(nth: usize) -> String {
    format!("https://site-{}.example.com/page/{nth}", nth * nth % HOSTS)
}

/// The key under which a text is stored, as SQL.
fn hash(text: &str) -> String {
    format!("x'{}'", &sha256_hex(text)[..32])
}
