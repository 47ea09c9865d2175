//! Checks that need no network: files and the key in them.

use deeplink_core::text::shell_word;
use std::time::Instant;

use deeplink_client::Auth;
use deeplink_client::doctor::{Check, Status};

use crate::context::Context;
use crate::error::Stop;

/// The configuration file and its directory. A file that others may read has already ended the command.
pub(super) fn config(ctx: &Context) -> Check {
    let (file, dir) = (ctx.dirs.config_file(), &ctx.dirs.config);
    let check = |status, message: String, fix| Check::new("config.files", &ctx.profile, status, message, fix);
    if !dir.exists() {
        return check(
            Status::Skip,
            "no configuration file: all settings come from flags and environment variables".to_owned(),
            None,
        );
    }
    if let Some(mode) = open_to_others(dir) {
        let path = dir.to_string_lossy().into_owned();
        let fix = format!("chmod 700 {}", shell_word(&path));
        return check(Status::Warn, format!("{path} is readable by other users (mode {mode:04o})"), Some(fix));
    }
    check(Status::Ok, format!("{} and its directory are private", file.display()), None)
}

#[cfg(unix)]
fn open_to_others(dir: &std::path::Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(dir).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn open_to_others(_: &std::path::Path) -> Option<u32> {
    None
}

/// Whether there is a key, and where it came from.
pub(super) async fn key(ctx: &Context) -> (Check, Auth) {
    let start = Instant::now();
    let check = |status, message: String, fix| Check::new("config.key", &ctx.profile, status, message, fix);
    match ctx.key().await {
        Ok(found) => {
            let took = start.elapsed().as_millis();
            let message = format!("{} from {}, read in {took} ms", found.key, found.source);
            (check(Status::Ok, message, None), Auth::SecretKey(found.key))
        }
        Err(Stop::Failed(failure)) => (check(Status::Fail, failure.message, failure.hint), Auth::None),
        Err(_) => (check(Status::Fail, "the key could not be read".to_owned(), None), Auth::None),
    }
}
