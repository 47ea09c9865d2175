//! The web SDK as a file: how it is served, its size, and that its types match. What it does in a browser is tested in
//! the browser suite.

use std::io::Write;
use std::process::{Command, Stdio};

use http::Method;

use deeplink_testing::{Role, spawn};

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
        // On every host but the tenants' own, and small when transferred.
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

/// The names between `start` and `end` at the beginning of a line with this indent, before one of `marks`.
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

/// Everything exported by the script has a type, and everything with a type exists.
#[test]
fn the_types_name_what_the_script_has() {
    let mut typed = names_in(TYPES, "declare namespace deeplink {", "\n}", "  function ", &['(']);
    typed.insert(0, "DeeplinkError");
    let offered = names_in(SCRIPT, "Object.freeze({", "\n  });", "    ", &['(', ':', ',']);
    assert_eq!(typed, offered);
    assert!(typed.len() == 11 && typed.contains(&"linkFromUrl"), "{typed:?}");
    // The members of an error.
    let facts = names_in(TYPES, "class DeeplinkError", "\n  }", "    ", &['?', ':']);
    assert_eq!(facts, ["code", "field", "requestId", "retryAfter", "status"]);
    for fact in facts {
        assert!(SCRIPT.contains(&format!("{fact}:")) || SCRIPT.contains(&format!(" {fact},")), "{fact}");
    }
    // Sent members are those that the service reads.
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

/// The output of Node.js, run with these arguments and this program.
fn node(arguments: &[&str], program: &str) -> Vec<String> {
    let mut node = Command::new("node");
    let node = node.args(arguments).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = node.spawn().expect("Node.js, which runs the script outside a page");
    let mut stdin = node.stdin.take().expect("an input");
    stdin.write_all(program.as_bytes()).expect("it is read");
    drop(stdin);
    let output = node.wait_with_output().expect("an end");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// The script needs nothing newer than ES2017 and has no effects when loaded outside a page.
#[test]
fn the_script_loads_outside_a_page() {
    for newer in ["?.", "??", "...", "catch {", "globalThis", "#key", "import(", "await import"] {
        let found = SCRIPT.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(newer));
        assert!(!found, "{newer}");
    }
    let use_it = "
        const deeplink = module.exports;
        const code = (act) => { try { act(); return 'fine'; } catch (error) { return `${error.name} ${error.code}`; } };
        const key = 'pk_live_' + '0'.repeat(48), baseUrl = 'https://dl.example.com/';
        for (const given of [{ key: 'dl_live_x', baseUrl }, undefined, { key: 'pk_live_…', baseUrl }, { key: key + '\\n', baseUrl },
          { key }, { key, baseUrl: 'dl.example.com' }, { key, baseUrl }])
          console.log(code(() => deeplink.init(given)));
        for (const url of ['https://go.example.com/spring-42?x=1', 'https://dl.example.com/r/spring-42',
          'https://shop.example.com/a/b?dl_link=spring-42', 'https://go.example.com/l/2024/caf%C3%A9.html',
          'https://go.example.com/r/Spring_Sale', 'https://shop.example.com/a/b', 'https://go.example.com/a/b/c/d', 'https://go.example.com/a:b', 'no address',
          'https://shop.example.com/?dl_link=https://evil.example/x', 'https://shop.example.com/?dl_link=..',
          'https://shop.example.com/?dl_link=' + 'x'.repeat(65)])
          console.log(deeplink.linkFromUrl(url));";
    let invalid = "DeeplinkError invalid_key";
    let refused = [invalid, invalid, invalid, invalid, "DeeplinkError not_initialized", "DeeplinkError invalid_input"];
    let found = ["fine", "spring-42", "spring-42", "spring-42", "l/2024/caf%C3%A9.html", "Spring_Sale", "a/b"];
    let found = [&found[..], &["null"; 6]].concat();
    assert_eq!(node(&[], &format!("{SCRIPT}{use_it}")), [&refused[..], &found[..]].concat());
}

/// A page as the script sees it: the script's URL, the storage, and the service's answer to each request.
const PAGE: &str = "
    const kept = {}, sent = [], answers = [];
    Object.defineProperty(globalThis, 'navigator', { value: { language: 'en' }, configurable: true });
    globalThis.localStorage = { getItem: (name) => name in kept ? kept[name] : null,
      setItem: (name, value) => { kept[name] = String(value); }, removeItem: (name) => { delete kept[name]; } };
    globalThis.fetch = async (url, { headers, body }) => {
      sent.push({ url, key: headers['Idempotency-Key'], body });
      const answer = answers.shift() || { status: 200, said: '{}' };
      if (answer === 'lost') throw new TypeError('lost');
      return new Response(answer.said, { status: answer.status, headers: answer.headers });
    };
    const key = 'pk_live_' + '0'.repeat(48);
    const come = async (act) => {
      try { await act(); return 'fine'; } catch (error) { return [error.name, error.code, error.status, error.field].join(' '); }
    };
    const load = (src) => {
      globalThis.self = globalThis;
      globalThis.document = { currentScript: { src } };
      new Function('module', source)(undefined);
    };
    const tell = async (act) => console.log(await come(act));
";

/// The script's output on such a page.
fn on_a_page(program: &str) -> Vec<String> {
    let source = serde_json::to_string(SCRIPT).expect("JSON");
    node(&[], &format!("const source = {source};{PAGE}(async () => {{ {program} }})();"))
}

/// A copy or a bundle from elsewhere does not use its own origin as the service's, and a second script tag keeps the
/// first one's key.
#[test]
fn the_script_knows_where_it_comes_from() {
    let said = on_a_page(
        "for (const src of ['https://cdn.example.com/app.js', 'https://cdn.example.com/x.js?/sdk/deeplink.js']) {
           load(src);
           await tell(() => deeplink.init({ key }));
           delete globalThis.deeplink;
         }
         globalThis.deeplink = { id: 'an element' };
         load('https://dl.example.com/behind/sdk/deeplink.js?v=1');
         deeplink.init({ key });
         await deeplink.click('spring-42');
         load('https://dl.example.com/sdk/deeplink.js');
         await tell(() => deeplink.click('spring-42'));
         sent.forEach(({ url }) => console.log(url));",
    );
    let elsewhere = "DeeplinkError not_initialized 0 ";
    let click = "https://dl.example.com/behind/v1/lifecycle/click";
    assert_eq!(said, [elsewhere, elsewhere, "fine", click, click]);
}

/// Values that would be ambiguous to the service are refused before they are sent, and not stored.
#[test]
fn the_script_refuses_what_would_be_read_as_something_else() {
    let said = on_a_page(
        "load('https://dl.example.com/sdk/deeplink.js');
         await tell(() => deeplink.attribute({ linkId: 'spring-42', installId: 'mine' }));
         await tell(() => deeplink.identify('u'));
         deeplink.init({ key });
         await tell(() => deeplink.convert({ type: 'x', occurredAt: new Date('x') }));
         await tell(() => deeplink.convert({ type: 'x', amountCents: NaN, currency: 'EUR' }));
         for (const installId of ['', 7, 'x'.repeat(256), 'a\\u0007'])
           await tell(() => deeplink.attribute({ linkId: 'spring-42', installId }));
         for (const link of ['https://evil.example/x.json', '..', 'https://evil.example/'])
           await tell(() => deeplink.getLink(link));
         console.log(sent.length, Object.keys(kept).length);
         kept['deeplink.install_id'] = 'a\\u0007';
         console.log(deeplink.installId().length);
         deeplink.reset();
         console.log(Object.keys(kept).length);",
    );
    let not_yet = "DeeplinkError not_initialized 0 ";
    let wrong = |field: &str| format!("DeeplinkError invalid_input 0 {field}");
    let (id, link) = (wrong("install_id"), wrong("link_id"));
    let expected = [not_yet.to_owned(), not_yet.to_owned(), wrong("occurred_at"), wrong("amount_cents")];
    let ids = std::iter::repeat_n(id, 4).chain(std::iter::repeat_n(link, 3));
    let end = ["0 0", "32", "0"].map(str::to_owned);
    assert_eq!(said, expected.into_iter().chain(ids).chain(end).collect::<Vec<_>>());
}

/// An idempotent report is sent again as the same request if its answer is lost; a click is not.
#[test]
fn a_lost_answer_is_asked_for_again_where_it_counts_once() {
    let said = on_a_page(
        "load('https://dl.example.com/sdk/deeplink.js');
         deeplink.init({ key });
         const cut = { status: 200, said: '{' };
         for (const [answer, call] of [['lost', () => deeplink.convert({ userId: 'u', type: 'x' })],
             [cut, () => deeplink.attribute({ linkId: 'spring-42' })], ['lost', () => deeplink.identify('u')],
             ['lost', () => deeplink.click('spring-42')], [cut, () => deeplink.click('spring-42')]]) {
           sent.length = 0; answers.length = 0;
           answers.push(answer);
           const came = await come(call);
           const [first, second] = sent;
           const same = second && first.key === second.key && first.body === second.body;
           console.log(came, sent.length, !!first.key, !!same);
         }
         for (const [said, headers] of [['null', {}], ['no JSON', { 'Retry-After': '0' }]]) {
           sent.length = 0; answers.length = 0;
           answers.push({ status: 503, said, headers });
           console.log(await come(() => deeplink.click('spring-42')), sent.length);
         }",
    );
    let lost = "DeeplinkError network 0  1 false false";
    let expected = ["fine 2 true true", "fine 2 true true", "fine 2 false true", lost, lost];
    assert_eq!(said[..5], expected);
    assert_eq!(said[5..], ["DeeplinkError unknown 503  1", "fine 2"]);
}

/// As a native module it sets the global, and needs to be given the service's URL.
#[test]
fn the_script_is_a_module_too() {
    let said = node(
        &["--input-type=module"],
        &format!(
            "globalThis.self = globalThis;
             await import('data:text/javascript,' + encodeURIComponent({}));
             console.log(typeof self.deeplink.init);",
            serde_json::to_string(SCRIPT).expect("JSON")
        ),
    );
    assert_eq!(said, ["function"]);
}
