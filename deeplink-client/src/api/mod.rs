//! The operations, one noun per file: each method is a few lines over [`crate::call`].

mod links;
mod public;
mod sessions;

pub use links::{Ids, Links};
pub use public::{Public, Resolution};
pub use sessions::Sessions;
