//! The operations, one noun per file: each method is a few lines over [`crate::call`].

mod affiliates;
mod apps;
mod domains;
mod keys;
mod links;
mod public;
mod sessions;
mod team;

pub use affiliates::{Affiliates, Credentials};
pub use apps::Apps;
pub use domains::Domains;
pub use keys::{Keys, PublishableKeys};
pub use links::{Ids, Links};
pub use public::{Public, Resolution};
pub use sessions::{Sessions, SignIn};
pub use team::{Acceptance, Team};
