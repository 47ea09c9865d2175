//! Tags of links: what can be one, who sees them, lists and searches by them, and how many there can be.

use deeplink_client::{CreateLink, Kind, LinkFilter, Patch, RenameTag, UpdateLink};
use futures_util::TryStreamExt;
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, World, at_once, spawn, spawn_nodes};

async fn shown(caller: &Caller, id: &str) -> Value {
    caller.get(&format!("/v1/links/{id}")).await.json()["tags"].clone()
}

/// The ids of the links that a query lists, newest first.
async fn listed(caller: &Caller, query: &str) -> String {
    let reply = caller.get(&format!("/v1/links?{query}")).await;
    assert_eq!(reply.status, 200, "{query} {}", reply.text());
    let links = reply.json()["links"].as_array().expect("links").clone();
    links.iter().map(|link| link["link_id"].as_str().expect("an id")).collect::<Vec<_>>().join(" ")
}

/// How many tags an account has, and how many pairs of a link and a tag.
async fn stored(world: &World) -> (usize, usize) {
    let count = async |table: &str| world.db.texts(format!("SELECT 'x' FROM {table}")).await.len();
    (count("tags").await, count("link_tags").await)
}

#[tokio::test]
async fn tags_are_given_changed_and_taken() {
    let world = spawn().await;
    world
        .a
        .links()
        .create(&CreateLink::new().custom_id("one").tags(["Spring", " sale ", "SPRING"]))
        .await
        .expect("a link");
    let link = world.a.links().get("one").await.expect("the link");
    assert_eq!(link.tags, ["sale", "Spring"], "trimmed, different, in alphabetical order");

    // A tag is spelled as the account's first of it.
    let batch = json!({"template": {"tags": ["spring", "e\u{301}te\u{301}"]}, "custom_ids": ["two", "three"]});
    assert_eq!(world.a.post("/v1/links/bulk", &batch).await.status, 201);
    let batch = json!({"links": [{"custom_id": "four", "tags": ["SALE"]}, {"custom_id": "five"}, {"custom_id": "six", "tags": []}]});
    assert_eq!(world.a.post("/v1/links/bulk", &batch).await.status, 201);
    for (id, tags) in [
        ("two", json!(["Spring", "été"])),
        ("three", json!(["Spring", "été"])),
        ("four", json!(["sale"])),
        ("five", json!([])),
        ("six", json!([])),
    ] {
        assert_eq!(shown(&world.a, id).await, tags, "{id}");
    }
    let page = world.a.links().list(&LinkFilter::new()).first_page().await.expect("a page");
    assert_eq!(page.links.iter().find(|link| link.link_id == "two").map(|link| link.tags.len()), Some(2));

    // What is not named stays; a value replaces all.
    let renamed = world.a.put("/v1/links/one", &json!({"name": "One"})).await.json();
    assert_eq!(renamed["tags"], json!(["sale", "Spring"]));
    let mut update = UpdateLink::new();
    update.tags = Patch::Set(vec!["autumn".into(), "Sale".into()]);
    assert_eq!(world.a.links().update("one", &update).await.expect("changed").tags, ["autumn", "sale"]);
    for none in [json!(null), json!([])] {
        assert_eq!(world.a.put("/v1/links/two", &json!({"tags": none})).await.json()["tags"], json!([]));
    }
    assert_eq!(shown(&world.a, "one").await, json!(["autumn", "sale"]));
    // autumn and sale of one, Spring and été of three, sale of four.
    assert_eq!(stored(&world).await, (4, 5));

    // A tag ends with the last link that has it.
    world.a.put("/v1/links/one", &json!({"tags": ["winter"]})).await;
    assert_eq!(world.a.delete("/v1/links/three").await.status, 204);
    assert_eq!(stored(&world).await, (2, 2));
    world.a.put("/v1/links/four", &json!({"tags": ["SALE"]})).await;
    assert_eq!(shown(&world.a, "four").await, json!(["sale"]), "the account's spelling, as long as a link has it");
    // The operator has it flagged: it keeps its row, but its owner has deleted it.
    world.db.execute("UPDATE links SET status = 'flagged', taken_down = TRUE WHERE link_id = 'four'").await;
    assert_eq!(world.a.delete("/v1/links/four").await.status, 204);
    assert_eq!(stored(&world).await, (1, 1));
}

#[tokio::test]
async fn each_rule_has_its_code_and_field() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let many: Vec<_> = (0..21).map(|at| format!("tag-{at}")).collect();
    for (tags, outcome) in [
        (json!(["a", "b,c"]), "400 invalid_tag tags"),
        (json!([""]), "400 invalid_tag tags"),
        (json!([" \t "]), "400 invalid_tag tags"),
        (json!(["a\u{7}b"]), "400 invalid_tag tags"),
        (json!(["x".repeat(41)]), "400 invalid_tag tags"),
        (json!(many), "400 invalid_tag tags"),
        (json!(vec!["same"; 21]), "400 invalid_tag tags"),
        (json!("a"), "400 bad_request tags"),
        (json!([1]), "400 bad_request tags[0]"),
        (json!({"a": 1}), "400 bad_request tags"),
    ] {
        let body = json!({"tags": tags});
        assert_eq!(world.a.post("/v1/links", &body).await.outcome(), outcome, "{body}");
        assert_eq!(world.a.put("/v1/links/spring-42", &body).await.outcome(), outcome, "{body}");
        if outcome.contains("invalid_tag") {
            let template = json!({"template": body, "count": 2});
            assert_eq!(world.a.post("/v1/links/bulk", &template).await.outcome(), outcome, "{body}");
            let rows = world.a.post("/v1/links/bulk", &json!({"links": [{}, body]})).await.json();
            let row = &rows["errors"][0];
            assert_eq!(
                (&row["index"], &row["code"], &row["field"]),
                (&json!(1), &json!("invalid_tag"), &json!("tags"))
            );
        }
    }
    let most: Vec<_> = many[..20].iter().map(|tag| format!("  {tag}{}  ", "ä".repeat(40 - tag.len()))).collect();
    assert_eq!(world.a.put("/v1/links/spring-42", &json!({"tags": most})).await.status, 200);
    assert_eq!(shown(&world.a, "spring-42").await.as_array().map(Vec::len), Some(20));

    let twenty_one = vec!["tag=a"; 21].join("&");
    for (query, outcome) in [
        ("tag=", "400 bad_request tag"),
        ("tag=a%2Cb", "400 bad_request tag"),
        ("tag=a&tag=%00", "400 bad_request tag"),
        (&format!("tag={}", "x".repeat(41)), "400 bad_request tag"),
        (&twenty_one, "400 bad_request tag"),
        ("tag=a&tag=a", "200"),
    ] {
        assert_eq!(world.a.get(&format!("/v1/links?{query}")).await.outcome(), outcome, "{query}");
    }
}

/// A request that is sent again with its key gives its tags once, and answers as it did.
#[tokio::test]
async fn a_repeated_request_gives_tags_once() {
    let world = spawn().await;
    for (key, path, body) in [
        ("key-1", "/v1/links", json!({"custom_id": "one", "tags": ["Spring", "sale"]})),
        (
            "key-2",
            "/v1/links/bulk",
            json!({"links": [{"custom_id": "two", "tags": ["SPRING", "new"]}, {"custom_id": "three"}]}),
        ),
        ("key-3", "/v1/links/bulk", json!({"template": {"tags": ["sale"]}, "custom_ids": ["four", "five"]})),
    ] {
        let send =
            async || world.a.ask(Method::POST, path).header("idempotency-key", key).body(body.to_string()).send().await;
        let (first, kept) = (send().await, stored(&world).await);
        assert_eq!(first.status, 201, "{}", first.text());
        let again = send().await;
        assert_eq!((again.status, again.header("idempotency-replayed"), &again.body), (201, "true", &first.body));
        assert_eq!(stored(&world).await, kept, "{body}");
    }
    assert_eq!(stored(&world).await, (3, 6));
    // A refused one gives none, and its key may be used again.
    let refused = json!({"custom_id": "one", "tags": ["other"]});
    assert_eq!(world.a.post("/v1/links", &refused).await.outcome(), "409 link_id_taken custom_id");
    assert_eq!(stored(&world).await, (3, 6));
}

/// Tags are for the owner alone: visitors and affiliates neither see them nor find links by them, and an affiliate's key cannot
/// give them.
#[tokio::test]
async fn tags_are_for_the_owner_alone() {
    let world = spawn().await;
    let link = json!({"custom_id": "mine", "tags": ["secret plan"], "affiliate_id": world.a1.affiliate_id()});
    world.a.make_of(&link).await;
    let (listed_by, one) = (world.a1.get("/v1/links").await, world.a1.get("/v1/links/mine").await);
    assert_eq!((listed_by.status, one.status, &one.json()["tags"]), (200, 200, &json!([])));
    let page = world.nobody.browse(Method::GET, "/r/mine").send().await;
    for seen in [listed_by.text(), one.text(), world.nobody.resolve("mine").await.text(), page.text()] {
        assert!(!seen.contains("secret plan"), "{seen}");
    }
    for (caller, query, found) in [
        (&world.a, "q=PLAN", "mine"),
        (&world.a1, "q=PLAN", ""),
        (&world.a, "tag=SECRET%20plan", "mine"),
        (&world.a1, "tag=SECRET%20plan", ""),
        (&world.b, "tag=SECRET%20plan", ""),
        (&world.a1, "q=mine", "mine"),
    ] {
        assert_eq!(listed(caller, query).await, found, "{query}");
    }
    let tagged = json!({"tags": ["x"]});
    assert_eq!(world.a1.post("/v1/links", &tagged).await.outcome(), "400 invalid_tag tags");
    let template = json!({"template": tagged, "count": 1});
    assert_eq!(world.a1.post("/v1/links/bulk", &template).await.outcome(), "400 invalid_tag tags");
    let refused = world.a1.post("/v1/links/bulk", &json!({"links": [{"tags": []}, tagged]})).await.json();
    assert_eq!((&refused["errors"][0]["index"], &refused["errors"][1]), (&json!(1), &Value::Null));
}

#[tokio::test]
async fn a_list_has_the_links_with_all_of_the_tags() {
    let world = spawn().await;
    world.b.make_of(&json!({"custom_id": "of-b", "tags": ["spring", "sale"]})).await;
    let one = world.a1.affiliate_id();
    for (id, tags, affiliate) in [
        ("plain", json!([]), None),
        ("spring-1", json!(["Spring"]), None),
        ("sale-1", json!(["Sale"]), Some(one)),
        ("both-1", json!(["SALE", "spring", "ÄRGER"]), Some(one)),
        ("both-2", json!(["sale", "spring", "100 % \\ _"]), None),
        ("spring-2", json!(["spring"]), None),
    ] {
        let mut body = json!({"custom_id": id, "tags": tags});
        body["affiliate_id"] = affiliate.into();
        world.a.make_of(&body).await;
    }
    world.db.execute("UPDATE links SET status = 'flagged' WHERE link_id = 'both-1'").await;
    for (query, expected) in [
        ("tag=spring", "spring-2 both-2 both-1 spring-1"),
        ("tag=%20SPRING%20", "spring-2 both-2 both-1 spring-1"),
        ("tag=sale&tag=spring", "both-2 both-1"),
        ("tag=spring&tag=sale", "both-2 both-1"),
        ("tag=spring&tag=Spring", "spring-2 both-2 both-1 spring-1"),
        ("tag=%C3%A4rger", "both-1"),
        ("tag=A%CC%88RGER&tag=sale", "both-1"),
        ("tag=100%20%25%20%5C%20_", "both-2"),
        ("tag=sal", ""),
        ("tag=%25", ""),
        ("tag=spring&tag=nothing", ""),
        ("tag=spring&status=flagged", "both-1"),
        ("tag=spring&status=active&id_prefix=both", "both-2"),
        ("tag=spring&id_prefix=spring", "spring-2 spring-1"),
        ("tag=spring&created_after=2027-01-01T00:00:00Z", ""),
        ("tag=spring&created_before=2027-01-01T00:00:00Z&limit=1", "spring-2"),
        (&format!("tag=spring&affiliate_id={one}"), "both-1"),
        // A search among them, and by tags.
        ("tag=spring&q=both", "both-2 both-1"),
        ("q=sprin", "spring-2 both-2 both-1 spring-1"),
        ("q=RGER", "both-1"),
        ("q=%C3%A4rg", "both-1"),
        ("q=%25%20%5C", "both-2"),
        ("q=sale&tag=spring&status=active", "both-2"),
        ("q=sale%2Cspring", ""),
    ] {
        assert_eq!(listed(&world.a, query).await, expected, "{query}");
    }
    // Page by page, each once; a cursor carries the tags and takes no others.
    let filter = LinkFilter::new().tag("SPRING").tag("sale");
    let pages = world.a.links().list(&filter).page_size(1).items();
    let links: Vec<_> = pages.try_collect().await.expect("links");
    assert_eq!(links.iter().map(|link| link.link_id.as_str()).collect::<Vec<_>>(), ["both-2", "both-1"]);
    let first = world.a.get("/v1/links?tag=spring&limit=1").await.json();
    let cursor = first["next_cursor"].as_str().expect("a next page");
    assert_eq!(listed(&world.a, &format!("cursor={cursor}&limit=9")).await, "both-2 both-1 spring-1");
    assert_eq!(listed(&world.a, &format!("cursor={cursor}&tag=SPRING")).await, "both-2 both-1 spring-1");
    for other in ["tag=sale", "tag=spring&tag=sale"] {
        let reply = world.a.get(&format!("/v1/links?cursor={cursor}&{other}")).await;
        assert_eq!(reply.outcome(), "400 invalid_cursor cursor", "{other}");
    }
}

/// An account has at most 1,000 different tags, also if many links get new ones at once on two nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_has_at_most_a_thousand_tags() {
    let world = spawn_nodes(2).await;
    let rows: Vec<_> = (0..50)
        .map(|link| json!({"tags": (0..20).map(|at| format!("tag {}", link * 20 + at)).collect::<Vec<_>>()}))
        .collect();
    assert_eq!(world.a.post("/v1/links/bulk", &json!({"links": rows[..49]})).await.status, 201);
    assert_eq!(stored(&world).await, (980, 980));
    let there = world.at(1, &world.a);
    let outcomes = at_once(40, |at| {
        let caller = if at % 2 == 0 { world.a.clone() } else { there.clone() };
        async move { caller.post("/v1/links", &json!({"tags": [format!("new {at}"), "TAG 1"]})).await.outcome() }
    })
    .await;
    let made = outcomes.iter().filter(|outcome| *outcome == "201").count();
    let refused = outcomes.iter().filter(|outcome| *outcome == "400 tag_limit tags").count();
    assert_eq!((made, refused), (20, 20), "{outcomes:?}");
    assert_eq!(stored(&world).await, (1_000, 1_020));
    // All or none.
    let full = "400 tag_limit tags";
    world.a.make("one").await;
    for reply in [
        world.a.post("/v1/links/bulk", &json!({"links": [{"tags": ["tag 5"]}, {"tags": ["one more"]}]})).await,
        world.a.post("/v1/links/bulk", &json!({"template": {"tags": ["one more"]}, "count": 3})).await,
        world.a.put("/v1/links/one", &json!({"name": "One", "tags": ["one more"]})).await,
    ] {
        assert_eq!(reply.outcome(), full);
    }
    assert_eq!(stored(&world).await, (1_000, 1_020));
    assert_eq!(world.a.get("/v1/links/one").await.json()["name"], Value::Null);
    // Another account has its own thousand; a place is free again once no link has a tag.
    assert_eq!(world.b.post("/v1/links", &json!({"tags": ["one more"]})).await.status, 201);
    assert_eq!(world.a.put("/v1/links/one", &json!({"tags": ["tag 5"]})).await.status, 200);
    let newest = listed(&world.a, "tag=tag%20980&limit=1").await;
    assert_eq!(newest, "", "that row was not sent");
    let last = listed(&world.a, "tag=tag%20979").await;
    assert_eq!(world.a.put(&format!("/v1/links/{last}"), &json!({"tags": ["one more"]})).await.status, 200);
    assert_eq!(stored(&world).await.0, 1_000 - 20 + 1 + 1);
}

/// The tags of an account with the number of their links, as `tag:links`.
async fn counted(caller: &Caller) -> String {
    let tags = caller.client.tags().list().await.expect("tags").tags;
    tags.iter().map(|tag| format!("{}:{}", tag.tag, tag.links)).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn tags_are_listed_renamed_merged_and_deleted() {
    let world = spawn().await;
    let (a, tags) = (&world.a, world.a.client.tags());
    assert_eq!(a.get("/v1/tags").await.json(), json!({"tags": []}));
    for (id, tags) in [
        ("one", json!(["Spring", "sale", "50 % off / now?"])),
        ("two", json!(["spring", "été"])),
        ("three", json!(["Sale"])),
    ] {
        a.make_of(&json!({"custom_id": id, "tags": tags})).await;
    }
    world.b.make_of(&json!({"custom_id": "of-b", "tags": ["spring", "of B"]})).await;
    assert_eq!(counted(a).await, "50 % off / now?:1 sale:2 Spring:2 été:1");

    // Another spelling of the same tag, and another tag.
    let renamed = tags.rename("SPRING", &RenameTag::new(" spring ")).await.expect("renamed");
    assert_eq!((renamed.tag.as_str(), renamed.links), ("spring", 2));
    let renamed = tags.rename("50 % off / now?", &RenameTag::new("A/B.c")).await.expect("renamed");
    assert_eq!((renamed.tag.as_str(), renamed.links), ("A/B.c", 1));
    assert_eq!(counted(a).await, "A/B.c:1 sale:2 spring:2 été:1");
    // One has both: it counts once.
    let merged = tags.rename("sale", &RenameTag::new("Spring Sale")).await.expect("renamed");
    assert_eq!((merged.tag.as_str(), merged.links), ("Spring Sale", 2));
    let merged = tags.rename("spring", &RenameTag::new("SPRING sale")).await.expect("merged");
    assert_eq!((merged.tag.as_str(), merged.links), ("SPRING sale", 3));
    assert_eq!(counted(a).await, "A/B.c:1 SPRING sale:3 été:1");
    assert_eq!(shown(a, "one").await, json!(["A/B.c", "SPRING sale"]));
    assert_eq!(listed(a, "tag=spring%20sale").await, "three two one");
    assert_eq!(listed(a, "tag=spring").await, "");

    tags.delete("spring SALE").await.expect("deleted");
    tags.delete("a/b.C").await.expect("deleted");
    assert_eq!(counted(a).await, "été:1");
    assert_eq!((shown(a, "one").await, shown(a, "two").await), (json!([]), json!(["été"])));
    let gone = tags.delete("spring sale").await.expect_err("it is gone");
    assert_eq!(gone.kind(), Kind::NotFound);
    for (path, body, outcome) in [
        ("/v1/tags/sale", json!({"tag": "x"}), "404 not_found"),
        ("/v1/tags/a%2Cb", json!({"tag": "x"}), "404 not_found"),
        ("/v1/tags/of%20B", json!({"tag": "x"}), "404 not_found"),
        ("/v1/tags/%C3%A9t%C3%A9", json!({"tag": ""}), "400 invalid_tag tag"),
        ("/v1/tags/%C3%A9t%C3%A9", json!({"tag": "a,b"}), "400 invalid_tag tag"),
        ("/v1/tags/%C3%A9t%C3%A9", json!({"tag": "x".repeat(41)}), "400 invalid_tag tag"),
        ("/v1/tags/%C3%A9t%C3%A9", json!({"tag": null}), "400 bad_request tag"),
        ("/v1/tags/%C3%A9t%C3%A9", json!({}), "400 bad_request tag"),
    ] {
        assert_eq!(a.put(path, &body).await.outcome(), outcome, "{path} {body}");
    }
    assert_eq!(a.delete("/v1/tags/of%20B").await.outcome(), "404 not_found");
    assert_eq!(counted(a).await, "été:1");
    assert_eq!(counted(&world.b).await, "of B:1 spring:1", "another account keeps its own");
}

/// More links than one write changes.
#[tokio::test]
async fn a_tag_of_many_links_is_merged_and_deleted() {
    let world = spawn().await;
    let a = &world.a;
    a.make_of(&json!({"custom_id": "one", "tags": ["many", "other"]})).await;
    a.make_of(&json!({"custom_id": "two", "tags": ["few"]})).await;
    world
        .db
        .execute(
            "INSERT INTO link_tags (link, tag) WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 12000)
             SELECT -n, number FROM n, tags WHERE key = 'many'",
        )
        .await;
    assert_eq!(counted(a).await, "few:1 many:12001 other:1");
    let merged = a.client.tags().rename("many", &RenameTag::new("few")).await.expect("merged");
    assert_eq!(merged.links, 12_002);
    assert_eq!((counted(a).await, stored(&world).await), ("few:12002 other:1".to_owned(), (2, 12_003)));
    a.client.tags().delete("FEW").await.expect("deleted");
    assert_eq!((counted(a).await, stored(&world).await), ("other:1".to_owned(), (1, 1)));
    assert_eq!(shown(a, "two").await, json!([]));
}

/// Links that are created while a tag is renamed, merged or deleted on another node: each has the tag that it was given or the
/// one that it became, no tag is there twice, and none without a link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renames_race_creates() {
    let world = spawn_nodes(2).await;
    let (a, there) = (world.a.clone(), world.at(1, &world.a));
    a.make_of(&json!({"custom_id": "first", "tags": ["old", "kept"]})).await;
    let outcomes = at_once(60, |at| {
        let caller = if at % 2 == 0 { a.clone() } else { there.clone() };
        async move {
            match at % 10 {
                7 => caller.put("/v1/tags/old", &json!({"tag": "New"})).await.outcome(),
                8 => caller.put("/v1/tags/new", &json!({"tag": "old"})).await.outcome(),
                9 => caller.delete("/v1/tags/old").await.outcome(),
                6 => caller.put("/v1/links/first", &json!({"tags": ["new", "kept"]})).await.outcome(),
                5 => caller
                    .post("/v1/links/bulk", &json!({"template": {"tags": ["OLD", "new"]}, "count": 3}))
                    .await
                    .outcome(),
                _ => caller.post("/v1/links", &json!({"tags": ["old", "kept"]})).await.outcome(),
            }
        }
    })
    .await;
    assert!(
        outcomes.iter().all(|outcome| matches!(&**outcome, "200" | "201" | "204" | "404 not_found")),
        "{outcomes:?}"
    );
    let number = async |sql: &str| world.db.number(sql).await;
    assert_eq!(
        number("SELECT COUNT(*) FROM link_tags m WHERE NOT EXISTS (SELECT 1 FROM tags t WHERE t.number = m.tag)").await,
        0
    );
    assert_eq!(
        number("SELECT COUNT(*) FROM tags t WHERE NOT EXISTS (SELECT 1 FROM link_tags m WHERE m.tag = t.number)").await,
        0
    );
    assert_eq!(
        number("SELECT COUNT(*) FROM link_tags m WHERE NOT EXISTS (SELECT 1 FROM links l WHERE l.position = m.link)")
            .await,
        0
    );
    let all = counted(&a).await;
    // 30 links and the first were given it, and nothing takes it from one.
    assert!(all.split(' ').any(|tag| tag == "kept:31"), "{all}");
    let links = a.client.links().list(&LinkFilter::new()).items();
    let links: Vec<_> = links.try_collect().await.expect("links");
    assert_eq!(links.len(), 1 + 30 + 6 * 3);
    for link in links {
        assert!(link.tags.iter().all(|tag| ["kept", "new", "old"].contains(&&*tag.to_lowercase())), "{link:?}");
    }
}
