//! Operations that programs call, one noun a file: parameters, handler, documentation.

pub(crate) mod apps;
pub(crate) mod bulk;
pub(crate) mod domain_verify;
pub(crate) mod domains;
pub(crate) mod health;
pub(crate) mod links;
pub(crate) mod qr;
pub(crate) mod signup;
pub(crate) mod timeseries;
