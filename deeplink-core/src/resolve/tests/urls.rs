//! Rewriting of addresses, rule by rule.

use super::super::query::Query;
use super::super::target::*;
use super::{AS, CAMPAIGN, decide, link, visitor};
use crate::resolve::{HostContext, LinkView, Outcome};

fn passed(web: &str, query: &str) -> String {
    pass_on(web, &Query::read(Some(query))).into_owned()
}

fn referred(store: &str, query: &str) -> String {
    play_referrer(store, "AbC12345", &Query::read(Some(query))).into_owned()
}

/// The decoded referrer of a rewritten store address.
fn referrer(store: &str, query: &str) -> String {
    let url = url::Url::parse(&referred(store, query)).expect("it stays valid");
    let values: Vec<_> = url.query_pairs().filter(|(name, _)| name == "referrer").collect();
    assert_eq!(values.len(), 1, "{url}");
    values[0].1.to_string()
}

#[test]
fn allowed_parameters_are_passed_on_in_the_order_they_came() {
    for (query, added) in [
        ("utm_source=a&utm_medium=b", "utm_source=a&utm_medium=b"),
        ("utm_medium=b&utm_source=a", "utm_medium=b&utm_source=a"),
        ("gclid=1&gbraid=2&wbraid=3&dclid=4&fbclid=5", "gclid=1&gbraid=2&wbraid=3&dclid=4&fbclid=5"),
        ("msclkid=6&ttclid=7&twclid=8&li_fat_id=9&ref=10", "msclkid=6&ttclid=7&twclid=8&li_fat_id=9&ref=10"),
        ("utm_x_9=1&y=2&os=ios&redirect=1&id=5", "utm_x_9=1"),
        ("utm_source=a&utm_source=b", "utm_source=a"),
        ("utm%5Fsource=a", "utm_source=a"),
        ("utm_source=a+b%20c%26d%C3%A9", "utm_source=a+b+c%26d%C3%A9"),
        ("gclid", "gclid="),
        ("&&utm_source=a&&", "utm_source=a"),
    ] {
        assert_eq!(passed("https://example.com/", query), format!("https://example.com/?{added}"), "{query}");
    }
}

#[test]
fn everything_else_leaves_the_address_byte_for_byte() {
    for web in ["https://example.com/", "https://example.com/a%20b?x=%7e&&y#frag?z", "https://example.com/?"] {
        for query in [
            "",
            "x=1",
            "UTM_SOURCE=a",
            "Utm_source=a",
            "utm_=a",
            "utm_Source=a",
            "utm_a-b=a",
            &format!("utm_{}=a", "x".repeat(33)),
            "GCLID=1",
            "reference=1",
            "url=https://evil.example/",
            "web_url=https://evil.example/",
            "utm_source=a%0d%0aX:1",
            "utm_source=%00",
            "utm_source=%7F",
            "utm_source=%C2%85",
            "utm_source=%0a&utm_source=fine",
            &format!("utm_source={}", "x".repeat(1100)),
        ] {
            assert_eq!(passed(web, query), web, "{query}");
        }
        assert_eq!(pass_on(web, &Query::read(None)), web);
    }
    let longest_name = format!("utm_{}=a", "x".repeat(32));
    assert_eq!(passed("https://example.com/", &longest_name), format!("https://example.com/?{longest_name}"));
}

#[test]
fn nothing_to_pass_on_allocates_nothing() {
    let query = Query::read(Some("x=1&redirect=1"));
    assert!(matches!(pass_on("https://example.com/", &query), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn same_named_pairs_of_the_destination_give_way_and_others_keep_their_bytes() {
    for (web, expected) in [
        ("https://example.com/p?utm_source=own", "https://example.com/p?utm_source=poster"),
        ("https://example.com/p?utm_source=own#f", "https://example.com/p?utm_source=poster#f"),
        ("https://example.com/p?a=%7E&utm_source=own&b=1+2", "https://example.com/p?a=%7E&b=1+2&utm_source=poster"),
        ("https://example.com/p?utm%5Fsource=own&utm_source", "https://example.com/p?utm_source=poster"),
        ("https://example.com/p?utm_medium=own", "https://example.com/p?utm_medium=own&utm_source=poster"),
        ("https://example.com/p?", "https://example.com/p?utm_source=poster"),
        ("https://example.com/p?a=1&", "https://example.com/p?a=1&utm_source=poster"),
        ("https://example.com/p?a=1&&b", "https://example.com/p?a=1&&b&utm_source=poster"),
        ("https://example.com/p#a?utm_source=own", "https://example.com/p?utm_source=poster#a?utm_source=own"),
        ("https://example.com/p?q=a?b", "https://example.com/p?q=a?b&utm_source=poster"),
    ] {
        assert_eq!(passed(web, CAMPAIGN), expected, "{web}");
    }
}

#[test]
fn added_text_stays_within_1024_bytes_pair_by_pair() {
    let long = "x".repeat(1024 - "utm_source=".len());
    let fits = format!("utm_source={long}");
    assert_eq!(passed("https://example.com/", &fits), format!("https://example.com/?{fits}"));
    assert_eq!(passed("https://example.com/", &format!("{fits}x")), "https://example.com/");
    // A pair that does not fit is skipped, and a later one that fits is added; the stored pair of a skipped one stays.
    assert_eq!(
        passed("https://example.com/?utm_source=own", &format!("utm_medium=a&{fits}&gclid=1")),
        "https://example.com/?utm_source=own&utm_medium=a&gclid=1"
    );
    // Encoded length counts.
    let spread = format!("utm_source={}", "%C3%A9".repeat(170));
    assert_eq!(passed("https://example.com/", &spread), "https://example.com/");
}

#[test]
fn the_play_referrer_names_the_link_and_the_campaign() {
    let expected = "https://play.google.com/store/apps/details?id=com.example.app&referrer=dl_link%3DAbC12345%26utm_source%3Dposter";
    assert_eq!(referred(AS, CAMPAIGN), expected);
    for (store, query, value) in [
        (AS, "", "dl_link=AbC12345"),
        (
            AS,
            "gclid=7&utm_content=5&utm_term=4&utm_campaign=3&utm_medium=2&utm_source=1&utm_id=0&fbclid=9",
            "dl_link=AbC12345&utm_source=1&utm_medium=2&utm_campaign=3&utm_term=4&utm_content=5&gclid=7",
        ),
        (AS, "utm_source=a%26b+c", "dl_link=AbC12345&utm_source=a%26b+c"),
        (AS, "utm_source=a%0Ab", "dl_link=AbC12345"),
        (
            "https://play.google.com/?id=a.b&referrer=utm_source%3Down%26x%3D1",
            "utm_source=new&utm_medium=m",
            "utm_source=own&x=1&dl_link=AbC12345&utm_medium=m",
        ),
        ("https://play.google.com/?id=a.b&referrer=dl_link%3Dother%26y%3D2", "", "y=2&dl_link=AbC12345"),
        ("https://play.google.com/?referrer=", "", "dl_link=AbC12345"),
        ("https://play.google.com/?referrer", "", "dl_link=AbC12345"),
    ] {
        assert_eq!(referrer(store, query), value, "{store} {query}");
    }
}

#[test]
fn the_referrer_replaces_its_predecessor_in_place_and_occurs_once() {
    for (store, expected) in [
        (
            "https://play.google.com/d?referrer=a%3Db&id=x.y#f",
            "https://play.google.com/d?referrer=a%3Db%26dl_link%3DAbC12345&id=x.y#f",
        ),
        (
            "https://play.google.com/d?id=x.y&referrer=a%3Db&hl=%65n",
            "https://play.google.com/d?id=x.y&referrer=a%3Db%26dl_link%3DAbC12345&hl=%65n",
        ),
        (
            "https://play.google.com/d?referrer=a%3Db&id=x.y&referrer=c",
            "https://play.google.com/d?referrer=a%3Db%26dl_link%3DAbC12345&id=x.y",
        ),
        ("https://play.google.com/d?ref%65rrer=a%3Db", "https://play.google.com/d?referrer=a%3Db%26dl_link%3DAbC12345"),
        ("https://play.google.com/d", "https://play.google.com/d?referrer=dl_link%3DAbC12345"),
        ("https://play.google.com/d?", "https://play.google.com/d?referrer=dl_link%3DAbC12345"),
        ("https://play.google.com/d#f", "https://play.google.com/d?referrer=dl_link%3DAbC12345#f"),
        (
            "http://www.play.google.com:8080/d?id=x.y",
            "http://www.play.google.com:8080/d?id=x.y&referrer=dl_link%3DAbC12345",
        ),
    ] {
        assert_eq!(referred(store, ""), expected);
    }
}

#[test]
fn other_stores_are_left_alone() {
    for store in
        ["https://example.com/d?id=x.y", "https://notplay.google.com/d", "https://play.google.com.example.net/d"]
    {
        assert_eq!(referred(store, CAMPAIGN), store);
    }
}

#[test]
fn the_visit_adds_to_the_referrer_within_500_characters() {
    let base = "dl_link=AbC12345&utm_source=";
    let fits = "x".repeat(500 - base.len());
    assert_eq!(referrer(AS, &format!("utm_source={fits}")).len(), 500);
    assert_eq!(referrer(AS, &format!("utm_source={fits}x")), "dl_link=AbC12345");
    assert_eq!(referrer(AS, &format!("utm_source={fits}x&gclid=1")), "dl_link=AbC12345&gclid=1", "judged one by one");
    // What the owner stored is never cut.
    let stored = format!("https://play.google.com/d?referrer={}", "y".repeat(600));
    assert_eq!(referrer(&stored, CAMPAIGN), format!("{}=&dl_link=AbC12345", "y".repeat(600)));
}

#[test]
fn store_ids() {
    for (store, id) in [
        ("https://apps.apple.com/app/id123456789", Some("123456789")),
        ("https://apps.apple.com/us/app/an-app/id123456789?mt=8&pt=1", Some("123456789")),
        ("https://apps.apple.com/us/app/id3-tagger/id42/", Some("42")),
        ("https://itunes.apple.com/app/id7#x", Some("7")),
        ("https://apps.apple.com/app/id", None),
        ("https://apps.apple.com/app/idx1", None),
        ("https://apps.apple.com/developer/?x=/id5", None),
    ] {
        assert_eq!(store_id(store), id, "{store}");
    }
}

#[test]
fn packages() {
    let long = format!("https://play.google.com/d?id=a.{}", "b".repeat(254));
    for (store, only_app, package) in [
        (Some(AS), None, Some("com.example.app")),
        (Some(AS), Some("com.example.other"), Some("com.example.app")),
        (Some("https://play.google.com/d?hl=en&id=a.B_9"), None, Some("a.B_9")),
        (Some("https://play.google.com/d?id=a%2Eb"), None, Some("a.b")),
        (Some("https://play.google.com/d?id=nodot"), Some("com.example.other"), Some("com.example.other")),
        (Some("https://play.google.com/d?id=a..b"), None, None),
        (Some("https://play.google.com/d?id=a.9b"), None, None),
        (Some("https://play.google.com/d?id=a.b;end"), None, None),
        (Some("https://play.google.com/d?id="), None, None),
        (Some("https://play.google.com/d?ID=a.b"), None, None),
        (Some("https://play.google.com/d"), None, None),
        (Some(&long), None, None),
        (None, Some("com.example.other"), Some("com.example.other")),
        (None, None, None),
    ] {
        assert_eq!(package_of(store, only_app).as_deref(), package, "{store:?}");
    }
}

#[test]
fn intents() {
    assert_eq!(
        intent("myapp://promo/1?x=2", "com.example.app", Some("https://play.google.com/d?id=a.b&x=~_-.é")).as_deref(),
        Some(
            "intent://promo/1?x=2#Intent;scheme=myapp;package=com.example.app;S.browser_fallback_url=https%3A%2F%2Fplay.google.com%2Fd%3Fid%3Da.b%26x%3D~_-.%C3%A9;end"
        )
    );
    assert_eq!(
        intent("myapp:promo", "com.example.app", None).as_deref(),
        Some("intent:promo#Intent;scheme=myapp;package=com.example.app;end")
    );
    assert_eq!(
        intent("https://example.com/a", "com.example.app", None).as_deref(),
        Some("intent://example.com/a#Intent;scheme=https;package=com.example.app;end")
    );
}

/// What the button of an Android visit leads to.
fn android_button(agent: &str, link: &LinkView<'_>, package: Option<&str>) -> String {
    let host = HostContext { only_android_package: package, ..HostContext::default() };
    match decide(link, &host, visitor(agent), None).outcome {
        Outcome::Landing(plan) => plan.open().unwrap_or("none").to_owned(),
        other => panic!("no page: {other:?}"),
    }
}

#[test]
fn an_intent_falls_back_to_store_then_web_then_nothing() {
    let intent = |has: &str| android_button(super::ANDROID, &link(has), Some("com.example.only"));
    assert_eq!(
        intent("AL AS W"),
        "intent://promo/1?x=2#Intent;scheme=shop;package=com.example.app;S.browser_fallback_url=https%3A%2F%2Fplay.google.com%2Fstore%2Fapps%2Fdetails%3Fid%3Dcom.example.app%26referrer%3Ddl_link%253DAbC12345;end"
    );
    assert_eq!(
        intent("AL W"),
        "intent://promo/1?x=2#Intent;scheme=shop;package=com.example.only;S.browser_fallback_url=https%3A%2F%2Fexample.com%2Fpromo;end"
    );
    assert_eq!(intent("AL"), "intent://promo/1?x=2#Intent;scheme=shop;package=com.example.only;end");
}

#[test]
fn no_intent_without_package_or_with_a_fragment_or_in_firefox() {
    let mut fragment = link("AS");
    fragment.to.android_deep_link = Some("shop://promo#part");
    assert_eq!(android_button(super::ANDROID, &fragment, None), "shop://promo#part");
    assert_eq!(android_button(super::FIREFOX, &link("AL AS"), None), super::AL);
    assert_eq!(android_button(super::ANDROID, &link("AL"), None), super::AL);
}

#[test]
fn alternate_addresses() {
    for (query, for_ipad, expected) in [
        ("", false, "https://alt.example.com/AbC12345"),
        ("", true, "https://alt.example.com/AbC12345?os=ios"),
        ("utm_source=a&x=1&gclid=2", false, "https://alt.example.com/AbC12345?utm_source=a&gclid=2"),
        ("utm_source=a", true, "https://alt.example.com/AbC12345?utm_source=a&os=ios"),
        ("os=windows&redirect=1", false, "https://alt.example.com/AbC12345"),
    ] {
        assert_eq!(alternate("https://alt.example.com", "AbC12345", &Query::read(Some(query)), for_ipad), expected);
    }
}
