//! `dl session`: a session that was started elsewhere, such as in a browser.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use deeplink_client::{Auth, Client, Error, Kind};

use crate::context::Context;
use crate::error::{Outcome, Stop};
use crate::help::help;
use crate::net::Reads;
use crate::output::{self, Format};

/// Show or end a browser session
#[derive(Debug, Args)]
#[command(after_help = help("", &[
    "dl session me --session-file session.txt",
    "dl session signout --session-file session.txt",
]))]
pub(crate) struct Session {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show who is signed in
    #[command(after_help = help(
        "The file must contain the value of the session_token cookie, and must not be readable by other users.",
        &["dl session me --session-file session.txt", "dl session me --session-file - -o json < session.txt"]
    ))]
    Me(Given),
    /// End a session
    #[command(after_help = help("", &[
        "dl session signout --session-file session.txt",
        "dl session signout --session-file - < session.txt",
    ]))]
    Signout(Given),
}

/// The session.
#[derive(Debug, Args)]
pub(crate) struct Given {
    /// File with the session token, or - for stdin
    #[arg(long, value_name = "FILE")]
    session_file: PathBuf,
}

impl Given {
    /// A client with the session.
    pub(crate) async fn client(&self, ctx: &Context) -> Outcome<Client> {
        let base = ctx.base_url()?;
        let session = ctx.read_session(&self.session_file).await?;
        ctx.client_for(&base, Auth::Session(session), Reads::Held)
    }
}

/// A failure of a call with the session: the key is not at fault.
pub(crate) fn refused(ctx: &Context, error: &Error) -> Stop {
    match error.kind() {
        Kind::Auth => ctx.stop(error).hinting("the session has ended or belongs to another service; sign in again"),
        _ => ctx.stop(error),
    }
}

impl Session {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::Me(given) => {
                let sheet = ctx.out.sheet(&output::SIGNED_IN)?;
                let me = given.client(ctx).await?.sessions().me().full().await.map_err(|error| refused(ctx, &error))?;
                sheet.one(&String::from_utf8_lossy(&me.raw))
            }
            Action::Signout(given) => {
                let sheet = ctx.out.sheet(&output::DONE)?;
                given.client(ctx).await?.sessions().signout().await.map_err(|error| refused(ctx, &error))?;
                if ctx.out.format == Format::Table && sheet.fields.is_none() {
                    ctx.console.say("the session has ended");
                    return Ok(());
                }
                sheet.one(&output::object(&[("status", "signed_out".into())]))
            }
        }
    }
}
