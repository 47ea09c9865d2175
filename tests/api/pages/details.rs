//! Pages of one thing: an app with all that is stored of it, an affiliate with what it brings, the settings.

use serde_json::json;

use super::{Visitor, text_of, went};
use deeplink_testing::{World, spawn};

#[tokio::test]
async fn an_app_is_shown_with_everything_and_edited() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let prints = ["AB".repeat(32), "CD".repeat(32)];
    let android = json!({
        "platform": "android", "package_name": "com.example.app", "sha256_fingerprints": prints,
        "app_name": "Greenhouse", "icon_url": "https://images.example.com/icon.png", "theme_color": "#2e7d4f",
    });
    let android = world.a.post("/v1/apps", &android).await.member("id");
    let path = format!("/account/apps/{android}");
    assert!(text_of(&visitor.get("/account/apps").await).contains(&format!("<a href=\"{path}\">")));
    let page = text_of(&visitor.get(&path).await);
    for part in [
        "Greenhouse",
        "com.example.app",
        "AB:AB:",
        "CD:CD:",
        "https://play.google.com/store/apps/details?id=com.example.app",
        "https://images.example.com/icon.png",
        "fill=\"#2e7d4f\"",
        &android,
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let change = [
        ("sha256_fingerprints", &*"ef".repeat(32)),
        ("app_name", "Glasshouse"),
        ("icon_url", ""),
        ("theme_color", "#123"),
        ("package_name", "com.example.other"),
        ("platform", "ios"),
    ];
    assert_eq!(went(&visitor.post(&path, &change).await), (303, &*format!("{path}?done=app-saved")));
    let stored = world.a.get("/v1/apps").await.json()[0].clone();
    assert_eq!((&stored["id"], &stored["package_name"]), (&json!(android), &json!("com.example.app")));
    assert_eq!((&stored["app_name"], &stored["icon_url"]), (&json!("Glasshouse"), &json!(null)));
    assert_eq!(stored["sha256_fingerprints"].as_array().expect("a list").len(), 1);
    assert!(text_of(&visitor.get(&format!("{path}?done=app-saved")).await).contains("App saved."));

    let change =
        [("sha256_fingerprints", &*"ef".repeat(32)), ("icon_url", "HTTP://example.com/i"), ("theme_color", "abc")];
    let done = format!("{path}?done=app-saved-without-icon");
    assert_eq!(went(&visitor.post(&path, &change).await), (303, &*done));
    assert_eq!(world.a.get("/v1/apps").await.json()[0]["theme_color"], "#abc");
    let page = text_of(&visitor.get(&done).await);
    assert!(page.contains("Its icon is not shown"), "{page}");
    assert!(page.contains("Button color <svg class=\"swatch\""), "the field shows its color: {page}");
    let new = [
        ("platform", "ios"),
        ("bundle_id", "com.example.other"),
        ("team_id", "ABCDE12345"),
        ("icon_url", "http://example.com/i"),
    ];
    let made = visitor.post("/account/new-app", &new).await;
    assert_eq!(went(&made), (303, "/account/apps?done=app-saved-without-icon"));

    let ios = json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"});
    let ios = format!("/account/apps/{}", world.a.post("/v1/apps", &ios).await.member("id"));
    let page = text_of(&visitor.get(&ios).await);
    assert!(page.contains("value=\"ABCDE12345\"") && !page.contains("play.google.com"), "{page}");
    assert_eq!(went(&visitor.post(&ios, &[("team_id", "ZYXWV54321")]).await).0, 303);
    assert!(text_of(&visitor.get(&ios).await).contains("ZYXWV54321"));
    let refused = visitor.post(&ios, &[("team_id", "no")]).await;
    assert!(refused.status == 400 && refused.text().contains("id=\"team-id-error\">"), "{}", refused.text());
    for gone in ["/account/apps/app_0123", "/account/apps/nothing"] {
        assert_eq!(visitor.get(gone).await.status, 404);
        assert_eq!(visitor.post(gone, &[("team_id", "ABCDE12345")]).await.status, 404);
    }
}

#[tokio::test]
async fn an_affiliate_is_shown_with_its_links_and_what_they_bring() {
    let world = spawn().await;
    let affiliate = world.a1.affiliate_id().to_owned();
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let numbers = |page: &str| {
        let row = page.split(&format!("href=\"/account/affiliates/{affiliate}\"")).nth(1).expect("a row");
        let cells = row.split("</tr>").next().expect("its end").split("class=\"number\">").skip(1);
        cells.map(|cell| cell.split('<').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let path = format!("/account/affiliates/{affiliate}");
    assert_eq!(numbers(&text_of(&visitor.get("/account/affiliates").await)), ["0", "0", "0"]);
    assert!(text_of(&visitor.get(&path).await).contains("None yet."));
    for id in ["partner-1", "partner-2"] {
        world.a1.make(id).await;
    }
    world.a.make("own-link").await;
    for id in ["partner-1", "partner-1", "partner-2", "own-link"] {
        world.a.tap(id).await;
    }
    let touch = json!({"link_id": "partner-1", "install_id": "i", "app_version": "1"});
    assert_eq!(world.a.post("/v1/lifecycle/attribute", &touch).await.status, 200);
    let identify = json!({"install_id": "i", "user_id": "ann"});
    assert_eq!(world.a.put("/v1/lifecycle/identify", &identify).await.status, 200);
    let convert = json!({"user_id": "ann", "type": "purchase"});
    assert_eq!(world.a.post("/v1/lifecycle/convert", &convert).await.status, 200);
    assert_eq!(numbers(&text_of(&visitor.get("/account/affiliates").await)), ["2", "3", "1"]);
    let page = text_of(&visitor.get(&path).await);
    assert!(page.contains(">partner-1</a>") && page.contains(">partner-2</a>") && !page.contains("own-link"), "{page}");
    assert!(page.contains("<figcaption><b>3</b> clicks") && page.contains("Conversion funnel"), "{page}");

    // Beyond one report the newest links count, and the links have pages.
    for number in 0..100 {
        world.a1.make(&format!("more-{number:03}")).await;
    }
    let list = text_of(&visitor.get("/account/affiliates").await);
    assert_eq!(numbers(&list), ["100+", "0", "0"]);
    let page = text_of(&visitor.get(&path).await);
    assert!(
        page.contains("Includes only this affiliate’s 100 newest links.") && page.contains(">more-099</a>"),
        "{page}"
    );
    let next = page.split(&format!("href=\"{path}?cursor=")).nth(1).and_then(|rest| rest.split('"').next());
    let second = text_of(&visitor.get(&format!("{path}?cursor={}", next.expect("a next page"))).await);
    assert!(second.contains(">more-074</a>") && !second.contains(">more-075</a>"), "{second}");
    assert!(second.contains(&format!("href=\"{path}\">Newest</a>")), "{second}");
    let broken = visitor.get(&format!("{path}?cursor=nonsense")).await;
    assert!(broken.status == 400 && text_of(&broken).contains(&format!("href=\"{path}\">Back to the first page")));
}

#[tokio::test]
async fn settings_name_the_account() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let page = text_of(&visitor.get("/account/settings").await);
    for part in
        [world.a.tenant.as_str(), "a@example.com", world.a.base(), "<span class=\"option\">--base-url</span> http"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
}

/// Lists show the times of the account's zone, whose name stands above them, and forms take them.
async fn in_tokyo(world: &World, visitor: &Visitor<'_>) {
    let now = world.clock.now();
    let there = now.plus_millis(9 * 3_600_000).to_string();
    let log = text_of(&visitor.get("/account/audit").await);
    let time = format!("<time datetime=\"{now}\">{} ", there[8..10].trim_start_matches('0'));
    assert!(log.contains("Entries, newest first. Times are in Asia/Tokyo."), "{log}");
    assert!(log.contains(&time) && log.contains(&format!(", {}</time>", &there[11..19])), "{time}{there}: {log}");
    let edit = "/account/links/spring-42/edit";
    let end = ("expires_at", "2026-12-01T08:30");
    let saved = visitor.post(edit, &[end]).await;
    assert_eq!(went(&saved), (303, "/account/links/spring-42?done=link-saved"));
    assert_eq!(world.a.get("/v1/links/spring-42").await.json()["expires_at"], "2026-11-30T23:30:00.000Z");
    assert!(visitor.get(edit).await.text().contains("value=\"2026-12-01T08:30\""));
    let link = text_of(&visitor.get("/account/links/spring-42").await);
    assert!(link.contains("1 Dec 2026, 08:30</time> <span class=\"mute\">Asia/Tokyo</span>"), "{link}");
}

/// An outdated name of a zone is not offered, but one that is set stays chosen.
#[tokio::test]
async fn an_outdated_time_zone_stays_chosen() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let page = visitor.get("/account/settings").await.text();
    assert!(page.contains(">Asia/Kolkata<") && !page.contains("Asia/Calcutta"), "{page}");
    let set = world.a.patch("/v1/account", &json!({"time_zone": "Asia/Calcutta"})).await;
    assert_eq!(set.status, 200, "{}", set.text());
    let page = visitor.get("/account/settings").await.text();
    assert!(page.contains("<option selected>Asia/Calcutta</option>"), "{page}");
}

/// Settings are saved, refused beside their fields, and emptied; reports show the days of the zone.
#[tokio::test]
async fn settings_are_edited() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let settings = "/account/settings";
    let stored = async || {
        let account = world.a.client.account().get().await.expect("an account");
        [account.name, account.time_zone, account.icon_url, account.theme_color].map(Option::unwrap_or_default)
    };
    let form = |name: &'static str, zone: &'static str, icon: &'static str, color: &'static str| {
        [("name", name), ("time_zone", zone), ("icon_url", icon), ("theme_color", color)]
    };
    let saved = visitor.post(settings, &form("Example", "Asia/Tokyo", "https://example.com/icon.png", "#2e7d4f")).await;
    assert_eq!(went(&saved), (303, "/account/settings?done=settings-saved"));
    let set = ["Example", "Asia/Tokyo", "https://example.com/icon.png", "#2e7d4f"];
    assert_eq!(stored().await, set);
    let page = text_of(&visitor.get("/account/settings?done=settings-saved").await);
    for part in ["Settings updated.", "value=\"Example\"", "<option selected>Asia/Tokyo</option>", "value=\"#2e7d4f\""]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!text_of(&visitor.get("/account").await).contains("Open a link"));
    world.a.make("spring-42").await;
    let overview = text_of(&visitor.get("/account").await);
    assert!(overview.contains("/r/spring-42\">Open a link</a><p>"), "{overview}");
    assert_eq!(world.nobody.tap("spring-42").await.status, 302);
    world.at_rest().await;
    let overview = text_of(&visitor.get("/account").await);
    assert!(overview.contains("<a href=\"/account/links\">Open a link</a> <span class=\"unseen\">Done"), "{overview}");
    assert!(overview.contains("Times are in Asia/Tokyo."));
    in_tokyo(&world, &visitor).await;

    let refused = visitor.post(settings, &form("Example", "Mars/Olympus", "", "red")).await;
    let page = refused.text();
    assert_eq!(refused.status, 400);
    for part in ["id=\"time-zone-error\"", "id=\"theme-color-error\"", "value=\"red\""] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(stored().await, set, "nothing is changed");
    // A color needs no #, and an icon that no page shows is said so.
    let saved = visitor.post(settings, &form("Example", "Asia/Tokyo", "http://example.com/icon.png", "2e7d4f")).await;
    let done = "/account/settings?done=settings-saved-without-icon";
    assert_eq!(went(&saved), (303, done));
    assert_eq!(stored().await, ["Example", "Asia/Tokyo", "http://example.com/icon.png", "#2e7d4f"]);
    assert!(text_of(&visitor.get(done).await).contains("The icon is not shown"));
    let emptied = visitor.post(settings, &form("", "", "", "")).await;
    assert_eq!(went(&emptied), (303, "/account/settings?done=settings-saved"));
    assert_eq!(stored().await, [""; 4]);
    assert!(text_of(&visitor.get("/account").await).contains("Times are in UTC."));
}
