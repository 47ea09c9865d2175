//! Aliases of links: what can be one, where it leads, and what happens to it when its link is changed, deleted or restored.
//! [`taken`] has who gets a name.

mod taken;

use std::time::Duration;

use deeplink_client::{CreateLink, Patch, UpdateLink};
use futures_util::{StreamExt, stream};
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, Reply, Role, World, eventually, spawn, spawn_nodes};

const HOST: &str = "go.example.com";
const SOON: Duration = Duration::from_secs(5);

/// A has a verified domain.
async fn spawn_with_domain() -> World {
    let world = spawn().await;
    world.own_domain(&world.a, HOST, Role::Primary).await;
    world
}

async fn open(caller: &Caller, host: &str, path: &str) -> String {
    let reply = caller.browse(Method::GET, path).header("host", host).send().await;
    format!("{} {}", reply.status, reply.header("location")).trim_end().to_owned()
}

/// A link that leads to a page of its ID, with these aliases.
fn link(id: &str, aliases: &[&str]) -> Value {
    json!({"custom_id": id, "web_url": format!("https://example.com/{id}"), "aliases": aliases})
}

async fn shown(caller: &Caller, id: &str) -> Value {
    caller.get(&format!("/v1/links/{id}")).await.json()["aliases"].clone()
}

async fn set(caller: &Caller, id: &str, aliases: &Value) -> Reply {
    caller.put(&format!("/v1/links/{id}"), &json!({"aliases": aliases})).await
}

async fn restore(caller: &Caller, id: &str, body: &Value) -> Reply {
    caller.post(&format!("/v1/links/{id}/restore"), body).await
}

#[tokio::test]
async fn an_alias_leads_where_its_link_does_and_counts_for_it() {
    let world = spawn_with_domain().await;
    let new = CreateLink::new().custom_id("spring").web_url("https://example.com/sale");
    let new = new.aliases(["/l/2024/spring.html", "Spring_Sale", "3xYz9Ab", "caf%C3%A9", "3xYz9Ab"]);
    let made = world.a.links().create(&new).await.expect("a link");
    assert_eq!(made.url, "https://go.example.com/spring", "the canonical URL is that of the ID");
    let stored = ["3xYz9Ab", "Spring_Sale", "café", "l/2024/spring.html"];
    assert_eq!(world.a.links().get("spring").await.expect("the link").aliases, stored);
    let listed = world.a.get("/v1/links").await.json();
    assert_eq!((listed["links"].as_array().map(Vec::len), &listed["links"][0]["aliases"]), (Some(1), &json!(stored)));

    let target = "302 https://example.com/sale";
    for (path, expected) in [
        ("/spring", target),
        ("/3xYz9Ab", target),
        ("/r/3xYz9Ab", target),
        ("/3xYz9%41b", target),
        ("/Spring_Sale", target),
        ("/r/Spring_Sale", target),
        ("/caf%C3%A9", target),
        ("/cafe%CC%81", target),
        ("/l/2024/spring.html", target),
        ("/l/2024/spring.html?utm_source=poster", "302 https://example.com/sale?utm_source=poster"),
        ("/spring_sale", "404"),
        ("/3XYZ9AB", "404"),
        ("/l/2024/spring.html/", target),
        ("/l/2024/spring.html//", "404"),
        ("/3xYz9Ab/", "404"),
        ("/l/2024%2Fspring.html", "404"),
        ("/l//2024/spring.html", "404"),
        ("/l/2024", "404"),
        ("/l", "404"),
    ] {
        assert_eq!(open(&world.nobody, HOST, path).await, expected, "{path}");
        // From memory.
        assert_eq!(open(&world.nobody, HOST, path).await, expected, "{path}");
    }
    // On the service's own host, there are no aliases.
    for path in ["/r/3xYz9Ab", "/r/Spring_Sale", "/r/l/2024/spring.html", "/l/2024/spring.html", "/3xYz9Ab"] {
        assert_eq!(open(&world.nobody, "localhost", path).await, "404", "{path}");
    }
    let program = world.nobody.ask_without_key(Method::GET, "/l/2024/spring.html");
    let program = program.header("host", HOST).header("accept", "application/json").send().await;
    assert_eq!((program.status, program.member("link_id")), (200, "spring".to_owned()), "as the link does");
    let head = world.nobody.browse(Method::HEAD, "/Spring_Sale").header("host", HOST).send().await;
    assert_eq!(head.status, 302);
    world.folded().await;
    // Twice each of eleven paths, and once by a program.
    assert_eq!(world.a.clicks_of("spring").await, 23);

    // An app that was opened by an old address names it, as the system hands it the path.
    let old = [
        "l/2024/spring.html",
        "/l/2024/spring.html",
        "/l/2024/spr%69ng.html",
        "3xYz9Ab",
        "/r/3xYz9Ab",
        "r/3xYz9Ab",
        "/r/spring",
        "r/spring",
        "/cafe\u{301}",
        "/spring",
    ];
    for name in old {
        let click = world.a.post("/v1/lifecycle/click", &json!({"link_id": name})).await;
        assert_eq!((click.status, click.member("link_id")), (200, "spring".to_owned()), "{name}");
    }
    let last = world.a.post("/v1/lifecycle/click", &json!({"link_id": "spring.html"})).await;
    assert_eq!(last.outcome(), "404 not_found");
    let touch = json!({"link_id": "3xYz9Ab", "install_id": "install-1", "app_version": "1.0"});
    assert_eq!(world.a.post("/v1/lifecycle/attribute", &touch).await.status, 200);
    // An alias is no ID of an operation.
    for path in ["/v1/links/3xYz9Ab", "/v1/links/3xYz9Ab/history", "/v1/links/3xYz9Ab/qr.svg"] {
        assert_eq!(world.a.get(path).await.outcome(), "404 not_found", "{path}");
    }
    assert_eq!(world.a.delete("/v1/links/3xYz9Ab").await.outcome(), "404 not_found");
    assert_eq!(restore(&world.a, "3xYz9Ab", &json!({})).await.outcome(), "404 not_found");
}

/// Visits by aliases that are cached cost no look-ups.
#[tokio::test]
async fn a_cached_alias_costs_no_look_up() {
    let world = spawn_with_domain().await;
    world.a.make_of(&link("spring", &["old", "l/old", "Old_1"])).await;
    world.a.make_of(&link("summer", &["caf%C3%A9"])).await;
    let visit_all = async || {
        for (path, id) in [
            ("/old", "spring"),
            ("/r/old", "spring"),
            ("/l/old", "spring"),
            ("/Old_1", "spring"),
            ("/caf%C3%A9", "summer"),
        ] {
            assert_eq!(open(&world.nobody, HOST, path).await, format!("302 https://example.com/{id}"), "{path}");
        }
    };
    // A server that sees another process write to its file reloads what it has cached, once.
    eventually("visits by aliases cost no look-ups", SOON, || async {
        world.clock.advance(Duration::from_secs(6));
        let first = world.node(0).lookups();
        visit_all().await;
        let before = world.node(0).lookups();
        assert!(before > first, "look-ups are counted");
        visit_all().await;
        world.node(0).lookups() == before
    })
    .await;
}

#[tokio::test]
async fn each_rule_has_its_code_and_field() {
    let world = spawn_with_domain().await;
    world.a.make("spring-42").await;
    for (aliases, outcome) in [
        (json!(["a b"]), "400 invalid_alias aliases[0]"),
        (json!(["ok", ""]), "400 invalid_alias aliases[1]"),
        (json!(["a/b/c/d"]), "400 invalid_alias aliases[0]"),
        (json!(["l/spring//"]), "400 invalid_alias aliases[0]"),
        (json!(["//spring"]), "400 invalid_alias aliases[0]"),
        (json!(["l/../spring"]), "400 invalid_alias aliases[0]"),
        (json!(["l%2Fspring"]), "400 invalid_alias aliases[0]"),
        (json!(["spring%"]), "400 invalid_alias aliases[0]"),
        (json!(["spring?x=1"]), "400 invalid_alias aliases[0]"),
        (json!(["https://go.example.com/spring"]), "400 invalid_alias aliases[0]"),
        (json!(["a\u{7}b"]), "400 invalid_alias aliases[0]"),
        (json!(["a\u{202e}b"]), "400 invalid_alias aliases[0]"),
        (json!(["x".repeat(201)]), "400 invalid_alias aliases[0]"),
        (json!(["docs"]), "400 invalid_alias aliases[0]"),
        (json!(["V1"]), "400 invalid_alias aliases[0]"),
        (json!(["v1/links"]), "400 invalid_alias aliases[0]"),
        (json!(["r/spring"]), "400 invalid_alias aliases[0]"),
        (json!([".well-known/assetlinks.json"]), "400 invalid_alias aliases[0]"),
        (json!(["favicon.ico"]), "400 invalid_alias aliases[0]"),
        (json!(["a", "b", "c", "d", "e", "f"]), "400 invalid_alias aliases"),
        (json!("a"), "400 bad_request aliases"),
        (json!([1]), "400 bad_request aliases[0]"),
    ] {
        let body = json!({"aliases": aliases});
        assert_eq!(world.a.post("/v1/links", &body).await.outcome(), outcome, "{body}");
        assert_eq!(world.a.put("/v1/links/spring-42", &body).await.outcome(), outcome, "{body}");
        if outcome.contains("invalid_alias") {
            let rows = world.a.post("/v1/links/bulk", &json!({"links": [{}, body]})).await.json();
            let row = &rows["errors"][0];
            assert_eq!((&row["index"], &row["code"]), (&json!(1), &json!("invalid_alias")), "{rows}");
            assert!(outcome.ends_with(row["field"].as_str().expect("a field")), "{rows}");
        }
    }
    assert_eq!(world.a.post("/v1/links", &link("own", &["own"])).await.outcome(), "400 invalid_alias aliases[0]");
    let own = set(&world.a, "spring-42", &json!(["spring-42"])).await;
    assert_eq!(own.outcome(), "400 invalid_alias aliases[0]");
    // Several links cannot have the same aliases.
    let template = json!({"template": {"aliases": ["old"]}, "count": 1});
    assert_eq!(world.a.post("/v1/links/bulk", &template).await.outcome(), "400 invalid_alias aliases");
    let change = json!({"link_ids": ["spring-42"], "set": {"aliases": ["old"]}});
    assert_eq!(world.a.patch("/v1/links/bulk", &change).await.outcome(), "400 invalid_alias set.aliases");
    // They are for the account alone.
    assert_eq!(world.a1.post("/v1/links", &link("mine", &["old"])).await.outcome(), "400 invalid_alias aliases");
    let rows = world.a1.post("/v1/links/bulk", &json!({"links": [link("mine", &["old"])]})).await.json();
    assert_eq!(rows["errors"][0]["code"], "invalid_alias");
    assert_eq!(world.db.number("SELECT CAST(count(*) AS BIGINT) FROM links").await, 1, "nothing was stored");
}

/// Aliases work on an account's own domain only, so one without a domain is told to add it.
#[tokio::test]
async fn without_a_domain_there_are_no_aliases() {
    let world = spawn().await;
    world.a.make("one").await;
    let refused = "400 invalid_alias aliases";
    assert_eq!(world.a.post("/v1/links", &link("two", &["old"])).await.outcome(), refused);
    assert_eq!(set(&world.a, "one", &json!(["old"])).await.outcome(), refused);
    assert_eq!(set(&world.a, "one", &json!([])).await.status, 200);
    let rows = world.a.post("/v1/links/bulk", &json!({"links": [link("two", &[]), link("three", &["old"])]})).await;
    let errors = rows.json()["errors"].clone();
    assert_eq!((&errors[0]["index"], &errors[0]["code"]), (&json!(1), &json!("invalid_alias")), "{errors}");
    // An alternate domain is not enough, and the error says so.
    world.own_domain(&world.a, "alt.example.com", Role::Alternate).await;
    let alternate = set(&world.a, "one", &json!(["old"])).await;
    assert_eq!(alternate.outcome(), refused);
    assert!(alternate.text().contains("aliases require a verified primary domain"), "{}", alternate.text());
    world.own_domain(&world.a, HOST, Role::Primary).await;
    assert_eq!(set(&world.a, "one", &json!(["old"])).await.status, 200);
    assert_eq!(open(&world.nobody, HOST, "/old").await, "302 https://example.com/one");
    // Another account's link may have that ID on the service's own host.
    world.b.make("old").await;
    assert_eq!(world.nobody.tap("old").await.header("location"), "https://example.com/old");
}

/// A domain that moves to another account has the aliases of that account only.
#[tokio::test]
async fn a_domain_that_moves_has_the_aliases_of_its_new_account() {
    let world = spawn_with_domain().await;
    world.a.make_of(&link("one", &["old", "l/one"])).await;
    assert_eq!(open(&world.nobody, HOST, "/old").await, "302 https://example.com/one");
    assert_eq!(world.a.delete(&format!("/v1/domains/{HOST}")).await.status, 204);
    world.own_domain(&world.b, HOST, Role::Primary).await;
    for path in ["/old", "/l/one"] {
        assert_eq!(open(&world.nobody, HOST, path).await, "404", "{path}");
    }
    world.b.make_of(&link("two", &["old"])).await;
    assert_eq!(open(&world.nobody, HOST, "/old").await, "302 https://example.com/two");
}

#[tokio::test]
async fn aliases_are_replaced_as_a_whole_and_are_in_the_history() {
    let world = spawn_with_domain().await;
    world.a.make_of(&link("promo", &["one", "two"])).await;
    assert_eq!(
        world.a.put("/v1/links/promo", &json!({"name": "Promo"})).await.json()["aliases"],
        json!(["one", "two"])
    );
    let mut update = UpdateLink::new();
    update.aliases = Patch::Set(vec!["two".into(), "l/three".into()]);
    assert_eq!(world.a.links().update("promo", &update).await.expect("changed").aliases, ["l/three", "two"]);
    for (path, expected) in
        [("/one", "404"), ("/two", "302 https://example.com/promo"), ("/l/three", "302 https://example.com/promo")]
    {
        assert_eq!(open(&world.nobody, HOST, path).await, expected, "{path}");
    }
    assert_eq!(set(&world.a, "promo", &json!(["l/three", "two"])).await.status, 200);
    let versions = world.a.get("/v1/links/promo/history").await.json();
    let aliases: Vec<_> =
        versions["versions"].as_array().expect("versions").iter().map(|one| &one["content"]["aliases"]).collect();
    assert_eq!(aliases, [&json!(["one", "two"]), &json!(["one", "two"])], "the same aliases are no change");

    world.a.make_of(&link("other", &["free"])).await;
    assert_eq!(restore(&world.a, "promo", &json!({"version": 2})).await.json()["aliases"], json!(["one", "two"]));
    assert_eq!(open(&world.nobody, HOST, "/one").await, "302 https://example.com/promo");
    assert_eq!(open(&world.nobody, HOST, "/l/three").await, "404");
    assert_eq!(set(&world.a, "promo", &json!([])).await.json()["aliases"], json!([]));
    assert_eq!(set(&world.a, "other", &json!(["one"])).await.status, 200);
    let restored = restore(&world.a, "promo", &json!({"version": 2})).await.json();
    assert_eq!(restored["aliases"], json!(["two"]), "the other one leads to another link by now");
    assert_eq!(open(&world.nobody, HOST, "/one").await, "302 https://example.com/other");
    // A repeated request gets the answer of the first, and gives and takes no alias.
    assert_eq!(set(&world.a, "promo", &json!(["l/four"])).await.status, 200);
    let keyed = || {
        let ask = world.a.ask(Method::POST, "/v1/links/promo/restore").json(&json!({"version": 2}));
        ask.header("idempotency-key", "restore-promo").send()
    };
    let once = keyed().await;
    assert_eq!((once.status, &once.json()["aliases"]), (200, &json!(["two"])), "{}", once.text());
    assert_eq!(set(&world.a, "other", &json!([])).await.status, 200);
    assert_eq!(set(&world.a, "promo", &json!(["two", "l/five"])).await.status, 200);
    let again = keyed().await;
    assert_eq!((again.header("idempotency-replayed"), again.text()), ("true", once.text()));
    assert_eq!(shown(&world.a, "promo").await, json!(["l/five", "two"]), "what was changed since then stays");
    for (path, expected) in [("/one", "404"), ("/l/five", "302 https://example.com/promo"), ("/l/four", "404")] {
        assert_eq!(open(&world.nobody, HOST, path).await, expected, "{path}");
    }
    for (id, aliases) in [("promo", json!(["two"])), ("other", json!(["one"]))] {
        assert_eq!(set(&world.a, id, &aliases).await.status, 200);
    }
    // A bulk change can take aliases, and not give them.
    let change = json!({"link_ids": ["promo", "other"], "set": {"aliases": null, "name": "Both"}});
    assert_eq!(world.a.patch("/v1/links/bulk", &change).await.status, 200);
    assert_eq!((shown(&world.a, "other").await, open(&world.nobody, HOST, "/one").await), (json!([]), "404".into()));
    assert_eq!(restore(&world.a, "other", &json!({})).await.json()["aliases"], json!(["one"]));
}

/// Undoing goes on to the last change that can be undone, instead of recording versions that change nothing.
#[tokio::test]
async fn undoing_skips_an_alias_that_another_link_has() {
    let world = spawn_with_domain().await;
    world.a.make_of(&link("promo", &["one", "two"])).await;
    assert_eq!(set(&world.a, "promo", &json!(["two"])).await.status, 200);
    world.a.make_of(&link("other", &["one"])).await;
    let versions =
        async || world.a.get("/v1/links/promo/history").await.json()["versions"].as_array().expect("versions").len();
    assert_eq!(restore(&world.a, "promo", &json!({})).await.outcome(), "404 version_not_found");
    let same = restore(&world.a, "promo", &json!({"version": 1})).await;
    assert_eq!((same.status, &same.json()["aliases"]), (200, &json!(["two"])), "{}", same.text());
    assert_eq!(versions().await, 1, "nothing changed");

    // With an earlier change, that is undone.
    world.a.make_of(&json!({"custom_id": "named", "name": "First", "aliases": ["three", "four"]})).await;
    assert_eq!(world.a.put("/v1/links/named", &json!({"name": "Second"})).await.status, 200);
    assert_eq!(set(&world.a, "named", &json!(["four"])).await.status, 200);
    assert_eq!(set(&world.a, "other", &json!(["one", "three"])).await.status, 200);
    let undone = restore(&world.a, "named", &json!({})).await.json();
    assert_eq!((&undone["name"], &undone["aliases"]), (&json!("First"), &json!(["four"])), "{undone}");

    // Once the other link has given it up, it comes back.
    assert_eq!(set(&world.a, "other", &json!([])).await.status, 200);
    assert_eq!(restore(&world.a, "promo", &json!({})).await.json()["aliases"], json!(["one", "two"]));
    assert_eq!(
        (versions().await, open(&world.nobody, HOST, "/one").await),
        (2, "302 https://example.com/promo".into())
    );
}

#[tokio::test]
async fn aliases_go_and_come_back_with_their_link() {
    let world = spawn_with_domain().await;
    world.a.make_of(&link("promo", &["old", "l/old"])).await;
    assert_eq!(open(&world.nobody, HOST, "/old").await, "302 https://example.com/promo");
    assert_eq!(world.a.delete("/v1/links/promo").await.status, 204);
    for path in ["/promo", "/old", "/l/old"] {
        assert_eq!(open(&world.nobody, HOST, path).await, "404", "{path}");
    }
    // A link can be renamed at once: its ID is free as an alias, and it cannot be restored meanwhile.
    let deleted = async || world.a.get("/v1/links?status=deleted").await.json()["links"].as_array().map(Vec::len);
    assert_eq!(deleted().await, Some(1));
    world.a.make_of(&link("new", &["promo", "l/old"])).await;
    assert_eq!(open(&world.nobody, HOST, "/promo").await, "302 https://example.com/new");
    assert_eq!(deleted().await, Some(0));
    assert_eq!(restore(&world.a, "promo", &json!({})).await.outcome(), "409 link_id_taken custom_id");
    // Aliases that another link has do not keep it from being restored.
    assert_eq!(set(&world.a, "new", &json!(["l/old"])).await.status, 200);
    assert_eq!(restore(&world.a, "promo", &json!({})).await.json()["aliases"], json!(["old"]));
    assert_eq!(open(&world.nobody, HOST, "/l/old").await, "302 https://example.com/new");
    for path in ["/promo", "/old"] {
        assert_eq!(open(&world.nobody, HOST, path).await, "302 https://example.com/promo", "{path}");
    }
    // Several at once.
    world.a.make_of(&link("second", &["older"])).await;
    let both = json!({"link_ids": ["promo", "second"]});
    assert_eq!(world.a.ask(Method::DELETE, "/v1/links/bulk").json(&both).send().await.status, 200);
    assert_eq!(world.db.number("SELECT CAST(count(*) AS BIGINT) FROM links WHERE alias_of IS NOT NULL").await, 1);
    world.clock.advance(Duration::from_hours(24 * 31));
    world.a.make_of(&link("third", &["promo"])).await;
    assert_eq!(open(&world.nobody, HOST, "/promo").await, "302 https://example.com/third");
}

/// R12: what was taken down stays down under all of its addresses, and none of them is free for another link.
#[tokio::test]
async fn r12_aliases_of_a_link_that_was_taken_down_show_its_notice() {
    let world = spawn_with_domain().await;
    world.a.make_of(&link("bait", &["old", "l/old"])).await;
    world.db.execute("UPDATE links SET status = 'flagged', taken_down = TRUE WHERE link_id = 'bait'").await;
    let notice = async |path: &str| {
        let reply = world.nobody.browse(Method::GET, path).header("host", HOST).send().await;
        reply.status == 200 && reply.text().contains("reported as unsafe")
    };
    assert!(notice("/old").await && notice("/l/old").await);
    assert_eq!(set(&world.a, "bait", &json!([])).await.outcome(), "409 disabled_by_operator aliases");
    let change = json!({"link_ids": ["bait"], "set": {"aliases": null}});
    let refused = world.a.patch("/v1/links/bulk", &change).await.json();
    let error = &refused["errors"][0];
    assert_eq!((&error["code"], &error["field"]), (&json!("disabled_by_operator"), &json!("aliases")), "{refused}");
    assert_eq!(world.a.delete("/v1/links/bait").await.status, 204);
    assert!(notice("/old").await && notice("/l/old").await);
    assert_eq!(world.a.post("/v1/links", &link("new", &["l/old"])).await.outcome(), "409 alias_taken aliases[0]");
    assert_eq!(world.a.post("/v1/links", &link("old", &[])).await.outcome(), "409 link_id_taken custom_id");
}

/// Aliases are not counted for the plan's limit, and each account's are its own after it is gone.
#[tokio::test]
async fn a_link_counts_once_whatever_its_aliases() {
    let world = spawn_with_domain().await;
    world.a.make_of(&link("one", &["a1", "a2", "a3", "a4", "a5"])).await;
    let counted = format!("SELECT link_count FROM tenants WHERE id = '{}'", world.a.tenant);
    assert_eq!(world.db.number(counted.as_str()).await, 1);
    world.a.delete("/v1/links/one").await;
    assert_eq!(world.db.number(counted).await, 0);
}

/// L24: an alias that is given to another link leads there on all nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l24_a_changed_alias_reaches_the_other_node() {
    let world = spawn_nodes(2).await;
    world.own_domain(&world.a, HOST, Role::Primary).await;
    let (here, there) = (world.at(0, &world.a), world.at(1, &world.a));
    here.make_of(&link("one", &["old"])).await;
    here.make("two").await;
    let leads_to =
        async |caller: &Caller, id: &str| open(caller, HOST, "/old").await == format!("302 https://example.com/{id}");
    for node in [&here, &there] {
        eventually("the alias leads to its link", SOON, || leads_to(node, "one")).await;
    }
    assert_eq!(here.put("/v1/links/one", &json!({"web_url": "https://example.com/new"})).await.status, 200);
    assert!(leads_to(&here, "new").await);
    eventually("the other node follows", SOON, || leads_to(&there, "new")).await;
    for (id, aliases) in [("one", json!([])), ("two", json!(["old"]))] {
        assert_eq!(set(&here, id, &aliases).await.status, 200);
    }
    assert!(leads_to(&here, "two").await);
    world.clock.advance(SOON);
    eventually("the other node follows", SOON, || leads_to(&there, "two")).await;
    // And as the ID of a new link, once its link is deleted.
    assert_eq!(there.delete("/v1/links/two").await.status, 204);
    there.make("old").await;
    assert!(leads_to(&there, "old").await);
    world.clock.advance(SOON);
    eventually("the other node follows", SOON, || leads_to(&here, "old")).await;
}

/// A thousand old addresses in the form of each of five services lead to their links.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_addresses_of_other_services_lead_to_their_links() {
    const LINKS: usize = 1_000;
    const ROWS: usize = 100;
    let forms = |number: usize| {
        [
            // Firebase: a path prefix and an unguessable suffix.
            format!("share/{number:05}aZ9qX3bY7cW1"),
            // Branch: ten letters and digits.
            format!("bR{number:05}nCh"),
            // Bitly: a back-half with underscores.
            format!("Spring_Sale_{number}"),
            // Dub: any letters, in segments.
            format!("blog/café/{number}.html"),
            // Shlink: a short code after a date.
            format!("2024/{number:x}"),
        ]
    };
    let world = spawn_with_domain().await;
    for batch in 0..LINKS / ROWS {
        let rows = batch * ROWS..(batch + 1) * ROWS;
        let one =
            |number: usize| json!({"web_url": format!("https://example.com/p/{number}"), "aliases": forms(number)});
        let made = world.a.post("/v1/links/bulk", &json!({"links": rows.map(one).collect::<Vec<_>>()})).await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let walks = (0..LINKS).flat_map(|number| forms(number).map(|path| (number, path)));
    let wrong: Vec<String> = stream::iter(walks)
        .map(|(number, path)| {
            let nobody = &world.nobody;
            async move {
                let path = format!("/{}", path.replace('é', "%C3%A9"));
                let found = open(nobody, HOST, &path).await;
                (found != format!("302 https://example.com/p/{number}")).then(|| format!("{path}: {found}"))
            }
        })
        .buffer_unordered(16)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(wrong.is_empty(), "{} of them: {:?}", wrong.len(), wrong.first());
    // An export has them, page by page, and nothing else.
    let (mut seen, mut cursor) = (0, String::new());
    loop {
        let page = world.a.get(&format!("/v1/links?limit=100{cursor}")).await.json();
        for one in page["links"].as_array().expect("links") {
            let number =
                one["web_url"].as_str().and_then(|url| url.rsplit('/').next()?.parse().ok()).expect("a number");
            let mut expected = forms(number);
            expected.sort();
            assert_eq!(one["aliases"], json!(expected));
            seen += 1;
        }
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, LINKS);
}
