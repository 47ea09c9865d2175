//! Where a tap leads: the rows of the decision table whose answer is a page, with a finger on the first button.

use deeplink_doubles::decisions::{CAMPAIGN, LINK_ID, Row, TABLE, destinations, symbol};
use serde_json::json;
use thirtyfour::By;

use crate::browser::{Browser, browse};
use crate::device::{ANDROID, ANDROID_TABLET, Device, IPHONE, MAC, WINDOWS};
use deeplink_testing::{Caller, Role, spawn};

const HOST: &str = "go.example.com";
const ALTERNATE: &str = "alt.example.com";

async fn lead(owner: &Caller, has: &str) {
    let [ios, ios_store, android, android_store, web] = destinations(has);
    let body = json!({
        "ios_deep_link": ios, "ios_store_url": ios_store, "android_deep_link": android,
        "android_store_url": android_store, "web_url": web,
    });
    assert_eq!(owner.put(&format!("/v1/links/{LINK_ID}"), &body).await.status, 200);
}

/// The size and touch points of a User-Agent's device; headers are the row's own.
fn device_of(agent: &'static str) -> Device {
    let like = match agent {
        _ if agent.contains("iPhone") => IPHONE,
        _ if agent.contains("Android") => ANDROID,
        _ if agent.contains("Macintosh") => MAC,
        _ => WINDOWS,
    };
    Device { agent, hint: None, ..like }
}

/// Where a tap on the first button leads, in the notation of the table; `-` without a button.
async fn led(browser: &Browser, url: &str) -> String {
    browser.open(url).await;
    if browser.driver.find_all(By::Id("open")).await.expect("a page").is_empty() {
        return "-".to_owned();
    }
    browser.tap("open").await;
    browser.until("seen.went.length > 0").await;
    symbol(&browser.went().await[0].0)
}

#[tokio::test]
async fn the_first_button_leads_where_the_decision_table_says() {
    let world = spawn().await;
    world.own_domain(&world.b, HOST, Role::Primary).await;
    world.own_domain(&world.b, ALTERNATE, Role::Alternate).await;
    for owner in [&world.a, &world.b] {
        owner.make_of(&json!({"custom_id": LINK_ID})).await;
    }
    browse(world, async |browser| {
        let mut taps = 0;
        for Row(row, agent, has, alternate, [in_browser, in_app, ..]) in TABLE {
            if in_browser.starts_with("302") {
                continue;
            }
            let (owner, origin) = match alternate {
                Some(_) => (&browser.world.b, format!("http://{HOST}/")),
                None => (&browser.world.a, browser.service("/r/")),
            };
            lead(owner, has).await;
            for (suffix, expected) in [("", in_browser), (" Instagram", in_app)] {
                browser.be_with(device_of(agent), suffix, "light").await;
                browser.open(&origin).await;
                browser.hold().await;
                let expected =
                    expected.split(" open=").nth(1).map_or("-", |rest| rest.split(' ').next().unwrap_or(rest));
                let led = led(browser, &format!("{origin}{LINK_ID}?{CAMPAIGN}")).await;
                assert_eq!(led, expected, "{row}: {agent}{suffix} to {has:?}, alternate {alternate:?}");
                taps += 1;
            }
        }
        assert!(taps > 70, "{taps}");
    })
    .await;
}

/// The same taps without blocking navigations: the browser arrives.
#[tokio::test]
async fn a_tap_arrives() {
    let world = spawn().await;
    world.own_domain(&world.b, HOST, Role::Primary).await;
    world.own_domain(&world.b, ALTERNATE, Role::Alternate).await;
    let link = json!({
        "custom_id": LINK_ID, "ios_store_url": "https://apps.apple.com/app/id123456789",
        "android_store_url": "https://play.google.com/store/apps/details?id=com.example.app",
        "web_url": "https://shop.example.com/promo",
    });
    for owner in [&world.a, &world.b] {
        owner.make_of(&link).await;
    }
    browse(world, async |browser| {
        let here = browser.service(&format!("/r/{LINK_ID}"));
        let play =
            format!("https://play.google.com/store/apps/details?id=com.example.app&referrer=dl_link%3D{LINK_ID}");
        for (device, url, id, arrival) in [
            (IPHONE, &here, "open", "https://apps.apple.com/app/id123456789"),
            (IPHONE, &here, "web", "https://shop.example.com/promo"),
            (ANDROID, &here, "open", play.as_str()),
            (ANDROID, &here, "web", "https://shop.example.com/promo"),
            (ANDROID_TABLET, &here, "open", play.as_str()),
            (WINDOWS, &here, "open", "https://shop.example.com/promo"),
            (WINDOWS, &here, "android-store", play.as_str()),
            (MAC, &here, "ios-store", "https://apps.apple.com/app/id123456789"),
        ] {
            browser.be(device, "light").await;
            browser.open(url).await;
            browser.tap(id).await;
            browser.until_at(arrival).await;
            let arrivals = browser.elsewhere.arrivals();
            assert!(arrivals.iter().any(|url| url == arrival), "{arrival} is not among {arrivals:?}");
        }
        // Visitors of the alternate host have no app: the store, or the web page, without a landing page.
        for (device, query, arrival) in [
            (IPHONE, "", "https://apps.apple.com/app/id123456789"),
            (ANDROID, "", play.as_str()),
            (WINDOWS, "", "https://shop.example.com/promo"),
            (MAC, "?os=ios", "https://apps.apple.com/app/id123456789"),
        ] {
            browser.be(device, "light").await;
            browser.open(&format!("http://{ALTERNATE}/{LINK_ID}{query}")).await;
            browser.until_at(arrival).await;
        }
    })
    .await;
}
