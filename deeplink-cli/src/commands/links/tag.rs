//! `dl links tag`.

use clap::Args;
use deeplink_client::{BulkUpdate, Client};
use deeplink_core::link::UpdateLink;
use deeplink_core::patch::Patch;
use deeplink_core::tag::{Tag, set_of};

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::ids;
use crate::{given, output};

/// Add tags to links or remove them
#[derive(Debug, Args)]
#[command(after_help = help(
    "Visitors, SDKs and affiliates do not see tags. A link can have up to 20.",
    &[
    "dl links tag spring-42 --add \"Spring sale\" --remove draft",
    "dl links list --q poster --all -o id | dl links tag - --add poster",
]
))]
pub(crate) struct TagLinks {
    /// IDs of the links, or - to read IDs from stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
    /// Tag to add; may be repeated
    #[arg(long, value_name = "TAG", allow_hyphen_values = true, required_unless_present = "remove")]
    add: Vec<String>,
    /// Tag to remove; may be repeated
    #[arg(long, value_name = "TAG", allow_hyphen_values = true)]
    remove: Vec<String>,
}

/// The tags that links get and lose.
struct Change {
    add: Vec<Tag>,
    remove: Vec<Tag>,
}

impl TagLinks {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::LINKS)?;
        let ids = ids::read(ctx, &self.ids, given::link_id).await?;
        let change = Change { add: given::tags(&self.add)?, remove: given::tags(&self.remove)? };
        if let Some(both) = change.add.iter().find(|tag| change.remove.contains(tag)) {
            let shown = crate::escape::one_line(both.as_str()).into_owned();
            return Err(Failure::usage(format!("the tag \"{shown}\" is both added and removed")).into());
        }
        let client = ctx.client().await?;
        if let ([id], [_]) = (ids.as_slice(), self.ids.as_slice()) {
            return sheet.one(&change.apply(ctx, &client, id).await?);
        }
        let change = |ids| BulkUpdate::new(ids).add_tags(&self.add).remove_tags(&self.remove);
        super::many::update(ctx, &client, &ids::distinct(ids), change, |_| ()).await
    }
}

impl Change {
    /// The link with its tags changed. If it has them already, nothing is sent.
    async fn apply(&self, ctx: &Context, client: &Client, id: &str) -> Outcome<String> {
        let link = client.links().get(id).full().await.map_err(|error| ctx.stop(&error).naming_link(id))?;
        let before = set_of(link.value.tags.iter().cloned().map(Tag::of_stored));
        let kept = before.iter().filter(|tag| !self.remove.contains(tag));
        let after = set_of(kept.chain(&self.add).cloned());
        if after == before {
            return Ok(String::from_utf8_lossy(&link.raw).into_owned());
        }
        let mut update = UpdateLink::new();
        update.tags = Patch::Set(after.into_iter().map(Tag::into_text).collect());
        let link = client.links().update(id, &update).full().await.map_err(|error| ctx.stop(&error))?;
        Ok(String::from_utf8_lossy(&link.raw).into_owned())
    }
}
