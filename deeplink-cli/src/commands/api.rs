//! `dl api`: any request, with the same key, retries and exit codes as every other command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use deeplink_client::{Auth, Client, RawCall, RawReply};
use deeplink_core::routes::{self, Credential};
use http::Method;
use serde_json::value::RawValue;

use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::help::help;
use crate::hints;
use crate::net::Reads;
use crate::output::{Format, Record};

/// Send any request to the service and print the response
#[derive(Debug, Args)]
#[command(after_help = help(
    "The path is relative to the base URL. Error responses are printed too and set the exit code. Responses are not \
     masked: they may contain keys and source URLs.",
    &[
    "dl api GET /v1/links --query limit=5",
    "dl api POST /v1/links -f web_url=https://example.com/p/42 -F 'metadata={\"n\":1}'",
    "dl api GET /openapi.json > openapi.json",
]
))]
pub(crate) struct Api {
    /// GET, POST, PUT, PATCH, DELETE or HEAD
    method: String,
    /// Path, such as /v1/links
    path: String,
    /// JSON body field, as a string
    #[arg(short = 'f', long = "field", value_name = "K=V", allow_hyphen_values = true)]
    text: Vec<String>,
    /// JSON body field, as JSON or @FILE containing JSON
    #[arg(short = 'F', long = "json-field", value_name = "K=JSON")]
    json: Vec<String>,
    /// Query parameter
    #[arg(long, value_name = "K=V", allow_hyphen_values = true)]
    query: Vec<String>,
    /// File with the body, or - for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "json"])]
    input: Option<PathBuf>,
    /// Header to send
    #[arg(short = 'H', long = "header", value_name = "K: V")]
    headers: Vec<String>,
    /// Print the status and headers before the body
    #[arg(short, long)]
    include: bool,
    /// Fetch all pages by following next_cursor
    #[arg(long)]
    paginate: bool,
    /// Key to send: sk, pk or none [default: the one the path requires]
    #[arg(long, value_name = "KEY", hide_possible_values = true)]
    auth: Option<Which>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// The secret key
    Sk,
    /// The publishable key from DL_PUBLISHABLE_KEY
    Pk,
    /// None
    None,
}

impl Api {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let method = Method::from_bytes(self.method.to_ascii_uppercase().as_bytes())
            .map_err(|_| Failure::usage(format!("not an HTTP method: {}", self.method)))?;
        if !self.path.starts_with('/') || self.path.starts_with("//") {
            let what = "the path must start with a single '/'; the host is taken from --base-url";
            return Err(Failure::usage(what).hint("dl api GET /v1/links").into());
        }
        let headers = self.headers()?;
        let body = self.body(ctx)?;
        if body.is_some() && method.is_safe() {
            let what = format!("{method} requests cannot have a body");
            return Err(Failure::usage(what).hint("use --query for parameters").into());
        }
        if self.paginate && method != Method::GET {
            return Err(Failure::usage("--paginate works only with GET").into());
        }
        let client = self.client(ctx).await?;
        let request = |cursor: Option<&str>| -> Outcome<RawCall> {
            let mut call = client.request(method.clone(), &self.path);
            for pair in &self.query {
                let (name, value) = split(pair, "--query")?;
                call = call.query(name, value);
            }
            if let Some(cursor) = cursor {
                call = call.query("cursor", cursor);
            }
            if let Some(body) = &body {
                call = call.body(deeplink_client::JSON, body.clone());
            }
            Ok(headers.iter().fold(call, |call, (name, value)| call.header(name, value)))
        };
        let reply = request(None)?.await.map_err(|error| ctx.stop(&error))?;
        if self.paginate && reply.status.is_success() {
            return pages(ctx, &self.path, reply, |cursor| request(Some(cursor))).await;
        }
        self.print(ctx, &reply)?;
        refused(ctx, &self.path, &reply)
    }

    async fn client(&self, ctx: &Context) -> Outcome<Client> {
        let base = ctx.base_url()?;
        let auth = match self.auth.unwrap_or_else(|| called_for(&self.path)) {
            Which::Sk => Auth::SecretKey(ctx.key().await?.key),
            Which::Pk => Auth::PublishableKey(ctx.publishable_key()?),
            Which::None => Auth::None,
        };
        ctx.client_for(&base, auth, Reads::Held)
    }

    fn headers(&self) -> Outcome<Vec<(&str, &str)>> {
        let mut headers = Vec::new();
        for header in &self.headers {
            let Some((name, value)) = header.split_once(':') else {
                return Err(Failure::usage("-H requires a header such as 'Accept: text/html'").into());
            };
            let (name, value) = (name.trim(), value.trim());
            if ["authorization", "cookie", "proxy-authorization"].contains(&name.to_ascii_lowercase().as_str()) {
                let what = format!("-H {name}: credentials cannot be passed as arguments");
                return Err(Failure::usage(what)
                    .hint("use --auth to choose the key; dl whoami shows which one is used")
                    .into());
            }
            headers.push((name, value));
        }
        Ok(headers)
    }

    fn body(&self, ctx: &Context) -> Outcome<Option<Vec<u8>>> {
        if let Some(path) = &self.input {
            return Ok(Some(ctx.bytes_of(path, "--input")?));
        }
        if self.text.is_empty() && self.json.is_empty() {
            return Ok(None);
        }
        let mut fields = Vec::new();
        for pair in &self.text {
            let (name, value) = split(pair, "-f")?;
            fields.push((name, serde_json::to_string(value).unwrap_or_default()));
        }
        for pair in &self.json {
            let (name, value) = split(pair, "-F")?;
            let text = match value.strip_prefix('@') {
                Some(path) => ctx.text_of(path.as_ref(), "-F")?,
                None => value.to_owned(),
            };
            // Kept as text, so that the digits of numbers survive.
            let json: Box<RawValue> = serde_json::from_str(&text).map_err(|error| {
                Failure::usage(format!("-F {name}: not JSON: {error}")).hint("-f passes text unchanged")
            })?;
            fields.push((name, json.get().to_owned()));
        }
        let members =
            fields.iter().map(|(name, value)| format!("{}:{value}", serde_json::to_string(name).unwrap_or_default()));
        Ok(Some(format!("{{{}}}", members.collect::<Vec<_>>().join(",")).into_bytes()))
    }

    fn print(&self, ctx: &Context, reply: &RawReply) -> Outcome {
        if self.include {
            ctx.out.line(&format!("HTTP {}", reply.status))?;
            for (name, value) in &reply.headers {
                ctx.out.line(&format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))?;
            }
            ctx.out.raw(b"\n")?;
        }
        print_body(ctx, reply)?;
        ctx.out.flush()
    }
}

/// The key that a path needs: none for public paths.
fn called_for(path: &str) -> Which {
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let fits = |template: &str| {
        let (mut given, mut wanted) = (path.split('/'), template.split('/'));
        loop {
            match (given.next(), wanted.next()) {
                (None, None) => return true,
                (Some(given), Some(wanted)) if wanted.starts_with('{') || given == wanted => {}
                _ => return false,
            }
        }
    };
    let is_public =
        |route: &routes::Route| route.credential == Credential::Public || !route.credential.is_for_programs();
    let public = |route: &routes::Route| is_public(route) && fits(route.path);
    if routes::ALL.iter().any(public) { Which::None } else { Which::Sk }
}

fn print_body(ctx: &Context, reply: &RawReply) -> Outcome {
    let json = reply.headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    // What was refused has another form than what was asked for.
    let is_viewed = ctx.out.is_viewed() && json && reply.status.is_success();
    if ctx.out.is_filtered() && !json && reply.status.is_success() && !reply.body.is_empty() {
        let what = "--jq and --render read JSON, and the response is not JSON";
        return Err(Failure::new(Exit::Failure, what).hint("omit them to print the response").into());
    }
    if !ctx.out.terminal && !is_viewed {
        return ctx.out.raw(&reply.body);
    }
    let Ok(text) = std::str::from_utf8(&reply.body) else {
        let what = format!("the response is binary ({} bytes)", reply.body.len());
        return Err(Failure::usage(what).hint("redirect it to a file: dl api … > FILE").into());
    };
    match text {
        "" => Ok(()),
        _ if is_viewed => ctx.out.json(text),
        _ if json => ctx.out.plain_json(text),
        _ => ctx.out.line(text.trim_end_matches('\n')),
    }
}

/// The failure for an answer that is not a success.
fn refused(ctx: &Context, path: &str, reply: &RawReply) -> Outcome {
    match reply.to_error() {
        None => Ok(()),
        // A redirect is printed like any other answer, but nothing was done.
        Some(error) => {
            let mut failure = ctx.failure(&error);
            if failure.exit == Exit::NotFound && !hints::is_foreign(&error) {
                failure.hint = Some(what_there_is(path).to_owned());
            }
            Err(Stop::from(failure))
        }
    }
}

/// A hint for a path that was not found.
fn what_there_is(path: &str) -> &'static str {
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let mut parts = path.split('/').skip(1);
    match (parts.next(), parts.next(), parts.next()) {
        (Some("v1"), Some("links"), Some(_)) | (Some("r"), Some(_), _) => "dl links list shows the account's links",
        (Some("v1"), Some("apps"), Some(_)) => "dl apps list shows the account's apps",
        (Some("v1"), Some("domains"), Some(_)) => "dl domains list shows the account's domains",
        (Some("v1"), Some("affiliates"), Some(_)) => "dl affiliates list shows the account's affiliates",
        _ => "dl api GET /openapi.json lists the available paths",
    }
}

/// All pages as one: the envelope of the first with the records of all, or one record per line.
async fn pages(ctx: &Context, path: &str, first: RawReply, next: impl Fn(&str) -> Outcome<RawCall>) -> Outcome {
    let (mut reply, mut count, mut name) = (first, 0_usize, None);
    let mut seen = std::collections::HashSet::new();
    let lines = ctx.out.format == Format::Jsonl;
    // What is not plain JSON is made of the whole document.
    let mut whole = String::new();
    let write = |whole: &mut String, text: &str| -> Outcome {
        if ctx.out.is_viewed() {
            whole.push_str(text);
            return Ok(());
        }
        ctx.out.raw(crate::escape::json(text, ctx.out.terminal).as_bytes())
    };
    loop {
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        let record = Record::read(&body).unwrap_or_default();
        let list = name.get_or_insert_with(|| record.first_list().unwrap_or_default()).clone();
        if list.is_empty() {
            return Err(Failure::new(Exit::Failure, "the response is not a paginated list").into());
        }
        if count == 0 && !lines && seen.is_empty() {
            write(&mut whole, &format!("{{\"{list}\":["))?;
        }
        for item in record.items(&list) {
            if lines {
                ctx.out.json_line(item.get())?;
            } else {
                write(&mut whole, if count > 0 { "," } else { "" })?;
                write(&mut whole, item.get())?;
            }
            count += 1;
        }
        ctx.out.flush()?;
        let Some(cursor) = record.cell("next_cursor") else { break };
        if !seen.insert(cursor.clone()) {
            return Err(Failure::new(Exit::Failure, "the service returned the same page twice").into());
        }
        reply = next(&cursor)?.await.map_err(|error| ctx.stop(&error))?;
        refused(ctx, path, &reply)?;
    }
    if !lines {
        write(&mut whole, "],\"next_cursor\":null}")?;
        if ctx.out.is_viewed() {
            ctx.out.json(&whole)?;
        } else {
            ctx.out.raw(b"\n")?;
        }
    }
    ctx.out.flush()
}

fn split<'a>(pair: &'a str, flag: &str) -> Outcome<(&'a str, &'a str)> {
    pair.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Failure::usage(format!("{flag} requires NAME=VALUE")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_looked_for_among_its_kind() {
        for (path, command) in [
            ("/v1/apps/zzz", "dl apps list"),
            ("/v1/domains/go.example.com/verify", "dl domains list"),
            ("/v1/links/spring-42?x=1", "dl links list"),
            ("/r/spring-42", "dl links list"),
            ("/v1/later/zzz", "dl api GET /openapi.json"),
            ("/v1/links", "dl api GET /openapi.json"),
        ] {
            assert!(what_there_is(path).starts_with(command), "{path}");
        }
    }

    #[test]
    fn public_paths_call_for_no_key() {
        for path in
            ["/health", "/ready", "/openapi.json", "/llms.txt", "/r/spring-42", "/r/x?redirect=1", "/v1/auth/signup"]
        {
            assert_eq!(called_for(path), Which::None, "{path}");
        }
        for path in ["/v1/links", "/v1/links/spring-42", "/r", "/r/a/b", "/v1/later"] {
            assert_eq!(called_for(path), Which::Sk, "{path}");
        }
    }
}
