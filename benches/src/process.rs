//! Processes under measurement: started on one core, asked for their CPU time and memory.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

type Failure = Box<dyn std::error::Error>;

/// `sysconf(_SC_CLK_TCK)`, which is 100 on every Linux in use.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU seconds used so far by all processes of this name and the children they had, user and system.
pub(crate) fn cpu_seconds_of(name: &str) -> Result<f64, Failure> {
    let mut ticks = 0.0;
    for process in std::fs::read_dir("/proc")? {
        // One that has ended meanwhile has none.
        let Ok(stat) = std::fs::read_to_string(process?.path().join("stat")) else { continue };
        let Some((before, after)) = stat.rsplit_once(") ") else { continue };
        if before.ends_with(&format!("({name}")) {
            for field in after.split(' ').skip(11).take(4) {
                ticks += field.parse::<f64>()?;
            }
        }
    }
    Ok(ticks / TICKS_PER_SECOND)
}

/// A server that runs on the first core.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    /// The output before it was ready.
    pub(crate) banner: Vec<String>,
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts a program and waits until it says where it listens.
    pub(crate) async fn start(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Self, Failure> {
        let mut child = Command::new("taskset")
            .args(["-c", "0"])
            .arg(program)
            .args(arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or("no stdout")?).lines();
        let mut banner = Vec::new();
        let mut address = None;
        // The banner of a first run follows at once, if there is one.
        loop {
            let wait = if address.is_none() { Duration::from_secs(20) } else { Duration::from_millis(300) };
            match tokio::time::timeout(wait, stdout.next_line()).await {
                Ok(Ok(Some(line))) => {
                    if let Some(at) = line.strip_prefix("listening on http://") {
                        address = Some(at.to_owned());
                    }
                    banner.push(line);
                }
                _ => break,
            }
        }
        Ok(Self { child, address: address.ok_or("the server did not start")?, banner, _stdout: stdout })
    }

    /// CPU seconds used so far, of all threads, user and system.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, Failure> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()))?;
        let fields: Vec<&str> = stat.rsplit_once(") ").ok_or("no stat")?.1.split(' ').collect();
        let ticks = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        Ok(ticks / TICKS_PER_SECOND)
    }

    /// Resident memory in MB (10⁶ bytes): now, and the peak so far.
    pub(crate) fn memory_mb(&self) -> Result<(f64, f64), Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let kib = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).ok_or("no status")?;
            Ok::<f64, Failure>(line.split_whitespace().nth(1).ok_or("no value")?.parse::<f64>()?)
        };
        Ok((kib("VmRSS:")? * 1024.0 / 1e6, kib("VmHWM:")? * 1024.0 / 1e6))
    }

    fn pid(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }

    /// Stops it as an operator would.
    pub(crate) async fn stop(mut self) -> Result<(), Failure> {
        Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().await?;
        self.child.wait().await?;
        Ok(())
    }
}
