//! Classification of a User-Agent string in one pass over it.
//!
//! The tokens are in one table. Every token is searched for case-insensitively, and a token with a stricter rule is
//! then checked where it was found, so that one automaton serves all rules.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::{Browser, Class, Device, InApp, Os, Platform, UserAgent};

/// Traits of a User-Agent alone. Small and `Copy`, to be cached per distinct agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentTraits {
    pub(super) class: Class,
    pub(super) platform: Platform,
    /// Names an app that shows pages in its own browser.
    pub(super) names_app: bool,
    /// `AppleWebKit` without the name of a browser: on iOS, a web view.
    pub(super) bare_webkit: bool,
    pub(super) firefox: bool,
    pub(super) wechat: bool,
    pub(super) user_agent: UserAgent,
}

impl AgentTraits {
    /// Reads a User-Agent; an absent one is the empty string.
    pub fn of(agent: impl AsRef<[u8]>) -> Self {
        let said = Signs::in_agent(agent.as_ref());
        Self {
            class: class(said),
            platform: platform(said),
            names_app: said.any(IN_APP),
            bare_webkit: said.any(WEBKIT) && !said.any(NAMED_WEBKIT),
            firefox: said.any(FIREFOX),
            wechat: said.any(WECHAT),
            user_agent: user_agent(said),
        }
    }

    /// The kind of program, which does not depend on other headers.
    pub const fn class(self) -> Class {
        self.class
    }
}

/// The class table; the first match wins.
fn class(said: Signs) -> Class {
    if said.any(PREVIEW) {
        Class::Preview
    } else if said.any(AI) {
        Class::Ai
    } else if said.any(CRAWLER) || said.any(COMPATIBLE) && said.any(ROBOT) {
        Class::Crawler
    } else if said.any(BROWSER) {
        Class::Browser
    } else {
        Class::Client
    }
}

/// The platform table without its first row, the client hint; the first match wins.
fn platform(said: Signs) -> Platform {
    if said.any(APPLE_MOBILE) {
        Platform::Ios
    } else if said.any(WINDOWS_PHONE) {
        Platform::Other
    } else if said.any(ANDROID) {
        Platform::Android
    } else if said.any(WINDOWS) {
        Platform::Windows
    } else if said.any(MAC) {
        Platform::Macos
    } else {
        Platform::Other
    }
}

/// Tokens of browsers; the first match wins, because most also name Chrome or Safari.
const BROWSERS: [(u64, Browser); 12] = [
    (EDGE, Browser::Edge),
    (OPERA, Browser::Opera),
    (SAMSUNG, Browser::Samsung),
    (YANDEX, Browser::Yandex),
    (UC, Browser::Uc),
    (DUCKDUCKGO, Browser::DuckDuckGo),
    (VIVALDI, Browser::Vivaldi),
    (HUAWEI, Browser::Huawei),
    (MI, Browser::Mi),
    (FIREFOX | FIREFOX_IOS, Browser::Firefox),
    (CHROME, Browser::Chrome),
    (SAFARI, Browser::Safari),
];

/// Tokens of apps with their own browser; the first match wins, because apps of one company name each other.
const APPS: [(u64, InApp); 16] = [
    (MESSENGER, InApp::Messenger),
    (INSTAGRAM, InApp::Instagram),
    (THREADS, InApp::Threads),
    (FACEBOOK, InApp::Facebook),
    (TIKTOK, InApp::TikTok),
    (LINE, InApp::Line),
    (SNAPCHAT, InApp::Snapchat),
    (X, InApp::X),
    (LINKEDIN, InApp::LinkedIn),
    (PINTEREST, InApp::Pinterest),
    (KAKAOTALK, InApp::KakaoTalk),
    (TELEGRAM, InApp::Telegram),
    (ZALO, InApp::Zalo),
    (GOOGLE, InApp::Google),
    (OUTLOOK, InApp::Outlook),
    (WECHAT, InApp::WeChat),
];

/// The browser and device that a User-Agent names, before other headers are considered.
fn user_agent(said: Signs) -> UserAgent {
    // Every Android browser names Safari, but none is Safari.
    let names = |sign: u64| said.any(sign) && !(sign == SAFARI && said.any(ANDROID));
    let device = if said.any(TABLET) || said.any(ANDROID) && !said.any(MOBILE | WINDOWS_PHONE) {
        Device::Tablet
    } else if said.any(MOBILE | APPLE_MOBILE) {
        Device::Mobile
    } else if said.any(WINDOWS | MAC | LINUX | CHROME_OS) {
        Device::Desktop
    } else {
        Device::Unknown
    };
    let os = if said.any(CHROME_OS) {
        Os::ChromeOs
    } else if said.any(LINUX) {
        Os::Linux
    } else {
        Os::Other
    };
    UserAgent {
        browser: BROWSERS.iter().find(|known| names(known.0)).map_or(Browser::Other, |known| known.1),
        in_app: APPS.iter().find(|known| said.any(known.0)).map_or(InApp::Other, |known| known.1),
        os,
        device,
    }
}

impl UserAgent {
    /// The same, combined with the other headers; with `in_app`, the browser is an app's web view.
    pub(super) fn on(self, platform: Platform, in_app: bool) -> Self {
        let os = match platform {
            Platform::Ios => Os::Ios,
            Platform::Android => Os::Android,
            Platform::Macos => Os::Macos,
            Platform::Windows => Os::Windows,
            Platform::Other => self.os,
        };
        let (browser, in_app) = if in_app { (Browser::WebView, self.in_app) } else { (self.browser, InApp::None) };
        // A tablet that requests the desktop site, which phones seldom do.
        let is_tablet = self.device == Device::Desktop && matches!(platform, Platform::Ios | Platform::Android);
        let device = if is_tablet { Device::Tablet } else { self.device };
        Self { browser, in_app, os, device }
    }
}

const PREVIEW: u64 = 1;
const AI: u64 = 1 << 1;
const CRAWLER: u64 = 1 << 2;
const COMPATIBLE: u64 = 1 << 3;
const ROBOT: u64 = 1 << 4;
const BROWSER: u64 = 1 << 5;
const APPLE_MOBILE: u64 = 1 << 6;
const WINDOWS_PHONE: u64 = 1 << 7;
const ANDROID: u64 = 1 << 8;
const WINDOWS: u64 = 1 << 9;
const MAC: u64 = 1 << 10;
const IN_APP: u64 = 1 << 11;
const WECHAT: u64 = 1 << 12;
const WEBKIT: u64 = 1 << 13;
const NAMED_WEBKIT: u64 = 1 << 14;
const FIREFOX: u64 = 1 << 15;
const EDGE: u64 = 1 << 16;
const OPERA: u64 = 1 << 17;
const SAMSUNG: u64 = 1 << 18;
const YANDEX: u64 = 1 << 19;
const UC: u64 = 1 << 20;
const DUCKDUCKGO: u64 = 1 << 21;
const VIVALDI: u64 = 1 << 22;
const HUAWEI: u64 = 1 << 23;
const MI: u64 = 1 << 24;
const FIREFOX_IOS: u64 = 1 << 25;
const CHROME: u64 = 1 << 26;
const SAFARI: u64 = 1 << 27;
const TABLET: u64 = 1 << 28;
const MOBILE: u64 = 1 << 29;
const LINUX: u64 = 1 << 30;
const CHROME_OS: u64 = 1 << 31;
const MESSENGER: u64 = 1 << 32;
const INSTAGRAM: u64 = 1 << 33;
const THREADS: u64 = 1 << 34;
const FACEBOOK: u64 = 1 << 35;
const TIKTOK: u64 = 1 << 36;
const LINE: u64 = 1 << 37;
const SNAPCHAT: u64 = 1 << 38;
const X: u64 = 1 << 39;
const LINKEDIN: u64 = 1 << 40;
const PINTEREST: u64 = 1 << 41;
const KAKAOTALK: u64 = 1 << 42;
const TELEGRAM: u64 = 1 << 43;
const ZALO: u64 = 1 << 44;
const GOOGLE: u64 = 1 << 45;
const OUTLOOK: u64 = 1 << 46;

/// Where and how a token counts.
#[derive(Clone, Copy)]
enum Rule {
    /// Anywhere, in any case.
    Anywhere,
    /// At the start only, in any case.
    AtStart,
    /// Anywhere, as written.
    Exact,
}

use Rule::{Anywhere, AtStart, Exact};

#[rustfmt::skip]
const TOKENS: &[(u64, Rule, &[&str])] = &[
    (PREVIEW, Anywhere, &[
        "facebookexternalhit", "Facebot", "meta-externalfetcher", "Twitterbot", "Slackbot", "Slack-ImgProxy", "Discordbot",
        "TelegramBot", "LinkedInBot", "SkypeUriPreview", "MicrosoftPreview", "BingPreview", "Pinterestbot",
        "pinterest.com/bot", "redditbot", "vkShare", "Snap URL Preview", "Mastodon/", "Cardyb", "Iframely", "Embedly",
        "Google-PageRenderer", "kakaotalk-scrap", "XING-contenttabreceiver",
    ]),
    (PREVIEW, AtStart, &["WhatsApp/", "Viber"]),
    (AI, Anywhere, &[
        "GPTBot", "OAI-SearchBot", "ChatGPT-User", "ClaudeBot", "Claude-User", "Claude-SearchBot", "anthropic-ai",
        "PerplexityBot", "Perplexity-User", "GoogleOther", "CCBot", "Bytespider", "Amazonbot", "meta-externalagent",
        "cohere-ai", "DuckAssistBot", "MistralAI-User", "YouBot",
    ]),
    (CRAWLER, Anywhere, &[
        "Googlebot", "Google-InspectionTool", "AdsBot-Google", "bingbot", "DuckDuckBot", "YandexBot", "Baiduspider",
        "Applebot", "Sogou web spider", "PetalBot", "SeznamBot", "UptimeRobot", "Pingdom", "StatusCake", "Site24x7",
        "HeadlessChrome", "Lighthouse",
    ]),
    (COMPATIBLE, Anywhere, &["compatible;"]),
    (ROBOT, Anywhere, &["bot", "crawl", "spider"]),
    (BROWSER, Anywhere, &["Mozilla/"]),
    (BROWSER, AtStart, &["Opera/"]),
    (APPLE_MOBILE, Exact, &["iPhone", "iPod"]),
    (APPLE_MOBILE | TABLET, Exact, &["iPad"]),
    (WINDOWS_PHONE, Exact, &["Windows Phone"]),
    (ANDROID, Exact, &["Android"]),
    (WINDOWS, Exact, &["Windows"]),
    (MAC, Exact, &["Macintosh", "Mac OS X"]),
    (IN_APP, Exact, &["; wv)"]),
    (IN_APP | FACEBOOK, Exact, &["FBAN/", "FBAV/", "FB_IAB", "FBIOS"]),
    (IN_APP | MESSENGER, Exact, &["MessengerForiOS", "MessengerLiteForiOS", "Orca-Android"]),
    (IN_APP | INSTAGRAM, Exact, &["Instagram"]),
    (IN_APP | THREADS, Exact, &["Barcelona"]),
    (IN_APP | TIKTOK, Exact, &["musical_ly", "BytedanceWebview", "TikTok", "trill"]),
    (IN_APP | LINE, Exact, &["Line/"]),
    (IN_APP | SNAPCHAT, Exact, &["Snapchat"]),
    (IN_APP | X, Exact, &["Twitter for", "TwitterAndroid"]),
    (IN_APP | LINKEDIN, Exact, &["LinkedInApp"]),
    (IN_APP | PINTEREST, Exact, &["Pinterest/"]),
    (IN_APP | KAKAOTALK, Exact, &["KAKAOTALK"]),
    (IN_APP | TELEGRAM, Exact, &["Telegram-Android"]),
    (IN_APP | ZALO, Exact, &["ZaloTheme/"]),
    (IN_APP | GOOGLE, Exact, &["GSA/"]),
    (IN_APP | OUTLOOK, Exact, &["Outlook-iOS", "Outlook-Android"]),
    (IN_APP | WECHAT, Exact, &["MicroMessenger"]),
    (WEBKIT, Exact, &["AppleWebKit"]),
    (NAMED_WEBKIT | SAFARI, Exact, &["Safari/"]),
    (NAMED_WEBKIT | CHROME, Exact, &["CriOS"]),
    (NAMED_WEBKIT | FIREFOX_IOS, Exact, &["FxiOS"]),
    (NAMED_WEBKIT | EDGE, Exact, &["EdgiOS"]),
    (FIREFOX, Exact, &["Firefox/"]),
    (CHROME, Exact, &["Chrome/"]),
    (EDGE, Exact, &["Edg/", "EdgA/", "Edge/"]),
    (OPERA, Exact, &["OPR/", "OPiOS/", "OPT/", "Opera/"]),
    (SAMSUNG, Exact, &["SamsungBrowser/"]),
    (YANDEX, Exact, &["YaBrowser/"]),
    (UC, Exact, &["UCBrowser/"]),
    (DUCKDUCKGO, Exact, &["DuckDuckGo/", "Ddg/"]),
    (VIVALDI, Exact, &["Vivaldi/"]),
    (HUAWEI, Exact, &["HuaweiBrowser/"]),
    (MI, Exact, &["MiuiBrowser/"]),
    (TABLET, Exact, &["Tablet;", "Tablet)", "Silk/"]),
    (MOBILE, Exact, &["Mobile", "Opera Mini", "Opera Mobi"]),
    (LINUX, Exact, &["Linux"]),
    (CHROME_OS, Exact, &["CrOS "]),
];

/// The set of tokens found in a User-Agent.
#[derive(Clone, Copy)]
struct Signs(u64);

impl Signs {
    fn any(self, sign: u64) -> bool {
        self.0 & sign != 0
    }

    fn in_agent(agent: &[u8]) -> Self {
        let scanner = &*SCANNER;
        let mut said = 0;
        for hit in scanner.automaton.find_overlapping_iter(agent) {
            let (sign, rule, token) = scanner.tokens[hit.pattern()];
            let counts = match rule {
                Anywhere => true,
                AtStart => hit.start() == 0,
                Exact => &agent[hit.range()] == token.as_bytes(),
            };
            if counts {
                said |= sign;
            }
        }
        Self(said)
    }
}

struct Scanner {
    automaton: AhoCorasick,
    tokens: Vec<(u64, Rule, &'static str)>,
}

static SCANNER: LazyLock<Scanner> = LazyLock::new(|| {
    let tokens: Vec<_> =
        TOKENS.iter().flat_map(|&(sign, rule, texts)| texts.iter().map(move |&text| (sign, rule, text))).collect();
    // A DFA would be twice as fast and ten times as large; each distinct agent is read once, so size matters more.
    let automaton = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(tokens.iter().map(|(_, _, text)| text))
        .expect("a hundred short tokens stay far below the limits of the automaton");
    Scanner { automaton, tokens }
});
