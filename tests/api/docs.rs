//! The documentation at `/docs`: every guide and every operation is there, every link leads somewhere, and the search finds
//! both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deeplink_core::error::ErrorCode;
use deeplink_testing::{World, operations, spawn};
use http::Method;
use sha2::{Digest, Sha256};

/// Maximum bytes of a page with its style, before compression; a reference of many operations may have more.
const MAX_BYTES: usize = 60 * 1_024;
const MAX_REFERENCE_BYTES: usize = 256 * 1_024;

/// The values of an attribute of all elements. Texts have no unescaped brackets.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    let elements = html.split('<').skip(1).filter_map(|part| part.split('>').next());
    elements.filter_map(|element| element.split_once(&begin)?.1.split('"').next()).collect()
}

/// Every page that can be reached from the contents by links, by its path.
pub(crate) async fn pages(world: &World) -> BTreeMap<String, String> {
    let (mut pages, mut next) = (BTreeMap::new(), vec!["/docs".to_owned()]);
    while let Some(path) = next.pop() {
        if pages.contains_key(&path) {
            continue;
        }
        let reply = world.nobody.get(&path).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
        let html = reply.text();
        let paths = values(&html, "href").into_iter().filter_map(|url| url.split('#').next());
        next.extend(paths.filter(|path| path.starts_with("/docs")).map(str::to_owned));
        pages.insert(path, html);
    }
    pages
}

async fn search(world: &World, query: &str) -> String {
    let query: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
    let reply = world.nobody.get(&format!("/docs/search?q={query}")).await;
    assert_eq!(reply.status, 200, "{query}");
    reply.text()
}

#[tokio::test]
async fn every_guide_is_served() {
    let world = spawn().await;
    let pages = pages(&world).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let files = std::fs::read_dir(folder).expect("the guides").map(|entry| entry.expect("an entry").path());
    let guides: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    assert!(guides.len() >= 18, "{guides:?}");
    for file in guides {
        let name = file.file_stem().expect("a name").to_string_lossy();
        let page = pages.get(&format!("/docs/{name}")).unwrap_or_else(|| panic!("{name} is not in guide.rs"));
        let source = std::fs::read_to_string(&file).expect("a text");
        let title = source.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a title");
        assert!(page.contains(&format!(">{title}</h1>")), "{name}: {title}");
        let headings = source.lines().filter(|line| line.starts_with("## ")).count();
        assert_eq!(page.matches("<h2 id=\"").count(), headings, "{name}");
    }
    let contents = pages["/docs"].split_once("<main").expect("the contents").1;
    let links = values(contents, "href").into_iter().filter(|url| url.starts_with("/docs/"));
    let order: Vec<_> = links.filter(|url| !url.starts_with("/docs/reference")).collect();
    assert_eq!(order.first(), Some(&"/docs/quickstart"));
    for pair in order.windows(2) {
        let next = format!("href=\"{}\">Next: ", pair[1]);
        assert!(pages[pair[0]].contains(&next), "{pair:?}");
    }
    assert!(!pages[order[order.len() - 1]].contains(">Next: "), "{order:?}");
}

/// Every link and every anchor on every page resolves, and nothing is repeated or left over from Markdown.
#[tokio::test]
async fn every_link_leads_somewhere() {
    let world = spawn().await;
    let pages = pages(&world).await;
    let (mut others, mut anchors) = (BTreeSet::new(), BTreeMap::new());
    for (path, html) in &pages {
        assert!(html.contains("href=\"/account\">Account</a>"), "{path} has no way back");
        assert!(!path.starts_with("/docs/reference") || !html.contains("127.0.0.1"), "{path}");
        let ids = values(html, "id");
        let distinct: BTreeSet<_> = ids.iter().copied().collect();
        assert_eq!(ids.len(), distinct.len(), "an id on {path} is repeated: {ids:?}");
        anchors.insert(path.as_str(), distinct);
    }
    for (path, html) in &pages {
        for url in values(html, "href").into_iter().chain(values(html, "src")).chain(values(html, "action")) {
            let (target, anchor) = url.split_once('#').unwrap_or((url, ""));
            let target = if target.is_empty() { path.as_str() } else { target };
            if let Some(ids) = anchors.get(target) {
                assert!(anchor.is_empty() || ids.contains(anchor), "{path}: {url}");
            } else if target.starts_with('/') {
                others.insert(target.to_owned());
            } else {
                assert!(target.starts_with("https://"), "{path}: {url}");
            }
        }
    }
    for path in others {
        let reply = world.nobody.get(&path).await;
        let is_there = reply.status == 200 || reply.header("location").starts_with("/signin");
        assert!(is_there, "{path}: {}", reply.status);
    }
}

#[tokio::test]
async fn every_operation_is_in_the_reference_once() {
    let world = spawn().await;
    let pages = pages(&world).await;
    let overview = &pages["/docs/reference"];
    let tags: Vec<_> = pages.iter().filter(|(path, _)| path.starts_with("/docs/reference/")).collect();
    for operation in operations::all() {
        let id = &operation.id;
        let place = format!("<h2 id=\"{id}\">");
        let found: Vec<_> = tags.iter().filter(|(_, html)| html.contains(&place)).collect();
        let [(path, html)] = found[..] else { panic!("{id} is on {} pages", found.len()) };
        assert_eq!(html.matches(&place).count(), 1, "{id}");
        let call = format!("<b>{}</b> <code>{}</code>", operation.method, operation.path);
        let section = html.split(&place).nth(1).and_then(|rest| rest.split("</section>").next()).expect("a section");
        assert!(section.contains(&call), "{id}: {section}");
        for status in &operation.statuses {
            assert!(section.contains(&format!("<th scope=\"row\">{status} ")), "{id}: {status}");
        }
        assert_eq!(overview.matches(&format!("href=\"{path}#{id}\"")).count(), 1, "{id}");
    }
    let [(_, links)] = tags.iter().filter(|(path, _)| path.ends_with("/links")).collect::<Vec<_>>()[..] else {
        panic!("one page for links")
    };
    for part in [
        "an account’s secret key, or an affiliate’s credential",
        "curl -X POST &#34;$DL_BASE_URL/v1/links&#34;",
        "<code>custom_id</code>",
        "href=\"/docs/reference/errors#link_id_taken\"",
        "<h2 id=\"LinkDetail\">",
    ] {
        assert!(links.contains(part), "{part}");
    }
    for (path, part) in [
        ("links", "<small>1 to 100</small>"),
        ("links", "<small>Headers: <code>Idempotency-Replayed</code>, <code>Location</code></small>"),
        ("links", "<small>matches <code>"),
        ("links", "deprecated</small>"),
        ("account", "<code>account.updated</code>, <code>"),
        ("webhooks", "<small>default <code>31</code></small>"),
        ("webhooks", "<h2 id=\"on_click\">"),
        ("webhooks", "<th scope=\"row\" role=\"rowheader\"><code>webhook-signature</code>"),
        ("webhooks", "&#34;event&#34;: &#34;click&#34;"),
        ("webhooks", "<h2 id=\"ClickEvent\">"),
    ] {
        assert!(pages[&format!("/docs/reference/{path}")].contains(part), "{path}: {part}");
    }
    // A limit is stated once, in one unit.
    for (path, html) in &tags {
        for part in ["at most 2048", "2,048 bytes.</td><td>at most", "at most 2,048 characters; "] {
            assert!(!html.contains(part), "{path}: {part}");
        }
    }
    let errors = &pages["/docs/reference/errors"];
    for object in ["RowError", "RequirementV1"] {
        assert!(errors.contains(&format!("<h2 id=\"{object}\">")), "{object}");
    }
    for (path, html) in tags {
        assert!(!html.contains('`'), "{path} shows Markdown");
    }
    for code in ErrorCode::ALL {
        assert!(errors.contains(&format!("<tr id=\"{}\" role=\"row\">", code.as_str())), "{code:?}");
        assert!(code.meaning().is_some_and(|text| text.ends_with('.')), "{code:?}");
    }
}

#[tokio::test]
async fn the_search_finds_guides_and_operations() {
    let world = spawn().await;
    for (query, expected) in [
        ("TLS certificate", "href=\"/docs/self-hosting#tls\""),
        ("deferred deep", "href=\"/docs/deferred-links#deferred-links\""),
        ("create_link", "href=\"/docs/reference/links#create_link\""),
        ("/v1/links/{link_id}/qr.{format}", "href=\"/docs/reference/links#link_qr\""),
        ("link_id_taken", "href=\"/docs/reference/errors#link_id_taken\""),
        (
            "invalid_theme_color hex digits",
            "The color is not # followed by 3 or 6 <mark>hex</mark> <mark>digits</mark>.",
        ),
        ("webhook signature", "<mark>"),
        ("conversion_rate", "href=\"/docs/reference/analytics#LinkStats\""),
        ("cname_target", "href=\"/docs/reference/domains#DomainDetail\""),
        ("LinkDetail", "href=\"/docs/reference/links#LinkDetail\""),
        ("domain.verified", "href=\"/docs/reference/account#AuditEntry\""),
        ("webhook-timestamp", "href=\"/docs/reference/webhooks#on_click\""),
        ("retry_for", "href=\"/docs/reference/webhooks#create_webhook\""),
        ("x402Version", "href=\"/docs/reference/errors#object\""),
        ("429", "href=\"/docs/reference/errors#rate_limited\""),
        ("cors", "href=\"/docs/api#calls-from-web-pages-cors\""),
        ("authentication", "href=\"/docs/api#authentication\""),
        ("pagination", "href=\"/docs/api#pagination\""),
        ("retries", "href=\"/docs/api#errors-retries-and-limits\""),
        ("webhooks signing", "href=\"/docs/webhooks#"),
        ("quokka", "No results for “<bdi>quokka</bdi>”"),
        ("", "Enter one or more words"),
        (" \u{0}\u{7} ", "Enter one or more words"),
    ] {
        let page = search(&world, query).await;
        assert!(page.contains(expected), "{query:?}: {page}");
        assert!(page.contains("aria-label=\"Documentation\"") && page.contains("id=\"q\""), "{query:?}");
    }
    // What many entries have is cut, and the page says so.
    let many = search(&world, "link").await;
    let listed = many.split_once("<ul class=\"card entries\">").expect("results").1;
    assert_eq!(listed.matches("<li><a href=").count(), 20, "{many}");
    assert!(
        many.contains("The best 20 of ") && !search(&world, "conversion_rate").await.contains("The best "),
        "{many}"
    );
    let none = world.nobody.get("/docs/search").await;
    assert!(none.status == 200 && none.text().contains("Enter one or more words"));
    let head = world.nobody.ask(Method::HEAD, "/docs/search?q=link").send().await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    let posted = world.nobody.ask(Method::POST, "/docs/search?q=link").send().await;
    assert_eq!(posted.outcome(), "405 method_not_allowed");
}

/// What is searched for is shown as text, and only its beginning is looked at.
#[tokio::test]
async fn a_search_does_not_do_what_its_words_say() {
    let world = spawn().await;
    for query in [
        "\"><script>alert(1)</script>",
        "</bdi><svg/onload=alert(1)>",
        "'\" autofocus onfocus=alert(1) x=\"",
        "{{7*7}}",
    ] {
        let page = search(&world, query).await;
        assert!(!page.contains("<script") && !page.contains("<svg/onload") && !page.contains("\" autofocus"), "{page}");
        assert!(page.contains("No results for"), "{page}");
    }
    let long = search(&world, &"x".repeat(4_000)).await;
    assert!(long.len() < 32 * 1_024 && !long.contains(&"x".repeat(101)), "{long}");
    let repeated = world.nobody.get("/docs/search?q=webhooks&q=domains").await;
    assert!(repeated.status == 200 && repeated.text().contains("value=\"webhooks\""));
}

/// X12: no page of the documentation has a script, and its policy allows nothing but its own style.
#[tokio::test]
async fn x12_the_documentation_runs_nothing() {
    let world = spawn().await;
    let mut pages = pages(&world).await;
    assert!(pages.len() >= 40, "{:?}", pages.keys());
    pages.insert("/docs/search?q=link".to_owned(), search(&world, "link").await);
    for (path, html) in &pages {
        let reply = world.nobody.get(path).await;
        let style = html.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>")).expect("a style").0;
        let hash = STANDARD.encode(Sha256::digest(style));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; img-src 'self'; form-action 'self'; base-uri 'none'; \
             frame-ancestors 'none'"
        );
        assert_eq!(reply.header("content-security-policy"), policy, "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(html.matches("<style").count(), 1, "{path}");
        let stops = html.split('<').filter(|element| element.contains(" tabindex=\"0\""));
        let stops: Vec<_> = stops.filter(|element| !element.starts_with("pre class=\"wide\"")).collect();
        assert!(stops.iter().all(|stop| stop.starts_with("div class=\"scroll\"")), "{path}: {stops:?}");
        let names: BTreeSet<_> = stops.iter().collect();
        assert_eq!(names.len(), stops.len(), "{path} has two tab stops with one name: {stops:?}");
        for part in ["<script", " style=\"", " onload", " onclick", "javascript:"] {
            assert!(!html.contains(part), "{path} has {part}");
        }
        let max = if path.starts_with("/docs/reference") { MAX_REFERENCE_BYTES } else { MAX_BYTES };
        assert!(html.len() <= max, "{path} has {} bytes", html.len());
    }
}

#[tokio::test]
async fn other_spellings_of_a_page_lead_to_it() {
    let world = spawn().await;
    for (path, expected) in [
        ("/docs/", "303 /docs"),
        ("/docs/quickstart/", "303 /docs/quickstart"),
        ("/docs/quickstart.md", "303 /docs/quickstart"),
        ("/docs/reference/", "303 /docs/reference"),
        ("/docs/reference/links/", "303 /docs/reference/links"),
        ("/docs/search/?q=abc", "303 /docs/search?q=abc"),
        ("/docs/quickstart/?utm_source=x", "303 /docs/quickstart?utm_source=x"),
        ("/docs/nowhere/", "404 "),
        ("/docs/nowhere.md", "404 "),
        ("/docs/quickstart.md/", "404 "),
        ("/docs/quickstart//", "404 "),
    ] {
        let reply = world.nobody.get(path).await;
        assert_eq!(format!("{} {}", reply.status, reply.header("location")), expected, "{path}");
    }
}

/// A browser that asks for a page that does not exist gets the contents and the search.
#[tokio::test]
async fn a_missing_page_leads_back_to_the_documentation() {
    let world = spawn().await;
    let reply = world.nobody.browse(Method::GET, "/docs/nowhere").send().await;
    let page = reply.text();
    assert_eq!((reply.status, reply.header("vary")), (404, "Accept"));
    for part in ["<h1>Page not found</h1>", "id=\"q\"", "aria-label=\"Documentation\"", "href=\"/docs\">contents</a>"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("deleted"), "{page}");
}

/// Search engines show what a page is about, and its address is not told to other sites.
#[tokio::test]
async fn pages_say_what_they_are_about() {
    let world = spawn().await;
    for (path, about) in [
        ("/docs", "How to create links, open apps from them, measure results and run the service."),
        ("/docs/webhooks", "Receive events on your server."),
        ("/docs/reference/errors", "The error object, and what each code means."),
    ] {
        let reply = world.nobody.get(path).await;
        assert_eq!(reply.header("referrer-policy"), "same-origin", "{path}");
        let meta = format!("<meta name=\"description\" content=\"{about}\">");
        assert!(reply.text().contains(&meta), "{path}");
    }
}
