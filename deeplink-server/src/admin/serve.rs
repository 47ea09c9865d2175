//! `serve`: starts the service, says where it is, and stops it when asked.

use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, first_run, output};
use crate::clock::Clock;
use crate::config::Config;
use crate::http::listen::Stop;
use crate::start;

pub(super) async fn run(config: Config, clock: Clock) -> Result<(), Failure> {
    // Before the start, so that a signal that comes early is not lost.
    let mut signals = Signals::listen()?;
    let running = tokio::select! {
        running = start::start(config, clock) => running?,
        () = signals.next() => return Ok(()),
    };
    if let Some(address) = running.admin_address {
        tracing::info!(%address, "operators are served");
    }
    if let Some(address) = running.tls_address {
        tracing::info!(%address, "https is served");
    }
    // One piece of text, so that whoever waits for the first line has the rest with it.
    let banner = first_run::prepare(running.app()).await?;
    output::say(&format!("listening on http://{}\n{}", running.address, banner.unwrap_or_default()));
    let failed = tokio::select! {
        () = signals.next() => false,
        () = running.failed() => true,
    };
    if failed {
        // Nothing that waits can be kept any more: a second sync could report success for data that is lost.
        return Err(Failure::Refused(
            "the database could not be synced; see the log, check the disk, start again".into(),
        ));
    }
    tracing::info!("stopping: requests under way are answered, a second signal stops at once");
    running.ask_to_stop(Stop::Gracefully);
    let faster = running.stop_sender();
    let mut stopped = std::pin::pin!(running.stopped());
    let cut = tokio::select! {
        cut = &mut stopped => cut,
        () = signals.next() => {
            faster.send_replace(Stop::AtOnce);
            stopped.await
        }
    };
    tracing::info!(cut, "stopped");
    Ok(())
}

/// What asks the process to end.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::Refused(format!("signals cannot be received: {error}")));
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
