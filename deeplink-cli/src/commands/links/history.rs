//! `dl links history`.

use std::cell::RefCell;

use clap::Args;
use deeplink_client::{LinkContent, LinkHistory};

use crate::context::Context;
use crate::error::{Outcome, Stop};
use crate::help::help;
use crate::output::{Format, Record};
use crate::paging::{Fetched, Part};
use crate::{given, output};

/// List the versions of a link, newest first
#[derive(Debug, Args)]
#[command(after_help = help(
    "Each version shows the link as it was before the change listed with it. The last 100 versions are kept; those of a \
     deleted link are kept for 30 days. dl links restore undoes changes.",
    &["dl links history spring-42", "dl links history spring-42 -o json"]
))]
pub(crate) struct History {
    /// ID of the link
    id: String,
    #[command(flatten)]
    part: Part,
}

impl History {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::LINK_VERSIONS)?;
        given::link_id(&self.id)?;
        let links = ctx.client().await?.links();
        let is_for_people = ctx.out.format == Format::Table && ctx.out.terminal && sheet.fields.is_none();
        let after = RefCell::new(None);
        let fetch = async |size, cursor: Option<String>| {
            let is_first = cursor.is_none();
            let page = Fetched::of(links.history(&self.id), size, cursor).await;
            let mut page = page.map_err(|error| ctx.stop(&error).naming_link(&self.id))?;
            if is_for_people {
                if is_first {
                    // Read after the history, so that no change is missing there. A deleted link has no current content.
                    let link = links.get(&self.id).await.ok();
                    after.replace(link.map(LinkContent::from));
                }
                if let Some(raw) = in_words(&page.raw, &mut after.borrow_mut()) {
                    page.raw = raw;
                }
            }
            Ok::<_, Stop>(page)
        };
        self.part.print(ctx, &sheet, "this link has not been changed", fetch).await
    }
}

/// A page with its changes in words. `after` is the link after the newest of them, and then as it was before the oldest.
fn in_words(raw: &[u8], after: &mut Option<LinkContent>) -> Option<Vec<u8>> {
    let page: LinkHistory = serde_json::from_slice(raw).ok()?;
    let record = Record::read(str::from_utf8(raw).ok()?)?;
    let rows = record.items("versions").into_iter().zip(page.versions).map(|(row, version)| {
        let (change, fields) = version.in_words(after.as_ref());
        let change = fields.map_or_else(|| change.clone(), |fields| format!("{change}: {fields}"));
        *after = Some(version.content);
        Some(Record::read(row.get())?.with("change", &serde_json::to_string(&change).ok()?))
    });
    let rows: Option<Vec<String>> = rows.collect();
    Some(record.with("versions", &format!("[{}]", rows?.join(","))).into_bytes())
}

#[cfg(test)]
mod tests {
    use deeplink_client::LinkChange;
    use deeplink_client::mock::fixtures;

    use super::*;

    #[test]
    fn pages_of_changes_continue_each_other() {
        let mut version = fixtures::link_version();
        let mut after = Some(version.content.clone());
        after.as_mut().expect("a link").name = Some("Sale".to_owned());
        let mut page = |change, name: &str| {
            version.change = change;
            let raw = serde_json::to_vec(&LinkHistory::new(vec![version.clone()], Some("more".to_owned())));
            version.content.name = Some(name.to_owned());
            let text = in_words(&raw.expect("JSON"), &mut after).expect("a page");
            let page: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
            assert_eq!(page["next_cursor"], "more");
            page["versions"][0]["change"].as_str().expect("a text").to_owned()
        };
        assert_eq!(page(LinkChange::Updated, "A"), "Name changed");
        assert_eq!(page(LinkChange::Restored, "B"), "Restored: Name changed");
        assert_eq!(page(LinkChange::Disabled, "C"), "Disabled");
        assert_eq!(in_words(b"[]", &mut None), None);
    }
}
