//! The decision table, row by row and column by column, and related cases.

mod properties;
mod reasons;
mod urls;

use super::*;
use crate::visitor::{AgentTraits, Class};
use deeplink_doubles::decisions::{
    AL, ALT, ANDROID, AS, CAMPAIGN, FIREFOX, IPHONE, IS, LINK_ID, LINK_URL, LINUX, LISTED, MAC, Row, TABLE, W, WINDOWS,
    as_listed, destinations, symbol,
};

pub(super) fn visitor(agent: &str) -> Visitor {
    Visitor::new(AgentTraits::of(agent), None)
}

/// An active link with the destinations named in `has`.
pub(super) fn link(has: &str) -> LinkView<'static> {
    LinkView {
        link_id: LINK_ID,
        url: LINK_URL,
        to: Destinations::from_array(destinations(has)),
        has_social_preview: false,
        has_agent_context: false,
        is_active: true,
    }
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
    visit_link(agent, &link(has), HostContext { alternate, ..HostContext::default() }, query)
}

fn visit_link(agent: &str, link: &LinkView<'_>, host: HostContext<'_>, query: &str) -> String {
    let query = format!("{CAMPAIGN}&{query}");
    describe(&decide(link, &host, visitor(agent), Some(&query)).outcome)
}

#[test]
fn every_row_and_column_of_the_decision_table() {
    for Row(row, agent, has, alternate, [browser, in_app, redirect, listed]) in TABLE {
        let case = |column: &str| format!("{row} {column}: {agent} to {has:?}, alternate {alternate:?}");
        assert_eq!(visit(agent, has, *alternate, ""), *browser, "{}", case("browser"));
        let inside = format!("{agent} Instagram");
        assert_eq!(visit(&inside, has, *alternate, ""), *in_app, "{}", case("in-app"));
        assert_eq!(visit(agent, has, *alternate, "redirect=1"), *redirect, "{}", case("redirect=1"));
        for name in LISTED {
            let agent = as_listed(agent, name);
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
        let link = link("W");
        match decide(&link, &HostContext::default(), visitor(IPHONE), query).outcome {
            Outcome::Redirect(Cow::Borrowed(to)) => {
                assert!(link.to.web_url.is_some_and(|stored| std::ptr::eq(to, stored)));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_listed_visitor_sees_the_page_of_a_web_link_that_has_something_to_tell() {
    for name in LISTED {
        let mut web = link("W");
        web.has_social_preview = true;
        assert_eq!(visit_link(name, &web, HostContext::default(), ""), "LP open=W′", "{name}");
        assert_eq!(visit_link(IPHONE, &web, HostContext::default(), ""), "302 W′", "people are sent on");
        web.has_social_preview = false;
        web.has_agent_context = true;
        assert_eq!(visit_link(name, &web, HostContext::default(), ""), "LP open=W′", "{name}");
        assert_eq!(visit_link(WINDOWS, &web, HostContext::default(), ""), "302 W′", "people are sent on");
    }
}

#[test]
fn an_inactive_link_is_a_notice_for_everybody_everywhere() {
    for Row(_, agent, has, alternate, _) in TABLE {
        for on_alternate in [false, true] {
            let link = LinkView { is_active: false, ..link(has) };
            let host = HostContext { alternate: *alternate, on_alternate, ..HostContext::default() };
            for agent in [*agent, LISTED[0], LISTED[1], LISTED[2], "curl/8.5"] {
                assert_eq!(visit_link(agent, &link, host, "redirect=1"), "notice");
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
        let host = HostContext { alternate: ALT, on_alternate: true, ..HostContext::default() };
        assert_eq!(visit_link(agent, &link(has), host, query), expected, "{agent} to {has}, {query}");
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
        match decide(&link, &HostContext::default(), visitor(agent), None).outcome {
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
    let here = HostContext { alternate: ALT, ..HostContext::default() };
    let alternate = HostContext { on_alternate: true, ..here };
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
