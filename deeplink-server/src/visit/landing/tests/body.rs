//! The page's visible part: buttons, texts, colours, and the data of its script.

use serde_json::json;

use super::*;

const IDS: [&str; 8] = ["open", "store", "web", "deep", "ios-store", "android-store", "hint", "copies"];

/// The elements of the page with a fixed id, with their addresses.
fn elements(dom: &Dom) -> Vec<(&'static str, String)> {
    IDS.into_iter()
        .filter_map(|id| Some((id, dom.by_id(id)?)))
        .map(|(id, element)| (id, element.attr("href").unwrap_or_default()))
        .collect()
}

#[test]
fn an_element_exists_only_with_its_target() {
    const APP: (&str, &str) = ("open", "shop://promo/1");
    const APP_STORE: &str = "https://apps.apple.com/app/id123456789";
    const PLAY: &str = "https://play.google.com/store/apps/details?id=com.example.app&referrer=dl_link%3DAbC12345";
    const WEB: &str = "https://shop.example.com/promo?a=1&b=2";
    const INTENT: &str = "intent://promo/1?x=2&y#Intent;scheme=shop;package=com.example.app;S.browser_fallback_url=https%3A%2F%2Fplay.google.com%2Fstore%2Fapps%2Fdetails%3Fid%3Dcom.example.app%26referrer%3Ddl_link%253DAbC12345;end";
    let in_app = format!("{IPHONE} Instagram");
    let wechat = format!("{ANDROID} MicroMessenger/8");
    let wechat_on_ios = format!("{IPHONE} MicroMessenger/8");
    let android_only =
        leading(Destinations { ios_deep_link: None, ios_store_url: None, web_url: None, ..EVERYTHING.to });
    for (agent, link, expected) in [
        (IPHONE, EVERYTHING, vec![APP, ("store", APP_STORE), ("web", WEB), ("copies", "")]),
        (&in_app, EVERYTHING, vec![("open", APP_STORE), ("web", WEB), ("deep", "shop://promo/1"), ("copies", "")]),
        (IPHONE, android_only, vec![("android-store", PLAY)]),
        (ANDROID, EVERYTHING, vec![("open", INTENT), ("store", PLAY), ("web", WEB)]),
        (&wechat, EVERYTHING, vec![("open", INTENT), ("store", PLAY), ("web", WEB), ("hint", "")]),
        (&wechat_on_ios, EVERYTHING, vec![("open", APP_STORE), ("web", WEB), ("hint", ""), ("copies", "")]),
        (MAC, EVERYTHING, vec![("open", WEB), ("ios-store", APP_STORE), ("android-store", PLAY), ("copies", "")]),
        (LINUX, EVERYTHING, vec![("open", WEB), ("ios-store", APP_STORE), ("android-store", PLAY)]),
        (LINUX, NOTHING, vec![]),
    ] {
        let page = dom(agent, &link, NO_TEXTS);
        let expected: Vec<_> = expected.into_iter().map(|(id, href)| (id, href.to_owned())).collect();
        assert_eq!(elements(&page), expected, "{agent}");
        for (id, href) in elements(&page).into_iter().filter(|(_, href)| !href.is_empty()) {
            assert_eq!(page.by_id(id).expect(id).name, "a", "{href} works without a script");
        }
    }
}

#[test]
fn what_is_said_without_a_button() {
    let ios_only = leading(Destinations { ios_deep_link: Some("shop://x"), ..NOWHERE });
    let android_only = leading(Destinations { android_deep_link: Some("shop://x"), ..NOWHERE });
    for (agent, link, text) in [
        (LINUX, NOTHING, "This link doesn’t lead anywhere."),
        (IPHONE, NOTHING, "This link doesn’t lead anywhere."),
        (LINUX, ios_only, "Open this link on your phone."),
        (MAC, ios_only, "Open this link on your phone."),
        (IPHONE, android_only, "This link opens an Android app."),
        (ANDROID, ios_only, "This link opens an app for iPhone and iPad."),
    ] {
        let page = dom(agent, &link, NO_TEXTS);
        assert!(page.by_id("open").is_none());
        assert_eq!(page.by_id("none").expect("a text").text(), text);
    }
    assert!(dom(LINUX, &EVERYTHING, NO_TEXTS).by_id("none").is_none());
}

#[test]
fn the_button_says_where_it_leads() {
    let in_app = format!("{IPHONE} Instagram");
    let android_in_app = format!("{ANDROID} Instagram");
    let no_intent = leading(Destinations { android_deep_link: None, ..EVERYTHING.to });
    for (agent, link, texts, label) in [
        (IPHONE, EVERYTHING, TEXTS, "Open in Greenhouse"),
        (IPHONE, EVERYTHING, NO_TEXTS, "Open in the app"),
        (ANDROID, EVERYTHING, NO_TEXTS, "Open in the app"),
        (&in_app, EVERYTHING, TEXTS, "Download on the App Store"),
        (&android_in_app, no_intent, TEXTS, "Get it on Google Play"),
        (LINUX, EVERYTHING, TEXTS, "Continue to shop.example.com"),
    ] {
        let silent = Given { agent: None, ..texts };
        assert_eq!(dom(agent, &link, silent).by_id("open").expect("a button").text(), label);
        // With a call to action, where the button leads is its second line.
        let page = dom(agent, &link, Given { agent: TEXTS.agent, ..texts });
        assert_eq!(page.by_id("open").expect("a button").text(), format!("Claim the discount {label}"));
        assert!(!page.all("section")[0].text().contains("Claim the discount"));
    }
}

#[test]
fn a_call_to_action_that_is_no_button_is_a_sentence() {
    let with = |cta| Given { agent: Some(Agent { cta: Some(cta), ..Agent::default() }), ..NO_TEXTS };
    let (fits, too_long) = ("x".repeat(BUTTON_COLUMNS), "x".repeat(BUTTON_COLUMNS + 1));
    let (wide, too_wide) = ("春".repeat(BUTTON_COLUMNS / 2), "春".repeat(BUTTON_COLUMNS / 2 + 1));
    for (link, cta, is_button) in [
        (EVERYTHING, &*fits, true),
        (EVERYTHING, &too_long, false),
        (EVERYTHING, &wide, true),
        (EVERYTHING, &too_wide, false),
        (NOTHING, "Join us", false),
    ] {
        let page = dom(LINUX, &link, with(cta));
        let is_label = page.by_id("open").is_some_and(|open| open.text().contains(cta));
        let is_sentence = page.all("section")[0].text().contains(cta);
        assert_eq!((is_label, is_sentence), (is_button, !is_button), "{cta}");
    }
    // What the button says anyway is not said twice.
    let page = dom(IPHONE, &EVERYTHING, with("Open in the app"));
    assert_eq!(page.by_id("open").expect("a button").text(), "Open in the app");
    assert!(!page.all("section")[0].text().contains("Open in the app"));
}

#[test]
fn the_script_gets_its_data() {
    let link = EVERYTHING.url;
    let store = EVERYTHING.to.ios_store_url;
    let in_app = format!("{IPHONE} Instagram");
    let ipad = json!({ "open": "shop://promo/1", "label": "Open in the app", "fallback": store, "copy": link });
    for (agent, expected) in [
        (IPHONE, json!({ "fallback": store, "copy": link })),
        (&in_app, json!({ "copy": link })),
        (ANDROID, json!({})),
        (MAC, json!({ "ios": ipad })),
        (LINUX, json!({})),
    ] {
        assert_eq!(data(&dom(agent, &EVERYTHING, NO_TEXTS)), expected, "{agent}");
    }
    let no_store = leading(Destinations { ios_store_url: None, ..EVERYTHING.to });
    let ipad = json!({ "open": "shop://promo/1", "label": "Open in the app", "fallback": no_store.to.web_url });
    assert_eq!(data(&dom(MAC, &no_store, NO_TEXTS)), json!({ "ios": ipad }));
}

#[test]
fn a_verified_domain_is_named_and_nothing_on_its_page_is_called_unverified() {
    let heading = |texts| dom(LINUX, &EVERYTHING, texts).by_id("by").expect("the section's heading").text();
    assert_eq!(heading(NO_TEXTS), "The creator of this link isn’t verified.");
    assert_eq!(heading(TEXTS), "example.com");
    for agent in [IPHONE, ANDROID, MAC, LINUX] {
        let page = dom(agent, &EVERYTHING, TEXTS);
        let shown = page.all("main")[0].text();
        assert!(!shown.contains("verified") && shown.contains("Valid once per customer."), "{shown}");
    }
}

/// One brand has one letter, whatever its links are about.
#[test]
fn the_letter_is_the_brands() {
    let named = |name| Apps { display: DisplayApp { name, ..DisplayApp::default() }, ..Apps::default() };
    for (apps, domain, expected) in [
        (named(Some("Greenhouse")), Some("go.example.com"), "G"),
        (named(Some(" ")), Some("go.example.com"), "E"),
        (Apps::default(), Some("example.co.uk"), "E"),
        (Apps::default(), Some("xn--bcher-kva.example"), ""),
        (Apps::default(), None, ""),
    ] {
        for title in ["Autumn sale", "Winter sale"] {
            let preview = Some(Preview { title: Some(title), ..Preview::default() });
            let page = dom(LINUX, &EVERYTHING, Given { preview, apps, tenant_domain: domain, ..NO_TEXTS });
            let icons = page.all("span").into_iter().filter(|span| span.attr("class").as_deref() == Some("icon"));
            assert_eq!(icons.map(|icon| icon.text()).collect::<Vec<_>>(), [expected], "{domain:?}");
            assert_eq!(page.all("svg").len(), usize::from(expected.is_empty()), "a sign instead of a letter");
        }
    }
}

/// A picture that does not load leaves the brand's name in its place.
#[test]
fn the_place_of_the_picture_is_the_brands() {
    for (texts, name) in [
        (TEXTS, "Greenhouse"),
        (Given { apps: Apps::default(), ..TEXTS }, "example.com"),
        (Given { apps: Apps::default(), tenant_domain: None, ..TEXTS }, "go.example.com"),
    ] {
        assert_eq!(dom(LINUX, &EVERYTHING, texts).all("b")[0].text(), name);
    }
    assert!(dom(LINUX, &EVERYTHING, NO_TEXTS).all("b").is_empty());
}

#[test]
fn images_are_shown_only_from_https() {
    let shown = |url| {
        let preview = Preview { image_url: Some(url), ..Preview::default() };
        let app = DisplayApp { name: Some("élan"), icon_url: Some(url), theme_color: None };
        let apps = Apps { display: app, ..Apps::default() };
        let page = dom(LINUX, &EVERYTHING, Given { preview: Some(preview), apps, ..NO_TEXTS });
        let initial =
            page.all("span").iter().find(|span| span.attr("class").as_deref() == Some("icon")).map(Element::text);
        let images = page.all("img");
        let given = images.iter().filter(|img| img.attr("id").as_deref() != Some("qr"));
        (given.filter_map(|img| img.attr("src")).collect::<Vec<_>>(), initial)
    };
    assert_eq!(shown("https://example.com/a.png"), (vec!["https://example.com/a.png".to_owned(); 2], None));
    let refused =
        ["http://example.com/a.png", "data:image/png;base64,AA==", "javascript:alert(1)", "//example.com/a.png", ""];
    for url in refused {
        assert_eq!(shown(url), (vec![], Some("É".to_owned())), "{url}");
    }
}

#[test]
fn an_initial_is_the_first_letter_or_digit() {
    for (name, expected) in
        [("garden", "G"), ("🎉 party", "P"), ("«ñu»", "Ñ"), ("春季", "春"), ("42 things", "4"), ("🎉", "🎉"), ("", "")]
    {
        assert_eq!(initial(Some(name), None), expected);
    }
}

#[test]
fn the_button_is_painted_in_the_apps_colour() {
    for (theme_color, css) in [
        (Some("#2E7D4F"), "--brand:#2e7d4f;--on-brand:#ffffff"),
        (Some("#fd0"), "--brand:#ffdd00;--on-brand:#000000"),
        (Some("red;}body{"), "--brand:#3b63f0;--on-brand:#ffffff"),
        (None, "--brand:#3b63f0;--on-brand:#ffffff"),
    ] {
        let app = DisplayApp { theme_color, ..DisplayApp::default() };
        let page = dom(LINUX, &EVERYTHING, Given { apps: Apps { display: app, ..Apps::default() }, ..NO_TEXTS });
        assert!(page.all("style")[0].text().contains(&format!(":root{{{css};")), "{theme_color:?}");
    }
}

#[test]
fn one_main_one_heading_and_nothing_that_runs_without_its_nonce() {
    for (agent, link, texts) in [(IPHONE, EVERYTHING, TEXTS), (MAC, EVERYTHING, TEXTS), (LINUX, NOTHING, NO_TEXTS)] {
        let page = dom(agent, &link, texts);
        assert_eq!((page.all("main").len(), page.all("h1").len()), (1, 1));
        for script in page.all("script").iter().chain(&page.all("style")) {
            let is_data = script.attr("type").is_some_and(|kind| kind.ends_with("json"));
            assert_eq!(script.attr("nonce").as_deref(), (!is_data).then_some(NONCE));
            assert!(script.attr("src").is_none());
        }
        for element in page.elements() {
            for (name, value) in &element.attributes {
                assert!(name != "style" && !name.starts_with("on"), "{name}={value} on {}", element.name);
                assert!(name != "http-equiv", "{value}");
            }
        }
    }
}

#[test]
fn a_title_is_shown_in_its_own_direction_and_unshortened() {
    let title = "تخفيضات ".repeat(15);
    let preview = Preview { title: Some(&title), ..Preview::default() };
    let page = dom(IPHONE, &EVERYTHING, Given { preview: Some(preview), ..NO_TEXTS });
    assert_eq!(page.all("h1")[0].text(), title);
    assert_eq!(page.all("header")[0].attr("dir").as_deref(), Some("auto"));
}

#[test]
fn who_has_no_phone_at_hand_can_scan_one() {
    for (agent, shown) in [(IPHONE, false), (ANDROID, false), (MAC, true), (LINUX, true)] {
        let page = dom(agent, &EVERYTHING, NO_TEXTS);
        let code = page.by_id("qr");
        assert_eq!(code.is_some(), shown, "{agent}");
        if let Some(code) = code {
            assert_eq!(code.attr("src").as_deref(), Some(QR));
            assert_eq!(code.attr("alt").as_deref(), Some("QR code for this link"));
        }
    }
    assert!(dom(LINUX, &NOTHING, NO_TEXTS).by_id("qr").is_none(), "a phone would not go on either");
    let plan = plan(LINUX, &EVERYTHING);
    let page = LandingPage {
        plan: &plan,
        preview: None,
        agent: None,
        apps: Apps::default(),
        tenant_domain: None,
        tenant_verified: false,
        qr: None,
        language: Language::En,
    };
    assert!(
        !render(&page, NONCE).expect("the page renders").contains("figure"),
        "without a code there is no place for one"
    );
}
