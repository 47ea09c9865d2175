//! A certificate authority in this process, which issues whatever certificates the test wants.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// The certificate that a server presents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// Valid for this many more days.
    Days(u64),
    /// Expired yesterday.
    Ended,
    /// For another name.
    Other,
    /// Self-signed.
    SelfSigned,
    /// None: it does not speak TLS.
    Plain,
}

/// The test's own certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new one, with its own key.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Its root certificate, for clients that trust it.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// The TLS configuration of a server with these names; `None` if it does not speak TLS.
    #[expect(clippy::disallowed_methods, reason = "certificates are checked against the real clock")]
    pub fn acceptor(&self, names: &[&str], identity: Identity) -> Option<TlsAcceptor> {
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
