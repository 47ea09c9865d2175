//! The pages in a real browser: a real server, headless Chromium, and everything outside the service simulated by this
//! process. `tests/run` installs what it needs; by hand:
//!
//! ```sh
//! cargo test --test browser
//! ```
//!
//! Pictures of every page in every size and scheme are in `target/tmp/screenshots` afterwards.

mod account;
mod axe;
mod browser;
mod buttons;
mod code;
mod copying;
mod device;
mod docs;
mod elsewhere;
mod languages;
mod looks;
mod menu;
mod paint;
mod people;
mod plain;
mod preview;
mod scene;
mod script;
mod sdk;
mod searching;
mod selecting;
