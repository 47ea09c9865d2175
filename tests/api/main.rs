//! The service as its callers meet it: a real server, a real database, the real client. Rules of decisions and threats are
//! tables; a test named after a threat says the rule in its comment.

#[path = "../common/mod.rs"]
mod common;

mod affiliates;
mod apps;
mod auth;
#[path = "../common/authority.rs"]
mod authority;
mod away;
mod bulk;
mod challenges;
mod cursors;
mod deliveries;
#[path = "../domains/mod.rs"]
mod domains;
mod errors;
mod events;
mod funnel;
mod headers;
mod health;
mod idempotency;
mod isolation;
mod lifecycle;
mod links;
mod lists;
mod logo;
mod mails;
mod model;
mod nodes;
mod oauth;
mod openapi;
mod outbound;
mod pages;
mod publishable_keys;
mod qr;
mod races;
mod restarts;
mod sdk;
mod secret_keys;
mod secrets;
mod sessions;
mod signin;
mod signup;
mod sources;
mod team;
mod texts;
mod threats;
mod tidy;
mod timeseries;
mod urls;
#[path = "../visit/mod.rs"]
mod visit;
mod webhooks;
