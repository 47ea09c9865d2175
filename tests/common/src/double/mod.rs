//! A service that gives scripted answers and records its requests; and what the real one would answer about links, people,
//! domains and plans.

mod billing;
mod domains;
mod links;
mod people;

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tokio::net::TcpSocket;

pub use self::billing::{CHECKOUT_URL, PERIOD_END, PORTAL_URL, billing_status, of_billing};
pub use self::domains::{FINGERPRINT, TOKEN, app, asset_links, association, domain, verification};
pub use self::links::{explanation, history, link, many_links, qr_code, with_links};
pub use self::people::{
    PUBLISHABLE, SESSION, affiliate, me, new_key, of_people, secret_key, see_other, signed_up, signed_up_with, user,
    whoami,
};

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
