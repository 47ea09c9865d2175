//! Options as a JSON object: the look that a link keeps.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::read::{Kind, NAMES, Source, check_logo};
use super::{QrOptions, Refused};
use crate::error::Invalid;

/// Reads an object by the rules of a query string. Unknown names are ignored, and null is absent. A value that breaks a
/// rule is not an error yet: [`QrOptions::check`] returns it, with its code and the name of its option.
impl<'de> Deserialize<'de> for QrOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = deserializer.deserialize_map(Members::default())?;
        // Whether the service may reach a logo's host is for the service to say.
        Ok(Self::read(&members, |_| true)
            .unwrap_or_else(|why| Self { refused: Some(Box::new(Refused { why, stored: None })), ..Self::default() }))
    }
}

impl QrOptions {
    /// Applies the rules to the look of a link. `None` if it has no options. An error names the option within the link.
    pub(crate) fn check_look(&self) -> Result<Option<Self>, Invalid> {
        let style = self.check().map_err(within_link)?;
        // The URL as it was parsed; with `hideLogo`, it is ignored.
        let look = Self { logo: style.logo, ..self.clone() };
        Ok((look != Self::default()).then_some(look))
    }

    /// Reads a stored design. One that a newer version stored and this one does not know keeps its text. `None` if it
    /// has no options.
    pub fn of_stored(text: &str) -> Result<Option<Self>, serde_json::Error> {
        let mut look: Self = serde_json::from_str(text)?;
        if let Some(refused) = &mut look.refused {
            refused.stored = Some(text.to_owned());
        }
        Ok((look != Self::default()).then_some(look))
    }

    /// The text that [`QrOptions::of_stored`] reads.
    pub fn to_stored(&self) -> Result<String, serde_json::Error> {
        match self.refused.as_ref().and_then(|refused| refused.stored.as_ref()) {
            Some(stored) => Ok(stored.clone()),
            None => serde_json::to_string(self),
        }
    }

    /// Whether these options were read from JSON with a value that this version does not know.
    pub fn are_unknown(&self) -> bool {
        self.refused.is_some()
    }

    /// Rejects a design whose logo has a host that the service may not reach. `allows` says which addresses outside the
    /// public internet it may.
    pub fn check_reach(&self, allows: impl Fn(IpAddr) -> bool) -> Result<(), Invalid> {
        let Some(logo) = &self.logo else { return Ok(()) };
        check_logo(logo, allows).map(drop).map_err(|why| within_link(super::wrong("logo", &why)))
    }
}

/// An error of an option, named as a member of a link's `qr`.
pub fn within_link(invalid: Invalid) -> Invalid {
    let Some(field) = invalid.field else { return invalid };
    let message = invalid.message.strip_prefix(&*field).map(|rest| format!("qr.{field}{rest}"));
    Invalid { message: message.unwrap_or(invalid.message), field: Some(format!("qr.{field}").into()), ..invalid }
}

/// The known members of an object, in order.
#[derive(Default)]
struct Members(Vec<(&'static str, Value)>);

impl Source for Members {
    const COLOUR_HINT: &'static str = "";

    fn text(&self, name: &'static str, kind: Kind) -> Result<Option<Cow<'_, str>>, String> {
        let mut values = self.0.iter().filter(|(known, _)| *known == name).map(|(_, value)| value);
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err("is given more than once".to_owned());
        }
        Ok(match (value, kind) {
            (Value::Null, _) => None,
            (Value::Number(digits), Kind::Number) => Some(digits.into()),
            (Value::Boolean(word), Kind::Boolean) => Some(if *word { "true" } else { "false" }.into()),
            (Value::Text(text), Kind::Text) => Some(text.into()),
            (_, Kind::Text) => return Err("must be a string".to_owned()),
            (_, Kind::Boolean) => return Err("must be true or false".to_owned()),
            // No number, which is refused with its range.
            (_, Kind::Number) => Some("".into()),
        })
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match NAMES.into_iter().find(|known| *known == name) {
                // A third one changes nothing.
                Some(known) if self.0.iter().filter(|(name, _)| *name == known).count() < 2 => {
                    self.0.push((known, map.next_value()?));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(self)
    }
}

/// A value of any type.
enum Value {
    Null,
    Boolean(bool),
    /// A whole number.
    Number(String),
    Text(String),
    Other,
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_bool<E>(self, word: bool) -> Result<Value, E> {
                Ok(Value::Boolean(word))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
                Ok(Value::Number(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
                Ok(Value::Number(number.to_string()))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
                Ok(Value::Other)
            }

            fn visit_str<E>(self, text: &str) -> Result<Value, E> {
                Ok(Value::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Value::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Value::Other)
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::ErrorCode;
    use crate::link::{CreateLink, LinkDetail, UpdateLink};
    use crate::patch::Patch;
    use crate::qr::{DotType, QrLevel};

    fn link(qr: &serde_json::Value) -> CreateLink {
        serde_json::from_value(json!({ "qr": qr })).expect("a create request")
    }

    #[test]
    fn a_look_that_is_sent_is_the_look_that_is_read() {
        let look = QrOptions::new()
            .size(300_u32)
            .level(QrLevel::Q)
            .margin(0_u32)
            .dot_type(DotType::ClassyRounded)
            .fg_color(crate::colour::Rgb([1, 2, 3]))
            .hide_logo(false)
            .logo("https://example.com/a.png?b=c&d=e");
        let sent = serde_json::to_value(&look).expect("JSON");
        assert_eq!(sent["fgColor"], "#010203");
        assert_eq!(serde_json::from_value::<QrOptions>(sent).expect("options"), look);
        assert_eq!(link(&json!(look)).check().expect("a link").qr, Some(look));
    }

    /// The same values as in a query, except that numbers and switches have their types.
    #[test]
    fn a_look_is_checked_like_a_query() {
        for (qr, expected) in [
            (json!({"dotType": "CLASSY", "fgColor": "0a3"}), json!({"dotType": "classy", "fgColor": "#00aa33"})),
            (json!({"includeMargin": false}), json!({"margin": 0})),
            (json!({"size": null, "unknown": [1, {}], "level": "q"}), json!({"level": "Q"})),
            (json!({"logo": "https://EXAMPLE.com/a.png"}), json!({"logo": "https://example.com/a.png"})),
            (json!({"logo": "name:acme-2"}), json!({"logo": "name:acme-2"})),
            (json!({"logo": "ftp://x", "hideLogo": true}), json!({"hideLogo": true})),
            (json!({}), json!(null)),
            (json!({"unknown": 1}), json!(null)),
            (json!(null), json!(null)),
        ] {
            assert_eq!(json!(link(&qr).check().expect("a link").qr), expected, "{qr}");
        }
        for (qr, field) in [
            (json!({"size": 2049}), "qr.size"),
            (json!({"size": 600.0}), "qr.size"),
            (json!({"size": -1}), "qr.size"),
            (json!({"size": "600"}), "qr.size"),
            (json!({"margin": [2]}), "qr.margin"),
            (json!({"level": "X"}), "qr.level"),
            (json!({"dotType": 1}), "qr.dotType"),
            (json!({"dotType": ""}), "qr.dotType"),
            (json!({"hideLogo": "true"}), "qr.hideLogo"),
            (json!({"hideLogo": 1}), "qr.hideLogo"),
            (json!({"fgColor": "red"}), "qr.fgColor"),
            (json!({"fgColor": "#fff"}), "qr.fgColor"),
            (json!({"logo": "ftp://example.com/x.png"}), "qr.logo"),
            (json!({"logo": "name:A"}), "qr.logo"),
            (json!({"logo": "name:"}), "qr.logo"),
            (json!({"logo": format!("name:{}", "a".repeat(41))}), "qr.logo"),
            (json!({"logo": {}, "size": 0}), "qr.size"),
        ] {
            let refused = link(&qr).check().expect_err("a refusal");
            let named = (refused.code, refused.field.as_deref());
            assert_eq!(named, (ErrorCode::InvalidQrOptions, Some(field)), "{qr}");
            assert!(refused.message.starts_with(&format!("{field}: ")), "{}", refused.message);
            let update: UpdateLink = serde_json::from_value(json!({ "qr": qr })).expect("an update");
            assert_eq!(update.check().expect_err("a refusal").field.as_deref(), Some(field));
        }
        let inside = link(&json!({"logo": "https://localhost/x.png"})).check().expect("a link").qr.expect("a look");
        assert!(inside.check_reach(|_| true).is_ok(), "the service may be allowed to fetch it");
        assert_eq!(inside.check_reach(|_| false).expect_err("a refusal").field.as_deref(), Some("qr.logo"));
        let twice: CreateLink = serde_json::from_str(r#"{"qr":{"size":1,"size":2,"size":3}}"#).expect("JSON");
        assert!(twice.check().expect_err("a refusal").message.contains("more than once"));
        for other in [json!([]), json!("classy"), json!(1)] {
            assert!(serde_json::from_value::<CreateLink>(json!({ "qr": other })).is_err(), "{other}");
        }
    }

    #[test]
    fn a_look_without_options_is_none() {
        for qr in [json!({}), json!(null), json!({"size": null})] {
            let update: UpdateLink = serde_json::from_value(json!({ "qr": qr })).expect("an update");
            assert_eq!(update.check().expect("valid").qr, Patch::Clear, "{qr}");
        }
    }

    #[test]
    fn a_logos_host_is_checked_by_the_service() {
        let look = QrOptions::new().logo("http://127.0.0.1:8080/x.png");
        assert!(look.check_reach(|address| address.is_loopback()).is_ok());
        let refused = look.check_reach(|_| false).expect_err("a refusal");
        assert_eq!(refused.field.as_deref(), Some("qr.logo"));
        assert!(QrOptions::new().logo("name:acme").check_reach(|_| false).is_ok());
        assert!(QrOptions::new().check_reach(|_| false).is_ok());
    }

    /// A later service may know more values; a client of this version reads its links all the same.
    #[test]
    fn a_link_with_an_unknown_look_is_read() {
        let later = json!({
            "link_id": "a", "url": "https://example.com/a", "ios_deep_link": null, "ios_store_url": null,
            "android_deep_link": null, "android_store_url": null, "web_url": null, "metadata": null,
            "agent_context": null, "social_preview": null, "affiliate_id": null, "status": "active",
            "expires_at": null, "created_at": "2026-11-20T09:30:00.000Z", "updated_at": "2026-11-20T09:30:00.000Z",
            "qr": {"dotType": "later", "size": 300},
        });
        let link: LinkDetail = serde_json::from_value(later).expect("a link");
        assert!(link.qr.is_some_and(|look| look.check().is_err() && look.are_unknown()));
    }

    #[test]
    fn a_stored_look_is_stored_again_as_it_was() {
        let stored = |text: &str| QrOptions::of_stored(text).expect("JSON").map(|look| look.to_stored().expect("JSON"));
        for text in [r#"{"size":300,"dotType":"classy"}"#, r#"{"dotType":"later", "size":300}"#, r#"{"size":5000}"#] {
            assert_eq!(stored(text).as_deref(), Some(text));
        }
        for empty in ["{}", r#"{"size":null}"#] {
            assert_eq!(stored(empty), None, "{empty}");
        }
        assert!(QrOptions::of_stored("[]").is_err());
    }
}
