//! The page as a parser sees it: its head, its body, its languages, and that no value changes its shape.

mod body;
mod head;
mod inert;
mod languages;

use deeplink_core::destinations::Destinations;
use deeplink_core::resolve::{HostContext, LandingPlan, LinkView, Outcome, decide};
use deeplink_core::visitor::{AgentTraits, Visitor};
use serde_json::Value;

use super::*;
use crate::visit::dom::{Dom, Element};

const IPHONE: &str =
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Version/17.5 Safari/604.1";
const ANDROID: &str = "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 Chrome/126.0 Mobile Safari/537.36";
const MAC: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/17.5 Safari/605.1.15";
const LINUX: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36";
const NONCE: &str = "AAECAwQFBgcICQoLDA0ODw==";

/// Placeholder for a QR code, whose bytes do not count towards the page's.
const QR: &str = "data:image/svg+xml,%3Csvg/%3E";

const EVERYTHING: LinkView<'static> = LinkView {
    link_id: "AbC12345",
    url: "https://go.example.com/AbC12345",
    to: Destinations {
        ios_deep_link: Some("shop://promo/1"),
        ios_store_url: Some("https://apps.apple.com/app/id123456789"),
        android_deep_link: Some("shop://promo/1?x=2&y"),
        android_store_url: Some("https://play.google.com/store/apps/details?id=com.example.app"),
        web_url: Some("https://shop.example.com/promo?a=1&b=2"),
    },
    has_social_preview: true,
    has_agent_context: true,
    is_active: true,
};

const NOWHERE: Destinations<Option<&str>> = Destinations {
    ios_deep_link: None,
    ios_store_url: None,
    android_deep_link: None,
    android_store_url: None,
    web_url: None,
};

const NOTHING: LinkView<'static> = LinkView { to: NOWHERE, ..EVERYTHING };

/// The link of these tests with other destinations.
fn leading(to: Destinations<Option<&str>>) -> LinkView<'_> {
    LinkView { to, ..EVERYTHING }
}

fn plan<'a>(agent: &str, link: &LinkView<'a>) -> Box<LandingPlan<'a>> {
    let visitor = Visitor::new(AgentTraits::of(agent), None);
    match decide(link, &HostContext::default(), visitor, None).outcome {
        Outcome::Landing(plan) => plan,
        other => panic!("no landing page: {other:?}"),
    }
}

/// The parts of a page besides its buttons; every text can be replaced.
#[derive(Clone, Copy)]
struct Given<'a> {
    preview: Option<Preview<'a>>,
    agent: Option<Agent<'a>>,
    apps: Apps<'a>,
    tenant_domain: Option<&'a str>,
    language: Language,
}

const NO_TEXTS: Given<'static> = Given {
    preview: None,
    agent: None,
    apps: Apps {
        display: DisplayApp { name: None, icon_url: None, theme_color: None },
        ios_name: None,
        android_name: None,
    },
    tenant_domain: None,
    language: Language::En,
};

const TEXTS: Given<'static> = Given {
    preview: Some(Preview {
        title: Some("Spring sale"),
        description: Some("Seeds, tools and pots."),
        image_url: Some("https://example.com/image.jpg"),
    }),
    agent: Some(Agent {
        action: Some("purchase"),
        cta: Some("Claim the discount"),
        description: Some("Valid once per customer."),
    }),
    apps: Apps {
        display: DisplayApp {
            name: Some("Greenhouse"),
            icon_url: Some("https://example.com/icon.png"),
            theme_color: Some("#2E7D4F"),
        },
        ios_name: Some("Greenhouse for iOS"),
        android_name: Some("Greenhouse for Android"),
    },
    tenant_domain: Some("example.com"),
    language: Language::En,
};

fn html(agent: &str, link: &LinkView<'_>, given: Given<'_>) -> String {
    let plan = plan(agent, link);
    let Given { preview, agent, apps, tenant_domain, language } = given;
    let page = LandingPage {
        plan: &plan,
        preview,
        agent,
        apps,
        tenant_domain,
        tenant_verified: tenant_domain.is_some(),
        qr: plan.shows_qr().then_some(QR),
        language,
    };
    render(&page, NONCE).expect("the page renders")
}

fn dom(agent: &str, link: &LinkView<'_>, given: Given<'_>) -> Dom {
    Dom::parse(&html(agent, link, given))
}

fn json_ld(dom: &Dom) -> Value {
    let scripts = dom.all("script");
    let block = scripts.iter().find(|script| script.attr("type").as_deref() == Some("application/ld+json"));
    serde_json::from_str(&block.expect("a JSON-LD block").text()).expect("JSON")
}

fn data(dom: &Dom) -> Value {
    serde_json::from_str(&dom.by_id("dl-data").expect("the data").text()).expect("JSON")
}
