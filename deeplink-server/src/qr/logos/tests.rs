use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use super::*;
use crate::clock::Clock;
use crate::config::Config;
use crate::outbound::http::tests::{says, server};
use crate::start::{Running, start};

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
        let app = self.running.app();
        app.logos.get(app, &id(tenant), url).await.map_err(|error| match error {
            ApiError::Invalid(invalid) => {
                assert_eq!((&invalid.code, invalid.field.as_deref()), (&ErrorCode::InvalidQrOptions, Some("logo")));
                invalid.message
            }
            error => panic!("{error}"),
        })
    }
}

fn id(tenant: u32) -> TenantId {
    format!("tnt_{tenant:024x}").parse().expect("an id")
}

fn png() -> Vec<u8> {
    let mut file = std::io::Cursor::new(Vec::new());
    let picture = image::RgbaImage::from_pixel(6, 4, image::Rgba([255, 0, 0, 255]));
    picture.write_to(&mut file, image::ImageFormat::Png).expect("a file");
    file.into_inner()
}

fn reply(status: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

fn url(address: SocketAddr, path: &str) -> String {
    format!("http://{address}/{path}")
}

/// A server of logos that takes its time, and how many requests it has answered and had to answer at one time.
async fn slow(by: Duration) -> (SocketAddr, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (now, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let seen = Arc::clone(&most);
    let (address, hits) = server(move |mut socket, _| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&seen));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(by).await;
            now.fetch_sub(1, Ordering::SeqCst);
            drop(socket.write_all(&reply("200 OK", &png())).await);
        }
    })
    .await;
    (address, hits, most)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_logo_is_kept_for_ten_minutes_for_its_tenant() {
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
}

/// F6, Q8: what is wrong with a file is said; why there is none is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_four_sentences_and_are_not_kept() {
    const NOT_FETCHED: &str = "logo: could not be fetched";
    let bench = Bench::new().await;
    let mut large = png();
    large[18..20].copy_from_slice(&[0xff, 0xff]);
    let largest = [&png()[..], &vec![0; LARGEST - png().len()]].concat();
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
    ] {
        let (address, hits) = says(answer).await;
        for round in 1..=2 {
            assert_eq!(bench.get(1, &url(address, "x")).await.err().as_deref(), Some(message));
            assert_eq!(hits.load(Ordering::SeqCst), round, "a failure is not kept");
        }
    }
    let (address, _) = says(reply("200 OK", &largest)).await;
    assert!(bench.get(1, &url(address, "x")).await.is_ok(), "512 KiB and no more");
    for elsewhere in ["http://10.0.0.1/x", "http://127.0.0.1:1/x", "http://unknown.invalid/x", "nonsense"] {
        let began = Instant::now();
        assert_eq!(bench.get(1, elsewhere).await.err().as_deref(), Some(NOT_FETCHED), "{elsewhere}");
        assert!(began.elapsed() >= Duration::from_millis(100), "{elsewhere}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_want_one_logo_wait_for_one_fetch_and_nobody_takes_it_along() {
    let bench = Bench::new().await;
    let (address, hits, _) = slow(Duration::from_millis(400)).await;
    let at = url(address, "a.png");
    // The first one asks, and leaves before there is an answer.
    let first = tokio::time::timeout(Duration::from_millis(100), bench.get(1, &at)).await;
    assert!(first.is_err(), "it had to wait");
    let all = join_all((0..50).map(|_| bench.get(1, &at))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(hits.load(Ordering::SeqCst), 1);
    assert!(bench.running.app().logos.state().under_way.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_are_fetched_at_one_time_and_four_for_one_tenant() {
    let bench = Bench::new().await;
    for (tenants, of_each, at_one_time) in [(1, 10, 4), (6, 5, 16)] {
        let (address, hits, most) = slow(Duration::from_millis(300)).await;
        let wanted = (0..tenants).flat_map(|tenant| (0..of_each).map(move |number| (tenant, number)));
        let wanted: Vec<_> = wanted.map(|(tenant, number)| (tenant, url(address, &number.to_string()))).collect();
        let all = join_all(wanted.iter().map(|(tenant, at)| bench.get(*tenant, at))).await;
        assert!(all.iter().all(Result::is_ok), "whoever waits is served");
        assert_eq!(hits.load(Ordering::SeqCst), wanted.len());
        assert_eq!(most.load(Ordering::SeqCst), at_one_time);
    }
}

/// The wait for a place counts: nobody waits longer than five seconds, and another tenant is served meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gets_no_place_in_time_is_told_the_same() {
    let bench = Bench::new().await;
    let (hanging, _, _) = slow(Duration::from_mins(1)).await;
    let (fine, _) = says(reply("200 OK", &png())).await;
    let urls: Vec<_> = (0..5).map(|number| url(hanging, &number.to_string())).collect();
    let began = Instant::now();
    let others = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(bench.get(2, &url(fine, "a.png")).await.is_ok());
        assert!(began.elapsed() < Duration::from_secs(4));
    };
    let (all, ()) = tokio::join!(join_all(urls.iter().map(|at| bench.get(1, at))), others);
    for outcome in all {
        assert_eq!(outcome.err().as_deref(), Some("logo: could not be fetched"));
    }
    let took = began.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_secs(7)).contains(&took), "{took:?}");
    assert_eq!(bench.running.app().logos.state().kept.entries.len(), 1);
}

#[test]
fn the_least_recently_used_logos_go_first() {
    // Eight of four MiB do not fit, with what they need beside their pixels.
    let logo = || Arc::new(Logo::new(1_024, 1_024, vec![0; 4 << 20], [0; 32]).expect("a logo"));
    let key = |number: u32| (id(1), format!("https://example.com/{number}"));
    let mut kept = Kept::default();
    for number in 0..7 {
        kept.keep(key(number), logo(), 0);
    }
    assert!(kept.get(&key(0), 0).is_some(), "the first is used once more");
    kept.keep(key(7), logo(), 0);
    let there: Vec<_> = (0..8).filter(|number| kept.entries.contains_key(&key(*number))).collect();
    assert_eq!(there, [0, 2, 3, 4, 5, 6, 7]);
    assert!(kept.bytes <= ROOM);
    kept.keep(key(7), logo(), 0);
    assert_eq!(kept.bytes, 7 * ((4 << 20) + ENTRY + key(0).1.len() + id(1).as_str().len()), "once for each");
    kept.shrink_to(9 << 20);
    let there: Vec<_> = (0..8).filter(|number| kept.entries.contains_key(&key(*number))).collect();
    assert_eq!(there, [0, 7], "the two that were used last");
    for number in 0..8 {
        kept.get(&key(number), 600_000);
    }
    assert_eq!((kept.bytes, kept.entries.len()), (0, 0), "what is over is gone");
}
