//! The association files, and the apps in them.

use std::net::{Ipv6Addr, SocketAddr};

use deeplink_client::doctor::Status::{Fail, Ok, Skip, Warn};
use deeplink_client::mock::fixtures::{self, FINGERPRINT};
use deeplink_client::{AppPlatform, LinkStatus};

use super::double::Reply;
use super::scene::{ALTERNATE, PRIMARY, Scene, nowhere};
use super::{assert_cases, at};
use deeplink_doubles::authority::Identity;

const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const AASA: &str = "/.well-known/apple-app-site-association";
const LINKS: &str = "/.well-known/assetlinks.json";

#[tokio::test]
async fn the_file_for_apple() {
    assert_cases(&[
        ("aasa.origin", |_| {}, Ok, "served, with ABCDE12345.com.example.app"),
        ("aasa.origin", |scene| scene.apps.clear(), Skip, "no iOS app"),
        ("aasa.origin", |scene| scene.reachable = false, Skip, "only reachable on this machine"),
        ("aasa.origin", |scene| (scene.with_key, scene.hosts) = (false, vec![PRIMARY]), Ok, "well-formed"),
        (
            "aasa.origin",
            |scene| scene.instead(|request| request.target == AASA, Reply::new(404, "application/json", "{}")),
            Fail,
            "does not exist",
        ),
        (
            "aasa.origin",
            |scene| scene.instead(|request| request.target == AASA, Reply::redirect("https://www.example.com/aasa")),
            Fail,
            "HTTP 302 to https://www.example.com/aasa",
        ),
        (
            "aasa.origin",
            |scene| scene.instead(|request| request.target == AASA, Reply::new(403, "text/html", "no")),
            Fail,
            "HTTP 403",
        ),
        (
            "aasa.origin",
            |scene| scene.instead(|request| request.target == AASA, Reply::new(200, "text/plain", "{}")),
            Fail,
            "media type is \"text/plain\"",
        ),
        (
            "aasa.origin",
            |scene| scene.instead(|request| request.target == AASA, Reply::new(200, "application/json", "<html>")),
            Fail,
            "not JSON",
        ),
        (
            "aasa.origin",
            |scene| {
                scene.instead(
                    |request| request.target == AASA,
                    Reply::new(200, "application/json", " ".repeat(128 * 1024 + 1)),
                );
            },
            Fail,
            "larger than 128 KiB",
        ),
        (
            "aasa.origin",
            |scene| {
                scene.instead(
                    |request| request.target == AASA,
                    Reply::new(200, "application/json", r#"{"applinks":{"details":[]}}"#),
                );
            },
            Fail,
            "does not contain ABCDE12345.com.example.app",
        ),
        (
            "aasa.origin",
            |scene| {
                scene.instead(
                    |request| request.target == AASA && request.agent.starts_with("Mozilla"),
                    Reply::new(403, "text/html", "no"),
                );
            },
            Fail,
            "a browser gets HTTP 403",
        ),
        (
            "aasa.origin",
            |scene| {
                scene.instead(
                    |request| request.target == AASA && request.agent.starts_with("Mozilla"),
                    Reply::new(200, "application/json", "{}"),
                );
            },
            Fail,
            "a browser gets different bytes",
        ),
        (
            "aasa.origin",
            |scene| {
                scene.instead(
                    |request| request.target == AASA && request.six,
                    Reply::new(200, "application/json", "{}"),
                );
            },
            Fail,
            "a visitor over IPv6 gets different bytes",
        ),
        ("aasa.origin", |scene| scene.six = Some(nowhere()), Fail, "a visitor over IPv6 gets no response"),
        // No machine has a TCP route to a multicast address, just as one without IPv6 has no IPv6 route at all.
        ("aasa.origin", |scene| scene.six = Some(SocketAddr::from((GROUP, 443))), Ok, "served, with"),
        ("aasa.origin", |scene| scene.identity = Identity::Ended, Fail, "could not be fetched"),
        ("aasa.cdn", |_| {}, Ok, "Apple has this file"),
        ("aasa.cdn", |scene| scene.apps.clear(), Skip, "no iOS app"),
        ("aasa.cdn", |scene| scene.reachable = false, Skip, "only reachable on this machine"),
        (
            "aasa.cdn",
            |scene| {
                scene.instead(
                    |request| request.target.starts_with("/apple/"),
                    Reply::new(200, "application/json", "{}"),
                );
            },
            Warn,
            "Apple has a different copy",
        ),
        (
            "aasa.cdn",
            |scene| {
                scene.instead(
                    |request| request.target.starts_with("/apple/"),
                    Reply::new(404, "text/plain", "").header("apple-failure-reason", "SWCERR00301 Timeout"),
                );
            },
            Fail,
            "apple-failure-reason: SWCERR00301 Timeout",
        ),
        (
            "aasa.cdn",
            |scene| {
                scene.instead(|request| request.target.starts_with("/apple/"), Reply::new(404, "text/plain", ""));
                scene.instead(|request| request.target == AASA, Reply::new(404, "application/json", "{}"));
            },
            Warn,
            "the host serves none",
        ),
        (
            "aasa.cdn",
            |scene| scene.instead(|request| request.target.starts_with("/apple/"), Reply::new(500, "text/plain", "")),
            Warn,
            "HTTP 500",
        ),
    ])
    .await;
}

#[tokio::test]
async fn the_file_for_google() {
    assert_cases(&[
        ("assetlinks.origin", |_| {}, Ok, "served, with com.example.app"),
        ("assetlinks.origin", |scene| scene.apps.clear(), Skip, "no Android app"),
        ("assetlinks.origin", |scene| scene.reachable = false, Skip, "only reachable on this machine"),
        ("assetlinks.origin", |scene| scene.instead(|request| request.target == LINKS, Reply::new(200, "application/json", "[]")), Fail, "does not contain com.example.app"),
        ("assetlinks.origin", |scene| {
            let one = serde_json::json!([{"relation": ["delegate_permission/common.handle_all_urls"], "target": {
                "namespace": "android_app", "package_name": "com.example.app", "sha256_cert_fingerprints": [FINGERPRINT]}}]);
            scene.instead(|request| request.target == LINKS, Reply::json(200, &one));
        }, Fail, "does not contain fingerprint AA:6D:E9:83\u{2026} of com.example.app"),
        ("assetlinks.origin", |scene| scene.instead(|request| request.target == LINKS && request.six, Reply::new(500, "text/html", "")), Fail, "a visitor over IPv6 gets HTTP 500"),
        ("assetlinks.google", |_| {}, Ok, "lists every app"),
        ("assetlinks.google", |scene| scene.apps.clear(), Skip, "no Android app"),
        ("assetlinks.google", |scene| scene.reachable = false, Skip, "only reachable on this machine"),
        ("assetlinks.google", |scene| scene.instead(|request| request.target.starts_with("/google/"), Reply::new(200, "application/json", r#"{"errorCode":["ERROR_CODE_FETCH_ERROR"],"debugString":"fetch failed\nfor you"}"#)), Warn, "Google does not list com.example.app; ERROR_CODE_FETCH_ERROR; fetch failed for you"),
        ("assetlinks.google", |scene| scene.instead(|request| request.target.starts_with("/google/"), Reply::new(429, "text/plain", "")), Warn, "HTTP 429"),
    ])
    .await;
    let seen = Scene::default().examine().await;
    let asked = seen.requests.iter().find(|request| request.target.starts_with("/google/")).expect("Google is asked");
    assert_eq!(
        asked.target,
        "/google/v1/statements:list?source.web.site=https://go.example.com&relation=delegate_permission/common.handle_all_urls"
    );
    assert!(seen.requests.iter().any(|request| request.target == "/apple/a/v1/go.example.com"));
}

#[tokio::test]
async fn apps() {
    assert_cases(&[
        ("app.fingerprints", |_| {}, Ok, "2 signing certificates"),
        (
            "app.fingerprints",
            |scene| scene.apps[1].sha256_fingerprints = Some(vec![FINGERPRINT.into()]),
            Warn,
            "one signing certificate",
        ),
        ("app.alternate", |_| {}, Ok, "/spring-42 redirects: HTTP 302 to https://apps.apple.com/app/id1"),
        // An inactive link leads nowhere from any host: another is tried.
        (
            "app.alternate",
            |scene| {
                scene.links.push(fixtures::link_detail("summer-7"));
                scene.asked_links = vec!["spring-42", "summer-7"];
                scene.link(|link| link.status = LinkStatus::Disabled);
            },
            Ok,
            "/summer-7 redirects",
        ),
        (
            "app.alternate",
            |scene| {
                scene.links.push(fixtures::link_detail("summer-7"));
                scene.link(|link| link.status = LinkStatus::Expired);
            },
            Ok,
            "/summer-7 redirects",
        ),
        ("app.alternate", |scene| scene.link(|link| link.status = LinkStatus::Flagged), Ok, "there is no link to test"),
        ("app.alternate", |scene| scene.asked_links.push("nope"), Ok, "/spring-42 redirects"),
        (
            "app.alternate",
            |scene| {
                scene.links.insert(0, fixtures::link_detail("summer-7"));
                scene.asked_links.push("spring-42");
            },
            Ok,
            "/spring-42 redirects",
        ),
        ("app.alternate", |scene| scene.domains.truncate(1), Warn, "no alternate domain"),
        ("app.alternate", |scene| scene.domains[1].verified = false, Warn, "no alternate domain"),
        ("app.alternate", |scene| scene.apps.remove(0).platform = AppPlatform::Android, Skip, "no iOS app"),
        ("app.alternate", |scene| scene.links.clear(), Ok, "there is no link to test"),
        ("app.alternate", |scene| scene.reachable = false, Skip, "only reachable on this machine"),
        (
            "app.alternate",
            |scene| scene.instead(|request| at(request, ALTERNATE, AASA), Reply::new(404, "application/json", "{}")),
            Fail,
            "returns HTTP 404",
        ),
        (
            "app.alternate",
            |scene| scene.instead(|request| at(request, ALTERNATE, LINKS), Reply::new(404, "application/json", "{}")),
            Fail,
            "assetlinks.json returns HTTP 404",
        ),
        (
            "app.alternate",
            |scene| scene.instead(|request| at(request, ALTERNATE, "/spring-42"), Reply::new(200, "text/html", "")),
            Fail,
            "returns HTTP 200, not a redirect",
        ),
    ])
    .await;
}
