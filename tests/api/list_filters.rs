//! Lists of links by their owner's switch and their domain, and in both orders.

use std::time::Duration;

use deeplink_client::{LinkFilter, LinkSort};
use futures_util::TryStreamExt;
use serde_json::{Value, json};

use deeplink_testing::{Caller, Role, spawn};

fn ids(page: &Value) -> Vec<String> {
    let links = page["links"].as_array().unwrap_or_else(|| panic!("no links in {page}"));
    links.iter().map(|link| link["link_id"].as_str().expect("an id").to_owned()).collect()
}

async fn listed(caller: &Caller, query: &str) -> String {
    let reply = caller.get(&format!("/v1/links{query}")).await;
    assert_eq!(reply.status, 200, "{query} {}", reply.text());
    ids(&reply.json()).join(" ")
}

/// `enabled` is the owner's switch, whatever the operator says of the link and whether it has expired.
#[tokio::test]
async fn links_are_listed_by_their_owners_switch() {
    let world = spawn().await;
    let one = world.a1.affiliate_id();
    for (id, enabled, affiliate) in [
        ("on-plain", true, None),
        ("off-plain", false, None),
        ("on-flagged", true, Some(one)),
        ("off-flagged", false, Some(one)),
        ("on-expired", true, None),
        ("off-expired", false, None),
    ] {
        let tags = if id.starts_with("off") { vec!["Spring"] } else { vec!["Spring", "sale"] };
        world.a.make_of(&json!({"custom_id": id, "enabled": enabled, "tags": tags, "affiliate_id": affiliate})).await;
    }
    world.b.make_of(&json!({"custom_id": "of-b", "enabled": false})).await;
    let flag = "UPDATE links SET status = 'flagged', taken_down = TRUE WHERE link_id IN ('on-flagged', 'off-flagged')";
    world.db.execute(flag).await;
    world
        .db
        .execute("UPDATE links SET expires_at = created_at + 1 WHERE link_id IN ('on-expired', 'off-expired')")
        .await;
    world.clock.advance(Duration::from_secs(1));
    for (query, expected) in [
        ("enabled=true", "on-expired on-flagged on-plain"),
        ("enabled=false", "off-expired off-flagged off-plain"),
        ("enabled=false&sort=oldest", "off-plain off-flagged off-expired"),
        ("enabled=false&status=disabled", "off-expired off-plain"),
        ("enabled=false&status=flagged", "off-flagged"),
        ("enabled=false&status=active", ""),
        ("enabled=true&status=expired", "on-expired"),
        ("enabled=true&status=active", "on-plain"),
        ("enabled=false&status=expired", ""),
        ("enabled=false&tag=spring", "off-expired off-flagged off-plain"),
        ("enabled=true&tag=spring&tag=sale&sort=oldest", "on-plain on-flagged on-expired"),
        ("enabled=false&tag=sale", ""),
        ("enabled=false&id_prefix=off-f", "off-flagged"),
        ("enabled=false&q=FLAG", "off-flagged"),
        ("enabled=true&q=%C3%A4", ""),
        (&format!("enabled=false&affiliate_id={one}"), "off-flagged"),
    ] {
        assert_eq!(listed(&world.a, &format!("?{query}")).await, expected, "{query}");
    }
    assert_eq!(listed(&world.a1, "?enabled=false").await, "off-flagged");
    assert_eq!(listed(&world.a2, "?enabled=false").await, "");
    // Page by page; a full page is followed by the rest.
    let filter = LinkFilter::new().enabled(true);
    let found: Vec<_> = world.a.links().list(&filter).page_size(2).items().try_collect().await.expect("links");
    assert_eq!(found.iter().map(|link| &*link.link_id).collect::<Vec<_>>(), ["on-expired", "on-flagged", "on-plain"]);
}

/// `domain` is the host of a link's URL: that of the account's primary domain or the service, or the one it was made
/// under.
#[tokio::test]
async fn links_are_listed_by_the_host_of_their_url() {
    let world = spawn().await;
    // What B has on the service's own host, A can have on its own domains alone.
    for id in ["one", "two"] {
        world.b.make(id).await;
    }
    world.a.make("plain").await;
    let url = world.a.get("/v1/links/plain").await.member("url");
    let service = url.split('/').nth(2).and_then(|host| host.split(':').next()).expect("a host").to_owned();
    assert_eq!(listed(&world.a, &format!("?domain={service}")).await, "plain");
    assert_eq!(listed(&world.a, "?domain=one.example.com").await, "");
    world.own_domain(&world.a, "one.example.com", Role::Primary).await;
    world.a.make("one").await;
    assert_eq!(listed(&world.a, "?domain=one.example.com").await, "one plain");
    assert_eq!(listed(&world.a, &format!("?domain={service}")).await, "");
    assert_eq!(world.a.delete("/v1/domains/one.example.com").await.status, 204);
    world.own_domain(&world.a, "two.example.com", Role::Primary).await;
    world.a.make("two").await;
    for (query, expected) in [
        ("domain=two.example.com", "two plain"),
        ("domain=one.example.com", "one"),
        ("domain=ONE.Example.com.", "one"),
        ("domain=two.example.com&sort=oldest", "plain two"),
        ("domain=two.example.com&enabled=false", ""),
        ("domain=two.example.com&q=two", "two"),
        ("domain=example.com", ""),
        ("domain=three.example.com", ""),
        (&format!("domain=one.example.com&affiliate_id={}", world.a1.affiliate_id()), ""),
    ] {
        assert_eq!(listed(&world.a, &format!("?{query}")).await, expected, "{query}");
    }
    let all = world.a.get("/v1/links").await.json();
    for link in all["links"].as_array().expect("links") {
        let host = link["url"].as_str().and_then(|url| url.split('/').nth(2)).expect("a host");
        let found = listed(&world.a, &format!("?domain={host}")).await;
        assert!(found.split(' ').any(|id| link["link_id"] == id), "{link}: {found}");
    }
    world.a.make_of(&json!({"custom_id": "of-one", "affiliate_id": world.a1.affiliate_id()})).await;
    assert_eq!(listed(&world.a1, "?domain=two.example.com").await, "of-one");
    assert_eq!(listed(&world.a2, "?domain=two.example.com").await, "");
    assert_eq!(world.a.delete("/v1/links/of-one").await.status, 204);
    // Deleted links have a URL too.
    for id in ["one", "two", "plain"] {
        assert_eq!(world.a.delete(&format!("/v1/links/{id}")).await.status, 204);
    }
    for (query, expected) in [
        ("domain=one.example.com", "one"),
        ("domain=two.example.com", "of-one two plain"),
        ("domain=two.example.com&sort=newest", "of-one two plain"),
        ("domain=two.example.com&sort=oldest", "plain two of-one"),
        ("domain=two.example.com&enabled=false", ""),
    ] {
        assert_eq!(listed(&world.a, &format!("?status=deleted&{query}")).await, expected, "{query}");
    }
}

/// The same links in the opposite order, however they are filtered, page by page; new ones come at the end.
#[tokio::test]
async fn a_list_begins_with_the_oldest_link_too() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    for at in 0..7 {
        world.a.make_of(&json!({"custom_id": format!("link-{at}"), "tags": ["spring"], "name": "Ä"})).await;
        world.clock.advance(Duration::from_secs(10));
    }
    let second = world.a.get("/v1/links/link-1").await.member("created_at");
    for filter in [
        "limit=2".to_owned(),
        "limit=2&status=active".into(),
        "limit=3&tag=spring".into(),
        "limit=2&id_prefix=link".into(),
        "limit=2&q=LINK".into(),
        "limit=3&q=%C3%A4".into(),
        "limit=1&enabled=true".into(),
        "limit=2&domain=go.example.com".into(),
        format!("limit=2&created_after={second}"),
        format!("limit=2&created_before={second}"),
        format!("limit=2&created_after={second}&q=link&tag=spring"),
    ] {
        let walk = async |sort: &str| {
            let (mut seen, mut path) = (Vec::new(), format!("/v1/links?{filter}&sort={sort}"));
            loop {
                let page = world.a.get(&path).await.json();
                seen.extend(ids(&page));
                match page["next_cursor"].as_str() {
                    Some(cursor) => path = format!("/v1/links?limit=2&cursor={cursor}"),
                    None => return seen,
                }
            }
        };
        let (newest, mut oldest) = (walk("newest").await, walk("oldest").await);
        oldest.reverse();
        assert_eq!(newest, oldest, "{filter}");
        assert!(newest.is_sorted_by(|one, other| one > other) && !newest.is_empty(), "{filter}: {newest:?}");
    }
    let first = world.a.get("/v1/links?sort=oldest&limit=5").await.json();
    let cursor = first["next_cursor"].as_str().expect("a next page");
    world.a.make("new").await;
    assert_eq!(listed(&world.a, &format!("?cursor={cursor}")).await, "link-5 link-6 new");
    let filter = LinkFilter::new().sort(LinkSort::Oldest);
    let found: Vec<_> = world.a.links().list(&filter).page_size(3).items().try_collect().await.expect("links");
    assert_eq!((found.len(), &*found[0].link_id, &*found[7].link_id), (8, "link-0", "new"));
}

/// A cursor carries its order as well; newest first is the same whether it was asked for or not.
#[tokio::test]
async fn a_cursor_carries_its_order_and_refuses_the_other() {
    let world = spawn().await;
    for at in 0..6 {
        world.a.make(&format!("link-{at}")).await;
    }
    for (list, next, own, others) in [
        ("limit=2", "link-3 link-2", ["sort=newest", ""], ["sort=oldest", "enabled=true"]),
        ("limit=2&sort=newest", "link-3 link-2", ["sort=newest", ""], ["sort=oldest", "sort=newest&enabled=true"]),
        ("limit=2&sort=oldest", "link-2 link-3", ["sort=oldest", ""], ["sort=newest", "status=active"]),
        ("limit=2&enabled=true", "link-3 link-2", ["enabled=true", ""], ["enabled=false", "enabled=true&sort=oldest"]),
        (
            "limit=2&enabled=true&sort=oldest",
            "link-2 link-3",
            ["enabled=true&sort=oldest", ""],
            ["enabled=true", "sort=oldest"],
        ),
    ] {
        let first = world.a.get(&format!("/v1/links?{list}")).await.json();
        let cursor = first["next_cursor"].as_str().unwrap_or_else(|| panic!("{list} has a next page"));
        for own in own {
            assert_eq!(listed(&world.a, &format!("?limit=2&cursor={cursor}&{own}")).await, next, "{list}: {own}");
        }
        for other in others {
            let reply = world.a.get(&format!("/v1/links?cursor={cursor}&{other}")).await;
            assert_eq!(reply.outcome(), "400 invalid_cursor cursor", "{list}: {other}");
        }
    }
}
