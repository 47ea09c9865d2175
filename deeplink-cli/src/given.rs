//! Names and ids from the command line, checked by the service's own rules: what breaks one is exit 3, and nothing is
//! sent.

use deeplink_core::domain::DomainName;
use deeplink_core::id::AppId;
use deeplink_core::link::is_link_id;

use crate::error::{Failure, Outcome};
use crate::escape;

/// The name of a domain, as the service stores it.
pub(crate) fn domain(text: &str) -> Outcome<DomainName> {
    Ok(text.parse::<DomainName>()?)
}

/// The value of `--host`: a name that could be a custom domain.
pub(crate) fn host(text: &str) -> Outcome<DomainName> {
    text.parse::<DomainName>().map_err(|invalid| {
        let failure = Failure::from(invalid);
        Failure { message: format!("--host: {}", failure.message), ..failure }.field("host").into()
    })
}

/// The id of a link that may exist.
pub(crate) fn link_id(text: &str) -> Outcome {
    if is_link_id(text) {
        return Ok(());
    }
    let what =
        format!("\"{}\" is not the id of a link; ids have 3 to 64 letters, digits or '-'", escape::one_line(text));
    let failure = Failure::invalid(what).code("invalid_id").field("link_id");
    Err(match meant(text) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
    .into())
}

/// What somebody wanted who gave this in place of a link's id.
fn meant(text: &str) -> Option<String> {
    if let Some((_, rest)) = text.split_once("://") {
        let (_, path) = rest.split(['?', '#']).next()?.trim_end_matches('/').rsplit_once('/')?;
        return is_link_id(path).then(|| format!("of a link's address, the last part is its id: use {path}"));
    }
    let is_list = text.contains([',', '\t', ';', '{', '[']) || ["id", "link_id", "custom_id"].contains(&text);
    is_list.then(|| "dl links list --all -o id prints the ids alone, one a line".to_owned())
}

/// The id of an app that may exist.
pub(crate) fn app_id(text: &str) -> Outcome {
    let Err(why) = text.parse::<AppId>() else { return Ok(()) };
    let what = format!("\"{}\" is {why}", escape::one_line(text));
    let hint = "dl apps list shows the ids of this account's apps";
    Err(Failure::invalid(what).code("invalid_id").field("app_id").hint(hint).into())
}
