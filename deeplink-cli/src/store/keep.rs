//! Stores a key, updates the configuration, and reports both.

use deeplink_core::secret::SecretKey;

use crate::base_url::BaseUrl;
use crate::config::{Config, STORE_FILE, STORE_KEYRING};
use crate::context::Context;
use crate::credentials::Source;
use crate::env::KeyringUse;
use crate::error::{Outcome, Stop};
use crate::store::{Choice, KeyLocation, StoreName, StoredKey, Wish, account};

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
    /// Decides where the next key of the profile in use goes, and checks whether it can go there.
    pub(crate) async fn choose_store(&self, named: Option<StoreName>, base: &BaseUrl) -> Outcome<Choice> {
        let configured = self.config.profiles.get(&self.profile).and_then(|profile| profile.store.as_deref());
        let wish = Wish { named, require: self.env.keyring == KeyringUse::Require, configured };
        self.stores().choose(wish, &self.profile, base).await
    }

    /// Stores a key for the profile in use and makes the profile point to its service. Prints where it is, if that is
    /// not the intended place.
    pub(crate) async fn keep(&self, choice: &Choice, base: &BaseUrl, key: &SecretKey) -> Result<Source, KeepError> {
        let stores = self.stores();
        let kept = stores.keep(choice, &self.profile, &StoredKey { origin: base.origin(), key: key.clone() }).await;
        let kept = kept.map_err(|why| KeepError { why, key_at: None })?;
        let in_keyring = matches!(kept.source, Source::Keyring { .. });
        let changed = Config::change(&self.dirs, |config| {
            let profile = config.profiles.entry(self.profile.clone()).or_default();
            profile.base_url = Some(base.to_string());
            profile.store = Some(if in_keyring { STORE_KEYRING } else { STORE_FILE }.to_owned());
            profile.key_prefix = Some(key.to_string());
            config.active_profile.get_or_insert_with(|| self.profile.clone());
            Ok(())
        });
        if let Err(why) = changed {
            return Err(KeepError { why, key_at: Some(kept.source) });
        }
        self.tidy_up(base, &kept).await;
        if let Some(why) = kept.instead {
            let location = kept.source.location();
            self.console.warn(&format!(
                "no keyring ({why}): the key is in a file that only you can read, {location}; \
                 dl login --store keyring tries the keyring again"
            ));
        }
        Ok(kept.source)
    }

    /// Removes keys that older sign-ins of the profile left in other stores: nothing else would find them again.
    async fn tidy_up(&self, base: &BaseUrl, kept: &KeyLocation) {
        let stores = self.stores();
        let in_keyring = matches!(kept.source, Source::Keyring { .. });
        let (file, profile) = (stores.file(), std::slice::from_ref(&self.profile));
        let removed = || if file.get(&self.profile)?.is_some() { file.remove(profile) } else { Ok(()) };
        if in_keyring && removed().is_err() {
            let path = file.path();
            self.console.warn(&format!("an older key could not be taken out of {}", path.display()));
        }
        let before = self.config.profiles.get(&self.profile).filter(|profile| profile.is_in_keyring());
        let Some(origin) = before.and_then(crate::config::Profile::origin) else { return };
        if in_keyring && origin == base.origin() {
            return;
        }
        // Do not wait again for a keyring that has just failed.
        if kept.instead.is_some() || stores.forget_in_keyring(&self.profile, &origin).await.is_err() {
            self.console.warn(&format!(
                "an older key may still be in the keyring, as \"{}\" of dl; it works until it is deleted there and on the \
                 service",
                account(&self.profile, &origin)
            ));
        }
    }
}
