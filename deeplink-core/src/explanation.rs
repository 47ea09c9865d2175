//! What a visit would be answered, and why: the same decision as for the visit, without its click.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::error::{ErrorCode, Invalid};
use crate::link::LinkStatus;
use crate::text::find_control;
use crate::visitor::{Class, ClickKind, Platform};
use crate::words::{setters, words};

/// Most characters of a header value in a query.
pub const MAX_HEADER: usize = 2_048;

/// A visitor to explain a link for: who asks, and how. What is absent has a default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct ExplainQuery {
    /// The header `User-Agent`; a browser on Windows when absent, no header when empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The header `Accept`; `text/html` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// The header `Sec-CH-UA-Platform`, which outranks the `User-Agent` if it names a known system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The host that is visited: a verified domain of the account, or the service's own. That of the link's URL when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Whether the visit has `redirect=1`.
    #[serde(skip_serializing_if = "std::ops::Not::not", serialize_with = "as_one")]
    pub redirect: bool,
}

/// `1`, as in the address of a visit.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn as_one<S: Serializer>(_: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(1)
}

impl ExplainQuery {
    /// A browser on Windows at the link's own address.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the header `User-Agent`.
        user_agent: impl Into<String>,
        /// Sets the header `Accept`.
        accept: impl Into<String>,
        /// Sets the header `Sec-CH-UA-Platform`.
        os: impl Into<String>,
        /// Sets the host that is visited.
        host: impl Into<String>,
    }

    /// Adds `redirect=1` to the visit.
    #[must_use]
    pub fn redirect(mut self) -> Self {
        self.redirect = true;
        self
    }

    /// The `User-Agent` that is explained.
    pub fn agent(&self) -> &str {
        self.user_agent.as_deref().unwrap_or(SampleVisitor::WINDOWS.user_agent)
    }

    /// The `Accept` that is explained.
    pub fn accepted(&self) -> &str {
        self.accept.as_deref().unwrap_or(HTML)
    }

    /// Applies the rules: header values have no control characters and at most 2,048 characters. Whether `host` is the
    /// account's is for the service to say.
    pub fn check(&self) -> Result<(), Invalid> {
        let fields =
            [("user_agent", &self.user_agent), ("accept", &self.accept), ("os", &self.os), ("host", &self.host)];
        for (field, value) in fields {
            let Some(value) = value else { continue };
            let wrong = |why: String| Err(Invalid::field(ErrorCode::BadRequest, field, format!("{field} {why}")));
            if find_control(value, false).is_some() {
                return wrong("holds a control character".to_owned());
            }
            if value.chars().count() > MAX_HEADER {
                return wrong(format!("is longer than {MAX_HEADER} characters"));
            }
        }
        Ok(())
    }
}

impl From<SampleVisitor> for ExplainQuery {
    fn from(visitor: SampleVisitor) -> Self {
        Self::new().user_agent(visitor.user_agent).accept(visitor.accept)
    }
}

const HTML: &str = "text/html";

/// A typical visitor, with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampleVisitor {
    /// A short name, such as `iphone`.
    pub name: &'static str,
    /// The name for people.
    pub label: &'static str,
    /// Its `User-Agent`.
    pub user_agent: &'static str,
    /// Its `Accept`.
    pub accept: &'static str,
    /// Whether it is an iPad, which sends a Mac's headers and which the landing page detects.
    pub is_ipad: bool,
}

impl SampleVisitor {
    /// Safari on an iPhone.
    pub const IPHONE: Self = Self::browser(
        "iphone",
        "iPhone",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 \
         Mobile/15E148 Safari/604.1",
    );
    /// Safari on an iPad.
    pub const IPAD: Self = Self { name: "ipad", label: "iPad", is_ipad: true, ..Self::MAC };
    /// Chrome on an Android phone.
    pub const ANDROID: Self = Self::browser(
        "android",
        "Android phone",
        "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Mobile \
         Safari/537.36",
    );
    /// Safari on a Mac.
    pub const MAC: Self = Self::browser(
        "mac",
        "Mac",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 \
         Safari/605.1.15",
    );
    /// Chrome on Windows.
    pub const WINDOWS: Self = Self::browser(
        "windows",
        "Windows PC",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36",
    );
    /// The browser inside Instagram, on an iPhone.
    pub const INSTAGRAM: Self = Self::browser(
        "instagram",
        "Instagram on an iPhone",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 \
         Instagram 360.0.0.30.109 (iPhone16,1; iOS 18_0; en_US; en; scale=3.00; 1179x2556)",
    );
    /// Facebook's bot, which fetches previews.
    pub const PREVIEW: Self = Self {
        accept: "*/*",
        ..Self::browser(
            "preview",
            "Preview bot",
            "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
        )
    };
    /// `ChatGPT`, which fetches a page for its user.
    pub const AGENT: Self = Self::browser(
        "agent",
        "AI agent",
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ChatGPT-User/1.0; +https://openai.com/bot)",
    );
    /// Google's crawler.
    pub const CRAWLER: Self = Self::browser(
        "crawler",
        "Search engine",
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    );
    /// curl as it is without options.
    pub const CURL: Self = Self { accept: "*/*", ..Self::browser("curl", "curl", "curl/8.5.0") };
    /// A program that asks for JSON.
    pub const JSON: Self =
        Self { accept: "application/json", ..Self::browser("json", "Program that asks for JSON", "curl/8.5.0") };

    /// Every sample: the devices, then programs.
    pub const ALL: [Self; 11] = [
        Self::IPHONE,
        Self::IPAD,
        Self::ANDROID,
        Self::MAC,
        Self::WINDOWS,
        Self::INSTAGRAM,
        Self::PREVIEW,
        Self::AGENT,
        Self::CRAWLER,
        Self::CURL,
        Self::JSON,
    ];

    /// Those that people use.
    pub const DEVICES: [Self; 6] = [Self::IPHONE, Self::IPAD, Self::ANDROID, Self::MAC, Self::WINDOWS, Self::INSTAGRAM];

    const fn browser(name: &'static str, label: &'static str, user_agent: &'static str) -> Self {
        Self { name, label, user_agent, accept: HTML, is_ipad: false }
    }

    /// The sample of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sample| sample.name == name)
    }
}

words! {
    /// The form of an answer.
    AnswerForm {
        /// For people: a redirect or a page.
        Html = "html",
        /// The link's data.
        Json = "json",
    }
}

words! {
    /// What a visitor gets.
    ExplainedOutcome {
        /// A redirect to `target`.
        Redirect = "redirect",
        /// The landing page, whose main button leads to `target`.
        Landing = "landing",
        /// A page that says why the link does not open.
        Notice = "notice",
        /// The link's data.
        Json = "json",
        /// The link is not found at this address.
        NotFound = "not_found",
    }
}

/// What a visit to a link would be answered, and why. It is decided by the code that answers visits, and nothing is
/// counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// The link's id.
    pub link_id: String,
    /// The address that is visited, without `redirect=1`.
    pub url: String,
    /// What the visitor gets.
    pub outcome: ExplainedOutcome,
    /// Why, in one sentence.
    pub reason: String,
    /// Where the redirect or the landing page's main button leads; null for a notice, JSON, or a page without such a
    /// button.
    pub target: Option<String>,
    /// Where the main button ends if no app opens; null if there is no such place, or if the system or the target itself
    /// takes care of it.
    pub fallback: Option<String>,
    /// How long after the tap the page goes to `fallback` by itself, in milliseconds; null without a fallback, or if the
    /// fallback is part of the target.
    pub timer_ms: Option<u32>,
    /// Where the main button leads if what looks like a Mac is an iPad, which the landing page detects; else null.
    pub ipad_target: Option<String>,
    /// The step of the decision that settled it: 1 not found, 2 JSON, 3 not active, 4 known bot, 5 alternate domain, 6
    /// `redirect=1`, 7 no apps, 8 landing page.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 8))]
    pub step: u8,
    /// The row of the decision table, `D1` to `D15`; null where the table does not apply: in steps 1 to 3, and on an
    /// alternate domain.
    #[cfg_attr(feature = "openapi", schema(pattern = "^D([1-9]|1[0-5])$"))]
    pub row: Option<String>,
    /// The link's status for visitors. All links of a suspended account are disabled, except those that are flagged.
    pub status: LinkStatus,
    /// The form of the answer, chosen by `Accept`.
    pub form: AnswerForm,
    /// The visitor's system.
    pub platform: Platform,
    /// The sort of program that visits.
    pub visitor: Class,
    /// Whether it is a browser inside another app.
    pub in_app: bool,
    /// The status of the answer.
    pub http_status: u16,
    /// The answer's headers, by their names in lower case, without `content-security-policy`, which differs with every page.
    pub headers: BTreeMap<String, String>,
    /// The kind of click that a `GET` counts as; null if it is not counted.
    pub counted: Option<ClickKind>,
}

impl Explanation {
    /// Where this visitor is led.
    pub fn target_of(&self, visitor: SampleVisitor) -> Option<&str> {
        let corrected = self.ipad_target.as_deref().filter(|_| visitor.is_ipad);
        corrected.or(self.target.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visitor::{AgentTraits, Form, Visitor, wants_json};

    #[test]
    fn samples_are_what_they_are_called() {
        let seen = |sample: SampleVisitor| {
            let visitor = Visitor::new(AgentTraits::of(sample.user_agent), None);
            let json = wants_json([sample.accept]) == Form::Json;
            (visitor.platform.as_str(), visitor.class, visitor.in_app, json)
        };
        let expected = [
            ("iphone", ("ios", Class::Browser, false, false)),
            ("ipad", ("macos", Class::Browser, false, false)),
            ("android", ("android", Class::Browser, false, false)),
            ("mac", ("macos", Class::Browser, false, false)),
            ("windows", ("windows", Class::Browser, false, false)),
            ("instagram", ("ios", Class::Browser, true, false)),
            ("preview", ("other", Class::Preview, false, false)),
            ("agent", ("other", Class::Ai, false, false)),
            ("crawler", ("other", Class::Crawler, false, false)),
            ("curl", ("other", Class::Client, false, false)),
            ("json", ("other", Class::Client, false, true)),
        ];
        assert_eq!(SampleVisitor::ALL.map(|sample| (sample.name, seen(sample))), expected);
        assert_eq!(SampleVisitor::ALL[..6], SampleVisitor::DEVICES);
        assert_eq!(SampleVisitor::named("mac"), Some(SampleVisitor::MAC));
        assert_eq!(SampleVisitor::named("Mac"), None);
    }

    #[test]
    fn a_query_is_refused_by_the_name_of_its_parameter() {
        let long = "x".repeat(MAX_HEADER);
        assert_eq!(ExplainQuery::new().user_agent(&*long).accept("").os("\"Linux\"").check(), Ok(()));
        for (query, field) in [
            (ExplainQuery::new().user_agent(long.clone() + "x"), "user_agent"),
            (ExplainQuery::new().accept("text/html\r\nx: y"), "accept"),
            (ExplainQuery::new().os("\u{7f}"), "os"),
            (ExplainQuery::new().host("a\0b"), "host"),
        ] {
            let refused = query.check().expect_err(field);
            assert_eq!((refused.code, refused.field.as_deref()), (ErrorCode::BadRequest, Some(field)));
        }
    }
}
