mod answers;
mod posts;
mod targets;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use deeplink_doubles::dns as names;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A public address; nothing is ever sent to it.
const PUBLIC: &str = "93.184.216.34";
const PUBLIC_V6: &str = "2606:2800:220:1::1";

const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";

/// A client whose connections lead to the test's server, and the addresses that it dialled.
struct Bench {
    http: Http,
    names: names::Dns,
    dialled: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Bench {
    /// Every connection ends at one server of the test.
    async fn new(server: SocketAddr) -> Self {
        Self::with(move |_| Box::pin(TcpStream::connect(server))).await
    }

    async fn with(
        connect: impl Fn(SocketAddr) -> BoxFuture<'static, std::io::Result<TcpStream>> + Send + Sync + 'static,
    ) -> Self {
        let names = names::Dns::start().await;
        let dialled = Arc::<Mutex<Vec<_>>>::default();
        let dial = {
            let dialled = Arc::clone(&dialled);
            move |address| {
                dialled.lock().expect("the list").push(address);
                connect(address)
            }
        };
        let http = Http {
            dns: Dns::new(Some(names.address())),
            allow: Networks::default(),
            dialler: Dialler::with(Arc::new(dial), None),
            pool: pool::Pool::default(),
            address_check_ttl: post::ADDRESS_CHECK_TTL,
        };
        Self { http, names, dialled }
    }

    async fn get(&self, url: &str) -> Result<Bytes, CallError> {
        self.http.call(call(url)).await
    }

    fn dialled(&self) -> Vec<String> {
        self.dialled.lock().expect("the list").iter().map(ToString::to_string).collect()
    }
}

fn call(url: &str) -> Call<'_> {
    let terms = Terms { began: Instant::now(), total: Duration::from_secs(5), largest: 1_000 };
    let accepts = |status| status == StatusCode::OK;
    Call { method: Method::GET, url, headers: HeaderMap::new(), body: Bytes::new(), accepts, terms }
}

/// A server that reads one request on each connection and hands it to `answer`.
pub(crate) async fn server<F>(
    answer: impl Fn(TcpStream, String) -> F + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let hits = Arc::new(AtomicUsize::new(0));
    tokio::spawn({
        let (hits, answer) = (Arc::clone(&hits), Arc::new(answer));
        async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                hits.fetch_add(1, Ordering::SeqCst);
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    while !request.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = socket.read_u8().await else { return };
                        request.push(byte);
                    }
                    answer(socket, String::from_utf8(request).expect("text")).await;
                });
            }
        }
    });
    (address, hits)
}

/// A server that always sends this, and then closes.
pub(crate) async fn says(text: impl Into<Vec<u8>>) -> (SocketAddr, Arc<AtomicUsize>) {
    let text = Arc::new(text.into());
    server(move |mut socket, _| {
        let text = Arc::clone(&text);
        async move {
            // A client that has read enough hangs up.
            drop(socket.write_all(&text).await);
            drop(socket.shutdown().await);
        }
    })
    .await
}
