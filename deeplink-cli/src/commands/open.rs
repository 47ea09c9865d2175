//! `dl open`: the service's own pages, in a browser.

use clap::{Args, Subcommand, ValueEnum};
use deeplink_core::routes;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;

/// Open a page of the service in the browser
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl open signin", "dl open signin --provider github --no-browser"]))]
pub(crate) struct Open {
    #[command(subcommand)]
    page: Page,
}

#[derive(Debug, Subcommand)]
enum Page {
    /// Open the sign-in page
    #[command(after_help = help(
        "The URL is printed too. This does not sign dl in; use dl login.",
        &["dl open signin", "dl open signin --provider github --no-browser"]
    ))]
    Signin(Signin),
}

#[derive(Debug, Args)]
struct Signin {
    /// Go straight to an identity provider: google or github
    #[arg(long, value_name = "PROVIDER", hide_possible_values = true)]
    provider: Option<Provider>,
    /// Print the URL without opening it
    #[arg(long)]
    no_browser: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Provider {
    Google,
    Github,
}

impl Open {
    pub(crate) fn run(self, ctx: &Context) -> Outcome {
        ctx.out.refuse_filter("a URL that is printed as text", "omit them")?;
        let Page::Signin(signin) = self.page;
        let base = ctx.base_url()?;
        let path = match signin.provider {
            None => "/signin".to_owned(),
            Some(Provider::Google) => routes::OAUTH_START.path.replace("{provider}", "google"),
            Some(Provider::Github) => routes::OAUTH_START.path.replace("{provider}", "github"),
        };
        let address = format!("{base}{path}");
        ctx.out.line(&address)?;
        ctx.out.flush()?;
        if signin.no_browser || ctx.global.dry_run {
            return Ok(());
        }
        crate::browser::open(ctx, &address);
        Ok(())
    }
}
