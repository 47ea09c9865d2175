//! `dl imports`: runs of `dl links import` and `dl import`, finished or not.

use std::path::Path;

use clap::{Args, Subcommand};
use deeplink_client::bulk::{FileJournal, RunInfo};

use crate::clock::{self, parse_duration};
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::import::{self, Options, Policy, Saved, Want, journal_failure};
use crate::output;
use crate::progress::counted;

/// List and resume imports, and delete their journals
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl imports list", "dl imports resume 20261120T0930"]))]
pub(crate) struct Imports {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List imports, oldest first
    #[command(after_help = help("", &["dl imports list", "dl imports list -o json"]))]
    List,
    /// Show one import
    #[command(after_help = help("", &["dl imports show 20261120T0930", "dl imports show 20261120T0930 -o json"]))]
    Show {
        /// Name of the import, or its first characters
        #[arg(value_name = "IMPORT")]
        run: String,
    },
    /// Resume an interrupted import
    #[command(after_help = help("", &[
        "dl imports resume 20261120T0930",
        "dl imports resume 20261120T0930 --on-error continue",
    ]))]
    Resume(Box<Resume>),
    /// Delete the journals of finished imports; their links are kept
    #[command(after_help = help("", &["dl imports prune", "dl imports prune --older-than 30d --unfinished --yes"]))]
    Prune {
        /// Only imports that were started at least this long ago
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        older_than: Option<std::time::Duration>,
        /// Also unfinished imports, which then cannot be resumed
        #[arg(long)]
        unfinished: bool,
    },
}

#[derive(Debug, Args)]
struct Resume {
    /// Name of the import, or its first characters
    #[arg(value_name = "IMPORT")]
    run: String,
    #[command(flatten)]
    policy: Policy,
}

impl Imports {
    pub(crate) fn handles_signals(&self) -> bool {
        matches!(self.action, Action::Resume(_))
    }

    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::List => list(ctx),
            Action::Show { run } => {
                let sheet = ctx.out.sheet(&output::IMPORTS)?;
                sheet.one(&record(&find(&ctx.dirs.imports(), &run)?))
            }
            Action::Resume(resume) => resume.run(ctx).await,
            Action::Prune { older_than, unfinished } => prune(ctx, older_than, unfinished).await,
        }
    }
}

impl Resume {
    async fn run(self, ctx: &Context) -> Outcome {
        let dir = ctx.dirs.imports();
        let run = find(&dir, &self.run)?;
        if run.finished {
            return Err(Failure::usage(format!("import {} has finished", run.run))
                .hint("dl imports list shows the others")
                .into());
        }
        let Some(saved) = Saved::read(&run.command) else {
            let what = format!("import {} was not started by dl links import or dl import", run.run);
            return Err(Failure::usage(what).hint("run the command that started it again").into());
        };
        if saved.profile != ctx.profile {
            let what = format!("import {} belongs to profile {}", run.run, saved.profile);
            return Err(Failure::usage(what).hint(format!("--profile {}", saved.profile)).into());
        }
        if crate::context::is_stdin(&saved.file) {
            let what = format!("import {} read stdin, which is no longer available", run.run);
            return Err(Failure::usage(what).hint(format!("pipe the same rows into {} -", saved.command())).into());
        }
        let options = Options { want: Want::Send, restart: false, journal: Some(dir), fetch: None };
        import::file(ctx, saved, self.policy, options).await
    }
}

fn runs(dir: &Path) -> Outcome<Vec<RunInfo>> {
    FileJournal::list(dir).map_err(|error| journal_failure(&error))
}

/// The run with this name, or the only one whose name begins with it.
fn find(dir: &Path, name: &str) -> Outcome<RunInfo> {
    let mut fitting: Vec<RunInfo> = runs(dir)?.into_iter().filter(|run| run.run.starts_with(name)).collect();
    if let Some(exact) = fitting.iter().position(|run| run.run == name) {
        return Ok(fitting.swap_remove(exact));
    }
    match fitting.len() {
        1 => Ok(fitting.swap_remove(0)),
        0 => Err(Failure::usage(format!("no import named \"{name}\"")).hint("dl imports list").into()),
        more => Err(Failure::usage(format!("{more} imports have names that start with \"{name}\""))
            .hint("type more of the name")
            .into()),
    }
}

fn record(run: &RunInfo) -> String {
    let counts = &run.counts;
    let state = match (run.finished, run.locked) {
        (true, _) if counts.rejected > 0 && counts.rejected == counts.settled() => "rejected",
        (true, _) if counts.rejected > 0 => "partly rejected",
        (true, _) => "finished",
        (false, true) => "running",
        (false, false) => "unfinished",
    };
    output::object(&[
        ("run", run.run.as_str().into()),
        ("file", run.plan.source.as_str().into()),
        ("state", state.into()),
        ("rows", run.plan.rows.into()),
        ("done", counts.settled().into()),
        ("rejected", counts.rejected.into()),
        ("origin", run.plan.origin.as_str().into()),
        ("started_at", run.started_at.to_string().into()),
    ])
}

fn list(ctx: &Context) -> Outcome {
    let sheet = ctx.out.sheet(&output::IMPORTS)?;
    let mut rows = sheet.several();
    for run in runs(&ctx.dirs.imports())? {
        rows.push(&record(&run))?;
    }
    if rows.count() == 0 {
        ctx.console.say("no imports; dl links import FILE starts one");
    }
    rows.finish(None)
}

async fn prune(ctx: &Context, older_than: Option<std::time::Duration>, unfinished: bool) -> Outcome {
    let age = i64::try_from(older_than.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
    let before = clock::now().plus_millis(age.saturating_neg());
    let mut doomed = runs(&ctx.dirs.imports())?;
    doomed.retain(|run| !run.locked && run.started_at <= before && (run.finished || unfinished));
    let lost = doomed.iter().filter(|run| !run.finished).count();
    if lost > 0 {
        let lost = u64::try_from(lost).unwrap_or(u64::MAX);
        ctx.confirm(&format!("Delete {}? They cannot be resumed after that.", counted(lost, "unfinished import")))
            .await?;
    }
    let sheet = ctx.out.sheet(&output::IMPORTS)?;
    let mut rows = sheet.several();
    for run in &doomed {
        if !ctx.global.dry_run {
            FileJournal::remove(run).map_err(|error| journal_failure(&error))?;
        }
        rows.push(&record(run))?;
    }
    let word = if ctx.global.dry_run { "would be removed" } else { "removed" };
    ctx.console.say(&format!("{} {word}", counted(u64::try_from(doomed.len()).unwrap_or(u64::MAX), "import")));
    rows.finish(None)
}
