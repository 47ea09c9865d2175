//! Pebble and its name server as child processes, on ports of their own.

use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use reqwest::{Certificate, Client};
use serde_json::json;
use tempfile::TempDir;

use crate::common::eventually;
use crate::limit::{self, Limit};

/// How long the two take to start on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// What is issued holds this long: so that a test can say when it is renewed.
const LIFETIME_SECONDS: u32 = 90 * 86_400;

/// Where everything will be, before any of it runs.
pub(crate) struct Plan {
    home: TempDir,
    acme: u16,
    management: u16,
    dns: u16,
    dns_management: u16,
    /// Stands before the ACME server and refuses orders of a name.
    limit: Option<(u16, &'static str)>,
    /// Keeps the ports until they are used.
    held: Vec<TcpListener>,
    authority: Certificate,
}

/// The two processes; they end with the test.
pub(crate) struct Pebble {
    plan: Plan,
    client: Client,
    children: [Child; 2],
}

/// A port below those that the system gives to whoever asks for any: nobody gets it between this and its use.
fn draw() -> TcpListener {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static DRAWN: AtomicU32 = AtomicU32::new(0);
    let mut free = (0..COUNT).filter_map(|_| {
        let place = std::process::id().wrapping_add(DRAWN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + place % COUNT).expect("a port");
        TcpListener::bind(("127.0.0.1", port)).ok()
    });
    free.next().expect("a free port")
}

impl Plan {
    /// Draws ports, and makes an authority for the https of the ACME server itself. `limited`: a name whose rate limit is
    /// used up.
    pub(crate) fn new(limited: Option<&'static str>) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        // Held together, so that no two are the same.
        let held: Vec<_> = (0..5).map(|_| draw()).collect();
        let ports: Vec<_> = held.iter().map(|held| held.local_addr().expect("an address").port()).collect();
        let authority_key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&authority_key).expect("an authority");
        let key = KeyPair::generate().expect("a key");
        let leaf = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        let leaf = leaf.signed_by(&key, &Issuer::from_params(&params, &authority_key)).expect("a certificate");
        for (name, text) in
            [("authority.pem", authority.pem()), ("cert.pem", leaf.pem()), ("key.pem", key.serialize_pem())]
        {
            fs::write(home.path().join(name), text).expect("written");
        }
        let authority = Certificate::from_der(authority.der()).expect("a certificate");
        let [acme, management, dns, dns_management, limit] = ports[..] else { panic!("{ports:?}") };
        let limit = limited.map(|name| (limit, name));
        Self { home, acme, management, dns, dns_management, limit, held, authority }
    }

    /// Where orders are placed.
    pub(crate) fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.limit.map_or(self.acme, |(port, _)| port))
    }

    /// The file with the authority of the ACME server's https; what it issues comes from another one.
    pub(crate) fn authority(&self) -> PathBuf {
        self.home.path().join("authority.pem")
    }

    /// Starts it; challenges are looked for at this port of 127.0.0.1, whatever the name.
    pub(crate) async fn start(mut self, http_port: u16) -> Pebble {
        let config = json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{}", self.acme),
            "managementListenAddress": format!("127.0.0.1:{}", self.management),
            "certificate": self.file("cert.pem"),
            "privateKey": self.file("key.pem"),
            "httpPort": http_port,
            "tlsPort": http_port,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": false,
            "certificateValidityPeriod": LIFETIME_SECONDS,
        }});
        fs::write(self.file("config.json"), config.to_string()).expect("written");
        self.held.clear();
        let children = [self.run_acme(), self.run_dns()];
        let client = Client::builder().tls_certs_only([self.authority.clone()]).no_proxy().http1_only().build();
        let client = client.expect("a client");
        if let Some((port, name)) = self.limit {
            let pebble = format!("https://localhost:{}", self.acme);
            let certificate = [self.file("cert.pem"), self.file("key.pem")];
            limit::start(port, &certificate, Limit { name, pebble, client: client.clone() }).await;
        }
        let pebble = Pebble { plan: self, client, children };
        pebble.until_it_answers().await;
        pebble
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn run_acme(&self) -> Child {
        let mut command = Command::new("pebble");
        command.args(["-strict", "-dnsserver", &format!("127.0.0.1:{}", self.dns), "-config"]);
        // It otherwise waits before each validation. What it refuses at random it goes on refusing.
        command.arg(self.file("config.json")).env("PEBBLE_VA_NOSLEEP", "1");
        self.run(command, "pebble.log")
    }

    fn run_dns(&self) -> Child {
        let mut command = Command::new("pebble-challtestsrv");
        command.args(["-dns01", &format!("127.0.0.1:{}", self.dns), "-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""]);
        command.args(["-management", &format!("127.0.0.1:{}", self.dns_management)]);
        command.args(["-http01", "", "-https01", "", "-tlsalpn01", ""]);
        self.run(command, "dns.log")
    }

    fn run(&self, mut command: Command, log: &str) -> Child {
        let log = OpenOptions::new().create(true).append(true).open(self.file(log)).expect("a log file");
        let other = log.try_clone().expect("the same file");
        let started = command.stdin(Stdio::null()).stdout(log).stderr(other).spawn();
        started.unwrap_or_else(|error| panic!("{} of Debian's pebble: {error}", command.get_program().display()))
    }
}

impl Pebble {
    async fn until_it_answers(&self) {
        eventually("pebble answers", PATIENCE, || async {
            let acme = self.client.get(format!("https://localhost:{}/dir", self.plan.acme)).send().await;
            // It opens this port by itself, perhaps later.
            let roots = self.client.get(format!("https://localhost:{}/roots/0", self.plan.management)).send().await;
            let dns = self.client.get(format!("http://127.0.0.1:{}/", self.plan.dns_management)).send().await;
            [acme, roots].into_iter().all(|got| got.is_ok_and(|answer| answer.status().is_success())) && dns.is_ok()
        })
        .await;
    }

    /// Ends it and starts another in its place, which knows no account and has another root.
    pub(crate) async fn begin_anew(&mut self) {
        self.children[0].kill().expect("it is killed");
        self.children[0].wait().expect("it ends");
        self.children[0] = self.plan.run_acme();
        self.until_it_answers().await;
    }

    /// The root of what it issues.
    pub(crate) async fn root(&self) -> Certificate {
        let url = format!("https://localhost:{}/roots/0", self.plan.management);
        let answer = self.client.get(url).send().await.expect("an answer");
        Certificate::from_pem(&answer.bytes().await.expect("a root")).expect("PEM")
    }

    /// Lets a name lead to another address.
    pub(crate) async fn leads_to(&self, name: &str, address: &str) {
        let base = format!("http://127.0.0.1:{}", self.plan.dns_management);
        let host = format!("{name}.");
        let (clear, add) = (json!({"host": host}), json!({"host": host, "addresses": [address]}));
        for (path, body) in [("clear-a", clear), ("add-a", add)] {
            let answer = self.client.post(format!("{base}/{path}")).body(body.to_string()).send().await;
            assert!(answer.expect("an answer").status().is_success(), "{path}");
        }
    }

    /// How many certificates it has issued.
    pub(crate) fn issued(&self) -> usize {
        let log = fs::read_to_string(self.plan.home.path().join("pebble.log")).expect("its log");
        log.matches("Issued certificate serial").count()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["pebble.log", "dns.log"] {
                let log = fs::read_to_string(self.plan.home.path().join(name)).unwrap_or_default();
                let lines: Vec<_> = log.lines().collect();
                let last = lines[lines.len().saturating_sub(40)..].join("\n");
                // The harness shows what a failed test wrote.
                std::io::Write::write_all(&mut std::io::stderr(), format!("{name}:\n{last}\n").as_bytes()).ok();
            }
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
