//! The limit of open files. Each connection is one, so it limits the connections.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many files this process may have open; `u64::MAX` = any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    /// The limit in force (`ulimit -Sn`).
    pub soft: u64,
    /// How far the process may raise it (`ulimit -Hn`).
    pub hard: u64,
}

impl OpenFiles {
    /// The limits of this process.
    pub fn now() -> Self {
        let limits = getrlimit(Resource::Nofile);
        Self { soft: limits.current.unwrap_or(u64::MAX), hard: limits.maximum.unwrap_or(u64::MAX) }
    }

    /// Raises the limit in force as far as this process may, and returns the new limits. Shells and service managers
    /// start programs with 1,024, for the sake of `select`.
    pub fn raise() -> io::Result<Self> {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
        Ok(Self::now())
    }
}
