//! What the tests of every crate share: the outside world as a test wants it (name server, mail server, identity provider,
//! payment processor, facilitator of payments, receiver of webhooks, certificate authority), waiting, races, what the machine
//! takes, and what a run is told from outside.
//!
//! It depends on none of our crates, so that the unit tests of each can use it.

pub mod authority;
pub mod decisions;
pub mod dns;
pub mod facilitator;
pub mod machine;
pub mod meter;
pub mod provider;
pub mod receiver;
pub mod smtp;
pub mod stripe;
pub mod wait;
