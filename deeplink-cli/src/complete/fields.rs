//! The names after `--fields` and `--json`.

use clap::CommandFactory;
use clap_complete::engine::CompletionCandidate;

use crate::cli::Cli;
use crate::output::{self, Noun};

/// The fields of what the command on this line prints.
pub(super) fn of_line(line: &[&str]) -> Vec<CompletionCandidate> {
    let fields = noun_of(&path_of(line)).map_or(&[][..], |noun| noun.fields);
    fields.iter().map(|field| CompletionCandidate::new(field.name)).collect()
}

/// The command of a line, such as `links list`.
fn path_of(line: &[&str]) -> String {
    let tree = Cli::command();
    let (mut command, mut path) = (&tree, Vec::new());
    for word in line.iter().skip(1) {
        if let Some(below) = command.find_subcommand(word) {
            command = below;
            path.push(below.get_name());
        }
    }
    path.join(" ")
}

/// The kind of record that a command prints; not all commands are here.
fn noun_of(path: &str) -> Option<&'static Noun> {
    Some(match path {
        "links list" | "links get" | "links update" | "links rename" | "links tag" | "links enable"
        | "links disable" | "links expire" | "links restore" => &output::LINKS,
        "links create" | "links bulk" | "links import" | "import" | "demo" => &output::CREATED,
        "links history" => &output::LINK_VERSIONS,
        "links explain" | "explain" => &output::EXPLANATIONS,
        "links resolve" => &output::RESOLVED,
        "links qr" => &output::CODES,
        "links timeseries" => &output::BUCKETS,
        "links stats" => &output::LINK_STATS,
        "stats" => &output::FUNNELS,
        "tags list" | "tags rename" => &output::TAGS,
        "qr-logos list" | "qr-logos put" => &output::QR_LOGOS,
        "events list" => &output::EVENTS,
        "apps list" | "apps add" => &output::APPS,
        "domains list" | "domains update" => &output::DOMAINS,
        "domains add" => &output::CLAIMS,
        "domains verify" => &output::VERIFICATIONS,
        "sources list" | "sources get" | "sources create" | "sources rotate" => &output::SOURCES,
        "webhooks list" | "webhooks update" => &output::WEBHOOKS,
        "webhooks create" => &output::NEW_WEBHOOK,
        "webhooks deliveries" | "webhooks test" => &output::DELIVERIES,
        "affiliates list" | "affiliates get" | "affiliates create" | "affiliates update" => &output::AFFILIATES,
        "affiliates creds list" => &output::CREDENTIALS,
        "team list" | "team invite" => &output::USERS,
        "keys list" => &output::SECRET_KEYS,
        "pk list" => &output::PUBLISHABLE_KEYS,
        "account show" | "account update" => &output::ACCOUNTS,
        "audit list" => &output::AUDIT_ENTRIES,
        "billing status" => &output::PLAN,
        "whoami" => &output::IDENTITY,
        "profile list" => &output::PROFILES,
        "imports list" => &output::IMPORTS,
        "doctor" => &output::CHECKS,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_decides() {
        for (line, first) in [
            ("dl links list --fields", Some("link_id")),
            ("dl --profile staging links --json", None),
            ("dl -o csv links get spring-42 --fields", Some("link_id")),
            ("dl webhooks deliveries --json", Some(output::DELIVERIES.fields[0].name)),
            ("dl ping --fields", None),
        ] {
            let line: Vec<&str> = line.split(' ').collect();
            let found = of_line(&line);
            let found = found.first().map(|field| field.get_value().to_string_lossy().into_owned());
            assert_eq!(found.as_deref(), first, "{line:?}");
        }
    }
}
