//! What the script of the account pages adds: buttons that copy, and the values of charts.

use std::time::Duration;

use serde_json::{Value, json};

use crate::account::enter;
use crate::axe;
use crate::browser::{Browser, browse};
use crate::device::{IPHONE, WINDOWS};
use crate::plain::press;
use deeplink_testing::{Role, spawn, spawn_with, told_countries};
use http::Method;

async fn allow_the_clipboard(browser: &Browser) {
    let permissions = json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]});
    browser.command("Browser.grantPermissions", permissions).await;
    // Only the focused window may use the clipboard, and other tests have windows too.
    browser.command("Emulation.setFocusEmulationEnabled", json!({"enabled": true})).await;
}

/// Every button on the page copies what stands before it, and says so.
async fn copy_everything(browser: &Browser, path: &str) -> Vec<String> {
    browser.open(&browser.service(path)).await;
    let sources: Vec<String> =
        browser.eval("[...document.querySelectorAll('.copy')].map((e) => e.previousElementSibling.textContent)").await;
    for (at, source) in sources.iter().enumerate() {
        let () = browser.eval(&format!("(document.querySelectorAll('.copy')[{at}].id = 'copy-{at}', null)")).await;
        browser.tap(&format!("copy-{at}")).await;
        browser.until(&format!("document.getElementById('copy-{at}').textContent.startsWith('Copied')")).await;
        browser.until_copied(source).await;
        browser.until("document.getElementById('said').textContent.startsWith('Copied ')").await;
    }
    sources
}

#[tokio::test]
async fn buttons_copy_what_stands_before_them() {
    let world = spawn().await;
    let metadata = json!({"custom_id": "spring-42", "web_url": "https://example.com/", "metadata": {"a": "<b>"}});
    world.a.make_of(&metadata).await;
    let affiliate = world.a.post("/v1/affiliates", &json!({"name": "P", "partner_key": "page"})).await.member("id");
    let webhook = json!({"url": "https://hooks.example.com/", "events": ["conversion"]});
    let webhook = world.a.post("/v1/webhooks", &webhook).await.member("id");
    let source = world.a.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await;
    world.note_secret(source.member("webhook_url").rsplit('/').next().expect("a token"));
    browse(world, async |browser| {
        enter(browser, &browser.world.a).await;
        allow_the_clipboard(browser).await;
        browser.be(IPHONE, "light").await;
        // The example is there until the account is set up.
        let example = copy_everything(browser, "/account").await;
        assert!(example[0].starts_with("curl http"), "{example:?}");
        browser.world.own_domain(&browser.world.a, "go.example.com", Role::Primary).await;
        assert_eq!(copy_everything(browser, "/account").await, [""; 0]);
        let link = copy_everything(browser, "/account/links/spring-42").await;
        let url = browser.world.a.get("/v1/links/spring-42").await.member("url");
        assert_eq!(link, [url.as_str(), "https://example.com/", r#"{"a":"<b>"}"#]);
        browser.be(WINDOWS, "dark").await;
        let records = copy_everything(browser, "/account/domains/go.example.com").await;
        assert!(records.len() >= 2 && records[0] == "_deeplink-verify.go.example.com", "{records:?}");
        for (path, first) in [
            ("/".to_owned(), "dl login"),
            (format!("/account/webhooks/{webhook}"), "https://hooks.example.com/"),
            (format!("/account/affiliates/{affiliate}"), "page"),
        ] {
            let copied = copy_everything(browser, &path).await;
            assert!(copied[0].starts_with(first), "{path}: {copied:?}");
        }
        // A secret, and the label that comes back.
        browser.open(&browser.service("/account/keys")).await;
        browser.click("#issue").await;
        let secret = browser.text("#secret").await;
        browser.world.note_secret(&secret);
        browser.click("#secret + .copy").await;
        browser.until_copied(&secret).await;
        browser.until("document.querySelector('.copy').textContent === 'Copy the key'").await;
        assert_eq!(axe::violations(browser).await, [""; 0]);
        let _: Value = browser.eval("navigator.clipboard.writeText('nothing')").await;
        assert_eq!(browser.complaints().await, [""; 0]);
    })
    .await;
}

/// While the account of the first start has no owner, the command that opens it can be copied where strangers arrive.
#[tokio::test]
async fn the_command_that_opens_the_first_account_is_copied() {
    let world = spawn().await;
    let first = format!("tenant_id = '{}' AND is_owner", world.a.tenant);
    let placeholder = format!("UPDATE users SET email = 'owner@deeplink.invalid' WHERE {first}");
    world.db.execute(placeholder).await;
    browse(world, async |browser| {
        allow_the_clipboard(browser).await;
        for (name, path, device) in [("home", "/", IPHONE), ("signin", "/signin", WINDOWS)] {
            browser.be(device, "light").await;
            let copied = copy_everything(browser, path).await;
            assert_eq!(copied[0], "deeplink-server tenant signin --tenant owner@deeplink.invalid", "{path}");
            assert_eq!(axe::violations(browser).await, [""; 0], "{path}");
            browser.picture(&format!("account-signin-unclaimed-{name}")).await;
        }
    })
    .await;
}

/// The links with the most clicks lead to their pages, and countries have names.
#[tokio::test]
async fn the_overview_names_links_and_countries() {
    let world = spawn_with(told_countries).await;
    world.a.make("spring-42").await;
    for country in ["JP", "JP", "XX"] {
        let visit = world.nobody.browse(Method::GET, "/r/spring-42").header("cf-ipcountry", country);
        assert_eq!(visit.send().await.status, 302);
    }
    browse(world, async |browser| {
        enter(browser, &browser.world.a).await;
        let names = "[...document.querySelectorAll('[data-countries] dt')].map((name) => name.textContent.trim())";
        browser.be(WINDOWS, "light").await;
        browser.open(&browser.service("/account")).await;
        let named: Vec<String> = browser.eval(names).await;
        assert_eq!(named, ["Japan", "Unknown"]);
        let href: String =
            browser.eval("document.querySelector('[aria-labelledby=top-links] dt a').getAttribute('href')").await;
        assert_eq!(href, "/account/links/spring-42");
        assert_eq!(axe::violations(browser).await, [""; 0]);
    })
    .await;
}

/// A page that came over plain http has no clipboard, and without scripts there are no buttons.
#[tokio::test]
async fn without_a_clipboard_the_text_is_selected_and_without_scripts_there_are_no_buttons() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    browse(world, async |browser| {
        enter(browser, &browser.world.a).await;
        allow_the_clipboard(browser).await;
        browser.be(WINDOWS, "light").await;
        browser.open(&browser.service("/account/links/spring-42")).await;
        let hide = "(window.kept = navigator.clipboard, Object.defineProperty(navigator, 'clipboard', {value: undefined}), null)";
        let () = browser.eval(hide).await;
        browser.click(".take .copy").await;
        browser.until("/^(Copied|Selected)/.test(document.querySelector('.take .copy').textContent)").await;
        let url = browser.world.a.get("/v1/links/spring-42").await.member("url");
        assert_eq!(browser.eval::<String>("String(getSelection())").await, url);
        browser.command("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
        browser.open(&browser.service("/account/links/spring-42")).await;
        assert!(!browser.is_shown(".take .copy").await, "a button that does nothing is not shown");
    })
    .await;
}

#[tokio::test]
async fn a_chart_reads_its_values_to_a_mouse_and_to_the_keyboard() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for day in 0..3 {
        for _ in 0..=day {
            world.a.tap("spring-42").await;
        }
        world.clock.advance(Duration::from_hours(24));
    }
    browse(world, async |browser| {
        enter(browser, &browser.world.a).await;
        for device in [IPHONE, WINDOWS] {
            browser.be(device, "light").await;
            browser.open(&browser.service("/account/links/spring-42")).await;
            let tip = "document.querySelector('.tip')";
            let () = browser.eval("(document.querySelector('.plot').scrollIntoView({block: 'center'}), null)").await;
            let (left, right, y): (f64, f64, f64) = browser
                .eval("(({left, right, top}) => [left, right, top + 40])(document.querySelector('.plot svg').getBoundingClientRect())")
                .await;
            let days: usize = browser.eval("document.querySelectorAll('.plot rect').length").await;
            let width = (right - left) / f64::from(u32::try_from(days).expect("a month"));
            // The first, the one before the last, which has three clicks, and the last.
            for (x, ends) in [(left + 1.0, ": 0 clicks"), (right - 1.5 * width, ": 3 clicks"), (right - 1.0, ": 0 clicks")] {
                browser.point_at(x, y).await;
                browser.until(&format!("!{tip}.hidden && {tip}.textContent.endsWith('{ends}')")).await;
                // The column is marked from top to bottom, even one of 0,.
                let marked: bool = browser
                    .eval(&format!(
                        "(({{height, left, right}}) => height > 100 && left <= {x} && {x} <= right)(document.querySelector('.plot .at path').getBoundingClientRect())"
                    ))
                    .await;
                assert!(marked, "no column is marked at {x}");
                let (from, to): (f64, f64) =
                    browser.eval(&format!("(({{left, right}}) => [left, right])({tip}.getBoundingClientRect())")).await;
                assert!(from >= left - 0.5 && to <= right + 0.5, "{from} to {to} is outside {left} to {right}");
            }
            browser.picture(&format!("account-tip-{}", device.width)).await;
            browser.point_at(left, 1.0).await;
            browser.until(&format!("{tip}.hidden || matchMedia('(pointer: coarse)').matches")).await;
            let () = browser.eval("(document.querySelector('.plot').focus(), null)").await;
            for (key, code, said) in [("End", 35, ": 0 clicks"), ("ArrowLeft", 37, ": 3 clicks"), ("ArrowLeft", 37, ": 2 clicks")] {
                press(browser, key, code).await;
                browser.until(&format!("!{tip}.hidden && {tip}.textContent.endsWith('{said}')")).await;
                browser.until(&format!("document.getElementById('said').textContent === {tip}.textContent")).await;
            }
            assert_eq!(axe::violations(browser).await, [""; 0]);
            press(browser, "Escape", 27).await;
            browser.until(&format!("{tip}.hidden")).await;
        }
    })
    .await;
}
