//! What the page's script does: the timer, the correction of an iPad, the clipboard.

use serde_json::{Value, json};

use crate::browser::{Browser, browse};
use crate::device::{ANDROID, IPAD, IPHONE, MAC};
use deeplink_testing::{Role, spawn};

const APP: &str = "shop://promo/1";
const STORE: &str = "https://apps.apple.com/app/id123456789";
const WEB: &str = "https://shop.example.com/promo";

/// Longer than the timer of 1,500 ms, in milliseconds.
const AFTER_THE_TIMER: u32 = 1_600;

/// Lets this many milliseconds pass by the clock of the page's own timers: every shorter timer that was started before
/// has ended.
async fn pass(browser: &Browser, millis: u32) {
    let () =
        browser.eval(&format!("new Promise((done) => setTimeout(() => setTimeout(done, 0, null), {millis}))")).await;
}

/// Opens a page with navigations blocked.
async fn open_held(browser: &Browser, url: &str) {
    browser.open(url).await;
    browser.hold().await;
    browser.open(url).await;
}

/// When the page was tapped last, before its script was told: the timer begins later. Both moments are rounded.
async fn last_tap(browser: &Browser) -> u64 {
    browser.eval("seen.tapped.at(-1)").await
}

#[tokio::test]
async fn the_timer_goes_to_the_fallback_after_1500_ms() {
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "store", "ios_deep_link": APP, "ios_store_url": STORE, "web_url": WEB})).await;
    world.a.make_of(&json!({"custom_id": "web", "ios_deep_link": APP, "web_url": WEB})).await;
    world.a.make_of(&json!({"custom_id": "alone", "ios_deep_link": APP})).await;
    world.a.make_of(&json!({"custom_id": "https", "ios_deep_link": "https://app.example.com/p", "web_url": WEB})).await;
    browse(world, async |browser| {
        browser.be(IPHONE, "light").await;
        for (id, fallback) in [("store", STORE), ("web", WEB)] {
            open_held(browser, &browser.service(&format!("/r/{id}"))).await;
            browser.tap("open").await;
            browser.until("seen.went.length === 2").await;
            let went = browser.went().await;
            assert_eq!((went[0].0.as_str(), went[1].0.as_str()), (APP, fallback));
            let waited = went[1].1 - last_tap(browser).await;
            assert!(waited >= 1_498, "after {waited} ms");
        }
        // Tapped twice, it waits once, from the second tap.
        open_held(browser, &browser.service("/r/store")).await;
        let () = browser
            .eval(
                "new Promise((done) => {
                  const open = document.getElementById('open');
                  open.click();
                  setTimeout(() => { open.click(); done(null); }, 700);
                })",
            )
            .await;
        browser.until("seen.went.length >= 3").await;
        pass(browser, AFTER_THE_TIMER).await;
        let went = browser.went().await;
        assert_eq!(went.iter().map(|(url, _)| url.as_str()).collect::<Vec<_>>(), [APP, APP, STORE]);
        let tapped = last_tap(browser).await;
        assert!(went[2].1 - tapped >= 1_498, "{went:?} {tapped}");
        // Without a fallback, or with a web URL as the target, there is nothing to wait for.
        for (id, target) in [("alone", APP), ("https", "https://app.example.com/p")] {
            open_held(browser, &browser.service(&format!("/r/{id}"))).await;
            browser.tap("open").await;
            pass(browser, AFTER_THE_TIMER).await;
            assert_eq!(browser.went().await.iter().map(|(url, _)| url.as_str()).collect::<Vec<_>>(), [target]);
        }
    })
    .await;
}

/// Taps, and covers the page with another window until the timer would have ended; returns whether it was covered while
/// the timer ran.
async fn is_covered_in_time(browser: &Browser) -> bool {
    open_held(browser, &browser.service("/r/store")).await;
    let page = browser.driver.window().await.expect("a window");
    let app = browser.driver.new_tab().await.expect("another window");
    browser.driver.switch_to_window(page.clone()).await.expect("the page is in front");
    browser.until("document.visibilityState === 'visible'").await;
    browser.tap("open").await;
    let begun = format!("(setTimeout(() => {{ seen.isOver = true; }}, {AFTER_THE_TIMER}), null)");
    let () = browser.eval(&begun).await;
    browser.driver.switch_to_window(app).await.expect("now it is covered");
    pass(browser, AFTER_THE_TIMER).await;
    browser.driver.switch_to_window(page).await.expect("back again");
    // Timers of a covered page may be late, but run in order.
    browser.until("seen.isOver === true").await;
    let covered: Option<u64> = browser.eval("seen.hidden.at(-1) ?? null").await;
    let tapped = browser.went().await[0].1;
    covered.is_some_and(|at| (tapped..tapped + 1_400).contains(&at))
}

#[tokio::test]
async fn the_timer_stops_when_the_page_is_left() {
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "store", "ios_deep_link": APP, "ios_store_url": STORE})).await;
    browse(world, async |browser| {
        browser.be(IPHONE, "light").await;
        // The app opens, so another window covers the page. If the machine takes too long for that, it taps again.
        let mut tries = 0;
        while !is_covered_in_time(browser).await {
            tries += 1;
            assert!(tries < 20, "the page is never covered in time");
        }
        assert_eq!(browser.went().await.len(), 1, "{:?}", browser.went().await);
        // A page that is put into the back/forward cache gets another event.
        open_held(browser, &browser.service("/r/store")).await;
        let () = browser
            .eval(
                "(document.getElementById('open').click(),
                  dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })), null)",
            )
            .await;
        pass(browser, AFTER_THE_TIMER).await;
        assert_eq!(browser.went().await.len(), 1, "{:?}", browser.went().await);
    })
    .await;
}

#[tokio::test]
async fn an_ipad_in_desktop_mode_is_corrected_and_a_mac_is_not() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.own_domain(&world.b, "alt.example.com", Role::Alternate).await;
    let link = json!({"custom_id": "spring-42", "ios_deep_link": APP, "ios_store_url": STORE, "web_url": WEB});
    world.a.make_of(&link).await;
    world.b.make_of(&link).await;
    world.a.make_of(&json!({"custom_id": "app-only", "ios_deep_link": APP})).await;
    world.a.make_of(&json!({"custom_id": "with-cta", "ios_deep_link": APP, "web_url": WEB, "agent_context": {"cta": "Buy now"}})).await;
    world.a.make_of(&json!({"custom_id": "android", "android_store_url": "https://play.google.com/d?id=com.example.app", "web_url": WEB})).await;
    browse(world, async |browser| {
        let open = "document.getElementById('open')?.getAttribute('href') ?? null";
        let label = "document.getElementById('open')?.textContent ?? null";
        let web = "document.getElementById('web')?.getAttribute('href') ?? null";
        let state = async || {
            let seen: (Option<String>, Option<String>, Option<String>) =
                browser.eval(&format!("[{open}, {label}, {web}]")).await;
            seen
        };
        let said = |text: &str| Some(text.to_owned());

        browser.be(MAC, "light").await;
        browser.open(&browser.service("/r/spring-42")).await;
        assert_eq!(state().await, (said(WEB), said("Continue to shop.example.com"), None));
        browser.open(&browser.service("/r/app-only")).await;
        assert_eq!(state().await, (None, None, None));

        browser.be(IPAD, "light").await;
        open_held(browser, &browser.service("/r/spring-42")).await;
        assert_eq!(state().await, (said(APP), said("Open in the app"), said(WEB)), "the web page stays reachable");
        browser.tap("open").await;
        browser.until("seen.went.length === 2").await;
        let went = browser.went().await;
        assert_eq!((went[0].0.as_str(), went[1].0.as_str()), (APP, STORE), "with the timer of an iPhone");
        browser.open(&browser.service("/r/with-cta")).await;
        assert_eq!(state().await, (said(APP), said("Buy now Open in the app"), said(WEB)));
        let second: String = browser.eval("document.getElementById('web').textContent").await;
        assert_eq!(second, "Continue to shop.example.com", "without the call to action");
        open_held(browser, &browser.service("/r/app-only")).await;
        assert_eq!(state().await, (said(APP), said("Open in the app"), None), "the button is made");
        browser.tap("open").await;
        browser.until("seen.went.length === 1").await;
        browser.open(&browser.service("/r/android")).await;
        assert_eq!(state().await, (said(WEB), said("Continue to shop.example.com"), None), "nothing for iOS");

        open_held(browser, "http://go.example.com/spring-42?utm_source=poster").await;
        browser.tap("open").await;
        browser.until("seen.went.length === 1").await;
        let to_the_alternate = "https://alt.example.com/spring-42?utm_source=poster&os=ios";
        assert_eq!(browser.went().await[0].0, to_the_alternate);
        pass(browser, AFTER_THE_TIMER).await;
        assert_eq!(browser.went().await.len(), 1, "no timer");
    })
    .await;
}

#[tokio::test]
async fn a_tap_on_the_way_to_the_store_copies_the_link() {
    let world = spawn().await;
    world
        .a
        .make_of(&json!({"custom_id": "spring-42", "ios_deep_link": APP, "ios_store_url": STORE, "web_url": WEB}))
        .await;
    world.a.make_of(&json!({"custom_id": "no-store", "ios_deep_link": APP, "web_url": WEB})).await;
    browse(world, async |browser| {
        let (url, no_store) = (browser.service("/r/spring-42"), browser.service("/r/no-store"));
        let link = browser.world.a.get("/v1/links/spring-42").await.member("url");
        let permissions = json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]});
        browser.command("Browser.grantPermissions", permissions).await;
        // Only the focused window may use the clipboard, and other tests have windows too.
        browser.command("Emulation.setFocusEmulationEnabled", json!({"enabled": true})).await;
        let note = "!(document.getElementById('copies')?.hidden ?? true)";
        let on_it = async || browser.eval::<String>("navigator.clipboard.readText()").await;
        // A tap, after a marker was put on the clipboard.
        let tapped = async |url: &str, id: &str| {
            open_held(browser, url).await;
            let _: Value = browser.eval("navigator.clipboard.writeText('nothing yet')").await;
            pass(browser, 100).await;
            assert_eq!(on_it().await, "nothing yet", "never without a tap");
            browser.tap(id).await;
            browser.until("seen.went.length > 0").await;
        };
        for (device, id) in [(IPHONE, "open"), (IPHONE, "store"), (IPAD, "open"), (IPAD, "ios-store")] {
            browser.be(device, "light").await;
            tapped(&url, id).await;
            browser.until_copied(&link).await;
            browser.until(note).await;
        }
        for (device, url, id) in [
            (IPHONE, &url, "web"),
            (IPHONE, &no_store, "open"),
            (ANDROID, &url, "open"),
            (MAC, &url, "open"),
            (MAC, &url, "ios-store"),
        ] {
            browser.be(device, "light").await;
            tapped(url, id).await;
            pass(browser, 100).await;
            assert_eq!(on_it().await, "nothing yet", "{id}");
        }
        browser.be(IPHONE, "light").await;
        browser.open(&no_store).await;
        assert!(!browser.eval::<bool>(note).await);

        // A denied clipboard delays nothing and shows no error.
        for permission in ["clipboard-read", "clipboard-write"] {
            let denied = json!({"permission": {"name": permission}, "setting": "denied"});
            browser.command("Browser.setPermission", denied).await;
        }
        browser.complaints().await;
        open_held(browser, &url).await;
        browser.tap("open").await;
        browser.until("seen.went.length === 2").await;
        assert_eq!(browser.complaints().await, [""; 0]);
    })
    .await;
}
