//! Operations that programs call, one noun a file: parameters, handler, documentation.

pub(crate) mod account;
pub(crate) mod affiliates;
pub(crate) mod analytics;
pub(crate) mod apps;
pub(crate) mod audit;
pub(crate) mod billing;
pub(crate) mod bulk;
pub(crate) mod bulk_change;
pub(crate) mod callback;
pub(crate) mod credentials;
pub(crate) mod deliveries;
pub(crate) mod domain_verify;
pub(crate) mod domains;
pub(crate) mod earlier;
pub(crate) mod event_log;
pub(crate) mod events;
pub(crate) mod explanations;
pub(crate) mod export;
pub(crate) mod failed_deliveries;
pub(crate) mod health;
pub(crate) mod invites;
pub(crate) mod key_requests;
pub(crate) mod lifecycle;
pub(crate) mod link_history;
pub(crate) mod link_list;
pub(crate) mod links;
pub(crate) mod oauth;
pub(crate) mod one_time_links;
pub(crate) mod publishable_keys;
pub(crate) mod qr;
pub(crate) mod sdk;
pub(crate) mod secret_keys;
pub(crate) mod sessions;
mod sheet;
pub(crate) mod signin;
pub(crate) mod signup;
pub(crate) mod sources;
pub(crate) mod stripe;
pub(crate) mod stripe_webhook;
pub(crate) mod tags;
pub(crate) mod timeseries;
pub(crate) mod users;
pub(crate) mod webhooks;
pub(crate) mod whoami;

#[cfg(test)]
mod tests;
