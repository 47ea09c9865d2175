//! Hosts: their proof in DNS, their routing, their certificate, their robots.txt.

use std::time::Duration;

use deeplink_client::doctor::Status::{Fail, Ok, Skip, Warn};

use super::double::{Reply, Request};
use super::scene::{PRIMARY, Scene};
use super::{assert_cases, at};
use deeplink_doubles::authority::Identity;

#[tokio::test]
async fn the_proof_in_dns() {
    assert_cases(&[
        ("domain.txt", |_| {}, Ok, "the TXT record exists"),
        ("domain.txt", |scene| scene.txt.insert(0, "v=spf1 -all".into()), Ok, "exists"),
        ("domain.txt", |scene| scene.txt.clear(), Warn, "no TXT record"),
        ("domain.txt", |scene| scene.txt = vec!["a\u{7}b".into()], Warn, "contains \"a b\""),
        ("domain.txt", |scene| scene.txt = vec!["0".repeat(64)], Warn, "will become unverified"),
        // The service compares byte for byte too.
        ("domain.txt", |scene| scene.txt[0].insert(0, ' '), Warn, "contains \" 3fa91c07be5d2846"),
        ("domain.txt", |scene| scene.txt[0].push('\n'), Warn, "will become unverified"),
        (
            "domain.txt",
            |scene| scene.txt = vec!["v=spf1 -all".into(), scene.txt[0].to_uppercase()],
            Warn,
            "contains \"3FA91C07BE5D2846",
        ),
        (
            "domain.txt",
            |scene| {
                (scene.with_key, scene.hosts) = (false, vec![PRIMARY]);
                scene.txt[0].push(' ');
            },
            Warn,
            "will become unverified",
        ),
        ("domain.txt", |scene| (scene.with_key, scene.hosts) = (false, vec![PRIMARY]), Ok, "exists"),
        ("domain.txt", |scene| scene.reachable = false, Skip, "only reachable on this machine"),
    ])
    .await;
}

#[tokio::test]
async fn the_way_to_a_host() {
    assert_cases(&[
        ("domain.route", |_| {}, Ok, "points to the service (127.0.0.1)"),
        (
            "domain.route",
            |scene| scene.instead(|request| at(request, PRIMARY, "/health"), Reply::new(200, "text/html", "hello")),
            Fail,
            "another server responds",
        ),
        (
            "domain.route",
            |scene| scene.instead(|request| at(request, PRIMARY, "/health"), Reply::redirect("https://example.com/")),
            Fail,
            "HTTP 302 to https://example.com/",
        ),
        (
            "domain.route",
            |scene| scene.identity = Identity::SelfSigned,
            Fail,
            "responds, but the certificate is not signed",
        ),
        ("domain.route", |scene| scene.reachable = false, Skip, "only reachable on this machine"),
        (
            "domain.route",
            |scene| {
                scene.limit = Duration::from_millis(700);
                scene.instead(|request| at(request, PRIMARY, "/health"), Reply::silence());
            },
            Fail,
            "no response within",
        ),
        ("domain.tls", |_| {}, Ok, "valid for 90 more days"),
        ("domain.tls", |scene| scene.identity = Identity::Days(14), Ok, "14 more days"),
        ("domain.tls", |scene| scene.identity = Identity::Days(13), Warn, "expires in 13 days"),
        ("domain.tls", |scene| scene.identity = Identity::Ended, Fail, "expired"),
        ("domain.tls", |scene| scene.identity = Identity::Other, Fail, "for another name"),
        ("domain.tls", |scene| scene.identity = Identity::SelfSigned, Fail, "chain is incomplete"),
        ("domain.tls", |scene| scene.identity = Identity::Plain, Fail, "the server does not speak TLS"),
        ("domain.tls", |scene| scene.reachable = false, Skip, "only reachable on this machine"),
        ("domain.robots", |_| {}, Ok, "blocks nothing"),
        (
            "domain.robots",
            |scene| {
                scene.instead(
                    |request| at(request, PRIMARY, "/robots.txt"),
                    Reply::new(200, "text/plain", "User-agent: *\nDisallow: /r/"),
                );
            },
            Ok,
            "allows",
        ),
        (
            "domain.robots",
            |scene| {
                scene.instead(
                    |request| at(request, PRIMARY, "/robots.txt"),
                    Reply::new(200, "text/plain", "User-agent: *\nDisallow: /"),
                );
            },
            Fail,
            "blocks aasa-bot from",
        ),
        (
            "domain.robots",
            |scene| scene.instead(|request| at(request, PRIMARY, "/robots.txt"), Reply::new(503, "text/plain", "")),
            Fail,
            "HTTP 503",
        ),
        ("domain.robots", |scene| scene.reachable = false, Skip, "only reachable on this machine"),
    ])
    .await;
}

/// A name under `.localhost` is this machine, whatever DNS says; what only the public internet can see is not checked.
#[tokio::test]
async fn a_name_under_localhost_is_this_machine() {
    fn local(scene: &mut Scene) {
        (scene.reachable, scene.hosts) = (false, vec!["shop.localhost"]);
        scene.domains[0].domain = "shop.localhost".to_owned();
        scene.link(|link| link.url = "http://shop.localhost/spring-42".to_owned());
    }
    assert_cases(&[
        ("domain.txt", local, Skip, "need no TXT record"),
        ("domain.route", local, Ok, "points to the service (127.0.0.1)"),
        (
            "domain.route",
            |scene| {
                local(scene);
                let is_there = |request: &Request| request.host.starts_with("shop.localhost");
                scene.instead(is_there, Reply::new(200, "text/html", "hello"));
            },
            Fail,
            "another server responds",
        ),
        ("domain.tls", local, Skip, "plain http"),
        ("domain.robots", local, Ok, "blocks nothing"),
        ("aasa.origin", local, Ok, "served, with ABCDE12345.com.example.app"),
        ("aasa.cdn", local, Skip, "only reachable on this machine"),
        ("assetlinks.origin", local, Ok, "served, with com.example.app"),
        ("assetlinks.google", local, Skip, "only reachable on this machine"),
        ("link.resolve", local, Ok, "iPhone: redirect to"),
    ])
    .await;
}
