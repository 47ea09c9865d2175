//! The content of a link as flags: shared by create and update.

use clap::Args;
use deeplink_core::link::{Action, AgentContext, CreateLink, SocialPreview, UpdateLink};
use deeplink_core::patch::Patch;
use deeplink_core::time::Timestamp;

use super::looks;
use super::utm::Utm;
use crate::clock::parse_later;
use crate::context::Context;
use crate::error::Outcome;
use crate::metadata;

/// Flags for the fields of a link.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Content")]
pub(crate) struct Content {
    /// Web page, for desktops and all other visitors
    #[arg(long, value_name = "URL")]
    pub(crate) web: Option<String>,
    /// Deep link that opens the iOS app
    #[arg(long, value_name = "URI")]
    ios: Option<String>,
    /// App Store page
    #[arg(long, value_name = "URL")]
    ios_store: Option<String>,
    /// Deep link that opens the Android app
    #[arg(long, value_name = "URI")]
    android: Option<String>,
    /// Google Play page
    #[arg(long, value_name = "URL")]
    android_store: Option<String>,
    /// Metadata entry, as a string; may be repeated
    #[arg(long, value_name = "K=V", allow_hyphen_values = true, conflicts_with = "meta_json")]
    meta: Vec<String>,
    /// Metadata as a JSON object, or @FILE containing one
    #[arg(long, value_name = "JSON|@FILE")]
    meta_json: Option<String>,
    /// Purpose of the link: purchase, subscribe, signup, download, read, book or open
    #[arg(long, value_name = "WORD")]
    action: Option<String>,
    /// Call to action, at most 120 characters; also the landing page's button label if at most 48
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    cta: Option<String>,
    /// Context for AI agents, at most 500 characters
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    description: Option<String>,
    /// Preview title, at most 120 characters
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    title: Option<String>,
    /// Preview description, at most 300 characters
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    og_description: Option<String>,
    /// Preview image
    #[arg(long, value_name = "URL")]
    image: Option<String>,
    /// Name of the link, visible only to your team, at most 120 characters
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    name: Option<String>,
    /// When the link expires: RFC 3339, a date, or how long from now, such as 30d
    #[arg(long, value_name = "WHEN", value_parser = parse_later)]
    expires_at: Option<Timestamp>,
    /// Web page for visitors who open the link after it has expired
    #[arg(long, value_name = "URL")]
    expired_url: Option<String>,
    /// Tag of the link, visible only to your team, at most 40 characters; may be repeated
    #[arg(long = "tag", value_name = "TAG", allow_hyphen_values = true)]
    tags: Vec<String>,
    /// Additional ID or path that leads to the link, such as that of a printed short link; may be repeated
    #[arg(long = "alias", value_name = "PATH")]
    aliases: Vec<String>,
    /// Option for the link's QR code design, such as dotType=classy (see dl links qr --help); may be repeated
    #[arg(long, value_name = "OPTION=VALUE")]
    qr: Vec<String>,
    /// Clicks counted by a previous service, visible only to your team; reports show them separately from other clicks
    #[arg(long, value_name = "N")]
    imported_clicks: Option<i64>,
    #[command(flatten)]
    pub(crate) utm: Utm,
}

impl Content {
    /// Applies these fields to a link.
    pub(crate) fn lay_over(self, link: &mut CreateLink, ctx: &Context) -> Outcome {
        let (read, agent, social) =
            (metadata::read(ctx, &self.meta, self.meta_json.as_deref())?, self.agent(), self.social());
        for (slot, value) in [
            (&mut link.web_url, self.web),
            (&mut link.ios_deep_link, self.ios),
            (&mut link.ios_store_url, self.ios_store),
            (&mut link.android_deep_link, self.android),
            (&mut link.android_store_url, self.android_store),
            (&mut link.name, self.name),
            (&mut link.expires_at, self.expires_at.map(|end| end.to_string())),
            (&mut link.expired_url, self.expired_url),
        ] {
            *slot = value.or_else(|| slot.take());
        }
        link.web_url = self.utm.set_in(link.web_url.take())?;
        link.metadata = read.or_else(|| link.metadata.take());
        link.agent_context = agent.or_else(|| link.agent_context.take());
        link.social_preview = social.or_else(|| link.social_preview.take());
        if !self.tags.is_empty() {
            link.tags = Some(self.tags);
        }
        if !self.aliases.is_empty() {
            link.aliases = Some(self.aliases);
        }
        link.qr = looks::read(&self.qr)?.or_else(|| link.qr.take());
        link.imported_clicks = self.imported_clicks.or(link.imported_clicks);
        Ok(())
    }

    /// Whether the metadata consists of entries, and not of a whole object.
    pub(crate) fn has_entries(&self) -> bool {
        !self.meta.is_empty()
    }

    /// Adds these fields to an update.
    pub(crate) fn name_in(self, update: &mut UpdateLink, ctx: &Context) -> Outcome {
        let (read, agent, social) =
            (metadata::read(ctx, &self.meta, self.meta_json.as_deref())?, self.agent(), self.social());
        for (slot, value) in [
            (&mut update.web_url, self.web),
            (&mut update.ios_deep_link, self.ios),
            (&mut update.ios_store_url, self.ios_store),
            (&mut update.android_deep_link, self.android),
            (&mut update.android_store_url, self.android_store),
            (&mut update.name, self.name),
            (&mut update.expires_at, self.expires_at.map(|end| end.to_string())),
            (&mut update.expired_url, self.expired_url),
        ] {
            set(slot, value);
        }
        set(&mut update.metadata, read);
        set(&mut update.agent_context, agent);
        set(&mut update.social_preview, social);
        set(&mut update.qr, looks::read(&self.qr)?);
        set(&mut update.imported_clicks, self.imported_clicks);
        set(&mut update.tags, (!self.tags.is_empty()).then_some(self.tags));
        set(&mut update.aliases, (!self.aliases.is_empty()).then_some(self.aliases));
        Ok(())
    }

    fn agent(&self) -> Option<AgentContext> {
        let context = AgentContext {
            action: self.action.as_deref().map(Action::from),
            cta: self.cta.clone(),
            description: self.description.clone(),
        };
        (context != AgentContext::default()).then_some(context)
    }

    fn social(&self) -> Option<SocialPreview> {
        let preview = SocialPreview {
            title: self.title.clone(),
            description: self.og_description.clone(),
            image_url: self.image.clone(),
        };
        (preview != SocialPreview::default()).then_some(preview)
    }
}

fn set<T>(slot: &mut Patch<T>, value: Option<T>) {
    if let Some(value) = value {
        *slot = Patch::Set(value);
    }
}
