//! The keyring of the desktop. It may be locked and wait for a person, or never answer, so each call has its own thread
//! and a time limit.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use zeroize::Zeroizing;

use crate::console::Console;

/// Time limit without a terminal.
const LIMIT: Duration = Duration::from_secs(3);
/// Time limit with a terminal, where a person may have to unlock it.
const LIMIT_AT_TERMINAL: Duration = Duration::from_secs(15);
/// After this time the wait is announced.
const SLOW: Duration = Duration::from_millis(500);

/// Stores secrets by account. An error is the reason, for people.
pub(crate) trait SecretStore: Send + Sync + 'static {
    /// The secret of an account, if there is one.
    fn get(&self, account: &str) -> Result<Option<Zeroizing<String>>, String>;
    /// Stores a secret, replacing an older one.
    fn set(&self, account: &str, secret: &str) -> Result<(), String>;
    /// Deletes a secret; a missing one is not an error.
    fn delete(&self, account: &str) -> Result<(), String>;
}

/// A store with a time limit.
pub(crate) struct Keyring {
    store: Arc<dyn SecretStore>,
    limit: Duration,
    /// Where a wait is announced, if anywhere.
    console: Option<Arc<Console>>,
}

impl Keyring {
    /// With the time limit for a terminal, or for no terminal.
    pub(crate) fn new(store: Arc<dyn SecretStore>, console: &Arc<Console>) -> Self {
        let console = console.terminal.then(|| Arc::clone(console));
        let limit = if console.is_some() { LIMIT_AT_TERMINAL } else { LIMIT };
        Self { store, limit, console }
    }

    #[cfg(test)]
    pub(super) fn with_limit(store: Arc<dyn SecretStore>, limit: Duration) -> Self {
        Self { store, limit, console: None }
    }

    /// The secret of an account, if there is one.
    pub(super) async fn get(&self, account: &str) -> Result<Option<Zeroizing<String>>, String> {
        let account = account.to_owned();
        self.ask(move |store| store.get(&account)).await
    }

    /// Stores a secret. It counts as stored once a newly opened entry returns the same: some keyrings accept everything
    /// and keep it only as long as the process.
    pub(super) async fn keep(&self, account: &str, secret: &str) -> Result<(), String> {
        let (to, what) = (account.to_owned(), Zeroizing::new(secret.to_owned()));
        self.ask(move |store| store.set(&to, &what)).await?;
        match self.get(account).await? {
            Some(kept) if *kept == secret => Ok(()),
            _ => {
                // Whatever it may still hold is not used, and is removed if possible.
                let _ = self.forget(account).await;
                Err("it does not return what was stored".to_owned())
            }
        }
    }

    /// Deletes a secret.
    pub(super) async fn forget(&self, account: &str) -> Result<(), String> {
        let account = account.to_owned();
        self.ask(move |store| store.delete(&account)).await
    }

    /// Asks in a thread that is abandoned at the time limit. The process would wait for the runtime's own blocking
    /// threads when it ends.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn SecretStore) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let (sender, mut receiver) = oneshot::channel();
        let store = Arc::clone(&self.store);
        let thread = std::thread::Builder::new().name("keyring".to_owned());
        let spawned = thread.spawn(move || {
            // The receiver may be gone.
            let _ = sender.send(work(&*store));
        });
        spawned.map_err(|error| format!("no thread could be started for it: {}", crate::error::plain(&error)))?;
        let answer = async {
            tokio::select! {
                biased;
                answer = &mut receiver => return answer,
                () = sleep(SLOW) => {}
            }
            if let Some(console) = &self.console {
                console.say("waiting for the keyring");
            }
            receiver.await
        };
        match timeout(self.limit, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err("the request was interrupted".to_owned()),
            Err(_) => Err(format!("no response within {} s", self.limit.as_secs().max(1))),
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("limit", &self.limit).finish_non_exhaustive()
    }
}
