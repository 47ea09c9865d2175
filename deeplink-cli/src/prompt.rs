//! Prompts. They appear only on a terminal; elsewhere a prompt is an error that names the flag to use.

use std::io::{self, BufRead, Write};

use deeplink_core::secret::SecretKey;
use zeroize::Zeroizing;

use crate::context::Context;
use crate::credentials::{check_key, invalid_key};
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;

impl Context {
    /// Asks before something that cannot be undone. Scripts pass `--yes`.
    pub(crate) async fn confirm(&self, question: &str) -> Outcome {
        if self.global.yes || self.global.dry_run {
            return Ok(());
        }
        if !self.can_ask() {
            let what = format!("confirmation needed: {question}");
            return Err(Failure::usage(what).code("needs_yes").hint("use --yes to confirm").into());
        }
        let answer = self.ask(&format!("{question} [y/N] ")).await?;
        if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
            return Ok(());
        }
        Err(Failure::usage("nothing was done").into())
    }

    /// Asks for the name of what would be lost, before a destructive action. Scripts pass `--yes`.
    pub(crate) async fn confirm_name(&self, warning: &str, name: &str) -> Outcome {
        if self.global.yes || self.global.dry_run {
            return Ok(());
        }
        if !self.can_ask() {
            let what = format!("confirmation needed: {warning}");
            return Err(Failure::usage(what).code("needs_yes").hint("use --yes to confirm").into());
        }
        let answer = self.ask(&format!("{warning}\nType {name} to continue: ")).await?;
        if answer.trim() == name {
            return Ok(());
        }
        Err(Failure::usage("nothing was done").into())
    }

    /// Asks a question whose default answer is yes.
    pub(crate) async fn agree(&self, question: &str) -> Outcome<bool> {
        let answer = self.ask(question).await?;
        Ok(!matches!(answer.trim().to_ascii_lowercase().as_str(), "n" | "no"))
    }

    /// Asks for a line; `flag` gives it without asking.
    pub(crate) async fn line(&self, question: &str, flag: &str) -> Outcome<String> {
        if !self.can_ask() {
            let what = format!("{flag} is required");
            return Err(Failure::usage(what)
                .code("needs_input")
                .hint(format!("use {flag}: this session cannot prompt"))
                .into());
        }
        Ok(self.ask(question).await?.trim().to_owned())
    }

    async fn ask(&self, question: &str) -> Outcome<String> {
        let question = question.to_owned();
        // A blocked read must not keep Ctrl-C waiting.
        let read = tokio::task::spawn_blocking(move || -> io::Result<String> {
            let mut stderr = io::stderr().lock();
            stderr.write_all(question.as_bytes())?;
            stderr.flush()?;
            let mut line = String::new();
            io::stdin().lock().read_line(&mut line)?;
            Ok(line)
        });
        match read.await {
            Ok(Ok(line)) => Ok(line),
            _ => Err(Failure::usage("the input could not be read").into()),
        }
    }

    /// Asks for a key without showing it; with stdin piped, the key is read from there.
    pub(crate) async fn secret(&self, question: &str) -> Outcome<SecretKey> {
        if !io::IsTerminal::is_terminal(&io::stdin()) {
            return check_key(&self.piped_secret("the key").await?, "stdin");
        }
        if !self.can_ask() {
            let hint = "pipe the key in, for example: dl login --with-key < key.txt";
            return Err(Failure::usage("a key is required").code("needs_input").hint(hint).into());
        }
        let typed = self.hidden(question, "--with-key").await?;
        if typed.is_empty() {
            return Err(invalid_key("no key given").into());
        }
        check_key(&typed, "the key")
    }

    /// Asks for a line without showing it; `flag` has it read from stdin.
    pub(crate) async fn hidden(&self, question: &str, flag: &str) -> Outcome<Zeroizing<String>> {
        if !self.can_ask() {
            let what = "this session cannot prompt for it";
            return Err(Failure::usage(what)
                .code("needs_input")
                .hint(format!("use {flag} to read it from stdin"))
                .into());
        }
        let question = question.to_owned();
        // Before the question is printed, so that an early paste is not echoed either.
        let _echo = Echo::off().map_err(|_| Failure::usage("the terminal cannot hide what is typed"))?;
        let read = tokio::task::spawn_blocking(move || rpassword::prompt_password(question));
        match read.await {
            Ok(Ok(text)) => Ok(Zeroizing::new(text)),
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => Err(Stop::Exit(Exit::Interrupted)),
            _ => Err(Failure::usage("the input could not be read").into()),
        }
    }

    /// The next line of stdin, as soon as it is complete: it may depend on a mail that was just sent.
    pub(crate) async fn stdin_line(&self, asked_by: &'static str) -> Outcome<Zeroizing<String>> {
        self.take_stdin(asked_by)?;
        let read = tokio::task::spawn_blocking(|| {
            let mut line = Zeroizing::new(String::new());
            io::stdin().lock().read_line(&mut line).map(|_| line)
        });
        match read.await {
            Ok(Ok(line)) => Ok(line),
            _ => Err(Failure::invalid(format!("{asked_by}: stdin could not be read as text")).into()),
        }
    }
}

/// A terminal with echo switched off. It is restored however the prompt ends, even by a signal.
struct Echo {
    #[cfg(unix)]
    before: rustix::termios::Termios,
}

impl Echo {
    #[cfg(unix)]
    fn off() -> io::Result<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(io::stdin())?;
        let mut unseen = before.clone();
        unseen.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        tcsetattr(io::stdin(), OptionalActions::Now, &unseen)?;
        Ok(Self { before })
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    fn off() -> io::Result<Self> {
        Ok(Self {})
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // Nothing more can be done for a terminal that refuses.
        #[cfg(unix)]
        let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, &self.before);
    }
}
