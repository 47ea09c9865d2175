//! A healthy account, in which a test breaks one thing.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use deeplink_client::deeplink_core::association::{AppleAssociation, AssetStatement};
use deeplink_client::doctor::{Check, Status};
use deeplink_client::mock::fixtures::{self, FINGERPRINT};
use deeplink_client::{AppDetail, Client, DomainDetail, DomainRole, LinkDetail, LinkStatus, SecretKey, Timestamp};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::double::{Answers, Reply, Request, Server};
use deeplink_doubles::authority::{Authority, Identity};
use deeplink_doubles::dns::Dns;

pub(crate) const PRIMARY: &str = "go.example.com";
pub(crate) const ALTERNATE: &str = "open.example.com";
pub(crate) const OTHER_FINGERPRINT: &str =
    "AA:6D:E9:83:C5:73:06:50:D8:EE:B9:95:2F:34:FC:64:16:A0:83:42:E6:1D:BE:A8:8A:04:96:B2:3F:CF:44:E5";

/// Which request is answered differently, and how.
type Override = (fn(&Request) -> bool, Reply);

/// The account, and what the doctor is asked to check.
pub(crate) struct Scene {
    pub(crate) apps: Vec<AppDetail>,
    pub(crate) domains: Vec<DomainDetail>,
    pub(crate) links: Vec<LinkDetail>,
    /// Values of the TXT record of the primary domain.
    pub(crate) txt: Vec<String>,
    pub(crate) identity: Identity,
    /// The hosts are at the doubles, and can be reached.
    pub(crate) reachable: bool,
    /// Where the hosts are over IPv6, instead of at the doubles.
    pub(crate) six: Option<SocketAddr>,
    pub(crate) with_key: bool,
    pub(crate) hosts: Vec<&'static str>,
    pub(crate) asked_links: Vec<&'static str>,
    pub(crate) overrides: Vec<Override>,
    pub(crate) limit: Duration,
}

impl Default for Scene {
    fn default() -> Self {
        let mut android = fixtures::android_app("com.example.app");
        android.sha256_fingerprints = Some(vec![FINGERPRINT.to_owned(), OTHER_FINGERPRINT.to_owned()]);
        let alternate = DomainDetail { role: DomainRole::Alternate, ..fixtures::domain_detail(ALTERNATE) };
        Self {
            apps: vec![fixtures::ios_app("com.example.app"), android],
            domains: vec![fixtures::domain_detail(PRIMARY), alternate],
            links: vec![fixtures::link_detail("spring-42")],
            txt: vec![fixtures::verification_token()],
            identity: Identity::Days(90),
            reachable: true,
            six: None,
            with_key: true,
            hosts: Vec::new(),
            asked_links: Vec::new(),
            overrides: Vec::new(),
            limit: Duration::from_secs(10),
        }
    }
}

/// The result of a run.
pub(crate) struct Seen {
    pub(crate) checks: Vec<Check>,
    pub(crate) planned: Vec<(String, String)>,
    pub(crate) devices: Vec<String>,
    pub(crate) requests: Vec<Request>,
}

impl Seen {
    /// The first check of this id: of several hosts, the one of the primary.
    pub(crate) fn check(&self, id: &str) -> &Check {
        let found = self.checks.iter().find(|check| check.id == id);
        found.unwrap_or_else(|| panic!("no {id} in {:#?}", self.checks))
    }

    /// Every check of this status.
    pub(crate) fn of(&self, status: Status) -> Vec<&Check> {
        self.checks.iter().filter(|check| check.status == status).collect()
    }
}

impl Scene {
    /// The account's link, changed.
    pub(crate) fn link(&mut self, change: impl FnOnce(&mut LinkDetail)) {
        change(&mut self.links[0]);
        if self.asked_links.is_empty() {
            self.asked_links.push("spring-42");
        }
    }

    /// Answers some requests differently.
    pub(crate) fn instead(&mut self, which: fn(&Request) -> bool, reply: Reply) {
        self.overrides.push((which, reply));
    }

    /// Runs every check.
    pub(crate) async fn examine(self) -> Seen {
        let (dns, authority, seen) = (Dns::start().await, Authority::new(), Arc::new(Mutex::new(Vec::new())));
        let texts: Vec<&str> = self.txt.iter().map(String::as_str).collect();
        dns.txt(&format!("_deeplink-verify.{PRIMARY}"), &texts);
        dns.txt(&format!("_deeplink-verify.{ALTERNATE}"), &[&fixtures::verification_token()]);
        let (identity, reachable, limit, with_key) = (self.identity, self.reachable, self.limit, self.with_key);
        let elsewhere = self.six;
        let (hosts, links) = (self.hosts.clone(), self.asked_links.clone());
        let scene = Arc::new(self);
        let answers: Answers = {
            let (scene, seen) = (Arc::clone(&scene), Arc::clone(&seen));
            Arc::new(move |request| {
                seen.lock().expect("no panic").push(request.clone());
                scene.answer(request)
            })
        };
        let service = Server::http(Arc::clone(&answers)).await;
        let tls = authority.acceptor(&[PRIMARY, ALTERNATE], identity);
        let four = Server::https(false, tls.clone(), Arc::clone(&answers)).await;
        let six = Server::https(true, tls, answers).await;
        let mut client = Client::builder(service.url());
        if with_key {
            client = client.secret_key(SecretKey::new("dl_live_x"));
        }
        let client = client.build().expect("a client");
        let mut doctor = client
            .doctor()
            .dns_server(dns.address())
            .apple_cdn(format!("{}/apple/", service.url()))
            .google_api(format!("{}/google", service.url()))
            .connect_to("images.example.com", four.address)
            .root_certificate(authority.pem())
            .limit(limit);
        for host in [PRIMARY, ALTERNATE].into_iter().filter(|_| reachable) {
            doctor = doctor.connect_to(host, four.address).connect_to(host, elsewhere.unwrap_or(six.address));
        }
        doctor = hosts.into_iter().fold(doctor, deeplink_client::doctor::Doctor::host);
        doctor = links.into_iter().fold(doctor, deeplink_client::doctor::Doctor::link);
        let examination = doctor.begin().await.expect("an examination");
        let planned = examination.planned().map(|(id, subject)| (id.to_owned(), subject.to_owned())).collect();
        let devices = examination.device_commands();
        let checks = examination.run().collect().await;
        let requests = seen.lock().expect("no panic").clone();
        Seen { checks, planned, devices, requests }
    }

    fn answer(&self, request: &Request) -> Reply {
        if let Some((_, reply)) = self.overrides.iter().rev().find(|(which, _)| which(request)) {
            return reply.clone();
        }
        let path = request.target.split('?').next().unwrap_or_default();
        let not_found = || Reply::json(404, &json!({"error": "not found", "code": "not_found"}));
        match path {
            "/health" => Reply::json(200, &json!({"status": "ok"})).header("date", &http_date()),
            "/v1/apps" => Reply::json(200, &json!(self.apps)),
            "/v1/domains" => Reply::json(200, &json!(self.domains)),
            "/v1/links" => {
                let is_asked = |link: &&LinkDetail| !request.target.contains("status=active") || is_active(link);
                let links: Vec<_> = self.links.iter().filter(is_asked).collect();
                Reply::json(200, &json!({"links": links, "next_cursor": null}))
            }
            "/.well-known/apple-app-site-association" if self.apple()["applinks"]["details"][0].is_object() => {
                Reply::json(200, &self.apple())
            }
            "/.well-known/assetlinks.json" if self.google()[0].is_object() => Reply::json(200, &self.google()),
            _ if path.starts_with("/apple/a/v1/") => Reply::json(200, &self.apple()),
            "/google/v1/statements:list" => self.statements(),
            "/image.png" => Reply::new(200, "image/png", png(1_200, 630)),
            _ => {
                let id = path.rsplit('/').next().unwrap_or_default();
                let Some(link) = self.links.iter().find(|link| link.link_id == id) else { return not_found() };
                if path.starts_with("/v1/links/") { Reply::json(200, &json!(link)) } else { self.visit(link, request) }
            }
        }
    }

    fn apple(&self) -> Value {
        let ids = self.apps.iter().filter_map(|app| Some((app.team_id.as_deref()?, app.bundle_id.as_deref()?)));
        json!(AppleAssociation::of(ids))
    }

    fn google(&self) -> Value {
        let statement =
            |app: &AppDetail| Some(AssetStatement::new(app.package_name.clone()?, app.sha256_fingerprints.clone()?));
        json!(self.apps.iter().filter_map(statement).collect::<Vec<_>>())
    }

    /// How a working service answers a visit to a link: the rows that the tests use, spelled out.
    fn visit(&self, link: &LinkDetail, request: &Request) -> Reply {
        let over_alternate = self.domains.iter().any(|domain| domain.verified && domain.domain == ALTERNATE);
        let (is_iphone, is_android) = (request.agent.contains("iPhone"), request.agent.contains("Pixel"));
        let has_apps = link.ios_deep_link.is_some() || link.android_deep_link.is_some();
        let alternate = format!("https://{ALTERNATE}/{}", link.link_id);
        let reply = match link.web_url.as_deref() {
            _ if request.accept == "application/json" => Reply::json(
                200,
                &json!({"link_id": link.link_id, "_service_meta": {"source": "tenant_asserted", "status": link.status}}),
            ),
            _ if !is_active(link) => Reply::new(410, "text/html", "it has ended"),
            _ if request.host == ALTERNATE => Reply::redirect("https://apps.apple.com/app/id1"),
            Some(web) if !has_apps && link.social_preview.is_none() => Reply::redirect(web),
            web => {
                let open = match link.ios_deep_link.as_deref() {
                    _ if over_alternate && (is_iphone || is_android) => Some(alternate.as_str()),
                    Some(app) if is_iphone => Some(app),
                    _ if is_android => link.android_deep_link.as_deref().map(|_| INTENT),
                    _ => web,
                };
                Reply::new(200, "text/html; charset=utf-8", page(open))
            }
        };
        reply.header("vary", "Accept, User-Agent, Sec-CH-UA-Platform").header("cache-control", "no-store")
    }

    /// The answer of Google's service, one statement for each fingerprint.
    fn statements(&self) -> Reply {
        let of_app = |app: &AppDetail| {
            let package = app.package_name.clone().unwrap_or_default();
            let prints = app.sha256_fingerprints.clone().unwrap_or_default();
            prints.into_iter().map(move |print| {
                json!({"target": {"androidApp": {"packageName": package, "certificate": {"sha256Fingerprint": print}}}})
            }).collect::<Vec<_>>()
        };
        let all: Vec<Value> = self.apps.iter().flat_map(of_app).collect();
        Reply::json(200, &json!({"statements": all, "maxAge": "3599s"}))
    }
}

/// The button of an Android phone for a link with `shop://p/42` and [`WEB`].
pub(crate) const INTENT: &str = "intent://p/42#Intent;scheme=shop;package=com.example.app;\
                                 S.browser_fallback_url=https%3A%2F%2Fexample.com%2F%3Fa%3D1%26b%3D%272%27;end";
pub(crate) const WEB: &str = "https://example.com/?a=1&b='2'";

/// A landing page whose primary button, if it has one, leads there.
pub(crate) fn page(open: Option<&str>) -> String {
    let escaped = |to: &str| to.replace('&', "&#38;").replace('\'', "&#39;");
    let button = open.map(|to| format!(r#"<a id="open" href="{}"><span>Open</span></a>"#, escaped(to)));
    let head = r#"<meta property="og:title" content="T"><meta property="og:url" content="U">"#;
    format!("<html><head>{head}</head><body>{}</body></html>", button.unwrap_or_default())
}

fn is_active(link: &LinkDetail) -> bool {
    link.status == LinkStatus::Active
}

/// The header of a PNG image of this size, which is all that is read to find its size.
pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend([8, 2, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

/// The current time in the format of the `Date` header; the day of the week is not read.
#[expect(clippy::disallowed_methods, reason = "the clock of the doctor is the one on the wall")]
fn http_date() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
    let now = Timestamp::from_millis(i64::try_from(since.as_millis()).expect("a time")).to_string();
    let month: usize = now[5..7].parse().expect("a month");
    let name = &"JanFebMarAprMayJunJulAugSepOctNovDec"[month * 3 - 3..month * 3];
    format!("Mon, {} {name} {} {} GMT", &now[8..10], &now[..4], &now[11..19])
}

/// An address where nothing listens.
pub(crate) fn nowhere() -> SocketAddr {
    let free = std::net::TcpListener::bind("[::1]:0").expect("a port");
    free.local_addr().expect("an address")
}
