//! What `dl` knows about each kind of record: its id, its fields, and which of them a table shows.

/// How a value is shown to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As it is: ids, addresses to share, counts.
    Plain,
    /// A destination: may be cut in a table.
    Destination,
    /// An address whose end tells it from others: may be cut in its middle in a table.
    Address,
    /// Kinds of events: words on a terminal. May be cut in a table.
    Events,
    /// What somebody said: may be cut in a table.
    Said,
    /// A moment: relative on a terminal.
    Moment,
    /// A status: coloured.
    Status,
    /// A number: to the right.
    Count,
    /// True or false: yes or no on a terminal.
    Flag,
    /// Several texts: a line each on a terminal.
    Lines,
}

/// One field: its name for `--fields` and CSV, where its value is, and how it is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) kind: Kind,
    /// Stands in CSV; an object that also has its parts as fields does not.
    pub(crate) csv: bool,
}

/// One column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Column {
    /// A field under a heading.
    Field(&'static str, &'static str),
    /// The first of these destinations that is there.
    Destinations(&'static str, &'static [&'static str]),
    /// The only one of these fields that is there.
    OneOf(&'static str, &'static [&'static str]),
    /// The first of these values that is there.
    First(&'static str, &'static [&'static str], Kind),
    /// How many items a list has.
    Items(&'static str, &'static str),
    /// A field under a heading, left out where the terminal is too narrow for the others.
    Spare(&'static str, &'static str),
}

/// A kind of record.
#[derive(Debug)]
pub(crate) struct Noun {
    /// Which field is the id.
    pub(crate) id: &'static str,
    /// Which field answers a create, in a table.
    pub(crate) created: &'static str,
    /// Under which name a list holds the records.
    pub(crate) list: &'static str,
    pub(crate) fields: &'static [Field],
    pub(crate) columns: &'static [Column],
}

impl Noun {
    /// A field by its name.
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

pub(super) const fn plain(name: &'static str) -> Field {
    Field { name, path: name, kind: Kind::Plain, csv: true }
}

pub(super) const fn of(name: &'static str, kind: Kind) -> Field {
    Field { name, path: name, kind, csv: true }
}

pub(super) const fn inner(name: &'static str, path: &'static str) -> Field {
    Field { name, path, kind: Kind::Plain, csv: true }
}

const fn object(name: &'static str) -> Field {
    Field { name, path: name, kind: Kind::Plain, csv: false }
}

const DESTINATIONS: &[&str] = &["web_url", "ios_deep_link", "ios_store_url", "android_deep_link", "android_store_url"];

/// Links, as lists and details show them.
pub(crate) static LINKS: Noun = Noun {
    id: "link_id",
    created: "url",
    list: "links",
    fields: &[
        plain("link_id"),
        plain("url"),
        of("ios_deep_link", Kind::Destination),
        of("ios_store_url", Kind::Destination),
        of("android_deep_link", Kind::Destination),
        of("android_store_url", Kind::Destination),
        of("web_url", Kind::Destination),
        plain("metadata"),
        object("agent_context"),
        inner("agent.action", "agent_context.action"),
        inner("agent.cta", "agent_context.cta"),
        inner("agent.description", "agent_context.description"),
        object("social_preview"),
        inner("social.title", "social_preview.title"),
        inner("social.description", "social_preview.description"),
        inner("social.image_url", "social_preview.image_url"),
        plain("affiliate_id"),
        of("status", Kind::Status),
        of("expires_at", Kind::Moment),
        of("created_at", Kind::Moment),
        of("updated_at", Kind::Moment),
    ],
    columns: &[
        Column::Field("ID", "link_id"),
        Column::Field("URL", "url"),
        Column::Destinations("LEADS TO", DESTINATIONS),
        Column::Field("STATUS", "status"),
        Column::Field("CREATED", "created_at"),
    ],
};

/// What a create answers with.
pub(crate) static CREATED: Noun = Noun {
    id: "link_id",
    created: "url",
    list: "links",
    fields: &[plain("link_id"), plain("url"), of("expires_at", Kind::Moment)],
    columns: &[Column::Field("ID", "link_id"), Column::Field("URL", "url")],
};

/// Apps.
pub(crate) static APPS: Noun = Noun {
    id: "id",
    created: "id",
    list: "apps",
    fields: &[
        plain("id"),
        plain("platform"),
        plain("app_name"),
        plain("bundle_id"),
        plain("package_name"),
        plain("team_id"),
        plain("sha256_fingerprints"),
        plain("icon_url"),
        plain("theme_color"),
        of("created_at", Kind::Moment),
    ],
    columns: &[
        Column::Field("ID", "id"),
        Column::Field("PLATFORM", "platform"),
        Column::OneOf("APP", &["bundle_id", "package_name"]),
        Column::Field("NAME", "app_name"),
        Column::Field("CREATED", "created_at"),
    ],
};

/// Domains.
pub(crate) static DOMAINS: Noun = Noun {
    id: "domain",
    created: "domain",
    list: "domains",
    fields: &[
        plain("domain"),
        plain("role"),
        of("verified", Kind::Flag),
        of("created_at", Kind::Moment),
        plain("txt_record"),
        plain("verification_token"),
        plain("cname_target"),
    ],
    columns: &[
        Column::Field("DOMAIN", "domain"),
        Column::Field("ROLE", "role"),
        Column::Field("VERIFIED", "verified"),
        Column::Field("CREATED", "created_at"),
    ],
};

/// What a claim on a domain answers with.
pub(crate) static CLAIMS: Noun = Noun {
    id: "domain",
    created: "domain",
    list: "domains",
    fields: &[
        plain("domain"),
        plain("role"),
        of("verified", Kind::Flag),
        plain("txt_record"),
        plain("verification_token"),
        plain("cname_target"),
    ],
    columns: &[Column::Field("DOMAIN", "domain")],
};

/// What looking into DNS gave.
pub(crate) static VERIFICATIONS: Noun = Noun {
    id: "domain",
    created: "domain",
    list: "verifications",
    fields: &[
        plain("domain"),
        of("verified", Kind::Flag),
        of("checked_at", Kind::Moment),
        of("txt_found", Kind::Lines),
        plain("reason"),
    ],
    columns: &[
        Column::Field("DOMAIN", "domain"),
        Column::Field("VERIFIED", "verified"),
        Column::Field("REASON", "reason"),
    ],
};

/// Apps of an association file.
pub(crate) static ASSOCIATIONS: Noun = Noun {
    id: "app",
    created: "app",
    list: "apps",
    fields: &[plain("app"), plain("sha256_cert_fingerprints")],
    columns: &[Column::Field("APP", "app"), Column::Field("SHA-256", "sha256_cert_fingerprints")],
};

/// What a doctor found.
pub(crate) static CHECKS: Noun = Noun {
    id: "id",
    created: "id",
    list: "checks",
    fields: &[plain("id"), plain("subject"), of("status", Kind::Status), plain("message"), plain("fix")],
    columns: &[
        Column::Field("STATUS", "status"),
        Column::Field("CHECK", "id"),
        Column::Field("SUBJECT", "subject"),
        Column::Field("MESSAGE", "message"),
        Column::Field("FIX", "fix"),
    ],
};

/// What a delete answers with.
pub(crate) static DELETED: Noun = Noun {
    id: "id",
    created: "id",
    list: "deleted",
    fields: &[plain("id"), plain("deleted")],
    columns: &[Column::Field("ID", "id")],
};

/// QR codes in files.
pub(crate) static CODES: Noun = Noun {
    id: "id",
    created: "file",
    list: "codes",
    fields: &[
        plain("id"),
        plain("file"),
        plain("url"),
        plain("format"),
        of("bytes", Kind::Count),
        of("verified", Kind::Flag),
        of("status", Kind::Status),
        of("expires_at", Kind::Moment),
    ],
    columns: &[Column::Field("ID", "id"), Column::Field("FILE", "file"), Column::Field("BYTES", "bytes")],
};

/// Clicks in one stretch of time.
pub(crate) static BUCKETS: Noun = Noun {
    id: "date",
    created: "date",
    list: "data",
    fields: &[plain("date"), of("clicks", Kind::Count)],
    columns: &[Column::Field("DATE", "date"), Column::Field("CLICKS", "clicks")],
};

/// What a resolve says.
pub(crate) static RESOLUTION: Noun = Noun {
    id: "link_id",
    created: "location",
    list: "resolutions",
    fields: &[plain("link_id"), plain("status"), of("location", Kind::Destination), object("shows")],
    columns: &[Column::Field("STATUS", "status"), Column::Field("LOCATION", "location")],
};

/// What a link says to a program.
pub(crate) static RESOLVED: Noun = Noun {
    id: "link_id",
    created: "link_id",
    list: "links",
    fields: &[
        plain("link_id"),
        of("ios_deep_link", Kind::Destination),
        of("ios_store_url", Kind::Destination),
        of("android_deep_link", Kind::Destination),
        of("android_store_url", Kind::Destination),
        of("web_url", Kind::Destination),
        plain("metadata"),
        object("agent_context"),
        inner("agent.action", "agent_context.action"),
        inner("agent.cta", "agent_context.cta"),
        inner("agent.description", "agent_context.description"),
        object("social_preview"),
        inner("social.title", "social_preview.title"),
        inner("social.description", "social_preview.description"),
        inner("social.image_url", "social_preview.image_url"),
        object("_service_meta"),
        Field { name: "status", path: "_service_meta.status", kind: Kind::Status, csv: true },
        inner("source", "_service_meta.source"),
        inner("tenant_domain", "_service_meta.tenant_domain"),
        inner("tenant_verified", "_service_meta.tenant_verified"),
    ],
    columns: &[
        Column::Field("ID", "link_id"),
        Column::Destinations("LEADS TO", DESTINATIONS),
        Column::Field("STATUS", "status"),
    ],
};

/// What the service says about itself.
pub(crate) static HEALTH: Noun = Noun {
    id: "status",
    created: "status",
    list: "health",
    fields: &[plain("status")],
    columns: &[Column::Field("STATUS", "status")],
};

/// Profiles of the configuration.
pub(crate) static PROFILES: Noun = Noun {
    id: "name",
    created: "name",
    list: "profiles",
    fields: &[plain("name"), plain("active"), plain("base_url"), plain("store"), plain("key_prefix"), plain("output")],
    columns: &[
        Column::Field("NAME", "name"),
        Column::Field("ACTIVE", "active"),
        Column::Field("BASE URL", "base_url"),
        Column::Field("KEY", "key_prefix"),
    ],
};

/// Settings of the configuration.
pub(crate) static SETTINGS: Noun = Noun {
    id: "key",
    created: "value",
    list: "settings",
    fields: &[plain("key"), plain("value")],
    columns: &[Column::Field("KEY", "key"), Column::Field("VALUE", "value")],
};

/// Imports, finished or not.
pub(crate) static IMPORTS: Noun = Noun {
    id: "run",
    created: "run",
    list: "imports",
    fields: &[
        plain("run"),
        plain("file"),
        of("state", Kind::Status),
        of("rows", Kind::Count),
        of("done", Kind::Count),
        plain("origin"),
        of("started_at", Kind::Moment),
    ],
    columns: &[
        Column::Field("RUN", "run"),
        Column::Field("FILE", "file"),
        Column::Field("STATE", "state"),
        Column::Field("DONE", "done"),
        Column::Field("ROWS", "rows"),
        Column::Field("STARTED", "started_at"),
    ],
};
