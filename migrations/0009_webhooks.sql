-- What receivers are told: webhooks, events, and events on their way.

-- An address that a tenant's events are posted to.
CREATE TABLE webhooks (
    id            TEXT    NOT NULL PRIMARY KEY,
    tenant_id     TEXT    NOT NULL REFERENCES tenants (id),
    url           TEXT    NOT NULL,
    -- kinds that are sent, one bit each: 1 click, 2 attribute, 4 identify, 8 conversion
    kinds         BIGINT  NOT NULL,
    -- conversions are sent only when their last touch was by a link of this affiliate
    affiliate_id  TEXT,
    active        BOOLEAN NOT NULL,
    -- the secret, sealed with the server key under this row's id
    sealed        TEXT    NOT NULL,
    -- the one before, which signs beside it until then
    sealed_before TEXT,
    before_until  BIGINT,
    -- Clicks up to this place in the log were there before the webhook asked for clicks, and are not sent to it.
    clicks_after  BIGINT  NOT NULL,
    -- the first failed attempt since the last that arrived, and the last that arrived
    failing_since BIGINT,
    delivered_at  BIGINT,
    -- the last failed attempt, to the minute: after a day without one, failures begin anew
    failed_at     BIGINT,
    -- when the service itself switched it off, after three days of failures
    paused_at     BIGINT,
    -- when it was switched on last: what was made before and waits is given up
    waits_after   BIGINT  NOT NULL DEFAULT 0,
    -- so many deliveries wait that newer ones are dropped; how many were
    is_full       BOOLEAN NOT NULL DEFAULT FALSE,
    dropped       BIGINT  NOT NULL DEFAULT 0,
    created_at    BIGINT  NOT NULL,
    updated_at    BIGINT  NOT NULL
);
CREATE INDEX webhooks_tenant ON webhooks (tenant_id);
-- Who wants clicks; everybody else's cost nothing.
CREATE INDEX webhooks_clicks ON webhooks (tenant_id) WHERE active = TRUE AND kinds % 2 = 1;

-- Something that receivers are told of, stored in the transaction of what it tells. A click is told of by the click log
-- itself; it has a row here once it is on its way to a webhook.
CREATE TABLE events (
    id         TEXT   NOT NULL PRIMARY KEY,
    tenant_id  TEXT   NOT NULL REFERENCES tenants (id),
    -- 0 click, 1 attribute, 2 identify, 3 conversion
    kind       BIGINT NOT NULL,
    -- Its place in the one order of clicks and other events. It never comes before what a reader of the stream may have
    -- read. On PostgreSQL null until it is numbered, moments after its commit. 0 for one that was made up to try a
    -- webhook: readers of the stream are past it.
    position   BIGINT,
    -- since when it waits to be numbered, in unix milliseconds: what was told first is numbered first
    waits_since BIGINT,
    -- what is signed and sent, to the byte
    body       TEXT   NOT NULL,
    -- unix milliseconds
    kept_until BIGINT NOT NULL
);
CREATE INDEX events_tenant ON events (tenant_id, position);
CREATE INDEX events_unnumbered ON events (waits_since, kind, id) WHERE position IS NULL;
CREATE INDEX events_kept ON events (kept_until);

-- An event on its way to a webhook, and what became of it.
CREATE TABLE deliveries (
    id         TEXT   NOT NULL PRIMARY KEY,
    tenant_id  TEXT   NOT NULL,
    webhook_id TEXT   NOT NULL,
    event_id   TEXT   NOT NULL,
    -- 0 pending, 1 delivered, 2 failed, 3 canceled, 4 dropped
    state      BIGINT NOT NULL,
    -- attempts so far
    tries      BIGINT NOT NULL,
    -- when the next one is due
    due_at     BIGINT NOT NULL,
    -- the attempts as a JSON array: at, ms, status, error, answer
    log        TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (webhook_id, due_at) WHERE state = 0;
CREATE INDEX deliveries_webhook ON deliveries (webhook_id, id);
-- What waits or did not arrive is looked for among millions that did.
CREATE INDEX deliveries_state ON deliveries (webhook_id, state, id);
CREATE INDEX deliveries_created ON deliveries (created_at);

-- Who sends a tenant's deliveries: one process at a time, which takes the lease anew while it has some.
CREATE TABLE delivery_leases (
    tenant_id  TEXT   NOT NULL PRIMARY KEY,
    -- drawn by each process
    holder     TEXT   NOT NULL,
    expires_at BIGINT NOT NULL
);

-- Up to here clicks are on their way to the webhooks that want them.
INSERT INTO click_marks (name, position) VALUES ('told', 0);
