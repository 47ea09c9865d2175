//! The server as its operator sees it: a process with a command line, two streams, signals and files.

mod billing;
mod commands;
mod imports;
mod lifecycle;
mod logos;
mod network;
mod payments;
mod private;
mod process;
mod secrets;
mod strangers;
mod takedowns;
mod tenants;
