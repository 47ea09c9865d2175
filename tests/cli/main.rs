//! `dl` as people and scripts meet it: the real binary, its output and its exit codes.
//!
//! Most tests run it against a [`double::Double`] that says exactly what the test wants said; `end_to_end` runs it
//! against the real service.

mod accounts;
mod api;
mod apps;
mod billing;
mod config;
mod doctor;
mod domains;
mod dry_run;
mod end_to_end;
mod errors;
mod exit_codes;
mod export;
mod files;
mod funnel;
mod help;
mod import;
mod imports;
mod keyring;
mod keys;
mod links;
mod lists;
mod login;
mod new_secrets;
mod output;
mod people;
mod ping;
mod qr;
mod qr_batch;
mod qr_flags;
mod qr_screen;
mod qr_signals;
mod reports;
mod rotation;
mod sdk;
mod secrets;
mod server;
mod settings;
mod sign_in;
mod signals;
mod sources;
mod startup;
mod stats;
mod terminal;
mod unseen;
mod webhook_listen;
mod webhook_tools;
mod webhooks;
mod wellknown;
