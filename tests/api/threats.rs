//! L19: no link leads to a destination on the operator's threat list, whether it was listed before the link was created
//! or after.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use deeplink_client::CreateLink;
use deeplink_core::error::ErrorCode;
use deeplink_server::threats::ThreatFile;
use serde_json::{Value, json};
use tempfile::TempDir;

use deeplink_doubles::meter::Meter;
use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::{Mark, World, eventually, log_mark, logged_since, spawn_nodes_with};

/// How long a new list may take to apply: the file is checked twice a second, and read once it has not changed in
/// between.
const SOON: Duration = Duration::from_secs(5);
const LISTED: &str = "https://a.bad.example.com/x";

/// A list that can be replaced as an operator would: whole, by a rename.
pub(crate) struct ThreatList {
    folder: TempDir,
    path: PathBuf,
}

impl ThreatList {
    pub(crate) fn of(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let list = Self { path: folder.path().join("threats.txt"), folder };
        list.say(text);
        list
    }

    pub(crate) fn say(&self, text: &str) {
        let beside = self.folder.path().join("new");
        std::fs::write(&beside, text).expect("written");
        std::fs::rename(beside, &self.path).expect("renamed");
    }

    pub(crate) fn file(&self) -> ThreatFile {
        ThreatFile::read(&self.path).expect("a list")
    }
}

async fn spawn_under(list: &ThreatList) -> World {
    spawn_nodes_with(2, |config| config.threat_list = Some(list.file())).await
}

/// The outcomes of creating a link to this URL; refused ones are not stored.
async fn outcome(world: &World, url: &str) -> String {
    world.a.post("/v1/links", &json!({"web_url": url})).await.outcome()
}

async fn status(world: &World, id: &str) -> String {
    world.a.get(&format!("/v1/links/{id}")).await.member("status")
}

/// Waits for a condition while the file is checked, which happens whenever the clock moves.
pub(crate) async fn looked(world: &World, what: &str, is: impl AsyncFn() -> bool) {
    eventually(what, PATIENCE, || async {
        world.clock.advance(Duration::from_millis(1));
        is().await
    })
    .await;
}

/// How often the log has this message about a file.
fn said(what: &str, path: &Path, mark: &Mark) -> usize {
    let path = path.display().to_string();
    logged_since(mark).lines().filter(|line| line.contains(what) && line.contains(&path)).count()
}

/// How often the log says that this file cannot be read.
fn complaints(path: &Path, mark: &Mark) -> usize {
    said("cannot be read", path, mark)
}

/// Waits until two checks have seen the file as it is now. The first to end may have started before.
async fn looked_at_twice(world: &World, path: &Path) {
    let mark = log_mark();
    looked(world, "the file is looked at", async || said("threat list file checked", path, &mark) >= 3).await;
}

/// L19: URLs, hosts and their subdomains, in each field, on create and update, with the code that clients know.
#[tokio::test]
async fn l19_listed_destinations_are_refused_on_create_and_update() {
    let list = ThreatList::of(
        "# known\nbad.example.com\nhttps://example.com/one%20page\nhttps://play.google.com/store/apps/details?id=com.example.bad\n",
    );
    let world = spawn_under(&list).await;
    world.a.make("spring-42").await;
    for (field, url, expected) in [
        ("web_url", LISTED, "400 threat_detected web_url"),
        ("web_url", "HTTP://BAD.example.com.:8080", "400 threat_detected web_url"),
        ("web_url", "https://example.com/one page#top", "400 threat_detected web_url"),
        ("expired_url", LISTED, "400 threat_detected expired_url"),
        ("ios_deep_link", LISTED, "400 threat_detected ios_deep_link"),
        ("android_deep_link", LISTED, "400 threat_detected android_deep_link"),
        (
            "android_store_url",
            "https://play.google.com/store/apps/details?id=com.example.bad",
            "400 threat_detected android_store_url",
        ),
        ("android_store_url", "https://play.google.com/store/apps/details?id=com.example.good", ""),
        ("ios_deep_link", "myapp://bad.example.com/x", ""),
        ("web_url", "https://notbad.example.com/", ""),
        ("web_url", "https://example.com/one", ""),
        // Malformed values are reported first.
        ("web_url", "https://user@bad.example.com/", "400 invalid_url web_url"),
    ] {
        let body = json!({field: url});
        let (created, updated) =
            (world.a.post("/v1/links", &body).await, world.a.put("/v1/links/spring-42", &body).await);
        if expected.is_empty() {
            assert_eq!((created.status, updated.status), (201, 200), "{body}");
        } else {
            assert_eq!(created.outcome(), expected, "{body}");
            assert_eq!(updated.outcome(), expected, "{body}");
        }
    }
    assert_eq!(world.a.get("/v1/links/spring-42").await.member("web_url"), "https://example.com/one");

    let refused = world.a.links().create(&CreateLink::new().web_url(LISTED)).await.expect_err("a listed page");
    assert_eq!((refused.code(), refused.field()), (Some(&ErrorCode::ThreatDetected), Some("web_url")));
    assert!(!refused.is_retryable());
}

/// L19: the three forms of a batch. Nothing of a refused batch is stored; rows are reported separately.
#[tokio::test]
async fn l19_listed_destinations_are_refused_in_bulk() {
    let list = ThreatList::of("bad.example.com\n");
    let world = spawn_under(&list).await;
    for form in [json!({"custom_ids": ["abc", "abd"]}), json!({"count": 2})] {
        let mut body = form;
        body["template"] = json!({"web_url": LISTED});
        assert_eq!(world.a.post("/v1/links/bulk", &body).await.outcome(), "400 threat_detected web_url", "{body}");
    }
    world.a.make("taken").await;
    let links = json!({"links": [
        {"custom_id": "fine", "web_url": "https://example.com/"},
        {"custom_id": "wrong-1", "web_url": LISTED},
        {"custom_id": "wrong-2", "web_url": "no url"},
        {"custom_id": "taken", "ios_deep_link": LISTED, "affiliate_id": world.b1.affiliate_id()},
        {"custom_id": "taken-not", "affiliate_id": world.b1.affiliate_id()},
    ]});
    let refused = world.a.post("/v1/links/bulk", &links).await;
    assert_eq!(refused.outcome(), "400 invalid_batch");
    let rows: Vec<_> = refused.json()["errors"].as_array().expect("rows").iter().map(row).collect();
    assert_eq!(
        rows,
        [
            "1 threat_detected web_url wrong-1",
            "2 invalid_url web_url wrong-2",
            "3 threat_detected ios_deep_link taken",
            "4 affiliate_not_found affiliate_id taken-not",
        ]
    );
    assert_eq!(world.db.number("SELECT CAST(count(*) AS BIGINT) FROM links").await, 1);
}

fn row(row: &Value) -> String {
    let words = ["index", "code", "field", "custom_id"].map(|name| row[name].to_string().replace('"', ""));
    words.join(" ")
}

/// L19: a repeat gets the first reply, whatever was listed since.
#[tokio::test]
async fn l19_a_repeated_create_has_its_first_reply() {
    let list = ThreatList::of("");
    let world = spawn_under(&list).await;
    let create = || async {
        let ask = world.a.ask(http::Method::POST, "/v1/links").header("idempotency-key", "once");
        ask.json(&json!({"web_url": LISTED})).send().await
    };
    let first = create().await;
    assert_eq!(first.status, 201);
    list.say("bad.example.com");
    looked(&world, "the list applies", async || outcome(&world, LISTED).await.contains("threat")).await;
    assert_eq!(create().await.text(), first.text());
}

/// L19: links that are listed later are flagged, on every node, with the reason, until an operator lifts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l19_links_that_are_listed_later_are_flagged() {
    let list = ThreatList::of("# nothing yet\n");
    let world = spawn_under(&list).await;
    let many = json!({"template": {"web_url": LISTED}, "count": 100});
    for _ in 0..3 {
        assert_eq!(world.a.post("/v1/links/bulk", &many).await.status, 201);
    }
    world.b.make_of(&json!({"custom_id": "listed", "web_url": LISTED})).await;
    world
        .b
        .make_of(&json!({"custom_id": "in-the-app", "ios_deep_link": LISTED, "web_url": "https://example.com/"}))
        .await;
    for id in ["fine", "off", "over", "on-expiry"] {
        world.a.make(id).await;
    }
    let end = world.clock.now().plus_millis(1);
    world.a.put("/v1/links/on-expiry", &json!({"expires_at": end, "expired_url": LISTED})).await;
    world.clock.advance(Duration::from_millis(1));
    let to_listed = format!("UPDATE links SET web_url = '{LISTED}'");
    world.db.execute(format!("{to_listed}, status = 'disabled' WHERE link_id = 'off'")).await;
    world.db.execute(format!("{to_listed}, expires_at = 1 WHERE link_id = 'over'")).await;
    for node in 0..2 {
        let nobody = world.at(node, &world.nobody);
        assert_eq!((nobody.tap("listed").await.status, nobody.tap("fine").await.status), (302, 302));
        assert_eq!(nobody.tap("on-expiry").await.status, 302);
    }

    list.say("bad.example.com\n");
    for node in 0..2 {
        let nobody = world.at(node, &world.nobody);
        let warned = async || {
            let page = nobody.tap("listed").await;
            page.status == 200 && page.text().contains("This link has been reported as unsafe")
        };
        looked(&world, "the warning shows", warned).await;
        assert_eq!(nobody.resolve("listed").await.json()["_service_meta"]["status"], "flagged");
        assert_eq!(nobody.tap("on-expiry").await.status, 410, "it sends nobody there");
    }
    let flagged = "SELECT CAST(count(*) AS BIGINT) FROM links WHERE status = 'flagged'";
    looked(&world, "all are flagged", async || world.db.number(flagged).await == 302).await;
    assert_eq!(world.b.get("/v1/links/in-the-app").await.member("status"), "flagged");
    assert_eq!(world.nobody.tap("fine").await.status, 302);
    for (id, expected) in [("fine", "active"), ("off", "disabled"), ("over", "expired")] {
        assert_eq!(status(&world, id).await, expected, "{id}");
    }
    // What does not work is not looked at, so it is judged when it is to work again.
    for (id, change) in [("off", json!({"enabled": true})), ("over", json!({"expires_at": null}))] {
        let opened = world.a.put(&format!("/v1/links/{id}"), &change).await;
        assert_eq!(opened.outcome(), "400 threat_detected web_url", "{id}");
    }
    // However many nodes find it, a change is recorded once.
    let reasons = world.db.texts("SELECT reason FROM link_status_changes WHERE status = 'flagged'").await;
    assert_eq!(reasons.len(), 302);
    assert!(reasons.iter().all(|reason| reason == "on the threat list: bad.example.com"), "{reasons:?}");

    list.say("other.example.com\n");
    let another = "https://a.bad.example.com/y";
    looked(&world, "the line is gone", async || outcome(&world, another).await.starts_with("201")).await;
    assert_eq!(world.b.get("/v1/links/listed").await.member("status"), "flagged");
}

/// R12: what the list took down stays down when it is removed from the list: the account that deletes the link can
/// create neither the id nor a link to that destination again, alone, in a batch or by a change. Other accounts may.
#[tokio::test]
async fn r12_what_the_list_took_down_stays_when_the_list_forgets_it() {
    let list = ThreatList::of("# nothing yet\n");
    let world = spawn_under(&list).await;
    world.a.make_of(&json!({"custom_id": "listed", "web_url": LISTED, "ios_deep_link": "myapp://home"})).await;
    world.a.make("fine").await;
    let to_x = |field: &str| json!({field: LISTED});
    list.say("bad.example.com\n");
    looked(&world, "it is flagged", async || status(&world, "listed").await == "flagged").await;
    assert_eq!(world.a.delete("/v1/links/listed").await.status, 204);
    list.say("other.example.com\n");
    looked(&world, "the line is gone", async || world.b.post("/v1/links", &to_x("web_url")).await.status == 201).await;

    // To its account it is deleted.
    assert_eq!(world.a.delete("/v1/links/listed").await.outcome(), "404 not_found");
    for path in ["", "/stats", "/timeseries", "/qr.svg"] {
        assert_eq!(world.a.get(&format!("/v1/links/listed{path}")).await.outcome(), "404 not_found", "{path}");
    }
    assert_eq!(world.a.put("/v1/links/listed", &json!({"metadata": {}})).await.outcome(), "404 not_found");
    for query in ["", "?status=flagged", "?q=listed"] {
        let shown = world.a.get(&format!("/v1/links{query}")).await.text();
        assert!(!shown.contains("\"listed\""), "{query}: {shown}");
    }
    let click = world.a.post("/v1/lifecycle/click", &json!({"link_id": "listed"})).await;
    assert_eq!(click.outcome(), "404 not_found");
    // To visitors it is unchanged, and its id cannot be taken.
    let page = world.nobody.tap("listed").await;
    assert!(page.status == 200 && page.text().contains("reported as unsafe"), "{} {}", page.status, page.text());
    for caller in [&world.a, &world.b] {
        let again = caller.post("/v1/links", &json!({"custom_id": "listed"})).await;
        assert_eq!(again.outcome(), "409 link_id_taken custom_id");
        for batch in [json!({"template": {}, "custom_ids": ["listed"]}), json!({"links": [{"custom_id": "listed"}]})] {
            let refused = caller.post("/v1/links/bulk", &batch).await;
            assert_eq!(row(&refused.json()["errors"][0]), "0 link_id_taken custom_id listed", "{}", refused.text());
        }
    }

    let refused = "400 threat_detected web_url";
    for (url, expected) in [
        (LISTED, refused),
        ("HTTPS://A.BAD.example.com:443/x#another", refused),
        ("https://www.a.bad.example.com:8443//X/", refused),
        ("https://a.bad.example.com/x?y=1", refused),
        ("https://a.bad.example.com/y", "201"),
        ("https://a.bad.example.com/x/y", "201"),
    ] {
        assert_eq!(outcome(&world, url).await, expected, "{url}");
    }
    let by_affiliate = world.a1.post("/v1/links", &to_x("android_deep_link")).await;
    assert_eq!(by_affiliate.outcome(), "400 threat_detected android_deep_link");
    for field in ["web_url", "ios_deep_link"] {
        let expected = format!("400 threat_detected {field}");
        assert_eq!(world.a.put("/v1/links/fine", &to_x(field)).await.outcome(), expected);
        for form in [json!({"count": 2}), json!({"custom_ids": ["abc", "abd"]})] {
            let mut body = form;
            body["template"] = to_x(field);
            assert_eq!(world.a.post("/v1/links/bulk", &body).await.outcome(), expected, "{body}");
        }
    }
    let rows = json!({"links": [{"web_url": "https://example.com/"}, {"custom_id": "abc", "web_url": LISTED}]});
    let rows = world.a.post("/v1/links/bulk", &rows).await;
    assert_eq!(row(&rows.json()["errors"][0]), "1 threat_detected web_url abc", "{}", rows.text());
    // The link's other destinations were not listed.
    assert_eq!(world.a.post("/v1/links", &json!({"ios_deep_link": "myapp://home"})).await.status, 201);
    assert_eq!(world.a.put("/v1/links/fine", &json!({"web_url": "https://example.com/2"})).await.status, 200);
    assert_eq!(world.b.post("/v1/links", &to_x("ios_deep_link")).await.status, 201, "another account");
}

/// L19: a list that changed while the service was down applies from its start, to existing links too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l19_the_list_holds_from_the_start() {
    let list = ThreatList::of("bad.example.com\n");
    let mut world = deeplink_testing::spawn().await;
    world.a.make_of(&json!({"custom_id": "listed", "web_url": LISTED})).await;
    world.restart(|config| config.threat_list = Some(list.file())).await;
    assert_eq!(outcome(&world, LISTED).await, "400 threat_detected web_url");
    looked(&world, "the link is flagged", async || status(&world, "listed").await == "flagged").await;

    // A link that was being stored when the list came, as by a waiting write, is found by the second scan.
    world.a.make("late").await;
    world.db.execute(format!("UPDATE links SET web_url = '{LISTED}' WHERE link_id = 'late'")).await;
    looked(&world, "the late link is flagged", async || status(&world, "late").await == "flagged").await;
}

/// L19: while links are made, the file is swapped, broken, removed and brought back. The last good list applies all the
/// time, nothing fails, and the log says once what is wrong, and again when that is something else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l19_the_last_good_list_holds_whatever_becomes_of_the_file() {
    let list = ThreatList::of("bad.example.com\n");
    let world = Arc::new(spawn_nodes_with(1, |config| config.threat_list = Some(list.file())).await);
    let over = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (world, over) = (Arc::clone(&world), Arc::clone(&over));
            tokio::spawn(async move {
                let mut rounds = 0;
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(outcome(&world, LISTED).await, "400 threat_detected web_url");
                    assert_eq!(outcome(&world, "https://fine.example.com/").await, "201");
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    let refused = async |url: &str| outcome(&world, url).await == "400 threat_detected web_url";
    let second = "https://second.example.com/";
    assert_eq!(outcome(&world, second).await, "201");
    // The clock stands still, so the file is checked by its own timer.
    let (meter, began) = (Meter::start(world.home().join("page")), Instant::now());
    list.say("bad.example.com\nsecond.example.com\n");
    let took = eventually("the second host is refused", PATIENCE, || refused(second)).await;
    let lost = meter.lost(began, Instant::now());
    assert!(took <= SOON + lost, "{took:?}, of which {lost:?} were lost");
    drop(meter);

    // If no link was taken down, only the list refuses.
    let another = "https://second.example.com/another";
    let mark = log_mark();
    let broken: [(&str, &dyn Fn(), usize); 4] = [
        ("another kind of file", &|| list.say("<html>\n<body>\n</html>\n"), 1),
        (
            "bytes",
            &|| {
                let noise: Vec<u8> = (0..10_000_u32).map(|n| (n % 31) as u8 | 0x80).collect();
                std::fs::write(&list.path, noise).expect("written");
            },
            1,
        ),
        ("nothing", &|| std::fs::remove_file(&list.path).expect("removed"), 2),
        ("a directory", &|| std::fs::create_dir(&list.path).expect("made"), 3),
    ];
    for (what, break_it, told) in broken {
        break_it();
        looked(&world, "the log tells", async || complaints(&list.path, &mark) >= told).await;
        looked_at_twice(&world, &list.path).await;
        assert!(refused(another).await, "with {what}");
        assert_eq!(complaints(&list.path, &mark), told, "with {what}");
    }

    std::fs::remove_dir(&list.path).expect("removed");
    list.say("bad.example.com\nthird.example.com\n?\n");
    looked(&world, "the third host is refused", async || refused("https://third.example.com/").await).await;
    assert_eq!(outcome(&world, another).await, "201");
    assert!(logged_since(&mark).lines().any(|line| line.contains("were ignored") && line.contains("lines=3")));
    over.store(true, Ordering::Relaxed);
    for load in load {
        assert!(load.await.expect("the load finishes") > 0);
    }
}
