//! Public operations: the service's state and description, what a link leads to, and which apps open a host's links.

use deeplink_core::association::{AppleAssociation, AssetStatement};
use deeplink_core::health::Health;
use deeplink_core::link::ResolvedLink;
use deeplink_core::routes;
use http::{Method, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use crate::call::{self, Call, Draft, Target, insert_header};
use crate::connection::Connection;
use crate::decode;
use crate::error::{Error, Result};
use crate::path;
use crate::send::Reply;

/// The operations that need no credential; see [`crate::Client::public`]. They send none, even if the client has one.
#[derive(Debug, Clone)]
pub struct Public(pub(crate) Connection);

/// The result of resolving a link.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// The link as JSON, as API clients see it.
    Json(Box<ResolvedLink>),
    /// A redirect to the destination of the visitor.
    Redirect {
        /// The status, 302.
        status: StatusCode,
        /// The destination URL.
        location: String,
    },
    /// The page a visitor sees.
    Page {
        /// The status: 200, or 410 for a link that is not active.
        status: StatusCode,
        /// The page's HTML; empty for a `HEAD`.
        body: String,
    },
}

impl Public {
    /// Whether the process responds.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// assert_eq!(dl.public().health().await?.status, "ok");
    /// # Ok(()) });
    /// ```
    pub fn health(&self) -> Call<Health> {
        call::json(&self.0, &routes::HEALTH, &[])
    }

    /// Whether the database also responds.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// assert_eq!(dl.public().ready().await?.status, "ready");
    /// # Ok(()) });
    /// ```
    pub fn ready(&self) -> Call<Health> {
        call::json(&self.0, &routes::READY, &[])
    }

    /// The OpenAPI document.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// assert_eq!(dl.public().openapi().await?["openapi"], "3.1.0");
    /// # Ok(()) });
    /// ```
    pub fn openapi(&self) -> Call<Value> {
        call::json(&self.0, &routes::OPENAPI, &[])
    }

    /// The description of the API for language models.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// assert!(dl.public().llms().await?.starts_with("# deeplink"));
    /// # Ok(()) });
    /// ```
    pub fn llms(&self) -> Call<String> {
        Call::new(&self.0, call::draft(&routes::LLMS, &[]), decode::text)
    }

    /// Resolves a link by its ID or its full URL. Requests JSON, so the result is [`Resolution::Json`];
    /// [`Call::as_visitor`] sends the request of a browser. A `GET` of an active link counts as a click, a `HEAD` does not.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::Resolution;
    /// let Resolution::Json(link) = dl.public().resolve("spring-42").await? else { panic!("not JSON") };
    /// assert_eq!(link.web_url.as_deref(), Some("https://example.com/"));
    /// let visit = dl.public().resolve("spring-42").as_visitor("Mozilla/5.0").head().await?;
    /// assert!(matches!(visit, Resolution::Redirect { .. }));
    /// # Ok(()) });
    /// ```
    pub fn resolve(&self, link: impl AsRef<str>) -> Call<Resolution> {
        let link = link.as_ref();
        let draft = if link.contains("://") { at_url(link) } else { call::draft(&routes::RESOLVE, &[link]) };
        Call::new(&self.0, draft, resolution).header("accept", "application/json")
    }

    /// The iOS apps that open the links of a host: the one in the base URL, or the one set with [`Call::on_host`].
    /// `None` if the host has no iOS app, and for the service's own host.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let file = dl.public().apple_association().on_host("go.example.com").await?;
    /// let apps = file.map(|file| file.webcredentials.apps).unwrap_or_default();
    /// assert_eq!(apps, ["ABCDE12345.com.example.app"]);
    /// # Ok(()) });
    /// ```
    pub fn apple_association(&self) -> Call<Option<AppleAssociation>> {
        Call::new(&self.0, call::draft(&routes::APPLE_ASSOCIATION, &[]), file)
    }

    /// The Android apps that open the links of a host: the one in the base URL, or the one set with [`Call::on_host`].
    /// `None` if the host has no Android app, and for the service's own host.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let file = dl.public().asset_links().on_host("go.example.com").await?.unwrap_or_default();
    /// assert_eq!(file[0].target.package_name, "com.example.app");
    /// # Ok(()) });
    /// ```
    pub fn asset_links(&self) -> Call<Option<Vec<AssetStatement>>> {
        Call::new(&self.0, call::draft(&routes::ASSET_LINKS, &[]), file)
    }
}

impl<T: DeserializeOwned> Call<Option<T>> {
    /// Requests the file of this host from the client's own base URL: the same path with `Host`.
    pub fn on_host(self, host: &str) -> Self {
        self.edit(|draft| insert_header(&mut draft.headers, header::HOST.as_str(), host))
    }
}

/// A file that a host may not have.
fn file<T: DeserializeOwned>(reply: &Reply) -> Result<Option<T>> {
    if reply.status == StatusCode::NOT_FOUND { Ok(None) } else { decode::json(reply).map(Some) }
}

impl Call<Resolution> {
    /// Sends the request as the browser with this `User-Agent`.
    pub fn as_visitor(self, user_agent: &str) -> Self {
        self.header("accept", "text/html").header("user-agent", user_agent)
    }

    /// Sends a `HEAD` request: the same status and headers, no body, and no click is counted.
    pub fn head(self) -> Self {
        self.edit(|draft| {
            draft.method = Method::HEAD;
            Ok(())
        })
    }

    /// Requests the link on this host from the client's own base URL: `GET /{link_id}` with `Host`.
    pub fn on_host(self, host: &str) -> Self {
        self.edit(|draft| {
            let Target::Path(path) = &mut draft.target else {
                return Err(Error::validation("host", "the link's URL already contains its host"));
            };
            if let Some(id) = path.strip_prefix("/r") {
                *path = id.to_owned();
            }
            insert_header(&mut draft.headers, header::HOST.as_str(), host)
        })
    }
}

/// A request to a link's own address.
fn at_url(link: &str) -> Result<Draft> {
    let wrong = |why: &'static str| Error::validation("link", why);
    let mut url = Url::parse(link).map_err(|_| wrong("not the URL of a link"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("the URL of a link must start with http:// or https:// and must not contain a user name"));
    }
    url.set_fragment(None);
    let mut draft = call::draft(&routes::RESOLVE, &["id"])?;
    draft.target = Target::Url(url);
    path::uri(&Url::parse("http://localhost").map_err(|_| wrong("unusable"))?, &draft.target)?;
    Ok(draft)
}

fn resolution(reply: &Reply) -> Result<Resolution> {
    let status = reply.status;
    let header = |name| reply.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if status.is_redirection() {
        let location = header(header::LOCATION).to_owned();
        return if location.is_empty() { Err(reply.refusal()) } else { Ok(Resolution::Redirect { status, location }) };
    }
    if !status.is_success() && status != StatusCode::GONE {
        return Err(reply.refusal());
    }
    if status.is_success() && header(header::CONTENT_TYPE).starts_with("application/json") && !reply.body.is_empty() {
        return decode::parse(reply).map(|link| Resolution::Json(Box::new(link)));
    }
    Ok(Resolution::Page { status, body: String::from_utf8_lossy(&reply.body).into_owned() })
}
