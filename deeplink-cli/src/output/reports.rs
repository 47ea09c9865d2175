//! What `dl` knows about what is reported, and about sources.

use super::noun::{Column, Field, Kind, Noun, inner, of, plain};

/// Sources.
pub(crate) static SOURCES: Noun = Noun {
    id: "id",
    created: "webhook_url",
    list: "sources",
    fields: &[plain("id"), plain("name"), plain("source_type"), plain("webhook_url"), of("created_at", Kind::Moment)],
    columns: &[
        Column::Field("ID", "id"),
        Column::Field("NAME", "name"),
        Column::Field("ADDRESS", "webhook_url"),
        Column::Field("CREATED", "created_at"),
    ],
};

/// What a click answers with.
pub(crate) static CLICKED: Noun = Noun {
    id: "link_id",
    created: "link_id",
    list: "clicks",
    fields: &[
        plain("link_id"),
        plain("platform"),
        of("ios_deep_link", Kind::Destination),
        of("ios_store_url", Kind::Destination),
        of("android_deep_link", Kind::Destination),
        of("android_store_url", Kind::Destination),
        of("web_url", Kind::Destination),
        plain("metadata"),
        inner("agent.action", "agent_context.action"),
        inner("agent.cta", "agent_context.cta"),
        inner("agent.description", "agent_context.description"),
        inner("social.title", "social_preview.title"),
        inner("social.description", "social_preview.description"),
        inner("social.image_url", "social_preview.image_url"),
        Field { name: "status", path: "_service_meta.status", kind: Kind::Status, csv: true },
        inner("tenant_domain", "_service_meta.tenant_domain"),
    ],
    columns: &[Column::Field("ID", "link_id"), Column::Field("PLATFORM", "platform")],
};

/// What is simply done.
pub(crate) static REPORTED: Noun = Noun {
    id: "success",
    created: "success",
    list: "reports",
    fields: &[of("success", Kind::Flag)],
    columns: &[Column::Field("SUCCESS", "success")],
};

/// What a conversion answers with.
pub(crate) static CONVERTED: Noun = Noun {
    id: "event_id",
    created: "event_id",
    list: "conversions",
    fields: &[
        plain("event_id"),
        of("accepted", Kind::Count),
        of("deduped", Kind::Count),
        of("unattributed", Kind::Count),
        of("failed", Kind::Count),
    ],
    columns: &[Column::Field("EVENT", "event_id")],
};

/// What links led to: a group of a report, or all of it under the key `total`.
pub(crate) static FUNNELS: Noun = Noun {
    id: "key",
    created: "key",
    list: "groups",
    fields: &[
        plain("key"),
        of("clicks", Kind::Count),
        of("installed", Kind::Count),
        of("identified", Kind::Count),
        of("reinstalled", Kind::Count),
        of("new_device", Kind::Count),
        of("engaged", Kind::Count),
        of("conversions", Kind::Count),
    ],
    columns: &[
        Column::Field("KEY", "key"),
        Column::Field("CLICKS", "clicks"),
        Column::Field("INSTALLED", "installed"),
        Column::Field("IDENTIFIED", "identified"),
        Column::Field("REINSTALLED", "reinstalled"),
        Column::Field("NEW DEVICE", "new_device"),
        Column::Field("ENGAGED", "engaged"),
        Column::Field("CONVERSIONS", "conversions"),
    ],
};

/// All that a link led to, ever.
pub(crate) static LINK_STATS: Noun = Noun {
    id: "link_id",
    created: "link_id",
    list: "stats",
    fields: &[
        plain("link_id"),
        of("click_count", Kind::Count),
        of("install_count", Kind::Count),
        of("identify_count", Kind::Count),
        of("convert_count", Kind::Count),
        of("conversion_rate", Kind::Count),
        plain("conversions"),
    ],
    columns: &[
        Column::Field("ID", "link_id"),
        Column::Field("CLICKS", "click_count"),
        Column::Field("INSTALLS", "install_count"),
        Column::Field("USERS", "identify_count"),
        Column::Field("CONVERSIONS", "convert_count"),
    ],
};
