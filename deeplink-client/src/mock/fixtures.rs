//! A plausible reply of each operation.

use bytes::Bytes;
use deeplink_core::app::{AppDetail, AppPlatform};
use deeplink_core::association::{AppleAssociation, AssetStatement};
use deeplink_core::bulk::{BulkCreated, BulkLink};
use deeplink_core::domain::{CreatedDomain, DomainDetail, DomainRole, DomainVerification, TXT_LABEL};
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::health::Health;
use deeplink_core::id::{AppId, SecretKeyId, TenantId, UserId};
use deeplink_core::link::{CreatedLink, LinkDetail, LinkList, LinkStatus, ResolvedLink, ServiceMeta};
use deeplink_core::qr::QrFormat;
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

/// The QR code of `https://go.example.com/spring-42`, 87 pixels a side; it can be read.
pub fn qr_code(format: QrFormat) -> Bytes {
    Bytes::from_static(match format {
        QrFormat::Png => include_bytes!("qr.png"),
        QrFormat::Svg => include_bytes!("qr.svg"),
    })
}

/// SHA-256 of a signing certificate.
pub const FINGERPRINT: &str =
    "14:6D:E9:83:C5:73:06:50:D8:EE:B9:95:2F:34:FC:64:16:A0:83:42:E6:1D:BE:A8:8A:04:96:B2:3F:CF:44:E5";

fn app(platform: AppPlatform, seed: u64) -> AppDetail {
    AppDetail {
        id: AppId::new(now(), &mut Random::seeded(seed)),
        platform,
        app_name: Some("Shop".to_owned()),
        bundle_id: None,
        package_name: None,
        team_id: None,
        sha256_fingerprints: None,
        icon_url: None,
        theme_color: Some("#0a7cff".to_owned()),
        created_at: now(),
    }
}

/// An iOS app of the team `ABCDE12345`.
pub fn ios_app(bundle_id: &str) -> AppDetail {
    let (bundle_id, team_id) = (Some(bundle_id.to_owned()), Some("ABCDE12345".to_owned()));
    AppDetail { bundle_id, team_id, ..app(AppPlatform::Ios, 1) }
}

/// An Android app signed with [`FINGERPRINT`].
pub fn android_app(package_name: &str) -> AppDetail {
    let (package_name, prints) = (Some(package_name.to_owned()), Some(vec![FINGERPRINT.to_owned()]));
    AppDetail { package_name, sha256_fingerprints: prints, ..app(AppPlatform::Android, 2) }
}

/// The token that proves a claim.
pub fn verification_token() -> String {
    "3fa91c07be5d2846".repeat(4)
}

/// The reply to a claim on a domain.
pub fn created_domain(domain: &str) -> CreatedDomain {
    CreatedDomain {
        domain: domain.to_owned(),
        role: DomainRole::Primary,
        verified: false,
        verification_token: verification_token(),
        txt_record: format!("{TXT_LABEL}.{domain}"),
        cname_target: "links.example.com".to_owned(),
    }
}

/// A verified primary domain.
pub fn domain_detail(domain: &str) -> DomainDetail {
    let made = created_domain(domain);
    DomainDetail {
        domain: made.domain,
        role: made.role,
        verified: true,
        created_at: now(),
        verification_token: Some(made.verification_token),
        txt_record: Some(made.txt_record),
        cname_target: Some(made.cname_target),
    }
}

/// What looking into DNS gave; without a reason the domain is verified.
pub fn domain_verification(domain: &str, reason: Option<&str>) -> DomainVerification {
    DomainVerification {
        domain: domain.to_owned(),
        verified: reason.is_none(),
        checked_at: now(),
        txt_found: if reason.is_none() { vec![verification_token()] } else { Vec::new() },
        reason: reason.map(str::to_owned),
    }
}

/// The file for such iOS apps.
pub fn apple_association(bundle_ids: &[&str]) -> AppleAssociation {
    AppleAssociation::of(bundle_ids.iter().map(|bundle| ("ABCDE12345", *bundle)))
}

/// The file for such Android apps.
pub fn asset_links(packages: &[&str]) -> Vec<AssetStatement> {
    packages.iter().map(|package| AssetStatement::new(*package, vec![FINGERPRINT.to_owned()])).collect()
}

/// An error record.
pub fn error(code: ErrorCode, message: &str) -> ErrorBody {
    ErrorBody::new(code, message)
}

/// A mock that answers every operation with its fixture, for the link `spring-42`, the app `com.example.app` and the domain
/// `go.example.com`.
pub fn every_operation() -> MockTransport {
    let (id, app, domain) = ("spring-42", "com.example.app", "go.example.com");
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
        .on(Method::GET, "/.well-known/apple-app-site-association")
        .json(200, apple_association(&[app]))
        .on(Method::GET, "/.well-known/assetlinks.json")
        .json(200, asset_links(&[app]))
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
        .on(Method::GET, "/v1/links/{link_id}/qr.png")
        .bytes(200, QrFormat::Png.media_type(), qr_code(QrFormat::Png))
        .on(Method::GET, "/v1/links/{link_id}/qr.svg")
        .bytes(200, QrFormat::Svg.media_type(), qr_code(QrFormat::Svg))
        .on(Method::GET, "/v1/links/{link_id}/timeseries")
        .json(200, timeseries(id))
        .on(Method::GET, "/v1/apps")
        .json(200, [ios_app(app), android_app(app)])
        .on(Method::POST, "/v1/apps")
        .json(201, ios_app(app))
        .on(Method::DELETE, "/v1/apps/{app_id}")
        .status(204)
        .on(Method::GET, "/v1/domains")
        .json(200, [domain_detail(domain)])
        .on(Method::POST, "/v1/domains")
        .json(201, created_domain(domain))
        .on(Method::DELETE, "/v1/domains/{domain}")
        .status(204)
        .on(Method::POST, "/v1/domains/{domain}/verify")
        .json(200, domain_verification(domain, None))
}
