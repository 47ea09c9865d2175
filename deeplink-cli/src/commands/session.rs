//! `dl session`: a session that began elsewhere, such as in a browser.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use deeplink_client::{Auth, Client};

use crate::cli::help;
use crate::context::Context;
use crate::error::Outcome;
use crate::net::Reads;
use crate::output::{self, Format};

/// Look at a session that began elsewhere, or end it
#[derive(Debug, Args)]
pub(crate) struct Session {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show who is signed in
    #[command(after_help = help(
        "The file holds the value of the cookie session_token, and nobody else may read it.",
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
    /// File that holds the session's token, or - for stdin
    #[arg(long, value_name = "FILE")]
    session_file: PathBuf,
}

impl Given {
    /// A client with the session.
    pub(crate) fn client(&self, ctx: &Context) -> Outcome<Client> {
        let base = ctx.base_url()?;
        ctx.client_for(&base, Auth::Session(ctx.read_session(&self.session_file)?), Reads::Held)
    }
}

impl Session {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::Me(given) => {
                let sheet = ctx.out.sheet(&output::SIGNED_IN)?;
                let me = given.client(ctx)?.sessions().me().full().await.map_err(|error| ctx.stop(&error))?;
                sheet.one(&String::from_utf8_lossy(&me.raw))
            }
            Action::Signout(given) => {
                let sheet = ctx.out.sheet(&output::DONE)?;
                given.client(ctx)?.sessions().signout().await.map_err(|error| ctx.stop(&error))?;
                if ctx.out.format == Format::Table && sheet.fields.is_none() {
                    ctx.console.say("the session has ended");
                    return Ok(());
                }
                sheet.one(&output::object(&[("status", "signed_out".into())]))
            }
        }
    }
}
