-- Payments for single requests, and the accounts of the wallets that made them.

-- An account that a wallet paid its way into. It has no users and no keys.
CREATE TABLE wallets (
    -- What its address belongs to: the first part of a CAIP-2 name, such as eip155
    namespace  TEXT   NOT NULL,
    -- In lower case where case means nothing
    address    TEXT   NOT NULL,
    tenant_id  TEXT   NOT NULL UNIQUE REFERENCES tenants (id),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, address)
);

-- A payment that was or is being settled; kept for 90 days. Both versions of the protocol share the rows, so an
-- authorization can be used once.
CREATE TABLE payments (
    -- SHA-256 of network, asset, payer and nonce, hex
    id          TEXT   NOT NULL PRIMARY KEY,
    -- CAIP-2
    network     TEXT   NOT NULL,
    asset       TEXT   NOT NULL,
    payer       TEXT   NOT NULL,
    nonce       TEXT   NOT NULL,
    -- What was required, in the asset's smallest unit
    amount      TEXT   NOT NULL,
    -- SHA-256 of method, path and body of the request, hex
    request     TEXT   NOT NULL,
    -- SHA-256 of the Idempotency-Key, bound to the row, hex; null: none came
    key_hash    TEXT,
    -- SHA-256 of payer, method, path and Idempotency-Key, hex; null: none came
    key_scope   TEXT,
    is_read     BOOLEAN NOT NULL,
    -- Whether its payer can repeat the request: with a key, or as a write whose reply shows no secret
    is_repeatable BOOLEAN NOT NULL,
    -- Until when the payer lets it be settled; null: only a facilitator can say
    valid_before BIGINT,
    -- settling, unknown, refused, credit, done
    state       TEXT   NOT NULL,
    -- Whoever settles it now has until then
    lease_until BIGINT NOT NULL,
    -- The attempts of the background task, and when the next is due
    attempts    BIGINT NOT NULL DEFAULT 0,
    retry_at    BIGINT,
    -- What is settled, sealed; null once that is over
    payment     TEXT,
    -- The transaction on the chain
    tx_hash     TEXT,
    -- Why it was not settled
    reason      TEXT,
    -- The reply to the request, its body sealed
    status      BIGINT,
    location    TEXT,
    body        TEXT,
    created_at  BIGINT NOT NULL
);
CREATE INDEX payments_retry ON payments (retry_at) WHERE retry_at IS NOT NULL;
-- Those in doubt
CREATE INDEX payments_open ON payments (lease_until) WHERE state IN ('settling', 'unknown');
CREATE INDEX payments_created ON payments (created_at);
-- One payment at a time under a key: a second one would be charged for the same thing
CREATE UNIQUE INDEX payments_key_open ON payments (key_scope) WHERE state IN ('settling', 'unknown', 'credit');
CREATE INDEX payments_key_done ON payments (key_scope) WHERE state = 'done';
