//! Records of people, their keys, and partners.

use super::noun::{Column, Field, Kind, Noun, column, nouns};

nouns! {
    /// A new account.
    ACCOUNT("accounts", id: "tenant_id", created: "tenant_id") {
        fields: "tenant_id", "user_id", "id", "key_prefix", "created_at": Moment;
        columns: "ACCOUNT" = "tenant_id", "KEY" = "key_prefix";
    }

    /// The settings of an account.
    ACCOUNTS("accounts", id: "id", created: "id") {
        fields: "id", "name", "time_zone", "icon_url", "theme_color", "created_at": Moment, "deletes_at": Moment;
        columns: "ID" = "id", "NAME" = "name", "TIME ZONE" = "time_zone", "CREATED" = "created_at",
            "DELETION" = "deletes_at";
    }

    /// Who `dl` is to the service.
    IDENTITY("identities", id: "key_prefix", created: "key_prefix") {
        fields: "email", "tenant_id", "tenant_name", "affiliate_id", "affiliate_name", "profile", "base_url", "origin", "key_source", "key_prefix", "accepted", "scope", "key_id", "plan",
            "usage": Lines, "limits": Object;
        columns: "EMAIL" = "email", "ACCOUNT" = "tenant_id", "PROFILE" = "profile", "KEY" = "key_prefix",
            "FROM" = "key_source";
    }

    /// The signed-in person.
    SIGNED_IN("people", id: "user.id", created: "user.email") {
        fields: "email" = "user.email", "user_id" = "user.id", "verified" = "user.verified",
            "is_owner" = "user.is_owner", "tenant_id" = "tenant.id", "tenant_name" = "tenant.name", "tenant_created_at" = "tenant.created_at";
        columns: "EMAIL" = "email", "ACCOUNT" = "tenant_id";
    }

    /// The status of a finished or accepted operation.
    DONE("done", id: "status", created: "status") {
        fields: "status";
        columns: "STATUS" = "status";
    }

    /// People of the team.
    USERS("users", id: "id", created: "id") {
        fields: "id", "email", "verified": Flag, "status": Status, "is_owner": Flag, "created_at": Moment;
        columns: "ID" = "id", "EMAIL" = "email", "STATUS" = "status", "OWNER" = "is_owner", "SINCE" = "created_at";
    }

    /// Entries of the audit log.
    AUDIT_ENTRIES("entries", id: "id", created: "id") {
        fields: "id", "at": Moment, "action", "actor_type", "actor", "target", "detail";
        columns: "TIME" = "at", "ACTION" = "action", "ACTOR TYPE" = "actor_type", "ACTOR" = "actor", "TARGET" = "target",
            "DETAIL" = "detail";
    }

    /// Secret keys, never the keys themselves.
    SECRET_KEYS("keys", id: "id", created: "id") {
        fields: "id", "key_prefix", "created_by", "created_at": Moment, "last_used_at": Moment, "in_use": Flag;
        columns: "ID" = "id", "KEY" = "key_prefix", "IN USE" = "in_use", "CREATED" = "created_at",
            "LAST USED" = "last_used_at";
    }

    /// A new secret key, whole.
    NEW_KEY("keys", id: "id", created: "key") {
        fields: "id", "key", "key_prefix", "created_at": Moment;
        columns: "ID" = "id", "KEY" = "key";
    }

    /// Publishable keys.
    PUBLISHABLE_KEYS("keys", id: "id", created: "id") {
        fields: "id", "key_prefix", "domain", "created_at": Moment;
        columns: "ID" = "id", "KEY" = "key_prefix", "DOMAIN" = "domain", "CREATED" = "created_at";
    }

    /// A new publishable key, whole.
    NEW_PUBLISHABLE_KEY("keys", id: "id", created: "key") {
        fields: "id", "key", "domain", "created_at": Moment;
        columns: "ID" = "id", "KEY" = "key";
    }

    /// Affiliates.
    AFFILIATES("affiliates", id: "id", created: "id") {
        fields: "id", "name", "partner_key", "status": Status, "created_at": Moment, "updated_at": Moment;
        columns: "ID" = "id", "NAME" = "name", "PARTNER KEY" = "partner_key", "STATUS" = "status",
            "CREATED" = "created_at";
    }

    /// Credentials of an affiliate, never the keys themselves.
    CREDENTIALS("credentials", id: "id", created: "id") {
        fields: "id", "key_prefix", "created_at": Moment;
        columns: "ID" = "id", "KEY" = "key_prefix", "CREATED" = "created_at";
    }

    /// A new credential, whole.
    NEW_CREDENTIAL("credentials", id: "id", created: "api_key") {
        fields: "id", "affiliate_id", "api_key", "key_prefix", "created_at": Moment;
        columns: "ID" = "id", "KEY" = "api_key";
    }
}
