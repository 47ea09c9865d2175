//! The metadata in the page's head.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;

/// All head tags with a value, as `name → content`.
pub(super) fn head_tags(dom: &Dom) -> BTreeMap<String, String> {
    let mut tags = BTreeMap::new();
    let mut put = |name: String, value: String| {
        assert!(tags.insert(name.clone(), value).is_none(), "{name} occurs twice");
    };
    for meta in dom.all("meta") {
        if let Some(name) = meta.attr("name").or(meta.attr("property")) {
            put(name, meta.attr("content").expect("a named meta has content"));
        }
    }
    for link in dom.all("link") {
        let kind = link.attr("type").map(|kind| format!(" {kind}")).unwrap_or_default();
        put(format!("{}{kind}", link.attr("rel").expect("rel")), link.attr("href").expect("href"));
    }
    put("title".to_owned(), dom.all("title")[0].text());
    tags
}

/// The service's icon, for a page without an app's.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Crect width='24' height='24' rx='7' fill='%233b63f0'/%3E%3Cpath d='M9.5 16.5 16 10m-5-1.5h6.5V15M7 12.5v-5' fill='none' stroke='%23fff' stroke-width='2' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";

fn tags(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn every_head_tag_has_its_value() {
    let url = "https://go.example.com/AbC12345";
    let expected = tags(&[
        ("title", "Spring sale"),
        ("viewport", "width=device-width,initial-scale=1,viewport-fit=cover"),
        ("description", "Seeds, tools and pots."),
        ("canonical", url),
        ("alternate application/json", url),
        ("robots", "noindex"),
        ("og:type", "website"),
        ("og:url", url),
        ("og:title", "Spring sale"),
        ("og:description", "Seeds, tools and pots."),
        ("og:site_name", "go.example.com"),
        ("og:image", "https://example.com/image.jpg"),
        ("og:image:alt", "Spring sale"),
        ("twitter:card", "summary_large_image"),
        ("twitter:title", "Spring sale"),
        ("twitter:description", "Seeds, tools and pots."),
        ("twitter:image", "https://example.com/image.jpg"),
        ("al:ios:url", "shop://promo/1"),
        ("al:ios:app_store_id", "123456789"),
        ("al:ios:app_name", "Greenhouse for iOS"),
        ("al:android:url", "shop://promo/1?x=2&y"),
        ("al:android:package", "com.example.app"),
        ("al:android:app_name", "Greenhouse for Android"),
        ("al:web:url", "https://shop.example.com/promo?a=1&b=2"),
        ("apple-itunes-app", "app-id=123456789, app-argument=https://go.example.com/AbC12345"),
        ("theme-color", "#2E7D4F"),
        ("expect", "#end"),
        ("icon", "https://example.com/icon.png"),
    ]);
    for agent in [IPHONE, ANDROID, MAC, LINUX, "facebookexternalhit/1.1"] {
        let dom = dom(agent, &EVERYTHING, TEXTS);
        assert_eq!(head_tags(&dom), expected, "{agent}");
        assert_eq!(dom.all("html")[0].attr("lang").as_deref(), Some("en"));
    }
}

#[test]
fn a_head_tag_without_a_value_is_absent() {
    let url = "https://go.example.com/AbC12345";
    let expected = tags(&[
        ("title", "go.example.com"),
        ("viewport", "width=device-width,initial-scale=1,viewport-fit=cover"),
        ("canonical", url),
        ("alternate application/json", url),
        ("robots", "noindex"),
        ("og:type", "website"),
        ("og:url", url),
        ("og:title", "go.example.com"),
        ("og:site_name", "go.example.com"),
        ("twitter:card", "summary"),
        ("twitter:title", "go.example.com"),
        ("expect", "#end"),
        ("icon", ICON),
    ]);
    assert_eq!(head_tags(&dom(LINUX, &NOTHING, NO_TEXTS)), expected);
    let blank = Preview { title: Some(" "), description: Some(""), image_url: None };
    let blank = Given { preview: Some(blank), agent: Some(Agent::default()), ..NO_TEXTS };
    assert_eq!(head_tags(&dom(LINUX, &NOTHING, blank)), expected);
    assert!(
        dom(LINUX, &NOTHING, NO_TEXTS)
            .all("script")
            .iter()
            .all(|s| s.attr("type").as_deref() != Some("application/ld+json"))
    );
}

#[test]
fn title_and_description_fall_back() {
    let named = Given { preview: None, ..TEXTS };
    let page = dom(LINUX, &EVERYTHING, named);
    assert_eq!(page.all("h1")[0].text(), "Greenhouse");
    let tags = head_tags(&page);
    assert_eq!((&*tags["title"], &*tags["description"]), ("Greenhouse", "Valid once per customer."));
    assert_eq!(tags["og:description"], tags["description"]);
    let texts = page.all("main")[0].text();
    assert_eq!(texts.matches("Valid once per customer.").count(), 1, "what the section says is not said twice");
    // Without a name, the host: the account's own or, of a link on the service's, that of its web page.
    for (domain, title) in [(Some("example.com"), "go.example.com"), (None, "shop.example.com")] {
        let page = dom(LINUX, &EVERYTHING, Given { tenant_domain: domain, ..NO_TEXTS });
        assert_eq!((page.all("h1")[0].text(), &*head_tags(&page)["og:title"]), (title.to_owned(), title));
    }
}

#[test]
fn the_site_is_the_host_of_the_links_address() {
    for (url, site) in [
        ("http://127.0.0.1:8080/r/AbC12345", "127.0.0.1"),
        ("http://[::1]:8080/r/AbC12345", "[::1]"),
        ("http://localhost/r/AbC12345", "localhost"),
    ] {
        let link = LinkView { url, ..EVERYTHING };
        assert_eq!(head_tags(&dom(LINUX, &link, NO_TEXTS))["og:site_name"], site);
    }
}

#[test]
fn the_whole_head_table_comes_early_even_with_the_longest_values() {
    let text = |chars| "\u{1f33b}".repeat(chars);
    let (title, description, cta, context) = (text(120), text(300), text(120), text(500));
    let address = |scheme: &str| format!("{scheme}://example.com/{}", "x".repeat(2048 - 15 - scheme.len()));
    let (app, web) = (address("shop"), address("https"));
    let link = leading(Destinations {
        ios_deep_link: Some(&app),
        android_deep_link: Some(&app),
        web_url: Some(&web),
        ..EVERYTHING.to
    });
    for description in [Some(&*description), None] {
        let preview = Preview { title: Some(&title), description, image_url: Some(&web) };
        let agent = Agent { action: None, cta: Some(&cta), description: Some(&context) };
        let html = html(LINUX, &link, Given { preview: Some(preview), agent: Some(agent), ..TEXTS });
        let end = html.find("<style").expect("the style comes after the table");
        assert!(html[..end].contains("ld+json") && html[..end].contains("theme-color"));
        assert!(end < 32 * 1024, "{end}");
    }
}

#[test]
fn a_page_is_small_whatever_people_write() {
    // Every text at its maximum length: in letters of one and two bytes, in larger ones, of which people need fewer to
    // say the same, and in characters that must be escaped.
    for (letter, most) in [("x", 20), ("é", 20), ("漢", 24), ("\u{1f33b}", 28), ("<", 33)] {
        let text = |characters| letter.repeat(characters);
        let (line, lead, context, name) = (text(120), text(300), text(500), text(100));
        let preview =
            Preview { title: Some(&line), description: Some(&lead), image_url: Some("https://example.com/image.jpg") };
        let agent = Agent { action: Some("purchase"), cta: Some(&line), description: Some(&context) };
        let display = DisplayApp { name: Some(&name), ..TEXTS.apps.display };
        let apps = Apps { display, ios_name: Some(&name), android_name: Some(&name) };
        for agent_name in [IPHONE, ANDROID, MAC, LINUX] {
            let texts = Given { preview: Some(preview), agent: Some(agent), apps, ..TEXTS };
            let page = html(agent_name, &EVERYTHING, texts);
            assert!(page.len() < most * 1024, "{} bytes of {letter} for {agent_name}", page.len());
        }
    }
}

#[test]
fn json_ld_says_what_the_link_is_for_and_who_says_so() {
    let entry = |url: &str, platform: &str| json!({ "@type": "EntryPoint", "urlTemplate": url, "actionPlatform": format!("http://schema.org/{platform}") });
    let expected = json!({
        "@context": "https://schema.org",
        "@type": "BuyAction",
        "name": "Claim the discount",
        "description": "Valid once per customer.",
        "target": [
            entry("shop://promo/1", "IOSPlatform"),
            entry("shop://promo/1?x=2&y", "AndroidPlatform"),
            entry("https://shop.example.com/promo?a=1&b=2", "DesktopWebPlatform"),
        ],
        "object": { "@type": "Product", "name": "Spring sale", "description": "Seeds, tools and pots." },
        "provider": {
            "@type": "Organization",
            "name": "example.com",
            "additionalProperty": [
                { "@type": "PropertyValue", "name": "source", "value": "tenant_asserted" },
                { "@type": "PropertyValue", "name": "verified", "value": true },
            ],
        },
    });
    assert_eq!(json_ld(&dom(LINUX, &EVERYTHING, TEXTS)), expected);
}

#[test]
fn json_ld_leaves_out_what_is_null() {
    let texts = Given { agent: Some(Agent { action: Some("read"), ..Agent::default() }), ..NO_TEXTS };
    let only_image = Preview { image_url: Some("https://example.com/image.jpg"), ..Preview::default() };
    for preview in [None, Some(only_image)] {
        let expected = json!({
            "@context": "https://schema.org",
            "@type": "ReadAction",
            "provider": {
                "@type": "Organization",
                "name": "unknown",
                "additionalProperty": [
                    { "@type": "PropertyValue", "name": "source", "value": "tenant_asserted" },
                    { "@type": "PropertyValue", "name": "verified", "value": false },
                ],
            },
        });
        assert_eq!(json_ld(&dom(LINUX, &NOTHING, Given { preview, ..texts })), expected);
    }
}

#[test]
fn every_action_has_its_type() {
    for (action, kind) in [
        (Some("purchase"), "BuyAction"),
        (Some("subscribe"), "SubscribeAction"),
        (Some("signup"), "RegisterAction"),
        (Some("download"), "DownloadAction"),
        (Some("read"), "ReadAction"),
        (Some("book"), "ReserveAction"),
        (Some("open"), "ViewAction"),
        (None, "ViewAction"),
    ] {
        let agent = Agent { action, cta: Some("Do it"), description: None };
        let page = dom(LINUX, &EVERYTHING, Given { agent: Some(agent), ..NO_TEXTS });
        assert_eq!(json_ld(&page)["@type"], kind, "{action:?}");
    }
}
