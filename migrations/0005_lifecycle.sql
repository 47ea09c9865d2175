-- From click to conversion: installs that links open, the people who use them, and what these do.

-- Somebody who uses a tenant's app, by the tenant's own name for them. The row is the lock under which installs are bound
-- to them and their conversions are credited: whoever changes what a user is credited with takes it first (after the
-- install's row, where both are taken).
CREATE TABLE app_users (
    -- orders by creation and names the user in other tables
    position   BIGINT NOT NULL PRIMARY KEY,
    tenant_id  TEXT   NOT NULL REFERENCES tenants (id),
    -- the app's own name for them
    user_id    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (tenant_id, user_id)
);

-- An app on a device. The row is the lock under which its touches are numbered.
CREATE TABLE installs (
    position     BIGINT NOT NULL PRIMARY KEY,
    tenant_id    TEXT   NOT NULL REFERENCES tenants (id),
    -- the app's own name for it
    install_id   TEXT   NOT NULL,
    -- how many touches it has
    touches      BIGINT NOT NULL,
    -- links.position of its first and its latest touch, in the order of their arrival
    first_link   BIGINT,
    last_link    BIGINT,
    -- whom it is bound to, once and for all, and when that was
    app_user     BIGINT          REFERENCES app_users (position),
    bound_at     BIGINT,
    -- 0 identified, 1 reinstalled, 2 new_device: what binding it was
    bound_as     BIGINT,
    -- the last that was said of it: the model, and the whole context as JSON
    device_model TEXT,
    context      TEXT,
    created_at   BIGINT NOT NULL,
    UNIQUE (tenant_id, install_id)
);
CREATE INDEX installs_user ON installs (app_user) WHERE app_user IS NOT NULL;

-- A link opened an install. The first touch of an install is its creation (number 1), the others open it again.
CREATE TABLE touches (
    install       BIGINT NOT NULL,
    at            BIGINT NOT NULL,
    -- 1, 2, 3, … in the order of arrival
    number        BIGINT NOT NULL,
    -- links.position
    link          BIGINT NOT NULL,
    -- the link of the install's first touch
    first_link    BIGINT NOT NULL,
    -- When this link opened this install again the time before, by the clock; null for a first touch and the first time.
    -- The opened installs of one link in a window are those touches whose opened_before lies before the window: no
    -- distinct count is needed.
    opened_before BIGINT,
    app_version   TEXT   NOT NULL,
    PRIMARY KEY (install, at, number)
);
CREATE INDEX touches_link ON touches (link, at, number, opened_before, first_link, install);

-- Each link that touched an install.
CREATE TABLE install_links (
    install        BIGINT NOT NULL,
    link           BIGINT NOT NULL,
    -- the earliest touch, by the clock
    first_at       BIGINT NOT NULL,
    -- the latest touch that opened it again, by the clock
    last_opened_at BIGINT,
    PRIMARY KEY (install, link)
);

-- What links are credited with when an install is bound to a user: a row for each link that touched it before.
CREATE TABLE install_credits (
    link     BIGINT NOT NULL,
    at       BIGINT NOT NULL,
    -- as installs.bound_as
    bound_as BIGINT NOT NULL,
    -- whether it was the first touch, and the last
    is_first BOOLEAN NOT NULL,
    is_last  BOOLEAN NOT NULL,
    install  BIGINT NOT NULL,
    PRIMARY KEY (install, link)
);
CREATE INDEX install_credits_link ON install_credits (link, at, bound_as, is_first, is_last, install);

-- What a user did.
CREATE TABLE conversions (
    position        BIGINT NOT NULL PRIMARY KEY,
    -- the event's id, which receivers see
    id              TEXT   NOT NULL UNIQUE,
    tenant_id       TEXT   NOT NULL REFERENCES tenants (id),
    app_user        BIGINT NOT NULL REFERENCES app_users (position),
    -- null for what came with a key
    source_id       TEXT,
    conversion_type TEXT   NOT NULL,
    metadata        TEXT,
    amount_cents    BIGINT,
    currency        TEXT,
    -- when it happened, and when the service heard of it
    at              BIGINT NOT NULL,
    received_at     BIGINT NOT NULL,
    -- When it became an event: at once if an install was bound to its user, else when one was.
    emitted_at      BIGINT,
    -- links.position of the earliest and the latest touch of its user up to then
    first_link      BIGINT,
    last_link       BIGINT
);
CREATE INDEX conversions_user ON conversions (app_user, at);

-- What links are credited with when a user converts: a row for each link that touched one of the user's installs up to
-- then. Follows the installs that are bound to the user.
CREATE TABLE conversion_credits (
    link            BIGINT  NOT NULL,
    at              BIGINT  NOT NULL,
    conversion_type TEXT    NOT NULL,
    is_first        BOOLEAN NOT NULL,
    is_last         BOOLEAN NOT NULL,
    conversion      BIGINT  NOT NULL,
    PRIMARY KEY (conversion, link)
);
CREATE INDEX conversion_credits_link
    ON conversion_credits (link, at, conversion_type, is_first, is_last, conversion);

-- Idempotency keys of conversions, for 30 days.
CREATE TABLE conversion_keys (
    tenant_id  TEXT   NOT NULL,
    key        TEXT   NOT NULL,
    -- conversions.id
    conversion TEXT   NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX conversion_keys_expiry ON conversion_keys (expires_at);

-- An address that conversions are posted to without a key.
CREATE TABLE sources (
    id          TEXT   NOT NULL PRIMARY KEY,
    tenant_id   TEXT   NOT NULL REFERENCES tenants (id),
    name        TEXT   NOT NULL,
    -- custom
    source_type TEXT   NOT NULL,
    -- SHA-256 of the address's token, hex
    token_hash  TEXT   NOT NULL UNIQUE,
    -- the token, sealed with the server key under this row's id, because the address is shown again
    sealed      TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    UNIQUE (tenant_id, name)
);

-- How many events a tenant had in a calendar month (UTC): conversions in the transaction that stores them, clicks when they
-- are folded. Kept only where plans limit.
CREATE TABLE tenant_months (
    tenant_id TEXT   NOT NULL REFERENCES tenants (id),
    -- unix milliseconds of its start
    month     BIGINT NOT NULL,
    events    BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, month)
);
