//! Signing secrets for the tools: from a file, from stdin or from the environment, never an argument.

use std::path::PathBuf;

use clap::Args;
use deeplink_client::webhook::{Verifier, WebhookSecret};
use zeroize::Zeroizing;

use crate::context::Context;
use crate::error::{Failure, Outcome};

/// Where the secret is.
#[derive(Debug, Args)]
pub(super) struct SecretFile {
    /// File with the secret, or - for stdin; a line for each, if there are several [env: DL_WEBHOOK_SECRET,
    /// DL_WEBHOOK_SECRET_FILE]
    #[arg(long, value_name = "FILE|-")]
    secret_file: Option<PathBuf>,
}

/// The lines that were given, each as it stands there.
pub(super) struct Given(Vec<Zeroizing<String>>);

impl SecretFile {
    /// The secrets, if any are given.
    pub(super) async fn find(&self, ctx: &Context) -> Outcome<Option<Given>> {
        let of_env = || ctx.env.webhook_secret.as_ref().map(|secret| Zeroizing::new(secret.expose().to_owned()));
        let text = match (&self.secret_file, of_env(), &ctx.env.webhook_secret_file) {
            (Some(path), ..) => ctx.read_secret(path, "--secret-file", "Secret of the webhook: ").await?,
            (None, Some(text), _) => text,
            (None, None, Some(path)) => {
                ctx.read_secret(path, "DL_WEBHOOK_SECRET_FILE", "Secret of the webhook: ").await?
            }
            (None, None, None) => return Ok(None),
        };
        let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        let given: Vec<_> =
            lines.filter(|line| !line.trim().is_empty()).map(|line| Zeroizing::new(line.to_owned())).collect();
        for secret in &given {
            ctx.console.hide(secret);
            ctx.console.hide(secret.trim());
        }
        Ok((!given.is_empty()).then_some(Given(given)))
    }

    /// The secrets; without one the command ends.
    pub(super) async fn read(&self, ctx: &Context) -> Outcome<Given> {
        self.find(ctx).await?.ok_or_else(|| {
            let what = "no secret; tried --secret-file, DL_WEBHOOK_SECRET and DL_WEBHOOK_SECRET_FILE";
            Failure::usage(what).code("no_secret").hint("dl webhooks create and rotate-secret print one, once").into()
        })
    }
}

impl Given {
    /// The lines as they stand there, with the space around them.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|line| line.as_str())
    }

    /// Whether a line has space around its secret, which a receiver would take for a part of it.
    pub(super) fn has_space(&self) -> bool {
        self.lines().any(|line| line.trim() != line)
    }

    /// The secrets without the space around them.
    pub(super) fn trimmed(&self) -> Vec<WebhookSecret> {
        self.lines().map(|line| WebhookSecret::new(line.trim())).collect()
    }

    /// What verifies and signs with them. Space around a secret is no part of it here.
    pub(super) fn verifier(&self) -> Outcome<Verifier> {
        let verifier = Verifier::new(self.trimmed());
        Ok(verifier.map_err(|why| Failure::invalid(why.to_string()).code("invalid_secret"))?)
    }
}
