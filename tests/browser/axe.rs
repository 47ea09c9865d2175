//! The accessibility rules that can be checked automatically, by axe-core. `tests/run` brings it to `target/tools`.

use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;

use crate::browser::Browser;

/// WCAG 2.2 up to AA, and best practices.
const RUN: &str = "axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
  .then((found) => found.violations.map((rule) => `${rule.id}: ${rule.nodes.map((node) => node.html + ' ' + node.failureSummary).join(' | ')}`))";

fn script() -> &'static str {
    static SCRIPT: OnceLock<String> = OnceLock::new();
    SCRIPT.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
        let file = target.join("tools/axe-core/axe.min.js");
        std::fs::read_to_string(&file).unwrap_or_else(|error| {
            panic!("{}: {error}; tests/run takes it from the npm package axe-core", file.display())
        })
    })
}

/// The violations on the open page.
pub(crate) async fn violations(browser: &Browser) -> Vec<String> {
    let _: Value = browser.eval(&format!("{}; null", script())).await;
    browser.eval(RUN).await
}
