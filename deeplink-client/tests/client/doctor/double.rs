//! Servers that answer as a test defines: over plain http, and over TLS with a certificate of the test's choice.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// One request as received.
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

/// The answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// It never answers.
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

/// Answers the requests of one connection until it ends.
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
        let headers: Vec<_> = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let headers = headers.concat();
        let head = format!("HTTP/1.1 {} Told\r\ncontent-length: {}\r\n{headers}", reply.status, reply.body.len());
        stream.write_all(format!("{head}\r\n").as_bytes()).await.ok()?;
        if request.method != "HEAD" {
            stream.write_all(&reply.body).await.ok()?;
        }
        stream.flush().await.ok()?;
    }
}
