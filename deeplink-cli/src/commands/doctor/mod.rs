//! `dl doctor`: what is wrong, and what to do about it.

mod local;
mod publishable;
mod show;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use deeplink_client::Client;
use deeplink_client::doctor::{Check, Examination, Status};
use futures_util::StreamExt;

use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::help::help;
use crate::net::Reads;
use crate::output;

/// Time limit of one check.
const LIMIT: Duration = Duration::from_secs(10);

/// Diagnose the configuration, key, domains, apps and links
#[derive(Debug, Args)]
#[command(after_help = help(
    "Each check reports ok, warn, fail or skip, and how to fix the problem. Nothing is written, no clicks are \
     counted and no redirects are followed. The publishable key is checked if DL_PUBLISHABLE_KEY is set. Exits with \
     1 if a check fails. Besides the service, it queries the name servers and hosts of the domains, the association \
     services of Apple and Google, and the preview images of the links given.",
    &[
    "dl doctor",
    "dl doctor --host go.example.com --link spring-42 -o json",
]
))]
pub(crate) struct Doctor {
    /// Host to check [default: all verified domains]
    #[arg(long = "host", value_name = "HOST", num_args = 1..)]
    hosts: Vec<String>,
    /// Link to check, as every kind of visitor
    #[arg(long = "link", value_name = "ID", num_args = 1..)]
    links: Vec<String>,
    /// Name server to query instead of the system's
    #[arg(long, value_name = "IP:PORT", help_heading = "Overrides")]
    dns_server: Option<SocketAddr>,
    /// IP address and port to use for a host instead of DNS
    #[arg(long, value_name = "HOST=IP:PORT", value_parser = parse_connect_to, help_heading = "Overrides")]
    connect_to: Vec<(String, SocketAddr)>,
    /// Certificate (PEM) to trust in addition to the system's
    #[arg(long, value_name = "FILE", help_heading = "Overrides")]
    root_certificate: Vec<PathBuf>,
    /// Server to query instead of Apple's for association files
    #[arg(long, value_name = "URL", help_heading = "Overrides")]
    apple_cdn: Option<String>,
    /// Server to query instead of Google's for asset links
    #[arg(long, value_name = "URL", help_heading = "Overrides")]
    google_api: Option<String>,
}

fn parse_connect_to(text: &str) -> Result<(String, SocketAddr), String> {
    let wanted = || "expected a host and its IP address and port, such as go.example.com=127.0.0.1:8443".to_owned();
    let (host, address) = text.split_once('=').filter(|(host, _)| !host.is_empty()).ok_or_else(wanted)?;
    Ok((host.to_owned(), address.parse().map_err(|_| wanted())?))
}

impl Doctor {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::CHECKS)?;
        let mut found = vec![local::config(ctx)];
        let (key, auth) = local::key(ctx).await;
        found.push(key);
        found.push(publishable::check(ctx, LIMIT.min(ctx.timeout)).await);
        let examination = match ctx.base_url() {
            Err(Stop::Failed(failure)) => {
                found.push(Check::new("service.http", &ctx.profile, Status::Fail, failure.message, failure.hint));
                None
            }
            Err(stop) => return Err(stop),
            Ok(base) => {
                let client = ctx.client_for(&base, auth, Reads::Held)?;
                if ctx.global.dry_run {
                    // Later requests depend on the answers, so only the first is printed.
                    return client.public().health().await.map(drop).map_err(|error| ctx.stop(&error));
                }
                Some(self.begin(ctx, &client).await?)
            }
        };
        let devices = examination.as_ref().map(Examination::device_commands).unwrap_or_default();
        let mut shown = show::CheckPrinter::new(&sheet);
        for check in found {
            shown.push(check)?;
        }
        if let Some(examination) = examination {
            let mut checks = std::pin::pin!(examination.run());
            while let Some(check) = checks.next().await {
                shown.push(check)?;
            }
        }
        shown.finish(ctx, &devices)
    }

    async fn begin(self, ctx: &Context, client: &Client) -> Outcome<Examination> {
        let mut doctor = client.doctor().limit(LIMIT.min(ctx.timeout));
        for path in &self.root_certificate {
            doctor = doctor.root_certificate(ctx.bytes_of(path, "--root-certificate")?);
        }
        doctor = self.hosts.into_iter().fold(doctor, deeplink_client::doctor::Doctor::host);
        doctor = self.links.into_iter().fold(doctor, deeplink_client::doctor::Doctor::link);
        for (host, address) in self.connect_to {
            doctor = doctor.connect_to(host, address);
        }
        if let Some(server) = self.dns_server {
            doctor = doctor.dns_server(server);
        }
        if let Some(base) = self.apple_cdn {
            doctor = doctor.apple_cdn(base);
        }
        if let Some(base) = self.google_api {
            doctor = doctor.google_api(base);
        }
        doctor.begin().await.map_err(|error| ctx.stop(&error))
    }
}

/// The end of a run in which checks failed.
fn failed(count: usize, all: usize) -> Stop {
    let what = format!("{count} of {all} checks failed");
    Failure::new(Exit::Failure, what).code("checks_failed").into()
}
