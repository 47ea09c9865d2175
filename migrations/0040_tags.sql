-- Words that an account's links are grouped by. A tag is here while a link has it.
CREATE TABLE tags (
    -- Drawn like the position of a link.
    number    BIGINT NOT NULL PRIMARY KEY,
    tenant_id TEXT   NOT NULL REFERENCES tenants (id),
    -- The same for all spellings that count as equal.
    key       TEXT   NOT NULL,
    tag       TEXT   NOT NULL,
    UNIQUE (tenant_id, key)
);

-- Which links have it; none that is deleted.
CREATE TABLE link_tags (
    -- links.position
    link BIGINT NOT NULL,
    -- tags.number
    tag  BIGINT NOT NULL,
    PRIMARY KEY (link, tag)
);
CREATE INDEX link_tags_tag ON link_tags (tag, link);
