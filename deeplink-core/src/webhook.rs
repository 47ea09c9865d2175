//! Webhooks: URLs that events are posted to.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ::url::Host;
use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, Invalid};
use crate::event::EventKind;
use crate::id::{AffiliateId, WebhookId};
use crate::patch::Patch;
use crate::signature::WebhookSecret;
use crate::time::Timestamp;
use crate::url;
use crate::words::{paged, reply, setters, words};

pub use crate::delivery::{
    ATTEMPT_TIMEOUT_MILLIS, Attempt, DEFAULT_RETRY_SECS, DELIVERY_RETENTION_DAYS, DeliveryDetail, DeliveryList,
    DeliveryStatus, MAX_PENDING, MAX_REPLAYED, MAX_RESPONSE_BYTES, MAX_RETRY_SECS, RETRY_DELAYS_SECS, ReplayDeliveries,
    ReplayedDeliveries, next_attempt,
};

/// Maximum number of webhooks per account, unless the service has another limit.
pub const MAX_WEBHOOKS: i64 = 2;
/// How long the previous secret still signs after a rotation, in milliseconds.
pub const OVERLAP_MILLIS: i64 = 24 * 3_600_000;
/// How long a webhook may fail before it is paused, in days.
pub const PAUSE_AFTER_DAYS: i64 = 3;

/// Filters on the events of the subscribed kinds; by default, all events are sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct WebhookFilters {
    /// Sends only conversions whose last touch was a link of this affiliate; other kinds are not filtered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<AffiliateId>))]
    pub affiliate_id: Option<String>,
    /// Filters that this build does not know. The service refuses them.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub unknown: BTreeMap<String, serde_json::Value>,
}

impl WebhookFilters {
    /// No filters.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sends only conversions from an affiliate's links.
        affiliate_id: impl Into<String>,
    }

    /// Whether there are no filters.
    pub fn is_empty(&self) -> bool {
        self.affiliate_id.is_none() && self.unknown.is_empty()
    }

    /// The affiliate that conversions are narrowed to, if its id is well-formed.
    fn check(&self) -> Result<Option<AffiliateId>, Invalid> {
        if let Some(name) = self.unknown.keys().next() {
            let message = format!(
                "unknown filter {:?}; the only filter is affiliate_id",
                name.chars().take(64).collect::<String>()
            );
            return Err(Invalid::field(ErrorCode::BadRequest, "filters", message));
        }
        let unknown =
            || Invalid::field(ErrorCode::AffiliateNotFound, "filters.affiliate_id", "no affiliate with this ID");
        self.affiliate_id.as_deref().map(|id| id.parse().map_err(|_| unknown())).transpose()
    }
}

/// The request body to create a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"url": "https://hooks.example.com/deeplink", "events": ["click", "conversion"]}))))]
#[non_exhaustive]
pub struct CreateWebhook {
    /// URL that events are posted to: https, with a public host, at most 2,048 bytes.
    #[cfg_attr(feature = "openapi", schema(format = Uri, max_length = 2_048))]
    pub url: String,
    /// The kinds of events to send: `click`, `attribute` (or `attribution`), `identify`, `conversion`.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<EventKind>))]
    pub events: Vec<String>,
    /// Filters on the events that are sent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub filters: Option<WebhookFilters>,
    /// How long failed deliveries are retried, in seconds: 0 to 259,200 (three days); 31 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 259_200, default = 31))]
    pub retry_for: Option<i64>,
}

impl CreateWebhook {
    /// A webhook that posts all events of these kinds to this URL.
    pub fn new(url: impl Into<String>, events: impl IntoIterator<Item = EventKind>) -> Self {
        let events = events.into_iter().map(|kind| kind.as_str().to_owned()).collect();
        Self { url: url.into(), events, filters: None, retry_for: None }
    }

    setters! {
        /// Sets filters on the events that are sent.
        filters: WebhookFilters,
        /// Sets how long failed deliveries are retried, in seconds.
        retry_for: i64,
    }

    /// Runs every rule of the service but one: whether it may call an address that is not public.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.clone().check(|_| true).map(drop)
    }

    /// Applies every rule that needs nothing but the text. Addresses that are not public are allowed where `allows` says so.
    pub fn check(self, allows: impl Fn(IpAddr) -> bool) -> Result<NewWebhook, Invalid> {
        Ok(NewWebhook {
            url: address(&self.url, allows)?,
            events: kinds(&self.events)?,
            affiliate: self.filters.unwrap_or_default().check()?,
            retry_for: retry_secs(self.retry_for.unwrap_or(DEFAULT_RETRY_SECS))?,
        })
    }
}

/// A webhook that passed every rule but those that need the database or a name server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewWebhook {
    /// The address, as the parser writes it.
    pub url: String,
    /// Each kind once, in the order of [`EventKind::ALL`].
    pub events: Vec<EventKind>,
    /// The only affiliate whose conversions are sent, if set.
    pub affiliate: Option<AffiliateId>,
    /// How long failed deliveries are retried, in seconds.
    pub retry_for: i64,
}

/// The request body of an update: absent fields keep their values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"events": ["conversion"]}))))]
#[non_exhaustive]
pub struct UpdateWebhook {
    /// URL that events are posted to, at most 2,048 bytes.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = Uri, max_length = 2_048))]
    pub url: Patch<String>,
    /// The kinds of events to send; replaces the list.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<EventKind>>))]
    pub events: Patch<Vec<String>>,
    /// Filters on the events that are sent; replaces all filters, and `null` or `{}` removes them.
    #[serde(default, skip_serializing_if = "Patch::is_keep", deserialize_with = "crate::object::patch")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<WebhookFilters>))]
    pub filters: Patch<WebhookFilters>,
    /// How long failed deliveries are retried, in seconds: 0 to 259,200 (three days).
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<i64>, minimum = 0, maximum = 259_200))]
    pub retry_for: Patch<i64>,
    /// Whether the webhook is enabled. Disabling it cancels pending deliveries.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<bool>))]
    pub active: Patch<bool>,
}

/// A validated update; at least one field is set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WebhookChange {
    /// The new address.
    pub url: Option<String>,
    /// The new kinds.
    pub events: Option<Vec<EventKind>>,
    /// The only affiliate whose conversions are sent from now on; the inner `None` means all conversions.
    pub affiliate: Option<Option<AffiliateId>>,
    /// How long failed deliveries are retried, in seconds.
    pub retry_for: Option<i64>,
    /// Whether the webhook is enabled.
    pub active: Option<bool>,
}

impl UpdateWebhook {
    /// An update with no fields set.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        [Patch::Set]
        /// Sets the URL.
        url: impl Into<String>,
        /// Sets the filters.
        filters: WebhookFilters,
        /// Sets how long failed deliveries are retried, in seconds.
        retry_for: i64,
        /// Enables or disables the webhook.
        active: bool,
    }

    /// Sets the kinds.
    #[must_use]
    pub fn events(mut self, events: impl IntoIterator<Item = EventKind>) -> Self {
        self.events = Patch::Set(events.into_iter().map(|kind| kind.as_str().to_owned()).collect());
        self
    }

    /// Runs the rules; see [`CreateWebhook::validate`].
    pub fn validate(&self) -> Result<(), Invalid> {
        self.clone().check(|_| true).map(drop)
    }

    /// Applies every rule that needs nothing but the text.
    pub fn check(self, allows: impl Fn(IpAddr) -> bool) -> Result<WebhookChange, Invalid> {
        let url = self.url.required("url")?.map(|url| address(&url, allows)).transpose()?;
        let events = self.events.required("events")?.map(|events| kinds(&events)).transpose()?;
        let affiliate = match self.filters {
            Patch::Keep => None,
            Patch::Clear => Some(None),
            Patch::Set(filters) => Some(filters.check()?),
        };
        let retry_for = self.retry_for.required("retry_for")?.map(retry_secs).transpose()?;
        let active = self.active.required("active")?;
        if url.is_none() && events.is_none() && affiliate.is_none() && retry_for.is_none() && active.is_none() {
            let message = "the update is empty: send at least one of url, events, filters, retry_for and active";
            return Err(Invalid::whole(ErrorCode::EmptyUpdate, message));
        }
        Ok(WebhookChange { url, events, affiliate, retry_for, active })
    }
}

fn address(text: &str, allows: impl Fn(IpAddr) -> bool) -> Result<String, Invalid> {
    let wrong = |message: String| Invalid::field(ErrorCode::InvalidUrl, "url", message);
    let url = url::outbound(text, &allows).map_err(|refused| wrong(format!("url: {refused}")))?;
    if url.scheme() != "https" {
        return Err(wrong("url must start with https://".into()));
    }
    // Addresses that the operator allowed may use any port.
    let is_open = match url.host() {
        Some(Host::Ipv4(address)) => allows(address.into()),
        Some(Host::Ipv6(address)) => allows(address.into()),
        _ => false,
    };
    if !is_open && !url.port_or_known_default().is_some_and(url::is_called) {
        return Err(wrong("port must be 80, 443 or at least 1024".into()));
    }
    Ok(url.into())
}

fn retry_secs(secs: i64) -> Result<i64, Invalid> {
    if (0..=MAX_RETRY_SECS).contains(&secs) {
        return Ok(secs);
    }
    let message = format!("retry_for must be between 0 and {MAX_RETRY_SECS} seconds");
    Err(Invalid::field(ErrorCode::BadRequest, "retry_for", message))
}

fn default_retry_secs() -> i64 {
    DEFAULT_RETRY_SECS
}

fn kinds(words: &[String]) -> Result<Vec<EventKind>, Invalid> {
    if words.is_empty() {
        return Err(Invalid::field(ErrorCode::EmptyEvents, "events", "events must contain at least one kind"));
    }
    let named: Vec<_> = words.iter().map(|word| EventKind::named(word)).collect();
    if let Some(word) = named.iter().find(|kind| matches!(kind, EventKind::Unknown(_))) {
        let word: String = word.as_str().chars().take(64).collect();
        let message = format!("unknown event {word:?}; expected click, attribute, identify or conversion");
        return Err(Invalid::field(ErrorCode::InvalidEvent, "events", message));
    }
    Ok(EventKind::ALL.iter().filter(|kind| named.contains(kind)).cloned().collect())
}

words! {
    /// Delivery health of a webhook.
    WebhookStatus {
        /// No delivery has been attempted yet.
        Untried = "untried",
        /// The last completed delivery succeeded.
        Healthy = "healthy",
        /// Deliveries have failed since `failing_since`.
        Failing = "failing",
        /// The service paused it after three days of failures; `active: true` resumes it.
        Paused = "paused",
    }
}

reply! {
    /// Delivery health of a webhook.
    WebhookHealth {
        /// Delivery status.
        status: WebhookStatus,
        /// Time of the first failed attempt since the last success; null if none has failed. It restarts with the first
        /// attempt after a day without attempts or after the webhook is enabled, and immediately when the URL changes.
        failing_since: Option<Timestamp>,
        /// When a delivery last succeeded.
        delivered_at: Option<Timestamp>,
        /// Deliveries dropped because 100,000 were already pending.
        dropped: i64,
    }
}

reply! {
    /// A webhook.
    WebhookDetail {
        /// The webhook's ID.
        id: WebhookId,
        /// URL that events are posted to.
        #[cfg_attr(feature = "openapi", schema(format = Uri))]
        url: String,
        /// The kinds of events that are sent.
        events: Vec<EventKind>,
        /// Filters on the events that are sent; absent when all are sent.
        #[serde(default, skip_serializing_if = "WebhookFilters::is_empty")]
        #[cfg_attr(feature = "openapi", schema(required = false))]
        filters: WebhookFilters,
        /// How long failed deliveries are retried, in seconds.
        #[serde(default = "default_retry_secs")]
        retry_for: i64,
        /// Whether the webhook is enabled.
        active: bool,
        /// When it was created.
        created_at: Timestamp,
        /// Delivery health.
        health: WebhookHealth,
    }
}

paged! {
    /// Webhooks of an account, newest first.
    WebhookList {
        /// The webhooks.
        webhooks: WebhookDetail,
    }
}

reply! {
    /// A new webhook, with its secret, which is shown only once.
    CreatedWebhook {
        /// The webhook.
        #[serde(flatten)]
        webhook: WebhookDetail,
        /// The secret that signs the webhook's events; it is not shown again.
        secret: WebhookSecret,
    }
}

reply! {
    /// A webhook's new secret, which is shown only once. The previous secret keeps signing for 24 hours.
    RotatedSecret {
        /// The webhook.
        id: WebhookId,
        /// The secret that signs the webhook's events from now on.
        secret: WebhookSecret,
    }
}

/// The request body to send a test event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"event": "click"}))))]
#[non_exhaustive]
pub struct TestWebhook {
    /// Kind of event to send; by default, the first kind that the webhook subscribes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<EventKind>))]
    pub event: Option<String>,
}

impl TestWebhook {
    /// An event of the first kind that the webhook subscribes to.
    pub fn new() -> Self {
        Self::default()
    }

    /// An event of this kind.
    #[must_use]
    pub fn event(mut self, kind: &EventKind) -> Self {
        self.event = Some(kind.as_str().to_owned());
        self
    }

    /// The kind that is asked for, if one is.
    pub fn check(&self) -> Result<Option<EventKind>, Invalid> {
        self.event
            .as_ref()
            .map(|word| {
                kinds(std::slice::from_ref(word))
                    .map(|mut kinds| kinds.remove(0))
                    .map_err(|invalid| Invalid { field: Some("event".into()), ..invalid })
            })
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str) -> Result<NewWebhook, (ErrorCode, String)> {
        let create: CreateWebhook = serde_json::from_str(body).expect("a body");
        create.check(|_| false).map_err(|e| (e.code, e.field.unwrap_or_default().into_owned()))
    }

    #[test]
    fn creates_have_rules() {
        let new =
            check(r#"{"url":"https://E.IO.","events":["conversion","attribution","click","click"],"filters":{}}"#);
        let new = new.expect("a webhook");
        assert_eq!(new.url, "https://e.io./");
        assert_eq!(new.events, [EventKind::Click, EventKind::Attribute, EventKind::Conversion]);
        let url = |url: &str| format!(r#"{{"url":"{url}","events":["click"]}}"#);
        for wrong in [
            "http://example.com/",
            "https://u@example.com/",
            "https://localhost/",
            "https://10.0.0.1/",
            "https://example.com:22/",
            "https://[::1]/",
            "ftp://example.com/",
            "x",
            "",
        ] {
            assert_eq!(check(&url(wrong)), Err((ErrorCode::InvalidUrl, "url".into())), "{wrong}");
        }
        let with = |rest: &str| check(&format!(r#"{{"url":"https://example.com/",{rest}}}"#));
        assert_eq!(with(r#""events":[]"#), Err((ErrorCode::EmptyEvents, "events".into())));
        for wrong in ["clicks", "Click", ""] {
            let events = format!(r#""events":["click","{wrong}"]"#);
            assert_eq!(with(&events), Err((ErrorCode::InvalidEvent, "events".into())), "{wrong}");
        }
        let filters = |filters: &str| with(&format!(r#""events":["click"],"filters":{filters}"#));
        assert_eq!(filters(r#"{"link_id":"x"}"#), Err((ErrorCode::BadRequest, "filters".into())));
        let unknown = Err((ErrorCode::AffiliateNotFound, "filters.affiliate_id".into()));
        assert_eq!(filters(r#"{"affiliate_id":"aff_1"}"#), unknown);
        assert_eq!(filters("null").map(|new| new.affiliate), Ok(None));
        assert!(filters(r#"{"affiliate_id":"aff_0123456789abcdef01234567"}"#).is_ok_and(|new| new.affiliate.is_some()));
    }

    #[test]
    fn updates_change_what_they_name() {
        let check = |body: &str| {
            let update: UpdateWebhook = serde_json::from_str(body).expect("a body");
            update.check(|_| false).map_err(|e| e.code)
        };
        for empty in ["{}", r#"{"secret":"x","id":1}"#] {
            assert_eq!(check(empty), Err(ErrorCode::EmptyUpdate), "{empty}");
        }
        for cleared in [r#"{"url":null}"#, r#"{"events":null}"#, r#"{"active":null}"#] {
            assert_eq!(check(cleared), Err(ErrorCode::BadRequest), "{cleared}");
        }
        let change = check(r#"{"filters":null,"active":false}"#).expect("a change");
        assert_eq!((change.affiliate, change.active, change.url), (Some(None), Some(false), None));
    }

    #[test]
    fn filters_are_left_out_when_there_are_none() {
        let health = WebhookHealth::new(WebhookStatus::Untried, None, None, 0);
        let id = "wh_0123456789abcdef01234567".parse().expect("an id");
        let at = Timestamp::from_millis(0);
        let mut webhook = WebhookDetail::new(
            id,
            "https://example.com/".into(),
            vec![EventKind::Click],
            WebhookFilters::new(),
            DEFAULT_RETRY_SECS,
            true,
            at,
            health,
        );
        let json = serde_json::to_value(&webhook).expect("JSON");
        assert!(json.get("filters").is_none(), "{json}");
        assert_eq!(serde_json::from_value::<WebhookDetail>(json).expect("a webhook"), webhook);
        webhook.filters = WebhookFilters::new().affiliate_id("aff_0123456789abcdef01234567");
        let created = CreatedWebhook::new(webhook, WebhookSecret::new("whsec_AAAA"));
        let json = serde_json::to_value(&created).expect("JSON");
        assert_eq!(json["filters"]["affiliate_id"], "aff_0123456789abcdef01234567");
        assert_eq!(serde_json::from_value::<CreatedWebhook>(json).expect("a webhook"), created);
    }

    #[test]
    fn tests_name_a_kind() {
        assert_eq!(TestWebhook::new().check(), Ok(None));
        assert_eq!(TestWebhook::new().event(&EventKind::Click).check(), Ok(Some(EventKind::Click)));
        let wrong = TestWebhook { event: Some("x".into()) }.check().expect_err("no kind");
        assert_eq!((wrong.code, wrong.field.as_deref()), (ErrorCode::InvalidEvent, Some("event")));
    }
}
