//! The SMTP client: kept for as long as the service runs, with a connection pool.

use std::time::Duration;

use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{Error, PoolConfig};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use url::Url;

use super::MAX_CONCURRENT;
use crate::config::{Config, MailTransport, SmtpUrl, TrustedRoots};

/// Timeout for connecting, and for each response of the server.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for sending an email. Two in a row fit into an email's lease.
const SEND_TIMEOUT: Duration = Duration::from_secs(13);
/// How long an idle connection stays open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Why the server has not accepted an email.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SmtpError {
    /// It rejected it, or cannot be reached or used.
    #[error("the mail server {}: {}", outcome(.0), one_line(.0))]
    Rejected(Error),
    /// It does not respond in time.
    #[error("the mail server did not accept it within {SEND_TIMEOUT:?}")]
    Timeout,
    /// TLS cannot be used.
    #[error("the mail server cannot be used: {0}")]
    Unusable(String),
}

impl SmtpError {
    /// Whether the server would reject this email again (RFC 5321, section 4.2.1). Failed authentication (RFC 4954,
    /// section 6) says nothing about the email, and the operator can fix it.
    pub(crate) fn is_permanent(&self) -> bool {
        let Self::Rejected(error) = self else { return false };
        let code = error.status().map_or(0, u16::from);
        error.is_permanent() && !matches!(code, 530..=538)
    }
}

/// What the mail server did, or what could not be done with it.
fn outcome(error: &Error) -> &'static str {
    if error.status().is_some() {
        "rejected it"
    } else if error.is_client() || error.is_response() || error.is_tls() {
        "cannot be used"
    } else {
        "cannot be reached"
    }
}

/// An error on one line of limited length.
fn one_line(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let cause = inner.to_string();
        // Some errors include their cause.
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        source = inner.source();
    }
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(300).collect()
}

/// Sends emails to one server.
pub(crate) struct Smtp(Result<AsyncSmtpTransport<Tokio1Executor>, String>);

impl Smtp {
    /// For the server in the settings, if there is one.
    pub(crate) fn of(config: &Config, public_url: &Url) -> Option<Self> {
        match config.mail_at(public_url)? {
            MailTransport::Smtp(server) => {
                let transport = transport(&server, config, public_url);
                Some(Self(transport.map_err(|error| one_line(&error))))
            }
            MailTransport::Directory(_) => None,
        }
    }

    /// Checks that the server responds and accepts the login, without sending an email.
    pub(crate) async fn answers(&self) -> Result<(), SmtpError> {
        let transport = self.0.as_ref().map_err(|error| SmtpError::Unusable(error.clone()))?;
        match tokio::time::timeout(SEND_TIMEOUT, transport.test_connection()).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(SmtpError::Unusable("it does not respond like a mail server".into())),
            Ok(Err(error)) => Err(SmtpError::Rejected(error)),
            Err(_) => Err(SmtpError::Timeout),
        }
    }

    /// Sends an email; on success the server has accepted it.
    pub(crate) async fn send(&self, message: Message) -> Result<(), SmtpError> {
        let transport = self.0.as_ref().map_err(|error| SmtpError::Unusable(error.clone()))?;
        match tokio::time::timeout(SEND_TIMEOUT, transport.send(message)).await {
            Ok(sent) => sent.map(drop).map_err(SmtpError::Rejected),
            Err(_) => Err(SmtpError::Timeout),
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
    let kept = PoolConfig::new().max_size(u32::try_from(MAX_CONCURRENT).unwrap_or(1)).idle_timeout(IDLE_TIMEOUT);
    Ok(builder.timeout(Some(STEP_TIMEOUT)).pool_config(kept).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_cannot_be_reached_has_rejected_nothing() {
        let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url("smtp://127.0.0.1:1").expect("a URL");
        let error = Smtp(Ok(transport.build())).answers().await.expect_err("nobody listens there");
        let text = error.to_string();
        assert!(text.starts_with("the mail server cannot be reached: "), "{text}");
        assert_eq!(text.to_lowercase().matches("refused").count(), 1, "{text}");
        assert!(!error.is_permanent());
    }
}
