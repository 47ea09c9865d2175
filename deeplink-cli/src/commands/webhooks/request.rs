//! A received request, as files: its headers one per line, or all of it as sent over the wire.

use std::path::{Path, PathBuf};

use clap::Args;
use deeplink_core::signature::SERVICE_SIGNATURE;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::context::Context;
use crate::error::{Failure, Outcome};

/// Where the request is.
#[derive(Debug, Args)]
pub(super) struct Received {
    /// Value of X-Service-Signature
    #[arg(long, value_name = "HEX", conflicts_with_all = ["headers", "raw"])]
    signature: Option<String>,
    /// File with the headers, one per line, or - for stdin
    #[arg(long, value_name = "FILE|-", conflicts_with = "raw")]
    headers: Option<PathBuf>,
    /// File with the raw request (request line, headers, empty line, body), or - for stdin
    #[arg(long, value_name = "FILE|-", conflicts_with = "body")]
    raw: Option<PathBuf>,
    /// File with the exact bytes of the body, or - for stdin [default: -]
    #[arg(long, value_name = "FILE|-")]
    body: Option<PathBuf>,
}

/// The received request.
pub(super) struct Request {
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Received {
    /// Reads the request.
    pub(super) async fn read(&self, ctx: &Context) -> Outcome<Request> {
        if let Some(path) = &self.raw {
            let bytes = ctx.given_bytes(path, "--raw").await?;
            let (head, body) =
                split(&bytes).ok_or_else(|| Failure::invalid("--raw: no empty line between headers and body"))?;
            // The first line is the request's own.
            let head = head.split_once('\n').map_or("", |(_, rest)| rest);
            return Ok(Request { headers: parse(head, "--raw")?, body: body.to_vec() });
        }
        let headers = match (&self.signature, &self.headers) {
            (Some(signature), _) => {
                let mut headers = HeaderMap::new();
                headers.insert(HeaderName::from_static(SERVICE_SIGNATURE), value(signature, "--signature")?);
                headers
            }
            (None, Some(path)) => {
                let text = String::from_utf8(ctx.given_bytes(path, "--headers").await?);
                parse(&text.map_err(|_| Failure::invalid("--headers: not UTF-8 text"))?, "--headers")?
            }
            (None, None) => {
                let what = "no signature; use --signature, --headers or --raw";
                return Err(Failure::usage(what).code("no_signature").into());
            }
        };
        let body = ctx.given_bytes(self.body.as_deref().unwrap_or(Path::new("-")), "--body").await?;
        Ok(Request { headers, body })
    }
}

/// The head as text, and the bytes behind the empty line.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let at = |mark: &[u8]| Some((bytes.windows(mark.len()).position(|window| window == mark)?, mark.len()));
    let (end, length) = [at(b"\r\n\r\n"), at(b"\n\n")].into_iter().flatten().min()?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + length..]))
}

fn parse(text: &str, asked_by: &str) -> Outcome<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = || Failure::invalid(format!("{asked_by}: line {} is not a header such as \"Name: value\"", at + 1));
        let (name, text) = line.split_once(':').ok_or_else(wrong)?;
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        headers.append(name, value(text.trim(), asked_by)?);
    }
    Ok(headers)
}

fn value(text: &str, asked_by: &str) -> Outcome<HeaderValue> {
    HeaderValue::from_str(text).map_err(|_| Failure::invalid(format!("{asked_by}: not a valid header value")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_split_where_its_head_ends() {
        for raw in ["POST / HTTP/1.1\r\na: b\r\n\r\n{}\n\n", "POST / HTTP/1.1\na: b\n\n{}\n\n"] {
            let (head, body) = split(raw.as_bytes()).expect("a request");
            assert!(head.ends_with("a: b"), "{head}");
            assert_eq!(body, b"{}\n\n");
        }
        assert!(split(b"POST / HTTP/1.1\r\n").is_none());
        assert_eq!(parse("Webhook-Id:  x \n\n", "--headers").expect("headers")["webhook-id"], "x");
        assert!(parse("no header", "--headers").is_err());
    }
}
