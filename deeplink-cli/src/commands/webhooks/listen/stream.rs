//! Streams events from the service: each is signed here and forwarded, without blocking the stream.

use std::sync::Arc;

use deeplink_client::StreamState;
use deeplink_client::receiver::{Enqueued, MAX_QUEUED, Relay};
use deeplink_client::webhook::{Verifier, WebhookSecret};
use deeplink_core::secret::Random;
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::{Listen, Source};
use crate::console::Console;
use crate::context::Context;
use crate::error::{Failure, Outcome};

/// A notice, sent alongside receipts.
pub(super) enum Notice {
    /// The number of events dropped so far because the queue was full.
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
    // Otherwise nothing needs it.
    let shown = made.filter(|_| forward.is_some() || listen.save.is_some());
    let console = Arc::clone(&ctx.console);
    let watch = move |state| announce(&console, state, shown.as_ref());
    let mut events = client.events().stream().kinds(listen.event.iter().cloned()).watch(watch);
    let (relay, receipts) = Relay::new(signer, forward);
    let (notices, received) = mpsc::channel(16);
    let console = Arc::clone(&ctx.console);
    ctx.console.say("streaming events; Ctrl-C to stop");
    tokio::spawn(async move {
        let mut dropped = 0_u64;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if relay.enqueue(event.id.as_str(), event.event.raw) == Enqueued::Dropped {
                        dropped += 1;
                        if dropped == 1 {
                            console.warn(&format!(
                                "{MAX_QUEUED} events are queued; newer ones are dropped until the server catches up"
                            ));
                        }
                        let _ = notices.try_send(Notice::Dropped(dropped));
                    }
                }
                Err(error) => {
                    let _ = notices.send(Notice::Ended(error)).await;
                    return;
                }
            }
        }
    });
    Ok(Source { receipts, notices: Some(received), serving: None })
}

/// Reports the connection; with the first one, the secret of the session, which the program needs.
fn announce(console: &Console, state: StreamState, secret: Option<&WebhookSecret>) {
    match state {
        StreamState::Connected => {
            console.say("connected");
            if let Some(secret) = secret {
                console.disclose(&format!("events are signed with {}", secret.expose()));
            }
        }
        StreamState::Disconnected => console.say("connection lost; reconnecting"),
        StreamState::Reconnected => console.say("reconnected"),
        _ => {}
    }
}

/// A secret for this session alone.
fn session() -> Outcome<(Verifier, Option<WebhookSecret>)> {
    let secret = WebhookSecret::generate(&mut Random::system());
    let signer = Verifier::new([secret.clone()]).map_err(|why| Failure::invalid(why.to_string()))?;
    Ok((signer, Some(secret)))
}
