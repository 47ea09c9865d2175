//! Forms that are refused: every fault beside its field, a summary that leads to each, and nothing that was typed is lost.

use super::{Visitor, text_of};
use deeplink_testing::{Role, spawn};

/// The path of a form, what is entered, and the fields at fault.
type Case<'a> = (&'a str, Vec<(&'a str, &'a str)>, &'a [&'a str]);

#[tokio::test]
async fn a_form_is_told_all_its_faults_at_once() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    world.a.make("spring-42").await;
    let app = serde_json::json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"});
    let app = format!("/account/apps/{}", world.a.post("/v1/apps", &app).await.member("id"));
    let webhook = serde_json::json!({"url": "https://hooks.example.com/", "events": ["click"]});
    let webhook = format!("/account/webhooks/{}", world.a.post("/v1/webhooks", &webhook).await.member("id"));
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let long = "x".repeat(121);
    let cases: [Case<'_>; 9] = [
        (
            "/account/new-link",
            vec![
                ("web_url", "shop"),
                ("custom_id", "-"),
                ("ios_store_url", "https://example.com/"),
                ("agent_context.action", "steal"),
                ("agent_context.cta", &long),
            ],
            &["web-url", "custom-id", "ios-store-url", "agent-context-action", "agent-context-cta"],
        ),
        (
            "/account/links/spring-42/edit",
            vec![("web_url", "shop"), ("android_deep_link", "no link"), ("social_preview.image_url", "image")],
            &["web-url", "android-deep-link", "social-preview-image-url"],
        ),
        (
            "/account/new-app",
            vec![("platform", "ios"), ("icon_url", "icon"), ("theme_color", "green")],
            &["bundle-id", "team-id", "icon-url", "theme-color"],
        ),
        (
            "/account/new-app",
            vec![("platform", "android"), ("package_name", "x"), ("sha256_fingerprints", "ab")],
            &["package-name", "sha256-fingerprints"],
        ),
        (&app, vec![("team_id", "short"), ("theme_color", "green")], &["team-id", "theme-color"]),
        ("/account/affiliates", vec![("name", ""), ("partner_key", "NO")], &["name", "partner-key"]),
        (
            "/account/domains/go.example.com/edit",
            vec![("root_url", "shop"), ("not_found_url", "help")],
            &["root-url", "not-found-url"],
        ),
        (&webhook, vec![("url", "http://hooks.example.com/")], &["url", "event-click"]),
        (
            "/account/settings",
            vec![("name", &*long), ("icon_url", "icon"), ("theme_color", "green")],
            &["name", "icon-url", "theme-color"],
        ),
    ];
    world.at_rest().await;
    let before = super::stored(&world).await;
    for (path, fields, at) in cases {
        let refused = visitor.post(path, &fields).await;
        let page = text_of(&refused);
        assert_eq!(refused.status, 400, "{path}: {page}");
        assert!(page.contains(&format!("<b>{} fields need your attention.</b>", at.len())), "{path}: {page}");
        for id in at {
            assert!(page.contains(&format!("<li><a href=\"#{id}\">")), "{path} {id}: {page}");
            // The checkboxes of events share one message.
            let message = if *id == "event-click" { "events" } else { id };
            assert!(page.contains(&format!("id=\"{message}-error\">")), "{path} {id}: {page}");
            assert!(page.contains(&format!(" id=\"{id}\"")), "{path} {id}: {page}");
        }
        assert_eq!(page.matches("-error\">").count(), at.len(), "{path}: {page}");
        assert_eq!(page.matches(" autofocus").count(), 1, "the summary has the focus: {page}");
        for (name, value) in fields.iter().filter(|(name, value)| *name != "agent_context.action" && !value.is_empty())
        {
            assert!(page.contains(value), "{path} forgets {name}: {page}");
        }
    }
    assert!(before == super::stored(&world).await, "nothing is changed");
    // A new webhook without anything.
    assert_eq!(world.a.delete(&webhook.replace("/account", "/v1")).await.status, 204);
    let refused = text_of(&visitor.post("/account/webhooks", &[("form", "1")]).await);
    assert!(refused.contains("2 fields need your attention") && refused.contains("Choose at least one event."));
}

/// One fault has the focus itself and needs no summary.
#[tokio::test]
async fn one_fault_needs_no_summary() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for (path, fields, at) in [
        ("/account/new-link", vec![("web_url", "shop")], "web-url"),
        ("/account/team", vec![("email", "x")], "email"),
        ("/account/webhooks", vec![("url", "https://hooks.example.com/")], "event-click"),
    ] {
        let page = text_of(&visitor.post(path, &fields).await);
        assert!(!page.contains("need your attention"), "{path}: {page}");
        let field = page.split(&format!(" id=\"{at}\"")).nth(1).and_then(|rest| rest.split('>').next());
        assert!(field.is_some_and(|attributes| attributes.contains(" autofocus")), "{path}: {page}");
    }
    // The browser's own check would stop at the first field.
    for (path, needs_one) in [
        ("/account/new-link", false),
        ("/account/new-app", true),
        ("/account/affiliates", true),
        ("/account/webhooks", true),
    ] {
        let page = text_of(&visitor.get(path).await);
        assert!(page.contains(" required") == needs_one && page.contains(" novalidate>"), "{path}: {page}");
    }
}
