//! Links that are selected in their list: one checkbox selects all of them, and the tags are asked for only when they matter.

use serde_json::json;

use crate::account::{enter, look};
use crate::browser::{Browser, browse};
use crate::device::{SMALL_IPHONE, WINDOWS};
use deeplink_testing::spawn;

const SELECTED: &str = "document.querySelectorAll('[name=link]:checked').length";

/// Chooses an action, as a finger does.
async fn choose(browser: &Browser, action: &str) {
    let () = browser.eval(&format!("(document.getElementById('action').value = '{action}', null)")).await;
}

#[tokio::test]
async fn links_are_selected_and_changed_together() {
    let world = spawn().await;
    for (id, name) in [("spring-sale", "Spring sale"), ("welcome", "Welcome"), ("menu", "The menu")] {
        let url = format!("https://shop.example.com/{id}");
        world.a.make_of(&json!({"custom_id": id, "name": name, "web_url": url, "tags": ["printed"]})).await;
    }
    browse(world, async |browser| {
        enter(browser, &browser.world.a).await;
        browser.be(WINDOWS, "light").await;
        browser.open(&browser.service("/account/links?sort=oldest")).await;
        browser.click("#all").await;
        browser.until(&format!("{SELECTED} === 3")).await;
        browser.click("[value=menu]").await;
        browser.until(&format!("{SELECTED} === 2 && !document.getElementById('all').checked")).await;
        browser.until_it_says("#count", "2 selected").await;
        browser.click("[value=menu]").await;
        browser.until("document.getElementById('all').checked").await;
        browser.click("#all").await;
        browser.until(&format!("{SELECTED} === 0")).await;
        browser.click("[value=welcome]").await;
        browser.click("[value=menu]").await;

        // Only where links stay visible above it, the bar stays in view.
        for (device, position) in [(SMALL_IPHONE, "static"), (WINDOWS, "sticky")] {
            browser.be(device, "light").await;
            browser.until(&format!("getComputedStyle(document.querySelector('.bar')).position === '{position}'")).await;
        }

        assert!(!browser.is_shown("#tags").await);
        choose(browser, "add_tags").await;
        assert!(browser.is_shown("#tags").await);
        browser.click(".pick button").await;
        browser.until("document.title.startsWith('Error: ') && document.activeElement.id === 'tags'").await;
        browser.until(&format!("{SELECTED} === 2")).await;
        look(browser, "usual-links-refused").await;
        browser.be(WINDOWS, "light").await;
        browser.fill("tags", "spring, poster").await;
        browser.click(".pick button").await;
        browser.until_it_says(".notice", "Tags added to 2 links.").await;
        assert_eq!(browser.path().await, "/account/links?sort=oldest&done=links-tagged&n=2");

        browser.click("[value=welcome]").await;
        browser.click("[value=menu]").await;
        choose(browser, "delete").await;
        browser.click(".pick button").await;
        browser.until_it_says("h1", "Delete 2 links?").await;
        browser.until_it_says(".subject li:last-child", "menu\nThe menu\nhttps://shop.example.com/menu").await;
        look(browser, "usual-links-delete").await;
        browser.be(WINDOWS, "light").await;
        // A reload of what the form answered asks for nothing.
        browser.open(&browser.service("/account/selected-links?sort=oldest")).await;
        assert_eq!(browser.path().await, "/account/links?sort=oldest");
        browser.click("[value=menu]").await;
        choose(browser, "delete").await;
        browser.click(".pick button").await;
        browser.until_it_says("h1", "Delete 1 link?").await;
        browser.click("main form button").await;
        browser
            .until("location.search.endsWith('&done=links-deleted&n=1') && document.readyState === 'complete'")
            .await;
        assert_eq!(browser.world.a.get("/v1/links/menu").await.status, 404);

        // Without a script, links are selected one by one.
        browser.command("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
        browser.open(&browser.service("/account/links")).await;
        assert!(!browser.is_shown("#all").await);
        browser.click("[value=welcome]").await;
        assert!(browser.is_shown("[value=welcome]").await);
        // And the search is submitted.
        browser.fill("q", "spring-sale").await;
        browser.click(".search button").await;
        browser.until("location.search.startsWith('?q=spring-sale&') && document.readyState === 'complete'").await;
        assert_eq!(browser.text("tr.link a").await, "spring-sale");
    })
    .await;
}
