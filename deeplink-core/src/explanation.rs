//! The response to a visit, and why: the same decision as for a real visit, but no click is counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::error::{ErrorCode, Invalid};
use crate::link::LinkStatus;
use crate::text::find_control;
use crate::visitor::{Class, ClickKind, Platform};
use crate::words::{setters, words};

/// Maximum characters of a header value in a query.
pub const MAX_HEADER: usize = 2_048;

/// The visit to explain: its headers and host. Fields that are not set have defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct ExplainQuery {
    /// The `User-Agent` header. Default: a browser on Windows; if empty, no header is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The `Accept` header. Default: `text/html`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// The `Sec-CH-UA-Platform` header, which takes precedence over `User-Agent` if it names a known operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The host of the visit: a verified domain of the account or the service's own host. Default: the host of the
    /// link's URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Whether the visit has `redirect=1`.
    #[serde(skip_serializing_if = "std::ops::Not::not", serialize_with = "as_one")]
    pub redirect: bool,
}

/// `1`, as in the URL of a visit.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn as_one<S: Serializer>(_: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(1)
}

impl ExplainQuery {
    /// A browser on Windows that opens the link's own URL.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the `User-Agent` header.
        user_agent: impl Into<String>,
        /// Sets the `Accept` header.
        accept: impl Into<String>,
        /// Sets the `Sec-CH-UA-Platform` header.
        os: impl Into<String>,
        /// Sets the host of the visit.
        host: impl Into<String>,
    }

    /// Adds `redirect=1` to the visit.
    #[must_use]
    pub fn redirect(mut self) -> Self {
        self.redirect = true;
        self
    }

    /// The `User-Agent` of the visit.
    pub fn agent(&self) -> &str {
        self.user_agent.as_deref().unwrap_or(SampleVisitor::WINDOWS.user_agent)
    }

    /// The `Accept` header of the visit.
    pub fn accepted(&self) -> &str {
        self.accept.as_deref().unwrap_or(HTML)
    }

    /// Checks that values contain no control characters and have at most 2,048 characters. The service checks whether
    /// `host` belongs to the account.
    pub fn check(&self) -> Result<(), Invalid> {
        let fields =
            [("user_agent", &self.user_agent), ("accept", &self.accept), ("os", &self.os), ("host", &self.host)];
        for (field, value) in fields {
            let Some(value) = value else { continue };
            let wrong = |why: String| Err(Invalid::field(ErrorCode::BadRequest, field, format!("{field} {why}")));
            if find_control(value, false).is_some() {
                return wrong("contains a control character".to_owned());
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
    /// A display name.
    pub label: &'static str,
    /// Its `User-Agent` header.
    pub user_agent: &'static str,
    /// Its `Accept` header.
    pub accept: &'static str,
    /// Whether it is an iPad, which sends the headers of a Mac; the landing page detects it.
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
    /// Instagram's in-app browser on an iPhone.
    pub const INSTAGRAM: Self = Self::browser(
        "instagram",
        "Instagram on an iPhone",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 \
         Instagram 360.0.0.30.109 (iPhone16,1; iOS 18_0; en_US; en; scale=3.00; 1179x2556)",
    );
    /// Facebook's link-preview bot.
    pub const PREVIEW: Self = Self {
        accept: "*/*",
        ..Self::browser(
            "preview",
            "Preview bot",
            "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
        )
    };
    /// `ChatGPT`, fetching a page for a user.
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
    /// curl without options.
    pub const CURL: Self = Self { accept: "*/*", ..Self::browser("curl", "curl", "curl/8.5.0") };
    /// A client that requests JSON.
    pub const JSON: Self =
        Self { accept: "application/json", ..Self::browser("json", "Client that requests JSON", "curl/8.5.0") };

    /// All samples: first devices, then bots and other programs.
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

    /// The samples that are devices.
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
    /// The format of a response.
    AnswerForm {
        /// A redirect or a page.
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
        /// The landing page, whose main button opens `target`.
        Landing = "landing",
        /// A page that explains why the link does not open.
        Notice = "notice",
        /// The link's data.
        Json = "json",
        /// The link is not available on this host.
        NotFound = "not_found",
    }
}

/// The response to a visit, and why. Determined by the same code as a real visit; no click is counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// The link's ID.
    pub link_id: String,
    /// The URL of the visit, without `redirect=1`.
    pub url: String,
    /// What the visitor gets.
    pub outcome: ExplainedOutcome,
    /// The reason, in a sentence or two. Includes the operator's reason if the operator flagged or disabled the link and
    /// the key has access to the whole account.
    pub reason: String,
    /// Target of the redirect or of the landing page's main button; null for a notice, for JSON, or if the page has no
    /// main button.
    pub target: Option<String>,
    /// Fallback destination if no app opens; null if there is none, or if the operating system or the target URL
    /// handles it.
    pub fallback: Option<String>,
    /// Milliseconds after the tap until the page navigates to `fallback`; null if there is no fallback, or if it is
    /// part of the target.
    pub timer_ms: Option<u32>,
    /// Target of the main button if the visitor, who appears to use a Mac, is on an iPad; the landing page detects
    /// this. Otherwise null.
    pub ipad_target: Option<String>,
    /// The decision step that determined the outcome: 1 not found, 2 JSON, 3 not active, 4 known bot, 5 alternate
    /// domain, 6 `redirect=1`, 7 no apps, 8 landing page.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 8))]
    pub step: u8,
    /// The row of the decision table, `D1` to `D15`; null if the table does not apply: in steps 1 to 3, and on an
    /// alternate domain.
    #[cfg_attr(feature = "openapi", schema(pattern = "^D([1-9]|1[0-5])$"))]
    pub row: Option<String>,
    /// The link's status for visitors. All links of a suspended account are disabled, except those that are flagged.
    pub status: LinkStatus,
    /// Response format, selected by `Accept`.
    pub form: AnswerForm,
    /// The visitor's operating system.
    pub platform: Platform,
    /// Type of client.
    pub visitor: Class,
    /// Whether the client is an in-app browser.
    pub in_app: bool,
    /// HTTP status of the response.
    pub http_status: u16,
    /// Response headers, with lowercase names, without `content-security-policy`, which differs for every page.
    pub headers: BTreeMap<String, String>,
    /// The kind of click that a `GET` request is counted as; null if it is not counted.
    pub counted: Option<ClickKind>,
}

impl Explanation {
    /// The target for this visitor.
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
