//! One file for each command: its flags, and what it does.

/// A noun with its commands, each of them a file with its flags and a `run`.
macro_rules! commands {
    ($(#[$doc:meta])* $noun:ident { $($command:ident($args:ty),)+ }) => {
        #[derive(Debug, clap::Args)]
        $(#[$doc])*
        pub(crate) struct $noun {
            #[command(subcommand)]
            action: Action,
        }

        #[derive(Debug, clap::Subcommand)]
        enum Action {
            $($command($args),)+
        }

        impl $noun {
            pub(crate) async fn run(self, ctx: &crate::context::Context) -> crate::error::Outcome {
                match self.action {
                    $(Action::$command(command) => command.run(ctx).await,)+
                }
            }
        }
    };
}

pub(crate) mod account;
pub(crate) mod affiliates;
pub(crate) mod api;
pub(crate) mod apps;
pub(crate) mod audit;
pub(crate) mod billing;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod conversion;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod domains;
pub(crate) mod events;
pub(crate) mod help;
pub(crate) mod import;
pub(crate) mod imports;
pub(crate) mod keys;
pub(crate) mod links;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod open;
pub(crate) mod ping;
pub(crate) mod pk;
pub(crate) mod profile;
pub(crate) mod qr_logos;
pub(crate) mod sdk;
pub(crate) mod session;
pub(crate) mod signup;
pub(crate) mod sources;
pub(crate) mod stats;
pub(crate) mod tags;
pub(crate) mod team;
pub(crate) mod token;
pub(crate) mod webhooks;
pub(crate) mod wellknown;
pub(crate) mod whoami;

use crate::cli::Command;
use crate::context::Context;
use crate::error::Outcome;
use crate::global::Global;
use crate::output::{Out, not_filtered};

impl Command {
    /// Whether the command handles SIGINT and SIGTERM itself, to finish its work.
    pub(crate) fn handles_signals(&self) -> bool {
        match self {
            Self::Links(links) => links.handles_signals(),
            Self::Import(_) => true,
            Self::Imports(imports) => imports.handles_signals(),
            Self::Login(login) => login.handles_signals(),
            Self::Keys(keys) => keys.handles_signals(),
            Self::Webhooks(webhooks) => webhooks.handles_signals(),
            _ => false,
        }
    }

    /// Whether the command writes CSV unless the flags say otherwise.
    pub(crate) fn is_export(&self) -> bool {
        match self {
            Self::Links(links) => links.is_export(),
            Self::Events(events) => events.is_export(),
            _ => false,
        }
    }

    /// Runs a command that needs neither configuration nor service; `None` for any other one.
    pub(crate) fn run_alone(&self, global: &Global, out: &Out) -> Option<Outcome> {
        match self {
            Self::Completions(_) | Self::Man(_) | Self::Help(_) if global.jq.is_some() || global.render.is_some() => {
                Some(Err(not_filtered("text that is not JSON").hint("omit them").into()))
            }
            Self::Completions(command) => Some(command.run(out)),
            Self::Man(command) => Some(command.run(out)),
            Self::Help(command) => Some(command.run(out)),
            _ => None,
        }
    }

    /// Runs any other command.
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self {
            Self::Links(command) => command.run(ctx).await,
            Self::Import(command) => command.run(ctx).await,
            Self::Imports(command) => command.run(ctx).await,
            Self::Account(command) => command.run(ctx).await,
            Self::Apps(command) => command.run(ctx).await,
            Self::Domains(command) => command.run(ctx).await,
            Self::Stats(command) => command.run(ctx).await,
            Self::Explain(command) => command.run(ctx).await,
            Self::Events(command) => command.run(ctx).await,
            Self::Sdk(command) => command.run(ctx).await,
            Self::Sources(command) => command.run(ctx).await,
            Self::QrLogos(command) => command.run(ctx).await,
            Self::Tags(command) => command.run(ctx).await,
            Self::Webhooks(command) => command.run(ctx).await,
            Self::Wellknown(command) => command.run(ctx).await,
            Self::Doctor(command) => command.run(ctx).await,
            Self::Demo(command) => command.run(ctx).await,
            Self::Login(command) => command.run(ctx).await,
            Self::Signup(command) => command.run(ctx).await,
            Self::Open(command) => command.run(ctx).await,
            Self::Session(command) => command.run(ctx).await,
            Self::Team(command) => command.run(ctx).await,
            Self::Keys(command) => command.run(ctx).await,
            Self::Pk(command) => command.run(ctx).await,
            Self::Audit(command) => command.run(ctx).await,
            Self::Billing(command) => command.run(ctx).await,
            Self::Affiliates(command) => command.run(ctx).await,
            Self::Logout(command) => command.run(ctx).await,
            Self::Whoami(command) => command.run(ctx).await,
            Self::Token(command) => command.run(ctx).await,
            Self::Profile(command) => command.run(ctx).await,
            Self::Config(command) => command.run(ctx),
            Self::Ping(command) => command.run(ctx).await,
            Self::Api(command) => command.run(ctx).await,
            Self::Mcp(command) => command.run(ctx).await,
            Self::Completions(command) => command.run(&ctx.out),
            Self::Man(command) => command.run(&ctx.out),
            Self::Help(command) => command.run(&ctx.out),
        }
    }
}
