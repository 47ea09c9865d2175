//! Copies text to the clipboard of the desktop or, over SSH for example, to that of the terminal.

use std::io::Write;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::context::Context;

/// Programs that copy their stdin, and their arguments: of macOS, Wayland, X11 and Windows.
const PROGRAMS: [(&str, &[&str]); 5] =
    [("pbcopy", &[]), ("wl-copy", &[]), ("xclip", &["-selection", "clipboard"]), ("xsel", &["-bi"]), ("clip.exe", &[])];

/// Whether a program copied the text, or the terminal was asked to (OSC 52 of xterm, which most terminals know).
pub(crate) fn copy(ctx: &Context, text: &str) -> bool {
    if PROGRAMS.iter().any(|(program, args)| pipe(program, args, text)) {
        return true;
    }
    if ctx.console.terminal {
        ctx.console.control(&format!("\u{1b}]52;c;{}\u{7}", BASE64_STANDARD.encode(text)));
    }
    ctx.console.terminal
}

fn pipe(program: &str, args: &[&str], text: &str) -> bool {
    let started =
        Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = started else { return false };
    let is_written = child.stdin.take().is_some_and(|mut stdin| stdin.write_all(text.as_bytes()).is_ok());
    child.wait().is_ok_and(|status| status.success()) && is_written
}
