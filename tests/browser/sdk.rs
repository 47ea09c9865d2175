//! The web SDK as a page of another origin uses it: the example page comes from a separate server, and its requests
//! pass through a recording proxy.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use deeplink_server::config::Config;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::account::enter;
use crate::browser::{Browser, PATIENCE, browse};
use crate::device::WINDOWS;
use deeplink_testing::{Role, World, eventually, spawn_with};

const EXAMPLE: &str = include_str!("../../examples/web/index.html");

/// A recorded request.
#[derive(Debug, Clone)]
struct Sent {
    method: String,
    path: String,
    /// The lines of its head, with header names in lower case.
    head: Vec<(String, String)>,
}

impl Sent {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A proxy to the service, on its own port, that records everything.
struct Wire {
    address: SocketAddr,
    passed: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Wire {
    async fn to(service: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let passed: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let kept = Arc::clone(&passed);
        tokio::spawn(async move {
            while let Ok((page, _)) = listener.accept().await {
                let number = {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.push(Vec::new());
                    kept.len() - 1
                };
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    // Either side may disconnect at any time.
                    let _ = carry(page, service, &kept, number).await;
                });
            }
        });
        Self { address, passed }
    }

    /// Every request so far, in the order of each connection.
    fn sent(&self) -> Vec<Sent> {
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        passed.iter().flat_map(|bytes| requests(&String::from_utf8_lossy(bytes))).collect()
    }
}

async fn carry(
    mut page: TcpStream,
    service: SocketAddr,
    kept: &Mutex<Vec<Vec<u8>>>,
    number: usize,
) -> std::io::Result<()> {
    let mut service = TcpStream::connect(service).await?;
    let (mut from_page, mut from_service) = (vec![0; 16_384], vec![0; 16_384]);
    loop {
        tokio::select! {
            read = page.read(&mut from_page) => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                kept.lock().unwrap_or_else(PoisonError::into_inner)[number].extend_from_slice(&from_page[..read]);
                service.write_all(&from_page[..read]).await?;
            }
            read = service.read(&mut from_service) => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                page.write_all(&from_service[..read]).await?;
            }
        }
    }
}

/// The requests that follow each other on one connection; bodies are JSON on one line.
fn requests(text: &str) -> Vec<Sent> {
    let mut found: Vec<Sent> = Vec::new();
    for line in text.split("\r\n") {
        let at = ["GET /", "POST /", "PUT /", "OPTIONS /"].iter().filter_map(|start| line.find(start)).min();
        if let Some(at) = at.filter(|_| line.ends_with(" HTTP/1.1")) {
            let mut words = line[at..].split(' ').map(str::to_owned);
            let mut word = || words.next().expect("a request line");
            found.push(Sent { method: word(), path: word(), head: Vec::new() });
        } else if let (Some(last), Some((name, value))) = (found.last_mut(), line.split_once(": ")) {
            last.head.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }
    found
}

/// A server with only the example page.
async fn example_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut page, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = [0; 8_192];
                if page.read(&mut head).await.is_ok() {
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{EXAMPLE}",
                        EXAMPLE.len()
                    );
                    let _ = page.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    address
}

/// A page of another origin with the SDK, in an account that has a link and a publishable key.
struct Shop<'a> {
    browser: &'a Browser,
    wire: Wire,
    page: String,
    key: String,
}

const LINK: &str = "spring-42";

/// Creates an account with a link and a publishable key; returns the key.
async fn account(adjust: impl Fn(&mut Config)) -> (World, String) {
    let world = spawn_with(adjust).await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let made = world.a.post("/v1/auth/publishable-keys", &json!({"domain": "go.example.com"})).await;
    let link = json!({"custom_id": LINK, "web_url": "https://shop.example.com/", "metadata": {"campaign": 42}});
    world.a.make_of(&link).await;
    (world, made.member("key"))
}

impl<'a> Shop<'a> {
    async fn open(browser: &'a Browser, key: &str) -> Self {
        let wire = Wire::to(browser.world.node(0).address).await;
        let page = format!("http://localhost:{}/", example_server().await.port());
        browser.be(WINDOWS, "light").await;
        let shop = Self { browser, wire, page, key: key.to_owned() };
        shop.begin(key).await;
        shop
    }

    /// Fills in the form at the top of the page.
    async fn begin(&self, key: &str) {
        let browser = self.browser;
        browser.open(&self.page).await;
        browser.fill("base", &format!("http://localhost:{}", self.wire.address.port())).await;
        browser.fill("key", key).await;
        browser.fill("link", LINK).await;
        browser.tap_and_hear(self, "begin button", "init").await;
    }

    /// Presses a button; returns the page's message.
    async fn press(&self, id: &str) -> Value {
        let said = self.browser.tap_and_hear(self, id, id).await;
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{id}: {error}: {said}"))
    }

    async fn funnel(&self) -> Value {
        self.browser.world.a.get(&format!("/v1/analytics/stats?link_ids={LINK}")).await.json()["funnel"].clone()
    }
}

impl Browser {
    /// Taps the element of `#selector` and returns the page's message.
    async fn tap_and_hear(&self, _: &Shop<'_>, selector: &str, name: &str) -> String {
        let () = self.eval("(document.getElementById('said').textContent = '', null)").await;
        self.click(&format!("#{selector}")).await;
        self.until("document.getElementById('said').textContent !== ''").await;
        let said: String = self.eval("document.getElementById('said').textContent").await;
        let said = said.strip_prefix(name).unwrap_or_else(|| panic!("{name} is not answered: {said}"));
        assert!(name != "init" || said.starts_with(": "), "init{said}");
        said.trim_start_matches(" failed").trim_start_matches(": ").to_owned()
    }
}

/// Everything that the SDK does, from a page of another origin, is exactly what the account counts.
#[tokio::test]
async fn a_page_of_another_origin_reports_what_happens_on_it() {
    let (world, key) = account(|_| {}).await;
    browse(world, async |browser| {
        // A person who is signed in at the service opens the shop: their session must not be sent.
        enter(browser, &browser.world.a).await;
        let shop = Shop::open(browser, &key).await;

        let link = shop.press("get").await;
        assert_eq!((&link["link_id"], &link["metadata"]), (&json!(LINK), &json!({"campaign": 42})));
        let clicked = shop.press("click").await;
        assert_eq!((&clicked["link_id"], &clicked["platform"]), (&json!(LINK), &json!("windows")));
        assert_eq!(shop.press("attribute").await, json!({"success": true}));
        let early = shop.press("convert").await;
        assert_eq!((&early["code"], &early["field"]), (&json!("parse_error"), &json!("user_id")), "{early}");
        assert_eq!(shop.press("identify").await, json!({"success": true}));
        let converted = shop.press("convert").await;
        assert_eq!(converted["accepted"], json!(1), "{converted}");
        browser.picture("sdk-example").await;

        let expected = json!({
            "clicks": 1,
            "new_users": {"installed": 1, "identified": 1},
            "returning_users": {"reinstalled": 0, "new_device": 0, "engaged": 0},
            "conversions": {"purchase": 1},
            "revenue": [{"currency": "EUR", "amount_cents": 4990}],
        });
        eventually("the funnel shows it", PATIENCE, || async { shop.funnel().await == expected }).await;
        let stored = "SELECT install_id || ' ' || context FROM installs";
        let stored = browser.world.db.texts(stored).await.remove(0);
        let install: String = browser.eval("localStorage.getItem('deeplink.install_id')").await;
        assert!(stored.starts_with(&install) && stored.contains("\"platform\":\"web\""), "{stored}");
        let amounts = "SELECT amount_cents || ' ' || currency || ' ' || metadata FROM conversions";
        assert_eq!(browser.world.db.texts(amounts).await, ["4990 EUR {\"cart\":\"example\"}"]);

        // The same browser is the same install when the page is opened again, and is then a returning one.
        shop.begin(&key).await;
        assert_eq!(shop.press("attribute").await, json!({"success": true}));
        let again = eventually_engaged(&shop).await;
        assert_eq!(again["new_users"], json!({"installed": 1, "identified": 1}));

        let sent = shop.wire.sent();
        let reports: Vec<_> = sent.iter().filter(|sent| sent.path.starts_with("/v1/")).collect();
        assert!(reports.len() >= 7, "{sent:?}");
        for sent in sent.iter().filter(|sent| !sent.path.starts_with("/sdk/")) {
            assert_eq!(sent.header("cookie"), None, "{sent:?}");
        }
        for report in reports.iter().filter(|sent| sent.method != "OPTIONS") {
            assert_eq!(report.header("authorization"), Some(&*format!("Bearer {}", shop.key)), "{report:?}");
            assert_eq!(report.header("idempotency-key").is_some(), is_kept_apart(report), "{report:?}");
            assert!(!report.path.contains('?'), "{report:?}");
        }
        assert_eq!(browser.complaints().await, [""; 0]);
    })
    .await;
}

async fn eventually_engaged(shop: &Shop<'_>) -> Value {
    let engaged = json!(1);
    let is_there = || async { shop.funnel().await["returning_users"]["engaged"] == engaged };
    eventually("the second visit is counted", PATIENCE, is_there).await;
    shop.funnel().await
}

/// Whether a repeat of this report must be recognized.
fn is_kept_apart(report: &Sent) -> bool {
    report.path.ends_with("/attribute") || report.path.ends_with("/convert")
}

/// From the tap on a link to the account's counts: the link leads to a page with the link's id in its URL, and the page
/// reads it there and reports.
#[tokio::test]
async fn a_tap_is_counted_through_to_the_conversion() {
    let (world, key) = account(|_| {}).await;
    browse(world, async |browser| {
        let shop = Shop::open(browser, &key).await;
        let lead = json!({"custom_id": "summer-42", "web_url": "https://shop.example.com/?dl_link=summer-42"});
        browser.world.a.make_of(&lead).await;
        // The shop is on this machine, whose address no account may use.
        let here = "UPDATE links SET web_url = replace(web_url, 'https://shop.example.com/', '{}') WHERE link_id = 'summer-42'";
        browser.world.db.execute(here.replace("{}", &shop.page)).await;
        browser.open(&browser.service("/r/summer-42")).await;
        browser.until(&format!("location.href === '{}?dl_link=summer-42'", shop.page)).await;
        browser.fill("base", &format!("http://localhost:{}", shop.wire.address.port())).await;
        browser.fill("key", &key).await;
        browser.fill("link", "not-this-one").await;
        let said = browser.tap_and_hear(&shop, "begin button", "init").await;
        assert!(said.contains("\"linkFromUrl\": \"summer-42\""), "{said}");
        let () = browser
            .eval("deeplink.attribute({ linkId: deeplink.linkFromUrl() }).then(() => deeplink.identify('u')).then(() => null)")
            .await;
        assert_eq!(shop.press("convert").await["accepted"], json!(1));
        let funnel = || async {
            let stats = browser.world.a.get("/v1/analytics/stats?link_ids=summer-42").await.json();
            stats["funnel"]["clicks"] == json!(1)
                && stats["funnel"]["new_users"] == json!({"installed": 1, "identified": 1})
                && stats["funnel"]["conversions"] == json!({"purchase": 1})
        };
        eventually("everything is counted", PATIENCE, funnel).await;
    })
    .await;
}

/// A report is sent even if its page is left, also the first one, which needs two requests.
#[tokio::test]
async fn a_report_survives_the_page() {
    let (world, key) = account(|_| {}).await;
    browse(world, async |browser| {
        let shop = Shop::open(browser, &key).await;
        let () = browser.eval(&format!("(deeplink.click('{LINK}'), location.href = 'about:blank', null)")).await;
        let counted = || async { shop.funnel().await["clicks"] == json!(1) };
        eventually("the click is counted", PATIENCE, counted).await;
    })
    .await;
}

/// Errors are reported by their code, and nothing is counted.
#[tokio::test]
async fn failures_have_codes() {
    let (world, key) = account(|config| config.limits.reports_per_second = 1).await;
    browse(world, async |browser| {
        let shop = Shop::open(browser, &key).await;
        let outcome = async |call: &str| -> String {
            let facts = "(error) => `${error.name} ${error.code} ${error.status} ${error.field} ${!!error.requestId}`";
            browser.eval(&format!("Promise.resolve().then(() => {call}).then(() => 'fine', {facts})")).await
        };
        for (call, expected) in [
            ("deeplink.click('no-such-link')", "DeeplinkError not_found 404 undefined true"),
            ("deeplink.getLink('no-such-link')", "DeeplinkError not_found 404 undefined true"),
            ("deeplink.attribute({ linkId: 'no-such-link' })", "DeeplinkError not_found 404 undefined true"),
            ("deeplink.identify('')", "DeeplinkError bad_request 400 user_id true"),
            (
                "deeplink.convert({ userId: 'u', type: 'purchase', amountCents: 1 })",
                "DeeplinkError parse_error 400 currency true",
            ),
            ("deeplink.init({ key: 'dl_live_0' })", "DeeplinkError invalid_key 0 undefined false"),
        ] {
            assert_eq!(outcome(call).await, expected, "{call}");
        }
        // Twenty at once: the burst, then one that waited; the others are told when to retry.
        let many = format!(
            "Promise.all(Array.from({{ length: 20 }}, () => deeplink.click('{LINK}')
               .then(() => 'fine', (error) => `${{error.code}} ${{error.retryAfter >= 1}}`)))"
        );
        let outcomes: Vec<String> = browser.eval(&many).await;
        let count = |of: &str| outcomes.iter().filter(|outcome| *outcome == of).count();
        let (fine, refused) = (count("fine"), count("rate_limited true"));
        assert!(fine >= 1 && refused >= 1 && fine + refused == 20, "{outcomes:?}");
        let counted = || async { shop.funnel().await["clicks"] == json!(fine) };
        eventually("what was acknowledged is counted", PATIENCE, counted).await;
        // None was sent more than twice, and none needs to be recognized as a repeat: refused ones were not counted.
        let sent = shop.wire.sent();
        let clicks = sent.iter().filter(|sent| sent.method == "POST" && sent.path.ends_with("/click"));
        let clicks: Vec<_> = clicks.collect();
        assert!((22..=41).contains(&clicks.len()), "{}", clicks.len());
        assert!(clicks.iter().all(|sent| sent.header("idempotency-key").is_none()), "{clicks:?}");

        let wrong = format!("pk_live_{}", "0".repeat(48));
        browser.world.note_secret(&wrong);
        shop.begin(&wrong).await;
        assert_eq!(shop.press("click").await["code"], json!("invalid_key"));
        let nowhere =
            "(deeplink.init({ key: 'pk_live_' + '0'.repeat(48), baseUrl: 'http://localhost:9' }), deeplink.click('x'))";
        assert_eq!(outcome(nowhere).await, "DeeplinkError network 0 undefined false");
    })
    .await;
}

/// If the browser stores nothing, an install lives as long as its page.
#[tokio::test]
async fn it_works_where_storage_is_denied() {
    let (world, key) = account(|_| {}).await;
    browse(world, async |browser| {
        let deny = "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } })";
        browser.command("Page.addScriptToEvaluateOnNewDocument", json!({ "source": deny })).await;
        let shop = Shop::open(browser, &key).await;
        assert_eq!(shop.press("attribute").await, json!({"success": true}));
        assert_eq!(shop.press("attribute").await, json!({"success": true}));
        let ids: Vec<String> = browser.eval("[deeplink.installId(), deeplink.installId()]").await;
        assert_eq!(ids[0], ids[1]);
        assert_eq!(browser.world.db.texts("SELECT install_id FROM installs").await, [ids[0].clone()]);
    })
    .await;
}

/// A tap on a store link copies the deep link to the clipboard; if that is refused, the store link still works.
#[tokio::test]
async fn a_tap_leaves_the_link_on_the_clipboard() {
    let (world, key) = account(|_| {}).await;
    browse(world, async |browser| {
        let shop = Shop::open(browser, &key).await;
        let origin = shop.page.trim_end_matches('/');
        let grant = json!({"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"], "origin": origin});
        browser.command("Browser.grantPermissions", grant).await;
        browser.tap("store").await;
        browser.until("location.hash === '#store'").await;
        let expected = format!("http://localhost:{}/r/{LINK}", shop.wire.address.port());
        browser.until_copied(&expected).await;
        // A link that is added later is covered too, and the handler can be removed.
        let later = "(() => {
            const undo = deeplink.handoff('.later', 'https://go.example.com/later');
            document.querySelector('main').innerHTML = '<a id=later href=#a><b class=later>Go</b></a> <a id=other href=#b>Other</a>';
            self.undo = undo;
            return null;
          })()";
        let () = browser.eval(later).await;
        browser.tap("other").await;
        assert_eq!(browser.eval::<String>("navigator.clipboard.readText()").await, expected);
        browser.tap("later").await;
        browser.until_copied("https://go.example.com/later").await;
        let () = browser.eval("(undo(), navigator.clipboard.writeText('left as it was')).then(() => null)").await;
        browser.tap("later").await;
        assert_eq!(browser.eval::<String>("navigator.clipboard.readText()").await, "left as it was");
        let refuse = "(() => {
            Object.defineProperty(navigator, 'clipboard', { value: undefined });
            deeplink.handoff(document.getElementById('other'), 'https://go.example.com/');
            return null;
          })()";
        let () = browser.eval(refuse).await;
        browser.tap("other").await;
        browser.until("location.hash === '#b'").await;
        assert_eq!(browser.complaints().await, [""; 0]);
    })
    .await;
}
