//! A keyring that accepts a call and never answers: its bus exists, and nothing responds.

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use crate::screen::Screen;
use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::dl::{Dl, KEY};
use deeplink_testing::double::{Double, with_links};

/// A bus that accepts any connection and only counts them.
struct SilentBus(UnixListener);

impl SilentBus {
    /// The number of connections since the last call.
    fn callers(&self) -> usize {
        self.0.set_nonblocking(true).expect("a socket");
        std::iter::from_fn(|| self.0.accept().ok()).count()
    }
}

/// A user with such a bus.
fn with_silent_bus(dl: Dl) -> (Dl, SilentBus) {
    let path = dl.dir().join("bus");
    let bus = SilentBus(UnixListener::bind(&path).expect("a socket"));
    (dl.env("DBUS_SESSION_BUS_ADDRESS", &format!("unix:path={}", path.display())), bus)
}

/// A user whose key is in the keyring.
fn with_key_in_keyring(double: &Double) -> (Dl, SilentBus) {
    let dl = Dl::new().stored("default", &double.url, KEY);
    let config = std::fs::read_to_string(dl.config("config.toml")).expect("it is there");
    std::fs::write(dl.config("config.toml"), config.replace("\"file\"", "\"keyring\"")).expect("a file");
    with_silent_bus(dl)
}

/// P3: after 3 s the key goes into the file, with the reason; the process does not wait for the call to end.
#[test]
fn p3_a_silent_keyring_is_given_up() {
    let double = with_links(0);
    let (dl, bus) = with_silent_bus(Dl::new());
    let start = Instant::now();
    let ran = dl.run_with(&format!("login --with-key --base-url {}", double.url), KEY);
    assert!(ran.ok().is_empty() && ran.stderr.contains("warning: no keyring (no response within 3 s)"), "{ran}");
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert!(bus.callers() > 0, "it was asked");
    // The profile's store is the file now, so the keyring is not asked again.
    dl.run("links list").ok();
    dl.run_with("login --with-key", KEY).ok();
    assert_eq!(bus.callers(), 0);
}

#[test]
fn a_key_in_a_silent_keyring_is_not_replaced() {
    let double = with_links(0);
    let (dl, _bus) = with_key_in_keyring(&double);
    let ran = dl.run("links list");
    assert!(
        ran.fails(4).starts_with("error[keyring_unavailable]") && ran.stderr.contains("no response within 3 s"),
        "{ran}"
    );
    assert!(double.requests().is_empty());
}

/// At a terminal, `dl` says what it waits for, and the wait can be interrupted.
#[test]
fn ctrl_c_ends_the_wait_for_a_keyring() {
    let double = with_links(0);
    for line in
        ["links list".to_owned(), format!("login --email you@example.com --store keyring --base-url {}", double.url)]
    {
        let (dl, _bus) = with_key_in_keyring(&double);
        let screen = Screen::open(dl, &line);
        screen.wait_for("waiting for the keyring");
        let start = Instant::now();
        screen.send("\u{3}");
        assert_eq!(screen.end().0, Some(130), "{line}");
        assert!(start.elapsed() < Duration::from_secs(12), "{line}: {:?}", start.elapsed());
    }
    assert!(double.requests().is_empty());
}
