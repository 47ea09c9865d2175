//! CSRF protection: only this service's own pages may send requests with a session cookie.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};
use url::Url;

use crate::state::App;

/// Whether the request is cross-site: `Sec-Fetch-Site` (Fetch Metadata) is neither `same-origin` nor `none`, or `Origin`
/// (RFC 6454) is not this service's. Current browsers send at least one of them.
pub(crate) fn is_cross_site(app: &App, headers: &HeaderMap) -> bool {
    let sites = headers.get_all("sec-fetch-site").iter().any(|site| site != "same-origin" && site != "none");
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    sites || headers.get_all(ORIGIN).iter().any(|origin| !origin.to_str().is_ok_and(|origin| is_own(app, origin, host)))
}

/// Whether an origin is the public URL's or, on a loopback server, matches the `Host` header.
fn is_own(app: &App, origin: &str, host: Option<&str>) -> bool {
    if origin == app.public_url.origin().ascii_serialization() {
        return true;
    }
    let Some((authority, url)) = origin.split_once("://").map(|(_, authority)| authority).zip(Url::parse(origin).ok())
    else {
        return false;
    };
    app.is_loopback && Some(authority) == host && url.host_str().is_some_and(|host| app.is_service_host(host))
}
