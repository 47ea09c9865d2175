//! Ctrl-C and SIGTERM, and their exit codes.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::Notify;

use crate::console::Console;
use crate::exit::Exit;

/// How long a program or a template may go on after a signal.
const GRACE: Duration = Duration::from_millis(250);

/// Defers signals while a secret that is in only one answer is not yet printed or stored.
#[derive(Debug, Default)]
pub(crate) struct SignalHold {
    wanted: Cell<bool>,
    over: Notify,
    /// The deferred signal.
    pending: Cell<Option<Exit>>,
    /// The warning for a second signal, if something other than a key may be lost.
    at_stake: RefCell<Option<String>>,
}

/// Signals are deferred while this exists.
#[derive(Debug)]
pub(crate) struct HoldGuard<'a>(&'a SignalHold);

impl SignalHold {
    /// Defers signals from now on.
    pub(crate) fn begin(&self) -> HoldGuard<'_> {
        self.wanted.set(true);
        HoldGuard(self)
    }

    /// Sets the warning for a second signal, until signals are no longer deferred.
    pub(crate) fn or_else_say(&self, what: String) {
        self.at_stake.replace(Some(what));
    }

    /// What a second signal may lose.
    fn at_stake(&self) -> String {
        let key = || "a key may have been created without being shown: look for it at /account".to_owned();
        self.at_stake.borrow().clone().unwrap_or_else(key)
    }

    /// The exit code of a signal that was deferred: the command ends with it.
    pub(crate) fn pending(&self) -> Option<Exit> {
        self.pending.get()
    }

    /// Waits until a signal may end the command, and prints why it does not end at once.
    async fn wait(&self, console: &Console) {
        if self.wanted.get() {
            console.say("stopping: waiting for a response that may contain a key, which is shown only once");
        }
        while self.wanted.get() {
            self.over.notified().await;
        }
    }
}

impl Drop for HoldGuard<'_> {
    fn drop(&mut self) {
        self.0.wanted.set(false);
        self.0.at_stake.take();
        self.0.over.notify_one();
    }
}

/// Waits for signals. While one exists, signals no longer end the process by themselves.
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
    /// The exit code of the next signal, once it no longer loses a secret.
    pub(crate) async fn next_harmless(&mut self, signal_hold: &SignalHold, console: &Console) -> Exit {
        let exit = self.next().await;
        signal_hold.pending.set(Some(exit));
        // A second signal ends the command at once.
        tokio::select! {
            () = signal_hold.wait(console) => exit,
            again = self.next() => {
                console.warn(&signal_hold.at_stake());
                again
            }
        }
    }
}

/// Makes signals end the process while a program or a template runs: it blocks the only thread of the runtime, which
/// therefore does not notice them. `count` is odd during a run.
pub(crate) fn end_long_runs(count: &Arc<AtomicU64>) {
    let (count, (ready, listens)) = (Arc::clone(count), mpsc::channel());
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let Ok(mut signals) = Signals::listen() else { return };
            // The command waits for this.
            let _ = ready.send(());
            let exit = signals.next().await;
            let mut before = count.load(Ordering::Relaxed);
            loop {
                tokio::time::sleep(GRACE).await;
                let now = count.load(Ordering::Relaxed);
                if now == before && now % 2 == 1 {
                    std::process::exit(exit.code().into());
                }
                before = now;
            }
        });
    });
    // An error means that there is no such thread, and the program runs without it.
    let _ = listens.recv();
}
