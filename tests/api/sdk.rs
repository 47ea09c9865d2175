//! The web SDK as a file: how it is served, how large it is, and that its types say what it does. What it does in a browser
//! is tried in the browser suite.

use std::io::Write;
use std::process::{Command, Stdio};

use http::Method;

use crate::common::{Role, spawn};

const SCRIPT: &str = include_str!("../../sdk/deeplink.js");
const TYPES: &str = include_str!("../../sdk/deeplink.d.ts");

#[tokio::test]
async fn the_script_is_served_to_every_page() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    for (path, media_type, text) in [
        ("/sdk/deeplink.js", "text/javascript; charset=utf-8", SCRIPT),
        ("/sdk/deeplink.d.ts", "text/plain; charset=utf-8", TYPES),
    ] {
        let ask = |host: &str| world.nobody.ask(Method::GET, path).header("host", host);
        let served = ask("localhost").send().await;
        assert_eq!((served.status, served.text().as_str()), (200, text));
        assert_eq!(served.header("content-type"), media_type);
        assert_eq!(served.header("cache-control"), "public, max-age=3600");
        assert_eq!(served.header("cross-origin-resource-policy"), "cross-origin");
        assert_eq!(served.header("set-cookie"), "");
        let tag = served.header("etag").to_owned();
        assert!(tag.len() > 30, "{tag}");
        for known in [tag.clone(), tag.trim_start_matches("W/").to_owned(), format!("\"other\", {tag}"), "*".to_owned()]
        {
            let again = ask("localhost").header("if-none-match", &known).send().await;
            assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, &*tag), "{known}");
            assert_eq!(again.header("cache-control"), "public, max-age=3600");
        }
        assert_eq!(ask("localhost").header("if-none-match", "\"other\"").send().await.status, 200);
        // On every host but the tenants' own, and small on its way.
        let elsewhere = ask("10.0.0.1").header("accept-encoding", "gzip").send().await;
        assert_eq!((elsewhere.status, elsewhere.header("content-encoding")), (200, "gzip"));
        assert!(elsewhere.header("vary").to_ascii_lowercase().contains("accept-encoding"));
        assert_eq!(elsewhere.header("etag"), tag);
        assert_eq!(ask("go.example.com").send().await.status, 404);
        let head = world.nobody.ask(Method::HEAD, path).send().await;
        assert_eq!((head.status, head.header("etag")), (200, &*tag));
        assert_eq!(world.nobody.ask(Method::POST, path).send().await.outcome(), "405 method_not_allowed");
    }
}

#[tokio::test]
async fn the_script_has_less_than_three_kilobytes_compressed() {
    let world = spawn().await;
    let packed = world.nobody.ask(Method::GET, "/sdk/deeplink.js").header("accept-encoding", "gzip").send().await;
    assert!(packed.header("content-encoding") == "gzip" && packed.body.len() < 3_072, "{} bytes", packed.body.len());
}

/// The names between `start` and `end` that stand at the beginning of a line with this indent, before one of `marks`.
fn names_in<'a>(text: &'a str, start: &str, end: &str, indent: &str, marks: &[char]) -> Vec<&'a str> {
    let inside = text.split_once(start).unwrap_or_else(|| panic!("no {start}")).1.split_once(end).expect("an end").0;
    let lines = inside.lines().filter_map(|line| line.strip_prefix(indent));
    let lines = lines.map(|line| line.strip_prefix("readonly ").unwrap_or(line));
    let name = |line: &'a str| line.split(marks).next().filter(|name| *name != line);
    let is_name = |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let mut names: Vec<_> = lines.filter_map(name).filter(is_name).collect();
    names.sort_unstable();
    names
}

/// What the script offers has a type, and what has a type is there.
#[test]
fn the_types_name_what_the_script_has() {
    let mut typed = names_in(TYPES, "declare namespace deeplink {", "\n}", "  function ", &['(']);
    typed.insert(0, "DeeplinkError");
    let offered = names_in(SCRIPT, "Object.freeze({", "\n  });", "    ", &['(', ':', ',']);
    assert_eq!(typed, offered);
    assert!(typed.len() == 10 && typed.contains(&"linkFromUrl"), "{typed:?}");
    // What an error carries.
    let facts = names_in(TYPES, "class DeeplinkError", "\n  }", "    ", &['?', ':']);
    assert_eq!(facts, ["code", "field", "requestId", "retryAfter", "status"]);
    for fact in facts {
        assert!(SCRIPT.contains(&format!("{fact}:")) || SCRIPT.contains(&format!(" {fact},")), "{fact}");
    }
    // What is sent is what the service reads.
    let snake = |name: &str| {
        let letters = name.chars().flat_map(|letter| {
            let gap = letter.is_ascii_uppercase().then_some('_');
            gap.into_iter().chain([letter.to_ascii_lowercase()])
        });
        letters.collect::<String>()
    };
    let document: serde_json::Value = serde_json::from_str(deeplink_server::openapi::text()).expect("JSON");
    for (interface, schema) in [("Context {", "InstallContext"), ("ConvertOptions {", "Convert")] {
        let typed = names_in(TYPES, &format!("interface {interface}"), "\n  }", "    ", &['?', ':']);
        let mut typed: Vec<_> = typed.into_iter().map(snake).collect();
        let known = document["components"]["schemas"][schema]["properties"].as_object().expect("members");
        let mut known: Vec<_> = known.keys().cloned().collect();
        typed.sort_unstable();
        known.sort_unstable();
        assert_eq!(typed, known, "{schema}");
    }
}

/// The script needs nothing that is newer than ES2017 and touches nothing while it is loaded outside a page. Where there is
/// no Node.js, the browser suite alone says so.
#[test]
fn the_script_loads_outside_a_page() {
    for newer in ["?.", "??", "...", "catch {", "globalThis", "#key", "import(", "await import"] {
        let found = SCRIPT.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(newer));
        assert!(!found, "{newer}");
    }
    let node = Command::new("node").arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut node) = node else { return };
    let use_it = "
        const deeplink = module.exports;
        const code = (act) => { try { act(); return 'fine'; } catch (error) { return `${error.name} ${error.code}`; } };
        console.log(code(() => deeplink.init({ key: 'dl_live_x', baseUrl: 'https://dl.example.com' })));
        console.log(code(() => deeplink.init({ key: 'pk_live_x' })));
        console.log(code(() => deeplink.init({ key: 'pk_live_x', baseUrl: 'https://dl.example.com/' })));
        for (const url of ['https://go.example.com/spring-42?x=1', 'https://dl.example.com/r/spring-42',
          'https://shop.example.com/a/b?dl_link=spring-42', 'https://shop.example.com/a/b', 'no address'])
          console.log(deeplink.linkFromUrl(url));";
    let mut stdin = node.stdin.take().expect("an input");
    stdin.write_all(SCRIPT.as_bytes()).and_then(|()| stdin.write_all(use_it.as_bytes())).expect("it is read");
    drop(stdin);
    let output = node.wait_with_output().expect("an end");
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = [
        "DeeplinkError invalid_key",
        "DeeplinkError not_initialized",
        "fine",
        "spring-42",
        "spring-42",
        "spring-42",
        "null",
        "null",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}
