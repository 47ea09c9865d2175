//! Visits: the form of the answer, its target, what is counted, and what is cached.

mod cache;
mod counting;
mod forms;
pub(crate) mod landing;
mod status;
mod table;
mod targets;
