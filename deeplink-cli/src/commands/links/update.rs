//! `dl links update`.

use clap::{Args, ValueEnum};
use deeplink_client::{BulkUpdate, LinkDetail};
use deeplink_core::link::UpdateLink;
use deeplink_core::patch::Patch;

use crate::commands::links::content::{self, Content};
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::given;
use crate::help::help;
use crate::ids;
use crate::output;
use crate::progress::counted;

const DAY_MILLIS: i64 = 86_400_000;

/// Change a link
#[derive(Debug, Args)]
#[command(after_help = help(
    "Only the fields you specify change. Metadata, agent context (--action, --cta, --description) and preview \
     (--title, --og-description, --image) are each replaced as a whole, as are tags; dl links tag adds and removes \
     single tags.",
    &[
    "dl links update spring-42 --web https://example.com/p/43",
    "dl links update spring-42 --unset agent_context --meta season=spring",
]
))]
pub(crate) struct Update {
    /// ID of the link
    id: String,
    /// Field to clear; may be repeated
    #[arg(long, value_name = "FIELD")]
    unset: Vec<Field>,
    #[command(flatten)]
    content: Content,
}

/// A field that can be emptied, under the API's name and under that of its flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Field {
    #[value(name = "web_url", alias = "web")]
    Web,
    #[value(name = "ios_deep_link", alias = "ios")]
    Ios,
    #[value(name = "ios_store_url", alias = "ios-store")]
    IosStore,
    #[value(name = "android_deep_link", alias = "android")]
    Android,
    #[value(name = "android_store_url", alias = "android-store")]
    AndroidStore,
    #[value(name = "metadata", alias = "meta")]
    Metadata,
    #[value(name = "agent_context")]
    AgentContext,
    #[value(name = "social_preview")]
    SocialPreview,
    #[value(name = "name")]
    Name,
    #[value(name = "expires_at", alias = "expires-at")]
    ExpiresAt,
    #[value(name = "expired_url", alias = "expired-url")]
    ExpiredUrl,
    #[value(name = "tags", alias = "tag")]
    Tags,
}

impl Field {
    /// Empties the field; `false` when it has been given a value too.
    fn clear(self, update: &mut UpdateLink) -> bool {
        match self {
            Self::Web => clear(&mut update.web_url),
            Self::Ios => clear(&mut update.ios_deep_link),
            Self::IosStore => clear(&mut update.ios_store_url),
            Self::Android => clear(&mut update.android_deep_link),
            Self::AndroidStore => clear(&mut update.android_store_url),
            Self::Metadata => clear(&mut update.metadata),
            Self::AgentContext => clear(&mut update.agent_context),
            Self::SocialPreview => clear(&mut update.social_preview),
            Self::Name => clear(&mut update.name),
            Self::ExpiresAt => clear(&mut update.expires_at),
            Self::ExpiredUrl => clear(&mut update.expired_url),
            Self::Tags => clear(&mut update.tags),
        }
    }
}

fn clear<T>(slot: &mut Patch<T>) -> bool {
    let fits = !matches!(slot, Patch::Set(_));
    *slot = Patch::Clear;
    fits
}

impl Update {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::LINKS)?;
        let mut update = UpdateLink::new();
        self.content.name_in(&mut update, ctx)?;
        for field in self.unset {
            if !field.clear(&mut update) {
                let name = field.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
                return Err(Failure::usage(format!("{name} is both set and unset")).into());
            }
        }
        if update.is_empty() {
            let hint = "such as --web https://example.com, or --unset metadata";
            return Err(Failure::usage("nothing to change: specify at least one field").hint(hint).into());
        }
        given::link_id(&self.id)?;
        let web = match &update.web_url {
            Patch::Set(web) => Some(web.as_str()),
            _ => None,
        };
        update.validate().map_err(|invalid| content::invalid(invalid, web))?;
        let client = ctx.client().await?;
        let link = client.links().update(&self.id, &update).full().await;
        let link = link.map_err(|error| ctx.stop(&error).naming_link(&self.id))?;
        sheet.one(&String::from_utf8_lossy(&link.raw))?;
        note_limit(ctx, &update, ("the link still expires", "its"), Some(&link.value));
        Ok(())
    }
}

/// Applies the same update to each of these links, and shows them.
pub(super) async fn each(ctx: &Context, given: &[String], update: &UpdateLink) -> Outcome {
    let sheet = ctx.out.sheet(&output::LINKS)?;
    let ids = ids::read(ctx, given, given::link_id).await?;
    update.validate()?;
    let client = ctx.client().await?;
    if let ([id], [_]) = (ids.as_slice(), given) {
        let link = client.links().update(id, update).full().await;
        let link = link.map_err(|error| ctx.stop(&error).naming_link(id))?;
        sheet.one(&String::from_utf8_lossy(&link.raw))?;
        note_limit(ctx, update, ("the link still expires", "its"), Some(&link.value));
        return Ok(());
    }
    let change = |ids| BulkUpdate::new(ids).set(update.clone());
    let mut limited = None;
    let seen = |link: &str| {
        let link = serde_json::from_str::<LinkDetail>(link).ok();
        limited = limited.take().or(link.filter(is_limited));
    };
    let ended = super::many::update(ctx, &client, &ids::distinct(ids), change, seen).await;
    note_limit(ctx, update, ("links still expire", "their"), limited.as_ref());
    ended
}

/// Whether a link expires although its owner has set no expiry.
fn is_limited(link: &LinkDetail) -> bool {
    link.owner_expires_at.is_none() && link.expires_at.is_some()
}

/// Notes that a link whose expiry was removed still expires, because its account has no verified domain.
fn note_limit(ctx: &Context, update: &UpdateLink, (what, whose): (&str, &str), link: Option<&LinkDetail>) {
    let Some(link) = link.filter(|link| matches!(update.expires_at, Patch::Clear) && is_limited(link)) else { return };
    let lasts = link.expires_at.map_or(0, |end| end.as_millis().saturating_sub(link.created_at.as_millis()));
    let days = match lasts / DAY_MILLIS {
        days if days > 0 && lasts % DAY_MILLIS == 0 => {
            format!(", {} after {whose} creation,", counted(days.unsigned_abs(), "day"))
        }
        _ => String::new(),
    };
    ctx.console
        .note(&format!("{what}{days} because the account has no verified domain; to add one: dl domains add NAME"));
}
