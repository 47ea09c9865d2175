//! F12: the worst possible receivers, and what it costs the process to keep retrying them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::hooked::Hooked;
use crate::machine::{alone, say};
use crate::node::Node;
use crate::wire::{Fate, Request, Wire};
use deeplink_doubles::receiver::Say;
use deeplink_doubles::wait::eventually;

const MIB: u64 = 1 << 20;
/// Far longer than a debug build takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// What the receiver does at a path: one kind of failure for each webhook, and one that accepts everything.
fn speaks(path: &str) -> Say {
    let head = |text: &str| text.as_bytes().to_vec();
    match path {
        "/hangs" => Say::Nothing,
        "/drips" => Say::Endless(head("HTTP/1.1 200 OK\r\n"), head("x"), Duration::from_millis(100)),
        "/floods" => Say::Endless(
            head("HTTP/1.1 500 No\r\nContent-Length: 10000000000\r\n\r\n"),
            vec![b'x'; 8_192],
            Duration::ZERO,
        ),
        "/closes" => Say::Close,
        "/fails" => Say::Status(500),
        "/leads-on" => {
            Say::Bytes(head("HTTP/1.1 301 Moved\r\nLocation: https://127.0.0.2/\r\nContent-Length: 0\r\n\r\n"))
        }
        _ => Say::Status(204),
    }
}

/// An account with a link.
struct Account {
    key: String,
    link: String,
}

impl Account {
    async fn new(key: String, at: SocketAddr) -> Self {
        let mut account = Self { key, link: String::new() };
        let made = account.ask(at, "/v1/links", &json!({"web_url": "https://example.com/"}), 201).await;
        made["link_id"].as_str().expect("an id").clone_into(&mut account.link);
        account
    }

    fn request(&self, path: &str, body: &Value) -> Request {
        Request::new("POST", path).header("authorization", &format!("Bearer {}", self.key)).json(body)
    }

    async fn ask(&self, at: SocketAddr, path: &str, body: &Value, status: u16) -> Value {
        match Wire::to(at).send_until_taken(&self.request(path, body)).await {
            Fate::Answered(answer) if answer.status == status => answer.json(),
            fate => panic!("{path}: {fate:?}"),
        }
    }

    /// Reports touches over four connections, sequentially on each.
    async fn touch(self: &Arc<Self>, at: SocketAddr, name: &str, count: usize) {
        const CLIENTS: usize = 4;
        let clients = (0..CLIENTS).map(|client| {
            let (account, name) = (Arc::clone(self), name.to_owned());
            tokio::spawn(async move {
                let mut wire = Wire::to(at);
                for nth in (client..count).step_by(CLIENTS) {
                    let install = format!("{name}-{nth}");
                    let touch = json!({"link_id": account.link, "install_id": install, "app_version": "1.0"});
                    let fate = wire.send_until_taken(&account.request("/v1/lifecycle/attribute", &touch)).await;
                    assert!(matches!(&fate, Fate::Answered(answer) if answer.status == 200), "{fate:?}");
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.expect("a client finishes");
        }
    }
}

/// The process's memory in bytes: now, and at its peak.
fn memory(node: &Node) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).expect("the process's status");
    let figure = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a figure");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1_024
    };
    (figure("VmRSS:"), figure("VmHWM:"))
}

/// F12: 2,000 events for seven webhooks of four accounts. Six receivers hang, drip, flood, disconnect, fail or
/// redirect; the seventh gets its events meanwhile, and the process takes at most 64 MiB more than before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f12_what_bad_receivers_take_in_memory_is_bounded() {
    const EACH: usize = 500;
    const WARM: usize = 50;
    let _alone = alone();
    let posts = Arc::<Mutex<HashMap<String, usize>>>::default();
    let is_bad = Arc::<std::sync::atomic::AtomicBool>::default();
    let (hooked, node) = Hooked::new({
        let (posts, is_bad) = (Arc::clone(&posts), Arc::clone(&is_bad));
        move |heard, _| {
            *posts.lock().expect("a list").entry(heard.path.clone()).or_default() += 1;
            if is_bad.load(std::sync::atomic::Ordering::Relaxed) { speaks(&heard.path) } else { Say::Status(204) }
        }
    })
    .await;
    let mut accounts = Vec::new();
    for (nth, paths) in [&["/hangs", "/floods"][..], &["/drips", "/closes"], &["/fails", "/leads-on"], &["/takes"]]
        .into_iter()
        .enumerate()
    {
        let key = hooked.home.account(&format!("receiver-{nth}@example.com")).await;
        let account = Account::new(key, node.address).await;
        for path in paths {
            let body = json!({"url": hooked.receiver.url("127.0.0.2", path), "events": ["attribute"]});
            account.ask(node.address, "/v1/webhooks", &body, 201).await;
        }
        accounts.push(Arc::new(account));
    }
    let heard = |path: &str| posts.lock().expect("a list").get(path).copied().unwrap_or_default();
    let have_heard = async |all: &[(&str, usize)]| {
        eventually("the receivers have enough attempts", PATIENCE, || async {
            let fewer: Vec<_> = all.iter().filter(|(path, least)| heard(path) < *least).collect();
            if fewer.is_empty() { Ok(()) } else { Err(format!("{fewer:?} of {:?}", posts.lock().expect("a list"))) }
        })
        .await
    };
    // From here on the process has the memory that any delivery needs.
    for account in &accounts {
        account.touch(node.address, "warm", WARM).await;
    }
    let all = ["/hangs", "/floods", "/drips", "/closes", "/fails", "/leads-on", "/takes"];
    have_heard(&all.map(|path| (path, WARM))).await;
    let (before, _) = memory(&node);
    is_bad.store(true, std::sync::atomic::Ordering::Relaxed);
    let began = std::time::Instant::now();
    futures_util::future::join_all(accounts.iter().map(|account| account.touch(node.address, "bad", EACH))).await;
    // Those that answer have got every event, and each of the others the number of concurrent attempts.
    let (some, all) = (WARM + 8, WARM + EACH);
    have_heard(&[("/takes", all), ("/fails", all), ("/leads-on", all)]).await;
    have_heard(&[("/hangs", some), ("/floods", some), ("/drips", some), ("/closes", some)]).await;
    let (after, most) = memory(&node);
    let heard = posts.lock().expect("a list").clone();
    say(&format!(
        "{} MiB before, {} after {:?}, {} at most; {heard:?}",
        before / MIB,
        after / MIB,
        began.elapsed(),
        most / MIB
    ));
    assert!(most <= before + 64 * MIB, "{} MiB more", (most - before) / MIB);
    node.stop().await;
}
