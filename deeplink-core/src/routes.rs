//! The route table: one entry for each operation that programs call. The client has one method, the command line one
//! command and the OpenAPI document one operation for each of them; tests keep them in step.

/// Who may call an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Credential {
    /// Anyone; a credential is ignored.
    Public,
    /// A tenant's own secret key.
    SecretKey,
    /// A tenant's own secret key, or an affiliate's, limited to that affiliate's links.
    LinkWriter,
    /// A publishable key, or a tenant's own secret key.
    SdkKey,
    /// A publishable key.
    PublishableKey,
    /// A signed-in person: the cookie `session_token`.
    Session,
    /// A person's browser, without a credential; not for programs.
    Browser,
    /// The payment processor, which signs what it sends.
    Processor,
}

impl Credential {
    /// Whether programs call such an operation: others are for a person's browser or for the payment processor.
    pub const fn is_for_programs(self) -> bool {
        !matches!(self, Self::Browser | Self::Processor)
    }
}

/// One operation: what it is called, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The operation's name, as in the OpenAPI document.
    pub operation: &'static str,
    /// HTTP method in upper case.
    pub method: &'static str,
    /// Path with `{parameters}`.
    pub path: &'static str,
    /// Who may call it.
    pub credential: Credential,
}

macro_rules! routes {
    ($($(#[$doc:meta])* $name:ident = $operation:literal $method:ident $path:literal $credential:ident;)+) => {
        $($(#[$doc])* pub const $name: Route = Route {
            operation: $operation,
            method: stringify!($method),
            path: $path,
            credential: Credential::$credential,
        };)+

        /// Every operation.
        pub const ALL: &[Route] = &[$($name,)+];
    };
}

routes! {
    /// Whether the process responds.
    HEALTH = "health" GET "/health" Public;
    /// Whether the database responds too.
    READY = "ready" GET "/ready" Public;
    /// The OpenAPI document.
    OPENAPI = "openapi" GET "/openapi.json" Public;
    /// The description of the API for language models.
    LLMS = "llms" GET "/llms.txt" Public;
    /// Redirects a visit, or returns the link's data as JSON.
    RESOLVE = "resolve" GET "/r/{link_id}" Public;
    /// Which iOS apps open the links of a host.
    APPLE_ASSOCIATION = "apple_association" GET "/.well-known/apple-app-site-association" Public;
    /// Which Android apps open the links of a host.
    ASSET_LINKS = "asset_links" GET "/.well-known/assetlinks.json" Public;
    /// Creates an account and returns its first key.
    SIGNUP = "signup" POST "/v1/auth/signup" Public;
    /// Emails a sign-in link.
    SIGNIN = "signin" POST "/v1/auth/signin" Public;
    /// Shows the sign-in page for an emailed link; does not use up the token.
    CALLBACK_PAGE = "callback_page" GET "/v1/auth/callback" Browser;
    /// Signs in with the token of an emailed link.
    CALLBACK = "callback" POST "/v1/auth/callback" Public;
    /// Redirects to an identity provider.
    OAUTH_START = "oauth_start" GET "/v1/auth/oauth/{provider}/start" Browser;
    /// The redirect back from an identity provider.
    OAUTH_CALLBACK = "oauth_callback" GET "/v1/auth/oauth/{provider}/callback" Browser;
    /// Shows the page for an invitation; does not use up the token.
    VERIFY_PAGE = "verify_page" GET "/v1/auth/verify" Browser;
    /// Accepts an invitation.
    ACCEPT_INVITE = "accept_invite" POST "/v1/auth/verify" Public;
    /// Returns the signed-in user.
    ME = "me" GET "/v1/auth/me" Session;
    /// Ends a session.
    SIGNOUT = "signout" POST "/v1/auth/signout" Session;
    /// Creates a secret key for a signed-in user.
    ISSUE_SECRET_KEY = "issue_secret_key" POST "/v1/auth/secret-keys/issue" Session;
    /// Lists the team members.
    LIST_USERS = "list_users" GET "/v1/auth/users" SecretKey;
    /// Invites someone to the team.
    INVITE_USER = "invite_user" POST "/v1/auth/users" SecretKey;
    /// Removes a team member.
    REMOVE_USER = "remove_user" DELETE "/v1/auth/users/{user_id}" SecretKey;
    /// Returns the identity behind a secret key.
    WHOAMI = "whoami" GET "/v1/auth/whoami" LinkWriter;
    /// Lists secret keys.
    LIST_SECRET_KEYS = "list_secret_keys" GET "/v1/auth/secret-keys" SecretKey;
    /// Emails a code for creating a secret key.
    REQUEST_SECRET_KEY = "request_secret_key" POST "/v1/auth/secret-keys" SecretKey;
    /// Creates a secret key with an emailed code.
    CONFIRM_SECRET_KEY = "confirm_secret_key" POST "/v1/auth/secret-keys/confirm" SecretKey;
    /// Deletes a secret key.
    DELETE_SECRET_KEY = "delete_secret_key" DELETE "/v1/auth/secret-keys/{key_id}" SecretKey;
    /// Lists publishable keys.
    LIST_PUBLISHABLE_KEYS = "list_publishable_keys" GET "/v1/auth/publishable-keys" SecretKey;
    /// Creates a publishable key.
    CREATE_PUBLISHABLE_KEY = "create_publishable_key" POST "/v1/auth/publishable-keys" SecretKey;
    /// Deletes a publishable key.
    DELETE_PUBLISHABLE_KEY = "delete_publishable_key" DELETE "/v1/auth/publishable-keys/{key_id}" SecretKey;
    /// Lists affiliates.
    LIST_AFFILIATES = "list_affiliates" GET "/v1/affiliates" SecretKey;
    /// Creates an affiliate.
    CREATE_AFFILIATE = "create_affiliate" POST "/v1/affiliates" SecretKey;
    /// Returns an affiliate.
    GET_AFFILIATE = "get_affiliate" GET "/v1/affiliates/{affiliate_id}" SecretKey;
    /// Updates an affiliate.
    UPDATE_AFFILIATE = "update_affiliate" PATCH "/v1/affiliates/{affiliate_id}" SecretKey;
    /// Deletes an affiliate.
    DELETE_AFFILIATE = "delete_affiliate" DELETE "/v1/affiliates/{affiliate_id}" SecretKey;
    /// Lists an affiliate's credentials.
    LIST_CREDENTIALS = "list_credentials" GET "/v1/affiliates/{affiliate_id}/credentials" SecretKey;
    /// Creates a credential for an affiliate.
    CREATE_CREDENTIAL = "create_credential" POST "/v1/affiliates/{affiliate_id}/credentials" SecretKey;
    /// Deletes a credential of an affiliate.
    DELETE_CREDENTIAL = "delete_credential" DELETE "/v1/affiliates/{affiliate_id}/credentials/{key_id}" SecretKey;
    /// Lists links.
    LIST_LINKS = "list_links" GET "/v1/links" LinkWriter;
    /// Creates a link.
    CREATE_LINK = "create_link" POST "/v1/links" LinkWriter;
    /// Creates up to 100 links, all or nothing.
    BULK_CREATE_LINKS = "bulk_create_links" POST "/v1/links/bulk" LinkWriter;
    /// Changes up to 100 links, all or nothing.
    BULK_UPDATE_LINKS = "bulk_update_links" PATCH "/v1/links/bulk" SecretKey;
    /// Deletes up to 100 links, all or nothing.
    BULK_DELETE_LINKS = "bulk_delete_links" DELETE "/v1/links/bulk" SecretKey;
    /// Returns a link.
    GET_LINK = "get_link" GET "/v1/links/{link_id}" LinkWriter;
    /// Updates a link.
    UPDATE_LINK = "update_link" PUT "/v1/links/{link_id}" SecretKey;
    /// Deletes a link.
    DELETE_LINK = "delete_link" DELETE "/v1/links/{link_id}" SecretKey;
    /// Lists tags.
    LIST_TAGS = "list_tags" GET "/v1/tags" SecretKey;
    /// Renames a tag, or merges it into another.
    RENAME_TAG = "rename_tag" PUT "/v1/tags/{tag}" SecretKey;
    /// Removes a tag from all links.
    DELETE_TAG = "delete_tag" DELETE "/v1/tags/{tag}" SecretKey;
    /// Returns a QR code for a link.
    LINK_QR = "link_qr" GET "/v1/links/{link_id}/qr.{format}" LinkWriter;
    /// Lists the uploaded logos.
    LIST_QR_LOGOS = "list_qr_logos" GET "/v1/qr-logos" SecretKey;
    /// Uploads a logo for QR codes.
    PUT_QR_LOGO = "put_qr_logo" PUT "/v1/qr-logos/{name}" SecretKey;
    /// Returns an uploaded logo as a PNG.
    GET_QR_LOGO = "get_qr_logo" GET "/v1/qr-logos/{name}" SecretKey;
    /// Deletes an uploaded logo.
    DELETE_QR_LOGO = "delete_qr_logo" DELETE "/v1/qr-logos/{name}" SecretKey;
    /// Lists the versions of a link.
    LINK_HISTORY = "link_history" GET "/v1/links/{link_id}/history" SecretKey;
    /// Restores an earlier version of a link, or a deleted link.
    RESTORE_LINK = "restore_link" POST "/v1/links/{link_id}/restore" SecretKey;
    /// Explains what a visitor to a link would get, and why.
    EXPLAIN_LINK = "explain_link" GET "/v1/links/{link_id}/explain" LinkWriter;
    /// Returns a link's clicks over time.
    LINK_TIMESERIES = "link_timeseries" GET "/v1/links/{link_id}/timeseries" SecretKey;
    /// Returns the total results of a link.
    LINK_STATS = "link_stats" GET "/v1/links/{link_id}/stats" SecretKey;
    /// Reports the results of links, from clicks to conversions.
    FUNNEL = "funnel" GET "/v1/analytics/stats" SecretKey;
    /// Records a click.
    TRACK_CLICK = "track_click" POST "/v1/lifecycle/click" SdkKey;
    /// Records that an app was opened from a link.
    ATTRIBUTE = "attribute" POST "/v1/lifecycle/attribute" SdkKey;
    /// Binds an install to a user.
    IDENTIFY = "identify" PUT "/v1/lifecycle/identify" SdkKey;
    /// Records a conversion.
    CONVERT = "convert" POST "/v1/lifecycle/convert" SdkKey;
    /// Records a click (legacy form).
    ATTRIBUTION_CLICK = "attribution_click" POST "/v1/attribution/click" PublishableKey;
    /// Records that an app was opened from a link (legacy form).
    ATTRIBUTION_REPORT = "attribution_report" POST "/v1/attribution/report" PublishableKey;
    /// Binds an install to a user (legacy form).
    ATTRIBUTION_LINK = "attribution_link" PUT "/v1/attribution/link" SecretKey;
    /// Lists sources.
    LIST_SOURCES = "list_sources" GET "/v1/sources" SecretKey;
    /// Creates a URL that accepts conversions.
    CREATE_SOURCE = "create_source" POST "/v1/sources" SecretKey;
    /// Returns a source.
    GET_SOURCE = "get_source" GET "/v1/sources/{id}" SecretKey;
    /// Deletes a source; its URL stops working immediately.
    DELETE_SOURCE = "delete_source" DELETE "/v1/sources/{id}" SecretKey;
    /// Records a conversion without a key.
    SEND_TO_SOURCE = "send_to_source" POST "/in/{token}" Public;
    /// Lists webhooks.
    LIST_WEBHOOKS = "list_webhooks" GET "/v1/webhooks" SecretKey;
    /// Creates a webhook and its secret.
    CREATE_WEBHOOK = "create_webhook" POST "/v1/webhooks" SecretKey;
    /// Updates a webhook.
    UPDATE_WEBHOOK = "update_webhook" PATCH "/v1/webhooks/{webhook_id}" SecretKey;
    /// Deletes a webhook; nothing more is sent to it.
    DELETE_WEBHOOK = "delete_webhook" DELETE "/v1/webhooks/{webhook_id}" SecretKey;
    /// Rotates a webhook's secret.
    ROTATE_WEBHOOK_SECRET = "rotate_webhook_secret" POST "/v1/webhooks/{webhook_id}/rotate-secret" SecretKey;
    /// Sends a test event to a webhook.
    TEST_WEBHOOK = "test_webhook" POST "/v1/webhooks/{webhook_id}/test" SecretKey;
    /// Lists a webhook's deliveries.
    LIST_DELIVERIES = "list_deliveries" GET "/v1/webhooks/{webhook_id}/deliveries" SecretKey;
    /// Replays a delivery.
    REPLAY_DELIVERY = "replay_delivery" POST "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/replay" SecretKey;
    /// Replays failed deliveries since a given time.
    REPLAY_DELIVERIES = "replay_deliveries" POST "/v1/webhooks/{webhook_id}/replay" SecretKey;
    /// Lists the events of the log.
    LIST_EVENTS = "list_events" GET "/v1/analytics/events" SecretKey;
    /// Streams events as they happen.
    EVENT_STREAM = "event_stream" GET "/v1/events/stream" SecretKey;
    /// The script of the web SDK.
    SDK_SCRIPT = "sdk_script" GET "/sdk/deeplink.js" Browser;
    /// Lists apps.
    LIST_APPS = "list_apps" GET "/v1/apps" SecretKey;
    /// Registers or replaces an app.
    CREATE_APP = "create_app" POST "/v1/apps" SecretKey;
    /// Deletes an app.
    DELETE_APP = "delete_app" DELETE "/v1/apps/{app_id}" SecretKey;
    /// Lists domains.
    LIST_DOMAINS = "list_domains" GET "/v1/domains" SecretKey;
    /// Adds a domain.
    CREATE_DOMAIN = "create_domain" POST "/v1/domains" SecretKey;
    /// Updates where a domain redirects visitors without a valid link.
    UPDATE_DOMAIN = "update_domain" PATCH "/v1/domains/{domain}" SecretKey;
    /// Deletes a domain.
    DELETE_DOMAIN = "delete_domain" DELETE "/v1/domains/{domain}" SecretKey;
    /// Verifies a domain by checking its DNS record.
    VERIFY_DOMAIN = "verify_domain" POST "/v1/domains/{domain}/verify" SecretKey;
    /// Lists the audit log.
    LIST_AUDIT_LOG = "list_audit_log" GET "/v1/audit" SecretKey;
    /// Returns the account's settings.
    GET_ACCOUNT = "get_account" GET "/v1/account" SecretKey;
    /// Updates the account's settings.
    UPDATE_ACCOUNT = "update_account" PATCH "/v1/account" SecretKey;
    /// Exports the account's data.
    EXPORT_ACCOUNT = "export_account" GET "/v1/account/export" SecretKey;
    /// Schedules the deletion of the account.
    DELETE_ACCOUNT = "delete_account" POST "/v1/account/deletion" SecretKey;
    /// Cancels the deletion of the account.
    CANCEL_DELETION = "cancel_account_deletion" DELETE "/v1/account/deletion" SecretKey;
    /// Returns the account's plan and usage.
    BILLING_STATUS = "billing_status" GET "/v1/billing/status" SecretKey;
    /// Cancels the subscription at the end of its period.
    CANCEL_SUBSCRIPTION = "cancel_subscription" POST "/v1/billing/cancel" SecretKey;
    /// Creates a checkout page for a plan.
    CREATE_CHECKOUT = "create_checkout" POST "/v1/billing/stripe/checkout" SecretKey;
    /// Creates a billing portal session.
    CREATE_PORTAL = "create_portal" POST "/v1/billing/stripe/portal" SecretKey;
    /// Receives events from the payment processor.
    STRIPE_WEBHOOK = "stripe_webhook" POST "/v1/billing/stripe/webhook" Processor;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_unique() {
        let mut names = std::collections::HashSet::new();
        let mut paths = std::collections::HashSet::new();
        for route in ALL {
            assert!(names.insert(route.operation) && paths.insert((route.method, route.path)), "{}", route.operation);
        }
    }
}
