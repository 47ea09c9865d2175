//! What `dl` writes to disk.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

use deeplink_testing::dl::{Dl, KEY, chmod, mode};
use deeplink_testing::double::{Answer, Double, with_links};

fn every_file(dir: &Path, each: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        each(&path);
        if path.is_dir() {
            every_file(&path, each);
        }
    }
}

/// P2: configuration, credential and resume files are 0600 in 0700 directories whatever the umask says, and no resume
/// file holds a secret.
#[test]
fn p2_files_are_private_under_any_umask() {
    let double = Double::new(|request| match request.line().as_str() {
        "POST /v1/links/bulk" => Answer::error(401, "invalid_key", "no"),
        _ => Answer::new(200, r#"{"links":[],"next_cursor":null}"#),
    });
    let dl = Dl::new();
    dl.file("links.csv", "custom_id,web_url\nspring-1,https://example.com/\n");
    let script = format!(
        "umask 000; printf '%s' '{KEY}' | $DL login --with-key --base-url {0}; $DL config set output csv; \
         $DL profile add other --base-url {0}; $DL links import links.csv",
        double.url
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(dl.dir()).env_clear().env("DL", env!("CARGO_BIN_EXE_dl"));
    shell.envs(dl.variables()).stdout(Stdio::null()).stderr(Stdio::null());
    assert_eq!(shell.status().expect("a shell").code(), Some(4), "the import is refused and can be resumed");
    for below in ["config", "state"] {
        let root = dl.dir().join(below);
        assert_eq!(mode(&root), 0o700, "{}", root.display());
        let mut files = 0;
        every_file(&root, &mut |path| {
            let wanted = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(path), wanted, "{}", path.display());
            files += usize::from(path.is_file());
            if path.is_file() && !path.ends_with("credentials.toml") {
                let text = String::from_utf8_lossy(&std::fs::read(path).expect("a file")).into_owned();
                assert!(!text.contains(&KEY[20..]), "{} holds the key", path.display());
            }
        });
        assert!(files >= 2, "{below} has files");
    }
    let kept = std::fs::read_to_string(dl.config("credentials.toml")).expect("credentials");
    assert!(kept.contains(KEY));
}

/// P2: a file that others can read is refused, with the command that fixes it; nothing is sent.
#[test]
fn p2_wider_modes_are_refused() {
    let double = with_links(1);
    for name in ["credentials.toml", "config.toml"] {
        for wide in [0o644, 0o640, 0o660, 0o606] {
            let dl = Dl::new().stored("default", &double.url, KEY);
            chmod(&dl.config(name), wide);
            let ran = dl.run("links list");
            assert!(ran.fails(4).starts_with("error[unsafe_file]: "), "{ran}");
            assert!(ran.stderr.contains(&format!("hint: chmod 600 {}", dl.config(name).display())), "{ran}");
            chmod(&dl.config(name), 0o600);
            dl.run("links list").ok();
        }
    }
    assert_eq!(double.requests().len(), 8);
}

/// P2: files are replaced as a whole: never overwritten in place, and no temporary file is left.
#[test]
fn p2_files_are_replaced_as_a_whole() {
    let dl = Dl::new().stored("default", "https://dl.example.com", KEY);
    let before = std::fs::metadata(dl.config("config.toml")).expect("a file").ino();
    dl.run("config set output json").ok();
    assert_ne!(std::fs::metadata(dl.config("config.toml")).expect("a file").ino(), before);
    let mut names: Vec<_> = std::fs::read_dir(dl.dir().join("config"))
        .expect("a directory")
        .map(|e| e.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["config.toml", "credentials.toml", "lock"]);
}

/// Concurrent runs do not lose each other's changes.
#[test]
fn changes_at_the_same_time_all_hold() {
    let dl = Dl::new();
    let children: Vec<_> = (0..12)
        .map(|at| {
            dl.command(&format!("profile add p{at} --base-url https://dl.example.com")).stderr(Stdio::null()).spawn()
        })
        .collect();
    for child in children {
        assert!(child.expect("dl starts").wait().expect("dl ends").success());
    }
    assert_eq!(dl.run("profile list -o id").ok().lines().count(), 12);
}

#[test]
fn a_linked_configuration_stays_linked() {
    let dl = Dl::new().stored("default", "https://dl.example.com", KEY);
    let kept = dl.dir().join("dotfiles.toml");
    std::fs::rename(dl.config("config.toml"), &kept).expect("a move");
    std::os::unix::fs::symlink(&kept, dl.config("config.toml")).expect("a link");
    dl.run("config set output json").ok();
    assert!(std::fs::read_to_string(&kept).expect("a file").contains("output = \"json\""));
    assert!(dl.config("config.toml").is_symlink());
}

#[test]
fn nothing_is_read_from_the_working_directory() {
    let dl = Dl::new();
    std::fs::create_dir(dl.dir().join("config-elsewhere")).expect("a directory");
    for name in ["config.toml", "dl.toml", ".dl.toml", ".env", "credentials.toml"] {
        dl.file(name, "DL_BASE_URL=http://127.0.0.1:1\nbase_url = \"http://127.0.0.1:1\"\n");
    }
    assert!(dl.run("ping").fails(2).starts_with("error[no_base_url]:"));
}

#[test]
fn what_a_newer_dl_wrote_stays() {
    let dl = Dl::new();
    std::fs::create_dir_all(dl.dir().join("config")).expect("a directory");
    std::fs::write(
        dl.config("config.toml"),
        "later = 1\n[profile.default]\nbase_url = \"https://dl.example.com\"\nnews = [1, 2]\n",
    )
    .expect("a file");
    chmod(&dl.config("config.toml"), 0o600);
    dl.run("config set output json").ok();
    let text = std::fs::read_to_string(dl.config("config.toml")).expect("a file");
    assert!(
        text.contains("later = 1") && text.contains("news = [1, 2]") && text.contains("output = \"json\""),
        "{text}"
    );
}

#[test]
fn a_damaged_configuration_is_named_with_its_line() {
    let dl = Dl::new();
    std::fs::create_dir_all(dl.dir().join("config")).expect("a directory");
    for (name, text) in [
        ("config.toml", "active_profile = \"a\"\n[profile\n"),
        ("credentials.toml", &format!("[profile.default]\nkey = \"{KEY}\n")),
    ] {
        std::fs::write(dl.config(name), text).expect("a file");
        chmod(&dl.config(name), 0o600);
        let ran = dl.run("links list --base-url http://127.0.0.1:1");
        assert!(ran.stderr.contains(name) && !ran.stderr.contains(&KEY[20..]), "{ran}");
        assert!(matches!(ran.code, Some(2 | 4)), "{ran}");
        std::fs::remove_file(dl.config(name)).expect("it is there");
    }
}
