//! The operations, one noun per file: each method is a few lines over [`crate::call`].

mod account;
mod affiliates;
mod analytics;
mod apps;
mod audit;
mod billing;
mod domains;
mod events;
mod keys;
mod lifecycle;
mod links;
mod public;
mod sessions;
mod sources;
mod tags;
mod team;
mod webhooks;
mod whoami;

pub use account::AccountSettings;
pub use affiliates::{Affiliates, Credentials};
pub use analytics::Analytics;
pub use apps::Apps;
pub use audit::Audit;
pub use billing::Billing;
pub use domains::Domains;
pub use events::{EventStream, Events, StreamState};
pub use keys::{Keys, PublishableKeys};
pub use lifecycle::{Legacy, Lifecycle};
pub use links::{Ids, Links};
pub use public::{Public, Resolution};
pub use sessions::{Sessions, SignIn};
pub use sources::Sources;
pub use tags::Tags;
pub use team::{Acceptance, Team};
pub use webhooks::Webhooks;
