//! What the tests of every crate share: doubles of outside services (name server, mail server, identity provider,
//! payment processor, x402 facilitator, webhook receiver, certificate authority), a relay in front of a database,
//! waiting, races, the machine's own delays, and the settings of a test run.
//!
//! It depends on none of our crates, so that the unit tests of each can use it.

pub mod authority;
pub mod decisions;
pub mod dns;
pub mod facilitator;
pub mod geo;
pub mod machine;
pub mod meter;
pub mod provider;
pub mod receiver;
pub mod relay;
pub mod smtp;
pub mod stripe;
pub mod wait;
