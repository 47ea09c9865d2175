//! `dl sources`: URLs that conversions are posted to without a key.

mod create;
mod delete;
mod get;
mod list;
mod rotate;
mod send;

use std::borrow::Cow;

use deeplink_core::source::{SourceDetail, SourceUrl};

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::output::Record;

commands! {
    /// Manage URLs that accept conversions without a key
    #[command(after_help = crate::help::help("", &["dl sources create Shop", "dl sources list"]))]
    Sources {
        List(list::List),
        Create(create::Create),
        Get(get::Get),
        Delete(delete::Delete),
        Rotate(rotate::Rotate),
        Send(Box<send::Send>),
    }
}

/// A source's URL, masked in all later output.
fn url_of<'a>(ctx: &Context, source: &'a SourceDetail) -> Outcome<&'a SourceUrl> {
    let Some(url) = &source.webhook_url else {
        let failure = Failure::new(Exit::Failure, format!("the service cannot decrypt the URL of {}", source.id));
        let hint = format!("anyone who has it can still post to it; for a new URL: dl sources rotate {}", source.id);
        return Err(failure.field("webhook_url").hint(hint).into());
    };
    ctx.hide_source(url);
    Ok(url)
}

/// A source as the service returned it, with its URL masked unless it is to be revealed.
fn shown(json: &str, reveal: bool) -> Cow<'_, str> {
    if reveal {
        return json.into();
    }
    let record = Record::read(json).unwrap_or_default();
    let Some(url) = record.cell("webhook_url") else { return json.into() };
    let masked = serde_json::to_string(&SourceUrl::new(url).masked()).unwrap_or_default();
    record.with("webhook_url", &masked).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_cut_and_all_else_stays() {
        let source = r#"{"id":"src_1","webhook_url":"https://dl.example.com/in/5ec4e7","x":1e2}"#;
        let cut = r#"{"id":"src_1","webhook_url":"https://dl.example.com/in/...","x":1e2}"#;
        assert_eq!((shown(source, false).as_ref(), shown(source, true).as_ref()), (cut, source));
        assert_eq!(shown(r#"{"webhook_url":"5ec4e7"}"#, false), r#"{"webhook_url":"[source URL]"}"#);
        assert_eq!(shown(r#"{"webhook_url":null}"#, false), r#"{"webhook_url":null}"#);
    }
}
