//! The real service, in this process, on its own database.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use deeplink_client::{Client, SignIn, Token};
use deeplink_core::id::AffiliateId;
use deeplink_server::clock::Clock;
use deeplink_server::config::Config;
use deeplink_server::start::{Running, start};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use deeplink_doubles::authority::{Authority, Identity};
use deeplink_doubles::dns::Dns;
use deeplink_doubles::machine;
use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::dl::Dl;

/// A running service.
pub(crate) struct Server {
    pub(crate) url: String,
    runtime: Runtime,
    running: Option<Running>,
    home: TempDir,
}

impl Server {
    /// Starts on a free port.
    pub(crate) fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        Self::start_in(runtime, |_| {})
    }

    /// Starts on a free port, with this clock.
    pub(crate) fn start_at(clock: Clock) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        Self::start_with(runtime, clock, |_| {})
    }

    /// Starts on a free port, with its own name server.
    pub(crate) fn start_with_dns() -> (Self, Dns) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let dns = runtime.block_on(Dns::start());
        (Self::start_in(runtime, |config| config.dns_server = Some(dns.address())), dns)
    }

    /// Starts on a free port; it may fetch from this machine.
    pub(crate) fn start_that_fetches_here() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        Self::start_in(runtime, |config| config.outbound_allow = "127.0.0.0/8".parse().expect("a network"))
    }

    fn start_in(runtime: Runtime, adjust: impl FnOnce(&mut Config)) -> Self {
        Self::start_with(runtime, Clock::system(), adjust)
    }

    fn start_with(runtime: Runtime, clock: Clock, adjust: impl FnOnce(&mut Config)) -> Self {
        let home = machine::directory();
        let mut config = Config::for_tests(home.path());
        adjust(&mut config);
        let running = runtime.block_on(start(config, clock)).expect("the service starts");
        Self { url: format!("http://{}", running.address), runtime, running: Some(running), home }
    }

    /// Adds https access, as a proxy with certificates for these names would.
    pub(crate) fn https(&self, authority: &Authority, names: &[&str]) -> SocketAddr {
        let tls = authority.acceptor(names, Identity::Days(90)).expect("it speaks TLS");
        let to = self.running.as_ref().expect("it runs").address;
        let listener = self.runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        self.runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let tls = tls.clone();
                tokio::spawn(async move {
                    let mut from = tls.accept(socket).await?;
                    let mut to = TcpStream::connect(to).await?;
                    tokio::io::copy_bidirectional(&mut from, &mut to).await
                });
            }
        });
        address
    }

    /// A user with their own account, signed in.
    pub(crate) fn user(&self, name: &str) -> Dl {
        let dl = Dl::new().env("DL_BASE_URL", &self.url);
        dl.run(&format!("signup --email {name}@example.com")).ok();
        dl
    }

    /// An affiliate of this user with their own key, and the affiliate's id.
    pub(crate) fn affiliate(&self, owner: &Dl) -> (Dl, AffiliateId) {
        let id = owner.run("affiliates create --name Partner --partner-key partner").ok().trim_end().to_owned();
        let key = owner.run(&format!("affiliates creds create {id}")).ok().trim_end().to_owned();
        let partner = Dl::new().env("DL_BASE_URL", &self.url).env("DL_API_KEY", &key);
        (partner, id.parse().expect("the id of an affiliate"))
    }

    /// Exchanges the token of a mailed link for a session's token, as a browser does.
    pub(crate) fn session(&self, token: &str) -> String {
        let client = Client::builder(&self.url).build().expect("a client");
        let signed_in = self.runtime.block_on(async { client.sessions().callback(&Token::new(token)).await });
        match signed_in.expect("an answer") {
            SignIn::SignedIn { session, .. } => session.expose().to_owned(),
            other => panic!("{other:?}"),
        }
    }

    /// The latest mail to `to` with `mark`, as soon as it is there; earlier ones of the same kind are deleted.
    pub(crate) fn mail(&self, to: &str, mark: &str) -> String {
        let (start, folder) = (Instant::now(), self.home.path().join("mail"));
        loop {
            let files = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
            for file in files.filter(|file| file.extension().is_some_and(|kind| kind == "eml")) {
                let mail = std::fs::read_to_string(&file).expect("a mail").replace("\r\n", "\n");
                if mail.contains(&format!("To: {to}\n")) && mail.contains(mark) {
                    std::fs::remove_file(file).expect("it is ours");
                    return mail;
                }
            }
            assert!(start.elapsed() < PATIENCE, "no mail to {to} with {mark}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The link of a mail, which is on its own line.
    pub(crate) fn mailed_link(&self, to: &str, path: &str) -> String {
        let mail = self.mail(to, path);
        let is_link = |line: &&str| line.starts_with(&self.url) && line.contains(path);
        mail.lines().map(str::trim).find(is_link).unwrap_or_else(|| panic!("{mail}")).to_owned()
    }

    /// The code of a mail, which is alone on its line.
    pub(crate) fn mailed_code(&self, to: &str) -> String {
        let mail = self.mail(to, "confirmation code");
        let is_code =
            |line: &&str| line.len() == 6 && line.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        mail.lines().map(str::trim).find(is_code).unwrap_or_else(|| panic!("{mail}")).to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.ask_to_stop(deeplink_server::http::listen::Stop::Gracefully);
            let _ =
                self.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(5), running.stopped()).await });
        }
    }
}
