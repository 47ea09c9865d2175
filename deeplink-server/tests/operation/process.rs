//! A data directory, the commands that run on it, and a server process that speaks HTTP.
//!
//! With `TEST_DATABASE_URL` a home has its own database on that PostgreSQL server, otherwise a SQLite file.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use deeplink_doubles::machine;
use sqlx::{Connection, Executor};

/// Longer than anything takes on a busy machine with a slow disk, and than the waits between the first attempts of a mail.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Its own directory, removed with the test.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        let mut home = Self::on_sqlite();
        if let Some(url) = machine::new_postgres_database("operation") {
            home.set("DEEPLINK_DATABASE_URL", url);
        }
        home
    }

    /// For tests of the file.
    pub(crate) fn on_sqlite() -> Self {
        Self { folder: machine::directory(), variables: Vec::new() }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        !self.variables.iter().any(|(name, _)| name == "DEEPLINK_DATABASE_URL")
    }

    /// A variable that was set.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The password of the database, if it has one.
    pub(crate) fn database_password(&self) -> Option<String> {
        let (_, url) = self.variables.iter().find(|(name, _)| name == "DEEPLINK_DATABASE_URL")?;
        Some(url.parse::<url::Url>().ok()?.password()?.to_owned())
    }

    /// Sets a variable for every command from now on.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.path("data").join(name)
    }

    /// The server's binary with only this home's settings.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deeplink-server"));
        command.current_dir(self.folder.path()).env_clear().args(args).stdin(Stdio::null());
        command.env("DEEPLINK_LISTEN", machine::APART).envs(self.variables.iter().cloned());
        command
    }

    /// The same from a shell that first runs something that affects the process, such as `ulimit`.
    pub(crate) fn command_after(&self, script: &str) -> Command {
        let inner = self.command(&[]);
        let mut shell = Command::new("sh");
        shell.current_dir(self.folder.path()).env_clear().stdin(Stdio::null());
        shell.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.args(["-c", &format!("{script} exec \"$0\" \"$@\"")]).arg(inner.get_program());
        shell
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        let output = self.command(args).output().expect("the command starts");
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Runs a command that must succeed and returns its stdout.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let ended = self.run(args);
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        ended.stdout
    }

    /// Opens an account and returns its key.
    pub(crate) fn key(&self, email: &str) -> String {
        let made: serde_json::Value =
            serde_json::from_str(&self.ok(&["tenant", "create", "--email", email, "--json"])).expect("JSON");
        made["api_key"].as_str().expect("a key").to_owned()
    }

    /// Starts the server and waits until it prints its address.
    pub(crate) fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    pub(crate) fn serve_with(&self, args: &[&str]) -> Server {
        self.start(self.command(args))
    }

    /// Starts the server with a command of this home and waits until it prints its address.
    pub(crate) fn start(&self, mut command: Command) -> Server {
        let log = self.path("log");
        let stderr = std::fs::OpenOptions::new().create(true).append(true).open(&log).expect("a log file");
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("the server starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout"));
        let mut first = String::new();
        stdout.read_line(&mut first).expect("a line");
        let Some(address) = first.strip_prefix("listening on http://") else {
            let _ = child.kill();
            panic!("{first:?}\n{}", std::fs::read_to_string(&log).unwrap_or_default());
        };
        Server { address: address.trim().parse().expect("an address"), child, stdout, log }
    }

    /// Keeps everybody else from storing links and clicks until [`Locked::release`].
    pub(crate) fn lock(&self) -> Locked {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let conn = runtime.block_on(async {
            match self.variable("DEEPLINK_DATABASE_URL") {
                Some(url) => {
                    let mut conn = sqlx::PgConnection::connect(url).await.expect("a connection");
                    conn.execute("BEGIN; LOCK TABLE links, clicks, click_marks IN EXCLUSIVE MODE")
                        .await
                        .expect("a lock");
                    Connected::Postgres(conn)
                }
                None => {
                    let path = self.data("deeplink.db");
                    let path = path.to_str().expect("a path in UTF-8");
                    let mut conn = sqlx::SqliteConnection::connect(path).await.expect("a connection");
                    conn.execute("BEGIN IMMEDIATE").await.expect("a lock");
                    Connected::Sqlite(conn)
                }
            }
        });
        Locked { runtime, conn }
    }
}

/// A database in which nobody else can store links and clicks.
pub(crate) struct Locked {
    runtime: tokio::runtime::Runtime,
    conn: Connected,
}

enum Connected {
    Sqlite(sqlx::SqliteConnection),
    Postgres(sqlx::PgConnection),
}

impl Locked {
    pub(crate) fn release(self) {
        let closed = match self.conn {
            Connected::Sqlite(conn) => self.runtime.block_on(conn.close()),
            Connected::Postgres(conn) => self.runtime.block_on(conn.close()),
        };
        closed.expect("the lock is released");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let Some((_, url)) = self.variables.iter().find(|(name, _)| name == "DEEPLINK_DATABASE_URL") else { return };
        let Ok(mut server) = url.parse::<url::Url>() else { return };
        let name = server.path().trim_start_matches('/').to_owned();
        if !name.starts_with("operation_") {
            return;
        }
        server.set_path("/postgres");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            // If it cannot be dropped it is removed with the server, which is the tests' own.
            if let Ok(mut conn) = sqlx::PgConnection::connect(server.as_str()).await {
                let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                let _ = sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut conn).await;
            }
        });
    }
}

/// A running server; it is killed if the test ends without stopping it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    log: PathBuf,
}

impl Server {
    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the state of the process") {
                return status;
            }
            assert!(Instant::now() < end, "the server still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops it as a service manager does, and returns what it printed after its first line.
    pub(crate) fn stop(mut self) -> String {
        self.signal("TERM");
        assert_eq!(self.wait().code(), Some(0), "{}", self.log());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("UTF-8");
        rest
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("the log")
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        ask(self.address, "GET", path, &[], "")
    }

    pub(crate) fn post(&self, path: &str, key: Option<&str>, body: &str) -> Reply {
        let authorization = key.map(|key| format!("Bearer {key}"));
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(authorization.as_deref().map(|value| ("Authorization", value)));
        ask(self.address, "POST", path, &headers, body)
    }

    /// Makes a link that leads to example.com and returns its id.
    pub(crate) fn link(&self, key: &str) -> String {
        let reply = self.post("/v1/links", Some(key), r#"{"web_url":"https://example.com/"}"#);
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()["link_id"].as_str().expect("an id").to_owned()
    }

    /// The answer to a visit of a link.
    pub(crate) fn tap(&self, link_id: &str) -> u16 {
        self.get(&format!("/r/{link_id}")).status
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// One request on its own connection; if the server says that its database is busy, repeated as it asks for.
/// Submits the form of a one-time link: where it leads, and the cookie that it sets, if any.
pub(crate) fn enter(server: &Server, link: &str, email: &str) -> (String, String) {
    let (_, token) = link.trim().split_once("token=").expect("a token");
    let body = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("token", token), ("email", email)])
        .finish();
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let reply = ask(server.address, "POST", "/signin/once", &form, &body);
    let header = |name: &str| {
        let line = reply.head.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    (header("location:"), header("set-cookie:"))
}

pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let end = Instant::now() + PATIENCE;
    loop {
        let reply = ask_once(address, method, path, headers, body);
        let is_busy = reply.status == 503 && reply.body.contains("\"overloaded\"");
        if !is_busy || Instant::now() >= end {
            return reply;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn ask_once(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    )
    .expect("the request goes out");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    Reply { status, head: head.to_owned(), body: body.to_owned() }
}

/// The texts of the mails in a directory.
pub(crate) fn mails(folder: &Path) -> Vec<String> {
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    let files = files.map(|file| file.expect("a file").path());
    let mails = files.filter(|path| path.extension().is_some_and(|extension| extension == "eml"));
    mails.map(|path| std::fs::read_to_string(path).expect("a mail")).collect()
}
