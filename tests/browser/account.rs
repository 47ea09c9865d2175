//! The look of the account and sign-in pages: on every screen size, light and dark, empty, with typical content, and
//! with the longest texts allowed.

use std::time::Duration;

use deeplink_core::secret::Token;
use deeplink_server::config::{Config, OauthProvider, StripeAccount, StripePrices};
use serde::Deserialize;
use serde_json::json;

use crate::axe;
use crate::browser::{Browser, LOADED, browse};
use crate::device::{Device, IPHONE, WINDOWS};
use crate::scene::{longest, sentence};
use deeplink_testing::stripe::{PRICES, SECRET_KEY, Stripe, WEBHOOK_SECRET};
use deeplink_testing::{Caller, Role, spawn, spawn_with};

/// The widths that the pages are made for, in CSS pixels, including the narrowest phone.
const SCREENS: [(&str, Device); 5] = [
    ("small-phone", Device { width: 320, height: 568, ..IPHONE }),
    ("phone", IPHONE),
    ("tablet", Device { width: 768, height: 1_024, ..IPHONE }),
    ("desktop", DESKTOP),
    ("wide", Device { width: 1_920, height: 1_080, ..WINDOWS }),
];
const DESKTOP: Device = Device { width: 1_280, height: 800, ..WINDOWS };

/// Maximum bytes of a page with its style and script, before compression, unless it is full of the longest texts.
const MAX_BYTES: u64 = 60 * 1_024;

/// The findings about a page.
#[derive(Debug, Deserialize)]
struct Page {
    refused: Vec<String>,
    scroll_width: f64,
    /// Elements that reach beyond the left or right edge of the screen.
    outside: Vec<String>,
    /// Elements that reach beyond the card that they are in, unless they can be scrolled there.
    beyond_card: Vec<String>,
    /// Tap targets smaller than 24 by 24 (WCAG 2.2), unless they are in a sentence.
    small: Vec<String>,
    /// Scripts besides the page's own, and attributes that would run one.
    scripts: Vec<String>,
}

/// A function of the device's width: the window of a touch screen grows with a page that is too wide.
const MEASURE: &str = "((width) => {
  const name = (e) => e.tagName + '#' + e.id + '.' + e.className + ' ' + e.textContent.slice(0, 40);
  const boxes = [...document.body.querySelectorAll('*')].map((e) => [e, e.getBoundingClientRect()])
    .filter(([e, box]) => box.width > 1 && !e.closest('.skip, pre, .cut, .scroll'));
  const scrolls = (e) => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
  const scrolled = (e, card) => e !== card && (scrolls(e) || scrolled(e.parentElement, card));
  const leaves = (e, box) => {
    const card = e.closest('main .card'), edge = card?.getBoundingClientRect();
    return card && (box.left < edge.left - 0.5 || box.right > edge.right + 0.5) && !scrolled(e, card);
  };
  const tapped = (e) => ['A', 'BUTTON', 'INPUT', 'SELECT', 'TEXTAREA'].includes(e.tagName) && getComputedStyle(e).display !== 'inline';
  const own = (e) => e.nonce && !e.src && e.parentNode === document.head && e === document.querySelector('script');
  const runs = (e) => (e.tagName === 'SCRIPT' && !own(e)) || [...e.attributes].some((a) => a.name.startsWith('on') || a.name === 'style');
  return {
    refused: seen.refused, scroll_width: document.documentElement.scrollWidth,
    outside: boxes.filter(([e, box]) => box.left < -0.5 || box.right > width + 0.5).map(([e]) => name(e)),
    beyond_card: boxes.filter(([e, box]) => leaves(e, box)).map(([e]) => name(e)),
    small: boxes.filter(([e, box]) => tapped(e) && (box.width < 24 || box.height < 24)).map(([e]) => name(e)),
    scripts: [...document.querySelectorAll('*')].filter(runs).map(name),
  };
})";
const TWO_FRAMES: &str = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))";

async fn look_at_all<P: AsRef<str>>(browser: &Browser, kind: &str, pages: &[(&str, P)]) {
    for (name, path) in pages {
        for (screen, device) in SCREENS {
            browser.be(device, "light").await;
            // On a phone it is laid out as on a small one. Movement caused by resizing the window is not a layout shift.
            if screen != "phone" {
                browser.open(&browser.service(path.as_ref())).await;
                let () = browser.eval(TWO_FRAMES).await;
                let (shift, bytes): (f64, u64) =
                    browser.eval("[seen.shift, performance.getEntriesByType('navigation')[0].decodedBodySize]").await;
                assert!(shift < 0.0001, "{kind} {name} {screen} moved by {shift}");
                assert!(bytes <= MAX_BYTES || kind == "longest", "{kind} {name} has {bytes} bytes");
            }
            look_at(browser, &format!("{kind}-{name}"), screen, device).await;
        }
    }
}

/// Checks the open page, in the windows of all devices.
pub(crate) async fn look(browser: &Browser, name: &str) {
    browser.until(LOADED).await;
    for (screen, device) in SCREENS {
        browser.be(device, "light").await;
        look_at(browser, name, screen, device).await;
    }
}

/// Checks the open page on one screen. Whether it is dark and what axe finds depend little on the width: both are looked at
/// on the smallest and the largest screen.
async fn look_at(browser: &Browser, name: &str, screen: &str, device: Device) {
    let is_extreme = screen == SCREENS[0].0 || screen == SCREENS[SCREENS.len() - 1].0;
    for scheme in ["light", "dark"].into_iter().filter(|scheme| is_extreme || *scheme == "light") {
        browser.prefer(&[("prefers-color-scheme", scheme)]).await;
        let () = browser.eval(TWO_FRAMES).await;
        let what = format!("{name} {screen} {scheme}");
        let page: Page = browser.eval(&format!("{MEASURE}({})", device.width)).await;
        browser.picture(&format!("account-{name}-{screen}-{scheme}")).await;
        assert!(page.refused.is_empty() && page.scripts.is_empty(), "{what}: {page:?}");
        let fits = page.scroll_width <= f64::from(device.width) && page.outside.is_empty();
        assert!(fits && page.small.is_empty(), "{what} does not fit its screen: {page:?}");
        assert!(page.beyond_card.is_empty(), "{what} does not fit its cards: {page:?}");
        if is_extreme {
            assert_eq!(axe::violations(browser).await, [""; 0], "{what}");
        }
    }
}

/// Gives the browser a session, as after a sign-in.
pub(crate) async fn enter(browser: &Browser, caller: &Caller) {
    let value = browser.world.session_of(caller).await;
    let url = browser.service("/");
    let cookie = json!({"name": "session_token", "value": value, "url": url, "httpOnly": true, "sameSite": "Lax"});
    browser.command("Network.setCookie", cookie).await;
}

#[tokio::test]
async fn every_page_fits_every_screen_without_content() {
    let world = spawn().await;
    for partner in [&world.a1, &world.a2] {
        assert_eq!(world.a.delete(&format!("/v1/affiliates/{}", partner.affiliate_id())).await.status, 204);
    }
    browse(world, async |browser| {
        enter(browser, &browser.world.a).await;
        let pages = [
            ("overview", "/account"),
            ("links", "/account/links"),
            ("new-link", "/account/new-link"),
            ("domains", "/account/domains"),
            ("apps", "/account/apps"),
            ("ios-app", "/account/new-app?platform=ios"),
            ("android-app", "/account/new-app?platform=android"),
            ("keys", "/account/keys"),
            ("sources", "/account/sources"),
            ("webhooks", "/account/webhooks"),
            ("affiliates", "/account/affiliates"),
            ("team", "/account/team"),
            ("plan", "/account/plan"),
            ("settings", "/account/settings"),
            ("delete-account", "/account/settings/delete"),
            ("audit", "/account/audit"),
            ("deleted-links", "/account/deleted-links"),
            ("nothing", "/account/links/no-such-link"),
        ];
        look_at_all(browser, "empty", &pages).await;
    })
    .await;
}

#[tokio::test]
async fn every_page_fits_every_screen_with_what_is_usual() {
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    world.db.execute("UPDATE tenants SET plan_tier = 'pro', time_zone = 'Europe/Berlin'").await;
    let owner = world.b.clone();
    world.own_domain(&owner, "go.example.com", Role::Primary).await;
    for (id, title) in [("spring-sale", "Spring sale at the greenhouse"), ("welcome", "Welcome"), ("menu", "The menu")]
    {
        owner
            .make_of(&json!({
                "custom_id": id, "web_url": format!("https://shop.example.com/{id}"), "ios_deep_link": "shop://sale",
                "android_store_url": "https://play.google.com/store/apps/details?id=com.example.app",
                "social_preview": {"title": title, "description": "Seeds, tools and pots."}, "metadata": {"campaign": 42},
                "agent_context": {"action": "purchase", "cta": "Claim the discount", "description": "Once per customer."},
                "tags": ["spring", "newsletter", "printed in the catalog"],
            }))
            .await;
    }
    world.db.execute("UPDATE links SET status = 'flagged' WHERE link_id = 'menu'").await;
    for day in 0..30_u64 {
        for _ in 0..day * day % 17 {
            owner.browse(http::Method::GET, "/spring-sale").header("host", "go.example.com").send().await;
        }
        for number in 0..day % 4 {
            let (install, user) = (format!("install-{day}-{number}"), format!("user-{day}"));
            let touch = json!({"link_id": "spring-sale", "install_id": install, "app_version": "1.0"});
            assert_eq!(owner.post("/v1/lifecycle/attribute", &touch).await.status, 200);
            let identify = json!({"install_id": install, "user_id": user});
            assert_eq!(owner.put("/v1/lifecycle/identify", &identify).await.status, 200);
            let kind =
                ["signup", "purchase", "subscribe-for-a-year"][usize::from(number > 0) + usize::from(day % 7 == 0)];
            let convert = json!({"user_id": user, "type": kind, "amount_cents": 4990, "currency": "EUR"});
            assert_eq!(owner.post("/v1/lifecycle/convert", &convert).await.status, 200);
        }
        world.clock.advance(Duration::from_hours(24));
    }
    let url = "https://shop.example.com/spring-sale?utm_source=newsletter&utm_medium=email";
    let moved = json!({"name": "Spring sale, poster", "web_url": url, "imported_clicks": 1_204});
    for change in [moved, json!({"name": "Spring sale"})] {
        assert_eq!(owner.put("/v1/links/spring-sale", &change).await.status, 200);
    }
    owner.make_of(&json!({"custom_id": "winter-sale", "name": "Winter sale"})).await;
    assert_eq!(owner.delete("/v1/links/winter-sale").await.status, 204);
    world.claim_domain(&owner, "open.example.com", Role::Alternate).await;
    let app =
        json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345", "app_name": "Greenhouse"});
    let app = owner.post("/v1/apps", &app).await.member("id");
    let android = json!({
        "platform": "android", "package_name": "com.example.app", "app_name": "Greenhouse", "theme_color": "#2e7d4f",
        "sha256_fingerprints": ["AB".repeat(32), "CD".repeat(32)], "icon_url": "https://images.example.com/icon.png",
    });
    let android = owner.post("/v1/apps", &android).await.member("id");
    let affiliate = owner.post("/v1/affiliates", &json!({"name": "Spring partner", "partner_key": "spring"})).await;
    let affiliate = affiliate.member("id");
    let minted = owner.post_nothing(&format!("/v1/affiliates/{affiliate}/credentials")).await;
    let (partner, credential) = (minted.member("api_key"), minted.member("id"));
    world.note_secret(&partner);
    world
        .somebody_with(&partner)
        .make_of(&json!({"custom_id": "partner-sale", "web_url": "https://shop.example.com/"}))
        .await;
    for _ in 0..3 {
        owner.browse(http::Method::GET, "/partner-sale").header("host", "go.example.com").send().await;
    }
    let made = owner.post("/v1/auth/publishable-keys", &json!({"domain": "go.example.com"})).await;
    world.note_secret(&made.member("key"));
    let publishable = made.member("id");
    let keys = owner.get("/v1/auth/secret-keys").await.json();
    let key = keys["keys"][0]["id"].as_str().expect("a key").to_owned();
    let mut source = String::new();
    for name in ["Shop", "Till in the greenhouse"] {
        source = owner.post("/v1/sources", &json!({"name": name, "source_type": "custom"})).await.member("id");
    }
    let webhook = json!({"url": "https://hooks.example.com/deeplink", "events": ["click", "conversion"]});
    let webhook = owner.post("/v1/webhooks", &webhook).await.member("id");
    let delivery = owner.post(&format!("/v1/webhooks/{webhook}/test"), &json!({})).await.member("id");
    let log = json!([
        {"at": world.clock.now().as_millis(), "ms": 250, "status": 500, "answer": "Something went wrong"},
        {"at": world.clock.now().as_millis(), "ms": 10_000, "error": "there was no response within 10 seconds"},
    ]);
    world.db.execute(format!("UPDATE deliveries SET state = 2, log = '{log}'")).await;
    let user = owner.post("/v1/auth/users", &json!({"email": "new@example.com"})).await.member("id");
    browse(world, async |browser| {
        enter(browser, &browser.world.b).await;
        let affiliate = format!("/account/affiliates/{affiliate}");
        let pages = [
            ("overview", "/account".to_owned()),
            ("overview-year", "/account?range=12m".to_owned()),
            ("overview-dates", "/account?from=2026-11-20&to=2026-11-01".to_owned()),
            ("links", "/account/links?done=link-deleted".to_owned()),
            ("links-none-found", "/account/links?q=winter".to_owned()),
            ("new-link", "/account/new-link".to_owned()),
            ("links-found", "/account/links?q=sale".to_owned()),
            ("links-most-clicks", "/account/links?created=30d&sort=clicks".to_owned()),
            ("link", "/account/links/spring-sale?done=link-made".to_owned()),
            ("edit", "/account/links/spring-sale/edit".to_owned()),
            ("delete", "/account/links/spring-sale/delete".to_owned()),
            ("link-qr", "/account/links/spring-sale/qr?qr.dotType=classy".to_owned()),
            ("link-history", "/account/links/spring-sale/history".to_owned()),
            ("deleted-links", "/account/deleted-links".to_owned()),
            ("domains", "/account/domains".to_owned()),
            ("domain", "/account/domains/go.example.com".to_owned()),
            ("delete-domain", "/account/domains/go.example.com/delete".to_owned()),
            ("claim", "/account/domains/open.example.com?done=domain-added".to_owned()),
            ("apps", "/account/apps".to_owned()),
            ("app", format!("/account/apps/{app}")),
            ("android-app", format!("/account/apps/{android}")),
            ("delete-app", format!("/account/apps/{app}/delete")),
            ("keys", "/account/keys".to_owned()),
            ("delete-key", format!("/account/keys/{key}/delete")),
            ("delete-publishable", format!("/account/keys/publishable/{publishable}/delete")),
            ("affiliates", "/account/affiliates".to_owned()),
            ("affiliate", affiliate.clone()),
            ("delete-affiliate", format!("{affiliate}/delete")),
            ("delete-credential", format!("{affiliate}/credentials/{credential}/delete")),
            ("sources", "/account/sources?done=source-deleted".to_owned()),
            ("delete-source", format!("/account/sources/{source}/delete")),
            ("webhooks", "/account/webhooks?done=webhook-deleted".to_owned()),
            ("webhook", format!("/account/webhooks/{webhook}")),
            ("rotate", format!("/account/webhooks/{webhook}/secret")),
            ("delete-webhook", format!("/account/webhooks/{webhook}/delete")),
            ("deliveries", format!("/account/webhooks/{webhook}/deliveries")),
            ("delivery", format!("/account/webhooks/{webhook}/deliveries/{delivery}")),
            ("settings", "/account/settings?done=settings-saved".to_owned()),
            ("audit", "/account/audit".to_owned()),
            ("team", "/account/team".to_owned()),
            ("remove", format!("/account/team/{user}/remove")),
            ("plan", "/account/plan".to_owned()),
        ];
        look_at_all(browser, "usual", &pages).await;
        // What forms answer.
        browser.open(&browser.service("/account/domains/open.example.com")).await;
        browser.click("main form button").await;
        browser.until("document.querySelector('[role=alert]') !== null").await;
        look(browser, "usual-not-verified").await;
        browser.open(&browser.service("/account/links/spring-sale")).await;
        browser.click("figure + details > summary").await;
        look(browser, "usual-table").await;
        browser.open(&browser.service("/account/keys")).await;
        browser.click("#issue").await;
        browser.world.note_secret(&browser.text("#secret").await);
        look(browser, "usual-secret").await;
        browser.open(&browser.service("/account/keys")).await;
        browser.click("[aria-labelledby=publishable] form button").await;
        browser.world.note_secret(&browser.text("#secret").await);
        look(browser, "usual-publishable").await;
        browser.open(&browser.service("/account/sources")).await;
        browser.click("td form button").await;
        let address = browser.text("#secret").await;
        browser.world.note_secret(address.rsplit('/').next().expect("a token"));
        look(browser, "usual-source").await;
        browser.open(&browser.service("/account/new-link")).await;
        browser.fill("web-url", "shop.example.com").await;
        browser.fill("custom-id", "-").await;
        browser.click(".fold summary").await;
        browser.fill("ios-store-url", "https://example.com/").await;
        browser.click("main form button").await;
        browser.until("document.title.startsWith('Error: ')").await;
        look(browser, "usual-wrong").await;
    })
    .await;
}

#[tokio::test]
async fn every_page_fits_every_screen_with_the_longest_content() {
    let world = spawn().await;
    let owner = world.a.clone();
    let long = "Donaudampfschifffahrtsgesellschaft";
    for (id, text) in
        [("a", long), ("b", "The quick brown fox jumps over the lazy dog, and "), ("c", "تخفيضات الربيع في المشتل ")]
    {
        let mut link = longest(text);
        link["custom_id"] = format!("{id}{}", "x".repeat(63)).into();
        link["web_url"] = format!("https://shop.example.com/{}", "path".repeat(300)).into();
        link["ios_deep_link"] = format!("shop://{}", "deep".repeat(300)).into();
        owner.make_of(&link).await;
    }
    let id = format!("a{}", "x".repeat(63));
    owner.put(&format!("/v1/links/{id}"), &json!({"enabled": true, "tags": []})).await;
    let deleted = format!("b{}", "x".repeat(63));
    assert_eq!(owner.delete(&format!("/v1/links/{deleted}")).await.status, 204);
    assert_eq!(world.nobody.browse(http::Method::GET, &format!("/r/{id}")).send().await.status, 200);
    let touch = json!({"link_id": id, "install_id": "i", "app_version": "1"});
    assert_eq!(owner.post("/v1/lifecycle/attribute", &touch).await.status, 200);
    world.clock.advance(Duration::from_secs(1));
    let identify = json!({"install_id": "i", "user_id": "u"});
    assert_eq!(owner.put("/v1/lifecycle/identify", &identify).await.status, 200);
    for number in 0..12 {
        let kind = format!("{number:02}{}", &"Donaudampfschifffahrtsgesellschaft".repeat(2)[..62]);
        let convert = json!({"user_id": "u", "type": kind});
        assert_eq!(owner.post("/v1/lifecycle/convert", &convert).await.status, 200);
    }
    let domain = format!("{}.{}.example.com", "a".repeat(63), "b".repeat(63));
    world.claim_domain(&owner, &domain, Role::Primary).await;
    let app = json!({"platform": "ios", "bundle_id": format!("com.{}", "example".repeat(20)), "team_id": "ABCDE12345", "app_name": sentence(long, 100), "icon_url": format!("https://images.example.com/{}", "x".repeat(2_000))});
    let app = owner.post("/v1/apps", &app).await.member("id");
    let affiliate = json!({"name": sentence(long, 64), "partner_key": "p".repeat(32)});
    let affiliate = owner.post("/v1/affiliates", &affiliate).await.member("id");
    for name in [sentence(long, 64), sentence("تخفيضات الربيع ", 64)] {
        owner.post("/v1/sources", &json!({"name": name, "source_type": "custom"})).await;
    }
    let webhook = json!({"url": format!("https://hooks.example.com/{}", "x".repeat(2_000)), "events": ["click", "attribute", "identify", "conversion"]});
    let webhook = owner.post("/v1/webhooks", &webhook).await.member("id");
    let delivery = owner.post(&format!("/v1/webhooks/{webhook}/test"), &json!({})).await.member("id");
    let log = json!([{"at": world.clock.now().as_millis(), "ms": 250, "status": 500, "answer": sentence(long, 1_024)}]);
    world.db.execute(format!("UPDATE deliveries SET state = 2, log = '{log}'")).await;
    let email = format!("{}@{}.example.com", "e".repeat(64), "f".repeat(63));
    world.db.execute(format!("UPDATE users SET email = '{email}' WHERE email = 'a@example.com'")).await;
    browse(world, async |browser| {
        enter(browser, &browser.world.a).await;
        let id = format!("a{}", "x".repeat(63));
        let pages = [
            ("overview", "/account".to_owned()),
            ("links", "/account/links".to_owned()),
            ("link", format!("/account/links/{id}")),
            ("link-arabic", format!("/account/links/c{}", "x".repeat(63))),
            ("edit", format!("/account/links/{id}/edit")),
            ("delete", format!("/account/links/{id}/delete")),
            ("link-history", format!("/account/links/{id}/history")),
            ("deleted-links", "/account/deleted-links".to_owned()),
            ("domains", "/account/domains".to_owned()),
            ("domain", format!("/account/domains/{domain}")),
            ("apps", "/account/apps".to_owned()),
            ("app", format!("/account/apps/{app}")),
            ("settings", "/account/settings".to_owned()),
            ("delete-account", "/account/settings/delete".to_owned()),
            ("audit", "/account/audit".to_owned()),
            ("sources", "/account/sources".to_owned()),
            ("affiliates", "/account/affiliates".to_owned()),
            ("affiliate", format!("/account/affiliates/{affiliate}")),
            ("webhooks", "/account/webhooks".to_owned()),
            ("webhook", format!("/account/webhooks/{webhook}")),
            ("deliveries", format!("/account/webhooks/{webhook}/deliveries")),
            ("delivery", format!("/account/webhooks/{webhook}/deliveries/{delivery}")),
            ("team", "/account/team".to_owned()),
        ];
        look_at_all(browser, "longest", &pages).await;
    })
    .await;
}

/// The plan: every state of a subscription, and the redirect to the processor's page, which is on another domain.
#[tokio::test]
async fn the_plan_fits_every_screen_and_leads_to_the_processor() {
    let stripe = Stripe::start().await;
    let world = spawn_with(|config| {
        let [pro, business, scale] = PRICES;
        let prices = StripePrices::new(pro, business, scale);
        config.stripe = Some(StripeAccount::new(SECRET_KEY, &[WEBHOOK_SECRET], stripe.base(), prices));
        config.enforce_quotas = true;
    })
    .await;
    world.a.make("spring-sale").await;
    let now = world.clock.now();
    let (since, end) = (now.plus_days(-2).as_millis(), now.plus_days(28).as_millis());
    browse(world, async |browser| {
        let db = &browser.world.db;
        enter(browser, &browser.world.a).await;
        let pages = [("free", "/account/plan"), ("confirming", "/account/plan?done=plan-paid")];
        look_at_all(browser, "plan", &pages).await;
        browser.be(WINDOWS, "light").await;
        browser.open(&browser.service("/account/plan")).await;
        browser.click(".offers li:first-child button").await;
        browser.until("location.hostname === 'checkout.stripe.test'").await;
        assert_eq!(stripe.sessions(), 1);

        let paid = format!(
            "UPDATE tenants SET plan_tier = 'pro', subscription_status = 'active', current_period_end = {end},
                stripe_customer = 'cus_1', stripe_subscription = 'sub_1' WHERE id = '{}'",
            browser.world.a.tenant
        );
        db.execute(paid).await;
        let pages = [("paid", "/account/plan"), ("cancel", "/account/plan/cancel"), ("overview", "/account")];
        look_at_all(browser, "plan", &pages).await;
        for (name, change) in [
            ("ending", "cancel_scheduled = TRUE".to_owned()),
            ("late", format!("subscription_status = 'past_due', past_due_since = {since}, cancel_scheduled = FALSE")),
            ("granted", "subscription_status = 'active', comp_tier = 'scale'".to_owned()),
            ("over", "subscription_status = 'canceled', plan_tier = 'free', comp_tier = NULL".to_owned()),
        ] {
            db.execute(format!("UPDATE tenants SET {change} WHERE stripe_customer = 'cus_1'")).await;
            look_at_all(browser, "plan", &[(name, "/account/plan")]).await;
        }
    })
    .await;
}

fn with_providers(config: &mut Config) {
    let provider = || Some(OauthProvider::new("id", "secret", "http://127.0.0.1:1".parse().expect("a URL")));
    (config.oauth.google, config.oauth.github) = (provider(), provider());
}

#[tokio::test]
async fn signing_in_fits_every_screen() {
    browse(spawn_with(with_providers).await, async |browser| {
        let token = "0".repeat(64);
        let (hash, tenant) = (Token::new(token.as_str()).hash(), &browser.world.a.tenant);
        let one_time = format!("INSERT INTO one_time_links VALUES ('{hash}', '{tenant}', {})", i64::MAX);
        browser.world.db.execute(one_time).await;
        let user = browser.world.db.texts(format!("SELECT id FROM users WHERE tenant_id = '{tenant}'")).await.remove(0);
        let end = i64::MAX;
        let sign_in =
            format!("INSERT INTO sign_ins (hash, email, expires_at) VALUES ('{hash}', 'a@example.com', {end})");
        browser.world.db.execute(sign_in).await;
        for (token, purpose) in [("1", "signup"), ("2", "invite")] {
            let hash = Token::new(token.repeat(64)).hash();
            let values = format!("'{hash}', '{purpose}', '{tenant}', '{user}', {end}");
            let columns = "hash, purpose, tenant_id, user_id, expires_at";
            browser.world.db.execute(format!("INSERT INTO tokens ({columns}) VALUES ({values})")).await;
        }
        let mailed = |path: &str, token: &str| format!("{path}?token={}", token.repeat(64));
        let callback = mailed("/v1/auth/callback", "0");
        let (signup, invite) = (mailed("/account/confirm", "1"), mailed("/v1/auth/verify", "2"));
        let once = format!("/signin/once?token={token}");
        let pages = [
            ("once", once.as_str()),
            ("once-invalid", "/signin?error=once_invalid"),
            ("signin", "/signin"),
            ("home", "/"),
            ("missing", "/foo/bar"),
            ("expired", "/signin?error=link_expired"),
            ("joined", "/signin?invite=accepted"),
            ("sent", "/signin?sent=1"),
            ("signup", &signup),
            ("callback", &callback),
            ("invite", &invite),
            ("signup-invalid", "/signin?error=signup_invalid"),
        ];
        look_at_all(browser, "signin", &pages).await;
        browser.open(&browser.service("/signin")).await;
        browser.fill("email", "you@example").await;
        browser.click("main form button").await;
        browser.until("document.title.startsWith('Error: ')").await;
        look(browser, "signin-wrong").await;
    })
    .await;
    browse(spawn_with(|config| config.sessions = false).await, async |browser| {
        look_at_all(browser, "signin", &[("off", "/signin")]).await;
    })
    .await;
}
