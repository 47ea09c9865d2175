//! Tests of certificate leases, due names, lookups and challenges.

use std::sync::Arc;

use deeplink_core::id::{DomainId, TenantId};
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use tokio::sync::Barrier;

use super::acme::{self, Challenge};
use super::certificates::{self, NewCertificate};
use super::tests::{Scratch, now};
use super::{Access, Db, leases};
use crate::config::{Config, TEST_DATABASE_TIMEOUT};
use crate::shares::Share;
use crate::vault::{MasterKey, Vault};

fn at(millis: i64) -> Timestamp {
    now().plus_millis(millis)
}

async fn take(db: &Db, holder: &str, now: Timestamp, until: Timestamp) -> bool {
    let taken = db.write(Share::Service, holder.to_owned(), move |tx, holder| {
        leases::take(tx, leases::CERTIFICATES, holder, now, until).boxed()
    });
    taken.await.expect("a write")
}

/// A second node on the same database; on SQLite the same one.
async fn second_node(scratch: &Scratch) -> Db {
    if scratch.db.is_sqlite() {
        return scratch.db.clone();
    }
    Db::open(&scratch.url, Access::Serve, TEST_DATABASE_TIMEOUT).await.expect("another node")
}

#[tokio::test]
async fn one_of_many_concurrent_callers_acquires_a_lease() {
    let scratch = Scratch::new().await;
    let nodes = [scratch.db.clone(), second_node(&scratch).await];
    for term in 0..5 {
        let (from, until) = (at(term * 1_000), at(term * 1_000 + 1_000));
        let start = Arc::new(Barrier::new(20));
        let wanted = (0..20).map(|n| {
            let (db, start) = (nodes[n % 2].clone(), Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                take(&db, &format!("holder-{n}"), from, until).await
            })
        });
        let taken = futures_util::future::join_all(wanted).await;
        let holders = taken.into_iter().filter(|taken| *taken.as_ref().expect("no panic")).count();
        assert_eq!(holders, 1, "term {term}");
    }
}

#[tokio::test]
async fn a_lease_is_held_until_it_expires_or_is_released() {
    let scratch = Scratch::new().await;
    let [first, second] = [scratch.db.clone(), second_node(&scratch).await];
    assert!(take(&first, "a", at(0), at(100)).await);
    assert!(!take(&second, "b", at(99), at(200)).await, "it is held");
    assert!(take(&first, "a", at(50), at(150)).await, "its holder renews it");
    assert!(!take(&second, "b", at(149), at(300)).await);
    assert!(take(&second, "b", at(150), at(300)).await, "it had expired");
    assert!(!take(&first, "a", at(151), at(400)).await, "a holder that was away too long has lost it");
    for (holder, free) in [("a", false), ("b", true)] {
        scratch.write(move |tx| async move { leases::give_back(tx, leases::CERTIFICATES, holder).await }.boxed()).await;
        assert_eq!(take(&first, "a", at(160), at(200)).await, free, "released by {holder}");
    }
}

/// Stores a domain of a tenant.
async fn domain(scratch: &Scratch, tenant: &TenantId, name: &str, verified: bool) {
    let id = DomainId::new(now(), &mut Random::system());
    let verified = if verified { now().as_millis().to_string() } else { "NULL".to_owned() };
    scratch
        .execute(format!(
            "INSERT INTO domains (id, tenant_id, domain, role, verified_at, created_at)
             VALUES ('{id}', '{tenant}', '{name}', 'primary', {verified}, 1)"
        ))
        .await;
}

async fn certified(scratch: &Scratch, name: &str, id: &str, renew_at: Timestamp) {
    let new = NewCertificate {
        name: name.to_owned(),
        id: id.to_owned(),
        chain: format!("chain of {id}"),
        sealed_key: format!("key of {id}"),
        not_before: at(0),
        not_after: at(9_000),
        renew_at,
    };
    scratch
        .write(move |tx| {
            let new = new.clone();
            async move { certificates::replace(tx, &new, now()).await }.boxed()
        })
        .await;
}

async fn failed(scratch: &Scratch, name: &'static str, again_at: Timestamp) {
    scratch
        .write(move |tx| {
            async move {
                let failures = certificates::failures(tx, name).await? + 1;
                certificates::note_failure(tx, name, failures, again_at, "because").await
            }
            .boxed()
        })
        .await;
}

async fn due(scratch: &Scratch, own: &str, when: Timestamp) -> Vec<String> {
    let mut reader = scratch.db.read().await.expect("a reader");
    let due = certificates::due(&mut reader.conn(), own, when, 10, 10).await.expect("names");
    due.into_iter().map(|due| due.name).collect()
}

#[tokio::test]
async fn names_are_due_without_a_certificate_and_for_renewal() {
    let scratch = Scratch::new().await;
    let tenant = scratch.tenant("owner@example.com").await;
    for (name, verified) in [("a.example.com", true), ("b.example.com", true), ("claimed.example.com", false)] {
        domain(&scratch, &tenant, name, verified).await;
    }
    assert_eq!(due(&scratch, "", at(0)).await, ["a.example.com", "b.example.com"]);
    assert_eq!(
        due(&scratch, "links.example.com", at(0)).await,
        ["links.example.com", "a.example.com", "b.example.com"]
    );

    certified(&scratch, "a.example.com", "one", at(500)).await;
    failed(&scratch, "b.example.com", at(50)).await;
    assert!(due(&scratch, "", at(49)).await.is_empty());
    assert_eq!(due(&scratch, "", at(50)).await, ["b.example.com"]);
    assert_eq!(due(&scratch, "", at(500)).await, ["a.example.com", "b.example.com"], "renewals come first");
    failed(&scratch, "b.example.com", at(900)).await;
    let failures = {
        let mut reader = scratch.db.read().await.expect("a reader");
        certificates::failures(&mut reader.conn(), "b.example.com").await.expect("a number")
    };
    assert_eq!(failures, 2);
    // A certificate resets the failures.
    certified(&scratch, "b.example.com", "two", at(600)).await;
    assert_eq!(due(&scratch, "", at(600)).await, ["a.example.com", "b.example.com"]);

    scratch.execute("UPDATE domains SET verified_at = NULL WHERE domain = 'a.example.com'".to_owned()).await;
    assert_eq!(due(&scratch, "", at(9_999)).await, ["b.example.com"], "unverified names are not renewed");
}

/// Failing names must delay neither renewals nor other tenants' names.
#[tokio::test]
async fn the_earliest_expiry_is_due_first_and_each_tenant_has_a_limit() {
    let scratch = Scratch::new().await;
    let many = scratch.tenant("many@example.com").await;
    let few = scratch.tenant("few@example.com").await;
    for name in ["a1", "a2", "a3", "a4", "a5"] {
        domain(&scratch, &many, &format!("{name}.example.com"), true).await;
    }
    for name in ["b1", "b2", "b3"] {
        domain(&scratch, &few, &format!("{name}.example.com"), true).await;
    }
    // The one that is renewed first expires last.
    certified(&scratch, "b1.example.com", "one", at(100)).await;
    certified(&scratch, "a5.example.com", "two", at(200)).await;
    scratch
        .execute(format!(
            "UPDATE certificates SET not_after = CASE WHEN id = 'one' THEN {} ELSE {} END",
            at(9_000).as_millis(),
            at(8_000).as_millis()
        ))
        .await;
    failed(&scratch, "a1.example.com", at(300)).await;
    failed(&scratch, "a2.example.com", at(250)).await;
    scratch
        .execute(format!("UPDATE domains SET verified_at = {} WHERE domain = 'a3.example.com'", at(1).as_millis()))
        .await;
    let due = async |most: i64, share: i64| {
        let mut reader = scratch.db.read().await.expect("a reader");
        let due = certificates::due(&mut reader.conn(), "links.example.com", at(400), most, share).await;
        due.expect("names")
            .into_iter()
            .map(|due| (due.name.replace(".example.com", ""), due.tenant))
            .collect::<Vec<_>>()
    };
    let (many, few, nobody) = (many.as_str(), few.as_str(), "");
    let all = [
        ("a5", many),
        ("b1", few),
        ("links", nobody),
        ("a4", many),
        ("b2", few),
        ("b3", few),
        ("a3", many),
        ("a2", many),
        ("a1", many),
    ]
    .map(|(name, tenant)| (name.to_owned(), tenant.to_owned()));
    assert_eq!(due(10, 10).await, all);
    assert_eq!(due(4, 2).await, all[..4]);
    assert_eq!(due(10, 2).await, all[..5]);
    assert_eq!(due(10, 1).await, all[..3]);
}

#[tokio::test]
async fn a_certificate_is_found_for_a_verified_name_only() {
    let scratch = Scratch::new().await;
    let tenant = scratch.tenant("owner@example.com").await;
    domain(&scratch, &tenant, "go.example.com", true).await;
    certified(&scratch, "go.example.com", "one", at(500)).await;
    certified(&scratch, "links.example.com", "own", at(500)).await;
    let find = async |name: &str, own: &str, known: Option<&str>| {
        let mut reader = scratch.db.read().await.expect("a reader");
        certificates::find(&mut reader.conn(), name, own, known).await.expect("an answer")
    };
    let found = find("go.example.com", "", None).await.expect("it is verified");
    assert_eq!((found.id.as_str(), found.chain.as_deref()), ("one", Some("chain of one")));
    assert_eq!(found.sealed_key.as_deref(), Some("key of one"));
    let known = find("go.example.com", "", Some("one")).await.expect("it is there");
    assert!(known.chain.is_none() && known.sealed_key.is_none(), "what is known is not read again");
    certified(&scratch, "go.example.com", "two", at(900)).await;
    let renewed = find("go.example.com", "", Some("one")).await.expect("it is there");
    assert_eq!((renewed.id.as_str(), renewed.chain.as_deref()), ("two", Some("chain of two")));
    assert!(find("links.example.com", "", None).await.is_none(), "not the service's own host");
    assert!(find("links.example.com", "links.example.com", None).await.is_some());
    assert!(find("other.example.com", "links.example.com", None).await.is_none());

    for (lost, claimed) in [("UPDATE domains SET verified_at = NULL", true), ("DELETE FROM domains", false)] {
        scratch.execute(lost.to_owned()).await;
        assert!(find("go.example.com", "links.example.com", None).await.is_none(), "{lost}");
        scratch.write(|tx| async move { certificates::sweep(tx, "links.example.com").await }.boxed()).await;
        let mut reader = scratch.db.read().await.expect("a reader");
        const IDS: &str = "SELECT id FROM certificates ORDER BY id";
        let kept: Vec<String> =
            on!(&mut reader.conn(), c => sqlx::query_scalar(IDS).fetch_all(c).await).expect("what is kept");
        // A claim may be verified again; nothing is kept for an unclaimed name.
        assert_eq!(kept, if claimed { vec!["own", "two"] } else { vec!["own"] }, "{lost}");
    }
}

#[tokio::test]
async fn a_challenge_is_answered_for_its_name_while_it_is_pending() {
    let scratch = Scratch::new().await;
    for (token, name) in [("t1", "go.example.com"), ("t2", "go.example.com"), ("t3", "other.example.com")] {
        let challenge = Challenge {
            token: token.to_owned(),
            name: name.to_owned(),
            key_authorization: format!("{token}.thumbprint"),
            expires_at: at(100),
        };
        scratch
            .write(move |tx| {
                let challenge = challenge.clone();
                async move { acme::insert_challenge(tx, &challenge).await }.boxed()
            })
            .await;
    }
    let find = async |token: &str, name: &str, when: Timestamp| {
        let mut reader = scratch.db.read().await.expect("a reader");
        acme::find_challenge(&mut reader.conn(), token, name, when).await.expect("an answer")
    };
    assert_eq!(find("t1", "go.example.com", at(99)).await.as_deref(), Some("t1.thumbprint"));
    assert_eq!(find("t1", "other.example.com", at(0)).await, None);
    assert_eq!(find("t9", "go.example.com", at(0)).await, None);
    assert_eq!(find("t1", "go.example.com", at(100)).await, None, "its time is over");
    scratch.write(|tx| async move { acme::end_challenges(tx, "go.example.com", at(0)).await }.boxed()).await;
    for token in ["t1", "t2"] {
        assert_eq!(find(token, "go.example.com", at(0)).await, None, "the order is over");
    }
    assert!(find("t3", "other.example.com", at(0)).await.is_some());
}

/// X18: private keys of certificates and accounts are re-encrypted with a new master key, so that the old one can be removed.
#[tokio::test]
async fn x18_private_keys_are_re_encrypted_with_a_new_server_key() {
    let scratch = Scratch::new().await;
    let folder = tempfile::tempdir().expect("a directory");
    let directory = "https://acme.example.com/directory";
    let [old, new] = [1, 2].map(|seed| MasterKey::generate(&mut Random::seeded(seed)));
    let mut config = Config::for_tests(folder.path());
    let public_url = "https://links.example.com".parse().expect("a URL");
    config.master_keys = vec![old.clone()];
    let vault = Vault::unlock(&config, &scratch.db, &public_url).await.expect("the first key");
    certified(&scratch, "go.example.com", "one", at(500)).await;
    let sealed = vault.seal("certificates", "one", b"the key");
    let account = acme::Account {
        directory: directory.to_owned(),
        contact: None,
        sealed: vault.seal("acme_accounts", directory, b"the account"),
    };
    scratch
        .write(move |tx| {
            let account = account.clone();
            async move { acme::keep_account(tx, &account, now()).await }.boxed()
        })
        .await;
    scratch.execute(format!("UPDATE certificates SET sealed_key = '{sealed}'")).await;
    config.master_keys = vec![new.clone(), old];
    Vault::unlock(&config, &scratch.db, &public_url).await.expect("both keys");
    let alone = Vault::of(&new, &[]);
    let mut reader = scratch.db.read().await.expect("a reader");
    const KEY: &str = "SELECT sealed_key FROM certificates";
    let key: String = on!(&mut reader.conn(), c => sqlx::query_scalar(KEY).fetch_one(c).await).expect("the key");
    assert_eq!(alone.open("certificates", "one", &key).expect("it opens"), b"the key");
    let account = acme::find_account(&mut reader.conn(), directory).await.expect("an answer").expect("an account");
    assert_eq!(alone.open("acme_accounts", directory, &account.sealed).expect("it opens"), b"the account");
}

/// When a master key is lost for good, the certificates that need it are due at once, and the account that orders them
/// is created anew; those of other keys stay.
#[tokio::test]
async fn r10_what_is_lost_with_a_key_is_ordered_anew() {
    let scratch = Scratch::new().await;
    let folder = tempfile::tempdir().expect("a directory");
    let [lost, new] = [1, 2].map(|seed| MasterKey::generate(&mut Random::seeded(seed)));
    let vaults = [&lost, &new].map(|key| Vault::of(key, &[]));
    let directories = ["https://one.example.com/directory", "https://two.example.com/directory"];
    for (which, vault) in vaults.iter().enumerate() {
        let (name, id) = (["go.example.com", "two.example.com"][which], ["one", "two"][which]);
        certified(&scratch, name, id, at(500)).await;
        let sealed = vault.seal("certificates", id, b"the key");
        scratch.execute(format!("UPDATE certificates SET sealed_key = '{sealed}' WHERE id = '{id}'")).await;
        let (directory, sealed) =
            (directories[which].to_owned(), vault.seal("acme_accounts", directories[which], b"it"));
        let account = acme::Account { directory, contact: None, sealed };
        scratch
            .write(move |tx| {
                let account = account.clone();
                async move { acme::keep_account(tx, &account, now()).await }.boxed()
            })
            .await;
    }
    let mut config = Config::for_tests(folder.path());
    let public_url = "https://links.example.com".parse().expect("a URL");
    config.master_keys = vec![new];
    let refused = Vault::unlock(&config, &scratch.db, &public_url).await.expect_err("values need the other key");
    assert!(refused.to_string().contains("1 certificate key, 1 ACME account"), "{refused}");
    config.lost_master_keys = vec![id_of(&vaults[0]), id_of(&vaults[1])];
    Vault::unlock(&config, &scratch.db, &public_url).await.expect("the key is lost");
    let mut reader = scratch.db.read().await.expect("a reader");
    const DUE: &str = "SELECT id FROM certificates WHERE renew_at = 0";
    let due: Vec<String> = on!(&mut reader.conn(), c => sqlx::query_scalar(DUE).fetch_all(c).await).expect("ids");
    assert_eq!(due, ["one"]);
    let found = [
        acme::find_account(&mut reader.conn(), directories[0]).await.expect("an answer"),
        acme::find_account(&mut reader.conn(), directories[1]).await.expect("an answer"),
    ];
    assert_eq!(found.map(|account| account.is_some()), [false, true]);
}

fn id_of(vault: &Vault) -> String {
    vault.key_ids().next().map(str::to_owned).expect("a key")
}
