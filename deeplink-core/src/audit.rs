//! The audit log: who changed what in an account. Links are not in it: they are made by the hundred thousand.

use crate::id::AuditEntryId;
use crate::time::Timestamp;
use crate::words::{paged, reply, words};

/// Days that entries are kept.
pub const AUDIT_DAYS: i64 = 365;

words! {
    /// The action that was taken.
    AuditAction {
        /// The account was created.
        AccountCreated = "account.created",
        /// The account's settings were changed.
        AccountUpdated = "account.updated",
        /// The deletion of the account was scheduled; the detail is when.
        DeletionScheduled = "account.deletion_scheduled",
        /// The deletion of the account was canceled.
        DeletionCanceled = "account.deletion_canceled",
        /// The operator suspended the account.
        AccountSuspended = "account.suspended",
        /// The operator ended the suspension.
        AccountResumed = "account.resumed",
        /// A person signed in.
        UserSignedIn = "user.signed_in",
        /// Keys, webhooks and sources that were created before anyone confirmed an address were deleted; the detail is their number.
        AccessRevoked = "access.revoked",
        /// The operator created a one-time sign-in link.
        SignInLinkCreated = "sign_in_link.created",
        /// A person was invited to the team.
        UserInvited = "user.invited",
        /// An invited person joined the team.
        UserJoined = "user.joined",
        /// A person was removed from the team.
        UserRemoved = "user.removed",
        /// A secret key was created.
        SecretKeyCreated = "secret_key.created",
        /// A secret key was deleted.
        SecretKeyDeleted = "secret_key.deleted",
        /// A publishable key was created.
        PublishableKeyCreated = "publishable_key.created",
        /// A publishable key was deleted.
        PublishableKeyDeleted = "publishable_key.deleted",
        /// An affiliate was created.
        AffiliateCreated = "affiliate.created",
        /// An affiliate was changed.
        AffiliateUpdated = "affiliate.updated",
        /// An affiliate was deleted.
        AffiliateDeleted = "affiliate.deleted",
        /// A credential of an affiliate was created.
        CredentialCreated = "credential.created",
        /// A credential of an affiliate was deleted.
        CredentialDeleted = "credential.deleted",
        /// A domain was added.
        DomainCreated = "domain.created",
        /// A domain was verified.
        DomainVerified = "domain.verified",
        /// A domain became unverified, because its TXT record is missing.
        DomainUnverified = "domain.unverified",
        /// A domain's redirects were changed.
        DomainUpdated = "domain.updated",
        /// A domain was deleted.
        DomainDeleted = "domain.deleted",
        /// An app was registered, or replaced.
        AppSaved = "app.saved",
        /// An app was deleted.
        AppDeleted = "app.deleted",
        /// A logo for QR codes was uploaded, or replaced.
        QrLogoSaved = "qr_logo.saved",
        /// A logo for QR codes was deleted.
        QrLogoDeleted = "qr_logo.deleted",
        /// A source was created.
        SourceCreated = "source.created",
        /// A source was deleted.
        SourceDeleted = "source.deleted",
        /// A webhook was created.
        WebhookCreated = "webhook.created",
        /// A webhook was changed.
        WebhookUpdated = "webhook.updated",
        /// A webhook's secret was rotated.
        WebhookSecretRotated = "webhook.secret_rotated",
        /// A webhook was paused, because deliveries to it failed for three days.
        WebhookPaused = "webhook.paused",
        /// A webhook was deleted.
        WebhookDeleted = "webhook.deleted",
        /// The operator marked a link as unsafe.
        LinkFlagged = "link.flagged",
        /// The operator disabled a link.
        LinkDisabled = "link.disabled",
        /// The operator reverted one of these for a link.
        LinkEnabled = "link.enabled",
        /// The operator granted the account a plan, or ended the grant; the detail is the tier, or `null`.
        PlanGranted = "plan.granted",
    }
}

words! {
    /// Type of the actor.
    AuditActor {
        /// A secret key of the account.
        SecretKey = "secret_key",
        /// A signed-in team member.
        User = "user",
        /// A wallet that paid for the request.
        Wallet = "wallet",
        /// A publishable key.
        PublishableKey = "publishable_key",
        /// The operator of the service.
        Operator = "operator",
        /// The service itself, for example when a domain becomes unverified.
        Service = "service",
    }
}

reply! {
    /// An entry of the audit log. It does not change when the resource it refers to is renamed or deleted.
    AuditEntry {
        /// The entry's ID.
        id: AuditEntryId,
        /// Time of the action.
        at: Timestamp,
        /// The action that was taken.
        action: AuditAction,
        /// Type of the actor.
        actor_type: AuditActor,
        /// Who did it: a key prefix, as in lists of keys, a team member's email address, or a wallet address; `null`
        /// for the operator and the service.
        actor: Option<String>,
        /// The resource that was affected: an ID, or the name of a domain or logo.
        target: Option<String>,
        /// A name, an address or a reason, depending on the action. For a webhook, the origin of its URL.
        detail: Option<String>,
    }
}

paged! {
    /// Entries of an account's audit log, newest first.
    AuditLog {
        /// The entries.
        entries: AuditEntry,
    }
}
