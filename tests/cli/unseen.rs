//! Hidden input at a terminal: keys, links and tokens.

use std::process::Stdio;

use crate::screen::Screen;
use crate::sign_in::service;
use crate::signals::{end_of, send, wait_for, wait_until_it_reads};
use deeplink_testing::dl::{Dl, KEY};
use deeplink_testing::double::{SESSION, with_links};

/// The characters that stop and resume a terminal's output.
const HOLD: &str = "\u{13}";
const GO_ON: &str = "\u{11}";

/// A key pasted before the prompt is shown is hidden too.
#[test]
fn what_is_typed_is_hidden_before_the_question_is_shown() {
    let double = with_links(0);
    let line = format!("login --with-key --base-url {}", double.url);
    let screen = Screen::typed_before(Dl::new(), &line, HOLD);
    wait_for("the terminal hides what is typed", || !screen.echoes());
    screen.send(&format!("{KEY}\n{GO_ON}"));
    let (code, text) = screen.end();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("Secret key for ") && !text.contains(&KEY[20..]), "{text}");
}

#[test]
fn the_key_is_asked_for_unseen() {
    let double = with_links(0);
    let screen = Screen::open(Dl::new(), &format!("login --with-key --base-url {}", double.url));
    screen.wait_for("Secret key for ");
    screen.send(&format!("{KEY}\n"));
    let (code, text) = screen.end();
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains(&KEY[20..]) && text.contains("key dl_live_3fa91c07be... stored in "), "{text}");
    let screen = Screen::open(Dl::new(), "login --with-key");
    screen.wait_for("Base URL of the service: ");
    screen.send(&format!("{}\n", double.url));
    screen.wait_for("Secret key for ");
    screen.send("\u{3}");
    assert_eq!(screen.end().0, Some(130));
}

/// Input for `-` is not echoed, and Ctrl-C ends the wait for it, as for a pipe.
#[test]
fn a_secret_on_stdin_is_typed_unseen_and_waited_for_with_signals() {
    let double = service(|_| None);
    let on_screen = || Screen::open(Dl::new().env("DL_BASE_URL", &double.url), "session me --session-file - -o id");
    let screen = on_screen();
    screen.wait_for("Session token: ");
    screen.send(&format!("{SESSION}\n"));
    let (code, text) = screen.end();
    assert!(code == Some(0) && text.contains("usr_0123456789abcdef01234567") && !text.contains(SESSION), "{text}");
    let screen = on_screen();
    screen.wait_for("Session token: ");
    screen.send("\u{3}");
    assert_eq!(screen.end().0, Some(130));

    let dl = Dl::new().env("DL_BASE_URL", &double.url);
    for line in ["session me --session-file -", "login --with-key", "links list --api-key-file -"] {
        let mut child = dl.command(line).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("dl starts");
        let stdin = wait_until_it_reads(&mut child);
        send(&child, "-INT");
        assert_eq!(end_of(&mut child), Some(130), "{line}");
        drop(stdin);
    }
}
