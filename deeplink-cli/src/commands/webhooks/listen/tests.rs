//! Reports that survive a signal.

use std::sync::Arc;

use clap::Parser;
use deeplink_client::receiver::Relay;
use deeplink_client::webhook::{Verifier, WebhookSecret};
use deeplink_core::event::EventKind;
use deeplink_core::event::sample::sample;
use deeplink_core::secret::Random;
use rustix::process::{Signal, getpid, kill_process};

use super::save::Folder;
use super::{Listen, Source};
use crate::console::{Console, Manner};
use crate::context::Context;
use crate::env::Env;
use crate::error::Stop;
use crate::exit::Exit;
use crate::global::Global;
use crate::signals::Signals;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    listen: Listen,
    #[command(flatten)]
    global: Global,
}

/// A request was answered and a signal arrived before its receipt was processed: it is still reported.
#[tokio::test]
async fn what_was_answered_before_a_signal_is_told() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = |name: &str| Some(home.path().join(name));
    let env = Env { config_dir: dir("config"), state_dir: dir("state"), ..Env::default() };
    let line = Line::parse_from(["listen", "-o", "jsonl"]);
    let ctx = Context::new(line.global, env, Arc::new(Console::new(Manner::default())), false).expect("a context");
    let folder = Folder::open(&home.path().join("kept")).expect("a folder");

    let signer = Verifier::new([WebhookSecret::generate(&mut Random::system())]).expect("a secret");
    let (relay, receipts) = Relay::new(signer, None);
    relay.enqueue("evt_1", sample(&EventKind::Conversion, 0).expect("an event").raw);
    let mut source = Source { receipts, notices: None, serving: None };
    let (mut signals, mut heard) = (Signals::listen().expect("signals"), Signals::listen().expect("signals"));
    kill_process(getpid(), Signal::INT).expect("it is sent");
    heard.next().await;
    while source.receipts.is_empty() {
        tokio::task::yield_now().await;
    }

    let outcome = source.follow(&ctx, &line.listen, Some(&folder), &mut signals).await;
    assert!(matches!(outcome, Err(Stop::Exit(Exit::Interrupted))), "{outcome:?}");
    let kept = std::fs::read_dir(home.path().join("kept")).expect("a folder").count();
    assert_eq!(kept, 2, "its body and its headers");
}
