//! Asking the service for events: each is signed here and handed on, and the reader never waits for that.

use std::sync::Arc;

use deeplink_client::StreamState;
use deeplink_client::receiver::{Handed, MOST_WAITING, Relay};
use deeplink_client::webhook::{Verifier, WebhookSecret};
use deeplink_core::secret::Random;
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::{Listen, Source};
use crate::console::Console;
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
    let given = listen.secret.find(ctx).await?;
    let forward = listen.forward(ctx)?;
    let client = ctx.client().await?;
    let (signer, made) = match given {
        Some(given) => (given.verifier()?, None),
        None => session()?,
    };
    // Nobody else needs it.
    let shown = made.filter(|_| forward.is_some() || listen.save.is_some());
    let told = Arc::clone(&ctx.console);
    let watch = move |state| tell(&told, state, shown.as_ref());
    let mut events = client.events().stream().kinds(listen.event.iter().cloned()).watch(watch);
    let (relay, receipts) = Relay::new(signer, forward);
    let (words, heard) = mpsc::channel(16);
    let console = Arc::clone(&ctx.console);
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

/// How the connection does; with the first one the secret of the session, which the program needs.
fn tell(console: &Console, state: StreamState, secret: Option<&WebhookSecret>) {
    match state {
        StreamState::Begun => {
            console.say("connected");
            if let Some(secret) = secret {
                console.disclose(&format!("events are signed with {}", secret.expose()));
            }
        }
        StreamState::Lost => console.say("the connection is lost; trying again"),
        StreamState::Again => console.say("connected again"),
        _ => {}
    }
}

/// A secret for this session alone.
fn session() -> Outcome<(Verifier, Option<WebhookSecret>)> {
    let secret = WebhookSecret::generate(&mut Random::system());
    let signer = Verifier::new([secret.clone()]).map_err(|why| Failure::invalid(why.to_string()))?;
    Ok((signer, Some(secret)))
}
