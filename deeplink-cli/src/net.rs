//! The client as `dl` uses it: requests can be traced (`-v`, `-vv`) or not sent (`--dry-run`), and a failure is
//! reported with its exit code and what to do next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use deeplink_client::transport::{BodyStream, BoxFuture, Failure as Attempt, Transport, TransportError};
use deeplink_client::{Auth, Client, Error, Kind, Retry};

use crate::base_url::BaseUrl;
use crate::console::Console;
use crate::context::Context;
use crate::error::{Failure, Item, Outcome, Stop};
use crate::exit::Exit;
use crate::hints::{self, Asked};
use crate::mask;

/// Name and version, as the service's logs show them.
const USER_AGENT: &str = concat!("dl/", env!("CARGO_PKG_VERSION"));

/// A request that `--dry-run` did not send.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: String,
}

/// The requests that were not sent, in order.
pub(crate) type NotSent = Arc<Mutex<Vec<Held>>>;

/// Which requests of a dry run are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// None.
    Held,
    /// Reads: an import's plan depends on what exists.
    Sent,
}

impl Context {
    /// A client with the secret key.
    pub(crate) async fn client(&self) -> Outcome<Client> {
        let found = self.key().await?;
        self.client_for(&self.base_url()?, Auth::SecretKey(found.key), Reads::Held)
    }

    /// A client without a credential.
    pub(crate) fn public_client(&self) -> Outcome<Client> {
        self.client_for(&self.base_url()?, Auth::None, Reads::Held)
    }

    /// A client of this service with this credential.
    pub(crate) fn client_for(&self, base: &BaseUrl, auth: Auth, reads: Reads) -> Outcome<Client> {
        self.asked.replace(Some(base.origin()));
        let (console, held) = (Arc::clone(&self.console), self.held.clone());
        let retry = if self.global.dry_run { Retry::none() } else { Retry::attempts(self.retries.saturating_add(1)) };
        let mut builder =
            Client::builder(base.as_str()).auth(auth).user_agent(USER_AGENT).timeout(self.timeout).retry(retry);
        let (holds, traces) = (self.global.dry_run, self.console.verbosity() > 0);
        let changed = self.out.is_filtered().then(|| self.out.changed());
        if holds && reads == Reads::Held {
            // Nothing is sent, so no transport is built.
            builder = builder.transport(Hold { inner: None, held });
        } else {
            builder = builder.wrap_transport(move |inner| {
                let inner = if traces { Arc::new(Trace { inner, console, last: Mutex::default() }) } else { inner };
                let inner: Arc<dyn Transport> = match changed {
                    Some(changed) => Arc::new(Noted { inner, changed }),
                    None => inner,
                };
                if holds { Arc::new(Hold { inner: Some(inner), held }) } else { inner }
            });
        }
        builder.build().map_err(|error| self.stop(&error))
    }

    /// The end of a command for an error of the client.
    pub(crate) fn stop(&self, error: &Error) -> Stop {
        if self.global.dry_run && error.kind() == Kind::Transport {
            return Stop::NotSent;
        }
        self.failure(error).into()
    }

    /// The same for a command on resources that `dl {group} list` shows.
    pub(crate) fn stop_among(&self, error: &Error, group: &str) -> Stop {
        match self.stop(error) {
            Stop::Failed(mut failure) if failure.exit == Exit::NotFound && !hints::is_foreign(error) => {
                let shown = match group {
                    "pk" | "team" | "affiliates creds" => "the valid IDs".to_owned(),
                    "qr-logos" => "the account's logos".to_owned(),
                    _ => format!("the account's {group}"),
                };
                failure.hint = Some(format!("dl {group} list shows {shown}"));
                Stop::Failed(failure)
            }
            other => other,
        }
    }

    /// An error of the client as a failure to report.
    pub(crate) fn failure(&self, error: &Error) -> Failure {
        let mut failure = Failure::new(exit_of(error), self.message(error));
        failure.code = code_of(error).map(Into::into);
        failure.status = error.status().map(|status| status.as_u16());
        // Where nothing was reached, or another server, nobody can look the id up.
        let is_known = error.status().is_some() && !hints::is_foreign(error);
        failure.request_id = error.request_id().filter(|_| is_known).map(str::to_owned);
        failure.field = error.field().map(str::to_owned);
        failure.retryable = error.is_retryable();
        failure.items = error.batch_errors().iter().map(row_item).collect();
        failure.hint = hints::of(error, &self.host_asked());
        failure
    }

    fn message(&self, error: &Error) -> String {
        let asked = || self.asked.borrow().clone().unwrap_or_else(|| "the service".to_owned());
        match (error.kind(), error.status()) {
            (Kind::Connect, _) => format!("cannot connect to {}: {}", asked(), deepest(error)),
            (Kind::Timeout, _) => format!("no response from {} in time", asked()),
            (Kind::Transport, _) => format!("the connection to {} was lost: {}", asked(), deepest(error)),
            (_, Some(status)) => format!("{} (HTTP {})", error.message(), status.as_u16()),
            (_, None) => error.message().to_owned(),
        }
    }

    /// The host that the latest client calls.
    fn host_asked(&self) -> Asked {
        let (base, asked) = (self.base_url().ok(), self.asked.borrow());
        let url = asked.as_deref().and_then(|asked| asked.parse::<BaseUrl>().ok());
        let ping = match &base {
            _ if self.pings.get() => None,
            Some(_) if self.global.base_url.is_none() => Some("dl ping".to_owned()),
            _ => base.as_ref().or(url.as_ref()).map(|url| format!("dl ping --base-url {url}")),
        };
        Asked {
            is_elsewhere: base.is_some_and(|base| asked.as_ref().is_some_and(|asked| *asked != base.origin())),
            is_loopback: url.is_some_and(|url| url.is_loopback()),
            ping,
        }
    }
}

fn row_item(row: &deeplink_core::bulk::RowError) -> Item {
    Item {
        index: Some(row.index),
        id: row.custom_id.clone(),
        code: row.code.to_string(),
        message: row.message.clone(),
        field: row.field.clone(),
        ..Item::default()
    }
}

/// The innermost cause: what the operating system or TLS had to say.
fn deepest(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let text = cause.to_string();
    text.split(" (os error ").next().unwrap_or(&text).to_lowercase()
}

fn exit_of(error: &Error) -> Exit {
    match error.kind() {
        Kind::Validation | Kind::BadRequest => Exit::Invalid,
        Kind::WrongCredential { .. } | Kind::Auth | Kind::Forbidden => Exit::Auth,
        Kind::Builder => Exit::Usage,
        Kind::NotFound => Exit::NotFound,
        Kind::Conflict => Exit::Conflict,
        Kind::PaymentRequired => Exit::Payment,
        Kind::RateLimited => Exit::RateLimited,
        Kind::Unavailable | Kind::Server | Kind::Connect | Kind::Timeout | Kind::Transport => Exit::Unavailable,
        _ => error.status().map_or(Exit::Failure, |status| match Exit::of_status(status.as_u16()) {
            // A success that could not be decoded is a failure.
            Exit::Success => Exit::Failure,
            exit => exit,
        }),
    }
}

fn code_of(error: &Error) -> Option<String> {
    let word = match error.kind() {
        Kind::Connect => "cannot_connect",
        Kind::Timeout => "timeout",
        Kind::Transport => "connection_broken",
        _ if hints::is_unreadable(error) => "unexpected_answer",
        Kind::WrongCredential { .. } => "wrong_credential",
        _ => return error.code().map(ToString::to_string),
    };
    Some(word.to_owned())
}

/// Records requests instead of sending them.
struct Hold {
    /// Where reads go, if they are sent.
    inner: Option<Arc<dyn Transport>>,
    held: NotSent,
}

type Sent<'a> = BoxFuture<'a, Result<http::Response<BodyStream>, TransportError>>;

impl Transport for Hold {
    fn send(&self, request: http::Request<Bytes>) -> Sent<'_> {
        if let (Some(inner), true) = (&self.inner, request.method().is_safe()) {
            return inner.send(request);
        }
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let held = Held {
            method: request.method().to_string(),
            path: mask::secrets(path).into_owned(),
            body: match std::str::from_utf8(request.body()) {
                Ok(text) => mask::secrets(text).into_owned(),
                Err(_) => format!("({} bytes)", request.body().len()),
            },
        };
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(held);
        Box::pin(async { Err(TransportError::new(Attempt::Broken, "not sent: --dry-run")) })
    }
}

/// Notes that a request has changed something.
struct Noted {
    inner: Arc<dyn Transport>,
    changed: Arc<AtomicBool>,
}

impl Transport for Noted {
    fn send(&self, request: http::Request<Bytes>) -> Sent<'_> {
        let is_safe = request.method().is_safe();
        Box::pin(async move {
            let result = self.inner.send(request).await;
            if !is_safe && result.as_ref().is_ok_and(|reply| reply.status().is_success()) {
                self.changed.store(true, Ordering::Relaxed);
            }
            result
        })
    }
}

/// Traces requests and replies on stderr.
struct Trace {
    inner: Arc<dyn Transport>,
    console: Arc<Console>,
    /// Id of the latest request, to tell a further attempt from a new call.
    last: Mutex<Option<http::HeaderValue>>,
}

impl Trace {
    fn headers(&self, mark: char, headers: &http::HeaderMap) {
        if self.console.verbosity() < 2 {
            return;
        }
        for (name, value) in headers {
            let hidden = value.is_sensitive()
                || matches!(
                    name.as_str(),
                    "authorization"
                        | "cookie"
                        | "set-cookie"
                        | "proxy-authorization"
                        | "x-api-key"
                        | "x-payment"
                        | "payment-signature"
                );
            let shown = if hidden { "[hidden]".into() } else { String::from_utf8_lossy(value.as_bytes()) };
            self.console.trace(&format!("{mark} {name}: {shown}"));
        }
    }
}

impl Transport for Trace {
    fn send(&self, request: http::Request<Bytes>) -> Sent<'_> {
        let id = request.headers().get("x-request-id").cloned();
        let again = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let again = id.is_some() && *last == id;
            *last = id;
            again
        };
        let retry = if again { " (retry)" } else { "" };
        self.console.trace(&format!("> {} {}{retry}", request.method(), request.uri()));
        self.headers('>', request.headers());
        let start = Instant::now();
        Box::pin(async move {
            let result = self.inner.send(request).await;
            let took = start.elapsed().as_millis();
            match &result {
                Ok(reply) => {
                    self.console.trace(&format!("< {} in {took} ms", reply.status()));
                    self.headers('<', reply.headers());
                }
                Err(error) => self.console.trace(&format!("< {error} after {took} ms")),
            }
            result
        })
    }
}
