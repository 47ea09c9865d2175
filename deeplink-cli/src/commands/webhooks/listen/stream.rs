//! Asking the service for events: each is signed here and handed on, and the reader never waits for that.

use deeplink_client::receiver::{Handed, MOST_WAITING, Relay};
use deeplink_client::webhook::{Verifier, WebhookSecret};
use deeplink_core::secret::Random;
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::{Listen, Source};
use crate::context::Context;
use crate::error::{Failure, Outcome};

/// What there is to say beside receipts.
pub(super) enum Word {
    /// So many events were dropped so far, because too many waited.
    Dropped(u64),
    /// The service refuses the stream.
    Ended(deeplink_client::Error),
}

pub(super) async fn start(listen: &Listen, ctx: &Context) -> Outcome<Source> {
    let signer = match listen.secret.find(ctx).await? {
        Some(given) => given.verifier()?,
        None => session(ctx)?,
    };
    let forward = listen.forward(ctx)?;
    let client = ctx.client().await?;
    let mut events = client.events().stream().kinds(listen.event.iter().cloned());
    let (relay, receipts) = Relay::new(signer, forward);
    let (words, heard) = mpsc::channel(16);
    let console = std::sync::Arc::clone(&ctx.console);
    ctx.console.say("asking for events; Ctrl-C ends it");
    tokio::spawn(async move {
        let mut dropped = 0_u64;
        while let Some(told) = events.next().await {
            match told {
                Ok(told) => {
                    if relay.hand(told.id.as_str(), told.event.raw) == Handed::Dropped {
                        dropped += 1;
                        if dropped == 1 {
                            console.warn(&format!(
                                "{MOST_WAITING} events wait for the program; newer ones are dropped until it keeps up"
                            ));
                        }
                        let _ = words.try_send(Word::Dropped(dropped));
                    }
                }
                Err(error) => {
                    let _ = words.send(Word::Ended(error)).await;
                    return;
                }
            }
        }
    });
    Ok(Source { receipts, words: Some(heard), serving: None })
}

/// A secret for this session alone, which is shown: the program needs it.
fn session(ctx: &Context) -> Outcome<Verifier> {
    let secret = WebhookSecret::generate(&mut Random::system());
    ctx.console.disclose(&format!("events are signed with {}", secret.expose()));
    Ok(Verifier::new([secret]).map_err(|why| Failure::invalid(why.to_string()))?)
}
