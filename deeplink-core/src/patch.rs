//! The three states of a field in an update: absent, null, or a value.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{ErrorCode, Invalid};

/// One field of an update. Use with `#[serde(default, skip_serializing_if = "Patch::is_keep")]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Patch<T> {
    /// The field is absent: its value stays.
    #[default]
    Keep,
    /// The field is `null`: its value is removed.
    Clear,
    /// The field has a value: it replaces the old one entirely.
    Set(T),
}

impl<T> Patch<T> {
    /// Whether the field was absent.
    pub const fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// The same update with a reference to the value.
    pub const fn as_ref(&self) -> Patch<&T> {
        match self {
            Self::Keep => Patch::Keep,
            Self::Clear => Patch::Clear,
            Self::Set(value) => Patch::Set(value),
        }
    }

    /// Converts the value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Patch<U> {
        match self {
            Self::Keep => Patch::Keep,
            Self::Clear => Patch::Clear,
            Self::Set(value) => Patch::Set(f(value)),
        }
    }

    /// As [`Patch::map`], for a conversion that can fail.
    pub fn try_map<U, E>(self, f: impl FnOnce(T) -> Result<U, E>) -> Result<Patch<U>, E> {
        Ok(match self {
            Self::Keep => Patch::Keep,
            Self::Clear => Patch::Clear,
            Self::Set(value) => Patch::Set(f(value)?),
        })
    }

    /// The new value of a field that is not nullable, `None` if it stays; null is refused.
    pub fn required(self, field: &'static str) -> Result<Option<T>, Invalid> {
        match self {
            Self::Keep => Ok(None),
            Self::Clear => Err(Invalid::field(ErrorCode::BadRequest, field, format!("{field} cannot be null"))),
            Self::Set(value) => Ok(Some(value)),
        }
    }

    /// Applies the update to a stored value.
    pub fn apply(self, stored: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Clear => *stored = None,
            Self::Set(value) => *stored = Some(value),
        }
    }
}

impl<T> From<Option<T>> for Patch<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Clear, Self::Set)
    }
}

impl<T: Serialize> Serialize for Patch<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Keep | Self::Clear => serializer.serialize_none(),
            Self::Set(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<T>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Update {
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        f: Patch<String>,
    }

    #[test]
    fn absent_null_and_value_survive_a_round_trip() {
        for text in ["{}", r#"{"f":null}"#, r#"{"f":"x"}"#] {
            let update: Update = serde_json::from_str(text).expect("an update");
            assert_eq!(serde_json::to_string(&update).expect("JSON"), text);
        }
    }
}
