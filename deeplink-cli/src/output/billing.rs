//! Records of the account's plan.

use super::noun::{Column, Field, Kind, Noun, column, nouns};

nouns! {
    /// The plan, its limits, and their usage.
    PLAN("plans", id: "effective_tier", created: "effective_tier") {
        fields: "plan_tier", "effective_tier", "comp_active": Flag, "billing_method", "status": Status,
            "current_period_end": Moment, "cancel_scheduled": Flag, "quotas_enforced": Flag, "usage": Object,
            "links" = "usage.links": Count, "events_this_month" = "usage.events_this_month": Count,
            "domains" = "usage.domains": Count, "team_members" = "usage.team_members": Count,
            "webhooks" = "usage.webhooks": Count, "limits": Object, "max_links" = "limits.max_links": Count,
            "max_events_per_month" = "limits.max_events_per_month": Count,
            "max_domains" = "limits.max_domains": Count, "max_team_members" = "limits.max_team_members": Count,
            "max_webhooks" = "limits.max_webhooks": Count,
            "analytics_retention_days" = "limits.analytics_retention_days": Count;
        columns: "PLAN" = "effective_tier", "STATUS" = "status", "LINKS" = "links", "EVENTS" = "events_this_month",
            "DOMAINS" = "domains", "MEMBERS" = "team_members", "WEBHOOKS" = "webhooks";
    }

    /// The page on which a plan is paid for.
    CHECKOUT("sessions", id: "checkout_url", created: "checkout_url") {
        fields: "checkout_url";
        columns: "URL" = "checkout_url";
    }

    /// The page on which cards and invoices are managed.
    PORTAL("sessions", id: "portal_url", created: "portal_url") {
        fields: "portal_url";
        columns: "URL" = "portal_url";
    }

    /// A subscription that ends with its period.
    CANCELLATION("cancellations", id: "status", created: "status") {
        fields: "status", "current_period_end": Moment;
        columns: "STATUS" = "status", "ENDS" = "current_period_end";
    }
}
