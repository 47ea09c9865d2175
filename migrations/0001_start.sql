-- The first schema. One text for SQLite and PostgreSQL: only types, clauses and functions that mean the same in both.
-- Times are unix milliseconds from the server's clock, ids are made by the server, JSON is text that is never queried.

-- An account. Its row is also the lock under which its counters move.
CREATE TABLE tenants (
    id          TEXT   NOT NULL PRIMARY KEY,
    created_at  BIGINT NOT NULL,
    -- free, pro, business, scale
    plan_tier   TEXT   NOT NULL DEFAULT 'free',
    -- How many links exist now; moves with the rows of links.
    link_count  BIGINT NOT NULL DEFAULT 0
);

-- A person. A verified address belongs to one tenant; any number of unverified sign-ups may name it.
CREATE TABLE users (
    id          TEXT    NOT NULL PRIMARY KEY,
    tenant_id   TEXT    NOT NULL REFERENCES tenants (id),
    -- trimmed, in lower case
    email       TEXT    NOT NULL,
    verified    BOOLEAN NOT NULL,
    is_owner    BOOLEAN NOT NULL,
    created_at  BIGINT  NOT NULL
);
CREATE UNIQUE INDEX users_verified_email ON users (email) WHERE verified;
CREATE UNIQUE INDEX users_tenant_email ON users (tenant_id, email);

-- A partner whose credentials see only the links that count for it.
CREATE TABLE affiliates (
    id          TEXT   NOT NULL PRIMARY KEY,
    tenant_id   TEXT   NOT NULL REFERENCES tenants (id),
    name        TEXT   NOT NULL,
    partner_key TEXT   NOT NULL,
    -- active, disabled
    status      TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    UNIQUE (tenant_id, partner_key)
);

-- A secret key, or with affiliate_id an affiliate's credential. The key itself is never stored.
CREATE TABLE secret_keys (
    id           TEXT   NOT NULL PRIMARY KEY,
    tenant_id    TEXT   NOT NULL REFERENCES tenants (id),
    affiliate_id TEXT            REFERENCES affiliates (id),
    -- SHA-256 of the key, hex
    key_hash     TEXT   NOT NULL UNIQUE,
    key_prefix   TEXT   NOT NULL,
    created_by   TEXT            REFERENCES users (id),
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT
);
CREATE INDEX secret_keys_tenant ON secret_keys (tenant_id);

-- A host name that a tenant claims, and once verified_at is set, owns.
CREATE TABLE domains (
    id          TEXT   NOT NULL PRIMARY KEY,
    tenant_id   TEXT   NOT NULL REFERENCES tenants (id),
    -- lower-case A-label
    domain      TEXT   NOT NULL,
    -- primary, alternate
    role        TEXT   NOT NULL,
    verified_at BIGINT,
    created_at  BIGINT NOT NULL,
    UNIQUE (tenant_id, domain)
);
CREATE UNIQUE INDEX domains_verified ON domains (domain) WHERE verified_at IS NOT NULL;

-- A link. position orders links by creation across the whole database and names the link in the click log, so that a
-- later link of the same id starts at zero clicks.
CREATE TABLE links (
    tenant_id          TEXT    NOT NULL REFERENCES tenants (id),
    link_id            TEXT    NOT NULL,
    position           BIGINT  NOT NULL UNIQUE,
    -- Whether the link holds its id on the service's own host.
    claimed            BOOLEAN NOT NULL,
    -- Without the claim: the host of the primary domain that the link was made under.
    made_under         TEXT,
    ios_deep_link      TEXT,
    ios_store_url      TEXT,
    android_deep_link  TEXT,
    android_store_url  TEXT,
    web_url            TEXT,
    metadata           TEXT,
    agent_context      TEXT,
    social_preview     TEXT,
    affiliate_id       TEXT    REFERENCES affiliates (id),
    -- What the operator set: flagged, disabled, or null.
    status             TEXT,
    expires_at         BIGINT,
    created_at         BIGINT  NOT NULL,
    updated_at         BIGINT  NOT NULL,
    PRIMARY KEY (tenant_id, link_id)
);
CREATE UNIQUE INDEX links_claim ON links (link_id) WHERE claimed;
CREATE INDEX links_newest ON links (tenant_id, position);
CREATE INDEX links_affiliate ON links (affiliate_id, position) WHERE affiliate_id IS NOT NULL;

-- What the click log still names after a link is gone.
CREATE TABLE deleted_links (
    position   BIGINT NOT NULL PRIMARY KEY,
    tenant_id  TEXT   NOT NULL,
    link_id    TEXT   NOT NULL,
    deleted_at BIGINT NOT NULL
);

-- Why the operator changed a link's status.
CREATE TABLE link_status_changes (
    tenant_id  TEXT   NOT NULL,
    link_id    TEXT   NOT NULL,
    -- active, flagged, disabled
    status     TEXT   NOT NULL,
    reason     TEXT   NOT NULL,
    changed_at BIGINT NOT NULL
);

-- The click log: appended in the order of position, never updated. No index on a random key, since that is what costs.
CREATE TABLE clicks (
    -- Follows the order of commits, and is larger than at << 20: no click that happened at or after a moment stands
    -- before that moment's place.
    position BIGINT NOT NULL,
    -- links.position
    link     BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    -- 0 human, 1 preview, 2 crawler, 3 agent
    kind     BIGINT NOT NULL,
    -- 0 ios, 1 android, 2 macos, 3 windows, 4 other
    platform BIGINT NOT NULL,
    -- visitor_texts.hash; null when the header was absent
    agent    BYTEA,
    referer  BYTEA
);
CREATE INDEX clicks_position ON clicks (position);

-- Every distinct user agent and referer, once.
CREATE TABLE visitor_texts (
    -- first 16 bytes of SHA-256 of the text
    hash    BYTEA  NOT NULL PRIMARY KEY,
    text    TEXT   NOT NULL,
    -- Start of the last UTC day on which a click named it.
    used_at BIGINT NOT NULL
);
CREATE INDEX visitor_texts_used ON visitor_texts (used_at);

-- Places in the click log, a row each because they are locked apart.
--   head     the last position given out. On PostgreSQL whoever appends moves it in the same transaction, so positions
--            follow the order of commits on all nodes; SQLite has one writer, which keeps it in memory.
--   folded   everything up to here is in click_hours.
--   removed  everything up to here is past its retention and gone from the log.
CREATE TABLE click_marks (
    name     TEXT   NOT NULL PRIMARY KEY,
    position BIGINT NOT NULL
);
INSERT INTO click_marks (name, position) VALUES ('head', 0), ('folded', 0), ('removed', 0);

-- How many clicks of a spill file reached the log; moves with them, so that a file is stored once whenever the process
-- dies. Kept long after the file is gone, since a node may come back late.
CREATE TABLE click_spills (
    number     BIGINT NOT NULL PRIMARY KEY,
    stored     BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);

-- Clicks by link, hour (unix milliseconds of its start) and kind. Where in the log they stand and when the first and
-- the last happened tells whether part of an hour can be counted without reading the log, and where to read otherwise.
CREATE TABLE click_hours (
    link           BIGINT NOT NULL,
    hour           BIGINT NOT NULL,
    kind           BIGINT NOT NULL,
    clicks         BIGINT NOT NULL,
    first_position BIGINT NOT NULL,
    last_position  BIGINT NOT NULL,
    first_at       BIGINT NOT NULL,
    last_at        BIGINT NOT NULL,
    PRIMARY KEY (link, hour, kind)
);

-- Replies kept for Idempotency-Key. id is a hash of tenant, scope, method, path and key.
CREATE TABLE replies (
    id         TEXT   NOT NULL PRIMARY KEY,
    -- SHA-256 of the request's body, hex
    request    TEXT   NOT NULL,
    status     BIGINT,
    location   TEXT,
    body       TEXT,
    expires_at BIGINT NOT NULL
);
CREATE INDEX replies_expiry ON replies (expires_at);

-- Single-use tokens that went out by mail.
CREATE TABLE tokens (
    -- SHA-256 of the token, hex
    hash        TEXT   NOT NULL PRIMARY KEY,
    -- signup
    purpose     TEXT   NOT NULL,
    tenant_id   TEXT   NOT NULL REFERENCES tenants (id),
    user_id     TEXT   NOT NULL REFERENCES users (id),
    expires_at  BIGINT NOT NULL,
    consumed_at BIGINT
);

-- Mails that wait to be sent. What they say holds a token, so it is sealed with the server key.
CREATE TABLE mails (
    id         TEXT   NOT NULL PRIMARY KEY,
    sealed     TEXT   NOT NULL,
    due_at     BIGINT NOT NULL,
    attempts   BIGINT NOT NULL DEFAULT 0,
    expires_at BIGINT NOT NULL
);
CREATE INDEX mails_due ON mails (due_at);

-- Facts about the database itself: the check value that only the right server key opens.
CREATE TABLE service (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
