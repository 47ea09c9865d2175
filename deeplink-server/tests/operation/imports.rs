//! Imports by `dl` through a gateway, at whose requests the client, the server or both are killed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use deeplink_doubles::machine;
use serde_json::Value;

use crate::process::{Home, PATIENCE, Server};

const ROWS: usize = 2_400;
/// Requests that pass before one is held.
const PASS: usize = 1;

/// When the held request is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// The server does not get it.
    Before,
    /// The server has carried it out, and the client does not get the answer.
    After,
}

/// Who is killed while a request is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Client,
    Server,
    Both,
}

const DEATHS: [(When, Victim); 6] = [
    (When::Before, Victim::Client),
    (When::After, Victim::Client),
    (When::Before, Victim::Server),
    (When::After, Victim::Server),
    (When::Before, Victim::Both),
    (When::After, Victim::Both),
];

/// Between `dl` and the server: it holds one request for links, and the others while that is held or the server is away.
struct Gateway {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Default)]
struct Now {
    /// Where the server listens; none while there is none.
    server: Option<SocketAddr>,
    /// How many requests pass before one is held, and when that is cut.
    next: Option<(usize, When)>,
    is_held: bool,
    releases: usize,
}

impl State {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("no thread panicked here")
    }

    fn change(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.now());
        self.changed.notify_all();
    }

    fn wait(&self, what: &str, until: impl Fn(&Now) -> bool) -> MutexGuard<'_, Now> {
        self.wait_from(self.now(), what, until)
    }

    fn wait_from<'a>(
        &'a self,
        now: MutexGuard<'a, Now>,
        what: &str,
        until: impl Fn(&Now) -> bool,
    ) -> MutexGuard<'a, Now> {
        let waited = self.changed.wait_timeout_while(now, PATIENCE, |now| !until(now));
        let (now, limit) = waited.expect("no thread panicked here");
        assert!(!limit.timed_out(), "{what}");
        now
    }

    /// Whether a request for links is the one to hold.
    fn counted(&self) -> Option<When> {
        let mut now = self.wait("the held request is released", |now| !now.is_held);
        let (left, when) = now.next?;
        now.next = left.checked_sub(1).map(|left| (left, when));
        (left == 0).then_some(when)
    }

    /// Holds a request until the next release.
    fn hold(&self) {
        let mut now = self.now();
        now.is_held = true;
        let releases = now.releases;
        self.changed.notify_all();
        drop(self.wait_from(now, "the test goes on", |now| now.releases != releases));
    }

    /// Carries a request that came on a connection; an error closes it.
    fn carry(&self, mut client: TcpStream) -> std::io::Result<()> {
        let request = read_request(&mut client)?;
        let when = if request.starts_with(b"POST /v1/links/bulk ") { self.counted() } else { None };
        if when == Some(When::Before) {
            self.hold();
            return Ok(());
        }
        let address = self.wait("the server comes back", |now| now.server.is_some()).server;
        let mut server = TcpStream::connect(address.expect("it was there"))?;
        server.write_all(&request)?;
        let mut answer = Vec::new();
        server.read_to_end(&mut answer)?;
        if when == Some(When::After) {
            if answer.starts_with(b"HTTP/1.1 201 ") {
                self.hold();
                return Ok(());
            }
            // It was refused for a moment; the next one is held.
            self.change(|now| now.next = Some((0, When::After)));
        }
        client.write_all(&answer)
    }
}

/// Reads a request, and asks for the end of the connection after its answer.
fn read_request(client: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let (mut read, mut buffer) = (Vec::new(), [0; 16 << 10]);
    loop {
        let count = client.read(&mut buffer)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        read.extend_from_slice(&buffer[..count]);
        let Some(end) = read.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.map_or(0, |length| length.trim().parse().expect("a length"));
        if read.len() >= end + 4 + length {
            drop(read.splice(end..end, *b"\r\nConnection: close"));
            return Ok(read);
        }
    }
}

impl Gateway {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, state) = (listener.local_addr().expect("an address"), Arc::<State>::default());
        let gateway = Self { address, state: Arc::clone(&state) };
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                // A connection that is cut closes the other one.
                std::thread::spawn(move || state.carry(client));
            }
        });
        gateway
    }

    fn lead_to(&self, server: Option<SocketAddr>) {
        self.state.change(|now| now.server = server);
    }

    fn hold_next(&self, when: When) {
        self.state.change(|now| now.next = Some((PASS, when)));
    }

    fn wait_until_held(&self) {
        drop(self.state.wait("a request is held", |now| now.is_held && now.next.is_none()));
    }

    fn release(&self) {
        self.state.change(|now| (now.is_held, now.releases) = (false, now.releases + 1));
    }
}

/// A user of `dl`, with an account that has a domain.
struct User {
    folder: PathBuf,
    url: String,
    key: String,
}

impl User {
    fn new(home: &Home, gateway: &Gateway, name: &str, file: &str) -> Self {
        let folder = home.path(name);
        std::fs::create_dir(&folder).expect("a directory");
        std::fs::write(folder.join("links.csv"), file).expect("a file");
        let key = home.key(&format!("{name}@example.com"));
        Self { folder, url: format!("http://{}", gateway.address), key }
    }

    fn command(&self, line: &str) -> Command {
        let program = machine::program("dl");
        assert!(program.is_file(), "{} is missing: cargo build -p deeplink-cli", program.display());
        let mut command = Command::new(program);
        command.args(line.split(' ')).current_dir(&self.folder).env_clear().stdin(Stdio::null());
        command.env("HOME", &self.folder).env("DL_KEYRING", "off");
        command.env("DL_CONFIG_DIR", self.folder.join("config")).env("DL_STATE_DIR", self.folder.join("state"));
        command.env("DL_BASE_URL", &self.url).env("DL_API_KEY", &self.key);
        command
    }

    fn run(&self, line: &str) -> String {
        let ran = self.command(line).output().expect("dl starts");
        assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("UTF-8")
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(line)).expect("JSON")
    }

    fn begin(&self, import: &str) -> Child {
        let mut command = self.command(&format!("{import} --concurrency 2"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("dl starts")
    }

    /// What the account's links contain, by ID.
    fn links(&self) -> BTreeMap<String, [Value; 4]> {
        let listed = self.run("links list --all -o jsonl");
        let links = listed.lines().map(|line| {
            let link: Value = serde_json::from_str(line).expect("JSON");
            let id = link["link_id"].as_str().expect("an ID").to_owned();
            (id, ["web_url", "tags", "aliases", "metadata"].map(|field| link[field].clone()))
        });
        let by_id: BTreeMap<_, _> = links.collect();
        assert_eq!(by_id.len(), listed.lines().count(), "an ID is listed twice");
        by_id
    }
}

fn restart(home: &Home, gateway: &Gateway, mut server: Server) -> Server {
    gateway.lead_to(None);
    server.child.kill().expect("it runs");
    server.wait();
    let server = home.serve();
    gateway.lead_to(Some(server.address));
    server
}

/// Imports a file through all [`DEATHS`]; then the account has the same links as one whose import was not interrupted.
fn survives(import: &str, file: &str) {
    let (mut home, gateway) = (Home::new(), Gateway::open());
    home.set("DEEPLINK_PUBLIC_URL", format!("http://{}", gateway.address));
    let [user, other] = ["user", "other"].map(|name| User::new(&home, &gateway, name, file));
    let mut server = home.serve();
    gateway.lead_to(Some(server.address));
    user.run("domains add user.localhost");
    other.run("domains add other.localhost");

    gateway.hold_next(DEATHS[0].0);
    let mut dl = user.begin(import);
    for (number, (when, victim)) in DEATHS.into_iter().enumerate() {
        gateway.wait_until_held();
        assert!(dl.try_wait().expect("its state").is_none(), "{when:?} {victim:?}: the import has ended");
        if victim != Victim::Server {
            dl.kill().expect("it runs");
            dl.wait().expect("it has ended");
        }
        if victim != Victim::Client {
            server = restart(&home, &gateway, server);
        }
        let next = DEATHS.get(number + 1);
        if let Some((when, _)) = next {
            gateway.hold_next(*when);
        }
        gateway.release();
        if victim != Victim::Server && next.is_some() {
            dl = user.begin(import);
        }
    }
    assert_ne!(user.run("imports list --fields state"), "finished\n", "it was interrupted each time");

    let ended = user.json(&format!("{import} -o json"));
    let count = |summary: &Value, of: &str| summary[of].as_u64().expect("a count");
    assert_eq!(count(&ended, "created") + count(&ended, "existed"), ROWS as u64, "{ended}");
    assert_eq!(user.run("imports list --fields state"), "finished\n");
    let again = user.json(&format!("{import} -o json"));
    assert_eq!((count(&again, "existed"), count(&again, "created")), (ROWS as u64, 0), "{again}");

    let whole = other.json(&format!("{import} -o json"));
    assert_eq!(count(&whole, "created"), ROWS as u64, "{whole}");
    let (links, expected) = (user.links(), other.links());
    assert_eq!(links.len(), ROWS);
    assert!(links == expected, "the links differ from those of an import without interruptions");
    server.stop();
}

/// Rows with IDs of their own and generated ones, with tags and aliases, and rows that share a template.
#[test]
fn an_import_that_is_killed_on_either_side_ends_exact() {
    let mut file = "custom_id,web_url,tags,aliases\n".to_owned();
    for row in 0..ROWS {
        let line = match row % 3 {
            0 => writeln!(
                file,
                "row-{row:05},https://example.com/p/{row},\"spring,t{}\",\"Old_{row},l/{row}/x\"",
                row % 7
            ),
            1 => writeln!(file, ",https://example.com/p/{row},\"t{}\",made_{row}", row % 5),
            _ => writeln!(file, "row-{row:05},https://example.com/all,poster,"),
        };
        line.expect("a string");
    }
    survives("links import links.csv --generate-ids", &file);
}

/// The same for another service's export, whose short links become IDs and aliases.
#[test]
fn an_import_of_an_export_that_is_killed_on_either_side_ends_exact() {
    let mut file = "Short URL,Destination,Tags\n".to_owned();
    for row in 0..ROWS {
        let path = match row % 3 {
            0 => format!("row-{row:05}"),
            1 => format!("l/row-{row:05}"),
            _ => format!("old_{row}"),
        };
        writeln!(file, "https://go.example.com/{path},https://example.com/p/{row},\"spring,t{}\"", row % 7)
            .expect("a string");
    }
    survives("import --from csv links.csv --last-segment --generate-ids", &file);
}
