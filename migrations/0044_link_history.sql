-- What links were before each change, so that it can be undone. The last version of a deleted link has the time of the
-- deletion in `gone_at`, until the link is restored or all its versions are removed.
CREATE TABLE link_versions (
    -- The link's position.
    link       BIGINT  NOT NULL,
    version    BIGINT  NOT NULL,
    tenant_id  TEXT    NOT NULL,
    link_id    TEXT    NOT NULL,
    changed_at BIGINT  NOT NULL,
    change     TEXT    NOT NULL,
    actor_type TEXT    NOT NULL,
    actor      TEXT,
    bulk       BOOLEAN NOT NULL,
    -- JSON
    content    TEXT    NOT NULL,
    gone_at    BIGINT,
    PRIMARY KEY (link, version)
);
CREATE INDEX link_versions_tenant ON link_versions (tenant_id, link_id, gone_at);
CREATE INDEX link_versions_gone ON link_versions (tenant_id, link) WHERE gone_at IS NOT NULL;
CREATE INDEX link_versions_gone_at ON link_versions (gone_at) WHERE gone_at IS NOT NULL;
