//! The landing page: what a link is for, and the buttons that open it.
//!
//! Which buttons there are is decided in `deeplink_core::resolve`; here they get their labels and colors. The page
//! works without its script. Values reach the page only escaped by the template engine, and the script only as data.
//!
//! The page is in the visitor's language; what its creator wrote is shown as it is, in its own direction.

mod machine;
mod sketch;
#[cfg(test)]
mod tests;
mod theme;

use std::sync::LazyLock;

use askama::Template;
use deeplink_core::resolve::{LandingPlan, Target};
use deeplink_core::visitor::{Language, Platform};

use super::page::{BASE_CSS, compact_css, compact_js, host_of};
use super::texts::{Label, Texts, columns};
pub(crate) use sketch::Sketch;
use theme::Theme;

static CSS: LazyLock<String> =
    LazyLock::new(|| compact_css(&[BASE_CSS, include_str!("../../../templates/landing.css")]));
static QR_CSS: LazyLock<String> = LazyLock::new(|| compact_css(&[include_str!("../../../templates/qr.css")]));
static SCRIPT: LazyLock<String> = LazyLock::new(|| compact_js(include_str!("../../../templates/landing.js")));

/// Titles of at least this many characters are set in a smaller size.
const LONG_TITLE: usize = 48;

/// A call to action of at most this many columns is the primary button's text: two lines on the narrowest phone.
const BUTTON_COLUMNS: usize = 48;

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
    /// The visitor's language.
    pub(crate) language: Language,
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
    /// What the page shows of one: the oldest app of the visitor's platform, else the tenant's oldest.
    pub(crate) display: DisplayApp<'a>,
    /// Name of the oldest iOS app.
    pub(crate) ios_name: Option<&'a str>,
    /// Name of the oldest Android app.
    pub(crate) android_name: Option<&'a str>,
}

/// The app whose name, icon and color a page shows. What it lacks is taken from the tenant's app for the other
/// platform, and then from the account.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DisplayApp<'a> {
    /// Its name.
    pub(crate) name: Option<&'a str>,
    /// Its icon.
    pub(crate) icon_url: Option<&'a str>,
    /// Its color.
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
    language: Language,
    texts: &'static Texts,
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
    /// The name of the app or domain, whatever the link is about.
    brand: &'a str,
    /// Its first letter, in the place of the icon. Empty if the link's creator has neither app nor domain.
    initial: String,
    theme: Theme<'a>,
    store_id: Option<&'a str>,
    apps: Apps<'a>,
    tenant_domain: Option<&'a str>,
    /// The call to action as the primary button's text, above where the button leads.
    button_cta: Option<&'a str>,
    /// The call to action if it is too long for a button, or there is no button.
    cta: Option<&'a str>,
    agent_description: Option<&'a str>,
    json_ld: Option<String>,
    data: String,
    open_label: Option<Label<'a>>,
    /// Shown instead of a primary button.
    without_open: &'static str,
    continue_to: Label<'a>,
    /// Of the second button that opens the app.
    deep_label: Label<'a>,
    /// Whether the link's creator wrote the title, so that its direction is its own.
    is_creators_title: bool,
    qr: Option<&'a str>,
}

impl<'a> View<'a> {
    fn of(page: &LandingPage<'a>, nonce: &'a str) -> askama::Result<Self> {
        let plan = page.plan;
        let link = &plan.link;
        let preview = page.preview.unwrap_or_default();
        let agent = page.agent.unwrap_or_default();
        let app = page.apps.display;
        let texts = Texts::of(page.language);
        let site = host_of(link.url);
        let lead = non_blank(preview.description);
        let agent_description = non_blank(agent.description);
        let web_host = link.to.web_url.map_or("", host_of);
        // The service's own host says nothing about the link, unlike the account's domain.
        let host = if page.tenant_domain.is_some() || web_host.is_empty() { site } else { web_host };
        let title = non_blank(preview.title).or(non_blank(app.name)).unwrap_or(host);
        let open_label = plan.open_target().map(|target| label(texts, target, app.name, web_host));
        // One that only says what the button says anyway is left out.
        let cta = non_blank(agent.cta).filter(|cta| open_label.is_none_or(|label| label.to_string() != **cta));
        let fits = |cta: &&str| open_label.is_some() && columns(cta) <= BUTTON_COLUMNS;
        Ok(Self {
            nonce,
            css: &CSS,
            qr_css: &QR_CSS,
            script: &SCRIPT,
            language: page.language,
            texts,
            plan,
            title,
            is_long: title.chars().count() >= LONG_TITLE,
            site,
            description: lead.or(agent_description),
            lead,
            image_url: preview.image_url,
            cover: preview.image_url.filter(|url| is_https(url)),
            icon: app.icon_url.filter(|url| is_https(url)),
            brand: non_blank(app.name).or(page.tenant_domain).unwrap_or(site),
            initial: initial(app.name, page.tenant_domain),
            theme: Theme::of(app.theme_color),
            store_id: link.to.ios_store_url.and_then(deeplink_core::resolve::store_id),
            apps: page.apps,
            tenant_domain: page.tenant_domain,
            button_cta: cta.filter(fits),
            cta: cta.filter(|cta| !fits(cta)),
            agent_description,
            json_ld: page
                .agent
                .map(|agent| machine::json_ld(page, &agent))
                .transpose()
                .map_err(askama::Error::custom)?,
            // Labels that only an iPad shows name the iOS app.
            data: machine::page_data(plan, |target| label(texts, target, page.apps.ios_name.or(app.name), web_host))
                .map_err(askama::Error::custom)?,
            deep_label: label(texts, Target::IosApp, app.name, web_host),
            is_creators_title: non_blank(preview.title).is_some(),
            open_label,
            without_open: without_open(texts, plan),
            continue_to: Label::With(texts.continue_to, web_host),
            qr: page.qr,
        })
    }

    fn package(&self) -> Option<&str> {
        self.plan.package.as_deref()
    }

    fn store_label(&self) -> &'static str {
        if self.plan.platform == Platform::Ios { self.texts.app_store } else { self.texts.google_play }
    }
}

/// Where the primary button leads: its label or, below the creator's call to action, its second line, so that people
/// see in the service's words where a tap takes them. If that is the web, it names the host.
fn label<'a>(texts: &'static Texts, target: Target, app: Option<&'a str>, web_host: &'a str) -> Label<'a> {
    match target {
        Target::Alternate | Target::IosApp | Target::AndroidApp | Target::Intent => match non_blank(app) {
            Some(app) => Label::With(texts.open_in, app),
            None => Label::Fixed(texts.open_app),
        },
        Target::AppStore => Label::Fixed(texts.app_store),
        Target::PlayStore => Label::Fixed(texts.google_play),
        Target::Web => Label::With(texts.continue_to, web_host),
    }
}

fn without_open(texts: &'static Texts, plan: &LandingPlan<'_>) -> &'static str {
    match plan.platform {
        _ if !plan.link.has_platform_destination() => texts.no_destination,
        Platform::Ios => texts.opens_android,
        Platform::Android => texts.opens_ios,
        Platform::Macos | Platform::Windows | Platform::Other => texts.on_phone,
    }
}

/// A text that is not blank.
fn non_blank(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.trim().is_empty())
}

fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
}

/// The first letter of the app's name, else of the domain's: the same on all pages of a brand.
fn initial(app: Option<&str>, domain: Option<&str>) -> String {
    let name = non_blank(app).or(domain.map(name_in)).unwrap_or_default();
    let letter = name.chars().find(|c| c.is_alphanumeric()).or(name.trim().chars().next());
    letter.into_iter().flat_map(char::to_uppercase).collect()
}

/// The label of a domain that is most likely its owner's name: the longest, without the last one. It is `example` in
/// `go.example.com` and in `example.co.uk`. Empty if it is encoded (`xn--`).
fn name_in(domain: &str) -> &str {
    let (labels, _) = domain.rsplit_once('.').unwrap_or((domain, ""));
    let longest = labels.split('.').max_by_key(|label| label.len()).unwrap_or_default();
    if longest.starts_with("xn--") { "" } else { longest }
}
