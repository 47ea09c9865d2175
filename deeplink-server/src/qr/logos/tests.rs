use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use super::decoder::tests::{run, turn};
use super::*;
use crate::clock::Clock;
use crate::config::Config;
use crate::outbound::http::tests::{says, server};
use crate::start::{Running, start};

/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_mins(1);

/// A service that may fetch logos from this machine.
struct Bench {
    running: Running,
    clock: Clock,
    _home: TempDir,
}

impl Bench {
    async fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let mut config = Config::for_tests(home.path());
        config.outbound_allow = "127.0.0.0/8".parse().expect("a network");
        let clock = Clock::fixed(deeplink_core::time::Timestamp::from_millis(1_795_167_000_000));
        let running = start(config, clock.clone()).await.expect("the server starts");
        Self { running, clock, _home: home }
    }

    async fn get(&self, tenant: u32, url: &str) -> Result<Arc<Logo>, String> {
        self.get_in(turn(tenant), tenant, url).await
    }

    async fn get_in(&self, turn: Turn, tenant: u32, url: &str) -> Result<Arc<Logo>, String> {
        self.running.app().logos.get(&id(tenant), turn, url).await.map_err(|error| match error {
            ApiError::Invalid(invalid) => {
                assert_eq!((&invalid.code, invalid.field.as_deref()), (&ErrorCode::InvalidQrOptions, Some("logo")));
                invalid.message
            }
            ApiError::Plain(ErrorCode::Overloaded, message) => message.to_owned(),
            error => panic!("{error}"),
        })
    }
}

impl State {
    /// Number of fetches in flight.
    fn fetches(&self) -> usize {
        self.in_flight.iter().map(HashMap::len).sum()
    }
}

fn id(tenant: u32) -> TenantId {
    format!("tnt_{tenant:024x}").parse().expect("an id")
}

fn png() -> Vec<u8> {
    png_of(6, 4)
}

fn png_of(width: u32, height: u32) -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    let picture = image::RgbaImage::from_pixel(width, height, image::Rgba([255, 0, 0, 255]));
    picture.write_to(&mut file, image::ImageFormat::Png).expect("a file");
    file.into_inner()
}

fn reply(status: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

fn url(address: SocketAddr, path: &str) -> String {
    format!("http://{address}/{path}")
}

/// A server of logos that holds its answers until it is released, with its number of requests and of concurrent ones.
struct HeldServer {
    address: SocketAddr,
    hits: Arc<AtomicUsize>,
    max_concurrent: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl HeldServer {
    async fn start() -> Self {
        let (now, max_concurrent) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let gate = Arc::new(Semaphore::new(0));
        let (seen, closed) = (Arc::clone(&max_concurrent), Arc::clone(&gate));
        let (address, hits) = server(move |mut socket, _| {
            let (now, max_concurrent, gate) = (Arc::clone(&now), Arc::clone(&seen), Arc::clone(&closed));
            async move {
                max_concurrent.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                drop(gate.acquire().await);
                now.fetch_sub(1, Ordering::SeqCst);
                drop(socket.write_all(&reply("200 OK", &png())).await);
            }
        })
        .await;
        Self { address, hits, max_concurrent, gate }
    }

    /// From now on every request is answered.
    fn release(&self) {
        self.gate.add_permits(1);
    }

    fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }
}

/// Polls until the condition holds.
async fn until(so: impl Fn() -> bool) {
    while !so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_logo_is_cached_for_ten_minutes_for_its_tenant() {
    let bench = Bench::new().await;
    let (address, hits) = says(reply("200 OK", &png())).await;
    let at = url(address, "a.png");
    let hits = || hits.load(Ordering::SeqCst);
    assert_eq!(bench.get(1, &at).await.map(|logo| (logo.width(), logo.height())), Ok((6, 4)));
    for (tenant, later, expected) in [(1, 599_999, 1), (2, 0, 2), (1, 0, 2), (1, 1, 3), (2, 0, 3)] {
        bench.clock.advance(Duration::from_millis(later));
        assert!(bench.get(tenant, &at).await.is_ok());
        assert_eq!(hits(), expected, "tenant {tenant} after {later} ms");
    }
    assert!(bench.get(1, &url(address, "b.png")).await.is_ok());
    assert_eq!(hits(), 4);
    assert!(bench.get(1, &url(address, "b.png#part")).await.is_ok());
    assert_eq!(hits(), 4, "a fragment is not part of the key");
}

/// F6, Q8: a refusal says what is wrong with a file, but not why fetching it failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_five_messages_and_are_not_cached() {
    const NOT_FETCHED: &str = "logo: could not be fetched";
    const LOSSLESS: &[u8] = include_bytes!("../picture/samples/lossless-alpha.webp");
    let bench = Bench::new().await;
    let mut large = png();
    large[18..20].copy_from_slice(&[0xff, 0xff]);
    let largest = [&png()[..], &vec![0; MAX_BYTES - png().len()]].concat();
    for (answer, message) in [
        (reply("404 Not Found", &png()), NOT_FETCHED),
        (reply("206 Partial Content", &png()), NOT_FETCHED),
        (reply("302 Found", b""), NOT_FETCHED),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nx".to_vec(), NOT_FETCHED),
        (Vec::new(), NOT_FETCHED),
        (reply("200 OK", &[&largest[..], &[0]].concat()), "logo: larger than 512 KiB"),
        (reply("200 OK", b"<svg/>"), "logo: not a PNG, JPEG or WebP image"),
        (reply("200 OK", b""), "logo: not a PNG, JPEG or WebP image"),
        (reply("200 OK", &large), "logo: image too large"),
        (
            reply("200 OK", LOSSLESS),
            "logo: lossless WebP and WebP with compressed transparency are not supported; use PNG",
        ),
    ] {
        let (address, hits) = says(answer).await;
        for round in 1..=2 {
            assert_eq!(bench.get(1, &url(address, "x")).await.err().as_deref(), Some(message));
            assert_eq!(hits.load(Ordering::SeqCst), round, "a failure is not cached");
        }
    }
    let (address, _) = says(reply("200 OK", &largest)).await;
    assert!(bench.get(1, &url(address, "x")).await.is_ok(), "512 KiB at most");
    for elsewhere in ["http://10.0.0.1/x", "http://127.0.0.1:1/x", "http://unknown.invalid/x", "nonsense"] {
        let began = Instant::now();
        assert_eq!(bench.get(1, elsewhere).await.err().as_deref(), Some(NOT_FETCHED), "{elsewhere}");
        assert!(began.elapsed() >= Duration::from_millis(100), "{elsewhere}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_share_one_fetch_that_no_caller_can_cancel() {
    let bench = Bench::new().await;
    let logos = HeldServer::start().await;
    let at = url(logos.address, "a.png");
    // The first caller leaves before there is a response.
    let first = tokio::time::timeout(Duration::from_millis(100), bench.get(1, &at)).await;
    assert!(first.is_err(), "it had to wait");
    let (all, ()) = tokio::join!(join_all((0..50).map(|_| bench.get(1, &at))), async { logos.release() });
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(logos.hits(), 1);
    assert!(bench.running.app().logos.state().fetches() == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_are_fetched_concurrent_and_four_for_one_tenant() {
    let bench = Bench::new().await;
    // Each tenant has a permit, so no fetch is given up for another.
    for (tenants, of_each, concurrent) in [(1, 10, 4), (6, 3, 16)] {
        let logos = HeldServer::start().await;
        let wanted = (0..tenants).flat_map(|tenant| (0..of_each).map(move |number| (tenant, number)));
        let wanted: Vec<_> = wanted.map(|(tenant, number)| (tenant, url(logos.address, &number.to_string()))).collect();
        let answered = async {
            until(|| logos.hits() >= concurrent).await;
            // Further fetches would arrive now.
            tokio::time::sleep(Duration::from_millis(300)).await;
            logos.release();
        };
        let (all, ()) = tokio::join!(join_all(wanted.iter().map(|(tenant, at)| bench.get(*tenant, at))), answered);
        assert!(all.iter().all(Result::is_ok), "every caller that waits is served");
        assert_eq!(logos.hits(), wanted.len());
        assert_eq!(logos.max_concurrent.load(Ordering::SeqCst), concurrent);
    }
}

/// Q4: a small file with a large size in its header evicts nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q4_a_header_without_an_image_evicts_no_logo() {
    let bench = Bench::new().await;
    let state = || bench.running.app().logos.state();
    let logo = Logo::new(1_024, 1_024, vec![7; 4 << 20], [0; 32]).expect("a logo");
    state().cache.insert((id(2), "https://example.com/a.png".to_owned()), &logo, 0);
    // 4,000 × 4,000: a frame of three components, the head of a scan, and the end.
    let (frame, scan) = (
        b"\xff\xc0\0\x11\x08\x0f\xa0\x0f\xa0\x03\x01\x11\0\x02\x11\0\x03\x11\0",
        b"\xff\xda\0\x0c\x03\x01\0\x02\0\x03\0\0\x3f\0",
    );
    let jpeg = [&b"\xff\xd8"[..], frame, scan, b"\xff\xd9"].concat();
    // 3,400 × 3,400, interlaced.
    let mut interlaced = png();
    interlaced[16..24].copy_from_slice(&[0, 0, 0x0d, 0x48, 0, 0, 0x0d, 0x48]);
    interlaced[28] = 1;
    for file in [jpeg, interlaced] {
        let (address, _) = says(reply("200 OK", &file)).await;
        let message = bench.get(1, &url(address, "x")).await.err();
        assert_eq!(message.as_deref(), Some("logo: not a PNG, JPEG or WebP image"), "{} bytes", file.len());
        assert_eq!(state().cache.count(), 1);
    }
}

/// The wait for a permit counts towards the five seconds, and another tenant is served in the meantime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_without_a_permit_in_time_is_told_whose_are_used_up() {
    let bench = Bench::new().await;
    let (fine, hits) = says(reply("200 OK", &png())).await;
    let logos = &bench.running.app().logos;
    let held: Vec<_> = std::iter::from_fn(|| logos.fetches.try_acquire((&id(1)).into())).collect();
    assert_eq!(held.len(), MAX_FETCHES_PER_TENANT);
    let began = Instant::now();
    let others = async {
        assert!(bench.get(2, &url(fine, "a.png")).await.is_ok());
        assert!(began.elapsed() < Duration::from_secs(4));
    };
    let at = url(fine, "b.png");
    let (late, ()) = tokio::join!(bench.get(1, &at), others);
    assert_eq!(late.err().as_deref(), Some("this account is processing too many logos; try again in a second"));
    assert!(began.elapsed() >= FETCH_TIMEOUT && hits.load(Ordering::SeqCst) == 1);
    drop(held);
    assert!(bench.get(1, &at).await.is_ok(), "nothing is left of it");
}

/// Hosts that never answer take all permits: after a second, one is given to an account that has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f7_hosts_that_do_not_answer_keep_no_account_from_its_logos() {
    let bench = Bench::new().await;
    let (hanging, (fine, _)) = (HeldServer::start().await, says(reply("200 OK", &png())).await);
    let urls: Vec<_> = (0..20).map(|number| url(hanging.address, &number.to_string())).collect();
    let began = Instant::now();
    let other = async {
        until(|| hanging.hits() >= MAX_FETCHES).await;
        let logo = bench.get(100, &url(fine, "a.png")).await;
        assert!(began.elapsed() < FETCH_TIMEOUT, "they have not timed out");
        hanging.release();
        logo
    };
    let all = join_all((0..).zip(&urls).map(|(number, at)| bench.get(number / 4, at)));
    let (all, other) = tokio::join!(all, other);
    assert!(other.is_ok(), "{:?}", other.err());
    let given_up = all.iter().filter(|got| got.as_ref().is_err_and(|why| why.contains("across all accounts"))).count();
    assert_ne!(given_up, 0);
}

/// F7: fetches of an account's affiliates leave it half of its own, also for a logo that they are waiting for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f7_affiliates_leave_fetches_to_their_account() {
    let bench = Bench::new().await;
    let (hanging, (fine, _)) = (HeldServer::start().await, says(reply("200 OK", &png())).await);
    let own = ["a.png", "b.png"].map(|name| url(fine, name));
    let began = Instant::now();
    let urls = (0..8).map(|number| url(hanging.address, &number.to_string()));
    let urls: Vec<_> = urls.chain([own[0].clone()]).collect();
    let theirs = join_all(urls.iter().map(|at| bench.get_in(turn(1).restricted(true), 1, at)));
    let own = async {
        until(|| hanging.hits() == 2).await;
        let own = join_all(own.iter().map(|at| bench.get(1, at))).await;
        assert!(hanging.hits() == 2 || began.elapsed() > FETCH_TIMEOUT, "the others wait");
        hanging.release();
        own
    };
    let (_, own) = tokio::join!(theirs, own);
    assert!(own.iter().all(Result::is_ok), "{own:?}");
}

/// A host that answers too late after a long wait for a permit is not said to be at fault.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f7_a_fetch_that_began_late_is_told_so() {
    let bench = Bench::new().await;
    let (hanging, logos) = (HeldServer::start().await, &bench.running.app().logos);
    let turn = || logos.fetches.acquire(turn(1), 1).expect("room");
    let mut held: Vec<_> = join_all((0..MAX_FETCHES_PER_TENANT).map(|_| turn())).await;
    let release = async {
        tokio::time::sleep(UNDISTURBED + Duration::from_millis(500)).await;
        held.pop();
    };
    let at = url(hanging.address, "a.png");
    let (late, ()) = tokio::join!(bench.get(1, &at), release);
    assert_eq!(late.err().as_deref(), Some("this account is processing too many logos; try again in a second"));
}

/// A fetch without waiters is not started, so its permit is free for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_has_gone_takes_no_permit() {
    let bench = Bench::new().await;
    let logos = HeldServer::start().await;
    let urls: Vec<_> = (0..30).map(|number| url(logos.address, &number.to_string())).collect();
    let (go, left) = (Semaphore::new(0), AtomicUsize::new(0));
    let leave = async |urls: &[String]| {
        let leaving = urls.iter().map(|at| async {
            let is_answered = tokio::select! {
                _ = bench.get(1, at) => true,
                _ = go.acquire() => false,
            };
            left.fetch_add(1, Ordering::SeqCst);
            is_answered
        });
        join_all(leaving).await
    };
    // Four fetches begin, and all thirty callers leave; one of those that had to wait returns in time, beside another
    // caller.
    let others = async {
        until(|| logos.hits() >= 4).await;
        let back = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            bench.get(1, &urls[20]).await
        };
        let ends = async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            go.add_permits(urls.len());
            until(|| left.load(Ordering::SeqCst) == urls.len()).await;
            logos.release();
        };
        tokio::join!(leave(&urls[4..]), back, ends)
    };
    let (begun, (waited, back, ())) = tokio::join!(leave(&urls[..4]), others);
    assert!(!begun.iter().chain(&waited).any(|is_answered| *is_answered) && back.is_ok());
    assert!(bench.running.app().logos.state().fetches() <= 4, "no fetch is queued");
    assert!(bench.get(1, &url(logos.address, "last")).await.is_ok());
    assert_eq!(logos.hits(), 4 + 1 + 1);
    assert!(bench.get(1, &urls[7]).await.is_ok(), "an abandoned fetch can be requested again");
    assert_eq!(logos.hits(), 4 + 1 + 2);
}

/// Each tenant has a queue of limited length.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_of_a_tenant_is_limited() {
    let bench = Bench::new().await;
    let hanging = HeldServer::start().await;
    let (fine, _) = says(reply("200 OK", &png())).await;
    let app = bench.running.app();
    let ask = |number: usize| {
        let (app, at) = (Arc::clone(app), url(hanging.address, &number.to_string()));
        async move { app.logos.get(&id(1), (&id(1)).into(), &at).await }
    };
    let line: Vec<_> = (0..MAX_FETCHES_PER_TENANT + MAX_WAITING).map(|number| tokio::spawn(ask(number))).collect();
    while app.logos.state().fetches() < line.len() {
        tokio::task::yield_now().await;
    }
    // Each of them has a permit or waits for one.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    let refused = ask(1_000).await;
    assert!(matches!(refused, Err(ApiError::Plain(ErrorCode::Overloaded, _))), "{refused:?}");
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(bench.get(2, &url(fine, "a.png")).await.is_ok());
    line.iter().for_each(tokio::task::JoinHandle::abort);
    join_all(line).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decoder_that_has_ended_is_started_again() {
    let bench = Bench::new().await;
    let (address, _) = says(reply("200 OK", &png())).await;
    let decoder = &bench.running.app().logos.decoder;
    for number in 0..3 {
        assert!(bench.get(1, &url(address, &number.to_string())).await.is_ok());
        decoder.disconnect();
    }
    let soon = || Instant::now() + Duration::from_secs(5);
    assert_eq!(
        run(decoder, turn(1), soon(), || panic!("a broken picture")).await.map(|()| 0),
        Err(DecoderError::Panicked)
    );
    assert_eq!(run(decoder, turn(1), soon(), || 7).await, Ok(7), "a panic ends nothing");
}

/// Q2: large images that wait for the decoder keep no account from its logos, and a small one is decoded before them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q2_large_images_that_wait_make_room_for_other_accounts() {
    let bench = Bench::new().await;
    let decoder = &bench.running.app().logos.decoder;
    let (large, _) = says(reply("200 OK", &png_of(1_200, 1_200))).await;
    let (small, _) = says(reply("200 OK", &png())).await;
    let end = Instant::now() + LONG;
    let urls: Vec<_> = (0..MAX_FETCHES).map(|number| url(large, &number.to_string())).collect();
    let all = join_all((0..).zip(&urls).map(|(number, at)| bench.get(number, at)));
    let other = async {
        let first = decoder.turn(turn(90), end).await.expect("a turn");
        let is_waiting = |tenant| decoder.is_waiting(&turn(tenant));
        until(|| (0..16).all(is_waiting)).await;
        let at = url(small, "a.png");
        let release = async {
            until(|| is_waiting(99)).await;
            // It costs more than a small image and less than a large one.
            let mut second = Box::pin(decoder.turn(turn(91).of_rows(16), end));
            assert!((&mut second).now_or_never().is_none());
            drop(first);
            second.await.expect("a turn")
        };
        tokio::join!(bench.get(99, &at), release).0
    };
    tokio::select! {
        biased;
        other = other => assert!(other.is_ok(), "{:?}", other.err()),
        _ = all => panic!("they were decoded before"),
    }
}

/// A runtime that is shutting down drops spawned tasks at once.
#[test]
fn a_service_that_stops_does_not_hang_on_a_logo() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let bench = runtime.block_on(Bench::new());
    let app = Arc::clone(bench.running.app());
    let (done, is_done) = std::sync::mpsc::channel();
    let handle = runtime.handle().clone();
    drop(bench);
    runtime.shutdown_background();
    std::thread::spawn(move || {
        let _inside = handle.enter();
        let (tenant, mut context) = (id(1), std::task::Context::from_waker(std::task::Waker::noop()));
        let mut get = std::pin::pin!(app.logos.get(&tenant, (&tenant).into(), "http://127.0.0.1/x"));
        // Spawned tasks are dropped soon, if not at once: the workers may take a moment to stop.
        while get.as_mut().poll(&mut context).is_pending() {
            std::thread::sleep(Duration::from_millis(5));
        }
        done.send(app.logos.state().fetches()).expect("a receiver");
    });
    let in_flight = is_done.recv_timeout(Duration::from_secs(10)).expect("it does not hang");
    assert_eq!(in_flight, 0);
}
