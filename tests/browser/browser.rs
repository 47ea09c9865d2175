//! A test's own headless Chromium, driven through chromedriver, and its observations of a page.

use std::fmt::{Debug, Write as _};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use futures_util::FutureExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use thirtyfour::LoggingPrefsLogLevel;
use thirtyfour::common::capabilities::chromium::ChromiumLikeCapabilities;
use thirtyfour::prelude::*;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::device::Device;
use crate::elsewhere::Elsewhere;
use deeplink_testing::World;

/// The longest that a page may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Whether the open page is loaded with its images.
pub(crate) const LOADED: &str = "document.readyState === 'complete'";

/// Runs in every page before its own script: records layout shifts, policy violations, navigations and key presses.
/// While `held` is set, navigations are blocked.
const WATCH: &str = r#"(() => {
  const seen = { shift: 0, refused: [], went: [], tapped: [], hidden: [], keys: 0, held: sessionStorage.held === "yes" };
  Object.defineProperty(window, "seen", { value: seen });
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) seen.shift += entry.value; })
    .observe({ type: "layout-shift", buffered: true });
  document.addEventListener("securitypolicyviolation", (e) => seen.refused.push(`${e.effectiveDirective} ${e.blockedURI} ${e.sample}`));
  addEventListener("keydown", () => { seen.keys += 1; }, true);
  document.addEventListener("click", () => seen.tapped.push(Math.round(performance.now())), true);
  document.addEventListener("visibilitychange", () => { if (document.hidden) seen.hidden.push(Math.round(performance.now())); });
  navigation.addEventListener("navigate", (e) => {
    seen.went.push([e.destination.url, Math.round(performance.now())]);
    if (seen.held) e.preventDefault();
  });
})()"#;

/// A browser, the service it visits, and everything else.
pub(crate) struct Browser {
    pub(crate) driver: WebDriver,
    pub(crate) world: World,
    pub(crate) elsewhere: Elsewhere,
    process: Child,
    _profile: TempDir,
}

/// Lends a test a browser. It ends with the test, whatever its result.
pub(crate) async fn browse(world: World, test: impl AsyncFnOnce(&Browser)) {
    let mut browser = Browser::start(world).await;
    let outcome = AssertUnwindSafe(test(&browser)).catch_unwind().await;
    let ended = browser.driver.clone().quit().await;
    let killed = browser.process.kill().await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
    ended.expect("the browser ends");
    killed.expect("chromedriver ends");
}

impl Browser {
    async fn start(world: World) -> Self {
        let elsewhere = Elsewhere::start().await;
        let (process, port) = chromedriver().await;
        let profile = tempfile::tempdir().expect("a directory");
        let service = world.node(0).address;
        let mut capabilities = DesiredCapabilities::chrome();
        for flag in [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            "--ignore-certificate-errors",
            // The hosts of tenants are served without TLS here.
            "--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable",
            &format!("--user-data-dir={}", profile.path().display()),
            &format!(
                "--host-resolver-rules=MAP *:443 {}, MAP *.example.com:80 {service}, EXCLUDE localhost",
                elsewhere.address
            ),
        ] {
            capabilities.add_arg(flag).expect("a flag");
        }
        capabilities.set_browser_log_level(LoggingPrefsLogLevel::All).expect("a log level");
        let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), capabilities)
            .await
            .unwrap_or_else(|error| panic!("chromedriver could not start Chromium: {error}"));
        let browser = Self { driver, world, elsewhere, process, _profile: profile };
        browser.command("Page.addScriptToEvaluateOnNewDocument", json!({ "source": WATCH })).await;
        browser
    }

    /// A command of the DevTools protocol.
    pub(crate) async fn command(&self, method: &str, parameters: Value) -> Value {
        let reply = self.driver.cdp().send_raw(method, parameters).await;
        reply.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Emulates a browser on this device, in light or dark.
    pub(crate) async fn be(&self, device: Device, scheme: &str) {
        self.be_with(device, "", scheme).await;
    }

    /// The same with a suffix on its User-Agent, as in-app browsers have it.
    pub(crate) async fn be_with(&self, device: Device, agent_suffix: &str, scheme: &str) {
        self.command("Emulation.setUserAgentOverride", device.identity(agent_suffix)).await;
        self.command("Emulation.setDeviceMetricsOverride", device.metrics()).await;
        let touch = json!({ "enabled": device.is_touched(), "maxTouchPoints": device.touch_points.max(1) });
        self.command("Emulation.setTouchEmulationEnabled", touch).await;
        self.prefer(&[("prefers-color-scheme", scheme)]).await;
    }

    /// A browser on this device, set to this language.
    pub(crate) async fn be_in(&self, device: Device, language: &str, scheme: &str) {
        self.be(device, scheme).await;
        let mut identity = device.identity("");
        identity["acceptLanguage"] = language.into();
        self.command("Emulation.setUserAgentOverride", identity).await;
    }

    /// Sets media features.
    pub(crate) async fn prefer(&self, features: &[(&str, &str)]) {
        let features: Vec<_> = features.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        self.command("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// The URL of a path on the service's own host.
    pub(crate) fn service(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.world.node(0).address.port())
    }

    /// Opens a URL and waits until its images are loaded. On a slow machine chromedriver may report that too early.
    pub(crate) async fn open(&self, url: &str) {
        let before: f64 = self.try_eval("performance.timeOrigin").await.unwrap_or_default();
        self.driver.goto(url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
        self.until(&format!("performance.timeOrigin !== {before} && {LOADED}")).await;
    }

    /// The value of an expression in the page; promises are awaited.
    pub(crate) async fn eval<T: DeserializeOwned>(&self, expression: &str) -> T {
        self.try_eval(expression).await.unwrap_or_else(|why| panic!("{expression}: {why}"))
    }

    /// The same if the page may be left meanwhile.
    async fn try_eval<T: DeserializeOwned>(&self, expression: &str) -> Result<T, String> {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": false });
        let reply = self.driver.cdp().send_raw("Runtime.evaluate", parameters).await.map_err(|why| why.to_string())?;
        if reply.get("exceptionDetails").is_some() {
            return Err(reply.to_string());
        }
        let value = reply["result"].get("value").cloned().unwrap_or_default();
        serde_json::from_value(value).map_err(|error| format!("{error}: {reply}"))
    }

    /// From here on the pages of this host block navigations, and only record where a tap leads.
    pub(crate) async fn hold(&self) {
        let _: Value = self.eval("(sessionStorage.held = 'yes', seen.held = true)").await;
    }

    /// The page's navigations since it was opened, with milliseconds.
    pub(crate) async fn went(&self) -> Vec<(String, u64)> {
        self.eval("seen.went").await
    }

    /// Taps an element as a finger does.
    pub(crate) async fn tap(&self, id: &str) {
        let element = self.driver.find(By::Id(id)).await.unwrap_or_else(|error| panic!("no {id}: {error}"));
        element.click().await.unwrap_or_else(|error| panic!("{id}: {error}"));
    }

    /// Taps the first element that a selector finds, and waits for the page that follows.
    pub(crate) async fn click(&self, selector: &str) {
        let element = self.driver.find(By::Css(selector)).await.unwrap_or_else(|error| panic!("{selector}: {error}"));
        element.click().await.unwrap_or_else(|error| panic!("{selector}: {error}"));
    }

    /// Whether the first element that a selector finds is shown.
    pub(crate) async fn is_shown(&self, selector: &str) -> bool {
        let element = self.driver.find(By::Css(selector)).await.unwrap_or_else(|error| panic!("{selector}: {error}"));
        element.is_displayed().await.unwrap_or_else(|error| panic!("{selector}: {error}"))
    }

    /// Moves the mouse to a place, in CSS pixels of the window.
    pub(crate) async fn point_at(&self, x: f64, y: f64) {
        self.command("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y })).await;
    }

    /// Types into a field.
    pub(crate) async fn fill(&self, id: &str, text: &str) {
        let field = self.driver.find(By::Id(id)).await.unwrap_or_else(|error| panic!("no {id}: {error}"));
        field.clear().await.unwrap_or_else(|error| panic!("{id}: {error}"));
        field.send_keys(text).await.unwrap_or_else(|error| panic!("{id}: {error}"));
    }

    /// The text of the first element that a selector finds, as soon as there is one.
    pub(crate) async fn text(&self, selector: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = match self.driver.find(By::Css(selector)).await {
                Ok(element) => element.text().await,
                Err(error) => Err(error),
            };
            match text {
                Ok(text) => return text,
                Err(error) => assert!(Instant::now() < end, "{selector}: {error}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the first element that a selector finds has this text, on whichever page.
    pub(crate) async fn until_it_says(&self, selector: &str, expected: &str) {
        let end = Instant::now() + PATIENCE;
        let mut said = None;
        while said.as_deref() != Some(expected) {
            assert!(Instant::now() < end, "{selector} says {said:?} and not {expected:?}");
            sleep(Duration::from_millis(20)).await;
            // During a navigation an element belongs to neither page.
            said = match self.driver.find(By::Css(selector)).await {
                Ok(element) => element.text().await.ok(),
                Err(_) => None,
            };
        }
    }

    /// The open page's path, with its query.
    pub(crate) async fn path(&self) -> String {
        let here = self.driver.current_url().await.expect("an address");
        here[url::Position::BeforePath..].to_owned()
    }

    /// Waits until an expression is true in the page; during a navigation it is not.
    pub(crate) async fn until(&self, what: &str) {
        self.until_it_gives(what, true).await;
    }

    /// Waits until an expression has this value in the page.
    async fn until_it_gives<T: DeserializeOwned + PartialEq + Debug>(&self, what: &str, expected: T) {
        let end = Instant::now() + PATIENCE;
        loop {
            let given = self.try_eval::<T>(what).await;
            if given.as_ref() == Ok(&expected) {
                return;
            }
            assert!(Instant::now() < end, "not in {PATIENCE:?}: {what} gives {given:?} and not {expected:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until this is on the clipboard, which is written to in the background.
    pub(crate) async fn until_copied(&self, expected: &str) {
        self.until_it_gives("navigator.clipboard.readText()", expected.to_owned()).await;
    }

    /// Waits until the browser is at an address.
    pub(crate) async fn until_at(&self, url: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let here = self.driver.current_url().await;
            if here.as_ref().is_ok_and(|here| here.as_str() == url) {
                break;
            }
            assert!(Instant::now() < end, "at {here:?}, not at {url}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Writes a picture of the whole page to `target/tmp/screenshots`.
    pub(crate) async fn picture(&self, name: &str) {
        let (width, height, whole): (f64, f64, f64) =
            self.eval("[innerWidth, innerHeight, document.documentElement.scrollHeight]").await;
        // Chromium moves a page that is written from right to left when it captures beyond the window.
        let bytes =
            if whole > height { self.shot(0.0, 0.0, width, whole).await } else { self.capture(json!({})).await };
        let file = screenshots().join(format!("{name}.png"));
        std::fs::write(&file, bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    /// Writes a picture of the window, without the rest of the page.
    pub(crate) async fn capture_window(&self, name: &str) {
        let file = screenshots().join(format!("{name}.png"));
        let bytes = self.capture(json!({})).await;
        std::fs::write(&file, bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    /// A part of the page as PNG; the numbers are CSS pixels.
    pub(crate) async fn shot(&self, left: f64, top: f64, width: f64, height: f64) -> Vec<u8> {
        let clip = json!({ "x": left, "y": top, "width": width, "height": height, "scale": 1 });
        self.capture(json!({ "captureBeyondViewport": true, "clip": clip })).await
    }

    async fn capture(&self, parameters: Value) -> Vec<u8> {
        let shot = self.command("Page.captureScreenshot", parameters).await;
        let data = shot["data"].as_str().expect("a picture");
        base64::engine::general_purpose::STANDARD.decode(data).expect("base64")
    }

    /// The console messages since the last call, without expected error statuses.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = self.driver.browser_log().await.expect("the console");
        log.into_iter().map(|entry| entry.message).filter(|text| !text.contains("Failed to load resource")).collect()
    }
}

/// Where screenshots go, for people to look at.
pub(crate) fn screenshots() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
    std::fs::create_dir_all(&folder).expect("a directory");
    folder
}

async fn chromedriver() -> (Child, u16) {
    // It takes a free port, and the same one for the other address family, where it may be in use.
    for _ in 0..5 {
        if let Some(running) = try_chromedriver().await {
            return running;
        }
    }
    panic!("chromedriver finds no port");
}

async fn try_chromedriver() -> Option<(Child, u16)> {
    let spawned = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).kill_on_drop(true).spawn();
    let mut process = spawned.unwrap_or_else(|error| {
        panic!("chromedriver cannot be started ({error}); tests/run installs it, on Debian the packages are chromium and chromium-driver")
    });
    let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
    let mut said = String::new();
    let port = timeout(PATIENCE, async {
        while let Some(line) = lines.next_line().await.expect("text") {
            if let Some(port) = line.strip_suffix('.').and_then(|line| line.rsplit_once("on port ")?.1.parse().ok()) {
                return Some(port);
            }
            let _ = writeln!(said, "{line}");
        }
        None
    });
    let port = port.await.ok().flatten();
    if port.is_none() && said.contains("port not available") {
        return None;
    }
    let port = port.unwrap_or_else(|| panic!("chromedriver names no port: {said}"));
    // Its later output is not used, but must not fill the pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Some((process, port))
}
