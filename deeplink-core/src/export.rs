//! Everything that an account has, record by record, to keep or to take elsewhere.

use serde_json::Value;

use crate::words::{paged, reply, words};

/// Maximum records per page.
pub const MAX_RECORDS: u32 = 1_000;

words! {
    /// Type of a record.
    RecordType {
        /// The account's settings, as `GET /v1/account` shows them; always the first record.
        Account = "account",
        /// A team member.
        User = "user",
        /// A secret key, never the key itself.
        SecretKey = "secret_key",
        /// A publishable key, never the key itself.
        PublishableKey = "publishable_key",
        /// A domain.
        Domain = "domain",
        /// An app.
        App = "app",
        /// An affiliate.
        Affiliate = "affiliate",
        /// A source, without its URL, which is secret.
        Source = "source",
        /// A webhook.
        Webhook = "webhook",
        /// An uploaded logo, without the image.
        QrLogo = "qr_logo",
        /// A link.
        Link = "link",
        /// An entry of the audit log.
        AuditEntry = "audit_entry",
        /// An event: a click, a touch, a binding or a conversion.
        Event = "event",
    }
}

reply! {
    /// One record of an account.
    ExportRecord {
        /// Type of the record.
        r#type: RecordType,
        /// The record, with the same fields as in the list of its type.
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        data: Value,
    }
}

paged! {
    /// Records of an export, grouped by type.
    AccountExport {
        /// The records.
        records: ExportRecord,
    }
}
