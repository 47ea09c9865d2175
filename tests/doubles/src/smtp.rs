//! A mail server in this process whose behaviour the test sets.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What it does with mails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Accepts every mail.
    Takes,
    /// Answers every recipient with this, such as `550 no such user`.
    Answers(&'static str),
    /// Sends no greeting.
    Hangs,
}

/// The mail server.
pub struct MailServer {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    mood: Mood,
    /// The moods of the next connections; after them, `mood` applies.
    first: Vec<Mood>,
    connections: usize,
    signed_in: Vec<String>,
    mails: Vec<String>,
}

impl MailServer {
    /// A server that starts with a mood, over TLS from the first byte if it has a TLS configuration.
    pub async fn start(mood: Mood, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let state = State { mood, first: Vec::new(), connections: 0, signed_in: Vec::new(), mails: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        tokio::spawn({
            let state = Arc::clone(&state);
            async move {
                while let Ok((socket, _)) = listener.accept().await {
                    let (state, tls) = (Arc::clone(&state), tls.clone());
                    tokio::spawn(async move {
                        match tls {
                            None => serve(socket, &state).await,
                            Some(tls) => match tls.accept(socket).await {
                                Ok(secured) => serve(secured, &state).await,
                                Err(error) => Err(error),
                            },
                        }
                    });
                }
            }
        });
        Self { address, state }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what it does.
    pub fn set(&self, mood: Mood) {
        self.state().mood = mood;
    }

    /// Sets what it does with the next connection only.
    pub fn set_for_next(&self, mood: Mood) {
        self.state().first.push(mood);
    }

    /// The mails it has accepted.
    pub fn mails(&self) -> Vec<String> {
        self.state().mails.clone()
    }

    /// The authentications it received (RFC 4954).
    pub fn signed_in(&self) -> Vec<String> {
        self.state().signed_in.clone()
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.state().connections
    }
}

/// One conversation (RFC 5321, appendix D).
async fn serve(socket: impl AsyncRead + AsyncWrite + Unpin, state: &Mutex<State>) -> std::io::Result<()> {
    let mine = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.connections += 1;
        if state.first.is_empty() { None } else { Some(state.first.remove(0)) }
    };
    let mood = || mine.unwrap_or_else(|| state.lock().unwrap_or_else(PoisonError::into_inner).mood);
    let (read, mut write) = tokio::io::split(socket);
    let mut lines = BufReader::new(read).lines();
    if mood() == Mood::Hangs {
        // Until the client closes the connection.
        while lines.next_line().await?.is_some() {}
        return Ok(());
    }
    write.write_all(b"220 mail.example.com\r\n").await?;
    while let Some(line) = lines.next_line().await? {
        let verb = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
        let answer = match (&*verb, mood()) {
            ("EHLO", _) => "250-mail.example.com\r\n250-8BITMIME\r\n250 AUTH PLAIN",
            ("AUTH", _) => {
                state.lock().unwrap_or_else(PoisonError::into_inner).signed_in.push(line);
                "235 welcome"
            }
            ("RCPT", Mood::Answers(answer)) => answer,
            ("DATA", _) => {
                write.write_all(b"354 go on\r\n").await?;
                let mut mail = String::new();
                while let Some(line) = lines.next_line().await?.filter(|line| line != ".") {
                    mail.push_str(&line);
                    mail.push('\n');
                }
                state.lock().unwrap_or_else(PoisonError::into_inner).mails.push(mail);
                "250 taken"
            }
            ("QUIT", _) => "221 bye",
            _ => "250 fine",
        };
        write.write_all(format!("{answer}\r\n").as_bytes()).await?;
    }
    Ok(())
}
