//! The command line of the server: one file per command, and their exit codes.

mod backup;
mod check;
mod clicks;
mod first_run;
mod health;
mod link;
mod log;
mod output;
mod serve;
mod tenant;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use url::Url;

use crate::clock::Clock;
use crate::config::{BadSetting, Config, Environment, SECRETS_HELP, Settings};
use crate::db::{Access, Db, DbError, OpenError, public_url};
use crate::start::StartError;

/// Deep link server, with commands for managing its database.
#[derive(Debug, Parser)]
#[command(name = "deeplink-server", version, after_long_help = SECRETS_HELP, arg_required_else_help = false)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the server (the default command)
    Serve,
    /// Manages accounts
    #[command(subcommand)]
    Tenant(tenant::Command),
    /// Flags, disables or enables a link of any account
    #[command(subcommand)]
    Link(link::Command),
    /// Loads click journals of permanently lost nodes
    #[command(subcommand)]
    Clicks(clicks::Command),
    /// Migrates the database to the current schema
    Migrate,
    /// Prints the OpenAPI 3.1 document of the API
    Openapi,
    /// Exits with 0 if the server on --listen responds to /health within two seconds, otherwise with 1
    Health,
    /// Checks the settings and the database without changing anything
    Check,
    /// Backs up a SQLite database to a new file; works while the server is running
    Backup(backup::Into),
    /// Replaces the SQLite database with a backup; the old file is kept as *.replaced
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
    /// Invalid use of the command.
    #[error("{0}")]
    Usage(String),
    /// The command failed.
    #[error("{0}")]
    Refused(String),
    /// The failure has been printed already.
    #[error("the command failed")]
    Reported,
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
    match parse() {
        Ok(cli) => match run(cli) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                if !matches!(failure, Failure::Reported) {
                    output::print_error(&format!("deeplink-server: {failure}"));
                }
                failure.exit_code()
            }
        },
        Err(message) => print_usage(&message),
    }
}

/// Parses the command line. `-h` shows only the settings of a first start, `--help` all.
fn parse() -> Result<Cli, clap::Error> {
    let is_first = |id: &str| matches!(id, "data_dir" | "listen" | "public_url");
    let mut command = Cli::command()
        .mut_args(|arg| if is_first(arg.get_id().as_str()) { arg } else { arg.hide_short_help(true) })
        .after_help("All settings: deeplink-server --help");
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Prints errors in the command line. The parser reports help and version as errors too.
fn print_usage(message: &clap::Error) -> ExitCode {
    // The parser does not name a variable that is not UTF-8; we do.
    if message.kind() == clap::error::ErrorKind::InvalidUtf8
        && let Err(setting) = Environment::of_process()
    {
        output::print_error(&format!("deeplink-server: {setting}"));
    } else {
        let _ = message.print();
    }
    ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2))
}

/// Tasks that a thread runs before it looks for events of the network again: connections that pipeline requests are always
/// ready, and each may answer several before the next task runs.
const TASKS_BETWEEN_EVENTS: u32 = 8;

fn run(cli: Cli) -> Result<(), Failure> {
    let environment = Environment::of_process()?;
    if let Some(Command::Openapi) = cli.command {
        output::print(crate::openapi::text());
        return Ok(());
    }
    if let Some(Command::Health) = cli.command {
        return health::run(Config::listen_address(&cli.settings)?);
    }
    let config = Config::read(&cli.settings, &environment)?;
    log::start(&config.log);
    for warning in environment.unknown() {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().event_interval(TASKS_BETWEEN_EVENTS).build();
    let runtime = runtime.map_err(|error| Failure::Refused(format!("cannot start the async runtime: {error}")))?;
    let clock = Clock::system();
    let outcome = runtime.block_on(async {
        match cli.command {
            None | Some(Command::Serve) => serve::run(config, clock).await,
            Some(Command::Tenant(command)) => tenant::run(command, &config, &clock).await,
            Some(Command::Link(command)) => link::run(command, &config, &clock).await,
            Some(Command::Clicks(command)) => clicks::run(&command, &config, &clock).await,
            Some(Command::Migrate) => migrate(&config).await,
            Some(Command::Check) => check::run(&config).await,
            Some(Command::Backup(into)) => backup::run(&into, &config).await,
            Some(Command::Restore(from)) => backup::restore(&from, &config).await,
            Some(Command::Openapi | Command::Health) => Ok(()),
        }
    });
    // Tasks that still run have no work left or resume it at the next start.
    runtime.shutdown_background();
    outcome
}

/// Opens the database for a command that can run alongside a server.
async fn open_shared(config: &Config) -> Result<Db, Failure> {
    Ok(Db::open(config.database.as_str(), Access::Shared, config.database_timeout).await?)
}

/// The same for a command about what is stored already: it creates no database.
async fn open_existing(config: &Config) -> Result<Db, Failure> {
    match config.database.sqlite_path() {
        Some(path) if !path.exists() => Err(OpenError::Missing(path.to_owned()).into()),
        _ => open_shared(config).await,
    }
}

/// Where people reach the server: as this command's settings say, else as it last ran.
async fn public_url_of(db: &Db, config: &Config) -> Result<Url, DbError> {
    if let Some(url) = &config.public_url {
        return Ok(url.clone());
    }
    let last = public_url::find(&mut db.read().await?.conn()).await?;
    Ok(last.unwrap_or_else(|| config.public_url_at(config.listen)))
}

async fn migrate(config: &Config) -> Result<(), Failure> {
    Db::open(config.database.as_str(), Access::Serve, config.database_timeout).await?.close().await;
    output::print(&format!("{} is up to date\n", config.database));
    Ok(())
}
