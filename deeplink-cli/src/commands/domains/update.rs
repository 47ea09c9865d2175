//! `dl domains update`.

use clap::{Args, ValueEnum};
use deeplink_core::domain::UpdateDomain;
use deeplink_core::patch::Patch;

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::given;
use crate::help::help;
use crate::output;

/// Change a domain's redirects and long-link settings
#[derive(Debug, Args)]
#[command(after_help = help(
    "Only the fields you specify change. Without a URL, visitors see a short page; API clients always get 404. Long links \
     are those of Firebase Dynamic Links, such as https://go.example.com/?link=https://www.example.com/sale. They lead only \
     to allowed hosts, and to the App Store or Google Play only if apps.apple.com or play.google.com, respectively, is \
     allowed.",
    &[
    "dl domains update go.example.com --root-url https://www.example.com",
    "dl domains update go.example.com --not-found-url https://www.example.com/help",
    "dl domains update go.example.com --unset root_url --unset not_found_url",
    "dl domains update go.example.com --long-links true --allowed-host www.example.com",
]
))]
pub(crate) struct Update {
    /// Domain name
    domain: String,
    /// URL for visitors who open / on the domain
    #[arg(long, value_name = "URL")]
    root_url: Option<String>,
    /// URL for visitors who open a link that does not exist
    #[arg(long, value_name = "URL")]
    not_found_url: Option<String>,
    /// Support (true) or ignore (false) long links
    #[arg(long, value_name = "BOOL")]
    long_links: Option<bool>,
    /// Host that long links may lead to; may be repeated, and replaces all allowed hosts
    #[arg(long = "allowed-host", value_name = "HOST")]
    allowed_hosts: Vec<String>,
    /// Field to clear: root_url, not_found_url or allowed_hosts; may be repeated
    #[arg(long, value_name = "FIELD", hide_possible_values = true)]
    unset: Vec<Field>,
}

/// A field that can be emptied, under the API's name and under that of its flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Field {
    #[value(name = "root_url", alias = "root-url")]
    Root,
    #[value(name = "not_found_url", alias = "not-found-url")]
    NotFound,
    #[value(name = "allowed_hosts", alias = "allowed-host")]
    AllowedHosts,
}

impl Update {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DOMAINS)?;
        let name = given::domain(&self.domain)?;
        let mut update = UpdateDomain::new();
        if let Some(url) = self.root_url {
            update = update.root_url(url);
        }
        if let Some(url) = self.not_found_url {
            update = update.not_found_url(url);
        }
        if let Some(follows) = self.long_links {
            update = update.long_links(follows);
        }
        if !self.allowed_hosts.is_empty() {
            update = update.allowed_hosts(self.allowed_hosts);
        }
        for field in self.unset {
            let (is_clear, name) = match field {
                Field::Root => (clear(&mut update.root_url), "root_url"),
                Field::NotFound => (clear(&mut update.not_found_url), "not_found_url"),
                Field::AllowedHosts => (clear(&mut update.allowed_hosts), "allowed_hosts"),
            };
            if !is_clear {
                return Err(Failure::usage(format!("{name} is both set and unset")).into());
            }
        }
        if update == UpdateDomain::new() {
            let hint = "--root-url URL, --not-found-url URL, --long-links BOOL, --allowed-host HOST, --unset root_url";
            return Err(Failure::usage("nothing to change").hint(hint).into());
        }
        update.validate().map_err(|invalid| given::invalid(invalid, &update))?;
        let call = ctx.client().await?.domains().update(&name, &update).full();
        let now = call.await.map_err(|error| ctx.stop_among(&error, "domains"))?;
        sheet.one(&String::from_utf8_lossy(&now.raw))?;
        if !now.value.verified {
            ctx.console.note(&format!("{name} is not verified, so visitors are not redirected yet"));
        }
        Ok(())
    }
}

/// Empties a field; `false` if it has been given a value, too.
fn clear<T>(field: &mut Patch<T>) -> bool {
    let is_free = !matches!(field, Patch::Set(_));
    *field = Patch::Clear;
    is_free
}
