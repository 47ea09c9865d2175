//! Everything outside the service: every https host that a page names resolves to this process, so that no test depends
//! on a network and each arrival can be checked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Images come late, as they do on a phone: layout shifts on their arrival are seen.
const IMAGE_DELAY: Duration = Duration::from_millis(120);

/// A web server that is every https host.
pub(crate) struct Elsewhere {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Elsewhere {
    pub(crate) async fn start() -> Self {
        let key = rcgen::generate_simple_self_signed(["elsewhere.example.com".to_owned()]).expect("a certificate");
        let chain = vec![key.cert.der().clone()];
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()));
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .expect("a TLS configuration");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, heard) = (acceptor.clone(), Arc::clone(&heard));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        // A browser may disconnect at any time.
                        let _ = serve(BufReader::new(stream), &heard).await;
                    }
                });
            }
        });
        Self { address, asked }
    }

    /// The URLs requested so far, without images. A browser also makes requests of its own.
    pub(crate) fn arrivals(&self) -> Vec<String> {
        let asked = self.asked.lock().expect("not poisoned");
        asked.iter().filter(|url| picture(url).is_none() && !url.ends_with("/favicon.ico")).cloned().collect()
    }
}

async fn serve<S>(mut stream: BufReader<S>, heard: &Mutex<Vec<String>>) -> std::io::Result<()>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    loop {
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            if stream.read_line(&mut request).await? == 0 {
                return Ok(());
            }
        }
        let path = request.split(' ').nth(1).unwrap_or_default();
        let host = request.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("host: ").map(str::to_owned));
        let url = format!("https://{}{path}", host.unwrap_or_default());
        let picture = picture(&url);
        heard.lock().expect("not poisoned").push(url);
        let (status, kind, body) = match picture {
            Some(Picture::Svg(svg)) => {
                tokio::time::sleep(IMAGE_DELAY).await;
                ("200 OK", "image/svg+xml", svg)
            }
            Some(Picture::Gone) => ("404 Not Found", "text/plain", String::new()),
            None => ("200 OK", "text/html", "<!DOCTYPE html><title>Elsewhere</title><p>Elsewhere".to_owned()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.flush().await?;
    }
}

enum Picture {
    Svg(String),
    Gone,
}

/// The image at a URL, if it has one.
fn picture(url: &str) -> Option<Picture> {
    let name = url.strip_prefix("https://images.example.com/")?;
    let (width, height) = match name {
        "icon.svg" => return Some(Picture::Svg(ICON.to_owned())),
        "cover.svg" => (1200, 630),
        "tall.svg" => (600, 1200),
        "wide.svg" => (2400, 400),
        _ => return Some(Picture::Gone),
    };
    Some(Picture::Svg(SCENE.replace("{width}", &width.to_string()).replace("{height}", &height.to_string())))
}

const ICON: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="256" height="256" viewBox="0 0 64 64"><rect width="64" height="64" fill="#e9f5ec"/><path d="M14 46C12 24 30 12 52 12c0 24-12 36-32 34" fill="#2e7d4f"/><path d="M12 54c6-14 14-22 26-28" fill="none" stroke="#14532d" stroke-width="3" stroke-linecap="round"/></svg>"##;

const SCENE: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 1200 630" preserveAspectRatio="xMidYMid slice"><defs><linearGradient id="s" x2="0" y2="1"><stop stop-color="#fde7c4"/><stop offset="1" stop-color="#f6b98c"/></linearGradient></defs><rect x="-600" y="-600" width="2400" height="1830" fill="url(#s)"/><circle cx="880" cy="190" r="90" fill="#fff3d6"/><path d="M-600 470C0 300 300 520 640 420s700 40 1160-60v900H-600z" fill="#6f9e75"/><path d="M-600 560C100 430 420 620 760 520s600 20 1040 0v800H-600z" fill="#2e7d4f"/></svg>"##;
