//! A caller of the service: with the typed client, or with raw requests.

use deeplink_client::{Client, Links, Public, Retry, Sessions, Webhooks};
use deeplink_core::id::{AffiliateId, TenantId};
use deeplink_core::secret::SecretKey;
use http::Method;
use serde_json::{Value, json};

use super::ask::{Ask, Reply, Watched};

/// Where a caller's requests go.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) watched: Watched,
    pub(crate) base: String,
}

/// A caller of the service.
#[derive(Clone)]
pub struct Caller {
    /// The typed client, with this caller's key.
    pub client: Client,
    /// The tenant that the key belongs to.
    pub tenant: TenantId,
    /// Set for an affiliate's credential.
    pub affiliate: Option<AffiliateId>,
    pub(crate) key: Option<SecretKey>,
    pub(crate) node: Node,
}

impl Caller {
    pub(crate) fn new(node: &Node, key: Option<SecretKey>, tenant: &TenantId, affiliate: Option<AffiliateId>) -> Self {
        let mut client = Client::builder(&node.base).transport(node.watched.clone()).retry(Retry::none());
        if let Some(key) = &key {
            client = client.secret_key(key.clone());
        }
        let client = client.build().expect("a client");
        Self { client, tenant: tenant.clone(), affiliate, key, node: node.clone() }
    }

    /// Links, by the typed client.
    pub fn links(&self) -> Links {
        self.client.links()
    }

    /// Webhooks, by the typed client.
    pub fn webhooks(&self) -> Webhooks {
        self.client.webhooks()
    }

    /// The public operations, by the typed client.
    pub fn public(&self) -> Public {
        self.client.public()
    }

    /// Accounts, by the typed client.
    pub fn sessions(&self) -> Sessions {
        self.client.sessions()
    }

    /// The key, if the caller has one.
    pub fn key(&self) -> Option<&str> {
        self.key.as_ref().map(SecretKey::expose)
    }

    /// The affiliate that a scoped credential belongs to.
    pub fn affiliate_id(&self) -> &str {
        self.affiliate.as_ref().expect("an affiliate's credential").as_str()
    }

    /// Where the service is, without a slash at the end.
    pub fn base(&self) -> &str {
        &self.node.base
    }

    /// A raw request with this caller's credential.
    pub fn ask(&self, method: Method, path: &str) -> Ask {
        let ask = self.ask_without_key(method, path);
        match self.key() {
            Some(key) => ask.bearer(key),
            None => ask,
        }
    }

    /// The same without the credential.
    pub fn ask_without_key(&self, method: Method, path: &str) -> Ask {
        Ask::new(&self.node.watched, method, &format!("{}{path}", self.node.base))
    }

    /// A GET.
    pub async fn get(&self, path: &str) -> Reply {
        self.ask(Method::GET, path).send().await
    }

    /// A POST of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask(Method::POST, path).json(body).send().await
    }

    /// A POST without a body.
    pub async fn post_nothing(&self, path: &str) -> Reply {
        self.ask(Method::POST, path).send().await
    }

    /// A PUT of JSON.
    pub async fn put(&self, path: &str, body: &Value) -> Reply {
        self.ask(Method::PUT, path).json(body).send().await
    }

    /// A PATCH of JSON.
    pub async fn patch(&self, path: &str, body: &Value) -> Reply {
        self.ask(Method::PATCH, path).json(body).send().await
    }

    /// A DELETE.
    pub async fn delete(&self, path: &str) -> Reply {
        self.ask(Method::DELETE, path).send().await
    }

    /// Makes a link that leads to a web page, under this id.
    pub async fn make(&self, custom_id: &str) -> String {
        let body = json!({"custom_id": custom_id, "web_url": format!("https://example.com/{custom_id}")});
        self.make_of(&body).await
    }

    /// Makes a link from this body and returns its id.
    pub async fn make_of(&self, body: &Value) -> String {
        let reply = self.post("/v1/links", body).await;
        assert_eq!(reply.status, 201, "{body} {}", reply.text());
        reply.member("link_id")
    }

    /// Follows a link as a program that asks for JSON.
    pub async fn resolve(&self, link_id: &str) -> Reply {
        self.ask(Method::GET, &format!("/r/{link_id}")).header("accept", "application/json").send().await
    }

    /// Follows a link as a person's browser.
    pub async fn tap(&self, link_id: &str) -> Reply {
        self.browse(Method::GET, &format!("/r/{link_id}")).send().await
    }

    /// How many clicks the service counts for a link.
    pub async fn clicks_of(&self, link_id: &str) -> i64 {
        let series = self.get(&format!("/v1/links/{link_id}/timeseries")).await.json();
        series["data"]
            .as_array()
            .expect("buckets")
            .iter()
            .map(|bucket| bucket["clicks"].as_i64().expect("a count"))
            .sum()
    }

    /// A request as a desktop browser makes it.
    pub fn browse(&self, method: Method, path: &str) -> Ask {
        self.ask_without_key(method, path)
            .header("accept", "text/html,application/xhtml+xml,*/*;q=0.8")
            .header("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0")
    }
}
