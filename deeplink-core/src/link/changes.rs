//! What a change did to a link, in the words that people read on the account pages and in `dl`.

use super::{LinkChange, LinkContent, LinkDetail, LinkVersion};

impl From<LinkDetail> for LinkContent {
    fn from(link: LinkDetail) -> Self {
        Self {
            ios_deep_link: link.ios_deep_link,
            ios_store_url: link.ios_store_url,
            android_deep_link: link.android_deep_link,
            android_store_url: link.android_store_url,
            web_url: link.web_url,
            metadata: link.metadata,
            agent_context: link.agent_context,
            social_preview: link.social_preview,
            affiliate_id: link.affiliate_id,
            name: link.name,
            enabled: link.enabled,
            expires_at: link.owner_expires_at,
            expired_url: link.expired_url,
            tags: link.tags,
            aliases: link.aliases,
            qr: link.qr,
            imported_clicks: link.imported_clicks,
        }
    }
}

impl LinkVersion {
    /// The change in words: of an update, the fields that it changed, such as "Name, expiry changed". `after` is the link after
    /// the change, if known. Of a restore, the fields are the second text.
    pub fn in_words(&self, after: Option<&LinkContent>) -> (String, Option<String>) {
        let fields = after.and_then(|after| changed_fields(&self.content, after));
        let word = match &self.change {
            LinkChange::Enabled => "Enabled",
            LinkChange::Disabled => "Disabled",
            LinkChange::Flagged => "Flagged as unsafe",
            LinkChange::Deleted => "Deleted",
            LinkChange::Restored => return ("Restored".to_owned(), fields),
            // Renaming or deleting a tag for the whole account adds no version, and so hides an earlier change of tags.
            LinkChange::Updated if after.is_some() => {
                return (fields.unwrap_or_else(|| "Tags changed".to_owned()), None);
            }
            _ => "Updated",
        };
        (word.to_owned(), None)
    }
}

/// The fields that differ, such as "Name, expiry changed".
fn changed_fields(before: &LinkContent, after: &LinkContent) -> Option<String> {
    let fields = [
        ("web page", before.web_url != after.web_url),
        ("iOS deep link", before.ios_deep_link != after.ios_deep_link),
        ("App Store page", before.ios_store_url != after.ios_store_url),
        ("Android deep link", before.android_deep_link != after.android_deep_link),
        ("Google Play page", before.android_store_url != after.android_store_url),
        ("social preview", before.social_preview != after.social_preview),
        ("agent context", before.agent_context != after.agent_context),
        ("name", before.name != after.name),
        ("tags", before.tags != after.tags),
        ("aliases", before.aliases != after.aliases),
        ("status", before.enabled != after.enabled),
        ("expiry", before.expires_at != after.expires_at),
        ("redirect after expiry", before.expired_url != after.expired_url),
        ("imported clicks", before.imported_clicks != after.imported_clicks),
        ("metadata", before.metadata != after.metadata),
        ("QR code design", before.qr != after.qr),
        ("affiliate", before.affiliate_id != after.affiliate_id),
    ];
    let fields: Vec<_> = fields.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect();
    let text = format!("{} changed", fields.join(", "));
    // "iOS" keeps its lowercase first letter, even at the start of a sentence.
    let is_as_written = text.starts_with("iOS");
    (!fields.is_empty()).then(|| if is_as_written { text } else { text[..1].to_uppercase() + &text[1..] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::AuditActor;
    use crate::time::Timestamp;

    fn words(change: LinkChange, after: Option<&LinkContent>) -> (String, Option<String>) {
        let before = LinkContent::default();
        LinkVersion::new(1, change, Timestamp::from_millis(0), AuditActor::SecretKey, None, false, before)
            .in_words(after)
    }

    #[test]
    fn a_change_names_its_fields() {
        let change = |change: fn(&mut LinkContent)| {
            let mut after = LinkContent::default();
            change(&mut after);
            words(LinkChange::Updated, Some(&after)).0
        };
        assert_eq!(change(|after| after.name = Some("Sale".to_owned())), "Name changed");
        let both = change(|after| {
            after.tags = vec!["spring".to_owned()];
            after.web_url = Some("https://shop.example.com/".to_owned());
        });
        assert_eq!(both, "Web page, tags changed");
        assert_eq!(change(|after| after.ios_deep_link = Some("shop://sale".to_owned())), "iOS deep link changed");
        assert_eq!(change(|_| ()), "Tags changed", "the tag was deleted later");
        assert_eq!(words(LinkChange::Updated, None).0, "Updated", "what came after is not known");
    }

    #[test]
    fn other_changes_have_a_word_and_a_restore_its_fields() {
        let mut after = LinkContent::default();
        assert_eq!(words(LinkChange::Restored, Some(&after)), ("Restored".to_owned(), None));
        after.name = Some("Sale".to_owned());
        let restored = ("Restored".to_owned(), Some("Name changed".to_owned()));
        assert_eq!(words(LinkChange::Restored, Some(&after)), restored);
        for (change, word) in [
            (LinkChange::Enabled, "Enabled"),
            (LinkChange::Flagged, "Flagged as unsafe"),
            (LinkChange::Deleted, "Deleted"),
        ] {
            assert_eq!(words(change, Some(&after)), (word.to_owned(), None));
        }
    }
}
