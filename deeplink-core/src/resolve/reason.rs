//! Explains a decision to the link's owner in one sentence, based on the step and the row that applied.

use super::row::NoIntent;
use super::target::is_web;
use super::{Decision, HostContext, LinkView, Outcome, Row, Step, Target};
use crate::visitor::{Class, Visitor};

impl Target {
    /// The target, as worded in a sentence.
    const fn words(self) -> &'static str {
        match self {
            Self::Alternate => "the account's alternate domain",
            Self::IosApp => "the iOS app",
            Self::AndroidApp | Self::Intent => "the Android app",
            Self::AppStore => "the App Store",
            Self::PlayStore => "Google Play",
            Self::Web => "the web page",
        }
    }
}

impl Decision<'_> {
    /// The row of the decision table; `None` if the table does not apply: if the link is not active, or on an alternate
    /// host.
    pub fn row(&self, link: &LinkView<'_>, host: &HostContext<'_>, visitor: Visitor) -> Option<Row> {
        let applies = self.step != Step::Status && !host.on_alternate;
        applies.then(|| Row::of(link, host, visitor))
    }

    /// The reason for the decision, given the same link, host and visitor.
    pub fn reason(&self, link: &LinkView<'_>, host: &HostContext<'_>, visitor: Visitor) -> String {
        let to = self.to.map_or("the link's own URL", Target::words);
        match self.step {
            Step::Status => "The link is not active, so visitors see a notice.".to_owned(),
            Step::Bot => self.for_bot(visitor.class),
            Step::AlternateHost => format!(
                "On the alternate domain, an installed app opens without a request to the service; a visitor without \
                 the app is redirected to {to}."
            ),
            Step::Direct => format!("redirect=1 skips the landing page, so the visitor is redirected to {to}."),
            Step::NoApps if self.to.is_some() => {
                "The web page is the link's only destination, so everyone is redirected to it.".to_owned()
            }
            Step::NoApps => "The link has no destination, so the landing page has no button.".to_owned(),
            Step::Page => self.on_page(Row::of(link, host, visitor), link, host, visitor),
        }
    }

    fn for_bot(&self, class: Class) -> String {
        let who = match class {
            Class::Preview => "A link-preview bot",
            Class::Ai => "An AI agent",
            _ => "A search engine or monitoring service",
        };
        match self.outcome {
            Outcome::Redirect(_) => format!(
                "{who} is also redirected, because the web page is the link's only destination and the link has \
                 neither a social preview nor agent context."
            ),
            _ => format!(
                "{who} always gets the landing page, which contains the link's social preview and agent context."
            ),
        }
    }

    /// The sentence for the landing page of a link that has destinations on phones.
    fn on_page(&self, row: Row, link: &LinkView<'_>, host: &HostContext<'_>, visitor: Visitor) -> String {
        let Outcome::Landing(plan) = &self.outcome else { return String::new() };
        let fallback = plan.fallback_target().map(Target::words);
        let to = self.to.map(Target::words);
        match (row, self.to) {
            (Row::D1 | Row::D6, Some(Target::Alternate)) => {
                "The button links to the account's alternate domain, so the operating system opens the app if it is \
                 installed."
                    .to_owned()
            }
            (Row::D2 | Row::D3, _) if visitor.in_app => in_app(to, Target::IosApp, self.to),
            (Row::D2, _) => after_tap("The button opens the iOS app with its deep link", fallback),
            (Row::D3, _) => universal("iOS"),
            (Row::D4, _) => "The link has no iOS deep link, so the button goes to the App Store.".to_owned(),
            (Row::D6 | Row::D7, _) if visitor.in_app => {
                after_tap("The button is an Android intent link, which opens the app", fallback)
            }
            (Row::D6 | Row::D7, _) => match plan.intent_fallback_target() {
                Some(other) => format!(
                    "The button is an Android intent link, which opens the app if it is installed, or {} if it is not.",
                    other.words()
                ),
                None => {
                    "The button is an Android intent link, which opens the app; the link has no fallback.".to_owned()
                }
            },
            (Row::D8, _) if visitor.in_app => in_app(to, Target::AndroidApp, self.to),
            (Row::D8, _) if link.to.android_deep_link.is_some_and(is_web) => universal("Android"),
            (Row::D8, _) => {
                let why = link.to.android_deep_link.and_then(|app| NoIntent::of(app, link, host, visitor));
                after_tap(&format!("The button opens the Android app with its deep link{}", obstacle(why)), fallback)
            }
            (Row::D9, _) => "The link has no Android deep link, so the button goes to Google Play.".to_owned(),
            (Row::D5, _) => elsewhere("The link's app is for Android only", to),
            (Row::D10, _) => elsewhere("The link's app is for iOS only", to),
            (Row::D11, _) => match to {
                Some(to) => format!(
                    "On a Mac, the button goes to {to}. An iPad sends the same headers, so the page itself detects it \
                     and changes the button."
                ),
                None => "The link has no web page, so on a Mac the page has no main button. An iPad sends the same \
                         headers, so the page itself detects it and adds one."
                    .to_owned(),
            },
            (Row::D12, _) => elsewhere("The link's app is for Android only", to),
            // Rows D14 and D15 are decided in earlier steps.
            (Row::D1 | Row::D13 | Row::D14 | Row::D15, _) => elsewhere("The link's apps are for phones only", to),
        }
    }
}

/// The sentence for a button that tries to open an app, including what happens if none opens.
fn after_tap(what: &str, fallback: Option<&str>) -> String {
    match fallback {
        Some(fallback) => format!("{what}; if nothing opens within 1.5 seconds, the page goes to {fallback}."),
        None => format!("{what}; the link has no fallback."),
    }
}

fn in_app(to: Option<&str>, app: Target, target: Option<Target>) -> String {
    match to {
        Some(to) if target != Some(app) => format!(
            "In-app browsers often block deep links, so the button goes to {to}, and a second button opens the deep link."
        ),
        _ => "In-app browsers often block deep links, but the link has no other destination here.".to_owned(),
    }
}

fn universal(system: &str) -> String {
    format!(
        "The deep link is a web URL, which {system} opens in the app if it is installed, and otherwise in the browser."
    )
}

fn elsewhere(what: &str, to: Option<&str>) -> String {
    match to {
        Some(to) => format!("{what}, so the button goes to {to}."),
        None => format!("{what}, and the link has no web page, so the page has no main button."),
    }
}

fn obstacle(why: Option<NoIntent>) -> &'static str {
    match why {
        Some(NoIntent::Firefox) => " instead of an intent link, because Firefox does not follow intent links",
        Some(NoIntent::Fragment) => " instead of an intent link, because an intent link cannot contain its fragment",
        Some(NoIntent::Package) => " instead of an intent link, because the app's package name is not known",
        None => "",
    }
}
