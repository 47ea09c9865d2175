//! Descriptions of a link: for agents, and for previews where it is shared.

use serde::{Deserialize, Serialize};

use crate::destinations::UrlField;
use crate::error::{ErrorCode, Invalid};
use crate::text::TextField;
use crate::url;
use crate::words::words;

/// Maximum characters of a call to action.
pub const MAX_CTA: usize = 120;
/// Maximum characters of an agent context's description.
pub const MAX_AGENT_DESCRIPTION: usize = 500;
/// Maximum characters of a preview's title.
pub const MAX_PREVIEW_TITLE: usize = 120;
/// Maximum characters of a preview's description.
pub const MAX_PREVIEW_DESCRIPTION: usize = 300;
words! {
    /// What a link is for, as its creator says.
    Action {
        /// Buy something.
        Purchase = "purchase",
        /// Subscribe to something.
        Subscribe = "subscribe",
        /// Open an account.
        Signup = "signup",
        /// Download something.
        Download = "download",
        /// Read something.
        Read = "read",
        /// Reserve something.
        Book = "book",
        /// Open something.
        Open = "open",
    }
}

/// What a link is for, in words that an AI agent can read. The service does not verify them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentContext {
    /// What the link is for.
    pub action: Option<Action>,
    /// Short call to action, at most 120 characters. If it is short enough for a button (about 48 characters), it
    /// is also the label of the landing page's main button.
    #[cfg_attr(feature = "openapi", schema(max_length = 120))]
    pub cta: Option<String>,
    /// Free-form context, at most 500 characters.
    #[cfg_attr(feature = "openapi", schema(max_length = 500))]
    pub description: Option<String>,
}

impl AgentContext {
    /// Applies the rules; blank texts count as absent, and if all are, the result is `None`.
    pub fn check(&self) -> Result<Option<Self>, Invalid> {
        let code = || ErrorCode::InvalidAgentContext;
        if let Some(Action::Unknown(word)) = &self.action {
            let known = Action::ALL.iter().map(Action::as_str).collect::<Vec<_>>().join(", ");
            let message = format!("unknown action \"{}\"; expected one of {known}", word.escape_debug());
            return Err(Invalid::field(code(), "agent_context.action", message));
        }
        let cta = TextField::line("agent_context.cta", MAX_CTA, code());
        let description = TextField::prose("agent_context.description", MAX_AGENT_DESCRIPTION, code());
        let cta = cta.optional(self.cta.as_deref())?;
        let description = description.optional(self.description.as_deref())?;
        let checked = Self { action: self.action.clone(), cta, description };
        Ok((checked != Self::default()).then_some(checked))
    }
}

/// How a link looks when it is shared: title, text and image for Open Graph and Twitter cards.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SocialPreview {
    /// At most 120 characters.
    #[cfg_attr(feature = "openapi", schema(max_length = 120))]
    pub title: Option<String>,
    /// At most 300 characters.
    #[cfg_attr(feature = "openapi", schema(max_length = 300))]
    pub description: Option<String>,
    /// An http or https URL of an image, at most 2,048 bytes.
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub image_url: Option<String>,
}

const IMAGE_URL: UrlField = UrlField::new("social_preview.image_url", url::web);

impl SocialPreview {
    /// Applies the rules; blank texts count as absent, and at least one member must be set.
    pub fn check(&self) -> Result<Self, Invalid> {
        let code = || ErrorCode::InvalidSocialPreview;
        let title = TextField::line("social_preview.title", MAX_PREVIEW_TITLE, code());
        let description = TextField::prose("social_preview.description", MAX_PREVIEW_DESCRIPTION, code());
        let title = title.optional(self.title.as_deref())?;
        let description = description.optional(self.description.as_deref())?;
        let image_url = self.image_url.as_deref().filter(|text| !text.trim().is_empty());
        let image_url = image_url.map(|text| IMAGE_URL.check(text)).transpose()?;
        let checked = Self { title, description, image_url };
        if checked == Self::default() {
            return Err(Invalid::field(
                code(),
                "social_preview",
                "social_preview must have a title, a description or an image_url",
            ));
        }
        Ok(checked)
    }
}
