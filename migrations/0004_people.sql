-- People who sign in, the keys they ask for, and the keys that apps and pages carry.

-- Somebody who is signed in. The row goes when they sign out or leave the team.
CREATE TABLE sessions (
    id         TEXT   NOT NULL PRIMARY KEY,
    -- SHA-256 of the cookie's token, hex
    token_hash TEXT   NOT NULL UNIQUE,
    tenant_id  TEXT   NOT NULL REFERENCES tenants (id),
    user_id    TEXT   NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

-- Magic links that can still be used. They name an address and not a person: whether it has an account is looked up when
-- the link is used. The row goes with its use.
CREATE TABLE sign_ins (
    -- SHA-256 of the token, hex
    hash       TEXT   NOT NULL PRIMARY KEY,
    email      TEXT   NOT NULL,
    -- path to go to afterwards
    next       TEXT,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sign_ins_expiry ON sign_ins (expires_at);

-- How many mails of a kind an address was sent in the hour that began with the first of them.
CREATE TABLE mail_allowances (
    -- signin, signup, invite; team for all invitations of a tenant
    purpose TEXT   NOT NULL,
    -- a mail address, or for team a tenant's id
    address TEXT   NOT NULL,
    since   BIGINT NOT NULL,
    sent    BIGINT NOT NULL,
    PRIMARY KEY (purpose, address)
);
CREATE INDEX mail_allowances_since ON mail_allowances (since);

-- Sign-ins that an identity provider was asked for. The row goes when its answer comes.
CREATE TABLE oauth_states (
    -- SHA-256 of the state, hex
    hash         TEXT   NOT NULL PRIMARY KEY,
    -- google, github
    provider     TEXT   NOT NULL,
    -- SHA-256 of the cookie that binds the state to its browser, hex
    browser_hash TEXT   NOT NULL,
    -- The verifier whose challenge the provider was told (RFC 7636), sealed with the server key under this row's hash.
    sealed       TEXT   NOT NULL,
    next         TEXT   NOT NULL,
    expires_at   BIGINT NOT NULL
);
CREATE INDEX oauth_states_expiry ON oauth_states (expires_at);

-- Confirmation codes that were mailed. A dead one stays until it ends, so that its end bounds how often can be guessed.
CREATE TABLE key_requests (
    tenant_id  TEXT   NOT NULL REFERENCES tenants (id),
    email      TEXT   NOT NULL,
    user_id    TEXT   NOT NULL REFERENCES users (id),
    -- HMAC-SHA-256 of the code with a key of the server's, hex: a bare hash of six characters could be searched
    code_mac   TEXT   NOT NULL,
    -- how often it was tried
    attempts   BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, email)
);
CREATE INDEX key_requests_user ON key_requests (user_id);
CREATE INDEX key_requests_expiry ON key_requests (expires_at);

-- A key of apps and pages. It works while its domain is a verified one of the tenant's.
CREATE TABLE publishable_keys (
    id         TEXT   NOT NULL PRIMARY KEY,
    tenant_id  TEXT   NOT NULL REFERENCES tenants (id),
    -- lower-case A-label
    domain     TEXT   NOT NULL,
    -- SHA-256 of the key, hex
    key_hash   TEXT   NOT NULL UNIQUE,
    key_prefix TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX publishable_keys_tenant ON publishable_keys (tenant_id);

-- A deleted affiliate stays, because links name it. Its credentials go, and its partner key is free: a colon and its id
-- are put behind it.
ALTER TABLE affiliates ADD COLUMN deleted_at BIGINT;
CREATE INDEX secret_keys_affiliate ON secret_keys (affiliate_id) WHERE affiliate_id IS NOT NULL;
CREATE INDEX secret_keys_creator ON secret_keys (created_by) WHERE created_by IS NOT NULL;
CREATE INDEX tokens_user ON tokens (user_id);
