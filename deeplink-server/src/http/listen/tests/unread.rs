//! What clients may leave unread: memory for answers, by connection, address, site and account.

use axum::body::Body;
use http_body::Body as _;
use tokio::net::TcpSocket;

use super::super::share::{OfSite, Share};
use super::super::state::{Command, PROGRESS_BYTES};
use super::super::unread::{Free, SMALL};
use super::super::{Excess, SHARES};
use super::connections::{Connections, assert_is, until_closed};
use super::*;
use crate::shares::accounts::Holder;

fn answer(size: usize) -> Response<Body> {
    Response::new(Body::from(vec![b'x'; size]))
}

fn budget(unread: usize, unread_per_connection: usize) -> Limits {
    Limits { unread, unread_per_connection, ..Limits::default() }
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
