//! How an ACME server is called: over https only, with time and size limits, without redirects or proxies.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use reqwest::{Certificate, Client, redirect};

use crate::config::{Config, TrustedRoots};

const CONNECT: Duration = Duration::from_secs(3);
const WHOLE: Duration = Duration::from_secs(10);
/// Far more than a chain of certificates.
const LARGEST: usize = 1 << 20;

/// Calls ACME servers.
#[derive(Clone)]
pub(super) struct Transport(Client);

impl Transport {
    pub(super) fn new(config: &Config) -> Result<Self, Error> {
        let trusted = config.outbound_ca.iter().flat_map(TrustedRoots::certificates);
        let trusted = trusted.map(|der| Certificate::from_der(der)).collect::<Result<Vec<_>, _>>().map_err(other)?;
        let client = Client::builder()
            .user_agent(concat!("deeplink-server/", env!("CARGO_PKG_VERSION")))
            .https_only(true)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .timeout(WHOLE)
            .tls_certs_merge(trusted);
        Ok(Self(client.build().map_err(other)?))
    }
}

fn other(error: impl StdError + Send + Sync + 'static) -> Error {
    Error::Other(Box::new(error))
}

#[derive(Debug, thiserror::Error)]
#[error("the answer is larger than {LARGEST} bytes")]
struct TooLarge;

impl HttpClient for Transport {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.0.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(never) => match never {},
            };
            let call = client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
            let mut answer = call.send().await.map_err(other)?;
            let mut response = http::Response::new(());
            *response.status_mut() = answer.status();
            *response.headers_mut() = std::mem::take(answer.headers_mut());
            let mut body = BytesMut::new();
            while let Some(piece) = answer.chunk().await.map_err(other)? {
                if body.len() + piece.len() > LARGEST {
                    return Err(other(TooLarge));
                }
                body.extend_from_slice(&piece);
            }
            Ok(BytesResponse { parts: response.into_parts().0, body: Box::new(body.freeze()) })
        })
    }
}
