//! How people use the account pages: without instructions, without scripts, with the keyboard only, and against other
//! sites that try to send their forms.

use serde_json::json;

use crate::account::enter;
use crate::browser::{Browser, browse};
use crate::device::{IPHONE, WINDOWS};
use crate::plain::{focus, press};
use deeplink_testing::{spawn, token_in};

/// The link in the newest mail, as a path.
async fn mailed_link(browser: &Browser, count: usize) -> String {
    let mails = browser.world.mails(count).await;
    let token = mails.iter().find_map(|mail| token_in(mail)).expect("a token");
    browser.world.note_secret(&token);
    format!("/v1/auth/callback?token={token}")
}

/// From the sign-in to a working key and a working link, following the pages.
async fn begin(browser: &Browser) {
    let world = &browser.world;
    browser.open(&browser.service("/account")).await;
    browser.until_it_says("h1", "Sign in").await;
    browser.fill("email", "somebody-new@example.com").await;
    browser.click("form button").await;
    browser.until_it_says("h1", "Check your email").await;
    browser.open(&browser.service(&mailed_link(browser, 1).await)).await;
    browser.click("form button").await;
    browser.until_it_says("h1", "Overview").await;
    assert_eq!(browser.path().await, "/account");
    browser.until_it_says(".steps li:first-child a", "Create a secret key").await;

    browser.click(".steps li:first-child a").await;
    browser.until_it_says("h1", "Keys").await;
    browser.click("#issue").await;
    browser.until_it_says("h1", "Your new secret key").await;
    let secret = browser.text("#secret").await;
    let program = world.somebody_with(&secret);
    assert_eq!(program.get("/v1/links").await.json()["links"], json!([]), "the key works");
    browser.click(".end a").await;
    browser.until_it_says("h1", "Keys").await;

    browser.open(&browser.service("/account")).await;
    browser.until_it_says(".steps li.done a", "Create a secret key").await;
    browser.click(".steps li:not(.done) a").await;
    browser.until_it_says("h1", "New link").await;
    browser.fill("web-url", "https://shop.example.com/sale").await;
    browser.click("main form button").await;
    browser.until_it_says(".notice", "Your link is ready.").await;
    let id = browser.text("h1").await;
    let tapped = world.nobody.tap(&id).await;
    assert_eq!((tapped.status, tapped.header("location")), (302, "https://shop.example.com/sale"));
    assert!(browser.text("p.take a").await.ends_with(&id));

    if browser.is_shown(".menu").await {
        browser.click(".menu").await;
    }
    browser.click(".leave button").await;
    browser.until_it_says(".notice", "You are signed out.").await;
    browser.open(&browser.service("/account")).await;
    browser.until_it_says("h1", "Sign in").await;
}

#[tokio::test]
async fn somebody_new_gets_to_a_key_and_a_link() {
    browse(spawn().await, async |browser| {
        browser.be(IPHONE, "light").await;
        begin(browser).await;
    })
    .await;
}

#[tokio::test]
async fn everything_works_without_scripts() {
    browse(spawn().await, async |browser| {
        browser.be(WINDOWS, "dark").await;
        browser.command("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
        begin(browser).await;
    })
    .await;
}

/// S19: reloading the page with a new key shows the list, and no second key is made.
#[tokio::test]
async fn s19_a_reload_neither_shows_nor_makes_a_key() {
    browse(spawn().await, async |browser| {
        let world = &browser.world;
        let count = async || world.db.number("SELECT COUNT(*) FROM secret_keys WHERE affiliate_id IS NULL").await;
        browser.be(WINDOWS, "light").await;
        enter(browser, &world.a).await;
        browser.open(&browser.service("/account/keys")).await;
        let before = count().await;
        browser.click("#issue").await;
        let secret = browser.text("#secret").await;
        world.note_secret(&secret);
        assert_eq!(count().await, before + 1);
        browser.command("Page.reload", json!({})).await;
        browser.until("location.search === '?done=key-shown' && document.readyState === 'complete'").await;
        assert!(browser.text(".notice").await.starts_with("That form was already submitted."));
        let page: String = browser.eval("document.documentElement.outerHTML").await;
        assert!(!page.contains(&secret) && page.contains(&secret[..18]));
        for (way, there) in [("history.back()", "''"), ("history.forward()", "'?done=key-shown'")] {
            let () = browser.eval(&format!("({way}, null)")).await;
            browser.until(&format!("location.search === {there} && document.readyState === 'complete'")).await;
            let page: String = browser.eval("document.documentElement.outerHTML").await;
            assert!(!page.contains(&secret), "{way}");
        }
        assert_eq!(count().await, before + 1, "no second key is made");
    })
    .await;
}

async fn tab_to(browser: &Browser, id: &str) {
    for _ in 0..30 {
        press(browser, "Tab", 9).await;
        let focus = focus(browser).await;
        assert!(focus.ring >= 2.0 && focus.in_sight, "{focus:?}");
        if focus.id == id {
            return;
        }
    }
    panic!("the keyboard does not get to {id}");
}

async fn write(browser: &Browser, text: &str) {
    browser.command("Input.insertText", json!({"text": text})).await;
}

#[tokio::test]
async fn the_keyboard_is_enough() {
    browse(spawn().await, async |browser| {
        browser.be(WINDOWS, "light").await;
        browser.open(&browser.service("/signin?next=/account/new-link")).await;
        browser.until("document.activeElement.id === 'email'").await;
        write(browser, "somebody-new@example.com").await;
        press(browser, "Enter", 13).await;
        browser.until("location.search === '?sent=1'").await;
        browser.open(&browser.service(&mailed_link(browser, 1).await)).await;
        press(browser, "Tab", 9).await;
        press(browser, "Enter", 13).await;
        browser.until("location.pathname === '/account/new-link' && document.readyState === 'complete'").await;

        // The navigation can be skipped.
        press(browser, "Tab", 9).await;
        let skip: String = browser.eval("document.activeElement.textContent").await;
        assert_eq!(skip, "Skip to content");
        press(browser, "Enter", 13).await;
        browser.until("document.activeElement.id === 'content'").await;
        tab_to(browser, "web-url").await;
        write(browser, "no address").await;
        press(browser, "Enter", 13).await;
        browser.until("document.title.startsWith('Error: ')").await;
        let at: String = browser.eval("document.activeElement.id").await;
        assert_eq!(at, "web-url", "the faulty field has the focus");
        // Of several faults, the summary has the focus and leads to each field.
        tab_to(browser, "custom-id").await;
        write(browser, "-").await;
        press(browser, "Enter", 13).await;
        browser.until("document.activeElement.getAttribute('role') === 'alert'").await;
        press(browser, "Tab", 9).await;
        press(browser, "Enter", 13).await;
        browser.until("document.activeElement.id === 'web-url'").await;
        let () = browser.eval("(document.activeElement.select(), null)").await;
        write(browser, "https://shop.example.com/sale").await;
        tab_to(browser, "custom-id").await;
        let () = browser.eval("(document.activeElement.select(), null)").await;
        write(browser, "by-keyboard").await;
        press(browser, "Enter", 13).await;
        browser.until("location.pathname === '/account/links/by-keyboard'").await;
    })
    .await;
    // Each focusable element is visible while it has the focus, also on a narrow screen.
    let world = spawn().await;
    world.a.make("page").await;
    browse(world, async |browser| {
        browser.be(IPHONE, "dark").await;
        enter(browser, &browser.world.a).await;
        for path in ["/account", "/account/links", "/account/links/page", "/account/keys", "/account/team"] {
            browser.open(&browser.service(path)).await;
            let count: usize = browser
                .eval(
                    "[...document.querySelectorAll('a, button, input:not([type=hidden]), select, textarea, pre, .plot')]
                       .filter((e) => e.checkVisibility()).length",
                )
                .await;
            for _ in 0..count {
                press(browser, "Tab", 9).await;
                let focus = focus(browser).await;
                assert!(focus.ring >= 2.0 && focus.in_sight, "{path}: {focus:?}");
            }
        }
    })
    .await;
}

/// S8: a page of another site sends the forms of a signed-in person, in every way that a page can.
#[tokio::test]
async fn s8_another_sites_page_can_do_nothing() {
    browse(spawn().await, async |browser| {
        let world = &browser.world;
        browser.be(WINDOWS, "light").await;
        enter(browser, &world.a).await;
        browser.open(&browser.service("/account")).await;
        browser.until_it_says("h1", "Overview").await;
        let before = world.db.dump_without_clicks().await;
        for (path, fields) in [
            ("/account/keys", "form=1"),
            ("/account/new-link", "web_url=https://shop.example.com/"),
            ("/account/team", "email=evil@example.com"),
            ("/account/signout", ""),
            ("/signin", "email=a@example.com"),
        ] {
            // The service's own notice at / lets a browser submit no form.
            browser.open("http://other.example.com/health").await;
            let action = browser.service(path);
            let send = format!(
                "(() => {{
                   const form = document.createElement('form');
                   form.method = 'post'; form.action = '{action}';
                   for (const [name, value] of new URLSearchParams('{fields}')) {{
                     const input = document.createElement('input');
                     [input.name, input.value] = [name, value];
                     form.append(input);
                   }}
                   document.body.append(form); form.submit();
                   return null;
                 }})()"
            );
            let () = browser.eval(&send).await;
            // It is refused because of its origin: if only the cookie were missing it would end at the overview.
            browser.until("location.hostname === 'localhost' && document.readyState === 'complete'").await;
            browser.until_it_says("h1", "You are signed in").await;
            assert_eq!(browser.path().await, "/signin?error=invalid_request", "{path}");
            let alert: String = browser.eval("document.querySelector('[role=alert]').textContent").await;
            assert!(alert.contains("came from another website"), "{path}: {alert}");
            // A `SameSite=Lax` cookie is one more reason why nothing happens.
            let fetched = format!(
                "fetch('{action}', {{method: 'POST', body: new URLSearchParams('{fields}'), credentials: 'include', mode: 'no-cors'}})
                   .then(() => null, () => null)"
            );
            browser.open("http://other.example.com/health").await;
            let () = browser.eval(&fetched).await;
        }
        assert!(before == world.db.dump_without_clicks().await, "something was done");
        browser.open(&browser.service("/account")).await;
        // And the person is still signed in.
        browser.until_it_says("h1", "Overview").await;
    })
    .await;
}
