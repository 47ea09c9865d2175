//! Ctrl-C and SIGTERM, and the exit codes they stand for.

use std::io;

use crate::exit::Exit;

/// Waits for signals. While one exists, the signals no longer end the process by themselves.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Begins to listen. Must be called inside the runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The exit code of the next signal.
    pub(crate) async fn next(&mut self) -> Exit {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Exit::Interrupted,
            Some(()) = self.terminate.recv() => Exit::Terminated,
            else => std::future::pending().await,
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    /// Begins to listen.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// The exit code of the next signal.
    pub(crate) async fn next(&mut self) -> Exit {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Exit::Interrupted,
            Err(_) => std::future::pending().await,
        }
    }
}
