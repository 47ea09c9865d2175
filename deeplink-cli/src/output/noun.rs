//! The kinds of records: their id, their fields, and which of them a table shows.

use super::Record;

/// How a value is shown to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As it is: ids, addresses to share, counts.
    Plain,
    /// A destination: may be cut in a table.
    Destination,
    /// An address whose end distinguishes it: may be cut in the middle in a table.
    Address,
    /// Kinds of events: words on a terminal. May be cut in a table.
    Events,
    /// Free text: may be cut in a table.
    Text,
    /// A moment: relative on a terminal.
    Moment,
    /// A status: colored.
    Status,
    /// A number: right-aligned.
    Count,
    /// True or false: yes or no on a terminal.
    Flag,
    /// Several texts: a line each on a terminal.
    Lines,
    /// Several texts without commas: separated by commas.
    Words,
    /// An object whose members are fields too: not a column of CSV.
    Object,
}

/// One field: its name for `--fields` and CSV, where its value is, and how it is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) kind: Kind,
}

impl Field {
    pub(super) const fn named(name: &'static str) -> Self {
        Self { name, path: name, kind: Kind::Plain }
    }

    pub(super) const fn at(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    pub(super) const fn shown_as(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The value of a record as a cell.
    pub(crate) fn cell(&self, record: &Record<'_>) -> Option<String> {
        let words = || serde_json::from_str::<Vec<String>>(record.get(self.path)?.get()).ok();
        match self.kind {
            Kind::Words => words().map_or_else(|| record.cell(self.path), |words| Some(words.join(","))),
            _ => record.cell(self.path),
        }
    }

    /// Whether CSV and the list of one record's fields include it.
    pub(super) fn is_in_csv(&self) -> bool {
        self.kind != Kind::Object
    }
}

/// One column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Column {
    /// A field under a heading.
    Field(&'static str, &'static str),
    /// The first of these destinations that is present.
    Destinations(&'static str, &'static [&'static str]),
    /// The only one of these fields that is present.
    OneOf(&'static str, &'static [&'static str]),
    /// The first of these values that is present.
    First(&'static str, &'static [&'static str], Kind),
    /// How many items a list has.
    Items(&'static str, &'static str),
    /// A field under a heading, left out if the terminal is too narrow for the others.
    Spare(&'static str, &'static str),
    /// The same, shown only on a terminal, and only if a row has it.
    Extra(&'static str, &'static str),
}

/// A kind of record.
#[derive(Debug)]
pub(crate) struct Noun {
    /// Which field is the id.
    pub(crate) id: &'static str,
    /// Which field a create prints in a table.
    pub(crate) created: &'static str,
    /// Under which name a list holds the records.
    pub(crate) list: &'static str,
    pub(crate) fields: &'static [Field],
    pub(crate) columns: &'static [Column],
}

impl Noun {
    /// The columns of CSV.
    pub(crate) fn csv_fields(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().filter(|field| field.is_in_csv())
    }

    /// A field by its name.
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// A field by its name, by where the API has it, such as `social_preview.title`, or as an entry of the metadata. The latter
    /// two are called what they were asked for.
    pub(super) fn field_or_path(&self, name: &str) -> Option<&'static Field> {
        let entry =
            || self.field("metadata").filter(|_| name.strip_prefix("metadata.").is_some_and(|key| !key.is_empty()));
        let other = || self.fields.iter().find(|field| field.path == name).or_else(entry);
        self.field(name).or_else(|| {
            // Few are asked for, and they are used until the end.
            let (kind, name) = (other()?.kind, &*name.to_owned().leak());
            Some(&*Box::leak(Box::new(Field { name, path: name, kind })))
        })
    }
}

/// Defines kinds of records. A field is `"name" = "path": Kind`; the path defaults to the name and the kind to `Plain`. A
/// column is `"HEADING" = "field"`, or `"HEADING" = (Variant arguments)` for any other variant of [`Column`].
macro_rules! nouns {
    ($(
        $(#[$doc:meta])*
        $noun:ident($list:literal, id: $id:literal, created: $created:literal) {
            fields: $($field:literal $(= $path:literal)? $(: $kind:ident)?),+;
            columns: $($heading:literal = $column:tt),+;
        }
    )+) => {$(
        $(#[$doc])*
        pub(crate) static $noun: Noun = Noun {
            id: $id,
            created: $created,
            list: $list,
            fields: &[$(Field::named($field)$(.at($path))?$(.shown_as(Kind::$kind))?),+],
            columns: &[$(column!($heading, $column)),+],
        };
    )+};
}

macro_rules! column {
    ($heading:literal, ($variant:ident $($argument:expr),+)) => { Column::$variant($heading, $($argument),+) };
    ($heading:literal, $field:literal) => { Column::Field($heading, $field) };
}

pub(super) use {column, nouns};

const DESTINATIONS: &[&str] = &["web_url", "ios_deep_link", "ios_store_url", "android_deep_link", "android_store_url"];

const VERSION_DESTINATIONS: &[&str] = &[
    "content.web_url",
    "content.ios_deep_link",
    "content.ios_store_url",
    "content.android_deep_link",
    "content.android_store_url",
];

nouns! {
    /// Links, as lists and details show them.
    LINKS("links", id: "link_id", created: "url") {
        fields: "link_id", "url", "ios_deep_link": Destination, "ios_store_url": Destination,
            "android_deep_link": Destination, "android_store_url": Destination, "web_url": Destination, "metadata",
            "agent_context": Object, "agent.action" = "agent_context.action", "agent.cta" = "agent_context.cta",
            "agent.description" = "agent_context.description", "social_preview": Object,
            "social.title" = "social_preview.title", "social.description" = "social_preview.description",
            "social.image_url" = "social_preview.image_url", "affiliate_id", "status": Status, "expires_at": Moment,
            "created_at": Moment, "updated_at": Moment, "name", "enabled",
            "owner_expires_at": Moment, "expired_url": Destination, "tags": Words,
            "aliases": Words, "qr", "imported_clicks": Count;
        columns: "ID" = "link_id", "URL" = "url", "DESTINATION" = (Destinations DESTINATIONS), "STATUS" = "status",
            "CREATED" = "created_at", "NAME" = (Extra "name"), "TAGS" = (Extra "tags"),
            "ALIASES" = (Extra "aliases");
    }

    /// Versions of a link.
    LINK_VERSIONS("versions", id: "version", created: "version") {
        fields: "version": Count, "change": Text, "changed_at": Moment, "actor_type", "actor", "bulk": Flag,
            "content": Object, "content.web_url": Destination, "content.ios_deep_link": Destination,
            "content.android_deep_link": Destination, "content.name", "content.enabled": Flag, "content.tags": Words,
            "content.aliases": Words;
        columns: "VERSION" = "version", "CHANGE" = "change", "TIME" = "changed_at",
            "ACTOR" = (First &["actor", "actor_type"], Kind::Plain),
            "PREVIOUS DESTINATION" = (Destinations VERSION_DESTINATIONS);
    }

    /// The reply to a create.
    CREATED("links", id: "link_id", created: "url") {
        fields: "link_id", "url", "expires_at": Moment;
        columns: "ID" = "link_id", "URL" = "url";
    }

    /// Tags of links.
    TAGS("tags", id: "tag", created: "tag") {
        fields: "tag", "links": Count;
        columns: "TAG" = "tag", "LINKS" = "links";
    }

    /// Logos for QR codes.
    QR_LOGOS("logos", id: "name", created: "name") {
        fields: "name", "width": Count, "height": Count, "bytes": Count, "created_at": Moment, "updated_at": Moment;
        columns: "NAME" = "name", "WIDTH" = "width", "HEIGHT" = "height", "BYTES" = "bytes", "CREATED" = "created_at";
    }

    /// A downloaded logo.
    LOGO_FILES("files", id: "file", created: "file") {
        fields: "name", "file", "bytes": Count;
        columns: "FILE" = "file";
    }

    /// Apps.
    APPS("apps", id: "id", created: "id") {
        fields: "id", "platform", "app_name", "bundle_id", "package_name", "team_id", "sha256_fingerprints",
            "icon_url", "theme_color", "created_at": Moment;
        columns: "ID" = "id", "PLATFORM" = "platform", "APP" = (OneOf &["bundle_id", "package_name"]),
            "NAME" = "app_name", "CREATED" = "created_at";
    }

    /// Domains.
    DOMAINS("domains", id: "domain", created: "domain") {
        fields: "domain", "role", "verified": Flag, "created_at": Moment, "txt_record", "verification_token",
            "cname_target", "root_url": Destination, "not_found_url": Destination, "long_links": Flag,
            "allowed_hosts": Words;
        columns: "DOMAIN" = "domain", "ROLE" = "role", "VERIFIED" = "verified", "CREATED" = "created_at",
            "ROOT URL" = (Spare "root_url"), "NOT FOUND URL" = (Spare "not_found_url");
    }

    /// The reply to a claim on a domain.
    CLAIMS("domains", id: "domain", created: "domain") {
        fields: "domain", "role", "verified": Flag, "txt_record", "verification_token", "cname_target";
        columns: "DOMAIN" = "domain";
    }

    /// The result of a DNS check.
    VERIFICATIONS("verifications", id: "domain", created: "domain") {
        fields: "domain", "verified": Flag, "checked_at": Moment, "txt_found": Lines, "reason";
        columns: "DOMAIN" = "domain", "VERIFIED" = "verified", "REASON" = "reason";
    }

    /// Apps of an association file.
    ASSOCIATIONS("apps", id: "app", created: "app") {
        fields: "app", "sha256_cert_fingerprints";
        columns: "APP" = "app", "SHA-256" = "sha256_cert_fingerprints";
    }

    /// Results of `dl doctor`.
    CHECKS("checks", id: "id", created: "id") {
        fields: "id", "subject", "status": Status, "message", "fix";
        columns: "STATUS" = "status", "CHECK" = "id", "SUBJECT" = "subject", "MESSAGE" = "message", "FIX" = "fix";
    }

    /// The result of a delete.
    DELETED("deleted", id: "id", created: "id") {
        fields: "id", "deleted";
        columns: "ID" = "id";
    }

    /// QR codes in files.
    CODES("codes", id: "id", created: "file") {
        fields: "id", "file", "url", "format", "bytes": Count, "verified": Flag, "status": Status,
            "expires_at": Moment;
        columns: "ID" = "id", "FILE" = "file", "BYTES" = "bytes";
    }

    /// Clicks in one time bucket.
    BUCKETS("data", id: "date", created: "date") {
        fields: "date", "clicks": Count;
        columns: "DATE" = "date", "CLICKS" = "clicks";
    }

    /// The result of resolving a link.
    RESOLUTION("resolutions", id: "link_id", created: "location") {
        fields: "link_id", "status", "location": Destination, "shows": Object;
        columns: "STATUS" = "status", "LOCATION" = "location";
    }

    /// What visitors to a link would get.
    EXPLANATIONS("explanations", id: "link_id", created: "target") {
        fields: "as", "leads_to": Destination, "outcome", "reason", "target": Destination, "fallback": Destination,
            "timer_ms": Count, "ipad_target": Destination, "step": Count, "row", "status": Status, "form", "platform",
            "visitor", "in_app": Flag, "http_status": Count, "counted", "link_id", "url", "headers": Object;
        columns: "VISITOR" = "as", "RESPONSE" = "outcome", "TARGET" = "leads_to";
    }

    /// A link as programs see it.
    RESOLVED("links", id: "link_id", created: "link_id") {
        fields: "link_id", "ios_deep_link": Destination, "ios_store_url": Destination,
            "android_deep_link": Destination, "android_store_url": Destination, "web_url": Destination, "metadata",
            "agent_context": Object, "agent.action" = "agent_context.action", "agent.cta" = "agent_context.cta",
            "agent.description" = "agent_context.description", "social_preview": Object,
            "social.title" = "social_preview.title", "social.description" = "social_preview.description",
            "social.image_url" = "social_preview.image_url", "_service_meta": Object,
            "status" = "_service_meta.status": Status, "source" = "_service_meta.source",
            "tenant_domain" = "_service_meta.tenant_domain", "tenant_verified" = "_service_meta.tenant_verified";
        columns: "ID" = "link_id", "DESTINATION" = (Destinations DESTINATIONS), "STATUS" = "status";
    }

    /// The service's state.
    HEALTH("health", id: "status", created: "status") {
        fields: "status";
        columns: "STATUS" = "status";
    }

    /// Profiles of the configuration.
    PROFILES("profiles", id: "name", created: "name") {
        fields: "name", "active", "base_url", "store", "key_prefix", "output";
        columns: "NAME" = "name", "ACTIVE" = "active", "BASE URL" = "base_url", "KEY" = "key_prefix";
    }

    /// Settings of the configuration.
    SETTINGS("settings", id: "key", created: "value") {
        fields: "key", "value";
        columns: "KEY" = "key", "VALUE" = "value";
    }

    /// Imports, finished or not.
    IMPORTS("imports", id: "run", created: "run") {
        fields: "run", "file", "state": Status, "rows": Count, "done": Count, "origin", "started_at": Moment,
            "rejected": Count;
        columns: "IMPORT" = "run", "FILE" = "file", "STATE" = "state", "DONE" = "done", "ROWS" = "rows",
            "STARTED" = "started_at", "REJECTED" = (Spare "rejected");
    }
}
