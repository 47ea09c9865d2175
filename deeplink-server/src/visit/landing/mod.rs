//! The landing page: what a link is for, and the buttons that open it.
//!
//! Which buttons there are is decided in `deeplink_core::resolve`; here they get their labels and colours. The page
//! works without its script. Values reach the page only escaped by the template engine, and the script only as data.

mod machine;
#[cfg(test)]
mod tests;
mod theme;

use std::borrow::Cow;
use std::sync::LazyLock;

use askama::Template;
use deeplink_core::resolve::{LandingPlan, Target};
use deeplink_core::visitor::Platform;

use super::page::{BASE_CSS, compact_css, compact_js, host_of};
use theme::Theme;

static CSS: LazyLock<String> =
    LazyLock::new(|| compact_css(&[BASE_CSS, include_str!("../../../templates/landing.css")]));
static QR_CSS: LazyLock<String> = LazyLock::new(|| compact_css(&[include_str!("../../../templates/qr.css")]));
static SCRIPT: LazyLock<String> = LazyLock::new(|| compact_js(include_str!("../../../templates/landing.js")));

/// Titles of at least this many characters are set in a smaller size.
const LONG_TITLE: usize = 48;

/// Initial capacity, enough for most pages.
const PAGE_BYTES: usize = 16 * 1024;

/// Everything that a landing page shows, as stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LandingPage<'a> {
    /// The buttons, and the link they belong to.
    pub(crate) plan: &'a LandingPlan<'a>,
    /// The creator's social preview.
    pub(crate) preview: Option<Preview<'a>>,
    /// The creator's context for agents.
    pub(crate) agent: Option<Agent<'a>>,
    /// The tenant's apps that the page names.
    pub(crate) apps: Apps<'a>,
    /// The tenant's verified domain.
    pub(crate) tenant_domain: Option<&'a str>,
    /// Whether the tenant has a verified domain.
    pub(crate) tenant_verified: bool,
    /// The link as a QR code: an image source that needs no escaping between double quotes.
    pub(crate) qr: Option<&'a str>,
}

/// A link's social preview.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Preview<'a> {
    /// Headline.
    pub(crate) title: Option<&'a str>,
    /// One or two sentences.
    pub(crate) description: Option<&'a str>,
    /// Picture.
    pub(crate) image_url: Option<&'a str>,
}

/// A link's agent context.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Agent<'a> {
    /// One of the known actions.
    pub(crate) action: Option<&'a str>,
    /// Call to action.
    pub(crate) cta: Option<&'a str>,
    /// Context.
    pub(crate) description: Option<&'a str>,
}

/// The tenant's apps on a page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Apps<'a> {
    /// The oldest app of the visitor's platform, else the tenant's oldest.
    pub(crate) display: Option<DisplayApp<'a>>,
    /// Name of the oldest iOS app.
    pub(crate) ios_name: Option<&'a str>,
    /// Name of the oldest Android app.
    pub(crate) android_name: Option<&'a str>,
}

/// The app whose name, icon and colour a page shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DisplayApp<'a> {
    /// Its name.
    pub(crate) name: Option<&'a str>,
    /// Its icon.
    pub(crate) icon_url: Option<&'a str>,
    /// Its colour.
    pub(crate) theme_color: Option<&'a str>,
}

/// Renders the page; send it with [`super::page::headers`] for the same nonce.
pub(crate) fn render(page: &LandingPage<'_>, nonce: &str) -> askama::Result<String> {
    let view = View::of(page, nonce)?;
    let mut html = String::with_capacity(PAGE_BYTES);
    view.render_into(&mut html)?;
    Ok(html)
}

/// The page's template.
#[derive(Template)]
#[template(path = "landing.html")]
struct View<'a> {
    nonce: &'a str,
    css: &'static str,
    qr_css: &'static str,
    script: &'static str,
    plan: &'a LandingPlan<'a>,
    title: &'a str,
    is_long: bool,
    site: &'a str,
    /// For the head: the preview's, else the agent's.
    description: Option<&'a str>,
    /// For the body, which shows the agent's elsewhere.
    lead: Option<&'a str>,
    image_url: Option<&'a str>,
    cover: Option<&'a str>,
    icon: Option<&'a str>,
    initial: String,
    theme: Theme<'a>,
    store_id: Option<&'a str>,
    apps: Apps<'a>,
    tenant_domain: Option<&'a str>,
    cta: Option<&'a str>,
    agent_description: Option<&'a str>,
    json_ld: Option<String>,
    data: String,
    open_label: Option<Cow<'a, str>>,
    /// Shown instead of a primary button.
    without_open: &'static str,
    web_host: &'a str,
    qr: Option<&'a str>,
}

impl<'a> View<'a> {
    fn of(page: &LandingPage<'a>, nonce: &'a str) -> askama::Result<Self> {
        let plan = page.plan;
        let link = &plan.link;
        let preview = page.preview.unwrap_or_default();
        let agent = page.agent.unwrap_or_default();
        let app = page.apps.display.unwrap_or_default();
        let site = host_of(link.url);
        let title = non_blank(preview.title).or(non_blank(app.name)).unwrap_or(site);
        let lead = non_blank(preview.description);
        let agent_description = non_blank(agent.description);
        let web_host = link.to.web_url.map_or("", host_of);
        let label = |target| label(target, app.name, web_host);
        Ok(Self {
            nonce,
            css: &CSS,
            qr_css: &QR_CSS,
            script: &SCRIPT,
            plan,
            title,
            is_long: title.chars().count() >= LONG_TITLE,
            site,
            description: lead.or(agent_description),
            lead,
            image_url: preview.image_url,
            cover: preview.image_url.filter(|url| is_https(url)),
            icon: app.icon_url.filter(|url| is_https(url)),
            initial: initial(title),
            theme: Theme::of(app.theme_color),
            store_id: link.to.ios_store_url.and_then(deeplink_core::resolve::store_id),
            apps: page.apps,
            tenant_domain: page.tenant_domain,
            cta: non_blank(agent.cta),
            agent_description,
            json_ld: page
                .agent
                .map(|agent| machine::json_ld(page, &agent))
                .transpose()
                .map_err(askama::Error::custom)?,
            // Labels that only an iPad shows name the iOS app.
            data: machine::page_data(plan, |target| self::label(target, page.apps.ios_name.or(app.name), web_host))
                .map_err(askama::Error::custom)?,
            open_label: plan.open_target().map(label),
            without_open: without_open(plan),
            web_host,
            qr: page.qr,
        })
    }

    fn package(&self) -> Option<&str> {
        self.plan.package.as_deref()
    }

    fn store_label(&self) -> &'static str {
        if self.plan.platform == Platform::Ios { APP_STORE } else { PLAY_STORE }
    }
}

const APP_STORE: &str = "Get it on the App Store";
const PLAY_STORE: &str = "Get it on Google Play";

/// The label of the primary button. If it leads to the web, it names the host.
fn label<'a>(target: Target, app: Option<&'a str>, web_host: &str) -> Cow<'a, str> {
    match target {
        Target::Alternate | Target::IosApp | Target::AndroidApp | Target::Intent => match non_blank(app) {
            Some(app) => format!("Open in {app}").into(),
            None => "Open in the app".into(),
        },
        Target::AppStore => APP_STORE.into(),
        Target::PlayStore => PLAY_STORE.into(),
        Target::Web => format!("Continue to {web_host}").into(),
    }
}

fn without_open(plan: &LandingPlan<'_>) -> &'static str {
    match plan.platform {
        _ if !plan.link.has_platform_destination() => "This link has no destination.",
        Platform::Ios => "This link opens an Android app.",
        Platform::Android => "This link opens an iPhone and iPad app.",
        Platform::Macos | Platform::Windows | Platform::Other => "Open this link on your phone.",
    }
}

/// A text that is not blank.
fn non_blank(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.trim().is_empty())
}

fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
}

/// The first letter of the title, shown if there is no icon.
fn initial(title: &str) -> String {
    let letter = title.chars().find(|c| c.is_alphanumeric()).or(title.trim().chars().next());
    letter.into_iter().flat_map(char::to_uppercase).collect()
}
