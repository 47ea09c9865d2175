//! Resource ids: a prefix, `_`, and 24 lowercase hex digits (48 bits of unix milliseconds, 48 random bits), so that ids
//! sort by creation. Link ids are the tenants' own and live in [`crate::link`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::secret::Random;
use crate::time::Timestamp;

/// The text is not an id of the expected kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an ID of the form {prefix}_ followed by 24 lowercase hex digits")]
pub struct NotAnId {
    prefix: &'static str,
}

fn digits(now: Timestamp, random: &mut Random) -> String {
    let millis = u64::try_from(now.as_millis()).unwrap_or(0) & 0xffff_ffff_ffff;
    let mut tail = [0; 6];
    random.fill(&mut tail);
    format!("{millis:012x}{}", hex::encode(tail))
}

fn has_form(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('_'))
        .is_some_and(|hex| hex.len() == 24 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)+) => {$(
        $(#[$doc])*
        ///
        /// Parsing from text is strict; reading from JSON is lenient, so that a client tolerates ids of another form.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            #[doc = concat!("`", $prefix, "`")]
            pub const PREFIX: &'static str = $prefix;

            /// A new id that sorts after the ids of earlier milliseconds.
            pub fn new(now: Timestamp, random: &mut Random) -> Self {
                Self(format!("{}_{}", $prefix, digits(now, random)).into())
            }

            /// The id's text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// When it was made, in unix milliseconds; 0 for an id of another form.
            pub fn millis(&self) -> i64 {
                let digits = self.0.strip_prefix(concat!($prefix, "_")).and_then(|hex| hex.get(..12));
                digits.and_then(|digits| i64::from_str_radix(digits, 16).ok()).unwrap_or(0)
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .pattern(Some(concat!("^", $prefix, "_[0-9a-f]{24}$")))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}

        impl std::str::FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                if has_form(text, $prefix) { Ok(Self(text.into())) } else { Err(NotAnId { prefix: $prefix }) }
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

ids! {
    /// A tenant: the account that owns links.
    TenantId = "tnt";
    /// A person who belongs to a tenant.
    UserId = "usr";
    /// A secret key.
    SecretKeyId = "skid";
    /// A key of apps and pages.
    PublishableKeyId = "pkid";
    /// A person's session.
    SessionId = "ses";
    /// A partner with its own credentials.
    AffiliateId = "aff";
    /// An app.
    AppId = "app";
    /// A custom domain.
    DomainId = "dom";
    /// An address that conversions are posted to.
    SourceId = "src";
    /// Something that happened, such as a conversion.
    EventId = "evt";
    /// An address that events are posted to.
    WebhookId = "wh";
    /// A delivery of an event to a webhook.
    DeliveryId = "dlv";
    /// A queued email.
    MailId = "eml";
    /// A certificate of a host.
    CertificateId = "crt";
    /// An entry of the audit log.
    AuditEntryId = "aud";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_creation_and_parse_strictly() {
        let mut random = Random::seeded(1);
        let early = TenantId::new(Timestamp::from_millis(1_000), &mut random);
        let late = TenantId::new(Timestamp::from_millis(2_000), &mut random);
        assert!(early < late);
        assert_eq!(early.as_str().parse(), Ok(early.clone()));
        for wrong in
            ["", "tnt_", "usr_0000000003e8aaaaaaaaaaaa", "tnt_0000000003E8aaaaaaaaaaaa", "tnt_0000000003e8aaaaaaaaaaa"]
        {
            assert!(wrong.parse::<TenantId>().is_err(), "{wrong}");
        }
    }

    /// X16: resource ids are 48 bits of milliseconds and 48 bits from a cryptographic generator. A million made in one
    /// millisecond contain one collision in about one run of five hundred, and practically never four; hex symbols are
    /// uniform.
    #[test]
    fn x16_ids_are_unique_and_uniform() {
        let mut random = Random::system();
        let now = Timestamp::from_millis(1_795_167_000_000);
        let mut seen = std::collections::HashSet::new();
        let mut counts = [0_f64; 16];
        for _ in 0..1_000_000 {
            let id = TenantId::new(now, &mut random);
            let drawn = &id.as_str()[16..];
            for digit in drawn.chars().filter_map(|c| c.to_digit(16)) {
                counts[digit as usize] += 1.0;
            }
            seen.insert(u64::from_str_radix(drawn, 16).expect("hex digits"));
        }
        assert!(seen.len() > 1_000_000 - 4, "{} are different", seen.len());
        // 37.7 is the 0.999 quantile of chi-square with 15 degrees of freedom; twice that rules out false alarms.
        assert!(crate::secret::tests::chi_square(&counts) < 75.0);
    }
}
