//! Which hosts the client calls.

use super::*;
use crate::outbound::dial::CONNECT;

/// Hosts that may not be called, as URLs write them.
const LITERALS: &str = include_str!("../../../../../tests/common/hosts-refused.txt");
/// And those whose names or ports are checked when connecting.
const NAMES: [&str; 5] = ["a.local", "a.internal", "metadata.google.internal", "example.net:22", "example.net:25"];

/// Q5: literals are checked after the URL is parsed, names after they are resolved, ports always; a dialler that
/// records its targets sees public addresses only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q5_only_public_addresses_are_dialled() {
    let bench = Bench::new(says(FINE).await.0).await;
    for (name, addresses) in [
        ("example.net", [PUBLIC, PUBLIC_V6]),
        ("a.local", ["10.0.0.1", "10.0.0.2"]),
        ("a.internal", ["192.168.1.1", "fd00::1"]),
        ("metadata.google.internal", ["169.254.169.254", "fd00:ec2::254"]),
    ] {
        bench.names.addresses(name, &addresses);
    }
    let urls: Vec<_> = LITERALS
        .split_whitespace()
        .chain(NAMES)
        .flat_map(|host| ["http", "https"].map(|scheme| format!("{scheme}://{host}/x")))
        .chain(["ftp://example.net/x", "file:///etc/passwd", "example.net", ""].map(str::to_owned))
        .collect();
    // Concurrently, because each failure takes its tenth of a second.
    let outcomes = futures_util::future::join_all(urls.iter().map(|url| bench.get(url))).await;
    for (url, outcome) in urls.iter().zip(outcomes) {
        assert!(
            matches!(
                outcome,
                Err(CallError::Url(_) | CallError::NotPublic(_) | CallError::Port(_) | CallError::NoAddress)
            ),
            "{url}: {outcome:?}"
        );
    }
    assert_eq!(bench.dialled(), Vec::<String>::new());
    for (url, dialled) in [
        ("http://8.8.8.8/x", "8.8.8.8:80"),
        ("http://[2606:4700:4700::1111]/x", "[2606:4700:4700::1111]:80"),
        ("http://8.8.8.8:443/", "8.8.8.8:443"),
        ("http://8.8.8.8:1024/", "8.8.8.8:1024"),
        ("http://8.8.8.8:65535/", "8.8.8.8:65535"),
    ] {
        assert_eq!(bench.get(url).await.expect(url), "fine");
        assert_eq!(bench.dialled().pop().as_deref(), Some(dialled));
    }
    let dialled = bench.dialled().len();
    for port in [0, 1, 21, 22, 25, 79, 81, 442, 444, 1_023] {
        assert!(bench.get(&format!("http://8.8.8.8:{port}/")).await.is_err(), "{port}");
    }
    assert_eq!(bench.dialled().len(), dialled);
}

/// Q6: every address that a name has is checked, wherever it comes from, and a checked address is what is dialled: the
/// name is not resolved again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q6_names_do_not_lead_inside() {
    let bench = Bench::new(says(FINE).await.0).await;
    let names = &bench.names;
    names.addresses("fine.example.com", &[PUBLIC]);
    names.addresses("localhost", &["127.0.0.1"]);
    names.addresses("loopback.example.com", &["127.0.0.1"]);
    names.addresses("mixed.example.com", &[PUBLIC, "127.0.0.1"]);
    names.addresses("mixed-kinds.example.com", &[PUBLIC, "::1"]);
    names.addresses("mapped.example.com", &[PUBLIC, "::ffff:127.0.0.1"]);
    names.addresses("mapped-public.example.com", &["::ffff:8.8.8.8"]);
    names.addresses("nat64.example.com", &["64:ff9b::7f00:1"]);
    names.cname("alias.example.com", "localhost");
    names.cname("loop.example.com", "loop.example.com");
    names.txt("empty.example.com", &["no address"]);
    for (name, how) in
        [("failing", names::How::ServFail), ("refusing", names::How::Refused), ("garbled", names::How::Garbage)]
    {
        let name = format!("{name}.example.com");
        names.addresses(&name, &[PUBLIC]);
        names.answer(&name, how);
    }
    let chain = |hops: usize| {
        for hop in 0..hops {
            names.cname(&format!("hop{hop}-of-{hops}.example.com"), &format!("hop{}-of-{hops}.example.com", hop + 1));
        }
        names.addresses(&format!("hop{hops}-of-{hops}.example.com"), &[PUBLIC]);
        format!("hop0-of-{hops}.example.com")
    };
    let (short, long) = (chain(8), chain(9));
    for one_by_one in [false, true] {
        if one_by_one {
            names.one_by_one();
        }
        let refused = [
            "loopback",
            "mixed",
            "mixed-kinds",
            "mapped",
            "mapped-public",
            "nat64",
            "alias",
            "loop",
            "empty",
            "failing",
            "refusing",
            "garbled",
            "unknown",
        ];
        let urls = refused.map(|name| format!("http://{name}.example.com/"));
        let urls: Vec<_> = urls.into_iter().chain([format!("http://{long}/")]).collect();
        let outcomes = futures_util::future::join_all(urls.iter().map(|url| bench.get(url))).await;
        for (url, outcome) in urls.iter().zip(outcomes) {
            assert!(
                matches!(
                    outcome,
                    Err(CallError::NotPublic(_) | CallError::NoAddress | CallError::Dns(_) | CallError::Late(_))
                ),
                "{url}: {outcome:?}"
            );
        }
        assert_eq!(bench.dialled(), Vec::<String>::new(), "one by one: {one_by_one}");
    }
    for name in ["fine.example.com", &short] {
        assert_eq!(bench.get(&format!("http://{name}:8080/")).await.expect(name), "fine");
    }
    assert_eq!(bench.dialled(), [format!("{PUBLIC}:8080"), format!("{PUBLIC}:8080")]);

    names.addresses("rebound.example.com", &[PUBLIC]);
    names.then_addresses("rebound.example.com", &["127.0.0.1"]);
    assert!(bench.get("http://rebound.example.com/").await.is_ok());
    assert_eq!(names.asked("rebound.example.com"), 2, "once for each kind of address");
    let again = bench.get("http://rebound.example.com/").await;
    assert!(matches!(again, Err(CallError::NotPublic(_))), "nothing is remembered: {again:?}");
    assert_eq!(bench.dialled().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_operator_allows_is_called_at_any_port() {
    let (address, hits) = says(FINE).await;
    let mut bench = Bench::new(address).await;
    bench.names.addresses("inner.example.com", &["127.0.0.1"]);
    bench.names.addresses("mixed.example.com", &["127.0.0.1", "10.0.0.1"]);
    bench.http.allow = "127.0.0.0/8".parse().expect("a network");
    for url in
        ["http://127.0.0.1:22/", "http://localhost:81/", "http://foo.localhost./", "http://inner.example.com:25/"]
    {
        assert_eq!(bench.get(url).await.expect(url), "fine");
    }
    assert_eq!(bench.dialled(), ["127.0.0.1:22", "127.0.0.1:81", "127.0.0.1:80", "127.0.0.1:25"]);
    for url in ["http://10.0.0.1/", "http://[::1]/", "http://mixed.example.com/", "http://8.8.8.8:22/"] {
        assert!(bench.get(url).await.is_err(), "{url}");
    }
    assert_eq!(hits.load(Ordering::SeqCst), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_address_holds_the_others_up_for_a_moment_only() {
    let (address, _) = says(FINE).await;
    let bench = Bench::with(move |to| {
        Box::pin(async move {
            match to.ip().to_string().as_str() {
                PUBLIC => TcpStream::connect(address).await,
                PUBLIC_V6 => std::future::pending().await,
                _ => Err(std::io::ErrorKind::ConnectionRefused.into()),
            }
        })
    })
    .await;
    bench.names.addresses("two.example.com", &[PUBLIC, PUBLIC_V6]);
    let began = Instant::now();
    assert!(bench.get("http://two.example.com/").await.is_ok());
    assert!(began.elapsed() < CONNECT, "{:?}", began.elapsed());
    assert_eq!(bench.dialled(), [format!("[{PUBLIC_V6}]:80"), format!("{PUBLIC}:80")]);
    // Of many addresses, only some are tried.
    let crowd: Vec<_> = (1..=40).map(|last| format!("8.8.8.{last}")).collect();
    bench.names.addresses("crowd.example.com", &crowd.iter().map(String::as_str).collect::<Vec<_>>());
    let outcome = bench.get("http://crowd.example.com/").await;
    assert!(matches!(outcome, Err(CallError::Connect(_))), "{outcome:?}");
    assert_eq!(bench.dialled().len(), 2 + 4);
}

/// RFC 8305, section 4: a machine with one address family tries an address of it among the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_addresses_of_one_family_do_not_hide_the_other() {
    let (address, _) = says(FINE).await;
    let bench = Bench::with(move |to| {
        Box::pin(async move {
            if to.is_ipv4() {
                return TcpStream::connect(address).await;
            }
            Err(std::io::ErrorKind::NetworkUnreachable.into())
        })
    })
    .await;
    let sixes = [1, 2, 3, 4].map(|last| format!("2606:2800:220:1::{last}"));
    let all: Vec<_> = sixes.iter().map(String::as_str).chain([PUBLIC]).collect();
    bench.names.addresses("six.example.com", &all);
    assert_eq!(bench.get("http://six.example.com/").await.expect("an answer"), "fine");
    // On a slow machine others are dialled beside them.
    assert_eq!(bench.dialled()[..2], ["[2606:2800:220:1::1]:80".to_owned(), format!("{PUBLIC}:80")]);
}
