//! The settings of a test run, and where its files are.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use url::Url;

/// Where a server listens that is killed and whose callers retry its port: the doubles of other tests, which may run at
/// the same time, do not use this address. Only Linux has it without configuration.
pub const APART: &str = if cfg!(target_os = "linux") { "127.0.0.2:0" } else { "127.0.0.1:0" };

/// A variable of the environment, unless it is empty.
#[expect(clippy::disallowed_methods, reason = "a setting of the test run")]
pub fn told(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// The PostgreSQL server to test on, if there is one.
pub fn postgres() -> Option<Url> {
    told("TEST_DATABASE_URL").map(|url| url.parse().expect("TEST_DATABASE_URL is a URL"))
}

/// Whether the whole PostgreSQL server is removed after the tests, with the databases that they left.
pub fn server_is_temporary() -> bool {
    told("TEST_DATABASE_TEMPORARY").is_some()
}

/// A database that does not exist yet: on the PostgreSQL server to test on, or else `test.db` in a folder.
pub fn new_database(prefix: &str, folder: &Path) -> String {
    match new_postgres_database(prefix) {
        Some(url) => url.into(),
        None => format!("sqlite://{}", folder.join("test.db").display()),
    }
}

/// A database that does not exist yet on the PostgreSQL server to test on, if there is one.
pub fn new_postgres_database(prefix: &str) -> Option<Url> {
    let mut url = postgres()?;
    url.set_path(&format!("{prefix}_{:016x}", RandomState::new().hash_one(prefix)));
    Some(url)
}

/// Where short-lived files are: in memory if there is room, since a test would spend most of its time waiting for a
/// disk.
fn memory() -> PathBuf {
    const MEMORY: &str = "/dev/shm";
    const ROOM: u64 = 1 << 30;
    let has_room = rustix::fs::statvfs(MEMORY).is_ok_and(|disk| disk.f_bavail * disk.f_frsize > ROOM);
    let can_write = || rustix::fs::access(MEMORY, rustix::fs::Access::WRITE_OK).is_ok();
    if has_room && can_write() { MEMORY.into() } else { std::env::temp_dir() }
}

/// A test's own directory, in memory if there is room. Tests about the disk use [`directory_on_disk`].
pub fn directory() -> TempDir {
    tempfile::Builder::new().prefix("deeplink-test-").tempdir_in(memory()).expect("a directory")
}

/// An unnamed file, in memory if there is room.
pub fn file() -> File {
    tempfile::tempfile_in(memory()).expect("a file")
}

/// A test's own directory on a real disk.
pub fn directory_on_disk() -> TempDir {
    tempfile::tempdir_in(target_tmp()).expect("a directory")
}

/// Where cargo puts the binaries.
fn programs() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a file");
    test.ancestors().nth(2).expect("a test is in deps/ beside the programs").to_owned()
}

/// A binary of the test's own package.
pub fn program(name: &str) -> PathBuf {
    programs().join(name)
}

/// The target directory.
pub fn target() -> PathBuf {
    programs().parent().expect("target/").to_owned()
}

/// Cargo's `CARGO_TARGET_TMPDIR`: files that outlive their tests.
pub fn target_tmp() -> PathBuf {
    let path = target().join("tmp");
    std::fs::create_dir_all(&path).expect("a directory");
    path
}
