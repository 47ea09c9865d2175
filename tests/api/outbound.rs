//! Which addresses the service connects to for a caller's URL, seen from outside, tested with a logo's URL. 127.0.0.2,
//! which the operator allows, plays the public internet; 127.0.0.1 must not be reached.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use deeplink_testing::dns::How;
use deeplink_testing::{Caller, Reply, World, log_mark, logged_since, spawn_with};

const OUTSIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const NOT_FETCHED: &str = "logo: could not be fetched";

/// A world whose service may call 127.0.0.2 and no other address of this machine.
pub(crate) async fn spawn() -> World {
    let world = spawn_with(|config| config.outbound_allow = "127.0.0.2/32".parse().expect("a network")).await;
    world.a.make("spring-42").await;
    world
}

/// A QR code with the logo at this URL.
pub(crate) async fn with_logo(caller: &Caller, format: &str, logo: &str) -> Reply {
    let query: String = url::form_urlencoded::byte_serialize(logo.as_bytes()).collect();
    caller.get(&format!("/v1/links/spring-42/qr.{format}?logo={query}")).await
}

/// The same for a logo that exists, and how often it was fetched: a machine that stalls for seconds may be why it is
/// not fetched in time, or not drawn.
pub(crate) async fn with_logo_of(caller: &Caller, format: &str, logo: &str) -> (Reply, usize) {
    let mut asked = 0;
    loop {
        let reply = with_logo(caller, format, logo).await;
        asked += 1;
        let is_late = reply.status == 503 || reply.text().contains(NOT_FETCHED);
        if !is_late || asked == 5 {
            return (reply, asked);
        }
    }
}

/// A server that counts its connections and answers each with these bytes.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    hits: Arc<AtomicUsize>,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Receiver {
    pub(crate) async fn says(answer: impl Into<Vec<u8>>) -> Self {
        Self::on(TcpListener::bind((OUTSIDE, 0)).await.expect("a port"), answer)
    }

    fn on(listener: TcpListener, answer: impl Into<Vec<u8>>) -> Self {
        let address = listener.local_addr().expect("an address");
        let (hits, answer) = (Arc::<AtomicUsize>::default(), Arc::new(Mutex::new(answer.into())));
        tokio::spawn({
            let (hits, answer) = (Arc::clone(&hits), Arc::clone(&answer));
            async move {
                while let Ok((mut socket, _)) = listener.accept().await {
                    hits.fetch_add(1, Ordering::SeqCst);
                    let answer = answer.lock().expect("the answer").clone();
                    tokio::spawn(async move {
                        // A client that has read enough closes the connection.
                        drop(socket.read(&mut [0; 4_096]).await);
                        drop(socket.write_all(&answer).await);
                        drop(socket.shutdown().await);
                    });
                }
            }
        });
        Self { address, hits, answer }
    }

    /// Answers with these bytes from now on.
    pub(crate) fn now_says(&self, answer: Vec<u8>) {
        *self.answer.lock().expect("the answer") = answer;
    }

    pub(crate) fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/logo", self.address)
    }
}

/// Two servers on one port, the first outside, the second inside. Another process may have the port of the second.
async fn both_at_one_port() -> (Receiver, Receiver) {
    loop {
        let outside = TcpListener::bind((OUTSIDE, 0)).await.expect("a port");
        let port = outside.local_addr().expect("an address").port();
        if let Ok(inside) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            return (Receiver::on(outside, ok(&png())), Receiver::on(inside, ok(&png())));
        }
    }
}

/// An answer of 200 with this body.
pub(crate) fn ok(body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

pub(crate) fn png() -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    let picture = image::RgbaImage::from_pixel(60, 40, image::Rgba([255, 0, 0, 255]));
    picture.write_to(&mut file, image::ImageFormat::Png).expect("a file");
    file.into_inner()
}

#[track_caller]
fn assert_not_fetched(reply: &Reply, what: &str) {
    assert_eq!(reply.outcome(), "400 invalid_qr_options logo", "{what}");
    assert_eq!(reply.member("error"), NOT_FETCHED, "{what}");
}

/// URLs that must not be called, and whether DNS or the port, rather than the host, is the reason.
pub(crate) fn inner_addresses(world: &World) -> Vec<(String, bool)> {
    const LITERALS: &str = include_str!("../common/hosts-refused.txt");
    for (name, address) in [
        ("a.local", "10.0.0.1"),
        ("a.internal", "192.168.0.1"),
        ("metadata.google.internal", "169.254.169.254"),
        ("example.net", "8.8.8.8"),
    ] {
        world.dns.addresses(name, &[address]);
    }
    let names = ["a.local", "a.internal", "metadata.google.internal", "example.net:22", "example.net:25"];
    let hosts = LITERALS.split_whitespace().map(|host| (host, false)).chain(names.map(|host| (host, true)));
    hosts
        .flat_map(|(host, by_name)| ["http", "https"].map(|scheme| (format!("{scheme}://{host}/x"), by_name)))
        .collect()
}

/// Q5: every form of an internal address is refused, as a literal, by its port, or by what its name resolves to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q5_inner_addresses_are_no_place_for_a_logo() {
    let world = spawn().await;
    let asked = inner_addresses(&world);
    let replies = join_all(asked.iter().map(|(url, _)| with_logo(&world.a, "svg", url))).await;
    for ((url, is_name), reply) in asked.iter().zip(replies) {
        assert_eq!(reply.outcome(), "400 invalid_qr_options logo", "{url}");
        assert_eq!(reply.header("cache-control"), "no-store");
        assert_eq!(reply.member("error") == NOT_FETCHED, *is_name, "{url}: {}", reply.text());
        assert!(!reply.text().contains("127.") && !reply.text().contains("169.254"), "{}", reply.text());
    }
}

/// Q6: the addresses of a name are checked before each connection, and the checked address is the one connected to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q6_a_name_never_leads_to_what_must_not_be_reached() {
    let world = spawn().await;
    let (outside, inside) = both_at_one_port().await;
    let port = outside.address.port();
    let at = |name: &str| format!("http://{name}:{port}/{name}");
    let dns = &world.dns;
    dns.addresses("localhost", &["127.0.0.1"]);
    dns.addresses("inside.example.com", &["127.0.0.1"]);
    dns.addresses("mixed.example.com", &["127.0.0.2", "127.0.0.1"]);
    dns.addresses("mapped.example.com", &["127.0.0.2", "::ffff:127.0.0.1"]);
    dns.addresses("mapped-outside.example.com", &["::ffff:127.0.0.2"]);
    dns.cname("alias.example.com", "localhost");
    dns.txt("empty.example.com", &["there is no address"]);
    dns.addresses("failing.example.com", &["127.0.0.2"]);
    dns.answer("failing.example.com", How::ServFail);
    dns.addresses("silent.example.com", &["127.0.0.2"]);
    dns.answer("silent.example.com", How::Silently);
    for hop in 0..9 {
        dns.cname(&format!("hop{hop}.example.com"), &format!("hop{}.example.com", hop + 1));
    }
    dns.addresses("hop9.example.com", &["127.0.0.2"]);
    let refused =
        ["inside", "mixed", "mapped", "mapped-outside", "alias", "empty", "failing", "silent", "hop0", "unknown"];
    let urls = refused.map(|name| at(&format!("{name}.example.com")));
    let began = Instant::now();
    let replies = join_all(urls.iter().map(|url| with_logo(&world.a, "svg", url))).await;
    for (url, reply) in urls.iter().zip(replies) {
        assert_not_fetched(&reply, url);
    }
    // They take five seconds; a busy machine may take longer.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!((inside.hits(), outside.hits()), (0, 0));

    // Eight hops are allowed.
    let hop = with_logo_of(&world.a, "svg", &at("hop1.example.com")).await;
    assert_eq!(hop.0.status, 200);
    dns.addresses("rebound.example.com", &["127.0.0.2"]);
    dns.then_addresses("rebound.example.com", &["127.0.0.1"]);
    let rebound = with_logo_of(&world.a, "svg", &at("rebound.example.com")).await;
    assert_eq!(rebound.0.status, 200);
    let hits = outside.hits();
    assert_eq!((inside.hits(), (2..=hop.1 + rebound.1).contains(&hits)), (0, true), "{hits}");
    world.clock.advance(Duration::from_mins(10));
    assert_not_fetched(&with_logo(&world.a, "svg", &at("rebound.example.com")).await, "the second answer");
    assert_eq!((inside.hits(), outside.hits()), (0, hits));
}

/// Q7: a redirect is a failure and is not followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q7_a_redirect_leads_nowhere() {
    let world = spawn().await;
    let second = Receiver::says(ok(&png())).await;
    let mut firsts = Vec::new();
    for status in [301, 302, 303, 307, 308] {
        let answer = format!("HTTP/1.1 {status} Moved\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", second.url());
        firsts.push(Receiver::says(answer).await);
    }
    let replies = join_all(firsts.iter().map(|first| async { with_logo(&world.a, "png", &first.url()).await })).await;
    for (first, reply) in firsts.iter().zip(replies) {
        assert_not_fetched(&reply, "a redirect");
        assert_eq!(first.hits(), 1);
    }
    assert_eq!(second.hits(), 0);
    assert_eq!(with_logo_of(&world.a, "png", &second.url()).await.0.status, 200, "it is there");
}

/// A port where connections are neither accepted nor refused: its queue is full. The result holds the connections that
/// fill it.
async fn filtered() -> (SocketAddr, impl Sized) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((OUTSIDE, 0).into()).expect("a port");
    let listener = socket.listen(1).expect("a queue");
    let address = listener.local_addr().expect("an address");
    let mut queued = Vec::new();
    // A connection that is not made at once is beyond the queue.
    while let Ok(connection) = tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        queued.push(connection.expect("a place in the queue"));
    }
    (address, (listener, queued))
}

/// Q8: refused, closed, filtered, a wrong certificate, an unknown name and an internal one look the same to the caller:
/// the same bytes, after a whole number of tenths of a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q8_what_is_behind_an_address_cannot_be_told() {
    let world = spawn().await;
    world.dns.addresses("inside.example.com", &["127.0.0.1"]);
    let free = Receiver::says("").await;
    let refused = SocketAddr::from((OUTSIDE, {
        let listener = TcpListener::bind((OUTSIDE, 0)).await.expect("a port");
        listener.local_addr().expect("an address").port()
    }));
    let plain = Receiver::says(ok(&png())).await;
    let missing = Receiver::says("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
    let (full, _queue) = filtered().await;
    let cases = [
        ("refused", format!("http://{refused}/x")),
        ("closed", free.url()),
        ("TLS with whom does not speak it", format!("https://{}/x", plain.address)),
        ("not found", missing.url()),
        ("filtered", format!("http://{full}/x")),
        ("unknown", "http://unknown.example.com/x".to_owned()),
        ("inside", "http://inside.example.com/x".to_owned()),
    ];
    let mut bodies = Vec::new();
    for (what, url) in &cases {
        let mut rounds = 0;
        loop {
            let began = Instant::now();
            let reply = with_logo(&world.a, "png", url).await;
            let took = began.elapsed();
            assert_not_fetched(&reply, what);
            bodies.push(reply.without_request_id());
            assert!(took >= Duration::from_millis(100), "{what}: {took:?}");
            if *what == "filtered" {
                assert!(took >= Duration::from_secs(3), "the queue is full: {took:?}");
            }
            // The time of the request itself is added; a busy machine may delay one round, not all.
            if took.as_millis() % 100 < 40 {
                break;
            }
            rounds += 1;
            assert!(rounds < 12, "{what}: {took:?}");
        }
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
}

/// Q9: nothing from the remote server reaches a caller or the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q9_what_the_other_side_says_stays_there() {
    let world = spawn().await;
    let mark = log_mark();
    for answer in [
        "HTTP/1.1 500 marker-of-q9\r\nX-Marker: marker-of-q9\r\n\r\nmarker-of-q9",
        "HTTP/1.1 200 OK\r\nContent-Encoding: marker-of-q9\r\n\r\nmarker-of-q9",
        "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nSet-Cookie: marker-of-q9\r\n\r\nmarker-of-q9",
        "HTTP/1.1 302 Found\r\nLocation: http://marker-of-q9.example.com/\r\n\r\n",
        "marker-of-q9",
    ] {
        let reply = with_logo(&world.a, "svg", &Receiver::says(answer).await.url()).await;
        assert_eq!(reply.outcome(), "400 invalid_qr_options logo");
        assert!(!reply.without_request_id().contains("marker-of-q9"), "{}", reply.text());
    }
    let log = logged_since(&mark);
    assert!(!log.contains("marker-of-q9"));
    assert!(log.contains("the response status is 500"), "the operator is told");
}
