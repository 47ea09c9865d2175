-- Tags that group an account's links. A tag exists as long as a link has it.
CREATE TABLE tags (
    -- Generated like a link's position.
    number    BIGINT NOT NULL PRIMARY KEY,
    tenant_id TEXT   NOT NULL REFERENCES tenants (id),
    -- Normalized; equal for all spellings that count as the same tag.
    key       TEXT   NOT NULL,
    tag       TEXT   NOT NULL,
    UNIQUE (tenant_id, key)
);

-- The links of each tag. Deleted links have no tags.
CREATE TABLE link_tags (
    -- links.position
    link BIGINT NOT NULL,
    -- tags.number
    tag  BIGINT NOT NULL,
    PRIMARY KEY (link, tag)
);
CREATE INDEX link_tags_tag ON link_tags (tag, link);
