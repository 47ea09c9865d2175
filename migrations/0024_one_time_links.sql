-- One-time links that the operator prints, to let a person in to an account without a mail. The row goes with its use.
CREATE TABLE one_time_links (
    -- SHA-256 of the token, hex
    hash       TEXT   NOT NULL PRIMARY KEY,
    tenant_id  TEXT   NOT NULL REFERENCES tenants (id),
    expires_at BIGINT NOT NULL
);
CREATE INDEX one_time_links_expiry ON one_time_links (expires_at);
