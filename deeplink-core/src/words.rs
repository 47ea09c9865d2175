//! What enumerations of words and types of many optional fields have in common.

/// How an enumeration with `as_str` is shown, sent and described: as one of these words.
macro_rules! spelled {
    ($name:ident: $($word:literal),+) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some([$($word),+]))
                    .into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {}
    };
}
pub(crate) use spelled;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
            /// A word this build does not know; it keeps its text. The service refuses it.
            Unknown(Box<str>),
        }

        impl $name {
            /// Every known word.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word itself.
            pub fn as_str(&self) -> &str {
                match self { $(Self::$variant => $word,)+ Self::Unknown(text) => text }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text { $($word => Self::$variant,)+ _ => Self::Unknown(text.into()) }
            }
        }

        crate::words::spelled!($name: $($word),+);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(Self::from(&*Cow::<'de, str>::deserialize(deserializer)?))
            }
        }
    };
}
pub(crate) use words;

macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $from:ty,)+) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, value: $from) -> Self {
            self.$field = Some(value.into());
            self
        }
    )+};
}
pub(crate) use setters;
