//! One world: a server or several nodes, a database, a clock that the test moves, and the people of `security.md`:
//! tenants A and B, affiliates of theirs, and nobody.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deeplink_client::{Client, Links, Public, Retry, Sessions, Webhooks};
use deeplink_core::id::{AffiliateId, SessionId, TenantId};
use deeplink_core::secret::{Random, SecretKey, Token};
use deeplink_core::session::SESSION_SECS;
use deeplink_core::time::Timestamp;
use deeplink_server::clock::Clock;
use deeplink_server::config::Config;
use deeplink_server::http::listen::{Limits, Stop};
use deeplink_server::start::{Running, start_with};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpSocket;

use super::ask::{Ask, Reply, Watched};
use super::database::Database;
use super::dns::Dns;
use super::eventually;
use super::leaks::Secrets;
use super::template::{self, BEGIN, Seeds};

/// How long something behind a reply may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a domain is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    Primary,
    Alternate,
}

/// Everything that one test has to itself.
pub(crate) struct World {
    /// Tenant A.
    pub(crate) a: Caller,
    /// Tenant B.
    pub(crate) b: Caller,
    /// A's affiliates.
    pub(crate) a1: Caller,
    pub(crate) a2: Caller,
    /// B's affiliate.
    pub(crate) b1: Caller,
    /// Somebody without a credential.
    pub(crate) nobody: Caller,
    pub(crate) clock: Clock,
    pub(crate) db: Database,
    /// What the domain name system says.
    pub(crate) dns: Dns,
    secrets: Arc<Secrets>,
    config: Config,
    nodes: Vec<Arc<Running>>,
    home: TempDir,
    /// Keeps the first node's port from others while the node is away.
    _port: TcpSocket,
}

/// A world with one server and default settings; no limit by address.
pub(crate) async fn spawn() -> World {
    spawn_with(|_| {}).await
}

/// A world whose settings the test changes first.
pub(crate) async fn spawn_with(adjust: impl Fn(&mut Config)) -> World {
    make(1, adjust).await
}

/// A world with `n` nodes on one database. A SQLite file has one server, so there every node is that one.
pub(crate) async fn spawn_nodes(n: usize) -> World {
    make(n, |_| {}).await
}

/// As [`spawn_nodes`], with settings that the test changes first.
pub(crate) async fn spawn_nodes_with(n: usize, adjust: impl Fn(&mut Config)) -> World {
    make(n, adjust).await
}

async fn make(nodes: usize, adjust: impl Fn(&mut Config)) -> World {
    let seeds = Seeds::new();
    let secrets = Arc::new(Secrets::new());
    for key in [&seeds.a.key, &seeds.b.key].into_iter().chain(seeds.a.affiliates.iter().map(|(_, key)| key)) {
        secrets.note(key.expose());
    }
    secrets.note(&seeds.master);
    let home = tempfile::tempdir().expect("a directory");
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
        let node = start_with(config.clone(), clock.clone(), Limits::default()).await.expect("the server starts");
        running.push(Arc::new(node));
        config.listen.set_port(0);
    }
    // Whatever was read while the server started is read again from here on.
    clock.advance(Duration::from_millis(10));
    let nodes: Vec<_> = (0..nodes).map(|at| Arc::clone(&running[at % running.len()])).collect();
    let first = Node { watched: Watched::new(Arc::clone(&secrets)), base: format!("http://{}", nodes[0].address) };
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
        _port: port,
    }
}

/// A port that a server can be started at again and again, and that nobody else is given in between.
fn a_port() -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("a port can be shared");
    socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    socket
}

impl World {
    /// The data directory.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A running node.
    pub(crate) fn node(&self, at: usize) -> &Running {
        &self.nodes[at]
    }

    /// Stops the server as an operator would, and starts it again at the same address with settings that `adjust` changes.
    pub(crate) async fn restart(&mut self, adjust: impl Fn(&mut Config)) {
        let address = self.nodes[0].address;
        for node in std::mem::take(&mut self.nodes) {
            if let Some(node) = Arc::into_inner(node) {
                node.ask_to_stop(Stop::Gracefully);
                node.stopped().await;
            }
        }
        let mut config = self.config.clone();
        config.listen = address;
        adjust(&mut config);
        // Another process would find the file free; in this one, the last connections may take a moment to end.
        const PAUSE: Duration = Duration::from_millis(20);
        let mut left = PATIENCE;
        let node = loop {
            match start_with(config.clone(), self.clock.clone(), Limits::default()).await {
                Ok(node) => break node,
                Err(error) => assert!(!left.is_zero(), "the server does not start again: {error}"),
            }
            tokio::time::sleep(PAUSE).await;
            left = left.saturating_sub(PAUSE);
        };
        self.config = config;
        self.nodes = vec![Arc::new(node)];
        self.clock.advance(Duration::from_millis(10));
    }

    /// The same caller at another node.
    pub(crate) fn at(&self, node: usize, caller: &Caller) -> Caller {
        let base = format!("http://{}", self.nodes[node].address);
        Caller::new(
            &Node { watched: caller.node.watched.clone(), base },
            caller.key.clone(),
            &caller.tenant,
            caller.affiliate.clone(),
        )
    }

    /// Somebody with this key, which may be nobody's.
    pub(crate) fn somebody_with(&self, key: &str) -> Caller {
        self.secrets.note(key);
        Caller::new(&self.nobody.node, Some(SecretKey::new(key)), &self.a.tenant, None)
    }

    /// Notes a secret that must appear nowhere.
    pub(crate) fn note_secret(&self, secret: &str) {
        self.secrets.note(secret);
    }

    /// Signs the owner of an account in; the result is the session's token.
    pub(crate) async fn session_of(&self, of: &Caller) -> String {
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
    pub(crate) async fn own_domain(&self, of: &Caller, domain: &str, role: Role) {
        let token = self.claim_domain(of, domain, role).await;
        self.dns.txt(&format!("_deeplink-verify.{domain}"), &[&token]);
        // A name server that does not come to answer in time is asked again.
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
    pub(crate) async fn claim_domain(&self, of: &Caller, domain: &str, role: Role) -> String {
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
    pub(crate) async fn expect_clicks(&self, expected: &[(i64, i64)]) {
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

    /// Waits until nothing goes on behind the replies: no mail is on its way, each event has its place, and no expiry is
    /// being lifted.
    pub(crate) async fn at_rest(&self) {
        const GOING_ON: &str = "
            SELECT (SELECT CAST(count(*) AS BIGINT) FROM mails)
                + (SELECT CAST(count(*) AS BIGINT) FROM events WHERE position IS NULL)
                + (SELECT CAST(count(*) AS BIGINT) FROM tenants WHERE lifting_since IS NOT NULL)";
        eventually("nothing goes on", PATIENCE, || async { self.db.number(GOING_ON).await == 0 }).await;
    }

    /// The files that hold mails, once there are `count`.
    pub(crate) async fn mails(&self, count: usize) -> Vec<String> {
        let read = || mails_in(self.home.path());
        eventually("the mails are out", PATIENCE, || async { read().len() >= count }).await;
        read()
    }
}

/// The mails in a world's directory, the oldest first. Each of several nodes writes to a directory of its own.
pub(super) fn mails_in(home: &Path) -> Vec<String> {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let homes = entries(home).map(|entry| entry.path()).filter(|path| path.join("mail").is_dir());
    let folders = homes.chain([home.to_owned()]).map(|home| home.join("mail"));
    let files = folders.flat_map(|folder| entries(&folder).map(|entry| entry.path()).collect::<Vec<_>>());
    let mut mails: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind == "eml")).collect();
    mails.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    mails.iter().map(|path| std::fs::read_to_string(path).expect("a mail").replace("=\r\n", "")).collect()
}

/// What follows `token=` in a mail, in quoted-printable or not.
pub(crate) fn token_in(mail: &str) -> Option<String> {
    let after = mail.split("token=").nth(1)?;
    let after = after.strip_prefix("3D").unwrap_or(after);
    let token: String = after.chars().take_while(char::is_ascii_hexdigit).collect();
    (token.len() == 64).then_some(token)
}

/// The confirmation code in a mail: a token that stands alone on its line.
pub(crate) fn code_in(mail: &str) -> Option<String> {
    let is_code = |line: &&str| line.len() == 6 && line.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    mail.lines().map(str::trim).find(is_code).map(str::to_owned)
}

/// X17, X18: at the end of each test, nothing secret stands in what was logged or in what is stored.
impl Drop for World {
    fn drop(&mut self) {
        let (secrets, db) = (Arc::clone(&self.secrets), self.db.apart());
        for mail in mails_in(self.home.path()) {
            match token_in(&mail) {
                Some(token) => secrets.note(&token),
                // The only mails without a link that signs somebody in.
                None => assert!(
                    ["no longer verified", "is switched off"].iter().any(|word| mail.contains(word))
                        || code_in(&mail).is_some(),
                    "a mail holds a token: {mail}"
                ),
            }
        }
        let panicking = std::thread::panicking();
        let look = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            if !panicking {
                secrets.assert_not_logged();
                runtime.block_on(assert_not_stored(&secrets, &db));
            }
            runtime.block_on(template::remove(&db));
        });
        let looked = look.join();
        assert!(panicking || looked.is_ok(), "a secret was found where none may be");
    }
}

async fn assert_not_stored(secrets: &Secrets, db: &Database) {
    if let Some(file) = db.file() {
        // The file itself: what was deleted may still stand in it.
        for name in ["deeplink.db", "deeplink.db-wal"] {
            if let Ok(bytes) = std::fs::read(file.with_file_name(name)) {
                assert_eq!(secrets.found_in(&bytes), None, "a secret stands in {name}");
            }
        }
    }
    for (table, rows) in db.dump().await {
        assert_eq!(secrets.found_in(rows.join("\n").as_bytes()), None, "a secret stands in {table}");
    }
}

#[derive(Clone)]
struct Node {
    watched: Watched,
    base: String,
}

/// Somebody who calls the service.
#[derive(Clone)]
pub(crate) struct Caller {
    /// The typed client, with this caller's key.
    pub(crate) client: Client,
    pub(crate) tenant: TenantId,
    /// Set for an affiliate's credential.
    pub(crate) affiliate: Option<AffiliateId>,
    key: Option<SecretKey>,
    node: Node,
}

impl Caller {
    fn new(node: &Node, key: Option<SecretKey>, tenant: &TenantId, affiliate: Option<AffiliateId>) -> Self {
        let mut client = Client::builder(&node.base).transport(node.watched.clone()).retry(Retry::none());
        if let Some(key) = &key {
            client = client.secret_key(key.clone());
        }
        let client = client.build().expect("a client");
        Self { client, tenant: tenant.clone(), affiliate, key, node: node.clone() }
    }

    /// Links, by the typed client.
    pub(crate) fn links(&self) -> Links {
        self.client.links()
    }

    /// Webhooks, by the typed client.
    pub(crate) fn webhooks(&self) -> Webhooks {
        self.client.webhooks()
    }

    /// What everybody may ask, by the typed client.
    pub(crate) fn public(&self) -> Public {
        self.client.public()
    }

    /// Accounts, by the typed client.
    pub(crate) fn sessions(&self) -> Sessions {
        self.client.sessions()
    }

    /// The key, if the caller has one.
    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_ref().map(SecretKey::expose)
    }

    /// The affiliate that a scoped credential belongs to.
    pub(crate) fn affiliate_id(&self) -> &str {
        self.affiliate.as_ref().expect("an affiliate's credential").as_str()
    }

    /// Where the service is, without a slash at the end.
    pub(crate) fn base(&self) -> &str {
        &self.node.base
    }

    /// A request of the test's own making, with this caller's credential.
    pub(crate) fn ask(&self, method: Method, path: &str) -> Ask {
        let ask = self.ask_without_key(method, path);
        match self.key() {
            Some(key) => ask.bearer(key),
            None => ask,
        }
    }

    /// The same without the credential.
    pub(crate) fn ask_without_key(&self, method: Method, path: &str) -> Ask {
        Ask::new(&self.node.watched, method, &format!("{}{path}", self.node.base))
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask(Method::GET, path).send().await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask(Method::POST, path).json(body).send().await
    }

    /// A POST without a body.
    pub(crate) async fn post_nothing(&self, path: &str) -> Reply {
        self.ask(Method::POST, path).send().await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.ask(Method::PUT, path).json(body).send().await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Reply {
        self.ask(Method::PATCH, path).json(body).send().await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.ask(Method::DELETE, path).send().await
    }

    /// Makes a link that leads to a web page, under this id.
    pub(crate) async fn make(&self, custom_id: &str) -> String {
        let body = json!({"custom_id": custom_id, "web_url": format!("https://example.com/{custom_id}")});
        self.make_of(&body).await
    }

    /// Makes a link of this body and gives its id.
    pub(crate) async fn make_of(&self, body: &Value) -> String {
        let reply = self.post("/v1/links", body).await;
        assert_eq!(reply.status, 201, "{body} {}", reply.text());
        reply.member("link_id")
    }

    /// Follows a link as a program that asks for JSON.
    pub(crate) async fn resolve(&self, link_id: &str) -> Reply {
        self.ask(Method::GET, &format!("/r/{link_id}")).header("accept", "application/json").send().await
    }

    /// Follows a link as a person's browser.
    pub(crate) async fn tap(&self, link_id: &str) -> Reply {
        self.browse(Method::GET, &format!("/r/{link_id}")).send().await
    }

    /// How many clicks the service counts for a link.
    pub(crate) async fn clicks_of(&self, link_id: &str) -> i64 {
        let series = self.get(&format!("/v1/links/{link_id}/timeseries")).await.json();
        series["data"]
            .as_array()
            .expect("buckets")
            .iter()
            .map(|bucket| bucket["clicks"].as_i64().expect("a count"))
            .sum()
    }

    /// A request as a desktop browser makes it.
    pub(crate) fn browse(&self, method: Method, path: &str) -> Ask {
        self.ask_without_key(method, path)
            .header("accept", "text/html,application/xhtml+xml,*/*;q=0.8")
            .header("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0")
    }
}
