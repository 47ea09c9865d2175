//! Requests as visitors send them: no key, no redirect followed, one address family at a time where it matters.

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use deeplink_core::time::Timestamp;
use deeplink_core::url::{domain_origin, is_localhost};
use futures_util::StreamExt;
use http::{HeaderMap, Method};
use reqwest::tls::TlsInfo;
use tokio::sync::OnceCell;
use url::{Host, Url};

use super::names::Names;
use crate::builder;
use crate::error::{Error, Kind, Result};

/// How to reach servers.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) limit: Duration,
    pub(super) dns: Option<SocketAddr>,
    /// Addresses of hosts, in the order given.
    pub(super) connect: Vec<(String, SocketAddr)>,
    pub(super) roots: Vec<Vec<u8>>,
}

/// Reaches servers.
pub(super) struct Probe {
    settings: Settings,
    /// The service's URL.
    service: Url,
    names: Names,
    plain: reqwest::Client,
}

impl Probe {
    pub(super) fn new(settings: Settings, service: Url) -> Result<Self> {
        let names = Names::new(settings.dns);
        let mut hosts: Vec<&str> = settings.connect.iter().map(|(host, _)| host.as_str()).collect();
        hosts.dedup();
        let builder = builder(&settings)?;
        let builder = hosts.into_iter().fold(builder, |builder, host| {
            let addresses: Vec<_> = given(&settings, host).collect();
            builder.resolve_to_addrs(host, &addresses)
        });
        let plain = build(builder)?;
        Ok(Self { settings, service, names, plain })
    }

    pub(super) fn limit(&self) -> Duration {
        self.settings.limit
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Whether an address was given for this host.
    pub(super) fn knows(&self, host: &str) -> bool {
        given(&self.settings, host).next().is_some()
    }

    /// Whether a host is this machine by its name, which is not looked up (RFC 6761, section 6.3).
    pub(super) fn is_local(&self, host: &str) -> bool {
        is_localhost(host) && !self.knows(host)
    }

    /// The addresses of local names: the one that the service is reached at, if its URL has one.
    fn local_addresses(&self) -> Vec<IpAddr> {
        match self.service.host() {
            Some(Host::Ipv4(address)) if address.is_loopback() => vec![address.into()],
            Some(Host::Ipv6(address)) if address.is_loopback() => vec![address.into()],
            _ => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        }
    }

    /// The client for servers that are not the account's hosts.
    pub(super) fn plain(&self) -> &reqwest::Client {
        &self.plain
    }
}

fn given(settings: &Settings, host: &str) -> impl Iterator<Item = SocketAddr> {
    settings.connect.iter().filter(move |(known, _)| known == host).map(|(_, address)| *address)
}

fn builder(settings: &Settings) -> Result<reqwest::ClientBuilder> {
    let builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(settings.limit)
        .tls_info(true);
    builder::trust(builder, &settings.roots)
}

fn build(builder: reqwest::ClientBuilder) -> Result<reqwest::Client> {
    builder.build().map_err(|why| Error::from_source(Kind::Builder, "the HTTP client cannot be built", why))
}

/// A host of the account and its addresses. DNS is queried once.
pub(super) struct Site {
    pub(super) name: String,
    /// Its origin: https, or, for a local name, the service's scheme and port.
    pub(super) origin: String,
    /// Whether the name is local; see [`Probe::is_local`].
    pub(super) is_local: bool,
    probe: Arc<Probe>,
    ways: OnceCell<Result<Ways, String>>,
}

/// How a host is reached.
pub(super) struct Ways {
    /// At any of its addresses.
    pub(super) any: reqwest::Client,
    /// At only its IPv4 or only its IPv6 addresses, if it has both.
    pub(super) families: Vec<(&'static str, reqwest::Client)>,
    /// The first address, for display.
    pub(super) address: String,
}

impl Site {
    pub(super) fn new(probe: &Arc<Probe>, name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let is_local = probe.is_local(&name);
        let origin = if is_local { domain_origin(&probe.service, &name) } else { format!("https://{name}") };
        Self { name, origin, is_local, probe: Arc::clone(probe), ways: OnceCell::new() }
    }

    /// The addresses of this host, or why there is none.
    pub(super) async fn ways(&self) -> Result<&Ways, &str> {
        self.ways.get_or_init(|| self.find()).await.as_ref().map_err(String::as_str)
    }

    async fn find(&self) -> Result<Ways, String> {
        let mut addresses: Vec<_> = given(&self.probe.settings, &self.name).collect();
        if addresses.is_empty() {
            let found = if self.is_local {
                self.probe.local_addresses()
            } else {
                self.probe.names.addresses(&self.name).await?
            };
            // Port 0 means the scheme's default port.
            addresses = found.into_iter().map(|address| SocketAddr::new(address, 0)).collect();
        }
        let (four, six): (Vec<_>, Vec<_>) = addresses.iter().partition(|address| address.is_ipv4());
        // A service on this machine need not listen on both.
        let families = match (four.is_empty(), six.is_empty()) {
            (false, false) if !self.is_local => vec![("IPv4", self.client(&four)?), ("IPv6", self.client(&six)?)],
            _ => Vec::new(),
        };
        let address = addresses.first().map(|address| address.ip().to_string()).unwrap_or_default();
        Ok(Ways { any: self.client(&addresses)?, families, address })
    }

    fn client(&self, addresses: &[SocketAddr]) -> Result<reqwest::Client, String> {
        let builder = builder(&self.probe.settings).map_err(|error| error.to_string())?;
        // A proxy would look up the host itself.
        let builder = builder.no_proxy().resolve_to_addrs(&self.name, addresses);
        build(builder).map_err(|error| error.to_string())
    }

    /// Asks this host; `path` begins with a slash.
    pub(super) async fn get(&self, path: &str, headers: Headers<'_>, most: usize) -> Result<Answer, Fault> {
        let ways = self.ways().await.map_err(|why| Fault { kind: FaultKind::Unreachable, text: why.to_owned() })?;
        ask(&ways.any, Method::GET, &format!("{}{path}", self.origin), headers, most).await
    }
}

/// Headers of a request.
pub(super) type Headers<'a> = &'a [(&'static str, &'a str)];

/// A response.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// The body is longer than the limit; the rest was not read.
    pub(super) cut: bool,
    /// The server's certificate (DER).
    certificate: Option<Vec<u8>>,
    pub(super) took: Duration,
}

impl Answer {
    /// A header's value, with several lines joined; empty if absent.
    pub(super) fn header(&self, name: &str) -> String {
        let values = self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.collect::<Vec<_>>().join(", ")
    }

    /// The media type without parameters, in lower case.
    pub(super) fn media_type(&self) -> String {
        let header = self.header("content-type");
        header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// The status, and where a redirect leads.
    pub(super) fn outline(&self) -> String {
        match self.header("location") {
            location if location.is_empty() || !(300..400).contains(&self.status) => format!("HTTP {}", self.status),
            location => format!("HTTP {} to {}", self.status, short(&location)),
        }
    }

    /// When the server's certificate expires.
    pub(super) fn certificate_end(&self) -> Option<Timestamp> {
        let (_, certificate) = x509_parser::parse_x509_certificate(self.certificate.as_deref()?).ok()?;
        Some(Timestamp::from_millis(certificate.validity().not_after.timestamp().checked_mul(1_000)?))
    }
}

/// How a request without a response failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// No connection.
    Unreachable,
    /// No route from this machine, for example without IPv6; this says nothing about the host.
    NoWay,
    /// The TLS handshake failed.
    Tls,
    /// The answer was cut off.
    Broken,
}

/// A request without a response.
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) text: String,
}

/// Sends a request and reads at most `most` bytes of the answer.
pub(super) async fn ask(
    client: &reqwest::Client,
    method: Method,
    url: &str,
    headers: Headers<'_>,
    most: usize,
) -> Result<Answer, Fault> {
    let start = Instant::now();
    let request =
        headers.iter().fold(client.request(method, url), |request, (name, value)| request.header(*name, *value));
    let reply = request.send().await.map_err(|error| fault(&error))?;
    let certificate = reply.extensions().get::<TlsInfo>().and_then(TlsInfo::peer_certificate).map(<[u8]>::to_vec);
    let (status, headers, took) = (reply.status().as_u16(), reply.headers().clone(), start.elapsed());
    let (mut body, mut cut) = (Vec::new(), false);
    let mut stream = reply.bytes_stream();
    while let Some(chunk) = stream.next().await {
        body.extend_from_slice(&chunk.map_err(|error| fault(&error))?);
        if body.len() > most {
            body.truncate(most);
            cut = true;
            break;
        }
    }
    Ok(Answer { status, headers, body, cut, certificate, took })
}

fn fault(error: &reqwest::Error) -> Fault {
    let mut cause: &dyn StdError = error;
    let (mut tls, mut no_way) = (false, false);
    while let Some(next) = cause.source() {
        if let Some(io) = next.downcast_ref::<io::Error>().filter(|_| error.is_connect()) {
            tls |= is_handshake(io);
            no_way |= matches!(io.kind(), io::ErrorKind::NetworkUnreachable | io::ErrorKind::AddrNotAvailable);
        }
        cause = next;
    }
    let kind = match error.is_connect() {
        _ if tls => FaultKind::Tls,
        _ if no_way => FaultKind::NoWay,
        true => FaultKind::Unreachable,
        false => FaultKind::Broken,
    };
    let text = cause.to_string();
    let text = text.split(" (os error ").next().unwrap_or(&text).to_lowercase();
    Fault { kind, text: if kind == FaultKind::Tls { handshake(&text) } else { text } }
}

/// Why a handshake failed, in words.
fn handshake(text: &str) -> String {
    let known = [
        ("expired", "the certificate has expired"),
        ("not valid yet", "the certificate is not valid yet"),
        ("not valid for name", "the certificate is for another name"),
        ("unknownissuer", "the certificate is not signed by a trusted authority, or its chain is incomplete"),
        ("badsignature", "the certificate is not signed by a trusted authority, or its chain is incomplete"),
        ("corrupt message", "the server does not speak TLS"),
        ("eof", "the server does not speak TLS"),
        ("protocolversion", "the server does not speak TLS 1.2 or later"),
    ];
    let words = known.iter().find(|(part, _)| text.contains(part)).map(|(_, words)| (*words).to_owned());
    words.unwrap_or_else(|| format!("no secure connection: {text}"))
}

/// Whether a handshake failed: it shows as invalid data, or as an early end if the server does not speak TLS.
fn is_handshake(error: &io::Error) -> bool {
    // One I/O error may wrap another that is not among its sources.
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>());
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) || inner.is_some_and(is_handshake)
}

/// A text for one line: control characters replaced by blanks, at most 120 characters.
pub(super) fn short(text: &str) -> String {
    let mut line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(121).collect();
    if line.chars().count() > 120 {
        line = line.chars().take(119).chain(['\u{2026}']).collect();
    }
    line
}
