//! `dl links resolve`: where a tap would lead.

use clap::{Args, ValueEnum};
use deeplink_client::{Auth, Resolution};

use crate::base_url::BaseUrl;
use crate::cli::help;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::net::Reads;
use crate::output::{self, Format};

/// Show where a link leads
#[derive(Debug, Args)]
#[command(after_help = help(
    "Asks with HEAD, which is not counted as a click, and sends no key. --as json asks with GET and is counted.",
    &[
    "dl links resolve spring-42",
    "dl links resolve https://go.example.com/spring-42 --as ios",
    "dl links resolve spring-42 --host go.example.com",
]
))]
pub(crate) struct Resolve {
    /// Id of the link, or its whole address
    #[arg(value_name = "ID|URL")]
    link: String,
    /// Custom host to ask for, at the service's base URL
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Who asks: ios, android, desktop or json [default: desktop]
    #[arg(long = "as", value_name = "VISITOR", hide_possible_values = true)]
    visitor: Option<Visitor>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Visitor {
    /// A browser on an iPhone
    Ios,
    /// A browser on an Android phone
    Android,
    /// A browser on a desktop
    Desktop,
    /// A program that wants JSON; this counts as a click
    Json,
}

impl Visitor {
    const fn user_agent(self) -> &'static str {
        match self {
            Self::Ios => {
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                 Version/18.0 Mobile/15E148 Safari/604.1"
            }
            Self::Android => {
                "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) \
                 Chrome/131.0.0.0 Mobile Safari/537.36"
            }
            Self::Desktop => {
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
            }
            Self::Json => concat!("dl/", env!("CARGO_PKG_VERSION")),
        }
    }
}

impl Resolve {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let (as_json, noun) = match self.visitor {
            Some(Visitor::Json) => (true, &output::RESOLVED),
            _ => (false, &output::RESOLUTION),
        };
        let sheet = ctx.out.sheet(noun)?;
        let client = ctx.client_for(&self.base(ctx)?, Auth::None, Reads::Held)?;
        let mut call = client.public().resolve(&self.link);
        if let Some(host) = &self.host {
            call = call.on_host(host);
        }
        if !as_json {
            let visitor = self.visitor.unwrap_or(Visitor::Desktop);
            call = call.as_visitor(visitor.user_agent()).head();
        }
        let reply = call.full().await.map_err(|error| ctx.stop(&error))?;
        let status = reply.status.as_u16();
        let location = match &reply.value {
            Resolution::Json(_) if as_json => {
                sheet.one(&String::from_utf8_lossy(&reply.raw))?;
                ctx.console.note("this was counted as a click");
                return Ok(());
            }
            Resolution::Redirect { location, .. } => Some(location.as_str()),
            _ => None,
        };
        let id = self.link.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let record =
            output::object(&[("link_id", id.into()), ("status", status.into()), ("location", location.into())]);
        if ctx.out.format == Format::Table && ctx.out.terminal && sheet.fields.is_none() {
            ctx.out.line(&format!("{status}  {}", location.unwrap_or_else(|| page(status))))?;
            return ctx.out.flush();
        }
        if ctx.out.format == Format::Json {
            return sheet.one(&record);
        }
        let mut rows = sheet.several();
        rows.push(&record)?;
        rows.finish(None)
    }

    /// Where the request goes: the service, or the host that the link's own address names.
    fn base(&self, ctx: &Context) -> Outcome<BaseUrl> {
        if !self.link.contains("://") {
            return ctx.base_url();
        }
        if self.host.is_some() {
            return Err(Failure::usage("--host goes with an id; an address names its host itself").into());
        }
        let url: url::Url = self.link.parse().map_err(|_| Failure::invalid("the link is not an address"))?;
        url.origin().ascii_serialization().parse().map_err(|why: String| Failure::invalid(why).into())
    }
}

fn page(status: u16) -> &'static str {
    match status {
        410 => "(a page that says the link has ended)",
        _ => "(a page; it has no single destination)",
    }
}
