//! Accounts that the operator looks up, helps and suspends, beside a running server.

use serde_json::{Value, json};

use crate::process::{Ended, Home, PATIENCE, Server, ask, enter};
use deeplink_doubles::wait::eventually_blocking;

const NOBODY: &str = "tnt_000000000000000000000000";

fn read(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// Opens an account and returns its id and its key.
fn account(home: &Home, email: &str) -> (String, String) {
    let made = read(&home.ok(&["tenant", "create", "--email", email, "--json"]));
    let text = |name: &str| made[name].as_str().expect("a text").to_owned();
    (text("tenant_id"), text("api_key"))
}

/// Signs up with an address that is not confirmed and returns the account's id and its key.
fn stranger(server: &Server, email: &str) -> (String, String) {
    let made = server.post("/v1/auth/signup", None, &json!({"email": email}).to_string());
    assert_eq!(made.status, 201, "{made:?}");
    let made = made.json();
    (made["tenant_id"].as_str().expect("an id").to_owned(), made["api_key"].as_str().expect("a key").to_owned())
}

fn get(server: &Server, path: &str, key: &str) -> u16 {
    ask(server.address, "GET", path, &[("Authorization", &format!("Bearer {key}"))], "").status
}

/// The outcome of creating a link.
fn create(server: &Server, key: &str) -> (u16, String) {
    let reply = server.post("/v1/links", Some(key), r#"{"web_url":"https://example.com/"}"#);
    (reply.status, reply.json()["code"].as_str().unwrap_or_default().to_owned())
}

fn failed(ended: &Ended, code: i32, says: &str) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert!(ended.stderr.contains(says) && ended.stdout.is_empty(), "{says}: {ended:?}");
}

/// R12: `suspend` stops an account beside a running server and `resume` brings it back, once each even if repeated,
/// with the reason; another account is not affected. Its people can get a key meanwhile.
#[test]
fn r12_an_account_is_suspended_and_resumed_beside_a_running_server() {
    let home = Home::new();
    let server = home.serve();
    let (tenant, key) = account(&home, "mallory@example.com");
    let (_, other) = account(&home, "other@example.com");
    let (link, kept) = (server.link(&key), server.link(&other));
    assert_eq!((server.tap(&link), server.tap(&kept)), (302, 302));
    let refused = (403, "account_suspended".to_owned());

    let told = home.ok(&["tenant", "suspend", "--tenant", "Mallory@example.com", "--reason", " phishing "]);
    assert_eq!(told, format!("{tenant} is suspended\n"));
    eventually_blocking("writes are refused", PATIENCE, || create(&server, &key) == refused);
    eventually_blocking("the link is disabled", PATIENCE, || server.tap(&link) == 410);
    assert_eq!((get(&server, "/v1/links", &key), create(&server, &other).0, server.tap(&kept)), (200, 201, 302));
    let again = home.ok(&["tenant", "suspend", "--tenant", &tenant, "--reason", "another"]);
    assert_eq!(again, format!("{tenant} is suspended already\n"));
    let again = read(&home.ok(&["tenant", "suspend", "--tenant", &tenant, "--json"]));
    assert_eq!(again, json!({"tenant_id": tenant, "state": "suspended", "changed": false}));
    let shown = read(&home.ok(&["tenant", "show", "--tenant", &tenant, "--json"]));
    assert_eq!((&shown["state"], &shown["reason"]), (&json!("suspended"), &json!("phishing")), "the first one's");
    assert!(shown["suspended_at"].as_str().is_some_and(|since| since.ends_with('Z')), "{shown}");
    let text = home.ok(&["tenant", "show", "--tenant", &tenant]);
    assert!(text.contains("status        suspended, since 2") && text.contains("reason        phishing\n"), "{text}");
    let listed = home.ok(&["tenant", "list"]);
    let line = listed.lines().find(|line| line.starts_with(&tenant)).expect("a line");
    assert!(line.contains(" suspended ") && line.ends_with("mallory@example.com"), "{listed}");

    let made = read(&home.ok(&["tenant", "key", "--tenant", &tenant, "--json"]));
    let second = made["api_key"].as_str().expect("a key");
    assert_eq!((get(&server, "/v1/links", second), create(&server, second)), (200, refused.clone()), "it reads");

    let told = read(&home.ok(&["tenant", "resume", "--tenant", &tenant, "--json"]));
    assert_eq!(told, json!({"tenant_id": tenant, "state": "active", "changed": true}));
    for key in [&*key, second] {
        eventually_blocking("writes are done", PATIENCE, || create(&server, key).0 == 201);
    }
    eventually_blocking("the link works", PATIENCE, || server.tap(&link) == 302);
    assert_eq!(home.ok(&["tenant", "resume", "--tenant", &tenant]), format!("{tenant} is active already\n"));
    let shown = read(&home.ok(&["tenant", "show", "--tenant", &tenant, "--json"]));
    assert_eq!((&shown["state"], &shown["suspended_at"]), (&json!("active"), &Value::Null));
    assert_eq!(shown["reason"], Value::Null, "the reason is that of a suspension");
    home.ok(&["tenant", "suspend", "--tenant", &tenant]);
    let text = home.ok(&["tenant", "show", "--tenant", &tenant]);
    assert!(text.contains("status        suspended, since 2") && !text.contains("reason"), "none was given: {text}");
    server.stop();
}

/// What the operator does to an account is in its audit log, with the reason that was given, and what changes nothing is not.
#[test]
fn what_the_operator_does_is_in_the_accounts_audit_log() {
    let home = Home::new();
    let server = home.serve();
    let (tenant, key) = account(&home, "you@example.com");
    let link = server.link(&key);
    let made = read(&home.ok(&["tenant", "key", "--tenant", &tenant, "--json"]));
    home.ok(&["tenant", "signin", "--tenant", &tenant]);
    home.ok(&["tenant", "comp", &tenant, "--tier", "pro"]);
    home.ok(&["tenant", "comp", &tenant, "--end"]);
    for action in ["flag", "disable", "enable"] {
        home.ok(&["link", action, &link, "--tenant", &tenant, "--reason", action]);
    }
    for _ in 0..2 {
        home.ok(&["tenant", "suspend", "--tenant", &tenant, "--reason", "phishing"]);
    }
    home.ok(&["tenant", "resume", "--tenant", &tenant]);

    let reply = ask(server.address, "GET", "/v1/audit", &[("Authorization", &format!("Bearer {key}"))], "");
    assert_eq!(reply.status, 200, "{reply:?}");
    let found: Vec<Value> = reply.json()["entries"].as_array().expect("entries").iter().rev().cloned().collect();
    for entry in &found {
        assert_eq!((&entry["actor_type"], &entry["actor"]), (&json!("operator"), &Value::Null), "{entry}");
    }
    let text = |name: &str| made[name].as_str().expect("a text");
    let shown_key = format!("{}...", &text("api_key")[..18]);
    let expected = [
        ("account.created", &*tenant, None),
        ("secret_key.created", text("key_id"), Some(&*shown_key)),
        ("sign_in_link.created", "", None),
        ("plan.granted", &tenant, Some("pro")),
        ("plan.granted", &tenant, None),
        ("link.flagged", &link, Some("flag")),
        ("link.disabled", &link, Some("disable")),
        ("link.enabled", &link, Some("enable")),
        ("account.suspended", &tenant, Some("phishing")),
        ("account.resumed", &tenant, None),
    ];
    let shown = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().map(str::to_owned);
        (text("action").unwrap_or_default(), text("target").unwrap_or_default(), text("detail"))
    };
    let expected: Vec<_> = expected
        .iter()
        .map(|(action, target, detail)| (action.to_string(), target.to_string(), detail.map(str::to_owned)))
        .collect();
    assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected);
    server.stop();
}

/// A command about stored data creates no database, and names the path that it looked at.
#[test]
fn a_mistyped_data_folder_stays_empty() {
    let home = Home::on_sqlite();
    for args in [
        &["tenant", "list"][..],
        &["tenant", "show", "--tenant", "someone@example.com"],
        &["tenant", "suspend", "--tenant", "someone@example.com"],
        &["tenant", "plan", "someone@example.com"],
        &["link", "flag", "spring-42", "--reason", "phishing"],
        &["backup", "copy.db"],
    ] {
        let refused = home.run(args);
        assert!(refused.code == Some(1) && refused.stderr.contains("no database at "), "{args:?} {refused:?}");
    }
    assert!(!home.data("deeplink.db").exists());
}

/// The operator sees all accounts, oldest first, and one of them with its people and its counts.
#[test]
fn accounts_are_listed_and_shown() {
    let home = Home::new();
    home.ok(&["migrate"]);
    assert_eq!(read(&home.ok(&["tenant", "list", "--json"])), json!([]));
    assert_eq!(home.ok(&["tenant", "list"]).lines().count(), 1, "the heads of the columns");
    let server = home.serve();
    let (first, key) = account(&home, "first@example.com");
    server.link(&key);
    home.ok(&["tenant", "comp", &first, "--tier", "pro"]);
    let (second, _) = stranger(&server, "second@example.com");

    let all = read(&home.ok(&["tenant", "list", "--json"]));
    let all = all.as_array().expect("accounts");
    // On SQLite the first start made one more.
    let [.., one, two] = all.as_slice() else { panic!("{all:?}") };
    let shown = |account: &Value| {
        ["tenant_id", "email", "wallet", "links", "plan", "state", "suspended_at"].map(|name| account[name].clone())
    };
    let null = Value::Null;
    assert_eq!(
        shown(one),
        [json!(first), json!("first@example.com"), null.clone(), json!(1), json!("pro"), json!("active"), null.clone()]
    );
    assert_eq!(
        (&two["tenant_id"], &two["email"], &two["plan"]),
        (&json!(second), &json!("second@example.com"), &json!("free"))
    );
    let table = home.ok(&["tenant", "list"]);
    let heads = table.lines().next().expect("heads");
    for column in ["STATUS", "PLAN", "EMAIL OR WALLET"] {
        let at = heads.find(column).expect("a column");
        assert!(
            table.lines().skip(1).all(|line| line.as_bytes()[at - 1] == b' ' && line.as_bytes()[at] != b' '),
            "{table}"
        );
    }
    assert_eq!(table.lines().count(), all.len() + 1);

    let text = home.ok(&["tenant", "show", "--tenant", "first@example.com"]);
    for line in [
        "status        active",
        "plan          pro",
        "links         1",
        "keys          1",
        "team member   first@example.com, owner",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let json = read(&home.ok(&["tenant", "show", "--tenant", &second, "--json"]));
    assert_eq!((&json["tenant_id"], &json["keys"], &json["reason"]), (&json!(second), &json!(1), &Value::Null));
    assert_eq!(json["people"][0]["email"], "second@example.com");
    let text = home.ok(&["tenant", "show", "--tenant", &second]);
    assert!(text.ends_with("team member   second@example.com, owner, address not confirmed\n"), "{text}");
    server.stop();
}

/// A key that the operator makes works at once, beside the others, even if the account is at its limit of keys.
#[test]
fn a_key_that_the_operator_makes_works_at_once() {
    let home = Home::new();
    let server = home.serve();
    let (tenant, first) = account(&home, "owner@example.com");
    let mut keys = vec![first];
    for _ in 0..6 {
        let made = home.run(&["tenant", "key", "--tenant", "owner@example.com"]);
        assert_eq!(made.code, Some(0), "{made:?}");
        assert!(made.stderr.contains("cannot be shown again"), "{made:?}");
        let names: Vec<_> = made.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(names, ["tenant_id", "key_id", "api_key"]);
        let key = made.stdout.split_whitespace().last().expect("a key").to_owned();
        assert_eq!(create(&server, &key).0, 201);
        keys.push(key);
    }
    assert!(keys.iter().all(|key| get(&server, "/v1/links", key) == 200));
    let shown = read(&home.ok(&["tenant", "show", "--tenant", &tenant, "--json"]));
    assert_eq!(shown["keys"], 7);
    server.stop();
}

/// A link that the operator prints lets a person in beside a running server, once, and to that account.
#[test]
fn a_link_that_the_operator_prints_works_once() {
    let home = Home::new();
    let server = home.serve();
    let (tenant, _) = account(&home, "owner@example.com");
    let made = home.run(&["tenant", "signin", "--tenant", "owner@example.com"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(made.stderr.contains("works once"), "{made:?}");
    let names: Vec<_> = made.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["tenant_id", "url", "expires_at"]);
    let url = made.stdout.lines().nth(1).and_then(|line| line.split_whitespace().nth(1)).expect("a link");
    let base = format!("http://{}/signin/once?token=", server.address);
    assert!(url.starts_with(&base), "{url} is where the server listens");
    assert!(enter(&server, url, "owner@example.com").1.starts_with("session_token="));
    assert_eq!(enter(&server, url, "owner@example.com").0, "/signin?error=once_invalid");

    let made = read(&home.ok(&["tenant", "signin", "--tenant", &tenant, "--json"]));
    assert_eq!(made["tenant_id"], tenant);
    assert!(made["expires_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{made}");
    let (to, _) = enter(&server, made["url"].as_str().expect("a link"), "member@example.com");
    assert_eq!(to, "/account");
    let shown = home.ok(&["tenant", "show", "--tenant", &tenant]);
    assert!(shown.contains("team member   member@example.com, member\n"), "{shown}");
    let log = server.log();
    assert!(!log.contains(url.rsplit('=').next().expect("a token")), "the token is in the log: {log}");
    server.stop();

    let mut home = home;
    let printed = |home: &Home| home.ok(&["tenant", "signin", "--tenant", &tenant]);
    assert!(printed(&home).contains(&base), "where the server listened last");
    home.set("DEEPLINK_PUBLIC_URL", "https://links.example.com");
    assert!(printed(&home).contains("https://links.example.com/signin/once?token="));
    home.set("DEEPLINK_SESSIONS", "off");
    failed(&home.run(&["tenant", "signin", "--tenant", &tenant]), 1, "DEEPLINK_SESSIONS");
}

/// An unconfirmed address names the account that was opened with it, if there is only one; of several the operator
/// chooses by id. Once confirmed, it names the account of the person who confirmed it.
#[test]
fn an_address_names_one_account_or_none() {
    let home = Home::new();
    let server = home.serve();
    let (one, key) = stranger(&server, "stranger@example.com");
    let named = ["tenant", "suspend", "--tenant", "stranger@example.com"];
    assert_eq!(home.ok(&named), format!("{one} is suspended\n"));
    eventually_blocking("it is stopped", PATIENCE, || create(&server, &key).0 == 403);
    home.ok(&["tenant", "resume", "--tenant", &one]);
    let (two, _) = stranger(&server, "stranger@example.com");
    let several = home.run(&named);
    failed(&several, 1, &format!("choose one by its ID:\n  {one}\n  {two}"));
    assert_eq!(home.ok(&["tenant", "show", "--tenant", &one]).matches("active").count(), 1);
    let (owned, _) = account(&home, "stranger@example.com");
    assert_eq!(home.ok(&named), format!("{owned} is suspended\n"));
    server.stop();
}

/// An account is deleted beside a running server after the operator confirmed it; the others stay.
#[test]
fn an_account_is_deleted_beside_a_running_server() {
    let home = Home::new();
    let server = home.serve();
    let (tenant, key) = account(&home, "leaving@example.com");
    let (_, other) = account(&home, "other@example.com");
    let (link, kept) = (server.link(&key), server.link(&other));
    assert_eq!(server.tap(&link), 302);
    let named = ["tenant", "delete", "--tenant", "leaving@example.com"];
    let unconfirmed = home.run(&named);
    failed(&unconfirmed, 1, "confirm with --yes");
    for line in [&*format!("tenant_id     {tenant}\n"), "links         1\n", "keys          1\n"] {
        assert!(unconfirmed.stderr.contains(line), "{line}: {unconfirmed:?}");
    }
    failed(&home.run(&[&named[..], &["--json"]].concat()), 2, "--yes");
    assert_eq!(get(&server, "/v1/links", &key), 200, "nothing was deleted");
    let told = home.ok(&[&named[..], &["--yes"]].concat());
    let lines = [
        &*format!("tenant_id     {tenant}"),
        "email         leaving@example.com",
        "links         1",
        "team members  1",
    ];
    for line in lines {
        assert!(told.lines().any(|said| said == line), "{line}: {told}");
    }
    // The server deletes with it, so that the number of rows is that of the command alone.
    assert!(told.contains(&format!("Deleted {tenant} (")) && told.contains(" rows)"), "{told}");
    eventually_blocking("its key is refused", PATIENCE, || get(&server, "/v1/links", &key) == 401);
    eventually_blocking("its link is gone", PATIENCE, || server.tap(&link) == 404);
    assert_eq!((get(&server, "/v1/links", &other), server.tap(&kept)), (200, 302));
    assert!(!home.ok(&["tenant", "list"]).contains(&tenant));
    failed(&home.run(&["tenant", "show", "--tenant", &tenant]), 1, "no account with ID");
    for command in ["resume", "suspend", "key", "signin"] {
        failed(&home.run(&["tenant", command, "--tenant", &tenant]), 1, "no account with ID");
    }
    failed(&home.run(&["tenant", "comp", &tenant, "--tier", "pro"]), 1, "no account with ID");
    let (again, _) = account(&home, "leaving@example.com");
    let told = read(&home.ok(&["tenant", "delete", "--tenant", &again, "--yes", "--json"]));
    assert_eq!((&told["tenant_id"], &told["links"], &told["keys"]), (&json!(again), &json!(0), &json!(1)));
    assert!(told["rows"].is_u64(), "{told}");
    server.stop();
}

#[test]
fn an_account_that_is_not_there_is_said_so() {
    let home = Home::new();
    home.ok(&["migrate"]);
    for command in ["show", "key", "signin", "suspend", "resume"] {
        for (tenant, code, says) in [
            (NOBODY, 1, "deeplink-server: no account with ID tnt_"),
            (
                "nobody@example.com",
                1,
                "deeplink-server: no account has a team member with the address nobody@example.com; `tenant list` shows all accounts",
            ),
            ("nobody", 2, "--tenant"),
            ("@", 2, "--tenant"),
        ] {
            failed(&home.run(&["tenant", command, "--tenant", tenant]), code, says);
            failed(&home.run(&["tenant", command, "--tenant", tenant, "--json"]), code, says);
        }
        failed(&home.run(&["tenant", command]), 2, "--tenant");
    }
    failed(&home.run(&["tenant", "delete", "--tenant", NOBODY, "--yes"]), 1, "no account with ID tnt_");
    let blank = ["tenant", "suspend", "--tenant", NOBODY, "--reason"];
    for reason in ["", "  ", "a\u{7}b", &"x".repeat(501)] {
        failed(&home.run(&[&blank[..], &[reason]].concat()), 2, "--reason");
    }
    failed(&home.run(&["tenant", "list", "everything"]), 2, "everything");
}

/// The help of each command says what it does, with an example.
#[test]
fn help_of_the_commands_has_an_example() {
    let home = Home::new();
    for command in ["list", "show", "key", "signin", "suspend", "resume", "delete"] {
        let help = home.ok(&["tenant", command, "--help"]);
        assert!(help.contains(&format!("\n  deeplink-server tenant {command}")), "{help}");
    }
}
