//! Queries whose rules no single operation shows, on SQLite or, with `TEST_DATABASE_URL`, on PostgreSQL.

use deeplink_core::domain::DomainRole;
use deeplink_core::id::{AffiliateId, DomainId, MailId, SecretKeyId, TenantId};
use deeplink_core::link::{CreateLink, LinkStatus};
use deeplink_core::secret::{Random, SecretKey, Token};
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use sqlx::AssertSqlSafe;

use super::accounts::NewAccount;
use super::domain_proofs::Proved;
use super::domains::Domain;
use super::inspect::{Inspected, inspect};
use super::keys::NewKey;
use super::link_status::Owner;
use super::links::{Inserted, Link};
use super::tenants::Counted;
use super::tokens::Purpose;
use super::users::Standing;
use super::*;
use crate::config::BUSY_MACHINE;

/// A database of its own.
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
        let folder = tempfile::tempdir().expect("a directory");
        #[expect(clippy::disallowed_methods, reason = "which database tests run on is no setting of the service")]
        let server = std::env::var("TEST_DATABASE_URL").ok().filter(|url| !url.is_empty());
        let url = match server {
            None => format!("sqlite://{}", folder.path().join("test.db").display()),
            Some(server) => {
                let mut url: url::Url = server.parse().expect("TEST_DATABASE_URL is a URL");
                url.set_path(&format!("queries_{}", hex::encode(Random::system().bytes::<8>())));
                url.into()
            }
        };
        let db = Db::open(&url, Access::Serve, BUSY_MACHINE).await.expect("a database");
        Self { db, url, _folder: folder }
    }

    /// Runs a statement.
    pub(crate) async fn execute(&self, sql: String) {
        self.write(move |tx| {
            let sql = sql.clone();
            async move {
                let mut tx = tx;
                on!(&mut tx, c => sqlx::query(AssertSqlSafe(sql)).execute(c).await.map(|_| ()))?;
                Ok(())
            }
            .boxed()
        })
        .await;
    }

    pub(super) async fn write<T, F>(&self, work: F) -> T
    where
        T: Send + 'static,
        F: for<'c> Fn(Conn<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + Sync + 'static,
    {
        self.db.write(work).await.expect("a write")
    }

    async fn account(&self, email: &str, standing: Standing) -> (NewAccount, bool) {
        let email = email.parse().expect("an address");
        let account = NewAccount::draw(email, standing, now(), &mut Random::system());
        let drawn = account.clone();
        let opened = self
            .db
            .write(move |mut tx| {
                let account = account.clone();
                async move {
                    // A refusal must take the tenant back.
                    if accounts::open(&mut tx, &account).await? { Ok(()) } else { Err(DbError::Overloaded) }
                }
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
        let link = Link {
            tenant: tenant.clone(),
            link_id: id.to_owned(),
            position,
            claimed: true,
            made_under: None,
            content: CreateLink::new().check().expect("a link"),
            status: None,
            expires_at: None,
            created_at: now(),
            updated_at: now(),
        };
        self.write(move |mut tx| {
            let link = link.clone();
            async move { links::insert(&mut tx, &link, false).await }.boxed()
        })
        .await
    }

    async fn owner(&self, id: &'static str) -> Owner {
        link_status::owner(&mut self.db.read().await.expect("a reader").conn(), id).await.expect("an answer")
    }

    async fn caller(&self, key: &SecretKey) -> Option<crate::http::auth::Caller> {
        let found = keys::by_hash(&mut self.db.read().await.expect("a reader").conn(), &key.hash()).await;
        found.expect("an answer").map(|known| known.caller)
    }
}

#[tokio::test]
async fn an_operator_means_the_claim_then_the_only_link() {
    let scratch = Scratch::new().await;
    let (a, b, c) = (
        scratch.tenant("a@example.com").await,
        scratch.tenant("b@example.com").await,
        scratch.tenant("c@example.com").await,
    );
    for (tenant, id, position) in [(&a, "promo", 1), (&b, "promo", 2), (&c, "promo", 3), (&c, "alone", 4)] {
        assert_eq!(scratch.link(tenant, id, position).await, Inserted::Yes);
    }
    assert_eq!(scratch.owner("promo").await, Owner::One(a.clone()), "the first one holds the claim");
    assert_eq!(scratch.owner("alone").await, Owner::One(c.clone()));
    assert_eq!(scratch.owner("nothing").await, Owner::Nobody);
    scratch.execute(format!("DELETE FROM links WHERE tenant_id = '{a}'")).await;
    let mut both = vec![b, c.clone()];
    both.sort();
    assert_eq!(scratch.owner("promo").await, Owner::Several(both), "the claim passes to nobody");
    scratch.execute("DELETE FROM links WHERE position = 2".to_owned()).await;
    assert_eq!(scratch.owner("promo").await, Owner::One(c));
}

#[tokio::test]
async fn a_status_is_set_and_taken_back_and_its_reason_stays() {
    let scratch = Scratch::new().await;
    let tenant = scratch.tenant("a@example.com").await;
    scratch.link(&tenant, "promo", 1).await;
    for (status, stored) in [
        (LinkStatus::Flagged, Some(LinkStatus::Flagged)),
        (LinkStatus::Disabled, Some(LinkStatus::Disabled)),
        (LinkStatus::Active, None),
    ] {
        let owner = tenant.clone();
        let found = scratch.write(move |mut tx| {
            let (owner, status) = (owner.clone(), status.clone());
            async move { link_status::set(&mut tx, &owner, "promo", &status, "a reason", now()).await }.boxed()
        });
        assert!(found.await);
        let mut reader = scratch.db.read().await.expect("a reader");
        let link = links::find(&mut reader.conn(), &tenant, "promo").await.expect("an answer").expect("the link");
        assert_eq!(link.status, stored);
    }
    let owner = tenant.clone();
    let found = scratch.write(move |mut tx| {
        let owner = owner.clone();
        async move { link_status::set(&mut tx, &owner, "other", &LinkStatus::Flagged, "a reason", now()).await }.boxed()
    });
    assert!(!found.await);
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
        .write(move |mut tx| {
            let (owner, token) = (owner.clone(), token.clone());
            async move {
                let until = now().plus_days(7);
                tokens::insert(&mut tx, &token, Purpose::Signup, &owner.tenant, &owner.id, until).await
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
    assert_eq!((accounts, tokens), (3, 0), "a refused account leaves nothing");
    assert!(scratch.caller(&stranger.key.key).await.is_some(), "the stranger's own key goes on");
}

#[tokio::test]
async fn the_keys_of_a_disabled_affiliate_stand_for_nobody() {
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
        .write(move |mut tx| {
            let key = key.clone();
            async move { keys::insert(&mut tx, &key).await }.boxed()
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

/// U2: the counter moves with the rows; a write that finds no room takes its count back.
#[tokio::test]
async fn u2_links_are_counted_up_to_the_plan() {
    let scratch = Scratch::new().await;
    let tenant = scratch.tenant("a@example.com").await;
    let count = async |links: i64, enforce: bool| {
        let tenant = tenant.clone();
        scratch
            .write(move |mut tx| {
                let tenant = tenant.clone();
                async move { tenants::count_links(&mut tx, &tenant, links, enforce).await }.boxed()
            })
            .await
    };
    assert_eq!(count(50, true).await, Counted::Within);
    assert_eq!(count(1, true).await, Counted::Over { limit: 50, current: 50 });
    assert_eq!(count(100, false).await, Counted::Within, "without enforcement nothing is over");
    let owner = tenant.clone();
    scratch
        .write(move |mut tx| {
            let owner = owner.clone();
            async move { tenants::uncount_links(&mut tx, &owner, 102).await }.boxed()
        })
        .await;
    assert_eq!(count(1, true).await, Counted::Within);
}

#[tokio::test]
async fn a_mail_is_held_by_one_sender_at_a_time() {
    let scratch = Scratch::new().await;
    let id = MailId::new(now(), &mut Random::system());
    let stored = id.clone();
    scratch
        .write(move |mut tx| {
            let id = stored.clone();
            async move { mails::insert(&mut tx, &id, "sealed", now(), now().plus_days(1)).await }.boxed()
        })
        .await;
    let claim = async |at: Timestamp| {
        let until = at.plus_millis(30_000);
        scratch.write(move |mut tx| async move { mails::claim(&mut tx, at, until).await }.boxed()).await
    };
    let first = claim(now()).await;
    assert_eq!((first.len(), first[0].id.as_str(), first[0].attempts), (1, id.as_str(), 1));
    assert!(claim(now().plus_millis(29_999)).await.is_empty(), "it is held");
    let second = claim(now().plus_millis(30_000)).await;
    assert_eq!(second[0].attempts, 2);
    scratch.write(|mut tx| async move { mails::release(&mut tx, now()).await }.boxed()).await;
    assert_eq!(claim(now()).await[0].attempts, 3);
    let text = id.as_str().to_owned();
    scratch
        .write(move |mut tx| {
            let id = text.clone();
            async move { mails::delete(&mut tx, &id).await }.boxed()
        })
        .await;
    let mut reader = scratch.db.read().await.expect("a reader");
    assert_eq!(mails::next_due(&mut reader.conn()).await.expect("an answer"), None);
}

#[tokio::test]
async fn expired_tokens_are_swept() {
    let scratch = Scratch::new().await;
    let (account, _) = scratch.account("v@example.com", Standing::Unverified).await;
    let owner = account.owner;
    scratch
        .write(move |mut tx| {
            let owner = owner.clone();
            async move {
                for days in [1, 7] {
                    let token = Token::generate(&mut Random::system());
                    let until = now().plus_days(days);
                    tokens::insert(&mut tx, &token, Purpose::Signup, &owner.tenant, &owner.id, until).await?;
                }
                Ok(())
            }
            .boxed()
        })
        .await;
    let later = now().plus_days(2);
    let sweep = |statement: &'static str| {
        scratch.write(move |mut tx| async move { expired::sweep(&mut tx, statement, later).await }.boxed())
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
async fn an_inspection_sees_what_is_there() {
    let scratch = Scratch::new().await;
    scratch.tenant("a@example.com").await;
    match inspect(&scratch.url).await.expect("a database") {
        Inspected::Usable { tenants: 1, links: 0, pending: 0, vault_check: None } => {}
        other => panic!("{other:?}"),
    }
    assert!(matches!(inspect(&format!("{}_missing", scratch.url)).await, Ok(Inspected::Missing)));
    scratch.execute("UPDATE _sqlx_migrations SET version = 9999 WHERE version = 1".to_owned()).await;
    assert!(matches!(inspect(&scratch.url).await, Err(OpenError::Newer(_))));
}

#[tokio::test]
async fn the_oldest_verified_primary_domain_counts() {
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
        };
        let outcome = scratch.write(move |mut tx| {
            let claim = claim.clone();
            async move {
                assert!(domains::insert(&mut tx, &claim).await?);
                match proved {
                    Some(_) => domain_proofs::prove(&mut tx, &claim, now(), now()).await.map(Some),
                    None => Ok(None),
                }
            }
            .boxed()
        });
        assert_eq!(outcome.await, proved.map(|is_first_primary| Proved::Now { is_first_primary }), "{name}");
    }
    assert_eq!(primary().await.as_deref(), Some("first.example.com"));
}

// A taken id was once looked up by scanning all links, which held every other write back for seconds.
#[tokio::test]
async fn a_taken_id_is_found_without_a_scan() {
    let scratch = Scratch::new().await;
    let mut reader = scratch.db.read().await.expect("a reader");
    if let Conn::Sqlite(conn) = reader.conn() {
        let plan: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", super::links::HOLDS)))
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
