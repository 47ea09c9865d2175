//! `tenant`: the operator finds, creates, suspends and deletes accounts, grants and shows plans, and forgets subscriptions.

mod delete;
mod key;
mod list;
mod show;
mod signin;
mod suspend;

use std::fmt::Write;

use deeplink_core::audit::AuditAction;
use deeplink_core::billing::{BillingStatus, paid_tier};
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::id::{NotAnId, TenantId};
use deeplink_core::plan::Tier;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{Failure, open_existing, open_shared, output};
use crate::api;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::accounts::{self, NewAccount};
use crate::db::audit::NewEntry;
use crate::db::billing::BillingAccount;
use crate::db::users::Standing;
use crate::db::{Conn, Db, DbError, WriteError, account_list, billing, tenants, users};
use crate::shares::Share;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Creates an account and prints its secret key; creates the database if needed
    Create(Create),
    /// Lists all accounts, oldest first
    #[command(long_about = list::ABOUT)]
    List(list::List),
    /// Shows an account: its status, team members and usage
    #[command(long_about = show::ABOUT)]
    Show(show::Show),
    /// Creates a secret key for an account and prints it; it is not shown again
    #[command(long_about = key::ABOUT)]
    Key(key::Key),
    /// Prints a one-time link that signs someone in to an account, without sending an email
    #[command(long_about = signin::ABOUT)]
    Signin(signin::Signin),
    /// Suspends an account: its links are disabled, and nothing in it can be changed
    #[command(long_about = suspend::ABOUT_SUSPEND)]
    Suspend(suspend::Target),
    /// Ends the suspension of an account, and restores everything to the way it was
    #[command(long_about = suspend::ABOUT_RESUME)]
    Resume(suspend::Target),
    /// Deletes an account and everything in it immediately
    #[command(long_about = delete::ABOUT)]
    Delete(delete::Delete),
    /// Grants an account a plan without payment, or ends the grant
    Comp(Comp),
    /// Shows an account's plan and usage
    Plan(Plan),
    /// Clears an account's stored Stripe customer and subscription, for when Stripe no longer has them, so that the account
    /// can subscribe again; does not contact Stripe
    Unsubscribe(Unsubscribe),
}

#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// Email address of the owner; it is marked as confirmed
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    email: Email,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Comp {
    /// ID of the account, or the email address of a team member
    #[arg(value_name = "TENANT_ID|ADDRESS", value_parser = account)]
    account: Account,
    /// The plan: pro, business or scale. If the account pays for a higher plan, the higher plan applies
    #[arg(long, value_name = "TIER", value_parser = paid_tier, required_unless_present = "end")]
    tier: Option<Tier>,
    /// End the grant
    #[arg(long, conflicts_with = "tier")]
    end: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Plan {
    /// ID of the account, or the email address of a team member
    #[arg(value_name = "TENANT_ID|ADDRESS", value_parser = account)]
    account: Account,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Unsubscribe {
    /// ID of the account, or the email address of a team member
    #[arg(value_name = "TENANT_ID|ADDRESS", value_parser = account)]
    account: Account,
}

/// The next step after a wrong ID or address.
const LIST_SHOWS: &str = "`tenant list` shows all accounts";

/// The account that a command acts on.
#[derive(Debug, clap::Args)]
struct Named {
    /// ID of the account, or the email address of a team member
    #[arg(long, value_name = "TENANT_ID|ADDRESS", value_parser = account)]
    tenant: Account,
}

fn address(text: &str) -> Result<Email, Invalid> {
    text.parse()
}

/// How an account is named.
#[derive(Debug, Clone)]
enum Account {
    Id(TenantId),
    /// The address of one of its people.
    Of(Email),
}

fn account(text: &str) -> Result<Account, String> {
    if text.contains('@') {
        text.parse().map(Account::Of).map_err(|error: Invalid| error.to_string())
    } else {
        text.parse().map(Account::Id).map_err(|error: NotAnId| error.to_string())
    }
}

impl Account {
    async fn find(self, db: &mut Conn<'_>) -> Result<TenantId, Failure> {
        match self {
            Self::Id(tenant) if tenants::is_deleted(db, &tenant).await? => Err(missing(&tenant)),
            Self::Id(tenant) => Ok(tenant),
            Self::Of(email) => match users::accounts_of(db, &email).await?.as_slice() {
                [] => Err(Failure::Refused(format!(
                    "no account has a team member with the address {email}; {LIST_SHOWS}"
                ))),
                [tenant] => Ok(tenant.clone()),
                several => {
                    let list = several.iter().map(TenantId::as_str).collect::<Vec<_>>().join("\n  ");
                    Err(Failure::Refused(format!(
                        "several accounts were created with {email}, and none has confirmed it; choose one by its ID:\n  {list}"
                    )))
                }
            },
        }
    }
}

pub(super) async fn run(command: Command, config: &Config, clock: &Clock) -> Result<(), Failure> {
    match command {
        Command::Create(create) => self::create(create, config, clock).await,
        Command::List(list) => list::run(list, config, clock).await,
        Command::Show(show) => show::run(show, config, clock).await,
        Command::Key(key) => key::run(key, config, clock).await,
        Command::Signin(signin) => signin::run(signin, config, clock).await,
        Command::Suspend(target) => suspend::run(target, true, config, clock).await,
        Command::Resume(target) => suspend::run(target, false, config, clock).await,
        Command::Delete(delete) => delete::run(delete, config, clock).await,
        Command::Comp(comp) => grant(comp, config, clock).await,
        Command::Plan(plan) => show_plan(plan, config, clock).await,
        Command::Unsubscribe(unsubscribe) => forget(unsubscribe, config).await,
    }
}

async fn create(create: Create, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let account = NewAccount::draw(create.email, Standing::Verified, clock.now(), &mut Random::system());
    let opened = account.opened();
    let db = open_shared(config).await?;
    let stored = db
        .write(Share::Service, account, |tx, account| {
            async move { if accounts::open(tx, account).await? { Ok(()) } else { Err(Refusal::Exists) } }.boxed()
        })
        .await;
    db.close().await;
    stored.map_err(|refusal| match refusal {
        Refusal::Exists => {
            Failure::Refused(format!("{}: an account with this email address already exists", ErrorCode::EmailExists))
        }
        Refusal::Database(error) => error.into(),
    })?;
    if create.json {
        output::print_json(&opened)?;
    } else {
        let key = opened.api_key.expose();
        output::print(&format!("tenant_id  {}\nuser_id    {}\napi_key    {key}\n", opened.tenant_id, opened.user_id));
        output::print_error("Store the key now; it cannot be shown again.");
    }
    Ok(())
}

/// Stores something for an account, unless that is gone.
async fn store_for<C: Send + Sync + 'static>(
    db: &Db,
    tenant: TenantId,
    made: C,
    now: Timestamp,
    insert: for<'t> fn(&'t mut Conn<'_>, &'t C) -> BoxFuture<'t, Result<(), DbError>>,
) -> Result<(), Failure> {
    let stored = db.write(Share::Service, (tenant.clone(), made), move |tx, (tenant, made)| {
        async move {
            if account_list::find(tx, tenant, now).await?.is_none() {
                return Ok(false);
            }
            insert(tx, made).await?;
            Ok::<_, DbError>(true)
        }
        .boxed()
    });
    if stored.await? { Ok(()) } else { Err(missing(&tenant)) }
}

fn missing(tenant: &TenantId) -> Failure {
    Failure::Refused(format!("no account with ID {tenant}; {LIST_SHOWS}"))
}

async fn grant(comp: Comp, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let tier = comp.tier.filter(|_| !comp.end);
    let db = open_existing(config).await?;
    let granted = grant_in(&db, comp.account, tier.as_ref(), clock).await;
    db.close().await;
    let tenant = granted?;
    output::print(&match tier {
        Some(tier) => format!("{tenant} has been granted the {tier} plan\n"),
        None => format!("{tenant} has no granted plan\n"),
    });
    Ok(())
}

async fn grant_in(db: &Db, account: Account, tier: Option<&Tier>, clock: &Clock) -> Result<TenantId, Failure> {
    let tenant = account.find(&mut db.read().await?.conn()).await?;
    let entry = NewEntry::by_operator(tenant.clone(), AuditAction::PlanGranted, clock.now());
    let entry = entry.of(&tenant, tier.map(Tier::as_str));
    let granted = db.write(Share::Service, (tenant.clone(), tier.cloned(), entry), |tx, (tenant, tier, entry)| {
        async move {
            let is_granted = billing::grant(tx, tenant, tier.as_ref()).await?;
            if is_granted {
                entry.store(tx).await?;
            }
            Ok(is_granted)
        }
        .boxed()
    });
    let found: Result<bool, DbError> = granted.await;
    if found? { Ok(tenant) } else { Err(missing(&tenant)) }
}

async fn forget(unsubscribe: Unsubscribe, config: &Config) -> Result<(), Failure> {
    let db = open_existing(config).await?;
    let forgotten = forget_in(&db, unsubscribe.account).await;
    db.close().await;
    output::print(&unsubscribed_text(&forgotten?));
    Ok(())
}

async fn forget_in(db: &Db, account: Account) -> Result<BillingAccount, Failure> {
    let tenant = account.find(&mut db.read().await?.conn()).await?;
    let forgotten = db.write(Share::Service, tenant.clone(), |tx, tenant| billing::unsubscribe(tx, tenant).boxed());
    let found: Result<Option<BillingAccount>, DbError> = forgotten.await;
    found?.ok_or_else(|| missing(&tenant))
}

/// The text on what was forgotten about an unsubscribed account.
fn unsubscribed_text(account: &BillingAccount) -> String {
    let named = [
        ("customer", &account.customer),
        ("subscription", &account.subscription),
        ("second subscription", &account.rival),
    ];
    let named: Vec<_> = named.into_iter().filter_map(|(what, id)| Some(format!("{what} {}", id.as_deref()?))).collect();
    let tenant = &account.tenant;
    if named.is_empty() {
        return format!("{tenant} has neither a customer nor a subscription\n");
    }
    format!(
        "{tenant} no longer has a subscription; cleared: {}\nNothing was changed in Stripe: cancel any active subscription there.\n",
        named.join(", ")
    )
}

async fn show_plan(plan: Plan, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let db = open_existing(config).await?;
    let status = status_in(&db, plan.account, config, clock).await;
    db.close().await;
    let status = status?;
    if plan.json {
        output::print_json(&status)?;
    } else {
        output::print(&described(&status));
    }
    Ok(())
}

async fn status_in(db: &Db, account: Account, config: &Config, clock: &Clock) -> Result<BillingStatus, Failure> {
    let mut reader = db.read().await?;
    let tenant = account.find(&mut reader.conn()).await?;
    let status = api::billing::status_of(&mut reader.conn(), &tenant, config.enforce_quotas, clock.now()).await?;
    let mut status = status.ok_or_else(|| missing(&tenant))?;
    status.limits = config.limits_of(&status.effective_tier);
    Ok(status)
}

/// A plan as lines of a name and a value.
fn described(status: &BillingStatus) -> String {
    let end = status.current_period_end.map(|end| Timestamp::from_millis(end).to_string());
    let subscription = match (&end, status.cancel_scheduled) {
        (Some(end), true) => format!("{}, {}, ends {end}", status.plan_tier, status.status),
        (Some(end), false) => format!("{}, {}, period ends {end}", status.plan_tier, status.status),
        (None, _) => format!("{}, {}", status.plan_tier, status.status),
    };
    let (usage, limits) = (&status.usage, &status.limits);
    let of = |used: i64, limit: Option<i64>| match limit {
        Some(limit) => format!("{used} of {limit}"),
        None => used.to_string(),
    };
    let enforced = if status.quotas_enforced { "enforced" } else { "not enforced" };
    let lines = [
        ("plan", status.effective_tier.to_string()),
        ("granted", if status.comp_active { "yes" } else { "no" }.to_owned()),
        ("subscription", subscription),
        ("paid by", status.billing_method.to_string()),
        ("limits", format!("{enforced} with the settings of this command; a running server uses its own settings")),
        ("links", of(usage.links, limits.max_links)),
        ("events", of(usage.events_this_month, limits.max_events_per_month)),
        ("domains", of(usage.domains, limits.max_domains)),
        ("team members", of(usage.team_members, limits.max_team_members)),
        ("webhooks", of(usage.webhooks, limits.max_webhooks)),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<13} {value}");
    }
    text
}

enum Refusal {
    Exists,
    Database(DbError),
}

impl From<DbError> for Refusal {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

impl WriteError for Refusal {
    fn database(&self) -> Option<&DbError> {
        if let Self::Database(error) = self { Some(error) } else { None }
    }
}
