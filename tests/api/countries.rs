//! Clicks by country: where it comes from, and what becomes of a database that is gone.

use std::path::Path;
use std::time::Duration;

use deeplink_server::country::{CountrySource, GeoFile};
use http::Method;
use serde_json::{Value, json};

use deeplink_doubles::geo::{database, endless_database};
use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::{World, eventually, log_mark, logged_since, spawn, spawn_with, told_countries};

const HERE: &str = "127.0.0.1/32";

/// A person's visit with further headers.
async fn visit(world: &World, headers: &[(&'static str, &str)]) {
    let request = world.nobody.browse(Method::GET, "/r/spring-42");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, *value));
    assert_eq!(request.send().await.status, 302);
}

async fn countries(world: &World) -> Value {
    world.a.get("/v1/analytics/stats?link_ids=spring-42&group_by=country").await.json()["groups"].clone()
}

#[tokio::test]
async fn without_a_source_there_are_no_countries() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    visit(&world, &[("cf-ipcountry", "DE"), ("x-forwarded-for", "192.0.2.1")]).await;
    for query in ["group_by=country", "link_ids=spring-42&group_by=country"] {
        let reply = world.a.get(&format!("/v1/analytics/stats?{query}")).await;
        assert_eq!(reply.outcome(), "503 geo_not_configured", "{query}");
        assert!(!reply.headers.contains_key("retry-after"), "later it is the same");
    }
    let report = world.a.get("/v1/analytics/stats").await.json();
    assert_eq!(report["funnel"]["clicks"], 1);
    assert_eq!(world.db.number("SELECT COUNT(*) FROM clicks WHERE country = 0").await, 1);
}

/// Any visitor can send the header, so it is read only from trusted proxies; of several values the last one counts.
#[tokio::test]
async fn a_trusted_proxy_tells_the_country() {
    let world = spawn_with(told_countries).await;
    world.a.make("spring-42").await;
    for country in ["DE", "de", "fr", "XX", "T1", "Germany", ""] {
        visit(&world, &[("cf-ipcountry", country)]).await;
    }
    visit(&world, &[]).await;
    visit(&world, &[("cf-ipcountry", "US"), ("cf-ipcountry", "FR")]).await;
    visit(&world, &[("cf-ipcountry", "US, FR")]).await;
    let expected = json!([{"key": "unknown", "clicks": 5}, {"key": "FR", "clicks": 3}, {"key": "DE", "clicks": 2}]);
    assert_eq!(countries(&world).await, expected);
    let account = world.a.get("/v1/analytics/stats?group_by=country&limit=1").await.json();
    assert_eq!(account["groups"], json!([{"key": "unknown", "clicks": 5}, {"key": "other", "clicks": 5}]));
    let stranger = spawn_with(|config| {
        told_countries(config);
        config.trusted_proxies.clear();
    })
    .await;
    stranger.a.make("spring-42").await;
    visit(&stranger, &[("cf-ipcountry", "DE")]).await;
    assert_eq!(countries(&stranger).await, json!([{"key": "unknown", "clicks": 1}]));
}

/// By the address that a trusted proxy forwards, which is kept nowhere; what an app reports counts for its own address.
#[tokio::test]
async fn a_database_has_the_country_of_an_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("countries.mmdb");
    let known = [
        ("192.0.0.0/8", Some("DE")),
        ("198.51.100.0/24", Some("FR")),
        ("127.0.0.1/32", Some("US")),
        ("10.0.0.0/8", None),
        ("2001:db8::/32", Some("JP")),
    ];
    std::fs::write(&path, database(&known)).expect("a file");
    let file = || GeoFile::read(&path).expect("a database");
    let world = spawn_with(|config| {
        config.country = Some(CountrySource::File(file()));
        config.trusted_proxies = vec![HERE.parse().expect("a network")];
    })
    .await;
    world.a.make("spring-42").await;
    for address in [
        "192.0.2.7",
        "::ffff:192.0.2.8",
        "198.51.100.1",
        "203.0.113.1",
        "10.0.0.1",
        "2001:db8::1",
        "2001:db9::1",
        "192.0.2.9, 198.51.100.7",
    ] {
        visit(&world, &[("x-forwarded-for", address)]).await;
    }
    let body = json!({"link_id": "spring-42"});
    assert_eq!(world.a.post("/v1/lifecycle/click", &body).await.outcome(), "200");
    let expected = json!([
        {"key": "unknown", "clicks": 3}, {"key": "DE", "clicks": 2}, {"key": "FR", "clicks": 2}, {"key": "JP", "clicks": 1},
        {"key": "US", "clicks": 1}
    ]);
    assert_eq!(countries(&world).await, expected);
}

fn replace(path: &Path, content: &[u8]) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, content).expect("a file");
    std::fs::rename(beside, path).expect("renamed");
}

#[tokio::test]
async fn a_database_is_reloaded_and_one_that_is_gone_is_said_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("countries.mmdb");
    replace(&path, &database(&[("127.0.0.0/8", Some("DE"))]));
    let file = GeoFile::read(&path).expect("a database");
    let world = spawn_with(|config| config.country = Some(CountrySource::File(file.clone()))).await;
    world.a.make("spring-42").await;
    let grows = async |what: &str, key: &str| {
        let clicks = async || {
            let groups = countries(&world).await;
            groups
                .as_array()
                .expect("groups")
                .iter()
                .find(|group| group["key"] == key)
                .map_or(0, |group| group["clicks"].as_i64().expect("a number"))
        };
        let before = clicks().await;
        eventually(what, PATIENCE, || async {
            world.clock.advance(Duration::from_millis(1));
            visit(&world, &[]).await;
            clicks().await > before
        })
        .await;
    };
    grows("the database at the start", "DE").await;
    replace(&path, &database(&[("127.0.0.0/8", Some("FR")), ("128.0.0.0/8", Some("GB"))]));
    grows("another database", "FR").await;
    let mark = log_mark();
    let path_shown = path.display().to_string();
    let warnings = || {
        logged_since(&mark)
            .lines()
            .filter(|line| line.contains("country database cannot be read") && line.contains(&path_shown))
            .count()
    };
    for (content, why) in
        [(&b"<html>"[..], "not a MaxMind database"), (&database(&[("127.0.0.0/8", None)]), "no network in it")]
    {
        let said = warnings();
        replace(&path, content);
        grows(why, "unknown").await;
        eventually(why, PATIENCE, || async { warnings() == said + 1 }).await;
        replace(&path, &database(&[("127.0.0.0/8", Some("FR")), ("64.0.0.0/8", Some("GB"))]));
        grows("a good one again", "FR").await;
    }
    let away = path.with_extension("away");
    for gone in 3..5 {
        std::fs::rename(&path, &away).expect("renamed");
        grows("it is gone", "unknown").await;
        eventually("that is said", PATIENCE, || async { warnings() == gone }).await;
        // The same file, with the same time.
        std::fs::rename(&away, &path).expect("renamed");
        grows("it is back", "FR").await;
    }
    assert_eq!(warnings(), 4, "each of them once");
}

/// A file that is small and would take for ever to search is refused.
#[test]
fn a_database_is_looked_through_in_bounded_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("countries.mmdb");
    std::fs::write(&path, endless_database()).expect("a file");
    let refusal = GeoFile::read(&path).expect_err("no countries");
    assert!(refusal.contains("no network in it has country.iso_code"), "{refusal}");
}
