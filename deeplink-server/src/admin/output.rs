//! The two streams of a command. A reader that has gone, a full disk under a log or a closed stream is no reason to
//! fail, so nothing here reports an error.

use std::io::Write;

/// Writes to stdout.
pub(super) fn say(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Writes a line to stderr.
pub(super) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Stderr for the log, which must go on whatever becomes of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = std::io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
