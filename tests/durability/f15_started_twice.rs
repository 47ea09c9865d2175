//! F15: two processes on one SQLite file.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::home::Home;
use crate::journal::Kind;
use crate::load::{Client, Load, Mix};
use crate::locker::Locker;
use crate::machine::{alone, seed};
use crate::node::Node;
use crate::wire::{Fate, Request, Wire};
use crate::{oracle, store};
use deeplink_doubles::meter::Meter;
use deeplink_doubles::wait::{PATIENCE, eventually};

/// A change by an operator's command takes effect within this time.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);
/// After this time a write of the server is refused.
const DEADLINE: Duration = Duration::from_secs(2);

/// F15, N3: beside a busy server a second one on the same file is refused with the first one's process number, and so
/// are the other commands that need exclusive use of the file. All other operator's commands work, and their changes
/// take effect. The first server is not affected, and its file can be served again as soon as it is dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f15_a_second_server_is_told_who_holds_the_file_and_operators_work_beside_it() {
    let _alone = alone();
    let seed = seed();
    let home = Home::with_file().await;
    let meter = Meter::start(home.beside("page"));
    let node = Node::start(&home).await;
    let mut shown = Client::new(&home, &node, seed, 0, Mix::CREATE);
    shown.prepare(1).await;
    let link = shown.journal.links.keys().next().expect("a link").clone();
    let copy = home.beside("copy.db");
    let copy = copy.to_str().expect("a path in UTF-8");
    let began = Instant::now();
    let load = Load::start((1..=8).map(|number| Client::new(&home, &node, seed, number, Mix::ALL)).collect());

    let holder = format!("in use by process {}", node.pid());
    for command in [&["serve"][..], &["migrate"], &["restore", copy]] {
        // There must be something to restore from.
        if command[0] == "restore" {
            assert!(home.operator(&["backup", copy]).await.status.success());
        }
        let second = home.operator(command).await;
        let said = String::from_utf8_lossy(&second.stderr);
        assert!(!second.status.success() && said.contains(&holder), "{command:?}: {} {said}", second.status);
    }
    home.account("second@example.com").await;
    for command in [&["check"][..], &["link", "disable", &link, "--reason", "test"]] {
        let done = home.operator(command).await;
        assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    let disabled = Instant::now();
    let shown_after = eventually("the disabled link does not redirect", PATIENCE, || async {
        let fate = Wire::to(node.address).send(&Request::get(format!("/r/{link}")).header("accept", "text/html")).await;
        let is_gone = matches!(&fate, Fate::Answered(answer) if answer.status == 410);
        if is_gone { Ok(()) } else { Err(format!("{fate:?}")) }
    })
    .await;

    let shown_after = shown_after.saturating_sub(meter.lost(disabled, Instant::now()));
    assert!(shown_after <= SHOWN_WITHIN, "{shown_after:?}");

    load.go_on(100, &[Kind::Write]).await;
    let mut clients = load.end().await;
    // A command's commit that waits for the disk delays the server's writes: only a stalled disk excuses that.
    let stalled = meter.worst(began, Instant::now()) > DEADLINE / 4;
    for client in &clients {
        assert!(client.journal.acknowledged > 0, "a client could not write");
        assert!(client.journal.cut.is_empty(), "{:?}", client.journal.cut);
        let refusals = &client.journal.refusals;
        assert!(refusals.is_empty() || stalled && refusals.iter().all(|code| code == "overloaded"), "{refusals:?}");
    }
    node.kill().await;
    let node = Node::start(&home).await;
    store::wait_for_clicks(&home, &node).await;
    clients.push(shown);
    oracle::judge(&mut clients, &store::read(&home.database).await).assert_clean("after both");
    node.stop().await;
}

/// F15: an operator's command waits for the lock however long another process holds it, where a write of the server
/// would be refused: no request waits for the command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f15_an_operators_command_waits_longer_than_a_write_of_the_server() {
    // It measures nothing and mostly waits, so it does not take the machine's lock.
    let home = Home::with_file().await;
    let locker = Locker::lock(&home.database).await;
    let made = tokio::spawn({
        let mut command = home.command();
        command.args(["tenant", "create", "--email", "second@example.com", "--json"]);
        async move { command.output().await.expect("the server's program runs") }
    });
    sleep(DEADLINE + Duration::from_secs(2)).await;
    assert!(!made.is_finished(), "the command did not wait");
    locker.release().await;
    let made = made.await.expect("the command ends");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
