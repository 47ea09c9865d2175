//! Types and rules that the deeplink server, client and command line share.
//!
//! Wire types live only here. Every decision that needs no I/O (what a valid link is, where a tap leads, which codes
//! exist) is made here, so that server and client cannot disagree.
//!
//! | Module | Holds |
//! |---|---|
//! | [`id`], [`secret`], [`time`] | names of things, credentials, moments |
//! | [`patch`], [`page`] | absent/null/value, lists |
//! | [`error`] | every error code with its status |
//! | [`url`], [`utm`] | which URLs may be stored, and UTM parameters in them |
//! | [`link`], [`destinations`], [`bulk`], [`metadata`], [`tag`] | links, batches of them, their metadata and tags |
//! | [`app`], [`association`], [`domain`] | a tenant's apps, the files that name them, and its host names |
//! | [`qr`], [`qr_logo`], [`colour`] | what a QR code may look like, and the logos uploaded for it |
//! | [`visitor`], [`resolve`], [`explanation`] | who asks, where the tap goes, and why |
//! | [`user`], [`session`] | people, their team, signing in |
//! | [`secret_key`], [`publishable_key`], [`affiliate`], [`whoami`] | keys, partners with their own keys, who a key acts for |
//! | [`lifecycle`], [`source`] | what apps and servers report, and the URLs they can post it to |
//! | [`event`], [`webhook`], [`delivery`], [`signature`] | what is sent to receivers, where, and how they verify the sender |
//! | [`funnel`], [`stats`] | results of links, clicks over time |
//! | [`plan`], [`billing`] | plans and their limits, what an account pays and uses |
//! | [`x402`] | paying for one request |
//! | [`routes`] | one entry for each operation of the service |

pub mod account;
pub mod affiliate;
pub mod app;
pub mod association;
pub mod audit;
pub mod billing;
pub mod bulk;
pub mod colour;
pub mod delivery;
pub mod destinations;
pub mod domain;
pub mod error;
pub mod event;
pub mod explanation;
pub mod export;
pub mod formula;
pub mod funnel;
pub mod health;
pub mod id;
pub mod lifecycle;
pub mod link;
pub mod long_link;
pub mod metadata;
mod object;
pub mod page;
pub mod patch;
pub mod plan;
pub mod publishable_key;
pub mod qr;
pub mod qr_logo;
pub mod resolve;
pub mod routes;
pub mod secret;
pub mod secret_key;
pub mod session;
pub mod signature;
pub mod source;
pub mod stats;
pub mod tag;
pub mod text;
pub mod time;
pub mod url;
pub mod user;
pub mod utm;
pub mod visitor;
pub mod webhook;
pub mod whoami;
mod words;
pub mod x402;
pub mod zone;

/// Version of the interface that `/openapi.json` describes.
pub const API_VERSION: &str = "0.1.0";
