//! Rule L4: landing HTML is inert, whatever the values.

use super::head::head_tags;
use super::*;

/// Texts that try to break out of their context.
const POLYGLOTS: [&str; 32] = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "\"><svg onload=alert(1)>",
    "'><svg onload=alert(1)>",
    "\" onmouseover=alert(1) x=\"",
    "' onmouseover=alert(1) x='",
    "\" style=\"background:red",
    "` onload=alert(1)",
    "--><img src=x onerror=alert(1)>",
    "<!--",
    "]]><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "javascript:alert(1)",
    "jaVasCript:/*-/*`/*\\`/*'/*\"/**/(/* */oNcliCk=alert() )//%0D%0A%0d%0a//</stYle/</titLe/</teXtarEa/</scRipt/--!>\\x3csVg/<sVg/oNloAd=alert()//>\\x3e",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "&quot;&gt;&lt;",
    "\\\"},\"x\":{\"",
    "\"}</script><b>",
    "\\u003cscript\\u003e",
    "{{ 7*7 }}{% raw %}${7*7}<%= 7*7 %>",
    "\u{2028}alert(1)\u{2029}",
    "</main></body></html><p id=open>",
    "<base href=https://evil.example/>",
    "<meta http-equiv=refresh content=0>",
    "<a id=open href=https://evil.example/>",
    "<plaintext>",
    "<template><table><select><math><mi><style>",
    "red;}body{background:url(https://evil.example/)",
    "#fff\"/><script>alert(1)</script>",
];

/// A page whose every value is this text; addresses have it after a valid prefix if `is_address`. The call to action is
/// short enough for the button, except if `is_long`.
fn page_of(agent: &str, text: &str, is_address: bool, is_long: bool) -> Dom {
    let cta = if is_long {
        format!("{text}{}", "x".repeat(BUTTON_COLUMNS))
    } else {
        text.chars().take(BUTTON_COLUMNS).collect()
    };
    let address = |start: &str| if is_address { format!("{start}{text}") } else { text.to_owned() };
    let (web, app) = (address("https://example.com/"), address("shop://"));
    let (app_store, play_store) =
        (address("https://apps.apple.com/app/id1?"), address("https://play.google.com/details?id=com.example.app&x="));
    let link = leading(Destinations {
        ios_deep_link: Some(&app),
        ios_store_url: Some(&app_store),
        // A fragment would choose between intent and deep link, which have different addresses but the same shape.
        android_deep_link: Some(&app),
        android_store_url: Some(&play_store),
        web_url: Some(&web),
    });
    let display = DisplayApp { name: Some(text), icon_url: Some(&web), theme_color: Some(text) };
    let texts = Given {
        preview: Some(Preview { title: Some(text), description: Some(text), image_url: Some(&web) }),
        agent: Some(Agent { action: Some(text), cta: Some(&cta), description: Some(text) }),
        apps: Apps { display, ios_name: Some(text), android_name: Some(text) },
        tenant_domain: Some(text),
        language: Language::En,
    };
    dom(agent, &link, texts)
}

#[test]
fn l4_no_value_changes_the_shape_of_the_page() {
    let (in_app, with_hint) = (format!("{IPHONE} Instagram"), format!("{IPHONE} MicroMessenger/8"));
    for agent in [IPHONE, &in_app, &with_hint, ANDROID, MAC, LINUX] {
        for (is_address, is_long) in [(true, false), (false, false), (true, true)] {
            let plain = page_of(agent, "plain", is_address, is_long).shape();
            for text in POLYGLOTS {
                assert_eq!(page_of(agent, text, is_address, is_long).shape(), plain, "{text} as {agent}");
            }
        }
    }
}

#[test]
fn l4_every_value_is_shown_as_it_is() {
    for text in POLYGLOTS {
        let page = page_of(MAC, text, true, true);
        assert_eq!(page.all("h1")[0].text(), text);
        assert_eq!(page.all("title")[0].text(), text);
        assert_eq!(head_tags(&page)["og:description"], text);
        assert_eq!(page.by_id("by").expect("a heading").text(), text);
        assert_eq!(json_ld(&page)["description"], text);
        assert!(page.all("section")[0].text().contains(text));
        assert_eq!(data(&page)["ios"]["label"], format!("Open in {text}"));
    }
}

#[test]
fn l4_scripts_hold_only_escapes_of_what_could_end_them() {
    for text in POLYGLOTS {
        let page = page_of(MAC, text, true, false);
        let data: Vec<_> = page.all("script").into_iter().filter(|script| script.attr("nonce").is_none()).collect();
        assert_eq!(data.len(), 2, "JSON-LD and the data of the script");
        for script in data {
            assert!(!script.text().contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{}", script.text());
        }
    }
}
