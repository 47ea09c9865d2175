//! `dl whoami`: who the key in use acts for, where it came from, its scope, and the account's plan.

use clap::Args;
use deeplink_client::{Auth, BillingStatus, Client, Kind, Limits, LinkFilter};
use deeplink_core::error::ErrorCode;
use deeplink_core::time::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::billing;
use crate::context::Context;
use crate::error::{Outcome, Stop};
use crate::exit::Exit;
use crate::help::help;
use crate::net::Reads;
use crate::output::{self, Format, Record};

/// Show the account, plan, key and profile in use
#[derive(Debug, Args)]
#[command(after_help = help(
    "The email address belongs to the key's creator or, if unknown, to the account owner. The scope is account for \
     account keys and affiliate for affiliate credentials, which can access only links of the affiliate. The plan is \
     shown if the service has plans; see dl billing status for details.",
    &["dl whoami", "dl whoami --profile staging -o json"]
))]
pub(crate) struct Whoami {}

/// A report on the key in use.
#[derive(Debug, Serialize)]
pub(crate) struct Identity {
    #[serde(flatten)]
    pub(crate) who: Who,
    pub(crate) profile: String,
    pub(crate) base_url: String,
    pub(crate) origin: String,
    pub(crate) key_source: String,
    pub(crate) key_prefix: String,
    pub(crate) accepted: bool,
    /// `account` or `affiliate`, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_id: Option<String>,
    #[serde(flatten)]
    pub(crate) plan: Option<Plan>,
}

/// Who the key acts for, as far as the service says.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Who {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant_id: Option<String>,
    /// What the account is called, where it has a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) affiliate_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) affiliate_name: Option<String>,
}

/// The plan of the account.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    /// The plan whose limits apply.
    plan: String,
    /// The service's data for programs, words for people.
    usage: Value,
    /// Only if they are enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<Limits>,
}

impl Plan {
    fn of(ctx: &Context, status: &BillingStatus) -> Self {
        let words = || billing::in_words(status);
        let usage = match ctx.out.format {
            Format::Table if ctx.out.terminal => words().into(),
            Format::Table => words().join(", ").into(),
            // Numbers always serialize.
            _ => serde_json::to_value(&status.usage).unwrap_or_default(),
        };
        let limits = Some(status.limits).filter(|_| status.quotas_enforced);
        Self { plan: status.effective_tier.to_string(), usage, limits }
    }
}

impl Identity {
    /// As it is printed.
    pub(crate) fn to_json(&self) -> String {
        // Texts, numbers and booleans always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Without what follows from the rest: the origin of a base URL without a path, and that the key was accepted.
    fn without_repetitions(&self) -> String {
        let without =
            |json: String, name: &str| Record::read(&json).map_or_else(String::new, |read| read.without(name));
        let json = without(self.to_json(), "accepted");
        if self.origin == self.base_url { without(json, "origin") } else { json }
    }
}

impl Whoami {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::IDENTITY)?;
        let (base, found) = (ctx.base_url()?, ctx.key().await?);
        let (source, prefix, shown) = (found.source.to_string(), found.key.to_string(), found.key.shown_prefix());
        let client = ctx.client_for(&base, Auth::SecretKey(found.key), Reads::Held)?;
        let key = ask(ctx, &client, &shown).await.map_err(|stop| match stop {
            Stop::Failed(mut failure) if failure.exit == Exit::Auth => {
                failure.message = format!("{}; the key {prefix} came from {source}", failure.message);
                Stop::Failed(failure)
            }
            other => other,
        })?;
        let plan = if key.scope.as_deref() == Some("affiliate") { None } else { plan_of(ctx, &client).await };
        let identity = Identity {
            who: key.who,
            profile: ctx.profile.clone(),
            origin: base.origin(),
            base_url: base.to_string(),
            key_source: source,
            key_prefix: prefix,
            accepted: true,
            scope: key.scope,
            key_id: key.id,
            plan,
        };
        let is_for_people = ctx.out.format == Format::Table && ctx.out.terminal && sheet.fields.is_none();
        sheet.one(&if is_for_people { identity.without_repetitions() } else { identity.to_json() })?;
        if let Some(at) = key.deletes_at {
            ctx.console.warn(&format!("this account will be deleted at {at}; to keep it: dl account cancel-deletion"));
        }
        Ok(())
    }
}

/// What the service says about a key.
struct KeyReport {
    who: Who,
    /// When the account will be deleted.
    deletes_at: Option<Timestamp>,
    scope: Option<String>,
    id: Option<String>,
}

async fn ask(ctx: &Context, client: &Client, prefix: &str) -> Outcome<KeyReport> {
    match client.whoami().await {
        Ok(who) => {
            let (affiliate_id, affiliate_name) =
                who.affiliate.map(|affiliate| (affiliate.id.to_string(), affiliate.name)).unzip();
            Ok(KeyReport {
                who: Who {
                    email: who.email,
                    tenant_id: Some(who.tenant.id.to_string()),
                    tenant_name: who.tenant.name,
                    affiliate_id,
                    affiliate_name,
                },
                deletes_at: who.tenant.deletes_at,
                scope: Some(who.scope.to_string()),
                id: Some(who.key_id.to_string()),
            })
        }
        Err(error) if error.kind() == Kind::NotFound => ask_earlier(ctx, client, prefix).await,
        Err(error) => Err(ctx.stop(&error)),
    }
}

/// The same of a service from before the operation `whoami`.
async fn ask_earlier(ctx: &Context, client: &Client, prefix: &str) -> Outcome<KeyReport> {
    probe(ctx, client).await?;
    let (scope, id) = match client.keys().list().await {
        Ok(keys) => {
            let own = keys.into_iter().find(|key| key.key_prefix == prefix);
            (Some("account".to_owned()), own.map(|key| key.id.to_string()))
        }
        Err(error) if error.kind() == Kind::Forbidden => (Some("affiliate".to_owned()), None),
        Err(error) => {
            let why = ctx.failure(&error).message;
            ctx.console.warn(&format!("the service does not report the key's scope: {why}"));
            (None, None)
        }
    };
    Ok(KeyReport { who: Who::default(), deletes_at: None, scope, id })
}

/// The account's plan, if the service supports plans.
async fn plan_of(ctx: &Context, client: &Client) -> Option<Plan> {
    match client.billing().status().await {
        Ok(status) => Some(Plan::of(ctx, &status)),
        // Switched off, or a service older than plans.
        Err(error) if error.code() == Some(&ErrorCode::BillingNotConfigured) || error.kind() == Kind::NotFound => None,
        Err(error) => {
            let why = ctx.failure(&error).message;
            ctx.console.warn(&format!("the service does not report the plan: {why}"));
            None
        }
    }
}

/// Asks for one link, which every key may do, whatever its scope.
pub(crate) async fn probe(ctx: &Context, client: &Client) -> Outcome {
    let list = client.links().list(&LinkFilter::new()).page_size(1);
    list.first_page().await.map(drop).map_err(|error| ctx.stop(&error))
}
