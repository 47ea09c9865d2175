//! `dl mcp`: the tools of `deeplink-mcp` on stdin and stdout, for a program that runs AI agents.

use std::io::{self, IsTerminal};

use bytes::Bytes;
use clap::Args;
use deeplink_client::Client;
use deeplink_core::routes::{Credential, Route};
use deeplink_mcp::{Api, Tools};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Request, Response};
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::help::help;

/// Serve tools for AI agents over MCP, on stdin and stdout
#[derive(Debug, Args)]
#[command(after_help = help(
    "MCP clients, the programs that run AI agents, start this command themselves: configure it in the client as command \"dl\" with \
     argument \"mcp\". Agents can then create, change, find, resolve and explain links, get QR codes and reports, and use the \
     other tools. They have the permissions of the key: with an affiliate's credential, only those of the affiliate. The \
     command exits when stdin is closed.",
    &["dl mcp", "dl mcp --api-key-file key.txt"]
))]
pub(crate) struct Mcp {}

impl Mcp {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        // No key can be read from stdin, or asked for there.
        ctx.take_stdin("dl mcp")?;
        let tools = Tools::new(Service(ctx.client().await?));
        if io::stdin().is_terminal() {
            ctx.console
                .note("waiting for messages from an MCP client; clients start this command themselves; Ctrl-D to stop");
        }
        let ended = match tools.serve(rmcp::transport::stdio()).await {
            Ok(running) => running.waiting().await.map(|_| ()).map_err(|error| error.to_string()),
            // Stdin ended before a client introduced itself.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        ended.map_err(|why| Failure::new(Exit::Failure, format!("the MCP client violated the protocol: {why}")).into())
    }
}

/// The service that the key is for.
#[derive(Debug, Clone)]
struct Service(Client);

impl Api for Service {
    async fn send(&self, route: Route, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        let (parts, body) = request.into_parts();
        let header = |name: HeaderName| text(&parts.headers, &name);
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut call = self.0.request(parts.method.clone(), path).header(ACCEPT, header(ACCEPT));
        if !body.is_empty() {
            call = call.body(header(CONTENT_TYPE), body);
        }
        if route.credential == Credential::Public {
            call = call.without_auth();
        }
        let reply = call.await.map_err(|error| error.to_string())?;
        let mut response = Response::new(reply.body);
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        Ok(response)
    }
}

/// The value of a header that tools set.
fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
