//! The navigation on a phone: one row with a menu, for fingers and keyboards, and without scripts.

use serde_json::json;

use crate::account::enter;
use crate::axe;
use crate::browser::{Browser, browse};
use crate::device::{Device, IPHONE, SMALL_IPHONE, WINDOWS};
use crate::plain::{focus, press};
use deeplink_testing::spawn;

const OPEN: &str = "document.getElementById('menu').matches(':popover-open')";
const TABLET: Device = Device { width: 768, height: 1_024, ..IPHONE };

async fn header_height(browser: &Browser) -> f64 {
    browser.eval("document.querySelector('header').getBoundingClientRect().height").await
}

#[tokio::test]
async fn the_menu_of_a_phone_takes_one_row() {
    browse(spawn().await, async |browser| {
        enter(browser, &browser.world.a).await;
        for scheme in ["light", "dark"] {
            for device in [SMALL_IPHONE, IPHONE, TABLET] {
                browser.be(device, scheme).await;
                browser.open(&browser.service("/account/links")).await;
                let height = header_height(browser).await;
                assert!(height <= 64.0, "{height} at {}", device.width);
                assert!(!browser.is_shown(".nav").await);
                browser.click(".menu").await;
                browser.until(OPEN).await;
                let fits = "document.documentElement.scrollWidth <= innerWidth
                    && [...document.querySelectorAll('.nav, .nav *')].every((e) => {
                      const {left, right, bottom} = e.getBoundingClientRect();
                      return left >= 0 && right <= innerWidth && (bottom <= innerHeight || e.closest('.nav').scrollHeight > e.closest('.nav').clientHeight);
                    })";
                browser.until(fits).await;
                let lines: f64 = browser
                    .eval("Math.max(...[...document.querySelectorAll('.nav li a')].map((e) => e.getBoundingClientRect().height))")
                    .await;
                assert!(lines <= 44.5, "a name takes two lines at {}", device.width);
                browser.capture_window(&format!("account-menu-{}-{scheme}", device.width)).await;
                assert_eq!(axe::violations(browser).await, [""; 0], "{} {scheme}", device.width);
                assert_eq!(browser.text(".nav [aria-current]").await, "Links");
            }
        }
        browser.click(".nav a[href='/account/team']").await;
        browser.until_it_says("h1", "Team").await;
    })
    .await;
}

#[tokio::test]
async fn the_menu_opens_and_closes_with_the_keyboard() {
    browse(spawn().await, async |browser| {
        enter(browser, &browser.world.a).await;
        browser.be(IPHONE, "light").await;
        browser.open(&browser.service("/account")).await;
        let at = "document.activeElement.textContent.trim()";
        // Past the link to the content and the logo.
        for _ in 0..3 {
            press(browser, "Tab", 9).await;
        }
        assert_eq!(browser.eval::<String>(at).await, "Menu");
        press(browser, "Enter", 13).await;
        browser.until(OPEN).await;
        for name in ["Overview", "Links"] {
            press(browser, "Tab", 9).await;
            let focus = focus(browser).await;
            assert!(focus.ring >= 2.0 && focus.in_sight, "{focus:?}");
            assert_eq!(browser.eval::<String>(at).await, name);
        }
        press(browser, "Escape", 27).await;
        browser.until(&format!("!{OPEN}")).await;
        assert_eq!(browser.eval::<String>(at).await, "Menu", "the focus is back at the button");
        press(browser, "Enter", 13).await;
        press(browser, "Tab", 9).await;
        press(browser, "Tab", 9).await;
        press(browser, "Enter", 13).await;
        browser.until("location.pathname === '/account/links' && document.readyState === 'complete'").await;
    })
    .await;
}

#[tokio::test]
async fn a_large_screen_shows_the_sections_and_no_menu() {
    browse(spawn().await, async |browser| {
        enter(browser, &browser.world.a).await;
        browser.command("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
        browser.be(WINDOWS, "light").await;
        browser.open(&browser.service("/account")).await;
        assert!(browser.is_shown(".nav").await && !browser.is_shown(".menu").await);
        browser.click(".nav a[href='/account/keys']").await;
        browser.until_it_says("h1", "Keys").await;
        browser.be(IPHONE, "light").await;
        browser.click(".menu").await;
        browser.click(".nav a[href='/account/team']").await;
        browser.until_it_says("h1", "Team").await;
    })
    .await;
}
