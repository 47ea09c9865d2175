//! The guides: the Markdown files of `docs/`, in the order in which they are best read.

use super::markdown::{self, Document};

/// A guide.
pub(super) struct Guide {
    /// The name of its file, and of its page.
    pub(super) name: &'static str,
    /// What it is about, in a sentence.
    pub(super) about: &'static str,
    source: &'static str,
}

impl Guide {
    pub(super) fn path(&self) -> String {
        format!("/docs/{}", self.name)
    }

    pub(super) fn title(&self) -> &'static str {
        self.source.lines().next().unwrap_or_default().trim_start_matches("# ")
    }

    pub(super) fn document(&self) -> Document {
        markdown::document(self.source)
    }
}

macro_rules! guides {
    ($($group:literal { $($name:literal $about:literal)+ })+) => {
        /// Every guide, in groups with a name.
        pub(super) const GROUPS: &[(&str, &[Guide])] = &[$(($group, &[$(Guide {
            name: $name,
            about: $about,
            source: include_str!(concat!("../../../docs/", $name, ".md")),
        }),+])),+];
    };
}

guides! {
    "Get started" {
        "quickstart" "Set up a link with a landing page, a domain and a report from scratch."
        "install" "Install the service and dl: packages, binaries or a container image."
        "domains" "Put links on your own domain."
        "apps" "Open your apps from links, step by step."
        "deferred-links" "Preserve the link across an app install."
    }
    "Measure results" {
        "analytics" "View results, and report installs and conversions."
        "web-sdk" "Report installs and conversions from a web page."
        "webhooks" "Receive events on your server."
    }
    "Manage links" {
        "imports" "Create links from files and in CI."
        "moving-in" "Migrate links from Bitly, Dub, Shlink, Branch, Firebase or others."
        "qr-codes" "Print links."
        "affiliates" "Let partners create links."
        "team" "Sign in, invite people, manage keys."
    }
    "Use the API" {
        "api" "Call the service from code, over HTTP or from Rust."
        "mcp" "Give AI agents tools to manage links."
        "x402" "Accept or make per-request payments."
    }
    "Run the service" {
        "self-hosting" "Run the service for yourself or for others."
        "backup" "Back up and restore."
        "upgrading" "Upgrade or downgrade."
        "plans" "Sell plans with Stripe."
    }
}

/// Every guide.
pub(super) fn all() -> impl Iterator<Item = &'static Guide> {
    GROUPS.iter().flat_map(|(_, guides)| *guides)
}
