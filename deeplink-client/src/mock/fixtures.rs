//! A plausible reply of each operation.

use deeplink_core::bulk::{BulkCreated, BulkLink};
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::health::Health;
use deeplink_core::id::{SecretKeyId, TenantId, UserId};
use deeplink_core::link::{CreatedLink, LinkDetail, LinkList, LinkStatus, ResolvedLink, ServiceMeta};
use deeplink_core::secret::{Random, SecretKey};
use deeplink_core::stats::{Bucket, Granularity, Timeseries};
use deeplink_core::time::Timestamp;
use deeplink_core::user::SignedUp;
use http::Method;
use serde_json::json;

use super::MockTransport;

fn now() -> Timestamp {
    Timestamp::from_millis(1_795_167_000_000)
}

/// The address of a link on the host of the examples.
pub fn url(link_id: &str) -> String {
    format!("https://go.example.com/{link_id}")
}

/// `/health`, or with `ready` `/ready`.
pub fn health(status: &str) -> Health {
    Health::new(status)
}

/// The reply to a create.
pub fn created_link(link_id: &str) -> CreatedLink {
    CreatedLink::new(link_id.to_owned(), url(link_id), None)
}

/// A link that leads to `https://example.com/`.
pub fn link_detail(link_id: &str) -> LinkDetail {
    LinkDetail {
        link_id: link_id.to_owned(),
        url: url(link_id),
        ios_deep_link: None,
        ios_store_url: None,
        android_deep_link: None,
        android_store_url: None,
        web_url: Some("https://example.com/".to_owned()),
        metadata: None,
        agent_context: None,
        social_preview: None,
        affiliate_id: None,
        status: LinkStatus::Active,
        expires_at: None,
        created_at: now(),
        updated_at: now(),
    }
}

/// A page of such links.
pub fn link_list(link_ids: &[&str], next_cursor: Option<&str>) -> LinkList {
    LinkList { links: link_ids.iter().map(|id| link_detail(id)).collect(), next_cursor: next_cursor.map(str::to_owned) }
}

/// The reply to a bulk create.
pub fn bulk_created(link_ids: &[&str]) -> BulkCreated {
    let link = |id: &&str| BulkLink { link_id: (*id).to_owned(), url: url(id) };
    BulkCreated { links: link_ids.iter().map(link).collect() }
}

/// What such a link says to a program.
pub fn resolved_link(link_id: &str) -> ResolvedLink {
    ResolvedLink {
        link_id: link_id.to_owned(),
        ios_deep_link: None,
        ios_store_url: None,
        android_deep_link: None,
        android_store_url: None,
        web_url: Some("https://example.com/".to_owned()),
        metadata: None,
        agent_context: None,
        social_preview: None,
        service_meta: ServiceMeta {
            source: ServiceMeta::SOURCE.to_owned(),
            status: LinkStatus::Active,
            tenant_domain: Some("go.example.com".to_owned()),
            tenant_verified: true,
        },
    }
}

/// The reply to a sign-up.
pub fn signed_up() -> SignedUp {
    let random = &mut Random::seeded(1);
    SignedUp::new(
        TenantId::new(now(), random),
        UserId::new(now(), random),
        SecretKeyId::new(now(), random),
        SecretKey::generate(random),
        now(),
    )
}

/// A week of clicks.
pub fn timeseries(link_id: &str) -> Timeseries {
    let bucket = |day: i64| {
        let date = now().plus_days(day - 6).to_string();
        Bucket { date: date[..10].to_owned(), clicks: day }
    };
    let data = (0..7).map(bucket).collect();
    Timeseries::new(link_id.to_owned(), Granularity::Daily, now().plus_days(-6), now(), data)
}

/// An error record.
pub fn error(code: ErrorCode, message: &str) -> ErrorBody {
    ErrorBody::new(code, message)
}

/// A mock that answers every operation once laid out with its fixture, for the link `spring-42`.
pub fn every_operation() -> MockTransport {
    let id = "spring-42";
    MockTransport::new()
        .on(Method::GET, "/health")
        .json(200, health("ok"))
        .on(Method::GET, "/ready")
        .json(200, health("ready"))
        .on(Method::GET, "/openapi.json")
        .json(200, json!({"openapi": "3.1.0"}))
        .on(Method::GET, "/llms.txt")
        .bytes(200, "text/plain", "# deeplink\n")
        .on(Method::GET, "/r/{link_id}")
        .json(200, resolved_link(id))
        .on(Method::HEAD, "/r/{link_id}")
        .status(302)
        .header("location", "https://example.com/")
        .on(Method::POST, "/v1/auth/signup")
        .json(201, signed_up())
        .on(Method::GET, "/v1/links")
        .json(200, link_list(&[id, "spring-41"], None))
        .on(Method::POST, "/v1/links")
        .json(201, created_link(id))
        .on(Method::POST, "/v1/links/bulk")
        .json(201, bulk_created(&[id, "spring-43"]))
        .on(Method::GET, "/v1/links/{link_id}")
        .json(200, link_detail(id))
        .on(Method::PUT, "/v1/links/{link_id}")
        .json(200, link_detail(id))
        .on(Method::DELETE, "/v1/links/{link_id}")
        .status(204)
        .on(Method::GET, "/v1/links/{link_id}/timeseries")
        .json(200, timeseries(id))
}
