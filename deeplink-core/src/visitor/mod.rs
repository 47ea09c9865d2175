//! Visitors, classified by the request headers of a visit.
//!
//! Everything here is a pure function of header text. The traits of a User-Agent ([`AgentTraits`]) are separate
//! from what the other headers add ([`Visitor`]), because they can be cached per distinct agent.
//! Where the visit leads is decided in [`crate::resolve`].

mod accept;
mod agent;
mod country;
mod language;
mod referer;
#[cfg(test)]
mod tests;
mod user_agent;

pub use accept::{Form, wants_json};
pub use agent::AgentTraits;
pub use country::Country;
pub use language::Language;
pub use referer::{OTHER, referer_host};
use serde::{Deserialize, Serialize};
pub use user_agent::{Browser, Device, InApp, Os, UserAgent};

/// The operating system of the visitor; also the `platform` of clicks and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = VisitorPlatform))]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// iPhone, iPod, and an iPad in mobile mode.
    Ios,
    /// Android.
    Android,
    /// A Mac, or an iPad in desktop mode, which sends the same headers.
    Macos,
    /// Windows on a computer.
    Windows,
    /// Everything else, including no User-Agent.
    Other,
}

impl Platform {
    /// All platforms, in the order of their codes.
    pub const ALL: [Self; 5] = [Self::Ios, Self::Android, Self::Macos, Self::Windows, Self::Other];

    /// The name used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ios => "ios",
            Self::Android => "android",
            Self::Macos => "macos",
            Self::Windows => "windows",
            Self::Other => "other",
        }
    }

    /// A small number for storage; it never changes its meaning.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The platform stored under this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The platform that a `Sec-CH-UA-Platform` value names, if it is a relevant one.
    fn from_hint(hint: &str) -> Option<Self> {
        let name = hint.trim().trim_matches('"');
        [Self::Android, Self::Ios, Self::Macos, Self::Windows]
            .into_iter()
            .find(|platform| name.eq_ignore_ascii_case(platform.as_str()))
    }
}

/// Kind of click.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ClickKind {
    /// A person with a browser.
    Human,
    /// A messenger or social network fetching a preview.
    Preview,
    /// A search engine or monitor.
    Crawler,
    /// An AI agent, a program or a library.
    Agent,
}

impl ClickKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Self; 4] = [Self::Human, Self::Preview, Self::Crawler, Self::Agent];

    /// The name used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Preview => "preview",
            Self::Crawler => "crawler",
            Self::Agent => "agent",
        }
    }

    /// A small number for storage; it never changes its meaning.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind stored under this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The kind of this name, exactly as it is on the wire.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether such a click is in the funnel's `clicks` and emits a `click` event.
    pub const fn in_funnel(self) -> bool {
        matches!(self, Self::Human | Self::Agent)
    }
}

/// Type of client, according to its User-Agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = VisitorClass))]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Fetches previews for messengers and social networks.
    Preview,
    /// An AI crawler or assistant.
    Ai,
    /// A search engine, monitor or headless browser.
    Crawler,
    /// A browser.
    Browser,
    /// Anything else: curl, SDKs, HTTP libraries, no User-Agent.
    Client,
}

impl Class {
    /// The name used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Preview => "preview",
            Self::Ai => "ai",
            Self::Crawler => "crawler",
            Self::Browser => "browser",
            Self::Client => "client",
        }
    }

    /// Whether this is a known bot, which gets the landing page instead of being redirected.
    pub const fn is_listed(self) -> bool {
        matches!(self, Self::Preview | Self::Ai | Self::Crawler)
    }

    /// The kind of click of a visit from this class of client, whatever the form of the response.
    pub const fn click_kind(self) -> ClickKind {
        match self {
            Self::Preview => ClickKind::Preview,
            Self::Crawler => ClickKind::Crawler,
            Self::Browser => ClickKind::Human,
            Self::Ai | Self::Client => ClickKind::Agent,
        }
    }
}

/// A visitor as the decision needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// The operating system, with the client hint taken into account.
    pub platform: Platform,
    /// The type of client.
    pub class: Class,
    /// An in-app browser, where custom schemes often do nothing.
    pub in_app: bool,
    /// Firefox, which follows the fallback of every intent.
    pub firefox: bool,
    /// `WeChat`, which cannot open apps or stores.
    pub wechat: bool,
    /// What a person's click is recorded with.
    pub user_agent: UserAgent,
}

impl Visitor {
    /// Combines the User-Agent's traits with the `Sec-CH-UA-Platform` header, which takes precedence.
    pub fn new(agent: AgentTraits, platform_hint: Option<&str>) -> Self {
        let platform = platform_hint.and_then(Platform::from_hint).unwrap_or(agent.platform);
        let bare_webview = agent.bare_webkit && platform == Platform::Ios;
        // An iPad's web view requests the desktop site; it is treated like a Mac.
        let bare_webview_of_mac = agent.bare_webkit && platform == Platform::Macos;
        let in_app = agent.class == Class::Browser && (agent.names_app || bare_webview);
        Self {
            platform,
            class: agent.class,
            in_app,
            // An app's or program's HTTP library is not a browser, even if its system is known.
            user_agent: match agent.class {
                Class::Browser => agent.user_agent.on(platform, in_app || bare_webview_of_mac),
                _ => UserAgent {
                    browser: Browser::Unknown,
                    in_app: InApp::Unknown,
                    ..agent.user_agent.on(platform, false)
                },
            },
            firefox: agent.firefox,
            wechat: agent.wechat,
        }
    }
}

/// Whether the headers announce a prefetch: a `Sec-Purpose` or `Purpose` that contains `prefetch`, or `X-Moz: prefetch`.
pub fn is_prefetch(purposes: [Option<&[u8]>; 2], x_moz: Option<&[u8]>) -> bool {
    const PREFETCH: &[u8] = b"prefetch";
    let announces = |value: &[u8]| value.windows(PREFETCH.len()).any(|part| part.eq_ignore_ascii_case(PREFETCH));
    purposes.into_iter().flatten().any(announces)
        || x_moz.is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(PREFETCH))
}
