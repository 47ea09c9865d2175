//! A service that gives scripted answers and records its requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use deeplink_client::mock::fixtures;
use deeplink_core::qr::QrFormat;
use tokio::net::TcpSocket;

use crate::dl::{KEY, OTHER_KEY};

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, as text; a file is not UTF-8 and reads as it would be shown.
    pub body: String,
}

impl Request {
    /// The first header of a name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// `METHOD /path`, to match on.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path())
    }

    /// The value of a query parameter, as it was written.
    pub fn query(&self, name: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// A scripted answer.
#[derive(Debug, Clone)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    delay: Duration,
    reset: bool,
}

impl Answer {
    /// A body with the media type of JSON.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { status, headers, body: body.into(), delay: Duration::ZERO, reset: false }
    }

    /// A value as JSON.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status, body.to_string())
    }

    /// The service's error object.
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        let body = serde_json::json!({"error": message, "code": code, "request_id": "req-1"});
        Self::json(status, &body)
    }

    /// Sets a header, replacing an earlier value.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(set, _)| set != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Delays the answer.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// No answer: the connection is closed.
    pub fn reset() -> Self {
        Self { reset: true, ..Self::new(200, "") }
    }
}

/// Holds answers back until it is opened.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Lets all requests through, now and later.
    pub fn open(&self) {
        *self.0.0.lock().expect("no panic") = true;
        self.0.1.notify_all();
    }

    /// Waits until it is open.
    pub fn wait(&self) {
        let open = self.0.0.lock().expect("no panic");
        drop(self.0.1.wait_while(open, |open| !*open).expect("no panic"));
    }
}

/// The service.
pub struct Double {
    /// Where it is, without a slash at the end.
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Double {
    /// Serves on its own port until the process ends.
    pub fn new(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answer, seen) = (Arc::new(answer), Arc::clone(&requests));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                std::thread::spawn(move || serve(&stream, &*answer, &seen));
            }
        });
        Self { url, requests }
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }

    /// Method and path of each request.
    pub fn lines(&self) -> Vec<String> {
        self.requests().iter().map(Request::line).collect()
    }

    /// The only request there was.
    pub fn only(&self) -> Request {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.into_iter().next().expect("one")
    }
}

/// An address where every connection is refused. The port stays reserved until this is dropped: a released one could
/// become the port of another test's double.
pub struct Nobody {
    /// The URL where nothing listens, without a slash at the end.
    pub url: String,
    _port: TcpSocket,
}

impl Nobody {
    /// Reserves a port without listening.
    pub fn at_a_port() -> Self {
        let port = TcpSocket::new_v4().expect("a socket");
        port.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
        Self { url: format!("http://{}", port.local_addr().expect("an address")), _port: port }
    }
}

fn serve(stream: &TcpStream, answer: &dyn Fn(&Request) -> Answer, seen: &Mutex<Vec<Request>>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        seen.lock().expect("no panic").push(request.clone());
        let answer = answer(&request);
        std::thread::sleep(answer.delay);
        if answer.reset || write(stream, &request, &answer).is_err() {
            return;
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut parts = line.split(' ');
    let (method, target) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    let (mut headers, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
        if name == "content-length" {
            length = value.parse().ok()?;
        }
        headers.push((name, value));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, target, headers, body: String::from_utf8_lossy(&body).into_owned() })
}

fn write(mut stream: &TcpStream, request: &Request, answer: &Answer) -> std::io::Result<()> {
    let mut head = vec![format!("HTTP/1.1 {} Told", answer.status)];
    head.extend(answer.headers.iter().map(|(name, value)| format!("{name}: {value}")));
    if answer.status != 204 {
        head.push(format!("content-length: {}", answer.body.len()));
    }
    stream.write_all(format!("{}\r\n\r\n", head.join("\r\n")).as_bytes())?;
    if request.method != "HEAD" && answer.status != 204 {
        stream.write_all(&answer.body)?;
    }
    stream.flush()
}

/// A link as lists and details show it. Its members are in alphabetical order, so that they are in every build.
pub fn link(id: &str) -> serde_json::Value {
    serde_json::json!({
        "affiliate_id": null, "agent_context": {"action": "purchase", "cta": "Buy now", "description": null},
        "aliases": [],
        "android_deep_link": null, "android_store_url": null, "created_at": "2026-11-20T09:30:00.000Z",
        "enabled": true, "expired_url": null, "expires_at": null, "imported_clicks": null,
        "ios_deep_link": null, "ios_store_url": null,
        "link_id": id, "metadata": {"season": "spring"}, "name": null, "owner_expires_at": null,
        "qr": null, "social_preview": null, "status": "active", "tags": [],
        "updated_at": "2026-11-20T09:30:00.000Z", "url": format!("https://go.example.com/{id}"),
        "web_url": format!("https://example.com/p/{id}"),
    })
}

/// The history of [`link`]`("spring-42")`: one version.
pub fn history() -> Answer {
    Answer::json(200, &serde_json::json!({"versions": [fixtures::link_version()], "next_cursor": null}))
}

/// The explanation of that link to a browser on Windows.
pub fn explanation() -> Answer {
    Answer::json(200, &serde_json::to_value(fixtures::explanation("spring-42")).expect("JSON"))
}

/// The QR code of `https://go.example.com/spring-42`, which is the address of [`link`]`("spring-42")`.
pub fn qr_code(format: QrFormat) -> Answer {
    Answer::new(200, fixtures::qr_code(format).to_vec()).header("content-type", format.media_type())
}

/// SHA-256 of a signing certificate.
pub const FINGERPRINT: &str =
    "14:6D:E9:83:C5:73:06:50:D8:EE:B9:95:2F:34:FC:64:16:A0:83:42:E6:1D:BE:A8:8A:04:96:B2:3F:CF:44:E5";

/// An app as lists show it.
pub fn app(platform: &str) -> serde_json::Value {
    let ios = platform == "ios";
    let of = |there: bool, value: serde_json::Value| if there { value } else { serde_json::Value::Null };
    serde_json::json!({
        "id": if ios { "app_0123456789abcdef01234567" } else { "app_0123456789abcdef0123456a" },
        "platform": platform, "app_name": "Shop", "icon_url": null, "theme_color": "#0a7cff",
        "bundle_id": of(ios, "com.example.app".into()), "team_id": of(ios, "ABCDE12345".into()),
        "package_name": of(!ios, "com.example.app".into()),
        "sha256_fingerprints": of(!ios, serde_json::json!([FINGERPRINT])),
        "created_at": "2026-11-20T09:30:00.000Z",
    })
}

/// The token that proves a claim.
pub const TOKEN: &str = "3fa91c07be5d28463fa91c07be5d28463fa91c07be5d28463fa91c07be5d2846";

/// A domain as lists and claims show it.
pub fn domain(verified: bool) -> serde_json::Value {
    serde_json::json!({
        "domain": "go.example.com", "role": "primary", "verified": verified, "created_at": "2026-11-20T09:30:00.000Z",
        "verification_token": TOKEN, "txt_record": "_deeplink-verify.go.example.com", "cname_target": "links.example.com",
        "root_url": if verified { Some("https://www.example.com/") } else { None }, "not_found_url": null,
        "long_links": false, "allowed_hosts": [],
    })
}

/// The result of a DNS lookup.
pub fn verification(reason: Option<&str>) -> serde_json::Value {
    let found = if reason.is_some() { serde_json::json!([]) } else { serde_json::json!([TOKEN]) };
    serde_json::json!({
        "domain": "go.example.com", "verified": reason.is_none(), "checked_at": "2026-11-20T09:30:00.000Z",
        "txt_found": found, "reason": reason,
    })
}

/// The reply to a sign-up.
pub fn signed_up() -> Answer {
    signed_up_with(KEY)
}

/// The same with this key.
pub fn signed_up_with(key: &str) -> Answer {
    Answer::json(
        201,
        &serde_json::json!({
            "tenant_id": "tnt_0123456789abcdef01234567", "user_id": "usr_0123456789abcdef01234567",
            "id": "skid_0123456789abcdef01234567", "api_key": key, "key_prefix": format!("{}...", &key[..18]),
            "created_at": "2026-11-20T09:30:00.000Z",
        }),
    )
}

/// A secret key as lists show it; its id ends with this digit.
pub fn secret_key(key: &str, digit: u8) -> serde_json::Value {
    serde_json::json!({
        "id": format!("skid_{digit:024}"), "key_prefix": format!("{}...", &key[..18]),
        "created_by": "usr_0123456789abcdef01234567", "created_at": "2026-11-20T09:30:00.000Z", "last_used_at": null,
    })
}

/// A new secret key, whole, with the id of [`secret_key`].
pub fn new_key(key: &str, digit: u8) -> serde_json::Value {
    let mut made = secret_key(key, digit);
    made["key"] = key.into();
    made
}

/// A team member as lists show them.
pub fn user(email: &str) -> serde_json::Value {
    serde_json::json!({
        "id": "usr_0123456789abcdef01234567", "email": email, "verified": true, "status": "active", "is_owner": true,
        "created_at": "2026-11-20T09:30:00.000Z",
    })
}

/// The signed-in user.
pub fn me(email: &str) -> serde_json::Value {
    serde_json::json!({
        "user": {"id": "usr_0123456789abcdef01234567", "email": email, "verified": true, "is_owner": true},
        "tenant": {"id": "tnt_0123456789abcdef01234567", "created_at": "2026-11-20T09:30:00.000Z"},
    })
}

/// Who a key acts for, as the service answers it.
pub fn whoami(email: &str, tenant: &str) -> serde_json::Value {
    serde_json::json!({
        "email": email, "tenant": {"id": tenant, "created_at": "2026-11-20T09:30:00.000Z"}, "plan": "free",
        "key_id": "skid_000000000000000000000001", "key_prefix": "dl_live_3fa91c07be...", "scope": "account",
        "affiliate": null,
    })
}

/// An affiliate as lists show it.
pub fn affiliate() -> serde_json::Value {
    serde_json::json!({
        "id": "aff_0123456789abcdef01234567", "name": "Partner", "partner_key": "partner", "status": "active",
        "created_at": "2026-11-20T09:30:00.000Z", "updated_at": "2026-11-20T09:30:00.000Z",
    })
}

/// A form's redirect, with a session cookie if it starts a session.
pub fn see_other(location: &str, session: Option<&str>) -> Answer {
    let answer = Answer::new(303, "").header("location", location);
    match session {
        Some(token) => answer.header("set-cookie", &format!("session_token={token}; Path=/; HttpOnly; SameSite=Lax")),
        None => answer,
    }
}

/// Answers requests about people, their keys and partners; `None` for any other request.
pub fn of_people(request: &Request) -> Option<Answer> {
    let mut pk = serde_json::json!({
        "id": "pkid_0123456789abcdef01234567", "key_prefix": "pk_live_3fa91c07be...", "domain": "go.example.com",
        "created_at": "2026-11-20T09:30:00.000Z",
    });
    let mut credential = secret_key(OTHER_KEY, 3);
    Some(match request.line().as_str() {
        "POST /v1/auth/signup" => signed_up(),
        "POST /v1/auth/signin" => Answer::new(200, r#"{"status":"sent"}"#),
        "POST /v1/auth/callback" => see_other("/account", Some(SESSION)),
        "POST /v1/auth/verify" => see_other("/signin?invite=accepted", None),
        "GET /v1/auth/me" => Answer::json(200, &me("you@example.com")),
        "POST /v1/auth/signout" => Answer::new(204, ""),
        "GET /v1/auth/whoami" => Answer::json(200, &whoami("you@example.com", "tnt_0123456789abcdef01234567")),
        "POST /v1/auth/secret-keys/issue" | "POST /v1/auth/secret-keys/confirm" => {
            Answer::json(201, &new_key(OTHER_KEY, 2))
        }
        "GET /v1/auth/users" => {
            Answer::json(200, &serde_json::json!({"users": [user("you@example.com")], "next_cursor": null}))
        }
        "POST /v1/auth/users" => {
            Answer::new(201, r#"{"id":"usr_0123456789abcdef01234567","email":"new@example.com","status":"invited"}"#)
        }
        "GET /v1/auth/secret-keys" => Answer::json(
            200,
            &serde_json::json!({"keys": [secret_key(OTHER_KEY, 2), secret_key(KEY, 1)], "next_cursor": null}),
        ),
        "POST /v1/auth/secret-keys" => Answer::new(200, r#"{"status":"code_sent"}"#),
        "GET /v1/auth/publishable-keys" => Answer::json(200, &serde_json::json!({"keys": [pk], "next_cursor": null})),
        "POST /v1/auth/publishable-keys" => {
            pk["key"] = PUBLISHABLE.into();
            Answer::json(201, &pk)
        }
        "GET /v1/affiliates" => {
            Answer::json(200, &serde_json::json!({"affiliates": [affiliate()], "next_cursor": null}))
        }
        "POST /v1/affiliates" => Answer::json(201, &affiliate()),
        "GET /v1/affiliates/aff_0123456789abcdef01234567" | "PATCH /v1/affiliates/aff_0123456789abcdef01234567" => {
            Answer::json(200, &affiliate())
        }
        "GET /v1/affiliates/aff_0123456789abcdef01234567/credentials" => {
            Answer::json(200, &serde_json::json!({"credentials": [credential], "next_cursor": null}))
        }
        "POST /v1/affiliates/aff_0123456789abcdef01234567/credentials" => {
            credential["api_key"] = OTHER_KEY.into();
            credential["affiliate_id"] = "aff_0123456789abcdef01234567".into();
            Answer::json(201, &credential)
        }
        _ => return None,
    })
}

/// The plan of an account that pays for it.
pub fn billing_status() -> serde_json::Value {
    serde_json::json!({
        "billing_method": "stripe", "cancel_scheduled": false, "comp_active": false, "current_period_end": PERIOD_END,
        "effective_tier": "business", "limits": {
            "analytics_retention_days": 1_095, "max_domains": 20, "max_events_per_month": 500_000, "max_links": 20_000,
            "max_team_members": null, "max_webhooks": 2,
        },
        "plan_tier": "business", "quotas_enforced": true, "status": "active",
        "usage": {"domains": 5, "events_this_month": 120_400, "links": 19_204, "team_members": 7, "webhooks": 2},
    })
}

/// When its period ends: 2026-12-20.
pub const PERIOD_END: i64 = 1_797_759_000_000;

/// The checkout page.
pub const CHECKOUT_URL: &str = "https://checkout.example.com/c/pay/cs_test_0123456789abcdef";

/// The billing portal page.
pub const PORTAL_URL: &str = "https://billing.example.com/p/session/bps_0123456789abcdef";

/// Answers requests about the account's plan; `None` for any other request.
pub fn of_billing(request: &Request) -> Option<Answer> {
    Some(match request.line().as_str() {
        "GET /v1/billing/status" => Answer::json(200, &billing_status()),
        "POST /v1/billing/stripe/checkout" => Answer::json(200, &serde_json::json!({"checkout_url": CHECKOUT_URL})),
        "POST /v1/billing/stripe/portal" => Answer::json(200, &serde_json::json!({"portal_url": PORTAL_URL})),
        "POST /v1/billing/cancel" => {
            Answer::json(200, &serde_json::json!({"status": "cancel_scheduled", "current_period_end": PERIOD_END}))
        }
        _ => return None,
    })
}

/// A publishable key.
pub const PUBLISHABLE: &str = "pk_live_3fa91c07be5d2846a0c1e2f3948576b8d9eafc0b1c2d3e4f";

/// The token of a session.
pub const SESSION: &str = "5e551017be5d28463fa91c07be5d28463fa91c07be5d28463fa91c07be5d2846";

/// An association file for Apple.
pub fn association() -> serde_json::Value {
    serde_json::json!({
        "applinks": {"apps": [], "details": [{
            "appIDs": ["ABCDE12345.com.example.app"], "components": [{"/": "/*"}],
            "appID": "ABCDE12345.com.example.app", "paths": ["*"],
        }]},
        "webcredentials": {"apps": ["ABCDE12345.com.example.app"]},
    })
}

/// An association file for Google.
pub fn asset_links() -> serde_json::Value {
    serde_json::json!([{
        "relation": ["delegate_permission/common.handle_all_urls"],
        "target": {
            "namespace": "android_app", "package_name": "com.example.app", "sha256_cert_fingerprints": [FINGERPRINT],
        },
    }])
}

/// The answer to a change or deletion of many links, all of which exist but these; `None` for any other request.
pub fn many_links(request: &Request, missing: &[&str]) -> Option<Answer> {
    if request.path() != "/v1/links/bulk" || !["PATCH", "DELETE"].contains(&request.method.as_str()) {
        return None;
    }
    let body = request.json();
    let ids: Vec<&str> = body["link_ids"].as_array()?.iter().filter_map(serde_json::Value::as_str).collect();
    let row = |(index, id): (usize, &&str)| serde_json::json!({"index": index, "code": "not_found", "message": "no link with this ID", "custom_id": id});
    let errors: Vec<_> = ids.iter().enumerate().filter(|(_, id)| missing.contains(id)).map(row).collect();
    Some(if !errors.is_empty() {
        let error = format!("{} row is invalid; nothing was stored", errors.len());
        Answer::json(400, &serde_json::json!({"error": error, "code": "invalid_batch", "errors": errors}))
    } else if request.method == "DELETE" {
        Answer::json(200, &serde_json::json!({"deleted": ids.len()}))
    } else {
        Answer::json(200, &serde_json::json!({"links": ids.into_iter().map(link).collect::<Vec<_>>()}))
    })
}

/// A service with these links in its list, in pages.
pub fn with_links(count: usize) -> Double {
    Double::new(move |request| {
        let id = |at: usize| format!("link-{at:04}");
        if let Some(answer) = many_links(request, &[]) {
            return answer;
        }
        match request.line().as_str() {
            "GET /v1/links" => {
                let from: usize = request
                    .query("cursor")
                    .map_or(0, |cursor| cursor.trim_start_matches("at-").parse().expect("a cursor"));
                let limit: usize = request.query("limit").map_or(50, |limit| limit.parse().expect("a limit"));
                let to = (from + limit).min(count);
                let next = (to < count).then(|| format!("at-{to}"));
                let links: Vec<_> = (from..to).map(|at| link(&id(at))).collect();
                Answer::json(200, &serde_json::json!({"links": links, "next_cursor": next}))
            }
            line => match line.strip_prefix("GET /v1/links/") {
                Some(found) if (0..count).any(|at| id(at) == found) => Answer::json(200, &link(found)),
                _ if line.starts_with("DELETE ") => Answer::new(204, ""),
                _ => Answer::error(404, "not_found", "there is no such link"),
            },
        }
    })
}
