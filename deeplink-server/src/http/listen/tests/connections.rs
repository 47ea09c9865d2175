//! Connections without sockets, whose times are not those of a network.

use super::super::deadline::{Shared, TICK};
use super::super::share::Share;
use super::super::state::{Command, ConnectionState};
use super::*;

/// Connections without sockets, and their sweep.
pub(super) struct Connections {
    pub(super) shared: Arc<Shared>,
    _sweep: tokio_util::task::AbortOnDropHandle<()>,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        let shared = Shared::new(limits);
        let sweep = tokio::spawn(Arc::clone(&shared).sweep());
        Self { shared, _sweep: tokio_util::task::AbortOnDropHandle::new(sweep) }
    }

    pub(super) fn add(&self, share: &Arc<Share>) -> Arc<ConnectionState> {
        self.shared.add(Arc::clone(share))
    }

    /// With a part of a head.
    pub(super) fn half_head(&self) -> Arc<ConnectionState> {
        let state = self.add(&Arc::default());
        state.half_head(true);
        state
    }
}

/// How long until a connection is closed.
pub(super) async fn until_closed(state: &ConnectionState) -> Duration {
    let began = Instant::now();
    let closed = async {
        while state.command() != Command::Close {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(4 * MOMENT, closed).await.expect("a close");
    began.elapsed()
}

/// Not before its limit, and at most a few sweeps later.
#[track_caller]
pub(super) fn assert_is(time: Duration, limit: Duration) {
    assert!((limit..=limit + 4 * TICK).contains(&time), "after {time:?}, not {limit:?}");
}
