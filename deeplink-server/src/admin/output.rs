//! stdout and stderr of a command. A closed pipe or a full disk must not make a command fail, so write errors are
//! ignored.

use std::io::Write;

use serde::Serialize;

use super::Failure;

/// Writes to stdout.
pub(super) fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Writes a value to stdout as a line of JSON.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value).map_err(|error| Failure::Refused(error.to_string()))?;
    print(&format!("{json}\n"));
    Ok(())
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
