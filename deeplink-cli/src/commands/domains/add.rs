//! `dl domains add`.

use clap::{Args, ValueEnum};
use deeplink_core::domain::{CreateDomain, CreatedDomain, DnsRoute, DomainRole};

use crate::commands::domains::record;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output::{self, Format};

/// Add a domain and print the DNS records to create
#[derive(Debug, Args)]
#[command(after_help = help(
    "The TXT record proves that you own the domain; the CNAME record routes its visitors to the service. A domain \
     that is not verified within 7 days is removed. A service whose public URL is a loopback address also accepts \
     names under .localhost, and treats them as verified.",
    &[
    "dl domains add go.example.com",
    "dl domains add open.example.com --role alternate",
    "dl domains add shop.localhost",
]
))]
pub(crate) struct Add {
    /// Domain name, such as go.example.com
    domain: String,
    /// Role: primary (used in links) or alternate (used by landing-page buttons) [default: primary]
    #[arg(long, value_name = "ROLE", hide_possible_values = true)]
    role: Option<Role>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    /// Used in links
    Primary,
    /// Used by landing-page buttons, so that iOS opens the app
    Alternate,
}

impl Add {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::CLAIMS)?;
        let mut claim = CreateDomain::new(self.domain);
        claim.role = self.role.map(|role| match role {
            Role::Primary => DomainRole::Primary,
            Role::Alternate => DomainRole::Alternate,
        });
        // Before a key is needed: invalid input fails first.
        claim.validate()?;
        let made = ctx.client().await?.domains().create(&claim).full().await.map_err(|error| ctx.stop(&error))?;
        sheet.created(&String::from_utf8_lossy(&made.raw))?;
        if ctx.out.format == Format::Table && sheet.fields.is_none() {
            ctx.console.say(&instructions(&made.value));
        }
        Ok(())
    }
}

/// What to do next: the records, ready to copy.
fn instructions(made: &CreatedDomain) -> String {
    if made.verified {
        return format!(
            "\n{} is verified: names under .localhost always resolve to this machine, so no DNS records are needed\n\nto \
             create a link on it: dl links create https://example.com/",
            made.domain
        );
    }
    let txt = record("TXT", &made.txt_record, &made.verification_token);
    let next = format!("then: dl domains verify {} --wait 30m", made.domain);
    match DnsRoute::to(&made.cname_target) {
        DnsRoute::By(kind, target) => {
            let route = record(kind, &made.domain, target);
            format!("\ncreate these two DNS records (name, then value):\n\n{txt}\n{route}\n{next}")
        }
        DnsRoute::Nowhere => format!(
            "\ncreate this DNS record (name, then value):\n\n{txt}\nno DNS record can route visitors to {}, the \
             public host of the service: its operator must set a publicly\nreachable name with --public-url or \
             DEEPLINK_CNAME_TARGET\n\n{next}\nto try out a domain on this machine: dl domains add shop.localhost",
            made.cname_target
        ),
    }
}
