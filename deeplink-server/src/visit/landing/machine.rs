//! The page's machine-readable parts: JSON-LD for agents, and the data of its script.

use deeplink_core::resolve::{LandingPlan, Target};
use serde::Serialize;

use super::super::page::script_json;
use super::super::texts::Label;
use super::{Agent, LandingPage, non_blank};

/// The link's purpose in terms of schema.org. All of it is the creator's assertion, and is marked as such.
pub(super) fn json_ld(page: &LandingPage<'_>, agent: &Agent<'_>) -> serde_json::Result<String> {
    let link = &page.plan.link;
    let targets = [
        (link.to.ios_deep_link, "http://schema.org/IOSPlatform"),
        (link.to.android_deep_link, "http://schema.org/AndroidPlatform"),
        (link.to.web_url, "http://schema.org/DesktopWebPlatform"),
    ];
    let entry_points = targets
        .into_iter()
        .filter_map(|(url, platform)| Some(EntryPoint { url_template: url?, action_platform: platform }));
    script_json(&Action {
        context: "https://schema.org",
        kind: action_type(agent.action),
        name: non_blank(agent.cta),
        description: non_blank(agent.description),
        target: entry_points.collect(),
        object: page.preview.and_then(|preview| {
            let (name, description) = (non_blank(preview.title), non_blank(preview.description));
            (name.is_some() || description.is_some()).then_some(Product { name, description })
        }),
        provider: Organization {
            name: page.tenant_domain.unwrap_or("unknown"),
            additional_property: [
                PropertyValue { name: "source", value: Value::Text("tenant_asserted") },
                PropertyValue { name: "verified", value: Value::Flag(page.tenant_verified) },
            ],
        },
    })
}

fn action_type(action: Option<&str>) -> &'static str {
    match action {
        Some("purchase") => "BuyAction",
        Some("subscribe") => "SubscribeAction",
        Some("signup") => "RegisterAction",
        Some("download") => "DownloadAction",
        Some("read") => "ReadAction",
        Some("book") => "ReserveAction",
        _ => "ViewAction",
    }
}

#[derive(Serialize)]
struct Action<'a> {
    #[serde(rename = "@context")]
    context: &'static str,
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    target: Vec<EntryPoint<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Product<'a>>,
    provider: Organization<'a>,
}

#[derive(Serialize)]
#[serde(tag = "@type", rename_all = "camelCase")]
struct EntryPoint<'a> {
    url_template: &'a str,
    action_platform: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "@type")]
struct Product<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(tag = "@type", rename_all = "camelCase")]
struct Organization<'a> {
    name: &'a str,
    additional_property: [PropertyValue; 2],
}

#[derive(Serialize)]
#[serde(tag = "@type")]
struct PropertyValue {
    name: &'static str,
    value: Value,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Value {
    Text(&'static str),
    Flag(bool),
}

/// The data of the page's script.
pub(super) fn page_data<'a>(
    plan: &'a LandingPlan<'_>,
    label: impl Fn(Target) -> Label<'a>,
) -> serde_json::Result<String> {
    let copy = plan.copies_link().then_some(plan.link.url);
    let ipad_label = plan.ipad_target().map(label);
    let ios = plan.ipad_open().zip(ipad_label).map(|(open, label)| Ipad {
        open,
        label,
        fallback: plan.ipad_fallback(),
        copy,
    });
    script_json(&Data { fallback: plan.open_fallback(), copy: copy.filter(|_| ios.is_none()), ios })
}

#[derive(Serialize)]
struct Data<'a> {
    /// The target of the primary button's timer.
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<&'a str>,
    /// The text that a tap copies to the clipboard.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<&'a str>,
    /// Changes for a presumed Mac that is an iPad.
    #[serde(skip_serializing_if = "Option::is_none")]
    ios: Option<Ipad<'a>>,
}

#[derive(Serialize)]
struct Ipad<'a> {
    open: &'a str,
    label: Label<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<&'a str>,
}
