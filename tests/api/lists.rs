//! Lists of links: pages, filters, and cursors that stay stable while links are added.

use std::time::Duration;

use deeplink_client::{LinkFilter, LinkSort, LinkStatus};
use futures_util::TryStreamExt;
use serde_json::{Value, json};

use deeplink_testing::{Caller, spawn};

fn ids(page: &Value) -> Vec<String> {
    let links = page["links"].as_array().unwrap_or_else(|| panic!("no links in {page}"));
    links.iter().map(|link| link["link_id"].as_str().expect("an id").to_owned()).collect()
}

async fn listed(caller: &Caller, query: &str) -> String {
    let reply = caller.get(&format!("/v1/links{query}")).await;
    assert_eq!(reply.status, 200, "{query} {}", reply.text());
    ids(&reply.json()).join(" ")
}

#[tokio::test]
async fn links_come_newest_first_fifty_at_a_time() {
    let world = spawn().await;
    for at in 0..60 {
        world.a.make(&format!("link-{at:02}")).await;
    }
    let first = world.a.get("/v1/links").await.json();
    let expected: Vec<_> = (10..60).rev().map(|at| format!("link-{at:02}")).collect();
    assert_eq!(ids(&first), expected);
    let cursor = first["next_cursor"].as_str().expect("a next page");
    let second = world.a.get(&format!("/v1/links?cursor={cursor}")).await.json();
    assert_eq!(ids(&second).len(), 10);
    assert_eq!(second["next_cursor"], Value::Null, "null on the last page");
    let exact = world.a.get("/v1/links?limit=60").await.json();
    assert_eq!((ids(&exact).len(), &exact["next_cursor"]), (60, &Value::Null));
    assert_eq!(world.b.get("/v1/links").await.json(), json!({"links": [], "next_cursor": null}));
}

#[tokio::test]
async fn a_listed_link_is_the_link_that_is_shown() {
    let world = spawn().await;
    let body = json!({"custom_id": "spring-42", "web_url": "https://example.com/", "metadata": {"a": 1}, "affiliate_id": world.a1.affiliate_id()});
    world.a.make_of(&body).await;
    let shown = world.a.get("/v1/links/spring-42").await.json();
    assert_eq!(world.a.get("/v1/links").await.json()["links"], json!([shown]));
}

#[tokio::test]
async fn parameters_are_read_strictly() {
    let world = spawn().await;
    for (query, expected) in [
        ("limit=0", "400 bad_request limit"),
        ("limit=101", "400 bad_request limit"),
        ("limit=-1", "400 bad_request limit"),
        ("limit=+5", "400 bad_request limit"),
        ("limit=ten", "400 bad_request limit"),
        ("limit=1.5", "400 bad_request limit"),
        ("limit=", "400 bad_request limit"),
        ("limit=99999999999999999999", "400 bad_request limit"),
        ("limit=1", "200"),
        ("limit=100", "200"),
        ("status=open", "400 bad_request status"),
        ("status=Active", "400 bad_request status"),
        ("status=", "400 bad_request status"),
        ("created_after=yesterday", "400 bad_request created_after"),
        ("created_after=2026-11-20", "400 bad_request created_after"),
        ("created_before=2026-11-20T09:30:00", "400 bad_request created_before"),
        ("created_before=2026-13-01T00:00:00Z", "400 bad_request created_before"),
        ("created_after=2026-11-20T09:30:00%2B02:00", "200"),
        ("affiliate_id=aff_1", "400 bad_request affiliate_id"),
        ("affiliate_id=", "400 bad_request affiliate_id"),
        ("cursor=", "400 invalid_cursor cursor"),
        ("cursor=nonsense", "400 invalid_cursor cursor"),
        ("q=%00", "400 bad_request q"),
        (&format!("q={}", "%C3%A9".repeat(2_048)), "200"),
        (&format!("q={}", "x".repeat(2_049)), "400 bad_request q"),
        (&format!("id_prefix={}", "x".repeat(64)), "200"),
        (&format!("id_prefix={}", "x".repeat(65)), "400 bad_request id_prefix"),
        ("id_prefix=%00", "400 bad_request id_prefix"),
        ("enabled=True", "400 bad_request enabled"),
        ("enabled=1", "400 bad_request enabled"),
        ("enabled=", "400 bad_request enabled"),
        ("enabled=false", "200"),
        ("domain=", "400 bad_request domain"),
        ("domain=.", "400 bad_request domain"),
        ("domain=https://go.example.com", "400 bad_request domain"),
        ("domain=go.example.com:443", "400 bad_request domain"),
        ("domain=go.example.com/", "400 bad_request domain"),
        ("domain=go%00.example.com", "400 bad_request domain"),
        ("domain=b%C3%BCcher.example.com", "200"),
        (&format!("domain={}", "abcdefg.".repeat(32)), "400 bad_request domain"),
        ("sort=name", "400 bad_request sort"),
        ("sort=Oldest", "400 bad_request sort"),
        ("sort=-created_at", "400 bad_request sort"),
        ("sort=", "400 bad_request sort"),
        ("sort=newest", "200"),
        ("unknown=1&also=2", "200"),
    ] {
        assert_eq!(world.a.get(&format!("/v1/links?{query}")).await.outcome(), expected, "{query}");
    }
}

/// X11: a repeated parameter is ambiguous, and so is a repeated key of a JSON body.
#[tokio::test]
async fn x11_repeated_parameters_and_keys_are_refused() {
    let world = spawn().await;
    for name in [
        "limit",
        "cursor",
        "affiliate_id",
        "status",
        "enabled",
        "domain",
        "created_after",
        "created_before",
        "q",
        "id_prefix",
        "sort",
    ] {
        let reply = world.a.get(&format!("/v1/links?{name}=1&{name}=1")).await;
        assert_eq!(reply.outcome(), format!("400 bad_request {name}"));
    }
    world.a.make("spring-42").await;
    for name in ["from", "to", "granularity"] {
        let reply = world.a.get(&format!("/v1/links/spring-42/timeseries?{name}=1&{name}=1")).await;
        assert_eq!(reply.outcome(), format!("400 bad_request {name}"));
    }
    for body in [
        r#"{"web_url":"https://example.com/","web_url":"https://example.org/"}"#,
        r#"{"web_url":null,"web_url":"https://example.org/"}"#,
        r#"{"custom_id":"abc","custom_\u0069d":"abd"}"#,
        r#"{"metadata":{"a":1,"a":1}}"#,
        r#"{"agent_context":{"cta":"a","cta":"b"}}"#,
        r#"{"social_preview":{"title":"a","title":"b"}}"#,
    ] {
        let reply = world.a.ask(http::Method::POST, "/v1/links").body(body).send().await;
        assert_eq!((reply.status, reply.member("code").as_str()), (400, "bad_request"), "{body}");
        let reply = world.a.ask(http::Method::PUT, "/v1/links/spring-42").body(body).send().await;
        // An id is not a field of an update, so a repeated one is ignored.
        let expected = if body.contains("custom_") { "empty_update" } else { "bad_request" };
        assert_eq!((reply.status, reply.member("code").as_str()), (400, expected), "{body}");
    }
    for body in [
        r#"{"template":{},"template":{},"count":1}"#,
        r#"{"template":{},"count":1,"count":1}"#,
        r#"{"links":[{"web_url":"https://example.com/","web_url":"https://example.com/"}]}"#,
    ] {
        let reply = world.a.ask(http::Method::POST, "/v1/links/bulk").body(body).send().await;
        assert_eq!((reply.status, reply.member("code").as_str()), (400, "bad_request"), "{body}");
    }
    let twice = r#"{"email":"a@example.com","email":"b@example.com"}"#;
    let reply = world.nobody.ask(http::Method::POST, "/v1/auth/signup").body(twice).send().await;
    assert_eq!((reply.status, reply.member("code").as_str()), (400, "bad_request"));
}

#[tokio::test]
async fn filters_narrow_the_list_alone_and_together() {
    let world = spawn().await;
    let one = world.a1.affiliate_id();
    for (id, affiliate) in [("abc-1", None), ("ABC-2", Some(one)), ("abc-3", Some(one)), ("xyz-4", None)] {
        let mut body = json!({"custom_id": id, "web_url": "https://example.com/"});
        body["affiliate_id"] = affiliate.into();
        world.a.make_of(&body).await;
        world.clock.advance(Duration::from_secs(10));
    }
    world.db.execute("UPDATE links SET status = 'flagged' WHERE link_id = 'abc-1'").await;
    world.db.execute("UPDATE links SET expires_at = created_at + 1 WHERE link_id = 'xyz-4'").await;
    let third = world.a.get("/v1/links/abc-3").await.member("created_at");
    for (query, expected) in [
        (String::new(), "xyz-4 abc-3 ABC-2 abc-1"),
        ("?id_prefix=abc".into(), "abc-3 abc-1"),
        ("?id_prefix=abc-".into(), "abc-3 abc-1"),
        ("?id_prefix=ABC".into(), "ABC-2"),
        ("?id_prefix=abc-3".into(), "abc-3"),
        ("?id_prefix=%25".into(), ""),
        ("?id_prefix=_".into(), ""),
        ("?id_prefix=a%25".into(), ""),
        ("?id_prefix=".into(), "xyz-4 abc-3 ABC-2 abc-1"),
        ("?id_prefix=%F0%9F%91%8B".into(), ""),
        (format!("?affiliate_id={one}"), "abc-3 ABC-2"),
        (format!("?affiliate_id={}", world.a2.affiliate_id()), ""),
        (format!("?affiliate_id={}", world.b1.affiliate_id()), ""),
        ("?affiliate_id=aff_0123456789abcdef01234567".into(), ""),
        ("?status=active".into(), "abc-3 ABC-2"),
        ("?status=flagged".into(), "abc-1"),
        ("?status=expired".into(), "xyz-4"),
        ("?status=disabled".into(), ""),
        (format!("?created_after={third}"), "xyz-4"),
        (format!("?created_before={third}"), "ABC-2 abc-1"),
        (format!("?id_prefix=abc&affiliate_id={one}&status=active"), "abc-3"),
        ("?created_after=2027-01-01T00:00:00Z".into(), ""),
    ] {
        assert_eq!(listed(&world.a, &query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn an_affiliate_lists_its_own_links_only() {
    let world = spawn().await;
    world.a.make("plain").await;
    world.a1.make("of-one").await;
    world.a2.make("of-two").await;
    assert_eq!(listed(&world.a, "").await, "of-two of-one plain");
    assert_eq!(listed(&world.a1, "").await, "of-one");
    assert_eq!(listed(&world.a1, &format!("?affiliate_id={}", world.a1.affiliate_id())).await, "of-one");
    assert_eq!(listed(&world.a1, &format!("?affiliate_id={}", world.a2.affiliate_id())).await, "");
    assert_eq!(listed(&world.b1, "").await, "");
}

#[tokio::test]
async fn pages_show_each_link_once_while_links_come_and_go() {
    let world = spawn().await;
    for at in 0..25 {
        world.a.make(&format!("old-{at:02}")).await;
    }
    let mut path = "/v1/links?limit=10".to_owned();
    let mut seen = Vec::new();
    let mut page = 0;
    loop {
        let reply = world.a.get(&path).await.json();
        seen.extend(ids(&reply));
        // Between two pages, links are added at the front and one that was shown is deleted.
        for at in 0..3 {
            world.a.make(&format!("new-{page}-{at}")).await;
        }
        world.a.delete(&format!("/v1/links/{}", seen[seen.len() - 1])).await;
        page += 1;
        match reply["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/links?limit=10&cursor={cursor}"),
            None => break,
        }
    }
    let expected: Vec<_> = (0..25).rev().map(|at| format!("old-{at:02}")).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_cursor_carries_its_filters_and_refuses_others() {
    let world = spawn().await;
    for at in 0..6 {
        world.a.make(&format!("abc-{at}")).await;
        world.a.make(&format!("xyz-{at}")).await;
    }
    let first = world.a.get("/v1/links?id_prefix=abc&limit=2").await.json();
    let cursor = first["next_cursor"].as_str().expect("a next page");
    assert_eq!(listed(&world.a, &format!("?cursor={cursor}&limit=3")).await, "abc-3 abc-2 abc-1");
    assert_eq!(listed(&world.a, &format!("?cursor={cursor}&id_prefix=abc")).await, "abc-3 abc-2 abc-1 abc-0");
    for other in [
        "id_prefix=xyz",
        "id_prefix=abc-",
        "id_prefix=abc&status=active",
        "q=abc",
        "status=active",
        "created_after=2026-01-01T00:00:00Z",
        "id_prefix=abc&sort=oldest",
        "id_prefix=abc&enabled=true",
        "domain=go.example.com",
        "sort=newest",
    ] {
        let reply = world.a.get(&format!("/v1/links?cursor={cursor}&{other}")).await;
        assert_eq!(reply.outcome(), "400 invalid_cursor cursor", "{other}");
    }
}

#[tokio::test]
async fn the_client_streams_all_links_page_by_page() {
    let world = spawn().await;
    for batch in 0..3 {
        let ids: Vec<_> = (0..100).map(|at| format!("link-{batch}-{at:02}")).collect();
        assert_eq!(world.a.post("/v1/links/bulk", &json!({"template": {}, "custom_ids": ids})).await.status, 201);
    }
    let all: Vec<_> = world.a.links().list(&LinkFilter::new()).items().try_collect().await.expect("all links");
    assert_eq!(all.len(), 300);
    let pages: Vec<_> = world.a.links().list(&LinkFilter::new()).pages().try_collect().await.expect("all pages");
    assert_eq!(pages.iter().map(|page| page.links.len()).collect::<Vec<_>>(), [100, 100, 100]);
    let filter = LinkFilter::new().id_prefix("link-1-").status(LinkStatus::Active);
    let some: Vec<_> = world.a.links().list(&filter).items().try_collect().await.expect("some links");
    assert_eq!(some.len(), 100);
}

/// A search finds what is contained, ignoring case, in what the owner wrote, and nothing of others.
#[tokio::test]
async fn a_search_finds_what_is_contained_without_case() {
    let world = spawn().await;
    world.b.make_of(&json!({"custom_id": "of-b", "name": "Spring sale"})).await;
    for link in [
        json!({"custom_id": "by-id-Spring"}),
        json!({"custom_id": "by-name", "name": "The SPRING sale"}),
        json!({"custom_id": "by-web", "web_url": "https://example.com/spring"}),
        json!({"custom_id": "by-app", "ios_deep_link": "myapp://spring"}),
        json!({"custom_id": "by-end", "expired_url": "https://example.com/spring/over"}),
        json!({"custom_id": "by-title", "social_preview": {"title": "Spring, at last"}}),
        json!({"custom_id": "by-data", "metadata": {"season": "spring"}}),
        json!({"custom_id": "not-text", "social_preview": {"title": "Summer", "description": "after spring"}}),
        json!({"custom_id": "odd", "name": "100 % \"off\" ÄRGER_\\"}),
    ] {
        world.a.make_of(&link).await;
    }
    let every = "by-data by-title by-end by-app by-web by-name by-id-Spring";
    for (q, found) in [
        ("spring", every),
        ("sPRing", every),
        ("spring%20sale", "by-name"),
        ("100%20%25", "odd"),
        ("ger_", "odd"),
        ("%25_", ""),
        ("%22OFF%22", "odd"),
        ("%C3%A4rger", "odd"),
        ("%5C", "odd"),
        ("%27", ""),
        ("spring&status=expired", ""),
        ("spring&id_prefix=by-a", "by-app"),
    ] {
        assert_eq!(listed(&world.a, &format!("?q={q}")).await, found, "{q}");
    }
    let first = world.a.get("/v1/links?q=spring&limit=3").await.json();
    let cursor = first["next_cursor"].as_str().expect("a next page");
    assert_eq!(listed(&world.a, &format!("?cursor={cursor}&limit=9")).await, "by-app by-web by-name by-id-Spring");
}

/// A search looks at 50,000 links at most, and says where to go on; the client and its pages do so by themselves.
#[tokio::test]
async fn a_search_among_many_links_goes_on_where_it_stopped() {
    let world = spawn().await;
    world.a.make("needle-1").await;
    let tenant = &world.a.tenant;
    world
        .db
        .execute(format!(
            "WITH RECURSIVE numbers (number) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT number + 1 FROM numbers WHERE number < 60000)
             INSERT INTO links (tenant_id, link_id, position, claimed, created_at, updated_at)
             SELECT '{tenant}', 'hay-' || number, 9000000000000000000 - 60000 + number, TRUE, 0, 0 FROM numbers"
        ))
        .await;
    let first = world.a.get("/v1/links?q=needle").await.json();
    assert_eq!(first["links"], json!([]));
    assert!(first["next_cursor"].is_string(), "{first}");
    let found: Vec<_> =
        world.a.links().list(&LinkFilter::new().q("NEEDLE")).items().try_collect().await.expect("links");
    assert_eq!(found.iter().map(|link| link.link_id.as_str()).collect::<Vec<_>>(), ["needle-1"]);
    let ids: Vec<_> = world.a.links().list(&LinkFilter::new().q("hay-1")).items().try_collect().await.expect("links");
    assert_eq!(ids.len(), 11_111, "1, 10 to 19, 100 to 199, 1,000 to 1,999, 10,000 to 19,999");
    // So it is for other filters that no index answers; a page of common links needs a part of one window.
    world.db.execute("UPDATE links SET enabled = FALSE, status = 'disabled' WHERE link_id = 'needle-1'").await;
    for query in ["enabled=false", "domain=go.example.com"] {
        let first = world.a.get(&format!("/v1/links?{query}")).await.json();
        assert!(first["links"] == json!([]) && first["next_cursor"].is_string(), "{query} {first}");
    }
    let contradictory = world.a.get("/v1/links?enabled=false&status=active").await.json();
    let is_complete = contradictory["next_cursor"].is_null();
    assert!(contradictory["links"] == json!([]) && is_complete, "no link is read: {contradictory}");
    for filter in [LinkFilter::new().enabled(false), LinkFilter::new().enabled(false).sort(LinkSort::Oldest)] {
        let found: Vec<_> = world.a.links().list(&filter).items().try_collect().await.expect("links");
        assert_eq!(found.iter().map(|link| link.link_id.as_str()).collect::<Vec<_>>(), ["needle-1"], "{filter:?}");
    }
    assert_eq!(listed(&world.a, "?enabled=true&limit=2").await, "hay-60000 hay-59999");
    assert_eq!(listed(&world.a, "?enabled=true&limit=2&sort=oldest").await, "hay-1 hay-2");
    let none = LinkFilter::new().domain("go.example.com").sort(LinkSort::Oldest);
    let found: Vec<_> = world.a.links().list(&none).items().try_collect().await.expect("links");
    assert!(found.is_empty(), "{found:?}");
}
