//! The server as its operator meets it: a process with a command line, two streams, signals and files.

mod billing;
mod commands;
mod lifecycle;
mod logos;
mod payments;
mod process;
mod secrets;
