//! `serve`: runs the server until SIGTERM or SIGINT.

use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, first_run, output};
use crate::clock::Clock;
use crate::config::Config;
use crate::http::listen::Stop;
use crate::start;

pub(super) async fn run(config: Config, clock: Clock) -> Result<(), Failure> {
    // Before the start, so that no early signal is lost.
    let mut signals = Signals::listen()?;
    let running = tokio::select! {
        running = start::start(config, clock) => running?,
        () = signals.next() => return Ok(()),
    };
    if let Some(address) = running.admin_address {
        tracing::info!(%address, "admin endpoints listening");
    }
    if let Some(address) = running.tls_address {
        tracing::info!(%address, "listening for HTTPS");
    }
    // One write, so that a program that waits for the first line gets the rest with it.
    let banner = first_run::prepare(running.app()).await?;
    output::print(&format!("listening on http://{}\n{}", running.address, banner));
    let failed = tokio::select! {
        () = signals.next() => false,
        () = running.failed() => true,
    };
    if failed {
        // No graceful stop: a second sync could report success for data that is lost.
        return Err(Failure::Refused("database sync failed; see the log, check the disk, then restart".into()));
    }
    tracing::info!("shutting down: finishing requests in progress; a second signal stops immediately");
    running.ask_to_stop(Stop::Gracefully);
    let stop = running.stop_sender();
    let mut stopped = std::pin::pin!(running.stopped());
    let cut = tokio::select! {
        cut = &mut stopped => cut,
        () = signals.next() => {
            stop.send_replace(Stop::AtOnce);
            stopped.await
        }
    };
    tracing::info!(cut, "stopped");
    Ok(())
}

/// The signals that stop the process.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::Refused(format!("cannot listen for signals: {error}")));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
