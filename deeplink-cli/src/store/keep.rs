//! Stores a key, updates the configuration, and reports both.

use deeplink_core::secret::SecretKey;

use crate::base_url::BaseUrl;
use crate::config::{Config, STORE_FILE, STORE_KEYRING};
use crate::context::Context;
use crate::credentials::Source;
use crate::env::KeyringUse;
use crate::error::{Outcome, Stop};
use crate::store::{Choice, KeyLocation, StoreName, StoredKey, Wish, account};

/// Where the next key of a profile goes.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) profile: String,
    pub(crate) base: BaseUrl,
    choice: Choice,
}

/// A key or the configuration that names it could not be stored.
#[derive(Debug)]
pub(crate) struct KeepError {
    pub(crate) why: Stop,
    /// Where the key is, if only the configuration could not be written.
    pub(crate) key_at: Option<Source>,
}

impl From<KeepError> for Stop {
    fn from(error: KeepError) -> Self {
        error.why
    }
}

impl Context {
    /// Decides where the next key of a profile goes, and checks whether it can go there.
    pub(crate) async fn choose_store(
        &self,
        profile: &str,
        named: Option<StoreName>,
        base: &BaseUrl,
    ) -> Outcome<Destination> {
        let configured = self.config.profiles.get(profile).and_then(|profile| profile.store.as_deref());
        let wish = Wish { named, require: self.env.keyring == KeyringUse::Require, configured };
        let choice = self.stores().choose(wish, profile, base).await?;
        Ok(Destination { profile: profile.to_owned(), base: base.clone(), choice })
    }

    /// Stores a key for a profile and makes the profile point to its service; `login_account` is the account that a
    /// sign-in or a sign-up created the key for. Prints where it is, if that is not the intended place.
    pub(crate) async fn keep(
        &self,
        to: &Destination,
        key: &SecretKey,
        login_account: Option<&str>,
    ) -> Result<Source, KeepError> {
        let (stores, base) = (self.stores(), &to.base);
        let kept = stores.keep(&to.choice, &to.profile, &StoredKey { origin: base.origin(), key: key.clone() }).await;
        let kept = kept.map_err(|why| KeepError { why, key_at: None })?;
        let in_keyring = matches!(kept.source, Source::Keyring { .. });
        let changed = Config::change(&self.dirs, |config| {
            let profile = config.profiles.entry(to.profile.clone()).or_default();
            profile.base_url = Some(base.to_string());
            profile.store = Some(if in_keyring { STORE_KEYRING } else { STORE_FILE }.to_owned());
            profile.key_prefix = Some(key.to_string());
            profile.login_account = login_account.map(str::to_owned);
            config.active_profile.get_or_insert_with(|| self.profile.clone());
            Ok(())
        });
        if let Err(why) = changed {
            return Err(KeepError { why, key_at: Some(kept.source) });
        }
        self.tidy_up(to, &kept).await;
        if let Some(why) = kept.instead {
            // The result names the file.
            self.console.warn(&format!(
                "no keyring ({why}): the key is stored in a file that only you can read; to try the keyring again: \
                 dl login --store keyring"
            ));
        }
        Ok(kept.source)
    }

    /// Removes keys that earlier sign-ins of the profile left in other stores: nothing else would find them.
    async fn tidy_up(&self, to: &Destination, kept: &KeyLocation) {
        let stores = self.stores();
        let in_keyring = matches!(kept.source, Source::Keyring { .. });
        let (file, profile) = (stores.file(), std::slice::from_ref(&to.profile));
        let removed = || if file.get(&to.profile)?.is_some() { file.remove(profile) } else { Ok(()) };
        if in_keyring && removed().is_err() {
            let path = file.path();
            self.console.warn(&format!("an older key could not be removed from {}", path.display()));
        }
        let before = self.config.profiles.get(&to.profile).filter(|profile| profile.is_in_keyring());
        let Some(origin) = before.and_then(crate::config::Profile::origin) else { return };
        if in_keyring && origin == to.base.origin() {
            return;
        }
        // Do not wait again for a keyring that has just failed.
        if kept.instead.is_some() || stores.forget_in_keyring(&to.profile, &origin).await.is_err() {
            self.console.warn(&format!(
                "an older key may still be in the keyring, under \"{}\" for dl; it keeps working until you delete it \
                 there and on the service",
                account(&to.profile, &origin)
            ));
        }
    }
}
