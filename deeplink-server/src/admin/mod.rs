//! The command line of the server: one file for each command, and how any of them ends.

mod backup;
mod check;
mod first_run;
mod link;
mod log;
mod output;
mod serve;
mod tenant;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::clock::Clock;
use crate::config::{BadSetting, Config, Environment, SECRETS_HELP, Settings};
use crate::db::{Access, Db, DbError, OpenError};
use crate::start::StartError;

/// Serves deep links, and looks after the database behind them.
#[derive(Debug, Parser)]
#[command(name = "deeplink-server", version, after_help = SECRETS_HELP, arg_required_else_help = false)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves; what happens without a command
    Serve,
    /// Opens accounts
    #[command(subcommand)]
    Tenant(tenant::Command),
    /// Flags, disables or enables a link, whoever made it
    #[command(subcommand)]
    Link(link::Command),
    /// Brings the database up to date and ends
    Migrate,
    /// Prints the description of the interface (OpenAPI 3.1)
    Openapi,
    /// Says whether the settings and the database are fit to serve; changes nothing
    Check,
    /// Copies a SQLite database into a new file, also beside a running server
    Backup(backup::Into),
    /// Puts a copy in the place of the SQLite database; the old one stays beside it
    Restore(backup::From),
}

/// Why a command failed; the text is for the operator.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Setting(#[from] BadSetting),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Database(#[from] DbError),
    /// The command was misused.
    #[error("{0}")]
    Usage(String),
    /// The command was understood and refused.
    #[error("{0}")]
    Refused(String),
    /// Said already.
    #[error("the command failed")]
    Told,
}

impl Failure {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Setting(_) | Self::Usage(_) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => match run(cli) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                if !matches!(failure, Failure::Told) {
                    output::complain(&format!("deeplink-server: {failure}"));
                }
                failure.exit_code()
            }
        },
        Err(message) => refuse(&message),
    }
}

/// Says what is wrong with the command line. Help and version come this way too.
fn refuse(message: &clap::Error) -> ExitCode {
    // The parser does not say which variable is no text; we do.
    if message.kind() == clap::error::ErrorKind::InvalidUtf8
        && let Err(setting) = Environment::of_process()
    {
        output::complain(&format!("deeplink-server: {setting}"));
    } else {
        // Whether it can be printed changes nothing.
        let _ = message.print();
    }
    ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2))
}

fn run(cli: Cli) -> Result<(), Failure> {
    let environment = Environment::of_process()?;
    if let Some(Command::Openapi) = cli.command {
        output::say(crate::openapi::text());
        return Ok(());
    }
    let config = Config::read(&cli.settings, &environment)?;
    log::start(&config.log);
    for sentence in environment.unknown() {
        tracing::warn!("{sentence}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Refused(format!("no threads can be started: {error}")))?;
    let clock = Clock::system();
    let outcome = runtime.block_on(async {
        match cli.command {
            None | Some(Command::Serve) => serve::run(config, clock).await,
            Some(Command::Tenant(command)) => tenant::run(command, &config, &clock).await,
            Some(Command::Link(command)) => link::run(command, &config, &clock).await,
            Some(Command::Migrate) => migrate(&config).await,
            Some(Command::Check) => check::run(&config).await,
            Some(Command::Backup(into)) => backup::run(&into, &config).await,
            Some(Command::Restore(from)) => backup::restore(&from, &config).await,
            Some(Command::Openapi) => Ok(()),
        }
    });
    // What still runs now is either over or waits for the next start.
    runtime.shutdown_background();
    outcome
}

/// Opens the database for a command that works beside a running server.
async fn open_beside(config: &Config) -> Result<Db, Failure> {
    Ok(Db::open(config.database.as_str(), Access::Beside, config.database_patience).await?)
}

async fn migrate(config: &Config) -> Result<(), Failure> {
    Db::open(config.database.as_str(), Access::Serve, config.database_patience).await?.close().await;
    output::say(&format!("{} is up to date\n", config.database));
    Ok(())
}
