//! What a test run is told from outside, and what it shares with other runs.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use deeplink_core::secret::Random;
use tokio::time::{Instant, sleep};
use url::Url;

#[expect(clippy::disallowed_methods, reason = "how a test run is told what to do")]
fn told(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// Far longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The PostgreSQL server to test on, if there is one.
pub(crate) fn postgres() -> Option<Url> {
    told("TEST_DATABASE_URL").map(|url| url.parse().expect("TEST_DATABASE_URL is a URL"))
}

/// Whether databases stay when their tests are over, because their whole server goes.
pub(crate) fn keeps_databases() -> bool {
    told("TEST_DATABASE_KEEP").is_some()
}

/// The machine for one test alone, until the result is dropped: half of these tests measure time.
pub(crate) fn alone() -> File {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("durability.lock");
    let file = File::create(path).expect("the lock file");
    file.lock().expect("the lock");
    file
}

/// What the test's choices come from. It is printed, so that a failure can be had again.
pub(crate) fn seed() -> u64 {
    let seed = match told("DURABILITY_SEED") {
        Some(seed) => seed.parse().expect("DURABILITY_SEED is a number"),
        None => Random::system().below(1_000_000_000),
    };
    say(&format!("run this again with DURABILITY_SEED={seed}"));
    seed
}

/// A line that the test runner shows when the test fails.
#[expect(clippy::print_stderr, reason = "a test has no other way to say something")]
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}

/// Asks again until there is nothing to say against `condition`; after `limit` the test has failed with the last answer.
pub(crate) async fn eventually<F>(what: &str, limit: Duration, mut condition: impl FnMut() -> F) -> Duration
where
    F: Future<Output = Result<(), String>>,
{
    let began = Instant::now();
    loop {
        match condition().await {
            Ok(()) => return began.elapsed(),
            Err(why) => assert!(began.elapsed() < limit, "not within {limit:?}: {what}: {why}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}
