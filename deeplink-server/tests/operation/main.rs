//! The server as its operator meets it: a process with a command line, two streams, signals and files.

mod commands;
mod lifecycle;
mod logos;
mod process;
mod secrets;
