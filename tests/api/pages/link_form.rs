//! The forms of links: their preview, UTM parameters, and what they suggest.

use serde_json::json;

use super::{Visitor, stored, text_of, went};
use deeplink_testing::{Reply, Role, spawn};

/// The texts of a preview by the names that the script knows them by; of a repeated one, the last.
fn previewed(reply: &Reply, name: &str) -> String {
    let page = reply.text();
    let part = page.split("class=\"card preview\"").nth(1).unwrap_or_else(|| panic!("no preview: {page}"));
    let after = part.split(&format!("data-live=\"{name}\"")).last().and_then(|rest| rest.split_once('>'));
    after.and_then(|(_, text)| text.split('<').next()).expect("a text").to_owned()
}

/// The preview needs no script, and saves nothing.
#[tokio::test]
async fn a_preview_shows_what_is_typed_and_saves_nothing() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let app = json!({
        "platform": "android", "package_name": "com.example.app", "app_name": "Green <house>", "theme_color": "#2e7d4f",
        "sha256_fingerprints": ["AB".repeat(32)],
    });
    assert_eq!(world.a.post("/v1/apps", &app).await.status, 201);
    world.a.make_of(&json!({"custom_id": "spring-42", "web_url": "https://shop.example.com/"})).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let empty = visitor.get("/account/new-link").await;
    for (name, text) in [
        ("title", "Green &#60;house&#62;"),
        ("description", ""),
        ("picture", ""),
        ("button", "Open in Green &#60;house&#62;"),
        ("small", ""),
    ] {
        assert_eq!(previewed(&empty, name), text, "{name}: {}", empty.text());
    }
    let page = empty.text();
    assert!(page.contains(".landing{--brand:#2e7d4f;--on-brand:#ffffff}</style>"), "{page}");
    assert!(text_of(&empty).contains("<p class=\"mute\">go.example.com</p>"), "{page}");
    assert!(
        page.contains("<button name=\"preview\" value=\"yes\" formaction=\"/account/new-link#preview\">"),
        "{page}"
    );
    // The only app's page in the store is suggested.
    assert!(
        page.contains("<option value=\"https://play.google.com/store/apps/details?id=com.example.app\">"),
        "{page}"
    );
    let nobody = Visitor::signed_in(&world, &world.b).await.get("/account/new-link").await;
    assert!(!nobody.text().contains("<datalist") && !previewed(&nobody, "title").is_empty());
    assert_eq!(previewed(&nobody, "button"), "Open in the app");

    let id = visitor.form_id("/account/new-link").await;
    let fields = [
        ("form", &*id),
        ("preview", "yes"),
        ("custom_id", "-"),
        ("web_url", "https://shop.example.com/sale"),
        ("social_preview.title", "Spring <sale>"),
        ("social_preview.description", "Seeds."),
        ("social_preview.image_url", "https://images.example.com/a.png"),
        ("agent_context.cta", "Get 20% off"),
        ("utm_source", "flyer"),
    ];
    let before = stored(&world).await;
    for path in ["/account/new-link", "/account/links/spring-42/edit"] {
        let shown = visitor.post(path, &fields).await;
        let page = shown.text();
        assert_eq!(shown.status, 200, "{page}");
        for (name, text) in [
            ("title", "Spring &#60;sale&#62;"),
            ("description", "Seeds."),
            ("lead", "Seeds."),
            ("picture", "images.example.com"),
            ("button", "Get 20% off"),
            ("small", "Continue to shop.example.com"),
        ] {
            assert_eq!(previewed(&shown, name), text, "{path} {name}: {page}");
        }
        // Nothing is loaded from elsewhere, and what was typed is in the form.
        assert_eq!(page.matches("<img ").count(), page.matches("<img class=\"qr\" src=\"/account/").count(), "{page}");
        assert!(page.contains("value=\"https://shop.example.com/sale\""), "{page}");
        assert!(page.contains("id=\"utm-source\" name=\"utm_source\" type=\"text\" value=\"flyer\""), "{page}");
        assert!(!page.contains("<title>Error: ") && !page.contains("role=\"alert\""), "{page}");
    }
    assert!(before == stored(&world).await, "something was saved");
    assert_eq!(visitor.post("/account/links/nowhere/edit", &fields).await.status, 404);
    // A refused form has its preview too.
    let refused = visitor.post("/account/new-link", &[("web_url", "shop"), ("social_preview.title", "Sale")]).await;
    assert_eq!((refused.status, &*previewed(&refused, "title")), (400, "Sale"));
    let edit = visitor.get("/account/links/spring-42/edit").await;
    assert_eq!(previewed(&edit, "button"), "Continue to shop.example.com");
    assert_eq!(previewed(&edit, "title"), "Green &#60;house&#62;");
}

#[tokio::test]
async fn utm_parameters_are_merged_into_the_destination() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let stored = async |id: &str| world.a.get(&format!("/v1/links/{id}")).await.json()["web_url"].clone();
    let fields = [
        ("custom_id", "spring-42"),
        ("web_url", "https://shop.example.com/sale?a=%20b#top"),
        ("utm_source", " news letter "),
        ("utm_medium", ""),
        ("utm_campaign", "a&b"),
        ("utm_term", ""),
        ("utm_content", ""),
    ];
    let made = visitor.post("/account/new-link", &fields).await;
    assert_eq!(went(&made), (303, "/account/links/spring-42?done=link-made"), "{}", made.text());
    assert_eq!(
        stored("spring-42").await,
        "https://shop.example.com/sale?a=%20b&utm_source=news+letter&utm_campaign=a%26b#top"
    );

    // They have fields of their own, in a group that is open.
    let edit = "/account/links/spring-42/edit";
    let page = visitor.get(edit).await.text();
    let group = page.split("<b>UTM parameters</b>").next().and_then(|before| before.rsplit("<details").next());
    assert!(group.is_some_and(|open| open.starts_with(" class=\"fold\" open>")), "{page}");
    for value in [
        "name=\"web_url\" type=\"text\" value=\"https://shop.example.com/sale?a=%20b#top\"",
        "name=\"utm_source\" type=\"text\" value=\"news letter\"",
        "name=\"utm_campaign\" type=\"text\" value=\"a&#38;b\"",
        "name=\"utm_term\" type=\"text\" value=\"\"",
    ] {
        assert!(page.contains(value), "{value}: {page}");
    }
    let shown = [
        ("web_url", "https://shop.example.com/sale?a=%20b#top"),
        ("utm_source", "news letter"),
        ("utm_campaign", "a&b"),
    ];
    let versions =
        async || world.a.get("/v1/links/spring-42/history").await.json()["versions"].as_array().map(Vec::len);
    let before = versions().await;
    assert_eq!(visitor.post(edit, &shown).await.status, 303);
    assert_eq!(versions().await, before, "nothing was changed");
    for (changes, expected) in [
        // An empty field removes its parameter; the others and the fragment stay.
        (vec![shown[0], ("utm_source", ""), shown[2]], "https://shop.example.com/sale?a=%20b&utm_campaign=a%26b#top"),
        (vec![("utm_campaign", "")], "https://shop.example.com/sale?a=%20b#top"),
        // They go to another destination with their link.
        (
            vec![("web_url", "https://shop.example.com/new"), ("utm_term", "x")],
            "https://shop.example.com/new?utm_term=x",
        ),
        // What was pasted stays.
        (
            vec![("web_url", "https://shop.example.com/?utm_id=7&utm_source=a"), ("utm_source", ""), ("utm_term", "")],
            "https://shop.example.com/?utm_id=7&utm_source=a",
        ),
        (vec![("web_url", "https://shop.example.com/plain")], "https://shop.example.com/plain"),
    ] {
        let saved = visitor.post(edit, &changes).await;
        assert_eq!(went(&saved), (303, "/account/links/spring-42?done=link-saved"), "{}", saved.text());
        assert_eq!(stored("spring-42").await, expected, "{changes:?}");
    }
    let long = "x".repeat(2_040);
    for (path, changes, at, text) in [
        (
            "/account/new-link",
            vec![("utm_source", "a")],
            "web-url",
            "Enter the destination that the UTM parameters are added to.",
        ),
        ("/account/new-link", vec![("web_url", "shop"), ("utm_source", "a")], "web-url", "Enter the full URL"),
        (
            edit,
            vec![("web_url", "https://shop.example.com/plain"), ("utm_medium", "a\u{7}b")],
            "utm-medium",
            "Must not contain control characters.",
        ),
        (
            edit,
            vec![("web_url", "https://shop.example.com/plain"), ("utm_medium", "a"), ("utm_content", &long)],
            "utm-content",
            "With its UTM parameters, the destination must be at most 2048 bytes.",
        ),
    ] {
        let refused = visitor.post(path, &changes).await;
        let page = refused.text();
        assert_eq!(refused.status, 400, "{changes:?}");
        assert!(page.contains(&format!("id=\"{at}-error\">{text}")), "{at} {text}: {page}");
        assert!(changes.iter().all(|(_, value)| page.contains(&format!("value=\"{value}\""))), "{page}");
    }
    assert_eq!(stored("spring-42").await, "https://shop.example.com/plain");
    // All faults are named at once.
    let wrong = [("web_url", "shop"), ("ios_store_url", "shop"), ("utm_source", "a\u{7}b")];
    let page = visitor.post("/account/new-link", &wrong).await.text();
    for at in ["web-url", "ios-store-url", "utm-source"] {
        assert!(page.contains(&format!("id=\"{at}-error\">")), "{at}: {page}");
    }
}
