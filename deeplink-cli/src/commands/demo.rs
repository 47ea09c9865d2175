//! `dl demo`: a sample link with every kind of content, to look at and to scan.

use clap::Args;
use deeplink_client::{Client, LinkDetail, LinkStatus};
use deeplink_core::error::ErrorCode;
use deeplink_core::link::{CreateLink, UpdateLink};
use deeplink_core::patch::Patch;
use serde_json::json;

use crate::clock;
use crate::commands::links::qr;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::help::help;
use crate::ids;
use crate::output::{self, Format};

/// The sample's ID.
const ID: &str = "dl-demo";
/// The sample's name, by which it is told from a link of the account that has its ID.
const NAME: &str = "Sample link from dl demo";
/// How long the sample works.
const LIFETIME_MILLIS: i64 = 7 * 24 * 60 * 60 * 1000;

/// Create a sample link, and show its URL, its QR code and what to try with it
#[derive(Debug, Args)]
#[command(after_help = help(
    "The sample has destinations for iOS, Android and the web (Wikipedia's apps and site), a preview, context for AI agents, \
     metadata, a tag and a name. Its ID is dl-demo, and it expires after 7 days; then dl demo \
     renews it. --dry-run shows it without creating it.",
    &["dl demo", "dl demo --dry-run", "dl demo --delete"]
))]
pub(crate) struct Demo {
    /// Delete the sample link
    #[arg(long)]
    delete: bool,
}

impl Demo {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let client = ctx.client().await?;
        if self.delete { delete(ctx, &client).await } else { create(ctx, &client).await }
    }
}

/// A link with everything that a link can have.
fn sample() -> Result<CreateLink, serde_json::Error> {
    let sample = json!({
        "custom_id": ID,
        "name": NAME,
        "web_url": "https://en.wikipedia.org/wiki/Mobile_deep_linking",
        "ios_deep_link": "wikipedia://en.wikipedia.org/wiki/Mobile_deep_linking",
        "ios_store_url": "https://apps.apple.com/app/id324715238",
        "android_deep_link": "wikipedia://en.wikipedia.org/wiki/Mobile_deep_linking",
        "android_store_url": "https://play.google.com/store/apps/details?id=org.wikipedia",
        "agent_context": {
            "action": "read",
            "cta": "Read the article",
            "description": "An encyclopedia article about links that open apps.",
        },
        "social_preview": {
            "title": "What is a deep link?",
            "description": "One link for iOS, Android and the web: it opens the app, or the store, or the page.",
            "image_url": "https://en.wikipedia.org/static/images/icons/wikipedia.png",
        },
        "metadata": {"source": "dl demo", "article": "Mobile deep linking"},
        "tags": ["demo"],
        "expires_at": clock::now().plus_millis(LIFETIME_MILLIS).to_string(),
    });
    serde_json::from_str(&sample.to_string())
}

async fn create(ctx: &Context, client: &Client) -> Outcome {
    let sheet = ctx.out.sheet(&output::CREATED)?;
    let sample =
        sample().map_err(|error| Failure::new(Exit::Failure, format!("the sample link is not valid: {error}")))?;
    let (url, raw) = match client.links().create(&sample).full().await {
        Ok(made) => (made.value.url, made.raw),
        Err(error) if error.code() == Some(&ErrorCode::LinkIdTaken) => {
            let there = client.links().get(ID).full().await.map_err(|error| ctx.stop(&error).naming_link(ID))?;
            require_sample(there.value.name.as_deref())?;
            if there.value.status == LinkStatus::Active {
                ctx.console.note(&format!("the sample link {ID} already exists"));
                (there.value.url, there.raw)
            } else {
                renew(ctx, client, &there.value).await?
            }
        }
        Err(error) => return Err(ctx.stop(&error)),
    };
    if ctx.out.terminal && ctx.out.format == Format::Table && sheet.fields.is_none() {
        qr::draw(ctx, false, ID, &url)?;
    } else {
        sheet.created(&String::from_utf8_lossy(&raw))?;
    }
    ctx.console.say(&format!(
        "\nTry next:\n  \
         dl links explain {ID}                what each kind of visitor gets\n  \
         dl links resolve {ID} --as ios       where a visit from an iPhone leads\n  \
         dl links qr {ID} --out {ID}.svg   the QR code for print\n  \
         dl links update {ID} --web URL       a change, which takes effect immediately\n  \
         dl stats {ID} --from 1d              its clicks, once you have scanned the code\n  \
         dl demo --delete                        delete the sample"
    ));
    Ok(())
}

/// Makes an expired or disabled sample work again.
async fn renew(ctx: &Context, client: &Client, there: &LinkDetail) -> Outcome<(String, bytes::Bytes)> {
    let mut update = UpdateLink::new();
    update.expires_at = Patch::Set(clock::now().plus_millis(LIFETIME_MILLIS).to_string());
    if !there.enabled {
        update.enabled = Patch::Set(true);
    }
    let renewed = client.links().update(ID, &update).full().await;
    let renewed = renewed.map_err(|error| ctx.stop(&error).naming_link(ID))?;
    if renewed.value.status == LinkStatus::Active {
        ctx.console.note(&format!("the sample link {ID} was {}; it works again", there.status.as_str()));
    } else {
        let status = renewed.value.status.as_str();
        ctx.console.warn(&format!("the sample link {ID} is {status}; for details: dl links explain {ID}"));
    }
    Ok((renewed.value.url, renewed.raw))
}

async fn delete(ctx: &Context, client: &Client) -> Outcome {
    if !ctx.global.dry_run {
        let there = client.links().get(ID).await.map_err(|error| {
            let stop = ctx.stop(&error).naming(&format!("link with ID {ID}"));
            let is_missing = matches!(&stop, Stop::Failed(failure) if failure.exit == Exit::NotFound);
            if is_missing { stop.hinting("dl demo creates it") } else { stop }
        })?;
        require_sample(there.name.as_deref())?;
    }
    let ids = [ID.to_owned()];
    ids::delete(ctx, "links", &ids, &ids, None, |client, id| client.links().delete(id)).await
}

/// Checks that the link with the sample's ID is the sample.
fn require_sample(name: Option<&str>) -> Outcome {
    if name == Some(NAME) {
        return Ok(());
    }
    let what = format!("the ID {ID} is used by a link that dl demo did not create");
    Err(Failure::new(Exit::Conflict, what).hint(format!("dl links get {ID} shows it")).into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_sample_is_a_valid_link_with_everything() {
        let sample = super::sample().expect("a link");
        let checked = sample.check().expect("a valid link");
        assert!(checked.destinations.as_ref().each().all(|(_, url)| url.is_some()));
        assert!(checked.agent_context.is_some() && checked.social_preview.is_some() && checked.expires_at.is_some());
    }
}
