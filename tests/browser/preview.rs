//! The preview of a link: what the script shows while it is written is what the server shows. Its QR code is the server's.

use std::collections::BTreeMap;

use serde_json::json;

use crate::account::{enter, look};
use crate::axe;
use crate::browser::{Browser, browse};
use crate::device::{IPHONE, WINDOWS};
use deeplink_testing::spawn;

const TEXTS: &str =
    "Object.fromEntries([...document.querySelectorAll('[data-live]')].map((e) => [e.dataset.live, e.textContent]))";

/// Types into the form, and returns what the script shows.
async fn typed(browser: &Browser, fields: &[(&str, &str)]) -> BTreeMap<String, String> {
    let fields = json!(fields);
    let typing = format!(
        "((fields) => {{
          const {{ elements }} = document.querySelector('main form.card');
          for (const [name, value] of fields) {{
            elements[name].value = value;
            elements[name].dispatchEvent(new Event('input', {{ bubbles: true }}));
          }}
        }})({fields}) ?? null"
    );
    let () = browser.eval(&typing).await;
    browser.eval(TEXTS).await
}

#[tokio::test]
async fn a_preview_follows_what_is_typed() {
    let world = spawn().await;
    let app = json!({
        "platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345", "app_name": "Greenhouse",
    });
    world.b.post("/v1/apps", &app).await;
    let long = "Get 20% off everything in the greenhouse until Sunday";
    browse(world, async |browser| {
        for (caller, device) in [(&browser.world.a, WINDOWS), (&browser.world.b, IPHONE)] {
            enter(browser, caller).await;
            browser.be(device, "light").await;
            for fields in [
                &[("web_url", "https://shop.example.com:8443/sale")][..],
                &[("web_url", "shop"), ("social_preview.title", " <b>Sale</b> ")],
                &[("web_url", "https://shop.example.com"), ("ios_store_url", "x"), ("agent_context.cta", "Buy now")],
                &[("android_store_url", "x"), ("agent_context.cta", long), ("agent_context.description", "One.")],
                &[("android_deep_link", "x"), ("social_preview.description", "One\ntwo.")],
                &[("ios_deep_link", "x"), ("agent_context.cta", "Open in Greenhouse")],
                &[("agent_context.cta", "温室の商品が全品二十パーセント引きになりますのでお見逃しなくどうぞ")],
                &[("social_preview.image_url", "https://images.example.com/a.png")],
            ] {
                browser.open(&browser.service("/account/new-link")).await;
                assert!(!browser.is_shown("[name=preview]").await, "the script does without the button");
                let by_script = typed(browser, fields).await;
                let press = "(document.querySelector('main form.card').requestSubmit(document.querySelector('[name=preview]')), null)";
                let () = browser.eval(press).await;
                browser.until("location.hash === '#preview' && document.readyState === 'complete'").await;
                let by_server: BTreeMap<String, String> = browser.eval(TEXTS).await;
                assert_eq!(by_script, by_server, "{fields:?}");
                assert_eq!(axe::violations(browser).await, [""; 0]);
            }
        }
        // Without a script, the button does it.
        browser.command("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
        browser.open(&browser.service("/account/new-link")).await;
        assert!(browser.is_shown("[name=preview]").await);
    })
    .await;
}

/// The script does not draw codes: the button is there as soon as a design can be chosen.
#[tokio::test]
async fn the_button_previews_the_code() {
    const GROUP: &str = "details:has([name^=qr])";
    const HINT: &str = ".preview .stale .hint";
    const TEXT: &str = "Select Preview to see the code.";
    let world = spawn().await;
    browse(world, async |browser| {
        enter(browser, &browser.world.a).await;
        for (name, device) in [("desktop", WINDOWS), ("phone", IPHONE)] {
            browser.be(device, "light").await;
            browser.open(&browser.service("/account/new-link")).await;
            browser.click(&format!("{GROUP} > summary")).await;
            assert!(browser.is_shown("[name=preview]").await, "{name}");
            browser.fill("qr-fgColor", "0a3c8c").await;
            browser.click("[name=preview]").await;
            browser
                .until("location.hash === '#preview' && document.querySelector('.preview .qr')?.naturalWidth > 0")
                .await;
            assert!(browser.is_shown("[name=preview]").await, "{name}: its group is open");
            browser.capture_window(&format!("account-preview-{name}")).await;
        }
        look(browser, "usual-new-link-preview").await;
        browser.be(WINDOWS, "light").await;
        assert!(browser.is_shown(".preview .qr").await);
        browser.fill("custom-id", "spring-42").await;
        browser.until("!document.querySelector('.preview .qr')").await;
        browser.until_it_says(HINT, TEXT).await;

        // A code that is no longer shown needs the button, even if its group is closed.
        browser.click("[name=preview]").await;
        browser.until("document.querySelector('.preview .qr')?.naturalWidth > 0").await;
        browser.click(&format!("{GROUP} > summary")).await;
        browser.until(&format!("!document.querySelector('{GROUP}').open")).await;
        assert!(!browser.is_shown("[name=preview]").await);
        browser.fill("custom-id", "spring-43").await;
        browser.until_it_says(HINT, TEXT).await;
        assert!(browser.is_shown("[name=preview]").await);
        browser.click(&format!("{GROUP} > summary")).await;

        // What is wrong with the design is beside its field, which has the focus.
        browser.be(WINDOWS, "light").await;
        browser.fill("qr-fgColor", "red").await;
        browser.click("[name=preview]").await;
        browser.until("document.title.startsWith('Error: ') && document.activeElement.id === 'qr-fgColor'").await;
        assert!(browser.eval::<bool>(&format!("document.querySelector('{GROUP}').open")).await);
        browser.until_it_says(".field:has(#qr-fgColor) > .error", "Must be 3 or 6 hex digits, such as 0a7cff.").await;
    })
    .await;
}
