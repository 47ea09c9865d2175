//! Runs `dl` in an isolated environment: a home, a configuration, and only the variables that the test sets.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use deeplink_doubles::machine;
use tempfile::TempDir;

/// A secret key of the form the service gives.
pub const KEY: &str = "dl_live_3fa91c07be5d2846a0c1e2f3948576b8d9eafc0b1c2d3e4f";
/// Another one.
pub const OTHER_KEY: &str = "dl_live_77777777777777777777777777777777777777777777777f";

/// A user of `dl`.
pub struct Dl {
    home: TempDir,
    env: Vec<(String, String)>,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Ran {
    /// The exit code; none when it was killed.
    pub code: Option<i32>,
    /// What was printed on stdout.
    pub stdout: String,
    /// What was printed on stderr.
    pub stderr: String,
}

impl Default for Dl {
    fn default() -> Self {
        Self::new()
    }
}

impl Dl {
    /// A new user: nothing is configured.
    pub fn new() -> Self {
        Self { home: machine::directory(), env: Vec::new() }
    }

    /// A user of the service at this address, with a key in the environment.
    pub fn at(base_url: &str) -> Self {
        Self::new().env("DL_BASE_URL", base_url).env("DL_API_KEY", KEY)
    }

    /// Sets a variable, replacing an earlier value.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.retain(|(set, _)| set != name);
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The working directory.
    pub fn dir(&self) -> &Path {
        self.home.path()
    }

    /// Where the configuration is.
    pub fn config(&self, name: &str) -> PathBuf {
        self.home.path().join("config").join(name)
    }

    /// Puts a file into the working directory.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    }

    /// The same, readable only by its owner.
    pub fn secret_file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.file(name, content);
        chmod(&path, 0o600);
        path
    }

    /// The content of a file in the working directory.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.home.path().join(name)).expect("a file")
    }

    /// The command for a line such as `links create https://example.com --id spring-42`.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(machine::program("dl"));
        command.args(words(line)).current_dir(self.home.path()).env_clear();
        for (name, value) in self.variables() {
            command.env(name, value);
        }
        command
    }

    /// The environment variables of `dl`.
    pub fn variables(&self) -> Vec<(String, String)> {
        let home = |below: &str| self.home.path().join(below).to_string_lossy().into_owned();
        let path = option_env!("PATH").unwrap_or("/usr/bin:/bin").to_owned();
        let mut all = vec![
            ("HOME".to_owned(), home("")),
            ("DL_CONFIG_DIR".to_owned(), home("config")),
            ("DL_STATE_DIR".to_owned(), home("state")),
            ("PATH".to_owned(), path),
        ];
        all.extend(self.env.iter().cloned());
        all
    }

    /// Runs a line, with nothing on stdin.
    pub fn run(&self, line: &str) -> Ran {
        self.run_with(line, "")
    }

    /// Runs a line with this on stdin.
    pub fn run_with(&self, line: &str, stdin: &str) -> Ran {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("dl starts");
        let mut input = child.stdin.take().expect("a pipe");
        let stdin = stdin.as_bytes().to_vec();
        let feed = std::thread::spawn(move || {
            // A command that reads nothing closes the pipe.
            let _ = input.write_all(&stdin);
        });
        let output = child.wait_with_output().expect("dl ends");
        feed.join().expect("stdin is fed");
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Stores a key as `dl login` does, without a request to a service.
    pub fn stored(self, profile: &str, base_url: &str, key: &str) -> Self {
        let (config, credentials) = (self.config("config.toml"), self.config("credentials.toml"));
        std::fs::create_dir_all(config.parent().expect("a directory")).expect("a directory");
        append(&config, &format!("[profile.{profile}]\nbase_url = \"{base_url}\"\nstore = \"file\"\n\n"));
        append(&credentials, &format!("[profile.{profile}]\norigin = \"{base_url}\"\nkey = \"{key}\"\n\n"));
        self
    }
}

fn append(path: &Path, text: &str) {
    let before = std::fs::read_to_string(path).unwrap_or_default();
    std::fs::write(path, before + text).expect("a file");
    chmod(path, 0o600);
}

/// Sets the mode of a file.
pub fn chmod(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

/// The mode of a file.
pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

impl Ran {
    /// Asserts success; returns stdout.
    pub fn ok(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self}");
        &self.stdout
    }

    /// Asserts this exit code; returns stderr.
    pub fn fails(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self}");
        &self.stderr
    }

    /// What stderr says, with whitespace normalized.
    pub fn says(&self, text: &str) -> bool {
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        squeeze(&self.stderr).contains(&squeeze(text))
    }

    /// The JSON on stdout.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.ok()).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The JSON error on stderr.
    pub fn error(&self) -> serde_json::Value {
        let line = self.stderr.lines().last().unwrap_or_default();
        let error: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {self}"));
        error["error"].clone()
    }
}

/// As a transcript: stdout, then stderr, then the code if it is not 0.
impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stdout)?;
        if !self.stderr.is_empty() {
            write!(f, "--- stderr\n{}", self.stderr)?;
        }
        match self.code {
            Some(0) => Ok(()),
            Some(code) => write!(f, "--- exit {code}"),
            None => f.write_str("--- killed"),
        }
    }
}

/// The words of a command line, with single and double quotes as in a shell.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut started) = (Vec::new(), String::new(), None, false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '\'' | '"') => (quote, started) = (Some(c), true),
            (Some(open), c) if open == c => quote = None,
            (Some('"'), '\\') => word.extend(chars.next()),
            (None, c) if c.is_whitespace() => {
                if started || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                started = false;
            }
            (_, c) => word.push(c),
        }
    }
    if started || !word.is_empty() {
        words.push(word);
    }
    words
}
