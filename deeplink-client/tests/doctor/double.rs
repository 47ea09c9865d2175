//! Servers that say what a test wants said: over plain http, and over TLS with a certificate of the test's choice.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// One request as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) host: String,
    pub(crate) agent: String,
    pub(crate) accept: String,
    pub(crate) purpose: String,
    pub(crate) authorized: bool,
    /// It came over IPv6.
    pub(crate) six: bool,
}

/// What is said in return.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Nothing is said for ever.
    pub(crate) silent: bool,
}

impl Reply {
    pub(crate) fn new(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: vec![("content-type", kind.to_owned())], body: body.into(), silent: false }
    }

    pub(crate) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    pub(crate) fn redirect(to: &str) -> Self {
        Self::new(302, "text/plain", "").header("location", to)
    }

    pub(crate) fn silence() -> Self {
        Self { silent: true, ..Self::new(200, "text/plain", "") }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }
}

/// Who a server says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Itself, for so many more days.
    Days(u64),
    /// Itself, until yesterday.
    Ended,
    /// Somebody else.
    Other,
    /// Itself, by its own word alone.
    SelfSigned,
    /// Nobody: it does not speak TLS.
    Plain,
}

/// Answers requests.
pub(crate) type Answers = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

/// A server that runs until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn http(answers: Answers) -> Self {
        Self::start(IpAddr::V4(Ipv4Addr::LOCALHOST), None, answers).await
    }

    /// Speaks TLS on 127.0.0.1, or on `::1`.
    pub(crate) async fn https(six: bool, tls: Option<TlsAcceptor>, answers: Answers) -> Self {
        let at = if six { IpAddr::V6(Ipv6Addr::LOCALHOST) } else { IpAddr::V4(Ipv4Addr::LOCALHOST) };
        Self::start(at, tls, answers).await
    }

    async fn start(at: IpAddr, tls: Option<TlsAcceptor>, answers: Answers) -> Self {
        let listener = TcpListener::bind((at, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (tls, answers) = (tls.clone(), Arc::clone(&answers));
                tokio::spawn(async move {
                    match tls {
                        None => serve(socket, at.is_ipv6(), &answers).await,
                        Some(tls) => match tls.accept(socket).await {
                            Ok(stream) => serve(stream, at.is_ipv6(), &answers).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self { address, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Answers what comes over one connection, until it ends.
async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, six: bool, answers: &Answers) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut request = Request { six, ..Request::default() };
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        let mut words = line.split(' ');
        (request.method, request.target) = (words.next()?.to_owned(), words.next()?.to_owned());
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "host" => value.split(':').next()?.clone_into(&mut request.host),
                "user-agent" => value.clone_into(&mut request.agent),
                "accept" => value.clone_into(&mut request.accept),
                "sec-purpose" => value.clone_into(&mut request.purpose),
                "authorization" => request.authorized = true,
                _ => {}
            }
        }
        let reply = answers(&request);
        if reply.silent {
            std::future::pending::<()>().await;
        }
        let mut head = format!("HTTP/1.1 {} Told\r\ncontent-length: {}\r\n", reply.status, reply.body.len());
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.ok()?;
        if request.method != "HEAD" {
            stream.write_all(&reply.body).await.ok()?;
        }
        stream.flush().await.ok()?;
    }
}

/// A certificate authority of the test's own.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// What a server of these names needs to speak TLS, unless it does not.
    #[expect(clippy::disallowed_methods, reason = "a certificate is judged by the clock on the wall")]
    pub(crate) fn acceptor(&self, names: &[&str], identity: Identity) -> Option<TlsAcceptor> {
        let names: Vec<String> = match identity {
            Identity::Plain => return None,
            Identity::Other => vec!["other.example.net".to_owned()],
            _ => names.iter().map(ToString::to_string).collect(),
        };
        let (now, day) = (SystemTime::now(), Duration::from_hours(24));
        let mut params = CertificateParams::new(names).expect("names");
        params.not_before = (now - 30 * day).into();
        params.not_after = match identity {
            Identity::Ended => (now - day).into(),
            Identity::Days(days) => {
                (now + day * u32::try_from(days).expect("a lifetime") + Duration::from_hours(1)).into()
            }
            _ => (now + 90 * day).into(),
        };
        let key = KeyPair::generate().expect("a key");
        let certificate = match identity {
            Identity::SelfSigned => params.self_signed(&key),
            _ => params.signed_by(&key, &self.0),
        };
        let chain = vec![certificate.expect("a certificate").der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("protocols")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a certificate and its key");
        Some(TlsAcceptor::from(Arc::new(config)))
    }
}
