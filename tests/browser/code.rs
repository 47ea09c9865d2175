//! The QR code on the page, as a phone's camera sees it.

use deeplink_client::qr_reader;
use serde_json::json;

use crate::browser::{Browser, browse};
use crate::device::{ANDROID, Device, IPAD, IPHONE, MAC, WINDOWS};
use deeplink_testing::spawn;

async fn is_shown(browser: &Browser) -> bool {
    browser.eval("(document.getElementById('qr')?.getBoundingClientRect().width ?? 0) > 0").await
}

/// A desktop page shows a code to scan; a page on the phone that would scan it does not.
#[tokio::test]
async fn a_phone_reads_it_from_a_desktops_screen() {
    let world = spawn().await;
    let link =
        json!({"custom_id": "page", "ios_deep_link": "shop://promo/1", "web_url": "https://shop.example.com/promo"});
    world.a.make_of(&link).await;
    let url = world.a.get("/v1/links/page").await.member("url");
    browse(world, async |browser| {
        let page = browser.service("/r/page");
        let small_window = Device { width: 600, ..WINDOWS };
        for (name, device, shown) in [
            ("Mac", MAC, true),
            ("Windows", WINDOWS, true),
            ("a small window", small_window, false),
            ("iPad", IPAD, false),
            ("iPhone", IPHONE, false),
            ("Android", ANDROID, false),
        ] {
            for scheme in ["light", "dark"] {
                browser.be(device, scheme).await;
                browser.open(&page).await;
                assert_eq!(is_shown(browser).await, shown, "{name} {scheme}");
                if shown {
                    let (left, top, width, height): (f64, f64, f64, f64) = browser
                        .eval("(({ left, top, width, height }) => [left, top, width, height])(document.getElementById('qr').getBoundingClientRect())")
                        .await;
                    // A camera sees what is around it too.
                    let around = 16.0;
                    let (width, height) = (width + 2.0 * around, height + 2.0 * around);
                    let seen = browser.shot(left - around, top - around, width, height).await;
                    assert_eq!(qr_reader::read_png(&seen).ok().as_deref(), Some(&*url), "{name} {scheme}");
                }
            }
        }
    })
    .await;
}
