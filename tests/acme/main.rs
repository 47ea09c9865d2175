//! TLS for custom domains against a real ACME server: pebble, with its own certificate authority and its name server,
//! all on this machine.
//!
//! `tests/run` installs what this needs; by hand, where `pebble` and `pebble-challtestsrv` are on the PATH:
//!
//! ```sh
//! cargo test --test acme
//! tests/with-postgres cargo test --test acme
//! ```

mod limit;
mod pebble;

use std::time::Duration;

use deeplink_server::clock::Clock;
use deeplink_server::config::{Tls, TrustedRoots};
use deeplink_server::http::listen::Stop;
use reqwest::tls::TlsInfo;
use reqwest::{Certificate, Client, Version, redirect};

use self::pebble::Pebble;
use deeplink_testing::{Caller, Role, World, eventually, log_everything, logged_since, spawn_nodes_with};

const NAME: &str = "go.example.com";
/// An order takes a second or two.
const PATIENCE: Duration = Duration::from_mins(2);
/// For one request.
const ANSWER: Duration = Duration::from_secs(30);
const FIVE_SECONDS: Duration = Duration::from_secs(5);
const LEASED_UNTIL: &str = "SELECT expires_at FROM leases WHERE name = 'certificates'";
/// Longer than the lease.
const LEASE: Duration = Duration::from_mins(3);
const DAY: Duration = Duration::from_hours(24);

/// A world whose nodes order certificates from its own ACME server.
async fn spawn(nodes: usize) -> (World, Pebble) {
    spawn_with(nodes, pebble::Plan::new(None)).await
}

async fn spawn_with(nodes: usize, plan: pebble::Plan) -> (World, Pebble) {
    let world = spawn_nodes_with(nodes, |config| {
        let directory = plan.directory().parse().expect("a URL");
        config.tls = Some(Tls::new(([127, 0, 0, 1], 0).into(), directory));
        config.outbound_ca = Some(TrustedRoots::read(&plan.authority()).expect("the authority of its https"));
    })
    .await;
    // Certificates become valid by the ACME server's clock.
    world.clock.set(Clock::system().now());
    // Challenges are validated at the first node only, whichever node orders.
    let pebble = plan.start(world.node(0).address.port()).await;
    (world, pebble)
}

/// The answer at the https address of a node.
#[derive(Debug)]
struct Seen {
    status: u16,
    location: Option<String>,
    version: Version,
    certificate: Vec<u8>,
}

/// Opens a page of a name at a node, as a browser that trusts the ACME server's root. `None`: TLS was not agreed on.
async fn open(world: &World, root: &Certificate, node: usize, name: &str, path: &str) -> Option<Seen> {
    let address = world.node(node).tls_address.expect("listening for https");
    let client = Client::builder()
        .tls_certs_only([root.clone()])
        .https_only(true)
        .tls_info(true)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .timeout(ANSWER)
        .resolve(name, address)
        .build()
        .expect("a client");
    let answer = client
        .get(format!("https://{name}:{}{path}", address.port()))
        .header("accept", "text/html")
        .header("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0")
        .send()
        .await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) if error.is_connect() => return None,
        Err(error) => panic!("{name}: {error:?}"),
    };
    let info = answer.extensions().get::<TlsInfo>().expect("what TLS was agreed on");
    Some(Seen {
        certificate: info.peer_certificate().expect("a certificate").to_owned(),
        status: answer.status().as_u16(),
        location: answer.headers().get("location").map(|value| value.to_str().expect("text").to_owned()),
        version: answer.version(),
    })
}

/// The answer of a name once it has a certificate other than the known one. The clock advances meanwhile: a node caches
/// for five seconds.
async fn certified(world: &World, root: &Certificate, known: Option<&[u8]>) -> Seen {
    let seen = std::sync::Mutex::new(None);
    eventually("there is a certificate", PATIENCE, || async {
        world.clock.advance(Duration::from_secs(1));
        let found = open(world, root, 0, NAME, "/summer").await;
        let is_new = found.as_ref().is_some_and(|found| Some(&found.certificate[..]) != known);
        *seen.lock().expect("not poisoned") = found;
        is_new
    })
    .await;
    seen.into_inner().expect("not poisoned").expect("it was seen")
}

/// Gives a tenant a verified domain. The ordering task scans whenever the clock is set, even to the same time.
async fn own(world: &World, of: &Caller, name: &str) {
    world.own_domain(of, name, Role::Primary).await;
    world.clock.set(world.clock.now());
}

/// The node that orders certificates now.
async fn holder(world: &World) -> String {
    world.db.texts("SELECT holder FROM leases WHERE name = 'certificates'").await.concat()
}

/// Waits until every node has scanned for due certificates, and found none or ordered them: each hour each node takes
/// the lease, even if nothing is due. The second time shows that the first scan has ended.
async fn looked(world: &World, nodes: usize) {
    for _ in 0..2 {
        let before = world.db.number(LEASED_UNTIL).await;
        world.clock.advance(Duration::from_hours(1));
        eventually("the lease is taken again", PATIENCE, || async { world.db.number(LEASED_UNTIL).await > before })
            .await;
        // A SQLite file has one server.
        if nodes == 2 && world.db.is_postgres() {
            let first = holder(world).await;
            eventually("the other node takes it once it is over", PATIENCE, || async {
                world.clock.advance(LEASE);
                holder(world).await != first
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verified_domain_is_served_over_https_until_it_is_lost() {
    let mark = log_everything();
    let (mut world, pebble) = spawn(1).await;
    let root = pebble.root().await;
    assert!(open(&world, &root, 0, NAME, "/summer").await.is_none(), "no tenant has that name");

    own(&world, &world.a, NAME).await;
    world.a.make("summer").await;
    let first = certified(&world, &root, None).await;
    assert_eq!((first.status, first.location.as_deref()), (302, Some("https://example.com/summer")));
    assert_eq!(first.version, Version::HTTP_2);
    assert_eq!(pebble.issued(), 1);
    assert_eq!(world.db.number("SELECT CAST(count(*) AS BIGINT) FROM acme_challenges").await, 0);
    assert!(open(&world, &root, 0, "other.example.com", "/summer").await.is_none());

    // A restart keeps it, and the lease is released: the clock stands still, so no other node could take it.
    let before = holder(&world).await;
    world.restart(|_| {}).await;
    eventually("the next run takes the lease", PATIENCE, || async {
        let now = holder(&world).await;
        !now.is_empty() && now != before
    })
    .await;
    let again = open(&world, &root, 0, NAME, "/summer").await.expect("TLS");
    assert_eq!((again.status, &again.certificate), (302, &first.certificate));
    world.clock.advance(59 * DAY);
    looked(&world, 1).await;
    assert_eq!(pebble.issued(), 1, "a third of its life is left");

    // It is renewed when a third of its life is left, and served without another restart.
    let until = world.db.number(LEASED_UNTIL).await;
    world.clock.advance(2 * DAY);
    eventually("there is something to order", PATIENCE, || async { world.db.number(LEASED_UNTIL).await > until }).await;
    // The new one is valid from the ACME server's time on. By a later clock it would be due at the next scan as well.
    world.clock.set(Clock::system().now());
    eventually("it is ordered again", PATIENCE, || async { pebble.issued() == 2 }).await;
    let second = certified(&world, &root, Some(&first.certificate)).await;
    assert_eq!((second.status, pebble.issued()), (302, 2));
    assert_eq!(world.db.number("SELECT CAST(count(*) AS BIGINT) FROM acme_accounts").await, 1);

    // A tenant that loses the domain loses the certificate within five seconds.
    let deleted = world.a.delete(&format!("/v1/domains/{NAME}")).await;
    assert!(deleted.status < 300, "{}", deleted.text());
    world.clock.advance(FIVE_SECONDS);
    assert!(open(&world, &root, 0, NAME, "/summer").await.is_none(), "the domain is lost");

    // X17, X18: private keys are neither in the database nor in a log.
    let stored = format!("{:?}", world.db.dump().await);
    assert!(stored.contains("BEGIN CERTIFICATE") && !stored.contains("PRIVATE KEY"));
    assert!(!logged_since(&mark).contains("PRIVATE KEY"));
    world.node(0).ask_to_stop(Stop::Gracefully);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_serves_what_one_has_ordered() {
    let (world, pebble) = spawn(2).await;
    let root = pebble.root().await;
    own(&world, &world.a, NAME).await;
    world.a.make("summer").await;
    let first = certified(&world, &root, None).await;
    world.clock.advance(FIVE_SECONDS);
    let second = open(&world, &root, 1, NAME, "/summer").await.expect("TLS at the second node");
    assert_eq!((second.status, second.certificate), (302, first.certificate));
    // Both scan again, and neither orders.
    looked(&world, 2).await;
    assert_eq!(pebble.issued(), 1);
    assert_eq!(world.db.number("SELECT CAST(count(*) AS BIGINT) FROM acme_accounts").await, 1);
}

/// A name that does not resolve to the service fails alone, is retried after a minute, and is served once it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_leads_elsewhere_is_tried_again_later() {
    let (world, pebble) = spawn(1).await;
    let root = pebble.root().await;
    let failures = async || {
        let sql = "SELECT CAST(COALESCE(max(failures), 0) AS BIGINT) FROM certificate_failures";
        world.db.number(sql).await
    };
    // Nothing listens there.
    pebble.leads_to(NAME, "127.0.0.77").await;
    own(&world, &world.a, NAME).await;
    own(&world, &world.b, "well.example.com").await;
    world.a.make("summer").await;
    eventually("the one name has failed", PATIENCE, || async { failures().await == 1 }).await;
    let problem = world.db.texts("SELECT problem FROM certificate_failures").await.concat();
    assert!(problem.contains("the ACME server could not verify the name"), "{problem}");
    // In small steps, and smaller ones until it is ordered, since the first is retried after a minute.
    eventually("the other is ordered", PATIENCE, || async {
        world.clock.advance(Duration::from_millis(20));
        pebble.issued() == 1
    })
    .await;
    eventually("the other has its certificate", PATIENCE, || async {
        world.clock.advance(Duration::from_millis(200));
        open(&world, &root, 0, "well.example.com", "/").await.is_some()
    })
    .await;
    assert_eq!((failures().await, pebble.issued()), (1, 1));

    pebble.leads_to(NAME, "127.0.0.1").await;
    world.clock.advance(Duration::from_mins(1));
    assert_eq!(certified(&world, &root, None).await.status, 302);
    assert_eq!((failures().await, pebble.issued()), (0, 2));
}

/// Orders are limited by registered domain: one tenant's used-up limit does not affect another. The name itself is not
/// retried until the `Retry-After` has passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_of_one_name_stops_no_other() {
    const LIMITED: &str = "a.example.com";
    let (world, pebble) = spawn_with(1, pebble::Plan::new(Some(LIMITED))).await;
    let root = pebble.root().await;
    own(&world, &world.b, LIMITED).await;
    let failed_at = world.clock.now().as_millis();
    eventually("the limited name has failed", PATIENCE, || async {
        world.db.number("SELECT CAST(count(*) AS BIGINT) FROM certificate_failures").await == 1
    })
    .await;
    let problem = world.db.texts("SELECT problem FROM certificate_failures").await.concat();
    assert!(problem.contains("too many of them"), "{problem}");
    let again_at = world.db.number("SELECT again_at FROM certificate_failures").await;
    assert_eq!(again_at - failed_at, limit::SECONDS * 1_000);

    // The clock stands still until it is ordered: no pause has to pass.
    own(&world, &world.a, NAME).await;
    world.a.make("summer").await;
    eventually("the other is ordered", PATIENCE, || async { pebble.issued() == 1 }).await;
    assert_eq!(certified(&world, &root, None).await.status, 302);
    let failures = world.db.number("SELECT failures FROM certificate_failures").await;
    assert_eq!((failures, pebble.issued()), (1, 1));
}

/// If an ACME server has lost its accounts (test authorities do so at any time), a new one is created, a minute later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_is_not_known_any_more_is_opened_again() {
    let (world, mut pebble) = spawn(1).await;
    let root = pebble.root().await;
    let accounts = async || world.db.number("SELECT CAST(count(*) AS BIGINT) FROM acme_accounts").await;
    own(&world, &world.b, "well.example.com").await;
    eventually("there is an account", PATIENCE, || async { accounts().await == 1 }).await;
    eventually("the first has its certificate", PATIENCE, || async {
        world.clock.advance(Duration::from_secs(1));
        open(&world, &root, 0, "well.example.com", "/").await.is_some()
    })
    .await;
    pebble.begin_anew().await;
    own(&world, &world.a, NAME).await;
    world.a.make("summer").await;
    eventually("the account is lost", PATIENCE, || async { accounts().await == 0 }).await;
    world.clock.advance(Duration::from_mins(1));
    let root = pebble.root().await;
    assert_eq!(certified(&world, &root, None).await.status, 302);
    let failures = world.db.number("SELECT CAST(count(*) AS BIGINT) FROM certificate_failures").await;
    assert_eq!((accounts().await, failures), (1, 0), "the name has no failure");
}
