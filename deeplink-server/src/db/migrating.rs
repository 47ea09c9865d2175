//! Tests of migrations that rewrite rows, on both databases.

use deeplink_core::id::{EventId, SourceId};
use deeplink_core::secret::Random;
use futures_util::FutureExt;

use super::conversions::{self, Reporter};
use super::tests::{Scratch, now};

/// The table as the previous release created it.
const BEFORE: [&str; 3] = [
    "DROP TABLE conversion_keys",
    "CREATE TABLE conversion_keys (tenant_id TEXT NOT NULL, key TEXT NOT NULL, conversion TEXT NOT NULL,
        expires_at BIGINT NOT NULL, PRIMARY KEY (tenant_id, key))",
    "CREATE INDEX conversion_keys_expiry ON conversion_keys (expires_at)",
];

/// The part of the migration that concerns it.
fn statements() -> impl Iterator<Item = &'static str> {
    let all = include_str!("../../../migrations/0018_proved_addresses.sql");
    let (_, after) = all.split_once("DROP INDEX conversion_keys_expiry;\n").expect("its first statement");
    let (of_keys, _) = after.split_once("CREATE INDEX conversion_keys_expiry").expect("its last statement");
    let last = "CREATE INDEX conversion_keys_expiry ON conversion_keys (expires_at)";
    ["DROP INDEX conversion_keys_expiry"].into_iter().chain(of_keys.split(";\n").map(str::trim)).chain([last])
}

/// The key of an earlier conversion stays taken for everyone who may have reported it, so that no repeat counts as a
/// new conversion: for servers if it came from a source; for servers and pages if it came with a key, since the kind of
/// key is not recorded.
#[tokio::test]
async fn r15_keys_of_earlier_conversions_stay_taken() {
    let scratch = Scratch::new().await;
    let tenant = scratch.tenant("a@example.com").await;
    for sql in BEFORE {
        scratch.execute(sql.to_owned()).await;
    }
    scratch
        .execute(format!(
            "INSERT INTO app_users (position, tenant_id, user_id, created_at) VALUES (1, '{tenant}', 'ann', 0)"
        ))
        .await;
    let mut random = Random::system();
    let source = SourceId::new(now(), &mut random);
    let [of_source, with_key, later] = [(); 3].map(|()| EventId::new(now(), &mut random));
    let until = now().plus_days(30).as_millis();
    for (at, id, source, key) in
        [(1, &of_source, format!("'{source}'"), "order-1"), (2, &with_key, "NULL".to_owned(), "order-2")]
    {
        scratch
            .execute(format!(
                "INSERT INTO conversions (position, id, tenant_id, app_user, source_id, conversion_type, at, received_at)
                 VALUES ({at}, '{id}', '{tenant}', 1, {source}, 'purchase', 0, 0)"
            ))
            .await;
        scratch
            .execute(format!(
                "INSERT INTO conversion_keys (tenant_id, key, conversion, expires_at)
                 VALUES ('{tenant}', '{key}', '{id}', {until})"
            ))
            .await;
    }
    for sql in statements().filter(|sql| !sql.is_empty()) {
        scratch.execute(sql.to_owned()).await;
    }
    for (reporter, key, holder) in [
        (Reporter::Server, "order-1", Some(&of_source)),
        (Reporter::Source(source), "order-1", Some(&of_source)),
        (Reporter::Server, "order-2", Some(&with_key)),
        (Reporter::Page, "order-2", Some(&with_key)),
        (Reporter::Page, "order-1", None),
        (Reporter::Page, "order-3", None),
        (Reporter::Server, "order-3", None),
    ] {
        let (tenant, later, by) = (tenant.clone(), later.clone(), reporter.clone());
        let claimed = scratch.write(move |tx| {
            let (tenant, later, by) = (tenant.clone(), later.clone(), by.clone());
            async move { conversions::claim_key(tx, &tenant, &by, key, &later, now()).await }.boxed()
        });
        assert_eq!(claimed.await.as_ref(), holder, "{reporter:?} {key}");
    }
}
