//! `dl keys`: the account's secret keys.

mod confirm;
mod delete;
mod issue;
mod list;
mod request;
mod rotate;

use deeplink_client::{Client, ConfirmSecretKey, RequestSecretKey};
use deeplink_core::error::ErrorCode;
use deeplink_core::user::Email;
use zeroize::Zeroizing;

use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::hints;

commands! {
    /// Manage secret keys
    #[command(after_help = crate::help::help("", &["dl keys list", "dl keys request --email you@example.com"]))]
    Keys {
        List(list::List),
        Request(request::Request),
        Confirm(confirm::Confirm),
        Issue(issue::Issue),
        Rotate(rotate::Rotate),
        Delete(delete::Delete),
    }
}

impl Keys {
    /// A new key must not be lost between creating and storing it.
    pub(crate) fn handles_signals(&self) -> bool {
        matches!(self.action, Action::Rotate(_))
    }
}

/// The request for a code by mail.
fn wanted(email: &Email) -> RequestSecretKey {
    RequestSecretKey::new(email.as_str())
}

/// Takes the mailed code from a prompt or stdin, and checks its form.
async fn code(ctx: &Context, email: &Email, from_stdin: bool) -> Outcome<ConfirmSecretKey> {
    let text = if from_stdin {
        ctx.stdin_line("--code-stdin").await?
    } else {
        Zeroizing::new(ctx.line("Code from the email: ", "--code-stdin").await?)
    };
    let confirm = ConfirmSecretKey::new(email.as_str(), text.trim());
    confirm.validate()?;
    ctx.console.hide(text.trim());
    Ok(confirm)
}

/// Fails, before anything is sent, if a code can be neither typed nor read from stdin.
fn check_code(ctx: &Context, from_stdin: bool) -> Outcome {
    if from_stdin || ctx.can_ask() {
        return Ok(());
    }
    let what = "the emailed code is needed, and this session cannot prompt for it";
    Err(Failure::usage(what).code("needs_input").hint("use --code-stdin to read it from stdin").into())
}

/// Requests a code by mail. A code that was already mailed works too.
async fn request_code(ctx: &Context, client: &Client, email: &Email) -> Outcome {
    // Waiting for the earlier code to expire could take ten minutes.
    let once = deeplink_client::Retry::none();
    match client.keys().request(&wanted(email)).retry(once).await {
        Ok(_) => ctx.console.say(&format!("code emailed to {email}")),
        Err(error) if error.code() == Some(&ErrorCode::RequestPending) => {
            ctx.console.note(&format!("enter the code that {}", hints::earlier_code(&error)));
        }
        Err(error) => return Err(ctx.stop(&error)),
    }
    Ok(())
}

/// The same failure, for a command on keys.
fn among_keys(ctx: &Context, error: &deeplink_client::Error) -> Stop {
    ctx.stop_among(error, "keys")
}
