//! What one client may take of what all share: connections, time for a head while they are few, and memory for requests.

use tokio::net::TcpSocket;

use super::super::deadline::TICK;
use super::super::state::Command;
use super::super::state::timeouts::{HURRIED_TIMEOUT, PRESSING_WRITE_STALL};
use super::super::{Excess, SHARES};
use super::connections::{Connections, assert_is, until_closed};
use super::*;

const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A connection from another loopback address, which only Linux has by default.
async fn connect_from(last: u8, server: &Server) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    socket.connect(server.address).await.unwrap()
}

/// Beyond its share of the connections, new ones of an address are closed at once and told why, others' are served, and
/// an address gets a place back when one of its connections ends.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn r6_one_address_cannot_take_all_connections() {
    let server = Server::start(Limits { connections: 16, trusted: Vec::new(), keep_alive_idle: MOMENT, ..limits() });
    let mut inside = Vec::new();
    for _ in 0..2 {
        let mut stream = connect_from(7, &server).await;
        stream.write_all(HEAD).await.unwrap();
        assert!(read_answer(&mut stream).await.0.starts_with("http/1.1 302"));
        inside.push(stream);
    }
    let mut third = connect_from(7, &server).await;
    let (head, body) = read_answer(&mut third).await;
    assert!(head.starts_with("http/1.1 503") && head.contains("\r\nretry-after: 1\r\n"), "{head}");
    assert!(body.contains("\"code\":\"overloaded\""), "{body}");
    assert_eq!(read_to_end(third).await.0, "");
    let mut other = connect_from(8, &server).await;
    other.write_all(HEAD).await.unwrap();
    assert!(read_answer(&mut other).await.0.starts_with("http/1.1 302"));
    assert_eq!(server.open(), 3);

    inside.pop();
    server.until_open(2).await;
    let again = async {
        loop {
            let mut stream = connect_from(7, &server).await;
            stream.write_all(HEAD).await.unwrap();
            if read_answer(&mut stream).await.0.starts_with("http/1.1 302") {
                break;
            }
        }
    };
    timeout(MOMENT, again).await.expect("a place is free again");
}

/// Opens `each` connections from each address, with a request in progress on every one.
#[cfg(target_os = "linux")]
async fn hold(server: &Server, addresses: std::ops::RangeInclusive<u8>, each: usize) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for last in addresses.flat_map(|last| std::iter::repeat_n(last, each)) {
        let mut stream = connect_from(last, server).await;
        stream.write_all(b"GET /hang HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        held.push(stream);
    }
    server.until_asked(held.len()).await;
    server.seen.paths.lock().unwrap().clear();
    held
}

/// Eight addresses that take all places with requests that do not end do not keep others out: a new connection takes the
/// place of one of the address that has most. One of an address that has many itself is refused, and does not keep those
/// behind it waiting.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn r6_eight_addresses_leave_places_to_others() {
    let server = Server::start(Limits { connections: 64, trusted: Vec::new(), ..limits() });
    let held = hold(&server, 1..=8, 8).await;
    let mut others = Vec::new();
    for last in 11..=20 {
        let mut stream = connect_from(last, &server).await;
        stream.write_all(HEAD).await.unwrap();
        assert!(read_answer(&mut stream).await.0.starts_with("http/1.1 302"));
        others.push(stream);
    }
    drop((held, others));
    server.until_open(0).await;
    server.seen.paths.lock().unwrap().clear();

    // No address has more than its guaranteed share: unread answers are closed for a newcomer, requests are not.
    let mut held = hold(&server, 41..=56, 2).await;
    let large = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n";
    for last in (61..=76).flat_map(|last| [last, last]) {
        let mut stream = connect_from(last, &server).await;
        stream.write_all(large).await.unwrap();
        held.push(stream);
    }
    server.until_asked(32).await;
    let mut newcomer = connect_from(99, &server).await;
    newcomer.write_all(HEAD).await.unwrap();
    assert!(read_answer(&mut newcomer).await.0.starts_with("http/1.1 302"));
    assert!(held[..32].iter().all(|stream| stream.try_read(&mut [0]).is_err()), "a request was cut");
    drop((held, newcomer));
    server.until_open(0).await;
    server.seen.paths.lock().unwrap().clear();

    let held = hold(&server, 1..=16, 4).await;
    let mut refused = connect_from(1, &server).await;
    assert!(read_answer(&mut refused).await.0.starts_with("http/1.1 503"));
    assert_eq!(server.open(), held.len(), "no request was cut for it");
}

/// What is closed for others has no request in progress, if the address has such connections.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn r6_idle_connections_make_room_first() {
    let server = Server::start(Limits { connections: 64, trusted: Vec::new(), keep_alive_idle: MOMENT, ..limits() });
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut stream = connect_from(1, &server).await;
        stream.write_all(HEAD).await.unwrap();
        read_answer(&mut stream).await;
        idle.push(stream);
    }
    server.seen.paths.lock().unwrap().clear();
    let mut held = hold(&server, 1..=1, 6).await;
    held.extend(hold(&server, 2..=9, 7).await);
    let mut stream = connect_from(21, &server).await;
    stream.write_all(HEAD).await.unwrap();
    assert!(read_answer(&mut stream).await.0.starts_with("http/1.1 302"));
    let ended = |stream: &TcpStream| stream.try_read(&mut [0]).is_ok();
    assert!(ended(&idle[0]), "the connection that was idle longest is closed");
    assert!(!held.iter().any(ended), "a request was cut");
}

/// R5: long heads that do not end have a budget. Beyond it, connections are closed, and others are served; a short head
/// may take its time.
#[tokio::test]
async fn r5_long_unfinished_heads_have_a_budget() {
    let line = [b"GET / HTTP/1.1\r\nHost: a\r\nX: ".as_slice(), &[b'x'; 12_000]].concat();
    // A frame of 16,000 bytes with a head, of which 12,000 arrive.
    let frame = [0, 0x3e, 0x80, 1, 4, 0, 0, 0, 1];
    let frame = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".as_slice(), &frame, &[0; 12_000]].concat();
    // A whole frame, whose 4,000 bytes each name a field of the static table.
    let named = [0, 0x0f, 0xa0, 1, 0, 0, 0, 0, 1];
    let start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".as_slice();
    let named = [start, &named, &[0x90; 4_000]].concat();
    // A frame that is no head.
    let other = [start, &[0, 0x3e, 0x80, 0x2a, 0, 0, 0, 0, 0], &[0; 12_000]].concat();
    for (long, partial) in [(line, 64 << 10), (frame, 64 << 10), (named, 700 << 10), (other, 64 << 10)] {
        let patient = Limits { head: 2 * MOMENT, keep_alive_idle: 2 * MOMENT, ..limits() };
        let server = Server::start(Limits { partial, trusted: Vec::new(), ..patient });
        let short = server.send(&HEAD[..20]).await;
        let mut held = Vec::new();
        for _ in 0..12 {
            held.push(server.send(&long).await);
        }
        // Five times 12,000 bytes fit.
        server.until_open(1 + 5).await;
        let mut other = server.send(HEAD).await;
        assert!(read_answer(&mut other).await.0.starts_with("http/1.1 302"));
        assert!(short.try_read(&mut [0]).is_err(), "the short one waits");
        assert_eq!(server.open(), 1 + 5 + 1);
    }
}

/// The connections of trusted proxies are limited only by the total number.
#[tokio::test]
async fn r6_trusted_proxies_have_no_share() {
    let trusted = vec!["127.0.0.0/8".parse().unwrap()];
    let server = Server::start(Limits { connections: 16, trusted, keep_alive_idle: MOMENT, ..limits() });
    let mut inside = Vec::new();
    for _ in 0..12 {
        let mut stream = server.send(HEAD).await;
        assert!(read_answer(&mut stream).await.0.starts_with("http/1.1 302"));
        inside.push(stream);
    }
}

/// While all or nearly all places are taken, a head has two seconds, counted from when that began; while places are
/// free it has its ten.
#[tokio::test(start_paused = true)]
async fn r6_heads_have_two_seconds_while_places_are_few() {
    let connections = Connections::new(Limits { connections: 32, ..Limits::default() });
    let alone = connections.half_head();
    assert_is(until_closed(&alone).await, Duration::from_secs(10));
    alone.leave();

    let early = connections.half_head();
    let mut silent = vec![connections.add(&Arc::default())];
    sleep(Duration::from_secs(4)).await;
    let busy: Vec<_> = (0..28).map(|_| connections.half_head()).collect();
    for state in &busy {
        state.begin_exchange();
    }
    // 30 of 32, and one in sixteen is two.
    assert_is(until_closed(&early).await, Duration::from_secs(2));
    early.leave();
    silent.pop().unwrap().leave();

    // With more places free it is as before.
    sleep(2 * TICK).await;
    let calm = connections.half_head();
    assert_is(until_closed(&calm).await, Duration::from_secs(10));
    assert!(busy.iter().all(|state| state.command() == Command::Continue), "connections being served are left alone");
}

/// The same while a connection waits for a place, or none can be accepted.
#[tokio::test(start_paused = true)]
async fn r6_heads_have_two_seconds_while_others_wait() {
    let connections = Connections::new(Limits::default());
    let early = connections.half_head();
    sleep(Duration::from_secs(4)).await;
    connections.shared.set_waiting(true);
    assert_is(until_closed(&early).await, Duration::from_secs(2));
    let late = connections.half_head();
    assert_is(until_closed(&late).await, Duration::from_secs(2));
    connections.shared.set_waiting(false);
    early.leave();
    late.leave();
    sleep(2 * TICK).await;
    assert_is(until_closed(&connections.half_head()).await, Duration::from_secs(10));
}

/// R6: requests of eight addresses do not keep those of another from being handled; what is refused says whose
/// share is used up.
#[tokio::test(start_paused = true)]
async fn r6_requests_of_eight_addresses_leave_something_to_others() {
    let connections = Connections::new(Limits::default());
    let (mut held, mut refused) = (0, Vec::new());
    for _ in 0..SHARES {
        let state = connections.add(&Arc::default());
        refused.push(loop {
            match state.take_head(10, true) {
                Ok((_, bytes)) => held += bytes,
                Err(excess) => break excess,
            }
        });
    }
    assert_eq!(refused, [Excess::OfAddress; SHARES]);
    assert!(held > Limits::default().heads / 20 * 19, "{held} bytes are in use");
    let state = connections.add(&Arc::default());
    let taken: Vec<_> = (0..40).map(|_| state.take_head(10, true)).collect();
    let began = taken.iter().filter(|taken| taken.is_ok()).count();
    assert!((12..20).contains(&began), "{began} requests of a ninth address began");
    assert_eq!(taken.last(), Some(&Err(Excess::OfAll)));
}

/// R6: sign-ins and creates are not refused because unknown callers do not read the responses to requests without a
/// body. While little is left for such requests, a connection is closed early if its address has many.
#[tokio::test(start_paused = true)]
async fn r6_unread_visits_leave_requests_with_bodies_alone() {
    let connections = Connections::new(Limits::default());
    let mut held = Vec::new();
    loop {
        let state = connections.add(&Arc::default());
        let taken = std::iter::from_fn(|| state.take_head(10, false).ok()).count();
        if taken == 0 {
            break;
        }
        held.push(state);
    }
    let stranger = connections.add(&Arc::default());
    assert_eq!(stranger.take_head(10, false), Err(Excess::OfAll));
    for _ in 0..40 {
        stranger.take_head(10, true).expect("a sign-in");
    }
    for state in [&held[0], &stranger] {
        state.chunk_queued();
    }
    sleep(PRESSING_WRITE_STALL + 3 * TICK).await;
    assert_eq!([&held[0], &stranger].map(|state| state.command() == Command::Close), [true, false]);
}

/// R6: when strangers have used up the budget of requests in progress, a connection on which a request was authenticated has
/// a quarter more, and the bodies of strangers must hurry.
#[tokio::test(start_paused = true)]
async fn r6_what_strangers_use_up_leaves_something_to_known_callers() {
    let limits = Limits::default();
    let connections = Connections::new(limits.clone());
    let [stranger, known] = [(); 2].map(|()| connections.add(&Arc::default()));
    known.set_known();
    let began = Instant::now();
    assert_eq!(stranger.body_deadline(began, began), began + limits.body_idle);
    let mut held = Vec::new();
    loop {
        let state = connections.add(&Arc::default());
        let taken: Vec<_> = std::iter::from_fn(|| state.take_head(10, true).ok()).collect();
        if taken.is_empty() {
            break;
        }
        held.push((state, taken));
    }
    assert_eq!(stranger.take_head(10, true), Err(Excess::OfAll));
    let (pool, visit) = stranger.take_head(10, false).expect("a request without a body");
    stranger.give_head_back(pool, visit);
    let mut taken = 0;
    let excess = loop {
        match known.take_head(10, true) {
            Ok((_, bytes)) => taken += bytes,
            Err(excess) => break excess,
        }
    };
    assert_eq!(excess, Excess::OfAddress, "known callers have room until their address has its share");
    assert!((limits.heads / SHARES / 20 * 19..=limits.heads / SHARES).contains(&taken), "{taken}");
    sleep(2 * TICK).await;
    let now = Instant::now();
    let deadlines = [&stranger, &known].map(|state| state.body_deadline(began, now));
    assert!(deadlines[0] < now + HURRIED_TIMEOUT, "since it must hurry");
    assert!(deadlines[0] > began + HURRIED_TIMEOUT - TICK, "not for time that it was allowed");
    assert_eq!(deadlines[1], now + HURRIED_TIMEOUT, "between two reads");
    for (state, taken) in held {
        for (pool, bytes) in taken {
            state.give_head_back(pool, bytes);
        }
    }
    sleep(2 * TICK).await;
    assert_eq!(stranger.body_deadline(began, began), began + limits.body_idle);
}
