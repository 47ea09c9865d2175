//! Tags, which group the account's links.

use deeplink_core::routes;
use deeplink_core::tag::{RenameTag, TagDetail, TagList};

use crate::call::{self, Call};
use crate::connection::Connection;
use crate::decode;

/// The operations on tags; see [`crate::Client::tags`]. To tag a link, use
/// [`CreateLink::tags`](crate::CreateLink::tags) or an update.
#[derive(Debug, Clone)]
pub struct Tags(pub(crate) Connection);

impl Tags {
    /// The tags of the account's links, in alphabetical order: at most 1,000.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// for tag in dl.tags().list().await?.tags {
    ///     println!("{}: {} links", tag.tag, tag.links);
    /// }
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Call<TagList> {
        call::json(&self.0, &routes::LIST_TAGS, &[])
    }

    /// Renames a tag on all links that have it. If the account already has the new tag, the two are merged.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::RenameTag;
    /// let tag = dl.tags().rename("spring", &RenameTag::new("Spring sale")).await?;
    /// println!("{} links", tag.links);
    /// # Ok(()) });
    /// ```
    pub fn rename(&self, tag: impl AsRef<str>, new: &RenameTag) -> Call<TagDetail> {
        call::json(&self.0, &routes::RENAME_TAG, &[tag.as_ref()]).body(new).valid(new.check())
    }

    /// Removes a tag from all links that have it.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// dl.tags().delete("spring").await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, tag: impl AsRef<str>) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::DELETE_TAG, &[tag.as_ref()]), decode::nothing)
    }
}
