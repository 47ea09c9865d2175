-- When a segment was last loaded from, so that one in use is never forgotten.
ALTER TABLE click_journals RENAME COLUMN created_at TO used_at;
