//! Updates of a domain: where it redirects visitors without a valid link.

use ::url::Url;
use serde::{Deserialize, Serialize};

use super::DomainName;
use crate::error::{ErrorCode, Invalid};
use crate::patch::Patch;
use crate::url;
use crate::words::setters;

/// The request body of an update: absent fields keep their values, and `null` clears a field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct UpdateDomain {
    /// URL that visitors to `/` on the domain are redirected to, with 302: an http or https URL with a public host.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = Uri, max_length = 2048))]
    pub root_url: Patch<String>,
    /// URL that visitors to a nonexistent link are redirected to, with 302: an http or https URL with a public
    /// host.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = Uri, max_length = 2048))]
    pub not_found_url: Patch<String>,
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
    }

    /// Runs every rule that needs no server.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.clone().check().map(drop)
    }

    /// Applies the rules; the URLs are those to store.
    pub fn check(self) -> Result<DomainChange, Invalid> {
        if self == Self::default() {
            let message = "the update is empty: send at least one of root_url and not_found_url";
            return Err(Invalid::whole(ErrorCode::EmptyUpdate, message));
        }
        let checked = |field: &'static str, url: Patch<String>| {
            let invalid = |why| Invalid::field(ErrorCode::InvalidUrl, field, format!("{field}: {why}"));
            url.try_map(|url| url::web(&url).map_err(invalid))
        };
        Ok(DomainChange {
            root_url: checked("root_url", self.root_url)?,
            not_found_url: checked("not_found_url", self.not_found_url)?,
        })
    }
}

/// An update with its rules applied; at least one member changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainChange {
    /// Where people who open `/` are sent.
    pub root_url: Patch<String>,
    /// Where people who open a link that does not exist are sent.
    pub not_found_url: Patch<String>,
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
        for (json, code, field) in [
            ("{}", ErrorCode::EmptyUpdate, None),
            (r#"{"role":"alternate"}"#, ErrorCode::EmptyUpdate, None),
            (r#"{"root_url":""}"#, ErrorCode::InvalidUrl, Some("root_url")),
            (r#"{"root_url":"myapp://x"}"#, ErrorCode::InvalidUrl, Some("root_url")),
            (r#"{"root_url":"https://127.0.0.1/"}"#, ErrorCode::InvalidUrl, Some("root_url")),
            (r#"{"root_url":null,"not_found_url":"/help"}"#, ErrorCode::InvalidUrl, Some("not_found_url")),
            (r#"{"root_url":"https://go.example.com"}"#, ErrorCode::InvalidUrl, Some("root_url")),
            (r#"{"not_found_url":"http://GO.example.com.:8080/?x=1#y"}"#, ErrorCode::InvalidUrl, Some("not_found_url")),
        ] {
            let invalid = check(json).expect_err(json);
            assert_eq!((invalid.code, invalid.field.as_deref()), (code, field), "{json}");
        }
        let change = check(r#"{"root_url":"https://go.example.com/home","not_found_url":null}"#).expect("good");
        assert_eq!(change.root_url, Patch::Set("https://go.example.com/home".to_owned()));
        assert_eq!(change.not_found_url, Patch::Clear);
        let change = check(r#"{"not_found_url":"HTTPS://Example.com"}"#).expect("good");
        assert_eq!(
            change,
            DomainChange { root_url: Patch::Keep, not_found_url: Patch::Set("https://example.com/".into()) }
        );
    }
}
