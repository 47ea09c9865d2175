//! Startup time of commands that need nothing.

use std::time::{Duration, Instant};

use deeplink_testing::dl::{Dl, chmod};

#[test]
fn version_and_help_need_no_configuration() {
    let dl = Dl::new();
    std::fs::create_dir_all(dl.dir().join("config")).expect("a directory");
    std::fs::write(dl.config("config.toml"), "not toml").expect("a file");
    chmod(&dl.config("config.toml"), 0o644);
    assert_eq!(dl.run("--version").ok(), concat!("dl ", env!("CARGO_PKG_VERSION"), "\n"));
    for line in ["--help", "links create --help", "help links", "help exit-codes", "completions bash", "man"] {
        assert!(!dl.run(line).ok().is_empty(), "{line}");
    }
}

/// The target is 5 ms in a release build on an idle machine; this bound only fails for a changed design.
#[test]
fn version_is_there_at_once() {
    let dl = Dl::new();
    // Even a busy machine has an idle moment at some time.
    let is_quick = (0..200).any(|_| {
        let start = Instant::now();
        dl.run("--version").ok();
        start.elapsed() < Duration::from_millis(100)
    });
    assert!(is_quick, "none of 200 took less than 100 ms");
}
