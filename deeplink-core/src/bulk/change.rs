//! Changes to many links in one request, and deletions.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::check_size;
use crate::error::{ErrorCode, Invalid};
use crate::link::{LinkDetail, LinkPatch, UpdateLink, alias_of_many};
use crate::tag::{self, Tag};

/// The request body of a bulk update: what to change on each of these links.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"link_ids": ["spring-42"], "set": {"enabled": false}, "add_tags": ["ended"]}))))]
#[non_exhaustive]
pub struct BulkUpdate {
    /// IDs of the links, 1 to 100. An ID that is repeated counts once.
    #[serde(deserialize_with = "super::required_ids")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 100))]
    pub link_ids: Vec<String>,
    /// Fields to set on every link, as when updating a single link.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub set: Option<UpdateLink>,
    /// Tags to add to every link; cannot be combined with `set.tags`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "tag::optional")]
    #[cfg_attr(feature = "openapi", schema(max_items = 20))]
    pub add_tags: Option<Vec<String>>,
    /// Tags to remove from every link; cannot be combined with `set.tags`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "tag::optional")]
    #[cfg_attr(feature = "openapi", schema(max_items = 20))]
    pub remove_tags: Option<Vec<String>>,
}

impl BulkUpdate {
    /// An update of these links with nothing to change yet.
    pub fn new<T: Into<String>>(link_ids: impl IntoIterator<Item = T>) -> Self {
        Self { link_ids: link_ids.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Sets fields on every link.
    pub fn set(self, update: UpdateLink) -> Self {
        Self { set: Some(update), ..self }
    }

    /// Adds these tags to every link.
    pub fn add_tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        Self { add_tags: Some(tags.into_iter().map(Into::into).collect()), ..self }
    }

    /// Removes these tags from every link.
    pub fn remove_tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        Self { remove_tags: Some(tags.into_iter().map(Into::into).collect()), ..self }
    }

    /// Applies every rule that needs no account.
    pub fn check(&self) -> Result<BulkChange, Invalid> {
        check_size(self.link_ids.len() as u64)?;
        let add = tag::check_field("add_tags", self.add_tags.as_deref().unwrap_or_default())?;
        let remove = tag::check_field("remove_tags", self.remove_tags.as_deref().unwrap_or_default())?;
        let set = self.set.as_ref().filter(|set| !set.is_empty()).map(UpdateLink::check).transpose()?;
        if set.is_none() && add.is_empty() && remove.is_empty() {
            return Err(Invalid::whole(ErrorCode::EmptyUpdate, "send at least one field to change"));
        }
        if set.as_ref().and_then(|set| set.aliases.as_ref()).is_some_and(|aliases| !aliases.is_empty()) {
            return Err(alias_of_many("set.aliases"));
        }
        let changes_tags = !add.is_empty() || !remove.is_empty();
        if changes_tags && set.as_ref().is_some_and(|set| set.tags.is_some()) {
            let message = "set.tags replaces all tags; send it without add_tags and remove_tags";
            return Err(Invalid::field(ErrorCode::BadRequest, "set.tags", message));
        }
        if add.iter().any(|tag| remove.contains(tag)) {
            let message = "remove_tags: a tag cannot be both added and removed";
            return Err(Invalid::field(ErrorCode::BadRequest, "remove_tags", message));
        }
        Ok(BulkChange { link_ids: distinct(&self.link_ids), set, add, remove })
    }
}

/// A bulk update that passed every rule that needs no account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkChange {
    /// The links, each once, with its index in the request.
    pub link_ids: Vec<(u64, String)>,
    /// Fields to set on each.
    pub set: Option<LinkPatch>,
    /// Tags that each link gets.
    pub add: Vec<Tag>,
    /// Tags that each link loses.
    pub remove: Vec<Tag>,
}

/// The request body of a bulk deletion.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"link_ids": ["spring-42"]}))))]
pub struct BulkDelete {
    /// IDs of the links, 1 to 100. An ID that is repeated counts once.
    #[serde(deserialize_with = "super::required_ids")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 100))]
    pub link_ids: Vec<String>,
}

impl BulkDelete {
    /// A deletion of these links.
    pub fn new<T: Into<String>>(link_ids: impl IntoIterator<Item = T>) -> Self {
        Self { link_ids: link_ids.into_iter().map(Into::into).collect() }
    }

    /// The links, each once, with its index in the request.
    pub fn check(&self) -> Result<Vec<(u64, String)>, Invalid> {
        check_size(self.link_ids.len() as u64)?;
        Ok(distinct(&self.link_ids))
    }
}

/// The response to a bulk update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkUpdated {
    /// The changed links, in the order of the request.
    pub links: Vec<LinkDetail>,
}

/// The response to a bulk deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkDeleted {
    /// Number of links that were deleted.
    pub deleted: u64,
}

fn distinct(ids: &[String]) -> Vec<(u64, String)> {
    let mut seen = HashSet::new();
    (0..).zip(ids).filter(|(_, id)| seen.insert(*id)).map(|(index, id)| (index, id.clone())).collect()
}
