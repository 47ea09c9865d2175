//! The list of error codes, each with exactly one HTTP status, and the error object that every failure returns.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::x402::RequirementV1;

macro_rules! codes {
    ($(#[doc = $doc:literal] $name:ident = $code:literal, $status:literal;)+) => {
        /// All error codes of the service. Each code has exactly one HTTP status.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $(#[doc = $doc] $name,)+
            /// A code that this version does not know; its text is kept.
            Unknown(Box<str>),
        }

        impl ErrorCode {
            /// All known codes.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The code, as in the error object.
            pub fn as_str(&self) -> &str {
                match self { $(Self::$name => $code,)+ Self::Unknown(text) => text }
            }

            /// The HTTP status of the code; `None` for an unknown code.
            pub fn status(&self) -> Option<u16> {
                match self { $(Self::$name => Some($status),)+ Self::Unknown(_) => None }
            }

            /// What the code means, in a sentence; `None` for an unknown code.
            pub fn meaning(&self) -> Option<&'static str> {
                match self { $(Self::$name => Some($doc.trim_ascii()),)+ Self::Unknown(_) => None }
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
    /// The request is malformed: invalid JSON, a field of the wrong type, or an invalid parameter.
    BadRequest = "bad_request", 400;
    /// The resource does not exist, or belongs to another account.
    NotFound = "not_found", 404;
    /// A credential is required, but none was sent.
    Unauthorized = "unauthorized", 401;
    /// The credential is unknown, revoked or of the wrong kind.
    InvalidKey = "invalid_key", 401;
    /// The credential's scope does not include this operation.
    ForbiddenScope = "forbidden_scope", 403;
    /// Too many requests; try again after `Retry-After`.
    RateLimited = "rate_limited", 429;
    /// Internal error; it is unknown whether the request took effect.
    Internal = "internal", 500;
    /// The body is larger than the operation allows.
    PayloadTooLarge = "payload_too_large", 413;
    /// The body is not `application/json`.
    UnsupportedMediaType = "unsupported_media_type", 415;
    /// The path exists, but not with this method.
    MethodNotAllowed = "method_not_allowed", 405;
    /// The ID is not 3 to 64 letters, digits and hyphens with a letter or digit at each end, or it is reserved.
    InvalidCustomId = "invalid_custom_id", 400;
    /// A URL is not valid for its field.
    InvalidUrl = "invalid_url", 400;
    /// The value of `group_by` is unknown.
    InvalidGroupBy = "invalid_group_by", 400;
    /// A destination is on the operator's threat list.
    ThreatDetected = "threat_detected", 400;
    /// Metadata is not an object, is too large, or contains something that is not allowed.
    InvalidMetadata = "invalid_metadata", 400;
    /// The agent context has an unknown action or a field that is too long.
    InvalidAgentContext = "invalid_agent_context", 400;
    /// The social preview is empty or has a field that is too long.
    InvalidSocialPreview = "invalid_social_preview", 400;
    /// The link ID is already in use.
    LinkIdTaken = "link_id_taken", 409;
    /// The expiry of a link is not a time with an offset, is in the past, or is more than 100 years in the future.
    InvalidExpiresAt = "invalid_expires_at", 400;
    /// A tag is blank, is longer than 40 characters, or contains a comma or a control character; or the link has more than 20 tags.
    InvalidTag = "invalid_tag", 400;
    /// An alias is not an ID or a path of up to three segments, is reserved, or is the link's own ID; the link has more than five; or the account has no verified primary domain.
    InvalidAlias = "invalid_alias", 400;
    /// An alias is already the ID or an alias of another link; `field` names it, such as `aliases[1]`.
    AliasTaken = "alias_taken", 409;
    /// The account would have more than 1,000 different tags.
    TagLimit = "tag_limit", 400;
    /// The link has no such version, or no change to undo.
    VersionNotFound = "version_not_found", 404;
    /// The operator has disabled the link, so its owner cannot enable it.
    DisabledByOperator = "disabled_by_operator", 409;
    /// The update is empty.
    EmptyUpdate = "empty_update", 400;
    /// The affiliate named in a body does not exist.
    AffiliateNotFound = "affiliate_not_found", 404;
    /// An affiliate's credential specified a different affiliate.
    AffiliateScopeMismatch = "affiliate_scope_mismatch", 400;
    /// The cursor belongs to a different list.
    InvalidCursor = "invalid_cursor", 400;
    /// At least one row of the batch is invalid; `errors` lists all of them.
    InvalidBatch = "invalid_batch", 400;
    /// The batch has no rows.
    BatchEmpty = "batch_empty", 400;
    /// The batch has more than 100 rows.
    BatchTooLarge = "batch_too_large", 400;
    /// The batch has neither IDs, a count nor links.
    BatchModeMissing = "batch_mode_missing", 400;
    /// The batch has more than one of IDs, count and links.
    BatchModeAmbiguous = "batch_mode_ambiguous", 400;
    /// The ID occurs more than once in the batch.
    DuplicateCustomIdInBatch = "duplicate_custom_id_in_batch", 400;
    /// The plan's limit has been reached.
    QuotaExceeded = "quota_exceeded", 402;
    /// The plan is not available for purchase.
    InvalidTier = "invalid_tier", 400;
    /// There is no subscription to cancel.
    NoSubscription = "no_subscription", 400;
    /// The account is scheduled for deletion, so no plan can be bought; cancel the deletion first.
    DeletionScheduled = "deletion_scheduled", 409;
    /// The account has a subscription that will renew; cancel it first.
    SubscriptionActive = "subscription_active", 409;
    /// The account has never paid, or the payment processor no longer has its customer.
    NoCustomer = "no_customer", 400;
    /// The request must be paid for, and its payment is missing or was rejected.
    PaymentRequired = "payment_required", 402;
    /// The payment header is malformed.
    PaymentInvalid = "payment_invalid", 400;
    /// The payment was already used, for a different request or with an `Idempotency-Key` that this request lacks.
    PaymentReplayed = "payment_replayed", 409;
    /// The payment, or another one with the same `Idempotency-Key`, is being settled for the same request.
    PaymentInProgress = "payment_in_progress", 409;
    /// The facilitator gave no usable response. The request was not carried out; `error` says whether it was charged.
    FacilitatorUnavailable = "facilitator_unavailable", 503;
    /// The email address is malformed.
    InvalidEmail = "invalid_email", 400;
    /// The address already belongs to an account.
    EmailExists = "email_exists", 409;
    /// The person is already on the account's team.
    UserExists = "user_exists", 409;
    /// No team member with a confirmed address would be left.
    LastUser = "last_user", 409;
    /// No team member has this address.
    NotAMember = "not_a_member", 403;
    /// The team member has not confirmed the address.
    UserUnverified = "user_unverified", 403;
    /// The account has the maximum number of secret keys.
    KeyLimit = "key_limit", 409;
    /// The last secret key of an account cannot be deleted.
    LastKey = "last_key", 409;
    /// A key cannot delete itself.
    KeyInUse = "key_in_use", 409;
    /// A confirmation code that was sent to this address has not expired yet.
    RequestPending = "request_pending", 429;
    /// The confirmation code is incorrect, was never sent, or has expired.
    InvalidCode = "invalid_code", 400;
    /// Too many incorrect codes were entered; the correct one no longer works.
    TooManyAttempts = "too_many_attempts", 429;
    /// The account has no such domain.
    DomainNotFound = "domain_not_found", 400;
    /// The domain is not verified.
    DomainNotVerified = "domain_not_verified", 400;
    /// A partner key is not 2 to 32 lowercase letters, digits or hyphens.
    InvalidPartnerKey = "invalid_partner_key", 400;
    /// Another affiliate of the account has this partner key.
    PartnerKeyTaken = "partner_key_taken", 409;
    /// The affiliate has the maximum number of credentials.
    CredentialLimit = "credential_limit", 409;
    /// Unknown identity provider.
    UnknownProvider = "unknown_provider", 404;
    /// The domain is not a host name that can be added.
    InvalidDomain = "invalid_domain", 400;
    /// The role is neither `primary` nor `alternate`.
    InvalidRole = "invalid_role", 400;
    /// The domain was already added by this account, or is verified by another.
    DomainTaken = "domain_taken", 409;
    /// The account already has a verified alternate domain; only one is allowed.
    AlternateLimit = "alternate_limit", 409;
    /// The platform is neither `ios` nor `android`.
    InvalidPlatform = "invalid_platform", 400;
    /// A field that the platform requires is absent or blank.
    MissingFields = "missing_fields", 400;
    /// A name is too long or contains a control character.
    InvalidName = "invalid_name", 400;
    /// The bundle ID is malformed.
    InvalidBundleId = "invalid_bundle_id", 400;
    /// The team ID is not 10 uppercase letters and digits.
    InvalidTeamId = "invalid_team_id", 400;
    /// The package name is malformed.
    InvalidPackageName = "invalid_package_name", 400;
    /// A fingerprint is not the SHA-256 of a signing certificate in hex.
    InvalidFingerprint = "invalid_fingerprint", 400;
    /// The icon's URL is not a valid http or https URL.
    InvalidIconUrl = "invalid_icon_url", 400;
    /// The color is not `#` followed by 3 or 6 hex digits.
    InvalidThemeColor = "invalid_theme_color", 400;
    /// The format of a QR code is not `png`, `svg`, `pdf` or `eps`.
    InvalidQrFormat = "invalid_qr_format", 400;
    /// An option of a QR code is malformed, out of range or conflicts with another option.
    InvalidQrOptions = "invalid_qr_options", 400;
    /// An uploaded logo is not a PNG, JPEG or WebP image, or has too many pixels.
    InvalidLogo = "invalid_logo", 400;
    /// Another source of the account has this name.
    NameTaken = "name_taken", 409;
    /// The type of a source is not `custom`.
    InvalidSourceType = "invalid_source_type", 400;
    /// A webhook must subscribe to at least one kind of event.
    EmptyEvents = "empty_events", 400;
    /// Unknown kind of event.
    InvalidEvent = "invalid_event", 400;
    /// The account has the maximum number of webhooks.
    WebhookLimit = "webhook_limit", 400;
    /// A conversion is malformed or invalid.
    ParseError = "parse_error", 400;
    /// The install belongs to another user.
    IdentifyConflict = "identify_conflict", 409;
    /// The `Idempotency-Key` was already used for a different request.
    IdempotencyConflict = "idempotency_conflict", 409;
    /// A form or session request came from another site.
    CsrfRejected = "csrf_rejected", 403;
    /// The operator suspended the account, which is now read-only.
    AccountSuspended = "account_suspended", 403;
    /// Sign-up is closed on this service.
    SignupClosed = "signup_closed", 403;
    /// The queue is full; the request was not applied.
    Overloaded = "overloaded", 503;
    /// The disk is full; the request was not applied.
    StorageFull = "storage_full", 503;
    /// The database cannot be reached or written; the request was not applied.
    DatabaseUnavailable = "database_unavailable", 503;
    /// A service that this operation needs did not respond; the request was not applied.
    UpstreamUnavailable = "upstream_unavailable", 503;
    /// Email is not configured, so sign-in and sign-up do not work.
    SessionsNotConfigured = "sessions_not_configured", 503;
    /// The identity provider is not configured.
    OauthNotConfigured = "oauth_not_configured", 503;
    /// Billing is disabled.
    BillingNotConfigured = "billing_not_configured", 503;
    /// Country data is not configured.
    GeoNotConfigured = "geo_not_configured", 503;
    /// No payment processor is configured.
    ProcessorNotConfigured = "processor_not_configured", 503;
    /// Email is not configured, so no key can be requested.
    SecretKeysNotConfigured = "secret_keys_not_configured", 503;
}

impl ErrorCode {
    /// Whether this is one of the 503 codes for a feature that is not configured: retrying does not help.
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

/// The error object: the body of every error response.
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

/// Invalid input: which rule it breaks, in which field, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The code that the service returns.
    pub code: ErrorCode,
    /// The invalid field, with dots for nested fields (`social_preview.image_url`).
    pub field: Option<Cow<'static, str>>,
    /// What is wrong, and what is expected.
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

/// Maximum bytes of an ID that an error message repeats; real IDs are shorter.
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
            serde_json::from_str(r#"{"error":"later","code":"made_later"}"#).expect("an error object");
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
