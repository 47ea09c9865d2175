//! The decision table, row by row and column by column, and what goes with it. Expected answers are written in the
//! notation of the rules: `IL IS AL AS W` as stored, `W′` and `AS′` rewritten, `alt` the alternate host.

mod properties;
mod urls;

use super::*;
use crate::visitor::{AgentTraits, Class};

pub(super) const IL: &str = "shop://promo/1";
pub(super) const IL_WEB: &str = "https://app.example.com/promo/1";
pub(super) const IS: &str = "https://apps.apple.com/app/id123456789";
pub(super) const AL: &str = "shop://promo/1?x=2";
pub(super) const AL_WEB: &str = "https://app.example.com/promo/1?x=2";
pub(super) const AS: &str = "https://play.google.com/store/apps/details?id=com.example.app";
pub(super) const W: &str = "https://example.com/promo";

const IPHONE: &str =
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Version/17.5 Safari/604.1";
const ANDROID: &str = "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 Chrome/126.0 Mobile Safari/537.36";
const MAC: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/17.5 Safari/605.1.15";
const WINDOWS: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36";
const LINUX: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36";
const FIREFOX: &str = "Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0";
const LISTED: [&str; 3] = ["facebookexternalhit/1.1", "GPTBot/1.2", "Googlebot/2.1"];

/// What every visit of these tests brings, so that rewritten addresses differ from stored ones.
const CAMPAIGN: &str = "utm_source=poster";

pub(super) fn visitor(agent: &str) -> Visitor {
    Visitor::new(AgentTraits::of(agent), None)
}

/// An active link with the destinations named in `has`, such as `"IL AS W"`; `IL*` and `AL*` are http(s) ones.
pub(super) fn link(has: &str) -> LinkView<'static> {
    let one_of = |names: [(&str, &'static str); 2]| {
        names.into_iter().find(|(name, _)| has.split(' ').any(|word| word == *name)).map(|(_, url)| url)
    };
    LinkView {
        link_id: "AbC12345",
        url: "https://go.example.com/AbC12345",
        ios_deep_link: one_of([("IL", IL), ("IL*", IL_WEB)]),
        ios_store_url: one_of([("IS", IS), ("", "")]).filter(|url| !url.is_empty()),
        android_deep_link: one_of([("AL", AL), ("AL*", AL_WEB)]),
        android_store_url: one_of([("AS", AS), ("", "")]).filter(|url| !url.is_empty()),
        web_url: one_of([("W", W), ("", "")]).filter(|url| !url.is_empty()),
        has_social_preview: false,
        has_agent_context: false,
        is_active: true,
    }
}

fn symbol(url: &str) -> String {
    let alternate = "https://alt.example.com/AbC12345?utm_source=poster";
    let known = match url {
        IL | IL_WEB => "IL",
        IS => "IS",
        AL | AL_WEB => "AL",
        "https://example.com/promo?utm_source=poster" => "W′",
        "https://play.google.com/store/apps/details?id=com.example.app&referrer=dl_link%3DAbC12345%26utm_source%3Dposter" => {
            "AS′"
        }
        "https://go.example.com/AbC12345" => "url",
        _ if url == alternate => "alt",
        _ if url.strip_suffix("&os=ios") == Some(alternate) => "alt+os",
        _ if url.starts_with("intent:") => "intent",
        other => other,
    };
    known.to_owned()
}

/// `302 W′`, `notice`, or `LP` with each element of the page that exists.
fn describe(outcome: &Outcome<'_>) -> String {
    let plan = match outcome {
        Outcome::Redirect(to) => return format!("302 {}", symbol(to)),
        Outcome::Notice => return "notice".to_owned(),
        Outcome::Landing(plan) => plan,
    };
    let mut text = "LP".to_owned();
    for (name, url) in [
        ("open", plan.open()),
        ("timer", plan.open_fallback()),
        ("store", plan.store()),
        ("web", plan.web()),
        ("deep", plan.deep()),
        ("ios-store", plan.ios_store()),
        ("android-store", plan.android_store()),
        ("ipad", plan.ipad_open()),
        ("ipad-timer", plan.ipad_fallback()),
    ] {
        if let Some(url) = url {
            text.extend([" ", name, "=", &symbol(url)]);
        }
    }
    text
}

/// One visit: the agent, the link's destinations, the alternate host (if any), and more of the query.
fn visit(agent: &str, has: &str, alternate: Option<&str>, query: &str) -> String {
    visit_link(agent, &link(has), Surroundings { alternate, ..Surroundings::default() }, query)
}

fn visit_link(agent: &str, link: &LinkView<'_>, around: Surroundings<'_>, query: &str) -> String {
    let query = format!("{CAMPAIGN}&{query}");
    describe(&decide(link, &around, visitor(agent), Some(&query)))
}

const ALT: Option<&str> = Some("alt.example.com");

/// A row of the table: name, agent, destinations, alternate host, and the answers to a browser, an in-app browser,
/// `redirect=1`, and a listed automaton on the same platform.
struct Row(&'static str, &'static str, &'static str, Option<&'static str>, [&'static str; 4]);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    Row("D1", IPHONE, "IL IS W", ALT, ["LP open=alt store=IS web=W′", "LP open=alt store=IS web=W′", "302 IS", "LP open=alt store=IS web=W′"]),
    Row("D1", IPHONE, "IL", ALT, ["LP open=alt", "LP open=alt", "LP open=alt", "LP open=alt"]),
    Row("D1", IPHONE, "IS", ALT, ["LP open=alt store=IS", "LP open=alt store=IS", "302 IS", "LP open=alt store=IS"]),
    Row("D1", IPHONE, "IL* AL AS", ALT, ["LP open=alt", "LP open=alt", "LP open=alt", "LP open=alt"]),
    Row("D2", IPHONE, "IL IS W", None, ["LP open=IL timer=IS store=IS web=W′", "LP open=IS web=W′ deep=IL", "302 IS", "LP open=IL timer=IS store=IS web=W′"]),
    Row("D2", IPHONE, "IL W", None, ["LP open=IL timer=W′ web=W′", "LP open=W′ deep=IL", "LP open=IL timer=W′ web=W′", "LP open=IL timer=W′ web=W′"]),
    Row("D2", IPHONE, "IL", None, ["LP open=IL", "LP open=IL", "LP open=IL", "LP open=IL"]),
    Row("D2", IPHONE, "IL AL AS", None, ["LP open=IL", "LP open=IL", "LP open=IL", "LP open=IL"]),
    Row("D3", IPHONE, "IL* IS W", None, ["LP open=IL store=IS web=W′", "LP open=IS web=W′ deep=IL", "302 IS", "LP open=IL store=IS web=W′"]),
    Row("D3", IPHONE, "IL*", None, ["LP open=IL", "LP open=IL", "LP open=IL", "LP open=IL"]),
    Row("D4", IPHONE, "IS W", None, ["LP open=IS web=W′", "LP open=IS web=W′", "302 IS", "LP open=IS web=W′"]),
    Row("D4", IPHONE, "IS AL AS", None, ["LP open=IS", "LP open=IS", "302 IS", "LP open=IS"]),
    Row("D5", IPHONE, "AL AS W", None, ["LP open=W′", "LP open=W′", "LP open=W′", "LP open=W′"]),
    Row("D5", IPHONE, "AL AS", ALT, ["LP android-store=AS′", "LP android-store=AS′", "LP android-store=AS′", "LP android-store=AS′"]),
    Row("D5", IPHONE, "AL", None, ["LP", "LP", "LP", "LP"]),
    Row("D6", ANDROID, "AL AS W", ALT, ["LP open=alt store=AS′ web=W′", "LP open=intent timer=AS′ store=AS′ web=W′", "302 AS′", "LP open=alt store=AS′ web=W′"]),
    Row("D6", ANDROID, "AL W", ALT, ["LP open=alt web=W′", "LP open=alt web=W′", "LP open=alt web=W′", "LP open=alt web=W′"]),
    Row("D6", ANDROID, "AS", ALT, ["LP open=alt store=AS′", "LP open=alt store=AS′", "302 AS′", "LP open=alt store=AS′"]),
    Row("D6", FIREFOX, "AL AS", ALT, ["LP open=alt store=AS′", "LP open=alt store=AS′", "302 AS′", "LP open=alt store=AS′"]),
    Row("D7", ANDROID, "AL AS W", None, ["LP open=intent store=AS′ web=W′", "LP open=intent timer=AS′ store=AS′ web=W′", "302 AS′", "LP open=intent store=AS′ web=W′"]),
    Row("D7", ANDROID, "AL* AS IL IS", None, ["LP open=intent store=AS′", "LP open=intent timer=AS′ store=AS′", "302 AS′", "LP open=intent store=AS′"]),
    Row("D8", FIREFOX, "AL AS W", None, ["LP open=AL timer=AS′ store=AS′ web=W′", "LP open=AS′ web=W′ deep=AL", "302 AS′", "LP open=intent store=AS′ web=W′"]),
    Row("D8", ANDROID, "AL W", None, ["LP open=AL timer=W′ web=W′", "LP open=W′ deep=AL", "LP open=AL timer=W′ web=W′", "LP open=AL timer=W′ web=W′"]),
    Row("D8", ANDROID, "AL", None, ["LP open=AL", "LP open=AL", "LP open=AL", "LP open=AL"]),
    Row("D8", ANDROID, "AL* W", None, ["LP open=AL web=W′", "LP open=W′ deep=AL", "LP open=AL web=W′", "LP open=AL web=W′"]),
    Row("D9", ANDROID, "AS W", None, ["LP open=AS′ web=W′", "LP open=AS′ web=W′", "302 AS′", "LP open=AS′ web=W′"]),
    Row("D9", ANDROID, "AS IL IS", None, ["LP open=AS′", "LP open=AS′", "302 AS′", "LP open=AS′"]),
    Row("D10", ANDROID, "IL IS W", None, ["LP open=W′", "LP open=W′", "LP open=W′", "LP open=W′"]),
    Row("D10", ANDROID, "IL IS", ALT, ["LP ios-store=IS", "LP ios-store=IS", "LP ios-store=IS", "LP ios-store=IS"]),
    Row("D11", MAC, "IL IS AS W", None, ["LP open=W′ ios-store=IS android-store=AS′ ipad=IL ipad-timer=IS", "LP open=W′ ios-store=IS android-store=AS′ ipad=IS", "LP open=W′ ios-store=IS android-store=AS′ ipad=IL ipad-timer=IS", "LP open=W′ ios-store=IS android-store=AS′ ipad=IL ipad-timer=IS"]),
    Row("D11", MAC, "IL", None, ["LP ipad=IL", "LP ipad=IL", "LP ipad=IL", "LP ipad=IL"]),
    Row("D11", MAC, "IL* W", None, ["LP open=W′ ipad=IL", "LP open=W′ ipad=W′", "LP open=W′ ipad=IL", "LP open=W′ ipad=IL"]),
    Row("D11", MAC, "IS", None, ["LP ios-store=IS ipad=IS", "LP ios-store=IS ipad=IS", "LP ios-store=IS ipad=IS", "LP ios-store=IS ipad=IS"]),
    Row("D11", MAC, "IS W", ALT, ["LP open=W′ ios-store=IS ipad=alt+os", "LP open=W′ ios-store=IS ipad=alt+os", "LP open=W′ ios-store=IS ipad=alt+os", "LP open=W′ ios-store=IS ipad=alt+os"]),
    Row("D12", MAC, "AL AS W", ALT, ["LP open=W′ android-store=AS′", "LP open=W′ android-store=AS′", "302 W′", "LP open=W′ android-store=AS′"]),
    Row("D12", MAC, "AS", None, ["LP android-store=AS′", "LP android-store=AS′", "LP android-store=AS′", "LP android-store=AS′"]),
    Row("D13", WINDOWS, "IL IS AL AS W", ALT, ["LP open=W′ ios-store=IS android-store=AS′", "LP open=W′ ios-store=IS android-store=AS′", "302 W′", "LP open=W′ ios-store=IS android-store=AS′"]),
    Row("D13", WINDOWS, "IL", None, ["LP", "LP", "LP", "LP"]),
    Row("D13", LINUX, "AS W", None, ["LP open=W′ android-store=AS′", "LP open=W′ android-store=AS′", "302 W′", "LP open=W′ android-store=AS′"]),
    Row("D13", LINUX, "IS", None, ["LP ios-store=IS", "LP ios-store=IS", "LP ios-store=IS", "LP ios-store=IS"]),
    Row("D14", IPHONE, "W", ALT, ["302 W′", "302 W′", "302 W′", "302 W′"]),
    Row("D14", ANDROID, "W", ALT, ["302 W′", "302 W′", "302 W′", "302 W′"]),
    Row("D14", MAC, "W", None, ["302 W′", "302 W′", "302 W′", "302 W′"]),
    Row("D14", WINDOWS, "W", None, ["302 W′", "302 W′", "302 W′", "302 W′"]),
    Row("D14", LINUX, "W", None, ["302 W′", "302 W′", "302 W′", "302 W′"]),
    Row("D15", IPHONE, "", ALT, ["LP", "LP", "LP", "LP"]),
    Row("D15", ANDROID, "", None, ["LP", "LP", "LP", "LP"]),
    Row("D15", MAC, "", None, ["LP", "LP", "LP", "LP"]),
    Row("D15", WINDOWS, "", None, ["LP", "LP", "LP", "LP"]),
];

#[test]
fn every_row_and_column_of_the_decision_table() {
    for Row(row, agent, has, alternate, [browser, in_app, redirect, listed]) in TABLE {
        let case = |column: &str| format!("{row} {column}: {agent} to {has:?}, alternate {alternate:?}");
        assert_eq!(visit(agent, has, *alternate, ""), *browser, "{}", case("browser"));
        let inside = format!("{agent} Instagram");
        assert_eq!(visit(&inside, has, *alternate, ""), *in_app, "{}", case("in-app"));
        assert_eq!(visit(agent, has, *alternate, "redirect=1"), *redirect, "{}", case("redirect=1"));
        for name in LISTED {
            // Without Firefox/, which some rows have: automata do not have it.
            let agent = format!("{} {name}", agent.replace("Firefox/", "Gecko/"));
            assert_eq!(visit(&agent, has, *alternate, ""), *listed, "{}", case(name));
            assert_eq!(visit(&agent, has, *alternate, "redirect=1"), *listed, "{}", case("listed, redirect=1"));
        }
    }
}

#[test]
fn a_client_is_treated_as_a_browser() {
    for Row(row, agent, has, alternate, [browser, ..]) in TABLE {
        let client = agent.replace("Mozilla/5.0", "Library/1.0");
        assert_eq!(visitor(&client).class, Class::Client);
        assert_eq!(visit(&client, has, *alternate, ""), *browser, "{row}: {client} to {has:?}");
    }
}

#[test]
fn a_plain_redirect_is_the_stored_text_itself() {
    for query in [None, Some(""), Some("x=1")] {
        match decide(&link("W"), &Surroundings::default(), visitor(IPHONE), query) {
            Outcome::Redirect(Cow::Borrowed(to)) => assert!(std::ptr::eq(to, W)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_listed_visitor_sees_the_page_of_a_web_link_that_has_something_to_tell() {
    for name in LISTED {
        let mut web = link("W");
        web.has_social_preview = true;
        assert_eq!(visit_link(name, &web, Surroundings::default(), ""), "LP open=W′", "{name}");
        assert_eq!(visit_link(IPHONE, &web, Surroundings::default(), ""), "302 W′", "people are sent on");
        web.has_social_preview = false;
        web.has_agent_context = true;
        assert_eq!(visit_link(name, &web, Surroundings::default(), ""), "LP open=W′", "{name}");
        assert_eq!(visit_link(WINDOWS, &web, Surroundings::default(), ""), "302 W′", "people are sent on");
    }
}

#[test]
fn an_inactive_link_is_a_notice_for_everybody_everywhere() {
    for Row(_, agent, has, alternate, _) in TABLE {
        for on_alternate in [false, true] {
            let link = LinkView { is_active: false, ..link(has) };
            let around = Surroundings { alternate: *alternate, on_alternate, ..Surroundings::default() };
            for agent in [*agent, LISTED[0], LISTED[1], LISTED[2], "curl/8.5"] {
                assert_eq!(visit_link(agent, &link, around, "redirect=1"), "notice");
            }
        }
    }
}

#[test]
fn the_alternate_host_goes_to_the_store() {
    for (agent, has, query, expected) in [
        (IPHONE, "IL IS AL AS W", "", "302 IS"),
        (IPHONE, "IL AS W", "", "302 W′"),
        (IPHONE, "IL AS", "", "302 url"),
        (ANDROID, "IL IS AL AS W", "", "302 AS′"),
        (ANDROID, "IS AL W", "", "302 W′"),
        (ANDROID, "IS AL", "", "302 url"),
        (MAC, "IL IS AS W", "", "302 W′"),
        (MAC, "IL IS AS W", "os=ios", "302 IS"),
        (MAC, "IL IS AS W", "os=ios&os=x", "302 IS"),
        (MAC, "IL IS AS W", "os=x&os=ios", "302 W′"),
        (MAC, "IL IS AS W", "os=iOS", "302 W′"),
        (MAC, "IL AS W", "os=ios", "302 W′"),
        (MAC, "IL", "os=ios", "302 url"),
        (WINDOWS, "IS AS W", "os=ios", "302 W′"),
        (ANDROID, "IS AS W", "os=ios", "302 AS′"),
        (LINUX, "IS AS", "", "302 url"),
        (LINUX, "W", "redirect=1", "302 W′"),
        (LINUX, "", "", "302 url"),
        ("curl/8.5", "IS AS W", "", "302 W′"),
        // Listed visitors read the page here as well.
        (LISTED[0], "IS AS W", "", "LP open=W′ ios-store=IS android-store=AS′"),
        (LISTED[1], "W", "", "302 W′"),
    ] {
        let around = Surroundings { alternate: ALT, on_alternate: true, ..Surroundings::default() };
        assert_eq!(visit_link(agent, &link(has), around, query), expected, "{agent} to {has}, {query}");
    }
}

#[test]
fn os_has_no_effect_on_other_hosts() {
    for Row(row, agent, has, alternate, [browser, ..]) in TABLE {
        assert_eq!(visit(agent, has, *alternate, "os=ios"), *browser, "{row}");
    }
}

#[test]
fn only_the_first_redirect_parameter_counts_and_only_as_1() {
    for (query, expected) in [
        ("redirect=1", "302 W′"),
        ("redirect=%31", "302 W′"),
        ("redirect=1&redirect=0", "302 W′"),
        ("redirect=0&redirect=1", "LP open=W′ ios-store=IS"),
        ("redirect=true", "LP open=W′ ios-store=IS"),
        ("redirect=01", "LP open=W′ ios-store=IS"),
        ("redirect=", "LP open=W′ ios-store=IS"),
        ("redirect", "LP open=W′ ios-store=IS"),
        ("Redirect=1", "LP open=W′ ios-store=IS"),
        ("redirect=https://evil.example/", "LP open=W′ ios-store=IS"),
        ("url=https://evil.example/&redirect=1", "302 W′"),
    ] {
        assert_eq!(visit(WINDOWS, "IS W", None, query), expected, "{query}");
    }
}

#[test]
fn wechat_gets_a_hint_and_ios_a_copied_link() {
    let plan = |agent: &str, has: &str| {
        let link = link(has);
        match decide(&link, &Surroundings::default(), visitor(agent), None) {
            Outcome::Landing(plan) => (plan.hint, plan.copies_link()),
            other => panic!("no page: {other:?}"),
        }
    };
    assert_eq!(plan(&format!("{IPHONE} MicroMessenger/8.0"), "IL IS"), (true, true));
    assert_eq!(plan(&format!("{ANDROID} MicroMessenger/8.0"), "IL IS"), (true, false));
    assert_eq!(plan(IPHONE, "IL IS"), (false, true));
    assert_eq!(plan(IPHONE, "IL W"), (false, false), "nothing to find it after an installation");
    assert_eq!(plan(MAC, "IS"), (false, true), "once corrected");
    assert_eq!(plan(MAC, "AS"), (false, false));
    assert_eq!(plan(WINDOWS, "IS"), (false, false));
}

#[test]
fn counting() {
    let (active, inactive) = (link("W"), LinkView { is_active: false, ..link("W") });
    let here = Surroundings { alternate: ALT, ..Surroundings::default() };
    let alternate = Surroundings { on_alternate: true, ..here };
    for (agent, kind) in [
        (IPHONE, ClickKind::Human),
        ("curl/8.5", ClickKind::Agent),
        ("", ClickKind::Agent),
        (LISTED[0], ClickKind::Preview),
        (LISTED[1], ClickKind::Agent),
        (LISTED[2], ClickKind::Crawler),
    ] {
        let visitor = visitor(agent);
        assert_eq!(counts(&active, &here, visitor, Fetch::Get), Some(kind), "{agent}");
        assert_eq!(counts(&active, &here, visitor, Fetch::Head), None);
        assert_eq!(counts(&active, &here, visitor, Fetch::Prefetch), None);
        assert_eq!(counts(&active, &alternate, visitor, Fetch::Get), None);
        assert_eq!(counts(&inactive, &here, visitor, Fetch::Get), None);
    }
}
