-- Certificates for the names that are served over TLS, and what it takes to get them from an ACME server.

-- The certificate of a name, exchanged as a whole when it is renewed.
CREATE TABLE certificates (
    -- lower-case A-label: a verified domain, or the service's own host
    name       TEXT   NOT NULL PRIMARY KEY,
    -- New with every certificate, so that a node sees that it must read again.
    id         TEXT   NOT NULL UNIQUE,
    -- PEM, the name's own certificate first
    chain      TEXT   NOT NULL,
    -- The private key in PEM, sealed with the server key under this row's id.
    sealed_key TEXT   NOT NULL,
    not_before BIGINT NOT NULL,
    not_after  BIGINT NOT NULL,
    -- From when on another one is ordered.
    renew_at   BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);

-- Names for which no certificate could be had, until one can. The waits grow with the failures.
CREATE TABLE certificate_failures (
    name     TEXT   NOT NULL PRIMARY KEY,
    -- in a row
    failures BIGINT NOT NULL,
    again_at BIGINT NOT NULL,
    -- what was said last, for operators
    problem  TEXT   NOT NULL
);

-- The account at each ACME server. Its credentials hold a private key, so they are sealed with the server key.
CREATE TABLE acme_accounts (
    directory  TEXT   NOT NULL PRIMARY KEY,
    -- the mail address it was told, if any
    contact    TEXT,
    sealed     TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);

-- What an ACME server may come and ask a name for while an order of it is open (http-01, RFC 8555, section 8.3). It is
-- meant to be seen by everybody.
CREATE TABLE acme_challenges (
    token             TEXT   NOT NULL PRIMARY KEY,
    name              TEXT   NOT NULL,
    key_authorization TEXT   NOT NULL,
    expires_at        BIGINT NOT NULL
);
CREATE INDEX acme_challenges_name ON acme_challenges (name);

-- Who does what only one node may do. Taken by an update that a holder in time refuses; the holder dies with its term.
CREATE TABLE leases (
    -- certificates
    name       TEXT   NOT NULL PRIMARY KEY,
    -- drawn by each process; empty when nobody holds it
    holder     TEXT   NOT NULL,
    expires_at BIGINT NOT NULL
);
INSERT INTO leases (name, holder, expires_at) VALUES ('certificates', '', 0);
