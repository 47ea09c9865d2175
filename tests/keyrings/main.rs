//! Keys in a real keyring: gnome-keyring, on its own session bus and in its own home.
//!
//! `tests/run` installs what this needs; by hand, where `dbus-run-session` and `gnome-keyring-daemon` are on the PATH:
//!
//! ```sh
//! cargo test --test keyrings
//! ```

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deeplink_testing::dl::{Dl, KEY, OTHER_KEY};
use deeplink_testing::double::{Double, with_links};

/// Starts a session: a bus, and a keyring that is unlocked with a password. `$DL` is the command.
const BEGIN: &str = r#"
set -u
command -v gnome-keyring-daemon >/dev/null && command -v dbus-send >/dev/null || { echo "gnome-keyring and dbus are needed" >&2; exit 99; }
printf '%s' "$PASSWORD" | gnome-keyring-daemon --foreground --unlock --components=secrets >/dev/null 2>&1 &
keyring=$!
trap 'kill $keyring' EXIT
for _ in $(seq 1200); do
    dbus-send --session --dest=org.freedesktop.DBus --print-reply / org.freedesktop.DBus.NameHasOwner \
        string:org.freedesktop.secrets | grep -q 'boolean true' && break
    sleep 0.05
done
"#;

/// Runs a script in a session of this user; returns its exit code and output. Its stderr is a terminal, so `dl` waits
/// longer for a slow keyring.
fn session(dl: &Dl, password: &str, script: &str) -> (Option<i32>, String) {
    let (mut terminal, pts) = pty_process::blocking::open().expect("a terminal");
    let stderr = pts.as_fd().try_clone_to_owned().expect("a terminal");
    drop(pts);
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        // The read fails once the other end is closed.
        let _ = terminal.read_to_end(&mut said);
        String::from_utf8_lossy(&said).replace("\r\n", "\n")
    });
    let (code, stdout) = session_with(dl, password, script, stderr.into());
    (code, stdout + &reader.join().expect("all is read"))
}

/// The same without a terminal.
fn session_of_nobody(dl: &Dl, password: &str, script: &str) -> (Option<i32>, String) {
    let file = dl.dir().join("stderr");
    let (code, stdout) = session_with(dl, password, script, std::fs::File::create(&file).expect("a file").into());
    (code, stdout + &std::fs::read_to_string(file).expect("UTF-8"))
}

fn session_with(dl: &Dl, password: &str, script: &str, stderr: Stdio) -> (Option<i32>, String) {
    // One session at a time: concurrent keyrings are slow.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = dl.dir().join("run");
    if !runtime.exists() {
        std::fs::DirBuilder::new().mode(0o700).create(&runtime).expect("a directory");
    }
    let path = option_env!("PATH").unwrap_or("/usr/bin:/bin");
    let output = Command::new("dbus-run-session")
        .args(["--", "bash", "-c", &format!("{BEGIN}{script}\n")])
        .current_dir(dl.dir())
        .env_clear()
        .envs(dl.variables())
        .env("PATH", path)
        .env("XDG_RUNTIME_DIR", &runtime)
        .env("PASSWORD", password)
        .env("DL", env!("CARGO_BIN_EXE_dl"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stderr(stderr)
        .output()
        .expect("dbus-run-session is needed: tests/run installs it");
    assert_ne!(output.status.code(), Some(99), "gnome-keyring and dbus are needed");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A user with a key in the keyring, for this service.
fn somebody(double: &Double) -> Dl {
    let dl = Dl::new().env("DL_BASE_URL", &double.url);
    dl.secret_file("key.txt", KEY);
    dl.secret_file("other.txt", OTHER_KEY);
    let (code, text) = session(&dl, "a password", "$DL login --with-key < key.txt");
    assert!(code == Some(0) && text.contains("stored in the keyring (profile default)"), "{text}");
    dl
}

fn file(dl: &Dl, name: &str) -> String {
    std::fs::read_to_string(dl.config(name)).unwrap_or_default()
}

#[test]
fn a_key_is_kept_in_the_keyring_and_used_from_there() {
    let double = with_links(1);
    let dl = somebody(&double);
    assert!(file(&dl, "config.toml").contains("store = \"keyring\"") && !file(&dl, "config.toml").contains(&KEY[18..]));
    assert_eq!(file(&dl, "credentials.toml"), "", "no copy is kept in a file");
    // Another session, another process: it is still there.
    let (code, text) = session(&dl, "a password", "$DL token && $DL links list -o id && $DL whoami -o json");
    assert!(code == Some(0) && text.contains(KEY) && text.contains("link-0000"), "{text}");
    assert!(text.contains("\"key_source\":\"profile default in the keyring\""), "{text}");
    assert!(double.requests().iter().all(|request| request.header("authorization") == Some(&format!("Bearer {KEY}"))));
    // Without a session there is no keyring, and no other key replaces this one.
    assert!(dl.run("links list").fails(4).contains("no session bus"));

    let (_, text) = session(&dl, "a password", "$DL logout; $DL token; echo $?");
    assert!(
        text.contains("removed dl_live_3fa91c07be...") && text.contains("error[no_key]") && text.starts_with("4\n"),
        "{text}"
    );
}

#[test]
fn a_key_in_the_keyring_goes_to_its_origin_only() {
    let (double, other) = (with_links(1), with_links(1));
    let dl = somebody(&double);
    let script = format!("$DL links list --base-url {}; echo $?", other.url);
    let (_, text) = session(&dl, "a password", &script);
    assert!(text.contains("error[origin_mismatch]") && text.starts_with("4\n"), "{text}");
    assert!(other.requests().is_empty());
}

#[test]
fn a_good_write_takes_the_older_copy_out_of_the_file() {
    let double = with_links(1);
    let dl = Dl::new().stored("default", &double.url, KEY).stored("second", &double.url, OTHER_KEY);
    dl.secret_file("key.txt", KEY);
    // The profile's store is the file, so the keyring must be requested.
    let (code, text) = session(&dl, "a password", "$DL login --with-key < key.txt");
    assert!(code == Some(0) && text.contains("credentials.toml"), "{text}");
    let (code, text) = session(&dl, "a password", "$DL login --with-key --store keyring < key.txt && $DL token");
    assert!(code == Some(0) && text.contains("stored in the keyring") && text.contains(KEY), "{text}");
    let kept = file(&dl, "credentials.toml");
    assert!(!kept.contains("[profile.default]") && kept.contains("[profile.second]"), "{kept}");
    // And back again: nothing stays in the keyring, where it would be overlooked.
    let (code, text) = session(
        &dl,
        "a password",
        "$DL login --with-key --store file < key.txt; sed -i 's/\"file\"/\"keyring\"/' config/config.toml; $DL token; echo $?",
    );
    assert!(code == Some(0) && text.starts_with("4\n") && text.contains("error[no_key]"), "{text}");
    assert!(!text.contains("may still be in the keyring"), "{text}");
    let (code, text) = session(
        &dl,
        "a password",
        "$DL login --with-key --store file < key.txt; $DL profile remove default; $DL profile list -o id",
    );
    assert!(code == Some(0) && text.starts_with("second\n"), "{text}");
}

/// A locked keyring waits for a person. Without a terminal, `dl` gives up after 3 s with the reason.
#[test]
fn a_locked_keyring_does_not_hold_dl_up() {
    let double = with_links(1);
    let dl = somebody(&double);
    let start = Instant::now();
    let (_, text) = session_of_nobody(&dl, "another password", "$DL token; echo $?");
    assert!(
        text.contains("error[keyring_unavailable]: the key of profile default is in the keyring")
            && text.starts_with("4\n"),
        "{text}"
    );
    assert!(start.elapsed() < Duration::from_mins(1), "{:?}", start.elapsed());
    assert!(!text.contains(&KEY[18..]), "{text}");
}
