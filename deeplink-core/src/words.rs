//! Macros for what wire types have in common: enumerations of words, setters, replies, shared fields.

/// Formats, serializes and describes an enumeration with `as_str` as one of these words.
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

/// Declares an enumeration of words that may grow: a word that this build does not know keeps its text.
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

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(Self::from(&*std::borrow::Cow::<'de, str>::deserialize(deserializer)?))
            }
        }
    };
}
pub(crate) use words;

/// Declares a builder method for each optional field; `[Patch::Set]` before the fields is for those of an update.
macro_rules! setters {
    ([$set:path] $($(#[$doc:meta])* $field:ident: $from:ty,)+) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, value: $from) -> Self {
            self.$field = $set(value.into());
            self
        }
    )+};
    ($($fields:tt)+) => { $crate::words::setters! { [Some] $($fields)+ } };
}
pub(crate) use setters;

/// Declares a reply of the service: a type to which fields may be added, with a constructor from all of them.
macro_rules! reply {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)+
        }

        impl $name {
            /// A response with these fields.
            pub fn new($($field: $type),+) -> Self {
                Self { $($field),+ }
            }
        }
    };
}
pub(crate) use reply;

/// Declares one page of a list: its items under a name, and where the next page begins.
macro_rules! paged {
    ($(#[$meta:meta])* $name:ident { $(#[$items_meta:meta])* $items:ident: $item:ty, }) => {
        $crate::words::reply! {
            $(#[$meta])*
            $name {
                $(#[$items_meta])* $items: Vec<$item>,
                /// Cursor for the next page; null on the last page.
                next_cursor: Option<String>,
            }
        }

        impl $crate::page::Page for $name {
            type Item = $item;

            fn next_cursor(&self) -> Option<&str> {
                self.next_cursor.as_deref()
            }

            fn into_items(self) -> Vec<$item> {
                self.$items
            }
        }
    };
}
pub(crate) use paged;

/// Declares a request whose only field is an email address.
macro_rules! email_request {
    ($(#[$meta:meta])* $name:ident { $(#[$email_meta:meta])* email }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"email": "ada@example.com"}))))]
        #[non_exhaustive]
        pub struct $name {
            $(#[$email_meta])*
            #[cfg_attr(feature = "openapi", schema(max_length = 254))]
            pub email: String,
        }

        impl $name {
            /// A request with this address.
            pub fn new(email: impl Into<String>) -> Self {
                Self { email: email.into() }
            }

            /// Applies the rules.
            pub fn check(self) -> Result<$crate::user::Email, $crate::error::Invalid> {
                self.email.parse()
            }
        }
    };
}
pub(crate) use email_request;

/// Declares a link as programs see it: the type's own fields around those of the link's contents.
macro_rules! shown_link {
    ($(#[$meta:meta])* $name:ident { $($before:tt)* } { $($after:tt)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct $name {
            /// The link's ID: the last segment of its URL.
            pub link_id: String,
            $($before)*
            /// Deep link that opens the iOS app.
            pub ios_deep_link: Option<String>,
            /// The App Store page.
            pub ios_store_url: Option<String>,
            /// Deep link that opens the Android app.
            pub android_deep_link: Option<String>,
            /// The Google Play page.
            pub android_store_url: Option<String>,
            /// The web page.
            pub web_url: Option<String>,
            /// Any JSON object that the link's creator attached.
            pub metadata: Option<Metadata>,
            /// What the link is for, according to its creator.
            pub agent_context: Option<AgentContext>,
            /// How the link looks when it is shared.
            pub social_preview: Option<SocialPreview>,
            $($after)*
        }
    };
}
pub(crate) use shown_link;
