//! The notice that a page shows about the previous form: a code in the query selects a sentence, in which at most numbers
//! differ.

use deeplink_core::link::DELETED_DAYS;

use super::form::Form;

/// Whether a form has an icon that no page shows, because its URL is not https.
pub(super) fn has_hidden_icon(form: &Form) -> bool {
    form.filled("icon_url").is_some_and(|url| !url.to_ascii_lowercase().starts_with("https:"))
}

/// The sentences for a code, the number of links that were changed and that of those that were so already; `None` if they are
/// about none.
pub(super) fn counted(code: &str, changed: u64, unchanged: u64) -> Option<String> {
    let links = of_links(changed);
    let (done, was, were) = match code {
        "links-enabled" => (format!("{links} enabled."), "was already enabled", "were already enabled"),
        "links-disabled" => (format!("{links} disabled."), "was already disabled", "were already disabled"),
        "links-tagged" => (format!("Tags added to {links}."), "already had these tags", "already had these tags"),
        "links-untagged" => {
            (format!("Tags removed from {links}."), "did not have these tags", "did not have these tags")
        }
        "links-deleted" if changed > 0 => {
            let them = if changed == 1 { "it" } else { "them" };
            return Some(format!(
                "{links} deleted. You can restore {them} for {DELETED_DAYS} days under “Deleted links”."
            ));
        }
        "links-gone" if changed > 1 => return Some("They were already deleted.".to_owned()),
        "links-gone" => return Some("It was already deleted.".to_owned()),
        _ => return None,
    };
    let so = if unchanged == 1 { was } else { were };
    match (changed, unchanged) {
        (0, 0) => None,
        (0, _) => Some(format!("{} {so}.", of_links(unchanged))),
        (_, 0) => Some(done),
        (..) => Some(format!("{done} {unchanged} {so}.")),
    }
}

/// A number of links in words.
pub(super) fn of_links(count: u64) -> String {
    if count == 1 { "1 link".to_owned() } else { format!("{count} links") }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_counts_what_was_changed_apart_from_what_was_so_already() {
        for (code, changed, unchanged, text) in [
            ("links-enabled", 1, 0, Some("1 link enabled.")),
            ("links-enabled", 3, 1, Some("3 links enabled. 1 was already enabled.")),
            ("links-disabled", 3, 2, Some("3 links disabled. 2 were already disabled.")),
            ("links-disabled", 0, 1, Some("1 link was already disabled.")),
            ("links-disabled", 0, 5, Some("5 links were already disabled.")),
            ("links-disabled", 0, 0, None),
            ("links-tagged", 2, 0, Some("Tags added to 2 links.")),
            ("links-tagged", 1, 1, Some("Tags added to 1 link. 1 already had these tags.")),
            ("links-tagged", 0, 2, Some("2 links already had these tags.")),
            ("links-untagged", 1, 2, Some("Tags removed from 1 link. 2 did not have these tags.")),
            ("links-untagged", 0, 1, Some("1 link did not have these tags.")),
            ("links-deleted", 1, 0, Some("1 link deleted. You can restore it for 30 days under “Deleted links”.")),
            ("links-deleted", 0, 0, None),
            ("links-gone", 1, 0, Some("It was already deleted.")),
            ("links-gone", 2, 0, Some("They were already deleted.")),
            ("link-made", 1, 0, None),
        ] {
            assert_eq!(counted(code, changed, unchanged).as_deref(), text, "{code} {changed} {unchanged}");
        }
    }
}
