//! What a test run is told from outside, and where on the machine its files are.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use url::Url;

/// Where a server listens that is killed, and whose callers try its port again: the ports of this address are not those
/// of other tests' doubles, which may run at the same time. Only Linux has it without being asked.
pub const APART: &str = if cfg!(target_os = "linux") { "127.0.0.2:0" } else { "127.0.0.1:0" };

/// A variable of the environment, unless it is empty.
#[expect(clippy::disallowed_methods, reason = "how a test run is told what to do")]
pub fn told(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// The PostgreSQL server to test on, if there is one.
pub fn postgres() -> Option<Url> {
    told("TEST_DATABASE_URL").map(|url| url.parse().expect("TEST_DATABASE_URL is a URL"))
}

/// Whether databases stay when their tests are over, because their whole server goes.
pub fn keeps_databases() -> bool {
    told("TEST_DATABASE_KEEP").is_some()
}

/// A database that is not there yet: on the PostgreSQL server to test on, or else `test.db` in a folder.
pub fn new_database(prefix: &str, folder: &Path) -> String {
    match new_postgres_database(prefix) {
        Some(url) => url.into(),
        None => format!("sqlite://{}", folder.join("test.db").display()),
    }
}

/// A database that is not there yet on the PostgreSQL server to test on, if there is one.
pub fn new_postgres_database(prefix: &str) -> Option<Url> {
    let mut url = postgres()?;
    url.set_path(&format!("{prefix}_{:016x}", RandomState::new().hash_one(prefix)));
    Some(url)
}

/// Where short-lived files are: in memory where there is room, since most of a test would be waiting for a disk.
fn memory() -> PathBuf {
    const MEMORY: &str = "/dev/shm";
    const ROOM: u64 = 1 << 30;
    let has_room = rustix::fs::statvfs(MEMORY).is_ok_and(|disk| disk.f_bavail * disk.f_frsize > ROOM);
    let can_write = || rustix::fs::access(MEMORY, rustix::fs::Access::WRITE_OK).is_ok();
    if has_room && can_write() { MEMORY.into() } else { std::env::temp_dir() }
}

/// A directory of a test's own, in memory where there is room. What is about the disk belongs in [`directory_on_disk`].
pub fn directory() -> TempDir {
    tempfile::Builder::new().prefix("deeplink-test-").tempdir_in(memory()).expect("a directory")
}

/// A file without a name, in memory where there is room.
pub fn file() -> File {
    tempfile::tempfile_in(memory()).expect("a file")
}

/// A directory of a test's own on a real disk.
pub fn directory_on_disk() -> TempDir {
    tempfile::tempdir_in(target_tmp()).expect("a directory")
}

/// Where cargo puts the programs that it builds.
fn programs() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a file");
    test.ancestors().nth(2).expect("a test is in deps/ beside the programs").to_owned()
}

/// A program of this workspace, which the test's own package must have.
pub fn program(name: &str) -> PathBuf {
    programs().join(name)
}

/// The target directory.
pub fn target() -> PathBuf {
    programs().parent().expect("target/").to_owned()
}

/// What cargo calls `CARGO_TARGET_TMPDIR`: files of tests that outlast them.
pub fn target_tmp() -> PathBuf {
    let path = target().join("tmp");
    std::fs::create_dir_all(&path).expect("a directory");
    path
}
