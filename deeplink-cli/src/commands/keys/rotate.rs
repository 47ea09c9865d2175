//! `dl keys rotate`: a new key in place of the stored one.

use clap::Args;
use deeplink_client::{Auth, Client};
use deeplink_core::id::SecretKeyId;

use super::{check_code, code, request_code};
use crate::base_url::BaseUrl;
use crate::commands::whoami::probe;
use crate::context::Context;
use crate::credentials::{ResolvedKey, Source};
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::given;
use crate::help::help;
use crate::net::Reads;
use crate::new_secret::print_instead;
use crate::output;
use crate::signals::Signals;

/// Replace the stored key with a new one
#[derive(Debug, Args)]
#[command(after_help = help(
    "Emails a code, prompts for it, creates, stores and tests a new key, then deletes the old one. The old key works \
     until then.",
    &[
    "dl keys rotate --email you@example.com --code-stdin < code.txt",
    "dl keys rotate --email you@example.com --profile staging --code-stdin < code.txt",
]
))]
pub(crate) struct Rotate {
    /// Email address to send the code to; must belong to a team member
    #[arg(long, value_name = "ADDRESS")]
    email: String,
    /// Read the code from stdin after it has been emailed
    #[arg(long)]
    code_stdin: bool,
}

impl Rotate {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::SECRET_KEYS)?;
        let email = given::email(&self.email)?;
        if !ctx.global.dry_run {
            check_code(ctx, self.code_stdin)?;
        }
        let (base, found) = (ctx.base_url()?, ctx.key().await?);
        check_source(&found)?;
        let prefix = found.key.shown_prefix();
        let client = ctx.client_for(&base, Auth::SecretKey(found.key), Reads::Held)?;
        let mut signals = Signals::listen().map_err(|error| Failure::file("listen for", "signals", &error))?;
        let ready = async {
            let destination = ctx.choose_store(&ctx.profile, None, &base).await?;
            let old = id_of(ctx, &client, &prefix).await?;
            request_code(ctx, &client, &email).await?;
            Ok::<_, Stop>((destination, old, code(ctx, &email, self.code_stdin).await?))
        };
        let (destination, old, confirm) = tokio::select! {
            biased;
            exit = signals.next() => return Err(Stop::Exit(exit)),
            ready = ready => ready?,
        };
        // Signals are deferred from here on: the new key is only in this answer.
        let made = client.keys().confirm(&confirm).await.map_err(|error| ctx.stop(&error))?;
        ctx.console.hide(made.key.expose());
        let account = ctx.config.profiles.get(&ctx.profile).and_then(|profile| profile.login_account.as_deref());
        let source = ctx.keep(&destination, &made.key, account).await.map_err(|error| {
            let what = "the new key could not be stored; the old one still works";
            print_instead(ctx, &made.key, made.id.as_str(), error, what)
        })?;
        let fresh = client.with_auth(made.key.clone()).map_err(|error| ctx.stop(&error))?;
        let swapped = tokio::select! {
            biased;
            exit = signals.next() => Err(Stop::Exit(exit)),
            swapped = swap(ctx, &fresh, &old) => swapped,
        };
        swapped.inspect_err(|_| old_one_stays(ctx, &base, &prefix, &old))?;
        ctx.console.say(&format!("key {} stored in {}; {prefix} deleted", made.key, source.location()));
        sheet.created(&output::object(&[
            ("id", made.id.as_str().into()),
            ("key_prefix", made.key_prefix.as_str().into()),
            ("created_at", made.created_at.to_string().into()),
            ("in_use", true.into()),
        ]))
    }
}

/// A key from another source would be used again next time.
fn check_source(found: &ResolvedKey) -> Outcome {
    if matches!(found.source, Source::File { .. } | Source::Keyring { .. }) {
        return Ok(());
    }
    let what = format!("the key comes from {}, where dl cannot replace it", found.source);
    let hint = "replace it step by step with dl keys request, dl keys confirm and dl keys delete";
    Err(Failure::usage(what).hint(hint).into())
}

/// The id of the key in use.
async fn id_of(ctx: &Context, client: &Client, prefix: &str) -> Outcome<SecretKeyId> {
    let keys = client.keys().list().await.map_err(|error| ctx.stop(&error))?;
    let own = keys.into_iter().find(|key| key.key_prefix == prefix).map(|key| key.id);
    own.ok_or_else(|| Failure::new(Exit::NotFound, "the service does not list the key in use").into())
}

/// Uses the new key, which proves that it works, to delete the old one.
async fn swap(ctx: &Context, fresh: &Client, old: &SecretKeyId) -> Outcome {
    probe(ctx, fresh).await?;
    fresh.keys().delete(old).await.map_err(|error| ctx.stop_among(&error, "keys"))
}

fn old_one_stays(ctx: &Context, base: &BaseUrl, prefix: &str, old: &SecretKeyId) {
    ctx.console.warn(&format!(
        "the new key is stored; the old one, {prefix}, still works: delete it with dl keys delete {old}, or at \
         {base}/account"
    ));
}
