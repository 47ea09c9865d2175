//! Updates of a domain: where it redirects visitors without a valid link, and whether it supports long links.

use std::collections::BTreeSet;

use ::url::Url;
use serde::{Deserialize, Deserializer, Serialize};

use super::DomainName;
use crate::error::{ErrorCode, Invalid};
use crate::object;
use crate::patch::Patch;
use crate::url;
use crate::words::setters;

/// Maximum hosts that the long links on a domain may lead to.
pub const MAX_ALLOWED_HOSTS: usize = 50;

/// The request body of an update: absent fields keep their values, and `null` clears a field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"root_url": "https://www.example.com/", "not_found_url": "https://www.example.com/404"}))))]
#[non_exhaustive]
pub struct UpdateDomain {
    /// URL that visitors to `/` on the domain are redirected to, with 302: an http or https URL with a public host, at
    /// most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = Uri, max_length = 2048))]
    pub root_url: Patch<String>,
    /// URL that visitors to a nonexistent link are redirected to, with 302: an http or https URL with a public host, at
    /// most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = Uri, max_length = 2048))]
    pub not_found_url: Patch<String>,
    /// Whether the domain supports the long links of Firebase Dynamic Links, such as
    /// `https://go.example.com/?link=https%3A%2F%2Fwww.example.com%2Fsale`. Cannot be null.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = bool, required = false))]
    pub long_links: Patch<bool>,
    /// The hosts that long links may lead to, replaced as a whole: at most 50 exact host names. To allow store pages,
    /// include `apps.apple.com` and `play.google.com`.
    #[serde(default, skip_serializing_if = "Patch::is_keep", deserialize_with = "hosts")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>, required = false, max_items = 50))]
    pub allowed_hosts: Patch<Vec<String>>,
}

/// Keeps only as many as are needed to detect that there are too many.
fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Patch<Vec<String>>, D::Error> {
    object::texts(deserializer, MAX_ALLOWED_HOSTS).map(Patch::from)
}

impl UpdateDomain {
    /// An update with no fields set.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        [Patch::Set]
        /// Sets the URL that visitors to `/` are redirected to.
        root_url: impl Into<String>,
        /// Sets the URL that visitors to a nonexistent link are redirected to.
        not_found_url: impl Into<String>,
        /// Sets whether the domain supports long links.
        long_links: bool,
    }

    /// Sets the hosts that long links may lead to.
    #[must_use]
    pub fn allowed_hosts<T: Into<String>>(mut self, hosts: impl IntoIterator<Item = T>) -> Self {
        self.allowed_hosts = Patch::Set(hosts.into_iter().map(Into::into).collect());
        self
    }

    /// Runs every rule that needs no server.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.clone().check().map(drop)
    }

    /// Applies the rules; the URLs are those to store.
    pub fn check(self) -> Result<DomainChange, Invalid> {
        if self == Self::default() {
            let message = "the update is empty: send at least one field to change";
            return Err(Invalid::whole(ErrorCode::EmptyUpdate, message));
        }
        let checked = |field: &'static str, url: Patch<String>| {
            let invalid = |why| Invalid::field(ErrorCode::InvalidUrl, field, format!("{field}: {why}"));
            url.try_map(|url| url::web(&url).map_err(invalid))
        };
        Ok(DomainChange {
            root_url: checked("root_url", self.root_url)?,
            not_found_url: checked("not_found_url", self.not_found_url)?,
            long_links: self.long_links.required("long_links")?,
            allowed_hosts: match self.allowed_hosts {
                Patch::Keep => None,
                Patch::Clear => Some(Vec::new()),
                Patch::Set(hosts) => Some(check_hosts(&hosts)?),
            },
        })
    }
}

/// Applies the rules of host names, and returns the different ones in alphabetical order.
fn check_hosts(hosts: &[String]) -> Result<Vec<String>, Invalid> {
    let wrong = |field: String, why: &str| {
        let message = format!("{field}: {why}");
        Invalid::field(ErrorCode::InvalidDomain, field, message)
    };
    if hosts.len() > MAX_ALLOWED_HOSTS {
        return Err(wrong("allowed_hosts".to_owned(), &format!("must contain at most {MAX_ALLOWED_HOSTS} hosts")));
    }
    let names = hosts.iter().enumerate().map(|(index, host)| {
        let name = host.trim().parse::<DomainName>();
        name.map_err(|invalid| wrong(format!("allowed_hosts[{index}]"), &invalid.message))
    });
    let names: BTreeSet<DomainName> = names.collect::<Result<_, _>>()?;
    Ok(names.into_iter().map(|name| name.as_str().to_owned()).collect())
}

/// A validated update; at least one field changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainChange {
    /// Where people who open `/` are sent.
    pub root_url: Patch<String>,
    /// Where people who open a link that does not exist are sent.
    pub not_found_url: Patch<String>,
    /// Whether it supports long links.
    pub long_links: Option<bool>,
    /// All hosts that long links may lead to: distinct and sorted.
    pub allowed_hosts: Option<Vec<String>>,
}

impl DomainChange {
    /// The URLs that it sets, each with the name of its field.
    pub fn urls(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let both = [("root_url", &self.root_url), ("not_found_url", &self.not_found_url)];
        both.into_iter().filter_map(|(field, url)| if let Patch::Set(url) = url { Some((field, &**url)) } else { None })
    }

    /// Refuses the domain's own `/`: it would lead back to itself. A link on the domain is allowed.
    pub fn check_on(&self, domain: &DomainName) -> Result<(), Invalid> {
        match self.urls().find(|(_, url)| leads_to(url, domain.as_str(), "/")) {
            Some((field, _)) => {
                let message = format!("{field}: must not be the home page of {domain} itself");
                Err(Invalid::field(ErrorCode::InvalidUrl, field, message))
            }
            None => Ok(()),
        }
    }
}

/// Whether a URL leads to this path on this domain, whatever its scheme, port and query.
pub fn leads_to(url: &str, domain: &str, path: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        let host = url.host_str().map(|host| host.trim_end_matches('.'));
        host == Some(domain) && url.path() == path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_has_web_urls_that_do_not_lead_back() {
        let name: DomainName = "go.example.com".parse().expect("a name");
        let check = |json: &str| {
            let change = serde_json::from_str::<UpdateDomain>(json).expect("a body").check()?;
            change.check_on(&name).map(|()| change)
        };
        let many = serde_json::json!({"allowed_hosts": vec!["a.example.com"; 51]}).to_string();
        for (json, code, field) in [
            ("{}", ErrorCode::EmptyUpdate, None),
            (r#"{"role":"alternate"}"#, ErrorCode::EmptyUpdate, None),
            (r#"{"root_url":""}"#, ErrorCode::InvalidUrl, Some("root_url")),
            (r#"{"root_url":"myapp://x"}"#, ErrorCode::InvalidUrl, Some("root_url")),
            (r#"{"root_url":"https://127.0.0.1/"}"#, ErrorCode::InvalidUrl, Some("root_url")),
            (r#"{"root_url":null,"not_found_url":"/help"}"#, ErrorCode::InvalidUrl, Some("not_found_url")),
            (r#"{"root_url":"https://go.example.com"}"#, ErrorCode::InvalidUrl, Some("root_url")),
            (r#"{"not_found_url":"http://GO.example.com.:8080/?x=1#y"}"#, ErrorCode::InvalidUrl, Some("not_found_url")),
            (r#"{"long_links":null}"#, ErrorCode::BadRequest, Some("long_links")),
            (r#"{"allowed_hosts":["a.example.com","*.io"]}"#, ErrorCode::InvalidDomain, Some("allowed_hosts[1]")),
            (r#"{"allowed_hosts":["https://a.io"]}"#, ErrorCode::InvalidDomain, Some("allowed_hosts[0]")),
            (r#"{"allowed_hosts":["127.0.0.1"]}"#, ErrorCode::InvalidDomain, Some("allowed_hosts[0]")),
            (&many, ErrorCode::InvalidDomain, Some("allowed_hosts")),
        ] {
            let invalid = check(json).expect_err(json);
            assert_eq!((invalid.code, invalid.field.as_deref()), (code, field), "{json}");
        }
        let change = check(r#"{"root_url":"https://go.example.com/home","not_found_url":null}"#).expect("good");
        assert_eq!(change.root_url, Patch::Set("https://go.example.com/home".to_owned()));
        assert_eq!(change.not_found_url, Patch::Clear);
        let change = check(r#"{"not_found_url":"HTTPS://Example.com"}"#).expect("good");
        assert_eq!(
            (change.root_url, change.not_found_url),
            (Patch::Keep, Patch::Set("https://example.com/".to_owned()))
        );
        assert_eq!((change.long_links, change.allowed_hosts), (None, None));
        let change =
            check(r#"{"long_links":true,"allowed_hosts":["b.example.com"," A.example.com. ","b.example.com"]}"#);
        let change = change.expect("good");
        assert_eq!(change.long_links, Some(true));
        assert_eq!(change.allowed_hosts.as_deref(), Some(&["a.example.com".to_owned(), "b.example.com".into()][..]));
        assert_eq!(check(r#"{"allowed_hosts":null}"#).expect("good").allowed_hosts, Some(Vec::new()));
    }
}
