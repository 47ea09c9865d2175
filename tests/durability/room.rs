//! A small separate disk: a tmpfs that only processes in its namespace see, and that is removed with the test.
//!
//! It is mounted in a private mount namespace, so nothing has to be unmounted. Root can do that everywhere; other users
//! need a system with user namespaces.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The namespace, held open by a process that does nothing else.
pub(crate) struct Room {
    holder: Child,
    path: PathBuf,
    is_root: bool,
}

impl Room {
    /// Mounts a disk of this many MiB over the directory `path`, which must exist.
    pub(crate) async fn open(path: &Path, mebibytes: u32) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let mut command = Command::new("unshare");
        if !is_root {
            command.args(["--user", "--map-root-user"]);
        }
        // The holder ends when its stdin closes, and so with this process, however that ends.
        let script = "mount -t tmpfs -o size=\"$2\"m,mode=0755 tmpfs \"$1\" && echo open && exec cat >/dev/null";
        command.args(["--mount", "sh", "-c", script, "room"]).arg(path).arg(mebibytes.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut holder = command.spawn().expect("unshare of util-linux runs");
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("its stdout");
        BufReader::new(stdout).read_line(&mut line).await.expect("its stdout can be read");
        assert_eq!(
            line, "open\n",
            "a tmpfs cannot be mounted in a namespace of its own; run this as root or allow user namespaces"
        );
        Self { holder, path: path.to_owned(), is_root }
    }

    fn pid(&self) -> u32 {
        self.holder.id().expect("the holder runs")
    }

    /// A program that will run in the namespace.
    pub(crate) fn enter(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid().to_string(), "--mount"]);
        if !self.is_root {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.args(["--", program]);
        command
    }

    /// The disk as it is seen from outside.
    fn disk(&self) -> PathBuf {
        let inside = self.path.strip_prefix("/").expect("an absolute path");
        Path::new("/proc").join(self.pid().to_string()).join("root").join(inside)
    }

    fn filler(&self) -> PathBuf {
        self.disk().join("filler")
    }

    /// Makes the disk read-only, or writable again. No file on it may be open for writing.
    pub(crate) async fn set_read_only(&self, is_read_only: bool) {
        let mode = if is_read_only { "remount,ro" } else { "remount,rw" };
        let done = self.enter("mount").args(["-o", mode]).arg(&self.path).status().await.expect("mount runs");
        assert!(done.success(), "{mode}");
    }

    /// Fills the disk to the last page, or the space freed since.
    pub(crate) fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.filler()).expect("the filler");
        for piece in [1 << 20, 4_096] {
            let piece = vec![b'x'; piece];
            while file.write_all(&piece).is_ok() {}
        }
    }

    /// Frees the space that [`Room::fill`] took.
    pub(crate) fn free(&self) {
        std::fs::remove_file(self.filler()).expect("the filler is there");
    }
}
