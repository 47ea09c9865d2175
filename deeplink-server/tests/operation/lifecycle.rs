//! Start, first run, stop.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use deeplink_core::secret::Random;

use crate::process::{Home, PATIENCE, Server, ask, enter};
use deeplink_doubles::wait::eventually_blocking;

const EXPIRY: &str = "DEEPLINK_UNVERIFIED_LINK_TTL_DAYS=0";

/// What a first start does not offer is not printed.
#[test]
fn the_first_run_speaks_of_what_there_is() {
    let mut home = Home::on_sqlite();
    home.set("DEEPLINK_SESSIONS", "off");
    home.set("DEEPLINK_UNVERIFIED_LINK_TTL_DAYS", "0");
    let banner = home.serve().stop();
    assert!(banner.contains("dl_live_") && !banner.contains("/signin/once") && !banner.contains(EXPIRY), "{banner}");
    let check = home.ok(&["check"]);
    assert!(check.contains("ok     link expiry     links never expire"), "{check}");
}

/// Where nobody reads stdout, as in a package, the first start would create an account that nobody can open.
#[test]
fn the_first_run_creates_no_account_if_told_so() {
    let mut home = Home::on_sqlite();
    home.set("DEEPLINK_FIRST_ACCOUNT", "off");
    let server = home.serve();
    assert!(
        server.log().contains("no account yet; create one with: deeplink-server tenant create"),
        "{}",
        server.log()
    );
    let page = ask(server.address, "GET", "/", &[("Accept", "text/html")], "");
    assert!(page.status == 200 && !page.body.contains("when it first started"), "{page:?}");
    assert_eq!(server.stop(), "");
    let check = home.ok(&["check"]);
    assert!(check.contains("accounts: 0, links: 0"), "{check}");
}

#[test]
fn the_first_run_gives_a_key_and_a_link_once() {
    let home = Home::on_sqlite();
    let server = home.serve();
    let address = server.address;
    assert_eq!((server.get("/health").status, server.get("/ready").status), (200, 200));
    assert!(!server.log().contains("dl_live_"), "the key is in the log: {}", server.log());
    let banner = server.stop();
    let key = banner.split_whitespace().find(|word| word.starts_with("dl_live_")).expect("a key").to_owned();
    assert_eq!(key.len(), 56);
    assert!(banner.contains(&format!("dl login --with-key --base-url http://{address}")), "{banner}");
    let start = banner.find(&format!("http://{address}/r/")).expect("a sample link");
    let url = banner[start..].split_whitespace().next().expect("a word");
    let id = url.rsplit('/').next().expect("an id");
    let entry = banner.split_whitespace().find(|word| word.contains("/signin/once?token=")).expect("a link to sign in");
    assert!(entry.starts_with(&format!("http://{address}/")), "{banner}");
    for part in [
        "works only once and expires after 24 hours",
        "deeplink-server tenant signin \\\n",
        "expire 30 days after",
        EXPIRY,
    ] {
        assert!(banner.contains(part), "{part}: {banner}");
    }
    // URLs and commands are not broken.
    let prose = banner.lines().filter(|line| !line.starts_with("  ") && !line.contains("://"));
    for line in prose {
        assert!(line.chars().count() <= 80, "{line}");
    }

    let server = home.serve();
    // The page of those who would sign in by mail names a command, which works.
    let page = server.get("/signin").body;
    let (_, rest) = page.split_once("<code>deeplink-server ").expect("a command");
    let (command, _) = rest.split_once("</code>").expect("its end");
    let command = command.replace("<span class=\"option\">", "").replace("</span>", "");
    let command: Vec<&str> = command.split_whitespace().collect();
    assert!(home.ok(&command).contains(&format!("url         http://{}/signin/once?token=", server.address)));
    // Its owner has a real address from then on.
    let (_, session) = enter(&server, entry, "ana@example.com");
    assert!(session.starts_with("session_token="), "{session}");
    assert_eq!(enter(&server, entry, "ben@example.com"), ("/signin?error=once_invalid".into(), String::new()));
    let people = home.ok(&["tenant", "show", "--tenant", "ana@example.com"]);
    assert!(
        people.contains("team member   ana@example.com, owner\n") && !people.contains("deeplink.invalid"),
        "{people}"
    );
    assert_eq!(server.tap(id), 302);
    assert_eq!(server.post("/v1/links", Some(&key), "{}").status, 201);
    let second = server.stop();
    assert!(
        !second.contains("dl_live_") && second.contains("\nData: ./data\nEmails: files in ./data/mail\n"),
        "{second}"
    );
    assert!(ran(&home, &printed(&second)).contains("/signin/once?token="));
    home.ok(&["tenant", "create", "--email", "eve@example.com"]);
    assert!(home.serve().stop().contains("--tenant TENANT_ID\n"), "which account, is not said");
}

/// The arguments of the command that a start prints, as a shell reads them.
fn printed(banner: &str) -> Vec<String> {
    let (_, command) = banner.split_once("deeplink-server tenant ").expect("a command");
    let (command, _) = command.split_once("\n\n").expect("its end");
    let words = std::process::Command::new("sh").args(["-c", &format!("printf '%s\\n' tenant {command}")]).output();
    let words = String::from_utf8(words.expect("a shell").stdout).expect("text");
    words.lines().map(str::to_owned).collect()
}

fn ran(home: &Home, command: &[String]) -> String {
    home.ok(&command.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The printed command is for the database that the server uses, wherever that is.
#[test]
fn the_printed_command_names_the_data_directory() {
    let home = Home::on_sqlite();
    let folder = "else where's";
    let first = home.serve_with(&["--data-dir", folder]).stop();
    let again = home.serve_with(&["--data-dir", folder]).stop();
    for banner in [first, again] {
        let command = printed(&banner);
        let named = command.last().is_some_and(|path| path.starts_with('/') && path.ends_with(folder));
        assert!(named, "{banner}");
        assert!(ran(&home, &command).contains("/signin/once?token="), "{banner}");
    }
}

#[test]
fn a_public_service_makes_no_account_by_itself() {
    let mut home = Home::new();
    home.set("DEEPLINK_PUBLIC_URL", "https://links.example.com");
    if !home.is_sqlite() {
        let ended = home.run(&[]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("DEEPLINK_MASTER_KEY must be set"), "{ended:?}");
        home.set("DEEPLINK_MASTER_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    }
    let server = home.serve();
    eventually_blocking("a hint", PATIENCE, || server.log().contains("tenant create --email"));
    assert_eq!(server.stop(), "");
    assert!(home.ok(&["check"]).contains("accounts: 0"));
}

/// F15: a second process on the file is refused and told who holds it; the first one keeps running.
#[test]
fn f15_a_second_server_is_refused() {
    let home = Home::on_sqlite();
    let server = home.serve();
    for command in ["serve", "migrate"] {
        let second = home.run(&[command]);
        assert_eq!(second.code, Some(1), "{second:?}");
        assert!(second.stderr.contains(&format!("in use by process {}", server.child.id())), "{second:?}");
        assert_eq!(second.stdout, "");
    }
    assert_eq!(server.get("/ready").status, 200);
    server.stop();
    home.serve().stop();
}

/// F15: each process has its own data directory, whatever the database is.
#[test]
fn f15_a_data_directory_has_one_server() {
    let home = Home::new();
    let server = home.serve();
    let second = home.run(&["serve"]);
    assert_eq!(second.code, Some(1), "{second:?}");
    let reason = if home.is_sqlite() { "in use by process" } else { "clicks is in use by another process" };
    assert!(second.stderr.contains(reason), "{second:?}");
    assert_eq!(server.get("/ready").status, 200);
    server.stop();
}

#[test]
fn a_killed_server_leaves_no_lock_behind() {
    let home = Home::on_sqlite();
    let mut server = home.serve();
    server.child.kill().expect("killed");
    server.child.wait().expect("ended");
    home.serve().stop();
}

#[test]
fn a_bad_setting_stops_the_start_with_its_name() {
    for (name, value) in [
        ("DEEPLINK_LISTEN", "nowhere"),
        ("DEEPLINK_QUOTAS", "maybe"),
        ("DEEPLINK_MASTER_KEY", "short"),
        ("DEEPLINK_MASTER_KEY", ","),
        // Half of what TLS needs.
        ("DEEPLINK_TLS_LISTEN", "127.0.0.1:0"),
        ("DEEPLINK_ACME_DIRECTORY", "https://acme.example.com/directory"),
    ] {
        let mut home = Home::on_sqlite();
        home.set(name, value);
        let ended = home.run(&[]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(begins_with_name(&ended.stderr, name), "{ended:?}");
        assert!(!home.path("data").exists());
    }
}

#[cfg(unix)]
#[test]
fn a_setting_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStringExt;
    let home = Home::on_sqlite();
    for name in ["DEEPLINK_LOG", "DEEPLINK_MASTER_KEY"] {
        let output = home.command(&[]).env(name, std::ffi::OsString::from_vec(vec![0xff])).output();
        let output = output.expect("the command starts");
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(begins_with_name(&said, name), "{said}");
    }
}

/// Whether a message begins with the setting: its variable and, if it has one, its flag before that.
fn begins_with_name(said: &str, variable: &str) -> bool {
    let flag = variable.replace("DEEPLINK_", "--").replace('_', "-").to_lowercase();
    let names = [format!("deeplink-server: {variable}: "), format!("deeplink-server: {flag} ({variable}): ")];
    names.iter().any(|name| said.starts_with(name))
}

#[test]
fn a_flag_works_before_and_after_the_command() {
    let home = Home::on_sqlite();
    for args in [["--data-dir", "other", "migrate"], ["migrate", "--data-dir", "another"]] {
        home.ok(&args);
    }
    assert!(home.path("other/deeplink.db").exists() && home.path("another/deeplink.db").exists());
    assert!(!home.path("data").exists());
}

#[test]
fn a_flag_outranks_its_variable_and_a_slip_is_named() {
    let mut home = Home::new();
    home.set("DEEPLINK_LISTEN", "192.0.2.1:1");
    home.set("DEEPLINK_LISTNE", "127.0.0.1:2");
    let server = home.serve_with(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(server.log().contains("did you mean DEEPLINK_LISTEN?"), "{}", server.log());
    server.stop();
}

#[test]
fn an_address_in_use_is_named_with_the_flag_for_another() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let address = address.as_str();
    for (args, flag) in [
        (&["--listen", address][..], "--listen"),
        (&["--listen", "127.0.0.1:0", "--admin-listen", address], "--admin-listen"),
    ] {
        let ended = Home::on_sqlite().run(args);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains(&format!("cannot listen on {address}: ")), "{ended:?}");
        assert!(ended.stderr.contains(&format!("; choose another address, such as {flag} 127.0.0.1:")), "{ended:?}");
    }
    let ended = Home::on_sqlite().run(&["--listen", "192.0.2.1:1"]);
    assert!(ended.code == Some(1) && !ended.stderr.contains("choose another"), "{ended:?}");
}

/// A request to make a link whose body the server has asked for.
fn half_a_request(server: &Server, key: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    write!(
        stream,
        "POST /v1/links HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n",
        server.address,
    )
    .expect("a head");
    let mut said = [0; 25];
    stream.read_exact(&mut said).expect("an interim answer");
    assert_eq!(&said, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

/// Waits until the server closes a connection without a complete request.
fn put_out(mut hung: TcpStream, within: Duration) -> bool {
    hung.set_read_timeout(Some(within)).expect("a limit");
    let end = hung.read_to_end(&mut Vec::new());
    // A reset counts as the end.
    end.map_or_else(|error| error.kind() == std::io::ErrorKind::ConnectionReset, |_| true)
}

/// F16: a stop answers complete requests, takes at most ten seconds even if a client hangs, and succeeds.
#[test]
fn f16_a_stop_finishes_what_was_asked() {
    let home = Home::new();
    let key = home.key("owner@example.com");
    let mut server = home.serve();
    let mut hung = TcpStream::connect(server.address).expect("a connection");
    write!(hung, "POST /v1/links HTTP/1.1\r\nHost: {}\r\n", server.address).expect("half a head");
    let body = r#"{"web_url":"https://example.com/"}"#;
    let mut slow = half_a_request(&server, &key, body.len());
    slow.write_all(&body.as_bytes()[..5]).expect("a piece of the body");
    server.signal("TERM");
    let asked = Instant::now();
    std::thread::sleep(Duration::from_millis(300));
    slow.write_all(&body.as_bytes()[5..]).expect("the rest of the body");
    let mut answer = String::new();
    slow.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    // The rest of the ten seconds is for the database file.
    assert!(put_out(hung, Duration::from_secs(8).saturating_sub(asked.elapsed())), "it waits for a client that hangs");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

/// F16: a second signal does not wait for any client.
#[test]
fn f16_a_second_signal_stops_at_once() {
    let home = Home::new();
    let key = home.key("owner@example.com");
    let mut server = home.serve();
    let hung = half_a_request(&server, &key, 100);
    server.signal("INT");
    std::thread::sleep(Duration::from_millis(300));
    assert!(server.child.try_wait().expect("the state of the process").is_none(), "it waits for the request");
    server.signal("TERM");
    // The first signal alone would give it six seconds.
    assert!(put_out(hung, Duration::from_secs(5)), "it still waits for the request");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

/// F24: the server keeps serving when stdout or stderr is closed, broken or full.
#[test]
fn f24_lost_streams_do_not_stop_the_service() {
    let home = Home::new();
    let key = home.key("owner@example.com");
    type Streams = (&'static str, fn() -> (Stdio, Stdio));
    let streams: [Streams; 3] = [
        ("readers that have gone", || (gone(), gone())),
        ("a full disk", || (full(), full())),
        ("closed streams", || (Stdio::null(), Stdio::null())),
    ];
    for (case, open) in streams {
        let port = free_port();
        let address = format!("127.0.0.1:{port}");
        let (stdout, stderr) = open();
        // Redirected for the shell, and so for the process that replaces it.
        let mut command =
            if case == "closed streams" { home.command_after("exec >&- 2>&-;") } else { home.command(&[]) };
        let mut child = command
            .args(["--listen", &address, "--log", "trace"])
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .expect("the server starts");
        let address = address.parse().expect("an address");
        eventually_blocking(case, PATIENCE, || TcpStream::connect(address).is_ok());
        let authorization = format!("Bearer {key}");
        let headers = [("Authorization", authorization.as_str()), ("Content-Type", "application/json")];
        for _ in 0..3 {
            assert_eq!(ask(address, "POST", "/v1/links", &headers, "{}").status, 201, "{case}");
        }
        let stop = std::process::Command::new("kill").arg(child.id().to_string()).status();
        assert!(stop.expect("kill runs").success());
        assert_eq!(child.wait().expect("an end").code(), Some(0), "{case}");
    }
}

/// A pipe without a reader.
fn gone() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full").into()
}

/// The text of the first start names the directory that mails go to.
#[test]
fn the_first_start_says_where_mails_are() {
    for folder in [None, Some("letters")] {
        let mut home = Home::on_sqlite();
        let mails = home.path(folder.unwrap_or("data/mail"));
        if folder.is_some() {
            home.set("DEEPLINK_MAIL_DIR", mails.to_str().expect("UTF-8"));
        }
        let banner = home.serve().stop();
        let shown = folder.map_or("./data/mail", |_| mails.to_str().expect("UTF-8"));
        assert!(banner.contains(&format!("\nEmails: files in {shown}\n")), "{banner}");
    }
    let mut home = Home::on_sqlite();
    home.set("DEEPLINK_SESSIONS", "off");
    let banner = home.serve().stop();
    assert!(!banner.contains("Emails: ") && banner.contains("Open the sample link"), "{banner}");
}

/// PostgreSQL's notices during the schema check are not shown to the operator.
#[test]
fn the_database_s_remarks_are_not_printed() {
    let home = Home::new();
    for args in [&["migrate"][..], &["migrate"], &["tenant", "create", "--email", "owner@example.com", "--json"]] {
        let ended = home.run(args);
        assert_eq!((ended.code, ended.stderr.contains("sqlx")), (Some(0), false), "{ended:?}");
    }
    let server = home.serve();
    assert!(!server.log().contains("sqlx"), "{}", server.log());
    server.stop();
}

/// A port where nothing listens, and which no system assigns unless it is asked for by number.
fn free_port() -> u16 {
    let mut random = Random::system();
    loop {
        let port = 10_000 + u16::try_from(random.below(10_000)).expect("small");
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// While the database takes no clicks, visits are answered, and metrics and log say how far it is behind.
#[test]
fn metrics_and_log_say_that_the_database_is_behind() {
    let mut home = Home::new();
    let port = free_port();
    home.set("DEEPLINK_ADMIN_LISTEN", format!("127.0.0.1:{port}"));
    let key = home.key("owner@example.com");
    let server = home.serve();
    let link = server.link(&key);
    let admin = format!("127.0.0.1:{port}").parse().expect("an address");
    let figure = |name: &str| -> u64 {
        let page = ask(admin, "GET", "/metrics", &[], "").body;
        let line = page.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name} in {page}"));
        line.trim().parse().expect("a number")
    };
    let behind = || {
        ["deeplink_clicks_journal_bytes ", "deeplink_clicks_journal_seconds ", "deeplink_clicks_journal_segments "]
            .map(figure)
    };
    let locked = home.lock();
    assert_eq!(server.tap(&link), 302);
    eventually_blocking("the metrics say so", PATIENCE, || behind().iter().all(|figure| *figure > 0));
    // SQLite's writer waits for the lock; PostgreSQL fails quickly.
    let warning = if home.is_sqlite() { "database is behind the click journal" } else { "clicks cannot be stored" };
    eventually_blocking("the log says so", PATIENCE, || server.log().contains(warning));
    assert_eq!(figure("deeplink_clicks_stored_total "), 0);
    locked.release();
    eventually_blocking("the click is stored", PATIENCE, || figure("deeplink_clicks_stored_total ") == 1);
    eventually_blocking("nothing is behind", PATIENCE, || behind()[..2] == [0, 0]);
    let recovered = || home.is_sqlite() || server.log().contains("database accepts clicks again");
    eventually_blocking("the log says that it is over", PATIENCE, recovered);
    assert_eq!(figure("deeplink_clicks_dropped_total "), 0);
    server.stop();
}

/// T4: figures are shown to operators only.
#[test]
fn t4_metrics_are_on_the_admin_listener_only() {
    let mut home = Home::new();
    let port = free_port();
    home.set("DEEPLINK_ADMIN_LISTEN", format!("127.0.0.1:{port}"));
    let key = home.key("owner@example.com");
    let server = home.serve();
    let admin = format!("127.0.0.1:{port}").parse().expect("an address");
    let link = server.link(&key);
    server.tap(&link);
    assert_eq!(server.get("/metrics").status, 404);
    let metrics = || ask(admin, "GET", "/metrics", &[], "");
    // The click of a visit is stored soon.
    eventually_blocking("the click is stored", PATIENCE, || {
        metrics().body.contains("deeplink_clicks_stored_total 1\n")
    });
    let metrics = metrics();
    assert_eq!(metrics.status, 200);
    assert!(metrics.head.contains("text/plain; version=0.0.4"), "{}", metrics.head);
    assert!(metrics.body.contains("deeplink_requests_total{method=\"GET\",route=\"/r/{link_id}\",status=\"302\"} 1"));
    for counted in ["deeplink_clicks_stored_total 1", "deeplink_link_cache_entries 1", "process_resident_memory_bytes "]
    {
        assert!(metrics.body.contains(counted), "{counted} is missing in\n{}", metrics.body);
    }
    for private in [&link, &key, "tnt_", "example.com"] {
        assert!(!metrics.body.contains(private), "{private} is in the figures");
    }
    assert_eq!(ask(admin, "GET", "/ready", &[], "").json()["status"], "ready");
    assert_eq!(ask(admin, "GET", "/health", &[], "").json()["status"], "ok");
    assert_eq!(ask(admin, "POST", "/metrics", &[], "").status, 405);
    assert_eq!(ask(admin, "GET", "/v1/links", &[], "").status, 404);
    server.stop();
}
