//! Rows that are already in memory.

use std::sync::Arc;

use deeplink_core::link::CreateLink;
use sha2::{Digest, Sha256};

use super::source::{Row, RowSource, Rows, SourceError, SourceRow};

/// Rows held in memory, for callers that have them already.
#[derive(Debug, Clone)]
pub struct MemorySource {
    name: String,
    rows: Arc<[Row]>,
}

impl MemorySource {
    /// Different links, each with the id it names.
    pub fn links(name: impl Into<String>, links: impl IntoIterator<Item = CreateLink>) -> Self {
        let rows = (1..).zip(links).map(|(line, mut link)| {
            let id = link.custom_id.take();
            Row::new(line, line, id, Arc::new(link))
        });
        Self { name: name.into(), rows: rows.collect() }
    }

    /// The same link under each of these ids; `None` has one made ([`crate::bulk::BulkImport::generate_ids`]).
    pub fn same(name: impl Into<String>, template: CreateLink, ids: impl IntoIterator<Item = Option<String>>) -> Self {
        let mut template = template;
        template.custom_id = None;
        let template = Arc::new(template);
        let rows = (1..).zip(ids).map(|(line, id)| Row::new(line, line, id, Arc::clone(&template)));
        Self { name: name.into(), rows: rows.collect() }
    }
}

impl RowSource for MemorySource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn digest(&self) -> Result<[u8; 32], SourceError> {
        let mut digest = Sha256::new();
        for row in &*self.rows {
            let json = serde_json::to_vec(&(&row.id, &*row.template))
                .map_err(|why| SourceError::new("a row cannot be written as JSON").because(why))?;
            digest.update(u64::try_from(json.len()).unwrap_or_default().to_le_bytes());
            digest.update(json);
        }
        Ok(digest.finalize().into())
    }

    fn rows(&self) -> Result<Rows, SourceError> {
        let rows = Arc::clone(&self.rows);
        Ok(Box::new((0..rows.len()).map(move |at| Ok(SourceRow::Row(rows[at].clone())))))
    }
}
