//! Operator commands, alone and beside a running server.

use std::net::TcpListener;

use crate::process::{Home, PATIENCE, ask};
use deeplink_doubles::wait::eventually_blocking;

#[test]
fn an_account_is_opened_on_a_database_that_was_not_there() {
    let home = Home::new();
    let printed = home.ok(&["tenant", "create", "--email", " Owner@Example.com "]);
    let names: Vec<_> = printed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["tenant_id", "user_id", "api_key"]);
    let again = home.run(&["tenant", "create", "--email", "owner@example.com", "--json"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stdout.is_empty() && again.stderr.contains("email_exists"), "{again:?}");
    let wrong = home.run(&["tenant", "create", "--email", "nobody"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}

#[test]
fn commands_work_beside_a_running_server() {
    let home = Home::new();
    let server = home.serve();
    let key = home.key("beside@example.com");
    let link = server.link(&key);
    assert_eq!(server.tap(&link), 302);
    for (word, status) in [("disable", 410), ("flag", 200), ("enable", 302)] {
        home.ok(&["link", word, &link, "--reason", "a test"]);
        eventually_blocking(word, PATIENCE, || server.tap(&link) == status);
    }
    let check = home.run(&["check"]);
    assert_eq!(check.code, Some(0), "{check:?}");
    // On SQLite the first run made an account and a link.
    let counts = if home.is_sqlite() { "accounts: 2, links: 2" } else { "accounts: 1, links: 1" };
    assert!(check.stdout.contains(counts), "{check:?}");
    server.stop();
}

#[test]
fn a_status_needs_a_link_and_a_reason() {
    let home = Home::new();
    let tenant = home.ok(&["tenant", "create", "--email", "owner@example.com", "--json"]);
    let tenant: serde_json::Value = serde_json::from_str(&tenant).expect("JSON");
    let tenant = tenant["tenant_id"].as_str().expect("an id");
    for (args, code, says) in [
        (&["link", "flag", "no-such-link", "--reason", "x"][..], 1, "no link with ID"),
        (&["link", "flag", "no-such-link", "--reason", "x", "--tenant", tenant], 1, "no link with ID"),
        (&["link", "flag", "a/b", "--reason", "x"], 1, "no link with ID"),
        (&["link", "flag", "no-such-link"], 2, "--reason"),
        (&["link", "flag", "no-such-link", "--reason", " "], 2, "--reason"),
        (&["link", "flag", "no-such-link", "--reason", "x", "--tenant", "me"], 2, "--tenant"),
        (&["link", "hide", "no-such-link", "--reason", "x"], 2, "hide"),
    ] {
        let ended = home.run(args);
        assert_eq!(ended.code, Some(code), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(says) && ended.stdout.is_empty(), "{args:?}: {ended:?}");
    }
}

#[test]
fn a_backup_of_a_running_server_brings_everything_back() {
    let home = Home::on_sqlite();
    let server = home.serve();
    let key = home.key("owner@example.com");
    let before = server.link(&key);
    home.ok(&["backup", "copy.db"]);
    let after = server.link(&key);
    let taken = home.run(&["backup", "copy.db"]);
    assert_eq!(taken.code, Some(1), "a backup replaces no file: {taken:?}");
    let beside = home.run(&["restore", "copy.db"]);
    assert_eq!(beside.code, Some(1), "{beside:?}");
    assert!(beside.stderr.contains("in use by process"), "{beside:?}");
    server.stop();

    let restored = home.ok(&["restore", "copy.db"]);
    assert!(restored.contains("deeplink.db"), "{restored}");
    assert!(home.data("deeplink.db.replaced").exists(), "what was there is kept");
    let server = home.serve();
    assert_eq!((server.tap(&before), server.tap(&after)), (302, 404));
    server.link(&key);
    server.stop();
}

#[test]
fn a_click_journal_is_loaded_where_no_server_uses_it() {
    let home = Home::on_sqlite();
    let key = home.key("owner@example.com");
    let missing = home.run(&["clicks", "load", "no-such-folder"]);
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.stderr.contains("no-such-folder is not a directory"), "{missing:?}");
    let server = home.serve();
    let link = server.link(&key);
    assert_eq!(server.tap(&link), 302);
    let folder = home.data("clicks");
    let folder = folder.to_str().expect("a path in UTF-8");
    let beside = home.run(&["clicks", "load", folder]);
    assert_eq!(beside.code, Some(1), "{beside:?}");
    assert!(beside.stderr.contains("in use by process"), "{beside:?}");
    server.stop();
    // The stop has stored what there was.
    assert_eq!(home.ok(&["clicks", "load", folder]), format!("clicks loaded from {folder}: 0\n"));
}

/// What a node had not stored when it was killed is loaded from a copy of its folder, once.
#[test]
fn the_clicks_of_a_lost_node_are_loaded_once() {
    let home = Home::new();
    let key = home.key("owner@example.com");
    let mut server = home.serve();
    let link = server.link(&key);
    let locked = home.lock();
    for _ in 0..3 {
        assert_eq!(server.tap(&link), 302);
    }
    server.child.kill().expect("killed");
    server.wait();
    locked.release();
    let copy = home.path("copy");
    std::fs::create_dir(&copy).expect("a directory");
    for file in std::fs::read_dir(home.data("clicks")).expect("the journal") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), copy.join(file.file_name())).expect("copied");
    }
    // By its name in the working directory.
    assert_eq!(home.ok(&["clicks", "load", "copy"]), "clicks loaded from copy: 3\n");
    let copy = copy.to_str().expect("a path in UTF-8");
    assert_eq!(home.ok(&["clicks", "load", copy]), format!("clicks loaded from {copy}: 0\n"));
    let folder = home.data("clicks");
    let folder = folder.to_str().expect("a path in UTF-8");
    assert_eq!(home.ok(&["clicks", "load", folder]), format!("clicks loaded from {folder}: 0\n"));
    let server = home.serve();
    let authorization = format!("Bearer {key}");
    let stats =
        ask(server.address, "GET", &format!("/v1/links/{link}/stats"), &[("Authorization", &authorization)], "");
    assert_eq!(stats.json()["click_count"], 3, "{stats:?}");
    server.stop();
}

#[test]
fn a_damaged_backup_is_refused_and_the_database_stays() {
    let home = Home::on_sqlite();
    let key = home.key("owner@example.com");
    let server = home.serve();
    let link = server.link(&key);
    server.stop();
    home.ok(&["backup", "copy.db"]);
    let path = home.path("copy.db");
    let mut bytes = std::fs::read(&path).expect("the copy");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4_096].fill(0xa5);
    std::fs::write(&path, bytes).expect("written");
    let refused = home.run(&["restore", "copy.db"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let missing = home.run(&["restore", "nothing.db"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    let server = home.serve();
    assert_eq!(server.tap(&link), 302);
    server.stop();
}

#[test]
fn check_finds_what_is_wrong_and_changes_nothing() {
    let home = Home::on_sqlite();
    let fresh = home.run(&["check"]);
    assert_eq!(fresh.code, Some(0), "{fresh:?}");
    assert!(fresh.stdout.contains("it will be created when the server first starts"), "{fresh:?}");
    assert!(!home.path("data").exists(), "check makes nothing");

    home.serve().stop();
    let mut home = home;
    let expiry =
        "note   link expiry     new links expire after 30 days unless their account has a verified primary domain";
    assert!(
        home.ok(&["check"])
            .lines()
            .any(|line| { line.starts_with(expiry) && line.contains("DEEPLINK_UNVERIFIED_LINK_TTL_DAYS=0") })
    );
    assert!(home.ok(&["check"]).lines().any(|line| line.starts_with("ok     master keys")));
    assert!(home.ok(&["check"]).lines().any(|line| line.starts_with("ok     TLS             off")));
    home.set("DEEPLINK_ACME_DIRECTORY", "https://acme.example.com/directory");
    home.set("DEEPLINK_TLS_LISTEN", "127.0.0.1:0");
    let tls = "ok     TLS             on 127.0.0.1:0, with certificates from https://acme.example.com/directory";
    assert!(home.ok(&["check"]).lines().any(|line| line == tls), "{}", home.ok(&["check"]));
    // A documentation address, which no machine has.
    home.set("DEEPLINK_TLS_LISTEN", "192.0.2.1:443");
    let wrong = home.run(&["check"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stdout.lines().any(|line| line.starts_with("FAIL   TLS")), "{wrong:?}");
    home.set("DEEPLINK_TLS_LISTEN", "127.0.0.1:0");
    // Nothing listens there.
    home.set("DEEPLINK_SMTP_URL", "smtp://app:hunter2@127.0.0.1:1");
    let wrong = home.run(&["check"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stdout.contains("FAIL   email") && !wrong.stdout.contains("hunter2"), "{wrong:?}");
    home.set("DEEPLINK_SMTP_URL", "");
    home.set("DEEPLINK_MASTER_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    let wrong = home.run(&["check"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stdout.lines().any(|line| line.starts_with("FAIL   master keys")), "{wrong:?}");
    home.set("DEEPLINK_DATABASE_URL", "postgres://app:hunter2@127.0.0.1:1/links");
    let wrong = home.run(&["check"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stdout.contains("FAIL   database") && !wrong.stdout.contains("hunter2"), "{wrong:?}");
}

/// `check` said nothing about countries.
#[test]
fn check_says_where_countries_come_from() {
    let mut home = Home::on_sqlite();
    let row = |home: &Home| {
        let check = home.ok(&["check"]);
        check.lines().find(|line| line.contains(" countries ")).expect("a row").to_owned()
    };
    let off = "ok     countries       off; set DEEPLINK_GEO_DB or DEEPLINK_COUNTRY_HEADER to count clicks by country";
    assert_eq!(row(&home), off);
    home.set("DEEPLINK_COUNTRY_HEADER", "CF-IPCountry");
    home.set("DEEPLINK_TRUSTED_PROXIES", "192.0.2.1");
    assert_eq!(row(&home), "ok     countries       header cf-ipcountry, from trusted proxies");
    home.set("DEEPLINK_COUNTRY_HEADER", "");
    let file = home.path("countries.mmdb");
    std::fs::write(&file, deeplink_doubles::geo::database(&[("192.0.2.0/24", Some("DE"))])).expect("written");
    let file = file.to_str().expect("UTF-8").to_owned();
    home.set("DEEPLINK_GEO_DB", &file);
    let old = format!("note   countries       {file} (Test-Country, built 1970-01-01); older than 60 days,");
    assert!(row(&home).starts_with(&old), "{}", row(&home));
}

#[test]
fn a_damaged_database_is_found() {
    let home = Home::on_sqlite();
    home.serve().stop();
    let path = home.data("deeplink.db");
    let mut bytes = std::fs::read(&path).expect("the database");
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xa5);
    std::fs::write(&path, bytes).expect("written");
    let check = home.run(&["check"]);
    assert_eq!(check.code, Some(1), "{check:?}");
}

#[test]
fn migrate_prepares_a_database_for_later() {
    let home = Home::new();
    home.ok(&["migrate"]);
    home.ok(&["migrate"]);
    let check = home.ok(&["check"]);
    assert!(check.contains("accounts: 0, links: 0"), "{check}");
}

#[test]
fn the_interface_is_printed_without_any_setting() {
    let mut home = Home::on_sqlite();
    home.set("DEEPLINK_QUOTAS", "sometimes");
    let document: serde_json::Value = serde_json::from_str(&home.ok(&["openapi"])).expect("JSON");
    assert!(document["paths"]["/v1/auth/signup"]["post"].is_object());
    assert!(!home.path("data").exists());
}

#[test]
fn health_says_whether_the_server_responds() {
    let mut home = Home::on_sqlite();
    let server = home.serve();
    let address = server.address;
    home.set("DEEPLINK_LISTEN", address.to_string());
    home.set("DEEPLINK_FIRST_ACCOUNT", "an invalid setting, which is not for this command");
    assert_eq!(home.ok(&["health"]), "");
    server.stop();
    let stopped = home.run(&["health"]);
    assert_eq!(stopped.code, Some(1), "{stopped:?}");
    assert!(stopped.stderr.contains(&format!("GET http://{address}/health failed: ")), "{stopped:?}");

    // Connections are accepted, but not answered.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    home.set("DEEPLINK_LISTEN", silent.local_addr().expect("an address").to_string());
    let hung = home.run(&["health"]);
    assert_eq!(hung.code, Some(1), "{hung:?}");
    assert!(hung.stderr.contains("got no response within 2 seconds"), "{hung:?}");

    let unknown = home.run(&["health", "--listen", "127.0.0.1:0"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.stderr.contains("port 0"), "{unknown:?}");
}

#[test]
fn short_help_has_the_settings_of_a_first_start() {
    let help = Home::new().ok(&["-h"]);
    assert!(help.contains("--data-dir") && help.contains("All settings: deeplink-server --help"), "{help}");
    assert!(!help.contains("--admin-listen") && help.lines().count() < 40, "{help}");
    let of_command = Home::new().ok(&["tenant", "list", "-h"]);
    assert!(!of_command.contains("--admin-listen"), "{of_command}");
}

#[test]
fn help_names_every_variable() {
    let help = Home::new().ok(&["--help"]);
    for name in ["DEEPLINK_LISTEN", "DEEPLINK_DATABASE_URL", "DEEPLINK_MASTER_KEY", "DEEPLINK_RETENTION_DAYS"] {
        assert!(help.contains(name), "{name} is missing in\n{help}");
    }
    // The parser wraps the rest to the width of the terminal.
    let secrets = help.split_once("\nSecrets (").expect("the variables without a flag").1;
    for line in secrets.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}
