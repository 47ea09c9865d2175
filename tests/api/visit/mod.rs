//! Visits: the form of the answer, its target, what is counted, what is cached, and how it is explained.

mod cache;
mod counting;
mod explained;
mod forms;
pub(crate) mod landing;
mod status;
mod table;
mod targets;
