//! The machine's lock, shared with other test runs, and the seed of a run.

use std::fs::File;

use deeplink_core::secret::Random;
use deeplink_doubles::machine::{target_tmp, told};

/// Reserves the machine for one test until the result is dropped: half of these tests measure time.
pub(crate) fn alone() -> File {
    let path = target_tmp().join("durability.lock");
    let file = File::create(path).expect("the lock file");
    file.lock().expect("the lock");
    file
}

/// The seed of the test's choices. It is printed, so that a failure can be reproduced.
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
