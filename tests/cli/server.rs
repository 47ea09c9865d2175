//! The real service, in this process, on a database of its own.

use std::time::Duration;

use deeplink_server::clock::Clock;
use deeplink_server::config::Config;
use deeplink_server::start::{Running, start};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::dl::Dl;

/// A running service.
pub(crate) struct Server {
    pub(crate) url: String,
    runtime: Runtime,
    running: Option<Running>,
    _home: TempDir,
}

impl Server {
    /// Starts on a free port.
    pub(crate) fn start() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let config = Config::for_tests(home.path());
        let running = runtime.block_on(start(config, Clock::system())).expect("the service starts");
        Self { url: format!("http://{}", running.address), runtime, running: Some(running), _home: home }
    }

    /// Somebody with an account of their own, signed in.
    pub(crate) fn user(&self, name: &str) -> Dl {
        let dl = Dl::new().env("DL_BASE_URL", &self.url);
        dl.run(&format!("signup --email {name}@example.com")).ok();
        dl
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.ask_to_stop(deeplink_server::http::listen::Stop::Gracefully);
            let _ =
                self.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(5), running.stopped()).await });
        }
    }
}
