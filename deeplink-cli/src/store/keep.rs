//! Keeping a key: in its store, in the configuration, and in words.

use deeplink_core::secret::SecretKey;

use crate::base_url::BaseUrl;
use crate::config::{Config, STORE_FILE, STORE_KEYRING};
use crate::context::Context;
use crate::credentials::Source;
use crate::env::KeyringUse;
use crate::error::Outcome;
use crate::store::{Choice, StoreName, StoredKey, Wish};

impl Context {
    /// Decides where the next key of the profile in use goes, and looks whether it can go there.
    pub(crate) async fn choose_store(&self, named: Option<StoreName>, base: &BaseUrl) -> Outcome<Choice> {
        let configured = self.config.profiles.get(&self.profile).and_then(|profile| profile.store.as_deref());
        let wish = Wish { named, require: self.env.keyring == KeyringUse::Require, configured };
        self.stores().choose(wish, &self.profile, base).await
    }

    /// Keeps a key for the profile in use and makes the profile point to its service. Says where it is, if that is not
    /// where it was to go.
    pub(crate) async fn keep(&self, choice: &Choice, base: &BaseUrl, key: &SecretKey) -> Outcome<Source> {
        let stores = self.stores();
        let kept = stores.keep(choice, &self.profile, &StoredKey { origin: base.origin(), key: key.clone() }).await?;
        let in_keyring = matches!(kept.source, Source::Keyring { .. });
        Config::change(&self.dirs, |config| {
            let profile = config.profiles.entry(self.profile.clone()).or_default();
            profile.base_url = Some(base.to_string());
            profile.store = Some(if in_keyring { STORE_KEYRING } else { STORE_FILE }.to_owned());
            profile.key_prefix = Some(key.to_string());
            config.active_profile.get_or_insert_with(|| self.profile.clone());
            Ok(())
        })?;
        if in_keyring && self.tidy_up(base).await.is_err() {
            let file = stores.file().path();
            self.console.warn(&format!("an older key could not be taken out of {}", file.display()));
        }
        if let Some(why) = kept.instead {
            let place = kept.source.place();
            self.console.warn(&format!(
                "no keyring ({why}): the key is in a file that only you can read, {place}; \
                 dl login --store keyring tries the keyring again"
            ));
        }
        Ok(kept.source)
    }

    /// Takes away what older sign-ins of the profile left elsewhere.
    async fn tidy_up(&self, base: &BaseUrl) -> Outcome {
        let stores = self.stores();
        if stores.file().get(&self.profile)?.is_some() {
            stores.file().remove(std::slice::from_ref(&self.profile))?;
        }
        let before = self.config.profiles.get(&self.profile).filter(|profile| profile.is_in_keyring());
        if let Some(origin) = before.and_then(crate::config::Profile::origin).filter(|origin| *origin != base.origin())
        {
            // It is not used again, whether it goes or not.
            let _ = stores.forget_in_keyring(&self.profile, &origin).await;
        }
        Ok(())
    }
}
