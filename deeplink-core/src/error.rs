//! The list of error codes, each with exactly one HTTP status, and the error record that every failure returns.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::x402::RequirementV1;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:literal;)+) => {
        /// Every code an error of the service can carry. A code has exactly one HTTP status.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)+
            /// A code this build does not know; it keeps its text.
            Unknown(Box<str>),
        }

        impl ErrorCode {
            /// Every known code.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The code as it is in the error record.
            pub fn as_str(&self) -> &str {
                match self { $(Self::$name => $code,)+ Self::Unknown(text) => text }
            }

            /// The HTTP status that goes with the code; `None` for an unknown one.
            pub fn status(&self) -> Option<u16> {
                match self { $(Self::$name => Some($status),)+ Self::Unknown(_) => None }
            }
        }

        impl From<&str> for ErrorCode {
            fn from(text: &str) -> Self {
                match text { $($code => Self::$name,)+ _ => Self::Unknown(text.into()) }
            }
        }
    };
}

codes! {
    /// The request is malformed: bad JSON, a mistyped field, a bad parameter.
    BadRequest = "bad_request", 400;
    /// It does not exist, or it belongs to another account.
    NotFound = "not_found", 404;
    /// No credential where one is needed.
    Unauthorized = "unauthorized", 401;
    /// The credential is unknown, revoked or of the wrong kind.
    InvalidKey = "invalid_key", 401;
    /// The credential's scope does not reach this operation.
    ForbiddenScope = "forbidden_scope", 403;
    /// Too many requests; try again after `Retry-After`.
    RateLimited = "rate_limited", 429;
    /// Something failed inside; whether it took effect is unknown.
    Internal = "internal", 500;
    /// The body is larger than the operation takes.
    PayloadTooLarge = "payload_too_large", 413;
    /// The body is not `application/json`.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// The path exists, but not with this method.
    MethodNotAllowed = "method_not_allowed", 405;
    /// The id is not 3 to 64 letters, digits or inner hyphens, or it is reserved.
    InvalidCustomId = "invalid_custom_id", 400;
    /// A URL breaks the rules of its field.
    InvalidUrl = "invalid_url", 400;
    /// A destination is on the operator's threat list.
    ThreatDetected = "threat_detected", 400;
    /// Metadata is not an object, is too large, or contains something that may not be stored.
    InvalidMetadata = "invalid_metadata", 400;
    /// The agent context has an unknown action or a text that is too long.
    InvalidAgentContext = "invalid_agent_context", 400;
    /// The social preview is empty or has a text that is too long.
    InvalidSocialPreview = "invalid_social_preview", 400;
    /// The link id is in use.
    LinkIdTaken = "link_id_taken", 409;
    /// The end of a link is not a time with an offset, has passed, or is more than 100 years ahead.
    InvalidExpiresAt = "invalid_expires_at", 400;
    /// A tag is blank, is longer than 40 characters, contains a comma or a control character, or is the 21st of a link.
    InvalidTag = "invalid_tag", 400;
    /// The account already has 1,000 different tags.
    TagLimit = "tag_limit", 400;
    /// The operator has the link switched off, so its owner cannot switch it on.
    DisabledByOperator = "disabled_by_operator", 409;
    /// The update is empty.
    EmptyUpdate = "empty_update", 400;
    /// The affiliate named in a body does not exist.
    AffiliateNotFound = "affiliate_not_found", 404;
    /// A scoped credential named another affiliate.
    AffiliateScopeMismatch = "affiliate_scope_mismatch", 400;
    /// The cursor was not made by this list.
    InvalidCursor = "invalid_cursor", 400;
    /// At least one row of the batch is wrong; `errors` lists them all.
    InvalidBatch = "invalid_batch", 400;
    /// The batch has no row.
    BatchEmpty = "batch_empty", 400;
    /// The batch has more than 100 rows.
    BatchTooLarge = "batch_too_large", 400;
    /// The batch has neither ids, nor a count, nor links.
    BatchModeMissing = "batch_mode_missing", 400;
    /// The batch has more than one of ids, count and links.
    BatchModeAmbiguous = "batch_mode_ambiguous", 400;
    /// The id occurs more than once in the batch.
    DuplicateCustomIdInBatch = "duplicate_custom_id_in_batch", 400;
    /// The plan's limit is reached.
    QuotaExceeded = "quota_exceeded", 402;
    /// The plan is not one that can be paid for.
    InvalidTier = "invalid_tier", 400;
    /// There is no subscription to cancel.
    NoSubscription = "no_subscription", 400;
    /// The account will be deleted, so nothing is bought for it; cancel the deletion first.
    DeletionScheduled = "deletion_scheduled", 409;
    /// The account has a subscription that would be renewed; cancel it first.
    SubscriptionActive = "subscription_active", 409;
    /// The account has never paid, so the payment processor does not know it.
    NoCustomer = "no_customer", 400;
    /// The request must be paid for, and its payment is missing or was refused.
    PaymentRequired = "payment_required", 402;
    /// The payment header cannot be read.
    PaymentInvalid = "payment_invalid", 400;
    /// The payment was used before, with another request or with an `Idempotency-Key` that this one lacks.
    PaymentReplayed = "payment_replayed", 409;
    /// The payment, or another one under the same `Idempotency-Key`, is being settled for the same request.
    PaymentInProgress = "payment_in_progress", 409;
    /// The facilitator gave no usable answer. Nothing was done; `error` says whether money moved.
    FacilitatorUnavailable = "facilitator_unavailable", 503;
    /// The email address is malformed.
    InvalidEmail = "invalid_email", 400;
    /// The address already belongs to an account.
    EmailExists = "email_exists", 409;
    /// The person already belongs to the account's team.
    UserExists = "user_exists", 409;
    /// The account would be left without a verified person.
    LastUser = "last_user", 409;
    /// No one in the account's team has this address.
    NotAMember = "not_a_member", 403;
    /// The person with this address has not confirmed it.
    UserUnverified = "user_unverified", 403;
    /// The account has the maximum number of secret keys.
    KeyLimit = "key_limit", 409;
    /// The account would be left without a secret key.
    LastKey = "last_key", 409;
    /// A key cannot delete itself.
    KeyInUse = "key_in_use", 409;
    /// A confirmation code was sent to this address and has not expired.
    RequestPending = "request_pending", 429;
    /// The confirmation code is wrong, was never sent, or has expired.
    InvalidCode = "invalid_code", 400;
    /// Too many wrong confirmation codes; this one no longer works.
    TooManyAttempts = "too_many_attempts", 429;
    /// The account has no such domain.
    DomainNotFound = "domain_not_found", 400;
    /// The domain is claimed, but not verified.
    DomainNotVerified = "domain_not_verified", 400;
    /// A partner's key is not 2 to 32 lower-case letters, digits and hyphens.
    InvalidPartnerKey = "invalid_partner_key", 400;
    /// Another affiliate of the account has this partner key.
    PartnerKeyTaken = "partner_key_taken", 409;
    /// The affiliate has the maximum number of credentials.
    CredentialLimit = "credential_limit", 409;
    /// Unknown identity provider.
    UnknownProvider = "unknown_provider", 404;
    /// The domain is not a host name that an account can claim.
    InvalidDomain = "invalid_domain", 400;
    /// The role is neither `primary` nor `alternate`.
    InvalidRole = "invalid_role", 400;
    /// The domain is already claimed by this account, or verified by another.
    DomainTaken = "domain_taken", 409;
    /// The account already has a verified alternate domain; only one is allowed.
    AlternateLimit = "alternate_limit", 409;
    /// The platform is neither `ios` nor `android`.
    InvalidPlatform = "invalid_platform", 400;
    /// A field that the platform needs is absent or blank.
    MissingFields = "missing_fields", 400;
    /// A name is too long or contains a control character.
    InvalidName = "invalid_name", 400;
    /// The bundle id does not have Apple's form.
    InvalidBundleId = "invalid_bundle_id", 400;
    /// The team id is not 10 upper-case letters and digits.
    InvalidTeamId = "invalid_team_id", 400;
    /// The package name does not have Android's form.
    InvalidPackageName = "invalid_package_name", 400;
    /// A fingerprint is not the SHA-256 of a signing certificate in hex.
    InvalidFingerprint = "invalid_fingerprint", 400;
    /// The icon's address breaks the rules of web addresses.
    InvalidIconUrl = "invalid_icon_url", 400;
    /// The color is not `#` and 3 or 6 hex digits.
    InvalidThemeColor = "invalid_theme_color", 400;
    /// The format of a QR code is neither `png` nor `svg`.
    InvalidQrFormat = "invalid_qr_format", 400;
    /// An option of a QR code is malformed, out of range or in conflict with the others.
    InvalidQrOptions = "invalid_qr_options", 400;
    /// Another source of the account has this name.
    NameTaken = "name_taken", 409;
    /// The type of a source is not `custom`.
    InvalidSourceType = "invalid_source_type", 400;
    /// A webhook subscribes to no kind of event.
    EmptyEvents = "empty_events", 400;
    /// Unknown kind of event.
    InvalidEvent = "invalid_event", 400;
    /// The account has the maximum number of webhooks.
    WebhookLimit = "webhook_limit", 400;
    /// A conversion is malformed or breaks a rule.
    ParseError = "parse_error", 400;
    /// The install belongs to another user.
    IdentifyConflict = "identify_conflict", 409;
    /// The same `Idempotency-Key` came with another request.
    IdempotencyConflict = "idempotency_conflict", 409;
    /// A form or session request came from another site.
    CsrfRejected = "csrf_rejected", 403;
    /// The operator suspended the account: reads are answered, nothing can be changed.
    AccountSuspended = "account_suspended", 403;
    /// This service takes no new sign-ups.
    SignupClosed = "signup_closed", 403;
    /// The queue is full; the request was not applied.
    Overloaded = "overloaded", 503;
    /// The disk is full; the request was not applied.
    StorageFull = "storage_full", 503;
    /// The database cannot be reached or written; the request was not applied.
    DatabaseUnavailable = "database_unavailable", 503;
    /// A service that this operation needs did not answer; the request was not applied.
    UpstreamUnavailable = "upstream_unavailable", 503;
    /// Mail is not set up, so sign-in and sign-up do not work.
    SessionsNotConfigured = "sessions_not_configured", 503;
    /// The identity provider is not set up.
    OauthNotConfigured = "oauth_not_configured", 503;
    /// Billing is switched off.
    BillingNotConfigured = "billing_not_configured", 503;
    /// The service is not told the country of visitors.
    GeoNotConfigured = "geo_not_configured", 503;
    /// No payment processor is set up.
    ProcessorNotConfigured = "processor_not_configured", 503;
    /// Mail is not set up, so no key can be requested.
    SecretKeysNotConfigured = "secret_keys_not_configured", 503;
}

impl ErrorCode {
    /// Whether this is one of the 503s for a feature that is not set up: repeating the request cannot help.
    pub fn is_not_configured(&self) -> bool {
        self.as_str().ends_with("_not_configured")
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(&*Cow::<'de, str>::deserialize(deserializer)?))
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for ErrorCode {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("Machine-readable reason. More codes may be added."))
            .examples(Self::ALL.iter().take(3).map(|code| serde_json::Value::from(code.as_str())))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for ErrorCode {}

/// The error record: the body of every failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct ErrorBody {
    /// A human-readable message.
    pub error: String,
    /// The error code.
    pub code: ErrorCode,
    /// The request's ID, to find it in the service's logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The invalid field or parameter, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// With `invalid_batch`: every row that failed, by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<RowError>,
    /// With `quota_exceeded`: the limited resource, such as `links`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// With `quota_exceeded`: the limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// With `quota_exceeded`: the current number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<i64>,
    /// With `payment_required`: 1, because `accepts` is an x402 version 1 challenge. The version 2 challenge is in
    /// the `PAYMENT-REQUIRED` header.
    #[serde(rename = "x402Version", default, skip_serializing_if = "Option::is_none")]
    pub x402_version: Option<u64>,
    /// With `payment_required`: the ways to pay for the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepts: Vec<RequirementV1>,
}

impl ErrorBody {
    /// A record with a message and a code.
    pub fn new(code: ErrorCode, error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            code,
            request_id: None,
            field: None,
            errors: Vec::new(),
            resource: None,
            limit: None,
            current: None,
            x402_version: None,
            accepts: Vec::new(),
        }
    }
}

/// Input that breaks a rule: which rule, in which field, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The code the service answers with.
    pub code: ErrorCode,
    /// The field at fault, with dots for inner fields (`social_preview.image_url`).
    pub field: Option<Cow<'static, str>>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Invalid {
    /// A rule broken by one field.
    pub fn field(code: ErrorCode, field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { code, field: Some(field.into()), message: message.into() }
    }

    /// A rule broken by the request as a whole.
    pub fn whole(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, field: None, message: message.into() }
    }
}

impl From<Invalid> for ErrorBody {
    fn from(invalid: Invalid) -> Self {
        Self { field: invalid.field.map(Cow::into_owned), ..Self::new(invalid.code, invalid.message) }
    }
}

/// Maximum bytes of an id that an error repeats: real ids are shorter.
const MAX_REPEATED: usize = 128;

/// One row that failed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct RowError {
    /// Position in the batch, from 0.
    pub index: u64,
    /// The error code.
    pub code: ErrorCode,
    /// A human-readable message.
    pub message: String,
    /// The row's ID, if it has one, truncated to 128 bytes.
    pub custom_id: Option<String>,
    /// The invalid field, if it is not the ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl RowError {
    /// The error of one row.
    pub fn new(index: u64, invalid: Invalid, custom_id: Option<String>) -> Self {
        let field = invalid.field.map(Cow::into_owned);
        let custom_id = custom_id.map(|mut id| {
            id.truncate(id.floor_char_boundary(MAX_REPEATED));
            id
        });
        Self { index, code: invalid.code, message: invalid.message, custom_id, field }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_reads_back_and_has_an_error_status() {
        let mut seen = std::collections::HashSet::new();
        for code in ErrorCode::ALL {
            assert_eq!(&ErrorCode::from(code.as_str()), code);
            assert!((400..600).contains(&code.status().expect("a known code has a status")));
            assert!(seen.insert(code.as_str()), "{code} is listed twice");
        }
    }

    #[test]
    fn an_unknown_code_keeps_its_text() {
        let body: ErrorBody =
            serde_json::from_str(r#"{"error":"later","code":"made_later"}"#).expect("an error record");
        assert_eq!(body.code, ErrorCode::Unknown("made_later".into()));
        assert_eq!(serde_json::to_string(&body).expect("JSON"), r#"{"error":"later","code":"made_later"}"#);
    }

    /// An error stays short, however long the input was.
    #[test]
    fn an_error_repeats_the_beginning_of_a_long_id() {
        let invalid = || Invalid::field(ErrorCode::InvalidCustomId, "custom_id", "too long");
        let repeated = |id: String| RowError::new(0, invalid(), Some(id)).custom_id.expect("an id");
        assert_eq!(repeated("ä".repeat(9_000)), "ä".repeat(64));
        assert_eq!(repeated(format!("a{}", "ä".repeat(9_000))).len(), 127);
        assert_eq!(repeated("short".to_owned()), "short");
    }
}
