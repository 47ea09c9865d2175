//! JSON objects that must be objects. Derived readers also take an array of the fields in order, which no caller
//! means.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
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

/// An array of objects, or null.
pub(crate) fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    struct List<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Option<Vec<T>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of objects")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(element) = elements.next_element_seed(Object(PhantomData))? {
                all.push(element);
            }
            Ok(Some(all))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }

    deserializer.deserialize_any(List(PhantomData))
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
