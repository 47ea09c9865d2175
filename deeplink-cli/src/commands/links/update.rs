//! `dl links update`.

use clap::{Args, ValueEnum};
use deeplink_client::{Auth, BulkUpdate, LinkDetail};
use deeplink_core::link::UpdateLink;
use deeplink_core::patch::Patch;

use crate::commands::links::content::Content;
use crate::commands::links::utm::Utm;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::given;
use crate::help::help;
use crate::ids;
use crate::net::Reads;
use crate::output;
use crate::progress::counted;

const DAY_MILLIS: i64 = 86_400_000;

/// Change a link
#[derive(Debug, Args)]
#[command(after_help = help(
    "Only the fields you specify change: --cta keeps the action and the description, --title keeps the rest of the \
     preview, --meta keeps the other metadata, and --qr keeps the other options of the QR code design. With --replace, \
     the agent context (--action, --cta, --description), the preview (--title, --og-description, --image), the metadata \
     and the QR code design are each replaced as a whole. --tag, --alias and --meta-json always replace all tags, all \
     aliases and all metadata; dl links tag adds and removes individual tags.",
    &[
    "dl links update spring-42 --cta \"Buy now\"",
    "dl links update spring-42 --web https://example.com/p/43",
    "dl links update spring-42 --unset agent_context --meta season=spring",
    "dl links update spring-42 --alias spring --alias l/2024/spring",
]
))]
pub(crate) struct Update {
    /// ID of the link
    id: String,
    /// Field to clear; may be repeated
    #[arg(long, value_name = "FIELD")]
    unset: Vec<Field>,
    /// Replace the agent context, the preview, the metadata and the QR code design as a whole
    #[arg(long)]
    replace: bool,
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
    #[value(name = "aliases", alias = "alias")]
    Aliases,
    #[value(name = "qr")]
    Qr,
    #[value(name = "imported_clicks", alias = "imported-clicks")]
    ImportedClicks,
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
            Self::Aliases => clear(&mut update.aliases),
            Self::Qr => clear(&mut update.qr),
            Self::ImportedClicks => clear(&mut update.imported_clicks),
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
        let (has_entries, utm) = (self.content.has_entries(), self.content.utm.clone());
        self.content.name_in(&mut update, ctx)?;
        for field in self.unset {
            if !field.clear(&mut update) {
                let name = field.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
                return Err(Failure::usage(format!("{name} is both set and unset")).into());
            }
        }
        // Options that the link has may make a look right that is wrong alone.
        let look = match &update.qr {
            Patch::Set(_) if !self.replace => std::mem::take(&mut update.qr),
            _ => Patch::Keep,
        };
        if update.is_empty() && utm.is_empty() && look.is_keep() {
            let hint = "such as --web https://example.com, or --unset metadata";
            return Err(Failure::usage("nothing to change: specify at least one field").hint(hint).into());
        }
        given::link_id(&self.id)?;
        let keeps_page = matches!(update.web_url, Patch::Keep);
        if !keeps_page {
            update.web_url = with(&utm, update.web_url)?;
        }
        if !update.is_empty() {
            update.validate().map_err(|invalid| given::invalid(invalid, &update))?;
        }
        let is_part = matches!(update.agent_context, Patch::Set(_)) || matches!(update.social_preview, Patch::Set(_));
        let merges = !look.is_keep() || !self.replace && (is_part || has_entries);
        let adds = keeps_page && !utm.is_empty();
        // What is sent then depends on the link, so a dry run reads it too.
        let reads = if merges || adds { Reads::Sent } else { Reads::Held };
        let client = ctx.client_for(&ctx.base_url()?, Auth::SecretKey(ctx.key().await?.key), reads)?;
        if merges || adds {
            let found = client.links().get(&self.id).await.map_err(|error| ctx.stop(&error).naming_link(&self.id))?;
            if merges {
                update.qr = match look {
                    Patch::Set(look) => Patch::Set(look.or(found.qr.clone().unwrap_or_default())),
                    _ => update.qr,
                };
                merge(&mut update, &found, has_entries);
            }
            if adds {
                update.web_url = with(&utm, found.web_url.map_or(Patch::Clear, Patch::Set))?;
            }
            update.validate()?;
        }
        let link = client.links().update(&self.id, &update).full().await;
        let link = link.map_err(|error| ctx.stop(&error).naming_link(&self.id))?;
        sheet.one(&String::from_utf8_lossy(&link.raw))?;
        note_limit(ctx, &update, ("the link still expires", "its"), Some(&link.value));
        Ok(())
    }
}

/// A web page with UTM parameters.
fn with(utm: &Utm, web: Patch<String>) -> Outcome<Patch<String>> {
    let page = match web {
        Patch::Set(page) => Some(page),
        _ => None,
    };
    Ok(utm.set_in(page)?.map_or(Patch::Clear, Patch::Set))
}

/// Fills in the objects of the update with the link's other members.
fn merge(update: &mut UpdateLink, found: &LinkDetail, has_entries: bool) {
    if let (Patch::Set(agent), Some(old)) = (&mut update.agent_context, &found.agent_context) {
        agent.action = agent.action.take().or_else(|| old.action.clone());
        agent.cta = agent.cta.take().or_else(|| old.cta.clone());
        agent.description = agent.description.take().or_else(|| old.description.clone());
    }
    if let (Patch::Set(preview), Some(old)) = (&mut update.social_preview, &found.social_preview) {
        preview.title = preview.title.take().or_else(|| old.title.clone());
        preview.description = preview.description.take().or_else(|| old.description.clone());
        preview.image_url = preview.image_url.take().or_else(|| old.image_url.clone());
    }
    if let (Patch::Set(metadata), Some(old), true) = (&mut update.metadata, &found.metadata, has_entries)
        // What the service stored is an object.
        && let Ok(all) = old.merged(metadata)
    {
        *metadata = all;
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
