//! Properties of every stored address and every query.

use proptest::prelude::*;

use super::{AS, IS, W, decide, link, visitor};
use crate::resolve::query::Query;
use crate::resolve::target::{pass_on, play_referrer};
use crate::resolve::{HostContext, Outcome};

/// Addresses as they are stored: whatever the parser makes of arbitrary text.
fn stored(base: &'static str) -> impl Strategy<Value = String> {
    let tail = prop_oneof![
        ".{0,60}",
        r"/[a-z%?#&=+]{0,40}",
        r"\?[a-z]{0,4}=(.|&){0,40}",
        r"\?(utm_source|referrer|a)=[a-z%&=]{0,20}#.{0,9}"
    ];
    tail.prop_filter_map("not a URL", move |tail| Some(url::Url::parse(&format!("{base}{tail}")).ok()?.to_string()))
}

/// Arbitrary text, and text that looks like what a visit brings.
fn queries() -> impl Strategy<Value = String> {
    let name = "(utm_source|utm_medium|utm_x|gclid|ref|os|redirect|referrer|id|[a-z%]{0,5})";
    let pairs = proptest::collection::vec((name, "([a-z0-9+&=#;]|%[0-9A-F]{2}|%0[0-9A-F]|%|.){0,12}"), 0..12);
    prop_oneof![
        any::<String>(),
        pairs.prop_map(|pairs| pairs
            .iter()
            .map(|(name, value)| [name, "=", value].concat())
            .collect::<Vec<_>>()
            .join("&")),
    ]
}

const AGENTS: [&str; 6] = [super::IPHONE, super::ANDROID, super::MAC, super::WINDOWS, super::LISTED[0], "curl/8.5"];

proptest! {
    #[test]
    fn a_location_is_plain_ascii_whatever_the_query(
        web in stored("https://example.com"), store in stored("https://play.google.com/d"), query in queries(), agent in 0..AGENTS.len(), on_alternate: bool,
    ) {
        let mut link = link("IS");
        (link.to.web_url, link.to.android_store_url) = (Some(&*web), Some(&*store));
        let mut without_stores = link;
        (without_stores.to.ios_store_url, without_stores.to.android_store_url) = (None, None);
        for link in [link, without_stores] {
            let host = HostContext { on_alternate, ..HostContext::default() };
            for query in [Some(query.as_str()), Some(&*format!("redirect=1&{query}")), None] {
                if let Outcome::Redirect(to) = decide(&link, &host, visitor(AGENTS[agent]), query).outcome {
                    prop_assert!(to.bytes().all(|byte| (0x21..0x7f).contains(&byte)), "{to}");
                    prop_assert!(to.len() <= 2048 + 60 * 9 + 1100 + 2048);
                }
            }
        }
    }

    #[test]
    fn a_location_keeps_its_scheme_host_and_path(web in stored("https://example.com"), query in queries()) {
        let before = url::Url::parse(&web).expect("stored addresses are valid");
        let after = url::Url::parse(&pass_on(&web, &Query::read(Some(&query)))).expect("it stays valid");
        prop_assert_eq!(before.origin(), after.origin());
        prop_assert_eq!(before.path(), after.path());
        prop_assert_eq!(before.fragment(), after.fragment());
    }

    #[test]
    fn without_campaign_parameters_the_address_is_byte_identical(web in stored("https://example.com"), query in "[a-tv-z]=.{0,20}(&[a-fh-qs-tv-z][a-z]{0,4}=[a-z%0-9]{0,5}){0,5}") {
        prop_assume!(Query::read(Some(&query)).passed_on().is_none());
        let query = Query::read(Some(&query));
        let answer = pass_on(&web, &query);
        prop_assert_eq!(&*answer, &*web);
        prop_assert!(matches!(answer, std::borrow::Cow::Borrowed(_)));
    }

    #[test]
    fn passing_on_twice_changes_nothing_more(web in stored("https://example.com"), query in queries()) {
        let query = Query::read(Some(&query));
        let pairs = |url: &str| {
            let url = url::Url::parse(url).expect("it stays valid");
            url.query_pairs().into_owned().filter(|(name, _)| !name.is_empty()).collect::<Vec<_>>()
        };
        let once = pass_on(&web, &query).into_owned();
        prop_assert_eq!(pairs(&pass_on(&once, &query)), pairs(&once));
    }

    #[test]
    fn the_referrer_occurs_once_and_names_the_link(store in stored("https://play.google.com/d"), query in queries()) {
        let query = Query::read(Some(&query));
        let rewritten = play_referrer(&store, "AbC12345", &query).into_owned();
        let url = url::Url::parse(&rewritten).expect("it stays valid");
        let referrers: Vec<_> = url.query_pairs().filter(|(name, _)| name == "referrer").map(|(_, value)| value.into_owned()).collect();
        if !url.host_str().is_some_and(|host| host == "play.google.com" || host.ends_with(".play.google.com")) {
            prop_assert_eq!(rewritten, store);
            return Ok(());
        }
        prop_assert_eq!(referrers.len(), 1);
        let named: Vec<_> = url::form_urlencoded::parse(referrers[0].as_bytes()).filter(|(name, _)| name == "dl_link").collect();
        prop_assert_eq!(named.len(), 1);
        prop_assert_eq!(&*named[0].1, "AbC12345");
    }

    #[test]
    fn no_query_parameter_names_a_destination(query in queries()) {
        for agent in AGENTS {
            if let Outcome::Redirect(to) = decide(&link("IS AS W"), &HostContext::default(), visitor(agent), Some(&query)).outcome {
                prop_assert!([IS, W, AS].iter().any(|stored| to.starts_with(stored)), "{}", to);
            }
        }
    }
}
