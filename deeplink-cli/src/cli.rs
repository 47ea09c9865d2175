//! The command tree. Each command is one file under `commands`: its flags and a `run`.

use clap::{Parser, Subcommand};

use crate::commands::{
    account::Account, affiliates::Affiliates, api::Api, apps::Apps, audit::Audit, billing::Billing,
    completions::Completions, config::ConfigCommand, doctor::Doctor, domains::Domains, events::Events, help::Help,
    import::Import, imports::Imports, keys::Keys, links::Links, login::Login, logout::Logout, man::Man, open::Open,
    ping::Ping, pk::Pk, profile::ProfileCommand, qr_logos::QrLogos, sdk::Sdk, session::Session, signup::Signup,
    sources::Sources, stats::Stats, tags::Tags, team::Team, token::Token, webhooks::Webhooks, wellknown::Wellknown,
    whoami::Whoami,
};
use crate::global::Global;
use crate::help::help;

/// Create and manage deep links from the command line
#[derive(Debug, Parser)]
#[command(
    name = "dl",
    version,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = help(
        "Results go to stdout, everything else to stderr. \"dl help exit-codes\" lists the exit codes.",
        &[
            "dl login --base-url https://dl.example.com",
            "dl links create https://example.com/p/42 --id spring-42",
        ],
    )
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) global: Global,
}

/// What `dl` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Links(Links),
    Tags(Tags),
    QrLogos(QrLogos),
    Stats(Stats),
    Events(Events),
    Import(Box<Import>),
    Imports(Imports),
    Apps(Apps),
    Domains(Domains),
    Sdk(Sdk),
    Sources(Sources),
    Webhooks(Webhooks),
    Affiliates(Affiliates),
    Team(Team),
    Keys(Keys),
    Pk(Pk),
    Account(Account),
    Audit(Audit),
    Billing(Billing),
    Login(Login),
    Signup(Signup),
    Logout(Logout),
    Whoami(Whoami),
    Token(Token),
    Session(Session),
    Open(Open),
    Profile(ProfileCommand),
    Config(ConfigCommand),
    Ping(Ping),
    Wellknown(Wellknown),
    Doctor(Doctor),
    Api(Api),
    Completions(Completions),
    Man(Man),
    Help(Help),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    /// Names that clash, groups that cannot be met and the like, anywhere in the tree.
    #[test]
    fn the_tree_is_sound() {
        super::Cli::command().debug_assert();
    }
}
