#![doc = include_str!("../README.md")]

/// The guide whose Rust code is compiled.
#[cfg(doctest)]
#[doc = include_str!("../docs/api.md")]
pub struct Api;
