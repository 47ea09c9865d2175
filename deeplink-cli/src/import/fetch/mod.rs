//! Reads the links of another service from its API, page by page, into a file. The import then reads that file as it reads
//! an export. The file is kept until its links have been sent, so that reading and sending can be resumed.

mod apis;
mod pages;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use deeplink_client::{Auth, Client, Error, Kind, Retry};
use deeplink_core::secret::{SecretKey, sha256_hex};
use http::Method;
use serde_json::Value;

pub(crate) use apis::Api;
use apis::{Cursor, Page};
use pages::{Pages, Record};

use crate::base_url::BaseUrl;
use crate::context::{Context, is_stdin};
use crate::credentials::{check_key, invalid_key};
use crate::error::{Failure, Outcome, Stop, plain};
use crate::exit::Exit;
use crate::net::Reads;
use crate::progress::{Progress, counted};

/// Hex digits that tell the files of several accounts apart.
const FINGERPRINT: usize = 8;
/// How long to wait if a service limits the rate without saying for how long.
const USUAL_WAIT: Duration = Duration::from_mins(1);
/// Most characters of an error message of the service that are repeated.
const MAX_SAID: usize = 200;

/// What is read, and with which key.
#[derive(Debug)]
pub(crate) struct Fetch {
    api: Api,
    base: BaseUrl,
    key: SecretKey,
    /// Where the key is from, for messages.
    whence: String,
    /// The links.
    file: PathBuf,
    is_reading: Cell<bool>,
}

impl Fetch {
    /// Reads the key, from a file or stdin; no request is sent yet.
    pub(crate) async fn new(ctx: &Context, api: Api, key_file: &Path, url: Option<BaseUrl>) -> Outcome<Self> {
        let usual = || api.url().and_then(|url| url.parse().ok());
        let Some(base) = url.or_else(usual) else {
            let what = format!("{} requires --from-url, the URL of your server", api.label());
            return Err(Failure::usage(what).hint("for example --from-url https://go.example.com").into());
        };
        let whence = if is_stdin(key_file) { "stdin".to_owned() } else { key_file.display().to_string() };
        let text = ctx.read_secret(key_file, "--from-api-key-file", &format!("{} API key: ", api.label())).await?;
        let key = check_key(&text, &whence)?;
        ctx.console.hide(key.expose());
        if key.expose().starts_with("dl_live_") {
            let what = format!("{whence}: this is a key of this service, not of {}", api.label());
            return Err(invalid_key(what).hint("--api-key-file is for the key of this service").into());
        }
        let label = api.label().to_lowercase();
        let fingerprint = sha256_hex(&format!("{label} {base} {}", key.expose()));
        let file = ctx.dirs.reads().join(format!("{label}-{}.jsonl", &fingerprint[..FINGERPRINT]));
        Ok(Self { api, base, key, whence, file, is_reading: Cell::new(false) })
    }

    /// The file for the links.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Reads what has not been read yet, waiting for up to `max_wait` while rate-limited.
    pub(super) async fn run(&self, ctx: &Context, restart: bool, max_wait: Duration) -> Outcome {
        let service = self.api.label();
        let mut pages = Pages::open(&self.file, restart)?;
        let known = &pages.record;
        if known.pages > 0 {
            let (read, begun) = (extent(known), crate::clock::relative(known.begun_at, crate::clock::now()));
            let doing = if known.next.is_some() { "resuming after" } else { "using" };
            ctx.console.note(&format!("{doing} {read}, read from {service} {begun}; --restart reads everything again"));
        }
        if known.next.is_none() {
            return Ok(());
        }
        let progress = Progress::of(ctx, service, "link");
        progress.preparing("reading");
        self.is_reading.set(true);
        let asked = ctx.asked.take();
        let client = self.client(ctx)?;
        while let Some(cursor) = pages.record.next.clone() {
            let page = self.page(ctx, &client, &cursor, &pages.record, &progress, max_wait).await?;
            pages.add(page)?;
            progress.remark(|| extent(&pages.record));
        }
        ctx.asked.replace(asked);
        self.is_reading.set(false);
        progress.end();
        let (read, file) = (extent(&pages.record), self.file.display());
        ctx.console.say(&format!("read {read} from {service}; they are kept in {file} until they have been sent"));
        Ok(())
    }

    /// Says how to resume if a signal has ended the reading.
    pub(super) fn interrupted(&self, ctx: &Context) {
        if self.is_reading.get() {
            ctx.console.say("stopped; to resume, run the same command again");
        }
    }

    fn client(&self, ctx: &Context) -> Outcome<Client> {
        let auth = if self.api.key_header().is_some() { Auth::None } else { Auth::SecretKey(self.key.clone()) };
        ctx.client_for(&self.base, auth, Reads::Sent)
    }

    async fn page(
        &self,
        ctx: &Context,
        client: &Client,
        cursor: &Cursor,
        read: &Record,
        progress: &Progress,
        max_wait: Duration,
    ) -> Outcome<Page> {
        let mut waited = Duration::ZERO;
        loop {
            let (path, query) = self.api.request(cursor);
            let mut call = client.request(Method::GET, path).retry(Retry::attempts(ctx.retries.saturating_add(1)));
            for (name, value) in query {
                call = call.query(name, value);
            }
            if let Some(name) = self.api.key_header() {
                call = call.header(name, self.key.expose());
            }
            let (error, said) = match call.await {
                Ok(reply) => match reply.to_error() {
                    None => return self.checked(self.api.page(cursor, &reply.body), cursor, read),
                    Some(error) => (error, said(&reply.body)),
                },
                Err(error) => (error, None),
            };
            let wait = error.retry_after().unwrap_or(USUAL_WAIT).max(Duration::from_secs(1));
            if error.kind() != Kind::RateLimited || waited.saturating_add(wait) > max_wait {
                return Err(self.failure(ctx, &error, said.as_deref(), read));
            }
            waited += wait;
            progress.remark(|| format!("rate limited for {} s, with {}", wait.as_secs(), extent(read)));
            tokio::time::sleep(wait).await;
        }
    }

    /// The page, unless the response is none or the service would repeat it forever.
    fn checked(&self, page: Result<Page, String>, cursor: &Cursor, read: &Record) -> Outcome<Page> {
        let what = match page {
            Ok(page) if page.next.as_ref() != Some(cursor) => return Ok(page),
            Ok(_) => "the same page twice".to_owned(),
            Err(why) => format!("something other than a list of links: {why}"),
        };
        let failure = Failure::new(Exit::Failure, format!("{} returned {what}", self.api.label()));
        Err(failure.code("unexpected_answer").hint(next_step(read)).into())
    }

    fn failure(&self, ctx: &Context, error: &Error, said: Option<&str>, read: &Record) -> Stop {
        let service = self.api.label();
        let mut failure = ctx.failure(error);
        // The ID means nothing to the service.
        failure.request_id = None;
        let said = said.map(|said| format!(": {said}")).unwrap_or_default();
        let hint = match failure.status {
            Some(status @ (401 | 403)) => {
                failure.code = Some("key_rejected".into());
                failure.message = format!("{service} rejected the key in {} (HTTP {status}){said}", self.whence);
                self.api.permission().to_owned()
            }
            Some(status) => {
                failure.message = format!("{service} returned HTTP {status}{said}");
                let is_elsewhere = status == 404 || (300..400).contains(&status);
                if is_elsewhere && read.pages == 0 {
                    format!("check --from-url; dl asked {}, and does not follow redirects", self.base)
                } else {
                    next_step(read)
                }
            }
            None if error.kind() == Kind::Connect && read.pages == 0 => "check --from-url and the network".to_owned(),
            None => next_step(read),
        };
        failure.hint = Some(hint);
        failure.into()
    }
}

fn next_step(read: &Record) -> String {
    if read.pages == 0 {
        return "try again later".to_owned();
    }
    format!("to resume after {}, run the same command again; --restart reads everything again", extent(read))
}

/// Whether a file is one that [`Fetch::run`] wrote.
pub(super) fn is_fetched(ctx: &Context, file: &Path) -> bool {
    std::path::absolute(ctx.dirs.reads()).is_ok_and(|dir| file.parent() == Some(dir.as_path()))
}

/// Removes such a file once its links have been sent.
pub(super) fn discard(ctx: &Context, file: &Path) {
    if let Err(error) = pages::remove(file) {
        ctx.console.warn(&format!("cannot remove {}: {}", file.display(), plain(&error)));
    }
}

fn extent(read: &Record) -> String {
    format!("{} on {}", counted(read.links, "link"), counted(read.pages, "page"))
}

/// What the body of an error response says.
fn said(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let places = ["/error/message", "/detail", "/description", "/message"];
    let text = places.iter().find_map(|place| body.pointer(place)?.as_str())?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_SAID).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_are_found_where_each_service_puts_them() {
        for (body, text) in [
            (
                r#"{"error": {"code": "unauthorized", "message": "Unauthorized: Invalid API key."}}"#,
                "Unauthorized: Invalid API key.",
            ),
            (
                r#"{"message": "FORBIDDEN", "description": "You are currently forbidden\nto access this resource."}"#,
                "You are currently forbidden to access this resource.",
            ),
            (r#"{"message": "FORBIDDEN"}"#, "FORBIDDEN"),
            (
                r#"{"type": "x", "detail": "Provided API key does not exist or is invalid.", "status": 401}"#,
                "Provided API key does not exist or is invalid.",
            ),
        ] {
            assert_eq!(said(body.as_bytes()).as_deref(), Some(text));
        }
        assert_eq!(said(b"<html>"), None);
        assert_eq!(said(br#"{"error": "no"}"#), None);
    }
}
