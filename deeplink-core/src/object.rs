//! JSON values that must be objects. Derived deserializers also accept an array of the fields in order, which no caller
//! intends.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::patch::Patch;

struct Object<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Object<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        let value = deserializer.deserialize_any(self)?;
        value.ok_or_else(|| serde::de::Error::custom("expected an object, not null"))
    }
}

/// An object or null.
pub(crate) fn optional<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(Object(PhantomData))
}

/// An object or null in an update.
pub(crate) fn patch<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Patch<T>, D::Error> {
    optional(deserializer).map(Patch::from)
}

/// An array of objects, or null. It keeps up to `max` and one more, which shows that there are too many.
pub(crate) fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    max: usize,
) -> Result<Option<Vec<T>>, D::Error> {
    deserializer.deserialize_any(List { element: || Object(PhantomData), max, expecting: "an array of objects" })
}

/// The same for texts.
pub(crate) fn texts<'de, D: Deserializer<'de>>(deserializer: D, max: usize) -> Result<Option<Vec<String>>, D::Error> {
    deserializer.deserialize_any(List { element: || PhantomData::<String>, max, expecting: "an array of strings" })
}

/// An array of up to `max` elements. One more is kept to show that there are too many; the rest is skipped, using no
/// memory.
struct List<F> {
    element: F,
    max: usize,
    expecting: &'static str,
}

impl<'de, S: DeserializeSeed<'de>, F: Fn() -> S> Visitor<'de> for List<F> {
    type Value = Option<Vec<S::Value>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut kept = Vec::new();
        while kept.len() <= self.max {
            let Some(element) = elements.next_element_seed((self.element)())? else { return Ok(Some(kept)) };
            kept.push(element);
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Some(kept))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use crate::bulk::BulkCreate;
    use crate::link::{CreateLink, UpdateLink};

    #[test]
    fn an_array_is_no_object() {
        for json in [
            r#"{"agent_context":["read","x",null]}"#,
            r#"{"social_preview":["a","b",null]}"#,
            r#"{"agent_context":"read"}"#,
            r#"{"agent_context":1}"#,
        ] {
            assert!(serde_json::from_str::<CreateLink>(json).is_err(), "{json}");
            assert!(serde_json::from_str::<UpdateLink>(json).is_err(), "{json}");
        }
        for json in [r#"{"template":[]}"#, r#"{"links":[[]]}"#, r#"{"links":[null]}"#, r#"{"links":{}}"#] {
            assert!(serde_json::from_str::<BulkCreate>(json).is_err(), "{json}");
        }
        let json = r#"{"links":[{"metadata":{"n":1e400},"agent_context":{"cta":"x"}}],"template":null}"#;
        let bulk: BulkCreate = serde_json::from_str(json).expect("a batch");
        let metadata = bulk.links.and_then(|links| links.into_iter().next()).and_then(|link| link.metadata);
        assert_eq!(metadata.as_ref().map(crate::metadata::Metadata::as_str), Some(r#"{"n":1e400}"#));
    }
}
