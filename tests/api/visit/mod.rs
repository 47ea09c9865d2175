//! What a tap meets: the form of the answer, where it leads, what is counted, and what is kept in memory.

mod cache;
mod counting;
mod forms;
pub(crate) mod landing;
mod status;
mod table;
mod targets;
