//! `dl links create`.

use std::path::PathBuf;

use clap::Args;
use deeplink_client::{Client, Kind};
use deeplink_core::error::ErrorCode;
use deeplink_core::link::CreateLink;

use crate::clock;
use crate::commands::links::content::Content;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::given;
use crate::help::help;
use crate::output;

/// Create a link and print its URL
#[derive(Debug, Args)]
#[command(after_help = help("", &[
    "dl links create https://example.com/p/42",
    "dl links create https://example.com/p/42 --id spring-42 --action purchase --cta \"Buy now\"",
    "dl links create https://example.com/p/42 --ios shop://p/42 --meta season=spring",
    "dl links create https://example.com/sale --name \"Spring sale\" --expires-at 30d",
    "dl links create https://example.com/sale --id spring --alias 3xYz9Ab --alias l/spring_sale",
]))]
pub(crate) struct Create {
    /// Web page the link leads to; same as --web
    #[arg(value_name = "WEB_URL", conflicts_with = "web")]
    web_url: Option<String>,
    /// ID of the link: 3 to 64 letters, digits and hyphens, with a letter or digit at each end [default: generated]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Affiliate the link is attributed to
    #[arg(long, value_name = "ID")]
    affiliate: Option<String>,
    /// JSON file with the link (API field names), or - for stdin; flags override it
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
    /// Succeed if a link with this ID and content already exists
    #[arg(long, requires = "id")]
    if_not_exists: bool,
    /// Create the link disabled; dl links enable enables it
    #[arg(long)]
    disabled: bool,
    #[command(flatten)]
    content: Content,
}

impl Create {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::CREATED)?;
        let if_not_exists = self.if_not_exists;
        let link = self.link(ctx)?;
        // Before a key is needed: invalid input fails first.
        link.validate().map_err(|invalid| given::invalid(invalid, &link))?;
        let client = ctx.client().await?;
        let made = match client.links().create(&link).full().await {
            Ok(made) => made,
            Err(error) if if_not_exists && error.code() == Some(&ErrorCode::LinkIdTaken) => {
                return existing(ctx, &client, link, ctx.failure(&error)).await;
            }
            Err(error) => return Err(with_hint(ctx.stop(&error), &link)),
        };
        let checked = link.check()?;
        if checked.destinations.as_ref().each().all(|(_, url)| url.is_none()) {
            let id = &made.value.link_id;
            ctx.console
                .note(&format!("the link has no destination yet; to set one: dl links update {id} --web https://…"));
        }
        let asked = checked.expires_at;
        if let Some(end) = made.value.expires_at.filter(|end| Some(*end) != asked) {
            let when = clock::relative(end, clock::now());
            ctx.console.note(&format!("the link expires {when} ({end}) because the account has no verified domain"));
            ctx.console.say(
                "  to keep links from expiring: dl domains add NAME or, on your own server, set\n  \
                 DEEPLINK_UNVERIFIED_LINK_TTL_DAYS=0 (applies only to new links)",
            );
        }
        sheet.created(&String::from_utf8_lossy(&made.raw))
    }

    fn link(self, ctx: &Context) -> Outcome<CreateLink> {
        let mut link = match &self.from_file {
            Some(path) => read_link(ctx, path, "--from-file")?,
            None => CreateLink::new(),
        };
        let mut content = self.content;
        content.web = content.web.or(self.web_url);
        content.lay_over(&mut link, ctx)?;
        link.custom_id = self.id.or(link.custom_id);
        link.affiliate_id = self.affiliate.or(link.affiliate_id);
        if self.disabled {
            link.enabled = Some(false);
        }
        Ok(link)
    }
}

/// Reads a create request from a JSON file.
pub(crate) fn read_link(ctx: &Context, path: &std::path::Path, flag: &'static str) -> Outcome<CreateLink> {
    let text = ctx.text_of(path, flag)?;
    serde_json::from_str(&text).map_err(|error| {
        let position = format!("{}:{}:{}", path.display(), error.line(), error.column());
        let why = error.to_string();
        let why = why.split(" at line ").next().unwrap_or(&why);
        Failure::invalid(format!("{position}: {why}"))
            .code("bad_request")
            .hint("the file must contain one JSON object with the API's field names, such as {\"web_url\": …}")
            .into()
    })
}

fn with_hint(stop: Stop, link: &CreateLink) -> Stop {
    match (stop, &link.custom_id) {
        (Stop::Failed(mut failure), Some(id)) if failure.code.as_deref() == Some("link_id_taken") => {
            failure.hint = Some(format!("dl links get {id} shows it; choose another --id, or use --if-not-exists"));
            Stop::Failed(failure)
        }
        (stop, _) => stop,
    }
}

/// The id is taken: fine if the existing link has the same content.
async fn existing(ctx: &Context, client: &Client, link: CreateLink, taken: Failure) -> Outcome {
    let sheet = ctx.out.sheet(&output::LINKS)?;
    let id = link.custom_id.clone().unwrap_or_default();
    let there = match client.links().get(&id).full().await {
        Ok(there) => there,
        Err(error) if error.kind() == Kind::NotFound => {
            return Err(Failure {
                hint: Some("the link belongs to someone else: choose another --id".into()),
                ..taken
            }
            .into());
        }
        Err(error) => return Err(ctx.stop(&error)),
    };
    let differs = deeplink_client::differences(&link.check()?, &there.value);
    if differs.is_empty() {
        ctx.console.say(&format!("{id} already exists with the same content"));
        return sheet.created(&String::from_utf8_lossy(&there.raw));
    }
    for difference in &differs {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
        let (found, wanted) = (shown(&difference.found), shown(&difference.wanted));
        ctx.console.say(&format!("  {}: existing {found}, requested {wanted}", difference.field));
    }
    let what = format!("the ID \"{id}\" is already used by a link with different content");
    let hint = format!("to change it: dl links update {id}");
    Err(Failure { exit: Exit::Conflict, message: what, hint: Some(hint), ..taken }.into())
}
