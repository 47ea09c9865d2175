//! A webhook receiver: TLS on 127.0.0.2, keep-alive, records its requests, gives scripted answers.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::authority::{Authority, Identity};

/// Names that its certificate is for.
const NAMES: [&str; 3] = ["hooks.example.com", "other.example.com", "127.0.0.2"];

/// A received POST.
#[derive(Debug, Clone)]
pub struct Heard {
    /// When it had been received completely.
    pub at: Instant,
    /// The number of its connection.
    pub connection: usize,
    /// The path, with its query.
    pub path: String,
    /// By name, in lower case.
    pub headers: HashMap<String, String>,
    /// The body, as it came.
    pub body: Vec<u8>,
}

impl Heard {
    /// A header that must be there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.headers))
    }

    /// The event's id.
    pub fn id(&self) -> &str {
        self.header("webhook-id")
    }
}

/// What a receiver does with a POST.
#[derive(Debug, Clone)]
pub enum Say {
    /// Answers this status, and keeps the connection.
    Status(u16),
    /// Writes these bytes and closes.
    Bytes(Vec<u8>),
    /// Writes the first bytes, then the others repeatedly with a pause in between.
    Endless(Vec<u8>, Vec<u8>, Duration),
    /// Answers this status once it is released.
    Held(Arc<Notify>, u16),
    /// Says nothing and keeps the connection open.
    Nothing,
    /// Closes at once.
    Close,
}

type Speaks = Box<dyn Fn(&Heard, usize) -> Say + Send + Sync>;

struct Inner {
    heard: Mutex<Vec<Heard>>,
    connections: AtomicUsize,
    speaks: Mutex<Speaks>,
}

/// A running receiver.
#[derive(Clone)]
pub struct Receiver {
    /// Where it listens.
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

impl Receiver {
    /// One with a certificate from `authority`, or without TLS.
    pub async fn new(
        authority: &Authority,
        identity: Identity,
        speaks: impl Fn(&Heard, usize) -> Say + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let inner = Arc::new(Inner {
            heard: Mutex::default(),
            connections: AtomicUsize::new(0),
            speaks: Mutex::new(Box::new(speaks)),
        });
        let acceptor = authority.acceptor(&NAMES, identity);
        tokio::spawn({
            let inner = Arc::clone(&inner);
            async move {
                while let Ok((socket, _)) = listener.accept().await {
                    let _ = socket.set_nodelay(true);
                    let number = inner.connections.fetch_add(1, Ordering::SeqCst);
                    let (inner, acceptor) = (Arc::clone(&inner), acceptor.clone());
                    tokio::spawn(async move {
                        match acceptor {
                            Some(acceptor) => {
                                if let Ok(socket) = acceptor.accept(socket).await {
                                    serve(socket, &inner, number).await;
                                }
                            }
                            None => serve(socket, &inner, number).await,
                        }
                    });
                }
            }
        });
        Self { address, inner }
    }

    /// One that answers correctly.
    pub async fn fine(authority: &Authority) -> Self {
        Self::new(authority, Identity::Days(1), |_, _| Say::Status(204)).await
    }

    /// One that always does the same.
    pub async fn says(authority: &Authority, say: Say) -> Self {
        Self::new(authority, Identity::Days(1), move |_, _| say.clone()).await
    }

    /// Changes what it does.
    pub fn now(&self, speaks: impl Fn(&Heard, usize) -> Say + Send + Sync + 'static) {
        *self.inner.speaks.lock().expect("its behaviour") = Box::new(speaks);
    }

    /// Its URL, by a name.
    pub fn url(&self, name: &str, path: &str) -> String {
        format!("https://{name}:{}{path}", self.address.port())
    }

    /// All POSTs so far.
    pub fn heard(&self) -> Vec<Heard> {
        self.inner.heard.lock().expect("the record").clone()
    }

    /// The number of POSTs so far.
    pub fn hits(&self) -> usize {
        self.inner.heard.lock().expect("the record").len()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.inner.connections.load(Ordering::SeqCst)
    }
}

async fn serve(socket: impl AsyncRead + AsyncWrite + Unpin, inner: &Inner, number: usize) {
    let mut socket = BufReader::new(socket);
    while let Some(heard) = hear(&mut socket, number).await {
        let nth = {
            let mut all = inner.heard.lock().expect("the record");
            all.push(heard.clone());
            all.len()
        };
        let say = inner.speaks.lock().expect("its behaviour")(&heard, nth);
        if !speak(&mut socket, say).await {
            drop(socket.shutdown().await);
            return;
        }
    }
}

/// Reads one request with a body of a known length.
async fn hear(socket: &mut (impl AsyncRead + Unpin), connection: usize) -> Option<Heard> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).expect("text");
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    socket.read_exact(&mut body).await.ok()?;
    Some(Heard { at: Instant::now(), connection, path, headers, body })
}

async fn speak(socket: &mut (impl AsyncRead + AsyncWrite + Unpin), say: Say) -> bool {
    if let Say::Held(held, _) = &say {
        held.notified().await;
    }
    match say {
        Say::Status(status) | Say::Held(_, status) => {
            let body = if status == 204 { "" } else { "noted" };
            let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
            let answer = format!("HTTP/1.1 {status} So\r\n{length}\r\n{body}");
            socket.write_all(answer.as_bytes()).await.is_ok() && socket.flush().await.is_ok()
        }
        Say::Bytes(bytes) => {
            drop(socket.write_all(&bytes).await);
            drop(socket.flush().await);
            false
        }
        Say::Endless(begin, again, pause) => {
            drop(socket.write_all(&begin).await);
            while socket.write_all(&again).await.is_ok() && socket.flush().await.is_ok() {
                tokio::time::sleep(pause).await;
            }
            false
        }
        Say::Nothing => {
            // Until the client closes the connection.
            drop(socket.read_u8().await);
            false
        }
        Say::Close => false,
    }
}
