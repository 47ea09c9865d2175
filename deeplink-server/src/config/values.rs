//! Parsers of settings; each error completes a sentence that begins with the names of the setting.

use std::net::SocketAddr;
use std::path::Path;

use http::HeaderName;
use ipnet::IpNet;
use url::{Host, Url};

use super::settings::optional;
use super::{BadSetting, MasterKey, Networks, Settings, is_key_id, is_loopback};
use crate::country::{CountrySource, GeoFile};

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not an address of the form IP:PORT, such as 127.0.0.1:8080"))
}

pub(super) fn name_server(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not a DNS server of the form IP:PORT, such as 192.0.2.53:53"))
}

pub(super) fn host_name(text: &str) -> Result<String, String> {
    match Host::parse(text) {
        Ok(Host::Domain(host)) if !host.ends_with('.') => Ok(host),
        _ => Err(format!("{text:?} is not a host name such as links.example.com")),
    }
}

pub(super) fn number(text: &str, min: u32, max: u32) -> Result<u32, String> {
    let value = text.parse().ok().filter(|value| (min..=max).contains(value));
    value.ok_or_else(|| format!("{text:?} is not a number from {min} to {max}"))
}

pub(super) fn either(text: &str, yes: &str, no: &str) -> Result<bool, String> {
    match text {
        text if text == yes => Ok(true),
        text if text == no => Ok(false),
        _ => Err(format!("{text:?} is not valid; expected {yes} or {no}")),
    }
}

pub(super) fn public_url(text: &str) -> Result<Url, String> {
    let wrong = |why: &str| Err(format!("{text:?} {why}"));
    match Url::parse(text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") || !url.has_host() => {
            wrong("is not of the form https://HOST")
        }
        // The message must not repeat a password.
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("must not contain a user name or password".into())
        }
        Ok(url) if url.path() != "/" || url.query().is_some() || url.fragment().is_some() => {
            wrong("must not have a path, query or fragment")
        }
        Ok(url) => Ok(url),
        Err(_) => wrong("is not a URL such as https://links.example.com"),
    }
}

/// Where the home page redirects: any page but that one.
pub(super) fn home_url(text: &str, own: &Url) -> Result<Url, String> {
    match Url::parse(text) {
        // The message must not repeat a password.
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("must not contain a user name or password".into())
        }
        Ok(url) if own.origin() == url.origin() && url.path() == "/" => {
            Err(format!("{text:?} is the home page itself"))
        }
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err(format!("{text:?} is not a URL such as https://www.example.com/links")),
    }
}

/// Refused with a public URL, because every account could reach these networks.
pub(super) fn outbound_allow(text: &str, public_url: Option<&Url>) -> Result<Networks, String> {
    let networks = text.parse::<Networks>()?;
    match public_url.filter(|url| url.scheme() == "https" && !is_loopback(url)) {
        Some(url) if !networks.is_empty() => Err(format!(
            "is for development only: with the public URL {url}, any account could reach {networks} through this service; \
             unset it"
        )),
        _ => Ok(networks),
    }
}

pub(super) fn master_keys(text: &str) -> Result<Vec<MasterKey>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let keys: Vec<_> =
        parts.map(|part| part.parse::<MasterKey>().map_err(|error| error.to_string())).collect::<Result<_, _>>()?;
    // Without this an empty list would count as unset, and the node would create its own key.
    if keys.is_empty() { Err("contains no key; create one with: openssl rand -base64 32".into()) } else { Ok(keys) }
}

/// Ids of master keys, as the start and `check` show them.
pub(super) fn key_ids(text: &str) -> Result<Vec<String>, String> {
    let ids = text.split(',').map(|part| match part.trim() {
        id if is_key_id(id) => Ok(id.to_owned()),
        other => Err(format!("{other:?} is not a master key ID, 8 hex digits such as 1a2b3c4d")),
    });
    ids.collect()
}

pub(super) fn log_filter(text: &str) -> Result<String, String> {
    match tracing_subscriber::EnvFilter::builder().parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{text:?} is not a log level or filter: {error}")),
    }
}

/// Headers of requests that mean something else (RFC 9110 and its like), also as the start of a name; a name that
/// says country is believed.
fn is_general(header: &HeaderName) -> bool {
    const NAMES: [&str; 22] = [
        "authorization",
        "cache-control",
        "connection",
        "cookie",
        "date",
        "dnt",
        "expect",
        "forwarded",
        "from",
        "host",
        "keep-alive",
        "origin",
        "pragma",
        "range",
        "referer",
        "te",
        "trailer",
        "upgrade",
        "user-agent",
        "via",
        "x-real-ip",
        "x-request-id",
    ];
    const STARTS: [&str; 7] = ["accept", "content-", "if-", "proxy-", "sec-", "transfer-", "x-forwarded-"];
    let name = header.as_str();
    let is_listed = NAMES.contains(&name) || STARTS.iter().any(|start| name.starts_with(start));
    is_listed && !name.contains("country")
}

/// Where the country of visitors comes from.
pub(super) fn country_source(settings: &Settings, proxies: &[IpNet]) -> Result<Option<CountrySource>, BadSetting> {
    const HEADER: &str = "DEEPLINK_COUNTRY_HEADER";
    const FILE: &str = "DEEPLINK_GEO_DB";
    let header = optional(HEADER, settings.country_header.as_deref(), |name| {
        let header = name.parse::<HeaderName>().map_err(|_| format!("{name:?} is not the name of a header"))?;
        if is_general(&header) {
            return Err(format!(
                "{name:?} never contains a country; name the header that your proxy adds, such as CF-IPCountry"
            ));
        }
        Ok(header)
    })?;
    let file = optional(FILE, settings.geo_db.as_deref(), |path| GeoFile::read(Path::new(path)))?;
    match (header, file) {
        (Some(_), Some(_)) => {
            let problem = format!("cannot be set together with {HEADER}: set one of them");
            Err(BadSetting { variable: FILE.to_owned(), problem })
        }
        (Some(_), None) if proxies.is_empty() => Err(BadSetting {
            variable: HEADER.to_owned(),
            problem: "also needs DEEPLINK_TRUSTED_PROXIES: the header is accepted only from trusted proxies".to_owned(),
        }),
        (Some(header), None) => Ok(Some(CountrySource::Header(header))),
        (None, file) => Ok(file.map(CountrySource::File)),
    }
}
