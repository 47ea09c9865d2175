//! Lists without filters: affiliates and their credentials, domains, apps, sources, webhooks, people and keys. They
//! have pages that stay stable while rows are added and deleted, and lists without a smaller limit have one of 1,000.

use std::time::Duration;

use deeplink_client::{Listing, Pages};
use deeplink_core::page::Page;
use futures_util::TryStreamExt;
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, Reply, Role, World, at_once, spawn, spawn_nodes};

/// One list of A's.
struct List {
    noun: &'static str,
    path: String,
    /// The member of the body that has the items; `None` for a bare array.
    items: Option<&'static str>,
    /// The member that names an item.
    id: &'static str,
    /// The rows in the database.
    rows: String,
    /// How many the test makes: the limit, or a few.
    made: usize,
}

fn lists(world: &World) -> [List; 9] {
    let (tenant, affiliate) = (&world.a.tenant, world.a1.affiliate_id());
    let list = |noun, path: &str, items, made| List {
        noun,
        path: path.to_owned(),
        items,
        id: if noun == "domains" { "domain" } else { "id" },
        rows: format!("{noun} WHERE tenant_id = '{tenant}'"),
        made,
    };
    let mut lists = [
        list("credentials", &format!("/v1/affiliates/{affiliate}/credentials"), Some("credentials"), 2),
        list("affiliates", "/v1/affiliates", Some("affiliates"), 3),
        list("domains", "/v1/domains", None, 4),
        list("apps", "/v1/apps", None, 5),
        list("sources", "/v1/sources", Some("sources"), 5),
        list("webhooks", "/v1/webhooks", Some("webhooks"), 2),
        list("users", "/v1/auth/users", Some("users"), 4),
        list("secret_keys", "/v1/auth/secret-keys", Some("keys"), 4),
        list("publishable_keys", "/v1/auth/publishable-keys", Some("keys"), 5),
    ];
    lists[0].rows = format!("secret_keys WHERE affiliate_id = '{affiliate}'");
    lists[7].rows += " AND affiliate_id IS NULL";
    lists
}

impl List {
    /// Makes one more item, later than all others, and returns its id.
    async fn make(&self, world: &World, session: &str, at: usize) -> String {
        world.clock.advance(Duration::from_millis(1));
        let body = match self.noun {
            "affiliates" => json!({"name": "Partner", "partner_key": format!("new-{at}")}),
            "domains" => json!({"domain": format!("new-{at}.example.com")}),
            "apps" if at.is_multiple_of(2) => {
                json!({"platform": "ios", "bundle_id": format!("com.example.new{at}"), "team_id": "ABCDE12345"})
            }
            "apps" => {
                let print = vec!["AB"; 32].join(":");
                let package = format!("com.example.new{at}");
                json!({"platform": "android", "package_name": package, "sha256_fingerprints": [print]})
            }
            "sources" => json!({"name": format!("New {at}"), "source_type": "custom"}),
            "webhooks" => json!({"url": format!("https://hooks.example.com/{at}"), "events": ["conversion"]}),
            "users" => json!({"email": format!("new-{at}@example.com")}),
            "publishable_keys" => json!({"domain": "go.example.com"}),
            _ => json!({}),
        };
        let reply = match self.noun {
            "credentials" => world.a.post_nothing(&self.path).await,
            "secret_keys" => {
                let issue = world.a.ask_without_key(Method::POST, "/v1/auth/secret-keys/issue");
                issue.session(session).json(&body).send().await
            }
            _ => world.a.post(&self.path, &body).await,
        };
        assert_eq!(reply.status, 201, "{} {}", self.noun, reply.text());
        reply.member(self.id)
    }

    async fn delete(&self, world: &World, id: &str) {
        assert_eq!(world.a.delete(&format!("{}/{id}", self.path)).await.status, 204, "{}", self.noun);
    }

    /// The ids of a page.
    fn ids(&self, page: &Reply) -> Vec<String> {
        assert_eq!(page.status, 200, "{} {}", self.noun, page.text());
        let body = page.json();
        let items = self.items.map_or(&body, |items| &body[items]).as_array().expect("items");
        items.iter().map(|item| item[self.id].as_str().expect("an id").to_owned()).collect()
    }

    /// The path and query of the next page.
    fn next(&self, page: &Reply, limit: &str) -> Option<String> {
        if self.items.is_some() {
            assert_eq!(page.header("link"), "", "{}", self.noun);
            let body = page.json();
            assert_eq!(body.as_object().map(serde_json::Map::len), Some(2), "{body}");
            let cursor = body.get("next_cursor").unwrap_or_else(|| panic!("{body}")).as_str()?;
            return Some(format!("{}?limit={limit}&cursor={cursor}", self.path));
        }
        let link = Some(page.header("link")).filter(|link| !link.is_empty())?;
        let url = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\"")).expect("RFC 8288");
        let url = url::Url::parse(url).expect("an absolute URL");
        assert_eq!((url.host_str(), url.path()), (Some("127.0.0.1"), self.path.as_str()));
        assert!(url.query_pairs().any(|(name, value)| name == "limit" && value == limit), "{url}");
        Some(url[url::Position::BeforePath..].to_owned())
    }

    /// A cursor of this list.
    async fn cursor(&self, caller: &Caller) -> String {
        let next = self.next(&caller.get(&format!("{}?limit=1", self.path)).await, "1").expect("a next page");
        next.split_once("cursor=").expect("a cursor").1.to_owned()
    }
}

/// Every list of A's with all its items, newest first.
async fn filled(world: &World, session: &str) -> Vec<(List, Vec<String>)> {
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let mut all = Vec::new();
    for list in lists(world) {
        let mut ids = world.db.texts(format!("SELECT {} FROM {} ORDER BY id", list.id, list.rows)).await;
        for at in 0..list.made {
            ids.push(list.make(world, session, at).await);
        }
        ids.reverse();
        assert!(ids.len() >= 2, "{}", list.noun);
        all.push((list, ids));
    }
    all
}

/// A list has pages of at most 100 items, newest first; each page but the last says where the next begins: an object in
/// `next_cursor`, a bare array in a `Link` header.
#[tokio::test]
async fn r4_every_list_comes_in_pages() {
    let world = spawn().await;
    let session = world.session_of(&world.a).await;
    for (list, ids) in filled(&world, &session).await {
        for limit in [1, 2, ids.len() - 1, ids.len(), ids.len() + 1, 100] {
            let expected: Vec<_> = ids.chunks(limit).map(<[String]>::to_vec).collect();
            let mut next = Some(format!("{}?limit={limit}", list.path));
            let mut pages = Vec::new();
            while let Some(path) = next {
                let page = world.a.get(&path).await;
                pages.push(list.ids(&page));
                next = list.next(&page, &limit.to_string());
                assert!(pages.len() <= expected.len(), "{} goes on: {pages:?}", list.noun);
            }
            assert_eq!(pages, expected, "{} by {limit}", list.noun);
        }
        let whole = world.a.get(&list.path).await;
        assert_eq!((list.ids(&whole), list.next(&whole, "100")), (ids, None), "{}", list.noun);
        assert_eq!(world.a1.get(&list.path).await.outcome(), "403 forbidden_scope", "{}", list.noun);
    }
}

/// The client fetches the next pages itself, page by page or item by item.
#[tokio::test]
async fn r4_the_client_reads_every_page() {
    let world = spawn().await;
    let session = world.session_of(&world.a).await;
    let (client, affiliate) = (&world.a.client, world.a1.affiliate_id());
    for (list, ids) in filled(&world, &session).await {
        match list.noun {
            "affiliates" => by_client(&client.affiliates().list(), |item| item.id.to_string(), &ids).await,
            "credentials" => {
                by_client(&client.affiliates().credentials(affiliate).list(), |item| item.id.to_string(), &ids).await;
            }
            "domains" => by_client(&client.domains().list(), |item| item.domain.clone(), &ids).await,
            "apps" => by_client(&client.apps().list(), |item| item.id.to_string(), &ids).await,
            "sources" => by_client(&client.sources().list(), |item| item.id.to_string(), &ids).await,
            "webhooks" => by_client(&client.webhooks().list(), |item| item.id.to_string(), &ids).await,
            "users" => by_client(&client.team().list(), |item| item.id.to_string(), &ids).await,
            "secret_keys" => by_client(&client.keys().list(), |item| item.id.to_string(), &ids).await,
            "publishable_keys" => by_client(&client.publishable_keys().list(), |item| item.id.to_string(), &ids).await,
            other => panic!("nothing lists {other}"),
        }
    }
}

async fn by_client<P>(list: &Pages<Listing<P>>, id: impl Fn(&P::Item) -> String, ids: &[String])
where
    P: Page<Item: Unpin + Send> + Send + 'static,
{
    let named = |items: Vec<P::Item>| items.iter().map(&id).collect::<Vec<_>>();
    for size in [1, 2, 100] {
        let list = list.clone().page_size(size);
        assert_eq!(named(list.clone().await.expect("all")), ids);
        assert_eq!(named(list.clone().items().try_collect().await.expect("items")), ids);
        let pages: Vec<_> = list.clone().prefetch().pages().try_collect().await.expect("pages");
        let pages: Vec<_> = pages.into_iter().map(|page| named(page.into_items())).collect();
        assert_eq!(pages, ids.chunks(size as usize).map(<[String]>::to_vec).collect::<Vec<_>>());
    }
    let first = list.clone().page_size(1).first_page().await.expect("a page");
    let cursor = first.next_cursor().expect("a next page").to_owned();
    assert_eq!(named(list.clone().cursor(cursor).await.expect("the rest")), ids[1..]);
}

/// Rows that are added or deleted between two pages move no other row to another page.
#[tokio::test]
async fn r4_pages_hold_still_while_rows_come_and_go() {
    let world = spawn().await;
    let session = world.session_of(&world.a).await;
    // The oldest row stays, and with it the test's own key and the domain of the publishable keys.
    for (list, ids) in filled(&world, &session).await {
        let mut next = Some(format!("{}?limit=1", list.path));
        let mut seen = Vec::new();
        while let Some(path) = next {
            let page = world.a.get(&path).await;
            next = list.next(&page, "1");
            seen.extend(list.ids(&page));
            if next.is_some() {
                list.delete(&world, &seen[seen.len() - 1]).await;
                list.make(&world, &session, 100 + seen.len()).await;
            }
        }
        assert_eq!(seen, ids, "{}", list.noun);
    }
}

/// `limit` is 1 to 100, a cursor belongs to this list and this account, and a parameter may not be repeated.
#[tokio::test]
async fn r4_pages_are_asked_for_strictly() {
    let world = spawn().await;
    let session = world.session_of(&world.a).await;
    let all = filled(&world, &session).await;
    let mut cursors = Vec::new();
    for (list, _) in &all {
        cursors.push(list.cursor(&world.a).await);
    }
    let of_links = {
        world.a.make("one").await;
        world.a.make("two").await;
        world.a.get("/v1/links?limit=1").await.member("next_cursor")
    };
    for (at, (list, _)) in all.iter().enumerate() {
        let ask = async |query: &str| world.a.get(&format!("{}?{query}", list.path)).await.outcome();
        for limit in ["0", "101", "-1", "%2B5", "ten", "1.5", "", "99999999999999999999"] {
            assert_eq!(ask(&format!("limit={limit}")).await, "400 bad_request limit", "{}: {limit}", list.noun);
        }
        for name in ["limit", "cursor"] {
            assert_eq!(ask(&format!("{name}=1&{name}=1")).await, format!("400 bad_request {name}"), "{}", list.noun);
        }
        let own = &cursors[at];
        let tampered = format!("{}{}", if own.starts_with('A') { "B" } else { "A" }, &own[1..]);
        let foreign = cursors.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, cursor)| cursor.as_str());
        let wrong = foreign.chain(["", "nonsense", &tampered, &own[..own.len() - 1], &of_links]);
        for cursor in wrong {
            let outcome = ask(&format!("cursor={cursor}")).await;
            assert_eq!(outcome, "400 invalid_cursor cursor", "{}: {cursor}", list.noun);
        }
        let by_b = world.b.get(&format!("{}?cursor={own}", list.path)).await.outcome();
        let expected = if list.noun == "credentials" { "404 not_found" } else { "400 invalid_cursor cursor" };
        assert_eq!(by_b, expected, "{}", list.noun);
        assert_eq!(world.a.get(&format!("{}?cursor={own}&unknown=1", list.path)).await.status, 200, "{}", list.noun);
        let links = world.a.get(&format!("/v1/links?cursor={own}")).await.outcome();
        assert_eq!(links, "400 invalid_cursor cursor", "{}", list.noun);
    }
    // Each affiliate has its own list of credentials.
    let other = format!("/v1/affiliates/{}/credentials?cursor={}", world.a2.affiliate_id(), cursors[0]);
    assert_eq!(world.a.get(&other).await.outcome(), "400 invalid_cursor cursor");
}

/// Something of which an account can have 1,000.
struct Bounded {
    path: &'static str,
    resource: &'static str,
    /// The columns of 999 less `before`, and one row of them.
    columns: &'static str,
    row: fn(usize, &str) -> String,
    /// How many there are before.
    before: usize,
    new: fn(usize) -> Value,
    id: &'static str,
}

const BOUNDED: [Bounded; 3] = [
    Bounded {
        path: "/v1/affiliates",
        resource: "affiliates",
        columns: "affiliates (id, tenant_id, name, partner_key, status, created_at, updated_at)",
        row: |at, tenant| format!("('aff_{at:024x}', '{tenant}', 'Partner {at}', 'partner-{at}-of', 'active', 1, 1)"),
        before: 2,
        new: |at| json!({"name": "New", "partner_key": format!("new-{at}")}),
        id: "id",
    },
    Bounded {
        path: "/v1/domains",
        resource: "domains",
        columns: "domains (id, tenant_id, domain, role, verification_token, claimed_at, created_at)",
        row: |at, tenant| {
            let token = "0".repeat(64);
            format!("('dom_{at:024x}', '{tenant}', 'go-{at}.example.com', 'primary', '{token}', 1, 1)")
        },
        before: 0,
        new: |at| json!({"domain": format!("new-{at}.example.com")}),
        id: "domain",
    },
    Bounded {
        path: "/v1/auth/users",
        resource: "team_members",
        columns: "users (id, tenant_id, email, verified, is_owner, created_at)",
        row: |at, tenant| format!("('usr_{at:024x}', '{tenant}', 'p{at}@example.com', FALSE, FALSE, 1)"),
        before: 1,
        new: |at| json!({"email": format!("new-{at}@example.com")}),
        id: "id",
    },
];

/// Gives A 999 of something.
async fn nearly_fill(world: &World, of: &Bounded) {
    let tenant = &world.a.tenant;
    let rows: Vec<_> = (of.before..999).map(|at| (of.row)(at, tenant.as_str())).collect();
    world.db.execute(format!("INSERT INTO {} VALUES {}", of.columns, rows.join(", "))).await;
    let count =
        format!("UPDATE tenants SET domain_count = (SELECT COUNT(*) FROM domains WHERE tenant_id = '{tenant}')");
    world.db.execute(format!("{count} WHERE id = '{tenant}'")).await;
}

/// An account has at most 1,000 affiliates, domains with claims, and people with invitations, even without plan limits
/// and under concurrent requests. Deleting makes room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r4_an_account_has_at_most_a_thousand() {
    let world = spawn_nodes(2).await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    for of in &BOUNDED {
        nearly_fill(&world, of).await;
        let replies = at_once(8, |number| {
            let caller = callers[number % 2].clone();
            async move { caller.post(of.path, &(of.new)(number)).await }
        })
        .await;
        let (made, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 201);
        assert_eq!((made.len(), refused.len()), (1, 7), "{}", of.path);
        for reply in refused {
            assert_eq!(reply.outcome(), "402 quota_exceeded", "{}", of.path);
            let body = reply.json();
            let told = format!("the limit is 1000 {}, and this account has 1000; delete one first", of.resource);
            assert_eq!(
                (&body["error"], &body["resource"], &body["limit"], &body["current"]),
                (&json!(told), &json!(of.resource), &json!(1_000), &json!(1_000))
            );
        }
        let path = format!("{}/{}", of.path, made[0].member(of.id));
        assert_eq!(world.a.delete(&path).await.status, 204, "{path}");
        assert_eq!(world.a.post(of.path, &(of.new)(8)).await.status, 201, "{}", of.path);
        assert_eq!(world.a.post(of.path, &(of.new)(9)).await.outcome(), "402 quota_exceeded", "{}", of.path);
        assert_eq!(world.b.post(of.path, &(of.new)(20)).await.status, 201, "others have theirs");
    }
}

/// Without `limit` a page has 100 items; a list of 1,000 has ten such pages, and the client returns all of it.
#[tokio::test]
async fn r4_a_thousand_are_ten_pages() {
    let world = spawn().await;
    for of in &BOUNDED {
        nearly_fill(&world, of).await;
        assert_eq!(world.a.post(of.path, &(of.new)(0)).await.status, 201, "{}", of.path);
        let first = world.a.get(of.path).await.json();
        let items = first.as_array().or_else(|| first.as_object()?.values().find_map(Value::as_array));
        assert_eq!(items.map(Vec::len), Some(100), "{}", of.path);
    }
    let client = &world.a.client;
    let rows = async |id: &str, table: &str| {
        world
            .db
            .texts(format!("SELECT {id} FROM {table} WHERE tenant_id = '{}' ORDER BY id DESC", world.a.tenant))
            .await
    };
    let affiliates: Vec<_> = client.affiliates().list().pages().try_collect().await.expect("pages");
    assert_eq!(affiliates.iter().map(|page| page.affiliates.len()).collect::<Vec<_>>(), [100; 10]);
    let affiliates: Vec<_> = affiliates.into_iter().flat_map(Page::into_items).map(|one| one.id.to_string()).collect();
    assert_eq!(affiliates, rows("id", "affiliates").await);
    let domains = client.domains().list().await.expect("domains").into_iter().map(|one| one.domain);
    assert_eq!(domains.collect::<Vec<_>>(), rows("domain", "domains").await);
    let people = client.team().list().await.expect("people").into_iter().map(|one| one.id.to_string());
    assert_eq!(people.collect::<Vec<_>>(), rows("id", "users").await);
}
