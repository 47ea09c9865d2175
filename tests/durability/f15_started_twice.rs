//! F15: two processes on one SQLite file.

use std::time::Duration;

use crate::home::Home;
use crate::load::{Client, Load, Mix};
use crate::machine::{alone, eventually, seed};
use crate::node::Node;
use crate::wire::{Fate, Request, Wire};
use crate::{oracle, store};

/// A change by an operator's command shows within this time.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);

/// F15, N3: beside a busy server a second one on the same file is refused with the first one's process number, and so
/// are the other commands that want the file for themselves. All other operator's commands work; what they change
/// shows. The first server notices nothing, and its file can be served again as soon as it is dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f15_a_second_server_is_told_who_holds_the_file_and_operators_work_beside_it() {
    let _alone = alone();
    let seed = seed();
    let home = Home::with_file().await;
    let node = Node::start(&home).await;
    let mut shown = Client::new(&home, &node, seed, 0, Mix::CREATE);
    shown.prepare(1).await;
    let link = shown.journal.links.keys().next().expect("a link").clone();
    let copy = home.beside("copy.db");
    let copy = copy.to_str().expect("a path in UTF-8");
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
    eventually("the disabled link leads nowhere", SHOWN_WITHIN, || async {
        let fate = Wire::to(node.address).send(&Request::get(format!("/r/{link}")).header("accept", "text/html")).await;
        let is_gone = matches!(&fate, Fate::Answered(answer) if answer.status == 410);
        if is_gone { Ok(()) } else { Err(format!("{fate:?}")) }
    })
    .await;

    let mut clients = load.end().await;
    for client in &clients {
        assert!(client.journal.acknowledged > 0, "a client could not write");
        assert!(client.journal.cut.is_empty() && client.journal.refusals.is_empty(), "{:?}", client.journal.refusals);
    }
    node.kill().await;
    let node = Node::start(&home).await;
    store::wait_for_spilled(&home, SHOWN_WITHIN).await;
    clients.push(shown);
    oracle::judge(&mut clients, &store::read(&home.database).await).assert_clean("after both");
    node.stop().await;
}
