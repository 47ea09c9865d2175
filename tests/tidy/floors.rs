//! The modules of the server are in layers, and each uses only lower layers: `use` lines and `crate::` paths are
//! checked, except in tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::{code, files};

const ROOT: &str = "deeplink-server/src";

/// From the top down. Only modules on the same line may use each other.
const FLOORS: &[&[&str]] = &[
    &["main"],
    &["admin"],
    &["start"],
    &["operators"],
    &["service"],
    // The route table defines the document's paths; the document, and the pages made from it, are among its routes.
    &["routes", "openapi", "docs"],
    &["pages"],
    &["api"],
    &["work"],
    &["visit"],
    &["http"],
    &["state"],
    // Modules that know nothing of requests.
    &["qr"],
    &["stream"],
    &["clicks"],
    &["certificates"],
    &["outbound"],
    &["vault"],
    // Links are packed from stored rows.
    &["cache"],
    // The service's error type includes database errors.
    &["error"],
    &["db"],
    // Modules that know nothing of requests or the database.
    &["caller"],
    &["uses"],
    &["notifier"],
    &["metrics"],
    &["rate_limit"],
    &["shares"],
    &["ttl_cache"],
    &["config"],
    &["country", "threats"],
    &["watched_file"],
    &["private"],
    &["clock"],
];

fn floor(module: &str) -> usize {
    FLOORS.iter().position(|floor| floor.contains(&module)).unwrap_or_else(|| panic!("{module} stands on no floor"))
}

/// The modules of the crate that a text names, given the depth of its own module.
fn named(text: &str, depth: usize) -> BTreeSet<&str> {
    let root = "super::".repeat(depth);
    let mut names = BTreeSet::new();
    for path in ["crate::", &root] {
        for (at, _) in text.match_indices(path) {
            let before = text[..at].chars().next_back().unwrap_or(' ');
            if !before.is_alphanumeric() && !"_:".contains(before) {
                names.extend(heads(&text[at + path.len()..]));
            }
        }
    }
    names
}

/// The first segments of a path: `a` of `a::b`, `a` and `c` of `{a::{b, b}, c}`.
fn heads(path: &str) -> Vec<&str> {
    let head = |path: &str| path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
    let Some(group) = path.strip_prefix('{') else { return vec![&path[..head(path)]] };
    let (mut depth, mut begin, mut heads) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let path = group[begin..at].trim_start();
                heads.push(&path[..head(path)]);
                begin = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    heads.retain(|head| !head.is_empty());
    heads
}

/// The non-test code of each file, by its path in the crate without `.rs`.
fn sources() -> BTreeMap<String, String> {
    let mut sources = BTreeMap::new();
    let mut tests = Vec::new();
    for (path, text) in files(ROOT, ".rs") {
        let path = path.strip_prefix(ROOT).expect("a path below the root").with_extension("");
        let path = path.to_string_lossy().trim_end_matches("/mod").to_owned();
        let lines: Vec<&str> = code(&text).map(|(_, line)| line).collect();
        // Tests within a file are at its end.
        let inline = lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && is_module(pair[1], '{'));
        for pair in lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]" && is_module(pair[1], ';')) {
            let name = pair[1].trim_end_matches(';').rsplit(' ').next().expect("a name");
            tests.push(if path == "lib" { name.to_owned() } else { format!("{path}/{name}") });
        }
        sources.insert(path, lines[..inline.unwrap_or(lines.len())].join("\n"));
    }
    sources.retain(|path, _| !tests.iter().any(|test| Path::new(path).starts_with(test)));
    sources
}

fn is_module(line: &str, end: char) -> bool {
    line.split_whitespace().any(|word| word == "mod") && line.ends_with(end)
}

#[test]
fn each_module_of_the_server_uses_only_what_stands_below_it() {
    let sources = sources();
    let mut modules = BTreeSet::new();
    let mut upward = Vec::new();
    for (path, text) in sources.iter().filter(|(path, _)| *path != "lib") {
        let own = path.split('/').next().expect("a module");
        modules.insert(own);
        for used in named(text, path.split('/').count()) {
            if used != own && floor(used) <= floor(own) && !FLOORS[floor(own)].contains(&used) {
                upward.push(format!("{ROOT}/{path} uses {used}, which stands above it"));
            }
        }
    }
    assert!(upward.is_empty(), "{upward:#?}");
    let placed: BTreeSet<&str> = FLOORS.iter().copied().flatten().copied().collect();
    assert_eq!(placed, modules, "the layers and the existing modules");
}

#[test]
fn paths_are_read_in_every_form() {
    for (text, depth, names) in [
        ("use crate::db::{Conn, keys};", 2, &["db"][..]),
        ("use crate::{clock::Clock, db::{self, Db}, state};", 2, &["clock", "db", "state"]),
        ("let app: &crate::state::App;", 2, &["state"]),
        ("use super::form; use super::super::http::host;", 2, &["http"]),
        ("use super::{db, other::{a, b}};", 1, &["db", "other"]),
        ("pub(crate) mod a; mycrate::b(); $crate::c!()", 2, &["c"]),
    ] {
        assert_eq!(named(text, depth), names.iter().copied().collect(), "{text}");
    }
}
