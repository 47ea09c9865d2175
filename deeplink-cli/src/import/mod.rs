//! The command line of imports: flags, prompts, text, progress. Reading, checking, sending and the journal are in the
//! client.

mod fetch;
mod flags;
mod follow;
mod foreign;
mod report;

use std::collections::HashSet;
use std::path::PathBuf;

use deeplink_client::bulk::{
    BulkImport, Checked, FileJournal, ImportError, JournalError, MemorySource, RejectsWriter, RowSource, SourceError,
};
use deeplink_client::{Auth, Client};

pub(crate) use fetch::{Api, Fetch};
pub(crate) use flags::{Exporter, Policy, Reading, Saved, SourceFlags, Start};

use crate::commands::whoami::probe;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::net::Reads;
use crate::output;
use crate::progress::Progress;
use crate::signals::Signals;

/// How far an import goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// The rows are checked.
    Check,
    /// The plan is shown.
    Plan,
    /// The links are made.
    Send,
}

/// Options of this run that do not concern the rows.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) want: Want,
    pub(crate) restart: bool,
    /// The directory of journals, if one is kept.
    pub(crate) journal: Option<PathBuf>,
    /// Where the file's content comes from, if that is another service's API.
    pub(crate) fetch: Option<Fetch>,
}

/// Imports a file.
pub(crate) async fn file(ctx: &Context, saved: Saved, policy: Policy, options: Options) -> Outcome {
    let mut signals = Signals::listen().map_err(|error| Failure::file("listen for", "signals", &error))?;
    tokio::select! {
        biased;
        exit = signals.next() => {
            if let Some(fetch) = &options.fetch {
                fetch.interrupted(ctx);
            }
            Err(Stop::Exit(exit))
        }
        prepared = prepare(ctx, &saved, &policy, &options) => {
            let Some(run) = prepared? else { return Ok(()) };
            follow::run(ctx, run, &policy, signals, None).await
        }
    }
}

/// An import that is ready to be sent.
pub(crate) struct Ready {
    pub(crate) checked: Checked,
    pub(crate) progress: Progress,
    pub(crate) name: String,
    /// The marks of invalid rows that have been reported.
    pub(crate) invalid: HashSet<u64>,
    pub(crate) locate: Locate,
    pub(crate) rejects: Option<RejectsWriter>,
    /// The command that resumes it.
    pub(crate) again: Option<String>,
    /// How the rows were read.
    pub(crate) reading: Reading,
    /// The file, if it is no longer needed once everything has been sent.
    pub(crate) spent: Option<PathBuf>,
}

/// Imports rows from memory, and prints the created links.
pub(crate) async fn memory(ctx: &Context, client: &Client, source: MemorySource, salt: Option<String>) -> Outcome {
    let mut signals = Signals::listen().map_err(|error| Failure::file("listen for", "signals", &error))?;
    let policy = Policy::default();
    let mut import = policy.apply(client.bulk_import(source));
    if let Some(salt) = salt {
        import = import.generate_ids(salt);
    }
    let checked = tokio::select! {
        biased;
        exit = signals.next() => return Err(Stop::Exit(exit)),
        checked = import.check() => checked.map_err(|error| cannot(ctx, "the batch", &error))?,
    };
    let locate: Locate = Box::new(|line, _| format!("ID {line}"));
    let progress = Progress::new(ctx, "links");
    let name = "the batch".to_owned();
    let ready = Ready {
        invalid: HashSet::new(),
        checked,
        progress,
        name,
        locate,
        rejects: None,
        again: None,
        reading: Reading::default(),
        spent: None,
    };
    let want = if ctx.global.dry_run { Want::Plan } else { Want::Send };
    match report::faults(ctx, ready, &policy, want)? {
        Some(ready) if want == Want::Send => {
            let sheet = ctx.out.sheet(&output::CREATED)?;
            follow::run(ctx, ready, &policy, signals, Some(sheet.list())).await
        }
        Some(ready) => report::plan(ctx, &ready, want),
        None => Ok(()),
    }
}

/// Says where a row is.
pub(crate) type Locate = Box<dyn Fn(u64, Option<u64>) -> String>;

/// Everything before the first link is created; `None` if nothing more was requested.
async fn prepare(ctx: &Context, saved: &Saved, policy: &Policy, options: &Options) -> Outcome<Option<Ready>> {
    let client = match options.want {
        // No request, so no key is needed.
        Want::Check => offline(ctx)?,
        Want::Plan | Want::Send => {
            let base = ctx.base_url()?;
            ctx.client_for(&base, Auth::SecretKey(ctx.key().await?.key), Reads::Sent)?
        }
    };
    if let Some(fetch) = &options.fetch {
        fetch.run(ctx, options.restart, policy.max_wait()).await?;
    }
    let source = saved.open(ctx)?;
    let name = saved.name();
    let progress = Progress::new(ctx, &name);
    let rejects = policy.rejects(&source)?;
    let mut import = policy.apply(client.bulk_import(source.clone()));
    if let Some(salt) = &saved.reading.generate_ids {
        import = import.generate_ids(salt.as_str());
    }
    if options.want == Want::Send {
        import = with_journal(ctx, import, saved, options).await?;
    }
    progress.preparing("checking");
    let checked = import.check().await.map_err(|error| cannot(ctx, &name, &error))?;
    progress.end();
    let notes = source.notes();
    if let Some(notes) = &notes {
        foreign::say(ctx, &name, saved.reading.from, notes, &|line| source.location(line, None));
    }
    let reading = saved.reading.clone();
    let locate: Locate = Box::new(move |line, column| source.location(line, column));
    let again = options.journal.as_deref().map(|dir| {
        let named = Some(dir).filter(|dir| *dir != ctx.dirs.imports());
        saved.command_line(ctx, policy, named)
    });
    let spent = fetch::is_fetched(ctx, &saved.file).then(|| saved.file.clone());
    let ready = Ready { invalid: HashSet::new(), checked, progress, name, locate, rejects, again, reading, spent };
    let ready = report::faults(ctx, ready, policy, options.want)?;
    let Some(ready) = ready else { return Ok(None) };
    if options.want != Want::Check {
        probe(ctx, &client).await?;
        if let Some(notes) = &notes {
            foreign::check_domains(ctx, &client, notes, policy).await?;
        }
    }
    if options.want == Want::Send { Ok(Some(ready)) } else { report::plan(ctx, &ready, options.want).map(|()| None) }
}

/// A client that is never used for requests.
fn offline(ctx: &Context) -> Outcome<Client> {
    let nowhere = "http://localhost".parse().map_err(|why: String| Failure::usage(why))?;
    ctx.client_for(&nowhere, Auth::None, Reads::Held)
}

async fn with_journal(ctx: &Context, import: BulkImport, saved: &Saved, options: &Options) -> Outcome<BulkImport> {
    let Some(dir) = &options.journal else { return Ok(import) };
    crate::files::make_dir(dir).map_err(|error| Failure::file("create", dir.display(), &error))?;
    let journal = FileJournal::new(dir).command(saved.identity()).restart(options.restart);
    if !options.restart
        && let Some(run) = journal.pending().map_err(|error| journal_failure(&error))?
    {
        let done = crate::progress::grouped(run.counts.settled());
        let total = crate::progress::counted(run.plan.rows, "row");
        let known =
            format!("import {} was started {} and has completed {done} of {total}", run.run, when(run.started_at));
        if ctx.can_ask() && !ctx.global.yes {
            ctx.console.say(&known);
            if !ctx.agree("Resume it? [Y/n] ").await? {
                return Err(Failure::usage("nothing was done").hint("use --restart to start over").into());
            }
        } else {
            ctx.console.note(&format!("resuming: {known}"));
        }
    }
    Ok(import.journal_with(journal))
}

fn when(moment: deeplink_core::time::Timestamp) -> String {
    crate::clock::relative(moment, crate::clock::now())
}

/// Why an import could not begin.
pub(crate) fn cannot(ctx: &Context, name: &str, error: &ImportError) -> Stop {
    match error {
        ImportError::Source(error) => unreadable(name, error).into(),
        ImportError::Journal(error) => journal_failure(error),
        ImportError::Service(error) => ctx.stop(error),
        other => Failure::invalid(other.to_string()).into(),
    }
}

/// A file that cannot be read as rows.
pub(crate) fn unreadable(name: &str, error: &SourceError) -> Failure {
    use std::error::Error as _;
    let mut message = match (error.line(), error.column()) {
        (Some(line), Some(column)) => format!("{name}:{line}:{column}: {}", error.message()),
        (Some(line), None) => format!("{name}:{line}: {}", error.message()),
        _ => format!("{name}: {}", error.message()),
    };
    let cause = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>());
    if let Some(cause) = cause {
        message = format!("{message}: {}", crate::error::plain(cause));
    }
    let missing = cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::NotFound);
    let failure = Failure::new(if missing { Exit::Usage } else { Exit::Invalid }, message);
    match error.code() {
        Some("missing_column") => failure
            .code("missing_column")
            .hint("choose the service with --from, or name the column with --map COLUMN=FIELD; nothing was sent"),
        _ if missing => failure,
        _ if error.message().starts_with("unknown column") => {
            failure.hint("use --map COLUMN=FIELD or --ignore-unknown; nothing was sent")
        }
        _ => failure.hint("nothing was sent"),
    }
}

/// Why a journal cannot be used.
pub(crate) fn journal_failure(error: &JournalError) -> Stop {
    let text = match error {
        JournalError::Io { source, .. } => format!("{error}: {}", crate::error::plain(source)),
        other => other.to_string(),
    };
    let failure = match error {
        JournalError::Locked { run } => Failure::new(Exit::Conflict, text)
            .code("run_locked")
            .hint(format!("wait until it finishes; to see its state: dl imports show {run}")),
        JournalError::Changed { .. } => {
            Failure::invalid(text).code("run_changed").hint("use --restart to start over with the current content")
        }
        JournalError::OtherAccount { .. } => {
            Failure::invalid(text).code("other_account").hint("use the key of that account, or --restart with this one")
        }
        _ => Failure::new(Exit::Failure, text),
    };
    failure.into()
}
