//! Many links in one request: a template with ids, a template with a count, or links that differ.

mod change;

use std::collections::{HashMap, HashSet};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

pub use self::change::{BulkChange, BulkDelete, BulkDeleted, BulkUpdate, BulkUpdated};
pub use crate::error::RowError;
use crate::error::{ErrorCode, Invalid};
use crate::link::{Alias, CreateLink, NewLink, alias_of_many, check_custom_id};
use crate::object;

/// Maximum links in one request.
pub const MAX_ROWS: usize = 100;

/// The request body of a bulk create: `template` with exactly one of `custom_ids` and `count`, or `links`
/// alone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"links": [{"web_url": "https://www.example.com/1"}, {"web_url": "https://www.example.com/2"}]}))))]
#[non_exhaustive]
pub struct BulkCreate {
    /// Fields that all links of the batch share; its `custom_id` is ignored, and it cannot have `aliases`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub template: Option<CreateLink>,
    /// The IDs, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "ids")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 100))]
    pub custom_ids: Option<Vec<String>>,
    /// Number of IDs to generate, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "count")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u32>, minimum = 1, maximum = 100))]
    pub count: Option<u64>,
    /// The individual links, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "rows")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 100))]
    pub links: Option<Vec<CreateLink>>,
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else { return Ok(None) };
    number.as_u64().map(Some).ok_or_else(|| D::Error::custom("a whole number from 1 to 100"))
}

fn ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    object::texts(deserializer, MAX_ROWS)
}

fn required_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    ids(deserializer)?.ok_or_else(|| D::Error::custom("an array of link IDs"))
}

fn rows<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<CreateLink>>, D::Error> {
    object::list(deserializer, MAX_ROWS)
}

impl BulkCreate {
    /// The same link under each of these ids.
    pub fn with_ids(template: CreateLink, custom_ids: Vec<String>) -> Self {
        Self { template: Some(template), custom_ids: Some(custom_ids), ..Self::default() }
    }

    /// The same link under this many generated ids.
    pub fn with_count(template: CreateLink, count: u64) -> Self {
        Self { template: Some(template), count: Some(count), ..Self::default() }
    }

    /// Links that differ.
    pub fn with_links(links: Vec<CreateLink>) -> Self {
        Self { links: Some(links), ..Self::default() }
    }

    /// Applies every rule that needs no account: mode, template, size, then every row. A single invalid row rejects the
    /// batch.
    pub fn check(self) -> Result<Batch, BatchRefused> {
        let checked = self.check_rows().map_err(BatchRefused::Whole)?;
        if checked.errors.is_empty() { Ok(checked.batch) } else { Err(BatchRefused::Rows(checked.errors)) }
    }

    /// As [`BulkCreate::check`], but separates valid and invalid rows, so that the valid ones can be checked further.
    pub fn check_rows(self) -> Result<CheckedRows, Invalid> {
        let refuse = |code, message: &str| Err(Invalid::whole(code, message));
        let modes = usize::from(self.custom_ids.is_some()) + usize::from(self.count.is_some());
        if self.links.is_some() && (modes > 0 || self.template.is_some()) || modes > 1 {
            return refuse(
                ErrorCode::BatchModeAmbiguous,
                "send template with custom_ids, template with count, or links alone",
            );
        }
        if let Some(links) = self.links {
            check_size(links.len() as u64)?;
            return Ok(check_links(links));
        }
        if modes == 0 {
            return refuse(ErrorCode::BatchModeMissing, "send custom_ids, count or links");
        }
        let Some(template) = self.template else {
            return Err(Invalid::field(ErrorCode::BadRequest, "template", "template is missing"));
        };
        let template = CreateLink { custom_id: None, ..template }.check()?;
        if !template.aliases.is_empty() {
            return Err(alias_of_many("aliases"));
        }
        if let Some(count) = self.count {
            check_size(count)?;
            let batch = Batch::Generated { template, count: usize::try_from(count).unwrap_or(MAX_ROWS) };
            return Ok(CheckedRows { batch, indexes: (0..count).collect(), errors: Vec::new() });
        }
        let ids = self.custom_ids.unwrap_or_default();
        check_size(ids.len() as u64)?;
        let (mut good, mut indexes, mut errors, mut seen) = (Vec::new(), Vec::new(), Vec::new(), HashSet::new());
        for (index, id) in (0_u64..).zip(ids) {
            match check_custom_id(&id).err().or_else(|| duplicate(&mut seen, &id)) {
                Some(invalid) => errors.push(RowError::new(index, invalid, Some(id))),
                None => {
                    good.push(id);
                    indexes.push(index);
                }
            }
        }
        Ok(CheckedRows { batch: Batch::Named { template, ids: good }, indexes, errors })
    }
}

/// The valid and the invalid rows of a batch, separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedRows {
    /// The rows that broke no rule.
    pub batch: Batch,
    /// The index of each of them in the request.
    pub indexes: Vec<u64>,
    /// The rows that broke one, by index.
    pub errors: Vec<RowError>,
}

impl CheckedRows {
    /// Moves links of their own that break a further rule to the errors.
    pub fn refuse(&mut self, rule: impl Fn(&NewLink) -> Result<(), Invalid>) {
        let Batch::Different(links) = &mut self.batch else { return };
        let rows: Vec<(NewLink, u64)> = links.drain(..).zip(self.indexes.drain(..)).collect();
        for (link, index) in rows {
            match rule(&link) {
                Ok(()) => {
                    links.push(link);
                    self.indexes.push(index);
                }
                Err(invalid) => self.errors.push(RowError::new(index, invalid, link.custom_id)),
            }
        }
        self.errors.sort_by_key(|error| error.index);
    }
}

fn check_size(rows: u64) -> Result<(), Invalid> {
    let (code, message) = match rows {
        0 => (ErrorCode::BatchEmpty, "the batch contains no links".to_owned()),
        1..=100 => return Ok(()),
        _ => (ErrorCode::BatchTooLarge, format!("the batch has more than {MAX_ROWS} links")),
    };
    Err(Invalid::whole(code, message))
}

fn check_links(links: Vec<CreateLink>) -> CheckedRows {
    let (mut good, mut indexes, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    let (mut seen, mut aliases) = (HashSet::new(), HashMap::new());
    for (index, link) in (0_u64..).zip(links) {
        let id = link.custom_id.clone();
        let shared = duplicate_alias(&mut aliases, index, link.aliases.as_deref().unwrap_or_default());
        let twice = id.as_deref().and_then(|id| duplicate(&mut seen, id)).or(shared);
        // A malformed row reports its own error rather than a duplicate ID or alias.
        match link.check().and_then(|link| twice.map_or(Ok(link), Err)) {
            Ok(link) => {
                good.push(link);
                indexes.push(index);
            }
            Err(invalid) => errors.push(RowError::new(index, invalid, id)),
        }
    }
    CheckedRows { batch: Batch::Different(good), indexes, errors }
}

fn duplicate(seen: &mut HashSet<String>, id: &str) -> Option<Invalid> {
    (!seen.insert(id.to_owned())).then(|| {
        let message = "duplicate ID in this batch";
        Invalid::field(ErrorCode::DuplicateCustomIdInBatch, "custom_id", message)
    })
}

/// The refusal of a row whose aliases include one of an earlier row; `seen` has the first row of each.
fn duplicate_alias(seen: &mut HashMap<Alias, u64>, row: u64, aliases: &[String]) -> Option<Invalid> {
    let mut refused = None;
    for (at, text) in aliases.iter().enumerate() {
        let Ok(alias) = Alias::parse(text) else { continue };
        let message = format!("duplicate alias \"{}\" in this batch", alias.as_str());
        if *seen.entry(alias).or_insert(row) != row && refused.is_none() {
            refused = Some(Invalid::field(ErrorCode::AliasTaken, format!("aliases[{at}]"), message));
        }
    }
    refused
}

/// A batch that passed every rule that needs no account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Batch {
    /// One link under each of these ids.
    Named {
        /// What they share.
        template: NewLink,
        /// Their ids.
        ids: Vec<String>,
    },
    /// One link under generated ids.
    Generated {
        /// What they share.
        template: NewLink,
        /// How many.
        count: usize,
    },
    /// Links that differ.
    Different(Vec<NewLink>),
}

impl Batch {
    /// How many links it makes.
    pub fn len(&self) -> usize {
        match self {
            Self::Named { ids, .. } => ids.len(),
            Self::Generated { count, .. } => *count,
            Self::Different(links) => links.len(),
        }
    }

    /// Whether it makes none; a checked batch makes at least one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why a batch was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchRefused {
    /// As a whole, or by its template.
    Whole(Invalid),
    /// By these rows.
    Rows(Vec<RowError>),
}

/// The response to a bulk create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkCreated {
    /// The links, in the order of the request.
    pub links: Vec<BulkLink>,
}

/// One link of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkLink {
    /// The link's ID: the last segment of its URL.
    pub link_id: String,
    /// The short link to share.
    pub url: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(json: &str) -> String {
        let Ok(bulk) = serde_json::from_str::<BulkCreate>(json) else { return "mistyped".into() };
        match bulk.check() {
            Ok(Batch::Named { ids, .. }) => format!("named {}", ids.len()),
            Ok(Batch::Generated { count, .. }) => format!("generated {count}"),
            Ok(Batch::Different(links)) => format!("different {}", links.len()),
            Err(BatchRefused::Whole(invalid)) => invalid.code.to_string(),
            Err(BatchRefused::Rows(rows)) => {
                rows.iter().map(|row| format!("{}:{}", row.index, row.code)).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// R5: only one row beyond the limit is kept, however many follow; it shows that there are too many.
    #[test]
    fn r5_no_more_rows_are_kept_than_show_that_there_are_too_many() {
        let rows = format!(r#"{{"links":[{}{{}}]}}"#, "{},".repeat(5_000));
        let bulk: BulkCreate = serde_json::from_str(&rows).expect("a batch");
        assert_eq!(bulk.links.as_ref().map(Vec::len), Some(MAX_ROWS + 1));
        assert_eq!(answer(&rows), "batch_too_large");
        let ids = format!(r#"{{"template":{{}},"custom_ids":[{}"a"]}}"#, "\"a\",".repeat(5_000));
        let bulk: BulkCreate = serde_json::from_str(&ids).expect("a batch");
        assert_eq!(bulk.custom_ids.as_ref().map(Vec::len), Some(MAX_ROWS + 1));
        // The rows that are not kept must still be valid JSON in the same array.
        for wrong in [rows.replace("}]}", "}"), rows.replace("{}]}", "{]}")] {
            assert_eq!(answer(&wrong), "mistyped");
        }
    }

    #[test]
    fn modes_sizes_and_rows_are_checked_in_order() {
        let many = format!(
            r#"{{"template":{{}},"custom_ids":{}}}"#,
            serde_json::json!((0..101).map(|i| format!("id-{i}")).collect::<Vec<_>>())
        );
        for (json, expected) in [
            (r#"{"template":{},"custom_ids":["abc","abd"]}"#, "named 2"),
            (r#"{"template":{"custom_id":"!"},"count":3}"#, "generated 3"),
            (r#"{"links":[{},{"custom_id":"abc"}]}"#, "different 2"),
            (r#"{"template":null,"custom_ids":null,"count":null,"links":[{}]}"#, "different 1"),
            (r#"{"template":{}}"#, "batch_mode_missing"),
            ("{}", "batch_mode_missing"),
            (r#"{"count":1}"#, "bad_request"),
            (r#"{"template":{},"custom_ids":[],"count":1}"#, "batch_mode_ambiguous"),
            (r#"{"template":{},"links":[{}]}"#, "batch_mode_ambiguous"),
            (r#"{"links":[{}],"count":1}"#, "batch_mode_ambiguous"),
            (r#"{"template":{},"custom_ids":[]}"#, "batch_empty"),
            (r#"{"template":{},"count":0}"#, "batch_empty"),
            (r#"{"links":[]}"#, "batch_empty"),
            (r#"{"template":{},"count":101}"#, "batch_too_large"),
            (&many, "batch_too_large"),
            (r#"{"template":{},"count":-1}"#, "mistyped"),
            (r#"{"template":{},"count":1.5}"#, "mistyped"),
            (r#"{"template":{},"count":"1"}"#, "mistyped"),
            (r#"{"template":{},"custom_ids":["abc",1]}"#, "mistyped"),
            (r#"{"template":{"web_url":"x"},"count":0}"#, "invalid_url"),
            (r#"{"template":{"aliases":["old"]},"count":1}"#, "invalid_alias"),
            (r#"{"template":{"aliases":[]},"count":1}"#, "generated 1"),
            (r#"{"links":[{"aliases":["old"]},{"aliases":["a b"]}]}"#, "1:invalid_alias"),
            (r#"{"links":[{"aliases":["old","/old"]},{"aliases":["Old"]}]}"#, "different 2"),
            (
                r#"{"links":[{"aliases":["old"]},{"aliases":["b","/old"]},{"aliases":["a b","c"]},{"aliases":["c"]}]}"#,
                "1:alias_taken 2:invalid_alias 3:alias_taken",
            ),
            (
                r#"{"template":{},"custom_ids":["abc","a","abc","r","abc"]}"#,
                "1:invalid_custom_id 2:duplicate_custom_id_in_batch 3:invalid_custom_id 4:duplicate_custom_id_in_batch",
            ),
            (
                r#"{"links":[{"custom_id":"abc"},{"web_url":"x"},{"custom_id":"abc"}]}"#,
                "1:invalid_url 2:duplicate_custom_id_in_batch",
            ),
        ] {
            assert_eq!(answer(json), expected, "{json}");
        }
    }
}
