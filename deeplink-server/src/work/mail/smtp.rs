//! The way to the SMTP server: kept for as long as the service runs, with connections that are used again.

use std::time::Duration;

use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{Error, PoolConfig};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use url::Url;

use super::AT_ONCE;
use crate::config::{Config, MailTransport, SmtpUrl, TrustedRoots};

/// How long a server may take to take a connection, and for each of its answers.
const STEP: Duration = Duration::from_secs(10);
/// How long sending a mail may take in all. Two after each other fit into the lease of a mail.
const WHOLE: Duration = Duration::from_secs(13);
/// How long a connection stays open that no mail needs.
const KEPT_FOR: Duration = Duration::from_secs(30);

/// Why the server has not taken a mail.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    /// It did not take it, or cannot be reached.
    #[error("the mail server refused: {}", in_short(.0))]
    Refused(Error),
    /// It hangs.
    #[error("the mail server has not taken it within {WHOLE:?}")]
    Late,
    /// TLS cannot be used.
    #[error("the mail server cannot be spoken to: {0}")]
    Unready(String),
}

impl Failed {
    /// Whether the server refused this mail and would refuse it again (RFC 5321, section 4.2.1). That it does not know us
    /// (RFC 4954, section 6) says nothing about the mail, and the operator can mend it.
    pub(crate) fn is_for_good(&self) -> bool {
        let Self::Refused(error) = self else { return false };
        let code = error.status().map_or(0, u16::from);
        error.is_permanent() && !matches!(code, 530..=538)
    }
}

/// What a server says is short in a log, and on one line.
fn in_short(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(300).collect()
}

/// Sends mails to one server. It is made once.
pub(crate) struct Smtp(Result<AsyncSmtpTransport<Tokio1Executor>, String>);

impl Smtp {
    /// For the server that the settings name, if they do.
    pub(crate) fn of(config: &Config, public_url: &Url) -> Option<Self> {
        match config.mail_at(public_url)? {
            MailTransport::Smtp(server) => {
                let transport = transport(&server, config, public_url);
                Some(Self(transport.map_err(|error| in_short(&error))))
            }
            MailTransport::Directory(_) => None,
        }
    }

    /// Whether the server answers and knows us, without a mail.
    pub(crate) async fn answers(&self) -> Result<(), Failed> {
        let transport = self.0.as_ref().map_err(|error| Failed::Unready(error.clone()))?;
        match tokio::time::timeout(WHOLE, transport.test_connection()).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(Failed::Unready("it does not answer as a mail server does".into())),
            Ok(Err(error)) => Err(Failed::Refused(error)),
            Err(_) => Err(Failed::Late),
        }
    }

    /// Sends a mail; when this returns well, the server has taken it over.
    pub(crate) async fn send(&self, message: Message) -> Result<(), Failed> {
        let transport = self.0.as_ref().map_err(|error| Failed::Unready(error.clone()))?;
        match tokio::time::timeout(WHOLE, transport.send(message)).await {
            Ok(sent) => sent.map(drop).map_err(Failed::Refused),
            Err(_) => Err(Failed::Late),
        }
    }
}

fn transport(server: &SmtpUrl, config: &Config, public_url: &Url) -> Result<AsyncSmtpTransport<Tokio1Executor>, Error> {
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(server.expose())?;
    if let Some(host) = public_url.domain() {
        builder = builder.hello_name(ClientId::Domain(host.to_owned()));
    }
    if let Some((host, from_the_first_byte)) = server.tls() {
        let mut tls = TlsParameters::builder(host);
        for der in config.outbound_ca.iter().flat_map(TrustedRoots::certificates) {
            tls = tls.add_root_certificate(Certificate::from_der(der.to_vec())?);
        }
        let tls = tls.build()?;
        builder = builder.tls(if from_the_first_byte { Tls::Wrapper(tls) } else { Tls::Required(tls) });
    }
    let kept = PoolConfig::new().max_size(u32::try_from(AT_ONCE).unwrap_or(1)).idle_timeout(KEPT_FOR);
    Ok(builder.timeout(Some(STEP)).pool_config(kept).build())
}
