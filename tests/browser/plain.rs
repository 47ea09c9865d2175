//! The pages without their script, and under a keyboard instead of a finger.

use serde::Deserialize;
use serde_json::{Value, json};
use thirtyfour::By;
use tokio::time::{Duration, Instant, sleep};

use crate::browser::{Browser, PATIENCE, browse};
use crate::device::{ANDROID, Device, IPAD, IPHONE, SMALL_IPHONE, WINDOWS};
use crate::scene;
use deeplink_testing::spawn;

fn link() -> Value {
    json!({
        "custom_id": "spring-42", "ios_store_url": "https://apps.apple.com/app/id123456789",
        "android_store_url": "https://play.google.com/store/apps/details?id=com.example.app",
        "ios_deep_link": "https://app.example.com/promo", "android_deep_link": "https://app.example.com/promo#1",
        "web_url": "https://shop.example.com/promo",
    })
}

#[tokio::test]
async fn without_scripts_every_element_is_a_link_that_works() {
    let world = spawn().await;
    world.a.make_of(&link()).await;
    browse(world, async |browser| {
        browser.command("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
        let url = browser.service("/r/spring-42");
        let mut taps = 0;
        for (device, suffix, ids) in [
            (IPHONE, "", &["open", "store", "web"][..]),
            (IPHONE, " Instagram", &["open", "deep", "web"]),
            (ANDROID, "", &["open", "store", "web"]),
            (IPAD, "", &["open", "ios-store", "android-store"]),
            (WINDOWS, "", &["open", "ios-store", "android-store"]),
        ] {
            browser.be_with(device, suffix, "light").await;
            browser.open(&url).await;
            let links = browser.driver.find_all(By::Tag("a")).await.expect("links");
            let mut found = Vec::new();
            for link in &links {
                found.push(link.attr("id").await.expect("an attribute").expect("an id"));
            }
            assert_eq!(found, ids, "in this order");
            let copies = browser.driver.find_all(By::Id("copies")).await.expect("a page");
            for note in copies {
                assert!(!note.is_displayed().await.expect("a note"), "features that need a script are not shown");
            }
            for id in ids {
                browser.open(&url).await;
                let target =
                    browser.driver.find(By::Id(*id)).await.expect("a link").attr("href").await.expect("an attribute");
                browser.tap(id).await;
                browser.until_at(&target.expect("a target")).await;
                taps += 1;
            }
        }
        assert_eq!(taps, 15);
    })
    .await;
}

/// The focused element.
#[derive(Debug, Deserialize)]
pub(crate) struct Focus {
    pub(crate) id: String,
    /// The ring around it, in CSS pixels.
    pub(crate) ring: f64,
    /// Whether it is inside the window and not covered.
    pub(crate) in_sight: bool,
}

/// Presses a key. A page that is not painted yet does not receive keys: then the key is pressed again.
pub(crate) async fn press(browser: &Browser, key: &str, code: u32) {
    let given = async || browser.eval::<(f64, u64)>("[performance.timeOrigin, seen.keys]").await;
    let before = given().await;
    let end = Instant::now() + PATIENCE;
    loop {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if key == "Enter" && kind == "keyDown" {
                event["text"] = "\r".into();
            }
            browser.command("Input.dispatchKeyEvent", event).await;
        }
        // The page that received it may have been left.
        if given().await != before {
            return;
        }
        assert!(Instant::now() < end, "no page takes {key} in {PATIENCE:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn focus(browser: &Browser) -> Focus {
    browser
        .eval(
            "(() => {
              const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
              // The middle of the box of a link on two lines may be outside the link.
              const line = e.getClientRects()[0] || box;
              const top = document.elementFromPoint(line.left + line.width / 2, line.top + line.height / 2);
              return {
                id: e.id, ring: style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth),
                in_sight: e.contains(top) && box.top >= 0 && box.bottom <= innerHeight,
              };
            })()",
        )
        .await
}

#[tokio::test]
async fn the_keyboard_reaches_everything_in_order() {
    let world = spawn().await;
    let mut longest = scene::longest("The quick brown fox jumps over the lazy dog. ");
    longest.as_object_mut().expect("an object").extend(link().as_object().expect("an object").clone());
    world.a.make_of(&longest).await;
    browse(world, async |browser| {
        let url = browser.service("/r/spring-42");
        let cases: [(Device, &[&str]); 3] = [
            (WINDOWS, &["open", "ios-store", "android-store"]),
            (SMALL_IPHONE, &["open", "store", "web"]),
            (IPAD, &["open", "ios-store", "web"]),
        ];
        for (device, ids) in cases {
            browser.be(device, "dark").await;
            browser.open(&url).await;
            browser.hold().await;
            for id in ids {
                press(browser, "Tab", 9).await;
                let focus = focus(browser).await;
                assert_eq!(focus.id, *id);
                assert!(focus.ring >= 2.0 && focus.in_sight, "{focus:?}");
            }
            press(browser, "Enter", 13).await;
            browser.until("seen.went.length > 0").await;
            let last = ids.last().expect("a link");
            let target: String = browser.eval(&format!("document.getElementById('{last}').href")).await;
            assert_eq!(browser.went().await[0].0, target);
        }
    })
    .await;
}

#[tokio::test]
async fn people_who_ask_for_less_or_for_more_contrast_get_it() {
    let world = spawn().await;
    world.a.make_of(&link()).await;
    browse(world, async |browser| {
        browser.be(IPHONE, "light").await;
        browser.open(&browser.service("/r/spring-42")).await;
        let style = |property: &str| format!("getComputedStyle(document.getElementById('open')).{property}");
        assert_eq!(browser.eval::<String>(&style("transitionDuration")).await, "0s", "nothing moves for anybody");
        for scheme in ["light", "dark"] {
            browser.prefer(&[("forced-colors", "active"), ("prefers-color-scheme", scheme)]).await;
            browser.picture(&format!("forced-colors-phone-{scheme}")).await;
            let (width, line, ground): (String, String, String) = browser
                .eval(&format!(
                    "[{}, {}, {}]",
                    style("borderTopWidth"),
                    style("borderTopColor"),
                    style("backgroundColor")
                ))
                .await;
            assert_eq!(width, "3px", "the first button stands out by its border");
            assert_ne!(line, ground, "{scheme}");
        }
    })
    .await;
}
