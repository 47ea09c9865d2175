//! What https clients see when certificates are issued, renewed and removed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use deeplink_core::id::TenantId;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::clock::Clock;
use crate::config::{Config, Tls};
use crate::db::accounts::{self, NewAccount};
use crate::db::certificates::{self, NewCertificate};
use crate::db::users::Standing;
use crate::db::{Conn, DbError, execute};
use crate::http::listen::Stop;
use crate::shares::Share;
use crate::start::{Running, start};

const NAME: &str = "go.example.com";

/// TLS with an ACME server address where nothing listens, so that nothing is ordered.
pub(crate) fn unreachable_authority() -> Tls {
    let directory = "https://127.0.0.1:9/directory".parse().expect("a URL");
    Tls::new(SocketAddr::from(([127, 0, 0, 1], 0)), directory)
}

/// A service with its own name, and a tenant that claims another.
pub(crate) struct World {
    pub(crate) running: Running,
    pub(crate) clock: Clock,
    _home: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(Some(unreachable_authority())).await
    }

    /// Without TLS, certificates are only maintained by the test itself.
    pub(crate) async fn with(tls: Option<Tls>) -> Self {
        Self::configured(|config| config.tls = tls).await
    }

    async fn configured(configure: impl FnOnce(&mut Config)) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let clock = Clock::fixed(Timestamp::from_millis(1_795_167_000_000));
        let mut config = Config::for_tests(home.path());
        configure(&mut config);
        config.public_url = Some("https://links.example.com".parse().expect("a URL"));
        let running = start(config, clock.clone()).await.expect("the service starts");
        let world = Self { running, clock, _home: home };
        // Unclaimed names and old claims are swept, so the name is claimed now.
        let tenant = world.tenant().await;
        world
            .execute(format!(
                "INSERT INTO domains (id, tenant_id, domain, role, claimed_at, created_at)
                 VALUES ('dom_1', '{tenant}', '{NAME}', 'primary', {}, 1)",
                world.clock.now().as_millis()
            ))
            .await;
        world
    }

    async fn write<F>(&self, work: F)
    where
        F: for<'c> Fn(&'c mut Conn<'c>) -> futures_util::future::BoxFuture<'c, Result<(), DbError>>
            + Send
            + Sync
            + 'static,
    {
        self.running.app().db.write(Share::Service, (), move |tx, ()| work(tx)).await.expect("a write");
    }

    async fn execute(&self, sql: String) {
        self.write(move |tx| {
            let sql = sqlx::AssertSqlSafe(sql.clone());
            async move { Ok(execute!(tx, sql).map(drop)?) }.boxed()
        })
        .await;
    }

    async fn tenant(&self) -> TenantId {
        let email = "owner@example.com".parse().expect("an address");
        let account = NewAccount::draw(email, Standing::Verified, self.clock.now(), &mut Random::system());
        let tenant = account.owner.tenant.clone();
        self.write(move |tx| {
            let account = account.clone();
            async move { accounts::open(tx, &account).await.map(|opened| assert!(opened)) }.boxed()
        })
        .await;
        tenant
    }

    /// Stores a certificate as if it had been issued, and returns the certificate that a client must trust.
    async fn certified(&self, name: &str, id: &str) -> CertificateDer<'static> {
        let app = self.running.app();
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        let new = NewCertificate {
            name: name.to_owned(),
            id: id.to_owned(),
            chain: made.cert.pem(),
            sealed_key: app.vault.seal("certificates", id, made.signing_key.serialize_pem().as_bytes()),
            not_before: self.clock.now(),
            not_after: self.clock.now().plus_millis(90 * 86_400_000),
            renew_at: self.clock.now().plus_millis(60 * 86_400_000),
        };
        let now = self.clock.now();
        self.write(move |tx| {
            let new = new.clone();
            async move { certificates::replace(tx, &new, now).await }.boxed()
        })
        .await;
        made.cert.der().clone()
    }

    /// Requests `/health` over TLS, trusting one certificate, and returns the first line of the response.
    async fn ask(&self, name: &'static str, trusted: &CertificateDer<'static>) -> std::io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("TLS").with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(self.running.tls_address.expect("listening for https")).await?;
        let name_of = ServerName::try_from(name).expect("a name");
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name_of, stream).await?;
        let request = format!("GET /health HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer.lines().next().unwrap_or_default().to_owned())
    }

    async fn is_refused(&self, name: &'static str, trusted: &CertificateDer<'static>) -> bool {
        let error = match self.ask(name, trusted).await {
            Ok(answer) => panic!("{name}: {answer}"),
            Err(error) => error,
        };
        let alert = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        alert == Some(&rustls::Error::AlertReceived(AlertDescription::UnrecognisedName))
    }

    pub(crate) async fn end(self) {
        self.running.ask_to_stop(Stop::AtOnce);
        self.running.stopped().await;
    }
}

#[tokio::test]
async fn certificates_are_served_while_their_name_is_verified() {
    let world = World::new().await;
    let first = world.certified(NAME, "one").await;
    assert!(world.is_refused(NAME, &first).await, "it is not verified yet");

    world.execute("UPDATE domains SET verified_at = 1".to_owned()).await;
    world.clock.advance(Duration::from_secs(5));
    assert_eq!(world.ask(NAME, &first).await.expect("TLS"), "HTTP/1.1 200 OK");

    // Renewed elsewhere: known within five seconds, and until then the old one is served.
    let second = world.certified(NAME, "two").await;
    assert_eq!(world.ask(NAME, &first).await.expect("TLS"), "HTTP/1.1 200 OK");
    world.clock.advance(Duration::from_secs(5));
    assert_eq!(world.ask(NAME, &second).await.expect("TLS"), "HTTP/1.1 200 OK");
    assert!(world.ask(NAME, &first).await.is_err(), "the first one is no longer served");

    world.execute("UPDATE domains SET verified_at = NULL".to_owned()).await;
    world.clock.advance(Duration::from_secs(5));
    assert!(world.is_refused(NAME, &second).await, "the domain is lost");

    let own = world.certified("links.example.com", "own").await;
    assert_eq!(world.ask("links.example.com", &own).await.expect("TLS"), "HTTP/1.1 200 OK");
    assert!(world.is_refused("www.links.example.com", &own).await);
    world.end().await;
}

/// R7: while a client's address is over its limit of misses, a name that memory does not know is refused without asking
/// the database; a name that it knows is served.
#[tokio::test]
async fn r7_a_name_costs_no_query_beyond_the_misses_of_an_address() {
    let world = World::configured(|config| {
        config.tls = Some(unreachable_authority());
        config.limits.misses_per_minute = 2;
    })
    .await;
    let own = world.certified("links.example.com", "own").await;
    assert_eq!(world.ask("links.example.com", &own).await.expect("TLS"), "HTTP/1.1 200 OK");
    let asked = || world.running.app().db.looked_up();
    let before = asked();
    for name in ["a.example.com", "a.example.com", "b.example.com", "c.example.com", "d.example.com"] {
        assert!(world.is_refused(name, &own).await);
    }
    assert_eq!(asked() - before, 2, "a and b");
    world.clock.advance(Duration::from_secs(6));
    assert_eq!(world.ask("links.example.com", &own).await.expect("TLS"), "HTTP/1.1 200 OK");
    world.clock.advance(Duration::from_mins(1));
    let before = asked();
    assert!(world.is_refused("e.example.com", &own).await);
    assert_eq!(asked() - before, 1, "the limit is per minute");
    world.end().await;
}

/// A key that was sealed for another row, or modified, is not served; others are.
#[tokio::test]
async fn x18_a_sealed_key_opens_in_its_own_row_only() {
    let world = World::new().await;
    let own = world.certified("links.example.com", "own").await;
    world.certified(NAME, "other").await;
    let foreign = "UPDATE certificates SET sealed_key = (SELECT sealed_key FROM certificates WHERE id = 'other')";
    world.execute(format!("{foreign} WHERE id = 'own'")).await;
    assert!(world.is_refused("links.example.com", &own).await);
    world.end().await;
}

/// While the database is down, the last known state is served for ten minutes, and the database is asked at most once a
/// second.
#[tokio::test]
async fn certificates_are_served_while_the_database_is_away() {
    let world = World::new().await;
    let own = world.certified("links.example.com", "own").await;
    assert_eq!(world.ask("links.example.com", &own).await.expect("TLS"), "HTTP/1.1 200 OK");
    world.running.app().db.close().await;
    for _ in 0..3 {
        world.clock.advance(Duration::from_secs(190));
        for _ in 0..2 {
            assert_eq!(world.ask("links.example.com", &own).await.expect("TLS"), "HTTP/1.1 200 OK");
        }
        assert!(world.is_refused("other.example.com", &own).await);
    }
    world.clock.advance(Duration::from_mins(1));
    assert!(world.is_refused("links.example.com", &own).await, "the last known state is too old");
    world.end().await;
}

/// A new certificate while the database is unavailable must not cost other names their certificates.
#[tokio::test]
async fn a_new_certificate_is_served_at_once_and_leaves_the_others_alone() {
    let world = World::new().await;
    let app = world.running.app();
    world.execute("UPDATE domains SET verified_at = 1".to_owned()).await;
    let own = world.certified("links.example.com", "own").await;
    let first = world.certified(NAME, "one").await;
    for (name, trusted) in [("links.example.com", &own), (NAME, &first)] {
        assert_eq!(world.ask(name, trusted).await.expect("TLS"), "HTTP/1.1 200 OK");
    }
    let second = world.certified(NAME, "two").await;
    world.running.certificates().changed(NAME).await;
    assert_eq!(world.ask(NAME, &second).await.expect("TLS"), "HTTP/1.1 200 OK");
    app.db.close().await;
    world.running.certificates().changed(NAME).await;
    for _ in 0..2 {
        for (name, trusted) in [("links.example.com", &own), (NAME, &second)] {
            assert_eq!(world.ask(name, trusted).await.expect("TLS"), "HTTP/1.1 200 OK");
        }
        world.clock.advance(Duration::from_mins(9));
    }
    world.end().await;
}
