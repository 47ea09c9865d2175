//! The keyring of the desktop. It may be locked and wait for a person, or never answer, so each call has a thread of its
//! own and a limit.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use zeroize::Zeroizing;

use crate::console::Console;

/// Longest wait for an answer where nobody can be asked to unlock it.
const LIMIT: Duration = Duration::from_secs(3);
/// The same where somebody can.
const LIMIT_WITH_SOMEBODY: Duration = Duration::from_secs(15);
/// After so long, somebody is told what is waited for.
const SLOW: Duration = Duration::from_millis(500);

/// Keeps secrets by account. An error is the reason, for people.
pub(crate) trait SecretStore: Send + Sync + 'static {
    /// The secret of an account, if there is one.
    fn get(&self, account: &str) -> Result<Option<Zeroizing<String>>, String>;
    /// Keeps a secret in place of an older one.
    fn set(&self, account: &str, secret: &str) -> Result<(), String>;
    /// Forgets a secret; one that is not there is forgotten already.
    fn delete(&self, account: &str) -> Result<(), String>;
}

/// A store that is asked with limited patience.
pub(crate) struct Keyring {
    store: Arc<dyn SecretStore>,
    limit: Duration,
    /// Somebody who can be told what is waited for.
    somebody: Option<Arc<Console>>,
}

impl Keyring {
    /// For somebody at a terminal, or for nobody.
    pub(crate) fn new(store: Arc<dyn SecretStore>, console: &Arc<Console>) -> Self {
        let somebody = console.terminal.then(|| Arc::clone(console));
        let limit = if somebody.is_some() { LIMIT_WITH_SOMEBODY } else { LIMIT };
        Self { store, limit, somebody }
    }

    #[cfg(test)]
    pub(super) fn with_limit(store: Arc<dyn SecretStore>, limit: Duration) -> Self {
        Self { store, limit, somebody: None }
    }

    /// The secret of an account, if there is one.
    pub(super) async fn get(&self, account: &str) -> Result<Option<Zeroizing<String>>, String> {
        let account = account.to_owned();
        self.ask(move |store| store.get(&account)).await
    }

    /// Keeps a secret. It counts as kept once an entry opened anew gives the same back: some keyrings take everything
    /// and keep it no longer than the process.
    pub(super) async fn keep(&self, account: &str, secret: &str) -> Result<(), String> {
        let (to, what) = (account.to_owned(), Zeroizing::new(secret.to_owned()));
        self.ask(move |store| store.set(&to, &what)).await?;
        match self.get(account).await? {
            Some(kept) if *kept == secret => Ok(()),
            _ => {
                // What it may hold all the same is not used, and not left behind if that can be helped.
                let _ = self.forget(account).await;
                Err("it does not give back what it was given".to_owned())
            }
        }
    }

    /// Forgets a secret.
    pub(super) async fn forget(&self, account: &str) -> Result<(), String> {
        let account = account.to_owned();
        self.ask(move |store| store.delete(&account)).await
    }

    /// Asks in a thread that is left alone when time runs out. A runtime's own blocking threads would be waited for at
    /// the end of the process.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn SecretStore) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let (tell, mut told) = oneshot::channel();
        let store = Arc::clone(&self.store);
        let thread = std::thread::Builder::new().name("keyring".to_owned());
        let spawned = thread.spawn(move || {
            // Nobody may be listening any more.
            let _ = tell.send(work(&*store));
        });
        spawned.map_err(|error| format!("no thread can be had for it: {}", crate::error::plain(&error)))?;
        let answer = async {
            tokio::select! {
                biased;
                answer = &mut told => return answer,
                () = sleep(SLOW) => {}
            }
            if let Some(console) = &self.somebody {
                console.say("waiting for the keyring");
            }
            told.await
        };
        match timeout(self.limit, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err("it broke off".to_owned()),
            Err(_) => Err(format!("no answer within {} s", self.limit.as_secs().max(1))),
        }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("limit", &self.limit).finish_non_exhaustive()
    }
}
