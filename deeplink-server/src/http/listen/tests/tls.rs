//! The TLS listener: the same limits, and only names that have a certificate.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::deadline::{Shared, TICK, millis};
use super::super::socket::{Socket, Transport};
use super::super::state::{Command, ConnectionState};
use super::super::tls::secured;
use super::*;
use crate::http::listen::Certificates;

const NAME: &str = "go.example.com";

/// One name has a certificate.
struct One {
    config: Arc<ServerConfig>,
    asked: Mutex<Vec<String>>,
}

impl Certificates for One {
    fn of<'a>(&'a self, name: &'a str, _: Option<IpAddr>) -> BoxFuture<'a, Option<Arc<ServerConfig>>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let found = (name == NAME).then(|| Arc::clone(&self.config));
        async move { found }.boxed()
    }
}

/// A server with both listeners; `server` has the address of the one with TLS.
struct Secure {
    server: Server,
    plain: SocketAddr,
    root: CertificateDer<'static>,
    one: Arc<One>,
}

impl Secure {
    fn start(limits: Limits) -> Self {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let key = made.signing_key.serialize_pem();
        let config = crate::certificates::server_config(&made.cert.pem(), key.as_bytes(), None).unwrap();
        let one = Arc::new(One { config: Arc::new(config), asked: Mutex::default() });
        let [plain, secure] = [0, 1].map(|_| bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap());
        let (plain_address, address) = (plain.local_addr().unwrap(), secure.local_addr().unwrap());
        let listeners = Listeners::with_tls(plain, secure, Arc::clone(&one) as Arc<dyn Certificates>);
        let server = Server::on(address, listeners, limits);
        Self { server, plain: plain_address, root: made.cert.der().clone(), one }
    }

    /// Completes a TLS handshake for a name, offering a protocol or none.
    async fn connect(&self, name: &'static str, protocol: Option<&[u8]>) -> std::io::Result<TlsStream<TcpStream>> {
        self.connect_to(self.server.address, name, protocol).await
    }

    async fn connect_to(
        &self,
        address: SocketAddr,
        name: &'static str,
        protocol: Option<&[u8]>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocol.map(<[u8]>::to_vec).into_iter().collect();
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(name).unwrap(), stream).await
    }

    async fn secured(&self) -> TlsStream<TcpStream> {
        self.connect(NAME, Some(b"http/1.1")).await.expect("TLS is agreed on")
    }
}

/// Everything that arrives until the connection is quiet or over.
async fn answered(stream: &mut TlsStream<TcpStream>) -> String {
    let mut bytes = vec![0; 4_096];
    let read = timeout(MOMENT, stream.read(&mut bytes)).await.expect("an answer in time").unwrap_or(0);
    String::from_utf8_lossy(&bytes[..read]).to_lowercase()
}

#[tokio::test]
async fn http_is_spoken_inside_tls_as_outside() {
    let secure = Secure::start(limits());
    let mut stream = secure.secured().await;
    for path in ["/a", "/b"] {
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let answer = answered(&mut stream).await;
        assert!(answer.starts_with("http/1.1 302 found\r\n"), "{answer}");
    }
    // In one read with the end of the handshake, and with a body that must be delimited.
    stream.write_all(b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc").await.unwrap();
    assert!(answered(&mut stream).await.contains("read 3"));
    let mut plain = TcpStream::connect(secure.plain).await.unwrap();
    plain.write_all(b"GET /plain HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(read_answer(&mut plain).await.0.starts_with("http/1.1 302 found\r\n"));
    assert_eq!(secure.server.paths(), ["/a", "/b", "/read", "/plain"]);
}

#[tokio::test]
async fn http2_is_agreed_on_where_the_client_can() {
    let secure = Secure::start(limits());
    let mut stream = secure.connect(NAME, Some(b"h2")).await.expect("TLS is agreed on");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut frame = [0; 9];
    timeout(MOMENT, stream.read_exact(&mut frame)).await.expect("in time").unwrap();
    assert_eq!(frame[3], 4, "the first frame is SETTINGS");
    let stream = secure.connect(NAME, None).await.expect("without ALPN");
    assert_eq!(stream.get_ref().1.alpn_protocol(), None);
    assert!(secure.connect(NAME, Some(b"spdy/3")).await.is_err(), "nothing in common");
}

/// A client learns nothing about a name that is not served here, and nothing is computed for it.
#[tokio::test]
async fn a_name_without_a_certificate_is_refused() {
    let secure = Secure::start(limits());
    // An IP address is not a name, so the client names none.
    for (name, asked) in [("other.example.com", 1), ("127.0.0.1", 1), ("example.com", 2)] {
        let error = secure.connect(name, None).await.expect_err(name);
        let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()).expect("an alert");
        assert_eq!(*error, rustls::Error::AlertReceived(AlertDescription::UnrecognisedName), "{name}");
        assert_eq!(secure.one.asked.lock().unwrap().len(), asked, "{name}");
    }
    drop(secure.secured().await);
}

#[tokio::test]
async fn what_is_not_tls_ends_the_connection_and_nothing_else() {
    let secure = Secure::start(limits());
    for bytes in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[0; 600], &[22, 3, 1, 0xff, 0xff, 1]] {
        let stream = secure.server.send(bytes).await;
        let (_, after) = read_to_end(stream).await;
        assert!(is_in_time(after, limits().head), "{after:?}");
    }
    assert!(secure.server.paths().is_empty());
    drop(secure.secured().await);
}

/// T1: first byte, whole handshake, first byte of a request, whole head; each ends in its time.
#[tokio::test]
async fn t1_a_handshake_has_the_deadlines_of_a_head() {
    let secure = Secure::start(limits());
    let silent = async {
        let (_, after) = read_to_end(secure.server.send("").await).await;
        assert_ended("silent", after, limits().first_byte);
    };
    // The beginning of a handshake record that never ends.
    let half = async {
        let (_, after) = read_to_end(secure.server.send([22, 3, 1, 1, 0, 1, 0, 0, 0xfc]).await).await;
        assert_ended("half a handshake", after, limits().head);
    };
    let dripping = async {
        let mut stream = secure.server.send([22, 3, 1, 1, 0]).await;
        let began = Instant::now();
        while stream.write_all(&[0]).await.is_ok() && began.elapsed() < 2 * MOMENT {
            sleep(Duration::from_millis(50)).await;
        }
        assert!(is_in_time(began.elapsed(), limits().head + LATE), "dripping: {:?}", began.elapsed());
    };
    let secured_and_silent = async {
        let stream = secure.secured().await;
        let (_, after) = read_to_end(stream).await;
        assert_ended("silent after the handshake", after, limits().first_byte);
    };
    let half_head = async {
        let mut stream = secure.secured().await;
        stream.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
        let (answer, after) = read_to_end(stream).await;
        assert_ended("half a head", after, limits().head);
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    };
    let idle = async {
        let mut stream = secure.secured().await;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        assert!(answered(&mut stream).await.starts_with("http/1.1 302"));
        let (_, after) = read_to_end(stream).await;
        assert_ended("idle", after, limits().keep_alive_idle);
    };
    tokio::join!(silent, half, dripping, secured_and_silent, half_head, idle);
}

/// R5: a TLS record that does not end counts as an unfinished head, between requests too.
#[tokio::test]
async fn r5_unfinished_records_have_a_budget() {
    let limits = Limits { head: 2 * MOMENT, keep_alive_idle: 2 * MOMENT, ..limits() };
    let secure = Secure::start(Limits { partial: 64 << 10, trusted: Vec::new(), ..limits });
    let record = [&[23, 3, 3, 0x40, 0][..], &[0; 12_000]].concat();
    let mut held = Vec::new();
    for nth in 0..12 {
        let mut stream = secure.secured().await;
        if nth % 2 == 0 {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            assert!(answered(&mut stream).await.starts_with("http/1.1 302"));
        }
        stream.get_mut().0.write_all(&record).await.unwrap();
        held.push(stream);
    }
    secure.server.until_open(5).await;
    let mut other = secure.secured().await;
    other.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(answered(&mut other).await.starts_with("http/1.1 302"));
    assert_eq!(secure.server.open(), 6);
}

/// R4: of an answer that is not read, a TLS session holds one record.
#[tokio::test]
async fn r4_tls_holds_little_of_an_answer_that_is_not_read() {
    let secure = Secure::start(limits());
    let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let client = secure.connect_to(address, NAME, None);
    let state = Shared::new(limits()).add(Arc::default());
    let accepted = async {
        let (stream, _) = listener.accept().await.unwrap();
        secured(stream, &state, &*secure.one).await.expect("a handshake")
    };
    let (client, mut server) = tokio::join!(client, accepted);
    let mut cx = Context::from_waker(Waker::noop());
    let mut waits = 0;
    // Until neither the kernel nor TLS takes more.
    while waits < 3 {
        match Pin::new(&mut server).poll_write(&mut cx, &[0; 16 << 10]) {
            Poll::Ready(written) => assert!(written.unwrap() > 0),
            Poll::Pending => {
                waits += 1;
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
    let (mut held, session) = (Vec::new(), server.get_mut().1);
    while session.wants_write() {
        session.write_tls(&mut held).unwrap();
    }
    assert!(held.len() <= 17 << 10, "{} bytes", held.len());
    drop(client);
}

/// T1: a client that does not read is disconnected, although TLS takes some of the answer before the kernel does.
#[tokio::test]
async fn t1_a_client_that_does_not_read_inside_tls_is_put_out() {
    let secure = Secure::start(limits());
    let mut stream = secure.secured().await;
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    secure.server.until_open(1).await;
    let began = Instant::now();
    secure.server.until_open(0).await;
    let after = began.elapsed();
    assert!(after + Duration::from_millis(200) + stalled(after) >= limits().write_stall, "{after:?}");
    // From when the socket was full, which takes some time with TLS.
    assert!(is_in_time(after, limits().write_stall + 5 * LATE), "{after:?}");
}

/// Accepts every byte, as TLS does up to its limit, and sends none.
struct Sponge(Arc<AtomicBool>);

impl AsyncRead for Sponge {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Sponge {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl Transport for Sponge {
    const BUFFERS: bool = true;

    fn try_send(&mut self, _: &[u8]) {}

    fn reset_on_close(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// T1: what TLS has buffered is not sent: a client that does not read the last bytes of an answer is disconnected as well.
#[test]
fn t1_bytes_that_tls_holds_back_count_as_unread() {
    let shared = Shared::new(Limits::default());
    let state = Arc::new(ConnectionState::new(Arc::clone(&shared), Arc::default()));
    let was_reset = Arc::new(AtomicBool::new(false));
    let mut socket = Socket::new(Sponge(Arc::clone(&was_reset)), Arc::clone(&state));
    let mut cx = Context::from_waker(Waker::noop());
    state.begin_exchange();
    assert!(Pin::new(&mut socket).poll_write(&mut cx, b"the end").is_ready());
    assert!(Pin::new(&mut socket).poll_flush(&mut cx).is_pending());
    let due = shared.now_ms() + millis(Limits::default().write_stall + TICK);
    assert_eq!((state.overdue(due - 1), state.overdue(due)), (None, Some(Command::Close)));
    drop(socket);
    assert!(was_reset.load(Ordering::SeqCst), "the kernel would keep unread bytes");
}

#[tokio::test]
async fn a_stop_finishes_requests_and_ends_what_has_not_begun() {
    let secure = Secure::start(Limits { drain: MOMENT, ..limits() });
    let silent = secure.server.send("").await;
    let mut busy = secure.secured().await;
    busy.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    while secure.server.paths().is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    secure.server.stop.send_replace(Stop::Gracefully);
    let (answer, _) = read_to_end(busy).await;
    assert!(answer.ends_with("slow") && answer.to_lowercase().contains("connection: close"), "{answer}");
    let (_, after) = read_to_end(silent).await;
    assert!(after < MOMENT, "{after:?}");
    assert_eq!(timeout(2 * MOMENT, secure.server.serving).await.expect("it ends").unwrap(), 0);
    assert!(TcpStream::connect(secure.plain).await.is_err(), "both listeners are closed");
}

/// T3: both listeners share the places.
#[tokio::test]
async fn t3_places_are_counted_over_both_ways_in() {
    let secure = Secure::start(Limits { connections: 2, first_byte: MOMENT, ..limits() });
    let mut inside = secure.secured().await;
    inside.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(answered(&mut inside).await.starts_with("http/1.1 302"));
    let second = TcpStream::connect(secure.plain).await.unwrap();
    secure.server.until_open(2).await;
    // Connected, but not served until a place is free.
    let third = secure.connect(NAME, None);
    let mut third = std::pin::pin!(third);
    assert!(timeout(Duration::from_millis(300), &mut third).await.is_err(), "there was no place");
    drop(second);
    timeout(MOMENT, third).await.expect("a place is free").expect("TLS is agreed on");
}
