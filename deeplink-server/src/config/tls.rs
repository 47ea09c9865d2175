//! TLS served by this process, the ACME server that issues its certificates, and additional trusted CAs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lettre::Address;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::Url;

use super::{BadSetting, address, optional};

/// TLS with certificates that are ordered and renewed from an ACME server (RFC 8555).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Tls {
    /// Address to listen on for HTTPS.
    pub listen: SocketAddr,
    /// The ACME server's directory URL.
    pub directory: Url,
    /// Contact address for the ACME server.
    pub contact: Option<Address>,
}

impl Tls {
    /// TLS without a contact address; for servers inside tests.
    pub fn new(listen: SocketAddr, directory: Url) -> Self {
        Self { listen, directory, contact: None }
    }

    /// Reads the three variables, of which the first two must be set together. `None`: no TLS.
    pub(super) fn read(
        listen: Option<&str>,
        directory: Option<&str>,
        contact: Option<&str>,
    ) -> Result<Option<Self>, BadSetting> {
        let listen = optional("DEEPLINK_TLS_LISTEN", listen, address)?;
        let directory = optional("DEEPLINK_ACME_DIRECTORY", directory, directory_url)?;
        let contact = optional("DEEPLINK_ACME_CONTACT", contact, |text| {
            text.parse::<Address>().map_err(|_| format!("{text:?} is not an email address such as ops@example.com"))
        })?;
        match (listen, directory, contact) {
            (Some(listen), Some(directory), contact) => Ok(Some(Self { listen, directory, contact })),
            (Some(_), None, _) => Err(BadSetting::alone("DEEPLINK_TLS_LISTEN", "DEEPLINK_ACME_DIRECTORY")),
            (None, Some(_), _) => Err(BadSetting::alone("DEEPLINK_ACME_DIRECTORY", "DEEPLINK_TLS_LISTEN")),
            (None, None, Some(_)) => Err(BadSetting::alone("DEEPLINK_ACME_CONTACT", "DEEPLINK_ACME_DIRECTORY")),
            (None, None, None) => Ok(None),
        }
    }
}

fn directory_url(text: &str) -> Result<Url, String> {
    match Url::parse(text) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("must not contain a user name or password".into())
        }
        Ok(url) if url.scheme() == "https" && url.has_host() => Ok(url),
        _ => Err(format!("{text:?} is not an https URL such as https://acme-v02.api.letsencrypt.org/directory")),
    }
}

/// CA certificates to trust in addition to the system's, from a PEM file.
#[derive(Clone)]
pub struct TrustedRoots {
    path: PathBuf,
    certificates: Arc<[CertificateDer<'static>]>,
}

impl std::fmt::Debug for TrustedRoots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} from {}", self.certificates.len(), self.path.display())
    }
}

impl TrustedRoots {
    /// Reads a file with one or more certificates.
    pub fn read(path: &Path) -> Result<Self, String> {
        let cannot = |why: &dyn std::fmt::Display| format!("cannot read {}: {why}", path.display());
        let pem = std::fs::read(path).map_err(|error| cannot(&error))?;
        let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.map_err(|_| cannot(&"not a PEM file"))?;
        if certificates.is_empty() {
            return Err(cannot(&"it contains no certificates"));
        }
        Ok(Self { path: path.to_owned(), certificates: certificates.into() })
    }

    /// The certificates in DER.
    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }
}
