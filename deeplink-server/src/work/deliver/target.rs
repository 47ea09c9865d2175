//! Where a webhook's deliveries are sent, and how they are signed.

use deeplink_core::id::WebhookId;
use deeplink_core::signature::{Signer, WebhookSecret};
use deeplink_core::time::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::db::deliveries::ActiveWebhook;
use crate::vault::Vault;

/// A webhook as it was last read.
#[derive(Debug)]
pub(super) struct Target {
    webhook: ActiveWebhook,
    signer: Option<Signer>,
    /// The previous signer, and the time until which it also signs.
    before: Option<(Signer, Timestamp)>,
    cancellation: CancellationToken,
}

/// The values in the headers of one attempt.
#[derive(Debug)]
pub(super) struct Signed {
    /// The signed time, in unix seconds.
    pub(super) seconds: i64,
    pub(super) service: String,
    pub(super) standard: String,
}

impl Target {
    /// Decrypts a webhook's secrets.
    pub(super) fn open(webhook: ActiveWebhook, vault: &Vault) -> Self {
        let open = |sealed: &str| {
            let plain = vault.open("webhooks", webhook.id.as_str(), sealed).map_err(|error| error.to_string())?;
            let text = String::from_utf8(plain).map_err(|_| "it is not UTF-8".to_owned())?;
            Signer::new(&WebhookSecret::new(text)).map_err(|error| error.to_string())
        };
        let opened = |sealed: &str| {
            open(sealed)
                .inspect_err(
                    |error| tracing::error!(webhook = %webhook.id, error, "webhook secret could not be decrypted"),
                )
                .ok()
        };
        let signer = opened(&webhook.sealed);
        let before = webhook.before.as_ref().and_then(|(sealed, until)| Some((opened(sealed)?, *until)));
        Self { webhook, signer, before, cancellation: CancellationToken::new() }
    }

    pub(super) fn id(&self) -> &WebhookId {
        &self.webhook.id
    }

    pub(super) fn url(&self) -> &str {
        &self.webhook.url
    }

    /// How long failed deliveries are retried, in seconds.
    pub(super) fn retry_for(&self) -> i64 {
        self.webhook.retry_for
    }

    /// Whether a delivery of this turn was given up when the webhook was re-enabled. The turn of a newer delivery may
    /// be ahead of the webhook as it was read.
    pub(super) fn is_from_earlier_turn(&self, turn: i64) -> bool {
        turn < self.webhook.turn
    }

    /// Whether nothing has changed that affects attempts.
    pub(super) fn is_unchanged(&self, webhook: &ActiveWebhook) -> bool {
        let ActiveWebhook { id, url, sealed, before, turn, retry_for, is_full: _, is_healthy: _ } = webhook;
        let ours = &self.webhook;
        (id, url, sealed, before, turn, retry_for)
            == (&ours.id, &ours.url, &ours.sealed, &ours.before, &ours.turn, &ours.retry_for)
    }

    /// Cancels attempts that have not begun.
    pub(super) fn cancel(&self) {
        self.cancellation.cancel();
    }

    /// Resolves once it is canceled.
    pub(super) async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }

    #[cfg(test)]
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Signs a body for an attempt at this time. `None` if the secret cannot be decrypted.
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
    pub(in super::super) fn active_webhook(vault: &Vault) -> ActiveWebhook {
        let id: WebhookId = "wh_000000000000000000000001".parse().expect("an id");
        ActiveWebhook {
            url: "https://hooks.example.com/".into(),
            sealed: vault.seal("webhooks", id.as_str(), SECRET.as_bytes()),
            before: None,
            turn: 0,
            is_full: false,
            retry_for: 31,
            is_healthy: true,
            id,
        }
    }

    pub(in super::super) fn vault() -> Vault {
        let key: MasterKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".parse().expect("a key");
        Vault::of(&key, &[])
    }

    /// Only deliveries from before a webhook was re-enabled are given up, even if it was re-enabled once more since it
    /// was read.
    #[test]
    fn what_waited_before_it_was_switched_on_is_given_up() {
        let vault = vault();
        let target = Target::open(ActiveWebhook { turn: 2, ..active_webhook(&vault) }, &vault);
        assert_eq!([0, 1, 2, 3].map(|turn| target.is_from_earlier_turn(turn)), [true, true, false, false]);
    }
}
