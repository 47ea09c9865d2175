//! `dl domains add`.

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use deeplink_core::domain::{CreateDomain, CreatedDomain, DomainRole};

use crate::commands::domains::record;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output::{self, Format};

/// Claim a domain and print the DNS records to create
#[derive(Debug, Args)]
#[command(after_help = help(
    "The TXT record proves that the domain is yours; the CNAME record routes its visitors here. \
     A claim that is not verified lapses after 7 days.",
    &[
    "dl domains add go.example.com",
    "dl domains add open.example.com --role alternate",
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

/// The records, ready to copy.
fn instructions(made: &CreatedDomain) -> String {
    let txt = record("TXT", &made.txt_record, &made.verification_token);
    let next = format!("then: dl domains verify {} --wait 30m", made.domain);
    match Route::to(&made.cname_target) {
        Route::By(kind) => {
            let route = record(kind, &made.domain, made.cname_target.trim_matches(['[', ']']));
            format!("\ncreate these two records, name and value, in DNS:\n\n{txt}\n{route}\n{next}")
        }
        Route::Nowhere => format!(
            "\ncreate this record, name and value, in DNS:\n\n{txt}\nno record can route visitors to {}, the public \
             host of the service: its operator must give it a name\nthat is publicly reachable, with --public-url or \
             DEEPLINK_CNAME_TARGET\n\n{next}",
            made.cname_target
        ),
    }
}

/// How DNS brings visitors to the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// By a record of this kind: a CNAME record holds a name, never an address.
    By(&'static str),
    /// Not at all: the service's only known address leads back to the visitor's own machine.
    Nowhere,
}

impl Route {
    fn to(target: &str) -> Self {
        let bare = target.trim_matches(['[', ']']);
        match bare.parse::<IpAddr>() {
            Ok(address) if address.is_loopback() || address.is_unspecified() => Self::Nowhere,
            Ok(IpAddr::V4(_)) => Self::By("A"),
            Ok(IpAddr::V6(_)) => Self::By("AAAA"),
            Err(_) if bare == "localhost" || bare.ends_with(".localhost") => Self::Nowhere,
            Err(_) => Self::By("CNAME"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_no_target_of_a_cname() {
        for (target, route) in [
            ("links.example.com", Route::By("CNAME")),
            ("192.0.2.7", Route::By("A")),
            ("[2001:db8::7]", Route::By("AAAA")),
            ("127.0.0.1", Route::Nowhere),
            ("[::1]", Route::Nowhere),
            ("0.0.0.0", Route::Nowhere),
            ("localhost", Route::Nowhere),
        ] {
            assert_eq!(Route::to(target), route, "{target}");
        }
    }
}
