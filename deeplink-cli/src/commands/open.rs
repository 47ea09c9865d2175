//! `dl open`: the service's own pages, in a browser.

use clap::{Args, Subcommand, ValueEnum};
use deeplink_core::routes;

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::given;
use crate::help::help;

/// Open a page of the service in the browser
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = help(
        "With the ID or URL of a short link, such as \"dl open spring-42\", opens the link's page in the account. The URL of \
         the page is printed too; with --dry-run it is only printed. To visit the link itself, use dl links open.",
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
    pub(crate) fn run(self, ctx: &Context) -> Outcome {
        ctx.out.refuse_filter("a URL that is printed as text", "omit them")?;
        let (path, opens) = match (self.page, self.link) {
            (Some(Page::Signin(signin)), _) => (signin.path(), !signin.no_browser),
            (None, Some(link)) => (format!("/account/links/{}", id_of(&link)?), true),
            (None, None) => return Err(Failure::usage("dl open requires a page").hint("dl open signin").into()),
        };
        let address = format!("{}{path}", ctx.base_url()?);
        ctx.out.line(&address)?;
        ctx.out.flush()?;
        if opens && !ctx.global.dry_run {
            crate::browser::open(ctx, &address);
        }
        Ok(())
    }
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

/// The ID of a link: the text itself, or the end of the path of its URL.
fn id_of(link: &str) -> Outcome<&str> {
    let path = link.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let id = if link.contains("://") { path.rsplit('/').next().unwrap_or_default() } else { link };
    given::link_id(id)?;
    Ok(id)
}
