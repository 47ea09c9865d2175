//! The rows of the decision table, and which one applies to a visit. The consequences of a row are in `plan`.

use std::fmt;

use super::target::{is_web, package_of};
use super::{HostContext, LinkView};
use crate::visitor::{Platform, Visitor};

/// A row of the decision table: the visitor's platform, and what the link and the account have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// iOS, through the alternate host.
    D1,
    /// iOS, with a deep link of the app's own scheme.
    D2,
    /// iOS, with a deep link that is a web address.
    D3,
    /// iOS, with the App Store only.
    D4,
    /// iOS, with destinations for Android only.
    D5,
    /// Android, through the alternate host.
    D6,
    /// Android, with a deep link that can be an intent.
    D7,
    /// Android, with a deep link that cannot.
    D8,
    /// Android, with Google Play only.
    D9,
    /// Android, with destinations for iOS only.
    D10,
    /// A Mac, with destinations for iOS: it may be an iPad.
    D11,
    /// A Mac, with destinations for Android only.
    D12,
    /// Any other system, with destinations for phones.
    D13,
    /// A web page only.
    D14,
    /// No destination.
    D15,
}

impl Row {
    /// Every row, in the order of the table.
    pub const ALL: [Self; 15] = [
        Self::D1,
        Self::D2,
        Self::D3,
        Self::D4,
        Self::D5,
        Self::D6,
        Self::D7,
        Self::D8,
        Self::D9,
        Self::D10,
        Self::D11,
        Self::D12,
        Self::D13,
        Self::D14,
        Self::D15,
    ];

    /// The row of a visit. [`decide`](super::decide) follows it.
    pub fn of(link: &LinkView<'_>, host: &HostContext<'_>, visitor: Visitor) -> Self {
        match visitor.platform {
            _ if !link.has_platform_destination() && link.to.web_url.is_some() => Self::D14,
            _ if !link.has_platform_destination() => Self::D15,
            Platform::Ios if link.has_ios() => Self::on_ios(link, host),
            Platform::Ios => Self::D5,
            Platform::Android if link.has_android() => Self::on_android(link, host, visitor),
            Platform::Android => Self::D10,
            Platform::Macos if link.has_ios() => Self::D11,
            Platform::Macos => Self::D12,
            Platform::Windows | Platform::Other => Self::D13,
        }
    }

    /// The row of an iPhone or an iPad, if the link has something for it.
    pub(super) fn on_ios(link: &LinkView<'_>, host: &HostContext<'_>) -> Self {
        match link.to.ios_deep_link {
            _ if host.alternate.is_some() => Self::D1,
            Some(app) if is_web(app) => Self::D3,
            Some(_) => Self::D2,
            None => Self::D4,
        }
    }

    fn on_android(link: &LinkView<'_>, host: &HostContext<'_>, visitor: Visitor) -> Self {
        match link.to.android_deep_link {
            _ if host.alternate.is_some() => Self::D6,
            Some(app) if NoIntent::of(app, link, host, visitor).is_none() => Self::D7,
            Some(_) => Self::D8,
            None => Self::D9,
        }
    }

    /// The row's name in the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::D1 => "D1",
            Self::D2 => "D2",
            Self::D3 => "D3",
            Self::D4 => "D4",
            Self::D5 => "D5",
            Self::D6 => "D6",
            Self::D7 => "D7",
            Self::D8 => "D8",
            Self::D9 => "D9",
            Self::D10 => "D10",
            Self::D11 => "D11",
            Self::D12 => "D12",
            Self::D13 => "D13",
            Self::D14 => "D14",
            Self::D15 => "D15",
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an Android deep link cannot be an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoIntent {
    /// Firefox follows the fallback of every intent.
    Firefox,
    /// The fragment, which an intent needs for itself.
    Fragment,
    /// Neither the store address nor the account names the app.
    Package,
}

impl NoIntent {
    pub(super) fn of(deep_link: &str, link: &LinkView<'_>, host: &HostContext<'_>, visitor: Visitor) -> Option<Self> {
        if visitor.firefox {
            Some(Self::Firefox)
        } else if deep_link.contains('#') {
            Some(Self::Fragment)
        } else if package_of(link.to.android_store_url, host.only_android_package).is_none() {
            Some(Self::Package)
        } else {
            None
        }
    }
}
