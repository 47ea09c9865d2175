//! People and their keys from start to end: `dl` against the real service, with the mails that it sends.

use std::io::Write;
use std::process::Stdio;

use crate::screen::Screen;
use crate::server::Server;
use deeplink_testing::dl::{Dl, mode};

/// A user who has signed in by mail, without a terminal.
fn signed_in(server: &Server, name: &str) -> Dl {
    let dl = Dl::new().env("DL_BASE_URL", &server.url);
    with_mail(&dl, &format!("login --email {name}@example.com --link-stdin --store file"), || {
        server.mailed_link(&format!("{name}@example.com"), "/v1/auth/callback")
    });
    dl
}

/// Runs a command that waits for input from a mail; returns stdout.
fn with_mail(dl: &Dl, line: &str, mailed: impl FnOnce() -> String) -> String {
    let mut command = dl.command(line);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("dl starts");
    let mut input = child.stdin.take().expect("a pipe");
    let text = mailed();
    // Kept open: dl continues after the line, and does not wait for the end of input.
    input.write_all(format!("{text}\n").as_bytes()).expect("dl reads it");
    input.flush().expect("dl reads it");
    let output = child.wait_with_output().expect("dl ends");
    drop(input);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}: {stderr}");
    assert!(!stderr.contains(text.rsplit('=').next().unwrap_or(&text)), "{line}: {stderr}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// From nothing to a first link, on a machine without a keyring: a mail, a pasted link, a key in a file.
#[test]
fn p3_a_new_person_signs_in_without_a_keyring_and_makes_a_link() {
    let server = Server::start();
    let line = format!("login --email you@example.com --base-url {}", server.url);
    let screen = Screen::open(Dl::new(), &line);
    screen.wait_for("Paste the sign-in link here (do not press Continue in the browser): ");
    let link = server.mailed_link("you@example.com", "/v1/auth/callback");
    screen.send(&format!("{link}\n"));
    let (code, text, dl) = screen.leave();
    assert_eq!(code, Some(0), "{text}");
    let file = dl.config("credentials.toml");
    let notice = "no keyring (no session bus): the key is stored in a file that only you can read; to try";
    assert!(text.contains(notice), "{text}");
    assert!(text.contains("Signed in as you@example.com; key dl_live_"), "{text}");
    assert!(text.contains(&file.display().to_string()), "{text}");
    assert!(!text.contains(link.rsplit('=').next().expect("a token")), "{text}");
    assert_eq!((mode(&file), mode(&dl.config("config.toml")), mode(&dl.config(""))), (0o600, 0o600, 0o700));

    let made = dl.run("links create https://example.com/p/42 --id spring-42");
    assert_eq!(made.ok(), format!("{}/r/spring-42\n", server.url));
    assert_eq!(dl.run("links resolve spring-42").ok(), "302\thttps://example.com/p/42\n");
    let who = dl.run("whoami -o json").json();
    assert_eq!((&who["scope"], &who["accepted"]), (&"account".into(), &true.into()));
    assert_eq!((&who["plan"], &who["usage"]["links"]), (&"free".into(), &1.into()));
    assert_eq!((&who["email"], &who["profile"]), (&"you@example.com".into(), &"default".into()));
    assert!(who["tenant_id"].as_str().is_some_and(|id| id.starts_with("tnt_")), "{who}");
    assert_eq!(dl.run("billing status --fields links,max_links").ok(), "1\t50\n");
    assert!(
        dl.run("billing cancel --yes").fails(9).contains("error[processor_not_configured]"),
        "nothing is sold here"
    );
    let token = dl.run("token").ok().to_owned();
    assert!(dl.run("keys list").ok().contains("\ttrue\t") && !dl.run("keys list").stdout.contains(token.trim()));
    // The link worked once.
    let again = Dl::new().run_with(&format!("{line} --link-stdin"), &link);
    assert!(again.fails(4).contains("error[link_refused]"), "{again}");
}

/// A second sign-in makes a second key of the same account, up to the number of keys an account may have.
#[test]
fn each_sign_in_makes_a_key_until_there_are_enough() {
    let server = Server::start();
    let first = signed_in(&server, "you");
    first.run("links create https://example.com --id spring-42").ok();
    for _ in 0..4 {
        assert_eq!(signed_in(&server, "you").run("links list -o id").ok(), "spring-42\n");
    }
    assert_eq!(first.run("keys list -o id").ok().lines().count(), 5);
    first.run("keys request --email you@example.com").fails(6);
    let own = first.run("whoami -o json").json()["key_id"].as_str().expect("an id").to_owned();
    assert!(first.run(&format!("keys delete {own} --yes")).fails(6).contains("key_in_use"));
    for id in first.run("keys list -o id").ok().lines().filter(|id| *id != own) {
        first.run(&format!("keys delete {id} --yes")).ok();
    }
    assert_eq!(first.run("keys list -o id").ok(), format!("{own}\n"));
    first.run("keys delete skid_0123456789abcdef01234567 --yes").fails(5);
}

#[test]
fn a_team_grows_and_shrinks() {
    let server = Server::start();
    let (owner, guest) = (signed_in(&server, "you"), Dl::new().env("DL_BASE_URL", &server.url));
    let id = owner.run("team invite new@example.com").ok().trim_end().to_owned();
    assert!(owner.run("team list -o csv --fields email,status").ok().contains("new@example.com,pending"));
    let link = server.mailed_link("new@example.com", "/v1/auth/verify");
    // An invitation link is not a sign-in link.
    let wrong = guest.run_with("login --email new@example.com --link-stdin --store file", &link);
    assert!(wrong.fails(3).contains("use it with dl team accept"), "{wrong}");
    guest.run_with("team accept --link-stdin", &link).ok();
    guest.run_with("team accept --link-stdin", &link).fails(4);
    owner.run("team invite new@example.com").fails(6);
    assert!(owner.run("team list -o csv --fields email,status").ok().contains("new@example.com,active"));
    owner.run("links create https://example.com --id spring-42").ok();

    let member = signed_in(&server, "new");
    assert_eq!(member.run("links list -o id").ok(), "spring-42\n", "it is the same account");
    owner.run(&format!("team remove {id} --yes")).ok();
    owner.run(&format!("team remove {id} --yes")).fails(5);
    let me = owner.run("team list -o id").ok().trim_end().to_owned();
    assert!(owner.run(&format!("team remove {me} --yes")).fails(6).contains("last_user"));
    // Keys belong to the account and still work.
    assert_eq!(member.run("links list -o id").ok(), "spring-42\n");
}

/// A mailed code makes a key; a rotation replaces the stored one with a new one, and the old one is dead.
#[test]
fn keys_are_confirmed_by_code_and_rotated() {
    let server = Server::start();
    let dl = signed_in(&server, "you");
    assert!(dl.run("keys request --email other@example.com").fails(4).contains("not_a_member"));
    assert_eq!(dl.run("keys request --email you@example.com").ok(), "code_sent\n");
    dl.run("keys request --email you@example.com --retries 0").fails(8);
    let code = server.mailed_code("you@example.com");
    let wrong = if code == "AAAAAA" { "BBBBBB" } else { "AAAAAA" };
    dl.run_with("keys confirm --email you@example.com --code-stdin --out-file new.txt", wrong).fails(3);
    assert!(!dl.dir().join("new.txt").exists());
    let made =
        dl.run_with("keys confirm --email you@example.com --code-stdin --out-file new.txt", &code.to_lowercase());
    assert!(made.ok().starts_with("skid_"), "{made}");
    dl.run("links list --api-key-file new.txt").ok();

    let old = dl.run("token").ok().to_owned();
    let id =
        with_mail(&dl, "keys rotate --email you@example.com --code-stdin", || server.mailed_code("you@example.com"));
    assert!(id.starts_with("skid_"), "{id}");
    let new = dl.run("token").ok().to_owned();
    assert_ne!(old, new);
    dl.run("links list").ok();
    dl.secret_file("old.txt", &old);
    dl.run("links list --api-key-file old.txt").fails(4);
    assert_eq!(dl.run("keys list -o id").ok().lines().count(), 2, "the rotated one and the confirmed one");
}

#[test]
fn a_partner_has_keys_of_its_own() {
    let server = Server::start();
    let owner = signed_in(&server, "you");
    let (partner, id) = server.affiliate(&owner);
    assert_eq!(partner.run("whoami -o json").json()["scope"], "affiliate");
    partner.run("links create https://example.com --id partner-1").ok();
    owner.run("links create https://example.com --id owner-1").ok();
    assert_eq!(partner.run("links list -o id").ok(), "partner-1\n");
    for line in ["keys list", "team list", "affiliates list", "pk list", &format!("affiliates creds create {id}")] {
        assert!(partner.run(line).fails(4).contains("this key belongs to an affiliate"), "{line}");
    }
    owner.run("affiliates create --name Other --partner-key partner").fails(6);
    assert_eq!(owner.run(&format!("affiliates update {id} --status disabled -o json")).json()["status"], "disabled");
    partner.run("links list").fails(4);
    owner.run(&format!("affiliates update {id} --status active --name Renamed")).ok();
    partner.run("links list").ok();
    for _ in 0..2 {
        owner.run(&format!("affiliates creds create {id}")).ok();
    }
    owner.run(&format!("affiliates creds create {id}")).fails(6);
    let listed = owner.run(&format!("affiliates creds list {id} -o id"));
    assert_eq!(listed.ok().lines().count(), 3);
    let gone = owner.run_with(&format!("affiliates creds delete {id} - --yes"), listed.ok());
    assert_eq!(gone.ok().lines().count(), 3);
    partner.run("links list").fails(4);
    owner.run(&format!("affiliates delete {id} --yes")).ok();
    owner.run(&format!("affiliates get {id}")).fails(5);
    assert_eq!(owner.run("affiliates list -o id").ok(), "");
    assert_eq!(owner.run("links resolve partner-1").ok(), "302\thttps://example.com/\n", "its links still work");
}

#[test]
fn a_publishable_key_belongs_to_a_verified_domain() {
    let (server, dns) = Server::start_with_dns();
    let dl = signed_in(&server, "you");
    assert!(dl.run("pk create go.example.com").fails(3).contains("domain_not_found"));
    let claim = dl.run("domains add go.example.com -o json").json();
    assert!(dl.run("pk create go.example.com").fails(3).contains("domain_not_verified"));
    let text = |field: &str| claim[field].as_str().expect("a string").to_owned();
    dns.txt(&text("txt_record"), &[&text("verification_token")]);
    dl.run("domains verify go.example.com --wait 1m").ok();
    let key = dl.run("pk create go.example.com").ok().trim_end().to_owned();
    assert!(key.starts_with("pk_live_") && key.len() == 56, "{key}");
    let listed = dl.run("pk list");
    assert!(listed.ok().contains(&key[..18]) && !listed.stdout.contains(&key), "{listed}");
    let ids = dl.run("pk list -o id").ok().to_owned();
    dl.run_with("pk delete - --yes", &ids).ok();
    assert_eq!(dl.run("pk list -o id").ok(), "");
}

/// A session that was started elsewhere makes a key, and is invalid after a sign-out.
#[test]
fn a_session_of_a_browser_makes_a_key_and_ends() {
    let server = Server::start();
    let dl = Dl::new().env("DL_BASE_URL", &server.url);
    dl.run("api POST /v1/auth/signin -f email=you@example.com").ok();
    let link = server.mailed_link("you@example.com", "/v1/auth/callback");
    let token = link.rsplit('=').next().expect("a token").to_owned();
    let session = server.session(&token);
    dl.secret_file("session.txt", &session);
    assert_eq!(dl.run("session me --session-file session.txt --fields email").ok(), "you@example.com\n");
    let key = dl.run("keys issue --session-file session.txt").ok().to_owned();
    dl.secret_file("key.txt", &key);
    dl.run("links list --api-key-file key.txt").ok();
    dl.run("session signout --session-file session.txt").ok();
    dl.run("session me --session-file session.txt").fails(4);
    dl.run("keys issue --session-file session.txt").fails(4);
}
