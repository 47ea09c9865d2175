//! Adds parameters to stored addresses, and reads from them.
//!
//! Stored addresses are valid and ASCII. They are split and joined as text, never parsed and serialized again, so that
//! bytes that need not change stay as their owner wrote them.

use std::borrow::Cow;

use url::form_urlencoded;

use super::query::Query;
use crate::app::is_package_name;

/// Maximum characters of the decoded `referrer` up to which a visit's parameters are added.
const REFERRER_CHARS: usize = 500;

/// The parameters that a visit may add to the Play referrer, in this order.
const REFERRER_NAMES: [&str; 6] = ["utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content", "gclid"];

/// An address cut at its query: `{base}?{query}{fragment}`, the fragment with its `#`.
pub(crate) struct Cut<'u> {
    base: &'u str,
    query: Option<&'u str>,
    fragment: &'u str,
}

impl<'u> Cut<'u> {
    pub(crate) fn at_query(url: &'u str) -> Self {
        let (head, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
        match head.split_once('?') {
            Some((base, query)) => Self { base, query: Some(query), fragment },
            None => Self { base: head, query: None, fragment },
        }
    }

    /// The raw pairs of the query.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = &'u str> {
        self.query.into_iter().flat_map(|query| query.split('&'))
    }

    /// Replaces the query.
    pub(crate) fn with_query(&self, pairs: &[&str]) -> String {
        let mut url = String::with_capacity(self.base.len() + self.fragment.len() + pairs.len() + length(pairs));
        url.push_str(self.base);
        let mut joint = '?';
        for pair in pairs {
            url.push(joint);
            url.push_str(pair);
            joint = '&';
        }
        url.push_str(self.fragment);
        url
    }
}

fn length(pairs: &[&str]) -> usize {
    pairs.iter().map(|pair| pair.len()).sum()
}

/// The decoded name of a raw pair.
pub(crate) fn name_of(pair: &str) -> Cow<'_, str> {
    form_urlencoded::parse(pair.as_bytes()).next().map_or(Cow::Borrowed(""), |(name, _)| name)
}

/// A web address with the campaign parameters of the visit; without any, the address byte for byte.
pub(super) fn pass_on<'a>(web: &'a str, query: &Query<'_>) -> Cow<'a, str> {
    let Some(added) = query.passed_on() else { return Cow::Borrowed(web) };
    let cut = Cut::at_query(web);
    let mut pairs: Vec<_> = cut.pairs().filter(|pair| !query.passes_on(&name_of(pair))).collect();
    // An empty last pair means an empty query, or one that ends in `&`: the added pairs replace it.
    if pairs.last() == Some(&"") {
        pairs.pop();
    }
    pairs.push(added);
    Cow::Owned(cut.with_query(&pairs))
}

/// A Play Store address whose `referrer` tells the app, once installed, which link was tapped.
pub(super) fn play_referrer<'a>(store: &'a str, link_id: &str, query: &Query<'_>) -> Cow<'a, str> {
    if !is_play(store) {
        return Cow::Borrowed(store);
    }
    let cut = Cut::at_query(store);
    let is_referrer = |pair: &&str| name_of(pair) == "referrer";
    let stored = cut.pairs().find(is_referrer);
    let value = referrer(stored, link_id, query);
    if stored.is_none() && value == "referrer=" {
        return Cow::Borrowed(store);
    }
    let mut pairs = Vec::new();
    let mut placed = false;
    for pair in cut.pairs() {
        if !is_referrer(&pair) {
            pairs.push(pair);
        } else if !placed {
            pairs.push(&value);
            placed = true;
        }
    }
    if !placed {
        if pairs.last() == Some(&"") {
            pairs.pop();
        }
        pairs.push(&value);
    }
    Cow::Owned(cut.with_query(&pairs))
}

/// The pair `referrer=…`: the stored value, then the link, then the visit's campaign parameters that fit. A long link has
/// no ID.
fn referrer(stored: Option<&str>, link_id: &str, query: &Query<'_>) -> String {
    let stored = stored.and_then(|pair| form_urlencoded::parse(pair.as_bytes()).next());
    let stored = stored.map(|(_, value)| value).unwrap_or_default();
    let kept = || form_urlencoded::parse(stored.as_bytes()).filter(|(name, _)| name != "dl_link");
    let mut inner = form_urlencoded::Serializer::new(String::new());
    inner.extend_pairs(kept());
    if !link_id.is_empty() {
        inner.append_pair("dl_link", link_id);
    }
    let mut inner = inner.finish();
    for name in REFERRER_NAMES {
        let Some(value) = query.campaign(name) else { continue };
        if kept().any(|(known, _)| known == name) {
            continue;
        }
        let before = inner.len();
        let mut longer = form_urlencoded::Serializer::new(inner);
        inner = longer.append_pair(name, value).finish();
        // Form encoding is ASCII: bytes are characters.
        if inner.len() > REFERRER_CHARS {
            inner.truncate(before);
        }
    }
    form_urlencoded::Serializer::new(String::new()).append_pair("referrer", &inner).finish()
}

fn is_play(url: &str) -> bool {
    let host = host(url);
    host.strip_suffix("play.google.com").is_some_and(|below| below.is_empty() || below.ends_with('.'))
}

/// The host of a stored http(s) address.
fn host(url: &str) -> &str {
    let after_scheme = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
    authority.split(':').next().unwrap_or_default()
}

/// The App Store id in a store address: the digits of the path's `id…` segment.
pub fn store_id(store: &str) -> Option<&str> {
    let path = Cut::at_query(store).base;
    path.split('/')
        .filter_map(|segment| segment.strip_prefix("id"))
        .find(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The Android package of a link: the one in its store address, otherwise that of the tenant's only app.
pub fn package_of<'a>(store: Option<&'a str>, only_app: Option<&'a str>) -> Option<Cow<'a, str>> {
    let named = store.and_then(|store| {
        let query = Cut::at_query(store).query?;
        let (_, id) = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "id")?;
        is_package_name(&id).then_some(id)
    });
    named.or(only_app.map(Cow::Borrowed))
}

/// Whether an address is a web address rather than one with an app's own scheme.
pub(super) fn is_web(url: &str) -> bool {
    url.starts_with("https:") || url.starts_with("http:")
}

/// An Android intent that opens `deep_link`, which has no fragment, in exactly this app, otherwise `fallback`.
pub(super) fn intent(deep_link: &str, package: &str, fallback: Option<&str>) -> Option<String> {
    let (scheme, rest) = deep_link.split_once(':')?;
    let mut intent = format!("intent:{rest}#Intent;scheme={scheme};package={package}");
    if let Some(fallback) = fallback {
        intent.push_str(";S.browser_fallback_url=");
        percent_encode(fallback, &mut intent);
    }
    intent.push_str(";end");
    Some(intent)
}

/// Percent-encodes all characters except unreserved ones.
fn percent_encode(text: &str, into: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            into.push('%');
            into.extend([byte >> 4, byte & 15].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])));
        }
    }
}

/// The link at the origin of the tenant's alternate host. A Universal Link opens the app only on a tap that leaves the
/// page's host.
pub(super) fn alternate(origin: &str, link_id: &str, query: &Query<'_>, for_ipad: bool) -> String {
    let mut url = format!("{origin}/{link_id}");
    let os = for_ipad.then_some("os=ios");
    for (pairs, joint) in query.passed_on().into_iter().chain(os).zip(['?', '&']) {
        url.push(joint);
        url.push_str(pairs);
    }
    url
}
