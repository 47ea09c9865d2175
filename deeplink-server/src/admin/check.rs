//! `check`: are the settings and the database fit to serve. Changes nothing, so it can run beside a server.

use std::fmt::Write;
use std::net::TcpListener;
use std::path::Path;

use super::{Failure, output};
use crate::config::{Config, MailTransport, OauthProvider, is_loopback};
use crate::db::inspect::{Inspected, inspect};
use crate::vault::{Proof, Vault};
use crate::work::mail::smtp::Smtp;

/// One thing looked at.
enum Finding {
    Fine(String),
    /// It works, and the operator may want to know.
    Note(String),
    /// It does not work.
    Wrong(String),
}

use Finding::{Fine, Note, Wrong};

pub(super) async fn run(config: &Config) -> Result<(), Failure> {
    let (database, sealed) = database(config).await;
    let findings = [
        ("database", database),
        ("server keys", keys(config, &sealed)),
        ("data directory", data_dir(config)),
        ("address", address(config)),
        ("TLS", tls(config)),
        ("public URL", public_url(config)),
        ("mail", mail(config).await),
        ("sign-in", sign_in(config)),
        ("threat list", threats(config)),
    ];
    let mut report = String::new();
    for (name, finding) in &findings {
        let (word, text) = match finding {
            Fine(text) => ("ok", text),
            Note(text) => ("note", text),
            Wrong(text) => ("WRONG", text),
        };
        // Writing to a string does not fail.
        let _ = writeln!(report, "{word:<6} {name:<15} {text}");
    }
    output::say(&report);
    if findings.iter().any(|(_, finding)| matches!(finding, Wrong(_))) { Err(Failure::Told) } else { Ok(()) }
}

/// What the server keys must open.
enum Sealed {
    /// The database could not be read.
    Unknown,
    Nothing,
    With(String),
}

async fn database(config: &Config) -> (Finding, Sealed) {
    let place = &config.database;
    match inspect(place.as_str()).await {
        Ok(Inspected::Missing) => {
            (Note(format!("{place} is not there yet; the first start makes it")), Sealed::Nothing)
        }
        Ok(Inspected::Usable { tenants, links, pending, vault_check }) => {
            let counts = format!("{place} (accounts: {tenants}, links: {links})");
            let finding = match pending {
                0 => Fine(counts),
                pending => Note(format!("{counts}; the next start brings it up to date (migrations: {pending})")),
            };
            (finding, vault_check.map_or(Sealed::Nothing, Sealed::With))
        }
        Err(error) => (Wrong(format!("{place}: {error}")), Sealed::Unknown),
    }
}

fn keys(config: &Config, sealed: &Sealed) -> Finding {
    let known = match sealed {
        Sealed::Unknown => return Note("not tried, because the database cannot be read".into()),
        Sealed::Nothing => None,
        Sealed::With(value) => Some(value.as_str()),
    };
    let file = config.key_file();
    match Vault::prove(config, &config.public_url_at(config.listen), known) {
        Ok(Proof::FileIsMissing) => Note(format!("the first start makes {}", file.display())),
        Ok(Proof::Opens(_)) if config.master_keys.is_empty() => Fine(file.display().to_string()),
        Ok(Proof::Opens(_)) => Fine(format!("{} from DEEPLINK_MASTER_KEY", config.master_keys.len())),
        Err(error) => Wrong(error.to_string()),
    }
}

fn data_dir(config: &Config) -> Finding {
    writable(&config.data_dir)
}

/// Whether files can be made in a folder.
fn writable(folder: &Path) -> Finding {
    if !folder.exists() {
        return Note(format!("{} is not there yet; it is made when it is needed", folder.display()));
    }
    let probe = folder.join(format!(".check-{}", std::process::id()));
    let written = std::fs::OpenOptions::new().write(true).create_new(true).open(&probe);
    match written.and_then(|_| std::fs::remove_file(&probe)) {
        Ok(()) => Fine(folder.display().to_string()),
        Err(error) => Wrong(format!("{} cannot be written: {error}", folder.display())),
    }
}

fn address(config: &Config) -> Finding {
    let address = config.listen;
    match TcpListener::bind(address) {
        Ok(_) => Fine(format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            Note(format!("{address} is in use, perhaps by this service"))
        }
        Err(error) => Wrong(format!("{address}: {error}")),
    }
}

fn tls(config: &Config) -> Finding {
    let Some(tls) = &config.tls else {
        return Fine("off: whoever wants https has a proxy in front".into());
    };
    if tls.listen.port() != 0 && tls.listen == config.listen {
        return Wrong(format!("DEEPLINK_TLS_LISTEN: {} is where DEEPLINK_LISTEN serves already", tls.listen));
    }
    match TcpListener::bind(tls.listen) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            Note(format!("{} is in use, perhaps by this service", tls.listen))
        }
        Err(error) => Wrong(format!("{}: {error}", tls.listen)),
        Ok(_) => Fine(format!("on {}, with certificates from {}", tls.listen, tls.directory)),
    }
}

fn public_url(config: &Config) -> Finding {
    let url = config.public_url_at(config.listen);
    if is_loopback(&url) && !config.listen.ip().is_loopback() {
        Note(format!("links say {url}, which works on this machine only; set DEEPLINK_PUBLIC_URL"))
    } else if is_loopback(&url) || url.scheme() == "https" {
        Fine(url.to_string())
    } else {
        Note(format!("{url} is not https: keys travel readably unless a proxy in front encrypts"))
    }
}

async fn mail(config: &Config) -> Finding {
    let url = config.public_url_at(config.listen);
    match (config.mail_at(&url), config.mail_from_at(&url)) {
        (Some(MailTransport::Smtp(server)), Some(from)) => {
            let Some(smtp) = Smtp::of(config, &url) else { return Wrong("mail is switched off".into()) };
            match smtp.answers().await {
                Ok(()) => Fine(format!("from {from} through {server}")),
                Err(error) => Wrong(format!("{server}: {error}")),
            }
        }
        (Some(MailTransport::Directory(folder)), Some(from)) => match writable(&folder) {
            Fine(folder) => Fine(format!("from {from} into {folder}")),
            otherwise => otherwise,
        },
        (Some(_), None) => Wrong("DEEPLINK_MAIL_FROM is needed with this public URL".into()),
        (None, _) if !config.sessions => Note("switched off by DEEPLINK_SESSIONS; nobody can sign in or up".into()),
        (None, _) => Note("neither DEEPLINK_SMTP_URL nor DEEPLINK_MAIL_DIR is set; nobody can sign in or up".into()),
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
    let by_mail = config.mail_at(&config.public_url_at(config.listen)).map(|_| "mail".to_owned());
    let ways: Vec<_> = by_mail.into_iter().chain(providers.into_iter().flatten()).collect();
    if !config.sessions {
        return Note("switched off by DEEPLINK_SESSIONS".into());
    }
    if ways.is_empty() {
        Note("nobody can: there is neither mail nor a provider".into())
    } else {
        Fine(ways.join(", "))
    }
}

fn threats(config: &Config) -> Finding {
    let Some(file) = &config.threat_list else { return Fine("none: links may lead anywhere".into()) };
    match &file.first.skipped {
        skipped if skipped.is_empty() => Fine(format!("{file:?}")),
        skipped => Note(format!("{file:?}; neither a URL nor a host, and so without effect: lines {skipped}")),
    }
}
