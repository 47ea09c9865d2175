//! `dl links resolve`: where a tap would lead.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use deeplink_client::{Auth, Call, Error, Kind, Resolution};
use deeplink_core::explanation::SampleVisitor;
use deeplink_core::link::LinkStatus;

use crate::base_url::BaseUrl;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::given;
use crate::help::help;
use crate::net::Reads;
use crate::output::{self, Format};

/// Show where a link leads
#[derive(Debug, Args)]
#[command(after_help = help(
    "Sends a HEAD request without a key, which is not counted as a click. If the response is a page, a prefetch \
     request (also not counted) determines whether it is a landing page or a notice: see --fields status,shows. --as \
     json sends a GET request, which counts as a click. dl links explain shows why.",
    &[
    "dl links resolve spring-42",
    "dl links resolve https://go.example.com/spring-42 --as ios",
    "dl links resolve spring-42 --host go.example.com",
]
))]
pub(crate) struct Resolve {
    /// ID of the link, or its full URL
    #[arg(value_name = "ID|URL")]
    link: String,
    /// Custom domain to send as the Host header to the base URL
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Visitor: ios, android, desktop or json [default: desktop]
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
    /// An API client that requests JSON; this counts as a click
    Json,
}

impl Visitor {
    const fn user_agent(self) -> &'static str {
        match self {
            Self::Ios => SampleVisitor::IPHONE.user_agent,
            Self::Android => SampleVisitor::ANDROID.user_agent,
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
        let base = self.base(ctx)?;
        let host = self.host.as_deref().map(given::host).transpose()?;
        let client = ctx.client_for(&base, Auth::None, Reads::Held)?;
        let call = || {
            let call = client.public().resolve(&self.link);
            match &host {
                Some(host) => call.on_host(host.as_str()),
                None => call,
            }
        };
        let visit = match self.visitor {
            Some(Visitor::Json) => call(),
            visitor => call().as_visitor(visitor.unwrap_or(Visitor::Desktop).user_agent()).head(),
        };
        let host_name = host.as_ref().map_or_else(|| base.origin(), ToString::to_string);
        let reply = visit.full().await.map_err(|error| self.stop(ctx, &error, &host_name))?;
        let (status, mut shows) = (reply.status.as_u16(), None);
        let location = match &reply.value {
            Resolution::Json(_) if as_json => {
                sheet.one(&String::from_utf8_lossy(&reply.raw))?;
                ctx.console.note("this counted as a click");
                return Ok(());
            }
            Resolution::Redirect { location, .. } => Some(location.as_str()),
            _ if status == 410 => {
                shows = Some(Shows::Ended);
                None
            }
            _ => {
                shows = look(call()).await;
                None
            }
        };
        let id = self.link.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let mut members = vec![("link_id", id.into()), ("status", status.into()), ("location", location.into())];
        if sheet.fields.is_some() {
            members.push(("shows", shows.map(Shows::word).into()));
        }
        let record = output::object(&members);
        if ctx.out.format == Format::Table && ctx.out.terminal && sheet.fields.is_none() {
            let page = shows.map_or("(a page; it has no single destination)", Shows::shown);
            ctx.out.line(&format!("{status}  {}", location.unwrap_or(page)))?;
            ctx.out.flush()?;
            if let (Some(Shows::Page), false) = (shows, self.link.contains("://")) {
                let visitor = self.visitor.unwrap_or(Visitor::Desktop).to_possible_value();
                let visitor = visitor.as_ref().map_or("desktop", PossibleValue::get_name);
                ctx.console.note(&format!(
                    "to see where the button on the landing page leads: dl links explain {id} --as {visitor}"
                ));
            }
            return Ok(());
        }
        if ctx.out.format == Format::Json {
            sheet.one(&record)?;
        } else {
            let mut rows = sheet.several();
            rows.push(&record)?;
            rows.finish(None)?;
        }
        if let (Some(shows), None) = (shows, &sheet.fields) {
            ctx.console.note(shows.noted());
        }
        Ok(())
    }

    /// Where the request goes: the service, or the host that the link's own address names.
    fn base(&self, ctx: &Context) -> Outcome<BaseUrl> {
        if !self.link.contains("://") {
            given::link_id(&self.link)?;
            return ctx.base_url();
        }
        if self.host.is_some() {
            return Err(Failure::usage("--host works only with an ID; a URL already contains its host").into());
        }
        let url: url::Url = self.link.parse().map_err(|_| Failure::invalid("the link is not a valid URL"))?;
        url.origin().ascii_serialization().parse().map_err(|why: String| Failure::invalid(why).into())
    }

    /// The failure of a visit: an answer to `HEAD` has no body with a message.
    fn stop(&self, ctx: &Context, error: &Error, host_name: &str) -> Stop {
        let mut failure = match ctx.stop(error) {
            Stop::Failed(failure) => failure,
            other => return other,
        };
        let is_address = self.link.contains("://");
        match error.kind() {
            Kind::NotFound => {
                failure.message = if is_address {
                    format!("no link at {} (HTTP 404)", self.link)
                } else {
                    format!("no link \"{}\" at {host_name} (HTTP 404)", self.link)
                };
                failure.code = Some("not_found".into());
                failure.hint = Some(match &self.host {
                    None => "IDs are case-sensitive; dl links list shows the links of the account".to_owned(),
                    Some(_) => format!(
                        "check that {host_name} is verified and the link is on it: dl domains list, dl links list"
                    ),
                });
            }
            Kind::Connect if is_address => failure.hint = Some(self.other_way()),
            _ => {}
        }
        Stop::Failed(failure)
    }

    /// The alternative if the host of the link's address cannot be reached.
    fn other_way(&self) -> String {
        let url = self.link.parse::<url::Url>().ok();
        let parts = url.as_ref().and_then(|url| Some((url.host_str()?, url.path().strip_prefix('/')?)));
        match parts {
            Some((host, id)) if given::host(host).is_ok_and(|name| !name.is_local()) && given::link_id(id).is_ok() => {
                format!(
                    "check that {host} is in DNS; to query the service at --base-url directly: dl links resolve \
                    {id} --host {host}"
                )
            }
            _ => "check the URL, its DNS and the network".to_owned(),
        }
    }
}

/// The page a visitor sees if the link does not redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// The landing page.
    Page,
    /// The warning before a link that was reported.
    Flagged,
    /// The notice that the link has ended.
    Ended,
}

impl Shows {
    /// For `--fields shows`.
    const fn word(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Flagged | Self::Ended => "notice",
        }
    }

    /// Next to the status, on a terminal.
    const fn shown(self) -> &'static str {
        match self {
            Self::Page => "(a landing page; it has no single destination)",
            Self::Flagged => "(a notice: the link was flagged as unsafe and does not redirect)",
            Self::Ended => "(a notice: the link is expired or disabled)",
        }
    }

    /// On stderr, if stdout has no room for it.
    const fn noted(self) -> &'static str {
        match self {
            Self::Page => "page: a landing page, with no single destination",
            Self::Flagged => "notice: the link was flagged as unsafe and does not redirect",
            Self::Ended => "notice: the link is expired or disabled",
        }
    }
}

/// Distinguishes the landing page from the notice, whose status and headers are the same. A prefetch is not counted
/// either.
async fn look(call: Call<Resolution>) -> Option<Shows> {
    match call.header("sec-purpose", "prefetch").await {
        Ok(Resolution::Json(link)) if link.service_meta.status == LinkStatus::Active => Some(Shows::Page),
        Ok(Resolution::Json(link)) if link.service_meta.status == LinkStatus::Flagged => Some(Shows::Flagged),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_not_in_dns_can_be_asked_for_at_the_service() {
        let hint = |link: &str| Resolve { link: link.to_owned(), host: None, visitor: None }.other_way();
        assert_eq!(
            hint("https://go.example.io/both"),
            "check that go.example.io is in DNS; to query the service at --base-url directly: dl links resolve both \
                --host go.example.io"
        );
        for link in ["https://localhost/both", "https://go.example.io/r/both", "https://192.0.2.7/both"] {
            assert_eq!(hint(link), "check the URL, its DNS and the network", "{link}");
        }
    }
}
