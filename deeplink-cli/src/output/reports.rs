//! Records of reports and sources.

use super::noun::{Column, Field, Kind, Noun, column, nouns};

nouns! {
    /// Sources.
    SOURCES("sources", id: "id", created: "webhook_url") {
        fields: "id", "name", "source_type", "webhook_url", "created_at": Moment;
        columns: "ID" = "id", "NAME" = "name", "URL" = "webhook_url", "CREATED" = "created_at";
    }

    /// The reply to a reported click.
    CLICKED("clicks", id: "link_id", created: "link_id") {
        fields: "link_id", "platform", "ios_deep_link": Destination, "ios_store_url": Destination,
            "android_deep_link": Destination, "android_store_url": Destination, "web_url": Destination, "metadata",
            "agent.action" = "agent_context.action", "agent.cta" = "agent_context.cta",
            "agent.description" = "agent_context.description", "social.title" = "social_preview.title",
            "social.description" = "social_preview.description", "social.image_url" = "social_preview.image_url",
            "status" = "_service_meta.status": Status, "tenant_domain" = "_service_meta.tenant_domain";
        columns: "ID" = "link_id", "PLATFORM" = "platform";
    }

    /// Events, whatever their kind.
    EVENTS("events", id: "id", created: "id") {
        fields: "id", "event", "timestamp": Moment, "link_id" = "data.link_id",
            "first_touch_link_id" = "data.first_touch_link_id", "last_touch_link_id" = "data.last_touch_link_id",
            "install_id" = "data.install_id", "user_id" = "data.user_id", "platform" = "data.platform",
            "user_agent" = "data.user_agent": Text, "referer" = "data.referer": Text,
            "app_version" = "data.app_version", "conversion_type" = "data.conversion_type",
            "amount_cents" = "data.amount_cents", "currency" = "data.currency", "source_id" = "data.source_id",
            "metadata" = "data.metadata", "data": Object;
        columns: "TIME" = "timestamp", "EVENT" = "event",
            "LINK" = (First &["data.link_id", "data.last_touch_link_id", "data.first_touch_link_id"], Kind::Plain),
            "USER/INSTALL" = (First &["data.user_id", "data.install_id"], Kind::Text),
            "DETAIL" = (First &["data.conversion_type", "data.app_version", "data.platform"], Kind::Text),
            "ID" = (Spare "id");
    }

    /// A reply that only says that the operation succeeded.
    REPORTED("reports", id: "success", created: "success") {
        fields: "success": Flag;
        columns: "SUCCESS" = "success";
    }

    /// The reply to a conversion.
    CONVERTED("conversions", id: "event_id", created: "event_id") {
        fields: "event_id", "accepted": Count, "deduped": Count, "unattributed": Count, "failed": Count;
        columns: "EVENT" = "event_id";
    }

    /// What links led to: a group of a report, or all of it under the key `total`.
    FUNNELS("groups", id: "key", created: "key") {
        fields: "key", "clicks": Count, "installed": Count, "identified": Count, "reinstalled": Count,
            "new_device": Count, "engaged": Count, "conversions": Count, "revenue";
        columns: "KEY" = "key", "CLICKS" = "clicks", "INSTALLED" = "installed", "IDENTIFIED" = "identified",
            "REINSTALLED" = "reinstalled", "NEW DEVICE" = "new_device", "ENGAGED" = "engaged",
            "CONVERSIONS" = "conversions", "REVENUE" = "revenue";
    }

    /// Everything that a link has led to.
    LINK_STATS("stats", id: "link_id", created: "link_id") {
        fields: "link_id", "click_count": Count, "install_count": Count, "identify_count": Count,
            "convert_count": Count, "conversion_rate": Count, "imported_clicks": Count, "conversions";
        columns: "ID" = "link_id", "CLICKS" = "click_count", "INSTALLS" = "install_count", "USERS" = "identify_count",
            "CONVERSIONS" = "convert_count";
    }
}
