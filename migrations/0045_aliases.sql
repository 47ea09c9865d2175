-- More addresses of links, and the long links of Firebase.

-- An alias is a row of its own, whose link_id is the alias, so that the unique indexes of IDs cover both. `deleted_at` is set, so
-- that no list shows it; it has no content, and nothing else refers to its position.
-- The position of the link that it leads to; null for a link.
ALTER TABLE links ADD COLUMN alias_of BIGINT;
CREATE INDEX links_alias_of ON links (alias_of, link_id) WHERE alias_of IS NOT NULL;

-- Whether the domain follows links with their destination in the query, as those of Firebase Dynamic Links.
ALTER TABLE domains ADD COLUMN long_links BOOLEAN NOT NULL DEFAULT FALSE;
-- The hosts that such links may lead to: a JSON array.
ALTER TABLE domains ADD COLUMN allowed_hosts TEXT;
