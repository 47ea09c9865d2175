//! Devices: the headers a browser sends, the size of its window, and its number of touch points.

use serde_json::{Value, json};

/// A browser on a device. Headless Chromium identifies as a crawler, so every visit is made as one of these.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Device {
    pub(crate) agent: &'static str,
    /// `Sec-CH-UA-Platform`; only Chromium-based browsers send it.
    pub(crate) hint: Option<&'static str>,
    /// In CSS pixels.
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) touch_points: u32,
}

pub(crate) const IPHONE: Device = Device {
    agent: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
    hint: None,
    width: 390,
    height: 844,
    touch_points: 5,
};

pub(crate) const SMALL_IPHONE: Device = Device { width: 320, height: 568, ..IPHONE };

pub(crate) const ANDROID: Device = Device {
    agent: "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36",
    hint: Some("Android"),
    width: 412,
    height: 915,
    touch_points: 5,
};

pub(crate) const MAC: Device = Device {
    agent: "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15",
    hint: None,
    width: 1440,
    height: 900,
    touch_points: 0,
};

/// An iPad in desktop mode, which sends a Mac's headers byte for byte.
pub(crate) const IPAD: Device = Device { width: 820, height: 1180, touch_points: 5, ..MAC };

pub(crate) const WINDOWS: Device = Device {
    agent: "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    hint: Some("Windows"),
    width: 1440,
    height: 900,
    touch_points: 0,
};

/// A tablet that asks for desktop pages: its User-Agent is a desktop's, its client hint is not.
pub(crate) const ANDROID_TABLET: Device = Device {
    agent: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    hint: Some("Android"),
    width: 820,
    height: 1180,
    touch_points: 5,
};

impl Device {
    /// Overrides everything that a page or a server can detect about the browser.
    pub(crate) fn identity(self, agent_suffix: &str) -> Value {
        let mut identity = json!({ "userAgent": format!("{}{agent_suffix}", self.agent) });
        if let Some(platform) = self.hint {
            identity["userAgentMetadata"] = json!({
                "platform": platform,
                "platformVersion": "15",
                "architecture": "",
                "model": "",
                "mobile": self.is_touched(),
            });
        }
        identity
    }

    /// The size of the window, with a pixel ratio high enough for screenshots.
    pub(crate) fn metrics(self) -> Value {
        let scale = if self.width < 600 { 1.5 } else { 1.0 };
        json!({ "width": self.width, "height": self.height, "deviceScaleFactor": scale, "mobile": self.is_touched() })
    }

    pub(crate) fn is_touched(self) -> bool {
        self.touch_points > 0
    }
}
