#![cfg_attr(feature = "http", doc = include_str!("../README.md"))]
#![cfg_attr(not(feature = "http"), doc = "Types of the deeplink service; the feature `http` provides the client.")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(feature = "http")]
mod api;
#[cfg(feature = "http")]
mod auth;
#[cfg(feature = "http")]
mod builder;
#[cfg(feature = "bulk")]
pub mod bulk;
#[cfg(feature = "http")]
mod call;
#[cfg(feature = "http")]
mod client;
#[cfg(any(feature = "http", feature = "webhook"))]
mod clock;
#[cfg(feature = "http")]
mod connection;
#[cfg(feature = "http")]
mod content;
#[cfg(feature = "http")]
mod decode;
#[cfg(feature = "doctor")]
pub mod doctor;
#[cfg(feature = "http")]
mod error;
#[cfg(feature = "mock")]
pub mod mock;
#[cfg(feature = "http")]
mod page;
#[cfg(feature = "http")]
mod path;
#[cfg(feature = "http")]
mod payer;
#[cfg(feature = "qr-reader")]
pub mod qr_reader;
#[cfg(feature = "http")]
mod raw;
#[cfg(feature = "receiver")]
pub mod receiver;
#[cfg(feature = "http")]
mod retry;
#[cfg(feature = "http")]
mod send;
#[cfg(feature = "http")]
mod trace;
#[cfg(feature = "http")]
pub mod transport;
#[cfg(feature = "webhook")]
pub mod webhook;

#[cfg(feature = "http")]
pub use {
    api::{
        Acceptance, AccountSettings, Affiliates, Analytics, Apps, Audit, Billing, Credentials, Domains, EventStream,
        Events, Ids, Keys, Legacy, Lifecycle, Links, Public, PublishableKeys, QrLogos, Resolution, Sessions, SignIn,
        Sources, StreamState, Tags, Team, Webhooks,
    },
    auth::{Auth, AuthKind, CredentialProvider},
    builder::ClientBuilder,
    call::{Call, Full, FullCall, Preview},
    client::Client,
    content::{Difference, differences},
    error::{Error, Kind, PaymentRequired, Result},
    page::{
        ArrayPage, DeliveriesOf, DeliveryPages, EventPages, ExportPages, ItemStream, LinkPages, Listing, PageStream,
        Pages, WholeAccount,
    },
    payer::{Payer, SentPayment},
    raw::{JSON, RawCall, RawReply},
    retry::Retry,
    transport::Transport,
};

/// The API types and their validation, shared with the service.
pub use deeplink_core;
pub use deeplink_core::account::{Account, DeleteAccount, UpdateAccount};
pub use deeplink_core::affiliate::{
    AffiliateDetail, AffiliateList, AffiliateStatus, CreateAffiliate, CreatedCredential, CredentialDetail,
    CredentialList, UpdateAffiliate,
};
pub use deeplink_core::app::{AppDetail, AppPlatform, CreateApp};
pub use deeplink_core::association::{AppleAssociation, AssetStatement};
pub use deeplink_core::audit::{AuditAction, AuditActor, AuditEntry, AuditLog};
pub use deeplink_core::billing::{
    BillingMethod, BillingStatus, CancelScheduled, CheckoutSession, PortalSession, SubscriptionStatus, Usage,
};
pub use deeplink_core::bulk::{
    BulkCreate, BulkCreated, BulkDelete, BulkDeleted, BulkLink, BulkUpdate, BulkUpdated, RowError,
};
pub use deeplink_core::colour::Rgb;
pub use deeplink_core::domain::{
    CreateDomain, CreatedDomain, DomainDetail, DomainRole, DomainVerification, UpdateDomain,
};
pub use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
pub use deeplink_core::event::{Event, EventData, EventFilter, EventKind, EventList, StoredEvent};
pub use deeplink_core::explanation::{AnswerForm, ExplainQuery, ExplainedOutcome, Explanation, SampleVisitor};
pub use deeplink_core::export::{AccountExport, ExportRecord, RecordType};
pub use deeplink_core::funnel::{
    ConversionSum, Credit, Funnel, FunnelGroup, FunnelQuery, FunnelReport, GroupBy, GroupOrder, LinkStats, NewUsers,
    ReturningUsers, Revenue,
};
pub use deeplink_core::health::Health;
pub use deeplink_core::lifecycle::{
    Attribute, Convert, Converted, Done, Identify, InstallContext, TrackClick, TrackedClick,
};
pub use deeplink_core::link::{
    Action, AgentContext, CreateLink, CreatedLink, LinkChange, LinkContent, LinkDetail, LinkFilter, LinkHistory,
    LinkList, LinkSort, LinkStatus, LinkVersion, ResolvedLink, RestoreLink, ServiceMeta, SocialPreview, UpdateLink,
};
pub use deeplink_core::metadata::Metadata;
pub use deeplink_core::patch::Patch;
pub use deeplink_core::plan::{Limits, Tier};
pub use deeplink_core::publishable_key::{
    CreatePublishableKey, CreatedPublishableKey, PublishableKeyDetail, PublishableKeyList,
};
pub use deeplink_core::qr::{CornerDotType, CornerSquareType, DotType, QrFormat, QrLevel, QrOptions, QrShape, QrStyle};
pub use deeplink_core::qr_logo::{QrLogo, QrLogoList};
pub use deeplink_core::secret::{PublishableKey, SecretKey, Token};
pub use deeplink_core::secret_key::{
    CodeSent, ConfirmSecretKey, CreatedSecretKey, RequestSecretKey, SecretKeyDetail, SecretKeyList,
};
pub use deeplink_core::session::{Me, MyTenant, MyUser, Signin, SigninSent};
pub use deeplink_core::signature::WebhookSecret;
pub use deeplink_core::source::{CreateSource, SourceDetail, SourceList, SourceType, SourceUrl};
pub use deeplink_core::stats::{Bucket, Granularity, Timeseries, TimeseriesQuery};
pub use deeplink_core::tag::{RenameTag, TagDetail, TagList};
pub use deeplink_core::time::Timestamp;
pub use deeplink_core::user::{InviteUser, InvitedUser, SignedUp, Signup, UserDetail, UserList, UserStatus};
pub use deeplink_core::visitor::{Class as VisitorClass, ClickKind, Platform as VisitorPlatform};
pub use deeplink_core::webhook::{
    Attempt, CreateWebhook, CreatedWebhook, DeliveryDetail, DeliveryList, DeliveryStatus, ReplayDeliveries,
    ReplayedDeliveries, RotatedSecret, TestWebhook, UpdateWebhook, WebhookDetail, WebhookFilters, WebhookHealth,
    WebhookList, WebhookStatus,
};
pub use deeplink_core::whoami::{KeyScope, MyAffiliate, Whoami};
pub use deeplink_core::x402::{Challenge, Receipt, Requirement};
