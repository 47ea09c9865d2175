//! Long links: those of Firebase Dynamic Links, whose destinations are in the query, as
//! `https://go.example.com/?link=https%3A%2F%2Fwww.example.com%2Fsale&apn=com.example.app&isi=123456789`.
//!
//! Anybody can write one, so it is followed only to hosts that the domain's owner lists; nothing about it is stored.

use std::collections::HashSet;

use ::url::{Host, Url, form_urlencoded};

use crate::app::is_package_name;
use crate::destinations::Destinations;
use crate::error::{ErrorCode, Invalid};
use crate::link::{MAX_PREVIEW_DESCRIPTION, MAX_PREVIEW_TITLE, NewLink, SocialPreview};
use crate::text::clean;
use crate::url;
use crate::visitor::Platform;

/// Longest query of a long link in bytes.
pub const MAX_QUERY: usize = 8_192;
/// Most digits of an App Store ID.
const MAX_STORE_ID: usize = 19;

const APP_STORE: &str = "apps.apple.com";
const PLAY_STORE: &str = "play.google.com";

/// The parameters that have a meaning, in the order of [`LongLink::url`]. None may be repeated: two programs could disagree
/// about which value counts.
const NAMES: [&str; 10] = ["link", "apn", "ibi", "isi", "afl", "ifl", "st", "sd", "si", "efr"];

/// The parameters of a long link as they were sent. Empty ones count as absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LongLink([Option<String>; NAMES.len()]);

impl LongLink {
    /// The long link in a query. `None` if it has no `link`; an error if a parameter is repeated.
    pub fn read(query: &str) -> Result<Option<Self>, Invalid> {
        let (mut read, mut seen) = (Self::default(), HashSet::new());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let Some(at) = NAMES.iter().position(|known| *known == name) else { continue };
            if !seen.insert(at) {
                return Err(Invalid::field(
                    ErrorCode::BadRequest,
                    NAMES[at],
                    format!("{name} is given more than once"),
                ));
            }
            read.0[at] = Some(value.into_owned()).filter(|value| !value.is_empty());
        }
        Ok(read.value("link").is_some().then_some(read))
    }

    /// The Android app that it names.
    pub fn package(&self) -> Option<&str> {
        self.value("apn")
    }

    fn value(&self, name: &str) -> Option<&str> {
        let at = NAMES.iter().position(|known| *known == name)?;
        self.0[at].as_deref()
    }

    /// Whether it asks for a redirect instead of a landing page.
    pub fn skips_page(&self) -> bool {
        self.value("efr") == Some("1")
    }

    /// The long link on this origin, with the parameters that have a meaning only.
    pub fn url(&self, origin: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in NAMES.iter().zip(&self.0) {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        format!("{origin}/?{}", query.finish())
    }

    /// What a visitor with this platform follows, if every address leads to one of these hosts. On iOS and Android, `ifl`
    /// and `afl` take the place of all else. Store pages, which only `isi` and `apn` name, are left out unless their host is
    /// listed.
    pub fn followed(&self, allowed: &[String], platform: Platform) -> Option<NewLink> {
        let web = |name| self.value(name).map(|text| allowed_url(text, allowed).ok_or(())).transpose().ok();
        let (link, for_android, for_ios) = (web("link")??, web("afl")?, web("ifl")?);
        let store_id = self.value("isi");
        let package = self.value("apn");
        let is_store_id = |id: &str| id.len() <= MAX_STORE_ID && id.bytes().all(|byte| byte.is_ascii_digit());
        if !store_id.is_none_or(is_store_id) || !package.is_none_or(is_package_name) {
            return None;
        }
        let mut followed = NewLink { social_preview: self.preview(allowed), ..NewLink::default() };
        let instead = match platform {
            Platform::Ios => for_ios,
            Platform::Android => for_android,
            Platform::Macos | Platform::Windows | Platform::Other => None,
        };
        if let Some(page) = instead {
            followed.destinations.web_url = Some(page);
            return Some(followed);
        }
        let lists = |host: &str| allowed.iter().any(|known| known == host);
        let store_id = store_id.filter(|_| lists(APP_STORE));
        let package = package.filter(|_| lists(PLAY_STORE));
        followed.destinations = Destinations {
            // An installed app is opened by the system, before any request.
            ios_deep_link: None,
            ios_store_url: store_id.map(|id| format!("https://{APP_STORE}/app/id{id}")),
            android_deep_link: package.map(|_| link.clone()),
            android_store_url: package.map(|name| format!("https://{PLAY_STORE}/store/apps/details?id={name}")),
            web_url: Some(link),
        };
        Some(followed)
    }

    /// The preview: texts are cut, and an image on another host is left out.
    fn preview(&self, allowed: &[String]) -> Option<SocialPreview> {
        let text = |name, max| self.value(name).map(|text| clean(text.trim(), max)).filter(|text| !text.is_empty());
        let preview = SocialPreview {
            title: text("st", MAX_PREVIEW_TITLE),
            description: text("sd", MAX_PREVIEW_DESCRIPTION),
            image_url: self.value("si").and_then(|image| allowed_url(image, allowed)),
        };
        preview.check().ok()
    }
}

/// A web address as it is stored, if its host is one of these and no store.
fn allowed_url(text: &str, allowed: &[String]) -> Option<String> {
    let text = url::web(text).ok()?;
    let parsed = Url::parse(&text).ok()?;
    let Some(Host::Domain(host)) = parsed.host() else { return None };
    let host = host.trim_end_matches('.');
    if [APP_STORE, PLAY_STORE].contains(&host) {
        return None;
    }
    allowed.iter().any(|known| known == host).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(list: &[&str]) -> Vec<String> {
        list.iter().map(|&host| host.to_owned()).collect()
    }

    /// The query of a long link with these parameters.
    fn query(pairs: &[(&str, &str)]) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
    }

    fn followed(pairs: &[(&str, &str)], platform: Platform) -> Option<Destinations> {
        let allowed = hosts(&["www.example.com", "apps.apple.com", "play.google.com"]);
        let read = LongLink::read(&query(pairs)).expect("no repeated parameter")?;
        read.followed(&allowed, platform).map(|link| link.destinations)
    }

    #[test]
    fn only_listed_hosts_are_followed() {
        const PAGE: (&str, &str) = ("link", "https://www.example.com/sale");
        for (pairs, is_followed) in [
            (&[PAGE][..], true),
            (&[("link", "https://WWW.example.com:8443/a?b=c#d")], true),
            (&[("link", "https://www.example.com./a")], true),
            (&[PAGE, ("afl", "https://www.example.com/a"), ("ifl", "https://www.example.com/i")], true),
            (&[PAGE, ("isi", "123456789"), ("apn", "com.example.app"), ("ibi", "com.example.app")], true),
            (&[PAGE, ("afl", ""), ("isi", "")], true),
            (&[("link", "")], false),
            (&[("url", "https://www.example.com/")], false),
            (&[("link", "https://example.com/")], false),
            (&[("link", "https://a.www.example.com/")], false),
            (&[("link", "https://www.example.com.example.net/")], false),
            (&[("link", "https://www.example.com@example.net/")], false),
            (&[("link", "https://user@www.example.com/")], false),
            (&[("link", "//www.example.com/")], false),
            (&[("link", "www.example.com")], false),
            (&[("link", "javascript:alert(1)//www.example.com")], false),
            (&[("link", "data:text/html,www.example.com")], false),
            (&[("link", "myapp://www.example.com/")], false),
            (&[("link", "ftp://www.example.com/")], false),
            (&[("link", "https://127.0.0.1/")], false),
            (&[("link", " https://www.example.com/")], false),
            (&[("link", "https://www.example.com/\n")], false),
            (&[PAGE, ("afl", "https://example.net/")], false),
            (&[PAGE, ("ifl", "javascript:alert(1)")], false),
            (&[("link", "https://apps.apple.com/app/id123")], false),
            (&[("link", "https://play.google.com/store/apps/details?id=com.example.app")], false),
            (&[PAGE, ("afl", "https://PLAY.google.com./store/apps/details?id=com.example.app")], false),
            (&[PAGE, ("ifl", "https://apps.apple.com/app/id123")], false),
            (&[PAGE, ("isi", "12a")], false),
            (&[PAGE, ("isi", "-1")], false),
            (&[PAGE, ("isi", "1/../../evil")], false),
            (&[PAGE, ("isi", "12345678901234567890")], false),
            (&[PAGE, ("apn", "com.example.app&x=1")], false),
            (&[PAGE, ("apn", "nodots")], false),
        ] {
            for platform in [Platform::Ios, Platform::Android, Platform::Other] {
                assert_eq!(followed(pairs, platform).is_some(), is_followed, "{pairs:?}");
            }
        }
        let read = LongLink::read(&query(&[PAGE])).expect("no repetition").expect("a long link");
        assert_eq!(read.followed(&[], Platform::Other), None);
    }

    #[test]
    fn a_repeated_parameter_is_refused() {
        for name in NAMES {
            let query = format!("link=a&{name}=b&{name}=b");
            let refused = LongLink::read(&query).expect_err(&query);
            assert_eq!((refused.code, refused.field.as_deref()), (ErrorCode::BadRequest, Some(name)), "{query}");
        }
        assert!(LongLink::read("link=a&utm_source=b&utm_source=c").is_ok_and(|read| read.is_some()));
    }

    #[test]
    fn each_platform_has_its_destination() {
        let page = "https://www.example.com/sale";
        let all = [("link", page), ("isi", "123"), ("apn", "com.example.app")];
        let to = followed(&all, Platform::Other).expect("followed");
        assert_eq!(to.ios_store_url.as_deref(), Some("https://apps.apple.com/app/id123"));
        assert_eq!(
            to.android_store_url.as_deref(),
            Some("https://play.google.com/store/apps/details?id=com.example.app")
        );
        assert_eq!((to.android_deep_link.as_deref(), to.ios_deep_link), (Some(page), None));
        assert_eq!(to.web_url.as_deref(), Some(page));

        let with_fallbacks: Vec<_> = all
            .into_iter()
            .chain([("ifl", "https://www.example.com/i"), ("afl", "https://www.example.com/a")])
            .collect();
        for (platform, web) in [
            (Platform::Ios, "https://www.example.com/i"),
            (Platform::Android, "https://www.example.com/a"),
            (Platform::Windows, page),
        ] {
            let to = followed(&with_fallbacks, platform).expect("followed");
            assert_eq!(to.web_url.as_deref(), Some(web));
            assert_eq!(to.ios_store_url.is_some(), platform == Platform::Windows);
        }
    }

    #[test]
    fn stores_are_left_out_unless_their_hosts_are_listed() {
        let pairs = [("link", "https://www.example.com/"), ("isi", "123"), ("apn", "com.example.app")];
        let read = LongLink::read(&query(&pairs)).expect("no repetition").expect("a long link");
        let to = |allowed: &[&str]| read.followed(&hosts(allowed), Platform::Ios).expect("followed").destinations;
        let none = to(&["www.example.com"]);
        assert_eq!((none.ios_store_url, none.android_store_url, none.android_deep_link), (None, None, None));
        let apple = to(&["www.example.com", "apps.apple.com"]);
        assert_eq!((apple.ios_store_url.is_some(), apple.android_store_url.is_some()), (true, false));
        let google = to(&["www.example.com", "play.google.com"]);
        assert_eq!((google.ios_store_url.is_some(), google.android_store_url.is_some()), (false, true));
    }

    #[test]
    fn previews_are_cut_and_images_are_on_listed_hosts() {
        let long = "x".repeat(200);
        let preview = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = [("link", "https://www.example.com/")].iter().chain(pairs).copied().collect();
            let read = LongLink::read(&query(&pairs)).expect("no repetition").expect("a long link");
            read.followed(&hosts(&["www.example.com"]), Platform::Other).expect("followed").social_preview
        };
        assert_eq!(preview(&[("st", " "), ("si", "https://example.net/a.png")]), None);
        let shown = preview(&[("st", &long), ("sd", "a\u{7}b"), ("si", "https://www.example.com/a.png")]).expect("one");
        assert_eq!(shown.title.map(|title| title.len()), Some(MAX_PREVIEW_TITLE));
        assert_eq!(shown.description.as_deref(), Some("ab"));
        assert_eq!(shown.image_url.as_deref(), Some("https://www.example.com/a.png"));
    }

    #[test]
    fn its_url_has_what_has_a_meaning() {
        let query = "utm_source=x&efr=1&st=A%20b&link=https%3A%2F%2Fwww.example.com%2F%3Fa%3Db&other=1";
        let read = LongLink::read(query).expect("no repetition").expect("a long link");
        assert!(read.skips_page());
        assert_eq!(
            read.url("https://go.example.com"),
            "https://go.example.com/?link=https%3A%2F%2Fwww.example.com%2F%3Fa%3Db&st=A+b&efr=1"
        );
    }
}
