//! One link: what visitors get, its image, its stores.

use deeplink_client::LinkStatus;
use deeplink_client::doctor::Status::{self, Fail, Ok, Skip, Warn};

use super::assert_cases;
use super::double::{Reply, Request};
use super::scene::{INTENT, PRIMARY, Scene, WEB, page, png};
use deeplink_doubles::authority::Identity;

/// What each kind of visitor gets.
async fn resolves(scene: Scene) -> Vec<(Status, String)> {
    let seen = scene.examine().await;
    let of_link = seen.checks.iter().filter(|check| check.id == "link.resolve");
    of_link.map(|check| (check.status, check.message.clone())).collect()
}

fn assert_all(found: &[(Status, String)], expected: [(Status, &str); 5]) {
    let found: Vec<_> = found.iter().map(|(status, message)| (*status, message.as_str())).collect();
    assert_eq!(found, expected);
}

/// A link with apps on its own host, which is reached directly.
fn rich() -> Scene {
    let mut scene = Scene::default();
    scene.domains.truncate(1);
    scene.link(|link| {
        link.url = format!("https://{PRIMARY}/spring-42");
        link.ios_deep_link = Some("shop://p/42".into());
        link.android_deep_link = Some("shop://p/42".into());
        link.web_url = Some(WEB.into());
    });
    scene
}

#[tokio::test]
async fn a_link_as_each_visitor_sees_it() {
    let mut scene = Scene::default();
    scene.link(|link| link.url = format!("https://{PRIMARY}/spring-42"));
    assert_all(
        &resolves(scene).await,
        [
            (Ok, "iPhone: redirect to https://example.com/ (D14)"),
            (Ok, "Android: redirect to https://example.com/ (D14)"),
            (Ok, "desktop: redirect to https://example.com/ (D14)"),
            (Ok, "facebookexternalhit: redirect to https://example.com/ (D14)"),
            (Ok, "JSON: active"),
        ],
    );
    assert_all(
        &resolves(rich()).await,
        [
            (Ok, "iPhone: page with button to shop://p/42 (D2)"),
            (
                Ok,
                "Android: page with button to intent://p/42#Intent;scheme=shop;package=com.example.app;\
                 S.browser_fallback_url=https%3A%2F%2Fexample.com%2F%3Fa%3D1%26\u{2026} (D7)",
            ),
            (Ok, "desktop: page with button to https://example.com/?a=1&b='2' (D13)"),
            (Ok, "facebookexternalhit: page with button to https://example.com/?a=1&b='2' (D13)"),
            (Ok, "JSON: active"),
        ],
    );
    let mut broken = rich();
    broken.instead(|request| request.agent.contains("iPhone"), Reply::redirect("https://example.com/"));
    broken.instead(|request| request.agent.contains("Pixel"), Reply::new(200, "text/html", "<html></html>"));
    broken.instead(
        |request| request.agent.contains("Windows"),
        Reply::new(200, "text/html", page(Some(WEB))).header("vary", "Accept").header("cache-control", "no-store"),
    );
    broken.instead(
        |request| request.agent.contains("facebook"),
        Reply::new(200, "text/html", page(Some(WEB)))
            .header("vary", "accept, user-agent, sec-ch-ua-platform")
            .header("cache-control", "public")
            .without("location"),
    );
    broken.instead(|request| request.agent.contains("curl"), Reply::new(200, "text/html", page(None)));
    assert_all(
        &resolves(broken).await,
        [
            (Fail, "iPhone: HTTP 302 to https://example.com/ of type \"text/plain\", expected the page of row D2"),
            (Fail, "Android: a page without og:title, expected the page of row D7"),
            (Fail, "desktop: the Vary header does not contain user-agent"),
            (Fail, "facebookexternalhit: the Cache-Control header does not contain no-store"),
            (Fail, "JSON: HTTP 200 of type \"text/html\", expected JSON"),
        ],
    );
    let mut ended = Scene::default();
    ended.link(|link| {
        link.url = format!("https://{PRIMARY}/spring-42");
        link.status = LinkStatus::Expired;
    });
    ended.instead(
        |request| request.accept.starts_with("text/html") && request.target == "/spring-42",
        Reply::new(410, "text/html", "")
            .header("vary", "accept, user-agent, sec-ch-ua-platform")
            .header("cache-control", "no-store"),
    );
    let found = resolves(ended).await;
    assert_eq!(found[0], (Warn, "iPhone: notice: the link is expired".to_owned()));
    assert_eq!(found[4], (Ok, "JSON: expired".to_owned()));
    let mut unknown = Scene::default();
    unknown.asked_links.push("nope");
    assert!(
        resolves(unknown)
            .await
            .iter()
            .all(|(status, message)| *status == Fail && message.contains("could not be read"))
    );
    let mut hidden = rich();
    hidden.reachable = false;
    let found = resolves(hidden).await;
    assert!(found.iter().all(|one| *one == found[0] && one.0 == Skip), "{found:?}");
    assert!(found[0].1.ends_with("or --connect-to go.example.com=IP:PORT"), "{found:?}");
}

fn by_iphone(request: &Request) -> bool {
    request.agent.contains("iPhone")
}

fn by_android(request: &Request) -> bool {
    request.agent.contains("Pixel")
}

fn by_desktop(request: &Request) -> bool {
    request.agent.contains("Windows")
}

fn by_facebook(request: &Request) -> bool {
    request.agent.contains("facebook")
}

#[tokio::test]
async fn the_button_of_a_page() {
    let told = |html: String| {
        Reply::new(200, "text/html", html)
            .header("vary", "accept, user-agent, sec-ch-ua-platform")
            .header("cache-control", "no-store")
    };
    let mut astray = rich();
    astray.instead(by_iphone, told(page(None)));
    astray.instead(by_android, told(page(Some("shop://p/42"))));
    astray.instead(by_desktop, told(page(Some("https://example.com/?a=1"))));
    astray.instead(by_facebook, told(page(Some(""))));
    assert_all(
        &resolves(astray).await,
        [
            (Fail, "iPhone: a page without a button to shop://p/42, expected the page of row D2"),
            (
                Fail,
                "Android: a page whose button leads to shop://p/42, not \
                    intent://p/42#Intent;scheme=shop;package=com.example.app;S.browser_fallback_url=https%3A%2F%2Fexample.com%2F%3Fa%3D1%26\u{2026}, \
                    expected the page of row D7",
            ),
            (
                Fail,
                "desktop: a page whose button leads to https://example.com/?a=1, not https://example.com/?a=1&b='2', \
                    expected the page of row D13",
            ),
            (Fail, "facebookexternalhit: a page whose button has no target, expected the page of row D13"),
            (Ok, "JSON: active"),
        ],
    );

    // A difference late in the text is shown too.
    let mut late = rich();
    late.instead(by_android, told(page(Some(&INTENT.replace("%272%27", "%273%27")))));
    let (status, message) = resolves(late).await.swap_remove(1);
    assert_eq!(status, Fail);
    assert!(message.contains("%3D%273%27;end, not \u{2026}") && message.contains("%3D%272%27;end,"), "{message}");

    // A page that should have no button must not have one.
    let app_only = || {
        let mut scene = rich();
        scene.link(|link| link.web_url = None);
        scene
    };
    assert_eq!(resolves(app_only()).await[2], (Ok, "desktop: page with no button (D13)".to_owned()));
    let mut too_many = app_only();
    too_many.instead(by_desktop, told(page(Some("https://example.com/"))));
    assert_eq!(
        resolves(too_many).await[2],
        (
            Fail,
            "desktop: a page with a button to https://example.com/ instead of none, expected the page of row D13"
                .to_owned()
        )
    );

    // With an alternate host, the button on a phone leads to that host.
    let over_alternate = Scene { links: rich().links, asked_links: vec!["spring-42"], ..Scene::default() };
    let found = resolves(over_alternate).await;
    assert_eq!(found[0], (Ok, "iPhone: page with button to https://open.example.com/spring-42 (D1)".to_owned()));
    assert_eq!(found[1], (Ok, "Android: page with button to https://open.example.com/spring-42 (D6)".to_owned()));

    // An affiliate's key cannot read what a phone's button depends on; a page without tags is still wrong.
    let mut scoped = rich();
    let forbidden = Reply::new(403, "application/json", r#"{"error":"no","code":"forbidden_scope"}"#);
    let lists = |request: &Request| ["/v1/apps?", "/v1/domains?"].iter().any(|list| request.target.starts_with(list));
    scoped.instead(lists, forbidden);
    scoped.instead(by_iphone, told(page(Some("https://open.example.com/spring-42"))));
    scoped.instead(by_android, told("<html></html>".to_owned()));
    let found = resolves(scoped).await;
    assert_eq!(
        found[0],
        (
            Ok,
            "iPhone: page with button to https://open.example.com/spring-42 (apps and domains cannot be read, so not compared)"
                .to_owned()
        )
    );
    assert_eq!(found[1], (Fail, "Android: a page without og:title, expected a landing page".to_owned()));
    assert_eq!(found[2].0, Ok);
}

fn with_image(scene: &mut Scene, url: &str) {
    scene.link(|link| {
        let preview = serde_json::json!({"image_url": url});
        link.social_preview = serde_json::from_value(preview).expect("a preview");
    });
}

fn image(request: &Request) -> bool {
    request.host == "images.example.com"
}

#[tokio::test]
async fn the_image_and_the_stores_of_a_link() {
    const URL: &str = "http://images.example.com/image.png";
    // The image double does not speak TLS, so that its address can be http.
    fn plain(scene: &mut Scene) {
        scene.identity = Identity::Plain;
        with_image(scene, URL);
    }
    assert_cases(&[
        ("link.image", plain, Ok, "1200 \u{d7} 630 pixels"),
        ("link.image", |scene| scene.link(|_| {}), Skip, "no preview image"),
        (
            "link.image",
            |scene| {
                plain(scene);
                scene.instead(image, Reply::new(404, "text/plain", ""));
            },
            Warn,
            "HTTP 404",
        ),
        (
            "link.image",
            |scene| {
                plain(scene);
                scene.instead(image, Reply::new(200, "image/png", png(199, 630)));
            },
            Warn,
            "199 \u{d7} 630 pixels is too small",
        ),
        (
            "link.image",
            |scene| {
                plain(scene);
                scene.instead(image, Reply::new(200, "image/png", png(200, 200)));
            },
            Ok,
            "200 \u{d7} 200",
        ),
        (
            "link.image",
            |scene| {
                plain(scene);
                scene.instead(image, Reply::new(200, "text/html", "<html>"));
            },
            Warn,
            "not a readable image",
        ),
        (
            "link.image",
            |scene| {
                plain(scene);
                scene.instead(image, Reply::new(200, "image/png", vec![0; 5 * 1024 * 1024 + 1]));
            },
            Warn,
            "larger than 5 MB",
        ),
        ("link.image", |scene| with_image(scene, URL), Warn, "images.example.com"),
        ("link.stores", |scene| scene.link(|_| {}), Skip, "no store URL"),
        (
            "link.stores",
            |scene| {
                scene.link(|link| {
                    link.android_store_url =
                        Some("https://play.google.com/store/apps/details?id=com.example.app".into());
                    link.ios_store_url = Some("https://apps.apple.com/app/shop/id42".into());
                });
            },
            Ok,
            "com.example.app, App Store ID 42",
        ),
        (
            "link.stores",
            |scene| {
                scene.link(|link| {
                    link.android_store_url =
                        Some("https://play.google.com/store/apps/details?id=com.example.other".into());
                });
            },
            Warn,
            "com.example.other is not one of",
        ),
        (
            "link.stores",
            |scene| scene.link(|link| link.android_store_url = Some("https://play.google.com/store".into())),
            Warn,
            "does not contain an app ID",
        ),
        (
            "link.stores",
            |scene| scene.link(|link| link.ios_store_url = Some("https://apps.apple.com/developer/shop".into())),
            Warn,
            "does not contain an app ID",
        ),
    ])
    .await;
}
