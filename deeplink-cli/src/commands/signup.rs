//! `dl signup`: opens an account and keeps its first key.

use clap::Args;
use deeplink_client::{Retry, Signup as Body};

use crate::cli::help;
use crate::commands::login::{base_url, keep, warn_of_variable};
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::net::Reads;
use crate::output::{self, Format};

/// Open an account and keep its first key
#[derive(Debug, Args)]
#[command(after_help = help(
    "The key works at once. The mailed link must still be confirmed: until then the address is not yours.",
    &[
    "dl signup --email you@example.com --base-url https://dl.example.com",
    "dl signup --email you@example.com --base-url http://127.0.0.1:8080 -o json",
]
))]
pub(crate) struct Signup {
    /// Address of the account's owner
    #[arg(long, value_name = "ADDRESS")]
    email: String,
}

impl Signup {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::ACCOUNT)?;
        Body::new(&self.email).check()?;
        let base = base_url(ctx).await?;
        warn_of_variable(ctx);
        let client = ctx.client_for(&base, deeplink_client::Auth::None, Reads::Held)?;
        // A second attempt could open a second account.
        let call = client.sessions().signup(&Body::new(&self.email)).retry(Retry::none());
        let reply = call.full().await.map_err(|error| ctx.stop(&error))?;
        let key = &reply.value.api_key;
        if let Err(stop) = keep(ctx, &base, key) {
            // The key is in this reply and nowhere else: better on the screen than lost.
            ctx.out.line(key.expose())?;
            ctx.out.flush()?;
            if let Stop::Failed(failure) = stop {
                ctx.console.failure(&failure);
            }
            let what = "the account is open, but its key could not be stored; it is printed above, once";
            return Err(Failure::new(Exit::Failure, what).hint("dl login --with-key keeps it").into());
        }
        ctx.console.hide(key);
        ctx.console.say(&format!("key {key} kept for profile {}", ctx.profile));
        ctx.console.say(&format!("confirm the link that was mailed to {}", self.email.trim()));
        if ctx.out.format.is_json() {
            return sheet.one(&String::from_utf8_lossy(&reply.raw));
        }
        let made = &reply.value;
        let record = output::object(&[
            ("tenant_id", made.tenant_id.as_str().into()),
            ("user_id", made.user_id.as_str().into()),
            ("id", made.id.as_str().into()),
            ("key_prefix", made.key_prefix.as_str().into()),
            ("created_at", made.created_at.to_string().into()),
        ]);
        if ctx.out.format == Format::Table { sheet.created(&record) } else { sheet.one(&record) }
    }
}
