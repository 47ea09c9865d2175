//! The real service, in this process, on a database of its own.

use std::net::SocketAddr;
use std::time::Duration;

use deeplink_core::id::{AffiliateId, SecretKeyId};
use deeplink_core::secret::{Random, SecretKey};
use deeplink_core::time::Timestamp;
use deeplink_server::clock::Clock;
use deeplink_server::config::Config;
use deeplink_server::start::{Running, start};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::authority::{Authority, Identity};
use crate::dl::Dl;
use crate::dns::Dns;

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

    /// Starts on a free port, with a name server of its own.
    pub(crate) fn start_with_dns() -> (Self, Dns) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let dns = runtime.block_on(Dns::start());
        (Self::start_in(runtime, |config| config.dns_server = Some(dns.address())), dns)
    }

    /// Starts on a free port; what it fetches may be on this machine.
    pub(crate) fn start_that_fetches_here() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        Self::start_in(runtime, |config| config.outbound_allow = "127.0.0.0/8".parse().expect("a network"))
    }

    fn start_in(runtime: Runtime, adjust: impl FnOnce(&mut Config)) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let mut config = Config::for_tests(home.path());
        adjust(&mut config);
        let running = runtime.block_on(start(config, Clock::system())).expect("the service starts");
        Self { url: format!("http://{}", running.address), runtime, running: Some(running), home }
    }

    /// Opens a way in over https, as a proxy with certificates for these names would.
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

    /// Somebody with an account of their own, signed in.
    pub(crate) fn user(&self, name: &str) -> Dl {
        let dl = Dl::new().env("DL_BASE_URL", &self.url);
        dl.run(&format!("signup --email {name}@example.com")).ok();
        dl
    }

    /// A partner of this user with a key of their own, and the partner's id. There is no route for it: the rows are
    /// stored from beside the service.
    pub(crate) fn affiliate(&self, owner: &Dl) -> (Dl, AffiliateId) {
        let random = &mut Random::system();
        let (now, key) = (Timestamp::from_millis(1_795_167_000_000), SecretKey::generate(random));
        let (id, key_id) = (AffiliateId::new(now, random), SecretKeyId::new(now, random));
        let owners = SecretKey::new(owner.run("token").ok().trim_end()).hash();
        self.runtime.block_on(async {
            let place = SqliteConnectOptions::new().filename(self.home.path().join("deeplink.db"));
            let mut database = place.connect().await.expect("the database");
            let partner = "
                INSERT INTO affiliates (id, tenant_id, name, partner_key, status, created_at, updated_at)
                SELECT $1, tenant_id, 'Partner', $1, 'active', created_at, created_at FROM secret_keys WHERE key_hash = $2";
            let made = sqlx::query(partner).bind(id.as_str()).bind(&owners).execute(&mut database).await;
            assert_eq!(made.expect("a partner").rows_affected(), 1);
            let credential = "
                INSERT INTO secret_keys (id, tenant_id, affiliate_id, key_hash, key_prefix, created_by, created_at)
                SELECT $1, tenant_id, $2, $3, $4, created_by, created_at FROM secret_keys WHERE key_hash = $5";
            let made = sqlx::query(credential)
                .bind(key_id.as_str())
                .bind(id.as_str())
                .bind(key.hash())
                .bind(key.shown_prefix())
                .bind(&owners)
                .execute(&mut database)
                .await;
            assert_eq!(made.expect("a credential").rows_affected(), 1);
            database.close().await.expect("it closes");
        });
        (Dl::new().env("DL_BASE_URL", &self.url).env("DL_API_KEY", key.expose()), id)
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
