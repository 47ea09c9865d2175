//! The plan of an account.

use super::{Answer, Request};

/// When its period ends: 2026-12-20.
pub const PERIOD_END: i64 = 1_797_759_000_000;

/// The checkout page.
pub const CHECKOUT_URL: &str = "https://checkout.example.com/c/pay/cs_test_0123456789abcdef";

/// The billing portal page.
pub const PORTAL_URL: &str = "https://billing.example.com/p/session/bps_0123456789abcdef";

/// The plan of an account that pays for it.
pub fn billing_status() -> serde_json::Value {
    serde_json::json!({
        "billing_method": "stripe", "cancel_scheduled": false, "comp_active": false, "current_period_end": PERIOD_END,
        "effective_tier": "business", "limits": {
            "analytics_retention_days": 1_095, "max_domains": 20, "max_events_per_month": 500_000, "max_links": 20_000,
            "max_team_members": null, "max_webhooks": 2,
        },
        "plan_tier": "business", "quotas_enforced": true, "status": "active",
        "usage": {"domains": 5, "events_this_month": 120_400, "links": 19_204, "team_members": 7, "webhooks": 2},
    })
}

/// Answers requests about the account's plan; `None` for any other request.
pub fn of_billing(request: &Request) -> Option<Answer> {
    Some(match request.line().as_str() {
        "GET /v1/billing/status" => Answer::json(200, &billing_status()),
        "POST /v1/billing/stripe/checkout" => Answer::json(200, &serde_json::json!({"checkout_url": CHECKOUT_URL})),
        "POST /v1/billing/stripe/portal" => Answer::json(200, &serde_json::json!({"portal_url": PORTAL_URL})),
        "POST /v1/billing/cancel" => {
            Answer::json(200, &serde_json::json!({"status": "cancel_scheduled", "current_period_end": PERIOD_END}))
        }
        _ => return None,
    })
}
