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
    hash BYTEA NOT NULL PRIMARY KEY,
    text TEXT  NOT NULL
);

-- One row. Whoever appends clicks moves head in the same transaction, so positions follow the order of commits;
-- everything up to folded is in the rollups.
CREATE TABLE click_log (
    only_row BIGINT NOT NULL PRIMARY KEY CHECK (only_row = 1),
    head     BIGINT NOT NULL,
    folded   BIGINT NOT NULL
);
INSERT INTO click_log (only_row, head, folded) VALUES (1, 0, 0);

-- Batches that reached the log, kept a day: a click that was also spilled to a file is not stored twice.
CREATE TABLE click_batches (
    id         BIGINT NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL
);

-- Clicks by link, hour (unix milliseconds of its start) and kind.
CREATE TABLE click_hours (
    link   BIGINT NOT NULL,
    hour   BIGINT NOT NULL,
    kind   BIGINT NOT NULL,
    clicks BIGINT NOT NULL,
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
