//! F16: the process is asked to stop.

use std::time::Duration;

use deeplink_core::secret::Random;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::home::Home;
use crate::journal::Kind;
use crate::load::{Client, Load, Mix};
use crate::machine::{alone, say, seed};
use crate::node::Node;
use crate::wire::{Fate, Request, Wire};
use crate::{oracle, store};
use deeplink_doubles::meter::Meter;
use deeplink_doubles::wait::PATIENCE;

const CLIENTS: u64 = 64;
/// The limit from the signal until `/ready` says so, which tells a load balancer to go elsewhere.
const UNREADY_WITHIN: Duration = Duration::from_millis(500);
/// Without a client that hangs.
const STOPPED_WITHIN: Duration = Duration::from_secs(4);
/// With a client that hangs.
const CUT_WITHIN: Duration = Duration::from_secs(10);
/// From a second signal; waiting clicks are stored first, which may take two seconds.
const AT_ONCE: Duration = Duration::from_secs(3);

/// The kind of stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// No client hangs.
    Plain,
    /// A client hangs in the middle of a request.
    BesideHung,
    /// A client hangs, and the operator does not wait for it.
    Twice,
}

/// F16: five stops at full load. `/ready` is 503 at once or refused, no admitted request is cut off, and the process
/// exits successfully: soon, within ten seconds if a client hangs, and at once on a second signal. Every acknowledged
/// write and the click of every redirect is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f16_five_stops_at_full_load_cut_no_admitted_request_and_lose_nothing() {
    let _alone = alone();
    let seed = seed();
    let mut random = Random::seeded(seed);
    let home = Home::new().await;
    let meter = Meter::start(home.beside("page"));
    let mut node = Node::start(&home).await;
    let mut clients: Vec<_> = (0..CLIENTS).map(|number| Client::new(&home, &node, seed, number, Mix::ALL)).collect();
    for stop in [Stop::Plain, Stop::Twice, Stop::Plain, Stop::BesideHung, Stop::Plain] {
        let hung = match stop {
            Stop::Plain => None,
            _ => Some(hang(&home, &node).await),
        };
        let load = Load::start(clients);
        // At another moment each time.
        let writes = 600 + usize::try_from(random.below(600)).expect("a count");
        load.go_on(writes, &[Kind::Write]).await;
        let (watching, asked) = watch_ready(&node);
        // Before the signal it has been answered, or has ended.
        drop(asked.await);
        let signalled = Instant::now();
        node.terminate();
        let unready = watching.await.expect("the watch finishes").duration_since(signalled);
        clients = load.gone().await;
        let gone = Instant::now();
        let limit = match stop {
            Stop::Plain => STOPPED_WITHIN,
            Stop::BesideHung => CUT_WITHIN,
            Stop::Twice => {
                assert!(!node.has_ended(), "it does not wait for the hung client");
                node.terminate();
                AT_ONCE
            }
        };
        let ended = node.ended(PATIENCE).await;
        let lost = meter.lost(signalled, Instant::now());
        say(&format!(
            "{stop:?}: unready after {unready:?}, the last client gone after {:?}, ended after {:?}, {lost:?} lost",
            gone - signalled,
            signalled.elapsed()
        ));
        assert!(ended.success(), "{stop:?}: {ended}");
        assert!(gone.elapsed() <= limit + lost, "{stop:?}: {:?} after the last client", gone.elapsed());
        assert!(signalled.elapsed() <= CUT_WITHIN + lost, "{stop:?}: {:?}", signalled.elapsed());
        assert!(unready <= UNREADY_WITHIN + lost, "{stop:?}: /ready said yes for another {unready:?}");
        drop(hung);
        for client in &mut clients {
            let cut: Vec<_> = client.journal.cut.drain(..).collect();
            assert!(cut.is_empty(), "{stop:?}: a request was cut: {cut:?}");
        }

        node = Node::start(&home).await;
        store::wait_for_clicks(&home, &node).await;
        let found = store::read(&home.database).await;
        oracle::judge(&mut clients, &found).assert_clean(&format!("{stop:?}"));
        for client in &mut clients {
            client.turn_to(&node);
        }
    }
    node.stop().await;
    let acknowledged: usize = clients.iter().map(|client| client.journal.acknowledged).sum();
    say(&format!("{acknowledged} acknowledged writes"));
    assert!(acknowledged >= 1_000, "there was too little load");
}

/// A client that begins a request and never ends it.
async fn hang(home: &Home, node: &Node) -> TcpStream {
    let mut socket = TcpStream::connect(node.address).await.expect("the server accepts");
    let request = format!(
        "POST /v1/links HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{{",
        node.address, home.key
    );
    socket.write_all(request.as_bytes()).await.expect("the server reads");
    socket
}

/// Polls whether the server is ready and returns the moment of the first no. Also reports the first yes.
fn watch_ready(node: &Node) -> (JoinHandle<Instant>, oneshot::Receiver<()>) {
    let address = node.address;
    let (yes, asked) = oneshot::channel();
    let watching = tokio::spawn(async move {
        let mut yes = Some(yes);
        let mut wire = Wire::to(address);
        loop {
            match wire.send(&Request::get("/ready")).await {
                Fate::Answered(answer) if answer.status == 200 => {
                    if let Some(yes) = yes.take() {
                        let _ = yes.send(());
                    }
                    sleep(Duration::from_millis(5)).await;
                }
                Fate::Answered(answer) => {
                    assert_eq!((answer.status, &*answer.code()), (503, "database_unavailable"));
                    return Instant::now();
                }
                // A request sent while an idle connection is being closed gets no answer either.
                Fate::TurnedAway | Fate::Cut(_) => return Instant::now(),
            }
        }
    });
    (watching, asked)
}
