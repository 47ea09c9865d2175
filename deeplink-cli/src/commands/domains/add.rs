//! `dl domains add`.

use clap::{Args, ValueEnum};
use deeplink_core::domain::{CreateDomain, CreatedDomain, DnsRoute, DomainRole};

use crate::commands::domains::record;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output::{self, Format};

/// Claim a domain and print the DNS records to create
#[derive(Debug, Args)]
#[command(after_help = help(
    "The TXT record proves that the domain is yours; the CNAME record routes its visitors here. \
     A claim that is not verified lapses after 7 days. A service on this machine only, whose public URL is a loopback \
     address, also takes names under .localhost, and they are verified at once.",
    &[
    "dl domains add go.example.com",
    "dl domains add open.example.com --role alternate",
    "dl domains add shop.localhost",
]
))]
pub(crate) struct Add {
    /// Name of the domain, such as go.example.com
    domain: String,
    /// Role: primary (links use it) or alternate (taps are redirected through it) [default: primary]
    #[arg(long, value_name = "ROLE", hide_possible_values = true)]
    role: Option<Role>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    /// Links use it
    Primary,
    /// Taps on a landing page go over it, so that iOS opens the app
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
            "\n{} is verified: names under .localhost never leave this machine, so it needs no DNS records\n\nlinks on it: \
             dl links create https://example.com/",
            made.domain
        );
    }
    let txt = record("TXT", &made.txt_record, &made.verification_token);
    let next = format!("then: dl domains verify {} --wait 30m", made.domain);
    match DnsRoute::to(&made.cname_target) {
        DnsRoute::By(kind, target) => {
            let route = record(kind, &made.domain, target);
            format!("\ncreate these two records, name and value, in DNS:\n\n{txt}\n{route}\n{next}")
        }
        DnsRoute::Nowhere => format!(
            "\ncreate this record, name and value, in DNS:\n\n{txt}\nno record can route visitors to {}, the public \
             host of the service: its operator must give it a name\nthat is publicly reachable, with --public-url or \
             DEEPLINK_CNAME_TARGET\n\n{next}\nto try a domain on this machine: dl domains add shop.localhost",
            made.cname_target
        ),
    }
}
