//! L1, L2: which URLs a link may hold.

use serde_json::json;

use deeplink_testing::spawn;

/// Hosts that no http or https field may name.
const REFUSED_HOSTS: &str =
    concat!(include_str!("../common/hosts-refused.txt"), "user@example.net user:password@example.net");

/// Hosts that are allowed; some are checked only when the service connects to them, which nothing here does.
const ALLOWED_HOSTS: &str =
    "8.8.8.8 [2606:4700:4700::1111] example.net E.IO. example.net:8443 bücher.example 127.0.0.1.example.net
a.local a.internal metadata.google.internal example.net:22 example.net:25";

/// L2: a web URL names a public host, checked on the parsed value, and has no user name.
#[tokio::test]
async fn l2_web_addresses_name_public_hosts() {
    let world = spawn().await;
    for host in REFUSED_HOSTS.split_whitespace() {
        for scheme in ["https", "http"] {
            let url = format!("{scheme}://{host}/x");
            for (body, field) in [
                (json!({"web_url": url}), "web_url"),
                (json!({"ios_deep_link": url}), "ios_deep_link"),
                (json!({"android_deep_link": url}), "android_deep_link"),
                (json!({"social_preview": {"image_url": url}}), "social_preview.image_url"),
            ] {
                let outcome = world.a.post("/v1/links", &body).await.outcome();
                assert_eq!(outcome, format!("400 invalid_url {field}"), "{body}");
            }
        }
    }
    let links: Vec<_> =
        ALLOWED_HOSTS.split_whitespace().map(|host| json!({"web_url": format!("https://{host}/x")})).collect();
    let count = links.len();
    let made = world.a.post("/v1/links/bulk", &json!({"links": links})).await;
    assert_eq!(made.json()["links"].as_array().map(Vec::len), Some(count), "{}", made.text());
}

/// L2: forms of a URL, its length, and the hosts of the stores.
#[tokio::test]
async fn l2_addresses_have_the_form_of_their_field() {
    let world = spawn().await;
    let long = |bytes: usize| format!("https://example.com/{}", "a".repeat(bytes - 20));
    // Each of these grows in its stored, normalized form.
    let grows = format!("https://example.com/{}", "ä".repeat(900));
    let refused: Vec<(&str, String)> = [
        ("web_url", ""),
        ("web_url", "example.com"),
        ("web_url", "/path"),
        ("web_url", "//example.com/"),
        ("web_url", "ftp://example.com/"),
        ("web_url", "myapp://open"),
        ("web_url", "https://"),
        ("web_url", "https:///"),
        ("web_url", " https://example.com/"),
        ("web_url", "https://example.com/ "),
        ("web_url", "https://example.com/a\nb"),
        ("web_url", "https://example.com/a\tb"),
        ("web_url", "https://exa mple.com/"),
        ("web_url", "https://example.com:99999/"),
        ("ios_store_url", "https://example.com/"),
        ("ios_store_url", "https://apps.apple.com.example.net/app/id1"),
        ("ios_store_url", "https://apps.apple.com@example.net/app/id1"),
        ("ios_store_url", "https://notapps.apple.com/app/id1"),
        ("ios_store_url", "https://notapps.apple.com./app/id1"),
        ("ios_store_url", "https://apple.com/app/id1"),
        ("ios_store_url", "https://play.google.com/store/apps/details?id=com.example.app"),
        ("ios_store_url", "itms-apps://apps.apple.com/app/id1"),
        ("ios_store_url", "https://user@apps.apple.com/app/id1"),
        ("android_store_url", "https://apps.apple.com/app/id1"),
        ("android_store_url", "https://play.google.com.example.net/"),
        ("android_store_url", "https://google.com/"),
        ("android_store_url", "https://xplay.google.com/"),
        ("android_store_url", "market://details?id=com.example.app"),
    ]
    .map(|(field, url)| (field, url.to_owned()))
    .into_iter()
    .chain(["web_url", "ios_deep_link", "android_deep_link"].map(|field| (field, long(2_049))))
    .chain([("web_url", grows)])
    .collect();
    for (field, url) in refused {
        let outcome = world.a.post("/v1/links", &json!({field: url})).await.outcome();
        assert_eq!(outcome, format!("400 invalid_url {field}"), "{url:?}");
    }
    for (field, url, stored) in [
        ("web_url", "https://example.com", "https://example.com/"),
        ("web_url", "HTTP://EXAMPLE.com:80/A b?q=ä#f g", "http://example.com/A%20b?q=%C3%A4#f%20g"),
        ("web_url", "https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("web_url", &long(2_048), &long(2_048)),
        ("ios_store_url", "https://apps.apple.com/app/id1", "https://apps.apple.com/app/id1"),
        ("ios_store_url", "https://itunes.apple.com/app/id1", "https://itunes.apple.com/app/id1"),
        ("ios_store_url", "https://de.apps.apple.com/app/id1", "https://de.apps.apple.com/app/id1"),
        (
            "android_store_url",
            "https://play.google.com/store/apps/details?id=a.b",
            "https://play.google.com/store/apps/details?id=a.b",
        ),
        ("ios_deep_link", "MyApp://Open/This", "myapp://Open/This"),
        ("android_deep_link", "https://example.com", "https://example.com/"),
        ("android_deep_link", "tel:+15550100", "tel:+15550100"),
    ] {
        let id = world.a.make_of(&json!({field: url})).await;
        assert_eq!(world.a.get(&format!("/v1/links/{id}")).await.json()[field], stored, "{url}");
    }
}

/// L1: a deep link's scheme is checked after parsing; schemes that run code or access the system are refused, however
/// they are written.
#[tokio::test]
async fn l1_dangerous_deep_links_are_refused() {
    let world = spawn().await;
    let schemes = [
        "javascript",
        "data",
        "vbscript",
        "blob",
        "file",
        "filesystem",
        "about",
        "view-source",
        "jar",
        "content",
        "intent",
        "shell",
        "search-ms",
        "chrome",
        "chrome-extension",
        "chrome-search",
        "ms-settings",
        "ms-msdt",
        "ms-word",
    ];
    let mut vectors: Vec<String> = Vec::new();
    for scheme in schemes {
        let mixed: String =
            scheme.char_indices().map(|(at, c)| if at % 2 == 0 { c.to_ascii_uppercase() } else { c }).collect();
        vectors.extend([format!("{scheme}:alert(1)"), format!("{mixed}:alert(1)"), format!("{scheme}://host/x")]);
    }
    vectors.extend(
        [
            "java\tscript:alert(1)",
            "java\nscript:alert(1)",
            "java\rscript:alert(1)",
            "\u{1}javascript:alert(1)",
            " javascript:alert(1)",
            "javascript:alert(1) ",
            "\u{a0}javascript:alert(1)",
            "\u{feff}javascript:alert(1)",
            "&#106;avascript:alert(1)",
            "%6aavascript:alert(1)",
            "view-source:javascript:alert(1)",
            "intent://x#Intent;end",
            "",
            "relative",
            "/relative",
            "//example.com/x",
            "?query",
            "#fragment",
            "://x",
            "1app://x",
            "-app://x",
            "ａpp://x",
            "my app://x",
            "myapp",
            "https://127.0.0.1/",
            "https://user@example.com/",
            "http://localhost/",
        ]
        .map(str::to_owned),
    );
    assert!(vectors.len() >= 60, "{}", vectors.len());
    for vector in vectors {
        for field in ["ios_deep_link", "android_deep_link"] {
            let outcome = world.a.post("/v1/links", &json!({field: vector})).await.outcome();
            assert_eq!(outcome, format!("400 invalid_url {field}"), "{vector:?}");
        }
    }
}
