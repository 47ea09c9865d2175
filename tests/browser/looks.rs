//! The look of the pages, on every screen size, light and dark: nothing moves, nothing is cut off, nothing is refused,
//! everything is accessible, and the first button is visible.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::axe;
use crate::browser::{Browser, browse};
use crate::device::{Device, IPAD, IPHONE, MAC, SMALL_IPHONE, WINDOWS};
use crate::scene::{self, Scene};
use deeplink_testing::{Role, spawn, spawn_with};

const SCREENS: [(&str, Device); 5] = [
    ("small-phone", SMALL_IPHONE),
    ("phone", IPHONE),
    ("tablet", IPAD),
    ("desktop", WINDOWS),
    ("wide", Device { width: 1_920, height: 1_080, ..WINDOWS }),
];

/// The findings about a page.
#[derive(Debug, Deserialize)]
struct Page {
    shift: f64,
    refused: Vec<String>,
    /// Navigations without a tap.
    went: Vec<Value>,
    width: f64,
    scroll_width: f64,
    height: f64,
    /// Elements that reach beyond the left or right edge.
    outside: Vec<String>,
    /// Links too small for a finger.
    small: Vec<String>,
    /// Top and bottom of the first button.
    open: Option<(f64, f64)>,
}

/// A function of the device's width: the window of a touch screen grows with a page that is too wide.
const MEASURE: &str = "((width) => {
  const name = (e) => e.tagName + '#' + e.id + '.' + e.className;
  const boxes = [...document.body.querySelectorAll('*')].map((e) => [e, e.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
  // The blurred background of a picture reaches out of the cover, which cuts it.
  const cut = document.querySelector('.behind');
  const open = document.getElementById('open')?.getBoundingClientRect();
  return {
    shift: seen.shift, refused: seen.refused, went: seen.went, width: innerWidth, height: innerHeight,
    scroll_width: document.documentElement.scrollWidth,
    outside: boxes.filter(([, box]) => box.left < -0.5 || box.right > width + 0.5).filter(([e]) => e !== cut).map(([e]) => name(e)),
    small: boxes.filter(([e, box]) => e.tagName === 'A' && (box.width < 44 || box.height < 44)).map(([e]) => name(e)),
    open: open ? [open.top, open.bottom] : null,
  };
})";

/// Checks the open page's look, and keeps a picture of it.
pub(crate) async fn look(browser: &Browser, scene: &Scene, url: &str, screen: &str, device: Device, scheme: &str) {
    let what = format!("{} {screen} {scheme}", scene.name);
    browser.open(url).await;
    // Two frames, so that any layout shift has happened.
    let () = browser
        .eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))")
        .await;
    let page: Page = browser.eval(&format!("{MEASURE}({})", device.width)).await;
    browser.picture(&format!("{}-{screen}-{scheme}", scene.name)).await;
    assert!(page.shift < 0.0001, "{what} moved: {page:?}");
    assert!(page.refused.is_empty(), "{what}: {page:?}");
    let fits = page.scroll_width <= f64::from(device.width) && page.outside.is_empty();
    assert!(fits, "{what} is wider than its screen: {page:?}");
    assert!(page.small.is_empty(), "{what}: {page:?}");
    if let Some((top, bottom)) = page.open {
        assert!(top >= 0.0 && bottom <= page.height, "{what}: the first button is out of sight: {page:?}");
    }
    assert!(page.went.is_empty(), "{what} goes elsewhere by itself: {page:?}");
    assert!((page.width - f64::from(device.width)).abs() < 0.5, "{what}: {page:?}");
    assert_eq!(browser.complaints().await, [""; 0], "{what}");
}

async fn look_at_all(scheme: &'static str) {
    let world = spawn_with(|config| config.limits.misses_per_minute = 60).await;
    // A tenant with an app has a domain as well, which the page names.
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    browse(world, async |browser| {
        for scene in scene::all() {
            let url = scene.set_up(browser).await;
            for (screen, device) in SCREENS {
                let is_extreme = screen == "small-phone" || screen == "wide";
                // Dark mode does not change sizes.
                if scheme == "dark" && !is_extreme && screen != "phone" {
                    continue;
                }
                browser.be_with(device, scene.agent_suffix, scheme).await;
                look(browser, &scene, &url, screen, device, scheme).await;
                if is_extreme || scene.name == "full-app" {
                    let found = axe::violations(browser).await;
                    assert_eq!(found, [""; 0], "{} {screen} {scheme}", scene.name);
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn every_page_fits_every_screen_in_light() {
    Box::pin(look_at_all("light")).await;
}

#[tokio::test]
async fn every_page_fits_every_screen_in_dark() {
    Box::pin(look_at_all("dark")).await;
}

/// Over a slow network a page arrives in pieces and is painted at once.
#[tokio::test]
async fn nothing_moves_on_a_slow_network_either() {
    browse(spawn().await, async |browser| {
        let scene = scene::all().into_iter().find(|scene| scene.name == "full-app").expect("it is there");
        let url = scene.set_up(browser).await;
        let slow = json!({"offline": false, "latency": 50, "downloadThroughput": 8_000, "uploadThroughput": 8_000});
        browser.command("Network.enable", json!({})).await;
        browser.command("Network.emulateNetworkConditions", slow).await;
        for (name, device) in [("iPhone", IPHONE), ("iPad", IPAD), ("Mac", MAC)] {
            browser.be(device, "light").await;
            browser.open(&url).await;
            browser.until("performance.getEntriesByName('first-paint').length > 0").await;
            let (whole, shift): (f64, f64) =
                browser.eval("[performance.getEntriesByType('navigation')[0].responseEnd, seen.shift]").await;
            let painted: f64 = browser.eval("performance.getEntriesByName('first-paint')[0].startTime").await;
            assert!(whole > 1_000.0, "{name}: the network was not slow: {whole} ms");
            assert!(painted >= whole, "{name}: painted at {painted} ms, whole at {whole} ms");
            assert!(shift < 0.0001, "{name}: it moved by {shift}");
        }
    })
    .await;
}
