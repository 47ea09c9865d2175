-- Who changed what in an account. What an entry names is copied into it, so that it can be read when that is gone.
CREATE TABLE audit_log (
    id         TEXT   NOT NULL PRIMARY KEY,
    tenant_id  TEXT   NOT NULL REFERENCES tenants (id),
    at         BIGINT NOT NULL,
    action     TEXT   NOT NULL,
    actor_type TEXT   NOT NULL,
    actor      TEXT,
    target     TEXT,
    detail     TEXT
);
CREATE INDEX audit_log_tenant ON audit_log (tenant_id, id);
CREATE INDEX audit_log_at ON audit_log (at);
