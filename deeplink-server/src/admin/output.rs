//! stdout and stderr of a command. A closed pipe or a full disk must not make a command fail, so write errors are
//! ignored.

use std::io::Write;

/// Writes to stdout.
pub(super) fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Writes a line to stderr.
pub(super) fn print_error(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Stderr for the log. Write errors are ignored, so that logging never fails.
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
