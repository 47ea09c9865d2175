//! What the page tells machines: JSON-LD for agents, and the data of its own script.

use deeplink_core::resolve::{LandingPlan, Target};
use serde::Serialize;

use super::super::page::script_json;
use super::{Agent, LandingPage, said};

/// The link's purpose in the words of schema.org. Everything in it is the creator's assertion, and says so.
pub(super) fn json_ld(page: &LandingPage<'_>, agent: &Agent<'_>) -> serde_json::Result<String> {
    let link = &page.plan.link;
    let targets = [
        (link.ios_deep_link, "http://schema.org/IOSPlatform"),
        (link.android_deep_link, "http://schema.org/AndroidPlatform"),
        (link.web_url, "http://schema.org/DesktopWebPlatform"),
    ];
    let entry_points = targets.into_iter().filter_map(|(url, platform)| {
        Some(EntryPoint { kind: "EntryPoint", url_template: url?, action_platform: platform })
    });
    script_json(&Action {
        context: "https://schema.org",
        kind: action_type(agent.action),
        name: said(agent.cta),
        description: said(agent.description),
        target: entry_points.collect(),
        object: page.preview.and_then(|preview| {
            let (name, description) = (said(preview.title), said(preview.description));
            (name.is_some() || description.is_some()).then_some(Product { kind: "Product", name, description })
        }),
        provider: Organization {
            kind: "Organization",
            name: page.tenant_domain.unwrap_or("unknown"),
            additional_property: [
                PropertyValue { kind: "PropertyValue", name: "source", value: Value::Text("tenant_asserted") },
                PropertyValue { kind: "PropertyValue", name: "verified", value: Value::Flag(page.tenant_verified) },
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
#[serde(rename_all = "camelCase")]
struct EntryPoint<'a> {
    #[serde(rename = "@type")]
    kind: &'static str,
    url_template: &'a str,
    action_platform: &'static str,
}

#[derive(Serialize)]
struct Product<'a> {
    #[serde(rename = "@type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Organization<'a> {
    #[serde(rename = "@type")]
    kind: &'static str,
    name: &'a str,
    additional_property: [PropertyValue; 2],
}

#[derive(Serialize)]
struct PropertyValue {
    #[serde(rename = "@type")]
    kind: &'static str,
    name: &'static str,
    value: Value,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Value {
    Text(&'static str),
    Flag(bool),
}

/// What the script needs to know; everything else it leaves to the page.
pub(super) fn page_data<L: AsRef<str>>(
    plan: &LandingPlan<'_>,
    label: impl Fn(Target) -> L,
) -> serde_json::Result<String> {
    let copy = plan.copies_link().then_some(plan.link.url);
    let ipad_label = plan.ipad_target().map(label);
    let ios = plan.ipad_open().zip(ipad_label.as_ref()).map(|(open, label)| Ipad {
        open,
        label: label.as_ref(),
        fallback: plan.ipad_fallback(),
        copy,
    });
    script_json(&Data { fallback: plan.open_fallback(), copy: copy.filter(|_| ios.is_none()), ios })
}

#[derive(Serialize)]
struct Data<'a> {
    /// Where the timer of the primary button leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<&'a str>,
    /// What a tap copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<&'a str>,
    /// What changes on a Mac that is an iPad.
    #[serde(skip_serializing_if = "Option::is_none")]
    ios: Option<Ipad<'a>>,
}

#[derive(Serialize)]
struct Ipad<'a> {
    open: &'a str,
    label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<&'a str>,
}
