//! The context of a command: the settings from flag, variable, profile and default, the two output streams and, on
//! demand, a key and a client.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use deeplink_core::secret::{PublishableKey, SecretKey, Token};
use deeplink_core::source::SourceUrl;
use zeroize::Zeroizing;

use crate::base_url::BaseUrl;
use crate::config::{self, Config, DEFAULT_PROFILE, Dirs};
use crate::console::Console;
use crate::credentials::{ResolvedKey, Sources, check_key};
use crate::env::Env;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::files;
use crate::global::{Global, ProgressMode};
use crate::net::NotSent;
use crate::output::{self, Format, Out, Pen, Wanted};
use crate::signals::SignalHold;

/// Default time limit of a call.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Default number of retries.
const RETRIES: u32 = 2;

/// The context of one command.
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) env: Env,
    pub(crate) dirs: Dirs,
    pub(crate) config: Config,
    /// The profile in use; it need not exist.
    pub(crate) profile: String,
    pub(crate) out: Out,
    pub(crate) console: Arc<Console>,
    pub(crate) progress: ProgressMode,
    pub(crate) timeout: Duration,
    pub(crate) retries: u32,
    /// The requests that `--dry-run` did not send.
    pub(crate) held: NotSent,
    /// Origin of the service that the latest client calls.
    pub(crate) asked: RefCell<Option<String>>,
    /// Whether the command only checks that the service can be reached.
    pub(crate) pings: Cell<bool>,
    /// Defers signals.
    pub(crate) signal_hold: SignalHold,
    stdin_taken: Cell<Option<&'static str>>,
}

impl Context {
    /// Resolves the settings.
    pub(crate) fn new(global: Global, env: Env, console: Arc<Console>, color: bool) -> Outcome<Self> {
        let dirs = Dirs::find(&env)?;
        let config = Config::load(&dirs)?;
        let profile = global.profile.clone().or_else(|| env.profile.clone()).or_else(|| config.active_profile.clone());
        let profile = profile.unwrap_or_else(|| DEFAULT_PROFILE.to_owned());
        config::check_profile_name(&profile)?;
        let stored = config.profiles.get(&profile);
        let of_profile = stored.and_then(|profile| profile.output.clone());
        let wanted = Wanted::read(&global, || match (global.output, &env.output, of_profile) {
            (Some(format), ..) => Ok(format),
            (None, Some(text), _) => word("DL_OUTPUT", text),
            (None, None, Some(text)) => word("output in config.toml", &text),
            (None, None, None) => Ok(Format::Table),
        })?;
        let progress = match (global.progress, &env.progress) {
            (Some(mode), _) => mode,
            (None, Some(text)) => word("DL_PROGRESS", text)?,
            (None, None) => ProgressMode::Auto,
        };
        let timeout = match (global.timeout, &env.timeout) {
            (Some(timeout), _) => timeout,
            (None, Some(text)) => {
                crate::clock::parse_duration(text).map_err(|wants| Failure::usage(format!("DL_TIMEOUT: {wants}")))?
            }
            (None, None) => TIMEOUT,
        };
        if timeout.is_zero() {
            return Err(Failure::usage("--timeout must be greater than zero").into());
        }
        let retries = match (global.retries, &env.retries) {
            (Some(retries), _) => retries,
            (None, Some(text)) => {
                text.parse().map_err(|_| Failure::usage(format!("DL_RETRIES is not a number: \"{text}\"")))?
            }
            (None, None) => RETRIES,
        };
        console.set_json(wanted.json_errors);
        let out = Out::new(wanted, color).spreadsheet_safe(global.spreadsheet_safe).messages_to(Arc::clone(&console));
        Ok(Self {
            global,
            env,
            dirs,
            config,
            profile,
            out,
            console,
            progress,
            timeout,
            retries,
            held: NotSent::default(),
            asked: RefCell::default(),
            pings: Cell::default(),
            signal_hold: SignalHold::default(),
            stdin_taken: Cell::new(None),
        })
    }

    /// The time limit, if one was set.
    pub(crate) fn limit_set(&self) -> Option<Duration> {
        (self.global.timeout.is_some() || self.env.timeout.is_some()).then_some(self.timeout)
    }

    /// Which service to talk to.
    pub(crate) fn base_url(&self) -> Outcome<BaseUrl> {
        if let Some(base) = &self.global.base_url {
            return Ok(base.clone());
        }
        let of_profile = || self.config.profiles.get(&self.profile)?.base_url.clone();
        let (whence, text) = match &self.env.base_url {
            Some(text) => ("DL_BASE_URL".to_owned(), Some(text.clone())),
            None => (format!("base_url of profile {}", self.profile), of_profile()),
        };
        let Some(text) = text else { return Err(self.no_base_url()) };
        text.parse().map_err(|why| Failure::usage(format!("{whence} is {why}")).into())
    }

    fn no_base_url(&self) -> crate::error::Stop {
        let known = self.config.profiles.contains_key(&self.profile);
        let what = if known || self.profile == DEFAULT_PROFILE {
            "no service is configured".to_owned()
        } else {
            format!("no profile named \"{}\"", self.profile)
        };
        let hint = match self.config.names() {
            names if names.is_empty() || known => {
                "use dl login --base-url https://dl.example.com, --base-url or DL_BASE_URL".to_owned()
            }
            names => format!("use --base-url, DL_BASE_URL, or one of the profiles {names}"),
        };
        Failure::usage(what).code("no_base_url").hint(hint).into()
    }

    /// The secret key to use, by the order of its sources. Notes about it are printed here.
    pub(crate) async fn key(&self) -> Outcome<ResolvedKey> {
        let base = self.base_url()?;
        let sources = Sources {
            flag: self.global.api_key_file.as_deref(),
            profile: &self.profile,
            profile_by_flag: self.global.profile.is_some(),
            variable: self.env.api_key.as_ref(),
            variable_is_empty: self.env.api_key_is_empty,
            variable_file: self.env.api_key_file.as_deref(),
            stores: self.stores(),
            configured: self.config.profiles.get(&self.profile),
            base: &base,
        };
        let found = sources.find(async |path| self.read_key(path).await).await?;
        self.console.hide(found.key.expose());
        for note in &found.notes {
            self.console.warn(note);
        }
        Ok(found)
    }

    /// Whether a publishable key is set.
    pub(crate) fn has_publishable_key(&self) -> bool {
        self.env.publishable_key.is_some() || self.env.publishable_key_file.is_some()
    }

    /// The publishable key for calls that take one.
    pub(crate) fn publishable_key(&self) -> Outcome<PublishableKey> {
        let key = match (&self.env.publishable_key, &self.env.publishable_key_file) {
            (Some(key), _) => key.expose().trim_end_matches(['\r', '\n']).to_owned(),
            (None, Some(path)) => {
                self.read_text(path, "DL_PUBLISHABLE_KEY_FILE")?.trim_end_matches(['\r', '\n']).to_owned()
            }
            (None, None) => {
                let what = "no publishable key; tried DL_PUBLISHABLE_KEY and DL_PUBLISHABLE_KEY_FILE (not set)";
                let hint = "dl pk create go.example.com creates one for a verified domain";
                return Err(Failure::new(Exit::Auth, what).code("no_key").hint(hint).into());
            }
        };
        let key = Zeroizing::new(key);
        if !key.starts_with("pk_live_") || key.chars().any(|c| !c.is_ascii_alphanumeric() && c != '_') {
            return Err(Failure::invalid("the publishable key does not start with pk_live_").into());
        }
        self.console.hide(&key);
        Ok(PublishableKey::new(key.as_str()))
    }

    /// The key that a file or stdin holds.
    pub(crate) async fn read_key(&self, path: &Path) -> Outcome<SecretKey> {
        let whence = if is_stdin(path) { "stdin".to_owned() } else { path.display().to_string() };
        let text = self.read_secret(path, "--api-key-file", "Secret key: ").await?;
        check_key(&text, &whence)
    }

    /// The token of a session that a file or stdin holds.
    pub(crate) async fn read_session(&self, path: &Path) -> Outcome<Token> {
        let text = self.read_secret(path, "--session-file", "Session token: ").await?;
        let token = Token::new(text.trim());
        if !token.is_well_formed() {
            let what = "the session file does not contain a session token (64 hex digits)";
            return Err(Failure::invalid(what).hint("it is the value of the session_token cookie").into());
        }
        self.console.hide(token.expose());
        Ok(token)
    }

    /// The URL of a source, from stdin.
    pub(crate) async fn read_source_url(&self) -> Outcome<SourceUrl> {
        let text = self.read_secret(Path::new("-"), "-", "Source URL: ").await?;
        let url = SourceUrl::new(text.trim());
        self.hide_source(&url);
        Ok(url)
    }

    /// Masks the URL of a source, and any part of it, in all later output.
    pub(crate) fn hide_source(&self, url: &SourceUrl) {
        self.console.hide(url.expose());
        if let Some((_, token)) = url.expose().rsplit_once('/').filter(|(_, token)| token.len() >= 16) {
            self.console.hide(token);
        }
    }

    /// Reads a file that holds a secret, or stdin: typed without echo, or piped in. Signals are handled while it waits
    /// for stdin.
    pub(crate) async fn read_secret(
        &self,
        path: &Path,
        asked_by: &'static str,
        question: &str,
    ) -> Outcome<Zeroizing<String>> {
        if !is_stdin(path) {
            return self.read_text(path, asked_by).map(Zeroizing::new);
        }
        if io::stdin().is_terminal() {
            return self.hidden(question, asked_by).await;
        }
        self.piped_secret(asked_by).await
    }

    /// All of stdin, which holds a secret.
    pub(crate) async fn piped_secret(&self, asked_by: &'static str) -> Outcome<Zeroizing<String>> {
        self.take_stdin(asked_by)?;
        let read = tokio::task::spawn_blocking(|| {
            let mut text = Zeroizing::new(String::new());
            io::stdin().lock().read_to_string(&mut text).map(|_| text)
        });
        match read.await {
            Ok(Ok(text)) => Ok(text),
            _ => Err(Failure::invalid(format!("{asked_by}: stdin could not be read as text")).into()),
        }
    }

    /// Reads a file that holds a secret, or stdin.
    fn read_text(&self, path: &Path, asked_by: &'static str) -> Outcome<String> {
        if is_stdin(path) {
            return self.stdin_text(asked_by);
        }
        files::read_private(path)?
            .ok_or_else(|| Failure::usage(format!("{asked_by}: no such file: {}", path.display())).into())
    }

    /// Takes stdin for one purpose; a second one is refused.
    pub(crate) fn take_stdin(&self, asked_by: &'static str) -> Outcome {
        match self.stdin_taken.replace(Some(asked_by)) {
            None => Ok(()),
            Some(before) if before == asked_by => Ok(()),
            Some(before) => {
                Err(Failure::usage(format!("{before} and {asked_by} both read stdin; use a file for one of them"))
                    .into())
            }
        }
    }

    /// All of stdin as text. Signals are handled while it waits.
    pub(crate) async fn piped_text(&self, asked_by: &'static str) -> Outcome<String> {
        String::from_utf8(self.piped_bytes(asked_by).await?)
            .map_err(|_| Failure::invalid(format!("{asked_by}: stdin is not UTF-8 text")).into())
    }

    /// All of stdin. Signals are handled while it waits.
    async fn piped_bytes(&self, asked_by: &'static str) -> Outcome<Vec<u8>> {
        self.take_stdin(asked_by)?;
        if io::stdin().is_terminal() {
            self.console.note("reading from the terminal; end with Ctrl-D on an empty line");
        }
        let read = tokio::task::spawn_blocking(|| {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        });
        match read.await {
            Ok(read) => read.map_err(|error| Failure::file("read", "stdin", &error).into()),
            Err(_) => Err(Failure::usage(format!("{asked_by}: stdin could not be read")).into()),
        }
    }

    /// A file's bytes, or all of stdin for `-`. Signals are handled while it waits.
    pub(crate) async fn given_bytes(&self, path: &Path, asked_by: &'static str) -> Outcome<Vec<u8>> {
        if is_stdin(path) { self.piped_bytes(asked_by).await } else { self.bytes_of(path, asked_by) }
    }

    /// All of stdin as text.
    pub(crate) fn stdin_text(&self, asked_by: &'static str) -> Outcome<String> {
        self.text_of(Path::new("-"), asked_by)
    }

    /// A file's text, or all of stdin for `-`.
    pub(crate) fn text_of(&self, path: &Path, asked_by: &'static str) -> Outcome<String> {
        String::from_utf8(self.bytes_of(path, asked_by)?)
            .map_err(|_| Failure::invalid(format!("{asked_by}: {} is not UTF-8 text", path.display())).into())
    }

    /// A file's bytes, or all of stdin for `-`.
    pub(crate) fn bytes_of(&self, path: &Path, asked_by: &'static str) -> Outcome<Vec<u8>> {
        if is_stdin(path) {
            self.take_stdin(asked_by)?;
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map_err(|error| Failure::file("read", "stdin", &error))?;
            return Ok(bytes);
        }
        std::fs::read(path).map_err(|error| {
            let failure = Failure::file("read", path.display(), &error);
            let missing = error.kind() == io::ErrorKind::NotFound;
            if missing { Failure { exit: Exit::Usage, ..failure } } else { failure }.into()
        })
    }

    /// The pen for charts.
    pub(crate) fn pen(&self) -> Pen {
        Pen { color: self.out.color, utf8: self.env.utf8, width: output::width() }
    }

    /// Whether a prompt precedes a deletion: only then is a request to describe its subject worthwhile.
    pub(crate) fn will_ask(&self) -> bool {
        !self.global.yes && !self.global.dry_run && self.can_ask()
    }

    /// Whether dl can prompt: a person sees the question and can type the answer.
    pub(crate) fn can_ask(&self) -> bool {
        let forbidden = self.global.no_input || self.env.no_input;
        !forbidden && io::stdin().is_terminal() && self.console.terminal && self.stdin_taken.get().is_none()
    }
}

/// `-` stands for stdin wherever a file is named.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn word<T: ValueEnum>(name: &str, text: &str) -> Outcome<T> {
    T::from_str(text, false).map_err(|_| {
        let known = T::value_variants().iter().filter_map(|v| Some(v.to_possible_value()?.get_name().to_owned()));
        Failure::usage(format!("{name} is \"{text}\"; must be one of {}", known.collect::<Vec<_>>().join(", "))).into()
    })
}
