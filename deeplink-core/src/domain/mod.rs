//! Custom domains: which names can be claimed, how a claim is proved, and what is shown of it.

mod update;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};
use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, Invalid};
use crate::time::Timestamp;
use crate::url::is_localhost;
use crate::words::{setters, words};

pub use update::{DomainChange, MAX_ALLOWED_HOSTS, UpdateDomain, leads_to};

/// Maximum domains of an account, on any plan, including unverified ones.
pub const MAX_DOMAINS: i64 = 1_000;
/// Label of the TXT record that proves a claim: `_deeplink-verify.{domain}`.
pub const TXT_LABEL: &str = "_deeplink-verify";

/// Top-level names that no public DNS serves (IANA, Special-Use Domain Names). `localhost` is for services on this
/// machine: see [`DomainName::is_local`].
const SPECIAL_USE: &[&str] = &["alt", "arpa", "example", "internal", "invalid", "local", "onion", "test"];

words! {
    /// The role of a domain.
    DomainRole {
        /// Used in links.
        Primary = "primary",
        /// Used by landing-page buttons, so that iOS opens the app.
        Alternate = "alternate",
    }
}

/// A host name that can be claimed: lowercase A-label form (IDNA, UTS 46), at most 253 characters, with a dot, and in
/// public DNS or under `.localhost`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainName(Box<str>);

impl DomainName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Name of the TXT record that verifies the domain.
    pub fn txt_record(&self) -> String {
        format!("{TXT_LABEL}.{}", self.0)
    }

    /// Whether the name is under `.localhost` and so always resolves to the machine itself (RFC 6761, section 6.3). Only a service
    /// whose public URL is a loopback address takes it.
    pub fn is_local(&self) -> bool {
        is_localhost(&self.0)
    }

    /// The refusal of a name under this top-level name.
    fn not_public(top: &str) -> Invalid {
        Invalid::field(ErrorCode::InvalidDomain, "domain", format!("names under .{top} are not in public DNS"))
    }

    /// Refuses a name that is not in public DNS, for a service that is not on this machine only.
    pub fn check_public(&self) -> Result<(), Invalid> {
        if self.is_local() { Err(Self::not_public("localhost")) } else { Ok(()) }
    }

    /// Whether this is the host, or a name below it.
    pub fn is_within(&self, host: &str) -> bool {
        self.0.strip_suffix(host).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for DomainName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for DomainName {
    type Err = Invalid;

    /// A final dot is removed: it only marks the name as complete.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = |message: &str| Err(Invalid::field(ErrorCode::InvalidDomain, "domain", message.to_owned()));
        if text.contains("://") || text.contains(['/', '@', '?', '#', '\\']) {
            return wrong("enter only the domain name, such as go.example.com, without a scheme or path");
        }
        if text.contains(':') || text.contains(['[', ']']) {
            return wrong(
                "enter only the domain name, such as go.example.com, without a port; an IP address is not a domain",
            );
        }
        if text.contains('*') {
            return wrong("enter a single domain name, such as go.example.com; wildcards cannot be verified");
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let Ok(ascii) = to_ascii(name) else {
            // Hyphens in these places are the one case that looks allowed and is not.
            let is_reserved =
                |label: &&str| label.get(2..4) == Some("--") && label.len() <= 63 && to_ascii(label).is_err();
            if let Some(label) = name.split('.').find(is_reserved) {
                return wrong(&format!(
                    "\"{label}\": hyphens in the third and fourth positions are reserved for internationalized names"
                ));
            }
            return wrong(
                "not a host name: use letters, digits and hyphens, at most 63 characters per label and 253 in total",
            );
        };
        let Some((_, top)) = ascii.rsplit_once('.') else {
            return wrong("a domain must contain a dot, such as go.example.com");
        };
        if top.bytes().all(|b| b.is_ascii_digit()) || url::Host::parse(&ascii).is_ok_and(|host| !is_name(&host)) {
            return wrong("an IP address is not a domain");
        }
        if SPECIAL_USE.contains(&top) {
            return Err(Self::not_public(top));
        }
        Ok(Self(ascii.into()))
    }
}

fn to_ascii(name: &str) -> Result<Cow<'_, str>, idna::Errors> {
    Uts46::new().to_ascii(name.as_bytes(), AsciiDenyList::STD3, Hyphens::Check, DnsLength::Verify)
}

fn is_name(host: &url::Host<String>) -> bool {
    matches!(host, url::Host::Domain(_))
}

/// The request body to add a domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"domain": "go.example.com"}))))]
#[non_exhaustive]
pub struct CreateDomain {
    /// The host name, such as `go.example.com`; stored in lowercase A-label form.
    #[cfg_attr(feature = "openapi", schema(max_length = 253))]
    pub domain: String,
    /// `primary` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<DomainRole>,
}

impl CreateDomain {
    /// A primary domain with this name.
    pub fn new(domain: impl Into<String>) -> Self {
        Self { domain: domain.into(), role: None }
    }

    setters! {
        /// Sets the role.
        role: DomainRole,
    }

    /// Runs every rule that needs no server.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.clone().check().map(drop)
    }

    /// Applies the rules and gives name and role.
    pub fn check(self) -> Result<(DomainName, DomainRole), Invalid> {
        let name = self.domain.parse()?;
        match self.role.unwrap_or(DomainRole::Primary) {
            DomainRole::Unknown(_) => {
                Err(Invalid::field(ErrorCode::InvalidRole, "role", "role must be primary or alternate"))
            }
            role => Ok((name, role)),
        }
    }
}

/// The response to adding a domain: the DNS records to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedDomain {
    /// The domain name, in lowercase A-label form.
    pub domain: String,
    /// The domain's role.
    pub role: DomainRole,
    /// Whether the domain is verified: false for a new domain, true for a name under `.localhost`, which needs no
    /// verification.
    pub verified: bool,
    /// Value of the TXT record: 64 hex digits.
    pub verification_token: String,
    /// Name of the TXT record that verifies the domain.
    pub txt_record: String,
    /// Target of the CNAME record that directs visitors to this service.
    pub cname_target: String,
}

/// A domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DomainDetail {
    /// The domain name, in lowercase A-label form.
    pub domain: String,
    /// The domain's role.
    pub role: DomainRole,
    /// Whether the domain is verified.
    pub verified: bool,
    /// When the domain was added.
    pub created_at: Timestamp,
    /// Value of the TXT record: 64 hex digits.
    pub verification_token: Option<String>,
    /// Name of the TXT record that verifies the domain.
    pub txt_record: Option<String>,
    /// Target of the CNAME record that directs visitors to this service.
    pub cname_target: Option<String>,
    /// URL that visitors to `/` on the domain are redirected to; if null, they see a page.
    pub root_url: Option<String>,
    /// URL that visitors to a nonexistent link on the domain are redirected to; if null, they see a page.
    pub not_found_url: Option<String>,
    /// Whether the domain supports the long links of Firebase Dynamic Links.
    #[serde(default)]
    pub long_links: bool,
    /// The hosts that long links may lead to, in alphabetical order.
    #[serde(default)]
    pub allowed_hosts: Vec<String>,
}

/// How DNS routes visits to the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnsRoute<'a> {
    /// By a record of this kind with this value: a CNAME record holds a name, never an address.
    By(&'static str, &'a str),
    /// Not at all: the service's only known address leads back to the visitor's own machine.
    Nowhere,
}

impl<'a> DnsRoute<'a> {
    /// The route to a service's `cname_target`.
    pub fn to(target: &'a str) -> Self {
        let bare = target.trim_matches(['[', ']']);
        match bare.parse::<IpAddr>() {
            Ok(address) if address.is_loopback() || address.is_unspecified() => Self::Nowhere,
            Ok(IpAddr::V4(_)) => Self::By("A", bare),
            Ok(IpAddr::V6(_)) => Self::By("AAAA", bare),
            Err(_) if is_localhost(bare) => Self::Nowhere,
            Err(_) => Self::By("CNAME", bare),
        }
    }
}

/// The result of the DNS check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DomainVerification {
    /// The domain name.
    pub domain: String,
    /// Whether the domain is now verified.
    pub verified: bool,
    /// When DNS was queried.
    pub checked_at: Timestamp,
    /// Up to 20 values of the TXT record, each truncated to 255 characters; none if an alias points outside the
    /// domain.
    pub txt_found: Vec<String>,
    /// Why the domain is not verified; null if it is.
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D3: which names can be claimed. A look-alike in another script keeps its own A-label and is another name.
    #[test]
    fn d3_names() {
        for (text, stored) in [
            ("go.example.com", "go.example.com"),
            ("GO.Example.COM", "go.example.com"),
            ("go.example.com.", "go.example.com"),
            ("b\u{fc}cher.example.com", "xn--bcher-kva.example.com"),
            ("xn--bcher-kva.example.com", "xn--bcher-kva.example.com"),
            ("go\u{3002}example\u{ff0e}com", "go.example.com"),
            ("\u{ff47}\u{ff4f}.example.com", "go.example.com"),
            ("ex\u{0430}mple.com", "xn--exmple-4nf.com"),
            ("a-b.example.com", "a-b.example.com"),
            ("1.example.com", "1.example.com"),
            ("127.0.0.1.example.com", "127.0.0.1.example.com"),
            ("Shop.LOCALHOST.", "shop.localhost"),
            ("a.shop.localhost", "a.shop.localhost"),
        ] {
            assert_eq!(text.parse::<DomainName>().map(|name| name.to_string()).as_deref(), Ok(stored), "{text}");
        }
        let long_label = format!("{}.example.com", "a".repeat(64));
        let long_name = format!("{}example.com", "abcdefg.".repeat(31));
        for text in [
            "",
            ".",
            "example",
            "com.",
            " go.example.com",
            "go.example.com ",
            "go .example.com",
            "https://go.example.com",
            "go.example.com/x",
            "go.example.com:443",
            "user@go.example.com",
            "go.example.com?x",
            "go.example.com#x",
            "go\\example.com",
            "*.example.com",
            "_dmarc.example.com",
            "go_1.example.com",
            "-go.example.com",
            "go-.example.com",
            "ab--cd.example.com",
            ".example.com",
            "go..example.com",
            "go.example.com..",
            "127.0.0.1",
            "0x7f.1",
            "1.2.3.4.",
            "[::1]",
            "::1",
            "2130706433",
            "go.example.123",
            "go.example.local",
            "go.internal",
            "go.example.test",
            "go.invalid",
            "go.onion",
            "localhost",
            "localhost.",
            ".localhost",
            "go.example",
            "1.0.0.127.in-addr.arpa",
            "xn--a.example.com",
            "go\0.example.com",
            "go\t.example.com",
            "go\n.example.com",
            "go%2eexample.com",
            &long_label,
            &long_name,
        ] {
            let invalid = text.parse::<DomainName>().expect_err(text);
            assert_eq!((invalid.code, invalid.field.as_deref()), (ErrorCode::InvalidDomain, Some("domain")), "{text}");
        }
    }

    #[test]
    fn a_reserved_hyphen_is_named_in_the_refusal() {
        for (text, label) in [("ab--cd.io", "ab--cd"), ("go.xn--a.io", "xn--a"), ("xn--bcher-kva.ab--cd.io", "ab--cd")]
        {
            let message = text.parse::<DomainName>().expect_err(text).message;
            assert!(
                message.starts_with(&format!("\"{label}\": hyphens in the third and fourth positions")),
                "{message}"
            );
        }
        let message = "xn--bcher-kva.go_1.io".parse::<DomainName>().expect_err("an underscore").message;
        assert!(message.starts_with("not a host name"), "{message}");
    }

    #[test]
    fn a_name_is_within_itself_and_its_parents() {
        let name: DomainName = "a.links.example.com".parse().expect("a name");
        assert!(name.is_within("a.links.example.com") && name.is_within("links.example.com"));
        assert!(!name.is_within("inks.example.com") && !name.is_within("b.a.links.example.com"));
    }

    #[test]
    fn names_under_localhost_are_local() {
        for (text, is_local) in [
            ("shop.localhost", true),
            ("a.b.localhost", true),
            ("localhost.example.com", false),
            ("go.mylocalhost", false),
        ] {
            let name: DomainName = text.parse().expect(text);
            assert_eq!((name.is_local(), name.check_public().is_err()), (is_local, is_local), "{text}");
        }
    }

    #[test]
    fn an_address_is_no_target_of_a_cname() {
        for (target, route) in [
            ("links.example.com", DnsRoute::By("CNAME", "links.example.com")),
            ("192.0.2.7", DnsRoute::By("A", "192.0.2.7")),
            ("[2001:db8::7]", DnsRoute::By("AAAA", "2001:db8::7")),
            ("127.0.0.1", DnsRoute::Nowhere),
            ("[::1]", DnsRoute::Nowhere),
            ("0.0.0.0", DnsRoute::Nowhere),
            ("localhost", DnsRoute::Nowhere),
            ("links.localhost", DnsRoute::Nowhere),
        ] {
            assert_eq!(DnsRoute::to(target), route, "{target}");
        }
    }

    #[test]
    fn a_role_is_one_of_two() {
        let of = |json: &str| serde_json::from_str::<CreateDomain>(json).expect("a body").check();
        assert_eq!(of(r#"{"domain":"go.example.com","role":null}"#).expect("good").1, DomainRole::Primary);
        assert_eq!(of(r#"{"domain":"go.example.com","role":"alternate"}"#).expect("good").1, DomainRole::Alternate);
        for role in ["Primary", "", "owner"] {
            let invalid = of(&format!(r#"{{"domain":"go.example.com","role":"{role}"}}"#)).expect_err(role);
            assert_eq!((invalid.code, invalid.field.as_deref()), (ErrorCode::InvalidRole, Some("role")));
        }
    }
}
