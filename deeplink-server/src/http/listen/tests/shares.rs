//! What one client may take of what all share: connections, time for a head while they are few, and memory for answers.

use axum::body::Body;
use http_body::Body as _;
use tokio::net::TcpSocket;

use super::super::deadline::{Shared, TICK};
use super::super::share::{OfSite, Share};
use super::super::state::timeouts::{HURRIED_TIMEOUT, PRESSING_WRITE_STALL};
use super::super::state::{Command, ConnectionState, PROGRESS_BYTES};
use super::super::unread::{Free, SMALL};
use super::super::{Excess, SHARES};
use super::*;
use crate::shares::accounts::Holder;

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

/// The kernel holds a bounded part of an answer that is not read.
#[tokio::test]
async fn r4_the_kernel_holds_little_for_a_client_that_reads_nothing() {
    let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let client = TcpSocket::new_v4().unwrap();
    client.set_recv_buffer_size(16 << 10).unwrap();
    let connecting = client.connect(listener.local_addr().unwrap());
    let (_client, accepted) = tokio::join!(connecting, listener.accept());
    let (stream, _) = accepted.unwrap();
    let mut held = 0;
    while let Ok(Ok(())) = timeout(Duration::from_millis(500), stream.writable()).await {
        held += stream.try_write(&[0; 8 << 10]).unwrap_or(0);
        assert!(held < 256 << 10, "the kernel holds more than a quarter of a megabyte");
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

/// Connections without sockets, and their sweep.
struct Connections {
    shared: Arc<Shared>,
    _sweep: tokio_util::task::AbortOnDropHandle<()>,
}

impl Connections {
    fn new(limits: Limits) -> Self {
        let shared = Shared::new(limits);
        let sweep = tokio::spawn(Arc::clone(&shared).sweep());
        Self { shared, _sweep: tokio_util::task::AbortOnDropHandle::new(sweep) }
    }

    fn add(&self, share: &Arc<Share>) -> Arc<ConnectionState> {
        self.shared.add(Arc::clone(share))
    }

    /// With a part of a head.
    fn half_head(&self) -> Arc<ConnectionState> {
        let state = self.add(&Arc::default());
        state.half_head(true);
        state
    }
}

/// How long until a connection is closed.
async fn until_closed(state: &ConnectionState) -> Duration {
    let began = Instant::now();
    let closed = async {
        while state.command() != Command::Close {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(4 * MOMENT, closed).await.expect("a close");
    began.elapsed()
}

/// Not before its limit, and at most a few sweeps later.
#[track_caller]
fn assert_is(time: Duration, limit: Duration) {
    assert!((limit..=limit + 4 * TICK).contains(&time), "after {time:?}, not {limit:?}");
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

fn answer(size: usize) -> Response<Body> {
    Response::new(Body::from(vec![b'x'; size]))
}

fn budget(unread: usize, unread_per_connection: usize) -> Limits {
    Limits { unread, unread_per_connection, ..Limits::default() }
}

/// The bytes of an answer count until they are dropped, wherever they are by then.
#[tokio::test(start_paused = true)]
async fn r4_unread_bytes_are_counted_until_they_are_dropped() {
    let connections = Connections::new(budget(8 * SHARES * SMALL, SMALL));
    let state = connections.add(&Arc::default());
    let unread = Unread::new(Arc::clone(&state));
    let held = || state.unread.get();
    let mut answered = unread.admit(answer(3 * SMALL), true).unwrap();
    assert_eq!((held(), answered.body().size_hint().exact()), (3 * SMALL, Some(3 * SMALL as u64)));
    let chunk = answered.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!((chunk.len(), chunk[0]), (3 * SMALL, b'x'));
    drop(answered);
    assert_eq!(held(), 3 * SMALL, "a part of a connection has the bytes");
    drop(chunk);
    let counted = [state.all_unread().0.load(Ordering::SeqCst), state.share.unread.get(), state.unread.get()];
    assert_eq!(counted, [0; 3], "of all, of the address, of the connection");

    // A document that all answers share for as long as the process runs does not count; one that is shared with a cache does,
    // because the cache may forget it. Of a stream, what was made counts.
    let document = Bytes::from(vec![b'x'; SMALL]);
    let mut free = Response::new(Body::from(document.clone()));
    free.extensions_mut().insert(Free);
    let free = unread.admit(free, true).unwrap();
    let stream = futures_util::stream::iter([Ok::<_, Infallible>(document.clone()), Ok(document.clone())]);
    let mut stream = unread.admit(Response::new(Body::from_stream(stream)), true).unwrap();
    assert_eq!(held(), 0);
    let cached = unread.admit(Response::new(Body::from(document)), true).unwrap();
    assert_eq!(held(), SMALL);
    let part = stream.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!((part.len(), held()), (SMALL, 2 * SMALL));
    drop(part);
    for response in [free, cached, stream] {
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), SMALL);
    }
    assert_eq!(held(), 0);
}

/// A connection that has its budget of unread answers gets no further request handled until it reads.
#[tokio::test(start_paused = true)]
async fn r4_a_connection_that_does_not_read_waits() {
    let connections = Connections::new(budget(usize::MAX, 2 * SMALL));
    let unread = Unread::new(connections.add(&Arc::default()));
    let mut held = vec![unread.admit(answer(SMALL), true).unwrap()];
    unread.turn().await.unwrap();
    held.push(unread.admit(answer(SMALL), true).unwrap());
    let waiting = tokio::spawn({
        let unread = unread.clone();
        async move { unread.turn().await }
    });
    sleep(MOMENT).await;
    assert!(!waiting.is_finished(), "nothing was read");
    Unread::new(connections.add(&Arc::default())).turn().await.unwrap();
    held.pop();
    timeout(MOMENT, waiting).await.expect("the client has read").unwrap().unwrap();

    // Behind a trusted proxy, other clients would wait for the one that does not read.
    let unread = Unread::new(connections.add(&Arc::new(Share::of_proxies())));
    held.push(unread.admit(answer(9 * SMALL), true).unwrap());
    unread.turn().await.unwrap();
}

/// An address that has used up its share of unread bytes, in small answers on many connections, gets no further request
/// handled until one of its connections reads; after a while its requests are refused. Others do not wait.
#[tokio::test(start_paused = true)]
async fn r4_an_address_that_does_not_read_waits() {
    const MOST: usize = 100;
    let connections = Connections::new(budget(SHARES * MOST * SMALL, usize::MAX));
    let fill = |share: &Arc<Share>| {
        let full: Vec<_> = (0..MOST).map(|_| Unread::new(connections.add(share))).collect();
        full.iter().map(|unread| unread.admit(answer(SMALL), true).unwrap()).collect::<Vec<_>>()
    };
    let share = Arc::<Share>::default();
    let mut held = fill(&share);
    let waiting: Vec<_> = (0..MOST)
        .map(|_| {
            let unread = Unread::new(connections.add(&share));
            tokio::spawn(async move { unread.turn().await })
        })
        .collect();
    let last = Unread::new(connections.add(&share));
    sleep(Duration::from_secs(1)).await;
    assert!(waiting.iter().all(|turn| !turn.is_finished()), "nothing was read");
    Unread::new(connections.add(&Arc::default())).turn().await.expect("others do not wait");
    let proxy = Arc::new(Share::of_proxies());
    held.extend(fill(&proxy));
    Unread::new(connections.add(&proxy)).turn().await.expect("nor do those behind a proxy");
    held.remove(0);
    for turn in waiting {
        turn.await.unwrap().expect("one of them has read");
    }
    last.turn().await.expect("there is room");

    held.push(last.admit(answer(SMALL), true).unwrap());
    let began = Instant::now();
    assert_eq!(last.turn().await, Err(Excess::OfAddress));
    assert_is(began.elapsed(), Limits::default().stream_wait);
    // Answers that were under way by then are dropped at twice the share, unless they cannot be asked for again.
    held.extend((0..MOST).map(|_| last.admit(answer(SMALL), true).unwrap()));
    assert_eq!(last.admit(answer(SMALL), true).unwrap_err(), Excess::OfAddress);
    held.push(last.admit(answer(SMALL), false).unwrap());
    held.clear();
    assert_eq!(share.unread.get(), 0);
}

/// A large answer that exceeds what its address, or all, may have unread is dropped, unless its request cannot be repeated or
/// it is alone; small ones are sent.
#[tokio::test(start_paused = true)]
async fn r4_answers_beyond_the_budget_are_refused() {
    const LARGE: usize = 4 * SMALL;
    let connections = Connections::new(budget(SHARES * 2 * LARGE, usize::MAX));
    let share = Arc::<Share>::default();
    let [first, second] = [0, 1].map(|_| Unread::new(connections.add(&share)));
    let mut held = vec![first.admit(answer(LARGE), true).unwrap(), second.admit(answer(LARGE), true).unwrap()];
    assert_eq!(second.admit(answer(LARGE), true).unwrap_err(), Excess::OfAddress);
    held.push(second.admit(answer(SMALL), true).expect("a small one"));
    held.push(second.admit(answer(LARGE), false).expect("one that cannot be asked for again"));
    held.clear();
    held.push(first.admit(answer(LARGE), true).expect("the address has read"));

    let others: Vec<_> = (0..SHARES).map(|_| Unread::new(connections.add(&Arc::default()))).collect();
    for other in &others {
        held.push(other.admit(answer(2 * LARGE), true).unwrap_or_else(|_| answer(0)));
    }
    assert_eq!(others[0].admit(answer(LARGE), true).unwrap_err(), Excess::OfAddress);
    let newcomer = Unread::new(connections.add(&Arc::default()));
    held.push(newcomer.admit(answer(LARGE), true).expect("its address has no other"));
    assert_eq!(newcomer.admit(answer(LARGE), true).unwrap_err(), Excess::OfAll);
    held.push(newcomer.admit(answer(SMALL), true).expect("a small one"));
    held.clear();
    held.push(newcomer.admit(answer(999 * LARGE), true).expect("one that is alone"));
}

/// T1: a client that now and then accepts a few bytes over HTTP/2, or all of a small answer, does not keep the server
/// from cutting it for the large ones that it does not accept.
#[tokio::test(start_paused = true)]
async fn t1_a_byte_now_and_then_is_no_progress() {
    let connections = Connections::new(Limits::default());
    for (bytes, is_cut) in [(1, true), (PROGRESS_BYTES / 40, true), (PROGRESS_BYTES / 5, false)] {
        let state = connections.add(&Arc::default());
        state.set_http2();
        state.begin_exchange();
        state.chunk_queued();
        for _ in 0..60 {
            sleep(Duration::from_secs(1)).await;
            state.chunk_queued();
            state.chunk_progress(bytes / 2);
            state.chunk_sent();
            state.chunk_progress(bytes.div_ceil(2));
        }
        assert_eq!(state.command() == Command::Close, is_cut, "{bytes} bytes a second");
    }
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

/// R4: the addresses of one site may have a quarter of the unread bytes together; large answers beyond that are refused.
#[tokio::test(start_paused = true)]
async fn r4_a_site_has_a_quarter_of_the_unread_bytes() {
    const LARGE: usize = 4 * SMALL;
    for address in ["203.0.113.1", "2001:db8:1:2::"] {
        let connections = Connections::new(budget(SHARES * 2 * LARGE, usize::MAX));
        let site = OfSite::default();
        let of_site = || Arc::new(Share::of(&site, address.parse().unwrap()));
        let unread: Vec<_> = (0..6).map(|_| Unread::new(connections.add(&of_site()))).collect();
        let mut held: Vec<_> = unread[..4].iter().map(|unread| unread.admit(answer(LARGE), true).unwrap()).collect();
        assert_eq!(unread[4].admit(answer(LARGE), true).unwrap_err(), Excess::OfAddress, "{address}");
        held.push(unread[4].admit(answer(SMALL), true).expect("a small one"));
        let other = Unread::new(connections.add(&Arc::default()));
        held.push(other.admit(answer(LARGE), true).expect("one of another site"));
        held.clear();
        assert_eq!(site.unread.get(), 0);
        unread[5].admit(answer(LARGE), true).expect("the site has read");
    }
}

/// R4: an account may have an eighth of the unread bytes, on however many addresses; large answers beyond that are refused.
#[tokio::test(start_paused = true)]
async fn r4_an_account_has_an_eighth_of_the_unread_bytes() {
    const LARGE: usize = 4 * SMALL;
    let connections = Connections::new(budget(SHARES * 2 * LARGE, usize::MAX));
    let of = |account| Unread::new(connections.add(&Arc::default())).of(account);
    let account = Holder::from(&tenant());
    let mut held: Vec<_> = (0..2).map(|_| of(Some(&account)).admit(answer(LARGE), true).unwrap()).collect();
    assert_eq!(of(Some(&account)).admit(answer(LARGE), true).unwrap_err(), Excess::OfAccount);
    held.push(of(Some(&account)).admit(answer(SMALL), true).expect("a small one"));
    held.push(of(None).admit(answer(LARGE), true).expect("somebody else's"));
    let affiliates = Holder::of_affiliates(&tenant());
    held.push(of(Some(&affiliates)).admit(answer(LARGE), true).expect("that of its affiliates"));
    held.clear();
    of(Some(&account)).admit(answer(LARGE), true).expect("the account has read");
    assert_eq!(connections.add(&Arc::default()).unread_of_holders().of(&account), 0);
}

/// R4: clients of an account that has more than half of its part and accept nothing are disconnected after two seconds
/// instead of thirty, so that a few of them do not keep its large answers from the others.
#[tokio::test(start_paused = true)]
async fn r4_stalled_clients_of_an_account_with_much_are_cut_sooner() {
    let connections = Connections::new(budget(SHARES * 4 * SMALL, usize::MAX));
    let account = Holder::from(&tenant());
    let stalled = |size, share: Share| {
        let state = connections.add(&Arc::new(share));
        let answer = Unread::new(Arc::clone(&state)).of(Some(&account)).admit(answer(size), true).unwrap();
        state.begin_exchange();
        state.blocked(true);
        (state, answer)
    };
    let (few, few_bytes) = stalled(SMALL + 1, Share::default());
    assert_is(until_closed(&few).await, Duration::from_secs(30));
    few.leave();
    let (many, _bytes) = stalled(SMALL + 1, Share::default());
    let (proxys, _more) = stalled(SMALL + 1, Share::of_proxies());
    assert_is(until_closed(&many).await, Duration::from_secs(2));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(proxys.command(), Command::Continue, "a proxy's connection carries answers of many");
    drop(few_bytes);
}

/// While the budget for unread answers is nearly used up, clients that accept nothing are disconnected after two
/// seconds instead of thirty.
#[tokio::test(start_paused = true)]
async fn r4_stalled_clients_are_cut_sooner_while_much_is_unread() {
    let connections = Connections::new(budget(SHARES * SMALL, usize::MAX));
    let stalled = |size| {
        let state = connections.add(&Arc::default());
        let answer = Unread::new(Arc::clone(&state)).admit(answer(size), true).unwrap();
        state.begin_exchange();
        state.blocked(true);
        (state, answer)
    };
    let (calm, answer) = stalled(6 * SMALL);
    assert_is(until_closed(&calm).await, Duration::from_secs(30));
    calm.leave();
    let (has_little, _little) = stalled(SMALL / 8);
    let (pressed, _answer) = stalled(SMALL);
    assert_is(until_closed(&pressed).await, Duration::from_secs(2));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(has_little.command(), Command::Continue, "a client whose address has little is not hurried");
    drop(answer);
}
