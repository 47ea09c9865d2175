//! The command tree. Each command is one file under `commands`: its flags and a `run`.

use clap::{Parser, Subcommand};

use crate::commands::links::Explain;
use crate::commands::{
    account::Account, affiliates::Affiliates, api::Api, apps::Apps, audit::Audit, billing::Billing,
    completions::Completions, config::ConfigCommand, demo::Demo, doctor::Doctor, domains::Domains, events::Events,
    help::Help, import::Import, imports::Imports, keys::Keys, links::Links, login::Login, logout::Logout, man::Man,
    mcp::Mcp, open::Open, ping::Ping, pk::Pk, profile::ProfileCommand, qr_logos::QrLogos, sdk::Sdk, session::Session,
    signup::Signup, sources::Sources, stats::Stats, tags::Tags, team::Team, token::Token, webhooks::Webhooks,
    wellknown::Wellknown, whoami::Whoami,
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
        "Results go to stdout, everything else to stderr. \"dl help output\" describes the output formats, and \"dl help \
         exit-codes\" lists the exit codes.",
        &[
            "dl login --email you@example.com --base-url https://dl.example.com",
            "dl links create https://example.com/p/42",
            "dl stats --from 7d",
            "dl demo",
        ],
    )
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print help with the global options: -o, --fields, --json, --jq, --render, --profile, --base-url, --yes, --dry-run,
    /// --progress and others
    #[arg(long, global = true, action = clap::ArgAction::HelpShort, display_order = 1000)]
    help_all: Option<bool>,

    #[command(flatten)]
    pub(crate) global: Global,
}

/// What `dl` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Links(Links),
    Demo(Demo),
    Tags(Tags),
    QrLogos(QrLogos),
    Stats(Stats),
    #[command(after_help = help(
        "This is dl links explain; \"dl links explain --help\" lists the visitors.",
        &["dl explain spring-42", "dl explain spring-42 --as iphone"],
    ))]
    Explain(Explain),
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
    Mcp(Mcp),
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
        crate::help::short(super::Cli::command()).debug_assert();
    }

    /// Hidden global options are still taken, and reach their place.
    #[test]
    fn the_tree_of_short_help_takes_the_same_options() {
        use clap::FromArgMatches;

        let line = ["dl", "--profile", "a", "links", "-n", "list", "--json", "url,link_id", "--limit", "5"];
        let matches = crate::help::short(super::Cli::command()).try_get_matches_from(line).expect("a command line");
        let cli = super::Cli::from_arg_matches(&matches).expect("a command");
        assert_eq!(cli.global.profile.as_deref(), Some("a"));
        assert!(cli.global.dry_run);
        assert_eq!(cli.global.json_fields.expect("fields"), ["url", "link_id"]);
    }
}
