//! The step and the row that a decision names, and its reason, against the answer that it explains.

use std::collections::BTreeSet;

use super::{link, visitor};
use crate::resolve::{Decision, HostContext, LinkView, Outcome, Row, Step, TIMER_MILLIS, decide};
use deeplink_doubles::decisions::{self, ALT, ANDROID, FIREFOX, IPHONE, LISTED, MAC, TABLE, WINDOWS, as_listed};

/// A decision with its row and reason.
fn explained<'a>(
    agent: &str,
    link: &LinkView<'a>,
    host: HostContext<'a>,
    query: &str,
) -> (Decision<'a>, Option<Row>, String) {
    let visitor = visitor(agent);
    let decision = decide(link, &host, visitor, Some(query));
    let (row, reason) = (decision.row(link, &host, visitor), decision.reason(link, &host, visitor));
    (decision, row, reason)
}

fn beside(alternate: Option<&str>) -> HostContext<'_> {
    HostContext { alternate, ..HostContext::default() }
}

/// The columns of the table: the agent, the query, and the expected answer.
fn columns(row: &decisions::Row) -> Vec<(String, &'static str, &'static str)> {
    let decisions::Row(_, agent, _, _, [browser, in_app, redirect, listed]) = row;
    let mut columns = vec![
        ((*agent).to_owned(), "", *browser),
        (format!("{agent} Instagram"), "", *in_app),
        ((*agent).to_owned(), "redirect=1", *redirect),
    ];
    columns.extend(LISTED.iter().map(|name| (as_listed(agent, name), "redirect=1", *listed)));
    columns
}

#[test]
fn every_row_is_named_as_in_the_table() {
    // The reasons say how long it is.
    assert_eq!(TIMER_MILLIS, 1_500);
    let mut seen = BTreeSet::new();
    for row in TABLE {
        let decisions::Row(name, _, has, alternate, _) = row;
        for (agent, query, expected) in columns(row) {
            let case = format!("{name}: {agent} to {has:?}, alternate {alternate:?}, {query}");
            let (decision, row, reason) = explained(&agent, &link(has), beside(*alternate), query);
            // Bots do not say that they are Firefox, so they are shown the intent of the row before.
            let is_firefox_bot = *name == "D8" && expected.contains("open=intent");
            assert_eq!(row.map(Row::as_str), Some(if is_firefox_bot { "D7" } else { name }), "{case}");
            let is_bot = visitor(&agent).class.is_listed();
            let is_phone = agent.contains("iPhone") || agent.contains("Android");
            let step = match (&decision.outcome, *name) {
                _ if is_bot => Step::Bot,
                (_, "D15") => Step::NoApps,
                // On phones, `redirect=1` is for the stores.
                (_, "D14") if query.is_empty() || is_phone => Step::NoApps,
                (Outcome::Redirect(_), _) => Step::Direct,
                _ => Step::Page,
            };
            assert_eq!(decision.step, step, "{case}");
            assert!(reason.ends_with('.') && reason.len() < 250, "{case}: {reason}");
            // What the reason promises is what the page does.
            if let (Outcome::Landing(plan), Step::Page) = (&decision.outcome, decision.step) {
                assert_eq!(reason.contains("within 1.5 seconds"), plan.open_fallback().is_some(), "{case}: {reason}");
                assert_eq!(reason.contains("no main button"), plan.open().is_none(), "{case}: {reason}");
                assert_eq!(reason.contains("a second button"), plan.deep().is_some(), "{case}: {reason}");
                assert_eq!(reason.contains("iPad"), plan.ipad_open().is_some(), "{case}: {reason}");
                assert_eq!(reason.contains("alternate domain"), expected.contains("open=alt"), "{case}: {reason}");
            }
            seen.insert(row);
        }
    }
    assert_eq!(seen, Row::ALL.into_iter().map(Some).collect());
}

#[test]
fn reasons() {
    let inside = |agent: &str| format!("{agent} Instagram");
    let mut fragment = link("AS");
    fragment.to.android_deep_link = Some("shop://promo#part");
    let (ios_app, android_app) = (inside(IPHONE), inside(ANDROID));
    let fox_app = inside(FIREFOX);
    for (agent, link, alternate, query, expected) in [
        (
            IPHONE,
            link("IL IS"),
            ALT,
            "",
            "The button links to the account's alternate domain, so the operating system opens the app if it is \
             installed.",
        ),
        (
            IPHONE,
            link("IL IS W"),
            None,
            "",
            "The button opens the iOS app with its deep link; if nothing opens within 1.5 seconds, the page goes to \
             the App Store.",
        ),
        (
            IPHONE,
            link("IL W"),
            None,
            "",
            "The button opens the iOS app with its deep link; if nothing opens within 1.5 seconds, the page goes to \
             the web page.",
        ),
        (IPHONE, link("IL"), None, "", "The button opens the iOS app with its deep link; the link has no fallback."),
        (
            &ios_app,
            link("IL IS"),
            None,
            "",
            "In-app browsers often block deep links, so the button goes to the App Store, and a second button opens the \
             deep link.",
        ),
        (
            &ios_app,
            link("IL"),
            None,
            "",
            "In-app browsers often block deep links, but the link has no other destination here.",
        ),
        (
            IPHONE,
            link("IL* IS"),
            None,
            "",
            "The deep link is a web URL, which iOS opens in the app if it is installed, and otherwise in the browser.",
        ),
        (IPHONE, link("IS"), None, "", "The link has no iOS deep link, so the button goes to the App Store."),
        (IPHONE, link("AL W"), None, "", "The link's app is for Android only, so the button goes to the web page."),
        (
            IPHONE,
            link("AL"),
            None,
            "",
            "The link's app is for Android only, and the link has no web page, so the page has no main button.",
        ),
        (
            ANDROID,
            link("AL AS"),
            None,
            "",
            "The button is an Android intent link, which opens the app if it is installed, or Google Play if it is \
             not.",
        ),
        (
            &android_app,
            link("AL AS"),
            None,
            "",
            "The button is an Android intent link, which opens the app; if nothing opens within 1.5 seconds, the page \
             goes to Google Play.",
        ),
        (
            &android_app,
            link("AL AS"),
            ALT,
            "",
            "The button is an Android intent link, which opens the app; if nothing opens within 1.5 seconds, the page \
             goes to Google Play.",
        ),
        (
            FIREFOX,
            link("AL AS"),
            None,
            "",
            "The button opens the Android app with its deep link instead of an intent link, because Firefox does not \
             follow intent links; if nothing opens within 1.5 seconds, the page goes to Google Play.",
        ),
        (
            ANDROID,
            fragment,
            None,
            "",
            "The button opens the Android app with its deep link instead of an intent link, because an intent link \
             cannot contain its fragment; if nothing opens within 1.5 seconds, the page goes to Google Play.",
        ),
        (
            ANDROID,
            link("AL"),
            None,
            "",
            "The button opens the Android app with its deep link instead of an intent link, because the app's package \
             name is not known; the link has no fallback.",
        ),
        (
            &fox_app,
            link("AL W"),
            None,
            "",
            "In-app browsers often block deep links, so the button goes to the web page, and a second button opens the \
             deep link.",
        ),
        (
            FIREFOX,
            link("AL* AS"),
            None,
            "",
            "The deep link is a web URL, which Android opens in the app if it is installed, and otherwise in the \
             browser.",
        ),
        (ANDROID, link("AS"), None, "", "The link has no Android deep link, so the button goes to Google Play."),
        (
            ANDROID,
            link("IL"),
            None,
            "",
            "The link's app is for iOS only, and the link has no web page, so the page has no main button.",
        ),
        (
            MAC,
            link("IL W"),
            None,
            "",
            "On a Mac, the button goes to the web page. An iPad sends the same headers, so the page itself detects it \
             and changes the button.",
        ),
        (
            MAC,
            link("IL"),
            None,
            "",
            "The link has no web page, so on a Mac the page has no main button. An iPad sends the same headers, so the page itself detects it and adds one.",
        ),
        (WINDOWS, link("IL W"), None, "", "The link's apps are for phones only, so the button goes to the web page."),
        (WINDOWS, link("W"), None, "", "The web page is the link's only destination, so everyone is redirected to it."),
        (WINDOWS, link(""), None, "", "The link has no destination, so the landing page has no button."),
        (
            WINDOWS,
            link("IL W"),
            None,
            "redirect=1",
            "redirect=1 skips the landing page, so the visitor is redirected to the web page.",
        ),
        (
            LISTED[0],
            link("IL W"),
            None,
            "redirect=1",
            "A link-preview bot always gets the landing page, which contains the link's social preview and agent \
             context.",
        ),
        (
            LISTED[1],
            link("W"),
            None,
            "",
            "An AI agent is also redirected, because the web page is the link's only destination and the link has \
             neither a social preview nor agent context.",
        ),
    ] {
        assert_eq!(explained(agent, &link, beside(alternate), query).2, expected);
    }
}

#[test]
fn outside_the_table_there_is_no_row() {
    let alternate = HostContext { alternate: ALT, on_alternate: true, ..HostContext::default() };
    for (has, place) in [("IL IS W", "the App Store"), ("AS W", "the web page"), ("AS", "the link's own URL")] {
        let (decision, row, reason) = explained(IPHONE, &link(has), alternate, "redirect=1");
        assert_eq!((decision.step, row), (Step::AlternateHost, None));
        assert!(reason.ends_with(&format!("a visitor without the app is redirected to {place}.")), "{reason}");
    }
    let (decision, row, _) = explained(LISTED[2], &link("IL"), alternate, "");
    assert_eq!((decision.step, row), (Step::Bot, None));
    let ended = LinkView { is_active: false, ..link("W") };
    let (decision, row, _) = explained(IPHONE, &ended, beside(None), "");
    assert_eq!((decision.step, row, decision.to), (Step::Status, None, None));
    assert_eq!([Step::Status, Step::Page].map(Step::number), [3, 8]);
}
