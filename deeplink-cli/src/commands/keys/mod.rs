//! `dl keys`: the account's secret keys.

mod confirm;
mod delete;
mod issue;
mod list;
mod request;
mod rotate;

use clap::{Args, Subcommand};
use deeplink_client::{Client, ConfirmSecretKey, RequestSecretKey};
use deeplink_core::error::ErrorCode;
use deeplink_core::user::Email;
use zeroize::Zeroizing;

use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::hints;

/// Manage secret keys
#[derive(Debug, Args)]
pub(crate) struct Keys {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Request(request::Request),
    Confirm(confirm::Confirm),
    Issue(issue::Issue),
    Rotate(rotate::Rotate),
    Delete(delete::Delete),
}

impl Keys {
    /// A key that has been made must not be lost between its making and its keeping.
    pub(crate) fn minds_signals(&self) -> bool {
        matches!(self.action, Action::Rotate(_))
    }

    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::List(command) => command.run(ctx).await,
            Action::Request(command) => command.run(ctx).await,
            Action::Confirm(command) => command.run(ctx).await,
            Action::Issue(command) => command.run(ctx).await,
            Action::Rotate(command) => command.run(ctx).await,
            Action::Delete(command) => command.run(ctx).await,
        }
    }
}

/// What has a code mailed.
fn wanted(email: &Email) -> RequestSecretKey {
    RequestSecretKey::new(email.as_str())
}

/// Takes the mailed code from a person or from stdin, and checks what can be checked of it here.
async fn code(ctx: &Context, email: &Email, from_stdin: bool) -> Outcome<ConfirmSecretKey> {
    let text = if from_stdin {
        ctx.stdin_line("--code-stdin").await?
    } else {
        Zeroizing::new(ctx.line("Code of the mail: ", "--code-stdin").await?)
    };
    let confirm = ConfirmSecretKey::new(email.as_str(), text.trim());
    confirm.validate()?;
    ctx.console.hide(text.trim());
    Ok(confirm)
}

/// A code can be had: somebody can type it, or it comes on stdin. Asked before anything is sent.
fn check_code(ctx: &Context, from_stdin: bool) -> Outcome {
    if from_stdin || ctx.can_ask() {
        return Ok(());
    }
    let what = "the mailed code is needed, and there is nobody to ask for it";
    Err(Failure::usage(what).code("needs_input").hint("--code-stdin reads it from stdin").into())
}

/// Asks for a code to be mailed. That one is on its way already is as good.
async fn request_or_go_on(ctx: &Context, client: &Client, email: &Email) -> Outcome {
    // A wait for the end of the earlier code would be ten minutes.
    let once = deeplink_client::Retry::none();
    match client.keys().request(&wanted(email)).retry(once).await {
        Ok(_) => ctx.console.say(&format!("code mailed to {email}")),
        Err(error) if error.code() == Some(&ErrorCode::RequestPending) => {
            ctx.console.note(&format!("this takes the code that {}", hints::earlier_code(&error)));
        }
        Err(error) => return Err(ctx.stop(&error)),
    }
    Ok(())
}

/// The same failure, found to concern keys.
fn among_keys(ctx: &Context, error: &deeplink_client::Error) -> Stop {
    ctx.stop_among(error, "keys")
}
