//! Ctrl-C and SIGTERM, and the exit codes they stand for.

use std::cell::{Cell, RefCell};
use std::io;

use tokio::sync::Notify;

use crate::console::Console;
use crate::exit::Exit;

/// Whether a signal has to wait: a secret is in one answer and nowhere else until it is shown or kept.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    wanted: Cell<bool>,
    over: Notify,
    /// The signal that waits.
    heard: Cell<Option<Exit>>,
    /// What whoever does not wait is told, where it is no key that may be lost.
    at_stake: RefCell<Option<String>>,
}

/// Signals wait for as long as this is there.
#[derive(Debug)]
pub(crate) struct Patient<'a>(&'a Patience);

impl Patience {
    /// From now on signals wait.
    pub(crate) fn begin(&self) -> Patient<'_> {
        self.wanted.set(true);
        Patient(self)
    }

    /// Says this to whoever does not wait, until signals need not.
    pub(crate) fn or_else_say(&self, what: String) {
        self.at_stake.replace(Some(what));
    }

    /// What may be lost by not waiting.
    fn at_stake(&self) -> String {
        let key = || "a key may have been made, and nobody has seen it: look for it at /account".to_owned();
        self.at_stake.borrow().clone().unwrap_or_else(key)
    }

    /// The exit code of a signal that came meanwhile: what it waited for is done, and the command ends by it.
    pub(crate) fn heard(&self) -> Option<Exit> {
        self.heard.get()
    }

    /// Until a signal may end the command; says why it does not at once.
    async fn wait(&self, console: &Console) {
        if self.wanted.get() {
            console.say("stopping: waiting for an answer that may hold a key, which is given once");
        }
        while self.wanted.get() {
            self.over.notified().await;
        }
    }
}

impl Drop for Patient<'_> {
    fn drop(&mut self) {
        self.0.wanted.set(false);
        self.0.at_stake.take();
        self.0.over.notify_one();
    }
}

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

impl Signals {
    /// The exit code of the next signal, as soon as no secret is lost by it.
    pub(crate) async fn next_harmless(&mut self, patience: &Patience, console: &Console) -> Exit {
        let exit = self.next().await;
        patience.heard.set(Some(exit));
        // Whoever asks twice does not want to wait.
        tokio::select! {
            () = patience.wait(console) => exit,
            again = self.next() => {
                console.warn(&patience.at_stake());
                again
            }
        }
    }
}
