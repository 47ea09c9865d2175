//! A terminal: what `dl` shows on it, and what is typed.

use std::io::{Read, Write};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use pty_process::blocking::Pty;

use deeplink_doubles::wait::{PATIENCE, eventually_blocking};
use deeplink_testing::dl::Dl;

/// `dl` on a terminal, of 40 rows by default.
pub(crate) struct Screen {
    pty: Arc<Pty>,
    child: Child,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    dl: Dl,
}

impl Screen {
    pub(crate) fn open(dl: Dl, line: &str) -> Self {
        let named = dl.variables().iter().any(|(name, _)| name == "TERM");
        Self::sized(if named { dl } else { dl.env("TERM", "xterm-256color") }, line, 100)
    }

    pub(crate) fn sized(dl: Dl, line: &str, columns: u16) -> Self {
        Self::of_size(dl, line, columns, 40)
    }

    pub(crate) fn of_size(dl: Dl, line: &str, columns: u16, rows: u16) -> Self {
        Self::begin(dl, line, (columns, rows), "")
    }

    /// A terminal on which this was typed before `dl` started.
    pub(crate) fn typed_before(dl: Dl, line: &str, typed: &str) -> Self {
        Self::begin(dl.env("TERM", "xterm-256color"), line, (100, 40), typed)
    }

    fn begin(dl: Dl, line: &str, (columns, rows): (u16, u16), typed: &str) -> Self {
        let (pty, pts) = pty_process::blocking::open().expect("a terminal");
        pty.resize(pty_process::Size::new(rows, columns)).expect("a size");
        (&pty).write_all(typed.as_bytes()).expect("it is taken");
        let child = pty_process::blocking::Command::from(dl.command(line)).spawn(pts).expect("dl starts");
        let (pty, seen) = (Arc::new(pty), Arc::new(Mutex::new(Vec::new())));
        let (from, into) = (Arc::clone(&pty), Arc::clone(&seen));
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The read fails once the other end is closed.
            while let Ok(read @ 1..) = (&*from).read(&mut buffer) {
                into.lock().expect("no panic").extend_from_slice(&buffer[..read]);
            }
        });
        Self { pty, child, seen, reader, dl }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("no panic")).replace("\r\n", "\n")
    }

    pub(crate) fn wait_for(&self, text: &str) {
        self.wait_for_times(1, text);
    }

    /// Waits until this was shown this many times.
    pub(crate) fn wait_for_times(&self, times: usize, text: &str) {
        eventually_blocking(&format!("{text:?} is shown"), PATIENCE, || {
            let seen = self.text();
            if seen.matches(text).count() < times { Err(seen) } else { Ok(()) }
        });
    }

    /// Whether the terminal shows what is typed.
    pub(crate) fn echoes(&self) -> bool {
        let modes = rustix::termios::tcgetattr(&*self.pty).expect("a terminal").local_modes;
        modes.contains(rustix::termios::LocalModes::ECHO)
    }

    pub(crate) fn send(&self, text: &str) {
        (&*self.pty).write_all(text.as_bytes()).expect("it is read");
    }

    /// Waits for the end; returns the exit code and everything that was shown.
    pub(crate) fn end(self) -> (Option<i32>, String) {
        let (code, text, _) = self.leave();
        (code, text)
    }

    /// The same, and the user continues.
    pub(crate) fn leave(mut self) -> (Option<i32>, String, Dl) {
        let code = self.child.wait().expect("dl ends").code();
        let (reader, seen) = (self.reader, self.seen);
        reader.join().expect("all is read");
        let text = String::from_utf8_lossy(&seen.lock().expect("no panic")).replace("\r\n", "\n");
        (code, text, self.dl)
    }
}

pub(crate) fn shown(dl: Dl, line: &str) -> String {
    Screen::open(dl, line).end().1
}

/// Without colour codes.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        out.push_str(before);
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    out + rest
}
