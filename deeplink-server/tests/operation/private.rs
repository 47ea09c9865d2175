//! Files of the operator: who can read them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Home;

/// Runs a command that must succeed, with the usual umask: new files are readable by everyone unless created otherwise.
fn run(home: &Home, args: &[&str]) -> String {
    let inner = home.command(args);
    let mut outer = Command::new("/bin/sh");
    outer.args(["-c", "umask 022; exec \"$@\"", "sh"]).arg(inner.get_program()).args(inner.get_args()).env_clear();
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = outer.current_dir(inner.get_current_dir().expect("a directory")).output().expect("a shell");
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a directory");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// R13: whatever the umask, only their owner can access the data directory, the database, its lock and its copies.
#[test]
fn r13_what_the_operator_creates_is_private() {
    let mut home = Home::on_sqlite();
    run(&home, &["tenant", "create", "--email", "owner@example.com"]);
    let data = home.path("data");
    assert_eq!(mode(&data), 0o700);
    let lock = home.data("deeplink.db.lock");
    assert!(files(&data).contains(&lock), "{:?}", files(&data));
    for file in files(&data) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    run(&home, &["backup", "copy.db"]);
    assert_eq!(mode(&home.path("copy.db")), 0o600);
    // A lock file of an earlier version.
    set_mode(&lock, 0o644);
    run(&home, &["migrate"]);
    assert_eq!(mode(&lock), 0o600);
    // A copy from elsewhere, into a directory that does not exist.
    set_mode(&home.path("copy.db"), 0o644);
    home.set("DEEPLINK_DATA_DIR", "elsewhere/data");
    run(&home, &["restore", "copy.db"]);
    assert_eq!((mode(&home.path("elsewhere")), mode(&home.path("elsewhere/data"))), (0o700, 0o700));
    for file in files(&home.path("elsewhere/data")) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    // The server's own files beside them.
    home.serve().stop();
    for file in files(&home.path("elsewhere/data")) {
        assert_eq!(mode(&file) & 0o077, 0, "{}", file.display());
    }
    // An operator who opened the directory is told.
    set_mode(&home.path("elsewhere/data"), 0o755);
    let check = run(&home, &["check"]);
    assert!(
        check.lines().any(|line| line.starts_with("note   data directory") && line.contains("chmod 700")),
        "{check}"
    );
}

/// R13: a command that is printed as advice contains no password, and no variable that holds one.
#[test]
fn r13_advice_puts_no_password_on_a_command_line() {
    let mut home = Home::on_sqlite();
    home.set("DEEPLINK_DATABASE_URL", "postgres://app:hunter2@127.0.0.1:1/links");
    for (args, tool) in [(["backup", "copy"], "pg_dump"), (["restore", "copy"], "pg_restore")] {
        let ended = home.run(&args);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        let advice = &ended.stderr[ended.stderr.find("run: ").expect("advice")..];
        assert!(advice.contains(tool) && advice.contains("service="), "{advice}");
        assert!(!advice.contains('$') && !advice.contains("://") && !ended.stderr.contains("hunter2"), "{ended:?}");
    }
}
