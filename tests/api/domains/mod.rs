//! Custom domains: what can be claimed, what proves, keeps and ends a claim, and what its host then serves.

mod claims;
mod expiry;
mod hosts;
mod local;
mod long_links;
mod proofs;
mod races;
mod rechecks;
mod redirects;

use serde_json::Value;

use deeplink_testing::{Caller, World};

/// The DNS name of a domain's proof.
fn proof_of(domain: &str) -> String {
    format!("_deeplink-verify.{domain}")
}

/// Asks for a domain to be verified; the reply must be a result.
async fn verify(caller: &Caller, domain: &str) -> Value {
    let reply = caller.post_nothing(&format!("/v1/domains/{domain}/verify")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// The names of a tenant's domains, newest first, the verified ones marked with `!`.
async fn names(caller: &Caller) -> Vec<String> {
    let all = caller.get("/v1/domains").await.json();
    let name = |domain: &Value| {
        let mark = if domain["verified"] == true { "!" } else { "" };
        format!("{}{mark}", domain["domain"].as_str().expect("a name"))
    };
    all.as_array().expect("a bare array").iter().map(name).collect()
}

/// The count in a tenant's row, which must match its domains.
async fn counted(world: &World, caller: &Caller) -> i64 {
    let tenant = &caller.tenant;
    let count = world.db.number(format!("SELECT domain_count FROM tenants WHERE id = '{tenant}'")).await;
    let rows = format!("SELECT CAST(count(*) AS BIGINT) FROM domains WHERE tenant_id = '{tenant}'");
    assert_eq!(count, world.db.number(rows).await, "the counter matches the rows");
    count
}
