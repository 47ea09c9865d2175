//! The notice that a page shows about the previous form: a code in the query selects a sentence, in which at most a number
//! differs.

use deeplink_core::link::DELETED_DAYS;

use super::form::Form;

/// Whether a form has an icon that no page shows, because its URL is not https.
pub(super) fn has_hidden_icon(form: &Form) -> bool {
    form.filled("icon_url").is_some_and(|url| !url.to_ascii_lowercase().starts_with("https:"))
}

/// The sentence for a code and the number of links that it is about; `None` if it is about none.
pub(super) fn counted(code: &str, count: u64) -> Option<String> {
    let (links, them) = if count == 1 { ("1 link".to_owned(), "it") } else { (format!("{count} links"), "them") };
    Some(match code {
        "links-enabled" => format!("{links} enabled."),
        "links-disabled" => format!("{links} disabled."),
        "links-tagged" => format!("Tags added to {links}."),
        "links-untagged" => format!("Tags removed from {links}."),
        "links-deleted" => {
            format!("{links} deleted. You can restore {them} for {DELETED_DAYS} days under “Deleted links”.")
        }
        "links-gone" if count > 1 => "They were already deleted.".to_owned(),
        "links-gone" => "It was already deleted.".to_owned(),
        _ => return None,
    })
}

/// The sentence for a code; `None` for an unknown code.
pub(super) fn sentence(code: &str) -> Option<&'static str> {
    Some(match code {
        "link-made" => "Your link is ready.",
        "qr-saved" => "QR code design saved.",
        "logo-uploaded" => "Logo uploaded. To use it in this link’s QR code, save the design.",
        "link-saved" => "Link updated. The next click uses the new destinations.",
        "link-deleted" => "Link deleted. You can restore it for 30 days under “Deleted links”.",
        "link-restored" => "Link restored.",
        "domain-added" => "Domain added. Add the DNS records below, then verify it.",
        "deletion-canceled" => "Deletion canceled.",
        "settings-saved" => "Settings updated.",
        "settings-saved-without-icon" => {
            "Settings updated. The icon is not shown, because its URL does not start with https://."
        }
        "domain-saved" => "Domain updated.",
        "domain-verified" => "Domain verified.",
        "domain-stands" => "The TXT record is in place. The domain stays verified.",
        "domain-there" => "You have already added this domain.",
        "domain-deleted" => "Domain deleted.",
        "app-saved" => "App saved. Phones pick up the change the next time they check.",
        "app-saved-without-icon" => "App saved. Its icon is not shown, because its URL does not start with https://.",
        "app-deleted" => "App deleted.",
        "key-deleted" => "Key deleted. It no longer works.",
        "gone" => "It was already deleted.",
        "key-shown" => {
            "That form was already submitted. A key is shown only once; if you have lost it, delete it and create a new one."
        }
        "source-made" => "Source created. Use the button next to its name to see its URL.",
        "source-deleted" => "Source deleted. Its URL no longer works.",
        "webhook-secret-shown" => {
            "That form was already submitted. A secret is shown only once; if you have lost it, rotate it on the webhook’s page."
        }
        "webhook-saved" => "Webhook updated. New events use these settings.",
        "webhook-on" => "Webhook enabled. It will receive events from now on.",
        "webhook-off" => "Webhook disabled. Pending deliveries were canceled, and no new events will be sent.",
        "webhook-deleted" => "Webhook deleted. No more events will be sent to it.",
        "event-sent" => "Test event sent. Reload this page to see the result.",
        "replayed" => "The failed events are being resent. Reload this page to see the results.",
        "replayed-many" => {
            "The newest 1,000 failed events are being resent. To resend older ones, press “Resend all” again."
        }
        "replayed-none" => {
            "Nothing was resent: no deliveries failed in that period, or all of them are already being resent."
        }
        "invited" => "Invitation sent. It is valid for 7 days.",
        "person-removed" => "The team member was removed and signed out everywhere.",
        "plan-paid" => "Thank you. Your payment is confirmed.",
        "plan-canceled" => "Your subscription is canceled. It ends at the end of the current billing period.",
        "affiliate-made" => "Affiliate added. Create a credential for it below.",
        "affiliate-saved" => "Affiliate updated.",
        "affiliate-deleted" => "Affiliate deleted. Its credentials no longer work.",
        "credential-deleted" => "Credential deleted. It no longer works.",
        _ => return None,
    })
}
