//! Receives webhooks: accepts each signed event once, and rejects everything else.
//!
//! `WEBHOOK_SECRET=whsec_… cargo run --example webhook_receiver`, behind a reverse proxy that terminates TLS. To try it
//! on this machine: `dl webhooks trigger conversion --to http://127.0.0.1:3000/hook --secret-file …`

use std::io::Write;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::routing::post;
use deeplink_client::webhook::{Deduplicator, Duplicate, EventData, SignedEvent, Verifier, WebhookSecret};

/// Maximum age of a request, and maximum difference between the service's clock and this machine's.
const TOLERANCE: Duration = Duration::from_mins(5);

#[derive(Clone)]
struct Receiver {
    verifier: Verifier,
    seen: Deduplicator,
}

impl FromRef<Receiver> for Verifier {
    fn from_ref(receiver: &Receiver) -> Self {
        receiver.verifier.clone()
    }
}

/// Called only for requests that the service signed within the last five minutes.
async fn hook(State(receiver): State<Receiver>, signed: SignedEvent) -> StatusCode {
    let id = signed.id.unwrap_or_default();
    let claim = match receiver.seen.claim(&id) {
        Ok(claim) => claim,
        // Already processed: no need to send it again.
        Err(Duplicate::Processed) => return StatusCode::NO_CONTENT,
        // The service must send it again, in case the attempt in progress fails.
        Err(Duplicate::InProgress) => return StatusCode::CONFLICT,
    };
    let told = match &signed.event.data {
        EventData::Conversion(sale) => format!("{} by {}", sale.conversion_type, sale.user_id),
        other => other.to_string(),
    };
    // A real receiver stores the event here. If that fails, the claim is dropped, and the next attempt is accepted.
    if writeln!(std::io::stdout(), "{id} {told}").is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    claim.keep();
    StatusCode::NO_CONTENT
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[expect(clippy::disallowed_methods, reason = "an example reads its settings from the environment")]
    let setting = |name| std::env::var(name);
    // After a rotation: both secrets, separated by a space.
    let secrets = setting("WEBHOOK_SECRET")?;
    let verifier = Verifier::new(secrets.split_whitespace().map(WebhookSecret::new))?.require_timestamp(TOLERANCE);
    let address = setting("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".into());
    let listener = tokio::net::TcpListener::bind(address).await?;
    writeln!(std::io::stdout(), "listening on http://{}", listener.local_addr()?)?;
    let routes =
        Router::new().route("/hook", post(hook)).with_state(Receiver { verifier, seen: Deduplicator::new(TOLERANCE) });
    Ok(axum::serve(listener, routes).await?)
}
