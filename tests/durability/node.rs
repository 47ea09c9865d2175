//! A running server: started, asked, killed.

use std::fs::File;
use std::net::SocketAddr;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use crate::home::Home;
use crate::wire::{Fate, Request, Wire};
use deeplink_doubles::wait::PATIENCE;

/// A server's process. It is killed when this is dropped.
pub(crate) struct Node {
    child: Child,
    pub(crate) address: SocketAddr,
    /// The address of its metrics.
    admin: SocketAddr,
    /// The time from the start of the process until it was ready.
    pub(crate) ready_after: Duration,
}

impl Node {
    /// Starts a server and waits until it is ready.
    pub(crate) async fn start(home: &Home) -> Self {
        Self::start_as(home, home.command()).await
    }

    /// The same with the test's own command.
    pub(crate) async fn start_as(home: &Home, mut command: Command) -> Self {
        let log = File::options().create(true).append(true).open(home.log_file()).expect("the log file");
        command.arg("serve").env("DEEPLINK_ADMIN_LISTEN", "127.0.0.1:0");
        command.stdout(std::process::Stdio::piped()).stderr(log);
        let began = Instant::now();
        let mut child = command.spawn().expect("the server's program runs");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("its stdout"));
        let read = timeout(PATIENCE, stdout.read_line(&mut line)).await;
        let address = line.trim_end().strip_prefix("listening on http://").and_then(|address| address.parse().ok());
        let Some(address) = address else {
            let log = std::fs::read_to_string(home.log_file()).unwrap_or_default();
            panic!("the server did not start: {read:?} {line:?}\n{log}");
        };
        let admin = admin_address(home);
        let mut node = Self { child, address, admin, ready_after: Duration::ZERO };
        node.wait_until_ready(began).await;
        node
    }

    async fn wait_until_ready(&mut self, began: Instant) {
        let mut wire = Wire::to(self.address);
        let fate = wire.send(&Request::get("/ready")).await;
        assert!(matches!(&fate, Fate::Answered(answer) if answer.status == 200), "{fate:?}");
        self.ready_after = began.elapsed();
    }

    /// The process's number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("the server runs")
    }

    /// Whether the process has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the process can be asked for").is_some()
    }

    /// Kills the process as a crash would.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("the process can be killed");
    }

    /// Asks the process to stop.
    pub(crate) fn terminate(&self) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("a process number");
        kill_process(pid, Signal::TERM).expect("the signal is sent");
    }

    /// Waits until the process ends.
    pub(crate) async fn ended(&mut self, limit: Duration) -> ExitStatus {
        let ended = timeout(limit, self.child.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("the server still runs after {limit:?}"));
        status.expect("the process can be waited for")
    }

    /// Stops the server as an operator would.
    pub(crate) async fn stop(mut self) {
        self.terminate();
        let status = self.ended(PATIENCE).await;
        assert!(status.success(), "{status}");
    }

    /// One of the server's metrics.
    pub(crate) async fn figure(&self, name: &str) -> u64 {
        let fate = Wire::to(self.admin).send(&Request::get("/metrics")).await;
        let Fate::Answered(answer) = fate else { panic!("{fate:?}") };
        let value = answer.body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no figure {name} in:\n{}", answer.body));
        value.trim().parse().expect("a number")
    }
}

/// The operators' address of the latest server: it logs that before its own address.
fn admin_address(home: &Home) -> SocketAddr {
    let log = std::fs::read_to_string(home.log_file()).expect("the log file");
    let mut lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let said = lines.rfind(|line| line["message"] == "admin endpoints listening").expect("it serves operators");
    said["address"].as_str().and_then(|address| address.parse().ok()).expect("an address")
}
