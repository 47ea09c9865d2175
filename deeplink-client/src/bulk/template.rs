//! Templates as they are sent: each distinct one is serialized and validated once, while it is cached.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use deeplink_core::error::Invalid;
use deeplink_core::link::{CreateLink, GENERATED_ID_LEN};
use sha2::{Digest, Sha256};

/// A valid template in the bytes that are sent. Rows share a group exactly when these bytes are equal.
#[derive(Debug)]
pub(crate) struct Prepared {
    json: Box<str>,
    hash: u64,
    has_aliases: bool,
}

impl Prepared {
    fn new(json: String, has_aliases: bool) -> Self {
        let hash = hash(json.as_bytes());
        Self { json: json.into(), hash, has_aliases }
    }

    /// The template as JSON.
    pub(crate) fn json(&self) -> &str {
        &self.json
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether it has aliases, which belong to a single link.
    pub(crate) fn has_aliases(&self) -> bool {
        self.has_aliases
    }

    /// The template with an id, as JSON.
    pub(crate) fn with_id(&self, id: &str, out: &mut String) {
        out.push_str("{\"custom_id\":\"");
        out.push_str(id);
        out.push('"');
        if self.json.len() > 2 {
            out.push(',');
        }
        out.push_str(&self.json[1..]);
    }

    /// The link that this template makes.
    pub(crate) fn link(&self) -> CreateLink {
        serde_json::from_str(&self.json).unwrap_or_default()
    }
}

impl PartialEq for Prepared {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.json == other.json
    }
}

impl Eq for Prepared {}

impl Hash for Prepared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A 64-bit hash, the same in every run of this program.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// A template that may be sent, or the rule that it breaks.
type Judgement = Result<Arc<Prepared>, Invalid>;

/// A cache of validated templates.
pub(crate) struct Templates {
    last: Option<(Arc<CreateLink>, Judgement)>,
    known: Vec<Option<Arc<Prepared>>>,
}

impl Templates {
    const KNOWN: usize = 4_096;

    pub(crate) fn new() -> Self {
        Self { last: None, known: vec![None; Self::KNOWN] }
    }

    /// The template in the bytes that are sent, or the rule that it breaks.
    pub(crate) fn prepare(&mut self, template: &Arc<CreateLink>) -> Judgement {
        if let Some((last, result)) = &self.last
            && Arc::ptr_eq(last, template)
        {
            return result.clone();
        }
        let result = self.judge(template);
        self.last = Some((Arc::clone(template), result.clone()));
        result
    }

    fn judge(&mut self, template: &CreateLink) -> Judgement {
        let json = if template.custom_id.is_some() {
            let mut template = template.clone();
            template.custom_id = None;
            serde_json::to_string(&template)
        } else {
            serde_json::to_string(template)
        };
        // Metadata is kept as text, so serializing fails only if the text is not JSON.
        let json = json.map_err(|_| {
            let code = deeplink_core::error::ErrorCode::InvalidMetadata;
            Invalid::field(code, "metadata", "metadata is not JSON")
        })?;
        let has_aliases = template.aliases.as_ref().is_some_and(|aliases| !aliases.is_empty());
        let prepared = Prepared::new(json, has_aliases);
        let slot = usize::try_from(prepared.hash % 4_096).unwrap_or(0);
        if let Some(known) = self.known[slot].as_ref().filter(|known| ***known == prepared) {
            return Ok(Arc::clone(known));
        }
        let mut link = template.clone();
        link.custom_id = None;
        link.check()?;
        let prepared = Arc::new(prepared);
        self.known[slot] = Some(Arc::clone(&prepared));
        Ok(prepared)
    }
}

/// The generated id of a row: the same in every run for the same salt, content, position and try.
pub(crate) fn derived_id(salt: &str, template: &Prepared, row: u64, attempt: u32) -> String {
    let mut digest = salted(salt);
    digest.update(Sha256::digest(template.json.as_bytes()));
    digest.update(row.to_le_bytes());
    digest.update(attempt.to_le_bytes());
    id_of(digest)
}

/// The generated id of a row with a key: the same in every run for the same salt and key.
pub(crate) fn keyed_id(salt: &str, key: &str) -> String {
    let mut digest = salted(salt);
    digest.update(key);
    id_of(digest)
}

fn salted(salt: &str) -> Sha256 {
    let mut digest = Sha256::new();
    digest.update(u64::try_from(salt.len()).unwrap_or_default().to_le_bytes());
    digest.update(salt);
    digest
}

fn id_of(digest: Sha256) -> String {
    const SYMBOLS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let digest: [u8; 32] = digest.finalize().into();
    // 128 bits over 36 to the 8th: no symbol is preferred by more than one part in 2^86.
    let mut number = digest.iter().take(16).fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    let mut id = String::with_capacity(GENERATED_ID_LEN);
    for _ in 0..GENERATED_ID_LEN {
        let at = usize::try_from(number % 36).unwrap_or(0);
        id.push(char::from(SYMBOLS[at]));
        number /= 36;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(json: &str) -> Arc<Prepared> {
        let link: CreateLink = serde_json::from_str(json).expect("JSON");
        Templates::new().prepare(&Arc::new(link)).expect("valid")
    }

    #[test]
    fn ids_are_spliced_into_the_template() {
        for (json, with_id) in [
            ("{}", r#"{"custom_id":"abc"}"#),
            (r#"{"web_url":"https://example.com"}"#, r#"{"custom_id":"abc","web_url":"https://example.com"}"#),
        ] {
            let mut out = String::new();
            prepared(json).with_id("abc", &mut out);
            assert_eq!(out, with_id);
            let link: CreateLink = serde_json::from_str(&out).expect("a create request");
            assert_eq!(serde_json::to_string(&link).expect("JSON"), out, "the order is that of the type");
        }
    }

    #[test]
    fn derived_ids_depend_on_everything_and_repeat() {
        let (one, other) = (prepared("{}"), prepared(r#"{"web_url":"https://example.com"}"#));
        let all = [
            derived_id("", &one, 0, 0),
            derived_id("salt", &one, 0, 0),
            derived_id("", &other, 0, 0),
            derived_id("", &one, 1, 0),
            derived_id("", &one, 0, 1),
            keyed_id("", "go.example.com/a_b"),
            keyed_id("salt", "go.example.com/a_b"),
            keyed_id("", "go.example.com/a_c"),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(derived_id("salt", &one, 0, 0), all[1]);
        assert_eq!(keyed_id("salt", "go.example.com/a_b"), all[6]);
        for id in &all {
            assert_eq!(deeplink_core::link::check_custom_id(id), Ok(()));
            assert_eq!(id.len(), GENERATED_ID_LEN);
        }
    }

    #[test]
    fn an_invalid_template_stays_invalid() {
        let mut templates = Templates::new();
        let bad = Arc::new(CreateLink::new().web_url("ftp://example.com"));
        for _ in 0..2 {
            assert!(templates.prepare(&bad).is_err());
        }
        assert!(templates.prepare(&Arc::new(CreateLink::new().web_url("https://example.com"))).is_ok());
        assert!(templates.prepare(&bad).is_err());
    }
}
