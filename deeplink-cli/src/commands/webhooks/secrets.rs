//! Signing secrets for the tools: from a file, from stdin or from the environment, never an argument.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use deeplink_client::webhook::{Verifier, WebhookSecret};
use zeroize::Zeroizing;

use crate::context::Context;
use crate::error::{Failure, Outcome};

/// Minimum recommended bytes of a secret.
const MIN_SECRET_BYTES: usize = 24;

/// Where the secret is.
#[derive(Debug, Args)]
pub(super) struct SecretFile {
    /// File with the secrets, one per line, or - for stdin [env: DL_WEBHOOK_SECRET,
    /// DL_WEBHOOK_SECRET_FILE]
    #[arg(long, value_name = "FILE|-")]
    secret_file: Option<PathBuf>,
}

/// The lines that were given, unchanged.
pub(super) struct Given(Vec<Zeroizing<String>>);

impl SecretFile {
    /// The secrets, if any are given. A source that is named but empty is an error.
    pub(super) async fn find(&self, ctx: &Context) -> Outcome<Option<Given>> {
        let of_env = || ctx.env.webhook_secret.as_ref().map(|secret| Zeroizing::new(secret.expose().to_owned()));
        let question = "Webhook secret: ";
        let (asked_by, text) = match (&self.secret_file, of_env(), &ctx.env.webhook_secret_file) {
            (Some(path), ..) => ("--secret-file", ctx.read_secret(path, "--secret-file", question).await?),
            (None, Some(text), _) => ("DL_WEBHOOK_SECRET", text),
            (None, None, Some(path)) => {
                ("DL_WEBHOOK_SECRET_FILE", ctx.read_secret(path, "DL_WEBHOOK_SECRET_FILE", question).await?)
            }
            (None, None, None) => return Ok(None),
        };
        let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        let given: Vec<_> =
            lines.filter(|line| !line.trim().is_empty()).map(|line| Zeroizing::new(line.to_owned())).collect();
        for secret in &given {
            ctx.console.hide(secret);
            ctx.console.hide(secret.trim());
            warn_of_short(ctx, secret.trim());
        }
        if given.is_empty() {
            return Err(Failure::usage(format!("{asked_by} contains no secret")).code("no_secret").into());
        }
        Ok(Some(Given(given)))
    }

    /// The secrets; without one the command ends.
    pub(super) async fn read(&self, ctx: &Context) -> Outcome<Given> {
        self.find(ctx).await?.ok_or_else(|| {
            let what = "no secret; tried --secret-file, DL_WEBHOOK_SECRET and DL_WEBHOOK_SECRET_FILE";
            Failure::usage(what)
                .code("no_secret")
                .hint("dl webhooks create and dl webhooks rotate-secret print a new secret, once")
                .into()
        })
    }
}

/// Warns of a short secret: it is easy to guess.
fn warn_of_short(ctx: &Context, secret: &str) {
    let bytes = secret.strip_prefix("whsec_").and_then(|encoded| STANDARD.decode(encoded).ok()).map(Zeroizing::new);
    if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty() && bytes.len() < MIN_SECRET_BYTES) {
        ctx.console
            .warn(&format!("the secret is only {} bytes long: Standard Webhooks recommends 24 to 64", bytes.len()));
    }
}

impl Given {
    /// The lines unchanged, including surrounding space.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|line| line.as_str())
    }

    /// Verifies and signs with the secrets, without surrounding space.
    pub(super) fn verifier(&self) -> Outcome<Verifier> {
        let verifier = Verifier::new(self.lines().map(|line| WebhookSecret::new(line.trim())));
        Ok(verifier.map_err(|why| Failure::invalid(why.to_string()).code("invalid_secret"))?)
    }

    /// Verifies with the lines that have no space around their secret, which a receiver would treat as part of it;
    /// `None` if there is no such line.
    pub(super) fn exact(&self) -> Option<Verifier> {
        Verifier::new(self.lines().filter(|line| line.trim() == *line).map(WebhookSecret::new)).ok()
    }
}
