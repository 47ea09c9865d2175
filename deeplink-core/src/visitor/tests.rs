//! The tables of the visitor rules, row by row. Tokens are written out here a second time on purpose.

use super::*;

const CHROME_ANDROID: &str = "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36";
const SAFARI_IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1";
const SAFARI_MAC: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15";

fn visitor(agent: &str) -> Visitor {
    Visitor::new(AgentTraits::of(agent), None)
}

fn with_hint(agent: &str, hint: &str) -> Platform {
    Visitor::new(AgentTraits::of(agent), Some(hint)).platform
}

mod accept {
    use super::super::{Form, wants_json};

    const PAGE: Form = Form::Html { explicit: true };
    const ASSUMED: Form = Form::Html { explicit: false };

    #[test]
    fn every_row_of_the_negotiation_table() {
        for (accept, form) in [
            ("application/json", Form::Json),
            ("application/json, text/plain, */*", Form::Json),
            ("application/vnd.api+json", Form::Json),
            ("TEXT/JSON;charset=utf-8", Form::Json),
            ("application/json;q=0.5, text/html;q=0.5", Form::Json),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", PAGE),
            ("text/html, application/json;q=0.9", PAGE),
            ("", ASSUMED),
            ("*/*", ASSUMED),
            ("application/*", ASSUMED),
            ("application/json;q=0", ASSUMED),
            ("application/json;q=x", ASSUMED),
            ("image/png", ASSUMED),
            ("garbage", ASSUMED),
        ] {
            assert_eq!(wants_json([accept]), form, "{accept}");
        }
        assert_eq!(wants_json::<&str>([]), ASSUMED, "no header at all");
    }

    #[test]
    fn values_recognised_whole_mean_what_reading_them_means() {
        for known in [super::super::accept::CHROMIUM, super::super::accept::SAFARI, super::super::accept::FIREFOX] {
            let with_space = [known, b" "].concat();
            assert_eq!(wants_json([known]), PAGE);
            assert_eq!(wants_json([with_space]), PAGE, "read rather than recognised");
        }
        assert_eq!(wants_json(["application/json "]), Form::Json);
        assert_eq!(wants_json(["*/* "]), ASSUMED);
    }

    #[test]
    fn qualities() {
        for (accept, form) in [
            ("application/json;q=0.501, text/html;q=0.5", Form::Json),
            ("application/json;q=0.5, text/html;q=0.501", PAGE),
            ("application/json;q=0.001", Form::Json),
            ("application/json;q=0.000", ASSUMED),
            ("application/json;q=1.000, text/html", Form::Json),
            ("application/json;q=1.", Form::Json),
            ("application/json;q=0., text/html;q=0", ASSUMED),
            ("application/json;Q=0.2, text/html;Q=0.1", Form::Json),
            ("application/json ; q=0.2 , text/html ; q=0.1", Form::Json),
            // Malformed: the range is dropped.
            ("application/json;q=1.1", ASSUMED),
            ("application/json;q=2", ASSUMED),
            ("application/json;q=-1", ASSUMED),
            ("application/json;q=0.1234", ASSUMED),
            ("application/json;q=.5", ASSUMED),
            ("application/json;q=", ASSUMED),
            ("application/json;q", ASSUMED),
            ("application/json;q=\"0.5\"", ASSUMED),
            ("application/json;q=x, text/html;q=0.1", PAGE),
            ("application/json;q=x, text/json;q=0.1", Form::Json),
            ("text/html;q=0", ASSUMED),
            ("application/xhtml+xml;q=0.1", PAGE),
            // The best of each form counts.
            ("application/json;q=0.1, text/json;q=0.9, text/html;q=0.5", Form::Json),
            ("text/html;q=0.1, application/xhtml+xml;q=0.9, application/json;q=0.5", PAGE),
        ] {
            assert_eq!(wants_json([accept]), form, "{accept}");
        }
    }

    #[test]
    fn names() {
        for (accept, form) in [
            ("Application/JSON", Form::Json),
            ("APPLICATION/LD+JSON", Form::Json),
            ("application/+json", ASSUMED),
            ("application/*+json", ASSUMED),
            ("application/jsonp", ASSUMED),
            ("application/json-seq", ASSUMED),
            ("image/svg+json", ASSUMED),
            ("text/*", ASSUMED),
            ("TEXT/HTML", PAGE),
            ("Application/XHTML+XML", PAGE),
            ("application/xml", ASSUMED),
        ] {
            assert_eq!(wants_json([accept]), form, "{accept}");
        }
    }

    #[test]
    fn other_parameters_are_ignored_and_quotes_hide_separators() {
        for (accept, form) in [
            (r#"application/json;profile="a,text/html;q=0";q=0.4, text/html;q=0.3"#, Form::Json),
            (r#"application/json;profile="a\",b";q=0.4, text/html;q=0.3"#, Form::Json),
            (r#"text/plain;x="application/json""#, ASSUMED),
            (r#"text/plain;x=", application/json"#, ASSUMED),
            ("application/json;level=1;q=0.4;q=0.2, text/html;q=0.3", Form::Json),
            (",,;;,application/json,,", Form::Json),
        ] {
            assert_eq!(wants_json([accept]), form, "{accept}");
        }
    }

    #[test]
    fn several_lines_are_joined() {
        assert_eq!(wants_json(["text/html;q=0.5", "application/json"]), Form::Json);
        assert_eq!(wants_json(["application/json;q=0.5", "text/html"]), PAGE);
        assert_eq!(wants_json(["image/png", "*/*"]), ASSUMED);
    }
}

#[test]
fn every_row_of_the_platform_table() {
    for (agent, platform) in [
        (SAFARI_IPHONE, Platform::Ios),
        ("Mozilla/5.0 (iPod touch; CPU iPhone OS 12_0 like Mac OS X)", Platform::Ios),
        ("Mozilla/5.0 (iPod; U)", Platform::Ios),
        ("Mozilla/5.0 (iPad; CPU OS 12_0 like Mac OS X)", Platform::Ios),
        ("Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950)", Platform::Other),
        (CHROME_ANDROID, Platform::Android),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64)", Platform::Windows),
        (SAFARI_MAC, Platform::Macos),
        ("Foo/1 Mac OS X", Platform::Macos),
        ("Mozilla/5.0 (X11; CrOS x86_64 14541.0.0)", Platform::Other),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0", Platform::Other),
        ("", Platform::Other),
    ] {
        assert_eq!(visitor(agent).platform, platform, "{agent}");
    }
}

#[test]
fn the_client_hint_outranks_the_agent_if_it_names_a_platform() {
    for (hint, platform) in [
        ("\"Android\"", Platform::Android),
        ("\"iOS\"", Platform::Ios),
        ("\"macOS\"", Platform::Macos),
        ("\"Windows\"", Platform::Windows),
        ("WINDOWS", Platform::Windows),
        ("\"Chrome OS\"", Platform::Macos),
        ("\"Linux\"", Platform::Macos),
        ("\"other\"", Platform::Macos),
        ("\"\"", Platform::Macos),
        ("", Platform::Macos),
    ] {
        assert_eq!(with_hint(SAFARI_MAC, hint), platform, "{hint}");
    }
}

const PREVIEW: &str = "facebookexternalhit|Facebot|meta-externalfetcher|Twitterbot|Slackbot|Slack-ImgProxy|Discordbot|TelegramBot|LinkedInBot|SkypeUriPreview|MicrosoftPreview|BingPreview|Pinterestbot|pinterest.com/bot|redditbot|vkShare|Snap URL Preview|Mastodon/|Cardyb|Iframely|Embedly|Google-PageRenderer|kakaotalk-scrap|XING-contenttabreceiver";
const AI: &str = "GPTBot|OAI-SearchBot|ChatGPT-User|ClaudeBot|Claude-User|Claude-SearchBot|anthropic-ai|PerplexityBot|Perplexity-User|GoogleOther|CCBot|Bytespider|Amazonbot|meta-externalagent|cohere-ai|DuckAssistBot|MistralAI-User|YouBot";
const CRAWLER: &str = "Googlebot|Google-InspectionTool|AdsBot-Google|bingbot|DuckDuckBot|YandexBot|Baiduspider|Applebot|Sogou web spider|PetalBot|SeznamBot|UptimeRobot|Pingdom|StatusCake|Site24x7|HeadlessChrome|Lighthouse";
const IN_APP: &str = "FBAN/|FBAV/|FB_IAB|FBIOS|MessengerForiOS|Orca-Android|Instagram|Barcelona|musical_ly|BytedanceWebview|TikTok|trill|Line/|MicroMessenger|Snapchat|Twitter for|TwitterAndroid|LinkedInApp|Pinterest/|KAKAOTALK|Telegram-Android|ZaloTheme/|GSA/|Outlook-iOS|Outlook-Android|; wv)";

#[test]
fn every_class_token_matches_anywhere_in_any_case() {
    for (tokens, class) in [(PREVIEW, Class::Preview), (AI, Class::Ai), (CRAWLER, Class::Crawler)] {
        for token in tokens.split('|') {
            for token in [token.to_owned(), token.to_uppercase(), token.to_lowercase()] {
                for agent in [token.clone(), format!("{token}/1.0"), format!("Mozilla/5.0 (X; {token}) Safari/604.1")] {
                    assert_eq!(visitor(&agent).class, class, "{agent}");
                }
            }
        }
    }
}

#[test]
fn tokens_bound_to_the_start_count_nowhere_else() {
    for (agent, class) in [
        ("WhatsApp/2.23.20.0", Class::Preview),
        ("whatsapp/2.2", Class::Preview),
        ("Viber/13", Class::Preview),
        ("viber", Class::Preview),
        ("Mozilla/5.0 WhatsApp/2.23", Class::Browser),
        ("Mozilla/5.0 Viber/13", Class::Browser),
        ("x Viber", Class::Client),
        ("Opera/9.80 (Windows NT 6.1)", Class::Browser),
        ("x Opera/9.80", Class::Client),
    ] {
        assert_eq!(visitor(agent).class, class, "{agent}");
    }
}

#[test]
fn a_compatible_robot_is_a_crawler() {
    for (agent, class) in [
        ("Mozilla/5.0 (compatible; Foobot/1.0; +https://example.com/)", Class::Crawler),
        ("Mozilla/5.0 (COMPATIBLE; webCRAWLer)", Class::Crawler),
        ("something compatible; a Spider", Class::Crawler),
        ("Mozilla/5.0 (compatible; MSIE 10.0; Windows NT 6.2)", Class::Browser),
        ("Mozilla/5.0 (Linux; Android 9; CUBOT_X19) AppleWebKit/537.36 Chrome/90 Mobile Safari/537.36", Class::Browser),
        ("mybot/1.0", Class::Client),
    ] {
        assert_eq!(visitor(agent).class, class, "{agent}");
    }
}

#[test]
fn the_first_matching_class_wins() {
    for (agent, class) in [
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
            Class::Preview,
        ),
        ("Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)", Class::Ai),
        ("GPTBot Twitterbot", Class::Preview),
        ("Googlebot GPTBot", Class::Ai),
        ("Mozilla/5.0 Googlebot/2.1", Class::Crawler),
        (SAFARI_IPHONE, Class::Browser),
        ("mozilla/4.0", Class::Browser),
        ("curl/8.5", Class::Client),
        ("", Class::Client),
    ] {
        assert_eq!(visitor(agent).class, class, "{agent}");
    }
}

#[test]
fn the_class_decides_the_kind_of_click() {
    for (class, kind, listed, in_funnel) in [
        (Class::Preview, ClickKind::Preview, true, false),
        (Class::Ai, ClickKind::Agent, true, true),
        (Class::Crawler, ClickKind::Crawler, true, false),
        (Class::Browser, ClickKind::Human, false, true),
        (Class::Client, ClickKind::Agent, false, true),
    ] {
        assert_eq!((class.click_kind(), class.is_listed()), (kind, listed), "{class:?}");
        assert_eq!(kind.in_funnel(), in_funnel, "{kind:?}");
    }
}

#[test]
fn every_in_app_token_counts_as_written_and_only_in_browsers() {
    for token in IN_APP.split('|') {
        let in_browser = format!("Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Safari/537.36 {token}");
        assert!(visitor(&in_browser).in_app, "{token}");
        assert!(!visitor(token).in_app, "{token} alone is no browser");
        let swapped: String = in_browser.replace(
            token,
            &token
                .chars()
                .map(|c| if c.is_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
                .collect::<String>(),
        );
        assert!(!visitor(&swapped).in_app, "{swapped}");
    }
    assert!(!visitor(&format!("{SAFARI_IPHONE} Instagram Googlebot")).in_app, "a crawler is no in-app browser");
    for plain in [CHROME_ANDROID, SAFARI_IPHONE, SAFARI_MAC, "curl/8.5", ""] {
        assert!(!visitor(plain).in_app, "{plain}");
    }
}

#[test]
fn webkit_without_a_browsers_name_is_a_web_view_on_ios_only() {
    let view =
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148";
    assert!(visitor(view).in_app);
    for name in ["Safari/604.1", "CriOS/126", "FxiOS/127", "EdgiOS/126"] {
        assert!(!visitor(&format!("{view} {name}")).in_app, "{name}");
    }
    assert!(!visitor(&view.replace("AppleWebKit", "Gecko")).in_app);
    let mac = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)";
    assert!(!visitor(mac).in_app);
    assert!(Visitor::new(AgentTraits::of(mac), Some("\"iOS\"")).in_app, "the platform may come from the hint");
    assert!(!Visitor::new(AgentTraits::of(view), Some("\"Android\"")).in_app);
}

#[test]
fn firefox_and_wechat_are_known() {
    let wechat = format!("{SAFARI_IPHONE} MicroMessenger/8.0.49");
    assert!(visitor(&wechat).wechat && visitor(&wechat).in_app);
    assert!(!visitor(&wechat.to_lowercase()).wechat);
    assert!(visitor("Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0").firefox);
    assert!(!visitor(SAFARI_IPHONE).firefox && !visitor(SAFARI_IPHONE).wechat);
    assert!(!visitor("Mozilla/5.0 (iPhone) AppleWebKit/605 FxiOS/127").firefox);
}

#[test]
fn an_agent_need_not_be_text() {
    assert_eq!(AgentTraits::of(b"\xff\xfe Googlebot \xf0").class(), Class::Crawler);
}

#[test]
fn prefetches_announce_themselves() {
    let said = |sec: &'static str| is_prefetch([Some(sec.as_bytes()), None], None);
    assert!(said("prefetch") && said("prefetch;prerender") && said("Prefetch") && said("x, prefetch"));
    assert!(!said("") && !said("pre-fetch") && !said("prerender"));
    assert!(is_prefetch([None, Some(b"prefetch")], None));
    assert!(is_prefetch([None, None], Some(b"prefetch")));
    assert!(!is_prefetch([None, None], Some(b"prefetch;x")));
    assert!(!is_prefetch([None, None], None));
}

#[test]
fn codes_are_stable_and_lead_back() {
    let platforms = Platform::ALL.map(|platform| (platform.code(), platform.as_str()));
    assert_eq!(platforms, [(0, "ios"), (1, "android"), (2, "macos"), (3, "windows"), (4, "other")]);
    let kinds = ClickKind::ALL.map(|kind| (kind.code(), kind.as_str()));
    assert_eq!(kinds, [(0, "human"), (1, "preview"), (2, "crawler"), (3, "agent")]);
    for platform in Platform::ALL {
        assert_eq!(Platform::from_code(platform.code()), Some(platform));
    }
    for kind in ClickKind::ALL {
        assert_eq!(ClickKind::from_code(kind.code()), Some(kind));
    }
    assert_eq!((Platform::from_code(5), ClickKind::from_code(4)), (None, None));
}

#[test]
fn browsers_systems_devices_and_apps_are_told_apart() {
    let webkit = "AppleWebKit/537.36 (KHTML, like Gecko)";
    let android = format!("Mozilla/5.0 (Linux; Android 14; Pixel 8) {webkit}");
    let windows = format!("Mozilla/5.0 (Windows NT 10.0; Win64; x64) {webkit} Chrome/141.0.0.0 Safari/537.36");
    let iphone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)";
    for (agent, expected) in [
        (CHROME_ANDROID.to_owned(), "chrome none android mobile"),
        (SAFARI_IPHONE.to_owned(), "safari none ios mobile"),
        (SAFARI_MAC.to_owned(), "safari none macos desktop"),
        (windows.clone(), "chrome none windows desktop"),
        (format!("{windows} Edg/141.0.0.0"), "edge none windows desktop"),
        (format!("{windows} OPR/125.0.0.0"), "opera none windows desktop"),
        (format!("{windows} YaBrowser/25.8"), "yandex none windows desktop"),
        (format!("{windows} Vivaldi/7.5"), "vivaldi none windows desktop"),
        (format!("{windows} Ddg/18.1"), "duckduckgo none windows desktop"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0".into(), "firefox none linux desktop"),
        (
            format!("Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) {webkit} Chrome/141.0.0.0 Safari/537.36"),
            "chrome none chromeos desktop",
        ),
        (
            format!("{android} SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36"),
            "samsung_internet none android mobile",
        ),
        (format!("{android} Chrome/141.0.0.0 Safari/537.36"), "chrome none android tablet"),
        (
            format!("{android} Version/4.0 Chrome/141.0.0.0 Mobile Safari/537.36 Instagram 400.0.0.0 Android"),
            "webview instagram android mobile",
        ),
        (
            format!("{} Version/4.0 Chrome/141.0.0.0 Mobile Safari/537.36", android.replace("Pixel 8", "Pixel 8; wv")),
            "webview other android mobile",
        ),
        (format!("{iphone} Mobile/15E148"), "webview other ios mobile"),
        (
            format!("{iphone} Mobile/15E148 [FBAN/MessengerForiOS;FBAV/400.0;FBDV/iPhone15,2]"),
            "webview messenger ios mobile",
        ),
        (format!("{iphone} Mobile/15E148 [FBAN/FBIOS;FBAV/400.0]"), "webview facebook ios mobile"),
        (format!("{iphone} CriOS/141.0.0.0 Mobile/15E148 Safari/604.1"), "chrome none ios mobile"),
        (format!("{iphone} FxiOS/140.0 Mobile/15E148 Safari/605.1.15"), "firefox none ios mobile"),
        (
            "Mozilla/5.0 (iPad; CPU OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1".into(),
            "safari none ios tablet",
        ),
        (format!("{android} Version/4.0 Mobile Safari/534.30"), "other none android mobile"),
        (format!("{android} EdgA/141.0 Chrome/141.0.0.0 Mobile Safari/537.36"), "edge none android mobile"),
        ("Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0".into(), "firefox none android mobile"),
        (
            format!("{iphone} Mobile/15E148 [FBAN/MessengerLiteForiOS;FBAV/500.0;FBDV/iPhone16,1]"),
            "webview messenger ios mobile",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)".into(),
            "webview other macos desktop",
        ),
        (
            "Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; Tablet PC 2.0; Trident/5.0)".into(),
            "other none windows desktop",
        ),
        ("ExampleShop/42 CFNetwork/1568 Darwin/24.0".into(), "unknown unknown other unknown"),
        (String::new(), "unknown unknown other unknown"),
    ] {
        let UserAgent { browser, in_app, os, device } = visitor(&agent).user_agent;
        let found = [browser.as_str(), in_app.as_str(), os.as_str(), device.as_str()].join(" ");
        assert_eq!(found, expected, "{agent}");
    }
    // The client hint decides about the system, as it does about the platform.
    let UserAgent { os, device, .. } = Visitor::new(AgentTraits::of(SAFARI_MAC), Some("\"iOS\"")).user_agent;
    assert_eq!((os, device), (Os::Ios, Device::Tablet));
}
