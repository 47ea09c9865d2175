//! The client against the tests' own transport, and against servers that misbehave. One program, so that it is linked
//! once; a module runs if its feature is on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "mock")]
mod billing;
#[cfg(feature = "mock")]
mod calls;
#[cfg(all(feature = "doctor", feature = "mock"))]
mod doctor;
#[cfg(feature = "mock")]
mod events;
#[cfg(feature = "http")]
mod faults;
#[cfg(feature = "mock")]
mod payments;
#[cfg(feature = "mock")]
mod people;
#[cfg(feature = "mock")]
mod qr;
#[cfg(feature = "mock")]
mod reports;
#[cfg(feature = "mock")]
mod retries;
#[cfg(feature = "mock")]
mod routes;
#[cfg(feature = "webhook")]
mod webhook;
