//! The few rules that no lint covers. They read the sources and start nothing.

mod floors;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use deeplink_core::link::{RESERVED_WORDS, check_custom_id};
use deeplink_core::routes;

use serde_json::Value;

const CRATES: [&str; 5] = ["deeplink-core", "deeplink-server", "deeplink-client", "deeplink-cli", "deeplink-mcp"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below a folder whose names end in `ending`, with their text.
fn files(folder: &str, ending: &str) -> Vec<(PathBuf, String)> {
    let mut folders = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                let text = std::fs::read_to_string(&path).expect("a text");
                found.push((path.strip_prefix(root()).expect("a path of ours").to_owned(), text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{folder} has no {ending}");
    found
}

/// Lines of code, with their numbers; comments are left out.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Names of the constants in the route table.
fn constants() -> BTreeMap<String, String> {
    let table = std::fs::read_to_string(root().join("deeplink-core/src/routes.rs")).expect("the route table");
    let lines = table.lines().filter_map(|line| line.trim().split_once(" = \""));
    lines.filter_map(|(name, rest)| Some((rest.split_once('"')?.0.to_owned(), name.to_owned()))).collect()
}

#[test]
fn routes_are_the_operations_of_the_document_and_the_methods_of_the_client() {
    let table: BTreeSet<_> =
        routes::ALL.iter().map(|route| (route.operation, route.method.to_owned(), route.path)).collect();
    let document: Value = serde_json::from_str(deeplink_server::openapi::text()).expect("the document is JSON");
    let mut documented = BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            documented.insert((
                operation["operationId"].as_str().expect("an id"),
                method.to_uppercase(),
                path.as_str(),
            ));
        }
    }
    assert_eq!(table, documented);

    let constants = constants();
    let client: String = files("deeplink-client/src", ".rs").into_iter().map(|(_, text)| text).collect();
    for route in routes::ALL {
        let name = constants.get(route.operation).unwrap_or_else(|| panic!("{} has no constant", route.operation));
        let has = client.contains(&format!("routes::{name},")) || client.contains(&format!("routes::{name})"));
        let due = route.credential.is_for_programs();
        assert_eq!(has, due, "the client's method for {}", route.operation);
    }
}

/// utoipa lets one of two schemas of the same name silently overwrite the other.
#[test]
fn schema_names_are_unique() {
    // Macros of core that define one schema each, named by the first word of their body, and one schema per line.
    const BODIES: [&str; 7] =
        ["words! {", "choices! {", "reply! {", "paged! {", "email_request! {", "shown_link! {", "session! {"];
    const LISTS: [&str; 2] = ["ids! {", "keys! {"];
    // Schemas that no operation shows by name.
    const UNSHOWN: [&str; 5] = ["CertificateId", "DomainId", "MailId", "Pixels", "SessionId"];
    let mut names = BTreeSet::new();
    for (path, text) in files("deeplink-core/src", ".rs").into_iter().chain(files("deeplink-server/src", ".rs")) {
        let (mut derives, mut in_body, mut in_list, mut alias) = (false, false, false, None);
        for (_, line) in code(&text) {
            derives |= line.contains("derive(") && line.contains("ToSchema");
            in_body |= BODIES.contains(&line);
            in_list = line != "}" && (in_list || LISTS.contains(&line));
            if let Some((_, rest)) = line.split_once("schema(as = ") {
                alias = rest.split(')').next();
            }
            let open = line.replacen("pub(crate) ", "pub ", 1).replacen("pub(super) ", "pub ", 1);
            let named = open.split(['{', '(', ';', '<', '=']).next().unwrap_or_default();
            let is_item = derives && (named.contains("struct ") || named.contains("enum "));
            let is_inside = line.starts_with(' ') && !line.trim_start().starts_with('#');
            let is_written = line.starts_with("impl utoipa::ToSchema for ");
            if is_item || is_written || is_inside && (in_body || in_list) {
                let name = named.split_whitespace().last().expect("a name");
                let name = alias.take().filter(|_| is_item).unwrap_or(name).to_owned();
                (derives, in_body) = (false, false);
                if name.starts_with('$') {
                    continue;
                }
                assert!(names.insert(name.clone()), "{name} in {} is a second schema of that name", path.display());
            }
        }
    }
    // Every way to define a schema is covered here, and none is mistaken for another.
    let document: Value = serde_json::from_str(deeplink_server::openapi::text()).expect("the document is JSON");
    let documented = document["components"]["schemas"].as_object().expect("schemas").keys().cloned();
    let expected: BTreeSet<_> = documented.chain(UNSHOWN.map(str::to_owned)).collect();
    assert_eq!(names, expected);
}

/// One SQL text for two databases: syntax that only one supports, or that differs in meaning, is not used.
#[test]
fn sql_stays_inside_the_common_dialect() {
    const NOT: [&str; 24] = [
        " INTEGER",
        " SERIAL",
        "BIGSERIAL",
        "TIMESTAMP",
        " UUID",
        " STRICT",
        "AUTOINCREMENT",
        "JSONB",
        "NOW()",
        "CURRENT_TIMESTAMP",
        "ADD CONSTRAINT",
        " LIKE ",
        "ILIKE",
        "LOWER(",
        "UPPER(",
        "->>",
        "INSERT OR ",
        "REPLACE INTO",
        "ANY($",
        "GREATEST(",
        "DATETIME(",
        "STRFTIME(",
        "ROWID",
        "UUID(",
    ];
    for (path, text) in files("migrations", ".sql") {
        let statements: String =
            text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
        let statements = statements.to_uppercase();
        for word in NOT {
            assert!(!statements.contains(word), "{} has {word}", path.display());
        }
    }
    for (path, text) in files("deeplink-server/src/db", ".rs") {
        let mut of_one_database = false;
        for (number, line) in code(&text) {
            if let Some(name) = line.trim_start().strip_prefix("const ").and_then(|rest| rest.split(':').next()) {
                of_one_database = ["SQLITE", "POSTGRES"].iter().any(|database| name.contains(database));
            }
            let line = line.to_uppercase();
            let is_sql = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", " WHERE ", "VALUES"]
                .iter()
                .any(|word| line.contains(word));
            for word in NOT.iter().filter(|_| is_sql && !of_one_database) {
                assert!(!line.contains(word), "{}:{number} has {word}", path.display());
            }
            assert!(
                !(is_sql && line.contains(" ? ")),
                "{}:{number} has a placeholder that PostgreSQL does not know",
                path.display()
            );
        }
    }
}

#[test]
fn drivers_are_named_in_one_folder() {
    for (path, text) in files("deeplink-server/src", ".rs") {
        if path.starts_with("deeplink-server/src/db") || path.to_string_lossy().contains("tests") {
            continue;
        }
        for (number, line) in code(&text) {
            for name in ["sqlx", "SqliteConnection", "PgConnection", "SqlitePool", "PgPool", "libsqlite3"] {
                assert!(!line.contains(name), "{}:{number} names {name}", path.display());
            }
        }
    }
}

/// Connections reserved for visits and credentials are used for nothing else.
#[test]
fn r3_readers_of_visits_and_keys_are_taken_by_nobody_else() {
    const MAY: [&str; 10] = [
        "api/sources.rs",
        "certificates/mod.rs",
        "http/auth.rs",
        "http/sdk_key.rs",
        "http/session.rs",
        "visit/association.rs",
        "visit/challenge.rs",
        "visit/long_link.rs",
        "visit/lookup.rs",
        "visit/mod.rs",
    ];
    let texts = files("deeplink-server/src", ".rs").into_iter().filter(|(_, text)| text.contains("db.look_up()"));
    let taken: Vec<_> = texts.map(|(path, _)| path.to_string_lossy().replace("deeplink-server/src/", "")).collect();
    assert_eq!(taken, MAY);
}

/// L7: every first path segment that is served is reserved, so that a link can neither shadow it nor be hidden by it.
#[test]
fn l7_first_segments_of_routes_are_reserved() {
    let mut segments: BTreeSet<String> = routes::ALL.iter().map(|route| first_segment(route.path)).collect();
    // Routes other than operations are literals where they are added.
    for (_, text) in files("deeplink-server/src", ".rs") {
        let paths = text.split(".route(\"/").skip(1).filter_map(|rest| rest.split('"').next());
        segments.extend(paths.map(first_segment));
    }
    for segment in ["v1", "r", "docs", "health", "robots.txt", ".well-known"] {
        assert!(segments.contains(segment), "{segment} is not among {segments:?}");
    }
    for segment in segments {
        assert!(check_custom_id(&segment).is_err(), "{segment} could be a link's id");
        let word = segment.split('.').find(|part| !part.is_empty()).expect("a word");
        assert!(RESERVED_WORDS.contains(&word), "{word} is not reserved");
    }
}

fn first_segment(path: &str) -> String {
    path.trim_start_matches('/').split('/').next().unwrap_or_default().to_owned()
}

#[test]
fn own_crates_have_no_unsafe_code_and_share_the_lints() {
    let workspace = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    assert!(workspace.contains("unsafe_code = \"forbid\""));
    for name in CRATES.iter().copied().chain(["benches", "tests/common", "tests/doubles", "."]) {
        let manifest = std::fs::read_to_string(root().join(name).join("Cargo.toml")).expect("a manifest");
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name} has lints of its own");
    }
}

#[test]
fn nothing_is_unfinished_or_switched_off() {
    // Concatenated, so that this file does not match itself.
    let marks = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["XX", "X:"],
        ["HA", "CK"],
        ["to", "do!("],
        ["unimple", "mented!("],
        ["#[ig", "nore"],
        ["dbg", "!("],
    ];
    let folders = CRATES.iter().map(|name| format!("{name}/src")).chain([
        "tests".to_owned(),
        "examples".to_owned(),
        "benches/src".to_owned(),
    ]);
    for folder in folders.filter(|folder| {
        root().join(folder).is_dir()
            && std::fs::read_dir(root().join(folder)).is_ok_and(|mut entries| entries.next().is_some())
    }) {
        for (path, text) in files(&folder, ".rs") {
            for mark in &marks {
                let mark = mark.concat();
                assert!(!text.contains(&mark), "{} has {mark}", path.display());
            }
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let role = ["utils", "util", "helpers", "helper", "models", "types", "misc"];
            assert!(!role.contains(&name.as_str()), "{} is named for its role", path.display());
        }
    }
}

/// Each rule of the threat model that applies to the code has its test, named after it.
#[test]
fn every_rule_about_threats_has_its_test() {
    const RULES: &str = "x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11 x12 x13 x14 x15 x16 x17 x18 x19 x20 x21 i1 i2 i3 i5 i6 i8
        l1 l2 l3 l4 l6 l7 l8 l9 l10 l11 l12 l14 l15 l16 l17 l18 l19 l20 l21 l22 l23 l24 l25 c1 c6 d1 d2 d3 d4 d5 d6 d7 k1 k2 k3 s1 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 s13 s14 s15 s16 s17 s18 u1 u2 q4 q5 q6 q7 q8 q9 q10 t1 t2 t3 t4 b1 bl1 bl2 bl3 bl4 bl5 bl6 st1 st2 st3 st4 st5 st6 st7 st8 st9 st10 p1 p2 p3 p4 p5";
    let folders = CRATES.iter().map(|name| format!("{name}/src")).chain(["tests".to_owned()]);
    let texts: String = folders.flat_map(|folder| files(&folder, ".rs")).map(|(_, text)| text).collect();
    let missing: Vec<_> = RULES.split_whitespace().filter(|rule| !texts.contains(&format!("fn {rule}_"))).collect();
    assert!(missing.is_empty(), "no test for {missing:?}");
}
