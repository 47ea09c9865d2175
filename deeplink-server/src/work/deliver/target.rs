//! A webhook that is sent to: where it is, and what signs.

use deeplink_core::id::WebhookId;
use deeplink_core::signature::{Signer, WebhookSecret};
use deeplink_core::time::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::db::deliveries::Stored;
use crate::vault::Vault;

/// A webhook as it was when it was looked at last.
#[derive(Debug)]
pub(super) struct Target {
    stored: Stored,
    signer: Option<Signer>,
    /// The signer before a rotation, and until when it signs as well.
    before: Option<(Signer, Timestamp)>,
    ended: CancellationToken,
}

/// What the headers of one attempt say.
#[derive(Debug)]
pub(super) struct Signed {
    /// The moment that is signed, in unix seconds.
    pub(super) seconds: i64,
    pub(super) service: String,
    pub(super) standard: String,
}

impl Target {
    /// Opens a webhook's secrets.
    pub(super) fn open(stored: Stored, vault: &Vault) -> Self {
        let open = |sealed: &str| {
            let plain = vault.open("webhooks", stored.id.as_str(), sealed).map_err(|error| error.to_string())?;
            let text = String::from_utf8(plain).map_err(|_| "it is no text".to_owned())?;
            Signer::new(&WebhookSecret::new(text)).map_err(|error| error.to_string())
        };
        let opened = |sealed: &str| {
            open(sealed)
                .inspect_err(|error| tracing::error!(webhook = %stored.id, error, "a secret cannot be opened"))
                .ok()
        };
        let signer = opened(&stored.sealed);
        let before = stored.before.as_ref().and_then(|(sealed, until)| Some((opened(sealed)?, *until)));
        Self { stored, signer, before, ended: CancellationToken::new() }
    }

    pub(super) fn id(&self) -> &WebhookId {
        &self.stored.id
    }

    pub(super) fn url(&self) -> &str {
        &self.stored.url
    }

    /// Whether what was made in this turn had been given up when the webhook was switched on again. One that is newer than
    /// what was looked at is of a turn to come.
    pub(super) fn has_given_up(&self, turn: i64) -> bool {
        turn < self.stored.turn
    }

    /// Whether nothing has changed but what does not concern attempts.
    pub(super) fn is_still(&self, stored: &Stored) -> bool {
        let Stored { id, url, sealed, before, turn, is_full: _, fails: _ } = stored;
        let ours = &self.stored;
        (id, url, sealed, before, turn) == (&ours.id, &ours.url, &ours.sealed, &ours.before, &ours.turn)
    }

    /// No attempt begins any more that was to go here.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Resolves when none does.
    pub(super) async fn over(&self) {
        self.ended.cancelled().await;
    }

    #[cfg(test)]
    pub(super) fn is_over(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Signs a body for an attempt at this moment. `None` if the secret cannot be opened.
    pub(super) fn sign(&self, event: &str, now: Timestamp, body: &[u8]) -> Option<Signed> {
        let seconds = now.as_millis().div_euclid(1_000);
        let signed = self.signer.as_ref()?.sign(event, seconds, body);
        let mut standard = signed.standard;
        if let Some((before, _)) = self.before.as_ref().filter(|(_, until)| now < *until) {
            standard.push(' ');
            standard.push_str(&before.standard(event, seconds, body));
        }
        Some(Signed { seconds, service: signed.service, standard })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::vault::MasterKey;

    pub(in super::super) const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    /// A webhook whose secret is [`SECRET`].
    pub(in super::super) fn stored(vault: &Vault) -> Stored {
        let id: WebhookId = "wh_000000000000000000000001".parse().expect("an id");
        Stored {
            url: "https://hooks.example.com/".into(),
            sealed: vault.seal("webhooks", id.as_str(), SECRET.as_bytes()),
            before: None,
            turn: 0,
            is_full: false,
            fails: false,
            id,
        }
    }

    pub(in super::super) fn vault() -> Vault {
        let key: MasterKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".parse().expect("a key");
        Vault::of(&key, &[])
    }

    /// What waited before a webhook was switched on again is given up, and nothing else is, also where it was switched on
    /// once more since it was looked at.
    #[test]
    fn what_waited_before_it_was_switched_on_is_given_up() {
        let vault = vault();
        let target = Target::open(Stored { turn: 2, ..stored(&vault) }, &vault);
        assert_eq!([0, 1, 2, 3].map(|turn| target.has_given_up(turn)), [true, true, false, false]);
    }
}
