//! A model of the service: the rules that an import meets, and every way in which a response can be lost.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use deeplink_core::bulk::{Batch, BatchRefused, BulkCreate, BulkCreated, BulkLink, RowError};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::link::{
    Alias, CreateLink, CreatedLink, LinkDetail, LinkList, LinkStatus, NewLink, UpdateLink, generate_id,
};
use deeplink_core::secret::Random;
use deeplink_core::tag::Tag;
use deeplink_core::time::Timestamp;
use futures_util::stream;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use tokio::sync::Notify;

use crate::transport::{BodyStream, BoxFuture, Failure, Transport, TransportError};
use crate::{Client, SecretKey};

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Busy(u64),
    Overloaded(u64),
    ErrorBefore,
    ErrorAfter,
    ResetBefore,
    ResetAfter,
    TimeoutAfter,
    Unreachable,
    ProxyPage,
    Truncated,
}

impl Fault {
    pub(crate) const ALL: [Self; 10] = [
        Self::Busy(0),
        Self::Overloaded(0),
        Self::ErrorBefore,
        Self::ErrorAfter,
        Self::ResetBefore,
        Self::ResetAfter,
        Self::TimeoutAfter,
        Self::Unreachable,
        Self::ProxyPage,
        Self::Truncated,
    ];
}

type Disruption = Box<dyn FnMut(&str, &mut Random) -> Option<Fault> + Send>;

pub(crate) struct State {
    /// Links of the caller.
    pub(crate) links: BTreeMap<String, LinkDetail>,
    /// Ids that another account holds.
    pub(crate) foreign: Vec<String>,
    /// Responses by key.
    pub(crate) replies: HashMap<String, (Bytes, u16, Vec<u8>)>,
    pub(crate) remembers_keys: bool,
    pub(crate) knows_links_form: bool,
    /// A template that contains this text is refused.
    pub(crate) refuses: Option<String>,
    /// Every request is answered with this.
    pub(crate) always: Option<(u16, ErrorCode)>,
    /// The affiliate of the key.
    pub(crate) scoped_to: Option<String>,
    pub(crate) most_bytes: usize,
    pub(crate) trouble: Option<Disruption>,
    random: Random,
    /// Method, path, key and body of every request.
    pub(crate) log: Vec<(String, String, String, Bytes)>,
    /// How often each id was made.
    pub(crate) made: HashMap<String, u32>,
    pub(crate) in_flight: usize,
    pub(crate) most_in_flight: usize,
    pub(crate) delay: std::time::Duration,
    /// How many requests must be under way before one is answered, by how many came and how many were answered.
    pub(crate) together: Option<fn(came: usize, answered: usize) -> usize>,
    answered: usize,
    changed: Arc<Notify>,
}

#[derive(Clone)]
pub(crate) struct Model(pub(crate) Arc<Mutex<State>>);

impl Model {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            links: BTreeMap::new(),
            foreign: Vec::new(),
            replies: HashMap::new(),
            remembers_keys: true,
            knows_links_form: true,
            refuses: None,
            always: None,
            scoped_to: None,
            most_bytes: 1 << 20,
            trouble: None,
            random: Random::seeded(1),
            log: Vec::new(),
            made: HashMap::new(),
            in_flight: 0,
            most_in_flight: 0,
            delay: std::time::Duration::ZERO,
            together: None,
            answered: 0,
            changed: Arc::default(),
        })))
    }

    pub(crate) fn edit<T>(&self, edit: impl FnOnce(&mut State) -> T) -> T {
        edit(&mut self.0.lock().expect("no test panicked here"))
    }

    pub(crate) fn client(&self) -> Client {
        Client::builder("https://api.example.com")
            .secret_key(SecretKey::new("dl_live_x"))
            .transport(self.clone())
            .build()
            .expect("a client")
    }

    pub(crate) fn trouble(&self, trouble: impl FnMut(&str, &mut Random) -> Option<Fault> + Send + 'static) {
        self.edit(|state| state.trouble = Some(Box::new(trouble)));
    }

    /// Makes one in `one_in` requests that create links fail, in every way.
    pub(crate) fn mixed_trouble(&self, one_in: u64) {
        self.trouble(move |path, random| {
            let makes = path == "/v1/links/bulk" || path == "/v1/links";
            let kind = usize::try_from(random.below(10)).expect("small");
            (makes && random.below(one_in) == 0).then(|| Fault::ALL[kind])
        });
    }

    /// The number of requests with this method whose path begins with `path`.
    pub(crate) fn requests(&self, method: &str, path: &str) -> usize {
        self.edit(|state| state.log.iter().filter(|(m, p, ..)| m == method && p.starts_with(path)).count())
    }

    pub(crate) fn clear_log(&self) {
        self.edit(|state| state.log.clear());
    }
}

type Answer = (u16, Vec<u8>);

fn json(status: u16, value: &impl serde::Serialize) -> Answer {
    (status, serde_json::to_vec(value).expect("JSON"))
}

fn refuse(code: ErrorCode, message: &str) -> Answer {
    let status = code.status().expect("a known code");
    json(status, &ErrorBody::new(code, message))
}

fn invalid(invalid: Invalid) -> Answer {
    let status = invalid.code.status().expect("a known code");
    json(status, &ErrorBody::from(invalid))
}

fn rows(errors: Vec<RowError>) -> Answer {
    let mut body = ErrorBody::new(ErrorCode::InvalidBatch, "rows failed");
    body.errors = errors;
    json(400, &body)
}

pub(crate) fn detail(id: &str, link: NewLink) -> LinkDetail {
    let now = Timestamp::from_millis(1_795_167_000_000);
    LinkDetail {
        link_id: id.to_owned(),
        url: format!("https://go.example.com/{id}"),
        ios_deep_link: link.destinations.ios_deep_link,
        ios_store_url: link.destinations.ios_store_url,
        android_deep_link: link.destinations.android_deep_link,
        android_store_url: link.destinations.android_store_url,
        web_url: link.destinations.web_url,
        metadata: link.metadata,
        agent_context: link.agent_context,
        social_preview: link.social_preview,
        affiliate_id: link.affiliate_id,
        status: if link.is_disabled { LinkStatus::Disabled } else { LinkStatus::Active },
        expires_at: link.expires_at,
        created_at: now,
        updated_at: now,
        name: link.name,
        enabled: !link.is_disabled,
        owner_expires_at: link.expires_at,
        expired_url: link.expired_url,
        tags: link.tags.into_iter().map(Tag::into_text).collect(),
        aliases: link.aliases.into_iter().map(Alias::into_text).collect(),
        qr: link.qr,
        imported_clicks: link.imported_clicks,
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, key: &str, body: &Bytes) -> Answer {
        if let Some((status, code)) = &self.always {
            return json(*status, &ErrorBody::new(code.clone(), "always"));
        }
        let is_keyed = *method == Method::POST && !key.is_empty();
        if is_keyed && let Some((first, status, reply)) = self.replies.get(key) {
            return if first == body {
                (*status, reply.clone())
            } else {
                refuse(ErrorCode::IdempotencyConflict, "key")
            };
        }
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let answer = match (method.as_str(), path) {
            ("POST", "/v1/links/bulk") => self.bulk(body),
            ("POST", "/v1/links") => self.create(body),
            ("GET", "/v1/links") => self.list(query),
            (method, path) => self.one(method, path.strip_prefix("/v1/links/").unwrap_or_default(), body),
        };
        if is_keyed && answer.0 < 300 && self.remembers_keys {
            self.replies.insert(key.to_owned(), (body.clone(), answer.0, answer.1.clone()));
        }
        answer
    }

    fn is_taken(&self, id: &str) -> bool {
        self.links.contains_key(id) || self.foreign.iter().any(|foreign| foreign == id)
    }

    fn insert(&mut self, id: &str, mut link: NewLink) {
        link.affiliate_id = match (&link.affiliate_id, &self.scoped_to) {
            (None, Some(own)) => Some(own.parse().expect("an id")),
            (given, _) => given.clone(),
        };
        *self.made.entry(id.to_owned()).or_default() += 1;
        self.links.insert(id.to_owned(), detail(id, link));
    }

    fn refuses(&self, body: &Bytes) -> bool {
        self.refuses.as_ref().is_some_and(|text| String::from_utf8_lossy(body).contains(text.as_str()))
    }

    fn bulk(&mut self, body: &Bytes) -> Answer {
        if body.len() > self.most_bytes {
            return refuse(ErrorCode::PayloadTooLarge, "too large");
        }
        let mut bulk: BulkCreate = serde_json::from_slice(body).expect("a bulk create");
        if !self.knows_links_form {
            bulk.links = None;
        }
        if bulk.template.is_some() && self.refuses(body) {
            return refuse(ErrorCode::AffiliateNotFound, "no such affiliate");
        }
        let refused = self.refuses.clone().filter(|_| bulk.links.is_some());
        let named: Vec<(Option<String>, NewLink)> = match bulk.check() {
            Ok(Batch::Named { template, ids }) => ids.into_iter().map(|id| (Some(id), template.clone())).collect(),
            Ok(Batch::Generated { template, count }) => vec![(None, template); count],
            Ok(Batch::Different(links)) => links.into_iter().map(|link| (link.custom_id.clone(), link)).collect(),
            Err(BatchRefused::Whole(why)) => return invalid(why),
            Err(BatchRefused::Rows(errors)) => return rows(errors),
        };
        let mut errors = Vec::new();
        for (index, (id, link)) in (0..).zip(&named) {
            let web = link.destinations.web_url.clone().unwrap_or_default();
            if refused.as_ref().is_some_and(|text| web.contains(text.as_str())) {
                let why = Invalid::field(ErrorCode::AffiliateNotFound, "affiliate_id", "no such affiliate");
                errors.push(RowError::new(index, why, id.clone()));
            } else if id.as_deref().is_some_and(|id| self.is_taken(id)) {
                let why = Invalid::field(ErrorCode::LinkIdTaken, "custom_id", "in use");
                errors.push(RowError::new(index, why, id.clone()));
            }
        }
        if !errors.is_empty() {
            return rows(errors);
        }
        let links = named.into_iter().map(|(id, link)| {
            let link_id = id.unwrap_or_else(|| generate_id(&mut self.random));
            self.insert(&link_id, link);
            BulkLink { url: format!("https://go.example.com/{link_id}"), link_id }
        });
        let links = links.collect();
        json(201, &BulkCreated { links })
    }

    fn create(&mut self, body: &Bytes) -> Answer {
        if self.refuses(body) {
            return refuse(ErrorCode::AffiliateNotFound, "no such affiliate");
        }
        let link: CreateLink = serde_json::from_slice(body).expect("a create");
        let link = match link.check() {
            Ok(link) => link,
            Err(why) => return invalid(why),
        };
        let id = link.custom_id.clone().expect("an import names its ids");
        if self.is_taken(&id) {
            return refuse(ErrorCode::LinkIdTaken, "in use");
        }
        self.insert(&id, link);
        json(201, &CreatedLink::new(id.clone(), format!("https://go.example.com/{id}"), None))
    }

    fn list(&self, query: &str) -> Answer {
        let after = query.split('&').find_map(|pair| pair.strip_prefix("cursor=")).unwrap_or_default();
        let page: Vec<LinkDetail> =
            self.links.iter().filter(|(id, _)| id.as_str() > after).take(100).map(|(_, link)| link.clone()).collect();
        let next_cursor = if page.len() == 100 { page.last().map(|link| link.link_id.clone()) } else { None };
        json(200, &LinkList { links: page, next_cursor })
    }

    fn one(&mut self, method: &str, path: &str, body: &Bytes) -> Answer {
        let (id, rest) = path.split_once('/').unwrap_or((path, ""));
        if !rest.is_empty() {
            let scoped = self.scoped_to.is_some();
            return if scoped {
                refuse(ErrorCode::ForbiddenScope, "scoped")
            } else {
                refuse(ErrorCode::NotFound, "none")
            };
        }
        let Some(link) = self.links.get_mut(id) else { return refuse(ErrorCode::NotFound, "no such link") };
        if method == "PUT" {
            let update: UpdateLink = serde_json::from_slice(body).expect("an update");
            let patch = match update.check() {
                Ok(patch) => patch,
                Err(why) => return invalid(why),
            };
            patch.destinations.ios_deep_link.apply(&mut link.ios_deep_link);
            patch.destinations.web_url.apply(&mut link.web_url);
            patch.metadata.apply(&mut link.metadata);
            patch.agent_context.apply(&mut link.agent_context);
            patch.social_preview.apply(&mut link.social_preview);
            patch.imported_clicks.apply(&mut link.imported_clicks);
        }
        json(200, link)
    }
}

/// Counts a request as in flight until this is dropped.
struct UnderWay(Model);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.edit(|state| state.in_flight -= 1);
    }
}

impl Model {
    /// Waits until as many requests are under way as [`State::together`] says.
    async fn enough_under_way(&self) {
        let changed = self.edit(|state| Arc::clone(&state.changed));
        changed.notify_waiters();
        loop {
            let next = changed.notified();
            tokio::pin!(next);
            next.as_mut().enable();
            let is_enough = self.edit(|state| {
                let needed = state.together.map_or(0, |together| together(state.log.len(), state.answered));
                let is_enough = state.in_flight >= needed;
                state.answered += usize::from(is_enough);
                is_enough
            });
            if is_enough {
                return;
            }
            next.await;
        }
    }
}

impl Transport for Model {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<BodyStream>, TransportError>> {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
            let key =
                parts.headers.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned();
            let (fault, delay) = self.edit(|state| {
                state.log.push((parts.method.to_string(), path.clone(), key.clone(), body.clone()));
                state.in_flight += 1;
                state.most_in_flight = state.most_in_flight.max(state.in_flight);
                let mut trouble = state.trouble.take();
                let fault = trouble.as_mut().and_then(|trouble| trouble(&path, &mut state.random));
                state.trouble = trouble;
                (fault, state.delay)
            });
            let _under_way = UnderWay(self.clone());
            self.enough_under_way().await;
            tokio::time::sleep(delay / 2).await;
            let broken = |failure| Err(TransportError::new(failure, "trouble"));
            match fault {
                Some(Fault::Busy(seconds)) => return Ok(reply(refuse(ErrorCode::RateLimited, "busy"), Some(seconds))),
                Some(Fault::Overloaded(seconds)) => {
                    return Ok(reply(refuse(ErrorCode::Overloaded, "full"), Some(seconds)));
                }
                Some(Fault::ErrorBefore) => return Ok(reply(refuse(ErrorCode::Internal, "before"), None)),
                Some(Fault::ResetBefore) => return broken(Failure::Broken),
                Some(Fault::Unreachable) => return broken(Failure::Connect),
                Some(Fault::ProxyPage) => return Ok(reply((502, b"<html>".to_vec()), None)),
                _ => {}
            }
            let answer = self.edit(|state| state.answer(&parts.method, &path, &key, &body));
            tokio::time::sleep(delay / 2).await;
            match fault {
                Some(Fault::ErrorAfter) => Ok(reply(refuse(ErrorCode::Internal, "after"), None)),
                Some(Fault::ResetAfter) => broken(Failure::Broken),
                Some(Fault::TimeoutAfter) => broken(Failure::Timeout),
                Some(Fault::Truncated) => Ok(reply((answer.0, answer.1[..answer.1.len() / 2].to_vec()), None)),
                _ => Ok(reply(answer, None)),
            }
        })
    }
}

fn reply((status, body): Answer, retry_after: Option<u64>) -> Response<BodyStream> {
    let is_page = body.first() == Some(&b'<');
    let stream: BodyStream = Box::pin(stream::iter([Ok(Bytes::from(body))]));
    let mut response = Response::new(stream);
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    let kind = if is_page { "text/html" } else { "application/json" };
    response.headers_mut().insert("content-type", HeaderValue::from_static(kind));
    if let Some(seconds) = retry_after {
        response.headers_mut().insert("retry-after", HeaderValue::from(seconds));
    }
    response
}
