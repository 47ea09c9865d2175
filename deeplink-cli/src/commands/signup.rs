//! `dl signup`: opens an account and stores its first key.

use clap::Args;
use deeplink_client::{Retry, Signup as Body};

use crate::commands::login::{base_url, key_of, warn_of_variable};
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::net::Reads;
use crate::new_secret::print_instead;
use crate::output::{self, Format};
use crate::store::StoreName;

/// Create an account and store its first key
#[derive(Debug, Args)]
#[command(after_help = help(
    "The key works immediately, until you confirm your email address: open the emailed link in a browser within 7 \
     days. Confirming makes the account yours and revokes every key, webhook and source created before that; links are \
     kept. The page then shows a new key, once: store it with dl login --with-key. If the profile already has a key, \
     it is not replaced: use --profile to create another profile.",
    &[
    "dl signup --email you@example.com --base-url https://dl.example.com",
    "dl signup --email you@example.com --base-url http://127.0.0.1:8080 -o json",
]
))]
pub(crate) struct Signup {
    /// Email address of the account owner
    #[arg(long, value_name = "ADDRESS")]
    email: String,
    /// Where to keep the key: keyring or file [default: keyring, or file if there is no keyring]
    #[arg(long, value_name = "STORE", hide_possible_values = true)]
    store: Option<StoreName>,
}

impl Signup {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::ACCOUNT)?;
        Body::new(&self.email).check()?;
        check_profile_is_free(ctx)?;
        let base = base_url(ctx).await?;
        let destination = ctx.choose_store(&ctx.profile, self.store, &base).await?;
        warn_of_variable(ctx);
        let client = ctx.client_for(&base, deeplink_client::Auth::None, Reads::Held)?;
        // A second attempt could open a second account.
        let call = client.sessions().signup(&Body::new(&self.email)).retry(Retry::none());
        // Signals are deferred from here on: the key is only in this answer.
        let hold = ctx.signal_hold.begin();
        let reply = call.full().await.map_err(|error| ctx.stop(&error))?;
        let key = &reply.value.api_key;
        ctx.console.hide(key.expose());
        // Confirming the address revokes the key: the next one of the account takes its place without a question.
        let kept = ctx.keep(&destination, key, Some(reply.value.tenant_id.as_str())).await.map_err(|error| {
            let what = "the account was created, but its key could not be stored";
            print_instead(ctx, key, reply.value.id.as_str(), error, what)
        })?;
        drop(hold);
        ctx.console.say(&format!("key {key} stored in {}", kept.location()));
        let email = self.email.trim();
        ctx.console.say(&format!("open the link that was emailed to {email} to confirm your address"));
        ctx.console.say(
            "  this key works until you confirm your address; the page then shows a new one: store it with dl login \
             --with-key",
        );
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

/// A key that is already stored may be the only one of its account: another account's key does not replace it.
fn check_profile_is_free(ctx: &Context) -> Outcome {
    let profile = &ctx.profile;
    let Some(stored) = key_of(ctx, profile)? else { return Ok(()) };
    let what = format!("profile {profile} already has a key for an account ({})", stored.prefix);
    let hint = "use --profile NAME to store the new key in another profile, or remove the stored one with dl logout";
    Err(Failure::usage(what).code("profile_in_use").hint(hint).into())
}
