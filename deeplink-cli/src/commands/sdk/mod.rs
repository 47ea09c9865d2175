//! `dl sdk`: what an app's SDK reports, from the command line.

mod attribute;
mod click;
mod convert;
mod identify;

use deeplink_client::{Auth, AuthKind, Client, Error};

use crate::context::Context;
use crate::error::{Outcome, Stop};
use crate::exit::Exit;
use crate::net::Reads;

commands! {
    /// Report clicks, installs, users and conversions, as an app's SDK does
    #[command(after_help = crate::help::help("", &[
        "dl sdk click spring-42",
        "dl sdk convert --user user-7 --type signup --occurred-at 2h",
    ]))]
    Sdk {
        Click(click::Click),
        Attribute(Box<attribute::Attribute>),
        Identify(identify::Identify),
        Convert(Box<convert::Convert>),
    }
}

/// A client with the publishable key; with the secret one if none is set or a flag names it.
async fn client(ctx: &Context) -> Outcome<Client> {
    if ctx.has_publishable_key() && ctx.global.api_key_file.is_none() {
        return publishable(ctx);
    }
    ctx.client().await
}

/// A client with the publishable key; no other credential works.
fn publishable(ctx: &Context) -> Outcome<Client> {
    let key = ctx.publishable_key()?;
    ctx.client_for(&ctx.base_url()?, Auth::PublishableKey(key), Reads::Held)
}

/// The failure for an error, with a hint about the key that was used.
fn stop(ctx: &Context, client: &Client, error: &Error) -> Stop {
    match ctx.stop(error) {
        Stop::Failed(failure) if failure.exit == Exit::Auth && client.auth_kind() == AuthKind::PublishableKey => {
            failure.hint("dl pk list shows the account's keys; a key works only while its domain is verified").into()
        }
        other => other,
    }
}
