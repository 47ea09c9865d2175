//! Listening on a port.

use std::net::SocketAddr;

use deeplink_client::receiver::Receiver;

use super::{Listen, Source};
use crate::context::Context;
use crate::error::{Failure, Outcome};

pub(super) async fn start(listen: &Listen, ctx: &Context) -> Outcome<Source> {
    let verifier = listen.secret.read(ctx).await?.verifier()?;
    let forward = listen.forward(ctx)?;
    let wanted = SocketAddr::new(listen.host, listen.port);
    let receiver = Receiver::bind(wanted).await.map_err(|error| {
        let failure = Failure::file("listen on", wanted, &error);
        if error.kind() == std::io::ErrorKind::AddrInUse {
            failure.hint("use --port to choose another port")
        } else {
            failure
        }
    })?;
    ctx.console.say(&format!("listening on http://{}; Ctrl-C to stop", receiver.address()));
    let (receipts, serving) = receiver.run(verifier, forward);
    Ok(Source { receipts, notices: None, serving: Some(serving) })
}
