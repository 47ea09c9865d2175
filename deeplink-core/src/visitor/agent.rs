//! Classification of a User-Agent string in one pass over it.
//!
//! The tokens live in one table. Every token is searched for case-insensitively; a token with a stricter rule is then
//! checked where it was found, so one automaton serves all rules.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::{Class, Platform};

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
        }
    }

    /// The sort of program, which no other header changes.
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

const PREVIEW: u32 = 1;
const AI: u32 = 1 << 1;
const CRAWLER: u32 = 1 << 2;
const COMPATIBLE: u32 = 1 << 3;
const ROBOT: u32 = 1 << 4;
const BROWSER: u32 = 1 << 5;
const APPLE_MOBILE: u32 = 1 << 6;
const WINDOWS_PHONE: u32 = 1 << 7;
const ANDROID: u32 = 1 << 8;
const WINDOWS: u32 = 1 << 9;
const MAC: u32 = 1 << 10;
const IN_APP: u32 = 1 << 11;
const WECHAT: u32 = 1 << 12;
const WEBKIT: u32 = 1 << 13;
const NAMED_WEBKIT: u32 = 1 << 14;
const FIREFOX: u32 = 1 << 15;

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
const TOKENS: &[(u32, Rule, &[&str])] = &[
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
    (APPLE_MOBILE, Exact, &["iPhone", "iPod", "iPad"]),
    (WINDOWS_PHONE, Exact, &["Windows Phone"]),
    (ANDROID, Exact, &["Android"]),
    (WINDOWS, Exact, &["Windows"]),
    (MAC, Exact, &["Macintosh", "Mac OS X"]),
    (IN_APP, Exact, &[
        "FBAN/", "FBAV/", "FB_IAB", "FBIOS", "MessengerForiOS", "Orca-Android", "Instagram", "Barcelona", "musical_ly",
        "BytedanceWebview", "TikTok", "trill", "Line/", "Snapchat", "Twitter for", "TwitterAndroid", "LinkedInApp",
        "Pinterest/", "KAKAOTALK", "Telegram-Android", "ZaloTheme/", "GSA/", "Outlook-iOS", "Outlook-Android", "; wv)",
    ]),
    (IN_APP | WECHAT, Exact, &["MicroMessenger"]),
    (WEBKIT, Exact, &["AppleWebKit"]),
    (NAMED_WEBKIT, Exact, &["Safari/", "CriOS", "FxiOS", "EdgiOS"]),
    (FIREFOX, Exact, &["Firefox/"]),
];

/// The set of tokens found in a User-Agent.
#[derive(Clone, Copy)]
struct Signs(u32);

impl Signs {
    fn any(self, sign: u32) -> bool {
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
    tokens: Vec<(u32, Rule, &'static str)>,
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
