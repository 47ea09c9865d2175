//! The query string of a visit: the few parameters that have a meaning. All others are ignored.

use std::borrow::Cow;
use std::collections::BTreeSet;

use url::form_urlencoded;

/// Limit of the text added to a destination, so that visitors cannot inflate it.
const PASSED_ON_BYTES: usize = 1024;

/// Click ids of advertising networks, and the old `ref`.
const CLICK_IDS: [&str; 10] =
    ["gclid", "gbraid", "wbraid", "dclid", "fbclid", "msclkid", "ttclid", "twclid", "li_fat_id", "ref"];

/// What a visit asks for in its query string; for a repeated parameter the first value counts.
#[derive(Debug, Default)]
pub(super) struct Query<'q> {
    /// `redirect=1`.
    pub(super) redirect: bool,
    /// `os=ios`.
    pub(super) os_is_ios: bool,
    /// Campaign parameters in their original order, without those that contain control characters.
    campaign: Vec<Campaign<'q>>,
    /// Those that are passed on, form-encoded and joined.
    passed_on: String,
}

#[derive(Debug)]
struct Campaign<'q> {
    name: Cow<'q, str>,
    value: Cow<'q, str>,
    /// Whether there is room to pass it on.
    passed_on: bool,
}

impl<'q> Query<'q> {
    pub(super) fn read(query: Option<&'q str>) -> Self {
        let mut read = Self::default();
        let Some(query) = query.filter(|query| !query.is_empty()) else { return read };
        let mut seen = BTreeSet::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let has_meaning = matches!(&*name, "redirect" | "os") || is_campaign(&name);
            if !has_meaning || !seen.insert(name.clone()) {
                continue;
            }
            match &*name {
                "redirect" => read.redirect = value == "1",
                "os" => read.os_is_ios = value == "ios",
                _ if value.contains(char::is_control) => {}
                _ => read.add_campaign(name, value),
            }
        }
        read
    }

    /// Keeps a campaign parameter, and passes it on if it still fits.
    fn add_campaign(&mut self, name: Cow<'q, str>, value: Cow<'q, str>) {
        let before = self.passed_on.len();
        let mut form = form_urlencoded::Serializer::new(std::mem::take(&mut self.passed_on));
        self.passed_on = form.append_pair(&name, &value).finish();
        let fits = self.passed_on.len() <= PASSED_ON_BYTES;
        if !fits {
            self.passed_on.truncate(before);
        }
        self.campaign.push(Campaign { name, value, passed_on: fits });
    }

    /// What is added to a web address: `a=b&c=d`, or nothing.
    pub(super) fn passed_on(&self) -> Option<&str> {
        Some(self.passed_on.as_str()).filter(|text| !text.is_empty())
    }

    /// Whether a parameter with this name is passed on.
    pub(super) fn passes_on(&self, name: &str) -> bool {
        self.campaign.iter().any(|known| known.passed_on && known.name == name)
    }

    /// The value of a campaign parameter.
    pub(super) fn campaign(&self, name: &str) -> Option<&str> {
        self.campaign.iter().find(|known| known.name == name).map(|known| &*known.value)
    }
}

/// Whether a parameter with this name may be passed on.
fn is_campaign(name: &str) -> bool {
    let is_utm = |rest: &str| {
        (1..=32).contains(&rest.len())
            && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    name.strip_prefix("utm_").is_some_and(is_utm) || CLICK_IDS.contains(&name)
}
