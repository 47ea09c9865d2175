//! A proxy before pebble, which has no rate limits; it refuses every order of one name.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// Its `Retry-After`.
pub(crate) const SECONDS: i64 = 7_200;

/// The name it refuses, and where everything else is sent.
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    pub(crate) pebble: String,
    /// Over HTTP/1.1: pebble builds its URLs from the `Host` header.
    pub(crate) client: Client,
}

/// Listens on a port of 127.0.0.1 until the test ends, with a certificate and its key in PEM.
pub(crate) async fn start(port: u16, [chain, key]: &[PathBuf; 2], limit: Limit) {
    let chain = CertificateDer::pem_slice_iter(&fs::read(chain).expect("a file")).collect::<Result<Vec<_>, _>>();
    let key = PrivateKeyDer::from_pem_slice(&fs::read(key).expect("a file")).expect("a key");
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain.expect("PEM"), key);
    let acceptor = TlsAcceptor::from(Arc::new(config.expect("a certificate")));
    let tcp = TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
    let limit = Arc::new(limit);
    tokio::spawn(async move {
        while let Ok((stream, _)) = tcp.accept().await {
            let (acceptor, limit) = (acceptor.clone(), Arc::clone(&limit));
            tokio::spawn(async move { limit.serve(acceptor.accept(stream).await?).await });
        }
    });
}

/// One request.
#[derive(Default)]
struct Asked {
    method: String,
    path: String,
    host: String,
    content_type: String,
    body: Vec<u8>,
}

impl Limit {
    /// Answers one request, and closes.
    async fn serve(&self, stream: TlsStream<TcpStream>) -> io::Result<()> {
        let mut stream = BufStream::new(stream);
        let asked = read(&mut stream).await?;
        let answer = if self.refuses(&asked.body) {
            let problem = json!({"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many of them"});
            let problem = problem.to_string();
            let length = problem.len();
            let head = format!("HTTP/1.1 429 Too Many Requests\r\nRetry-After: {SECONDS}\r\nContent-Length: {length}");
            format!("{head}\r\nConnection: close\r\n\r\n{problem}").into_bytes()
        } else {
            self.pass_on(asked).await
        };
        stream.write_all(&answer).await?;
        stream.shutdown().await
    }

    async fn pass_on(&self, asked: Asked) -> Vec<u8> {
        let method = Method::from_bytes(asked.method.as_bytes()).expect("a method");
        let call = self.client.request(method, format!("{}{}", self.pebble, asked.path));
        let call = call.header("host", asked.host).header("content-type", asked.content_type).body(asked.body);
        let answer = call.send().await.expect("pebble answers");
        let mut text = format!("HTTP/1.1 {}\r\nConnection: close\r\n", answer.status()).into_bytes();
        for (name, value) in answer.headers() {
            if !["connection", "content-length", "transfer-encoding"].contains(&name.as_str()) {
                text.extend_from_slice(format!("{name}: ").as_bytes());
                text.extend_from_slice(value.as_bytes());
                text.extend_from_slice(b"\r\n");
            }
        }
        let body = answer.bytes().await.expect("an answer");
        text.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        text.extend_from_slice(&body);
        text
    }

    /// Whether a signed request orders the name.
    fn refuses(&self, body: &[u8]) -> bool {
        let Ok(signed) = serde_json::from_slice::<Value>(body) else { return false };
        let payload = URL_SAFE_NO_PAD.decode(signed["payload"].as_str().unwrap_or_default()).expect("base64url");
        let payload = serde_json::from_slice::<Value>(&payload).unwrap_or_default();
        payload["identifiers"][0]["value"] == self.name
    }
}

async fn read(stream: &mut BufStream<TlsStream<TcpStream>>) -> io::Result<Asked> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut asked = Asked { method, path, ..Asked::default() };
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "host" => value.clone_into(&mut asked.host),
            "content-type" => value.clone_into(&mut asked.content_type),
            "content-length" => asked.body.resize(value.parse().expect("a length"), 0),
            _ => {}
        }
    }
    stream.read_exact(&mut asked.body).await?;
    Ok(asked)
}
