//! `dl domains add`.

use clap::{Args, ValueEnum};
use deeplink_core::domain::{CreateDomain, CreatedDomain, DomainRole};

use crate::cli::help;
use crate::context::Context;
use crate::error::Outcome;
use crate::output::{self, Format};

/// Claim a domain and print what to write into DNS
#[derive(Debug, Args)]
#[command(after_help = help(
    "The TXT record proves that the domain is yours; the CNAME record brings its visitors here. \
     A claim that is not verified lapses after 7 days.",
    &[
    "dl domains add go.example.com",
    "dl domains add open.example.com --role alternate",
]
))]
pub(crate) struct Add {
    /// Name of the domain, such as go.example.com
    domain: String,
    /// What it does: primary (links live on it) or alternate (a tap leads over it) [default: primary]
    #[arg(long, value_name = "ROLE", hide_possible_values = true)]
    role: Option<Role>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    /// Links live on it
    Primary,
    /// A tap on a landing page leads over it, so that iOS opens the app
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
        // Before anything that needs a key: wrong input is wrong whoever sends it.
        claim.validate()?;
        let made = ctx.client()?.domains().create(&claim).full().await.map_err(|error| ctx.stop(&error))?;
        sheet.created(&String::from_utf8_lossy(&made.raw))?;
        if ctx.out.format == Format::Table && sheet.fields.is_none() {
            ctx.console.say(&instructions(&made.value));
        }
        Ok(())
    }
}

/// The two records as a person copies them: each value on a line of its own, which no usual terminal breaks.
fn instructions(made: &CreatedDomain) -> String {
    let record = |kind: &str, name: &str, value: &str| format!("  {kind:<5}  {name}\n         {value}\n");
    let txt = record("TXT", &made.txt_record, &made.verification_token);
    let cname = record("CNAME", &made.domain, &made.cname_target);
    let next = format!("dl domains verify {} --wait 30m", made.domain);
    format!("\nwrite these two records, name and value, into DNS:\n\n{txt}\n{cname}\nthen: {next}")
}
