//! What `dl` knows about people, their keys, and partners.

use super::noun::{Column, Kind, Noun, inner, of, plain};

/// A new account.
pub(crate) static ACCOUNT: Noun = Noun {
    id: "tenant_id",
    created: "tenant_id",
    list: "accounts",
    fields: &[plain("tenant_id"), plain("user_id"), plain("id"), plain("key_prefix"), of("created_at", Kind::Moment)],
    columns: &[Column::Field("ACCOUNT", "tenant_id"), Column::Field("KEY", "key_prefix")],
};

/// Who `dl` is to the service.
pub(crate) static IDENTITY: Noun = Noun {
    id: "key_prefix",
    created: "key_prefix",
    list: "identities",
    fields: &[
        plain("profile"),
        plain("base_url"),
        plain("origin"),
        plain("key_source"),
        plain("key_prefix"),
        plain("accepted"),
        plain("scope"),
        plain("key_id"),
    ],
    columns: &[
        Column::Field("PROFILE", "profile"),
        Column::Field("KEY", "key_prefix"),
        Column::Field("FROM", "key_source"),
    ],
};

/// Somebody who is signed in.
pub(crate) static SIGNED_IN: Noun = Noun {
    id: "user.id",
    created: "user.email",
    list: "people",
    fields: &[
        inner("email", "user.email"),
        inner("user_id", "user.id"),
        inner("verified", "user.verified"),
        inner("is_owner", "user.is_owner"),
        inner("tenant_id", "tenant.id"),
        inner("tenant_created_at", "tenant.created_at"),
    ],
    columns: &[Column::Field("EMAIL", "email"), Column::Field("ACCOUNT", "tenant_id")],
};

/// What is done or on its way.
pub(crate) static DONE: Noun = Noun {
    id: "status",
    created: "status",
    list: "done",
    fields: &[plain("status")],
    columns: &[Column::Field("STATUS", "status")],
};

/// People of the team.
pub(crate) static USERS: Noun = Noun {
    id: "id",
    created: "id",
    list: "users",
    fields: &[
        plain("id"),
        plain("email"),
        of("verified", Kind::Flag),
        of("status", Kind::Status),
        of("is_owner", Kind::Flag),
        of("created_at", Kind::Moment),
    ],
    columns: &[
        Column::Field("ID", "id"),
        Column::Field("EMAIL", "email"),
        Column::Field("STATUS", "status"),
        Column::Field("OWNER", "is_owner"),
        Column::Field("SINCE", "created_at"),
    ],
};

/// Secret keys, never the keys themselves.
pub(crate) static SECRET_KEYS: Noun = Noun {
    id: "id",
    created: "id",
    list: "keys",
    fields: &[
        plain("id"),
        plain("key_prefix"),
        plain("created_by"),
        of("created_at", Kind::Moment),
        of("last_used_at", Kind::Moment),
        of("in_use", Kind::Flag),
    ],
    columns: &[
        Column::Field("ID", "id"),
        Column::Field("KEY", "key_prefix"),
        Column::Field("IN USE", "in_use"),
        Column::Field("CREATED", "created_at"),
        Column::Field("LAST USED", "last_used_at"),
    ],
};

/// A new secret key, whole.
pub(crate) static NEW_KEY: Noun = Noun {
    id: "id",
    created: "key",
    list: "keys",
    fields: &[plain("id"), plain("key"), plain("key_prefix"), of("created_at", Kind::Moment)],
    columns: &[Column::Field("ID", "id"), Column::Field("KEY", "key")],
};

/// Publishable keys.
pub(crate) static PUBLISHABLE_KEYS: Noun = Noun {
    id: "id",
    created: "id",
    list: "keys",
    fields: &[plain("id"), plain("key_prefix"), plain("domain"), of("created_at", Kind::Moment)],
    columns: &[
        Column::Field("ID", "id"),
        Column::Field("KEY", "key_prefix"),
        Column::Field("DOMAIN", "domain"),
        Column::Field("CREATED", "created_at"),
    ],
};

/// A new publishable key, whole.
pub(crate) static NEW_PUBLISHABLE_KEY: Noun = Noun {
    id: "id",
    created: "key",
    list: "keys",
    fields: &[plain("id"), plain("key"), plain("domain"), of("created_at", Kind::Moment)],
    columns: &[Column::Field("ID", "id"), Column::Field("KEY", "key")],
};

/// Affiliates.
pub(crate) static AFFILIATES: Noun = Noun {
    id: "id",
    created: "id",
    list: "affiliates",
    fields: &[
        plain("id"),
        plain("name"),
        plain("partner_key"),
        of("status", Kind::Status),
        of("created_at", Kind::Moment),
        of("updated_at", Kind::Moment),
    ],
    columns: &[
        Column::Field("ID", "id"),
        Column::Field("NAME", "name"),
        Column::Field("PARTNER KEY", "partner_key"),
        Column::Field("STATUS", "status"),
        Column::Field("CREATED", "created_at"),
    ],
};

/// Credentials of an affiliate, never the keys themselves.
pub(crate) static CREDENTIALS: Noun = Noun {
    id: "id",
    created: "id",
    list: "credentials",
    fields: &[plain("id"), plain("key_prefix"), of("created_at", Kind::Moment)],
    columns: &[Column::Field("ID", "id"), Column::Field("KEY", "key_prefix"), Column::Field("CREATED", "created_at")],
};

/// A new credential, whole.
pub(crate) static NEW_CREDENTIAL: Noun = Noun {
    id: "id",
    created: "api_key",
    list: "credentials",
    fields: &[
        plain("id"),
        plain("affiliate_id"),
        plain("api_key"),
        plain("key_prefix"),
        of("created_at", Kind::Moment),
    ],
    columns: &[Column::Field("ID", "id"), Column::Field("KEY", "api_key")],
};
