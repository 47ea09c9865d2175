//! Opens connections, plain or TLS, to addresses that were checked before, within three seconds.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::http::CallError;
use crate::config::TrustedRoots;

/// How long it may take to connect, including TLS.
pub(super) const CONNECT: Duration = Duration::from_secs(3);
/// The delay after which the next address is tried in parallel (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Addresses of a host that are tried, so that one call does not open hundreds of connections.
const MAX_ADDRESSES: usize = 4;

/// Opens a connection to an address; it gets nothing else.
pub(super) type Dial = Arc<dyn Fn(SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> + Send + Sync>;

/// A connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Makes connections.
pub(super) struct Dialler {
    dial: Dial,
    trusted: Option<TrustedRoots>,
    /// Created on first use: it reads the system's certificates.
    tls: OnceCell<TlsConnector>,
}

impl Dialler {
    /// Trusts the system's authorities and these.
    pub(super) fn new(trusted: Option<TrustedRoots>) -> Self {
        Self::with(Arc::new(|address| Box::pin(TcpStream::connect(address))), trusted)
    }

    /// As [`Dialler::new`], with another way to open a connection.
    pub(super) fn with(dial: Dial, trusted: Option<TrustedRoots>) -> Self {
        Self { dial, trusted, tls: OnceCell::new() }
    }

    /// Connects to one of these addresses of a URL's host; returns the connection and that address.
    pub(super) async fn connect(
        &self,
        url: &Url,
        addresses: &[SocketAddr],
    ) -> Result<(Box<dyn Stream>, SocketAddr), CallError> {
        let connect = async {
            let (address, stream) = self.first_of(addresses).await.map_err(CallError::Connect)?;
            // This affects only speed.
            let _ = stream.set_nodelay(true);
            if url.scheme() != "https" {
                return Ok((Box::new(stream) as Box<dyn Stream>, address));
            }
            let secured = self.tls().await?.connect(server_name(url)?, stream).await.map_err(CallError::Tls)?;
            Ok((Box::new(secured) as Box<dyn Stream>, address))
        };
        timeout(CONNECT, connect).await.unwrap_or(Err(CallError::NotConnected))
    }

    /// The first connection that succeeds; each address has a head start before the next one.
    async fn first_of(&self, addresses: &[SocketAddr]) -> io::Result<(SocketAddr, TcpStream)> {
        let mut waiting: VecDeque<_> = in_turns(addresses).take(MAX_ADDRESSES).collect();
        let mut tries = FuturesUnordered::new();
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        loop {
            match waiting.pop_front() {
                Some(address) => {
                    let connection = (self.dial)(address);
                    tries.push(async move { connection.await.map(|stream| (address, stream)) });
                }
                None if tries.is_empty() => return Err(last),
                None => {}
            }
            let limit = if waiting.is_empty() { CONNECT } else { ATTEMPT_DELAY };
            match timeout(limit, tries.next()).await {
                Ok(Some(Ok(stream))) => return Ok(stream),
                Ok(Some(Err(error))) => last = error,
                Ok(None) | Err(_) => {}
            }
        }
    }

    async fn tls(&self) -> Result<&TlsConnector, CallError> {
        let make = || async {
            let trusted: Vec<_> = self.trusted.iter().flat_map(TrustedRoots::certificates).cloned().collect();
            let made = tokio::task::spawn_blocking(move || connector(trusted)).await;
            made.map_err(|error| CallError::NoTls(error.to_string()))?
                .map_err(|error| CallError::NoTls(error.to_string()))
        };
        self.tls.get_or_try_init(make).await
    }
}

/// The two families alternately, the first one's first, so that a machine with only one of them comes to it soon (RFC
/// 8305, section 4).
fn in_turns(addresses: &[SocketAddr]) -> impl Iterator<Item = SocketAddr> {
    let is_first = |address: &&SocketAddr| Some(address.is_ipv6()) == addresses.first().map(SocketAddr::is_ipv6);
    let mut first = addresses.iter().filter(is_first).copied();
    let mut second = addresses.iter().filter(|address| !is_first(address)).copied();
    let pairs = (0..addresses.len()).flat_map(|_| [first.next(), second.next()]).flatten().collect::<Vec<_>>();
    pairs.into_iter()
}

fn connector(trusted: Vec<CertificateDer<'static>>) -> Result<TlsConnector, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Verifier::new_with_extra_roots(trusted, Arc::clone(&provider))?;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    // "Dangerous" means choosing the verifier; this one does verify, with the system's authorities.
    let config = config.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn server_name(url: &Url) -> Result<ServerName<'static>, CallError> {
    match url.host() {
        Some(Host::Domain(name)) => ServerName::try_from(name.trim_end_matches('.').to_owned())
            .map_err(|error| CallError::NoTls(error.to_string())),
        Some(Host::Ipv4(address)) => Ok(ServerName::IpAddress(std::net::IpAddr::V4(address).into())),
        Some(Host::Ipv6(address)) => Ok(ServerName::IpAddress(std::net::IpAddr::V6(address).into())),
        None => Err(CallError::NoTls("there is no host".to_owned())),
    }
}
