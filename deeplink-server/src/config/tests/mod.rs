//! Settings from flags and variables: defaults, refusals, and what each of them means for the others.

mod billing;
mod x402;

use std::ffi::OsString;

use super::settings::Bare;
use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    let pairs = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Environment::of(pairs).expect("text")
}

fn read(flags: &[&str], variables: &[(&str, &str)]) -> Result<Config, BadSetting> {
    let line = std::iter::once("deeplink-server").chain(flags.iter().copied());
    let bare = <Bare as clap::Parser>::try_parse_from(line).expect("a command line");
    Config::read(&bare.settings, &environment(variables))
}

#[test]
fn defaults_are_as_documented() {
    let config = read(&[], &[]).expect("the defaults");
    assert_eq!(config.data_dir, PathBuf::from("./data"));
    assert_eq!(config.database, DatabaseUrl::sqlite(Path::new("./data/deeplink.db")));
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert!(config.admin_listen.is_none() && config.public_url.is_none() && config.master_keys.is_empty());
    assert!(config.signup_open && config.sessions && !config.enforce_quotas && config.trusted_proxies.is_empty());
    assert!(config.first_account);
    assert_eq!((config.limits.misses_per_minute, config.limits.signups_per_hour), (600, 5));
    assert_eq!(config.webhook_limit, 2);
    assert_eq!((config.link_cache_mb, config.unverified_link_ttl_days, config.retention_days), (32, 30, 0));
    assert_eq!((config.log.as_str(), config.database_timeout), ("info", Duration::from_secs(2)));
}

#[test]
fn an_empty_value_counts_as_unset() {
    let config = read(
        &["--listen", "", "--admin-listen", "", "--quotas", "", "--data-dir", "", "--mail-dir", "", "--public-url", ""],
        &[("DEEPLINK_DATABASE_URL", ""), ("DEEPLINK_MASTER_KEY", "")],
    );
    let config = config.expect("the defaults");
    assert_eq!((config.listen.port(), config.enforce_quotas), (8080, false));
    assert_eq!(config.data_dir, PathBuf::from("./data"));
    assert!(config.mail.is_none() && config.public_url.is_none());
}

#[test]
fn errors_name_the_flag_and_the_variable_of_an_invalid_value() {
    let flags = [
        ("--listen", "here"),
        ("--listen", "localhost:8080"),
        ("--listen", "127.0.0.1"),
        ("--admin-listen", "9090"),
        ("--public-url", "links.example.com"),
        ("--public-url", "ftp://links.example.com"),
        ("--public-url", "https://links.example.com/path"),
        ("--public-url", "https://links.example.com/?x=1"),
        ("--public-url", "https://user@links.example.com"),
        ("--dns-server", "dns.example.com:53"),
        ("--dns-server", "192.0.2.53"),
        ("--cname-target", "https://links.example.com"),
        ("--cname-target", "192.0.2.1"),
        ("--cname-target", "links.example.com."),
        ("--trusted-proxies", "10.0.0.0/8,everything"),
        ("--trusted-proxies", "10.0.0.0/33"),
        ("--outbound-allow", "localhost"),
        ("--outbound-allow", "127.0.0.1/33"),
        ("--signup", "yes"),
        ("--first-account", "true"),
        ("--sessions", "true"),
        ("--quotas", "on"),
        ("--mail-from", "somebody"),
        ("--marketing-url", "www.example.com"),
        ("--marketing-url", "https://www.example.com/signin"),
        ("--home-url", "www.example.com"),
        ("--home-url", "ftp://www.example.com"),
        ("--home-url", "https://me:hunter2@www.example.com"),
        ("--home-url", "http://127.0.0.1:8080"),
        ("--home-url", "http://127.0.0.1:8080/?from=home"),
        ("--oauth-google-client-id", "without a secret"),
        ("--oauth-github-client-id", "without a secret"),
        ("--oauth-google-issuer-base", "http://accounts.example.com"),
        ("--oauth-google-issuer-base", "accounts.example.com"),
        ("--oauth-github-issuer-base", "https://me:secret@github.example.com"),
        ("--oauth-github-issuer-base", "https://github.example.com"),
        ("--billing", "yes"),
        ("--stripe-api-base", "http://api.stripe.example.com"),
        ("--stripe-api-base", "https://sk:hunter2@api.stripe.com"),
        ("--stripe-price-pro", "a price"),
        ("--limit-signin", "1/s"),
        ("--limit-misses", "-1"),
        ("--limit-signup", "many"),
        ("--link-cache-mb", "0"),
        ("--unverified-link-ttl-days", "1.5"),
        ("--retention-days", "36501"),
        ("--log", "deeplink_server=loud"),
        ("--tls-listen", "443"),
        ("--acme-directory", "http://acme.example.com/directory"),
        ("--acme-directory", "acme.example.com"),
        ("--acme-contact", "somebody"),
        ("--outbound-ca", "/nowhere/at/all.pem"),
        ("--outbound-ca", "/dev/null"),
        ("--threat-list", "/nowhere/at/all.txt"),
        ("--threat-list", "/dev/null"),
        ("--country-header", "not a name"),
        ("--country-header", "CF-IPCountry"),
        ("--country-header", "User-Agent"),
        ("--geo-db", "/nowhere/at/all.mmdb"),
        ("--geo-db", "/dev/null"),
        ("--geo-db", "/proc/self/status"),
    ];
    for (flag, value) in flags {
        let variable = format!("DEEPLINK_{}", flag[2..].replace('-', "_").to_uppercase());
        let error = read(&[&format!("{flag}={value}")], &[]).expect_err(value);
        assert_eq!(error.variable, variable);
        assert!(error.to_string().starts_with(&format!("{flag} ({variable}): ")), "{error}");
    }
    for (name, value) in [
        ("DEEPLINK_DATABASE_URL", "mysql://db.example.com/x"),
        ("DEEPLINK_DATABASE_URL", "sqlite://"),
        ("DEEPLINK_DATABASE_URL", "sqlite://:memory:"),
        ("DEEPLINK_DATABASE_URL", "sqlite://x.db?mode=ro"),
        ("DEEPLINK_SMTP_URL", "mail.example.com"),
        ("DEEPLINK_SMTP_URL", "smtp://mail.example.com"),
        ("DEEPLINK_OAUTH_GOOGLE_CLIENT_SECRET", "without an id"),
        ("DEEPLINK_OAUTH_GITHUB_CLIENT_SECRET", "without an id"),
        ("DEEPLINK_MASTER_KEY", "AAAA"),
        ("DEEPLINK_MASTER_KEY", ","),
        ("DEEPLINK_MASTER_KEY", " , ,"),
        ("DEEPLINK_STRIPE_SECRET_KEY", "pk_live_hunter2"),
        ("DEEPLINK_STRIPE_SECRET_KEY", "sk_live\nhunter2"),
        ("DEEPLINK_STRIPE_WEBHOOK_SECRET", " , "),
        ("DEEPLINK_MASTER_KEY_FILE", "/nowhere/at/all"),
    ] {
        let error = read(&[], &[(name, value)]).expect_err(value);
        assert_eq!(error.variable, name);
        assert!(error.to_string().starts_with(&format!("{name}: ")), "{error}");
    }
}

#[test]
fn the_country_has_one_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("countries.mmdb");
    std::fs::write(&path, deeplink_doubles::geo::database(&[("192.0.2.0/24", Some("DE"))])).expect("a file");
    let file = format!("--geo-db={}", path.display());
    let shown = |config: Config| format!("{:?}", config.country);
    let from_file = shown(read(&[&file], &[]).expect("a database"));
    assert!(from_file.contains("Test-Country, built 1970-01-01"), "{from_file}");
    let header = ["--country-header=CF-IPCountry", "--trusted-proxies=192.0.2.1"];
    assert!(shown(read(&header, &[]).expect("a header")).contains("cf-ipcountry"));
    let both = read(&[header[0], header[1], &file], &[]).expect_err("one of them");
    assert_eq!(both.variable, "DEEPLINK_GEO_DB");
}

/// With such a header every click was of an unknown country.
#[test]
fn a_country_is_in_no_general_header() {
    let with = |name: &str| read(&[&format!("--country-header={name}"), "--trusted-proxies=192.0.2.1"], &[]);
    for name in ["Host", "User-Agent", "accept-language", "Cookie", "Authorization", "Content-Type", "X-Forwarded-For"]
    {
        let error = with(name).expect_err(name);
        assert_eq!(error.variable, "DEEPLINK_COUNTRY_HEADER", "{name}");
        assert!(error.to_string().contains("never contains a country"), "{error}");
    }
    for name in ["CF-IPCountry", "CloudFront-Viewer-Country", "X-Country-Code", "X-AppEngine-Country", "Country"] {
        assert!(with(name).is_ok(), "{name}");
    }
}

/// Database URLs, SMTP URLs and keys are secrets: neither errors nor `Debug` repeat them.
#[test]
fn x17_errors_and_debug_do_not_show_secrets() {
    for (name, value) in [
        ("DEEPLINK_DATABASE_URL", "mysql://app:hunter2@db.example.com/x"),
        ("DEEPLINK_MASTER_KEY", "hunter2"),
        ("DEEPLINK_SMTP_URL", "smtp://app:hunter2@mail.example.com"),
        ("DEEPLINK_OAUTH_GOOGLE_CLIENT_SECRET", "hunter2"),
        ("DEEPLINK_STRIPE_SECRET_KEY", "pk_live_hunter2"),
        ("DEEPLINK_STRIPE_SECRET_KEY", "sk_live_hunter2"),
        ("DEEPLINK_STRIPE_WEBHOOK_SECRET", "whsec_hunter2"),
    ] {
        let error = read(&[], &[(name, value)]).expect_err(name);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let error = read(&["--public-url=https://app:hunter2@links.example.com"], &[]).expect_err("a password");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    let config = read(&[], &[("DEEPLINK_DATABASE_URL", "postgres://app:hunter2@db.example.com:5433/links")]);
    let config = config.expect("a database URL");
    assert_eq!(config.database.to_string(), "postgres://db.example.com:5433/links");
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(!format!("{:?}", environment(&[("DEEPLINK_MASTER_KEY", "hunter2")])).contains("hunter2"));
}

#[test]
fn a_secret_comes_from_a_variable_or_a_file_but_not_both() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "postgres://db.example.com/links\n").expect("written");
    let path = file.path().to_str().expect("UTF-8");
    let config = read(&[], &[("DEEPLINK_DATABASE_URL_FILE", path)]).expect("a file");
    assert_eq!(config.database.as_str(), "postgres://db.example.com/links");
    let both = [("DEEPLINK_DATABASE_URL_FILE", path), ("DEEPLINK_DATABASE_URL", "sqlite://x.db")];
    assert_eq!(read(&[], &both).expect_err("two values").variable, "DEEPLINK_DATABASE_URL");
}

#[test]
fn several_master_keys_are_read_in_order() {
    use base64::Engine;
    let text = |byte| base64::engine::general_purpose::STANDARD.encode([byte; 32]);
    let both = format!("{}, {}", text(1), text(2));
    let config = read(&[], &[("DEEPLINK_MASTER_KEY", &both)]).expect("two keys");
    assert_eq!(config.master_keys, [text(1).parse().expect("a key"), text(2).parse().expect("a key")]);
}

#[test]
fn lost_master_keys_are_named_by_their_ids() {
    let config = read(&["--lost-master-keys", "1a2b3c4d, 00000000"], &[]).expect("two ids");
    assert_eq!(config.lost_master_keys, ["1a2b3c4d", "00000000"]);
    for wrong in ["1a2b3c4", "1A2B3C4D", "1a2b3c4d,,", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="] {
        let refused = read(&["--lost-master-keys", wrong], &[]).expect_err(wrong);
        assert_eq!(refused.variable, "DEEPLINK_LOST_MASTER_KEYS");
    }
}

#[test]
fn unknown_variables_are_reported_with_a_suggestion() {
    let warnings = environment(&[
        ("DEEPLINK_LISTEN", "127.0.0.1:1"),
        ("DEEPLINK_DATABASE_URL_FILE", "x"),
        ("DEEPLINK_LISTN", "127.0.0.1:1"),
        ("DEEPLINK_PUBLIC_ULR", "x"),
        ("DEEPLINK_MASTERKEY", "x"),
        ("DEEPLINK_STRIPE_SECRET_KEY_FILE", "x"),
        ("DEEPLINK_PAYPAL_SECRET", "x"),
        ("DEEPLINK_EMPTY", ""),
        ("OTHER_LISTN", "x"),
    ])
    .unknown();
    assert_eq!(
        warnings,
        [
            "unknown environment variable DEEPLINK_LISTN is ignored; did you mean DEEPLINK_LISTEN?",
            "unknown environment variable DEEPLINK_MASTERKEY is ignored; did you mean DEEPLINK_MASTER_KEY?",
            "unknown environment variable DEEPLINK_PAYPAL_SECRET is ignored",
            "unknown environment variable DEEPLINK_PUBLIC_ULR is ignored; did you mean DEEPLINK_PUBLIC_URL?",
        ]
    );
}

#[cfg(unix)]
#[test]
fn errors_name_the_variable_of_a_value_that_is_not_utf_8() {
    use std::os::unix::ffi::OsStringExt;
    let error = Environment::of([("DEEPLINK_LISTEN".into(), OsString::from_vec(vec![0xff]))]).expect_err("no text");
    assert_eq!(error.variable, "DEEPLINK_LISTEN");
}

#[test]
fn the_public_url_defaults_to_the_bound_address() {
    let config = Config::for_tests("data");
    for (bound, url) in [
        ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("0.0.0.0:8080", "http://localhost:8080/"),
        ("[::]:9000", "http://localhost:9000/"),
        ("[::1]:9000", "http://[::1]:9000/"),
        ("192.0.2.7:80", "http://192.0.2.7/"),
    ] {
        assert_eq!(config.public_url_at(bound.parse().expect("an address")).as_str(), url);
    }
    let config = read(&["--public-url", "https://links.example.com"], &[]).expect("a URL");
    let bound = "127.0.0.1:8080".parse().expect("an address");
    assert_eq!(config.public_url_at(bound).as_str(), "https://links.example.com/");
}

#[test]
fn mail_defaults_to_the_data_directory_on_loopback_only() {
    let url = |text: &str| Url::parse(text).expect("a URL");
    let directory = |path: &str| Some(MailTransport::Directory(path.into()));
    let own = Config::for_tests("data");
    for text in ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:1", "http://links.localhost"] {
        assert_eq!(own.mail_at(&url(text)), directory("data/mail"), "{text}");
    }
    assert_eq!(own.mail_at(&url("https://links.example.com")), None);
    assert_eq!(own.mail_at(&url("https://localhost.example.com")), None);
    let configured = read(&["--mail-dir", "out"], &[]).expect("a directory");
    assert_eq!(configured.mail_at(&url("https://links.example.com")), directory("out"));
    let off = read(&["--mail-dir", "out", "--sessions", "off"], &[]).expect("settings");
    assert_eq!(off.mail_at(&url("http://localhost")), None);
}

#[test]
fn a_provider_is_configured_by_client_id_and_secret() {
    let config = read(
        &["--oauth-google-client-id=ours", "--oauth-google-issuer-base=http://127.0.0.1:9000/idp"],
        &[("DEEPLINK_OAUTH_GOOGLE_CLIENT_SECRET", "hunter2")],
    );
    let config = config.expect("a provider");
    assert!(config.oauth.github.is_none() && !format!("{config:?}").contains("hunter2"));
    let google = config.oauth.google.expect("Google");
    assert_eq!(
        (google.client_id.as_str(), google.base.expect("a base").as_str()),
        ("ours", "http://127.0.0.1:9000/idp")
    );
}

#[test]
fn smtp_url_and_mail_dir_exclude_each_other() {
    let smtp = ("DEEPLINK_SMTP_URL", "smtps://app:hunter2@mail.example.com");
    let config = read(&[], &[smtp]).expect("a server");
    assert!(!format!("{config:?}").contains("hunter2"));
    let transport = config.mail_at(&Url::parse("https://links.example.com").expect("a URL"));
    assert!(matches!(transport, Some(MailTransport::Smtp(server)) if server.to_string() == "smtps://mail.example.com"));
    let error = read(&["--mail-dir=out"], &[smtp]).expect_err("both");
    assert_eq!(error.variable, "DEEPLINK_SMTP_URL");
}

#[test]
fn the_marketing_url_defaults_to_the_public_url() {
    let url = Url::parse("https://links.example.com").expect("a URL");
    let website = |flags: &[&str]| read(flags, &[]).expect("settings").marketing_url_at(&url).to_string();
    assert_eq!(website(&[]), "https://links.example.com/");
    assert_eq!(website(&["--marketing-url", ""]), "https://links.example.com/");
    assert_eq!(website(&["--marketing-url=https://www.example.com"]), "https://www.example.com/");
}

#[test]
fn the_home_page_redirects_anywhere_but_to_itself() {
    let home = |flags: &[&str]| read(flags, &[]).map(|config| config.home_url.map(String::from));
    assert_eq!(home(&[]).expect("settings"), None);
    for (url, stored) in [
        ("https://www.example.com", "https://www.example.com/"),
        ("http://www.example.com/links?x=1#top", "http://www.example.com/links?x=1#top"),
        ("https://links.example.com/signin", "https://links.example.com/signin"),
    ] {
        let flags = ["--public-url=https://links.example.com", "--home-url", url];
        assert_eq!(home(&flags).expect("settings").as_deref(), Some(stored));
    }
    let error = home(&["--public-url=https://links.example.com", "--home-url=https://LINKS.example.com:443/"]);
    assert_eq!(error.expect_err("a loop").variable, "DEEPLINK_HOME_URL");
}

#[test]
fn the_sender_of_mails_defaults_to_the_public_host() {
    let url = |text: &str| Url::parse(text).expect("a URL");
    let own = Config::for_tests("data");
    for (text, from) in
        [("https://links.example.com", "no-reply@links.example.com"), ("http://127.0.0.1:8080", "no-reply@localhost")]
    {
        assert_eq!(own.mail_from_at(&url(text)).expect("a sender").email.to_string(), from);
    }
    let configured = read(&["--mail-from", "Links <links@example.com>"], &[]).expect("a sender");
    let from = configured.mail_from_at(&url("http://localhost")).expect("a sender");
    assert_eq!(from.to_string(), "Links <links@example.com>");
}

#[test]
fn tls_needs_both_listen_address_and_acme_directory() {
    let (listen, directory) = ("--tls-listen=127.0.0.1:443", "--acme-directory=https://acme.example.com/directory");
    let contact = "--acme-contact=ops@example.com";
    assert!(read(&[], &[]).expect("the defaults").tls.is_none());
    let tls = read(&[listen, directory, contact], &[]).expect("all of it").tls.expect("TLS");
    assert_eq!(tls.listen.to_string(), "127.0.0.1:443");
    assert_eq!(tls.directory.as_str(), "https://acme.example.com/directory");
    assert_eq!(tls.contact.expect("a contact").to_string(), "ops@example.com");
    for (half, variable) in [
        (&[listen][..], "DEEPLINK_TLS_LISTEN"),
        (&[listen, contact], "DEEPLINK_TLS_LISTEN"),
        (&[directory], "DEEPLINK_ACME_DIRECTORY"),
        (&[directory, contact], "DEEPLINK_ACME_DIRECTORY"),
        (&[contact], "DEEPLINK_ACME_CONTACT"),
    ] {
        assert_eq!(read(half, &[]).expect_err("half a configuration").variable, variable);
    }
    let error = read(&["--acme-directory=https://me:hunter2@acme.example.com/", listen], &[]).expect_err("a password");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

/// Q10: `DEEPLINK_OUTBOUND_ALLOW` is refused with a public https URL.
#[test]
fn q10_non_public_networks_are_refused_with_a_public_url() {
    let inner = "--outbound-allow=127.0.0.0/8, 10.1.2.3,::1";
    for own in
        [&[inner][..], &[inner, "--public-url=http://links.example.com"], &[inner, "--public-url=https://localhost"]]
    {
        let allow = read(own, &[]).expect("a setting for development").outbound_allow;
        for (address, inside) in
            [("127.255.0.1", true), ("10.1.2.3", true), ("::1", true), ("10.1.2.4", false), ("::ffff:127.0.0.1", false)]
        {
            assert_eq!(allow.contains(address.parse().expect("an address")), inside, "{address}");
        }
    }
    let error = read(&[inner, "--public-url=https://links.example.com"], &[]).expect_err("a public service");
    assert_eq!(error.variable, "DEEPLINK_OUTBOUND_ALLOW");
    assert!(error.to_string().contains("127.0.0.0/8, 10.1.2.3/32, ::1/128"), "{error}");
    assert!(read(&["--outbound-allow= , ", "--public-url=https://links.example.com"], &[]).is_ok(), "there is none");
    assert!(read(&[], &[]).expect("the defaults").outbound_allow.is_empty());
}

#[test]
fn the_cname_target_defaults_to_the_public_host() {
    let url = Url::parse("https://links.example.com").expect("a URL");
    assert_eq!(read(&[], &[]).expect("the defaults").cname_target_at(&url), "links.example.com");
    let configured = read(&["--cname-target=Edge.Example.NET", "--dns-server=192.0.2.53:53"], &[]).expect("settings");
    assert_eq!(configured.cname_target_at(&url), "edge.example.net");
    assert_eq!(configured.dns_server, Some("192.0.2.53:53".parse().expect("an address")));
}
