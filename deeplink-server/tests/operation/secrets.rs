//! Keys, tokens and mails: where they may appear, and where not.

use crate::process::{Home, PATIENCE, Server, mails};
use deeplink_doubles::wait::eventually_blocking;

fn sign_up(server: &Server, email: &str) -> String {
    let reply = server.post("/v1/auth/signup", None, &format!("{{\"email\":\"{email}\"}}"));
    assert_eq!(reply.status, 201, "{reply:?}");
    assert!(reply.head.contains("cache-control: no-store"), "{}", reply.head);
    reply.json()["api_key"].as_str().expect("a key").to_owned()
}

fn token_in(mail: &str) -> String {
    let line = mail.lines().find(|line| line.starts_with("http")).expect("a link on a line of its own");
    line.split_once("token=").expect("a token").1.to_owned()
}

#[test]
fn a_sign_up_is_mailed_as_one_file() {
    let home = Home::new();
    let server = home.serve();
    sign_up(&server, "New@Example.com");
    let folder = home.data("mail");
    eventually_blocking("the mail", PATIENCE, || mails(&folder).len() == 1);
    let mail = mails(&folder).remove(0);
    assert!(mail.lines().any(|line| line == "To: new@example.com"), "{mail}");
    let token = token_in(&mail);
    assert!(token.len() == 64 && token.bytes().all(|b| b.is_ascii_hexdigit()), "{token}");
    assert!(mail.contains(&format!("\r\nhttp://{}/account/confirm?token={token}\r\n", server.address)), "{mail}");
    assert_eq!(
        mail.matches(&token).count(),
        4,
        "the text has it once, the page in a button, an address and a text: {mail}"
    );
    assert!(mail.contains("text/plain") && mail.contains("text/html"), "{mail}");
    server.stop();
}

#[test]
fn a_mail_that_could_not_be_written_goes_out_after_a_restart() {
    let mut home = Home::new();
    // A file is where the directory should be.
    let folder = home.path("out");
    std::fs::write(&folder, "").expect("a file");
    home.set("DEEPLINK_MAIL_DIR", folder.to_str().expect("UTF-8"));
    let server = home.serve();
    sign_up(&server, "patient@example.com");
    eventually_blocking("a warning", PATIENCE, || server.log().contains("email could not be sent; will retry"));
    server.stop();
    std::fs::remove_file(&folder).expect("removed");
    let server = home.serve();
    eventually_blocking("the mail", PATIENCE, || mails(&folder).len() == 1);
    server.stop();
}

#[test]
fn a_sign_up_needs_an_open_door_and_a_way_to_mail() {
    for (settings, status, code) in [
        (&[("DEEPLINK_SIGNUP", "closed")][..], 403, "signup_closed"),
        (&[("DEEPLINK_SESSIONS", "off")], 503, "sessions_not_configured"),
        (&[("DEEPLINK_PUBLIC_URL", "https://links.example.com")], 503, "sessions_not_configured"),
    ] {
        let mut home = Home::new();
        home.set("DEEPLINK_MASTER_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
        for (name, value) in settings {
            home.set(name, *value);
        }
        let server = home.serve();
        let reply = server.post("/v1/auth/signup", None, r#"{"email":"new@example.com"}"#);
        assert_eq!((reply.status, reply.json()["code"].as_str()), (status, Some(code)), "{reply:?}");
        assert!(!reply.head.contains("retry-after"), "{}", reply.head);
        server.stop();
    }
}

/// S18: five sign-ups an hour from one address; the sixth waits.
#[test]
fn s18_sign_ups_are_limited() {
    let home = Home::new();
    let server = home.serve();
    for n in 0..5 {
        sign_up(&server, &format!("n{n}@example.com"));
    }
    let sixth = server.post("/v1/auth/signup", None, r#"{"email":"n6@example.com"}"#);
    assert_eq!((sixth.status, sixth.json()["code"].as_str()), (429, Some("rate_limited")), "{sixth:?}");
    assert!(sixth.head.contains("retry-after: "), "{}", sixth.head);
    server.stop();
}

/// S18: a sign-up by another person does not take an address; a verified account does.
#[test]
fn s18_an_unverified_sign_up_takes_no_address() {
    let home = Home::new();
    let server = home.serve();
    let first = sign_up(&server, "victim@example.com");
    let second = sign_up(&server, "victim@example.com");
    assert_ne!(first, second);
    home.key("victim@example.com");
    let third = server.post("/v1/auth/signup", None, r#"{"email":"victim@example.com"}"#);
    assert_eq!((third.status, third.json()["code"].as_str()), (409, Some("email_exists")), "{third:?}");
    server.stop();
}

/// X17: no key, token or master key is in the log, at any level.
#[test]
fn x17_the_log_holds_no_secret() {
    let home = Home::new();
    let server = home.serve_with(&["--log", "trace"]);
    let key = sign_up(&server, "new@example.com");
    let folder = home.data("mail");
    eventually_blocking("the mail", PATIENCE, || mails(&folder).len() == 1);
    let token = token_in(&mails(&folder).remove(0));
    server.link(&key);
    let wrong = key.replace("dl_live_", "dl_wrong_");
    assert_eq!(server.post("/v1/links", Some(&wrong), "{}").status, 401);
    server.get(&format!("/account/confirm?token={token}"));
    server.get(&format!("/in/{token}"));
    server.get(&format!("/v1/lifecycle/click?key={key}"));
    let master = std::fs::read_to_string(home.data("master.key")).expect("the key file");
    let log = server.log();
    assert!(log.contains("\"level\":\"DEBUG\"") || log.contains("\"level\":\"INFO\""), "nothing is logged: {log}");
    let banner = server.stop();
    let first = banner.split_whitespace().find(|word| word.starts_with("dl_live_"));
    assert_eq!(first.is_some(), home.is_sqlite());
    let log = std::fs::read_to_string(home.path("log")).expect("the log");
    let mut secrets = vec![key["dl_live_".len()..].to_owned(), token, master.trim().to_owned()];
    secrets.extend(first.map(|key| key["dl_live_".len()..].to_owned()));
    secrets.extend(home.database_password());
    for secret in secrets {
        assert!(!log.contains(&secret), "a secret is in the log:\n{log}");
    }
}

/// X18: the key file is created with access for its owner only, and wider permissions stop the start with the command
/// to run.
#[cfg(unix)]
#[test]
fn x18_a_key_file_that_others_can_read_stops_the_start() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.serve().stop();
    let path = home.data("master.key");
    let mode = std::fs::metadata(&path).expect("the key file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for mode in [0o644, 0o640, 0o601] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("changed");
        let ended = home.run(&[]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("chmod 600 ./data/master.key"), "{ended:?}");
        assert_eq!(ended.stdout, "");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("changed");
    home.serve().stop();
}

/// The id of the first key that `check` reports with this use.
fn key_that(check: &str, does: &str) -> String {
    let line = check.lines().find_map(|line| line.split_once(&format!(" {does}: ")));
    line.expect("a key").0.trim().to_owned()
}

/// The output of `check`, whether it succeeds or not.
fn checked(home: &Home) -> String {
    home.run(&["check"]).stdout
}

/// When a key is lost, the service starts once the operator says so by its id; what needed the key stays as it is.
#[test]
fn r10_a_lost_key_is_named_before_its_values_are_given_up() {
    const LOST: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    const NEW: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let mut home = Home::new();
    home.set("DEEPLINK_MASTER_KEY", LOST);
    let server = home.serve();
    let key = home.key("owner@example.com");
    let source = server.post("/v1/sources", Some(&key), r#"{"name":"Shop","source_type":"custom"}"#);
    assert_eq!(source.status, 201, "{source:?}");
    server.stop();
    let lost = key_that(&home.ok(&["check"]), "encrypts");

    home.set("DEEPLINK_MASTER_KEY", NEW);
    let refused = home.run(&[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains(&format!("DEEPLINK_LOST_MASTER_KEYS={lost}")), "{refused:?}");
    home.set("DEEPLINK_LOST_MASTER_KEYS", &lost);
    for _ in 0..2 {
        let server = home.serve();
        let made = server.post("/v1/sources", Some(&key), r#"{"name":"Another","source_type":"custom"}"#);
        assert!(matches!(made.status, 201 | 409), "{made:?}");
        server.stop();
    }
    let check = home.ok(&["check"]);
    assert!(check.contains(&format!(" {lost} is lost: 1 source URL\n")), "{check}");
    assert!(check.contains(" encrypts: 1 check value, 1 source URL\n"), "{check}");
}

/// X18: a node with other keys does not start; keys rotate, and the old one can be removed after a restart with both.
#[test]
fn x18_other_keys_stop_the_start_and_keys_rotate() {
    const OLD: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    const NEW: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let mut home = Home::new();
    // No mail can go out, so one waits sealed with the old key.
    let folder = home.path("out");
    std::fs::write(&folder, "").expect("a file");
    home.set("DEEPLINK_MAIL_DIR", folder.to_str().expect("UTF-8"));
    home.set("DEEPLINK_MASTER_KEY", OLD);
    let server = home.serve();
    sign_up(&server, "patient@example.com");
    server.stop();
    assert!(!home.data("master.key").exists(), "a key that is set needs no file");
    let check = checked(&home);
    assert!(check.contains(" encrypts: 1 check value, 1 queued email\n"), "{check}");
    let old = key_that(&check, "encrypts");

    home.set("DEEPLINK_MASTER_KEY", NEW);
    let other = home.run(&[]);
    assert_eq!(other.code, Some(1), "{other:?}");
    let needed = format!("do not match this database, which needs: key {old} for 1 check value, 1 queued email. Add");
    assert!(other.stderr.contains(&needed), "{other:?}");
    let check = home.run(&["check"]);
    assert!(check.code == Some(1) && check.stdout.contains(&needed), "{check:?}");
    home.set("DEEPLINK_MASTER_KEY", format!("{NEW},{OLD}"));
    let check = checked(&home);
    assert!(check.contains("note   master keys"), "{check}");
    assert!(check.contains(&format!(" {old} decrypts: 1 check value, 1 queued email\n")), "{check}");
    assert!(check.contains("set OLD,NEW on every node, then NEW,OLD"), "{check}");
    home.serve().stop();
    let check = checked(&home);
    assert!(check.contains("ok     master keys"), "{check}");
    assert!(check.contains(&format!(" {old} decrypts: nothing is encrypted with it\n")), "{check}");
    home.set("DEEPLINK_MASTER_KEY", NEW);
    std::fs::remove_file(&folder).expect("removed");
    let server = home.serve();
    eventually_blocking("the mail that was resealed", PATIENCE, || mails(&folder).len() == 1);
    server.stop();
}

#[test]
fn a_lost_key_file_is_not_replaced() {
    let home = Home::new();
    home.serve().stop();
    let path = home.data("master.key");
    std::fs::remove_file(&path).expect("removed");
    let ended = home.run(&[]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("master.key is missing"), "{ended:?}");
    assert!(!path.exists());
}
