//! Opens a URL in the user's browser, after printing it.

use url::Url;

use crate::context::Context;

/// Opens a web address. If no browser can be opened, that is only a warning: the address was printed.
pub(crate) fn open(ctx: &Context, address: &str) {
    // An address that the service sent must not start some other program.
    let opened = match Url::parse(address) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => {
            // The browser's output must not mix with ours, and it outlives this command.
            open::that_detached(address).map_err(|error| crate::error::plain(&error))
        }
        _ => Err("not an http(s) URL".to_owned()),
    };
    if let Err(why) = opened {
        ctx.console.warn(&format!("could not open a browser ({why}); open the URL above"));
    }
}
