//! `check`: validates the settings and the database. Changes nothing, so it can run alongside a server.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::TcpListener;
use std::path::Path;

use deeplink_core::plan::Tier;
use deeplink_core::time::Timestamp;

use super::{Failure, output};
use crate::clock::Clock;
use crate::config::{Config, MailTransport, OauthProvider, is_loopback};
use crate::country::CountrySource;
use crate::db::inspect::{Inspected, inspect};
use crate::db::payments::Unresolved;
use crate::db::sealed::{KeyCount, SealedValues};
use crate::http::listen::{Limits, OpenFiles};
use crate::private;
use crate::vault::{KeyCheck, Vault};
use crate::work::mail::smtp::Smtp;

/// Age in days from which a country database is out of date: the free ones are made weekly or monthly.
const OLD_DAYS: i64 = 60;

/// The result of one check.
enum Finding {
    Fine(String),
    /// It works, but the operator should know.
    Note(String),
    /// It does not work.
    Wrong(String),
}

use Finding::{Fine, Note, Wrong};

pub(super) async fn run(config: &Config) -> Result<(), Failure> {
    let (database, sealed, payments) = database(config).await;
    let findings = [
        ("database", database),
        ("master keys", keys(config, sealed.as_ref())),
        ("data directory", data_dir(config)),
        ("address", address(config)),
        ("open files", open_files(OpenFiles::now())),
        ("TLS", tls(config)),
        ("public URL", public_url(config)),
        ("email", mail(config).await),
        ("home page", home(config)),
        ("sign-in", sign_in(config)),
        ("link expiry", link_expiry(config)),
        ("billing", billing(config)),
        ("threat list", threats(config)),
        ("countries", countries(config, Clock::system().now())),
        ("x402", x402(config, &payments)),
    ];
    let mut report = String::new();
    for (name, finding) in &findings {
        let (label, text) = match finding {
            Fine(text) => ("ok", text),
            Note(text) => ("note", text),
            Wrong(text) => ("FAIL", text),
        };
        // Writing to a string does not fail.
        let _ = writeln!(report, "{label:<6} {name:<15} {text}");
    }
    output::print(&report);
    if findings.iter().any(|(_, finding)| matches!(finding, Wrong(_))) { Err(Failure::Reported) } else { Ok(()) }
}

async fn database(config: &Config) -> (Finding, Option<SealedValues>, Vec<Unresolved>) {
    let url = &config.database;
    match inspect(url.as_str(), Clock::system().now()).await {
        Ok(Inspected::Missing) => {
            let finding = Note(format!("{url} does not exist yet; it will be created when the server first starts"));
            (finding, Some(SealedValues::NONE), Vec::new())
        }
        Ok(Inspected::Usable { tenants, links, pending, unresolved, sealed }) => {
            let counts = format!("{url} (accounts: {tenants}, links: {links})");
            let finding = match pending {
                0 => Fine(counts),
                pending => Note(format!(
                    "{counts}; it will be migrated when the server next starts (pending migrations: {pending})"
                )),
            };
            (finding, Some(sealed), unresolved)
        }
        Err(error) => (Wrong(format!("{url}: {error}")), None, Vec::new()),
    }
}

/// The master keys, with the values that each encrypts. `None` if the database could not be read.
fn keys(config: &Config, sealed: Option<&SealedValues>) -> Finding {
    let Some(sealed) = sealed else { return Note("not checked, because the database cannot be read".into()) };
    let file = config.key_file();
    match Vault::check_keys(config, &config.public_url_at(config.listen), sealed) {
        Ok(KeyCheck::NoKeyFile) => Note(format!("{} will be created when the server first starts", file.display())),
        Ok(KeyCheck::Valid(vault)) => {
            let from = match config.master_keys.len() {
                0 => file.display().to_string(),
                count => format!("{count} from DEEPLINK_MASTER_KEY"),
            };
            match &sealed.counts {
                Some(counts) => used_keys(&from, &vault, counts),
                None => Note(format!("{from}; migrate the database to see which values need which key")),
            }
        }
        Err(error) => Wrong(error.to_string()),
    }
}

fn used_keys(from: &str, vault: &Vault, counts: &[KeyCount]) -> Finding {
    const PROCEDURE: &str = "\n         to replace OLD with NEW: set OLD,NEW on every node, then NEW,OLD on every node, then NEW \
        alone once nothing is encrypted with OLD";
    let of = |key: Option<&str>| {
        let of_key = counts.iter().filter(|count| count.key.as_deref() == key);
        let words: Vec<_> = of_key.map(|count| count.column.in_words(count.values)).collect();
        (!words.is_empty()).then(|| words.join(", "))
    };
    let (mut text, mut is_fine) = (from.to_owned(), true);
    let ids: Vec<_> = vault.key_ids().collect();
    for (at, id) in ids.iter().enumerate() {
        let values = of(Some(id));
        is_fine &= at == 0 || values.is_none();
        let role = if at == 0 { "encrypts" } else { "decrypts" };
        let values = values.unwrap_or_else(|| "nothing is encrypted with it".into());
        // Writing to a string does not fail.
        let _ = write!(text, "\n         {id} {role}: {values}");
    }
    let lost: BTreeSet<_> =
        counts.iter().filter_map(|count| count.key.as_deref()).filter(|id| !ids.contains(id)).collect();
    for id in lost {
        is_fine = false;
        let _ = write!(text, "\n         {id} is lost: {}", of(Some(id)).unwrap_or_default());
    }
    if let Some(values) = of(None) {
        is_fine = false;
        let _ = write!(text, "\n         damaged; no key can decrypt them: {values}");
    }
    if ids.len() > 1 {
        text.push_str(PROCEDURE);
    }
    if is_fine { Fine(text) } else { Note(text) }
}

fn data_dir(config: &Config) -> Finding {
    let folder = &config.data_dir;
    match writable(folder) {
        Fine(_) if private::is_open_to_others(folder) => {
            let folder = folder.display();
            Note(format!("{folder} can be read by other users of this machine; to prevent this: chmod 700 {folder}"))
        }
        finding => finding,
    }
}

/// Whether files can be created in a directory.
fn writable(folder: &Path) -> Finding {
    if !folder.exists() {
        return Note(format!("{} does not exist yet; it is created when needed", folder.display()));
    }
    let probe = folder.join(format!(".check-{}", std::process::id()));
    let written = std::fs::OpenOptions::new().write(true).create_new(true).open(&probe);
    match written.and_then(|_| std::fs::remove_file(&probe)) {
        Ok(()) => Fine(folder.display().to_string()),
        Err(error) => Wrong(format!("{} is not writable: {error}", folder.display())),
    }
}

fn address(config: &Config) -> Finding {
    let address = config.listen;
    match TcpListener::bind(address) {
        Ok(_) => Fine(format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            Note(format!("{address} is in use, possibly by this server"))
        }
        Err(error) => Wrong(format!("{address}: {error}")),
    }
}

/// How many connections there can be: startup raises the limit as far as allowed.
fn open_files(files: OpenFiles) -> Finding {
    let (wanted, limits) = (Limits::default().connections, Limits::default().within(files.hard));
    let (connections, each) = (limits.connections, limits.connections_per_address());
    let number = if files.hard == u64::MAX { "unlimited".to_owned() } else { files.hard.to_string() };
    let text = format!(
        "{number}: {connections} connections, at most {each} from each IP address that is not a trusted proxy and a quarter from each IPv6 /48"
    );
    if connections < wanted {
        return Note(format!("{text}; to allow up to {wanted}, raise the hard limit (ulimit -Hn, LimitNOFILE=)"));
    }
    Fine(text)
}

fn tls(config: &Config) -> Finding {
    let Some(tls) = &config.tls else {
        return Fine("off; use a reverse proxy for HTTPS".into());
    };
    if tls.listen.port() != 0 && tls.listen == config.listen {
        let address = tls.listen;
        return Wrong(format!("--tls-listen (DEEPLINK_TLS_LISTEN): {address} is already used by --listen"));
    }
    match TcpListener::bind(tls.listen) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            Note(format!("{} is in use, possibly by this server", tls.listen))
        }
        Err(error) => Wrong(format!("{}: {error}", tls.listen)),
        Ok(_) => Fine(format!("on {}, with certificates from {}", tls.listen, tls.directory)),
    }
}

fn public_url(config: &Config) -> Finding {
    let url = config.public_url_at(config.listen);
    if is_loopback(&url) && !config.listen.ip().is_loopback() {
        Note(format!("links start with {url}, which works only on this machine; set DEEPLINK_PUBLIC_URL"))
    } else if is_loopback(&url) || url.scheme() == "https" {
        Fine(url.to_string())
    } else {
        Note(format!("{url} is not HTTPS: API keys are sent unencrypted unless a reverse proxy adds TLS"))
    }
}

fn home(config: &Config) -> Finding {
    match &config.home_url {
        Some(url) => Fine(format!("redirects to {url}")),
        None => Fine("a page about this service; set DEEPLINK_HOME_URL to redirect to another page".into()),
    }
}

async fn mail(config: &Config) -> Finding {
    let url = config.public_url_at(config.listen);
    match (config.mail_at(&url), config.mail_from_at(&url)) {
        (Some(MailTransport::Smtp(server)), Some(from)) => {
            let Some(smtp) = Smtp::of(config, &url) else { return Wrong("email is disabled".into()) };
            match smtp.answers().await {
                Ok(()) => Fine(format!("from {from} through {server}")),
                Err(error) => Wrong(format!("{server}: {error}")),
            }
        }
        (Some(MailTransport::Directory(folder)), Some(from)) => match writable(&folder) {
            Fine(folder) => Fine(format!("from {from} into {folder}")),
            otherwise => otherwise,
        },
        (Some(_), None) => {
            Wrong("set DEEPLINK_MAIL_FROM; no sender address can be derived from this public URL".into())
        }
        (None, _) if !config.sessions => Note("disabled by DEEPLINK_SESSIONS; sign-in and sign-up are off".into()),
        (None, _) => Note(
            "not configured; set DEEPLINK_SMTP_URL or DEEPLINK_MAIL_DIR to let people sign up and sign in by email"
                .into(),
        ),
    }
}

fn sign_in(config: &Config) -> Finding {
    let provider = |name: &str, provider: &Option<OauthProvider>| {
        provider.as_ref().map(|provider| match &provider.base {
            Some(base) => format!("{name} at {base}"),
            None => name.to_owned(),
        })
    };
    let providers = [provider("Google", &config.oauth.google), provider("GitHub", &config.oauth.github)];
    let by_mail = config.mail_at(&config.public_url_at(config.listen)).map(|_| "email".to_owned());
    let methods: Vec<_> = by_mail.into_iter().chain(providers.into_iter().flatten()).collect();
    if !config.sessions {
        return Note("disabled by DEEPLINK_SESSIONS".into());
    }
    if methods.is_empty() {
        Note("not possible: neither email nor an identity provider is configured".into())
    } else {
        Fine(methods.join(", "))
    }
}

/// How long links last whose account has no verified domain.
fn link_expiry(config: &Config) -> Finding {
    match config.unverified_link_ttl_days {
        0 => Fine("links never expire (DEEPLINK_UNVERIFIED_LINK_TTL_DAYS is 0)".into()),
        days => Note(format!(
            "new links expire after {days} days unless their account has a verified primary domain; on your own service, \
             set DEEPLINK_UNVERIFIED_LINK_TTL_DAYS=0 to keep them"
        )),
    }
}

fn billing(config: &Config) -> Finding {
    let quotas = if config.enforce_quotas { "plan limits are enforced" } else { "plan limits are not enforced" };
    let text = match &config.stripe {
        _ if !config.billing => format!("disabled by DEEPLINK_BILLING; {quotas}"),
        Some(stripe) => format!("Stripe at {}; {quotas}", stripe.base),
        None => format!("no payment processor is configured; {quotas}"),
    };
    if config.enforce_quotas {
        let days = Tier::Free.limits().analytics_retention_days.unwrap_or_default();
        return Note(format!(
            "{text}; individual clicks and other events of accounts on the free plan are deleted after {days} days"
        ));
    }
    if config.billing { Fine(text) } else { Note(text) }
}

/// Whether requests can be paid for, and the payments with an unknown outcome.
fn x402(config: &Config, unresolved: &[Unresolved]) -> Finding {
    let list: Vec<_> = unresolved
        .iter()
        .map(|it| {
            let (at, reason) = (Timestamp::from_millis(it.created_at), it.reason.as_deref().unwrap_or("no response"));
            format!("\n         {at} {} {} from {}, nonce {} ({reason})", it.network, it.amount, it.payer, it.nonce)
        })
        .collect();
    if !list.is_empty() {
        return Note(format!("these payments may or may not have been settled:{}", list.concat()));
    }
    match &config.x402 {
        None => Fine("off".into()),
        Some(x402) => Fine(format!("paid to {} on {}, settled by {}", x402.pay_to, x402.network, x402.facilitator)),
    }
}

fn threats(config: &Config) -> Finding {
    let Some(file) = &config.threat_list else { return Fine("none; links can point to any host".into()) };
    match &file.initial.skipped {
        skipped if skipped.is_empty() => Fine(format!("{file:?}")),
        skipped => Note(format!("{file:?}; ignored lines, neither a URL nor a host: {skipped}")),
    }
}

/// Where the countries of visitors come from.
fn countries(config: &Config, now: Timestamp) -> Finding {
    match &config.country {
        None => Fine("off; set DEEPLINK_GEO_DB or DEEPLINK_COUNTRY_HEADER to count clicks by country".into()),
        Some(CountrySource::Header(name)) => Fine(format!("header {name}, from trusted proxies")),
        Some(CountrySource::File(file)) if file.built.plus_days(OLD_DAYS) < now => {
            Note(format!("{file:?}; older than {OLD_DAYS} days, so some countries may be wrong; download a newer one"))
        }
        Some(CountrySource::File(file)) => Fine(format!("{file:?}")),
    }
}
