//! A relay in front of a PostgreSQL server, whose connections can be forgotten as if the server's machine had vanished.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// A relay that listens on a port of its own for as long as the test's runtime lives.
#[derive(Debug)]
pub struct Relay {
    url: String,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How often the connections were forgotten.
    forgotten: AtomicU64,
    forgets_at_commit: AtomicBool,
}

impl Relay {
    /// Starts a relay to the server of a database URL.
    pub async fn start(database: &str) -> Self {
        let mut url = Url::parse(database).expect("a database URL");
        let server = (url.host_str().expect("a host").to_owned(), url.port().expect("a port"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        url.set_host(Some("127.0.0.1")).expect("a host");
        url.set_port(Some(port)).expect("a port");
        let relay = Self { url: url.into(), state: Arc::default() };
        let state = Arc::clone(&relay.state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((server.0.as_str(), server.1)).await.expect("the server");
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let state = || Arc::clone(&state);
                tokio::spawn(carry(from_client, to_server, state(), true));
                tokio::spawn(carry(from_server, to_client, state(), false));
            }
        });
        relay
    }

    /// The database's URL through the relay.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Once the next COMMIT has reached the server, carries nothing more on the connections that there are, and closes none
    /// of them. What is sent on them is still acknowledged by the kernel. New connections work.
    pub fn forget_connections_at_commit(&self) {
        self.state.forgets_at_commit.store(true, Ordering::SeqCst);
    }

    /// Whether connections were forgotten.
    pub fn has_forgotten(&self) -> bool {
        self.state.forgotten.load(Ordering::SeqCst) > 0
    }
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    state: Arc<State>,
    is_from_client: bool,
) {
    let begun = state.forgotten.load(Ordering::SeqCst);
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let bytes = &buffer[..length];
        if state.forgotten.load(Ordering::SeqCst) != begun {
            continue;
        }
        let commits = is_from_client && bytes.windows(6).any(|word| word == b"COMMIT");
        if commits && state.forgets_at_commit.swap(false, Ordering::SeqCst) {
            // Before the server can answer.
            state.forgotten.fetch_add(1, Ordering::SeqCst);
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
    if state.forgotten.load(Ordering::SeqCst) != begun {
        std::future::pending::<()>().await;
    }
}
