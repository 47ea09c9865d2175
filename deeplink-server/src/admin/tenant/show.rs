//! `tenant show`: one account.

use std::fmt::Write;

use deeplink_core::time::Timestamp;
use deeplink_core::user::{UserDetail, UserStatus};
use serde::Serialize;

use super::super::{Failure, open_existing, output};
use super::list::{Row, state};
use super::{Named, missing};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::pages::Span;
use crate::db::tenants::{self, Usage};
use crate::db::{Db, account_list, suspensions, users};

pub(super) const ABOUT: &str = "\
Shows an account: its status, team members and usage

Examples:
  deeplink-server tenant show --tenant someone@example.com
  deeplink-server tenant show --tenant tnt_0123456789abcdef01234567 --json";

#[derive(Debug, clap::Args)]
pub(in crate::admin) struct Show {
    #[command(flatten)]
    named: Named,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The details shown of an account.
struct TenantReport {
    account: account_list::Account,
    /// The reason why it is suspended, if one was given.
    reason: Option<String>,
    usage: Usage,
    people: Vec<UserDetail>,
}

#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    account: Row<'a>,
    reason: Option<&'a str>,
    domains: i64,
    keys: i64,
    webhooks: i64,
    people: &'a [UserDetail],
}

pub(super) async fn run(show: Show, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let db = open_existing(config).await?;
    let report = find(&db, show.named, clock.now()).await;
    db.close().await;
    let report = report?;
    if show.json {
        let Usage { domains, keys, webhooks, .. } = report.usage;
        let (account, reason) = (Row::of(&report.account), report.reason.as_deref());
        output::print_json(&Json { account, reason, domains, keys, webhooks, people: &report.people })
    } else {
        output::print(&described(&report));
        Ok(())
    }
}

async fn find(db: &Db, named: Named, now: Timestamp) -> Result<TenantReport, Failure> {
    let mut reader = db.read().await?;
    let tenant = named.tenant.find(&mut reader.conn()).await?;
    let account = account_list::find(&mut reader.conn(), &tenant, now).await?.ok_or_else(|| missing(&tenant))?;
    let reason = suspensions::last_reason(&mut reader.conn(), &tenant).await?;
    Ok(TenantReport {
        reason: reason.filter(|_| account.suspended_at.is_some()),
        account,
        usage: tenants::usage(&mut reader.conn(), &tenant, now).await?,
        people: users::list(&mut reader.conn(), &tenant, &Span::newest(i64::MAX)).await?,
    })
}

/// An account as lines of a name and a value.
fn described(report: &TenantReport) -> String {
    let TenantReport { account, reason, usage, people } = report;
    let since = account.suspended_at.map(|since| format!(", since {since}")).unwrap_or_default();
    let mut lines = vec![
        ("tenant_id", account.tenant.to_string()),
        ("status", format!("{}{since}", state(account.suspended_at.is_some()))),
    ];
    lines.extend(account.name.iter().map(|name| ("name", name.clone())));
    lines.extend(account.deletes_at.iter().map(|at| ("deletion", at.to_string())));
    lines.extend(reason.iter().map(|reason| ("reason", reason.clone())));
    lines.extend([
        ("created", account.created_at.to_string()),
        ("plan", account.plan.to_string()),
        ("links", account.links.to_string()),
        ("domains", format!("{}, {} verified", usage.domains, usage.verified_domains)),
        ("keys", usage.keys.to_string()),
        ("webhooks", usage.webhooks.to_string()),
    ]);
    lines.extend(account.wallet.iter().map(|wallet| ("wallet", wallet.clone())));
    lines.extend(people.iter().map(|person| {
        let what = match (person.is_owner, &person.status) {
            (true, UserStatus::Pending) => "owner, address not confirmed",
            (true, _) => "owner",
            (false, UserStatus::Pending) => "invited",
            (false, _) => "member",
        };
        ("team member", format!("{}, {what}", person.email))
    }));
    let mut text = String::new();
    for (name, value) in lines {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<13} {value}");
    }
    text
}
