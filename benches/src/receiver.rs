//! A webhook receiver in this process: HTTPS on keep-alive connections, answered 204 at once, or held while its gate is
//! closed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::scenario::Failure;

/// The certificate authority of the receivers at 127.0.0.1.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    fn acceptor(&self) -> Result<TlsAcceptor, Failure> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &self.0)?;
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// A received post.
pub(crate) struct Heard {
    /// When its first bytes arrived.
    pub(crate) at: Instant,
    pub(crate) body: Vec<u8>,
}

struct State {
    is_open: watch::Sender<bool>,
    answered: AtomicU64,
    heard: Mutex<Option<Vec<Heard>>>,
}

/// A receiver that runs on its own thread until the process ends.
pub(crate) struct Receiver {
    pub(crate) url: String,
    state: Arc<State>,
}

impl Receiver {
    pub(crate) fn start(authority: &Authority) -> Result<Self, Failure> {
        let acceptor = authority.acceptor()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let url = format!("https://{}/events", listener.local_addr()?);
        let (is_open, _) = watch::channel(true);
        let state = Arc::new(State { is_open, answered: AtomicU64::new(0), heard: Mutex::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn({
            let state = Arc::clone(&state);
            move || runtime.block_on(accept(listener, acceptor, state))
        });
        Ok(Self { url, state })
    }

    /// Lets posts be answered, or holds them.
    pub(crate) fn set_open(&self, is_open: bool) {
        self.state.is_open.send_replace(is_open);
    }

    /// Posts answered so far.
    pub(crate) fn answered(&self) -> u64 {
        self.state.answered.load(Ordering::Relaxed)
    }

    /// Records posts from now on.
    pub(crate) fn note(&self) {
        *self.state.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }

    /// The recorded posts; stops recording.
    pub(crate) fn noted(&self) -> Vec<Heard> {
        self.state.heard.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}

async fn accept(listener: std::net::TcpListener, acceptor: TlsAcceptor, state: Arc<State>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    while let Ok((socket, _)) = listener.accept().await {
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            let _ = socket.set_nodelay(true);
            if let Ok(mut socket) = acceptor.accept(socket).await {
                while take(&mut socket, &state).await.is_some() {}
            }
        });
    }
}

/// Reads one post and answers it; `None` when the connection has ended. A connection carries one post at a time.
async fn take(socket: &mut (impl AsyncRead + AsyncWrite + Unpin), state: &State) -> Option<()> {
    let mut buffer = Vec::with_capacity(4 << 10);
    let mut at = None;
    let body = loop {
        if socket.read_buf(&mut buffer).await.ok()? == 0 {
            return None;
        }
        at.get_or_insert_with(Instant::now);
        if let Some(body) = body(&buffer) {
            break body;
        }
    };
    if let Some(heard) = &mut *state.heard.lock().unwrap_or_else(PoisonError::into_inner) {
        heard.push(Heard { at: at?, body: buffer.split_off(body) });
    }
    state.is_open.subscribe().wait_for(|is_open| *is_open).await.ok()?;
    socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.ok()?;
    socket.flush().await.ok()?;
    state.answered.fetch_add(1, Ordering::Relaxed);
    Some(())
}

/// Where the body begins, once it is complete.
fn body(post: &[u8]) -> Option<usize> {
    let head = post.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = std::str::from_utf8(&post[..head]).ok()?;
    let length = text.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    })?;
    (post.len() >= head + 4 + length).then_some(head + 4)
}
