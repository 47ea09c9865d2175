//! `tenant list`: all accounts, one per line.

use std::fmt::Write;

use deeplink_core::time::Timestamp;
use serde::Serialize;

use super::super::{Failure, open_existing, output};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::Db;
use crate::db::account_list::{self, Account};

/// Accounts read and printed at once, so that memory use stays small for any number of them.
const PAGE: usize = 500;

pub(super) const ABOUT: &str = "\
Lists all accounts, oldest first

Examples:
  deeplink-server tenant list
  deeplink-server tenant list --json \\
    | jq -r '.[] | select(.state == \"suspended\") | .tenant_id'";

#[derive(Debug, clap::Args)]
pub(in crate::admin) struct List {
    /// Print JSON: an array with one account per line
    #[arg(long)]
    json: bool,
}

/// An account in the JSON output.
#[derive(Debug, Serialize)]
pub(super) struct Row<'a> {
    tenant_id: &'a str,
    email: Option<&'a str>,
    /// The address of the wallet that owns the account.
    wallet: Option<&'a str>,
    links: i64,
    plan: &'a str,
    created_at: Timestamp,
    state: &'static str,
    suspended_at: Option<Timestamp>,
    name: Option<&'a str>,
    /// When it will be deleted.
    deletes_at: Option<Timestamp>,
}

impl<'a> Row<'a> {
    pub(super) fn of(account: &'a Account) -> Self {
        Self {
            tenant_id: account.tenant.as_str(),
            email: account.email.as_deref(),
            wallet: account.wallet.as_deref(),
            links: account.links,
            plan: account.plan.as_str(),
            created_at: account.created_at,
            state: state(account.suspended_at.is_some()),
            suspended_at: account.suspended_at,
            name: account.name.as_deref(),
            deletes_at: account.deletes_at,
        }
    }
}

/// The state of an account in a word.
pub(super) fn state(is_suspended: bool) -> &'static str {
    if is_suspended { "suspended" } else { "active" }
}

pub(super) async fn run(list: List, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let db = open_existing(config).await?;
    let printed = print_all(&db, &list, clock.now()).await;
    db.close().await;
    printed
}

async fn print_all(db: &Db, list: &List, now: Timestamp) -> Result<(), Failure> {
    let (mut after, mut is_first) = (String::new(), true);
    if list.json {
        output::print("[");
    } else {
        let created = "CREATED";
        output::print(&format!(
            "{:<28} {created:<24} {:<9} {:<9} {:>10}  EMAIL OR WALLET\n",
            "ID", "STATUS", "PLAN", "LINKS"
        ));
    }
    loop {
        let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
        let page = account_list::after(&mut db.read().await?.conn(), &after, limit, now).await?;
        let mut text = String::new();
        for account in &page {
            if list.json {
                text.push_str(if std::mem::take(&mut is_first) { "\n" } else { ",\n" });
                let row = serde_json::to_string(&Row::of(account));
                text.push_str(&row.map_err(|error| Failure::Refused(error.to_string()))?);
            } else {
                let Account { tenant, links, plan, created_at, .. } = account;
                let (created, state) = (created_at.to_string(), state(account.suspended_at.is_some()));
                let who = account.email.as_deref().or(account.wallet.as_deref()).unwrap_or("-");
                // Writing to a string does not fail.
                let _ = writeln!(text, "{tenant:<28} {created:<24} {state:<9} {:<9} {links:>10}  {who}", plan.as_str());
            }
        }
        output::print(&text);
        match page.last() {
            Some(last) if page.len() == PAGE => after = last.tenant.to_string(),
            _ => break,
        }
    }
    if list.json {
        output::print(if is_first { "]\n" } else { "\n]\n" });
    }
    Ok(())
}
