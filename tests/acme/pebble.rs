//! Pebble and its name server as child processes, on their own ports.

use std::fs::{self, OpenOptions};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use reqwest::{Certificate, Client};
use serde_json::json;
use tempfile::TempDir;

use crate::limit::{self, Limit};
use deeplink_testing::eventually;

/// How long the two take to start on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// The lifetime of certificates, so that a test knows when they are renewed.
const LIFETIME_SECONDS: u32 = 90 * 86_400;

/// The addresses of everything, before any of it runs.
pub(crate) struct Plan {
    home: TempDir,
    acme: Port,
    management: Port,
    dns: Port,
    dns_management: Port,
    /// Where orders of a name are refused before they reach the ACME server.
    limit: Option<(Port, &'static str)>,
    authority: Certificate,
}

/// The two processes; they end with the test.
pub(crate) struct Pebble {
    plan: Plan,
    client: Client,
    children: [Child; 2],
}

/// A port of 127.0.0.1 that stays free until it is used.
struct Port {
    number: u16,
    /// Claims the number among all tests, of this process and others. Not at 127.0.0.1, where the port has to be free,
    /// and where a process that another test is just starting would hold it for a moment.
    _claim: TcpListener,
}

impl Port {
    /// Below the system's ephemeral ports.
    fn draw() -> Self {
        const FIRST: u32 = 20_000;
        const COUNT: u32 = 12_000;
        static DRAWN: AtomicU32 = AtomicU32::new(0);
        let mut free = (0..COUNT).filter_map(|_| {
            let place = std::process::id().wrapping_add(DRAWN.fetch_add(1, Ordering::Relaxed));
            let number = u16::try_from(FIRST + place % COUNT).expect("a port");
            let claim = TcpListener::bind(("127.0.0.2", number)).ok()?;
            let is_free =
                TcpStream::connect(("127.0.0.1", number)).is_err() && UdpSocket::bind(("127.0.0.1", number)).is_ok();
            is_free.then_some(Self { number, _claim: claim })
        });
        free.next().expect("a free port")
    }
}

impl Plan {
    /// Picks ports, and makes an authority for the https of the ACME server itself. `limited`: a name whose rate limit
    /// is used up.
    pub(crate) fn new(limited: Option<&'static str>) -> Self {
        let home = tempfile::tempdir().expect("a directory");
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
        let [acme, management, dns, dns_management] = std::array::from_fn(|_| Port::draw());
        let limit = limited.map(|name| (Port::draw(), name));
        Self { home, acme, management, dns, dns_management, limit, authority }
    }

    /// Where orders are placed.
    pub(crate) fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.limit.as_ref().map_or(&self.acme, |(port, _)| port).number)
    }

    /// The file with the authority of the ACME server's https; what it issues comes from another one.
    pub(crate) fn authority(&self) -> PathBuf {
        self.home.path().join("authority.pem")
    }

    /// Starts it; challenges are validated at this port of 127.0.0.1, for every name.
    pub(crate) async fn start(self, http_port: u16) -> Pebble {
        let config = json!({"pebble": {
            "listenAddress": format!("127.0.0.1:{}", self.acme.number),
            "managementListenAddress": format!("127.0.0.1:{}", self.management.number),
            "certificate": self.file("cert.pem"),
            "privateKey": self.file("key.pem"),
            "httpPort": http_port,
            "tlsPort": http_port,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": false,
            "certificateValidityPeriod": LIFETIME_SECONDS,
        }});
        fs::write(self.file("config.json"), config.to_string()).expect("written");
        let children = [self.run_acme(), self.run_dns()];
        let client = Client::builder().tls_certs_only([self.authority.clone()]).no_proxy().http1_only().build();
        let client = client.expect("a client");
        if let Some((port, name)) = &self.limit {
            let pebble = format!("https://localhost:{}", self.acme.number);
            let certificate = [self.file("cert.pem"), self.file("key.pem")];
            limit::start(port.number, &certificate, Limit { name, pebble, client: client.clone() }).await;
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
        command.args(["-strict", "-dnsserver", &format!("127.0.0.1:{}", self.dns.number), "-config"]);
        // By default it waits before each validation, and rejects one nonce in twenty: now and then all three tries of a
        // request, and then the order waits for a clock that stands still.
        command.arg(self.file("config.json")).envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0")]);
        self.run(command, "pebble.log")
    }

    fn run_dns(&self) -> Child {
        let mut command = Command::new("pebble-challtestsrv");
        command.args([
            "-dns01",
            &format!("127.0.0.1:{}", self.dns.number),
            "-defaultIPv4",
            "127.0.0.1",
            "-defaultIPv6",
            "",
        ]);
        command.args(["-management", &format!("127.0.0.1:{}", self.dns_management.number)]);
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
            let acme = self.client.get(format!("https://localhost:{}/dir", self.plan.acme.number)).send().await;
            // It opens this port itself, perhaps later.
            let roots =
                self.client.get(format!("https://localhost:{}/roots/0", self.plan.management.number)).send().await;
            let dns = self.client.get(format!("http://127.0.0.1:{}/", self.plan.dns_management.number)).send().await;
            [acme, roots].into_iter().all(|got| got.is_ok_and(|answer| answer.status().is_success())) && dns.is_ok()
        })
        .await;
    }

    /// Ends it and starts another in its place, without accounts and with another root.
    pub(crate) async fn begin_anew(&mut self) {
        self.children[0].kill().expect("it is killed");
        self.children[0].wait().expect("it ends");
        self.children[0] = self.plan.run_acme();
        self.until_it_answers().await;
    }

    /// The root of the certificates that it issues.
    pub(crate) async fn root(&self) -> Certificate {
        let url = format!("https://localhost:{}/roots/0", self.plan.management.number);
        let answer = self.client.get(url).send().await.expect("an answer");
        Certificate::from_pem(&answer.bytes().await.expect("a root")).expect("PEM")
    }

    /// Makes a name resolve to another address.
    pub(crate) async fn leads_to(&self, name: &str, address: &str) {
        let base = format!("http://127.0.0.1:{}", self.plan.dns_management.number);
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
                // The harness shows the output of a failed test.
                std::io::Write::write_all(&mut std::io::stderr(), format!("{name}:\n{last}\n").as_bytes()).ok();
            }
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
