//! The five URLs that a link can lead to. Code that treats them all alike maps over [`Destinations`].

use crate::error::{ErrorCode, Invalid};
use crate::url::{self, Refused};

/// One value for each destination of a link; by default its URL, in the parser's serialization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Destinations<T = Option<String>> {
    /// Deep link that opens the iOS app.
    pub ios_deep_link: T,
    /// The App Store page.
    pub ios_store_url: T,
    /// Deep link that opens the Android app.
    pub android_deep_link: T,
    /// The Google Play page.
    pub android_store_url: T,
    /// The web page for desktops and everything else.
    pub web_url: T,
}

/// A field that holds a URL, and which URLs it accepts.
#[derive(Debug, Clone, Copy)]
pub struct UrlField {
    /// The name in the API, which is also the name of the column.
    pub name: &'static str,
    rule: fn(&str) -> Result<String, Refused>,
}

impl UrlField {
    pub(crate) const fn new(name: &'static str, rule: fn(&str) -> Result<String, Refused>) -> Self {
        Self { name, rule }
    }

    /// Applies the field's rule and gives the URL to store.
    pub fn check(self, text: &str) -> Result<String, Invalid> {
        let name = self.name;
        (self.rule)(text).map_err(|why| Invalid::field(ErrorCode::InvalidUrl, name, format!("{name}: {why}")))
    }
}

/// `of!(&link)` or `of!(&mut link)`: the fields of a value that has one for each destination.
macro_rules! of {
    ($($value:tt)+) => {
        $crate::destinations::Destinations {
            ios_deep_link: $($value)+.ios_deep_link,
            ios_store_url: $($value)+.ios_store_url,
            android_deep_link: $($value)+.android_deep_link,
            android_store_url: $($value)+.android_store_url,
            web_url: $($value)+.web_url,
        }
    };
}
pub(crate) use of;

const FIELDS: [UrlField; 5] = [
    UrlField::new("ios_deep_link", url::deep_link),
    UrlField::new("ios_store_url", url::app_store),
    UrlField::new("android_deep_link", url::deep_link),
    UrlField::new("android_store_url", url::play_store),
    UrlField::new("web_url", url::web),
];

impl<T> Destinations<T> {
    /// The values, in the order of the API's fields.
    pub fn into_array(self) -> [T; 5] {
        [self.ios_deep_link, self.ios_store_url, self.android_deep_link, self.android_store_url, self.web_url]
    }

    /// The reverse of [`Destinations::into_array`].
    pub fn from_array(values: [T; 5]) -> Self {
        let [ios_deep_link, ios_store_url, android_deep_link, android_store_url, web_url] = values;
        Self { ios_deep_link, ios_store_url, android_deep_link, android_store_url, web_url }
    }

    /// The name of each field with its value, in the order of the API's fields.
    pub fn each(self) -> impl Iterator<Item = (&'static str, T)> {
        FIELDS.into_iter().map(|field| field.name).zip(self.into_array())
    }

    /// Replaces each value.
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> Destinations<U> {
        Destinations::from_array(self.into_array().map(f))
    }

    /// Replaces each value by a conversion that can fail; stops at the first failure.
    pub fn try_map<U, E>(self, mut f: impl FnMut(UrlField, T) -> Result<U, E>) -> Result<Destinations<U>, E> {
        let [ios, ios_store, android, android_store, web] = FIELDS;
        Ok(Destinations {
            ios_deep_link: f(ios, self.ios_deep_link)?,
            ios_store_url: f(ios_store, self.ios_store_url)?,
            android_deep_link: f(android, self.android_deep_link)?,
            android_store_url: f(android_store, self.android_store_url)?,
            web_url: f(web, self.web_url)?,
        })
    }

    /// A reference to each value.
    pub fn as_ref(&self) -> Destinations<&T> {
        of!(&self)
    }

    /// A mutable reference to each value.
    pub fn as_mut(&mut self) -> Destinations<&mut T> {
        of!(&mut self)
    }
}

impl Destinations {
    /// The URLs as borrowed text.
    pub fn as_deref(&self) -> Destinations<Option<&str>> {
        self.as_ref().map(Option::as_deref)
    }
}
