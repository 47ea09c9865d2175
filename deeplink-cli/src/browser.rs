//! Opens a URL in the user's browser, after printing it.

use std::io;

use url::Url;

use crate::context::Context;

/// Opens a web address. If no browser can be opened, that is only a warning: the address was printed.
pub(crate) fn open(ctx: &Context, address: &str) {
    // An address that the service sent must not start some other program.
    let opened = match Url::parse(address) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => {
            // The browser's output must not mix with ours, and it outlives this command.
            open::that_detached(address).map_err(|error| reason(&error))
        }
        _ => Err("not an http(s) URL".to_owned()),
    };
    if let Err(why) = opened {
        ctx.console.warn(&format!("could not open a browser ({why}); open the URL above"));
    }
}

/// Why no browser was opened. For a launcher that failed, the crate has the `Debug` form of its command and status.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let failed = || {
        let (launcher, rest) = text.strip_prefix("Launcher \"")?.split_once('"')?;
        let status = rest.split_once("ExitStatus(unix_wait_status(")?.1.split(')').next()?.parse::<u32>().ok()?;
        Some(match status & 0x7f {
            0 => format!("{launcher} exited with status {}", status >> 8),
            signal => format!("{launcher} was ended by signal {signal}"),
        })
    };
    failed().unwrap_or_else(|| crate::error::plain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_that_failed_is_described() {
        let failed = |status: u32| {
            let text = format!(
                "Launcher \"xdg-open\" \"https://dl.example.com/signin\" failed with ExitStatus(unix_wait_status({status}))"
            );
            reason(&io::Error::other(text))
        };
        assert_eq!(failed(768), "xdg-open exited with status 3");
        assert_eq!(failed(9), "xdg-open was ended by signal 9");
        assert_eq!(reason(&io::Error::from_raw_os_error(2)), "no such file or directory");
    }
}
