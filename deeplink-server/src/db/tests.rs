//! Tests of queries below the API, on SQLite or, with `TEST_DATABASE_URL`, on PostgreSQL.

use deeplink_core::domain::DomainRole;
use deeplink_core::id::{AffiliateId, DomainId, MailId, SecretKeyId, TenantId};
use deeplink_core::link::{CreateLink, LinkStatus};
use deeplink_core::secret::{Random, SecretKey, Token};
use deeplink_core::time::Timestamp;
use deeplink_doubles::machine;
use futures_util::FutureExt;
use sqlx::{AssertSqlSafe, Connection};

use super::accounts::NewAccount;
use super::domain_proofs::Proved;
use super::domains::Domain;
use super::inspect::{Inspected, inspect};
use super::keys::NewKey;
use super::link_status::{Owner, StatusSet};
use super::links::{Inserted, Link};
use super::tenants::Counted;
use super::tokens::Purpose;
use super::users::Standing;
use super::*;
use crate::config::TEST_DATABASE_TIMEOUT;

/// A temporary database for one test.
pub(crate) struct Scratch {
    pub(crate) db: Db,
    pub(super) url: String,
    _folder: tempfile::TempDir,
}

pub(super) fn now() -> Timestamp {
    Timestamp::from_millis(1_795_167_000_000)
}

impl Scratch {
    pub(crate) async fn new() -> Self {
        let folder = machine::directory();
        let url = machine::new_database("queries", folder.path());
        let db = Db::open(&url, Access::Serve, TEST_DATABASE_TIMEOUT).await.expect("a database");
        Self { db, url, _folder: folder }
    }

    /// Runs a statement.
    pub(crate) async fn execute(&self, sql: String) {
        self.write(move |tx| {
            let sql = sql.clone();
            async move {
                execute!(tx, AssertSqlSafe(sql))?;
                Ok(())
            }
            .boxed()
        })
        .await;
    }

    pub(super) async fn write<T, F>(&self, work: F) -> T
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c mut Conn<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + Sync + 'static,
    {
        self.db.write(Share::Service, (), move |tx, ()| work(tx)).await.expect("a write")
    }

    async fn account(&self, email: &str, standing: Standing) -> (NewAccount, bool) {
        let email = email.parse().expect("an address");
        let account = NewAccount::draw(email, standing, now(), &mut Random::system());
        let drawn = account.clone();
        let opened = self
            .db
            .write(Share::Service, account, |tx, account| {
                // A refusal must roll the tenant back.
                async move { if accounts::open(tx, account).await? { Ok(()) } else { Err(DbError::Overloaded) } }
                    .boxed()
            })
            .await;
        (drawn, opened.is_ok())
    }

    pub(super) async fn tenant(&self, email: &str) -> TenantId {
        let (account, opened) = self.account(email, Standing::Verified).await;
        assert!(opened);
        account.owner.tenant
    }

    async fn link(&self, tenant: &TenantId, id: &str, position: i64) -> Inserted {
        let content = CreateLink::new().check().expect("a link");
        let mut link = Link::new(tenant.clone(), id.to_owned(), content, now());
        link.position = position;
        self.write(move |tx| {
            let link = link.clone();
            async move { links::insert(tx, &link, false).await }.boxed()
        })
        .await
    }

    async fn owner(&self, id: &'static str) -> Owner {
        link_status::owner(&mut self.db.read().await.expect("a reader").conn(), id).await.expect("an answer")
    }

    async fn caller(&self, key: &SecretKey) -> Option<crate::caller::Caller> {
        let found = keys::by_hash(&mut self.db.read().await.expect("a reader").conn(), &key.hash()).await;
        found.expect("an answer").map(|known| known.caller)
    }
}

#[tokio::test]
async fn a_link_id_alone_means_the_claim_or_else_the_only_link() {
    let scratch = Scratch::new().await;
    let (a, b, c) = (
        scratch.tenant("a@example.com").await,
        scratch.tenant("b@example.com").await,
        scratch.tenant("c@example.com").await,
    );
    for (tenant, id, position) in [(&a, "promo", 1), (&b, "promo", 2), (&c, "promo", 3), (&c, "alone", 4)] {
        assert_eq!(scratch.link(tenant, id, position).await, Inserted::Yes);
    }
    assert_eq!(scratch.owner("promo").await, Owner::One(a.clone()), "the first one has the claim");
    assert_eq!(scratch.owner("alone").await, Owner::One(c.clone()));
    assert_eq!(scratch.owner("nothing").await, Owner::Nobody);
    scratch.execute(format!("DELETE FROM links WHERE tenant_id = '{a}'")).await;
    let mut both = vec![b, c.clone()];
    both.sort();
    assert_eq!(scratch.owner("promo").await, Owner::Several(both), "the claim does not pass to another account");
    scratch.execute("DELETE FROM links WHERE position = 2".to_owned()).await;
    assert_eq!(scratch.owner("promo").await, Owner::One(c));
}

#[tokio::test]
async fn a_status_is_set_and_reset_and_its_reasons_are_kept() {
    let scratch = Scratch::new().await;
    let tenant = scratch.tenant("a@example.com").await;
    scratch.link(&tenant, "promo", 1).await;
    for (status, stored) in [
        (LinkStatus::Flagged, Some(LinkStatus::Flagged)),
        (LinkStatus::Disabled, Some(LinkStatus::Disabled)),
        (LinkStatus::Active, None),
    ] {
        let owner = tenant.clone();
        let found = scratch.write(move |tx| {
            let (owner, status) = (owner.clone(), status.clone());
            async move { link_status::set(tx, &owner, "promo", &status, "a reason", now()).await }.boxed()
        });
        assert_eq!(found.await, StatusSet::Yes);
        let mut reader = scratch.db.read().await.expect("a reader");
        let link = links::find(&mut reader.conn(), &tenant, "promo").await.expect("an answer").expect("the link");
        assert_eq!(link.status, stored);
    }
    let owner = tenant.clone();
    let found = scratch.write(move |tx| {
        let owner = owner.clone();
        async move { link_status::set(tx, &owner, "other", &LinkStatus::Flagged, "a reason", now()).await }.boxed()
    });
    assert_eq!(found.await, StatusSet::NoLink);
    let mut reader = scratch.db.read().await.expect("a reader");
    let kept: Vec<String> = on!(&mut reader.conn(), c => {
        sqlx::query_scalar("SELECT status FROM link_status_changes WHERE reason = 'a reason' ORDER BY status")
            .fetch_all(c).await
    })
    .expect("the changes");
    assert_eq!(kept, ["active", "disabled", "flagged"]);
}

#[tokio::test]
async fn a_verified_address_has_one_account_and_ends_the_tokens_of_others() {
    let scratch = Scratch::new().await;
    let (stranger, opened) = scratch.account("v@example.com", Standing::Unverified).await;
    assert!(opened && scratch.account("v@example.com", Standing::Unverified).await.1);
    let token = Token::generate(&mut Random::system());
    let owner = stranger.owner.clone();
    scratch
        .write(move |tx| {
            let (owner, token) = (owner.clone(), token.clone());
            async move {
                let until = now().plus_days(7);
                tokens::insert(tx, &token, Purpose::Signup, &owner.tenant, &owner.id, until).await
            }
            .boxed()
        })
        .await;
    assert!(scratch.account("v@example.com", Standing::Verified).await.1);
    let (_, again) = scratch.account("v@example.com", Standing::Verified).await;
    let (_, unverified) = scratch.account("v@example.com", Standing::Unverified).await;
    assert!(!again && !unverified);
    let mut reader = scratch.db.read().await.expect("a reader");
    let (accounts, tokens): (i64, i64) = on!(&mut reader.conn(), c => {
        sqlx::query_as("SELECT (SELECT COUNT(*) FROM tenants), (SELECT COUNT(*) FROM tokens)").fetch_one(c).await
    })
    .expect("counts");
    assert_eq!((accounts, tokens), (3, 0), "a refused account is rolled back");
    assert!(scratch.caller(&stranger.key.key).await.is_some(), "the stranger's own key stays valid");
}

#[tokio::test]
async fn keys_of_a_disabled_affiliate_are_invalid() {
    let scratch = Scratch::new().await;
    let tenant = scratch.tenant("a@example.com").await;
    let mut random = Random::system();
    let affiliate = AffiliateId::new(now(), &mut random);
    scratch
        .execute(format!(
            "INSERT INTO affiliates (id, tenant_id, name, partner_key, status, created_at, updated_at)
             VALUES ('{affiliate}', '{tenant}', 'Partner', 'partner', 'active', 0, 0)"
        ))
        .await;
    let key = NewKey {
        id: SecretKeyId::new(now(), &mut random),
        tenant: tenant.clone(),
        affiliate: Some(affiliate.clone()),
        key: SecretKey::generate(&mut random),
        created_by: None,
        created_at: now(),
    };
    let secret = key.key.clone();
    scratch
        .write(move |tx| {
            let key = key.clone();
            async move { keys::insert(tx, &key).await }.boxed()
        })
        .await;
    let caller = scratch.caller(&secret).await.expect("the affiliate's caller");
    assert_eq!((caller.tenant, caller.affiliate), (tenant.clone(), Some(affiliate.clone())));
    scratch.execute("UPDATE affiliates SET status = 'disabled'".to_owned()).await;
    assert_eq!(scratch.caller(&secret).await, None);
    let mut reader = scratch.db.read().await.expect("a reader");
    assert!(affiliates::belongs(&mut reader.conn(), &tenant, &affiliate).await.expect("an answer"));
    let other = TenantId::new(now(), &mut random);
    assert!(!affiliates::belongs(&mut reader.conn(), &other, &affiliate).await.expect("an answer"));
}

/// U2: the counter changes with the rows; a write over the limit is rolled back.
#[tokio::test]
async fn u2_links_are_counted_up_to_the_plan() {
    let scratch = Scratch::new().await;
    let tenant = scratch.tenant("a@example.com").await;
    let count = async |links: i64, enforce: bool| {
        let tenant = tenant.clone();
        scratch
            .write(move |tx| {
                let tenant = tenant.clone();
                async move { tenants::count_links(tx, &tenant, links, enforce.then(now)).await }.boxed()
            })
            .await
    };
    assert_eq!(count(50, true).await, Counted::Within);
    assert_eq!(count(1, true).await, Counted::Over { limit: 50, current: 50 });
    assert_eq!(count(100, false).await, Counted::Within, "without enforcement there is no limit");
    let owner = tenant.clone();
    scratch
        .write(move |tx| {
            let owner = owner.clone();
            async move { tenants::uncount_links(tx, &owner, 102).await }.boxed()
        })
        .await;
    assert_eq!(count(1, true).await, Counted::Within);
}

#[tokio::test]
async fn a_mail_is_claimed_by_one_sender_at_a_time() {
    let scratch = Scratch::new().await;
    let id = MailId::new(now(), &mut Random::system());
    let stored = id.clone();
    scratch
        .write(move |tx| {
            let id = stored.clone();
            async move { mails::insert(tx, &id, "sealed", now(), now().plus_days(1)).await }.boxed()
        })
        .await;
    let claim = async |at: Timestamp| {
        let until = at.plus_millis(30_000);
        scratch.write(move |tx| async move { mails::claim(tx, at, until).await }.boxed()).await
    };
    let first = claim(now()).await;
    assert_eq!((first.len(), first[0].id.as_str(), first[0].attempts), (1, id.as_str(), 1));
    assert!(claim(now().plus_millis(29_999)).await.is_empty(), "it is claimed");
    let second = claim(now().plus_millis(30_000)).await;
    assert_eq!(second[0].attempts, 2);
    scratch.write(|tx| async move { mails::release(tx, now()).await }.boxed()).await;
    assert_eq!(claim(now()).await[0].attempts, 3);
    let text = id.as_str().to_owned();
    scratch
        .write(move |tx| {
            let id = text.clone();
            async move { mails::delete(tx, &id).await }.boxed()
        })
        .await;
    let mut reader = scratch.db.read().await.expect("a reader");
    assert_eq!(mails::next_due(&mut reader.conn()).await.expect("an answer"), None);
}

#[tokio::test]
async fn expired_tokens_are_deleted() {
    let scratch = Scratch::new().await;
    let (account, _) = scratch.account("v@example.com", Standing::Unverified).await;
    let owner = account.owner;
    scratch
        .write(move |tx| {
            let owner = owner.clone();
            async move {
                for days in [1, 7] {
                    let token = Token::generate(&mut Random::system());
                    let until = now().plus_days(days);
                    tokens::insert(tx, &token, Purpose::Signup, &owner.tenant, &owner.id, until).await?;
                }
                Ok(())
            }
            .boxed()
        })
        .await;
    let later = now().plus_days(2);
    let sweep = |statement: &'static str| {
        scratch.write(move |tx| async move { expired::sweep(tx, statement, later).await }.boxed())
    };
    for statement in expired::STATEMENTS {
        assert!(!sweep(statement).await, "{statement}");
    }
    let mut reader = scratch.db.read().await.expect("a reader");
    let left: i64 = on!(&mut reader.conn(), c => sqlx::query_scalar("SELECT COUNT(*) FROM tokens").fetch_one(c).await)
        .expect("a count");
    assert_eq!(left, 1);
}

#[tokio::test]
async fn events_of_the_processor_are_kept_for_thirty_days() {
    let scratch = Scratch::new().await;
    scratch
        .write(|tx| {
            async move {
                for (id, days) in [("evt_old", 30), ("evt_new", 29)] {
                    assert!(billing::note_event(tx, id, now().plus_days(-days)).await?);
                }
                expired::sweep(tx, billing::EXPIRED_EVENTS, now()).await
            }
            .boxed()
        })
        .await;
    let mut reader = scratch.db.read().await.expect("a reader");
    let mut knows = async |id: &str| billing::has_event(&mut reader.conn(), id).await.expect("an answer");
    assert_eq!((knows("evt_old").await, knows("evt_new").await), (false, true));
}

#[tokio::test]
async fn an_inspection_reports_contents_missing_and_newer_databases() {
    let scratch = Scratch::new().await;
    scratch.tenant("a@example.com").await;
    let now = Timestamp::from_millis(0);
    match inspect(&scratch.url, now).await.expect("a database") {
        Inspected::Usable { tenants: 1, links: 0, pending: 0, sealed, .. } => {
            assert!(sealed.check.is_none() && sealed.counts.as_ref().is_some_and(Vec::is_empty), "{sealed:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(inspect(&format!("{}_missing", scratch.url), now).await, Ok(Inspected::Missing)));
    scratch.execute("UPDATE _sqlx_migrations SET version = 9999 WHERE version = 1".to_owned()).await;
    assert!(matches!(inspect(&scratch.url, now).await, Err(OpenError::Newer(_))));
}

#[tokio::test]
async fn the_oldest_verified_primary_domain_is_used() {
    let scratch = Scratch::new().await;
    let tenant = scratch.tenant("a@example.com").await;
    let primary = async || {
        let mut reader = scratch.db.read().await.expect("a reader");
        domains::primary_of(&mut reader.conn(), &tenant).await.expect("an answer")
    };
    assert_eq!(primary().await, None);
    let mut random = Random::seeded(4);
    for (name, role, proved, age_millis) in [
        ("alternate.example.com", DomainRole::Alternate, Some(false), 4),
        ("unverified.example.com", DomainRole::Primary, None, 3),
        ("second.example.com", DomainRole::Primary, Some(true), 1),
        ("first.example.com", DomainRole::Primary, Some(false), 2),
    ] {
        let created_at = now().plus_millis(-age_millis);
        let claim = Domain {
            id: DomainId::new(created_at, &mut random),
            tenant: tenant.clone(),
            name: name.parse().expect("a name"),
            role,
            is_verified: false,
            token: Token::generate(&mut random).expose().to_owned(),
            created_at,
            root_url: None,
            not_found_url: None,
            long_links: false,
            allowed_hosts: Vec::new(),
        };
        let outcome = scratch.write(move |tx| {
            let claim = claim.clone();
            async move {
                assert!(domains::insert(tx, &claim).await?);
                match proved {
                    Some(_) => domain_proofs::prove(tx, &claim, now(), now()).await.map(Some),
                    None => Ok(None),
                }
            }
            .boxed()
        });
        assert_eq!(outcome.await, proved.map(|is_first_primary| Proved::Now { is_first_primary }), "{name}");
    }
    assert_eq!(primary().await.as_deref(), Some("first.example.com"));
}

/// A database with the ICU provider does not sort by bytes, whatever its collation says, and is refused.
#[tokio::test]
async fn a_database_that_sorts_with_icu_is_refused() {
    let Some(url) = machine::new_postgres_database("order") else { return };
    let name = url.path().trim_start_matches('/').to_owned();
    let mut server = url.clone();
    server.set_path("/postgres");
    let mut conn = sqlx::PgConnection::connect(server.as_str()).await.expect("a server");
    for (settings, says) in [
        ("LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LC_COLLATE 'C' LC_CTYPE 'C'", "sorts with ICU"),
        ("LC_COLLATE 'C' LC_CTYPE 'C'", ""),
    ] {
        let create = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' {settings}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut conn).await.expect("a database");
        let opened = Db::open(url.as_str(), Access::Serve, TEST_DATABASE_TIMEOUT).await;
        let refusal = opened.as_ref().err().map(ToString::to_string).unwrap_or_default();
        if let Ok(db) = opened {
            db.close().await;
        }
        assert!(refusal.contains(says) && refusal.is_empty() == says.is_empty(), "{settings}: {refusal}");
        let drop = format!("DROP DATABASE {name} WITH (FORCE)");
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut conn).await.expect("it is dropped");
    }
}

// SQLite reads all pages of a row up to the last column that a query needs.
#[tokio::test]
async fn a_list_of_logos_does_not_read_their_images() {
    let scratch = Scratch::new().await;
    let mut reader = scratch.db.read().await.expect("a reader");
    if let Conn::Sqlite(conn) = reader.conn() {
        let columns: Vec<String> = sqlx::query_scalar("SELECT name FROM pragma_table_info('qr_logos') ORDER BY cid")
            .fetch_all(conn)
            .await
            .expect("columns");
        assert_eq!(columns.last().map(String::as_str), Some("image"));
    }
}

// The lookup of a taken id once scanned all links, which blocked every other write for seconds.
#[tokio::test]
async fn a_taken_id_is_found_without_a_scan() {
    let scratch = Scratch::new().await;
    let mut reader = scratch.db.read().await.expect("a reader");
    if let Conn::Sqlite(conn) = reader.conn() {
        let plan: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", super::links::IS_TAKEN)))
                .bind("abc")
                .bind("tnt_0123456789abcdef01234567")
                .bind(true)
                .fetch_all(conn)
                .await
                .expect("a plan");
        let scans: Vec<_> = plan.iter().filter(|step| step.3.starts_with("SCAN links")).collect();
        assert!(scans.is_empty() && plan.iter().any(|step| step.3.contains("links_claim")), "{plan:?}");
    }
}

/// R2: a change of a few links does not read all links of their account.
#[tokio::test]
async fn r2_links_are_found_by_their_ids() {
    let scratch = Scratch::new().await;
    if !scratch.db.is_sqlite() {
        // PostgreSQL knows how many links an account has.
        return;
    }
    for statement in ["UPDATE links SET updated_at = $2", "SELECT link_id, position FROM links"] {
        let sql = format!("EXPLAIN QUERY PLAN {statement} WHERE {} ('one', 'two')", links::WITH_IDS);
        let mut reader = scratch.db.read().await.expect("a reader");
        let plan: Vec<(i64, i64, i64, String)> =
            on!(&mut reader.conn(), c => sqlx::query_as(AssertSqlSafe(sql)).fetch_all(c).await).expect("a plan");
        let steps: Vec<&str> = plan.iter().map(|step| step.3.as_str()).collect();
        assert!(steps[0].contains("(tenant_id=? AND link_id=?)"), "{statement}: {steps:?}");
    }
}
