//! The operations, one noun per file: each method is a few lines over [`crate::call`].

mod apps;
mod domains;
mod links;
mod public;
mod sessions;

pub use apps::Apps;
pub use domains::Domains;
pub use links::{Ids, Links};
pub use public::{Public, Resolution};
pub use sessions::Sessions;
