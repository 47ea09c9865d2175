//! The look of the documentation on every screen, light and dark, and the way through it without a script.

use serde_json::json;
use thirtyfour::By;

use crate::account::look;
use crate::browser::{Browser, browse};
use crate::device::{IPHONE, WINDOWS};
use deeplink_testing::spawn;

#[tokio::test]
async fn the_documentation_fits_every_screen() {
    browse(spawn().await, async |browser| {
        for (name, path) in [
            ("contents", "/docs"),
            ("guide", "/docs/self-hosting"),
            ("guide-with-tables", "/docs/deferred-links"),
            ("reference", "/docs/reference"),
            ("reference-page", "/docs/reference/links"),
            ("error-codes", "/docs/reference/errors"),
            ("search", "/docs/search?q=webhook+secret"),
            ("nothing-found", "/docs/search?q=quokka"),
        ] {
            browser.be(WINDOWS, "light").await;
            browser.open(&browser.service(path)).await;
            look(browser, &format!("docs-{name}")).await;
        }
    })
    .await;
}

/// Opens the link with this text, as a browser without scripts does.
async fn follow(browser: &Browser, text: &str) {
    let link = browser.driver.find(By::XPath(format!("//main//a[normalize-space()='{text}']"))).await.expect("a link");
    let url = link.prop("href").await.expect("a property").expect("an address");
    link.click().await.expect("a click");
    browser.until_at(&url).await;
}

#[tokio::test]
async fn without_scripts_people_find_their_way() {
    browse(spawn().await, async |browser| {
        browser.command("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
        browser.be(IPHONE, "light").await;
        browser.open(&browser.service("/docs")).await;
        follow(browser, "Quickstart").await;
        let next = browser.driver.find(By::Css("main .next a")).await.expect("the next guide");
        let next = next.text().await.expect("its text");
        assert!(next.starts_with("Next: "), "{next}");
        follow(browser, &next).await;
        browser.open(&browser.service("/docs")).await;
        let field = browser.driver.find(By::Id("q")).await.expect("the field");
        field.send_keys("create_link\n").await.expect("the keys");
        browser.until_at(&browser.service("/docs/search?q=create_link")).await;
        let first = browser.driver.find(By::Css("main .entries a")).await.expect("a result");
        let href = first.prop("href").await.expect("a property").expect("an address");
        assert_eq!(href, browser.service("/docs/reference/links#create_link"));
    })
    .await;
}
