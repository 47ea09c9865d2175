//! What a browser is shown: the landing page of a link, or a notice, as a response in the visitor's language.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use deeplink_core::link::{AgentContext, LinkStatus, SocialPreview};
use deeplink_core::resolve::LandingPlan;
use deeplink_core::visitor::{Language, Platform};
use http::StatusCode;
use http::header::{self, HeaderMap};

use super::landing::{self, Agent, Apps, DisplayApp, LandingPage, Preview};
use super::notice::{self, Notice};
use super::page;
use crate::cache::CachedLink;
use crate::db::hosts::{AppBranding, TenantBranding};
use crate::error::ApiError;
use crate::state::App;

/// Longest address in bytes that is shown as a QR code; only long links have longer ones.
const MAX_QR_URL: usize = 600;

/// The visitor's language. Only pages depend on it.
pub(super) fn language_of(headers: &HeaderMap) -> Language {
    Language::preferred(headers.get_all(header::ACCEPT_LANGUAGE))
}

fn page_response(
    app: &App,
    status: StatusCode,
    language: Language,
    render: impl FnOnce(&str) -> askama::Result<String>,
) -> Response {
    let nonce = app.random(|random| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(random.bytes::<16>())
    });
    match render(&nonce) {
        Ok(page) => {
            let mut response = Response::new(Body::from(page));
            *response.status_mut() = status;
            // Reserves room for the headers that are added later.
            *response.headers_mut() = HeaderMap::with_capacity(16);
            response.headers_mut().extend(page::headers(&nonce, language));
            response
        }
        Err(error) => ApiError::Internal(error.to_string()).into_response(),
    }
}

/// The landing page of a link.
pub(super) async fn landing_page(app: &App, link: &CachedLink, plan: &LandingPlan<'_>, language: Language) -> Response {
    // A longer address makes a code that cameras cannot read from a screen. Anybody can write a long link, which has no ID,
    // so its code would take the place of others.
    let shows_qr = plan.shows_qr() && plan.link.url.len() <= MAX_QR_URL && !plan.link.link_id.is_empty();
    let qr = if shows_qr { app.codes.on_page(&link.branding().tenant, plan.link.url).await } else { None };
    let agent: Option<AgentContext> = link.agent_context().and_then(|json| serde_json::from_str(json).ok());
    let preview: Option<SocialPreview> = link.social_preview().and_then(|json| serde_json::from_str(json).ok());
    let page = LandingPage {
        plan,
        preview: preview.as_ref().map(|preview| Preview {
            title: preview.title.as_deref(),
            description: preview.description.as_deref(),
            image_url: preview.image_url.as_deref(),
        }),
        agent: agent.as_ref().map(|agent| Agent {
            action: agent.action.as_ref().map(deeplink_core::link::Action::as_str),
            cta: agent.cta.as_deref(),
            description: agent.description.as_deref(),
        }),
        apps: shown_apps(link.branding(), plan.platform),
        tenant_domain: link.branding().domain.as_deref(),
        tenant_verified: link.branding().domain.is_some(),
        qr: qr.as_deref(),
        language,
    };
    page_response(app, StatusCode::OK, language, |nonce| landing::render(&page, nonce))
}

/// The apps to show: the oldest of the visitor's platform, else the tenant's oldest, completed by the other platform's and
/// then by the account's icon and color.
pub(super) fn shown_apps(branding: &TenantBranding, platform: Platform) -> Apps<'_> {
    let (ios, android) = (branding.ios.as_ref(), branding.android.as_ref());
    let prefers_android = match platform {
        Platform::Ios => false,
        Platform::Android => true,
        _ => branding.android_is_oldest,
    };
    let (first, second) = if prefers_android { (android, ios) } else { (ios, android) };
    let shown = |of: fn(&AppBranding) -> Option<&str>| first.and_then(of).or(second.and_then(of));
    Apps {
        display: DisplayApp {
            name: shown(AppBranding::name),
            icon_url: shown(|app| app.icon_url.as_deref()).or(branding.icon_url.as_deref()),
            theme_color: shown(|app| app.theme_color.as_deref()).or(branding.theme_color.as_deref()),
        },
        ios_name: ios.and_then(AppBranding::name),
        android_name: android.and_then(AppBranding::name),
    }
}

/// The notice of a link that is not active.
pub(super) fn notice_page(app: &App, status: &LinkStatus, language: Language) -> Response {
    let notice = match status {
        LinkStatus::Flagged => Notice::Flagged,
        LinkStatus::Expired => Notice::Expired,
        _ => Notice::Disabled,
    };
    notice_of(app, notice, language)
}

/// A notice with its status.
pub(super) fn notice_of(app: &App, notice: Notice, language: Language) -> Response {
    page_response(app, notice.status(), language, |nonce| notice::render(notice, language, nonce))
}
