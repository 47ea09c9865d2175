//! L4, L6: pages show a tenant's texts and never execute them.

use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use http::Method;
use serde_json::json;
use std::cell::RefCell;

use deeplink_testing::{Role, World, spawn};

const POLYGLOTS: [&str; 30] = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "--><svg onload=alert(1)>",
    "]]><svg onload=alert(1)>",
    "\"><svg onload=alert(1)>",
    "'><svg onload=alert(1)>",
    "\" onmouseover=alert(1) x=\"",
    "' onmouseover=alert(1) x='",
    "` onmouseover=alert(1) x=`",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<link rel=stylesheet href=//evil.example>",
    "<form action=//evil.example><button>",
    "<a href=javascript:alert(1)>x</a>",
    "javascript:alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "<%= 7*7 %>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)",
    "\\u003cscript\\u003ealert(1)",
    "\u{2028}alert(1)\u{2029}//",
    "<!--<script>-->alert(1)",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "jaVasCript:/*-/*`/*\\`/*'/*\"/**/(/* */oNcliCk=alert() )//</stYle/</titLe/</teXtarEa/</scRipt/--!>\\x3csVg/<sVg/oNloAd=alert()//>",
];

/// The tags of a page with their attributes' names: what a browser would build from it, whatever its texts.
pub(crate) fn shape(html: &str) -> Vec<String> {
    struct Tags(RefCell<Vec<String>>);
    impl TokenSink for Tags {
        type Handle = ();
        fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
            if let Token::TagToken(Tag { kind, name, attrs, .. }) = token {
                let names: Vec<_> = attrs.iter().map(|attr| attr.name.local.to_string()).collect();
                let end = if kind == TagKind::EndTag { "/" } else { "" };
                self.0.borrow_mut().push(format!("{end}{name} {}", names.join(" ")));
                if kind == TagKind::StartTag {
                    let raw = html5ever::tokenizer::states::RawKind::ScriptData;
                    match &*name {
                        "script" => return TokenSinkResult::RawData(raw),
                        "style" => return TokenSinkResult::RawData(html5ever::tokenizer::states::RawKind::Rawtext),
                        "title" | "textarea" => {
                            return TokenSinkResult::RawData(html5ever::tokenizer::states::RawKind::Rcdata);
                        }
                        _ => {}
                    }
                }
            }
            TokenSinkResult::Continue
        }
    }
    let tokenizer = Tokenizer::new(Tags(RefCell::default()), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(html.into());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.take()
}

fn link(id: &str, text: &str) -> serde_json::Value {
    let cut = |most: usize| text.chars().take(most).collect::<String>();
    json!({
        "custom_id": id,
        "ios_deep_link": format!("myapp://x/{}", text.replace(char::is_control, "")),
        "android_deep_link": "myapp://x",
        "web_url": format!("https://example.com/?q={text}"),
        "metadata": {"k": format!("shown nowhere {text}"), text: 1},
        "agent_context": {"action": "open", "cta": cut(40), "description": cut(500)},
        "social_preview": {"title": cut(120), "description": cut(300), "image_url": format!("https://example.com/{text}.png")},
    })
}

/// Gives A an app for each platform, with this text in every free-text field; a colour is not one.
async fn apps(world: &World, text: &str) {
    let name: String = text.chars().take(100).collect();
    let icon = format!("https://example.com/{text}.svg");
    let print = "14:6D:E9:83:C5:73:06:50:D8:EE:B9:95:2F:34:FC:64:16:A0:83:42:E6:1D:BE:A8:8A:04:96:B2:3F:CF:44:E5";
    for identity in [
        json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"}),
        json!({"platform": "android", "package_name": "com.example.app", "sha256_fingerprints": [print]}),
    ] {
        let mut app = identity;
        app["app_name"] = name.as_str().into();
        app["icon_url"] = icon.as_str().into();
        app["theme_color"] = "#2e7d4f".into();
        let reply = world.a.post("/v1/apps", &app).await;
        assert_eq!(reply.status, 201, "{text}: {}", reply.text());
        app["theme_color"] = text.into();
        let refused = world.a.post("/v1/apps", &app).await;
        assert_eq!(refused.outcome(), "400 invalid_theme_color theme_color", "{text}");
    }
}

async fn pages(world: &World, id: &str) -> Vec<String> {
    let mut pages = Vec::new();
    for agent in [
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Safari/604.1",
        "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15",
        "facebookexternalhit/1.1",
    ] {
        let ask = world
            .nobody
            .ask(Method::GET, &format!("/r/{id}"))
            .header("accept", "text/html")
            .header("user-agent", agent);
        let page = ask.send().await;
        assert_eq!(page.status, 200, "{agent}");
        pages.push(page.text());
    }
    pages
}

/// L4: a page has the same elements and attributes whatever a tenant's texts, and nothing in its scripts could end
/// them.
#[tokio::test]
async fn l4_pages_are_inert() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    world.a.make_of(&link("plain", "plain text")).await;
    apps(&world, "plain text").await;
    let plain: Vec<_> = pages(&world, "plain").await.iter().map(|page| shape(page)).collect();
    assert!(plain[0].len() > 20, "{plain:?}");
    for (number, polyglot) in POLYGLOTS.iter().enumerate() {
        let id = format!("polyglot-{number}");
        world.a.make_of(&link(&id, polyglot)).await;
        apps(&world, polyglot).await;
        for (page, plain) in pages(&world, &id).await.iter().zip(&plain) {
            assert_eq!(&shape(page), plain, "{polyglot}");
            assert!(!page.contains("shown nowhere"), "metadata is for programs");
            for script in page.split("<script").skip(1) {
                let inside = script.split("</script>").next().expect("a script");
                let data = inside.split_once('>').expect("a tag").1;
                if inside.contains("json") {
                    assert!(!data.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{polyglot}: {data}");
                    serde_json::from_str::<serde_json::Value>(data).expect("the JSON is valid");
                }
            }
        }
    }
}

/// L6: icons and previews are only referenced for the browser, never fetched: their host is not even resolved, and the
/// only HTTP client in the server is the guarded one of `outbound/http`, over the connections of `outbound/dial`. Besides,
/// the command `health` connects to the server of its own machine.
#[tokio::test]
async fn l6_images_are_never_fetched() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    apps(&world, "icon").await;
    world.a.make_of(&link("spring-42", "image")).await;
    pages(&world, "spring-42").await;
    assert_eq!(world.nobody.resolve("spring-42").await.status, 200);
    assert!(world.dns.asked("_deeplink-verify.go.example.com") > 0, "lookups are seen");
    assert_eq!(world.dns.asked("example.com"), 0);

    assert_eq!(calling_out(), ["admin/health.rs", "outbound/dial.rs", "outbound/http/mod.rs", "outbound/http/pool.rs"]);
}

/// The server's files that use an HTTP client or open connections, except for tests.
fn calling_out() -> Vec<String> {
    const WAYS: [&str; 5] = ["reqwest", "hyper::client", "client::conn", "hyper_util::client", "TcpStream::connect"];
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("deeplink-server/src");
    let mut folders = vec![sources.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&sources).expect("a file of the server").to_string_lossy().into_owned();
            let is_source = path.extension().is_some_and(|kind| kind == "rs");
            if !is_source || name.ends_with("tests.rs") || name.contains("tests/") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source");
            let text = text.split("#[cfg(test)]\nmod tests {").next().expect("what is before its tests");
            if WAYS.iter().any(|way| text.contains(way)) {
                found.push(name);
            }
        }
    }
    found.sort();
    found
}
