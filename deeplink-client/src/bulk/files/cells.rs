//! Sets the fields of a link from texts: first the template, then the row, then the values set for every row.

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::row::{NULL, unescape};
use deeplink_core::link::{Action, AgentContext, CreateLink, SocialPreview};
use deeplink_core::metadata::Metadata;
use deeplink_core::qr::QrOptions;
use serde_json::value::RawValue;

use super::fields::{Field, MetaKind};

/// A link in the making.
pub(super) struct Draft {
    link: CreateLink,
    /// Keys that go into the metadata, in order, as JSON.
    meta: Vec<(String, String)>,
    /// The preview was given by its parts: if all are absent, there is no preview, rather than an empty one.
    parts: bool,
}

impl Draft {
    pub(super) fn new(template: &CreateLink) -> Self {
        let mut link = template.clone();
        link.custom_id = None;
        Self { link, meta: Vec::new(), parts: false }
    }

    /// Applies a cell: empty leaves the field as it is, `\N` clears it.
    pub(super) fn cell(&mut self, field: &Field, text: &str) -> Result<(), Invalid> {
        match text {
            "" => Ok(()),
            NULL => self.apply(field, None),
            text => self.apply(field, Some(unescape(text))),
        }
    }

    /// Sets a text field, or clears it.
    pub(super) fn apply(&mut self, field: &Field, text: Option<&str>) -> Result<(), Invalid> {
        let link = &mut self.link;
        let owned = text.map(str::to_owned);
        match field {
            Field::IosDeepLink => link.ios_deep_link = owned,
            Field::IosStoreUrl => link.ios_store_url = owned,
            Field::AndroidDeepLink => link.android_deep_link = owned,
            Field::AndroidStoreUrl => link.android_store_url = owned,
            Field::WebUrl => link.web_url = owned,
            Field::AffiliateId => link.affiliate_id = owned,
            Field::Name => link.name = owned,
            Field::Enabled => link.enabled = text.map(switch).transpose()?,
            Field::ExpiresAt => link.expires_at = owned,
            Field::ExpiredUrl => link.expired_url = owned,
            Field::Tags => link.tags = text.map(listed),
            Field::Aliases => link.aliases = text.map(listed),
            Field::Qr => link.qr = text.map(look).transpose()?,
            Field::ImportedClicks => link.imported_clicks = text.map(number).transpose()?,
            Field::Metadata => link.metadata = text.map(metadata).transpose()?,
            Field::MetaKey(key, kind) => {
                let value = text.map_or(Ok("null".to_owned()), |text| meta_value(key, *kind, text))?;
                self.meta.push((key.clone(), value));
            }
            Field::Action => agent(link).action = text.map(Action::from),
            Field::Cta => agent(link).cta = owned,
            Field::AgentDescription => agent(link).description = owned,
            Field::Title | Field::SocialDescription | Field::ImageUrl => {
                self.parts = true;
                let social = link.social_preview.get_or_insert_with(SocialPreview::default);
                match field {
                    Field::Title => social.title = owned,
                    Field::SocialDescription => social.description = owned,
                    _ => social.image_url = owned,
                }
            }
            Field::CustomId | Field::Ignored | Field::AgentContext | Field::SocialPreview => {}
        }
        Ok(())
    }

    /// Sets a key of the metadata to a JSON value.
    pub(super) fn meta_json(&mut self, key: &str, json: &str) {
        self.meta.push((key.to_owned(), json.to_owned()));
    }

    pub(super) fn enabled(&mut self, enabled: Option<bool>) {
        self.link.enabled = enabled;
    }

    pub(super) fn tags(&mut self, tags: Option<Vec<String>>) {
        self.link.tags = tags;
    }

    pub(super) fn aliases(&mut self, aliases: Option<Vec<String>>) {
        self.link.aliases = aliases;
    }

    pub(super) fn qr(&mut self, qr: Option<QrOptions>) {
        self.link.qr = qr;
    }

    pub(super) fn imported_clicks(&mut self, count: Option<i64>) {
        self.link.imported_clicks = count;
    }

    pub(super) fn metadata(&mut self, metadata: Option<Metadata>) {
        self.link.metadata = metadata;
    }

    pub(super) fn agent_context(&mut self, context: Option<AgentContext>) {
        self.link.agent_context = context;
    }

    pub(super) fn social_preview(&mut self, preview: Option<SocialPreview>) {
        self.link.social_preview = preview;
    }

    pub(super) fn finish(mut self) -> Result<CreateLink, Invalid> {
        if !self.meta.is_empty() {
            self.link.metadata = Some(merge(self.link.metadata.as_ref(), &self.meta)?);
        }
        if self.parts && self.link.social_preview == Some(SocialPreview::default()) {
            self.link.social_preview = None;
        }
        Ok(self.link)
    }
}

fn agent(link: &mut CreateLink) -> &mut AgentContext {
    link.agent_context.get_or_insert_with(AgentContext::default)
}

fn wrong(message: String) -> Invalid {
    Invalid::field(ErrorCode::InvalidMetadata, "metadata", message)
}

fn switch(text: &str) -> Result<bool, Invalid> {
    text.parse().map_err(|_| {
        let message = format!("enabled: \"{}\" is not true or false", text.escape_debug());
        Invalid::field(ErrorCode::BadRequest, "enabled", message)
    })
}

/// Whether it is within the limits is found with the link's other rules.
fn number(text: &str) -> Result<i64, Invalid> {
    text.trim().parse().map_err(|_| {
        let message = format!("imported_clicks: \"{}\" is not a whole number", text.escape_debug());
        Invalid::field(ErrorCode::BadRequest, "imported_clicks", message)
    })
}

/// Tags or aliases with commas between them.
fn listed(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

/// What is wrong with an option is found with the link's other rules.
fn look(text: &str) -> Result<QrOptions, Invalid> {
    serde_json::from_str(text).map_err(|_| {
        let message = "qr must be a JSON object, such as {\"dotType\":\"classy\"}";
        Invalid::field(ErrorCode::InvalidQrOptions, "qr", message)
    })
}

fn metadata(text: &str) -> Result<Metadata, Invalid> {
    Metadata::parse(text).map_err(|why| wrong(format!("metadata is not JSON: {why}")))
}

fn meta_value(key: &str, kind: MetaKind, text: &str) -> Result<String, Invalid> {
    let not = |what: &str| wrong(format!("metadata.{key}: \"{}\" is not {what}", text.escape_debug()));
    match kind {
        MetaKind::String => Ok(serde_json::Value::from(text).to_string()),
        MetaKind::Bool if matches!(text, "true" | "false") => Ok(text.to_owned()),
        MetaKind::Bool => Err(not("true or false")),
        MetaKind::Int | MetaKind::Number => {
            let text = text.trim();
            let is_number = serde_json::from_str::<&RawValue>(text).is_ok()
                && text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
            let is_whole = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
            match (is_number, kind == MetaKind::Int && !is_whole) {
                (true, false) => Ok(text.to_owned()),
                _ => Err(not(if kind == MetaKind::Int { "a whole number" } else { "a number" })),
            }
        }
        MetaKind::Json => match serde_json::from_str::<&RawValue>(text) {
            Ok(value) => Ok(value.get().to_owned()),
            Err(_) => Err(not("JSON")),
        },
    }
}

/// Puts keys into an object: existing ones get a new value in place, the others are appended.
pub(super) fn merge(base: Option<&Metadata>, keys: &[(String, String)]) -> Result<Metadata, Invalid> {
    let mut members: Vec<(String, String)> = match base {
        None => Vec::new(),
        Some(base) => members(base.as_str())
            .map_err(|_| {
                wrong("metadata must be a JSON object if individual keys (metadata.KEY) are also set".to_owned())
            })?
            .into_iter()
            .map(|(key, value)| (key, value.get().to_owned()))
            .collect(),
    };
    for (key, value) in keys {
        match members.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => old.clone_from(value),
            None => members.push((key.clone(), value.clone())),
        }
    }
    let mut json = String::from("{");
    for (at, (key, value)) in members.iter().enumerate() {
        if at > 0 {
            json.push(',');
        }
        json.push_str(&serde_json::Value::from(key.as_str()).to_string());
        json.push(':');
        json.push_str(value);
    }
    json.push('}');
    metadata(&json)
}

/// The members of a JSON object in their order, values as their text.
pub(super) fn members(json: &str) -> serde_json::Result<Vec<(String, &RawValue)>> {
    struct Members;
    impl<'de> serde::de::Visitor<'de> for Members {
        type Value = Vec<(String, &'de RawValue)>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(members)
        }
    }
    let mut json = serde_json::Deserializer::from_str(json);
    let members = serde::Deserializer::deserialize_map(&mut json, Members)?;
    json.end().map(|()| members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(template: &str, cells: &[(&str, &str)]) -> Result<String, String> {
        let mut draft = Draft::new(&serde_json::from_str(template).expect("a template"));
        for (name, text) in cells {
            let field = Field::named(name, false).expect("a field");
            draft.cell(&field, text).map_err(|invalid| invalid.message)?;
        }
        let link = draft.finish().map_err(|invalid| invalid.message)?;
        Ok(serde_json::to_string(&link).expect("JSON"))
    }

    #[test]
    fn cells_replace_clear_or_leave() {
        let template = r#"{"custom_id":"no","web_url":"https://example.com","agent_context":{"cta":"Buy"}}"#;
        for (cells, link) in [
            (
                &[("web", "")][..],
                r#"{"web_url":"https://example.com","agent_context":{"action":null,"cta":"Buy","description":null}}"#,
            ),
            (
                &[("web", r"\N"), ("agent.cta", r"\\N")],
                r#"{"agent_context":{"action":null,"cta":"\\N","description":null}}"#,
            ),
            (
                &[("web", "app"), ("agent.action", "read")],
                r#"{"web_url":"app","agent_context":{"action":"read","cta":"Buy","description":null}}"#,
            ),
            (
                &[("agent.cta", r"\N"), ("social.title", r"\N")],
                r#"{"web_url":"https://example.com","agent_context":{"action":null,"cta":null,"description":null}}"#,
            ),
        ] {
            assert_eq!(made(template, cells).as_deref(), Ok(link), "{cells:?}");
        }
    }

    #[test]
    fn metadata_comes_whole_or_by_key() {
        let template = r#"{"metadata":{"a":1,"b":2.50}}"#;
        for (cells, metadata) in [
            (&[("meta.c", "x\"y")][..], r#"{"a":1,"b":2.50,"c":"x\"y"}"#),
            (&[("meta.a:int", "007")], ""),
            (&[("meta.a:int", "7")], r#"{"a":7,"b":2.50}"#),
            (&[("meta.a:int", "1.5")], ""),
            (&[("meta.a:number", "1e400")], r#"{"a":1e400,"b":2.50}"#),
            (&[("meta.a:number", "true")], ""),
            (&[("meta.a:bool", "true"), ("meta.b", r"\N")], r#"{"a":true,"b":null}"#),
            (&[("meta.a:bool", "yes")], ""),
            (&[("meta.a:json", r#"[1, {"x":2}]"#)], r#"{"a":[1,{"x":2}],"b":2.50}"#),
            (&[("meta.a:json", "[1,")], ""),
            (&[("metadata", r#"{"z": 0}"#), ("meta.a", "1")], r#"{"z":0,"a":"1"}"#),
            (&[("metadata", "[1]"), ("meta.a", "1")], ""),
            (&[("metadata", "{")], ""),
        ] {
            let made = made(template, cells);
            match metadata {
                "" => assert!(made.is_err(), "{cells:?} {made:?}"),
                text => assert_eq!(made, Ok(format!(r#"{{"metadata":{text}}}"#)), "{cells:?}"),
            }
        }
    }
}
