//! What a User-Agent says about a person's browser and device, as reports break clicks down by it.

macro_rules! coded {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal $title:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            /// Not recorded: a click of an agent, or one from before this was recorded.
            #[default]
            Unknown,
            $($(#[$vdoc])* $variant,)+
        }

        impl $name {
            /// All of them, in the order of their codes. A code never changes its meaning: new ones go last.
            pub const ALL: &'static [Self] = &[Self::Unknown, $(Self::$variant,)+];

            /// The key of its group in a report.
            pub const fn as_str(self) -> &'static str {
                match self { Self::Unknown => "unknown", $(Self::$variant => $word,)+ }
            }

            /// Its display name.
            pub const fn title(self) -> &'static str {
                match self { Self::Unknown => "Unknown", $(Self::$variant => $title,)+ }
            }

            fn from_code(code: u8) -> Self {
                Self::ALL.get(usize::from(code)).copied().unwrap_or_default()
            }
        }
    };
}

coded! {
    /// A browser.
    Browser {
        /// Any other browser, and programs that name none.
        Other = "other" "Other",
        /// Chrome, and browsers whose User-Agent names only Chrome.
        Chrome = "chrome" "Chrome",
        /// Safari.
        Safari = "safari" "Safari",
        /// Firefox.
        Firefox = "firefox" "Firefox",
        /// Edge.
        Edge = "edge" "Edge",
        /// Samsung Internet.
        Samsung = "samsung_internet" "Samsung Internet",
        /// Opera.
        Opera = "opera" "Opera",
        /// Yandex Browser.
        Yandex = "yandex" "Yandex Browser",
        /// UC Browser.
        Uc = "uc_browser" "UC Browser",
        /// `DuckDuckGo`'s browser.
        DuckDuckGo = "duckduckgo" "DuckDuckGo",
        /// Vivaldi.
        Vivaldi = "vivaldi" "Vivaldi",
        /// Huawei Browser.
        Huawei = "huawei" "Huawei Browser",
        /// Xiaomi's Mi Browser.
        Mi = "mi_browser" "Mi Browser",
        /// The web view of an app.
        WebView = "webview" "App WebView",
    }
}

coded! {
    /// An app that showed the page in its own browser.
    InApp {
        /// Not in an app: a browser.
        None = "none" "None",
        /// Any other app.
        Other = "other" "Other",
        /// Facebook.
        Facebook = "facebook" "Facebook",
        /// Messenger.
        Messenger = "messenger" "Messenger",
        /// Instagram.
        Instagram = "instagram" "Instagram",
        /// Threads.
        Threads = "threads" "Threads",
        /// `TikTok`.
        TikTok = "tiktok" "TikTok",
        /// LINE.
        Line = "line" "LINE",
        /// Snapchat.
        Snapchat = "snapchat" "Snapchat",
        /// X, formerly Twitter.
        X = "x" "X",
        /// `LinkedIn`.
        LinkedIn = "linkedin" "LinkedIn",
        /// Pinterest.
        Pinterest = "pinterest" "Pinterest",
        /// `KakaoTalk`.
        KakaoTalk = "kakaotalk" "KakaoTalk",
        /// Telegram.
        Telegram = "telegram" "Telegram",
        /// Zalo.
        Zalo = "zalo" "Zalo",
        /// Google's search app.
        Google = "google" "Google",
        /// Outlook.
        Outlook = "outlook" "Outlook",
        /// `WeChat`.
        WeChat = "wechat" "WeChat",
    }
}

coded! {
    /// An operating system.
    Os {
        /// Any other.
        Other = "other" "Other",
        /// iOS and iPadOS.
        Ios = "ios" "iOS",
        /// Android.
        Android = "android" "Android",
        /// macOS, and an iPad in desktop mode, which sends the same headers.
        Macos = "macos" "macOS",
        /// Windows.
        Windows = "windows" "Windows",
        /// Linux.
        Linux = "linux" "Linux",
        /// Chrome OS.
        ChromeOs = "chromeos" "ChromeOS",
    }
}

coded! {
    /// A kind of device.
    Device {
        /// A phone.
        Mobile = "mobile" "Mobile",
        /// A tablet.
        Tablet = "tablet" "Tablet",
        /// A computer.
        Desktop = "desktop" "Desktop",
    }
}

/// A person's browser and device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UserAgent {
    /// The browser.
    pub browser: Browser,
    /// The app around it.
    pub in_app: InApp,
    /// The operating system.
    pub os: Os,
    /// The kind of device; unknown if the User-Agent names no system.
    pub device: Device,
}

impl UserAgent {
    /// A number for storage, one byte for each part; it never changes its meaning, and 0 means that nothing is known.
    pub const fn code(self) -> u32 {
        u32::from_le_bytes([self.browser as u8, self.in_app as u8, self.os as u8, self.device as u8])
    }

    /// What is stored under this number; parts that this build does not know are unknown.
    pub fn from_code(code: u32) -> Self {
        let [browser, in_app, os, device] = code.to_le_bytes();
        Self {
            browser: Browser::from_code(browser),
            in_app: InApp::from_code(in_app),
            os: Os::from_code(os),
            device: Device::from_code(device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_stable_and_lead_back() {
        let words = |all: &[&'static str]| all.join(" ");
        assert_eq!(
            words(&Browser::ALL.iter().map(|of| of.as_str()).collect::<Vec<_>>()),
            "unknown other chrome safari firefox edge samsung_internet opera yandex uc_browser duckduckgo vivaldi huawei \
             mi_browser webview"
        );
        assert_eq!(
            words(&InApp::ALL.iter().map(|of| of.as_str()).collect::<Vec<_>>()),
            "unknown none other facebook messenger instagram threads tiktok line snapchat x linkedin pinterest kakaotalk \
             telegram zalo google outlook wechat"
        );
        assert_eq!(
            words(&Os::ALL.iter().map(|of| of.as_str()).collect::<Vec<_>>()),
            "unknown other ios android macos windows linux chromeos"
        );
        assert_eq!(
            words(&Device::ALL.iter().map(|of| of.as_str()).collect::<Vec<_>>()),
            "unknown mobile tablet desktop"
        );
        assert_eq!(UserAgent::default().code(), 0);
        for &browser in Browser::ALL {
            for &in_app in InApp::ALL {
                for &os in Os::ALL {
                    for &device in Device::ALL {
                        let agent = UserAgent { browser, in_app, os, device };
                        assert_eq!(UserAgent::from_code(agent.code()), agent);
                    }
                }
            }
        }
        assert_eq!(UserAgent::from_code(u32::MAX), UserAgent::default());
    }
}
