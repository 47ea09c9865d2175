//! `dl open`: the service's own pages, in a browser.

use clap::{Args, Subcommand, ValueEnum};
use deeplink_client::ExplainQuery;
use deeplink_core::routes;

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::given::{self, LinkAt};
use crate::help::help;
use crate::output;

/// Open a page of the service in the browser
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = help(
        "With the ID or URL of a short link, such as \"dl open spring-42\", opens the link's page in the account. If the URL's \
         host is not the service's, dl first asks the service whether the link is there. The URL of the page is printed \
         too; with --dry-run it is only printed. To visit the link itself, use dl links open.",
        &["dl open signin", "dl open signin --provider github --no-browser"]
    )
)]
pub(crate) struct Open {
    /// ID or short link, whose page in the account is opened
    #[arg(value_name = "ID|URL")]
    link: Option<String>,
    #[command(subcommand)]
    page: Option<Page>,
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
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        ctx.out.refuse_filter("a URL that is printed as text", "omit them")?;
        let base = ctx.base_url()?;
        let (path, opens) = match (self.page, self.link) {
            (Some(Page::Signin(signin)), _) => (signin.path(), !signin.no_browser),
            (None, Some(link)) => {
                let link = given::link(&link, &base)?;
                check(ctx, &link).await?;
                (format!("/account/links/{}", link.id), true)
            }
            (None, None) => {
                let what = "dl open requires the ID or URL of a link, or a page";
                return Err(Failure::usage(what).hint("dl open spring-42, or dl open signin").into());
            }
        };
        let address = format!("{base}{path}");
        if ctx.out.format.is_json() {
            ctx.out.json(&output::object(&[("url", address.as_str().into())]))?;
        } else {
            ctx.out.line(&address)?;
        }
        ctx.out.flush()?;
        if opens && !ctx.global.dry_run {
            crate::browser::open(ctx, &address);
        }
        Ok(())
    }
}

/// Checks that a link that was given by a URL on another host is one of the account's there, and not one of somebody else that
/// has the same ID.
async fn check(ctx: &Context, link: &LinkAt) -> Outcome {
    if link.host.is_none() || ctx.global.dry_run {
        return Ok(());
    }
    let mut query = ExplainQuery::new();
    query.host.clone_from(&link.host);
    let found = ctx.client().await?.links().explain(&link.id, &query).await;
    found.map(drop).map_err(|error| ctx.stop(&error).naming_link(&link.id))
}

impl Signin {
    fn path(&self) -> String {
        match self.provider {
            None => "/signin".to_owned(),
            Some(Provider::Google) => routes::OAUTH_START.path.replace("{provider}", "google"),
            Some(Provider::Github) => routes::OAUTH_START.path.replace("{provider}", "github"),
        }
    }
}
