//! One world: a server or several nodes, a database, a clock that the test moves, and the people of `security.md`:
//! tenants A and B, affiliates of theirs, and nobody.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deeplink_core::id::SessionId;
use deeplink_core::secret::{Random, SecretKey, Token};
use deeplink_core::session::SESSION_SECS;
use deeplink_core::time::Timestamp;
use deeplink_server::clock::Clock;
use deeplink_server::config::Config;
use deeplink_server::country::CountrySource;
use deeplink_server::http::listen::{Limits, Stop};
use deeplink_server::start::{Running, StartError, start_with};
use deeplink_server::vault::sealed_columns;
use http::HeaderName;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpSocket;

use super::ask::Watched;
use super::caller::{Caller, Node};
use super::database::Database;
use super::leaks::Secrets;
use super::template::{self, BEGIN, Seeds};
use deeplink_doubles::dns::Dns;
use deeplink_doubles::machine;
use deeplink_doubles::wait::{PATIENCE, eventually};

/// What a domain is for.
#[derive(Debug, Clone, Copy)]
pub enum Role {
    /// The host of a tenant's links.
    Primary,
    /// The host that opens apps.
    Alternate,
}

/// All callers in a test share one address, like the clients of a reverse proxy.
fn limits() -> Limits {
    Limits::default().without_shares()
}

/// Everything that belongs to one test.
pub struct World {
    /// Tenant A.
    pub a: Caller,
    /// Tenant B.
    pub b: Caller,
    /// A's affiliates.
    pub a1: Caller,
    /// Another affiliate of A's.
    pub a2: Caller,
    /// B's affiliate.
    pub b1: Caller,
    /// A caller without a credential.
    pub nobody: Caller,
    /// The server's clock.
    pub clock: Clock,
    /// Direct access to the database.
    pub db: Database,
    /// The name server.
    pub dns: Dns,
    secrets: Arc<Secrets>,
    config: Config,
    /// `None` while a node is stopped.
    nodes: Vec<Option<Arc<Running>>>,
    home: TempDir,
    /// Keeps the first node's port from others while the node is away.
    port: TcpSocket,
}

/// A world with one server and default settings; no limit by address.
pub async fn spawn() -> World {
    spawn_with(|_| {}).await
}

/// A world whose settings the test changes first.
pub async fn spawn_with(adjust: impl Fn(&mut Config)) -> World {
    make(1, adjust).await
}

/// For [`spawn_with`]: the header `cf-ipcountry` tells the country of a visitor.
pub fn told_countries(config: &mut Config) {
    config.country = Some(CountrySource::Header(HeaderName::from_static("cf-ipcountry")));
    config.trusted_proxies = vec![IpAddr::from([127, 0, 0, 1]).into()];
}

/// A world with `n` nodes on one database. A SQLite file has one server, so there every node is that one.
pub async fn spawn_nodes(n: usize) -> World {
    make(n, |_| {}).await
}

/// As [`spawn_nodes`], with settings that the test changes first.
pub async fn spawn_nodes_with(n: usize, adjust: impl Fn(&mut Config)) -> World {
    make(n, adjust).await
}

async fn make(nodes: usize, adjust: impl Fn(&mut Config)) -> World {
    let seeds = Seeds::new();
    let secrets = Arc::new(Secrets::new());
    for key in [&seeds.a.key, &seeds.b.key].into_iter().chain(seeds.a.affiliates.iter().map(|(_, key)| key)) {
        secrets.note(key.expose());
    }
    secrets.note(&seeds.master);
    let home = machine::directory();
    let db = template::fresh(&seeds, home.path()).await;
    if let Some(password) = db.postgres_url().and_then(|url| url::Url::parse(url).ok()?.password().map(str::to_owned)) {
        secrets.note(&password);
    }
    let clock = Clock::fixed(Timestamp::from_millis(BEGIN));
    let mut config = Config::for_tests(home.path());
    config.database = db.url();
    config.master_keys = vec![seeds.master_key()];
    let dns = Dns::start().await;
    config.dns_server = Some(dns.address());
    let port = a_port();
    config.listen = port.local_addr().expect("an address");
    adjust(&mut config);
    let mut running = Vec::new();
    for _ in 0..if db.is_postgres() { nodes } else { 1 } {
        if nodes > 1 {
            // Nodes of one service share its address and nothing else but the database.
            config.public_url = Some("http://localhost".parse().expect("a URL"));
            config.data_dir = home.path().join(format!("node-{}", running.len()));
        }
        let node = start_with(config.clone(), clock.clone(), limits()).await.expect("the server starts");
        running.push(Arc::new(node));
        config.listen.set_port(0);
    }
    // What was read while the server started is now read again.
    clock.advance(Duration::from_millis(10));
    let first = Node { watched: Watched::new(Arc::clone(&secrets)), base: format!("http://{}", running[0].address) };
    let nodes = (0..nodes).map(|at| Some(Arc::clone(&running[at % running.len()]))).collect();
    let [a1, a2] = [0, 1].map(|at| seeds.a.affiliates[at].clone());
    let [b1] = [0].map(|at| seeds.b.affiliates[at].clone());
    let (of_a, of_b) = (&seeds.a.tenant, &seeds.b.tenant);
    World {
        a: Caller::new(&first, Some(seeds.a.key.clone()), of_a, None),
        b: Caller::new(&first, Some(seeds.b.key.clone()), of_b, None),
        a1: Caller::new(&first, Some(a1.1), of_a, Some(a1.0)),
        a2: Caller::new(&first, Some(a2.1), of_a, Some(a2.0)),
        b1: Caller::new(&first, Some(b1.1), of_b, Some(b1.0)),
        nobody: Caller::new(&first, None, of_a, None),
        clock,
        db,
        dns,
        secrets,
        config,
        nodes,
        home,
        port,
    }
}

/// A port where a server can be restarted, and which no other process gets in between.
fn a_port() -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("a port can be shared");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    socket
}

async fn stop(node: Option<Arc<Running>>, how: Stop) {
    if let Some(node) = node.and_then(Arc::into_inner) {
        node.ask_to_stop(how);
        node.stopped().await;
    }
}

impl World {
    /// The data directory.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// A running node.
    pub fn node(&self, at: usize) -> &Running {
        self.nodes[at].as_ref().expect("the node runs")
    }

    /// Stops the server as an operator would, and starts it again at the same address with settings that `adjust` changes.
    pub async fn restart(&mut self, adjust: impl Fn(&mut Config)) {
        self.restart_after(Stop::Gracefully, adjust).await;
    }

    /// The same without waiting for work in progress, as if the process had died.
    pub async fn restart_at_once(&mut self) {
        self.restart_after(Stop::AtOnce, |_| {}).await;
    }

    async fn restart_after(&mut self, how: Stop, adjust: impl Fn(&mut Config)) {
        for node in std::mem::take(&mut self.nodes) {
            stop(node, how).await;
        }
        let mut config = self.config.clone();
        config.listen = self.port.local_addr().expect("an address");
        adjust(&mut config);
        let node = self.start(&config).await.unwrap_or_else(|error| panic!("the server does not start again: {error}"));
        self.config = config;
        self.nodes = vec![Some(node)];
        self.clock.advance(Duration::from_millis(10));
    }

    /// Stops one node as an operator would. On SQLite it is the only one.
    pub async fn stop_node(&mut self, at: usize) {
        for other in 0..self.nodes.len() {
            if other == at || !self.db.is_postgres() {
                stop(self.nodes[other].take(), Stop::Gracefully).await;
            }
        }
    }

    /// Starts a stopped node, with settings that `adjust` changes for it alone; the error says why it refuses its
    /// master keys.
    pub async fn start_node(&mut self, at: usize, adjust: impl Fn(&mut Config)) -> Result<(), String> {
        let mut config = self.config.clone();
        config.listen = self.port.local_addr().expect("an address");
        if self.nodes.len() > 1 {
            config.data_dir = self.home.path().join(format!("node-{}", if self.db.is_postgres() { at } else { 0 }));
        }
        if at > 0 {
            config.listen.set_port(0);
        }
        adjust(&mut config);
        let node = self.start(&config).await?;
        let is_shared = !self.db.is_postgres();
        for (_, place) in self.nodes.iter_mut().enumerate().filter(|(other, _)| is_shared || *other == at) {
            *place = Some(Arc::clone(&node));
        }
        self.clock.advance(Duration::from_millis(10));
        Ok(())
    }

    async fn start(&self, config: &Config) -> Result<Arc<Running>, String> {
        // For another process the file would be free; in this one, the last connections may take a moment to close.
        const PAUSE: Duration = Duration::from_millis(20);
        let mut left = PATIENCE;
        loop {
            match start_with(config.clone(), self.clock.clone(), limits()).await {
                Ok(node) => return Ok(Arc::new(node)),
                Err(error @ StartError::Keys(_)) => return Err(error.to_string()),
                Err(error) => assert!(!left.is_zero(), "the server does not start again: {error}"),
            }
            tokio::time::sleep(PAUSE).await;
            left = left.saturating_sub(PAUSE);
        }
    }

    /// The same caller at another node.
    pub fn at(&self, node: usize, caller: &Caller) -> Caller {
        let base = format!("http://{}", self.node(node).address);
        Caller::new(
            &Node { watched: caller.node.watched.clone(), base },
            caller.key.clone(),
            &caller.tenant,
            caller.affiliate.clone(),
        )
    }

    /// A caller with this key, which need not exist.
    pub fn somebody_with(&self, key: &str) -> Caller {
        self.secrets.note(key);
        Caller::new(&self.nobody.node, Some(SecretKey::new(key)), &self.a.tenant, None)
    }

    /// Records a secret that must not appear anywhere.
    pub fn note_secret(&self, secret: &str) {
        self.secrets.note(secret);
    }

    /// Signs the owner of an account in; the result is the session's token.
    pub async fn session_of(&self, of: &Caller) -> String {
        let now = self.clock.now();
        let (id, token) = {
            let mut random = Random::system();
            (SessionId::new(now, &mut random), Token::generate(&mut random))
        };
        self.note_secret(token.expose());
        let (tenant, hash, until) = (&of.tenant, token.hash(), now.plus_millis(SESSION_SECS * 1_000));
        let sql = format!(
            "INSERT INTO sessions (id, token_hash, tenant_id, user_id, created_at, expires_at)
             SELECT '{id}', '{hash}', tenant_id, id, {}, {} FROM users WHERE tenant_id = '{tenant}' AND is_owner",
            now.as_millis(),
            until.as_millis()
        );
        self.db.execute(sql).await;
        token.expose().to_owned()
    }

    /// Gives a tenant a verified domain: claims it, writes the proof into DNS as its owner would, and verifies it.
    pub async fn own_domain(&self, of: &Caller, domain: &str, role: Role) {
        let token = self.claim_domain(of, domain, role).await;
        self.dns.txt(&format!("_deeplink-verify.{domain}"), &[&token]);
        // A name server that does not answer in time is asked again.
        for _ in 0..10 {
            let verified = of.post_nothing(&format!("/v1/domains/{domain}/verify")).await;
            assert_eq!(verified.status, 200, "{}", verified.text());
            let said = verified.json();
            if said["verified"] == true {
                return;
            }
            let reason = said["reason"].as_str().unwrap_or_default();
            assert!(reason.starts_with("DNS could not be asked"), "{}", verified.text());
        }
        panic!("{domain} is not verified");
    }

    /// Claims a domain for a tenant; the result is the value that DNS must show.
    pub async fn claim_domain(&self, of: &Caller, domain: &str, role: Role) -> String {
        let role = match role {
            Role::Primary => "primary",
            Role::Alternate => "alternate",
        };
        let claimed = of.post("/v1/domains", &json!({"domain": domain, "role": role})).await;
        assert_eq!(claimed.status, 201, "{}", claimed.text());
        claimed.member("verification_token")
    }

    /// Fails unless these clicks are stored, as pairs of kind (0 human, 1 preview, 2 crawler, 3 agent) and count. A click
    /// may take a moment on a busy machine, so a visit of another link marks the end.
    pub async fn expect_clicks(&self, expected: &[(i64, i64)]) {
        const THE_END: &str = "https://example.com/the-end";
        let id = self.b.make_of(&json!({"web_url": THE_END})).await;
        assert_eq!(self.nobody.tap(&id).await.status, 302);
        let the_end = format!(
            "SELECT CAST(count(*) AS BIGINT) FROM clicks WHERE link IN (SELECT position FROM links WHERE link_id = '{id}')"
        );
        eventually("the last click is stored", PATIENCE, || async { self.db.number(&*the_end).await == 1 }).await;
        let stored = async || self.db.clicks_but_of(THE_END).await;
        eventually(&format!("clicks are {expected:?}"), PATIENCE, || async { stored().await == expected }).await;
    }

    /// Waits until every click that was answered is counted in its hour.
    pub async fn folded(&self) {
        const MISSING: &str = "
            SELECT (SELECT CAST(count(*) AS BIGINT) FROM clicks)
                - (SELECT CAST(COALESCE(sum(clicks), 0) AS BIGINT) FROM click_hours WHERE link > 0)";
        for node in self.nodes.iter().flatten() {
            node.count_clicks().await;
        }
        eventually("every click is counted", PATIENCE, || async { self.db.number(MISSING).await == 0 }).await;
    }

    /// Waits until the background work is done: no mail is on its way, each event has its position, and no expiry is
    /// being lifted.
    pub async fn at_rest(&self) {
        const GOING_ON: &str = "
            SELECT (SELECT CAST(count(*) AS BIGINT) FROM mails)
                + (SELECT CAST(count(*) AS BIGINT) FROM events WHERE position IS NULL)
                + (SELECT CAST(count(*) AS BIGINT) FROM tenants WHERE lifting_since IS NOT NULL)";
        eventually("the background work is done", PATIENCE, || async { self.db.number(GOING_ON).await == 0 }).await;
    }

    /// The files that hold mails, once there are `count`.
    pub async fn mails(&self, count: usize) -> Vec<String> {
        let read = || mails_in(self.home.path());
        eventually("the mails are out", PATIENCE, || async { read().len() >= count }).await;
        read()
    }
}

/// The mails in a world's directory, the oldest first. Each of several nodes writes to its own directory.
pub(crate) fn mails_in(home: &Path) -> Vec<String> {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let homes = entries(home).map(|entry| entry.path()).filter(|path| path.join("mail").is_dir());
    let folders = homes.chain([home.to_owned()]).map(|home| home.join("mail"));
    let files = folders.flat_map(|folder| entries(&folder).map(|entry| entry.path()).collect::<Vec<_>>());
    let mut mails: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind == "eml")).collect();
    mails.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    mails.iter().map(|path| std::fs::read_to_string(path).expect("a mail").replace("=\r\n", "")).collect()
}

/// What follows `token=` in a mail, in quoted-printable or not.
pub fn token_in(mail: &str) -> Option<String> {
    let after = mail.split("token=").nth(1)?;
    let after = after.strip_prefix("3D").unwrap_or(after);
    let token: String = after.chars().take_while(char::is_ascii_hexdigit).collect();
    (token.len() == 64).then_some(token)
}

/// The confirmation code in a mail: a token alone on its line.
pub fn code_in(mail: &str) -> Option<String> {
    let is_code = |line: &&str| line.len() == 6 && line.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    mail.lines().map(str::trim).find(is_code).map(str::to_owned)
}

/// How many values in a row's text are sealed: the id of a key, a dot, and base64 of a nonce, a tag and what is sealed.
fn sealed_values(row: &str) -> usize {
    const SHORTEST: usize = 54;
    let pieces = row.split(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c));
    let is_sealed = |piece: &&str| {
        piece.split_once('.').is_some_and(|(id, text)| {
            id.len() == 8
                && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
                && text.len() >= SHORTEST
                && !text.contains('.')
        })
    };
    pieces.filter(is_sealed).count()
}

/// X17, X18: at the end of each test, no secret is in the logs or in the database, and sealed values are only where a
/// rotation of the master key finds them.
impl Drop for World {
    fn drop(&mut self) {
        let (secrets, db) = (Arc::clone(&self.secrets), self.db.apart());
        for mail in mails_in(self.home.path()) {
            match token_in(&mail) {
                Some(token) => secrets.note(&token),
                // The only mails without a sign-in link.
                None => assert!(
                    ["no longer verified", "was paused", "will be deleted"].iter().any(|word| mail.contains(word))
                        || code_in(&mail).is_some(),
                    "a mail holds a token: {mail}"
                ),
            }
        }
        let panicking = std::thread::panicking();
        let look = std::thread::spawn(move || {
            if !panicking {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                secrets.assert_not_logged();
                runtime.block_on(assert_not_stored(&secrets, &db));
            }
            template::remove(&db);
        });
        let looked = look.join();
        assert!(
            panicking || looked.is_ok(),
            "a secret was found where none may be, or a sealed value where none is looked for"
        );
    }
}

async fn assert_not_stored(secrets: &Secrets, db: &Database) {
    if let Some(file) = db.file() {
        // The file itself: deleted data may still be in it.
        for name in ["deeplink.db", "deeplink.db-wal"] {
            if let Ok(bytes) = std::fs::read(file.with_file_name(name)) {
                assert_eq!(secrets.found_in(&bytes), None, "a secret is in {name}");
            }
        }
    }
    for (table, rows) in db.dump().await {
        assert_eq!(secrets.found_in(rows.join("\n").as_bytes()), None, "a secret is in {table}");
        let columns = sealed_columns().filter(|(known, _)| *known == table).count();
        let unlisted = rows.iter().find(|row| sealed_values(row) > columns);
        assert_eq!(
            unlisted, None,
            "{table} has a column with sealed values that is not among those of the master keys"
        );
    }
}
